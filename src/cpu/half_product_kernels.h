// Vector kernels of products with weights in 16 bits.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace hearth::cpu {

// Products of one row of x, or of four, `depth` elements each, with `columns` rows of weights: out[r * stride
// + column]. Weights are widened, so that nothing is rounded but sums.
using MultiplyHalfRows = void (*)(const void* weights, std::int64_t columns, const float* x, float* out,
                                  std::int64_t stride, std::int64_t depth);

struct HalfProductKernels {  // by the dtype of the weights - DType::f16
  MultiplyHalfRows multiply_row[2];
  MultiplyHalfRows multiply_four_rows[2];
};

}  // namespace hearth::cpu

HEARTH_DECLARE_ISA_TABLE(HalfProductKernels, half_product_kernels)
