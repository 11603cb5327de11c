// Convolutions that are matrix products as they stand, through the BLAS.
#pragma once

#include "cpu/conv.h"

namespace hearth::cpu {

// A kernel of one, stride one and no padding: per image, y (O, P) = w (O, C) @ x (C, P).
namespace pointwise {
bool applies(const ConvShape& shape);
void conv_forward(const ConvShape& shape, const float* x, const float* w, const float* bias, float* y);
void conv_input_gradient(const ConvShape& shape, const float* dy, const float* w, float* dx);
void conv_weight_gradient(const ConvShape& shape, const float* x, const float* dy, float* dw);
}  // namespace pointwise

// A kernel as large as the input, and one output: over the batch, y (N, O) = x (N, K) @ w (O, K) transposed.
namespace linear {
bool applies(const ConvShape& shape);
void conv_forward(const ConvShape& shape, const float* x, const float* w, const float* bias, float* y);
void conv_input_gradient(const ConvShape& shape, const float* dy, const float* w, float* dx);
void conv_weight_gradient(const ConvShape& shape, const float* x, const float* dy, float* dw);
}  // namespace linear

}  // namespace hearth::cpu
