// Laying out, filling and emptying padded planes.
#include "cpu/conv_planes.h"

#include <algorithm>
#include <cstring>

namespace hearth::cpu {
namespace {

using std::int64_t;

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }
int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }

// Rows are short: the last, partial block overlaps the one before, so that no loop over single elements
// remains.
inline void copy(const float* __restrict from, float* __restrict to, int64_t count) {
  constexpr int64_t block = 4;
  if (count < block) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i];
    return;
  }
  for (int64_t i = 0; i + block <= count; i += block) std::memcpy(to + i, from + i, block * sizeof(float));
  std::memcpy(to + count - block, from + count - block, block * sizeof(float));
}

template <int64_t fixed_step>
inline void copy_strided(const float* __restrict from, int64_t step, float* __restrict to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = from[i * (fixed_step > 0 ? fixed_step : step)];
}

}  // namespace

int64_t Axis::reach() const {
  int64_t most = 0;
  for (const AxisPass& pass : passes)
    for (const AxisTap& tap : pass.taps) most = std::max(most, tap.position);
  return most;
}

int64_t Axis::outputs() const {
  int64_t most = 0;
  for (const AxisPass& pass : passes) most = std::max(most, pass.count);
  return most;
}

std::vector<int64_t> Axis::phases() const {
  std::vector<int64_t> found;
  for (const AxisPass& pass : passes)
    for (const AxisTap& tap : pass.taps)
      if (std::find(found.begin(), found.end(), tap.phase) == found.end()) found.push_back(tap.phase);
  return found;
}

Axis forward_axis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding,
                  int64_t dilation) {
  Axis axis{in, stride, padding, {{{}, 0, 1, out}}};
  for (int64_t k = 0; k < kernel; ++k)
    axis.passes[0].taps.push_back({k, k * dilation % stride, k * dilation / stride});
  return axis;
}

Axis backward_axis(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding,
                   int64_t dilation) {
  Axis axis{out, 1, 0, {}};
  int64_t lowest = 0;
  for (int64_t first = 0; first < std::min(stride, in); ++first) {
    AxisPass pass{{}, first, stride, ceil_div(in - first, stride)};
    for (int64_t k = 0; k < kernel; ++k) {
      // Input first + stride * j was read through tap k by the output j + distance / stride.
      const int64_t distance = first + padding - k * dilation;
      if (distance % stride != 0) continue;
      pass.taps.push_back({k, 0, distance / stride});
      lowest = std::min(lowest, distance / stride);
    }
    axis.passes.push_back(std::move(pass));
  }
  axis.lead = -lowest;
  for (AxisPass& pass : axis.passes)
    for (AxisTap& tap : pass.taps) tap.position += axis.lead;
  return axis;
}

PlaneLayout::PlaneLayout(const Axis (&axes)[3], int stripe_axis, int64_t stripe, int64_t lanes)
    : stripe_axis_(stripe_axis) {
  for (int i = 0; i < 3; ++i) {
    source_[i] = axes[i].source;
    step_[i] = axes[i].step;
    lead_[i] = axes[i].lead;
    extent_[i] = (i == stripe_axis ? stripe : axes[i].outputs()) + axes[i].reach();
    phases_[i] = axes[i].phases();
  }

  // A row may end early if what it lacks is zero and the next row begins with as many zeros.
  const int64_t whole_row = extent_[2];
  if (stripe_axis != 2) {
    int64_t zeros = whole_row, filled = 0;
    for (int64_t phase : phases_[2]) {
      zeros = std::min(zeros, std::max<int64_t>(0, ceil_div(lead_[2] - phase, step_[2])));
      filled = std::max(filled, ceil_div(source_[2] + lead_[2] - phase, step_[2]));
    }
    extent_[2] = std::min(whole_row, std::max({whole_row - zeros, filled, axes[2].outputs()}));
  }
  subplane_ = extent_[0] * extent_[1] * extent_[2];
  const int64_t phases = static_cast<int64_t>(phases_[0].size() * phases_[1].size() * phases_[2].size());

  // Behind the last row: the zeros it lacks, and what a rounded-up run reads. An odd number of cache lines
  // from plane to plane spreads the planes over the sets of the cache.
  const int64_t lines = ceil_div(phases * subplane_ + (whole_row - extent_[2]) + lanes, 16);
  stride_ = (lines | 1) * 16;
}

int64_t PlaneLayout::offset(const AxisTap& a, const AxisTap& b, const AxisTap& c) const {
  const auto slot = [&](int axis, const AxisTap& tap) {
    const auto& phases = phases_[axis];
    return std::find(phases.begin(), phases.end(), tap.phase) - phases.begin();
  };
  const auto count = [&](int axis) { return static_cast<int64_t>(phases_[axis].size()); };
  const int64_t phase = (slot(0, a) * count(1) + slot(1, b)) * count(2) + slot(2, c);
  return phase * subplane_ + a.position * slice() + b.position * pitch() + c.position;
}

int64_t PlaneLayout::run(const int64_t (&count)[3]) const {
  if (count[0] * count[1] * count[2] == 0) return 0;
  return (count[0] - 1) * slice() + (count[1] - 1) * pitch() + count[2];
}

template <int64_t fixed_step>
void PlaneLayout::fill_subplane(const float* source, const int64_t (&first)[3], float* row) const {
  const int64_t step = fixed_step > 0 ? fixed_step : step_[2];
  // Columns [begin, end) lie in the source.
  const int64_t begin = std::clamp<int64_t>(ceil_div(-first[2], step), 0, extent_[2]);
  const int64_t end = std::clamp(ceil_div(source_[2] - first[2], step), begin, extent_[2]);
  for (int64_t i = 0; i < extent_[0]; ++i)
    for (int64_t j = 0; j < extent_[1]; ++j, row += extent_[2]) {
      const int64_t a = first[0] + i * step_[0], b = first[1] + j * step_[1];
      if (a < 0 || a >= source_[0] || b < 0 || b >= source_[1] || begin == end) {
        std::fill(row, row + extent_[2], 0.0f);
        continue;
      }
      const float* from = source + (a * source_[1] + b) * source_[2] + first[2];
      for (int64_t q = 0; q < begin; ++q) row[q] = 0;
      if constexpr (fixed_step == 1)
        copy(from + begin, row + begin, end - begin);
      else
        copy_strided<fixed_step>(from + begin * step, step, row + begin, end - begin);
      for (int64_t q = end; q < extent_[2]; ++q) row[q] = 0;
    }
}

void PlaneLayout::fill(const float* source, int64_t start, float* plane) const {
  int64_t first[3];
  for (int i = 0; i < 3; ++i) first[i] = (i == stripe_axis_ ? start * step_[i] : 0) - lead_[i];
  float* to = plane;
  for (int64_t f0 : phases_[0])
    for (int64_t f1 : phases_[1])
      for (int64_t f2 : phases_[2]) {
        const int64_t begin[3] = {first[0] + f0, first[1] + f1, first[2] + f2};
        if (step_[2] == 1)
          fill_subplane<1>(source, begin, to);
        else if (step_[2] == 2)
          fill_subplane<2>(source, begin, to);
        else
          fill_subplane<0>(source, begin, to);
        to += subplane_;
      }
  std::fill(to, plane + stride_, 0.0f);
}

void scatter_run(const PlaneLayout& layout, const RunWindow& w, const float* run, float* tensor) {
  for (int64_t i = 0; i < w.count[0]; ++i)
    for (int64_t j = 0; j < w.count[1]; ++j) {
      const float* from = run + i * layout.slice() + j * layout.pitch();
      float* to = tensor + w.first[2] +
                  ((w.first[0] + i * w.step[0]) * w.extent[1] + w.first[1] + j * w.step[1]) * w.extent[2];
      if (w.step[2] == 1)
        copy(from, to, w.count[2]);
      else
        for (int64_t k = 0; k < w.count[2]; ++k) to[k * w.step[2]] = from[k];
    }
}

void gather_run(const PlaneLayout& layout, const RunWindow& w, const float* tensor, float* run,
                int64_t length) {
  float* end = run;
  for (int64_t i = 0; i < w.count[0]; ++i)
    for (int64_t j = 0; j < w.count[1]; ++j) {
      float* to = run + i * layout.slice() + j * layout.pitch();
      const float* from =
          tensor + ((w.first[0] + i) * w.extent[1] + w.first[1] + j) * w.extent[2] + w.first[2];
      for (; end < to; ++end) *end = 0;
      copy(from, to, w.count[2]);
      end = to + w.count[2];
    }
  std::fill(end, run + length, 0.0f);
}

}  // namespace hearth::cpu
