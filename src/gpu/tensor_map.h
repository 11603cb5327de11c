// What the copy engine of sm_90 is told of an operand (kernels/warpgroup.h).
#pragma once

#include <cstdint>
#include <vector>

#include "gpu/device.h"
#include "hearth/dtype.h"

namespace hearth::gpu {

#include "gpu/kernels/tensor_map_arguments.h"

struct TensorAxis {
  std::int64_t size, stride;  // in elements; the stride counts where there is more than one
  std::uint32_t box;          // elements that are copied at a time
};

// Whether the engine can read an operand of 16-bit elements with these axes, from an address that is a
// multiple of 16: none is empty, the innermost one, which comes first, is dense, and nothing is repeated by a
// stride of 0.
bool takes_axes(const std::vector<TensorAxis>& axes);
// Of f16 or bf16. Boxes are 64 elements of the innermost axis wide and become panels of kernels/warpgroup.h.
TensorMap tensor_map(const GpuDevice& device, DType dtype, void* pointer,
                     const std::vector<TensorAxis>& axes);

// Of bytes, rows that follow each other; boxes lie in shared memory as a row behind the other. Sizes in bytes
// are multiples of 16.
TensorMap byte_map(const GpuDevice& device, void* pointer, std::int64_t row_bytes, std::int64_t rows,
                   std::int64_t box_bytes, std::int64_t box_rows);

// Whether there is such an engine.
bool has_copy_engine(const GpuDevice& device);

}  // namespace hearth::gpu
