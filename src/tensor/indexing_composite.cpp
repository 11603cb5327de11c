// Functions that choose or drop elements, built from take, gather and where.
#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/random.h"
#include "tensor/composite.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

void check_indices(const Tensor& indices, const char* name) {
  const DType dtype = node_of(indices, name)->dtype;
  if (is_floating(dtype) || dtype == DType::bool_)
    throw DTypeError(fmt::format("[{}] indices must be integers, got {}", name, dtype_name(dtype)));
}

}  // namespace

Tensor take_along(const Tensor& x, const Tensor& indices, std::int64_t axis) {
  return gather(x, axis, indices);
}

Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype) {
  check_indices(indices, "one_hot");
  if (classes <= 0)
    throw ValueError(fmt::format("[one_hot] the number of classes must be positive, got {}", classes));
  return as(unsqueeze(as(indices, DType::i64), -1) == positions_for(indices, classes), dtype);
}

Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_index) {
  check_indices(indices, "embedding");
  const NodeRef& node = node_of(weight, "embedding");
  if (node->shape.size() != 2)
    throw ShapeError(
        fmt::format("[embedding] weight must be (count, features), got {}", to_string(node->shape)));
  const Tensor rows = take(weight, indices, 0);
  if (!padding_index) return rows;
  const auto count = weight.size(0);
  if (*padding_index < -count || *padding_index >= count)
    throw IndexError(
        fmt::format("[embedding] padding index {} is out of range for {} rows", *padding_index, count));
  if (!rows.requires_grad()) return rows;
  const auto padding = *padding_index < 0 ? *padding_index + count : *padding_index;
  const Tensor padded = logical_or(indices == padding, indices == padding - count);
  return where(unsqueeze(padded, -1), rows.detach(), rows);
}

Tensor dropout(const Tensor& x, double p, bool training) {
  if (!(p >= 0 && p <= 1)) throw ValueError(fmt::format("[dropout] p must lie in [0, 1], got {}", p));
  check_floating(x, "dropout");
  if (!training || p == 0) return x;
  if (p == 1) return where(false, x, 0.0);
  const DeviceScope here(x.device());
  return where(rand(x.shape()) >= p, x * (1 / (1 - p)), 0.0);
}

}  // namespace hearth
