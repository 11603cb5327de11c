// Random models.
#include "llm/random_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hearth/error.h"
#include "hearth/ops.h"
#include "hearth/quantise.h"
#include "hearth/random.h"
#include "llm/architectures.h"
#include "llm/model.h"
#include "llm/rope_frequencies.h"
#include "llm/type_mix.h"

namespace hearth::llm {
namespace {

// Of the tensors of a decoder, by the end of their names.
Shape shape_of(const std::string& name, const ModelConfig& c) {
  const std::int64_t queries = c.heads * c.head_size, keys = c.groups * c.head_size;
  const std::pair<std::string_view, Shape> shapes[] = {{"token_embd.weight", {c.vocabulary, c.width}},
                                                       {"output.weight", {c.vocabulary, c.width}},
                                                       {"attn_q.weight", {queries, c.width}},
                                                       {"attn_k.weight", {keys, c.width}},
                                                       {"attn_v.weight", {keys, c.width}},
                                                       {"attn_output.weight", {c.width, queries}},
                                                       {"ffn_gate.weight", {c.feed_forward, c.width}},
                                                       {"ffn_up.weight", {c.feed_forward, c.width}},
                                                       {"ffn_down.weight", {c.width, c.feed_forward}},
                                                       {"attn_norm.weight", {c.width}},
                                                       {"ffn_norm.weight", {c.width}},
                                                       {"output_norm.weight", {c.width}}};
  const std::int64_t hidden = c.expert_feed_forward;
  const std::pair<std::string_view, Shape> of_experts[] = {
      {"ffn_gate_inp.weight", {c.experts, c.width}},
      {"ffn_gate_exps.weight", {c.experts, hidden, c.width}},
      {"ffn_up_exps.weight", {c.experts, hidden, c.width}},
      {"ffn_down_exps.weight", {c.experts, c.width, hidden}}};
  const std::pair<std::string_view, Shape> of_heads[] = {{"attn_q_norm.weight", {c.head_size}},
                                                         {"attn_k_norm.weight", {c.head_size}},
                                                         {"attn_sinks.weight", {c.heads}}};
  std::vector<std::pair<std::string_view, Shape>> all(std::begin(shapes), std::end(shapes));
  all.insert(all.end(), std::begin(of_heads), std::end(of_heads));
  if (c.experts > 0) all.insert(all.end(), std::begin(of_experts), std::end(of_experts));
  for (const auto& [ending, shape] : all)
    if (name == ending || (name.starts_with("blk.") && name.ends_with("." + std::string(ending))))
      return shape;
  return {};
}

// The same numbers again and again, but for thousands of rows no two are alike: how many blocks there are and
// how many a row has, have no common divisor.
Tensor random_matrix(const Shape& shape, DType type) {
  constexpr std::int64_t distinct = 1 << 20;
  const std::int64_t block = is_quantised(type) ? block_elements(type) : 1, in_row = shape.back() / block,
                     rows = element_count(shape) / shape.back();
  std::int64_t count = std::min(distinct / block, in_row * rows);
  while (std::gcd(count, in_row) > 1) ++count;
  const Tensor numbers = (randn({count * block}) * (1 / std::sqrt(static_cast<double>(shape.back())))).eval();
  const auto some = (is_quantised(type) ? quantise(numbers, type) : numbers.to(type)).to_bytes();
  std::vector<std::byte> bytes(some.size() / static_cast<std::size_t>(count) *
                               static_cast<std::size_t>(in_row * rows));
  for (std::size_t at = 0; at < bytes.size(); at += some.size())
    std::copy_n(some.begin(), std::min(some.size(), bytes.size() - at),
                bytes.begin() + static_cast<std::ptrdiff_t>(at));
  return from_bytes(bytes, shape, type);
}

ModelConfig plain_config(std::int64_t vocabulary, std::int64_t layers, std::int64_t width, std::int64_t heads,
                         std::int64_t groups, std::int64_t feed_forward) {
  ModelConfig c;
  c.architecture = "llama";
  c.vocabulary = vocabulary;
  c.context = 131072;
  c.layers = layers;
  c.width = width;
  c.heads = heads;
  c.groups = groups;
  c.head_size = width / heads;
  c.feed_forward = feed_forward;
  c.attention_scale = 1 / std::sqrt(static_cast<double>(c.head_size));
  c.windows.assign(static_cast<std::size_t>(layers), 0);
  c.rope = plain_rope(500000, c.head_size);
  c.rope_interleaved = true;
  return c;
}

ModelConfig with_experts(ModelConfig c, std::int64_t head_size, std::int64_t experts, std::int64_t used,
                         std::int64_t feed_forward) {
  c.head_size = head_size;
  c.attention_scale = 1 / std::sqrt(static_cast<double>(head_size));
  c.rope = plain_rope(1e6, head_size);
  c.rope_interleaved = false;
  c.experts = experts;
  c.experts_used = used;
  c.expert_feed_forward = feed_forward;
  c.normalise_experts = true;
  return c;
}

ModelConfig qwen3_30b_a3b() {
  ModelConfig c = with_experts(plain_config(151936, 48, 2048, 32, 4, 6144), 128, 128, 8, 768);
  c.architecture = "qwen3moe";
  c.query_key_norms = true;
  return c;
}

ModelConfig gpt_oss_20b() {
  ModelConfig c = with_experts(plain_config(201088, 24, 2880, 64, 8, 2880), 64, 32, 4, 2880);
  c.architecture = "gpt-oss";
  c.attention_sinks = true;
  c.activation = Activation::clamped;
  c.windows = periodic_windows(c.layers, 128, 2);
  return c;
}

}  // namespace

Model make_random_model(const ModelConfig& config, const RandomModelOptions& random,
                        const LoadOptions& options) {
  ModelFile file;
  file.config = config;
  file.path = "(random weights)";
  file.contains = [config, random](const std::string& name) {
    if (random.tied && name == "output.weight") return false;
    return !shape_of(name, config).empty();
  };
  file.tensor = [config, random](const std::string& name) {
    const DeviceScope host{Device{}};
    const Shape shape = shape_of(name, config);
    if (shape.size() == 1) return ones(shape);
    const bool routes = name.ends_with("ffn_gate_inp.weight");
    return random_matrix(shape, routes ? DType::f32 : fitting_type(random.type, shape.back()));
  };
  file.tokenizer = [] { return std::optional<Tokenizer>(); };
  return make_model(file, options);
}

const std::vector<KnownShape>& known_shapes() {
  static const std::vector<KnownShape> shapes{
      {"llama-3.2-1b", plain_config(128256, 16, 2048, 32, 8, 8192), true},
      {"llama-3-8b", plain_config(128256, 32, 4096, 32, 8, 14336), false},
      {"qwen3-30b-a3b", qwen3_30b_a3b(), false},
      {"gpt-oss-20b", gpt_oss_20b(), false},
      {"tinyllama-1.1b", plain_config(32000, 22, 2048, 32, 4, 5632), false},
      {"tiny", plain_config(512, 2, 256, 4, 2, 768), false}};
  return shapes;
}

const KnownShape& find_known_shape(std::string_view name) {
  std::string names;
  for (const KnownShape& shape : known_shapes()) {
    if (shape.name == name) return shape;
    names += (names.empty() ? "" : ", ") + shape.name;
  }
  throw ValueError(fmt::format("no shape is called {}; there are {}", name, names));
}

}  // namespace hearth::llm
