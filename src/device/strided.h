// Walking over strided arrays: several operands of one shape, each with strides of its own.
//
// Offsets are in elements, from each operand's element (0, 0, ...).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "hearth/shape.h"

namespace hearth {

// A nest of loops, outermost axis first. There is at least one axis.
struct StridedLoop {
  Shape shape;
  std::vector<Strides> strides;  // one per operand

  std::int64_t count() const { return element_count(shape); }
  std::int64_t inner_size() const { return shape.back(); }
  std::int64_t inner_stride(std::size_t operand) const { return strides[operand].back(); }
};

// The shortest nest that visits the same elements in the same order. Axes of size 1 go; neighbouring axes
// become one where, for every operand, a step of the outer axis equals the whole length of the inner one. A
// shape with a zero becomes {0}, a scalar {1}.
inline StridedLoop collapse(const Shape& shape, const std::vector<Strides>& strides) {
  StridedLoop loop;
  loop.strides.resize(strides.size());
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  for (std::size_t axis = 0; axis < shape.size() && !empty; ++axis) {
    if (shape[axis] == 1) continue;
    bool merges = !loop.shape.empty();
    for (std::size_t k = 0; k < strides.size() && merges; ++k)
      merges = loop.strides[k].back() == strides[k][axis] * shape[axis];
    if (merges)
      loop.shape.back() *= shape[axis];
    else
      loop.shape.push_back(shape[axis]);
    for (std::size_t k = 0; k < strides.size(); ++k) {
      if (merges) loop.strides[k].pop_back();
      loop.strides[k].push_back(strides[k][axis]);
    }
  }
  if (loop.shape.empty()) {
    loop.shape.push_back(empty ? 0 : 1);
    for (auto& operand : loop.strides) operand.push_back(0);
  }
  return loop;
}

// Steps through the outer axes of a nest (all but the last) in row-major order and keeps the operands'
// offsets.
class Odometer {
 public:
  // At the `position`-th index of the outer axes. The loop must outlive the odometer.
  Odometer(const StridedLoop& loop, std::int64_t position)
      : loop_(loop), index_(loop.shape.size() - 1), offsets_(loop.strides.size()) {
    for (std::size_t axis = index_.size(); axis-- > 0;) {
      index_[axis] = position % loop.shape[axis];
      position /= loop.shape[axis];
      for (std::size_t k = 0; k < offsets_.size(); ++k) offsets_[k] += index_[axis] * loop.strides[k][axis];
    }
  }

  const std::int64_t* offsets() const { return offsets_.data(); }
  std::int64_t offset(std::size_t operand) const { return offsets_[operand]; }

  // After the last index comes the first.
  void next() {
    for (std::size_t axis = index_.size(); axis-- > 0;) {
      const bool wraps = ++index_[axis] == loop_.shape[axis];
      const std::int64_t steps = wraps ? 1 - loop_.shape[axis] : 1;
      for (std::size_t k = 0; k < offsets_.size(); ++k) offsets_[k] += steps * loop_.strides[k][axis];
      if (!wraps) return;
      index_[axis] = 0;
    }
  }

 private:
  const StridedLoop& loop_;
  SmallVector<std::int64_t, 5> index_;
  SmallVector<std::int64_t, 8> offsets_;
};

// Calls body(offsets, length) for the pieces of inner axis that make up elements [begin, end) of the nest.
template <typename Body>
void for_each_run(const StridedLoop& loop, std::int64_t begin, std::int64_t end, const Body& body) {
  if (begin >= end) return;
  const std::int64_t inner = loop.inner_size();
  Odometer odometer(loop, begin / inner);
  if (const std::int64_t first = begin % inner; first != 0) {
    SmallVector<std::int64_t, 8> offsets(odometer.offsets(), odometer.offsets() + loop.strides.size());
    for (std::size_t k = 0; k < offsets.size(); ++k) offsets[k] += first * loop.inner_stride(k);
    const std::int64_t length = std::min(inner - first, end - begin);
    body(static_cast<const std::int64_t*>(offsets.data()), length);
    begin += length;
    odometer.next();
  }
  for (; begin < end; begin += inner, odometer.next()) body(odometer.offsets(), std::min(inner, end - begin));
}

// A nest split into one axis, which has to be walked in order, and the lines along it, which are independent.
struct AxisLoop {
  StridedLoop lines;
  std::int64_t length = 0;            // of the axis
  SmallVector<std::int64_t, 4> step;  // per operand, along the axis

  static constexpr std::int64_t max_width = 64;
  // How many neighbouring lines to walk together: many where neighbours lie closer in memory than the line's
  // elements.
  std::int64_t width() const {
    const auto across = std::abs(lines.inner_stride(0)), along = std::abs(step[0]);
    return across < along ? max_width : 1;
  }
};

inline AxisLoop split_axis(const Shape& shape, std::size_t axis, const std::vector<Strides>& strides) {
  AxisLoop loop;
  loop.length = shape[axis];
  Shape rest = shape;
  rest.erase(axis);
  std::vector<Strides> rest_strides = strides;
  for (auto& operand : rest_strides) {
    loop.step.push_back(operand[axis]);
    operand.erase(axis);
  }
  loop.lines = collapse(rest, rest_strides);
  return loop;
}

// Calls body(offsets, width) for groups of up to loop.width() neighbouring lines that make up lines [begin,
// end).
template <typename Body>
void for_each_line_group(const AxisLoop& loop, std::int64_t begin, std::int64_t end, const Body& body) {
  const std::int64_t width = loop.width();
  SmallVector<std::int64_t, 8> offsets(loop.lines.strides.size());
  for_each_run(loop.lines, begin, end, [&](const std::int64_t* run, std::int64_t length) {
    for (std::int64_t first = 0; first < length; first += width) {
      for (std::size_t k = 0; k < offsets.size(); ++k)
        offsets[k] = run[k] + first * loop.lines.inner_stride(k);
      body(static_cast<const std::int64_t*>(offsets.data()), std::min(width, length - first));
    }
  });
}

}  // namespace hearth
