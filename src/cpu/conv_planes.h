// Padded planes: the form in which convolution reads its input.
//
// A channel is copied once into a plane with its zero padding written out, so that the outputs of a whole
// image (or of a stripe of it), taken in one run from the first to the last, read the plane at a fixed
// distance for each tap:
//
//   output (i, j) is position p = i * pitch + j of the run, and tap t reads plane[p + offset(t)]
//
// The run also passes over the few columns between the rows, whose results are dropped. A stride is dealt
// with by splitting the plane by the remainder of the index ("phase") along each axis, which leaves every tap
// a plane of stride one; only phases that some tap reads are kept. Rows share their padding where they can:
// the zeros left of a row are also the zeros right of the row above.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth::cpu {

// What a tap of the kernel reads along one axis: source index (position + output) * step + phase - lead.
struct AxisTap {
  std::int64_t kernel_index, phase, position;
};

// Taps along one axis for a pass, and the outputs the pass computes: first, first + step, ... (count of
// them).
struct AxisPass {
  std::vector<AxisTap> taps;
  std::int64_t first, step, count;
};

// One axis of a plane: where positions lie in the source, and the passes that read it.
struct Axis {
  std::int64_t source, step, lead;
  std::vector<AxisPass> passes;

  std::int64_t reach() const;    // the largest position of a tap
  std::int64_t outputs() const;  // the largest count of a pass
  std::vector<std::int64_t> phases() const;
};

// y from x: one pass over all outputs, and a phase per remainder of the stride.
Axis forward_axis(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                  std::int64_t padding, std::int64_t dilation);

// dx from dy: a pass for each remainder of the stride, as the inputs i = first + stride * j meet the same
// taps.
Axis backward_axis(std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                   std::int64_t padding, std::int64_t dilation);

class PlaneLayout {
 public:
  // Planes for stripes of `stripe` outputs along `stripe_axis`, all outputs along the others. `lanes`:
  // kernels read runs rounded up to it.
  PlaneLayout(const Axis (&axes)[3], int stripe_axis, std::int64_t stripe, std::int64_t lanes);

  std::int64_t stride() const { return stride_; }  // floats per plane
  std::int64_t pitch() const { return extent_[2]; }
  std::int64_t slice() const { return extent_[1] * extent_[2]; }
  std::int64_t offset(const AxisTap& a, const AxisTap& b, const AxisTap& c) const;

  // Length of the run over outputs of the given extents.
  std::int64_t run(const std::int64_t (&count)[3]) const;

  // Copies a channel into a plane whose first output along the stripe axis is `start`.
  void fill(const float* source, std::int64_t start, float* plane) const;

 private:
  template <std::int64_t fixed_step>  // of the columns; 0: not known at compile time
  void fill_subplane(const float* source, const std::int64_t (&first)[3], float* row) const;

  std::int64_t source_[3], step_[3], lead_[3], extent_[3];
  std::vector<std::int64_t> phases_[3];
  int stripe_axis_;
  std::int64_t subplane_, stride_;
};

// Copies between a run and the rows of a tensor of the given extents: element (i, j, k) of `count` is at
// first + step * (i, j, k) in the tensor.
struct RunWindow {
  std::int64_t count[3], first[3], step[3], extent[3];
};
void scatter_run(const PlaneLayout& layout, const RunWindow& window, const float* run, float* tensor);
// The other way, for steps of one; columns between rows and the rest up to `length` become zero.
void gather_run(const PlaneLayout& layout, const RunWindow& window, const float* tensor, float* run,
                std::int64_t length);

}  // namespace hearth::cpu
