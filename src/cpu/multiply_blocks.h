// The product with weights in blocks or in 16 bits, for the kernels that contain one.
#pragma once

#include <cstdint>

#include "hearth/dtype.h"

namespace hearth::cpu {

// out (rows, columns) = x (rows, depth) @ transposed(weights (columns, depth)), all dense, on the pool's
// threads. Sizes fit an int.
void multiply_blocks(DType format, const float* x, const void* weights, float* out, std::int64_t rows,
                     std::int64_t columns, std::int64_t depth);

}  // namespace hearth::cpu
