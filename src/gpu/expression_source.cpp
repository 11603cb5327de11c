// Rows of the elementwise table as text.
#include "gpu/expression_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "hearth/error.h"

namespace hearth::gpu {
namespace {

// The scalar expression of each operation, as it stands in the table; null for those that have none.
struct RowText {
  const char* value = nullptr;
  int arity = 0;
};

const std::array<RowText, op_count>& row_texts() {
  static const auto texts = [] {
    std::array<RowText, op_count> rows{};
#define HEARTH_UNARY(name, rule, value, gradient, doc) rows[static_cast<std::size_t>(Op::name)] = {#value, 1};
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc) \
  rows[static_cast<std::size_t>(Op::name)] = {#value, 2};
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY
    return rows;
  }();
  return texts;
}

// Results of 16 bits are computed with functions that have digits enough for those, where there are such.
bool is_narrow(const Expression::Instruction& instruction) {
  if (instruction.result != DType::f16 && instruction.result != DType::bf16) return false;
  switch (instruction.op) {
    case Op::exp:
    case Op::sigmoid:
    case Op::silu:
    case Op::silu_slope:
    case Op::tanh:
    case Op::gelu_tanh:
      return true;
    default:
      return false;
  }
}

std::string function_name(Op op, bool narrow) {
  return fmt::format("{}op_{}", narrow ? "narrow_" : "", op_name(op));
}

bool is_output(const Expression& expression, std::size_t value) {
  return std::find(expression.outputs.begin(), expression.outputs.end(), value) != expression.outputs.end();
}

// Before it is rounded to the type of the result.
std::string cast_text(const Expression::Instruction& cast, const std::string& value) {
  const bool to_integer = is_integral(cast.result) && cast.result != DType::bool_;
  if (is_floating(cast.operand) && to_integer)
    return fmt::format("math::as_integer<{}>({})", storage_type(cast.result), value);
  if (cast.operand == DType::f64 && (cast.result == DType::f16 || cast.result == DType::bf16))
    return fmt::format("math::rounded_to_odd({})", value);
  return value;
}

std::string in_namespace_narrow(std::string value) {
  constexpr std::string_view from = "math::", to = "math::narrow::";
  for (std::size_t at = value.find(from); at != std::string::npos; at = value.find(from, at + to.size()))
    value.replace(at, from.size(), to);
  return value;
}

}  // namespace

std::string_view storage_type(DType dtype) { return dtype == DType::bool_ ? "bool" : dtype_name(dtype); }

std::string_view compute_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "f64";
    case DType::i64:
      return "i64";
    case DType::f32:
    case DType::f16:
    case DType::bf16:
      return "f32";
    default:
      return "i32";
  }
}

std::string operation_functions(const Expression& expression) {
  std::set<std::pair<Op, bool>> operations;
  for (const auto& instruction : expression.instructions)
    if (instruction.op != Op::where && instruction.op != Op::cast)
      operations.emplace(instruction.op, is_narrow(instruction));
  std::string text;
  for (const auto& [op, narrow] : operations) {
    const RowText& row = row_texts()[static_cast<std::size_t>(op)];
    if (row.value == nullptr) throw KernelError(fmt::format("[{}] is not elementwise", op_name(op)));
    text += fmt::format("template <class T>\nDEVICE auto {}({}) {{\n  return {};\n}}\n",
                        function_name(op, narrow), row.arity == 1 ? "T x" : "T a, T b",
                        narrow ? in_namespace_narrow(row.value) : std::string(row.value));
  }
  return text;
}

std::string value_name(const Expression& expression, std::size_t value) {
  if (value < expression.inputs.size()) return fmt::format("v{}", value);
  if (value < expression.first_result()) return fmt::format("c{}", value - expression.inputs.size());
  return fmt::format("v{}", value);
}

std::string stored_value(const Expression& expression, std::size_t value, DType dtype) {
  if (value >= expression.first_result() && is_output(expression, value) && expression.dtype(value) == dtype)
    return fmt::format("s{}", value);
  return fmt::format("store<{}>({})", storage_type(dtype), value_name(expression, value));
}

std::string expression_body(const Expression& expression, std::string_view indent) {
  std::string text;
  std::size_t value = expression.first_result();
  for (const auto& instruction : expression.instructions) {
    const auto operand = [&](int k) {
      return fmt::format("({}){}", compute_type(instruction.operand),
                         value_name(expression, instruction.operands[k]));
    };
    std::string computed;
    if (instruction.op == Op::where)
      computed = fmt::format("({} != 0 ? {} : {})", value_name(expression, instruction.operands[0]),
                             operand(1), operand(2));
    else if (instruction.op == Op::cast)
      computed = cast_text(instruction, value_name(expression, instruction.operands[0]));
    else if (row_texts()[static_cast<std::size_t>(instruction.op)].arity == 1)
      computed = fmt::format("{}({})", function_name(instruction.op, is_narrow(instruction)), operand(0));
    else
      computed = fmt::format("{}({}, {})", function_name(instruction.op, is_narrow(instruction)), operand(0),
                             operand(1));
    // Each result is rounded to its type, as if it went through memory: fusing must not change values.
    const std::string_view stored = storage_type(instruction.result), type = compute_type(instruction.result);
    if (is_output(expression, value))
      text += fmt::format("{0}const {1} s{2} = store<{1}>({3});\n{0}const {4} v{2} = load(s{2});\n", indent,
                          stored, value, computed, type);
    else
      text += fmt::format("{}const {} v{} = through<{}>({});\n", indent, type, value, stored, computed);
    ++value;
  }
  return text;
}

}  // namespace hearth::gpu
