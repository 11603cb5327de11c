// The arithmetic of occupancy: registers and LDS are handed out in granules.
#include "exec/occupancy.h"

#include <algorithm>

namespace hipemu {
namespace {

constexpr uint32_t lds_granule = 512;

uint32_t round_up(uint32_t value, uint32_t granule) { return (value + granule - 1) / granule * granule; }

}  // namespace

Occupancy occupancy_of(const Kernel& kernel, const Chip& chip, uint32_t threads, uint32_t dynamic_lds) {
  Occupancy result;
  result.limited_by = "the chip";
  int waves = chip.waves_per_simd;
  const auto limit = [&](int allowed, const char* what) {
    if (allowed >= waves) return;
    waves = allowed;
    result.limited_by = what;
  };
  const uint32_t wave_size =
      kernel.wavefront_size != 0 ? kernel.wavefront_size : static_cast<uint32_t>(chip.wave_size);
  // The metadata counts accumulators into the vector registers on chips with one file for both.
  uint32_t vectors = std::max(kernel.vgpr_count, 1u);
  if (!chip.unified_vgprs) vectors = std::max(vectors, kernel.agpr_count);
  // A wave64 on a chip made for wave32 takes two registers for each.
  const uint32_t per_wave = round_up(vectors, static_cast<uint32_t>(chip.vector_register_granule)) *
                            std::max(1u, wave_size / static_cast<uint32_t>(chip.wave_size));
  limit(chip.vector_registers / static_cast<int>(per_wave), "vector registers");
  if (chip.scalar_registers > 0)
    limit(chip.scalar_registers / static_cast<int>(std::max(kernel.sgpr_count, 1u)), "scalar registers");

  const int waves_per_block = static_cast<int>((std::max(threads, 1u) + wave_size - 1) / wave_size);
  int blocks = waves * chip.simds_per_unit / waves_per_block;
  const uint32_t lds = round_up(kernel.descriptor.group_segment_size + dynamic_lds, lds_granule);
  if (lds > 0 && static_cast<int>(chip.lds_per_unit / lds) < blocks) {
    blocks = static_cast<int>(chip.lds_per_unit / lds);
    result.limited_by = "LDS";
  }
  const int resident = blocks * waves_per_block;
  if (resident < waves * chip.simds_per_unit && result.limited_by == "the chip")
    result.limited_by = "block size";
  result.blocks_per_unit = blocks;
  result.waves_per_simd = std::min(waves, (resident + chip.simds_per_unit - 1) / chip.simds_per_unit);
  return result;
}

}  // namespace hipemu
