// Convolution as plain loops: the float64 path, and the definition the fast kernels are tested against.
#pragma once

#include <algorithm>

#include "base/thread_pool.h"
#include "cpu/conv.h"

namespace hearth::cpu::plain {

// The output positions [begin, end) along one axis for which kernel tap k reads inside the input.
struct TapRange {
  std::int64_t begin, end, first_input;  // first_input: what `begin` reads
};

inline TapRange tap_range(const ConvShape& s, int axis, std::int64_t k) {
  const std::int64_t shift = k * s.dilation[axis] - s.padding[axis], stride = s.stride[axis];
  const std::int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const std::int64_t room = s.in[axis] - 1 - shift;
  const std::int64_t end = room < 0 ? 0 : std::min(s.out[axis], room / stride + 1);
  return {begin, std::max(begin, end), begin * stride + shift};
}

// Calls f(input offset, output offset, count, tap) for every run of a plane where consecutive outputs (step
// 1) meet consecutive inputs (step stride[2]) through one tap of the kernel.
template <typename F>
void for_each_run(const ConvShape& s, F&& f) {
  for (std::int64_t a = 0; a < s.kernel[0]; ++a)
    for (std::int64_t b = 0; b < s.kernel[1]; ++b)
      for (std::int64_t c = 0; c < s.kernel[2]; ++c) {
        const TapRange ra = tap_range(s, 0, a), rb = tap_range(s, 1, b), rc = tap_range(s, 2, c);
        if (rc.begin == rc.end) continue;
        for (std::int64_t i = ra.begin; i < ra.end; ++i)
          for (std::int64_t j = rb.begin; j < rb.end; ++j) {
            const std::int64_t input_row = (ra.first_input + (i - ra.begin) * s.stride[0]) * s.in[1] +
                                           rb.first_input + (j - rb.begin) * s.stride[1];
            f(input_row * s.in[2] + rc.first_input, (i * s.out[1] + j) * s.out[2] + rc.begin,
              rc.end - rc.begin, (a * s.kernel[1] + b) * s.kernel[2] + c);
          }
      }
}

struct PlaneSizes {
  std::int64_t in, out, kernel, in_channels, out_channels;  // channels per group
  explicit PlaneSizes(const ConvShape& s)
      : in(s.in[0] * s.in[1] * s.in[2]),
        out(s.out[0] * s.out[1] * s.out[2]),
        kernel(s.kernel[0] * s.kernel[1] * s.kernel[2]),
        in_channels(s.in_channels / s.groups),
        out_channels(s.out_channels / s.groups) {}
};

template <typename T>
void conv_forward(const ConvShape& s, const T* x, const T* w, const T* bias, T* y) {
  const PlaneSizes n(s);
  parallel_for(s.batch * s.out_channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t image = plane / s.out_channels, o = plane % s.out_channels;
      const std::int64_t first_channel = o / n.out_channels * n.in_channels;
      T* to = y + plane * n.out;
      std::fill_n(to, n.out, bias ? bias[o] : T(0));
      for (std::int64_t c = 0; c < n.in_channels; ++c) {
        const T* from = x + (image * s.in_channels + first_channel + c) * n.in;
        const T* taps = w + (o * n.in_channels + c) * n.kernel;
        for_each_run(s, [&](std::int64_t in, std::int64_t out, std::int64_t count, std::int64_t tap) {
          for (std::int64_t i = 0; i < count; ++i) to[out + i] += from[in + i * s.stride[2]] * taps[tap];
        });
      }
    }
  });
}

template <typename T>
void conv_input_gradient(const ConvShape& s, const T* dy, const T* w, T* dx) {
  const PlaneSizes n(s);
  parallel_for(s.batch * s.in_channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t image = plane / s.in_channels, channel = plane % s.in_channels;
      const std::int64_t group = channel / n.in_channels, c = channel % n.in_channels;
      T* to = dx + plane * n.in;
      std::fill_n(to, n.in, T(0));
      for (std::int64_t o = group * n.out_channels; o < (group + 1) * n.out_channels; ++o) {
        const T* from = dy + (image * s.out_channels + o) * n.out;
        const T* taps = w + (o * n.in_channels + c) * n.kernel;
        for_each_run(s, [&](std::int64_t in, std::int64_t out, std::int64_t count, std::int64_t tap) {
          for (std::int64_t i = 0; i < count; ++i) to[in + i * s.stride[2]] += from[out + i] * taps[tap];
        });
      }
    }
  });
}

template <typename T>
void conv_weight_gradient(const ConvShape& s, const T* x, const T* dy, T* dw) {
  const PlaneSizes n(s);
  parallel_for(s.out_channels * n.in_channels, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t o = plane / n.in_channels, c = plane % n.in_channels;
      const std::int64_t channel = o / n.out_channels * n.in_channels + c;
      T* taps = dw + plane * n.kernel;
      std::fill_n(taps, n.kernel, T(0));
      for (std::int64_t image = 0; image < s.batch; ++image) {
        const T* from = x + (image * s.in_channels + channel) * n.in;
        const T* gradient = dy + (image * s.out_channels + o) * n.out;
        for_each_run(s, [&](std::int64_t in, std::int64_t out, std::int64_t count, std::int64_t tap) {
          T sum = 0;
          for (std::int64_t i = 0; i < count; ++i) sum += from[in + i * s.stride[2]] * gradient[out + i];
          taps[tap] += sum;
        });
      }
    }
  });
}

}  // namespace hearth::cpu::plain
