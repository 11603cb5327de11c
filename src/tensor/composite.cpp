// What the functions built from other functions share.
#include "tensor/composite.h"

#include <fmt/format.h>

#include "hearth/error.h"
#include "tensor/variable.h"

namespace hearth {

void check_floating(const Tensor& x, const char* operation) {
  const DType dtype = node_of(x, operation)->dtype;
  if (!is_floating(dtype))
    throw DTypeError(fmt::format("[{}] needs a floating tensor, got {}", operation, dtype_name(dtype)));
}

Tensor sqrt_flat_at_zero(const Tensor& x) {
  const Tensor zero = x == 0;
  return where(zero, 0, sqrt(where(zero, 1, x)));
}

Moments moments(const Tensor& x, const Axes& axes) {
  const Tensor wide = as(x, wide_dtype(x));
  Moments result;
  result.count = 1;
  for (auto axis : normalize_axes(axes, x.ndim(), "moments")) result.count *= x.size(axis);
  result.mean = mean(wide, axes, true);
  // For any constant c, sum (x - c)^2 = squares + count * (mean - c)^2. With c = mean the last term is 0 and
  // so is its slope, so that the gradient needs no reduction over x; it is kept for the second derivative.
  const Tensor centre = result.mean.detach();
  result.squares = sum(square(wide - centre), axes, true);
  if (result.mean.requires_grad())
    result.squares = result.squares - square(result.mean - centre) * result.count;
  return result;
}

Tensor along_axis(const Tensor& vector, const Tensor& x, std::int64_t axis) {
  Shape shape(x.ndim(), 1);
  shape[static_cast<std::size_t>(axis)] = vector.numel();
  return reshape(vector, shape);
}

Tensor before_widening(const Tensor& x) {
  const NodeRef& node = node_of(x);
  if (node->op == Op::reshape && node->dtype == DType::f32) {
    const Tensor narrow = before_widening(wrap(node->inputs[0]));
    return narrow.dtype() == DType::f32 ? x : reshape(narrow, node->shape);
  }
  const bool widened = node->op == Op::cast && node->dtype == DType::f32 &&
                       (node->inputs[0]->dtype == DType::f16 || node->inputs[0]->dtype == DType::bf16);
  return widened ? wrap(node->inputs[0]) : x;
}

Tensor positions_for(const Tensor& x, std::int64_t count) {
  const DeviceScope here(x.device());
  return arange(count);
}

}  // namespace hearth
