// A concat of heads of which some go through rope: one launch for all parts, behind one for the angles.
#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "gpu/nest.h"
#include "gpu/rope_angles.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;
constexpr std::size_t most_turned_parts = 8;

// A part as the kernel sees it: strides of sequences, times and heads, and its first head in the result.
struct Part {
  std::int64_t sequence, time, head, first;
};

class TurnedPartsKernel final : public Kernel {
 public:
  TurnedPartsKernel(GpuDevice& device, const Step& step)
      : device_(device),
        turned_(*step.turned_parts),
        dtype_(step.outputs[0].dtype),
        sequences_(step.domain[0]),
        time_(step.domain[1]),
        heads_(step.domain[2]),
        half_(step.domain[3] / 2),
        turned_by_(step, turned_.parts, step.inputs.size() > turned_.parts + 1, turned_.rope, half_),
        angles_(device, dtype_, time_, half_) {
    std::int64_t first = 0;
    for (std::size_t i = 0; i < turned_.parts; ++i) {
      const Layout& part = step.inputs[i];
      parts_.push_back({part.strides[0], part.strides[1], part.strides[2], first});
      first += part.shape[2];
      if (i + 1 == turned_.turned) turned_heads_ = first;
    }
    packet_ = static_cast<int>((turned_.rope.interleaved ? 8 : 16) / dtype_size(dtype_));
    while (packet_ > 1 && !fits(packet_)) packet_ /= 2;
  }

  std::size_t scratch_bytes() const override { return angles_.bytes(); }

  void run(const KernelArguments& arguments) const override {
    const std::int64_t rows = sequences_ * time_ * heads_;
    if (rows == 0 || half_ == 0) return;
    const RopeAngles::Table table = angles_.compute(turned_by_.turns(arguments.inputs), arguments.scratch);
    bool packets = true;
    for (std::size_t i = 0; i < turned_.parts; ++i)
      packets = packets && begins_on_packet(arguments.inputs[i]);
    packets = packets && begins_on_packet(arguments.outputs[0]);
    const int packet = packets ? packet_ : 1;
    Arguments values;
    for (std::size_t i = 0; i < turned_.parts; ++i) {
      values.add(arguments.inputs[i]);
      values.add(parts_[i]);
    }
    const auto row_count = static_cast<std::uint64_t>(rows), time = static_cast<std::uint64_t>(time_),
               heads = static_cast<std::uint64_t>(heads_), turned = static_cast<std::uint64_t>(turned_heads_),
               half = static_cast<std::uint64_t>(half_);
    values.add(arguments.outputs[0]);
    values.add(table.cosine);
    values.add(table.sine);
    values.add(row_count);
    values.add(time);
    values.add(heads);
    values.add(turned);
    values.add(half);
    const auto make_source = [&] { return source(packet); };
    device_.launch((packets ? in_packets_ : by_element_).get(device_, make_source, "join"),
                   {.x = device_.grid_for(row_count * half / static_cast<unsigned>(packet), threads),
                    .threads = threads},
                   values);
  }

 private:
  // Neighbouring elements that are moved together, for so many pairs.
  int elements(int pairs) const { return turned_.rope.interleaved && pairs > 1 ? 2 * pairs : pairs; }
  bool fits(int pairs) const {
    const std::int64_t unit = elements(pairs);
    return half_ % pairs == 0 && std::all_of(parts_.begin(), parts_.end(), [&](const Part& part) {
             return part.sequence % unit == 0 && part.time % unit == 0 && part.head % unit == 0;
           });
  }
  bool begins_on_packet(const void* pointer) const {
    return reinterpret_cast<std::uintptr_t>(pointer) %
               (static_cast<std::size_t>(elements(packet_)) * dtype_size(dtype_)) ==
           0;
  }

  KernelSource source(int packet) const {
    const std::string_view stored = storage_type(dtype_), computed = compute_type(dtype_);
    std::string parameters, choice;
    for (std::size_t i = 0; i < turned_.parts; ++i) {
      parameters += fmt::format("const {0}* x{1}, Part part{1}, ", stored, i);
      choice += i + 1 == turned_.parts
                    ? fmt::format("    return at(x{0}, part{0});\n", i)
                    : fmt::format("    if (head < part{1}.first) return at(x{0}, part{0});\n", i, i + 1);
    }
    const std::string text = fmt::format(
        "#include \"rope.h\"\nusing Index = {0};\nstruct Part {{\n  i64 sequence, time, head, first;\n}};\n"
        "KERNEL void join({1}{2}* out, const {3}* cosine, const {3}* sine, u64 rows, u64 time, u64 heads,\n"
        "    u64 turned, u64 half) {{\n  after_previous();\n"
        "  const auto row_at = [&](Index row) {{\n"
        "    const i64 head = row % (Index)heads, at_time = row / (Index)heads % (Index)time,\n"
        "              sequence = row / (Index)heads / (Index)time;\n"
        "    const auto at = [&](const {2}* x, const Part& part) {{\n"
        "      return x + sequence * part.sequence + at_time * part.time + (head - part.first) * part.head;\n"
        "    }};\n{4}  }};\n"
        "  rope_rotate<{2}, {3}, {5}, {6}, Index>(row_at, 1,\n"
        "      [&](Index row) {{ return out + (u64)row * 2 * half; }},\n"
        "      [&](Index row) {{ return row / (Index)heads % (Index)time; }},\n"
        "      RopeTable<{3}>{{cosine, sine, half}}, rows, half,\n"
        "      [&](Index row) {{ return row % (Index)heads < (Index)turned; }});\n}}\n",
        index_type(sequences_ * time_ * heads_ * half_), parameters, stored, computed, choice, packet,
        turned_.rope.interleaved);
    return {"rope_concat",
            text,
            {},
            packet > 1 ? static_cast<std::size_t>(elements(packet)) * dtype_size(dtype_) : 0};
  }

  GpuDevice& device_;
  TurnedParts turned_;
  DType dtype_;
  std::int64_t sequences_, time_, heads_, half_, turned_heads_ = 0;
  RopeInputs turned_by_;
  RopeAngles angles_;
  std::vector<Part> parts_;
  int packet_ = 1;  // pairs
  LazyFunction in_packets_, by_element_;
};

}  // namespace

bool turned_parts_fit(const Step& concat) {
  const TurnedParts& turned = *concat.turned_parts;
  if (!is_floating(concat.outputs[0].dtype) || turned.parts > most_turned_parts ||
      concat.domain[3] % 2 != 0 || concat.inputs[turned.parts].dtype != DType::i64)
    return false;
  return std::all_of(
      concat.inputs.begin(), concat.inputs.begin() + static_cast<std::ptrdiff_t>(turned.parts),
      [&](const Layout& part) { return part.strides[3] == 1 && part.dtype == concat.outputs[0].dtype; });
}

std::unique_ptr<Kernel> make_turned_parts(GpuDevice& device, const Step& step) {
  return std::make_unique<TurnedPartsKernel>(device, step);
}

}  // namespace hearth::gpu
