// Vector kernels of weights whose rows lie in fours (Q4_0x4 and Q4_Kx4 in base/block_formats.h).
//
// An instruction multiplies neighbours of four rows with those of x, and its lanes are columns of the result:
// nothing is added up across lanes, and scales of four columns are one vector.
#pragma once

#include <cstdint>

#include "cpu/isa.h"
#include "hearth/dtype.h"

namespace hearth::cpu {

// Tables go by format, from DType::q4_0x4 on. `count`: elements of a row, whole blocks.
struct RepackedKernels {
  bool there;  // false: there are no instructions for it, and nothing else is set
  // Four rows of blocks as in files, `stride` bytes apart.
  void (*repack[repacked_format_count])(const void* blocks, std::int64_t stride, void* quads,
                                        std::int64_t count);
  // Row 0 to 3 of four as numbers.
  void (*dequantise[repacked_format_count])(const void* quads, int row, float* out, std::int64_t count);
  // A row of x as the products take it, rounded to 8 bits; and how many bytes of that 256 elements become.
  void (*round[repacked_format_count])(const float* x, void* out, std::int64_t count);
  std::int64_t rounded_bytes[repacked_format_count];
  // Products of one rounded row, or of four, with `quads` times four rows of weights: out[r * stride +
  // column].
  using MultiplyRows = void (*)(const void* weights, std::int64_t quads, const void* x, float* out,
                                std::int64_t stride, std::int64_t count);
  MultiplyRows multiply_row[repacked_format_count];
  MultiplyRows multiply_four_rows[repacked_format_count];
};

}  // namespace hearth::cpu

HEARTH_DECLARE_BYTES_ISA_TABLE(RepackedKernels, repacked_kernels)
