// Convolution: chooses the algorithm for a shape.
#include "cpu/conv.h"

#include "cpu/conv_correlation.h"
#include "cpu/conv_gemm.h"
#include "cpu/conv_plain.h"
#include "cpu/conv_weight_gradient.h"

namespace hearth::cpu {
namespace {

constexpr std::int64_t few_channels = 100;  // measured

}  // namespace

void conv_forward(const ConvShape& shape, const float* x, const float* w, const float* bias, float* y) {
  // With few input channels a product is too short for the BLAS, which passes over y once more than needed.
  if (linear::applies(shape))
    linear::conv_forward(shape, x, w, bias, y);
  else if (pointwise::applies(shape) && shape.in_channels / shape.groups >= few_channels)
    pointwise::conv_forward(shape, x, w, bias, y);
  else
    correlation::conv_forward(shape, x, w, bias, y);
}

void conv_input_gradient(const ConvShape& shape, const float* dy, const float* w, float* dx) {
  if (linear::applies(shape))
    linear::conv_input_gradient(shape, dy, w, dx);
  else if (pointwise::applies(shape) && shape.out_channels / shape.groups >= few_channels)
    pointwise::conv_input_gradient(shape, dy, w, dx);
  else
    correlation::conv_input_gradient(shape, dy, w, dx);
}

void conv_weight_gradient(const ConvShape& shape, const float* x, const float* dy, float* dw) {
  if (linear::applies(shape))
    linear::conv_weight_gradient(shape, x, dy, dw);
  else if (pointwise::applies(shape))
    pointwise::conv_weight_gradient(shape, x, dy, dw);
  else
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
