// Fetching weights that are read once, ahead of their use.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa/pack.h"

namespace hearth::cpu::HEARTH_ISA {

// In bytes; 0: the machine's own prefetchers are left to it. On x86 they are not enough: two cores of a Xeon,
// which read 33 GB/s, read 19 of q4_0 and 20 of q4_k, 25 with lines fetched 1024 bytes ahead, 29 to 31 with
// 2048 to 8192.
#if defined(__x86_64__)
constexpr std::int64_t fetched_ahead = 4096;
#else
constexpr std::int64_t fetched_ahead = 0;
#endif

// Lines of what is as far ahead of `BYTES` that are read now.
template <std::size_t BYTES>
HEARTH_INLINE void fetch_ahead([[maybe_unused]] const void* at) {
  if constexpr (fetched_ahead > 0)
    for (std::size_t line = 0; line < BYTES; line += 64)
      __builtin_prefetch(static_cast<const char*>(at) + fetched_ahead + line);
}

}  // namespace hearth::cpu::HEARTH_ISA
