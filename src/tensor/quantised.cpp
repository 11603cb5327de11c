// Functions of quantised weights.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/block_formats.h"
#include "base/thread_pool.h"
#include "hearth/error.h"
#include "hearth/ops.h"
#include "hearth/quantise.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

void check_format(DType dtype, const char* operation) {
  if (!is_quantised(dtype))
    throw DTypeError(
        fmt::format("[{}] needs a block format (q8_0, q4_k, ...), got {}", operation, dtype_name(dtype)));
}
void check_floating(DType dtype, const char* operation) {
  if (!is_floating(dtype))
    throw DTypeError(fmt::format("[{}] needs a floating dtype, got {}", operation, dtype_name(dtype)));
}

}  // namespace

Tensor quantise(const Tensor& x, DType format, std::span<const float> importance) {
  check_operands("quantise", {&x});
  check_floating(x.dtype(), "quantise");
  check_format(format, "quantise");
  check_shape(x.shape(), format, "quantise");
  if (!importance.empty() && static_cast<std::int64_t>(importance.size()) != x.shape().back())
    throw ShapeError(fmt::format("[quantise] {} numbers of importance do not fit {}", importance.size(),
                                 to_string(x.shape())));
  for (const float number : importance)
    if (!std::isfinite(number) || number < 0)
      throw ValueError(fmt::format("[quantise] an importance of {}", number));
  const std::vector<float> values = x.to_vector<float>();
  std::vector<std::byte> bytes(static_cast<std::size_t>(storage_bytes(format, x.numel())));
  const std::int64_t elements = block_elements(format), grain = 8192 / elements;
  const std::int64_t row = static_cast<std::int64_t>(importance.size()) / elements;  // blocks; 0: all as one
  parallel_for(x.numel() / elements, grain, [&](std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t column = row > 0 ? begin % row : 0;
      const std::int64_t count = row > 0 ? std::min(end - begin, row - column) : end - begin;
      blocks::encode(format, values.data() + begin * elements,
                     bytes.data() + storage_bytes(format, begin * elements), count,
                     row > 0 ? importance.data() + column * elements : nullptr);
      begin += count;
    }
  });
  return from_host(bytes, x.shape(), format, x.device());
}

Tensor dequantise(const Tensor& x, DType to) {
  const NodeRef& node = node_of(x, "dequantise");
  check_floating(to, "dequantise");
  if (!is_quantised(node->dtype)) return as(x, to);
  return make_op(Op::dequantise, to, node->shape, {node});
}

Tensor from_blocks(std::span<const std::byte> blocks, const Shape& shape, DType format) {
  check_format(format, "from_blocks");
  return from_bytes(blocks, shape, format);
}

namespace {

// Weights are read for every token: what lies in order already must not be copied.
bool is_in_order(const NodeRef& node) {
  return node->evaluated.load(std::memory_order_acquire) &&
         node->storage.strides == contiguous_strides(node->shape);
}

}  // namespace

Tensor quantised_matmul(const Tensor& x, const Tensor& weight) {
  const NodeRef &left = node_of(x, "quantised_matmul"), &right = node_of(weight, "quantised_matmul");
  check_operands("quantised_matmul", {&x});
  check_floating(left->dtype, "quantised_matmul");
  const bool half = right->dtype == DType::f16 || right->dtype == DType::bf16;
  if (!half) check_format(right->dtype, "quantised_matmul");
  const Shape& matrix = right->shape;
  if (matrix.size() != 2 || left->shape.empty() || left->shape.back() != matrix[1])
    throw ShapeError(fmt::format("[quantised_matmul] x {} does not fit weight {}", to_string(left->shape),
                                 to_string(matrix)));
  // Who asks for f64 wants more digits than the kernels of blocks have.
  if (left->dtype == DType::f64) return matmul(x, transpose(dequantise(weight, DType::f64), 0, 1));
  Shape shape(left->shape.begin(), left->shape.end() - 1);
  const std::int64_t rows = element_count(shape);
  shape.push_back(matrix[0]);
  const Tensor stacked = reshape(x, {rows, matrix[1]}),
               dense = half && !is_in_order(right) ? contiguous(weight) : weight;
  return reshape(
      make_op(Op::quantised_matmul, left->dtype, {rows, matrix[0]}, {node_of(stacked), node_of(dense)}),
      shape);
}

Tensor quantised_take(const Tensor& weight, const Tensor& indices, DType to) {
  const NodeRef& node = node_of(weight, "quantised_take");
  check_format(node->dtype, "quantised_take");
  check_floating(to, "quantised_take");
  check_operands("quantised_take", {&indices});
  if (!is_integral(indices.dtype()) || indices.dtype() == DType::bool_)
    throw DTypeError(
        fmt::format("[quantised_take] indices must be integers, got {}", dtype_name(indices.dtype())));
  if (node->shape.size() != 2)
    throw ShapeError(
        fmt::format("[quantised_take] weight must be (count, features), got {}", to_string(node->shape)));
  Shape shape = indices.shape();
  shape.push_back(node->shape[1]);
  return make_op(Op::quantised_take, to, shape, {node, node_of(as(indices, DType::i64))});
}

}  // namespace hearth
