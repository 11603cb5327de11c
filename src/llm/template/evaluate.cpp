// Expressions, evaluated.
#include <fmt/format.h>

#include "llm/template/interpreter.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace hearth::jinja {

Value Interpreter::evaluate(const Expression& expression) {
  const Budget::Level level(budget_);
  budget_.spend(1);
  line_ = expression.line;
  return std::visit([this](const auto& node) { return evaluate(node); }, expression.node);
}

Value Interpreter::evaluate(const Name& node) {
  if (auto value = find(node.id)) return std::move(*value);
  return Value::undefined(fmt::format("{} is undefined", quote(template_.names[node.id])));
}

Value Interpreter::evaluate(const SequenceLiteral& node) {
  List items;
  items.reserve(node.items.size());
  for (const auto& item : node.items) items.push_back(evaluate(*item));
  return node.is_tuple ? new_tuple(std::move(items)) : new_list(std::move(items));
}

Value Interpreter::evaluate(const DictLiteral& node) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : node.entries) {
    const Value k = evaluate(*key);
    budget_.take(sizeof(Dict::Entry));
    dict->set(budget_, k, evaluate(*value));
  }
  return std::shared_ptr<const Dict>(std::move(dict));
}

Value Interpreter::evaluate(const Attribute& node) {
  return get_attribute(*this, evaluate(*node.object), node.name);
}

Value Interpreter::evaluate(const Subscript& node) {
  const Value object = evaluate(*node.object);
  return get_item(*this, object, evaluate(*node.key));
}

Value Interpreter::evaluate(const Slice& node) {
  const Value object = evaluate(*node.object);
  const auto part = [&](const ExpressionPtr& bound) { return bound ? evaluate(*bound) : Value(); };
  const Value start = part(node.start), stop = part(node.stop), step = part(node.step);
  return get_slice(*this, object, start, stop, step);
}

Arguments Interpreter::evaluate(const CallArguments& arguments) {
  Arguments out;
  for (const auto& value : arguments.positional) out.positional.push_back(evaluate(*value));
  for (const auto& [name, value] : arguments.named) out.named.emplace_back(name, evaluate(*value));
  if (arguments.more_positional) {
    for (auto& value : to_list(*this, evaluate(*arguments.more_positional)))
      out.positional.push_back(std::move(value));
  }
  if (arguments.more_named) {
    const Value more = evaluate(*arguments.more_named);
    if (!more.is_dict())
      throw Failure(fmt::format("argument after ** must be a mapping, not {}", more.type_name()));
    budget_.take(more.dict().size() * (sizeof(Value) + sizeof(std::string)));
    for (const auto& [key, value] : more.dict().entries()) {
      if (!key.is_text()) throw Failure("keywords must be strings");
      for (const auto& [name, passed] : arguments.named)
        if (name == key.text())
          throw Failure(fmt::format("got multiple values for keyword argument {}", quote(name)));
      out.named.emplace_back(key.text(), value);
    }
  }
  return out;
}

Value Interpreter::evaluate(const Call& node) {
  const Value callee = evaluate(*node.callee);
  Arguments arguments = evaluate(node.arguments);
  return call(callee, arguments);
}

Value Interpreter::evaluate(const Filter& node) {
  const Value value = node.value ? evaluate(*node.value) : block_text_;
  if (!node.builtin) throw Failure(fmt::format("No filter named {} found.", quote(node.name)));
  Arguments arguments = evaluate(node.arguments);
  return call(*node.builtin, value, arguments);
}

Value Interpreter::evaluate(const Test& node) {
  const Value value = evaluate(*node.value);
  if (!node.builtin) throw Failure(fmt::format("No test named {} found.", quote(node.name)));
  Arguments arguments = evaluate(node.arguments);
  return call(*node.builtin, value, arguments);
}

Value Interpreter::evaluate(const Unary& node) {
  const Value operand = evaluate(*node.operand);
  switch (node.op) {
    case UnaryOperator::negative:
      return negative(operand);
    case UnaryOperator::positive:
      return positive(operand);
    default:
      return !is_true(operand);
  }
}

Value Interpreter::evaluate(const Binary& node) {
  const Value left = evaluate(*node.left);
  return binary(*this, node.op, left, evaluate(*node.right));
}

Value Interpreter::evaluate(const Logical& node) {
  Value left = evaluate(*node.left);
  return is_true(left) == node.is_and ? evaluate(*node.right) : left;
}

Value Interpreter::evaluate(const Concatenation& node) {
  std::string out;
  for (const auto& part : node.parts) {
    const Value value = evaluate(*part);
    if (value.is_text()) {
      budget_.take(value.text().size());
      out += value.text();
    } else {
      out += to_text(*this, value);
    }
  }
  return out;
}

Value Interpreter::evaluate(const ComparisonChain& node) {
  Value left = evaluate(*node.first);
  for (const auto& [comparison, operand] : node.rest) {
    Value right = evaluate(*operand);
    if (!compare(*this, comparison, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate(const Conditional& node) {
  if (is_true(evaluate(*node.test))) return evaluate(*node.yes);
  if (node.no) return evaluate(*node.no);
  return Value::undefined(fmt::format(
      "the inline if-expression on line {} evaluated to false and no else section was defined.", line_));
}

}  // namespace hearth::jinja
