// Rounding activations to 8 bits.
#pragma once

#include <bit>
#include <cstdint>

#include "cpu/isa/pack.h"

namespace hearth::cpu::HEARTH_ISA {

// 32 neighbours: x = scale * q.
struct RoundedRun {
  float scale;           // NaN where an element is not finite
  std::int32_t sums[2];  // of q, of each half
};

HEARTH_INLINE RoundedRun round_run(const float* x, std::int8_t* rounded) {
  // As integers, so that NaN counts as larger than infinity, and both as larger than numbers.
  std::uint32_t largest = 0;
  for (int i = 0; i < 32; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  const bool finite = largest < 0x7f800000u;
  const float most = std::bit_cast<float>(largest);
  const float by = finite && most >= 1e-30f ? 127.0f / most : 0.0f;
  std::int32_t q[32];
  for (int i = 0; i < 32; ++i) q[i] = finite ? static_cast<std::int32_t>(__builtin_rintf(x[i] * by)) : 0;
  RoundedRun run = {finite ? most / 127.0f : std::bit_cast<float>(0x7fc00000u), {0, 0}};
  for (int i = 0; i < 16; ++i) run.sums[0] += q[i];
  for (int i = 16; i < 32; ++i) run.sums[1] += q[i];
  for (int i = 0; i < 32; ++i) rounded[i] = static_cast<std::int8_t>(q[i]);
  return run;
}

}  // namespace hearth::cpu::HEARTH_ISA
