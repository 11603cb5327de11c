// Normalisation layers, softmax and rotary position embedding: front ends of the primitives that work on the
// last axis, and what is built on them.
#include <fmt/format.h>

#include "hearth/error.h"
#include "tensor/composite.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

Tensor over_last_axis(Op op, const Tensor& x, std::int64_t axis, const char* name) {
  node_of(x, name);
  const auto along = static_cast<std::int64_t>(normalize_axis(axis, x.ndim(), name));
  const Tensor floating = as(x, floating_dtype(x));
  const Tensor moved = transpose(floating, along, -1);
  return transpose(make_op(op, moved.dtype(), moved.shape(), {node_of(moved)}), along, -1);
}

void check_parameter(const Tensor& parameter, const Shape& expected, const char* what, const char* name) {
  if (parameter.defined() && !(parameter.shape() == expected))
    throw ShapeError(fmt::format("[{}] {} must have shape {}, got {}", name, what, to_string(expected),
                                 to_string(parameter.shape())));
}

// weight and bias undefined or of the channels' size; x at least (N, C).
void check_channels(const Tensor& x, const Tensor& weight, const Tensor& bias, const char* name) {
  node_of(x, name);
  if (x.ndim() < 2)
    throw ShapeError(fmt::format("[{}] needs (batch, channels, ...), got {}", name, to_string(x.shape())));
  check_parameter(weight, {x.size(1)}, "weight", name);
  check_parameter(bias, {x.size(1)}, "bias", name);
}

// (x - mean) / sqrt(variance + epsilon) * weight + bias as x * scale + shift with one scale and shift per
// channel.
Tensor scale_and_shift(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& weight,
                       const Tensor& bias, double epsilon) {
  const auto wide = [&](const Tensor& statistic) { return as(statistic, wide_dtype(x)); };
  Tensor scale = rsqrt(wide(variance) + epsilon);
  if (weight.defined()) scale = scale * wide(weight);
  Tensor shift = -wide(mean) * scale;
  if (bias.defined()) shift = shift + wide(bias);
  return as(x * along_axis(scale, x, 1) + along_axis(shift, x, 1), floating_dtype(x));
}

// x and positions, checked.
std::vector<NodeRef> rope_inputs(const Tensor& x, const Tensor& positions) {
  check_floating(x, "rope");
  if (x.ndim() < 2 || x.size(-1) % 2 != 0)
    throw ShapeError(fmt::format("[rope] needs (..., T, D) with D even, got {}", to_string(x.shape())));
  const NodeRef& node = node_of(positions, "rope");
  if (is_floating(node->dtype) || node->dtype == DType::bool_)
    throw DTypeError(fmt::format("[rope] positions must be integers, got {}", dtype_name(node->dtype)));
  if (!(node->shape == Shape{x.size(-2)}))
    throw ShapeError(
        fmt::format("[rope] positions {} do not fit x {}", to_string(node->shape), to_string(x.shape())));
  return {node_of(x), node_of(as(positions, DType::i64))};
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t axis) { return over_last_axis(Op::softmax, x, axis, "softmax"); }

Tensor log_softmax(const Tensor& x, std::int64_t axis) {
  return over_last_axis(Op::log_softmax, x, axis, "log_softmax");
}

Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight, const Tensor& bias,
                  double epsilon) {
  const Shape& shape = node_of(x, "layer_norm")->shape;
  const auto lead = shape.size() - normalized.size();
  if (normalized.empty() || normalized.size() > shape.size() ||
      !std::equal(normalized.begin(), normalized.end(), shape.begin() + lead))
    throw ShapeError(fmt::format("[layer_norm] x {} does not end in the normalised shape {}",
                                 to_string(shape), to_string(normalized)));
  check_parameter(weight, normalized, "weight", "layer_norm");
  check_parameter(bias, normalized, "bias", "layer_norm");

  const DType dtype = floating_dtype(x);
  const auto features = element_count(normalized);
  Shape rows(shape.begin(), shape.begin() + lead);
  rows.push_back(features);
  const DeviceScope here(x.device());
  const auto parameter = [&](const Tensor& given, double absent) {
    return node_of(given.defined() ? as(reshape(given, {features}), dtype) : full({features}, absent, dtype));
  };
  std::vector<NodeRef> inputs{node_of(reshape(as(x, dtype), rows))};
  if (weight.defined() || bias.defined()) inputs.push_back(parameter(weight, 1));
  if (bias.defined()) inputs.push_back(parameter(bias, 0));
  return reshape(make_op(Op::layer_norm, dtype, rows, std::move(inputs), NormAttributes{epsilon}), shape);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  const Shape& shape = node_of(x, "rms_norm")->shape;
  if (shape.empty()) throw ShapeError("[rms_norm] needs at least one axis, got ()");
  check_parameter(weight, {shape.back()}, "weight", "rms_norm");
  const DType dtype = floating_dtype(x);
  std::vector<NodeRef> inputs{node_of(as(x, dtype))};
  if (weight.defined()) inputs.push_back(node_of(as(weight, dtype)));
  return make_op(Op::rms_norm, dtype, shape, std::move(inputs), NormAttributes{epsilon});
}

Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight, const Tensor& bias,
                  double epsilon) {
  check_channels(x, weight, bias, "group_norm");
  const auto channels = x.size(1);
  if (groups <= 0) throw ValueError(fmt::format("[group_norm] groups must be positive, got {}", groups));
  if (channels % groups != 0)
    throw ShapeError(fmt::format("[group_norm] {} channels do not split into {} groups", channels, groups));
  Shape rows{x.size(0), groups, channels / groups};
  for (std::size_t i = 2; i < x.ndim(); ++i) rows.back() *= x.shape()[i];
  const Tensor wide = as(x, wide_dtype(x));
  Tensor result = reshape(layer_norm(reshape(wide, rows), {rows.back()}, {}, {}, epsilon), x.shape());
  if (weight.defined()) result = result * along_axis(weight, x, 1);
  if (bias.defined()) result = result + along_axis(bias, x, 1);
  return as(result, floating_dtype(x));
}

Tensor instance_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  check_channels(x, weight, bias, "instance_norm");
  if (x.ndim() < 3)
    throw ShapeError(fmt::format("[instance_norm] needs a spatial axis, got {}", to_string(x.shape())));
  if (x.size(1) == 0) return as(x, floating_dtype(x));
  return group_norm(x, x.size(1), weight, bias, epsilon);
}

Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& weight,
                  const Tensor& bias, double epsilon) {
  check_channels(x, weight, bias, "batch_norm");
  node_of(mean, "batch_norm");
  node_of(variance, "batch_norm");
  check_parameter(mean, {x.size(1)}, "mean", "batch_norm");
  check_parameter(variance, {x.size(1)}, "variance", "batch_norm");
  return scale_and_shift(x, mean, variance, weight, bias, epsilon);
}

BatchNormResult batch_norm_train(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  check_channels(x, weight, bias, "batch_norm_train");
  Axes others{0};
  for (std::size_t i = 2; i < x.ndim(); ++i) others.push_back(static_cast<std::int64_t>(i));
  const Moments m = moments(x, others);
  BatchNormResult result;
  result.mean = reshape(m.mean, {x.size(1)});
  result.variance = reshape(m.squares, {x.size(1)}) / static_cast<double>(m.count);
  result.output = scale_and_shift(x, result.mean, result.variance, weight, bias, epsilon);
  return result;
}

Tensor rope(const Tensor& x, const Tensor& positions, double base, bool interleaved) {
  std::vector<NodeRef> inputs = rope_inputs(x, positions);
  if (!(base > 0)) throw ValueError(fmt::format("[rope] base must be positive, got {}", base));
  return make_op(Op::rope, x.dtype(), x.shape(), std::move(inputs), RopeAttributes{base, interleaved, false});
}

Tensor rope(const Tensor& x, const Tensor& positions, const Tensor& frequencies, bool interleaved) {
  std::vector<NodeRef> inputs = rope_inputs(x, positions);
  check_floating(frequencies, "rope");
  if (!(frequencies.shape() == Shape{x.size(-1) / 2}))
    throw ShapeError(fmt::format("[rope] frequencies {} do not fit x {}", to_string(frequencies.shape()),
                                 to_string(x.shape())));
  inputs.push_back(node_of(as(frequencies, DType::f64)));
  return make_op(Op::rope, x.dtype(), x.shape(), std::move(inputs), RopeAttributes{1, interleaved, false});
}

Tensor rope(const Tensor& x, double base, std::int64_t offset, bool interleaved) {
  if (node_of(x, "rope")->shape.size() < 2)
    throw ShapeError(fmt::format("[rope] needs (..., T, D) with D even, got {}", to_string(x.shape())));
  // The offset is a number, not an attribute: decoding step after step uses one plan. Without one, ropes of
  // as many rows turn by the same positions, and plans see that.
  const Tensor positions = positions_for(x, x.size(-2));
  return rope(x, offset == 0 ? positions : positions + offset, base, interleaved);
}

}  // namespace hearth
