// The gradient of a convolution with respect to its weights.
//
// dw[o][c][t] is the dot product of dy's plane o with x's plane c at tap t's distance, summed over images.
// The images are cut into chunks, each summed by one thread into its own copy of dw; the copies are then
// added in order. How many chunks there are follows from the shape alone, so the result does not depend on
// the threads.
#include "cpu/conv_weight_gradient.h"

#include <algorithm>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/conv_kernels.h"
#include "cpu/conv_planes.h"
#include "cpu/scratch.h"

namespace hearth::cpu::correlation {
namespace {

using std::int64_t;

// Floats: what a run over positions should not exceed; the planes that should stay in the first-level cache
// while the gradients pass by; the most that copies of dw may take.
constexpr int64_t run_most = 1024, first_level = 6 << 10, copies_most = 8 << 20;
// Vectors that a run should have where there are images enough: at its end the lanes of all sums are added
// up.
constexpr int64_t run_least_vectors = 128;

int64_t volume(const int64_t (&extents)[3]) { return extents[0] * extents[1] * extents[2]; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Cuts {
  int stripe_axis;
  int64_t stripe, stripes;   // outputs along the stripe axis
  int64_t chunk, chunks;     // images summed into one copy of dw
  int64_t part, parts;       // output channels, where chunks alone are too few tasks
  int64_t images_at_a_time;  // that a run of dot products goes over
};

Cuts choose_cuts(const ConvShape& s, const Axis (&axes)[3], int64_t out_channels, int64_t weights) {
  Cuts cuts{};
  cuts.stripe_axis = s.out[0] > 1 ? 0 : s.out[1] > 1 ? 1 : 2;
  int64_t slice = 1;
  for (int i = cuts.stripe_axis + 1; i < 3; ++i) slice *= s.out[i] + axes[i].reach();
  const int64_t outputs = s.out[cuts.stripe_axis];
  cuts.stripes = ceil_div(outputs, std::clamp<int64_t>(run_most / slice, 1, outputs));
  cuts.stripe = ceil_div(outputs, cuts.stripes);
  cuts.stripes = ceil_div(outputs, cuts.stripe);

  constexpr int64_t tasks_wanted = 32;
  cuts.chunks =
      std::clamp<int64_t>(copies_most / std::max<int64_t>(weights, 1), 1, std::min(s.batch, tasks_wanted));
  cuts.chunk = ceil_div(s.batch, cuts.chunks);
  cuts.chunks = ceil_div(s.batch, cuts.chunk);
  cuts.parts = std::clamp<int64_t>(tasks_wanted / (cuts.chunks * s.groups), 1, ceil_div(out_channels, 16));
  cuts.part = ceil_div(ceil_div(out_channels, cuts.parts), 4) * 4;
  cuts.parts = ceil_div(out_channels, cuts.part);

  cuts.images_at_a_time =
      std::clamp<int64_t>(run_least_vectors * conv_kernels().lanes / (cuts.stripe * slice), 1, cuts.chunk);
  return cuts;
}

// Adds the products of images [first, last) and output channels [first_out, last_out) of a group to `sums`.
class Task {
 public:
  Task(const ConvShape& s, const Axis (&axes)[3], const Cuts& cuts)
      : s_(s),
        cuts_(cuts),
        kernels_(conv_kernels()),
        layout_(axes, cuts.stripe_axis, cuts.stripe, kernels_.lanes),
        channels_(s.in_channels / s.groups),
        out_channels_(s.out_channels / s.groups) {
    const int64_t plane = layout_.stride() * cuts.images_at_a_time;
    channels_at_a_time_ = std::clamp<int64_t>(first_level / plane, 1, channels_);
    for (int64_t c = 0; c < channels_at_a_time_; ++c)
      for (const AxisTap& ta : axes[0].passes[0].taps)
        for (const AxisTap& tb : axes[1].passes[0].taps)
          for (const AxisTap& tc : axes[2].passes[0].taps)
            reads_.push_back(c * layout_.stride() + layout_.offset(ta, tb, tc));
  }

  void run(const float* x, const float* dy, int64_t group, int64_t first, int64_t last, int64_t first_out,
           int64_t last_out, float* sums) const {
    const int64_t most = cuts_.images_at_a_time, lanes = kernels_.lanes;
    const int64_t longest = ceil_div(layout_.run(window(0).count), lanes) * lanes;
    const Scratch planes(most * channels_at_a_time_ * layout_.stride());
    const Scratch gradients(most * (last_out - first_out) * longest);
    for (int64_t n = first; n < last; n += most)
      for (int64_t start = 0; start < s_.out[cuts_.stripe_axis]; start += cuts_.stripe) {
        const int64_t images = std::min(most, last - n);
        const RunWindow stripe = window(start);
        const int64_t length = ceil_div(layout_.run(stripe.count), lanes) * lanes;
        for (int64_t i = 0; i < images; ++i)
          for (int64_t o = first_out; o < last_out; ++o)
            gather_run(layout_, stripe,
                       dy + ((n + i) * s_.out_channels + group * out_channels_ + o) * volume(s_.out),
                       gradients.data() + (i * (last_out - first_out) + o - first_out) * length, length);
        for (int64_t c = 0; c < channels_; c += channels_at_a_time_) {
          const int64_t channels = std::min(channels_at_a_time_, channels_ - c);
          for (int64_t i = 0; i < images; ++i)
            for (int64_t j = 0; j < channels; ++j)
              layout_.fill(x + ((n + i) * s_.in_channels + group * channels_ + c + j) * volume(s_.in), start,
                           planes.data() + (i * channels + j) * layout_.stride());
          kernels_.sum_gradients({.planes = planes.data(),
                                  .planes_image_stride = channels * layout_.stride(),
                                  .reads = reads_.data(),
                                  .read_count = channels * volume(s_.kernel),
                                  .gradients = gradients.data(),
                                  .gradients_image_stride = (last_out - first_out) * length,
                                  .gradients_stride = length,
                                  .images = images,
                                  .out_channels = last_out - first_out,
                                  .positions = length,
                                  .sums = sums + (first_out * channels_ + c) * volume(s_.kernel),
                                  .sums_stride = channels_ * volume(s_.kernel)});
        }
      }
  }

 private:
  RunWindow window(int64_t start) const {
    RunWindow w{{s_.out[0], s_.out[1], s_.out[2]}, {0, 0, 0}, {1, 1, 1}, {s_.out[0], s_.out[1], s_.out[2]}};
    w.count[cuts_.stripe_axis] = std::min(cuts_.stripe, s_.out[cuts_.stripe_axis] - start);
    w.first[cuts_.stripe_axis] = start;
    return w;
  }

  const ConvShape& s_;
  const Cuts& cuts_;
  const ConvKernels& kernels_;
  const PlaneLayout layout_;
  int64_t channels_, out_channels_;  // per group
  int64_t channels_at_a_time_;
  std::vector<int64_t> reads_;
};

}  // namespace

void conv_weight_gradient(const ConvShape& s, const float* x, const float* dy, float* dw) {
  const int64_t channels = s.in_channels / s.groups, out_channels = s.out_channels / s.groups;
  const int64_t group_weights = out_channels * channels * volume(s.kernel),
                weights = s.groups * group_weights;
  std::fill_n(dw, weights, 0.0f);
  if (weights * s.batch * volume(s.out) == 0) return;

  Axis axes[3];
  for (int i = 0; i < 3; ++i)
    axes[i] = forward_axis(s.in[i], s.out[i], s.kernel[i], s.stride[i], s.padding[i], s.dilation[i]);
  const Cuts cuts = choose_cuts(s, axes, out_channels, weights);
  const Task task(s, axes, cuts);

  // The first chunk sums into dw itself.
  const Scratch copies((cuts.chunks - 1) * weights);
  const auto copy = [&](int64_t chunk) { return chunk == 0 ? dw : copies.data() + (chunk - 1) * weights; };
  parallel_for(cuts.chunks * s.groups * cuts.parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t part = i % cuts.parts, group = i / cuts.parts % s.groups,
                    chunk = i / cuts.parts / s.groups;
      const int64_t first_out = part * cuts.part, last_out = std::min(first_out + cuts.part, out_channels);
      float* sums = copy(chunk) + group * group_weights;
      const int64_t row = channels * volume(s.kernel);
      std::fill(sums + first_out * row, sums + last_out * row, 0.0f);
      task.run(x, dy, group, chunk * cuts.chunk, std::min((chunk + 1) * cuts.chunk, s.batch), first_out,
               last_out, sums);
    }
  });
  parallel_for(weights, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = 1; chunk < cuts.chunks; ++chunk) {
      const float* from = copy(chunk);
      for (int64_t i = begin; i < end; ++i) dw[i] += from[i];
    }
  });
}

}  // namespace hearth::cpu::correlation
