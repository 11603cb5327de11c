// Places given by data.
#include <fmt/format.h>

#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {

std::unique_ptr<Kernel> make_indexing(GpuDevice& device, const Step& step) {
  throw KernelError(fmt::format("[{}] has no kernel on {} yet", op_name(step.op), device.name()));
}

}  // namespace hearth::gpu
