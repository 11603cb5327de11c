// The text of an elementwise kernel, for any target.
#pragma once

#include <vector>

#include "device/step.h"
#include "gpu/compiler.h"

namespace hearth::gpu {

struct ElementwiseVariant {
  std::vector<DType> inputs;
  std::vector<bool> single;  // inputs of which every element uses the first (without axes only)
  std::vector<DType> outputs;
  std::size_t axes = 0;  // 0: every argument runs through memory in one direction; or each axis has strides
  int packet = 1;        // elements that are moved at once (without axes only)
};

// Elements of the widest type that make 16 bytes; at most eight, to keep registers few.
int packet_length(const ElementwiseVariant& variant);

// The kernel `elementwise`.
KernelSource elementwise_source(const Expression& expression, const ElementwiseVariant& variant);

}  // namespace hearth::gpu
