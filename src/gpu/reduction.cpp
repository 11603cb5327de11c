// Reduction steps: an expression over a domain, reduced over some of its axes.
//
// Two kernels (kernels/reduce.h): where neighbours in memory are reduced, groups of threads go along rows;
// where neighbours are kept, threads stand side by side over columns. Few long rows or columns are cut into
// slices, and a second kernel combines the slices' totals. Everything follows from sizes and the device, so
// the same input gives the same bits.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "device/strided.h"
#include "gpu/expression_kernel.h"
#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;
constexpr std::int64_t blocks_per_unit = 8;  // that fill a compute unit

std::string_view reducer_name(Op op) {
  switch (op) {
    case Op::sum:
      return "Sum";
    case Op::prod:
      return "Product";
    case Op::max:
      return "Largest";
    case Op::min:
      return "Smallest";
    case Op::all:
      return "All";
    case Op::any:
      return "Any";
    case Op::argmax:
      return "FirstLargest";
    case Op::argmin:
      return "FirstSmallest";
    default:
      throw KernelError(fmt::format("[{}] is not a reduction", op_name(op)));
  }
}

std::size_t total_size(Op op, DType element) {
  const bool wide = compute_type(element) == "f64" || compute_type(element) == "i64";
  if (op == Op::argmax || op == Op::argmin) return 16;
  return wide || ((op == Op::sum || op == Op::prod) && compute_type(element) != "f32") ? 8 : 4;
}

// What is read or written per element of the domain: the inputs, then the outputs besides the reduction.
struct Operand {
  DType dtype;
  Strides strides;  // over the domain

  std::int64_t bytes(const Shape& domain) const {
    auto result = static_cast<std::int64_t>(dtype_size(dtype));
    for (std::size_t axis = 0; axis < domain.size(); ++axis)
      if (strides[axis] != 0) result *= domain[axis];
    return result;
  }
};

// The domain as two nests of loops over the operands.
struct Loops {
  StridedLoop kept, reduced;
  bool rows = true;  // neighbours in memory are reduced

  Loops(const Shape& domain, const Axes& axes, const std::vector<Operand>& operands) {
    std::vector<bool> is_reduced(domain.size(), false);
    for (const auto axis : axes) is_reduced[static_cast<std::size_t>(axis)] = true;
    const auto heaviest = std::max_element(
        operands.begin(), operands.end(),
        [&](const Operand& a, const Operand& b) { return a.bytes(domain) < b.bytes(domain); });

    std::vector<std::size_t> kept_axes, reduced_axes;
    for (std::size_t axis = 0; axis < domain.size(); ++axis)
      (is_reduced[axis] ? reduced_axes : kept_axes).push_back(axis);
    if (heaviest != operands.end()) {
      // The order of reduced axes is free: that of memory is best.
      std::stable_sort(reduced_axes.begin(), reduced_axes.end(), [&](std::size_t a, std::size_t b) {
        return std::abs(heaviest->strides[a]) > std::abs(heaviest->strides[b]);
      });
      std::int64_t nearest = 0;
      for (std::size_t axis = 0; axis < domain.size(); ++axis) {
        const auto stride = std::abs(heaviest->strides[axis]);
        if (domain[axis] < 2 || stride == 0 || (nearest != 0 && stride > nearest)) continue;
        nearest = stride;
        rows = is_reduced[axis];
      }
    }
    kept = nest(domain, kept_axes, operands);
    reduced = nest(domain, reduced_axes, operands);
    if (kept.count() == 1) rows = true;
  }

  static StridedLoop nest(const Shape& domain, const std::vector<std::size_t>& axes,
                          const std::vector<Operand>& operands) {
    Shape shape;
    std::vector<Strides> strides(operands.size());
    for (const std::size_t axis : axes) {
      shape.push_back(domain[axis]);
      for (std::size_t k = 0; k < operands.size(); ++k) strides[k].push_back(operands[k].strides[axis]);
    }
    return collapse(shape, strides);
  }

  const StridedLoop& inner() const { return rows ? reduced : kept; }
  const StridedLoop& outer() const { return rows ? kept : reduced; }
  bool single(std::size_t operand) const { return inner().inner_stride(operand) == 0; }
};

class ReductionKernel final : public Kernel {
 public:
  ReductionKernel(GpuDevice& device, const Step& step)
      : device_(device),
        code_(step),
        operands_(operands_of(step)),
        loops_(step.domain, std::get<ReduceAttributes>(step.attributes).axes, operands_),
        element_(step.expression.dtype(step.expression.outputs[0])),
        reducer_(fmt::format("{}<{}>", reducer_name(step.op), compute_type(element_))),
        total_size_(total_size(step.op, element_)),
        kept_(loops_.kept.count()),
        reduced_(loops_.reduced.count()) {
    if (std::max(loops_.kept.shape.size(), loops_.reduced.shape.size()) > most_axes)
      throw KernelError(
          fmt::format("[{}] more than {} axes that cannot be merged", op_name(step.op), most_axes));
    packet_ = packet_length();
    if (loops_.rows)
      plan_rows();
    else
      plan_columns();
    if (slices_ > 1) combine_ = device.function(combine_source(), "combine");
  }

  std::size_t scratch_bytes() const override {
    return slices_ > 1 ? static_cast<std::size_t>(kept_ * slices_) * total_size_ : 0;
  }

  void run(const KernelArguments& arguments) const override {
    if (kept_ == 0) return;
    const int packet = all_aligned(arguments) ? packet_ : 1;
    const auto make_source = [&] {
      return KernelSource{"reduction", source(packet), {}, packet > 1 ? packet_bytes() : 0};
    };
    const Function& function =
        (packet > 1 ? in_packets_ : by_element_).get(device_, make_source, "reduction");
    Arguments values;
    const std::vector<Constant> constants = code_.constants(arguments.numbers);
    code_.add_to(values, arguments, constants);
    const auto kept = static_cast<std::uint64_t>(kept_), reduced = static_cast<std::uint64_t>(reduced_);
    const auto slices = static_cast<std::uint32_t>(slices_);
    values.add(arguments.scratch);
    values.add(kept);
    values.add(reduced);
    values.add(group_);
    values.add(slices);
    for (const StridedLoop* loop : {&loops_.kept, &loops_.reduced}) {
      for (const auto& size : loop->shape) values.add(size);
      for (const Strides& strides : loop->strides)
        for (const auto& stride : strides) values.add(stride);
    }
    const std::uint64_t groups = loops_.rows ? kept : kept / static_cast<unsigned>(packet);
    const std::uint64_t in_block = loops_.rows ? threads / group_ : group_;
    device_.launch(function, {.x = grid((groups + in_block - 1) / in_block * slices), .threads = threads},
                   values);
    if (slices_ > 1) combine(arguments);
  }

 private:
  static std::vector<Operand> operands_of(const Step& step) {
    std::vector<Operand> operands;
    for (const Layout& input : step.inputs) operands.push_back({input.dtype, input.strides});
    for (std::size_t k = 1; k < step.outputs.size(); ++k)
      operands.push_back({step.outputs[k].dtype, contiguous_strides(step.domain)});
    return operands;
  }

  // The longest packet, up to 16 bytes and eight elements, that every operand can be read or written in.
  int packet_length() const {
    std::size_t widest = 1;
    for (std::size_t k = 0; k < operands_.size(); ++k)
      if (!loops_.single(k)) widest = std::max(widest, dtype_size(operands_[k].dtype));
    auto packet = static_cast<int>(std::min<std::size_t>(8, 16 / widest));
    while (packet > 1 && !fits(packet)) packet /= 2;
    return packet;
  }

  // Of the widest input that is read in packets.
  std::size_t packet_bytes() const {
    std::size_t widest = 0;
    for (std::size_t i = 0; i < code_.inputs().size(); ++i)
      if (!loops_.single(i)) widest = std::max(widest, dtype_size(operands_[i].dtype));
    return widest * static_cast<std::size_t>(packet_);
  }

  bool fits(int packet) const {
    if (operands_.empty() || loops_.inner().inner_size() % packet != 0) return false;
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      if (loops_.single(k)) continue;
      const Strides &inner = loops_.inner().strides[k], &outer = loops_.outer().strides[k];
      const auto divides = [&](std::int64_t stride) { return stride % packet == 0; };
      if (inner.back() != 1 || !std::all_of(inner.begin(), inner.end() - 1, divides) ||
          !std::all_of(outer.begin(), outer.end(), divides))
        return false;
    }
    return true;
  }

  bool all_aligned(const KernelArguments& arguments) const {
    const std::size_t inputs = code_.inputs().size();
    for (std::size_t k = 0; k < operands_.size(); ++k) {
      const void* pointer = k < inputs ? arguments.inputs[k] : arguments.outputs[k - inputs + 1];
      if (!loops_.single(k) && !aligned(pointer, operands_[k].dtype, packet_)) return false;
    }
    return true;
  }

  std::int64_t wanted_blocks() const { return device_.compute_units() * blocks_per_unit; }
  unsigned grid(std::uint64_t jobs) const {
    return static_cast<unsigned>(
        std::clamp<std::uint64_t>(jobs, 1, static_cast<std::uint64_t>(wanted_blocks()) * 4));
  }
  static std::uint32_t power_of_two(std::int64_t at_least, std::int64_t at_most) {
    return std::bit_ceil(static_cast<std::uint32_t>(std::clamp<std::int64_t>(at_least, 1, at_most)));
  }

  // A part of a wave for a short row, a wave for a longer one, a block where that would be slow.
  void plan_rows() {
    const std::int64_t wave = device_.wave_size(), packets = reduced_ / packet_;
    group_ = power_of_two(packets, wave);
    const bool few_rows = kept_ * wave < wanted_blocks() * static_cast<std::int64_t>(threads);
    if (packets < 32 * wave && !(few_rows && packets >= 4 * wave)) return;
    group_ = threads;
    constexpr std::int64_t least = 4 * threads, most_slices = 2048;  // packets per slice
    slices_ = std::clamp<std::int64_t>(wanted_blocks() / std::max<std::int64_t>(1, kept_), 1,
                                       std::clamp<std::int64_t>(packets / least, 1, most_slices));
  }

  void plan_columns() {
    const std::int64_t columns = kept_ / packet_;
    group_ = power_of_two(columns, 32);
    const std::int64_t along = threads / group_, blocks = (columns + group_ - 1) / group_;
    constexpr std::int64_t least = 8, most_slices = 512;  // rows per thread
    slices_ = std::clamp<std::int64_t>(wanted_blocks() / std::max<std::int64_t>(1, blocks), 1,
                                       std::clamp<std::int64_t>(reduced_ / (along * least), 1, most_slices));
  }

  std::string source(int packet) const {
    const std::size_t operands = operands_.size();
    const auto kept_axes = loops_.kept.shape.size(), reduced_axes = loops_.reduced.shape.size();
    std::string text = "#include \"reduce.h\"\n" + operation_functions(code_.expression());
    text += fmt::format("using Reducer = {};\nusing Index = {};\n", reducer_,
                        index_type(std::max(kept_, reduced_)));
    text += fmt::format("KERNEL_OF({}) void reduction(", threads) + code_.parameters() +
            "Reducer::Total* partial, u64 kept, u64 reduced, u32 group, u32 slices";
    text += size_parameters("k", kept_axes) + stride_parameters("k", kept_axes, operands);
    text += size_parameters("r", reduced_axes) + stride_parameters("r", reduced_axes, operands) +
            ") {\n  after_previous();\n";
    text += "  const auto evaluate = [&](Index kept_at, Index reduced_at) {\n";
    text += index_statements("    ", "kept_at", "k", kept_axes);
    text += index_statements("    ", "reduced_at", "r", reduced_axes);
    text += element_statements(packet);
    text += "    return values;\n  };\n";
    const std::string_view stored = storage_type(code_.outputs()[0]);
    if (loops_.rows)
      text += fmt::format(
          "  reduce_rows<Reducer, {}, {}, Index>(out0, partial, kept, reduced, group, slices, evaluate);\n",
          stored, packet);
    else
      text += fmt::format(
          "  reduce_columns<Reducer, {}, {}, {}, Index>(out0, partial, kept, reduced, group, slices, "
          "evaluate);\n",
          stored, packet, threads);
    return text + "}\n";
  }

  // `values` and the further outputs, for the packet at k0.., r0..
  std::string element_statements(int packet) const {
    const std::size_t inputs = code_.inputs().size(), outputs = code_.outputs().size();
    const auto place = [&](std::size_t operand) {
      return place_text(operand, "k", loops_.kept.shape.size()) + " + " +
             place_text(operand, "r", loops_.reduced.shape.size());
    };
    const auto type = [&](std::size_t operand) {
      return fmt::format("Packet<{}, {}>", storage_type(operands_[operand].dtype),
                         loops_.single(operand) ? 1 : packet);
    };
    std::string text;
    for (std::size_t i = 0; i < inputs; ++i)
      text += fmt::format("    const auto q{0} = read_whole(*reinterpret_cast<const {1}*>(in{0} + ({2})));\n",
                          i, type(i), place(i));
    for (std::size_t k = 1; k < outputs; ++k) text += fmt::format("    {} e{};\n", type(inputs + k - 1), k);
    text += fmt::format("    Many<Reducer::Total, {0}> values;\n", packet);
    text += fmt::format("#pragma unroll\n    for (int e = 0; e < {}; ++e) {{\n", packet);
    text += code_.loads("      ", [&](std::size_t i) {
      return fmt::format("q{}.element[{}]", i, loops_.single(i) ? "0" : "e");
    });
    text += expression_body(code_.expression(), "      ");
    text += code_.stores(
        "      ", [](std::size_t k) { return fmt::format("e{}.element[e]", k); }, 1);
    text +=
        fmt::format("      values.element[e] = Reducer::element({}, (i64)reduced_at{});\n    }}\n",
                    value_name(code_.expression(), code_.expression().outputs[0]), loops_.rows ? " + e" : "");
    for (std::size_t k = 1; k < outputs; ++k)
      text += fmt::format("    *reinterpret_cast<{1}*>(out{0} + ({2})) = e{0};\n", k, type(inputs + k - 1),
                          place(inputs + k - 1));
    return text;
  }

  KernelSource combine_source() const {
    return {
        "combine",
        fmt::format("#include \"reduce.h\"\n"
                    "KERNEL void combine({0}* result, const {1}::Total* partial, u64 kept, u64 slices, "
                    "u64 kept_step, u64 slice_step, u32 lanes) {{\n  after_previous();\n"
                    "  combine_slices<{1}>(result, partial, kept, slices, kept_step, slice_step, lanes);\n"
                    "}}\n",
                    storage_type(code_.outputs()[0]), reducer_),
        {}};
  }

  void combine(const KernelArguments& arguments) const {
    const auto kept = static_cast<std::uint64_t>(kept_), slices = static_cast<std::uint64_t>(slices_);
    const std::uint64_t kept_step = loops_.rows ? slices : 1, slice_step = loops_.rows ? 1 : kept;
    // Side by side where there are enough totals, which are neighbours in memory then.
    const bool side_by_side = !loops_.rows && kept_ >= 4 * static_cast<std::int64_t>(threads);
    // A wave or less, or the whole block: group_reduce() has nothing between.
    const std::uint32_t lanes = side_by_side     ? 1
                                : slices_ >= 256 ? threads
                                                 : power_of_two((slices_ + 3) / 4, device_.wave_size());
    const std::uint64_t in_block = threads / lanes;
    device_.launch(combine_, {.x = grid((kept + in_block - 1) / in_block), .threads = threads},
                   arguments.outputs[0], arguments.scratch, kept, slices, kept_step, slice_step, lanes);
  }

  GpuDevice& device_;
  ExpressionCode code_;
  std::vector<Operand> operands_;
  Loops loops_;
  DType element_;
  std::string reducer_;
  std::size_t total_size_;
  std::int64_t kept_, reduced_, slices_ = 1;
  std::uint32_t group_ = 1;  // threads of a row, or packets of columns of a block
  int packet_ = 1;
  LazyFunction in_packets_, by_element_;
  Function combine_;
};

}  // namespace

std::unique_ptr<Kernel> make_reduction(GpuDevice& device, const Step& step) {
  return std::make_unique<ReductionKernel>(device, step);
}

}  // namespace hearth::gpu
