// Which way a product is computed: by one of our own kernels or by a vendor's library.
#pragma once

#include <string>

#include "gpu/kernels.h"

namespace hearth::gpu {

// What the tuning file says is fastest. Where it says nothing: with Config::enable_tuning or the level
// `aggressive`, the ways are measured now; otherwise a library that may be used by default takes large
// products, after its result was compared with our own kernel's, once per shape.
std::unique_ptr<Kernel> choose_product(GpuDevice& device, const Step& step);

// A way by its name: "own", "own mma_large", "cuBLASLt 13.1.0 #0". Null where there is none of that name.
std::unique_ptr<Kernel> make_product(GpuDevice& device, const Step& step, const std::string& name);

}  // namespace hearth::gpu
