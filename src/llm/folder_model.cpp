// A model in a folder as Hugging Face lays it out: config.json, safetensors in one file or in shards.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "base/file.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "hearth/ops.h"
#include "io/parse_json.h"
#include "io/tokenizer/pipeline.h"
#include "io/tokenizer/readers.h"
#include "llm/folder_config.h"
#include "llm/refuse.h"
#include "llm/weights.h"
#include "tensor/variable.h"

namespace hearth::llm {
namespace {

nlohmann::json read_json(const std::filesystem::path& path) {
  auto json = io::parse_json(read_text_file(path), path.string());
  if (!json.is_object()) refuse(path, "not a JSON object");
  return json;
}

// What was quantised for other programs has other tensors, or integers in those of the usual names. GPT-OSS
// comes in MXFP4.
void check_quantisation(const nlohmann::json& json, const std::filesystem::path& path) {
  const auto found = json.find("quantization_config");
  if (found == json.end() || found->is_null()) return;
  const nlohmann::json method = found->is_object() ? found->value("quant_method", nlohmann::json()) : *found;
  if (method != "mxfp4")
    refuse(path,
           fmt::format("weights that are quantised ({}) cannot be read; the original can, and GGUF files",
                       method.is_string() ? method.get<std::string>() : "quantization_config"));
}

// In a file of its own, or in tokenizer_config.json as a text or as a list of named ones.
std::string read_chat_template(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "chat_template.jinja"))
    return read_text_file(folder / "chat_template.jinja");
  const auto path = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(path)) return {};
  const auto json = read_json(path);
  const auto found = json.find("chat_template");
  if (found == json.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array())
    for (const auto& entry : *found) {
      const auto is_text = [&](const char* name) { return entry.contains(name) && entry[name].is_string(); };
      if (!entry.is_object() || !is_text("name") || !is_text("template"))
        refuse(path, "chat_template must be a text, or a list of objects with the texts name and template");
      if (entry["name"] == "default") return entry["template"].get<std::string>();
    }
  return {};
}

// The names of both kinds of files; "{}" stands for the number of an expert. Where a name of GGUF has
// several, the first that is there counts.
struct Name {
  std::string_view gguf, folder;
  bool bare =
      false;  // nothing is behind the folder's name where the other has ".weight", and "_bias" for ".bias"
};
constexpr Name whole_names[] = {{"token_embd", "model.embed_tokens"},
                                {"token_embd", "lm_head"},  // a tied one may be kept as the output only
                                {"output_norm", "model.norm"},
                                {"output", "lm_head"}};
constexpr Name layer_names[] = {{"attn_norm", "input_layernorm"},
                                {"attn_q", "self_attn.q_proj"},
                                {"attn_k", "self_attn.k_proj"},
                                {"attn_v", "self_attn.v_proj"},
                                {"attn_qkv", "self_attn.qkv_proj"},
                                {"attn_output", "self_attn.o_proj"},
                                {"attn_q_norm", "self_attn.q_norm"},
                                {"attn_k_norm", "self_attn.k_norm"},
                                {"post_attention_norm", "post_attention_layernorm"},
                                {"ffn_norm", "pre_feedforward_layernorm"},  // Gemma, which has both of these
                                {"ffn_norm", "post_attention_layernorm"},
                                {"post_ffw_norm", "post_feedforward_layernorm"},
                                {"ffn_gate", "mlp.gate_proj"},
                                {"ffn_up", "mlp.up_proj"},
                                {"ffn_up", "mlp.gate_up_proj"},
                                {"ffn_down", "mlp.down_proj"},
                                {"ffn_gate_inp", "mlp.gate"},
                                {"ffn_gate_exps", "mlp.experts.{}.gate_proj"},
                                {"ffn_up_exps", "mlp.experts.{}.up_proj"},
                                {"ffn_down_exps", "mlp.experts.{}.down_proj"},
                                {"ffn_gate_inp", "block_sparse_moe.gate"},
                                {"ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
                                {"ffn_up_exps", "block_sparse_moe.experts.{}.w3"},
                                {"ffn_down_exps", "block_sparse_moe.experts.{}.w2"},
                                // GPT-OSS: all experts in one tensor, and gate and up in turns.
                                {"attn_sinks", "self_attn.sinks", true},
                                {"ffn_gate_inp", "mlp.router"},
                                {"ffn_gate_exps", "mlp.experts.gate_up_proj", true},
                                {"ffn_gate_exps", "mlp.experts.gate_up_proj_blocks", true},
                                {"ffn_up_exps", "mlp.experts.gate_up_proj", true},
                                {"ffn_up_exps", "mlp.experts.gate_up_proj_blocks", true},
                                {"ffn_down_exps", "mlp.experts.down_proj", true},
                                {"ffn_down_exps", "mlp.experts.down_proj_blocks", true},
                                {"ffn_gate_inp_shexp", "mlp.shared_expert_gate"},
                                {"ffn_gate_shexp", "mlp.shared_expert.gate_proj"},
                                {"ffn_up_shexp", "mlp.shared_expert.up_proj"},
                                {"ffn_down_shexp", "mlp.shared_expert.down_proj"}};

}  // namespace

std::vector<std::string> folder_names(const std::string& gguf) {
  const auto dot = gguf.rfind('.');
  const std::string stem = gguf.substr(0, dot), kind = gguf.substr(dot);
  std::vector<std::string> names;
  for (const Name& name : whole_names)
    if (stem == name.gguf) names.push_back(std::string(name.folder) + kind);
  if (!names.empty()) return names;
  const auto second = stem.find('.', 4);  // after "blk."
  const std::string layer = stem.substr(4, second - 4), part = stem.substr(second + 1);
  for (const Name& name : layer_names)
    if (part == name.gguf)
      names.push_back(fmt::format("model.layers.{}.{}{}", layer, name.folder,
                                  !name.bare        ? kind
                                  : kind == ".bias" ? "_bias"
                                                    : ""));
  return names;
}

namespace {

std::string of_expert(const std::string& name, std::int64_t expert) {
  const auto place = name.find("{}");
  return place == std::string::npos ? name : std::string(name).replace(place, 2, std::to_string(expert));
}

// Multimodal models have the language model as a part.
std::string without_prefix(const std::string& name) {
  constexpr std::string_view whole = "language_model.", inner = "model.language_model.";
  if (name.starts_with(whole)) return name.substr(whole.size());
  if (name.starts_with(inner)) return "model." + name.substr(inner.size());
  return name;
}

// All shards, and which tensor is in which.
struct Shards {
  struct Place {
    std::size_t file;
    std::string name;
  };
  std::filesystem::path folder;
  std::vector<SafetensorsFile> files;
  std::map<std::string, Place, std::less<>> places;

  explicit Shards(const std::filesystem::path& of) : folder(of) {
    const auto index = folder / "model.safetensors.index.json";
    std::vector<std::filesystem::path> paths;
    if (std::filesystem::exists(index)) {
      const auto json = read_json(index);
      if (!json.contains("weight_map") || !json["weight_map"].is_object())
        refuse(index, "weight_map is missing");
      std::map<std::string, bool> names;
      for (const auto& [tensor, file] : json["weight_map"].items()) {
        if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
          refuse(index, fmt::format("the file of {} is not a name", tensor));
        names[file.get<std::string>()] = true;
      }
      for (const auto& [name, unused] : names) paths.push_back(folder / name);
    } else {
      paths.push_back(folder / "model.safetensors");
      if (!std::filesystem::exists(paths[0]))
        for (const char* name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
          if (std::filesystem::exists(folder / name))
            refuse(folder,
                   fmt::format("the weights are in {}; transformers can save them as safetensors, which "
                               "can be read",
                               name));
    }
    for (const auto& path : paths) {
      files.emplace_back(path);
      for (const auto& name : files.back().names())
        places.emplace(without_prefix(name), Place{files.size() - 1, name});
    }
  }

  Tensor tensor(const std::string& name) const {
    const auto place = places.find(name);
    if (place == places.end()) refuse(folder, fmt::format("there is no tensor {}", name));
    return files[place->second.file].tensor(place->second.name);
  }
  // The name under which a tensor of GGUF is here; empty: it is not.
  std::string find(const std::string& gguf) const {
    for (const std::string& name : folder_names(gguf))
      if (places.contains(of_expert(name, 0))) return name;
    return {};
  }
};

// ---- experts as GPT-OSS has them

constexpr std::string_view blocks_end = "_blocks", scales_end = "_scales";

// Of rows that belong to gates and what they are for in turns, every second; else all.
struct Turns {
  bool all;
  std::int64_t first;  // where not all

  explicit Turns(std::string_view gguf)
      : all(gguf.find("ffn_down_exps") != gguf.npos), first(gguf.find("ffn_up_exps") != gguf.npos ? 1 : 0) {}
};

// (experts, columns, rows), or the biases (experts, rows).
Tensor rows_of_experts(const Tensor& x, const Turns& turns, const std::filesystem::path& path) {
  if (x.ndim() < 2 || x.ndim() > 3 || x.shape().back() % 2 != 0)
    refuse(path, fmt::format("experts of shape {}", to_string(x.shape())));
  const Tensor rows = x.ndim() == 3 ? x.transpose(1, 2) : x;
  if (turns.all) return rows.contiguous();
  Shape pairs{rows.size(0), rows.size(1) / 2, 2};
  if (x.ndim() == 3) pairs.push_back(rows.size(2));
  return select(rows.contiguous().reshape(pairs), 2, turns.first).contiguous();
}

// (experts, rows, blocks, 16) bytes with neighbours in each, and (experts, rows, blocks) scales: to mxfp4,
// which has halves of a block in each byte.
Tensor mxfp4_of_experts(const Tensor& blocks, const Tensor& scales, const Turns& turns,
                        const std::filesystem::path& path) {
  constexpr std::int64_t bytes_of_block = 16;
  const Shape& shape = blocks.shape();
  if (blocks.dtype() != DType::u8 || scales.dtype() != DType::u8 || blocks.ndim() != 4 ||
      shape[3] != bytes_of_block || shape[1] % 2 != 0 ||
      !(scales.shape() == Shape{shape[0], shape[1], shape[2]}))
    refuse(path,
           fmt::format("experts of shape {} with scales {}", to_string(shape), to_string(scales.shape())));
  const std::vector<std::byte> numbers = blocks.to_bytes(), exponents = scales.to_bytes();
  const std::int64_t rows = shape[0] * shape[1], of_row = shape[2];
  std::vector<std::byte> packed;
  packed.reserve(static_cast<std::size_t>(rows * of_row * (bytes_of_block + 1)));
  for (std::int64_t row = 0; row < rows; ++row) {
    if (!turns.all && row % 2 != turns.first) continue;
    for (std::int64_t b = row * of_row; b < (row + 1) * of_row; ++b) {
      const std::byte* const from = numbers.data() + b * bytes_of_block;
      const auto number = [&](std::int64_t i) {
        return (i % 2 == 0 ? from[i / 2] : from[i / 2] >> 4) & std::byte{15};
      };
      packed.push_back(exponents[static_cast<std::size_t>(b)]);
      for (std::int64_t i = 0; i < bytes_of_block; ++i)
        packed.push_back(number(i) | number(i + bytes_of_block) << 4);
    }
  }
  return from_host(packed, {shape[0], turns.all ? shape[1] : shape[1] / 2, of_row * 2 * bytes_of_block},
                   DType::mxfp4, Device{});
}

std::string scales_of(const std::string& blocks) {
  return blocks.substr(0, blocks.size() - blocks_end.size()) + std::string(scales_end);
}

// Of all tensors that the decoder wants. Throws FormatError for one in the files that has none.
std::vector<std::string> gguf_names(const Shards& shards,
                                    const std::function<bool(const std::string&)>& contains,
                                    const ModelConfig& c, const Architecture& architecture) {
  std::vector<std::string> names;
  std::set<std::string, std::less<>> added, used{"lm_head.weight"};
  const auto add = [&](const std::string& stem) {
    for (const char* kind : {".weight", ".bias"}) {
      const std::string name = stem + kind;
      if (!contains(name) || !added.insert(name).second) continue;
      names.push_back(name);
      const std::string stored = shards.find(name);
      for (std::int64_t i = 0; i < std::max<std::int64_t>(c.experts, 1); ++i)
        used.insert(of_expert(stored, i));
      if (stored.ends_with(blocks_end)) used.insert(scales_of(stored));
    }
  };
  for (const Name& name : whole_names) add(std::string(name.gguf));
  // Where there is one norm behind attention, it has one of two names.
  const std::string_view other_norm = !c.pre_norms || architecture.gpt_oss ? "ffn_norm"
                                      : c.post_norms                       ? ""
                                                                           : "post_attention_norm";
  for (std::int64_t layer = 0; layer < c.layers; ++layer)
    for (const Name& name : layer_names)
      if (name.gguf != other_norm) add(fmt::format("blk.{}.{}", layer, name.gguf));
  for (const auto& [name, place] : shards.places) {
    const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
    const bool is_other = has("vision_tower.") || has("multi_modal_projector.") || has(".rotary_emb.");
    if (!used.contains(name) && !is_other)
      refuse(shards.folder, fmt::format("tensor {} has no name in GGUF", place.name));
  }
  return names;
}

// Of a folder, as it was written: "model", "model/", or "." in it.
std::string name_of(const std::filesystem::path& folder) {
  return (std::filesystem::absolute(folder) / "").lexically_normal().parent_path().filename().string();
}

}  // namespace

bool has_tokenizer(const std::filesystem::path& folder) {
  for (const char* name : {"tokenizer.json", "tokenizer.model", "vocab.json"})
    if (std::filesystem::exists(folder / name)) return true;
  return false;
}

ModelFile open_folder_model(const std::filesystem::path& path) {
  const auto config_path = path / "config.json";
  const auto json = read_json(config_path);
  const Architecture& architecture = folder_architecture(json, config_path);
  check_quantisation(json, config_path);
  ModelFile model;
  model.path = path;
  model.config = read_folder_config(json, architecture, config_path);
  model.config.name = name_of(path);
  const auto shards = std::make_shared<const Shards>(path);
  // Where they are tied, the output is not a matrix of its own, whatever the files have.
  const bool tied = (json.contains("tie_word_embeddings") && json["tie_word_embeddings"] == true) ||
                    !shards->places.contains("model.embed_tokens.weight");
  model.contains = [shards, tied](const std::string& name) {
    return !(tied && name == "output.weight") && !shards->find(name).empty();
  };
  model.size = [shards, config = model.config] {
    FileSize size(config);
    for (const auto& [name, place] : shards->places) {
      const auto& file = shards->files[place.file];
      const std::int64_t count = element_count(file.shape(place.name));
      size.add(name, file.bytes(place.name),
               name.ends_with(blocks_end)   ? 2 * count
               : name.ends_with(scales_end) ? 0
                                            : count);
    }
    return size;
  };
  model.names = [shards, contains = model.contains, config = model.config, &architecture] {
    return gguf_names(*shards, contains, config, architecture);
  };
  model.tensor = [shards, experts = model.config.experts,
                  adds_one = architecture.gemma](const std::string& gguf) {
    const std::string name = shards->find(gguf);
    if (name.find("{}") != std::string::npos) {
      std::vector<Tensor> matrices;
      for (std::int64_t i = 0; i < experts; ++i) matrices.push_back(shards->tensor(of_expert(name, i)));
      return stack(matrices);
    }
    const Tensor tensor = shards->tensor(name);
    if (name.ends_with(blocks_end))
      return mxfp4_of_experts(tensor, shards->tensor(scales_of(name)), Turns(gguf), shards->folder);
    if (gguf.find("_exps.") != gguf.npos) return rows_of_experts(tensor, Turns(gguf), shards->folder);
    // GGUF has the 1 of Gemma's norms in them.
    return adds_one && gguf.ends_with("norm.weight") ? tensor.to(DType::f32) + 1.0 : tensor;
  };
  model.tokenizer =
      [path, tokens = static_cast<std::size_t>(model.config.vocabulary)]() -> std::optional<Tokenizer> {
    if (!has_tokenizer(path)) return {};
    return Tokenizer(std::make_shared<const tokenizer::Pipeline>(tokenizer::read_folder(path, tokens)));
  };
  model.chat_template = read_chat_template(path);
  return model;
}

}  // namespace hearth::llm
