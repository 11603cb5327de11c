// The metadata of GGUF files.
#include "llm/gguf_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "llm/refuse.h"
#include "llm/rope_frequencies.h"

namespace hearth::llm {
namespace {

bool is_near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

class Describer {
 public:
  Describer(const ModelConfig& config, const Architecture& architecture, const std::filesystem::path& path)
      : config_(config), architecture_(architecture), path_(path) {}

  GgufDescription run() {
    check_what_names_imply();
    result_.metadata["general.architecture"] = std::string(architecture_.gguf);
    result_.metadata["general.name"] = config_.name;
    whole("block_count", config_.layers);
    whole("embedding_length", config_.width);
    whole("context_length", config_.context);
    whole("feed_forward_length", config_.feed_forward);
    whole("vocab_size", config_.vocabulary);
    whole("attention.head_count", config_.heads);
    whole("attention.head_count_kv", config_.groups);
    whole("attention.key_length", config_.head_size);
    whole("attention.value_length", config_.head_size);
    number("attention.layer_norm_rms_epsilon", config_.norm_epsilon);
    if (!is_near(config_.attention_scale, 1 / std::sqrt(static_cast<double>(config_.head_size))))
      number("attention.scale", config_.attention_scale);
    if (architecture_.granite) {
      number("embedding_scale", config_.embedding_scale);
      number("residual_scale", config_.residual_scale);
      number("logit_scale", 1 / config_.output_scale);
    }
    // Gemma 2 has values that count where a file says nothing.
    const bool gemma2 = architecture_.gguf == "gemma2";
    if (gemma2 || config_.attention_soft_cap > 0)
      number("attn_logit_softcapping", config_.attention_soft_cap);
    if (gemma2 || config_.output_soft_cap > 0) number("final_logit_softcapping", config_.output_soft_cap);
    describe_windows();
    describe_rope();
    describe_experts();
    return std::move(result_);
  }

 private:
  void whole(const char* name, std::int64_t value) { set(name, static_cast<std::uint32_t>(value)); }
  void number(const char* name, double value) { set(name, static_cast<float>(value)); }
  void set(const char* name, GgufValue value) {
    result_.metadata.insert_or_assign(fmt::format("{}.{}", architecture_.gguf, name), std::move(value));
  }

  // Readers of GGUF files know some things by the name of the architecture alone.
  void check_what_names_imply() const {
    ModelConfig implied = config_;
    implied.without_rope.clear();
    apply_architecture(architecture_, implied);
    if (implied.without_rope != config_.without_rope)
      refuse(path_, "GGUF cannot say which layers have no rope, and these are not the usual ones");
    const bool normalises = architecture_.gguf != "qwen2moe";
    if (config_.experts > 0 && config_.normalise_experts != normalises)
      refuse(path_, fmt::format("GGUF cannot say that norm_topk_prob is {}", config_.normalise_experts));
  }

  void describe_windows() {
    const std::int64_t window = *std::max_element(config_.windows.begin(), config_.windows.end());
    if (window == 0 && architecture_.window_period == 0) return;
    whole("attention.sliding_window", window);
    const auto is_periodic = [&](std::int64_t period) {
      return config_.windows == periodic_windows(config_.layers, window, period);
    };
    if (is_periodic(architecture_.window_period)) return;
    constexpr const char* pattern = "attention.sliding_window_pattern";
    for (std::int64_t period = 0; period <= config_.layers; ++period)
      if (is_periodic(period)) return whole(pattern, period);
    std::vector<bool> has_window;
    for (const std::int64_t each : config_.windows) has_window.push_back(each > 0);
    set(pattern, GgufArray{has_window});
  }

  void describe_rope() {
    const RopeConfig& rope = config_.rope;
    const auto size = 2 * static_cast<std::int64_t>(rope.frequencies.size());
    whole("rope.dimension_count", size);
    number("rope.freq_base", rope.base);
    double scale = rope.scale;
    if (rope.yarn) {
      if (rope.yarn->rounds == architecture_.gpt_oss)
        refuse(path_, fmt::format("GGUF cannot say that truncate of YaRN is {}", rope.yarn->rounds));
      set("rope.scaling.type", std::string("yarn"));
      number("rope.scaling.factor", rope.yarn->factor);
      whole("rope.scaling.original_context_length", static_cast<std::int64_t>(rope.yarn->original_context));
      number("rope.scaling.yarn_beta_fast", rope.yarn->fast);
      number("rope.scaling.yarn_beta_slow", rope.yarn->slow);
      scale /= yarn_scale(rope.yarn->factor);
    } else if (!rope.long_frequencies.empty()) {
      result_.factors["rope_factors_short.weight"] = factors_of(rope.frequencies);
      result_.factors["rope_factors_long.weight"] = factors_of(rope.long_frequencies);
      whole("rope.scaling.original_context_length", rope.short_context);
    } else {
      const std::vector<float> factors = factors_of(rope.frequencies);
      if (!std::ranges::all_of(factors, [&](float factor) { return is_near(factor, factors[0]); })) {
        result_.factors["rope_freqs.weight"] = factors;
      } else if (!is_near(factors[0], 1)) {
        set("rope.scaling.type", std::string("linear"));
        number("rope.scaling.factor", factors[0]);
      }
    }
    if (!is_near(scale, 1)) number("rope.scaling.attn_factor", scale);
    describe_local_rope();
  }

  void describe_local_rope() {
    if (config_.local_rope.frequencies.empty()) return;
    const RopeConfig plain = plain_rope(config_.local_rope.base, config_.head_size);
    if (config_.local_rope.frequencies != plain.frequencies || config_.local_rope.scale != 1)
      refuse(path_, "GGUF cannot say how the rope of layers with a window is scaled");
    number("rope.freq_base_swa", config_.local_rope.base);
  }

  std::vector<float> factors_of(const std::vector<double>& frequencies) const {
    const auto plain = rope_frequencies(config_.rope.base, 2 * static_cast<std::int64_t>(frequencies.size()));
    std::vector<float> factors;
    for (std::size_t i = 0; i < plain.size(); ++i)
      factors.push_back(static_cast<float>(plain[i] / frequencies[i]));
    return factors;
  }

  void describe_experts() {
    if (config_.experts == 0) return;
    whole("expert_count", config_.experts);
    whole("expert_used_count", config_.experts_used);
    if (architecture_.gguf == "llama") return;
    whole("expert_feed_forward_length", config_.expert_feed_forward);
    if (config_.shared_feed_forward > 0)
      whole("expert_shared_feed_forward_length", config_.shared_feed_forward);
  }

  const ModelConfig& config_;
  const Architecture& architecture_;
  const std::filesystem::path& path_;
  GgufDescription result_;
};

}  // namespace

GgufDescription describe_for_gguf(const ModelConfig& config, const Architecture& architecture,
                                  const std::filesystem::path& path) {
  return Describer(config, architecture, path).run();
}

}  // namespace hearth::llm
