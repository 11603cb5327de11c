// Rows that a kernel rounds to bytes for the product behind it, whose blocks would each round all of them
// again. Behind the bytes of all rows there is a Note for each RUN neighbours.
#pragma once

#include "gpu.h"

namespace rounded {

// Four numbers of a lane as bytes, with one scale for all numbers of LANES neighbouring lanes.
struct Quad {
  u32 bytes;
  i32 sum;    // of the lane's bytes
  f32 scale;  // NaN where a number is not finite
};
template <u32 LANES>
DEVICE Quad round_quad(const Packet<f32, 4>& numbers) {
  u32 most = 0;
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const u32 magnitude =
        bit_cast<u32>(numbers.element[e]) & 0x7fffffffu;  // NaN above infinity above numbers
    most = magnitude > most ? magnitude : most;
  }
#pragma unroll
  for (u32 mask = 1; mask < LANES; mask *= 2) {
    const u32 other = from_lane_xor(most, mask);
    most = other > most ? other : most;
  }
  const bool finite = most < 0x7f800000u;
  const f32 largest = bit_cast<f32>(most), step = largest * (1.0f / 127.0f);
  const f32 by = finite && largest >= 1e-30f ? fast_reciprocal(step) : 0.0f;
  Quad quad{0, 0, finite ? step : bit_cast<f32>(0x7fc00000u)};
#pragma unroll
  for (int e = 0; e < 4; ++e) {
    const i32 number = finite ? (i32)rintf(numbers.element[e] * by) : 0;
    quad.bytes |= ((u32)number & 255) << 8 * e;
    quad.sum += number;
  }
  return quad;
}

struct Note {
  f32 scale;    // NaN where a number is not finite
  f32 squares;  // the sum of the numbers' squares, before weights
};

// Rounds `count` of all `elements`, whole runs from number `first` on, by a block that has them in shared
// memory. `weights` (null: ones) are factors of each.
template <u32 RUN>
DEVICE void give(u8* rows, u32 elements, u32 first, u32 count, const f32* numbers, const f32* weights) {
  constexpr u32 lanes = RUN / 4;  // that have a run between them
  static_assert(RUN % 4 == 0 && WAVE % lanes == 0, "a wave has whole runs");
#pragma unroll 1
  for (u32 base = wave() * WAVE; base < count / 4; base += blockDim.x) {
    const bool there = base + lane() < count / 4;
    const u32 at = there ? base + lane() : 0;
    auto quad = reinterpret_cast<const Packet<f32, 4>*>(numbers)[at];
    f32 squares = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) squares = ::fmaf(quad.element[e], quad.element[e], squares);
    if (weights != nullptr) {
      const auto by = reinterpret_cast<const Packet<f32, 4>*>(weights)[at];
#pragma unroll
      for (int e = 0; e < 4; ++e) quad.element[e] *= by.element[e];
    }
#pragma unroll
    for (u32 mask = 1; mask < lanes; mask *= 2) squares += from_lane_xor(squares, mask);
    const Quad result = round_quad<lanes>(quad);
    if (!there) continue;
    *reinterpret_cast<u32*>(rows + first + at * 4) = result.bytes;
    if (lane() % lanes == 0)
      reinterpret_cast<Note*>(rows + elements)[first / RUN + at / lanes] = {result.scale, squares};
  }
}

}  // namespace rounded
