// The table of architectures.
#include "llm/architectures.h"

#include <fmt/format.h>

#include <cmath>

#include "llm/refuse.h"

namespace hearth::llm {
namespace {

// The first two SmolLMs are llama in both kinds of files; GGUF files of Mistral and Mixtral say llama, too.
constexpr Architecture table[] = {
    {.gguf = "llama", .folder = "llama", .gguf_interleaves = true},
    {.gguf = "llama", .folder = "mistral", .gguf_interleaves = true, .folder_window = 4096},
    {.gguf = "llama", .folder = "mixtral", .gguf_interleaves = true},
    {.gguf = "granite", .folder = "granite", .gguf_interleaves = true, .granite = true},
    {.gguf = "smollm3", .folder = "smollm3", .gguf_interleaves = true, .no_rope_period = 4},
    {.gguf = "qwen2", .folder = "qwen2", .folder_window = 4096},
    {.gguf = "qwen2moe", .folder = "qwen2_moe", .folder_window = 4096},
    {.gguf = "qwen3", .folder = "qwen3", .query_key_norms = true, .folder_window = 4096},
    {.gguf = "qwen3moe", .folder = "qwen3_moe", .query_key_norms = true, .folder_window = 4096},
    {.gguf = "phi3", .folder = "phi3"},
    {.gguf = "olmo2", .folder = "olmo2", .query_key_norms = true, .olmo2 = true},
    {.gguf = "gemma2", .folder = "gemma2", .gemma = true, .window_period = 2, .folder_window = 4096},
    {.gguf = "gemma3",
     .folder = "gemma3",
     .query_key_norms = true,
     .gemma = true,
     .window_period = 6,
     .folder_window = 4096},
    {.gguf = "gemma3",
     .folder = "gemma3_text",
     .query_key_norms = true,
     .gemma = true,
     .window_period = 6,
     .folder_window = 4096},
    {.gguf = "gpt-oss", .folder = "gpt_oss", .gpt_oss = true, .window_period = 2, .folder_window = 128}};

std::string_view name_in(const Architecture& architecture, FileKind kind) {
  return kind == FileKind::gguf ? architecture.gguf : architecture.folder;
}

}  // namespace

const Architecture& find_architecture(std::string_view name, FileKind kind,
                                      const std::filesystem::path& path) {
  std::string known;
  std::string_view last;
  for (const Architecture& entry : table) {
    const std::string_view own = name_in(entry, kind);
    if (own == name) return entry;
    if (own != last) known += (known.empty() ? "" : ", ") + std::string(own);
    last = own;
  }
  refuse(path, fmt::format("unknown architecture \"{}\"; known are {}", name, known));
}

void apply_architecture(const Architecture& architecture, ModelConfig& c) {
  c.attention_scale = 1 / std::sqrt(static_cast<double>(c.head_size));
  c.query_key_norms = architecture.query_key_norms;
  if (const std::int64_t period = architecture.no_rope_period; period > 0)
    for (std::int64_t i = 0; i < c.layers; ++i) c.without_rope.push_back(i % period == period - 1);
  if (architecture.gpt_oss) {
    c.activation = Activation::clamped;
    c.attention_sinks = true;
  }
  if (architecture.olmo2) {
    c.norms_join_heads = true;
    c.pre_norms = false;
    c.post_norms = true;
  }
  if (!architecture.gemma) return;
  c.embedding_scale = std::sqrt(static_cast<double>(c.width));
  c.activation = Activation::gelu_tanh;
  c.post_norms = true;
}

std::vector<std::int64_t> periodic_windows(std::int64_t layers, std::int64_t window, std::int64_t period) {
  std::vector<std::int64_t> windows;
  for (std::int64_t i = 0; i < layers; ++i)
    windows.push_back(period > 0 && i % period == period - 1 ? 0 : window);
  return windows;
}

void check_sizes(const ModelConfig& c, const std::filesystem::path& path) {
  struct Size {
    const char* name;
    std::int64_t value, most;
  };
  constexpr std::int64_t many = std::int64_t{1} << 31, few = 1 << 16;
  const Size sizes[] = {{"layers", c.layers, few},
                        {"features", c.width, many},
                        {"heads", c.heads, few},
                        {"keys and values", c.groups, few},
                        {"features of a head", c.head_size, few},
                        {"features of the feed-forward", c.feed_forward, many},
                        {"tokens of context", c.context, many},
                        {"tokens in the vocabulary", c.vocabulary, many}};
  for (const Size& size : sizes)
    if (size.value <= 0 || size.value > size.most)
      refuse(path, fmt::format("a model with {} {}", size.value, size.name));
  if (c.heads % c.groups != 0)
    refuse(path, fmt::format("{} heads do not share {} keys and values", c.heads, c.groups));
}

void check_config(const ModelConfig& c, const std::filesystem::path& path) {
  for (const RopeConfig* rope : {&c.rope, &c.local_rope})
    for (const auto* frequencies : {&rope->frequencies, &rope->long_frequencies})
      if (2 * static_cast<std::int64_t>(frequencies->size()) > c.head_size)
        refuse(path, fmt::format("rope turns {} features of {}", 2 * frequencies->size(), c.head_size));
  if (c.rope.frequencies.empty()) refuse(path, "rope turns nothing");
  if (c.experts == 0) return;
  constexpr std::int64_t many = std::int64_t{1} << 31;
  if (c.experts < 0 || c.experts > 1 << 16 || c.experts_used <= 0 || c.experts_used > c.experts ||
      c.expert_feed_forward <= 0 || c.expert_feed_forward > many || c.shared_feed_forward < 0 ||
      c.shared_feed_forward > many)
    refuse(path, fmt::format("{} of {} experts with {} features, {} for all tokens", c.experts_used,
                             c.experts, c.expert_feed_forward, c.shared_feed_forward));
}

}  // namespace hearth::llm
