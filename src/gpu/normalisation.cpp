// Normalisation over the last axis: softmax, log_softmax, layer_norm, rms_norm and their gradients. The
// result may be of another type than x, and so may the gradient that comes in.
//
// A row that fits is kept in registers, of a wave or of a block; a longer one is read again for each total,
// by a block; and few long ones are cut into slices, with the totals in scratch memory
// (kernels/normalise.h).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include "device/strided.h"
#include "gpu/expression_kernel.h"
#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

struct Operation {
  std::string_view name;  // in kernels/normalise.h
  bool gradient;
  std::string_view long_name;  // for rows that do not fit into registers
  int long_totals;
  int parameters = 0;  // how many of the parameters it gives gradients of, besides that by x
};

Operation operation_of(Op op) {
  switch (op) {
    case Op::softmax:
      return {"Softmax", false, "LongSoftmax", 1};
    case Op::softmax_grad:
      return {"SoftmaxGrad", true, "SoftmaxGrad", 1};
    case Op::log_softmax:
      return {"LogSoftmax", false, "LongLogSoftmax", 1};
    case Op::log_softmax_grad:
      return {"LogSoftmaxGrad", true, "LogSoftmaxGrad", 1};
    case Op::layer_norm:
      return {"LayerNorm", false, "LayerNorm", 2};
    case Op::layer_norm_grad:
      return {"LayerNormGrad", true, "LayerNormGrad", 2};
    case Op::rms_norm:
      return {"RmsNorm", false, "RmsNorm", 1};
    case Op::rms_norm_grad:
      return {"RmsNormGrad", true, "RmsNormGrad", 1};
    case Op::layer_norm_grads:
      return {"LayerNormGrad", true, {}, 2, 2};
    case Op::rms_norm_grads:
      return {"RmsNormGrad", true, {}, 1, 1};
    default:
      throw KernelError(fmt::format("[{}] is not a normalisation", op_name(op)));
  }
}

constexpr std::int64_t most_threads = 512;
constexpr std::size_t total_numbers = 3;  // that the longest total has

// How rows are given to threads, for packets of one length.
struct Division {
  int packet = 1;
  int packets = 0;  // per thread, in registers; 0: the row does not fit
  std::uint32_t lanes = 1, threads = 256, slices = 1;
  std::uint32_t blocks = 0;  // where gradients of parameters are summed
};

Layout at_least_one_axis(Layout layout) {
  if (layout.shape.empty()) {
    layout.shape = {1};
    layout.strides = {1};
  }
  return layout;
}

template <class Sizes>
Sizes without_last(Sizes sizes) {
  sizes.pop_back();
  return sizes;
}

class NormalisationKernel final : public Kernel {
 public:
  NormalisationKernel(GpuDevice& device, const Step& step)
      : device_(device),
        operation_(operation_of(step.op)),
        dtype_(step.inputs[0].dtype),
        result_(step.outputs[0].dtype) {
    if (!is_floating(dtype_))
      throw DTypeError(fmt::format("[{}] no kernel for {}", op_name(step.op), dtype_name(dtype_)));
    for (const Layout& input : step.inputs) inputs_.push_back(at_least_one_axis(input));
    const Layout &x = inputs_[0], &dy = inputs_[operation_.gradient ? 1 : 0];
    loop_ = collapse(without_last(x.shape), {without_last(x.strides), without_last(dy.strides)});
    if (loop_.shape.size() > most_axes)
      throw KernelError(
          fmt::format("[{}] more than {} axes that cannot be merged", op_name(step.op), most_axes));
    rows_ = loop_.count();
    size_ = x.shape.back();
    if (const auto* attributes = std::get_if<NormAttributes>(&step.attributes))
      epsilon_ = attributes->epsilon;
    divisions_ = {divide(1), divide(packet_length())};
    if (gives_parameters())
      for (Division& division : divisions_) division = divide_columns(division.packet);
  }

  std::size_t scratch_bytes() const override {
    if (gives_parameters())
      return std::max(divisions_[0].blocks, divisions_[1].blocks) * parameter_columns() * compute_bytes();
    return std::max(totals_bytes(divisions_[0]), totals_bytes(divisions_[1])) * 2;
  }

  void run(const KernelArguments& arguments) const override {
    if (rows_ == 0 || size_ == 0) return;
    const std::size_t which = all_aligned(arguments) ? 1 : 0;
    const Division& division = divisions_[which];
    if (gives_parameters()) return run_with_parameters(arguments, which);
    const bool sliced = division.slices > 1;
    for (int stage = sliced ? 0 : 2; stage < 3; ++stage) {
      if (stage == 1 && operation_.long_totals == 1) continue;
      const auto make_source = [&] { return kernel_source(division, stage); };
      launch(functions_[which][static_cast<std::size_t>(stage)].get(device_, make_source, "normalise"),
             division, arguments);
    }
  }

 private:
  bool gives_parameters() const { return operation_.parameters > 0; }
  std::uint64_t parameter_columns() const {
    return static_cast<std::uint64_t>(operation_.parameters) * static_cast<std::uint64_t>(size_);
  }
  std::size_t parameters_at() const { return operation_.gradient ? 2 : 1; }
  const Layout* parameter(std::size_t number) const {
    return parameters_at() + number < inputs_.size() ? &inputs_[parameters_at() + number] : nullptr;
  }
  std::size_t compute_bytes() const { return dtype_ == DType::f64 ? 8 : 4; }
  std::size_t totals_bytes(const Division& division) const {
    if (division.slices == 1) return 0;
    return static_cast<std::size_t>(rows_) * division.slices * total_numbers * compute_bytes();
  }

  // The longest packet, up to 16 bytes, in which rows can be read and written.
  int packet_length() const {
    auto packet = static_cast<int>(16 / dtype_size(dtype_));
    while (packet > 1 && !fits(packet)) packet /= 2;
    return packet;
  }
  bool fits(int packet) const {
    if (size_ % packet != 0) return false;
    for (const Layout& input : inputs_)
      if (input.strides.back() != 1) return false;
    for (const Strides& strides : loop_.strides)
      for (const auto stride : strides)
        if (stride % packet != 0) return false;
    return true;
  }
  bool all_aligned(const KernelArguments& arguments) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (!aligned(arguments.inputs[i], inputs_[i].dtype, divisions_[1].packet)) return false;
    return aligned(arguments.outputs[0], result_, divisions_[1].packet);
  }

  Division divide(int packet) const {
    Division division;
    division.packet = packet;
    const std::int64_t wave = device_.wave_size(), units = device_.compute_units(),
                       packets = std::max<std::int64_t>(1, size_ / packet);
    const std::int64_t most = (dtype_ == DType::f64 ? 16 : 32) / std::max(packet, 2);  // in registers
    const bool few_rows = rows_ < 4 * units;
    if (packets <= wave * most && !(few_rows && packets > 2 * wave)) {
      division.lanes = std::bit_ceil(static_cast<std::uint32_t>(std::min(packets, wave)));
    } else {
      division.threads = packets <= 256 * most ? 256 : most_threads;
      division.lanes = division.threads;
    }
    if (const auto each = (packets + division.lanes - 1) / division.lanes; each <= most) {
      division.packets = static_cast<int>(std::bit_ceil(static_cast<std::uint32_t>(each)));
    } else if (rows_ < 2 * units) {
      constexpr std::int64_t least = 4 * most_threads, most_slices = 256;  // packets per slice
      division.slices = static_cast<std::uint32_t>(
          std::clamp<std::int64_t>(4 * units / std::max<std::int64_t>(1, rows_), 1,
                                   std::clamp<std::int64_t>(packets / least, 1, most_slices)));
    }
    return division;
  }

  // A block for each row, with blocks enough to fill the device.
  Division divide_columns(int packet) const {
    Division division;
    division.packet = packet;
    const std::int64_t wave = device_.wave_size(), packets = size_ / packet;
    const std::int64_t most = std::max<std::int64_t>(1, 8 / packet);  // packets of a thread
    const auto needed = (packets + most - 1) / most;
    division.threads = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>((needed + wave - 1) / wave * wave, wave, most_threads));
    division.lanes = division.threads;
    division.packets = static_cast<int>((packets + division.threads - 1) / division.threads);
    const std::int64_t fill = device_.compute_units() * std::max<std::int64_t>(1, 1536 / division.threads);
    division.blocks = static_cast<std::uint32_t>(std::clamp<std::int64_t>(rows_ / 4, 1, fill));
    return division;
  }

  void run_with_parameters(const KernelArguments& arguments, std::size_t which) const {
    const Division& division = divisions_[which];
    const auto make_source = [&] { return kernel_source(division, 2); };
    launch(functions_[which][2].get(device_, make_source, "normalise"), division, arguments);
    const auto make_sum = [&] {
      return KernelSource{"sum_parameters",
                          fmt::format("{2}KERNEL_OF(256) void sum_parameters(const {0}* partial, {1}* out, "
                                      "u32 rows, u64 columns) {{\n  after_previous();\n"
                                      "  sum_columns(partial, out, rows, columns);\n}}\n",
                                      compute_type(dtype_), storage_type(result_), include_text()),
                          {}};
    };
    const std::uint64_t columns = parameter_columns();
    void* const sums = static_cast<char*>(arguments.outputs[0]) +
                       static_cast<std::size_t>(rows_ * size_) * dtype_size(result_);
    device_.launch(sum_.get(device_, make_sum, "sum_parameters"),
                   {.x = static_cast<unsigned>((columns + 7) / 8), .threads = 256}, arguments.scratch, sums,
                   division.blocks, columns);
  }

  void launch(const Function& function, const Division& division, const KernelArguments& arguments) const {
    Arguments values;
    for (std::size_t i = 0; i < inputs_.size(); ++i) values.add(arguments.inputs[i]);
    values.add(arguments.outputs[0]);
    const auto rows = static_cast<std::uint64_t>(rows_), size = static_cast<std::uint64_t>(size_);
    values.add(rows);
    values.add(size);
    for (const Layout& input : inputs_) values.add(input.strides.back());
    const auto single = static_cast<float>(epsilon_);
    if (dtype_ == DType::f64)
      values.add(epsilon_);
    else
      values.add(single);
    values.add(division.lanes);
    values.add(division.slices);
    void* const seconds = static_cast<char*>(arguments.scratch) + totals_bytes(division);
    values.add(arguments.scratch);
    values.add(seconds);
    for (const auto& length : loop_.shape) values.add(length);
    for (const Strides& strides : loop_.strides)
      for (const auto& stride : strides) values.add(stride);
    const std::uint64_t in_block = division.packets > 0 ? division.threads / division.lanes : 1;
    const std::uint64_t jobs = (rows + in_block - 1) / in_block * division.slices;
    const auto most =
        gives_parameters() ? division.blocks : static_cast<std::uint64_t>(device_.compute_units()) * 32;
    device_.launch(function, {.x = static_cast<unsigned>(std::min(jobs, most)), .threads = division.threads},
                   values);
  }

  std::string include_text() const {
    return fmt::format("constexpr bool narrow_results = {};\n#include \"normalise.h\"\n",
                       dtype_size(result_) == 2);
  }

  KernelSource kernel_source(const Division& division, int stage) const {
    const std::size_t packet = division.packet > 1 ? static_cast<std::size_t>(division.packet) : 0;
    return {"normalise", source(division, stage), {}, packet * dtype_size(dtype_)};
  }
  std::string source(const Division& division, int stage) const {
    const std::string_view compute = compute_type(dtype_);
    const std::size_t axes = loop_.shape.size();
    constexpr std::array of_results = {"x", "weight", "bias"};
    constexpr std::array of_gradients = {"x", "dy", "weight", "residual"};
    const auto names = operation_.gradient ? std::span<const char* const>(of_gradients) : of_results;
    const bool in_registers = division.packets > 0;
    std::string text =
        fmt::format("{}using Index = {};\nusing Op = {}<{}>;\nKERNEL_OF({}) void normalise(", include_text(),
                    index_type(std::max(rows_, size_)), in_registers ? operation_.name : operation_.long_name,
                    compute, most_threads);
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      text += fmt::format("const {}* {}, ", storage_type(inputs_[i].dtype), names[i]);
    text += fmt::format("{}* out, u64 rows, u64 size, ", storage_type(result_));
    for (std::size_t i = 0; i < inputs_.size(); ++i) text += fmt::format("i64 {}_step, ", names[i]);
    text += fmt::format(
        "{} epsilon, u32 lanes, u32 slices, Op::First::Total* firsts, Op::Second::Total* seconds", compute);
    text += size_parameters("r", axes) + stride_parameters("r", axes, 2) + ") {\n  after_previous();\n";
    text += line_text(axes);
    const int packet = division.packet;
    if (gives_parameters())
      text += fmt::format(
          "  normalise_gradients<Op, {}, {}, {}, Index>(line_at, rows, size, epsilon, ({}*)firsts);\n}}\n",
          operation_.parameters, packet, division.packets, compute);
    else if (in_registers)
      text += fmt::format("  normalise_rows<Op, {}, {}, Index>(line_at, rows, size, epsilon, lanes);\n}}\n",
                          packet, division.packets);
    else if (division.slices == 1)
      text +=
          fmt::format("  normalise_long_rows<Op, {}, Index>(line_at, rows, size, epsilon);\n}}\n", packet);
    else
      text += fmt::format(
          "  normalise_slices<Op, {}, {}, Index>(line_at, rows, size, epsilon, slices, firsts, "
          "seconds);\n}}\n",
          packet, stage);
    return text;
  }

  // A function from the number of a row to its Line.
  std::string line_text(std::size_t axes) const {
    const auto type = [&](std::size_t number) {
      return parameter(number) ? storage_type(parameter(number)->dtype) : "None";
    };
    const auto pointer = [&](std::size_t number, const char* name) {
      return parameter(number) ? fmt::format("{}", name) : "nullptr";
    };
    const auto step = [&](std::size_t number, const char* name) {
      return parameter(number) ? fmt::format("{}_step", name) : "0";
    };
    std::string text =
        "  const auto line_at = [&](Index row) {\n" + index_statements("    ", "row", "r", axes);
    const std::string_view incoming = storage_type(inputs_[operation_.gradient ? 1 : 0].dtype);
    text += fmt::format("    return Line<{}, {}, {}, {}, {}>{{x + ({}), ", storage_type(dtype_), incoming,
                        type(0), type(1), storage_type(result_), place_text(0, "r", axes));
    text += operation_.gradient ? fmt::format("dy + ({}), ", place_text(1, "r", axes)) : "nullptr, ";
    const char* const term = operation_.gradient ? "residual + (u64)row * size" : "bias";
    text += fmt::format("{}, {}, out + (u64)row * size, x_step, {}, {}, {}}};\n  }};\n", pointer(0, "weight"),
                        pointer(1, term), operation_.gradient ? "dy_step" : "0", step(0, "weight"),
                        step(1, operation_.gradient ? "residual" : "bias"));
    return text;
  }

  GpuDevice& device_;
  Operation operation_;
  DType dtype_, result_;
  std::vector<Layout> inputs_;  // x (or the result y), dy of gradients, weight, bias
  StridedLoop loop_;            // over the rows of x and dy
  std::int64_t rows_ = 0, size_ = 0;
  double epsilon_ = 0;
  std::array<Division, 2> divisions_;  // by element, in packets
  std::array<std::array<LazyFunction, 3>, 2> functions_;
  LazyFunction sum_;  // of gradients of parameters
};

}  // namespace

std::unique_ptr<Kernel> make_normalisation(GpuDevice& device, const Step& step) {
  return std::make_unique<NormalisationKernel>(device, step);
}

}  // namespace hearth::gpu
