// Elementwise steps with parts: one launch for many small values, whose addresses are the launch's arguments.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "gpu/expression_kernel.h"
#include "gpu/expression_source.h"
#include "gpu/kernels.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256, elements_of_block = 1024;
constexpr std::size_t most_argument_bytes = 4000;  // 4 KiB is what every driver takes

// A part as the kernel sees it: addresses, numbers of eight bytes each, then these two.
struct Extent {
  std::uint32_t count, first_block;
};
std::size_t part_bytes(const Expression& expression) {
  return 8 * (expression.inputs.size() + expression.outputs.size() + expression.immediates.size()) +
         sizeof(Extent);
}

// The first part as a step of its own.
Step first_part(const Step& step) {
  Step first = step;
  first.inputs.resize(step.expression.inputs.size());
  first.outputs.resize(step.expression.outputs.size());
  first.parts.clear();
  return first;
}

class BatchedElementwise final : public Kernel {
 public:
  BatchedElementwise(GpuDevice& device, const Step& step)
      : device_(device), code_(first_part(step)), bytes_(part_bytes(step.expression)) {
    const std::size_t inputs = code_.inputs().size();
    for (std::size_t i = 0; i < inputs; ++i) {
      const Strides& strides = step.inputs[i].strides;
      single_.push_back(std::all_of(strides.begin(), strides.end(), [](auto stride) { return stride == 0; }));
    }
    for (const std::int64_t count : step.parts) {
      extents_.push_back({static_cast<std::uint32_t>(count), blocks_});
      blocks_ += (static_cast<std::uint32_t>(count) + elements_of_block - 1) / elements_of_block;
    }
    // Few lengths of the table: each is a kernel.
    table_ = std::min(most_batched_parts(step), (extents_.size() + 7) / 8 * 8);
    function_ = device.function({"elementwise", source(), {}}, "elementwise");
  }

  void run(const KernelArguments& arguments) const override {
    std::vector<std::byte> table(table_ * bytes_);
    std::byte* to = table.data();
    const auto put = [&](const void* from, std::size_t bytes) {
      std::memcpy(to, from, bytes);
      to += bytes;
    };
    const std::size_t inputs = code_.inputs().size(), outputs = code_.outputs().size(),
                      numbers = code_.expression().immediates.size();
    for (std::size_t part = 0; part < extents_.size(); ++part) {
      put(arguments.inputs + part * inputs, inputs * sizeof(void*));
      put(arguments.outputs + part * outputs, outputs * sizeof(void*));
      for (const Constant& constant : code_.constants(arguments.numbers + part * numbers))
        put(constant.bytes, sizeof constant.bytes);
      put(&extents_[part], sizeof(Extent));
    }
    Arguments values;
    values.add(table.data(), table.size());
    const auto parts = static_cast<std::uint32_t>(extents_.size());
    values.add(parts);
    device_.launch(function_, {.x = blocks_, .threads = threads}, values);
  }

 private:
  std::string source() const {
    const Expression& expression = code_.expression();
    std::string fields, constants;
    for (std::size_t i = 0; i < code_.inputs().size(); ++i)
      fields += fmt::format("  const {}* in{};\n", storage_type(code_.inputs()[i]), i);
    for (std::size_t k = 0; k < code_.outputs().size(); ++k)
      fields += fmt::format("  {}* out{};\n", storage_type(code_.outputs()[k]), k);
    for (std::size_t i = 0; i < expression.immediates.size(); ++i) {
      const std::string_view type = compute_type(expression.immediates[i]);
      fields += fmt::format("  alignas(8) {} c{};\n", type, i);
      constants += fmt::format("  const {0} c{1} = part.c{1};\n", type, i);
    }
    std::string text = "#include \"math.h\"\n" + operation_functions(expression);
    text += fmt::format(
        "struct alignas(8) Part {{\n{}  alignas(8) u32 count;\n  u32 first_block;\n}};\n"
        "struct Parts {{\n  Part part[{}];\n}};\n"
        "KERNEL_OF({}) void elementwise(const Parts parts, u32 count) {{\n"
        "  after_previous();\n"
        "  u32 number = 0;\n"
        "  while (number + 1 < count && blockIdx.x >= parts.part[number + 1].first_block) ++number;\n"
        "  const Part& part = parts.part[number];\n{}"
        "  const u32 first = (blockIdx.x - part.first_block) * {} + threadIdx.x;\n"
        "#pragma unroll\n  for (u32 k = 0; k < {}; ++k) {{\n    const u32 i = first + k * {};\n"
        "    if (i >= part.count) break;\n",
        fields, table_, threads, constants, elements_of_block, elements_of_block / threads, threads);
    text += code_.loads(
        "    ", [&](std::size_t i) { return fmt::format("part.in{}[{}]", i, single_[i] ? "0" : "i"); });
    text += expression_body(expression, "    ");
    return text + code_.stores("    ", [](std::size_t k) { return fmt::format("part.out{}[i]", k); }) +
           "  }\n}\n";
  }

  GpuDevice& device_;
  ExpressionCode code_;
  std::size_t bytes_;
  std::vector<bool> single_;  // per input of a part
  std::vector<Extent> extents_;
  std::uint32_t blocks_ = 0;
  std::size_t table_ = 0;  // parts that the kernel has room for
  Function function_;
};

}  // namespace

std::size_t most_batched_parts(const Step& step) { return most_argument_bytes / part_bytes(step.expression); }

std::unique_ptr<Kernel> make_batched_elementwise(GpuDevice& device, const Step& step) {
  return std::make_unique<BatchedElementwise>(device, step);
}

}  // namespace hearth::gpu
