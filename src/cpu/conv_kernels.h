// The vector kernels of convolution (cpu/isa/conv.cpp). They work on padded planes, laid out by
// cpu/conv_planes.h such that every tap of the kernel reads a run of outputs at one fixed distance: no
// im2col, no borders.
#pragma once

#include <cstdint>

#include "cpu/isa.h"

namespace hearth::cpu {

// out[o][p] = start[o] + sum over reads k of weights[o][k] * planes[reads[k] + p]
struct Correlation {
  const float* planes;
  const std::int64_t* reads;  // one for each channel and tap, and one more that is looked at but not used
  std::int64_t read_count;
  const float* weights;        // packed in blocks of output channels: [block][k][width]
  std::int64_t weight_stride;  // from a block to the next
  std::int64_t first_weight;   // the k that reads[0] belongs to
  float* out;
  std::int64_t out_stride, out_channels;
  std::int64_t positions;  // planes are read and out is written up to a multiple of `lanes`
  const float* start;      // null: add to what is in out
};

// sums[o][k] += sum over images n and positions p of gradients[n][o][p] * planes[n][reads[k] + p]
struct GradientSums {
  const float* planes;
  std::int64_t planes_image_stride;
  const std::int64_t* reads;
  std::int64_t read_count;
  const float* gradients;
  std::int64_t gradients_image_stride, gradients_stride;
  std::int64_t images, out_channels;
  std::int64_t positions;  // a multiple of `lanes`
  float* sums;
  std::int64_t sums_stride;
};

struct ConvKernels {
  std::int64_t lanes;  // floats per vector
  std::int64_t block;  // output channels per full block of packed weights
  void (*correlate)(const Correlation&);
  void (*sum_gradients)(const GradientSums&);
};

// How many output channels the block that begins with `remaining` channels to go has room for. Always inlined
// because the variants of cpu/isa use it too.
[[gnu::always_inline]] inline std::int64_t block_width(std::int64_t block, std::int64_t remaining) {
  return remaining > block / 2 ? block : remaining > 1 ? block / 2 : 1;
}

}  // namespace hearth::cpu

HEARTH_DECLARE_ISA_TABLE(ConvKernels, conv_kernels)
