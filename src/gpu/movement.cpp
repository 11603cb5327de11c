// Elements moved to other places: concat, pad, unslice, arange.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "gpu/nest.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;
constexpr unsigned per_block = threads * 4;  // units_under_way of kernels/movement.h

// ---- concat

// One copy per input.
class ConcatKernel final : public Kernel {
 public:
  ConcatKernel(GpuDevice& device, const Step& step)
      : device_(device), element_(dtype_size(step.outputs[0].dtype)), parts_(step.inputs.size()) {
    const Layout& output = step.outputs[0];
    const auto axis = static_cast<std::size_t>(std::get<AxisAttributes>(step.attributes).axis);
    std::int64_t target = 0;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const Layout& input = step.inputs[k];
      parts_[k].loop = collapse(input.shape, {input.strides, output.strides});
      parts_[k].unit = unit_bytes(parts_[k].loop, 2, element_);
      parts_[k].target = target;
      target += input.shape[axis] * output.strides[axis];
    }
  }

  void run(const KernelArguments& arguments) const override {
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const Part& part = parts_[k];
      if (part.loop.count() == 0) continue;
      const void* source = arguments.inputs[k];
      void* target = at_element(arguments.outputs[0], element_, part.target);
      const std::int64_t bytes = aligned_unit(aligned_unit(part.unit, source), target);
      const std::int64_t unit = bytes / static_cast<std::int64_t>(element_);
      const auto count = static_cast<std::uint64_t>(part.loop.count() / unit);
      const Function& function = part.functions.get(
          device_, bytes, [&] { return copy_source(bytes, index_type(part.loop.count())); }, "copy_units");
      device_.launch(function, {.x = device_.grid_for(count, per_block), .threads = threads}, source, target,
                     Nest<2>(part.loop, unit), count);
    }
  }

 private:
  struct Part {
    StridedLoop loop;         // input, output
    std::int64_t unit = 1;    // bytes, if the pointers are aligned
    std::int64_t target = 0;  // offset in the output
    UnitFunctions functions;
  };
  GpuDevice& device_;
  std::size_t element_;
  std::vector<Part> parts_;
};

// ---- pad, unslice

// As kernels/movement.h has it.
struct Placement {
  std::uint64_t axes = 0;
  Divisor size[most_axes];
  Divisor step[most_axes];
  std::int64_t start[most_axes] = {}, length[most_axes] = {}, stride[most_axes] = {};
};

struct PlacedAxis {
  std::int64_t size, step, start, length, stride;
  bool whole() const { return start == 0 && step == 1 && length == size; }
};

KernelSource place_source(std::int64_t unit, std::string_view index) {
  return {"place_units",
          fmt::format("#include \"movement.h\"\n"
                      "KERNEL void place_units(const {0}* source, {0}* target, Unit16 fill,\n"
                      "                        Placement placement, u64 count) {{\n"
                      "  place_units<{1}>(source, target, *reinterpret_cast<const {0}*>(&fill),\n"
                      "                   placement, count);\n}}\n",
                      unit_type(unit), index),
          {},
          static_cast<std::size_t>(unit)};
}

// Every element of the output finds what it shows.
class PlacementKernel final : public Kernel {
 public:
  // Element i of an axis of the input goes to start + i * step.
  PlacementKernel(GpuDevice& device, const Step& step, const Shape& start, const Shape& steps, double value)
      : device_(device),
        element_(dtype_size(step.outputs[0].dtype)),
        count_(element_count(step.outputs[0].shape)) {
    const Layout &input = step.inputs[0], &output = step.outputs[0];
    for (std::size_t axis = 0; axis < output.shape.size(); ++axis)
      add_axis({output.shape[axis], steps[axis], start[axis], input.shape[axis], input.strides[axis]});
    if (axes_.empty()) axes_.push_back({1, 1, 0, 1, 1});
    unit_ = widest_unit();
    fill(output.dtype, value);
  }

  void run(const KernelArguments& arguments) const override {
    if (count_ == 0) return;
    const void* source = at_element(arguments.inputs[0], element_, source_offset_);
    void* target = arguments.outputs[0];
    const std::int64_t bytes = aligned_unit(aligned_unit(unit_, source), target);
    const std::int64_t unit = bytes / static_cast<std::int64_t>(element_);
    const auto count = static_cast<std::uint64_t>(count_ / unit);
    const Function& function = functions_.get(
        device_, bytes, [&] { return place_source(bytes, index_type(count_)); }, "place_units");
    device_.launch(function, {.x = device_.grid_for(count, per_block), .threads = threads}, source, target,
                   fill_, placement(unit), count);
  }

 private:
  void add_axis(PlacedAxis axis) {
    if (axis.size == 1 && axis.whole()) return;
    if (axis.length <= 1) axis.step = 1;
    if (axis.step < 0) {  // from the other end
      source_offset_ += (axis.length - 1) * axis.stride;
      axis.start += (axis.length - 1) * axis.step;
      axis.stride = -axis.stride;
      axis.step = -axis.step;
    }
    if (!axes_.empty()) {
      PlacedAxis& outer = axes_.back();
      if (axis.whole() && outer.step == 1 && outer.stride == axis.stride * axis.size) {
        outer = {outer.size * axis.size, 1, outer.start * axis.size, outer.length * axis.size, axis.stride};
        return;
      }
    }
    axes_.push_back(axis);
  }

  std::int64_t widest_unit() const {
    const auto bytes = static_cast<std::int64_t>(element_);
    const PlacedAxis& inner = axes_.back();
    if (inner.stride != 1 || inner.step != 1) return bytes;
    std::int64_t unit = 16;
    for (const std::int64_t number : {inner.size, inner.start, inner.length})
      unit = std::gcd(unit, number * bytes);
    for (std::size_t axis = 0; axis + 1 < axes_.size(); ++axis)
      unit = std::gcd(unit, axes_[axis].stride * bytes);
    return unit;
  }

  Placement placement(std::int64_t unit) const {
    Placement result;
    result.axes = axes_.size();
    for (std::size_t axis = 0; axis < axes_.size(); ++axis) {
      const PlacedAxis& from = axes_[axis];
      const bool inner = axis + 1 == axes_.size();
      result.size[axis] = Divisor(inner ? from.size / unit : from.size);
      result.step[axis] = Divisor(from.step);
      result.start[axis] = inner ? from.start / unit : from.start;
      result.length[axis] = inner ? from.length / unit : from.length;
      result.stride[axis] = inner ? from.stride : from.stride / unit;
    }
    return result;
  }

  // 16 bytes of the value.
  void fill(DType dtype, double value) {
    std::uint64_t bits = 0;
    const auto put = [&](auto converted) { std::memcpy(&bits, &converted, sizeof converted); };
    if (dtype == DType::f64)
      put(value);
    else if (dtype == DType::f32)
      put(static_cast<float>(value));
    else if (dtype == DType::f16)
      put(float16(static_cast<float>(value)));
    else if (dtype == DType::bf16)
      put(bfloat16(static_cast<float>(value)));
    else if (dtype == DType::bool_)
      put(value != 0);
    else
      put(to_integer(value));
    for (std::size_t at = 0; at < sizeof fill_; at += element_)
      std::memcpy(fill_.data() + at, &bits, element_);
  }

  // Saturates; the low bytes are those of a narrower integer.
  static std::int64_t to_integer(double value) {
    if (value != value) return 0;
    if (value >= 0x1p63) return std::numeric_limits<std::int64_t>::max();
    if (value <= -0x1p63) return std::numeric_limits<std::int64_t>::min();
    return static_cast<std::int64_t>(value);
  }

  GpuDevice& device_;
  std::size_t element_;
  std::int64_t count_, unit_ = 1, source_offset_ = 0;
  std::vector<PlacedAxis> axes_;
  alignas(16) std::array<unsigned char, 16> fill_{};
  UnitFunctions functions_;
};

// ---- arange

bool is_i64(double value) { return value == std::trunc(value) && std::abs(value) < 0x1p63; }

KernelSource range_source(DType dtype, bool whole) {
  return {"arange",
          fmt::format("#include \"movement.h\"\n"
                      "KERNEL void arange({0}* out, {1} start, {1} step, u64 count) {{\n"
                      "  range_of_{2}(out, start, step, count);\n}}\n",
                      storage_type(dtype), whole ? "u64" : "f64", whole ? "integers" : "reals"),
          {}};
}

class RangeKernel final : public Kernel {
 public:
  RangeKernel(GpuDevice& device, const Step& step)
      : device_(device),
        range_(std::get<RangeAttributes>(step.attributes)),
        whole_(is_integral(step.outputs[0].dtype) && is_i64(range_.start) && is_i64(range_.step)),
        count_(static_cast<std::uint64_t>(element_count(step.outputs[0].shape))),
        function_(device.function(range_source(step.outputs[0].dtype, whole_), "arange")) {}

  void run(const KernelArguments& arguments) const override {
    if (count_ == 0) return;
    const LaunchShape shape{.x = device_.grid_for(count_, threads), .threads = threads};
    if (whole_)
      device_.launch(function_, shape, arguments.outputs[0], static_cast<std::int64_t>(range_.start),
                     static_cast<std::int64_t>(range_.step), count_);
    else
      device_.launch(function_, shape, arguments.outputs[0], range_.start, range_.step, count_);
  }

 private:
  GpuDevice& device_;
  RangeAttributes range_;
  bool whole_;  // in integers, as the numbers are
  std::uint64_t count_;
  Function function_;
};

}  // namespace

std::unique_ptr<Kernel> make_movement(GpuDevice& device, const Step& step) {
  switch (step.op) {
    case Op::concat:
      if (step.attention_gradients) return make_attention_gradients(device, step);
      if (step.turned_parts) return make_turned_parts(device, step);
      return std::make_unique<ConcatKernel>(device, step);
    case Op::pad: {
      const auto& attributes = std::get<PadAttributes>(step.attributes);
      return std::make_unique<PlacementKernel>(device, step, attributes.before,
                                               Shape(attributes.before.size(), 1), attributes.value);
    }
    case Op::unslice: {
      const auto& attributes = std::get<SliceAttributes>(step.attributes);
      return std::make_unique<PlacementKernel>(device, step, attributes.start, attributes.step, 0.0);
    }
    case Op::arange:
      return std::make_unique<RangeKernel>(device, step);
    default:
      throw DTypeError(fmt::format("[{}] does not move elements", op_name(step.op)));
  }
}

}  // namespace hearth::gpu
