// argmax and argmin: reductions that carry the place of an element with it.
#include <fmt/format.h>

#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {

std::unique_ptr<Kernel> make_arg_reduction(GpuDevice& device, const Step& step) {
  Step reduction = step;
  Layout& input = reduction.inputs[0];
  if (input.shape.empty()) {  // a scalar is a line of one element
    input.shape = {1};
    input.strides = {1};
  }
  const auto axis = std::get<AxisAttributes>(step.attributes).axis;
  if (input.shape[static_cast<std::size_t>(axis)] == 0 && element_count(step.outputs[0].shape) > 0)
    throw ValueError(fmt::format("[{}] the axis is empty", op_name(step.op)));
  reduction.domain = input.shape;
  reduction.attributes = ReduceAttributes{{axis}};
  reduction.expression.inputs = {input.dtype};
  reduction.expression.outputs = {0};
  return make_reduction(device, reduction);
}

}  // namespace hearth::gpu
