// Rotary position embedding: a rotation of every row, by angles from a table in scratch memory where there
// are many.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "device/strided.h"
#include "gpu/expression_kernel.h"
#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "gpu/rope_angles.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;

class RopeKernel final : public Kernel {
 public:
  RopeKernel(GpuDevice& device, const Step& step)
      : device_(device),
        attributes_(std::get<RopeAttributes>(step.attributes)),
        dtype_(step.inputs[0].dtype),
        half_(step.inputs[0].shape.back() / 2),
        turned_by_(step, 1, step.inputs.size() > 2, attributes_, half_) {
    if (!is_floating(dtype_)) throw DTypeError(fmt::format("[rope] no kernel for {}", dtype_name(dtype_)));
    const Layout& x = step.inputs[0];
    const std::size_t last = x.shape.size() - 1;
    time_ = x.shape[last - 1];
    step_ = x.strides[last];
    loop_ = collapse(Shape(x.shape.begin(), x.shape.end() - 1),
                     {Strides(x.strides.begin(), x.strides.end() - 1)});
    if (loop_.shape.size() > most_axes)
      throw KernelError(fmt::format("[rope] more than {} axes that cannot be merged", most_axes));
    packet_ = packet_length();
    if (in_table()) angles_.emplace(device, dtype_, time_, half_);
  }

  std::size_t scratch_bytes() const override { return angles_ ? angles_->bytes() : 0; }

  void run(const KernelArguments& arguments) const override {
    const std::int64_t rows = loop_.count();
    if (rows == 0 || half_ == 0) return;
    const auto time = static_cast<std::uint64_t>(time_), half = static_cast<std::uint64_t>(half_);
    const RopeTurns turns = turned_by_.turns(arguments.inputs);
    RopeAngles::Table table{};
    if (angles_) table = angles_->compute(turns, arguments.scratch);

    const bool packets = aligned(arguments.inputs[0], dtype_, elements(packet_)) &&
                         aligned(arguments.outputs[0], dtype_, elements(packet_));
    const int packet = packets ? packet_ : 1;
    const auto make_source = [&] { return rotate_source(packet); };
    const Function& rotate = (packets ? in_packets_ : by_element_).get(device_, make_source, "rotate");
    Arguments values;
    const auto row_count = static_cast<std::uint64_t>(rows);
    values.add(arguments.inputs[0]);
    values.add(step_);
    values.add(arguments.outputs[0]);
    if (angles_) {
      values.add(table.cosine);
      values.add(table.sine);
    } else {
      values.add(turns);
    }
    values.add(row_count);
    values.add(time);
    values.add(half);
    for (const auto& size : loop_.shape) values.add(size);
    for (const auto& stride : loop_.strides[0]) values.add(stride);
    device_.launch(rotate,
                   {.x = device_.grid_for(row_count * half / static_cast<unsigned>(packet), threads),
                    .threads = threads},
                   values);
  }

 private:
  // Neighbouring elements that are moved together, for so many pairs.
  int elements(int pairs) const { return attributes_.interleaved && pairs > 1 ? 2 * pairs : pairs; }

  // A launch costs more than a few pairs that compute their angles themselves.
  bool in_table() const {
    constexpr std::int64_t few_pairs = 1 << 14;
    return loop_.count() * half_ > few_pairs;
  }

  int packet_length() const {
    if (!in_table()) return 1;
    auto pairs = static_cast<int>((attributes_.interleaved ? 8 : 16) / dtype_size(dtype_));
    while (pairs > 1 && !fits(pairs)) pairs /= 2;
    return pairs;
  }
  bool fits(int pairs) const {
    return step_ == 1 && half_ % pairs == 0 &&
           std::all_of(loop_.strides[0].begin(), loop_.strides[0].end(),
                       [&](std::int64_t stride) { return stride % elements(pairs) == 0; });
  }

  KernelSource rotate_source(int packet) const {
    const std::size_t axes = loop_.shape.size();
    std::string text = fmt::format(
        "#include \"rope.h\"\nusing Index = {2};\n"
        "KERNEL void rotate(const {0}* x, i64 step, {0}* out, {1}, u64 rows, u64 time, u64 half",
        storage_type(dtype_),
        in_table() ? fmt::format("const {0}* cosine, const {0}* sine", compute_type(dtype_))
                   : "RopeTurns turns",
        index_type(loop_.count() * half_));
    text += size_parameters("r", axes) + stride_parameters("r", axes, 1) + ") {\n  after_previous();\n";
    text += "  const auto row_at = [&](Index row) {\n" + index_statements("    ", "row", "r", axes);
    text += "    return x + (" + place_text(0, "r", axes) + ");\n  };\n";
    text += fmt::format(
        "  rope_rotate<{0}, {1}, {2}, {3}, Index>(row_at, step,\n"
        "      [&](Index row) {{ return out + (u64)row * 2 * half; }}, [&](Index row) {{ return row % "
        "(Index)time; "
        "}},\n      {4}, rows, half);\n}}\n",
        storage_type(dtype_), compute_type(dtype_), packet, attributes_.interleaved,
        in_table() ? fmt::format("RopeTable<{}>{{cosine, sine, half}}", compute_type(dtype_))
                   : fmt::format("RopeComputed<{}>{{turns}}", compute_type(dtype_)));
    return {
        "rope", text, {}, packet > 1 ? static_cast<std::size_t>(elements(packet)) * dtype_size(dtype_) : 0};
  }

  GpuDevice& device_;
  RopeAttributes attributes_;
  DType dtype_;
  std::int64_t half_;
  RopeInputs turned_by_;
  std::int64_t time_ = 0, step_ = 1;
  StridedLoop loop_;
  int packet_ = 1;  // pairs
  std::optional<RopeAngles> angles_;
  LazyFunction in_packets_, by_element_;
};

}  // namespace

std::unique_ptr<Kernel> make_rope(GpuDevice& device, const Step& step) {
  return std::make_unique<RopeKernel>(device, step);
}

}  // namespace hearth::gpu
