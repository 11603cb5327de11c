// Our own kernel for convolutions and their gradients: a plan leaves the choice to make_convolution.
#pragma once

#include "gpu/kernels.h"

namespace hearth::gpu {

std::unique_ptr<Kernel> make_own_convolution(GpuDevice& device, const Step& step);

}  // namespace hearth::gpu
