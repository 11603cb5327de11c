// Which way a convolution or a gradient of one is computed; see contraction_choice.h.
#pragma once

#include <string>

#include "gpu/kernels.h"

namespace hearth::gpu {

std::unique_ptr<Kernel> choose_convolution(GpuDevice& device, const Step& step);

// A way by its name. Null where there is none of that name, or none but ours can compute the step.
std::unique_ptr<Kernel> make_convolution(GpuDevice& device, const Step& step, const std::string& name);

}  // namespace hearth::gpu
