// Kernels that users wrote.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "device/backend.h"
#include "gpu/device.h"

namespace hearth::gpu {

std::shared_ptr<const LoadedKernel> load_user_kernel(GpuDevice& device, const std::string& source,
                                                     const std::string& name,
                                                     const std::vector<std::string>& options);

}  // namespace hearth::gpu
