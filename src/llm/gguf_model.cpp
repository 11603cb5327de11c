// A model in a GGUF file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "hearth/gguf.h"
#include "llm/architectures.h"
#include "llm/refuse.h"
#include "llm/rope_frequencies.h"
#include "llm/weights.h"

namespace hearth::llm {
namespace {

// The metadata of one architecture, whose keys begin with its name.
class Metadata {
 public:
  Metadata(const GgufFile& file, const Architecture& architecture)
      : file_(file), prefix_(std::string(architecture.gguf) + ".") {}

  std::int64_t whole(const char* name) const { return file_.require<std::int64_t>(prefix_ + name); }
  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return file_.get<std::int64_t>(prefix_ + name).value_or(otherwise);
  }
  double number(const char* name, double otherwise) const {
    return file_.get<double>(prefix_ + name).value_or(otherwise);
  }
  double positive(const char* name, double otherwise) const {
    const double value = number(name, otherwise);
    if (!(value > 0) || !std::isfinite(value))
      refuse(file_.path(), fmt::format("{}{} must be positive", prefix_, name));
    return value;
  }
  std::string text(const char* name, const char* otherwise) const {
    return file_.get<std::string>(prefix_ + name).value_or(otherwise);
  }
  // A list of flags, where the key has one.
  std::optional<std::vector<bool>> flags(const char* name) const {
    const auto found = file_.metadata().find(prefix_ + name);
    if (found == file_.metadata().end() || !std::holds_alternative<GgufArray>(found->second)) return {};
    return file_.get<std::vector<bool>>(prefix_ + name);
  }
  const GgufFile& file() const { return file_; }

 private:
  const GgufFile& file_;
  std::string prefix_;
};

// Gemma's models of 27B divide by another size than that of a head, and files do not say so.
bool is_gemma_27b(const Architecture& architecture, const ModelConfig& c) {
  return (architecture.gguf == "gemma2" && c.layers == 46) ||
         (architecture.gguf == "gemma3" && c.layers == 62);
}

std::vector<std::int64_t> read_windows(const Metadata& metadata, const Architecture& architecture,
                                       std::int64_t layers) {
  // The first files of Gemma 2 did not say it.
  const std::int64_t window =
      metadata.whole("attention.sliding_window", architecture.gguf == "gemma2" ? 4096 : 0);
  constexpr const char* pattern = "attention.sliding_window_pattern";
  if (const auto has_window = metadata.flags(pattern)) {
    if (static_cast<std::int64_t>(has_window->size()) != layers)
      refuse(metadata.file().path(),
             fmt::format("{} has {} entries for {} layers", pattern, has_window->size(), layers));
    std::vector<std::int64_t> windows;
    for (const bool has : *has_window) windows.push_back(has ? window : 0);
    return windows;
  }
  return periodic_windows(layers, window, metadata.whole(pattern, architecture.window_period));
}

RopeConfig read_rope(const Metadata& metadata, const Architecture& architecture, const ModelConfig& c) {
  const GgufFile& file = metadata.file();
  const std::int64_t size = metadata.whole("rope.dimension_count", c.head_size);
  const double base = metadata.number("rope.freq_base", 10000);
  if (size <= 0 || size > c.head_size || size % 2 != 0 || !(base > 1))
    refuse(file.path(), fmt::format("rope of {} features with base {} is not possible", size, base));
  const std::vector<double> plain = rope_frequencies(base, size);
  RopeConfig rope{.frequencies = plain, .base = base};
  const std::string type = metadata.text("rope.scaling.type", "linear");
  // The second key is older. 0 means nothing.
  const double given = metadata.number("rope.scaling.factor", metadata.number("rope.scale_linear", 0)),
               factor = given == 0 ? 1 : given,
               original =
                   metadata.number("rope.scaling.original_context_length", static_cast<double>(c.context));
  if (!(factor > 0) || !(original > 0)) refuse(file.path(), "rope is scaled by what is not positive");
  if (type == "linear") {
    rope.frequencies = divided(plain, factor);
  } else if (type == "yarn") {
    rope.yarn = YarnScaling{factor, original, metadata.number("rope.scaling.yarn_beta_fast", 32),
                            metadata.number("rope.scaling.yarn_beta_slow", 1), !architecture.gpt_oss};
    rope.frequencies = stretched(base, size, *rope.yarn);
    rope.scale = yarn_scale(factor);
  } else if (type != "none" && type != "longrope") {
    refuse(file.path(),
           fmt::format("unknown rope scaling \"{}\"; known are none, linear, yarn, longrope", type));
  }
  rope.scale *= metadata.number("rope.scaling.attn_factor", 1);

  // Factors of their own for each pair: Llama 3's, or two sets for short and long contexts.
  const auto divided_by = [&](const char* name) {
    const Tensor factors = file.tensor(name).to(DType::f64);
    if (!(factors.shape() == Shape{size / 2}))
      refuse(file.path(),
             fmt::format("tensor {} is {} for {} pairs", name, to_string(factors.shape()), size / 2));
    return divided(rope.frequencies, factors.to_vector<double>());
  };
  if (file.contains("rope_factors_long.weight") && file.contains("rope_factors_short.weight")) {
    rope.long_frequencies = divided_by("rope_factors_long.weight");
    rope.frequencies = divided_by("rope_factors_short.weight");
    rope.short_context = static_cast<std::int64_t>(std::min(original, 1e12));
  } else if (file.contains("rope_freqs.weight")) {
    rope.frequencies = divided_by("rope_freqs.weight");
  }
  return rope;
}

void read_experts(const Metadata& metadata, const Architecture& architecture, ModelConfig& c) {
  c.experts = metadata.whole("expert_count", 0);
  if (c.experts == 0) return;
  c.experts_used = metadata.whole("expert_used_count");
  if (architecture.gguf == "llama") {
    c.expert_feed_forward = c.feed_forward;
    c.normalise_experts = true;
    return;
  }
  // Qwen's first files say only the size of all experts of a token together, which is that of the shared one.
  const bool shared = architecture.gguf == "qwen2moe";
  c.expert_feed_forward = metadata.whole("expert_feed_forward_length",
                                         c.feed_forward / std::max<std::int64_t>(1, c.experts_used));
  c.shared_feed_forward = shared ? metadata.whole("expert_shared_feed_forward_length", c.feed_forward) : 0;
  c.normalise_experts = !shared;
}

ModelConfig read_config(const GgufFile& file, const Architecture& architecture) {
  const Metadata metadata(file, architecture);
  ModelConfig c;
  c.architecture = architecture.gguf;
  c.name = file.get<std::string>("general.name").value_or(file.path().stem().string());
  c.layers = metadata.whole("block_count");
  c.width = metadata.whole("embedding_length");
  c.heads = metadata.whole("attention.head_count");
  c.groups = metadata.whole("attention.head_count_kv", c.heads);
  c.feed_forward = metadata.whole("feed_forward_length");
  c.context = metadata.whole("context_length");
  if (!file.contains("token_embd.weight"))
    refuse(file.path(), "there is no tensor token_embd.weight: a vocabulary without a model?");
  c.vocabulary = file.shape("token_embd.weight")[0];
  c.head_size = metadata.whole("attention.key_length", c.heads > 0 ? c.width / c.heads : 0);
  if (metadata.whole("attention.value_length", c.head_size) != c.head_size)
    refuse(file.path(), "keys and values differ in size");
  c.norm_epsilon = metadata.number("attention.layer_norm_rms_epsilon", 1e-5);
  check_sizes(c, file.path());
  apply_architecture(architecture, c);
  if (is_gemma_27b(architecture, c))
    c.attention_scale = 1 / std::sqrt(static_cast<double>(c.width / c.heads));
  c.attention_scale = metadata.number("attention.scale", c.attention_scale);
  if (architecture.granite) {
    c.embedding_scale = metadata.positive("embedding_scale", 1);
    c.residual_scale = metadata.positive("residual_scale", 1);
    c.output_scale = 1 / metadata.positive("logit_scale", 1);
  }
  const bool gemma2 = architecture.gguf == "gemma2";  // whose first files did not say these
  c.attention_soft_cap = metadata.number("attn_logit_softcapping", gemma2 ? 50 : 0);
  c.output_soft_cap = metadata.number("final_logit_softcapping", gemma2 ? 30 : 0);
  c.rope_interleaved = architecture.gguf_interleaves;
  c.rope = read_rope(metadata, architecture, c);
  if (architecture.gguf == "gemma3")
    c.local_rope = plain_rope(metadata.number("rope.freq_base_swa", 10000), c.head_size);
  c.windows = read_windows(metadata, architecture, c.layers);
  read_experts(metadata, architecture, c);
  check_config(c, file.path());
  return c;
}

}  // namespace

ModelFile open_gguf_model(const std::filesystem::path& path) {
  const GgufFile file(path);
  ModelFile model;
  model.path = path;
  model.config = read_config(
      file, find_architecture(file.require<std::string>("general.architecture"), FileKind::gguf, path));
  model.chat_template = file.get<std::string>("tokenizer.chat_template").value_or("");
  model.contains = [file](const std::string& name) { return file.contains(name); };
  model.forget = [file](const std::string& name) { file.forget(name); };
  model.tensor = [file](const std::string& name) {
    const Tensor tensor = file.tensor(name);
    // Files have the gate of the shared expert as a vector, or as a matrix of one row.
    return name.ends_with("ffn_gate_inp_shexp.weight") ? tensor.reshape({1, -1}) : tensor;
  };
  model.size = [file, config = model.config] {
    FileSize size(config);
    for (const auto& name : file.names())
      size.add(name, file.bytes(name).size(), element_count(file.shape(name)));
    return size;
  };
  model.names = [file] { return file.names(); };
  model.tokenizer = [file]() -> std::optional<Tokenizer> {
    if (file.get<std::string>("tokenizer.ggml.model").value_or("none") == "none") return {};
    return Tokenizer::from_gguf(file);
  };
  return model;
}

}  // namespace hearth::llm
