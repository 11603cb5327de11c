// What the copy engine of sm_90 is told of an operand (kernels/warpgroup.h).
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/device.h"
#include "hearth/dtype.h"

namespace hearth::gpu {

struct alignas(64) TensorMap {
  std::uint64_t words[16];
};

struct TensorAxis {
  std::int64_t size, stride;  // in elements; the stride counts where there is more than one
  std::uint32_t box;          // elements that are copied at a time
};

// Whether the engine can read an operand of 16-bit elements with these strides, from an address that is a
// multiple of 16. The innermost axis, which comes first, is dense.
bool takes_axes(const std::vector<TensorAxis>& axes);
// Of f16 or bf16. Boxes are 64 elements of the innermost axis wide and become panels of kernels/warpgroup.h.
TensorMap tensor_map(const GpuDevice& device, DType dtype, void* pointer,
                     const std::vector<TensorAxis>& axes);

// Whether there is such an engine.
bool has_copy_engine(const GpuDevice& device);

}  // namespace hearth::gpu
