// Products of many rows by a unit that multiplies matrices (x86's AMX).
#pragma once

#include <cstdint>

#include "hearth/dtype.h"

namespace hearth::cpu {

// out (rows, columns) = x (rows, depth) @ transposed(weights (columns, depth)), all dense, with weights in
// blocks, repacked or not, or in 16 bits, on the pool's threads. Only where has_matrix_unit() (cpu/isa.h).
void multiply_by_matrix_unit(DType format, const float* x, const void* weights, float* out, std::int64_t rows,
                             std::int64_t columns, std::int64_t depth);

}  // namespace hearth::cpu
