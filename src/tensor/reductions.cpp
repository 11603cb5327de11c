// Reductions and operations along one axis.
#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/ops.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

Shape reduced_shape(const Shape& shape, const Axes& axes) {
  Shape result = shape;
  for (auto axis : axes) result[static_cast<std::size_t>(axis)] = 1;
  return result;
}

// Drops the axes that a reduction left as size 1.
Tensor drop(const Tensor& x, const Axes& axes) {
  Shape shape;
  for (std::size_t i = 0; i < x.ndim(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) == axes.end())
      shape.push_back(x.shape()[i]);
  return reshape(x, shape);
}

Tensor reduce(Op op, const Tensor& x, DType dtype, const Axes& requested, bool keepdims) {
  const NodeRef& node = node_of(x, op_name(op).data());
  const Axes axes = normalize_axes(requested, node->shape.size(), op_name(op).data());
  const bool needs_element = op == Op::max || op == Op::min;
  if (needs_element)
    for (auto axis : axes)
      if (node->shape[static_cast<std::size_t>(axis)] == 0)
        throw ValueError(fmt::format("[{}] of no elements: axis {} of {} is empty", op_name(op), axis,
                                     to_string(node->shape)));
  const Tensor result = make_op(op, dtype, reduced_shape(node->shape, axes), {node}, ReduceAttributes{axes});
  return keepdims ? result : drop(result, axes);
}

DType sum_dtype(DType dtype) { return is_integral(dtype) ? DType::i64 : dtype; }

Tensor arg_reduce(Op op, const Tensor& x, std::optional<std::int64_t> axis, bool keepdims) {
  const char* name = op_name(op).data();
  if (!axis) {
    const Tensor result = arg_reduce(op, reshape(x, {-1}), 0, false);
    return keepdims ? reshape(result, Shape(x.ndim(), 1)) : result;
  }
  const auto along = static_cast<std::int64_t>(normalize_axis(*axis, x.ndim(), name));
  if (x.size(along) == 0)
    throw ValueError(
        fmt::format("[{}] of no elements: axis {} of {} is empty", name, along, to_string(x.shape())));
  const Tensor result = make_op(op, DType::i64, reduced_shape(x.shape(), {along}), {node_of(x, name)},
                                AxisAttributes{along, false});
  return keepdims ? result : drop(result, {along});
}

Tensor scan(Op op, const Tensor& x, std::int64_t axis) {
  const auto along = static_cast<std::int64_t>(normalize_axis(axis, x.ndim(), op_name(op).data()));
  return make_op(op, sum_dtype(x.dtype()), x.shape(), {node_of(x)}, AxisAttributes{along, false});
}

Tensor sorted_indices(const Tensor& x, std::int64_t axis, bool descending, std::int64_t count) {
  Shape shape = x.shape();
  shape[static_cast<std::size_t>(axis)] = count;
  return make_op(Op::argsort, DType::i64, shape, {node_of(x)}, AxisAttributes{axis, descending});
}

}  // namespace

Tensor sum(const Tensor& x, const Axes& axes, bool keepdims) {
  check_operands("sum", {&x});
  return reduce(Op::sum, x, sum_dtype(x.dtype()), axes, keepdims);
}
Tensor prod(const Tensor& x, const Axes& axes, bool keepdims) {
  check_operands("prod", {&x});
  return reduce(Op::prod, x, sum_dtype(x.dtype()), axes, keepdims);
}
Tensor max(const Tensor& x, const Axes& axes, bool keepdims) {
  check_operands("max", {&x});
  return reduce(Op::max, x, x.dtype(), axes, keepdims);
}
Tensor min(const Tensor& x, const Axes& axes, bool keepdims) {
  check_operands("min", {&x});
  return reduce(Op::min, x, x.dtype(), axes, keepdims);
}
Tensor all(const Tensor& x, const Axes& axes, bool keepdims) {
  return reduce(Op::all, as(x, DType::bool_), DType::bool_, axes, keepdims);
}
Tensor any(const Tensor& x, const Axes& axes, bool keepdims) {
  return reduce(Op::any, as(x, DType::bool_), DType::bool_, axes, keepdims);
}

Tensor mean(const Tensor& x, const Axes& axes, bool keepdims) {
  check_operands("mean", {&x});
  const Tensor values = is_floating(x.dtype()) ? x : as(x, DType::f32);
  std::int64_t count = 1;
  for (auto axis : normalize_axes(axes, x.ndim(), "mean")) count *= x.size(axis);
  // The mean of halves is rounded once, at the end.
  const bool half = values.dtype() == DType::f16 || values.dtype() == DType::bf16;
  const Tensor total = sum(half ? as(values, DType::f32) : values, axes, keepdims);
  return as(total / static_cast<double>(count), values.dtype());
}

Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis, bool keepdims) {
  return arg_reduce(Op::argmax, x, axis, keepdims);
}
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis, bool keepdims) {
  return arg_reduce(Op::argmin, x, axis, keepdims);
}

Tensor cumsum(const Tensor& x, std::int64_t axis) { return scan(Op::cumsum, x, axis); }
Tensor cumprod(const Tensor& x, std::int64_t axis) { return scan(Op::cumprod, x, axis); }

Tensor argsort(const Tensor& x, std::int64_t axis, bool descending) {
  const auto along = static_cast<std::int64_t>(normalize_axis(axis, x.ndim(), "argsort"));
  return sorted_indices(x, along, descending, x.size(along));
}

Tensor sort(const Tensor& x, std::int64_t axis, bool descending) {
  const auto along = static_cast<std::int64_t>(normalize_axis(axis, x.ndim(), "sort"));
  return gather(x, along, argsort(x, along, descending));
}

std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t axis, bool largest) {
  const auto along = static_cast<std::int64_t>(normalize_axis(axis, x.ndim(), "topk"));
  if (k < 0 || k > x.size(along))
    throw ValueError(fmt::format("[topk] k = {} is not within 0..{}", k, x.size(along)));
  const Tensor indices = sorted_indices(x, along, largest, k);
  return {gather(x, along, indices), indices};
}

}  // namespace hearth
