// How random operations draw from their stream. Every device follows this, so that they agree.
//
// The stream of a seed is a sequence of blocks of four 32-bit words w0 w1 w2 w3: Philox 4x32-10 of the
// block's number, with key words (seed low, seed high) and counter words (number low, number high, 0, 0). An
// operation starts at block `offset`. Element i, in row-major order, comes from
//
//   f32, f16, bf16   block offset + i / 4, word i % 4
//   f64, bits        block offset + i / 2, d = w[2 k] | w[2 k + 1] << 32 with k = i % 2
//
//   random_uniform   f32: (w >> 8) * 2^-24; f16, bf16: the same, rounded towards zero; f64: (d >> 11) * 2^-53
//   random_bits      d >> 1
//   random_normal    elements 2 j and 2 j + 1 are r * cos(2 pi v) and r * sin(2 pi v) with r = sqrt(-2 ln u)
//     f32, f16, bf16   u = float(w) * 2^-32 + 2^-33 of the even element's word (float rounds to nearest),
//                      v = (w >> 8) * 2^-24 of the odd element's; computed in f32
//     f64              u = ((d >> 11) + 1) * 2^-53 of the even element's, v = (d >> 11) * 2^-53 of the odd
//     one's
#pragma once

#include <cstdint>

#include "graph/op.h"
#include "hearth/dtype.h"

namespace hearth {

// Elements that one block gives.
constexpr std::int64_t random_elements_per_block(Op op, DType dtype) {
  return op == Op::random_bits || dtype == DType::f64 ? 2 : 4;
}

// Blocks that `count` elements use up.
constexpr std::uint64_t random_blocks(Op op, DType dtype, std::int64_t count) {
  const std::int64_t per_block = random_elements_per_block(op, dtype);
  return static_cast<std::uint64_t>(count / per_block + (count % per_block != 0));
}

}  // namespace hearth
