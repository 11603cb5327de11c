// Vector kernels of weights whose rows lie in fours (Q4_0x4 and Q4_Kx4 in base/block_formats.h).
//
// An instruction multiplies neighbours of four rows with those of x, and its lanes are columns of the result:
// nothing is added up across lanes, and scales of four columns are one vector. A matrix lies in panels of its
// depth, so that the part of x that meets a panel stays in the cache next to the core: where it does not, the
// machine fetches less of the weights ahead.
#pragma once

#include <cstdint>

#include "cpu/isa.h"
#include "hearth/dtype.h"

namespace hearth::cpu {

inline constexpr std::int64_t repacked_panel = 2048;   // elements; the last may have fewer
inline constexpr std::int64_t most_repacked_rows = 4;  // of x, that weights meet at a time

// `quads` times four rows of `depth` elements, whole blocks.
struct RepackedMatrix {
  void* data;
  std::int64_t quads, depth;
};

// Tables go by format, from DType::q4_0x4 on.
struct RepackedKernels {
  bool there;  // false: there are no instructions for it, and nothing else is set
  // Four rows of blocks as in files, `stride` bytes apart, become `quad` of a matrix.
  void (*repack[repacked_format_count])(const void* blocks, std::int64_t stride, const RepackedMatrix& matrix,
                                        std::int64_t quad);
  // A row as numbers.
  void (*dequantise[repacked_format_count])(const RepackedMatrix& matrix, std::int64_t row, float* out);
  // x as the products take it, rounded to 8 bits, whole blocks of one row or of several; and how many bytes
  // of that 256 elements become.
  void (*round[repacked_format_count])(const float* x, void* out, std::int64_t count);
  std::int64_t rounded_bytes[repacked_format_count];
  // Products of one rounded row or a few, so many as the place in the list says, with fours [first, first +
  // count) of a matrix: out[r * stride + column], from the first of those columns on.
  using MultiplyRows = void (*)(const RepackedMatrix& matrix, std::int64_t first, std::int64_t count,
                                const void* x, float* out, std::int64_t stride);
  MultiplyRows multiply_rows[most_repacked_rows][repacked_format_count];
  std::int64_t few_rows;  // up to which they are faster than products in tiles
};

}  // namespace hearth::cpu

HEARTH_DECLARE_BYTES_ISA_TABLE(RepackedKernels, repacked_kernels)
