// Products that turn heads among their columns (Step::turned).
#pragma once

#include "gpu/matmul.h"

namespace hearth::gpu {

bool turned_fit(const Step& product);

// `variant`: one of wgmma's, or automatic. Throws KernelError where it does not fit.
std::unique_ptr<Kernel> make_turned_product(GpuDevice& device, const Step& step,
                                            MatmulVariant variant = MatmulVariant::automatic);

}  // namespace hearth::gpu
