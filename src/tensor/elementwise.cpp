// The functions of elementwise.inc: dtype rules and broadcasting.
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>

#include "hearth/error.h"
#include "hearth/ops.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

// The dtype two operands meet in. A bare number only lifts the other operand to its kind.
DType common_dtype(const Node& a, const Node& b) {
  if (a.weak == b.weak) return promote(a.dtype, b.dtype);
  const Node& number = a.weak ? a : b;
  const Node& tensor = a.weak ? b : a;
  if (is_floating(number.dtype)) return is_floating(tensor.dtype) ? tensor.dtype : DType::f32;
  if (tensor.dtype == DType::bool_) return number.dtype;
  return tensor.dtype;
}

// The dtype the operation is computed in.
DType operand_dtype(Op op, DType common) {
  switch (op_row(op).rule) {
    case DTypeRule::numeric:
      return common == DType::bool_ ? DType::i64 : common;
    case DTypeRule::floating:
      return is_floating(common) ? common : DType::f32;
    case DTypeRule::integral:
      if (is_floating(common))
        throw DTypeError(fmt::format("[{}] needs integers or bool, got {}", op_name(op), dtype_name(common)));
      return common;
    case DTypeRule::logical:
      return DType::bool_;
    case DTypeRule::rounding:
    case DTypeRule::compare:
      return common;
  }
  return common;
}

DType result_dtype(Op op, DType operand) {
  const auto rule = op_row(op).rule;
  return rule == DTypeRule::compare || rule == DTypeRule::logical ? DType::bool_ : operand;
}

Tensor unary(Op op, const Tensor& x) {
  const NodeRef& node = node_of(x, op_name(op).data());
  check_computable(op_name(op).data(), *node);
  const DType dtype = operand_dtype(op, node->dtype);
  if (op == Op::bitwise_not && dtype == DType::bool_) op = Op::logical_not;
  if (op_row(op).rule == DTypeRule::rounding && is_integral(dtype)) return x;
  if (op == Op::isnan || op == Op::isinf || op == Op::isfinite) {
    if (is_integral(dtype)) return broadcast_to(Tensor(op == Op::isfinite), node->shape);
  }
  Tensor result = make_op(op, result_dtype(op, dtype), node->shape, {node_of(as(x, dtype))});
  result.variable()->node->weak = node->weak;
  return result;
}

// What a comparison gives for all elements where a bare integer is beyond what the other operand can hold.
std::optional<bool> decided(Op op, const Node& a, const Node& b) {
  if (a.weak == b.weak || op_row(op).rule != DTypeRule::compare) return {};
  const Node& number = a.weak ? a : b;
  const Node& tensor = a.weak ? b : a;
  if (number.op != Op::constant || !is_integral(number.dtype) || !is_integral(tensor.dtype) ||
      tensor.dtype == DType::bool_)
    return {};
  const auto [least, most] = integer_range(tensor.dtype);
  const std::int64_t value = number.number.integer;
  if (value >= least && value <= most) return {};
  const bool number_is_larger = value > most, a_is_larger = (&number == &a) == number_is_larger;
  switch (op) {
    case Op::eq:
      return false;
    case Op::ne:
      return true;
    case Op::lt:
    case Op::le:
      return !a_is_larger;
    case Op::gt:
    case Op::ge:
      return a_is_larger;
    default:
      return {};
  }
}

Tensor binary(Op op, const Tensor& a, const Tensor& b) {
  const NodeRef &left = node_of(a, op_name(op).data()), &right = node_of(b, op_name(op).data());
  check_operands(op_name(op).data(), {&a, &b});
  if (const auto known = decided(op, *left, *right)) {
    const Node& other = left->weak ? *right : *left;
    const DeviceScope here(other.device);
    return broadcast_to(make_constant(*known, DType::bool_), other.shape);
  }
  const DType dtype = operand_dtype(op, common_dtype(*left, *right));
  Shape shape = left->shape == right->shape ? left->shape
                                            : broadcast_shapes(left->shape, right->shape, op_name(op).data());
  Tensor result =
      make_op(op, result_dtype(op, dtype), std::move(shape), {node_of(as(a, dtype)), node_of(as(b, dtype))});
  result.variable()->node->weak = left->weak && right->weak;
  return result;
}

}  // namespace

#define HEARTH_UNARY(name, rule, value, gradient, doc) \
  Tensor name(const Tensor& x) { return unary(Op::name, x); }
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc) \
  Tensor name(const Tensor& a, const Tensor& b) { return binary(Op::name, a, b); }
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY

Tensor cast(const Tensor& x, DType dtype) {
  const NodeRef& node = node_of(x, "cast");
  check_computable("cast", *node);
  if (is_quantised(dtype))
    throw DTypeError(fmt::format("[cast] {} is a storage format; use quantise", dtype_name(dtype)));
  if (node->dtype == dtype && !node->weak) return x;
  if (node->op == Op::constant) {
    const DeviceScope here(node->device);
    double real = node->number.real;
    std::int64_t integer = node->number.integer;
    if (dtype == DType::bool_) integer = real != 0 || integer != 0, real = static_cast<double>(integer);
    const bool truncated = is_floating(node->dtype) && is_integral(dtype) && dtype != DType::bool_;
    const Tensor result =
        truncated ? make_constant(std::trunc(real), dtype) : make_constant(real, integer, dtype);
    result.variable()->node->placed = node->placed;
    return result;
  }
  return make_op(Op::cast, dtype, node->shape, {node});
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const NodeRef &left = node_of(a, "where"), &right = node_of(b, "where");
  check_operands("where", {&condition, &a, &b});
  const DType dtype = common_dtype(*left, *right);
  const Shape shape = broadcast_shapes(node_of(condition, "where")->shape,
                                       broadcast_shapes(left->shape, right->shape, "where"), "where");
  return make_op(Op::where, dtype, shape,
                 {node_of(as(condition, DType::bool_)), node_of(as(a, dtype)), node_of(as(b, dtype))});
}

Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high) {
  if (low && high && *low > *high)
    throw ValueError(fmt::format("[clamp] the lower bound {} is above the upper bound {}", *low, *high));
  if (is_integral(x.dtype())) {  // among integers, which f32 may not have
    Tensor result = x;
    if (low) result = maximum(result, make_constant(std::ceil(*low), x.dtype()));
    if (high) result = minimum(result, make_constant(std::floor(*high), x.dtype()));
    return as(result, x.dtype());
  }
  // Not maximum and minimum: at a bound the gradient is zero, as PyTorch's.
  Tensor result = x;
  if (low) result = where(result <= *low, *low, result);
  if (high) result = where(result >= *high, *high, result);
  return as(result, x.dtype());
}

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) { return a + weight * (b - a); }

Tensor nan_to_num(const Tensor& x, double nan) {
  if (is_integral(x.dtype())) return x;
  const double largest = x.dtype() == DType::f64    ? std::numeric_limits<double>::max()
                         : x.dtype() == DType::f16  ? 65504.0
                         : x.dtype() == DType::bf16 ? 0x1.fep127
                                                    : static_cast<double>(std::numeric_limits<float>::max());
  return where(isnan(x), nan, where(isinf(x), where(x > 0, largest, -largest), x));
}

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  return where(mask, make_constant(value, x.dtype()), x);  // an integer tensor stays one
}

Tensor leaky_relu(const Tensor& x, double slope) { return where(x > 0, x, x * slope); }

Tensor prelu(const Tensor& x, const Tensor& slope) {
  Tensor shaped = slope;
  if (slope.numel() > 1) {
    if (x.ndim() < 2 || slope.numel() != x.size(1))
      throw ShapeError(fmt::format("[prelu] {} slopes do not fit the channels of {}", slope.numel(),
                                   to_string(x.shape())));
    Shape shape(x.ndim(), 1);
    shape[1] = slope.numel();
    shaped = reshape(slope, shape);
  }
  return where(x > 0, x, x * shaped);
}

Tensor elu(const Tensor& x, double alpha) { return where(x > 0, x, expm1(where(x > 0, 0, x)) * alpha); }
Tensor selu(const Tensor& x) { return elu(x, 1.6732632423543772) * 1.0507009873554805; }
Tensor celu(const Tensor& x, double alpha) {
  return where(x > 0, x, expm1(where(x > 0, 0, x) / alpha) * alpha);
}
Tensor relu6(const Tensor& x) { return hardtanh(x, 0, 6); }

Tensor hardtanh(const Tensor& x, double low, double high) { return clamp(x, low, high); }

Tensor hardsigmoid(const Tensor& x) { return hardtanh(x + 3.0, 0, 6) / 6.0; }
Tensor hardswish(const Tensor& x) { return x * hardtanh(x + 3.0, 0, 6) / 6.0; }
Tensor softsign(const Tensor& x) { return x / (abs(x) + 1.0); }
Tensor tanhshrink(const Tensor& x) { return x - tanh(x); }
Tensor softshrink(const Tensor& x, double lambda) {
  return where(x > lambda, x - lambda, where(x < -lambda, x + lambda, x * 0.0));
}
Tensor hardshrink(const Tensor& x, double lambda) { return where(abs(x) > lambda, x, 0.0); }

Tensor glu(const Tensor& x, std::int64_t axis) {
  const auto along = static_cast<std::int64_t>(normalize_axis(axis, x.ndim(), "glu"));
  if (x.size(along) % 2 != 0)
    throw ShapeError(fmt::format("[glu] size {} along axis {} is odd", x.size(along), axis));
  const auto half = x.size(along) / 2;
  return narrow(x, along, 0, half) * sigmoid(narrow(x, along, half, half));
}

}  // namespace hearth
