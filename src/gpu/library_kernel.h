// A step's product or convolution by a vendor's library, and then the step's expression by our own kernel.
#pragma once

#include <atomic>
#include <functional>

#include "gpu/kernels.h"
#include "gpu/vendor/vendor_library.h"

namespace hearth::gpu {

// Where a call fails, `own` takes over from then on, and `failed` is told why.
std::unique_ptr<Kernel> make_library_kernel(GpuDevice& device, const Step& step,
                                            std::shared_ptr<const LibraryCall> call,
                                            std::unique_ptr<Kernel> own,
                                            std::function<void(const std::string& reason)> failed);

// The step's product or convolution alone, without its expression.
Step without_expression(const Step& step);

}  // namespace hearth::gpu
