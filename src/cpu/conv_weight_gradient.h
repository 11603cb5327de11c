// The gradient of a convolution with respect to its weights, as dot products over padded planes.
#pragma once

#include "cpu/conv.h"

namespace hearth::cpu::correlation {

void conv_weight_gradient(const ConvShape& shape, const float* x, const float* dy, float* dw);

}  // namespace hearth::cpu::correlation
