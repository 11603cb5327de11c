// How much of a kernel fits on a chip at once, from its registers and shared memory.
#pragma once

#include "gpu/code_object.h"
#include "gpu/target.h"

namespace hearth::gpu {

struct Occupancy {
  int resident = 0;  // waves per SIMD (AMD), blocks per multiprocessor (NVIDIA)
  int most = 0;      // that fit of a kernel that needs nothing, with blocks of this size
};

// For blocks of `threads`.
Occupancy occupancy(const Target& target, const KernelResources& resources, int threads);

}  // namespace hearth::gpu
