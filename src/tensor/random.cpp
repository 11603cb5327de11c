// Random tensors.
#include "hearth/random.h"

#include <fmt/format.h>

#include "graph/random.h"
#include "hearth/error.h"
#include "hearth/ops.h"
#include "tensor/trace.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

Tensor draw(Op op, const Shape& shape, DType dtype, Generator& generator) {
  Tensor result = make_op(op, dtype, shape, std::vector<NodeRef>{});
  Node& node = *result.variable()->node;
  const auto blocks = random_blocks(op, dtype, node.count());
  const auto state = generator.reserve(blocks);
  node.number.seed = state.seed;
  node.number.offset = state.offset;
  if (Trace* trace = current_trace())
    trace->draws.push_back({result.variable()->node, generator.stream(), state, blocks});
  return result;
}

void check_floating(const Shape& shape, DType dtype, const char* operation) {
  check_shape(shape, dtype_size(dtype), operation);
  if (!is_floating(dtype))
    throw DTypeError(fmt::format("[{}] needs a floating dtype, got {}", operation, dtype_name(dtype)));
}

}  // namespace

Generator::State Generator::Stream::state() const {
  std::lock_guard lock(mutex_);
  return state_;
}

void Generator::Stream::set_state(State state) {
  std::lock_guard lock(mutex_);
  state_ = state;
}

Generator::State Generator::Stream::reserve(std::uint64_t count) {
  std::lock_guard lock(mutex_);
  const State before = state_;
  state_.offset += count;
  return before;
}

Generator& default_generator() {
  static Generator generator(0);
  return generator;
}

void manual_seed(std::uint64_t seed) { default_generator().seed(seed); }

Tensor rand(const Shape& shape, DType dtype, Generator& generator) {
  check_floating(shape, dtype, "rand");
  return draw(Op::random_uniform, shape, dtype, generator);
}

Tensor randn(const Shape& shape, DType dtype, Generator& generator) {
  check_floating(shape, dtype, "randn");
  return draw(Op::random_normal, shape, dtype, generator);
}

Tensor uniform(const Shape& shape, double low, double high, DType dtype, Generator& generator) {
  return rand(shape, dtype, generator) * (high - low) + low;
}

Tensor normal(const Shape& shape, double mean, double deviation, DType dtype, Generator& generator) {
  return randn(shape, dtype, generator) * deviation + mean;
}

Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape, DType dtype, Generator& generator) {
  if (low >= high) throw ValueError(fmt::format("[randint] empty range [{}, {})", low, high));
  const auto range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (range > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    throw ValueError(fmt::format("[randint] the range [{}, {}) is wider than 63 bits", low, high));
  const Tensor bits = draw(Op::random_bits, shape, DType::i64, generator);
  return as(remainder(bits, static_cast<std::int64_t>(range)) + low, dtype);
}

Tensor bernoulli(const Shape& shape, double p, DType dtype, Generator& generator) {
  if (!(p >= 0 && p <= 1)) throw ValueError(fmt::format("[bernoulli] p = {} is not within [0, 1]", p));
  return as(rand(shape, DType::f32, generator) < p, dtype);
}

Tensor randperm(std::int64_t count, Generator& generator) {
  if (count < 0) throw ValueError(fmt::format("[randperm] negative count {}", count));
  return argsort(draw(Op::random_bits, {count}, DType::i64, generator));
}

Tensor truncated_normal(const Shape& shape, double deviation, DType dtype, Generator& generator) {
  // By the inverse of the distribution function: erf(2 / sqrt(2)) bounds the uniform numbers.
  constexpr double bound = 0.95449973610364158;
  const Tensor u = uniform(shape, -bound, bound, DType::f32, generator);
  return as(erfinv(u) * (deviation * 1.4142135623730951), dtype);
}

Tensor multinomial(const Tensor& weights, std::int64_t count, Generator& generator) {
  if (weights.ndim() < 1 || weights.size(-1) == 0)
    throw ShapeError(
        fmt::format("[multinomial] needs weights along the last axis, got {}", to_string(weights.shape())));
  if (count < 0) throw ValueError(fmt::format("[multinomial] negative count {}", count));
  // The index of a draw is the number of cumulative weights that do not exceed it.
  const Tensor steps = cumsum(as(weights, DType::f32), -1);
  Shape shape = weights.shape();
  shape.back() = count;
  const Tensor total = narrow(steps, -1, weights.size(-1) - 1, 1);
  const Tensor draws = rand(shape, DType::f32, generator) * total;
  // The product may be rounded up to the total.
  return minimum(sum(unsqueeze(steps, -2) <= unsqueeze(draws, -1), {-1}), weights.size(-1) - 1);
}

}  // namespace hearth
