// config.json: one file format with the habits of many models.
#include "llm/folder_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "llm/refuse.h"
#include "llm/rope_frequencies.h"

namespace hearth::llm {
namespace {

// Members of an object of config.json. Null is the same as absent, but for is_null().
class Members {
 public:
  Members(const nlohmann::json& json, const std::filesystem::path& path) : json_(json), path_(path) {}

  bool has(const char* name) const { return json_.contains(name) && !json_[name].is_null(); }
  bool is_null(const char* name) const { return json_.contains(name) && json_[name].is_null(); }
  std::int64_t whole(const char* name) const {
    const auto found = json_.find(name);
    if (found == json_.end() || !found->is_number_integer() || found->get<double>() <= 0 ||
        found->get<double>() > 1e12)
      must_be(name, "a positive integer");
    return found->get<std::int64_t>();
  }
  std::int64_t whole(const char* name, std::int64_t otherwise) const {
    return has(name) ? whole(name) : otherwise;
  }
  double number(const char* name, double otherwise) const {
    if (!has(name)) return otherwise;
    if (!json_[name].is_number()) must_be(name, "a number");
    return json_[name].get<double>();
  }
  double positive(const char* name, double otherwise) const {
    const double value = number(name, otherwise);
    if (!(value > 0)) must_be(name, "positive");
    return value;
  }
  bool flag(const char* name, bool otherwise) const {
    if (!has(name)) return otherwise;
    if (!json_[name].is_boolean()) must_be(name, "true or false");
    return json_[name].get<bool>();
  }
  std::string text(const char* name, const std::string& otherwise) const {
    if (!has(name)) return otherwise;
    if (!json_[name].is_string()) must_be(name, "a text");
    return json_[name].get<std::string>();
  }
  std::vector<double> positives(const char* name, std::size_t count) const {
    std::vector<double> values;
    if (has(name) && json_[name].is_array())
      for (const auto& value : json_[name])
        if (value.is_number() && value.get<double>() > 0) values.push_back(value.get<double>());
    if (values.size() != count) must_be(name, fmt::format("{} positive numbers", count));
    return values;
  }
  std::vector<std::int64_t> whole_numbers(const char* name, std::int64_t count) const {
    std::vector<std::int64_t> values;
    if (json_[name].is_array())
      for (const auto& value : json_[name])
        if (value.is_number_integer()) values.push_back(value.get<std::int64_t>());
    if (static_cast<std::int64_t>(values.size()) != count) must_be(name, fmt::format("{} integers", count));
    return values;
  }
  std::vector<std::string> texts(const char* name, std::int64_t count) const {
    std::vector<std::string> values;
    if (json_[name].is_array())
      for (const auto& value : json_[name])
        if (value.is_string()) values.push_back(value.get<std::string>());
    if (static_cast<std::int64_t>(values.size()) != count) must_be(name, fmt::format("{} texts", count));
    return values;
  }
  // An object; an empty one where there is none.
  const nlohmann::json& object(const char* name) const {
    static const nlohmann::json empty = nlohmann::json::object();
    if (!has(name)) return empty;
    if (!json_[name].is_object()) must_be(name, "an object");
    return json_[name];
  }
  [[noreturn]] void must_be(const char* name, const std::string& expected) const {
    refuse(path_, fmt::format("{} must be {}", name, expected));
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  const nlohmann::json& json_;
  const std::filesystem::path& path_;
};

// Gemma 3's multimodal models leave out of their text_config what is as the first one had it.
nlohmann::json with_defaults_of_gemma3(const nlohmann::json& text) {
  nlohmann::json json = {
      {"vocab_size", 262208}, {"num_attention_heads", 8},          {"num_key_value_heads", 4},
      {"head_dim", 256},      {"max_position_embeddings", 131072}, {"query_pre_attn_scalar", 256}};
  json.update(text);
  return json;
}

std::vector<std::int64_t> read_windows(const Members& members, const Architecture& architecture,
                                       std::int64_t layers) {
  const bool qwen = architecture.folder.starts_with("qwen");
  const bool used = members.flag("use_sliding_window", !qwen);
  const std::int64_t otherwise = members.is_null("sliding_window") ? 0 : architecture.folder_window;
  const std::int64_t window = used ? members.whole("sliding_window", otherwise) : 0;
  std::vector<std::int64_t> windows;
  if (members.has("layer_types")) {
    for (const std::string& type : members.texts("layer_types", layers)) {
      if (type != "sliding_attention" && type != "full_attention")
        refuse(members.path(),
               fmt::format("a layer of type \"{}\"; known are full_attention, sliding_attention", type));
      windows.push_back(type == "sliding_attention" ? window : 0);
    }
    return windows;
  }
  if (!qwen)
    return periodic_windows(layers, window,
                            members.whole("sliding_window_pattern", architecture.window_period));
  const double first = members.number("max_window_layers", 28);  // as transformers has it
  for (std::int64_t i = 0; i < layers; ++i) windows.push_back(static_cast<double>(i) >= first ? window : 0);
  return windows;
}

// no_rope_layers has 0 for layers without rope, and 1 for the others.
std::vector<bool> read_without_rope(const Members& members, std::int64_t layers) {
  std::vector<bool> without;
  for (const std::int64_t has : members.whole_numbers("no_rope_layers", layers)) without.push_back(has == 0);
  return without;
}

// `rope`: the object that describes it; `whole`: all of config.json, where older files have some of it.
RopeConfig read_rope(const Members& rope, const Members& whole, const ModelConfig& c, double default_base) {
  const double base = rope.positive("rope_theta", whole.positive("rope_theta", default_base));
  const double part = rope.positive("partial_rotary_factor", whole.positive("partial_rotary_factor", 1));
  const auto size = static_cast<std::int64_t>(static_cast<double>(c.head_size) * std::min(part, 1.0)) / 2 * 2;
  const std::vector<double> plain = rope_frequencies(base, size);
  const auto context = static_cast<double>(c.context);
  const double original = rope.positive("original_max_position_embeddings",
                                        whole.positive("original_max_position_embeddings", context));
  const std::string type = rope.text("rope_type", rope.text("type", "default"));
  if (type == "default") return plain_rope(base, size);
  if (type == "linear") return {.frequencies = divided(plain, rope.positive("factor", 1)), .base = base};
  if (type == "llama3")
    return {.frequencies = stretched(
                plain, Llama3Scaling{rope.positive("factor", 8), rope.positive("low_freq_factor", 1),
                                     rope.positive("high_freq_factor", 4), original}),
            .base = base};
  if (type == "yarn") {
    const double factor = rope.positive("factor", context / original);
    const double scale = rope.has("mscale") && rope.has("mscale_all_dim")
                             ? yarn_scale(factor, rope.positive("mscale", 1)) /
                                   yarn_scale(factor, rope.positive("mscale_all_dim", 1))
                             : yarn_scale(factor);
    const YarnScaling yarn{factor, original, rope.positive("beta_fast", 32), rope.positive("beta_slow", 1),
                           rope.flag("truncate", true)};
    return {.frequencies = stretched(base, size, yarn),
            .scale = rope.positive("attention_factor", scale),
            .base = base,
            .yarn = yarn};
  }
  if (type == "longrope" || type == "su")
    return {.frequencies = divided(plain, rope.positives("short_factor", plain.size())),
            .long_frequencies = divided(plain, rope.positives("long_factor", plain.size())),
            .short_context = static_cast<std::int64_t>(std::min(original, 1e12)),
            .scale = rope.positive("attention_factor",
                                   longrope_scale(rope.positive("factor", context / original), original)),
            .base = base};
  refuse(whole.path(),
         fmt::format("unknown rope scaling \"{}\"; known are default, linear, llama3, yarn, longrope, su",
                     type));
}

void read_ropes(const Members& members, const Architecture& architecture, ModelConfig& c) {
  const auto& path = members.path();
  const bool gemma3 = architecture.gguf == "gemma3";
  const nlohmann::json& described =
      members.object(members.has("rope_parameters") ? "rope_parameters" : "rope_scaling");
  const Members rope(described, path);
  if (rope.has("full_attention")) {
    c.rope = read_rope({rope.object("full_attention"), path}, members, c, 1e6);
    c.local_rope = read_rope({rope.object("sliding_attention"), path}, members, c, 1e4);
    return;
  }
  c.rope = read_rope(rope, members, c, gemma3 ? 1e6 : 1e4);
  // Who adds it to a config.json, as Qwen's documentation says, leaves what is said of the context.
  if (const auto& yarn = c.rope.yarn)
    c.context =
        std::max(c.context, static_cast<std::int64_t>(std::min(yarn->factor * yarn->original_context, 1e12)));
  if (gemma3) c.local_rope = plain_rope(members.positive("rope_local_base_freq", 1e4), c.head_size);
}

void read_experts(const Members& members, const Architecture& architecture, ModelConfig& c) {
  const bool all_alike = architecture.folder == "mixtral" || architecture.gpt_oss;
  if (!all_alike && !architecture.folder.ends_with("_moe")) return;
  c.experts = members.whole(all_alike ? "num_local_experts" : "num_experts");
  c.experts_used = members.whole("num_experts_per_tok");
  c.expert_feed_forward = all_alike ? c.feed_forward : members.whole("moe_intermediate_size");
  c.shared_feed_forward = members.whole("shared_expert_intermediate_size", 0);
  c.normalise_experts = all_alike || members.flag("norm_topk_prob", false);
}

}  // namespace

const Architecture& folder_architecture(const nlohmann::json& json, const std::filesystem::path& path) {
  const Members members(json, path);
  if (!members.has("model_type")) refuse(path, "model_type is missing");
  return find_architecture(members.text("model_type", ""), FileKind::folder, path);
}

ModelConfig read_folder_config(const nlohmann::json& json, const Architecture& architecture,
                               const std::filesystem::path& path) {
  if (architecture.folder == "gemma3") {
    const nlohmann::json text = with_defaults_of_gemma3(Members(json, path).object("text_config"));
    return read_folder_config(text, find_architecture("gemma3_text", FileKind::folder, path), path);
  }
  const Members members(json, path);
  ModelConfig c;
  c.architecture = architecture.folder;
  c.layers = members.whole("num_hidden_layers");
  c.width = members.whole("hidden_size");
  c.heads = members.whole("num_attention_heads");
  c.groups = members.whole("num_key_value_heads", c.heads);
  c.feed_forward = members.whole("intermediate_size");
  c.context = members.whole("max_position_embeddings");
  c.vocabulary = members.whole("vocab_size");
  c.head_size = members.whole("head_dim", c.width / c.heads);
  c.norm_epsilon = members.number("rms_norm_eps", 1e-6);
  check_sizes(c, path);
  apply_architecture(architecture, c);
  if (architecture.gemma) {
    c.attention_scale =
        1 / std::sqrt(members.positive("query_pre_attn_scalar", static_cast<double>(c.head_size)));
    c.attention_soft_cap = members.number("attn_logit_softcapping", 0);
    c.output_soft_cap = members.number("final_logit_softcapping", 0);
  }
  if (architecture.granite) {
    c.embedding_scale = members.positive("embedding_multiplier", 1);
    c.attention_scale = members.positive("attention_multiplier", 1);
    c.residual_scale = members.positive("residual_multiplier", 1);
    c.output_scale = 1 / members.positive("logits_scaling", 1);
  }
  const std::string expected = architecture.gemma ? "gelu_pytorch_tanh" : "silu";
  const char* const member = architecture.gemma ? "hidden_activation" : "hidden_act";
  if (members.text(member, expected) != expected)
    refuse(path, fmt::format("{} \"{}\" is not supported; {} is", member, members.text(member, expected),
                             expected));
  if (members.flag("use_bidirectional_attention", false))
    refuse(path, "attention in both directions (use_bidirectional_attention) is not supported");
  if (members.number("swiglu_limit", 7) != 7 || members.number("swiglu_alpha", 1.702) != 1.702)
    refuse(path, "gates with another swiglu_limit than 7 or swiglu_alpha than 1.702 are not supported");
  c.windows = read_windows(members, architecture, c.layers);
  if (architecture.no_rope_period > 0 && members.has("no_rope_layers"))
    c.without_rope = read_without_rope(members, c.layers);
  read_ropes(members, architecture, c);
  read_experts(members, architecture, c);
  check_config(c, path);
  return c;
}

}  // namespace hearth::llm
