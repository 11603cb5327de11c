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
#include "llm/model.h"
#include "llm/rope_frequencies.h"
#include "llm/type_mix.h"

namespace hearth::llm {
namespace {

// Of the tensors of a plain decoder, by the end of their names.
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
  for (const auto& [ending, shape] : shapes)
    if (name == ending || (name.starts_with("blk.") && name.ends_with("." + std::string(ending))))
      return shape;
  return {};
}

// The same numbers again and again, but for thousands of rows no two are alike: how many blocks there are and
// how many a row has, have no common divisor.
Tensor random_matrix(const Shape& shape, DType type) {
  constexpr std::int64_t distinct = 1 << 20;
  const std::int64_t block = is_quantised(type) ? block_elements(type) : 1, in_row = shape[1] / block;
  std::int64_t count = std::min(distinct / block, in_row * shape[0]);
  while (std::gcd(count, in_row) > 1) ++count;
  const Tensor numbers = (randn({count * block}) * (1 / std::sqrt(static_cast<double>(shape[1])))).eval();
  const auto some = (is_quantised(type) ? quantise(numbers, type) : numbers.to(type)).to_bytes();
  std::vector<std::byte> bytes(some.size() / static_cast<std::size_t>(count) *
                               static_cast<std::size_t>(in_row * shape[0]));
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
    return random_matrix(shape, fitting_type(random.type, shape.back()));
  };
  file.tokenizer = [] { return std::optional<Tokenizer>(); };
  return make_model(file, options);
}

const std::vector<KnownShape>& known_shapes() {
  static const std::vector<KnownShape> shapes{
      {"llama-3.2-1b", plain_config(128256, 16, 2048, 32, 8, 8192), true},
      {"llama-3-8b", plain_config(128256, 32, 4096, 32, 8, 14336), false},
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
