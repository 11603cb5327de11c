// Max and average pooling on the CPU: raw kernels over dense row-major planes.
//
// All functions overwrite their result, run on the thread pool and give the same bits whatever the number of
// threads.
#pragma once

#include <cstdint>

namespace hearth::cpu {

// Pooling of spatial rank 1 to 3, stored as 3 axes; missing leading axes have size 1, kernel 1, stride 1 and
// padding 0. Output position o covers input positions o * stride - padding + k, k < kernel. Positions outside
// the input are not looked at by max pooling and count as zeros in average pooling.
struct PoolShape {
  std::int64_t planes;  // batch * channels
  std::int64_t in[3], kernel[3], out[3], stride[3];
  std::int64_t padding[3];  // on the low side
};

// The largest value of each window; NaN if there is one in it. A window that lies outside the input gives
// -infinity.
void max_pool_forward(const PoolShape& shape, const float* x, float* y);
void max_pool_forward(const PoolShape& shape, const double* x, double* y);

// dx: each dy goes to the first largest value of its window (the last NaN, if there is one).
void max_pool_backward(const PoolShape& shape, const float* x, const float* dy, float* dx);
void max_pool_backward(const PoolShape& shape, const double* x, const double* dy, double* dx);

// The mean of each window, over the positions inside the input or, if count_include_pad, over those inside
// the input extended by `padding` on both sides. A window with no such position gives zero.
void avg_pool_forward(const PoolShape& shape, bool count_include_pad, const float* x, float* y);
void avg_pool_forward(const PoolShape& shape, bool count_include_pad, const double* x, double* y);

void avg_pool_backward(const PoolShape& shape, bool count_include_pad, const float* dy, float* dx);
void avg_pool_backward(const PoolShape& shape, bool count_include_pad, const double* dy, double* dx);

}  // namespace hearth::cpu
