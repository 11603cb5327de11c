// The AMD chips that can be emulated: what a program may ask about them, as data.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace hipemu {

enum class Generation : uint8_t { gfx9, gfx10, gfx11, gfx12 };

struct Chip {
  std::string_view processor;       // "gfx1100"
  std::string_view target;          // with features, as hipDeviceProp_t::gcnArchName has it
  std::string_view marketing_name;  // of a real card with this chip
  Generation generation;
  int wave_size;      // that HIP uses
  int compute_units;  // as hipDeviceAttributeMultiprocessorCount counts them: WGPs on RDNA
  int simds_per_unit;
  int waves_per_simd;
  int vector_registers;  // 32-bit registers per lane and SIMD, for occupancy
  int vector_register_granule;
  int scalar_registers;  // per SIMD; 0 where they do not limit occupancy
  uint32_t lds_per_block;
  uint32_t lds_per_unit;
  uint64_t memory_bytes;  // of the emulated card, as reported; what can be had depends on the host
  int clock_khz, memory_clock_khz, memory_bus_bits;
  uint32_t l2_bytes;
  bool unified_vgprs;  // AGPRs follow the VGPRs in one file (gfx90a and later CDNA)
  bool has_mfma;
  bool has_wmma;
  bool packed_fp32;  // v_pk_fma_f32
  bool architected_flat_scratch;
  bool fp8_is_fnuz;  // gfx942: E4M3 and E5M2 without negative zero
};

std::span<const Chip> chips();
const Chip* find_chip(std::string_view processor);  // null when unknown

}  // namespace hipemu
