// The GPU's kernels, by subject. Each function makes a step ready, or throws DTypeError where there is none.
#pragma once

#include <memory>

#include "device/step.h"
#include "gpu/device.h"

namespace hearth::gpu {

std::unique_ptr<Kernel> make_elementwise(GpuDevice& device, const Step& step);

}  // namespace hearth::gpu
