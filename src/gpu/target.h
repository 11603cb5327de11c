// Target: what kernels need to know of the chip they are written for. Known by name alone, so that kernels
// can be compiled for a chip that is not there.
#pragma once

#include <cstddef>
#include <string>

namespace hearth::gpu {

// How a chip multiplies small matrices.
enum class MatrixUnit {
  none,     // multiply-add per lane
  wmma11,   // gfx11: operands replicated in both halves of a wave
  wmma12,   // gfx12
  mfma90a,  // gfx90a: bf16 with K = 16, i8 with K = 16
  mfma942,  // gfx942 and later: i8 and fp8 with K = 32
  mma80,    // sm_80 and later: mma.sync
  wgmma90,  // sm_90: also wgmma by four waves from shared memory
};

// 8-bit floats that the matrix unit reads.
enum class Float8 { none, ocp, fnuz };

struct Target {
  std::string architecture;  // "gfx1100", "sm_90"
  bool amd = true;
  int wave_size = 32;
  MatrixUnit matrix = MatrixUnit::none;
  Float8 float8 = Float8::none;
  bool early_start = false;             // a kernel can be started while the one before it still runs
  bool int8_dot = false;                // four products of bytes in one instruction
  std::size_t shared_bytes = 64 << 10;  // that a block may have
  int vector_registers = 1024;          // per lane, shared by the waves of a SIMD (AMD)
};

// The record of an architecture ("gfx942:sramecc+:xnack-" counts as gfx942). Chips nobody has heard of get
// what their family has at least.
Target target_of(const std::string& architecture);

}  // namespace hearth::gpu
