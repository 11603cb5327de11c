// Elementwise steps: one generated kernel per expression.
#include <fmt/format.h>

#include <algorithm>

#include "device/strided.h"
#include "gpu/expression_kernel.h"
#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;

// Every argument runs through memory in one direction, or is a single element: whole packets can be moved.
// Otherwise each element finds its place from its index.
class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(GpuDevice& device, const Step& step)
      : device_(device), code_(step), loop_(merged(step)), count_(element_count(step.domain)) {
    linear_ = loop_.shape.size() == 1;
    for (std::size_t i = 0; i < step.inputs.size() && linear_; ++i)
      linear_ = loop_.strides[i][0] == 1 || loop_.strides[i][0] == 0;
    if (loop_.shape.size() > most_axes)
      throw KernelError(fmt::format("[elementwise] {} axes that cannot be merged, at most {} are supported",
                                    loop_.shape.size(), most_axes));
    if (linear_) packet_ = packet_length();
  }

  void run(const KernelArguments& arguments) const override {
    if (count_ == 0) return;
    const int packet = linear_ && all_aligned(arguments) ? packet_ : 1;
    const auto make_source = [&] { return KernelSource{"elementwise", source(packet), {}}; };
    const Function& function =
        (packet > 1 ? in_packets_ : by_element_).get(device_, make_source, "elementwise");
    Arguments values;
    const std::vector<Constant> constants = code_.constants(arguments.numbers);
    code_.add_to(values, arguments, constants);
    const std::uint64_t count = static_cast<std::uint64_t>(count_);
    values.add(count);
    if (!linear_) {
      for (const auto& size : loop_.shape) values.add(size);
      for (std::size_t i = 0; i < code_.inputs().size(); ++i)
        for (const auto& stride : loop_.strides[i]) values.add(stride);
    }
    const std::uint64_t items = (count + static_cast<unsigned>(packet) - 1) / static_cast<unsigned>(packet);
    device_.launch(function, {.x = device_.grid_for(items, threads), .threads = threads}, values);
  }

 private:
  static StridedLoop merged(const Step& step) {
    std::vector<Strides> strides;
    for (const Layout& input : step.inputs) strides.push_back(input.strides);
    strides.push_back(contiguous_strides(step.domain));
    return collapse(step.domain, strides);
  }

  bool single(std::size_t input) const { return loop_.strides[input][0] == 0; }

  // Elements of the widest type that make 16 bytes; at most eight, to keep registers few.
  int packet_length() const {
    std::size_t widest = 1;
    for (std::size_t i = 0; i < code_.inputs().size(); ++i)
      if (!single(i)) widest = std::max(widest, dtype_size(code_.inputs()[i]));
    for (const DType output : code_.outputs()) widest = std::max(widest, dtype_size(output));
    return static_cast<int>(std::min<std::size_t>(8, 16 / widest));
  }

  bool all_aligned(const KernelArguments& arguments) const {
    for (std::size_t i = 0; i < code_.inputs().size(); ++i)
      if (!single(i) && !aligned(arguments.inputs[i], code_.inputs()[i], packet_)) return false;
    for (std::size_t k = 0; k < code_.outputs().size(); ++k)
      if (!aligned(arguments.outputs[k], code_.outputs()[k], packet_)) return false;
    return true;
  }

  std::string source(int packet) const {
    std::string text = "#include \"math.h\"\n" + operation_functions(code_.expression()) +
                       "KERNEL void elementwise(" + code_.parameters() + "u64 count";
    if (linear_) return text + ") {\n" + (packet > 1 ? packet_loop(packet) : element_loop()) + "}\n";
    text += size_parameters("x", loop_.shape.size());
    text += stride_parameters("x", loop_.shape.size(), code_.inputs().size());
    return text + ") {\n" + strided_loop() + "}\n";
  }

  std::string packet_loop(int packet) const {
    const auto &inputs = code_.inputs(), &outputs = code_.outputs();
    std::string text = fmt::format("  const u64 packets = count / {};\n", packet);
    text += "  for (u64 p = global_thread(); p < packets; p += global_threads()) {\n";
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (single(i)) continue;
      text += fmt::format("    const auto q{0} = reinterpret_cast<const Packet<{1}, {2}>*>(in{0})[p];\n", i,
                          storage_type(inputs[i]), packet);
    }
    for (std::size_t k = 0; k < outputs.size(); ++k)
      text += fmt::format("    Packet<{}, {}> r{};\n", storage_type(outputs[k]), packet, k);
    text += fmt::format("#pragma unroll\n    for (int e = 0; e < {}; ++e) {{\n", packet);
    text += code_.loads("      ", [&](std::size_t i) {
      return single(i) ? fmt::format("in{}[0]", i) : fmt::format("q{}.element[e]", i);
    });
    text += expression_body(code_.expression(), "      ");
    text += code_.stores("      ", [](std::size_t k) { return fmt::format("r{}.element[e]", k); });
    text += "    }\n";
    for (std::size_t k = 0; k < outputs.size(); ++k)
      text += fmt::format("    reinterpret_cast<Packet<{0}, {1}>*>(out{2})[p] = r{2};\n",
                          storage_type(outputs[k]), packet, k);
    text += "  }\n";
    // What is left over is less than a packet.
    text += fmt::format("  const u64 i = packets * {} + global_thread();\n  if (i < count) {{\n", packet);
    return text + one_element() + "  }\n";
  }

  std::string element_loop() const {
    return "  for (u64 i = global_thread(); i < count; i += global_threads()) {\n" + one_element() + "  }\n";
  }

  std::string one_element() const {
    std::string text = code_.loads("    ", [&](std::size_t i) {
      return single(i) ? fmt::format("in{}[0]", i) : fmt::format("in{}[i]", i);
    });
    text += expression_body(code_.expression(), "    ");
    return text + code_.stores("    ", [](std::size_t k) { return fmt::format("out{}[i]", k); });
  }

  std::string strided_loop() const {
    const std::size_t axes = loop_.shape.size();
    std::string text = fmt::format("  using Index = {};\n", index_type(count_));
    text += "  for (Index i = global_thread(); i < (Index)count; i += global_threads()) {\n";
    text += index_statements("    ", "i", "x", axes);
    text += code_.loads("    ",
                        [&](std::size_t i) { return fmt::format("in{}[{}]", i, place_text(i, "x", axes)); });
    text += expression_body(code_.expression(), "    ");
    text += code_.stores("    ", [](std::size_t k) { return fmt::format("out{}[i]", k); });
    return text + "  }\n";
  }

  GpuDevice& device_;
  ExpressionCode code_;
  StridedLoop loop_;
  std::int64_t count_;
  bool linear_ = false;
  int packet_ = 1;
  LazyFunction in_packets_, by_element_;
};

}  // namespace

std::unique_ptr<Kernel> make_elementwise(GpuDevice& device, const Step& step) {
  return std::make_unique<ElementwiseKernel>(device, step);
}

}  // namespace hearth::gpu
