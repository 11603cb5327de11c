// How many waves of a kernel fit on a SIMD at once.
#pragma once

#include <string_view>

#include "code_object/code_object.h"
#include "isa/chip.h"

namespace hipemu::tool {

struct Occupancy {
  int waves = 0;                // per SIMD; 0 when not even one block fits
  std::string_view limited_by;  // "VGPRs", "SGPRs", "LDS"; "waves" when the chip's maximum is reached
};

// For blocks of `block_size` threads and the kernel's own LDS (what is passed at launch comes on top).
Occupancy occupancy(const Kernel& kernel, const Chip& chip, uint32_t block_size);

}  // namespace hipemu::tool
