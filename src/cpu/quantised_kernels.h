// Vector kernels of quantised weights.
#pragma once

#include <cstdint>

#include "cpu/isa.h"
#include "hearth/dtype.h"

namespace hearth::cpu {

// 32 neighbours of a row of activations, rounded to 8 bits.
struct ActivationBlock {
  float scale;          // NaN where an element is not finite
  std::int16_t sum[2];  // of each half's numbers
  std::int8_t q[32];
};

// Tables go by format, in the order of DType. `count`: elements of a row of weights.
struct QuantisedKernels {
  void (*round)(const float* x, ActivationBlock* out, std::int64_t count);
  void (*dequantise[block_format_count])(const void* blocks, float* out, std::int64_t count);
  // out[i] = the dot product of `weights` with row i of x, for 1 and for 4 rows, `stride` blocks apart.
  using Dot = void (*)(const void* weights, const ActivationBlock* x, std::int64_t stride, float* out,
                       std::int64_t count);
  Dot dot1[block_format_count];
  Dot dot4[block_format_count];
};

}  // namespace hearth::cpu

HEARTH_DECLARE_BYTES_ISA_TABLE(QuantisedKernels, quantised_kernels)
