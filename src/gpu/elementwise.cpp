// Elementwise steps: one generated kernel per expression.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/strided.h"
#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;
constexpr std::size_t most_axes = 12;

// Every argument runs through memory in one direction, or is a single element: whole packets can be moved.
// Otherwise each element finds its place from its index.
class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(GpuDevice& device, const Step& step)
      : device_(device),
        expression_(step.expression),
        loop_(merged(step)),
        count_(element_count(step.domain)) {
    linear_ = loop_.shape.size() == 1;
    for (std::size_t i = 0; i < step.inputs.size() && linear_; ++i)
      linear_ = loop_.strides[i][0] == 1 || loop_.strides[i][0] == 0;
    for (const Layout& input : step.inputs) inputs_.push_back(input.dtype);
    for (const Layout& output : step.outputs) outputs_.push_back(output.dtype);
    if (loop_.shape.size() > most_axes)
      throw KernelError(fmt::format("[elementwise] {} axes that cannot be merged, at most {} are supported",
                                    loop_.shape.size(), most_axes));
    if (linear_) packet_ = packet_length();
  }

  void run(const KernelArguments& arguments) const override {
    if (count_ == 0) return;
    const int packet = linear_ && aligned(arguments) ? packet_ : 1;
    const auto make_source = [&] { return KernelSource{"elementwise", source(packet), {}}; };
    const Function& function =
        (packet > 1 ? in_packets_ : by_element_).get(device_, make_source, "elementwise");
    Arguments values;
    for (std::size_t i = 0; i < inputs_.size(); ++i) values.add(arguments.inputs[i]);
    for (std::size_t k = 0; k < outputs_.size(); ++k) values.add(arguments.outputs[k]);
    std::vector<Constant> constants(expression_.immediates.size());
    for (std::size_t i = 0; i < constants.size(); ++i) {
      constants[i].set(expression_.immediates[i], arguments.numbers[i]);
      values.add(constants[i]);
    }
    const std::uint64_t count = static_cast<std::uint64_t>(count_);
    values.add(count);
    if (!linear_) {
      for (const auto& size : loop_.shape) values.add(size);
      for (std::size_t i = 0; i < inputs_.size(); ++i)
        for (const auto& stride : loop_.strides[i]) values.add(stride);
    }
    const std::uint64_t items = (count + static_cast<unsigned>(packet) - 1) / static_cast<unsigned>(packet);
    device_.launch(function, {.x = device_.grid_for(items, threads), .threads = threads}, values);
  }

 private:
  // A number in the type that it is computed in; all are at the start.
  struct Constant {
    alignas(8) unsigned char bytes[8] = {};
    void set(DType dtype, const Number& number) {
      const auto type = compute_type(dtype);
      if (type == "f64") return put(number.real);
      if (type == "f32") return put(static_cast<float>(number.real));
      if (type == "i64") return put(number.integer);
      put(static_cast<std::int32_t>(number.integer));
    }
    template <class T>
    void put(T value) {
      std::memcpy(bytes, &value, sizeof value);
    }
  };

  static StridedLoop merged(const Step& step) {
    std::vector<Strides> strides;
    for (const Layout& input : step.inputs) strides.push_back(input.strides);
    strides.push_back(contiguous_strides(step.domain));
    return collapse(step.domain, strides);
  }

  // Elements of the narrowest type that make 16 bytes; at most eight, to keep registers few.
  int packet_length() const {
    std::size_t widest = 1;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (loop_.strides[i][0] != 0) widest = std::max(widest, dtype_size(inputs_[i]));
    for (const DType output : outputs_) widest = std::max(widest, dtype_size(output));
    return static_cast<int>(std::min<std::size_t>(8, 16 / widest));
  }

  bool aligned(const KernelArguments& arguments) const {
    const auto fits = [&](const void* pointer, DType dtype) {
      const std::size_t bytes =
          std::min<std::size_t>(16, dtype_size(dtype) * static_cast<std::size_t>(packet_));
      return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
    };
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (loop_.strides[i][0] != 0 && !fits(arguments.inputs[i], inputs_[i])) return false;
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      if (!fits(arguments.outputs[k], outputs_[k])) return false;
    return true;
  }

  std::string parameters() const {
    std::string text;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      text += fmt::format("const {}* in{}, ", storage_type(inputs_[i]), i);
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      text += fmt::format("{}* out{}, ", storage_type(outputs_[k]), k);
    for (std::size_t i = 0; i < expression_.immediates.size(); ++i)
      text += fmt::format("{} c{}, ", compute_type(expression_.immediates[i]), i);
    text += "u64 count";
    if (!linear_) {
      for (std::size_t axis = 0; axis < loop_.shape.size(); ++axis) text += fmt::format(", i64 n{}", axis);
      for (std::size_t i = 0; i < inputs_.size(); ++i)
        for (std::size_t axis = 0; axis < loop_.shape.size(); ++axis)
          text += fmt::format(", i64 s{}_{}", i, axis);
    }
    return text;
  }

  // v0.. from in0.., for the element whose place in input i is the text `place(i)`.
  template <class Place>
  std::string loads(const char* indent, const Place& place) const {
    std::string text;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      text += fmt::format("{}const {} v{} = load({});\n", indent, compute_type(inputs_[i]), i, place(i));
    return text;
  }
  template <class Place>
  std::string stores(const char* indent, const Place& place) const {
    std::string text;
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      text += fmt::format("{}{} = store<{}>({});\n", indent, place(k), storage_type(outputs_[k]),
                          value_name(expression_, expression_.outputs[k]));
    return text;
  }

  std::string source(int packet) const {
    std::string text = "#include \"math.h\"\n" + operation_functions(expression_) +
                       "KERNEL void elementwise(" + parameters() + ") {\n";
    text += linear_ ? (packet > 1 ? packet_loop(packet) : element_loop()) : strided_loop();
    return text + "}\n";
  }

  std::string packet_loop(int packet) const {
    std::string text = fmt::format("  const u64 packets = count / {};\n", packet);
    text += "  for (u64 p = global_thread(); p < packets; p += global_threads()) {\n";
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (loop_.strides[i][0] == 0) continue;
      text += fmt::format("    const auto q{0} = reinterpret_cast<const Packet<{1}, {2}>*>(in{0})[p];\n", i,
                          storage_type(inputs_[i]), packet);
    }
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      text += fmt::format("    Packet<{}, {}> r{};\n", storage_type(outputs_[k]), packet, k);
    text += fmt::format("#pragma unroll\n    for (int e = 0; e < {}; ++e) {{\n", packet);
    text += loads("      ", [&](std::size_t i) {
      return loop_.strides[i][0] == 0 ? fmt::format("in{}[0]", i) : fmt::format("q{}.element[e]", i);
    });
    text += expression_body(expression_, "      ");
    text += stores("      ", [](std::size_t k) { return fmt::format("r{}.element[e]", k); });
    text += "    }\n";
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      text += fmt::format("    reinterpret_cast<Packet<{0}, {1}>*>(out{2})[p] = r{2};\n",
                          storage_type(outputs_[k]), packet, k);
    text += "  }\n";
    // What is left over is less than a packet.
    text += fmt::format("  const u64 i = packets * {} + global_thread();\n  if (i < count) {{\n", packet);
    return text + one_element() + "  }\n";
  }

  std::string element_loop() const {
    return "  for (u64 i = global_thread(); i < count; i += global_threads()) {\n" + one_element() + "  }\n";
  }

  std::string one_element() const {
    std::string text = loads("    ", [&](std::size_t i) {
      return loop_.strides[i][0] == 0 ? fmt::format("in{}[0]", i) : fmt::format("in{}[i]", i);
    });
    text += expression_body(expression_, "    ");
    return text + stores("    ", [](std::size_t k) { return fmt::format("out{}[i]", k); });
  }

  std::string strided_loop() const {
    std::string text =
        "  for (u64 i = global_thread(); i < count; i += global_threads()) {\n    u64 rest = i;\n";
    for (std::size_t axis = loop_.shape.size(); axis-- > 0;) {
      if (axis == 0) {
        text += "    const i64 x0 = rest;\n";
        break;
      }
      text += fmt::format("    const i64 x{0} = rest % (u64)n{0};\n    rest /= (u64)n{0};\n", axis);
    }
    text += loads("    ", [&](std::size_t i) {
      std::string place;
      for (std::size_t axis = 0; axis < loop_.shape.size(); ++axis)
        place += fmt::format("{}x{} * s{}_{}", axis > 0 ? " + " : "", axis, i, axis);
      return fmt::format("in{}[{}]", i, place);
    });
    text += expression_body(expression_, "    ");
    text += stores("    ", [](std::size_t k) { return fmt::format("out{}[i]", k); });
    return text + "  }\n";
  }

  GpuDevice& device_;
  Expression expression_;
  StridedLoop loop_;
  std::int64_t count_;
  bool linear_ = false;
  int packet_ = 1;
  std::vector<DType> inputs_, outputs_;
  LazyFunction in_packets_, by_element_;
};

}  // namespace

std::unique_ptr<Kernel> make_elementwise(GpuDevice& device, const Step& step) {
  return std::make_unique<ElementwiseKernel>(device, step);
}

}  // namespace hearth::gpu
