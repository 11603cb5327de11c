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

#if defined(__aarch64__)
// Dot products of bytes came with Armv8.2, so there is one more variant of these alone.
namespace hearth::cpu {
namespace baseline {
extern const QuantisedKernels quantised_kernels_table;
}
namespace dotprod {
extern const QuantisedKernels quantised_kernels_table;
}
inline const QuantisedKernels& quantised_kernels() {
  static const QuantisedKernels& chosen =
      has_dotprod() ? dotprod::quantised_kernels_table : baseline::quantised_kernels_table;
  return chosen;
}
}  // namespace hearth::cpu
#else
HEARTH_DECLARE_ISA_TABLE(QuantisedKernels, quantised_kernels)
#endif
