// Occupancy from registers and LDS.
#include "tool/occupancy.h"

#include <algorithm>

namespace hipemu::tool {
namespace {

uint32_t divide_up(uint32_t a, uint32_t b) { return (a + b - 1) / b; }

// Waves that the vector registers of a SIMD hold.
int waves_by_vector_registers(const Kernel& kernel, const Chip& chip) {
  // The metadata counts accumulation registers too where both share a file; else the larger file decides.
  uint32_t registers =
      chip.unified_vgprs ? kernel.vgpr_count : std::max(kernel.vgpr_count, kernel.agpr_count);
  uint32_t total = uint32_t(chip.vector_registers), granule = uint32_t(chip.vector_register_granule);
  // The chip's numbers are for its usual wave; a wave of 64 lanes on RDNA takes two rows for each register.
  if (chip.wave_size == 32 && kernel.wavefront_size == 64) total /= 2, granule /= 2;
  registers = divide_up(std::max(registers, 1u), granule) * granule;
  return int(total / registers);
}

// Waves on the fullest SIMD when as many blocks run as the LDS of a unit holds.
int waves_by_lds(const Kernel& kernel, const Chip& chip, uint32_t block_size) {
  uint32_t simds = uint32_t(chip.simds_per_unit), lds = chip.lds_per_unit;
  constexpr uint32_t workgroup_processor_mode = 1u << 29;
  if (chip.generation != Generation::gfx9 && !(kernel.descriptor.rsrc1 & workgroup_processor_mode))
    simds /= 2, lds /= 2;  // a block stays on one of the two compute units
  const uint32_t used = kernel.descriptor.group_segment_size;
  if (used > chip.lds_per_block) return 0;
  const uint32_t blocks = lds / used;
  return int(divide_up(blocks * divide_up(block_size, kernel.wavefront_size), simds));
}

}  // namespace

Occupancy occupancy(const Kernel& kernel, const Chip& chip, uint32_t block_size) {
  Occupancy result{chip.waves_per_simd, "waves"};
  const auto limit = [&](int waves, std::string_view reason) {
    if (waves < result.waves) result = {waves, reason};
  };
  limit(waves_by_vector_registers(kernel, chip), "VGPRs");
  if (chip.scalar_registers > 0 && kernel.sgpr_count > 0)
    limit(chip.scalar_registers / int(kernel.sgpr_count), "SGPRs");
  if (kernel.descriptor.group_segment_size > 0) limit(waves_by_lds(kernel, chip, block_size), "LDS");
  return result;
}

}  // namespace hipemu::tool
