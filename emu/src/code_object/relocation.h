// The relocation types of AMD GPU code objects that may be left for the loader.
#pragma once

#include <cstdint>

#include "code_object/code_object.h"

namespace hipemu::relocation {

// R_AMDGPU_*
inline constexpr uint32_t none = 0, abs32_lo = 1, abs32_hi = 2, abs64 = 3, rel32 = 4, rel64 = 5, abs32 = 6,
                          rel32_lo = 10, rel32_hi = 11, relative64 = 13;

// Bytes that a relocation of this type writes; 0 when the type is not supported.
constexpr uint32_t width(uint32_t type) {
  switch (type) {
    case abs64:
    case rel64:
    case relative64:
      return 8;
    case abs32_lo:
    case abs32_hi:
    case rel32:
    case abs32:
    case rel32_lo:
    case rel32_hi:
      return 4;
    default:
      return 0;
  }
}

// What to write for a code object that lies `bias` above its virtual addresses. Of the result, the low
// width(type) bytes count.
constexpr uint64_t result(const Relocation& entry, uint64_t bias) {
  const uint64_t target = entry.value + (entry.absolute ? 0 : bias);
  const uint64_t distance = target - (entry.address + bias);
  switch (entry.type) {
    case abs32_hi:
      return target >> 32;
    case rel32:
    case rel64:
    case rel32_lo:
      return distance;
    case rel32_hi:
      return distance >> 32;
    default:
      return target;
  }
}

}  // namespace hipemu::relocation
