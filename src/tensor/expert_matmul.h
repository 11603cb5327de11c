// The product of a mixture of experts: every row meets the matrices that were chosen for it, and no other.
#pragma once

#include "hearth/tensor.h"

namespace hearth {

// x (n, k, in) with the matrices of weight (experts, out, in) that chosen (n, k), i64, names: -> (n, k, out),
// of the dtype of x (f32, f16, bf16), summed in f32. x may be (n, 1, in): a row then meets all its k
// matrices. The weight is f32, f16, bf16 or in a block format, and dense. An expert that is not there throws
// IndexError when it is computed. There is no gradient.
Tensor expert_matmul(const Tensor& x, const Tensor& weight, const Tensor& chosen);

}  // namespace hearth
