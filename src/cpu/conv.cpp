// Convolution: chooses the algorithm for a shape.
#include "cpu/conv.h"

#include "cpu/conv_correlation.h"
#include "cpu/conv_plain.h"
#include "cpu/conv_weight_gradient.h"

namespace hearth::cpu {

void conv_forward(const ConvShape& shape, const float* x, const float* w, const float* bias, float* y) {
  correlation::conv_forward(shape, x, w, bias, y);
}

void conv_input_gradient(const ConvShape& shape, const float* dy, const float* w, float* dx) {
  correlation::conv_input_gradient(shape, dy, w, dx);
}

void conv_weight_gradient(const ConvShape& shape, const float* x, const float* dy, float* dw) {
  correlation::conv_weight_gradient(shape, x, dy, dw);
}

void conv_forward(const ConvShape& shape, const double* x, const double* w, const double* bias, double* y) {
  plain::conv_forward(shape, x, w, bias, y);
}

void conv_input_gradient(const ConvShape& shape, const double* dy, const double* w, double* dx) {
  plain::conv_input_gradient(shape, dy, w, dx);
}

void conv_weight_gradient(const ConvShape& shape, const double* x, const double* dy, double* dw) {
  plain::conv_weight_gradient(shape, x, dy, dw);
}

}  // namespace hearth::cpu
