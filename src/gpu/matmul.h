// Choosing among the ways to multiply matrices: for the benchmark and for tests; a plan leaves it to the
// step.
#pragma once

#include "gpu/kernels.h"

namespace hearth::gpu {

enum class MatmulVariant {
  automatic,
  fma_small,  // multiply-adds by each thread
  fma_large,
  mma_small,  // the matrix unit, for 16-bit floats and i8
  mma_large,
  wgmma_128,  // the unit of sm_90, in tiles of 128 x 128, 192 or 256
  wgmma_192,
  wgmma_256,
  skinny,  // few rows or columns
};

// Throws KernelError where the variant does not fit the step.
std::unique_ptr<Kernel> make_matmul(GpuDevice& device, const Step& step, MatmulVariant variant);

// Whether `skinny` fits. The operands may differ in dtype: of f32 and 16 bits, f32 comes out.
bool skinny_fits(const Step& step);
// Whether `automatic` is one of wgmma's.
bool wgmma_is_best(const GpuDevice& device, const Step& step);
// Whether a kernel of this product should go on with the halves of its columns (Step::halves).
bool halves_fit(const GpuDevice& device, const Step& product);

}  // namespace hearth::gpu
