// The gradient rule of every operation.
#pragma once

#include <vector>

#include "graph/node.h"
#include "hearth/tensor.h"

namespace hearth {

// The gradients of `node`'s inputs, given that of its result; undefined for inputs that need none. They may
// have a shape to which the input was broadcast: the caller sums.
std::vector<Tensor> input_gradients(const NodeRef& node, const Tensor& dy);

}  // namespace hearth
