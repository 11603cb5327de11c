// Products whose results go through a norm (Step::normed).
#pragma once

#include "gpu/matmul.h"

namespace hearth::gpu {

std::unique_ptr<Kernel> make_normed_product(GpuDevice& device, const Step& step);

}  // namespace hearth::gpu
