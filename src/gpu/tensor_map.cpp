#include "gpu/tensor_map.h"

#include <algorithm>

namespace hearth::gpu {

bool takes_axes(const std::vector<TensorAxis>& axes) {
  constexpr std::int64_t most_elements = std::int64_t{1} << 31, most_stride = std::int64_t{1} << 39;
  return axes.front().stride == 1 && std::all_of(axes.begin(), axes.end(), [&](const TensorAxis& axis) {
           const bool outer = &axis != &axes.front() && axis.size > 1;
           return axis.size > 0 && axis.size < most_elements &&
                  (!outer || (axis.stride > 0 && axis.stride % 8 == 0 && axis.stride < most_stride));
         });
}

TensorMap tensor_map(const GpuDevice& device, DType dtype, void* pointer,
                     const std::vector<TensorAxis>& axes) {
  constexpr std::size_t most = 5;
  std::uint64_t sizes[most] = {}, strides[most] = {};
  std::uint32_t box[most] = {}, steps[most] = {};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    sizes[i] = static_cast<std::uint64_t>(axes[i].size);
    box[i] = axes[i].box;
    steps[i] = 1;
    if (i > 0) strides[i - 1] = axes[i].size > 1 ? static_cast<std::uint64_t>(axes[i].stride) * 2 : 16;
  }
  TensorMap result{};
  constexpr int f16 = 6, bf16 = 9, plain = 0, swizzle_128 = 3, promote_256 = 3, zeros = 0;
  device.driver().check(device.driver().call.encode_tensor_map(
                            &result, dtype == DType::f16 ? f16 : bf16, static_cast<unsigned>(axes.size()),
                            pointer, sizes, strides, box, steps, plain, swizzle_128, promote_256, zeros),
                        "describing an operand");
  return result;
}

TensorMap byte_map(const GpuDevice& device, void* pointer, std::int64_t row_bytes, std::int64_t rows,
                   std::int64_t box_bytes, std::int64_t box_rows) {
  const std::uint64_t sizes[] = {static_cast<std::uint64_t>(row_bytes), static_cast<std::uint64_t>(rows)},
                      strides[] = {static_cast<std::uint64_t>(row_bytes)};
  const std::uint32_t box[] = {static_cast<std::uint32_t>(box_bytes), static_cast<std::uint32_t>(box_rows)},
                      steps[] = {1, 1};
  TensorMap result{};
  constexpr int byte = 0, plain = 0, promote_256 = 3, zeros = 0;
  device.driver().check(device.driver().call.encode_tensor_map(&result, byte, 2, pointer, sizes, strides, box,
                                                               steps, plain, plain, promote_256, zeros),
                        "describing an operand");
  return result;
}

bool has_copy_engine(const GpuDevice& device) {
  return device.target().matrix == MatrixUnit::wgmma90 && device.driver().call.encode_tensor_map != nullptr;
}

}  // namespace hearth::gpu
