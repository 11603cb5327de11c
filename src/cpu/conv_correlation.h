// Convolution as correlation of padded planes with packed weights: the forward pass and the gradient with
// respect to the input, for every stride, dilation and number of groups.
#pragma once

#include "cpu/conv.h"

namespace hearth::cpu::correlation {

void conv_forward(const ConvShape& shape, const float* x, const float* w, const float* bias, float* y);
void conv_input_gradient(const ConvShape& shape, const float* dy, const float* w, float* dx);

}  // namespace hearth::cpu::correlation
