// Convolution on the CPU: raw kernels over dense row-major arrays.
//
// All functions overwrite their result, run on the thread pool (base/thread_pool.h) and give the same bits
// whatever the number of threads. Scratch memory (padded copies of a few images, packed weights) comes from
// buffers that each thread keeps between calls (cpu/scratch.h).
#pragma once

#include <cstdint>

namespace hearth::cpu {

// An N-D convolution of spatial rank 1 to 3, stored as 3 axes; missing leading axes have size 1, kernel 1,
// stride 1, padding 0 and dilation 1.
//
// Output position o reads input positions o * stride + k * dilation - padding, k < kernel; what falls outside
// the input is zero. The caller chooses `out`, so padding on the high side may differ from the low side and
// may be negative.
struct ConvShape {
  std::int64_t batch, groups, in_channels, out_channels;  // channels in total, over all groups
  std::int64_t in[3], kernel[3], out[3], stride[3];
  std::int64_t padding[3];  // on the low side
  std::int64_t dilation[3];
};

// y (batch, out_channels, out...) = x (batch, in_channels, in...) convolved with w (out_channels, in_channels
// / groups, kernel...), plus bias (out_channels) unless it is null.
void conv_forward(const ConvShape& shape, const float* x, const float* w, const float* bias, float* y);
void conv_forward(const ConvShape& shape, const double* x, const double* w, const double* bias, double* y);

// dx = the gradient with respect to x, given dy = the one with respect to y. Also computes a transposed
// convolution, whose input is dy and whose output is dx.
void conv_input_gradient(const ConvShape& shape, const float* dy, const float* w, float* dx);
void conv_input_gradient(const ConvShape& shape, const double* dy, const double* w, double* dx);

// dw = the gradient with respect to w. An infinity or a NaN in x may make all of its channel's gradients NaN.
void conv_weight_gradient(const ConvShape& shape, const float* x, const float* dy, float* dw);
void conv_weight_gradient(const ConvShape& shape, const double* x, const double* dy, double* dw);

}  // namespace hearth::cpu
