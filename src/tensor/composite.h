// What the functions built from other functions share.
#pragma once

#include "hearth/ops.h"

namespace hearth {

// x's own dtype where it is floating, else f32.
inline DType floating_dtype(const Tensor& x) { return is_floating(x.dtype()) ? x.dtype() : DType::f32; }

// The dtype in which a result for x is worked out where rounding would add up: f64 for f64, else f32.
inline DType wide_dtype(const Tensor& x) { return x.dtype() == DType::f64 ? DType::f64 : DType::f32; }

// Throws DTypeError unless x is floating.
void check_floating(const Tensor& x, const char* operation);

// Square root with slope 0 at 0, so that a norm or a deviation of constant data has gradient 0, not NaN.
Tensor sqrt_flat_at_zero(const Tensor& x);

// Over `axes`, which stay as size 1, in wide_dtype(x): the mean, and the sum of the squared distances from
// it.
struct Moments {
  Tensor mean, squares;
  std::int64_t count;  // elements per result
};
Moments moments(const Tensor& x, const Axes& axes);

// A vector with one value per channel, shaped to broadcast against x along `axis`: (1, C, 1, ...).
Tensor along_axis(const Tensor& vector, const Tensor& x, std::int64_t axis);

// What x was before it was cast from f16 or bf16 to f32 (and perhaps reshaped), or x itself: for operations
// that compute in f32 whatever they read.
Tensor before_widening(const Tensor& x);

// 0, 1, ... count - 1 (i64) on x's device.
Tensor positions_for(const Tensor& x, std::int64_t count);

}  // namespace hearth
