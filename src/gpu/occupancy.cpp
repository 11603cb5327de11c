// The rules by which chips share out registers and shared memory. Figures of AMD: LLVM's AMDGPU target; of
// NVIDIA: the CUDA programming guide, compute capabilities.
#include "gpu/occupancy.h"

#include <algorithm>
#include <cstdlib>

namespace hearth::gpu {
namespace {

int rounded_up(int value, int unit) { return (value + unit - 1) / unit * unit; }

int shared_blocks(int available, std::uint32_t needed) {
  return static_cast<int>(static_cast<std::uint32_t>(available) / needed);
}

struct AmdLimits {
  int waves;      // of a SIMD
  int registers;  // per lane of a SIMD
  int unit;       // in which they are given out
  int simds;      // that share `shared` bytes
  int shared;
};

AmdLimits amd_limits(const Target& target) {
  const auto is = [&](const char* prefix) { return target.architecture.starts_with(prefix); };
  if (is("gfx90a") || is("gfx94") || is("gfx95")) return {8, 512, 8, 4, is("gfx95") ? 160 << 10 : 64 << 10};
  if (is("gfx9")) return {10, 256, 4, 4, 64 << 10};
  if (target.vector_registers == 1536) return {16, 1536, 24, 2, 64 << 10};
  if (is("gfx101")) return {20, 1024, 8, 2, 64 << 10};
  return {16, 1024, 16, 2, 64 << 10};
}

Occupancy amd(const Target& target, const KernelResources& resources, int threads) {
  const AmdLimits limits = amd_limits(target);
  Occupancy result{.resident = limits.waves, .most = limits.waves};
  const int registers = rounded_up(std::max(1, resources.vector_registers), limits.unit);
  result.resident = std::min(result.resident, limits.registers / registers);
  if (resources.shared_bytes > 0) {
    const int waves = rounded_up(threads, target.wave_size) / target.wave_size;
    const int blocks = shared_blocks(limits.shared, resources.shared_bytes);
    result.resident = std::min(result.resident, rounded_up(blocks * waves, limits.simds) / limits.simds);
  }
  return result;
}

Occupancy nvidia(const Target& target, const KernelResources& resources, int threads) {
  const int capability = std::atoi(target.architecture.c_str() + 3);
  const bool large = capability == 80 || capability == 90 || capability == 100 || capability == 103;
  const int most_threads = capability == 75 ? 1024 : large || capability < 80 ? 2048 : 1536;
  const int most_blocks = large || capability == 70 ? 32 : capability >= 89 ? 24 : 16;
  const int shared_per_processor = static_cast<int>(target.shared_bytes) + 1024;
  Occupancy result;
  result.most = std::min(most_blocks, most_threads / std::max(threads, 32));
  result.resident = result.most;
  constexpr int registers_per_processor = 65'536, registers_unit = 256;  // per wave
  const int waves = rounded_up(threads, 32) / 32;
  const int registers = rounded_up(std::max(1, resources.vector_registers) * 32, registers_unit) * waves;
  result.resident = std::min(result.resident, registers_per_processor / registers);
  if (resources.shared_bytes > 0)  // each block takes 1 KiB for the system
    result.resident =
        std::min(result.resident, shared_blocks(shared_per_processor, resources.shared_bytes + 1024));
  return result;
}

}  // namespace

Occupancy occupancy(const Target& target, const KernelResources& resources, int threads) {
  return target.amd ? amd(target, resources, threads) : nvidia(target, resources, threads);
}

}  // namespace hearth::gpu
