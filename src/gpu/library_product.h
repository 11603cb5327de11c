// A step's product by a vendor's library, and then the step's expression by our own kernel.
#pragma once

#include <atomic>
#include <functional>

#include "gpu/kernels.h"
#include "gpu/vendor/product_library.h"

namespace hearth::gpu {

// Where a call fails, `own` takes over from then on, and `failed` is told why.
std::unique_ptr<Kernel> make_library_product(GpuDevice& device, const Step& step, const PlainProduct& product,
                                             std::shared_ptr<const ProductCall> call,
                                             std::unique_ptr<Kernel> own,
                                             std::function<void(const std::string& reason)> failed);

// The step's product alone, without its expression.
Step without_expression(const Step& step);

}  // namespace hearth::gpu
