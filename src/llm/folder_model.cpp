// A model in a folder as Hugging Face lays it out: config.json, safetensors in one file or in shards.
#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "hearth/error.h"
#include "hearth/io.h"
#include "llm/architectures.h"
#include "llm/weights.h"

namespace hearth::llm {
namespace {

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw FileError(fmt::format("cannot open {}", path.string()));
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

nlohmann::json read_json(const std::filesystem::path& path) {
  auto json = nlohmann::json::parse(read_text(path), nullptr, false);
  if (!json.is_object()) throw FormatError(fmt::format("{}: not a JSON object", path.string()));
  return json;
}

// A member of config.json.
class Members {
 public:
  Members(const nlohmann::json& json, const std::filesystem::path& path) : json_(json), path_(path) {}

  bool has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
  std::int64_t whole(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_number_integer() || found->get<double>() <= 0 ||
        found->get<double>() > 1e12)
      throw FormatError(fmt::format("{}: {} must be a positive integer", path_.string(), name));
    return found->get<std::int64_t>();
  }
  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return has(name) ? whole(name) : otherwise;
  }
  double number(const char* name, double otherwise) const {
    if (!has(name)) return otherwise;
    if (!json_[name].is_number())
      throw FormatError(fmt::format("{}: {} must be a number", path_.string(), name));
    return json_[name].get<double>();
  }

 private:
  const nlohmann::json& json_;
  const std::filesystem::path& path_;
};

ModelConfig read_config(const nlohmann::json& json, const std::filesystem::path& path) {
  ModelConfig c;
  if (!json.contains("model_type") || !json["model_type"].is_string())
    throw FormatError(fmt::format("{}: model_type is missing", path.string()));
  c.architecture = json["model_type"].get<std::string>();
  check_architecture(c.architecture, path);
  const Members members(json, path);
  c.layers = members.whole("num_hidden_layers");
  c.width = members.whole("hidden_size");
  c.heads = members.whole("num_attention_heads");
  c.groups = members.whole("num_key_value_heads", c.heads);
  c.feed_forward = members.whole("intermediate_size");
  c.context = members.whole("max_position_embeddings");
  c.vocabulary = members.whole("vocab_size");
  c.head_size = members.whole("head_dim", c.width / c.heads);
  if (c.heads % c.groups != 0)
    throw FormatError(
        fmt::format("{}: {} heads do not share {} keys and values", path.string(), c.heads, c.groups));
  c.norm_epsilon = members.number("rms_norm_eps", 1e-6);
  c.rope_base = members.number("rope_theta", 10000);
  const bool uses_window = !json.contains("use_sliding_window") || json["use_sliding_window"] == true;
  if (uses_window) c.window = members.whole("sliding_window", 0);
  if (members.has("rope_scaling"))
    throw FormatError(fmt::format("{}: scaled rope is not supported yet", path.string()));
  return c;
}

// In a file of its own, or in tokenizer_config.json as a text or as a list of named ones.
std::string read_chat_template(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "chat_template.jinja"))
    return read_text(folder / "chat_template.jinja");
  const auto path = folder / "tokenizer_config.json";
  if (!std::filesystem::exists(path)) return {};
  const auto json = read_json(path);
  const auto found = json.find("chat_template");
  if (found == json.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_array())
    for (const auto& entry : *found)
      if (entry.is_object() && entry.value("name", "") == "default") return entry.value("template", "");
  return {};
}

// The names of both kinds of files.
struct Name {
  std::string_view gguf, folder;
};
constexpr Name whole_names[] = {
    {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
constexpr Name layer_names[] = {{"attn_norm", "input_layernorm"},    {"ffn_norm", "post_attention_layernorm"},
                                {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
                                {"attn_v", "self_attn.v_proj"},      {"attn_qkv", "self_attn.qkv_proj"},
                                {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
                                {"attn_k_norm", "self_attn.k_norm"}, {"ffn_gate", "mlp.gate_proj"},
                                {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"}};

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"
std::string folder_name(const std::string& gguf) {
  const auto dot = gguf.rfind('.');
  const std::string stem = gguf.substr(0, dot), kind = gguf.substr(dot);
  for (const Name& name : whole_names)
    if (stem == name.gguf) return std::string(name.folder) + kind;
  const auto second = stem.find('.', 4);  // after "blk."
  const std::string layer = stem.substr(4, second - 4), part = stem.substr(second + 1);
  for (const Name& name : layer_names)
    if (part == name.gguf) return fmt::format("model.layers.{}.{}{}", layer, name.folder, kind);
  return gguf;
}

// All shards, and which tensor is in which.
struct Shards {
  std::vector<SafetensorsFile> files;
  std::map<std::string, std::size_t, std::less<>> file_of;

  explicit Shards(const std::filesystem::path& folder) {
    const auto index = folder / "model.safetensors.index.json";
    std::vector<std::filesystem::path> paths;
    if (std::filesystem::exists(index)) {
      const auto json = read_json(index);
      if (!json.contains("weight_map") || !json["weight_map"].is_object())
        throw FormatError(fmt::format("{}: weight_map is missing", index.string()));
      std::map<std::string, bool> names;
      for (const auto& [tensor, file] : json["weight_map"].items()) {
        if (!file.is_string() || file.get<std::string>().find('/') != std::string::npos)
          throw FormatError(fmt::format("{}: the file of {} is not a name", index.string(), tensor));
        names[file.get<std::string>()] = true;
      }
      for (const auto& [name, unused] : names) paths.push_back(folder / name);
    } else {
      paths.push_back(folder / "model.safetensors");
    }
    for (const auto& path : paths) {
      files.emplace_back(path);
      for (const auto& name : files.back().names()) file_of.emplace(name, files.size() - 1);
    }
  }
};

}  // namespace

ModelFile open_folder_model(const std::filesystem::path& path) {
  const auto config_path = path / "config.json";
  const auto json = read_json(config_path);
  ModelFile model;
  model.path = path;
  model.config = read_config(json, config_path);
  model.config.name = path.filename().string();
  const auto shards = std::make_shared<const Shards>(path);
  // A tied embedding may be kept under the output's name only.
  const auto place = [shards](const std::string& gguf) -> std::string {
    const std::string name = folder_name(gguf);
    if (gguf == "token_embd.weight" && !shards->file_of.contains(name)) return "lm_head.weight";
    return name;
  };
  const bool fused_up = shards->file_of.contains("model.layers.0.mlp.gate_up_proj.weight");
  const auto real = [place, fused_up](const std::string& gguf) {
    std::string name = place(gguf);
    if (fused_up)
      if (const auto at = name.find("mlp.up_proj"); at != std::string::npos)
        name.replace(at, 11, "mlp.gate_up_proj");
    return name;
  };
  model.contains = [shards, real](const std::string& name) { return shards->file_of.contains(real(name)); };
  model.tensor = [shards, real](const std::string& name) {
    const std::string stored = real(name);
    return shards->files[shards->file_of.at(stored)].tensor(stored);
  };
  model.tokenizer = [path] { return Tokenizer::from_folder(path); };
  model.chat_template = read_chat_template(path);
  return model;
}

}  // namespace hearth::llm
