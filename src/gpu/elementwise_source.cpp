// The loops around an expression.
#include "gpu/elementwise_source.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_source.h"

namespace hearth::gpu {
namespace {

class ElementwiseText {
 public:
  ElementwiseText(const Expression& expression, const ElementwiseVariant& variant)
      : expression_(expression),
        inputs_(variant.inputs),
        outputs_(variant.outputs),
        single_(variant.single),
        axes_(variant.axes) {}

  std::string text(int packet) const {
    std::string text = "#include \"math.h\"\n" + operation_functions(expression_) +
                       "KERNEL void elementwise(" + parameters() + ") {\n";
    text += axes_ > 0 ? strided_loop() : packet > 1 ? packet_loop(packet) : element_loop();
    return text + "}\n";
  }

 private:
  std::string parameters() const {
    std::string text;
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      text += fmt::format("const {}* in{}, ", storage_type(inputs_[i]), i);
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      text += fmt::format("{}* out{}, ", storage_type(outputs_[k]), k);
    for (std::size_t i = 0; i < expression_.immediates.size(); ++i)
      text += fmt::format("{} c{}, ", compute_type(expression_.immediates[i]), i);
    text += "u64 count";
    if (axes_ > 0) {
      for (std::size_t axis = 0; axis < axes_; ++axis) text += fmt::format(", i64 n{}", axis);
      for (std::size_t i = 0; i < inputs_.size(); ++i)
        for (std::size_t axis = 0; axis < axes_; ++axis) text += fmt::format(", i64 s{}_{}", i, axis);
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

  std::string packet_loop(int packet) const {
    std::string text = fmt::format("  const u64 packets = count / {};\n", packet);
    text += "  for (u64 p = global_thread(); p < packets; p += global_threads()) {\n";
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (single_[i]) continue;
      text += fmt::format("    const auto q{0} = reinterpret_cast<const Packet<{1}, {2}>*>(in{0})[p];\n", i,
                          storage_type(inputs_[i]), packet);
    }
    for (std::size_t k = 0; k < outputs_.size(); ++k)
      text += fmt::format("    Packet<{}, {}> r{};\n", storage_type(outputs_[k]), packet, k);
    text += fmt::format("#pragma unroll\n    for (int e = 0; e < {}; ++e) {{\n", packet);
    text += loads("      ", [&](std::size_t i) {
      return single_[i] ? fmt::format("in{}[0]", i) : fmt::format("q{}.element[e]", i);
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
      return single_[i] ? fmt::format("in{}[0]", i) : fmt::format("in{}[i]", i);
    });
    text += expression_body(expression_, "    ");
    return text + stores("    ", [](std::size_t k) { return fmt::format("out{}[i]", k); });
  }

  std::string strided_loop() const {
    std::string text =
        "  for (u64 i = global_thread(); i < count; i += global_threads()) {\n    u64 rest = i;\n";
    for (std::size_t axis = axes_; axis-- > 0;) {
      if (axis == 0) {
        text += "    const i64 x0 = rest;\n";
        break;
      }
      text += fmt::format("    const i64 x{0} = rest % (u64)n{0};\n    rest /= (u64)n{0};\n", axis);
    }
    text += loads("    ", [&](std::size_t i) {
      std::string place;
      for (std::size_t axis = 0; axis < axes_; ++axis)
        place += fmt::format("{}x{} * s{}_{}", axis > 0 ? " + " : "", axis, i, axis);
      return fmt::format("in{}[{}]", i, place);
    });
    text += expression_body(expression_, "    ");
    text += stores("    ", [](std::size_t k) { return fmt::format("out{}[i]", k); });
    return text + "  }\n";
  }

  const Expression& expression_;
  const std::vector<DType>&inputs_, &outputs_;
  const std::vector<bool>& single_;
  std::size_t axes_;
};

}  // namespace

int packet_length(const ElementwiseVariant& variant) {
  std::size_t widest = 1;
  for (std::size_t i = 0; i < variant.inputs.size(); ++i)
    if (!variant.single[i]) widest = std::max(widest, dtype_size(variant.inputs[i]));
  for (const DType output : variant.outputs) widest = std::max(widest, dtype_size(output));
  return static_cast<int>(std::min<std::size_t>(8, 16 / widest));
}

KernelSource elementwise_source(const Expression& expression, const ElementwiseVariant& variant) {
  return {"elementwise", ElementwiseText(expression, variant).text(variant.packet), {}};
}

}  // namespace hearth::gpu
