// How many waves of a kernel fit on a compute unit, and what limits them.
#pragma once

#include <cstdint>
#include <string>

#include "code_object/code_object.h"
#include "isa/chip.h"

namespace hipemu {

struct Occupancy {
  int waves_per_simd = 0;
  int blocks_per_unit = 0;  // per compute unit, or WGP on RDNA
  std::string limited_by;   // "vector registers", "scalar registers", "LDS", "block size" or "the chip"
};

// For blocks of `threads`, which need `dynamic_lds` bytes besides what the kernel declares.
Occupancy occupancy_of(const Kernel& kernel, const Chip& chip, uint32_t threads, uint32_t dynamic_lds);

}  // namespace hipemu
