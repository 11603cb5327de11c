// Vector kernels of quantised weights.
#pragma once

#include <cstdint>

#include "cpu/isa.h"
#include "hearth/dtype.h"

namespace hearth::cpu {

// Rows of activations, each run of 32 neighbours rounded to 8 bits: x = scale * q.
struct RoundedRows {
  std::int8_t* q;  // (rows, depth)
  float* scale;    // (rows, depth / 32); NaN where an element is not finite
  float* sum;      // (rows, depth / 16), of scale * q
  float* whole;    // (rows, depth / 32), likewise
};

// Tables go by format, in the order of DType. `count`: elements of a row of weights.
struct QuantisedKernels {
  void (*round)(const float* x, RoundedRows out, std::int64_t count);
  void (*dequantise[block_format_count])(const void* blocks, float* out, std::int64_t count);
  // Products of one row of x, or of four, with `columns` rows of weights: out[r * stride + column].
  using MultiplyRows = void (*)(const void* weights, std::int64_t columns, RoundedRows x, float* out,
                                std::int64_t stride, std::int64_t count);
  MultiplyRows multiply_row[block_format_count];
  MultiplyRows multiply_four_rows[block_format_count];
};

}  // namespace hearth::cpu

HEARTH_DECLARE_BYTES_ISA_TABLE(QuantisedKernels, quantised_kernels)
