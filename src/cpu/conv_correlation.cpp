// Convolution as correlation of padded planes with packed weights.
#include "cpu/conv_correlation.h"

#include <algorithm>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/conv_kernels.h"
#include "cpu/conv_planes.h"
#include "cpu/scratch.h"

namespace hearth::cpu::correlation {
namespace {

using std::int64_t;

// Sizes of what should stay in a cache, in floats (measured): a tile's inputs in the first level, a stripe of
// planes and a chunk of weights in the second.
constexpr int64_t tile_inputs = 6 << 10, stripe_planes = 128 << 10, chunk_weights = 64 << 10;

// The outputs of one pass are the elements first + step * j of the result along each axis; all meet the same
// taps.
struct Pass {
  RunWindow window;
  std::vector<int64_t> reads;           // offsets of the taps, for each of the channels taken at a time
  std::vector<int64_t> kernel_indices;  // of the taps, in the weights
  int64_t packed;                       // where its packed weights begin
};

// Forward and backward differ in the axes and in which channel of the weights is which.
struct Problem {
  int64_t batch, groups, channels, out_channels;  // channels per group
  int64_t source[3], result[3], kernel[3];
  Axis axes[3];
  int64_t weight_group, weight_out, weight_in;  // strides in the weights
};

int64_t volume(const int64_t (&extents)[3]) { return extents[0] * extents[1] * extents[2]; }

std::vector<Pass> make_passes(const Problem& p, const PlaneLayout& layout, int64_t channels_at_a_time) {
  std::vector<Pass> passes;
  for (const AxisPass& a : p.axes[0].passes)
    for (const AxisPass& b : p.axes[1].passes)
      for (const AxisPass& c : p.axes[2].passes) {
        Pass pass{{{a.count, b.count, c.count},
                   {a.first, b.first, c.first},
                   {a.step, b.step, c.step},
                   {p.result[0], p.result[1], p.result[2]}},
                  {},
                  {},
                  0};
        std::vector<int64_t> offsets;
        for (const AxisTap& ta : a.taps)
          for (const AxisTap& tb : b.taps)
            for (const AxisTap& tc : c.taps) {
              offsets.push_back(layout.offset(ta, tb, tc));
              pass.kernel_indices.push_back((ta.kernel_index * p.kernel[1] + tb.kernel_index) * p.kernel[2] +
                                            tc.kernel_index);
            }
        for (int64_t channel = 0; channel < channels_at_a_time; ++channel)
          for (int64_t offset : offsets) pass.reads.push_back(channel * layout.stride() + offset);
        pass.reads.push_back(0);  // the one more that the kernel looks at
        passes.push_back(std::move(pass));
      }
  return passes;
}

// Weights in the order in which the kernel reads them: [pass][group][block][channel][tap][output channel of
// the block].
class PackedWeights {
 public:
  PackedWeights(const Problem& p, std::vector<Pass>& passes, const float* w)
      : block_(conv_kernels().block),
        blocks_((p.out_channels + block_ - 1) / block_),
        channels_(p.channels),
        storage_(place(p, passes)) {
    const int64_t count = static_cast<int64_t>(passes.size()) * p.groups * blocks_;
    parallel_for(count, 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const Pass& pass = passes[static_cast<std::size_t>(i / blocks_ / p.groups)];
        pack(p, pass, w, i / blocks_ % p.groups, i % blocks_ * block_);
      }
    });
  }

  int64_t block_stride(const Pass& pass) const {
    return channels_ * static_cast<int64_t>(pass.kernel_indices.size()) * block_;
  }
  float* at(const Pass& pass, int64_t group, int64_t first_out) const {
    return storage_.data() + pass.packed + (group * blocks_ + first_out / block_) * block_stride(pass);
  }

 private:
  int64_t place(const Problem& p, std::vector<Pass>& passes) const {
    int64_t total = 0;
    for (Pass& pass : passes) {
      pass.packed = total;
      total += p.groups * blocks_ * block_stride(pass);
    }
    return total;
  }

  void pack(const Problem& p, const Pass& pass, const float* w, int64_t group, int64_t first_out) const {
    const int64_t width = block_width(block_, p.out_channels - first_out);
    const int64_t valid = std::min(width, p.out_channels - first_out);
    const float* from = w + group * p.weight_group + first_out * p.weight_out;
    float* to = at(pass, group, first_out);
    if (valid == 8)
      pack_block<8>(p, pass, from, to);
    else if (valid == 4 && width == 4)
      pack_block<4>(p, pass, from, to);
    else
      for (int64_t c = 0; c < p.channels; ++c)
        for (int64_t k : pass.kernel_indices)
          for (int64_t o = 0; o < width; ++o)
            *to++ = o < valid ? from[c * p.weight_in + k + o * p.weight_out] : 0;
  }

  // The same for a full block of a width known at compile time.
  template <int width>
  static void pack_block(const Problem& p, const Pass& pass, const float* from, float* to) {
    const int64_t weight_out = p.weight_out, *first = pass.kernel_indices.data();
    const int64_t* last = first + pass.kernel_indices.size();
    for (int64_t c = 0; c < p.channels; ++c, from += p.weight_in)
      for (const int64_t* k = first; k < last; ++k, to += width)
        for (int o = 0; o < width; ++o) to[o] = from[*k + o * weight_out];
  }

  int64_t block_, blocks_, channels_;
  Scratch storage_;
};

// How the work is cut. No cut changes the order in which an output's products are added.
struct Cuts {
  int stripe_axis;
  int64_t stripe, stripes;     // outputs along the stripe axis
  int64_t part, parts;         // output channels, to give every thread something
  int64_t channels_at_a_time;  // input channels
  int64_t out_at_a_time;       // output channels
};

Cuts choose_cuts(const Problem& p) {
  Cuts cuts{};
  cuts.stripe_axis = p.axes[0].outputs() > 1 ? 0 : p.axes[1].outputs() > 1 ? 1 : 2;
  const Axis& axis = p.axes[cuts.stripe_axis];
  const int64_t outputs = axis.outputs();
  const int64_t block = conv_kernels().block;

  // Floats of all planes per output along the stripe axis.
  int64_t slice = p.channels;
  for (int i = 0; i < 3; ++i) {
    slice *= static_cast<int64_t>(p.axes[i].phases().size());
    if (i > cuts.stripe_axis) slice *= p.axes[i].outputs() + p.axes[i].reach();
  }
  const int64_t fitting = std::max(stripe_planes / std::max<int64_t>(slice, 1), axis.reach());
  cuts.stripes = (outputs + fitting) / std::max<int64_t>(fitting, 1);
  cuts.stripes = std::clamp<int64_t>(cuts.stripes, 1, std::max<int64_t>(outputs, 1));
  cuts.stripe = std::max<int64_t>(1, (outputs + cuts.stripes - 1) / cuts.stripes);
  cuts.stripes = (outputs + cuts.stripe - 1) / cuts.stripe;

  const int64_t tasks = p.batch * p.groups * cuts.stripes, wanted = thread_count() * 2;
  const int64_t blocks = (p.out_channels + block - 1) / block;
  cuts.parts = std::clamp<int64_t>(tasks > 0 ? wanted / tasks : 1, 1, std::max<int64_t>(blocks, 1));
  cuts.part = std::max<int64_t>(1, (blocks + cuts.parts - 1) / cuts.parts) * block;
  cuts.parts = std::max<int64_t>(1, (p.out_channels + cuts.part - 1) / cuts.part);

  const int64_t column_phases = static_cast<int64_t>(p.axes[2].phases().size());
  // Where every output sees only padding, there are no phases.
  const int64_t rows = p.kernel[0] * p.kernel[1] * std::max<int64_t>(column_phases, 1);
  const int64_t taps = volume(p.kernel);
  cuts.channels_at_a_time =
      std::clamp<int64_t>(tile_inputs / (rows * 32), 8, std::max<int64_t>(p.channels, 8));
  cuts.out_at_a_time = std::max<int64_t>(1, chunk_weights / (cuts.channels_at_a_time * taps * block)) * block;
  return cuts;
}

// One stripe of one image and group, for output channels [first_out, last_out).
void correlate_stripe(const Problem& p, const Cuts& cuts, const PlaneLayout& layout,
                      const std::vector<Pass>& passes, const PackedWeights& packed, const float* planes,
                      int64_t group, int64_t start, int64_t first_out, int64_t last_out,
                      const float* start_values, float* result) {
  const ConvKernels& kernels = conv_kernels();
  for (const Pass& pass : passes) {
    RunWindow window = pass.window;
    const int axis = cuts.stripe_axis;
    window.count[axis] = std::clamp<int64_t>(window.count[axis] - start, 0, cuts.stripe);
    window.first[axis] += start * window.step[axis];
    const int64_t positions = layout.run(window.count);
    if (positions == 0) continue;
    const int64_t out_stride = (positions + kernels.lanes - 1) / kernels.lanes * kernels.lanes;
    const Scratch sums(std::min(cuts.out_at_a_time, last_out - first_out) * out_stride);
    for (int64_t o = first_out; o < last_out; o += cuts.out_at_a_time) {
      const int64_t outs = std::min(cuts.out_at_a_time, last_out - o);
      int64_t c = 0;
      do {  // at least once: without channels the result is the bias
        const int64_t taps = static_cast<int64_t>(pass.kernel_indices.size());
        kernels.correlate({.planes = planes + c * layout.stride(),
                           .reads = pass.reads.data(),
                           .read_count = std::min(cuts.channels_at_a_time, p.channels - c) * taps,
                           .weights = packed.at(pass, group, o),
                           .weight_stride = packed.block_stride(pass),
                           .first_weight = c * taps,
                           .out = sums.data(),
                           .out_stride = out_stride,
                           .out_channels = outs,
                           .positions = positions,
                           .start = c > 0 ? nullptr : start_values + o});
        c += cuts.channels_at_a_time;
      } while (c < p.channels);
      for (int64_t i = 0; i < outs; ++i)
        scatter_run(layout, window, sums.data() + i * out_stride, result + (o + i) * volume(p.result));
    }
  }
}

void correlate(const Problem& p, const float* source, const float* w, const float* bias, float* result) {
  if (p.batch * p.out_channels * volume(p.result) == 0) return;
  const Cuts cuts = choose_cuts(p);
  const PlaneLayout layout(p.axes, cuts.stripe_axis, cuts.stripe, conv_kernels().lanes);
  std::vector<Pass> passes = make_passes(p, layout, cuts.channels_at_a_time);
  const PackedWeights packed(p, passes, w);
  const std::vector<float> zeros(bias ? 0 : static_cast<std::size_t>(p.groups * p.out_channels));
  const float* start_values = bias ? bias : zeros.data();

  // Results that meet no tap (a stride larger than the kernel leaves such): zero them all at once, not one by
  // one.
  const auto meets_no_tap = [](const Pass& pass) { return pass.kernel_indices.empty(); };
  if (std::erase_if(passes, meets_no_tap) > 0)
    parallel_for(p.batch * p.groups * p.out_channels * volume(p.result), 1 << 16,
                 [&](int64_t begin, int64_t end) { std::fill(result + begin, result + end, 0.0f); });

  parallel_for(p.batch * p.groups * cuts.stripes * cuts.parts, 1, [&](int64_t begin, int64_t end) {
    const Scratch planes(p.channels * layout.stride());
    int64_t filled = -1;  // the parts of one stripe share its planes
    for (int64_t task = begin; task < end; ++task) {
      const int64_t part = task % cuts.parts, stripe = task / cuts.parts;
      const int64_t start = stripe % cuts.stripes * cuts.stripe, image_group = stripe / cuts.stripes;
      const int64_t group = image_group % p.groups;
      if (filled != stripe)
        for (int64_t c = 0; c < p.channels; ++c)
          layout.fill(source + (image_group * p.channels + c) * volume(p.source), start,
                      planes.data() + c * layout.stride());
      filled = stripe;
      correlate_stripe(p, cuts, layout, passes, packed, planes.data(), group, start, part * cuts.part,
                       std::min((part + 1) * cuts.part, p.out_channels),
                       start_values + group * p.out_channels,
                       result + image_group * p.out_channels * volume(p.result));
    }
  });
}

}  // namespace

void conv_forward(const ConvShape& s, const float* x, const float* w, const float* bias, float* y) {
  const int64_t channels = s.in_channels / s.groups, out_channels = s.out_channels / s.groups;
  const int64_t taps = volume(s.kernel);
  Problem p{s.batch,
            s.groups,
            channels,
            out_channels,
            {s.in[0], s.in[1], s.in[2]},
            {s.out[0], s.out[1], s.out[2]},
            {s.kernel[0], s.kernel[1], s.kernel[2]},
            {},
            out_channels * channels * taps,
            channels * taps,
            taps};
  for (int i = 0; i < 3; ++i)
    p.axes[i] = forward_axis(s.in[i], s.out[i], s.kernel[i], s.stride[i], s.padding[i], s.dilation[i]);
  correlate(p, x, w, bias, y);
}

void conv_input_gradient(const ConvShape& s, const float* dy, const float* w, float* dx) {
  const int64_t channels = s.in_channels / s.groups, out_channels = s.out_channels / s.groups;
  const int64_t taps = volume(s.kernel);
  Problem p{s.batch,
            s.groups,
            out_channels,
            channels,
            {s.out[0], s.out[1], s.out[2]},
            {s.in[0], s.in[1], s.in[2]},
            {s.kernel[0], s.kernel[1], s.kernel[2]},
            {},
            out_channels * channels * taps,
            taps,
            channels * taps};
  for (int i = 0; i < 3; ++i)
    p.axes[i] = backward_axis(s.in[i], s.out[i], s.kernel[i], s.stride[i], s.padding[i], s.dilation[i]);
  correlate(p, dy, w, nullptr, dx);
}

}  // namespace hearth::cpu::correlation
