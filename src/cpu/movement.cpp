// Kernels that put elements elsewhere: concat, pad, unslice, arange.
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/thread_pool.h"
#include "cpu/dispatch.h"
#include "cpu/kernels.h"
#include "cpu/strided_copy.h"

namespace hearth::cpu {
namespace {

char* at_element(void* base, DType dtype, std::int64_t offset) {
  return static_cast<char*>(base) + offset * static_cast<std::int64_t>(dtype_size(dtype));
}

// What a cast to T gives; a double beyond the range of i64 saturates.
template <typename T>
T from_double(double value) {
  if constexpr (is_half<T>) {
    return T(static_cast<float>(value));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    using Limits = std::numeric_limits<std::int64_t>;
    if (value != value) return T(0);
    if (value >= 0x1p63) return static_cast<T>(Limits::max());
    if (value <= -0x1p63) return static_cast<T>(Limits::min());
    return static_cast<T>(static_cast<std::int64_t>(value));
  }
}

using Element = std::array<char, 8>;

Element element_from_double(DType dtype, double value) {
  Element element{};
  if (dtype == DType::bool_) value = value != 0 ? 1 : 0;
  dispatch(dtype, [&]<typename T>(std::type_identity<T>) {
    const T converted = from_double<T>(value);
    std::memcpy(element.data(), &converted, sizeof converted);
  });
  return element;
}

// ---- concat

std::unique_ptr<Kernel> make_concat(const Step& step) {
  struct Part {
    StridedLoop loop;
    std::int64_t target;  // offset in the output
  };
  const Layout& output = step.outputs[0];
  const auto axis = static_cast<std::size_t>(std::get<AxisAttributes>(step.attributes).axis);
  std::vector<Part> parts;
  std::int64_t target = 0;
  for (const Layout& input : step.inputs) {
    parts.push_back({collapse(input.shape, {input.strides, output.strides}), target});
    target += input.shape[axis] * output.strides[axis];
  }
  return kernel([parts = std::move(parts), dtype = output.dtype](const KernelArguments& arguments) {
    for (std::size_t k = 0; k < parts.size(); ++k)
      copy_strided(parts[k].loop, dtype, arguments.inputs[k],
                   at_element(arguments.outputs[0], dtype, parts[k].target));
  });
}

// ---- pad, unslice

// Where an input goes in a larger output, and the boxes of the output around it.
struct Placement {
  struct Box {
    StridedLoop loop;
    std::int64_t target;
  };
  std::vector<Box> surroundings;  // disjoint from the input's place unless it has gaps
  StridedLoop loop;
  std::int64_t target = 0;
};

// Element i of the input goes to start + i * step, per axis.
Placement place(const Layout& input, const Layout& output, const Shape& start, const Shape& step) {
  Placement placement;
  const std::size_t ndim = output.shape.size();
  Strides strides(ndim);
  bool dense = element_count(input.shape) > 0;
  for (std::size_t axis = 0; axis < ndim; ++axis) {
    strides[axis] = output.strides[axis] * step[axis];
    placement.target += output.strides[axis] * start[axis];
    dense &= step[axis] == 1 || input.shape[axis] == 1;
  }
  placement.loop = collapse(input.shape, {input.strides, strides});
  if (!dense) {
    placement.surroundings.push_back({collapse(output.shape, {output.strides}), 0});
    return placement;
  }
  // For each axis, what lies before and after the input's extent: the axes further out limited to that
  // extent, those further in complete.
  Shape box = output.shape;
  std::int64_t corner = 0;
  for (std::size_t axis = 0; axis < ndim; ++axis) {
    const std::int64_t end = start[axis] + input.shape[axis];
    const std::pair<std::int64_t, std::int64_t> ranges[] = {{0, start[axis]}, {end, output.shape[axis]}};
    for (const auto& [from, to] : ranges) {
      if (from >= to) continue;
      box[axis] = to - from;
      placement.surroundings.push_back(
          {collapse(box, {output.strides}), corner + from * output.strides[axis]});
    }
    box[axis] = input.shape[axis];
    corner += start[axis] * output.strides[axis];
  }
  return placement;
}

std::unique_ptr<Kernel> make_placement(const Step& step, const Shape& start, const Shape& steps,
                                       double value) {
  const DType dtype = step.outputs[0].dtype;
  return kernel([placement = place(step.inputs[0], step.outputs[0], start, steps), dtype,
                 element = element_from_double(dtype, value)](const KernelArguments& arguments) {
    void* out = arguments.outputs[0];
    for (const auto& box : placement.surroundings)
      fill_strided(box.loop, dtype, element.data(), at_element(out, dtype, box.target));
    if (placement.loop.count() > 0)
      copy_strided(placement.loop, dtype, arguments.inputs[0], at_element(out, dtype, placement.target));
  });
}

std::unique_ptr<Kernel> make_pad(const Step& step) {
  const auto& attributes = std::get<PadAttributes>(step.attributes);
  return make_placement(step, attributes.before, Shape(attributes.before.size(), 1), attributes.value);
}

std::unique_ptr<Kernel> make_unslice(const Step& step) {
  const auto& attributes = std::get<SliceAttributes>(step.attributes);
  return make_placement(step, attributes.start, attributes.step, 0);
}

// ---- arange

bool is_i64(double value) { return value == std::trunc(value) && std::abs(value) < 0x1p63; }

std::unique_ptr<Kernel> make_arange(const Step& step) {
  const auto& [start, increment] = std::get<RangeAttributes>(step.attributes);
  const std::int64_t count = element_count(step.outputs[0].shape);
  const bool boolean = step.outputs[0].dtype == DType::bool_;
  // In integers where the numbers are: exact beyond 2^53.
  const bool whole = is_integral(step.outputs[0].dtype) && is_i64(start) && is_i64(increment);
  return dispatch(step.outputs[0].dtype, [&]<typename T>(std::type_identity<T>) {
    return kernel([=](const KernelArguments& arguments) {
      T* out = static_cast<T*>(arguments.outputs[0]);
      parallel_for(count, copy_grain, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          if constexpr (std::is_integral_v<T>) {
            if (whole) {
              const auto value = static_cast<std::uint64_t>(static_cast<std::int64_t>(start)) +
                                 static_cast<std::uint64_t>(static_cast<std::int64_t>(increment)) *
                                     static_cast<std::uint64_t>(i);
              out[i] = boolean ? static_cast<T>(value != 0) : static_cast<T>(value);
              continue;
            }
          }
          const double value = start + increment * static_cast<double>(i);
          out[i] = boolean ? static_cast<T>(value != 0) : from_double<T>(value);
        }
      });
    });
  });
}

}  // namespace

std::unique_ptr<Kernel> make_movement(const Step& step) {
  switch (step.op) {
    case Op::concat:
      return make_concat(step);
    case Op::pad:
      return make_pad(step);
    case Op::unslice:
      return make_unslice(step);
    case Op::arange:
      return make_arange(step);
    default:
      throw DTypeError(fmt::format("[{}] does not move elements", op_name(step.op)));
  }
}

}  // namespace hearth::cpu
