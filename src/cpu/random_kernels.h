// The vector kernels of random operations.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace hearth::cpu {

struct RandomKernels {
  // Writes `count` blocks of four words, beginning with block number `first` (graph/random.h).
  void (*philox)(std::uint64_t seed, std::uint64_t first, std::uint32_t* words, std::int64_t count);
  // Turns an even number of words into as many standard normal numbers.
  void (*normal)(const std::uint32_t* words, float* out, std::int64_t count);
};

}  // namespace hearth::cpu

HEARTH_DECLARE_ISA_TABLE(RandomKernels, random_kernels)
