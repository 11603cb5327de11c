// Where LDS and scratch appear in the flat address space, and how kernels are told of their scratch. Both
// apertures lie above every address of the host.
#pragma once

#include <array>
#include <cstdint>

#include "exec/wave.h"

namespace hipemu {

// The high halves of addresses. src_shared_base is shared_aperture << 32.
constexpr uint32_t shared_aperture = 0x10000, private_aperture = 0x20000;

// Writes the registers that hold the apertures. Their limits are the last address of 4 GiB.
inline void set_apertures(Wave& wave) {
  wave.set_scalar64(scalar::shared_base, static_cast<uint64_t>(shared_aperture) << 32);
  wave.set_scalar64(scalar::shared_limit, static_cast<uint64_t>(shared_aperture) << 32 | 0xffffffffu);
  wave.set_scalar64(scalar::private_base, static_cast<uint64_t>(private_aperture) << 32);
  wave.set_scalar64(scalar::private_limit, static_cast<uint64_t>(private_aperture) << 32 | 0xffffffffu);
}

// The buffer descriptor (private_segment_buffer, s[0:3] of gfx90a and gfx1030) through which a wave reaches
// its scratch. Swizzled: four bytes of each lane in turn. The register with the wave's offset into scratch
// must be 0. Buffer instructions that find this base with swizzling and the lane's number added go to
// Wave::scratch.
inline std::array<uint32_t, 4> scratch_descriptor(const Wave& wave) {
  const uint64_t base = reinterpret_cast<uint64_t>(wave.scratch);
  const uint32_t index_stride = wave.lanes == 64 ? 3 : 2;
  constexpr uint32_t swizzle = 1u << 31, add_lane = 1u << 23;
  return {static_cast<uint32_t>(base), static_cast<uint32_t>(base >> 32 & 0xffff) | swizzle, 0xffffffffu,
          index_stride << 21 | add_lane};
}

}  // namespace hipemu
