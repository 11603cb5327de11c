// Rows of the elementwise table as text.
#include "gpu/expression_source.h"

#include <fmt/format.h>

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
  std::set<Op> operations;
  for (const auto& instruction : expression.instructions)
    if (instruction.op != Op::where && instruction.op != Op::cast) operations.insert(instruction.op);
  std::string text;
  for (const Op op : operations) {
    const RowText& row = row_texts()[static_cast<std::size_t>(op)];
    if (row.value == nullptr) throw KernelError(fmt::format("[{}] is not elementwise", op_name(op)));
    text += fmt::format("template <class T>\nDEVICE auto op_{}({}) {{\n  return {};\n}}\n", op_name(op),
                        row.arity == 1 ? "T x" : "T a, T b", row.value);
  }
  return text;
}

std::string value_name(const Expression& expression, std::size_t value) {
  if (value < expression.inputs.size()) return fmt::format("v{}", value);
  if (value < expression.first_result()) return fmt::format("c{}", value - expression.inputs.size());
  return fmt::format("v{}", value);
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
      computed = value_name(expression, instruction.operands[0]);
    else if (row_texts()[static_cast<std::size_t>(instruction.op)].arity == 1)
      computed = fmt::format("op_{}({})", op_name(instruction.op), operand(0));
    else
      computed = fmt::format("op_{}({}, {})", op_name(instruction.op), operand(0), operand(1));
    // Each result is rounded to its type, as if it went through memory: fusing must not change values.
    text += fmt::format("{}const {} v{} = through<{}>({});\n", indent, compute_type(instruction.result),
                        value, storage_type(instruction.result), computed);
    ++value;
  }
  return text;
}

}  // namespace hearth::gpu
