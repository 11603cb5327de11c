// Kernels of the user's own: from tensors to pointers.
#include "hearth/kernel.h"

#include <fmt/format.h>

#include "device/backend.h"
#include "gpu/compiler.h"
#include "gpu/kernel_cache.h"
#include "hearth/error.h"
#include "tensor/variable.h"

namespace hearth {

GpuKernel::GpuKernel(std::shared_ptr<const LoadedKernel> loaded, Device device, std::string name)
    : loaded_(std::move(loaded)), device_(device), name_(std::move(name)) {}

int GpuKernel::registers() const { return loaded_->resources().registers; }
int GpuKernel::shared_bytes() const { return loaded_->resources().shared_bytes; }
int GpuKernel::spilled_bytes() const { return loaded_->resources().spilled_bytes; }
int GpuKernel::most_threads() const { return loaded_->resources().most_threads; }

void GpuKernel::launch_values(const LaunchSizes& sizes, std::span<const Value> values) const {
  std::vector<void*> pointers;  // of the tensors; reserved, because addresses of its elements are taken
  pointers.reserve(values.size());
  std::vector<KernelValue> arguments;
  for (const Value& value : values) {
    if (value.tensor == nullptr) {
      arguments.push_back({value.data, value.bytes});
      continue;
    }
    const Tensor& tensor = value.tensor->eval();
    const Node& node = *node_of(tensor, "launch");
    if (!(tensor.device() == device_))
      throw DeviceError(fmt::format("[launch] argument {} of {} is on {}, the kernel on {}", arguments.size(),
                                    name_, to_string(tensor.device()), to_string(device_)));
    if (!is_contiguous(node.shape, node.storage.strides))
      throw ShapeError(fmt::format("[launch] argument {} of {} is not dense; make it contiguous() first",
                                   arguments.size(), name_));
    pointers.push_back(static_cast<char*>(node.storage.buffer->data) +
                       storage_bytes(node.dtype, node.storage.offset));
    arguments.push_back({&pointers.back(), sizeof(void*)});
  }
  const auto array = [](const LaunchSizes::Extent& extent) {
    return std::array<unsigned, 3>{extent.x, extent.y, extent.z};
  };
  loaded_->launch(array(sizes.blocks), array(sizes.threads), sizes.shared_bytes, arguments);
}

GpuKernel compile_kernel(const std::string& source, const std::string& name, Device device,
                         const std::vector<std::string>& options) {
  return {backend(device).load_kernel(source, name, options), device, name};
}

KernelCacheStats kernel_cache_stats() {
  const gpu::CompilerStats stats = gpu::compiler_stats();
  return {stats.compilations, stats.memory_hits, stats.disk_hits, stats.errors, stats.seconds};
}

void clear_kernel_cache() { gpu::kernel_cache().clear(); }

}  // namespace hearth
