// A convolution as libraries know it: dense tensors with two or three spatial axes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "device/step.h"

namespace hearth::gpu {

// Of x (images, channels, ...) with w (results, channels / groups, ...) to y (images, results, ...); the
// gradients are two of the three to the third.
struct PlainConvolution {
  Op op = Op::conv;  // conv: x, w -> y. conv_input_grad: dy, w -> dx. conv_weight_grad: x, dy -> dw
  DType dtype = DType::f32;
  Shape a, b, result;               // as the step has them; one spatial axis becomes two
  Shape stride, padding, dilation;  // per spatial axis
  std::int64_t groups = 1;

  const Shape& x() const { return op == Op::conv_input_grad ? result : a; }
  const Shape& w() const { return op == Op::conv_weight_grad ? result : b; }
  const Shape& y() const { return op == Op::conv ? result : op == Op::conv_input_grad ? a : b; }
  double multiplications() const;
  std::int64_t depth() const;  // products that make one element of the result
  std::string text() const;    // "conv f32 x 64x8x28x28 w 16x8x3x3 stride 1x1 padding 0x0"
};

// Nothing where an operand is not dense, or empty, or larger than libraries count, or not of f32, f16 or
// bf16.
std::optional<PlainConvolution> plain_convolution(const Step& step);

}  // namespace hearth::gpu
