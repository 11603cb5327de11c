// Operations whose places are given by data.
#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/ops.h"
#include "hearth/quantise.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

Tensor checked_indices(const Tensor& indices, const char* operation) {
  if (!is_integral(indices.dtype()) || indices.dtype() == DType::bool_)
    throw DTypeError(
        fmt::format("[{}] indices must be integers, got {}", operation, dtype_name(indices.dtype())));
  return as(indices, DType::i64);
}

void check_along(const Tensor& x, std::size_t axis, const Tensor& indices, const char* operation) {
  bool fits = indices.ndim() == x.ndim();
  for (std::size_t i = 0; fits && i < x.ndim(); ++i) fits = i == axis || indices.shape()[i] <= x.shape()[i];
  if (!fits)
    throw ShapeError(fmt::format("[{}] indices {} do not fit {} outside axis {}", operation,
                                 to_string(indices.shape()), to_string(x.shape()), axis));
}

Tensor scatter_with(Op op, const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source) {
  const char* name = op_name(op).data();
  check_operands(name, {&x, &indices, &source});
  if (promote(x.dtype(), source.dtype()) != x.dtype())
    throw DTypeError(fmt::format("[{}] a source of {} does not fit into {}", name, dtype_name(source.dtype()),
                                 dtype_name(x.dtype())));
  const auto along = normalize_axis(axis, x.ndim(), name);
  const Tensor places = checked_indices(indices, name);
  check_along(x, along, places, name);
  if (!(source.shape() == indices.shape()))
    throw ShapeError(fmt::format("[{}] source {} and indices {} differ", name, to_string(source.shape()),
                                 to_string(indices.shape())));
  return make_op(op, x.dtype(), x.shape(), {node_of(x), node_of(places), node_of(as(source, x.dtype()))},
                 AxisAttributes{static_cast<std::int64_t>(along), false});
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  if (is_quantised(node_of(x, "take")->dtype) && normalize_axis(axis, x.ndim(), "take") == 0)
    return quantised_take(x, indices);
  check_operands("take", {&x, &indices});
  const auto along = normalize_axis(axis, x.ndim(), "take");
  const Tensor places = checked_indices(indices, "take");
  Shape shape(x.shape().begin(), x.shape().begin() + along);
  for (auto size : places.shape()) shape.push_back(size);
  for (std::size_t i = along + 1; i < x.ndim(); ++i) shape.push_back(x.shape()[i]);
  return make_op(Op::take, x.dtype(), shape, {node_of(x), node_of(places)},
                 AxisAttributes{static_cast<std::int64_t>(along), false});
}

Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& indices) {
  check_operands("gather", {&x, &indices});
  const auto along = normalize_axis(axis, x.ndim(), "gather");
  const Tensor places = checked_indices(indices, "gather");
  check_along(x, along, places, "gather");
  return make_op(Op::gather, x.dtype(), places.shape(), {node_of(x), node_of(places)},
                 AxisAttributes{static_cast<std::int64_t>(along), false});
}

Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source) {
  return scatter_with(Op::scatter, x, axis, indices, source);
}
Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source) {
  return scatter_with(Op::scatter_add, x, axis, indices, source);
}

}  // namespace hearth
