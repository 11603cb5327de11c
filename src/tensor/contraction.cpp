// Matrix products, convolutions and pooling.
#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/ops.h"
#include "tensor/variable.h"

namespace hearth {

Tensor matmul(const Tensor& left, const Tensor& right) {
  check_operands("matmul", {&left, &right});
  const Shape &shape_a = left.shape(), &shape_b = right.shape();
  if (left.ndim() == 0 || right.ndim() == 0)
    throw ShapeError(
        fmt::format("[matmul] needs at least one axis: {} @ {}", to_string(shape_a), to_string(shape_b)));
  const DType dtype = promote(left.dtype(), right.dtype());
  if (dtype == DType::bool_) throw DTypeError("[matmul] bool has no product; cast to an integer first");
  Tensor a = as(left, dtype), b = as(right, dtype);
  const bool vector_a = a.ndim() == 1, vector_b = b.ndim() == 1;
  if (vector_a) a = unsqueeze(a, 0);
  if (vector_b) b = unsqueeze(b, 1);
  if (a.size(-1) != b.size(-2))
    throw ShapeError(
        fmt::format("[matmul] inner sizes differ: {} @ {}", to_string(shape_a), to_string(shape_b)));

  Tensor result;
  if (b.ndim() == 2 && a.ndim() > 2) {
    // A stack times one matrix is one product.
    Shape shape = a.shape();
    shape.back() = b.size(1);
    const Tensor rows = reshape(a, {element_count(Shape(shape.begin(), shape.end() - 1)), a.size(-1)});
    result =
        reshape(make_op(Op::matmul, dtype, {rows.size(0), b.size(1)}, {node_of(rows), node_of(b)}), shape);
  } else {
    const Shape batch = broadcast_shapes(Shape(a.shape().begin(), a.shape().end() - 2),
                                         Shape(b.shape().begin(), b.shape().end() - 2), "matmul");
    const auto with_batch = [&](const Tensor& x) {
      Shape shape = batch;
      shape.push_back(x.size(-2));
      shape.push_back(x.size(-1));
      return broadcast_to(x, shape);
    };
    Shape shape = batch;
    shape.push_back(a.size(-2));
    shape.push_back(b.size(-1));
    result = make_op(Op::matmul, dtype, shape, {node_of(with_batch(a)), node_of(with_batch(b))});
  }
  if (!vector_a && !vector_b) return result;
  Shape shape = result.shape();
  if (vector_b) shape.pop_back();
  if (vector_a) shape.erase(shape.size() - (vector_b ? 1 : 2));
  return reshape(result, shape);
}

// ---- convolution

namespace {

// One value per spatial axis from an option that may hold one for all.
Shape spread(const std::vector<std::int64_t>& values, std::size_t axes, std::int64_t least,
             const char* operation, const char* option) {
  if (values.size() != 1 && values.size() != axes)
    throw ValueError(
        fmt::format("[{}] {} has {} values; expected 1 or {}", operation, option, values.size(), axes));
  Shape result;
  for (std::size_t i = 0; i < axes; ++i) {
    const auto value = values[values.size() == 1 ? 0 : i];
    if (value < least || value > (std::int64_t{1} << 31))
      throw ValueError(
          fmt::format("[{}] {} = {} is out of range; at least {}", operation, option, value, least));
    result.push_back(value);
  }
  return result;
}

struct ConvOperands {
  Tensor x, weight;
  WindowAttributes window;
};

ConvOperands check_conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
                        std::size_t axes, std::int64_t out_channels, const char* name) {
  if (x.ndim() != axes + 2 || weight.ndim() != axes + 2)
    throw ShapeError(fmt::format("[{}] input {} and weight {} must have {} axes", name, to_string(x.shape()),
                                 to_string(weight.shape()), axes + 2));
  const DType dtype = promote(x.dtype(), weight.dtype());
  if (!is_floating(dtype))
    throw DTypeError(fmt::format("[{}] needs a floating dtype, got {}", name, dtype_name(dtype)));
  if (options.groups < 1)
    throw ValueError(fmt::format("[{}] groups = {} must be positive", name, options.groups));
  if (bias.defined() && !(bias.shape() == Shape{out_channels}))
    throw ShapeError(fmt::format("[{}] bias {} does not fit {} output channels", name,
                                 to_string(bias.shape()), out_channels));
  ConvOperands result{as(x, dtype), as(weight, dtype), {}};
  result.window.kernel = Shape(weight.shape().begin() + 2, weight.shape().end());
  result.window.stride = spread(options.stride, axes, 1, name, "stride");
  result.window.padding = spread(options.padding, axes, 0, name, "padding");
  result.window.dilation = spread(options.dilation, axes, 1, name, "dilation");
  result.window.groups = options.groups;
  for (auto size : result.window.kernel)
    if (size < 1)
      throw ShapeError(fmt::format("[{}] empty kernel in weight {}", name, to_string(weight.shape())));
  return result;
}

Tensor with_bias(const Tensor& y, const Tensor& bias) {
  if (!bias.defined()) return y;
  Shape shape(y.ndim(), 1);
  shape[1] = bias.numel();
  return y + reshape(bias, shape);
}

Tensor conv(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
            std::size_t axes, const char* name) {
  check_operands(name, {&x, &weight});
  const auto [input, kernel, window] =
      check_conv(x, weight, bias, options, axes, weight.ndim() > 0 ? weight.shape()[0] : 0, name);
  const auto groups = window.groups;
  if (input.size(1) != kernel.size(1) * groups || kernel.size(0) % groups != 0)
    throw ShapeError(fmt::format("[{}] {} groups: input {} does not fit weight {}", name, groups,
                                 to_string(x.shape()), to_string(weight.shape())));
  Shape shape{input.size(0), kernel.size(0)};
  for (std::size_t i = 0; i < axes; ++i) {
    const auto reach = window.dilation[i] * (window.kernel[i] - 1) + 1;
    const auto room = input.shape()[i + 2] + 2 * window.padding[i] - reach;
    if (room < 0)
      throw ShapeError(fmt::format("[{}] the kernel reaches over {} elements, the padded input has {}", name,
                                   reach, room + reach));
    shape.push_back(room / window.stride[i] + 1);
  }
  return with_bias(make_op(Op::conv, input.dtype(), shape, {node_of(input), node_of(kernel)}, window), bias);
}

Tensor conv_transpose(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
                      std::size_t axes, const char* name) {
  check_operands(name, {&x, &weight});
  const auto channels = (weight.ndim() > 1 ? weight.shape()[1] : 0) * options.groups;
  const auto [input, kernel, window] = check_conv(x, weight, bias, options, axes, channels, name);
  if (input.size(1) != kernel.size(0) || kernel.size(0) % window.groups != 0)
    throw ShapeError(fmt::format("[{}] {} groups: input {} does not fit weight {}", name, window.groups,
                                 to_string(x.shape()), to_string(weight.shape())));
  const Shape extra = spread(options.output_padding, axes, 0, name, "output_padding");
  Shape shape{input.size(0), channels};
  for (std::size_t i = 0; i < axes; ++i) {
    if (extra[i] >= std::max(window.stride[i], window.dilation[i]))
      throw ValueError(
          fmt::format("[{}] output_padding {} must be smaller than stride or dilation", name, extra[i]));
    const auto size = (input.shape()[i + 2] - 1) * window.stride[i] - 2 * window.padding[i] +
                      window.dilation[i] * (window.kernel[i] - 1) + extra[i] + 1;
    if (size < 1) throw ShapeError(fmt::format("[{}] the result would have size {}", name, size));
    shape.push_back(size);
  }
  // The transposed convolution is the gradient of a convolution by its input.
  return with_bias(
      make_op(Op::conv_input_grad, input.dtype(), shape, {node_of(input), node_of(kernel)}, window), bias);
}

// ---- pooling

Tensor pool(Op op, const Tensor& x, const PoolOptions& options, std::size_t axes, const char* name) {
  check_operands(name, {&x});
  if (x.ndim() != axes + 2 && x.ndim() != axes + 1)
    throw ShapeError(
        fmt::format("[{}] input {} must have {} or {} axes", name, to_string(x.shape()), axes + 1, axes + 2));
  if (!is_floating(x.dtype()))
    throw DTypeError(fmt::format("[{}] needs a floating dtype, got {}", name, dtype_name(x.dtype())));
  WindowAttributes window;
  window.kernel = spread(options.kernel, axes, 1, name, "kernel");
  window.stride = options.stride.empty() ? window.kernel : spread(options.stride, axes, 1, name, "stride");
  window.padding = spread(options.padding, axes, 0, name, "padding");
  window.count_include_pad = options.count_include_pad;
  const std::size_t lead = x.ndim() - axes;
  Shape shape(x.shape().begin(), x.shape().begin() + lead);
  for (std::size_t i = 0; i < axes; ++i) {
    if (window.padding[i] * 2 > window.kernel[i])
      throw ValueError(fmt::format("[{}] padding {} is more than half of kernel {}", name, window.padding[i],
                                   window.kernel[i]));
    const auto room = x.shape()[lead + i] + 2 * window.padding[i] - window.kernel[i];
    if (room < 0)
      throw ShapeError(fmt::format("[{}] kernel {} is larger than the padded input {}", name,
                                   window.kernel[i], room + window.kernel[i]));
    shape.push_back(room / window.stride[i] + 1);
  }
  return make_op(op, x.dtype(), shape, {node_of(x)}, window);
}

}  // namespace

#define HEARTH_CONVOLUTIONS(axes)                                                           \
  Tensor conv##axes##d(const Tensor& x, const Tensor& weight, const Tensor& bias,           \
                       const ConvOptions& options) {                                        \
    return conv(x, weight, bias, options, axes, "conv" #axes "d");                          \
  }                                                                                         \
  Tensor conv_transpose##axes##d(const Tensor& x, const Tensor& weight, const Tensor& bias, \
                                 const ConvOptions& options) {                              \
    return conv_transpose(x, weight, bias, options, axes, "conv_transpose" #axes "d");      \
  }                                                                                         \
  Tensor max_pool##axes##d(const Tensor& x, const PoolOptions& options) {                   \
    return pool(Op::max_pool, x, options, axes, "max_pool" #axes "d");                      \
  }                                                                                         \
  Tensor avg_pool##axes##d(const Tensor& x, const PoolOptions& options) {                   \
    return pool(Op::avg_pool, x, options, axes, "avg_pool" #axes "d");                      \
  }
HEARTH_CONVOLUTIONS(1)
HEARTH_CONVOLUTIONS(2)
HEARTH_CONVOLUTIONS(3)
#undef HEARTH_CONVOLUTIONS

}  // namespace hearth
