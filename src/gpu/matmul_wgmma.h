// Products by the matrix unit of sm_90.
#pragma once

#include "gpu/matmul.h"

namespace hearth::gpu {

bool wgmma_fits(const GpuDevice& device, const Step& step);
// Whether its kernels can turn heads among their columns (Step::turned).
bool wgmma_turns(const GpuDevice& device, const Step& step);
// Whether they had better give their results normed (Step::normed) than leave that to another kernel.
bool wgmma_norms(const GpuDevice& device, const Step& step);
// `variant`: one of wgmma's, or automatic. `otherwise` computes the same for addresses that the copy engine
// does not take.
std::unique_ptr<Kernel> make_wgmma(GpuDevice& device, const Step& step, MatmulVariant variant,
                                   std::unique_ptr<Kernel> otherwise);

}  // namespace hearth::gpu
