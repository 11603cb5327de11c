// The Philox 4x32-10 generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
#pragma once

#include <cstdint>

#include "cpu/isa/math.h"

namespace hearth::cpu::HEARTH_ISA {

struct PhiloxBlock {
  std::uint32_t w0, w1, w2, w3;
};

HEARTH_INLINE PhiloxBlock philox_block(PhiloxBlock counter, std::uint32_t k0, std::uint32_t k1) {
  auto [c0, c1, c2, c3] = counter;
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t(0xd2511f53u) * c0, b = std::uint64_t(0xcd9e8d57u) * c2;
    c0 = static_cast<std::uint32_t>(b >> 32) ^ c1 ^ k0;
    c1 = static_cast<std::uint32_t>(b);
    c2 = static_cast<std::uint32_t>(a >> 32) ^ c3 ^ k1;
    c3 = static_cast<std::uint32_t>(a);
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {c0, c1, c2, c3};
}

}  // namespace hearth::cpu::HEARTH_ISA
