// Text and arguments of kernels with an expression in them.
#include "gpu/expression_kernel.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_source.h"

namespace hearth::gpu {
ExpressionCode::ExpressionCode(const Step& step) : expression_(step.expression) {
  for (const Layout& input : step.inputs) inputs_.push_back(input.dtype);
  for (const Layout& output : step.outputs) outputs_.push_back(output.dtype);
}

std::string ExpressionCode::parameters() const {
  std::string text;
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    text += fmt::format("const {}* in{}, ", storage_type(inputs_[i]), i);
  for (std::size_t k = 0; k < outputs_.size(); ++k)
    text += fmt::format("{}* out{}, ", storage_type(outputs_[k]), k);
  for (std::size_t i = 0; i < expression_.immediates.size(); ++i)
    text += fmt::format("{} c{}, ", compute_type(expression_.immediates[i]), i);
  return text;
}

std::vector<Constant> ExpressionCode::constants(const Number* numbers) const {
  std::vector<Constant> result;
  for (std::size_t i = 0; i < expression_.immediates.size(); ++i)
    result.emplace_back(expression_.immediates[i], numbers[i]);
  return result;
}

void ExpressionCode::add_to(Arguments& values, const KernelArguments& arguments,
                            const std::vector<Constant>& constants) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i) values.add(arguments.inputs[i]);
  for (std::size_t k = 0; k < outputs_.size(); ++k) values.add(arguments.outputs[k]);
  for (const Constant& constant : constants) values.add(constant);
}

std::string ExpressionCode::load(std::string_view indent, std::size_t input, const std::string& place) const {
  return fmt::format("{}const {} v{} = load({});\n", indent, compute_type(inputs_[input]), input, place);
}

std::string ExpressionCode::store(std::string_view indent, std::size_t output,
                                  const std::string& place) const {
  return fmt::format("{}{} = {};\n", indent, place,
                     stored_value(expression_, expression_.outputs[output], outputs_[output]));
}

std::string index_statements(std::string_view indent, std::string_view from, std::string_view axis,
                             std::size_t axes) {
  if (axes == 1) return fmt::format("{}const Index {}0 = {};\n", indent, axis, from);
  std::string text = fmt::format("{}Index {}_rest = {};\n", indent, axis, from);
  for (std::size_t a = axes; a-- > 1;)
    text +=
        fmt::format("{0}const Index {1}{2} = {1}_rest % (Index)n{1}{2};\n{0}{1}_rest /= (Index)n{1}{2};\n",
                    indent, axis, a);
  return text + fmt::format("{0}const Index {1}0 = {1}_rest;\n", indent, axis);
}

std::string place_text(std::size_t operand, std::string_view axis, std::size_t axes) {
  std::string text;
  for (std::size_t a = 0; a < axes; ++a)
    text += fmt::format("{0}(i64){1}{2} * s{3}_{1}{2}", a > 0 ? " + " : "", axis, a, operand);
  return text;
}

std::string size_parameters(std::string_view axis, std::size_t axes) {
  std::string text;
  for (std::size_t a = 0; a < axes; ++a) text += fmt::format(", i64 n{}{}", axis, a);
  return text;
}

std::string stride_parameters(std::string_view axis, std::size_t axes, std::size_t operands) {
  std::string text;
  for (std::size_t i = 0; i < operands; ++i)
    for (std::size_t a = 0; a < axes; ++a) text += fmt::format(", i64 s{}_{}{}", i, axis, a);
  return text;
}

bool aligned(const void* pointer, DType dtype, int packet) {
  const std::size_t bytes = std::min<std::size_t>(16, dtype_size(dtype) * static_cast<std::size_t>(packet));
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

}  // namespace hearth::gpu
