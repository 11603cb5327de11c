// Expressions.
#include <fmt/format.h>

#include <algorithm>

#include "llm/template/builtins.h"
#include "llm/template/parser.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

struct OperatorRow {
  std::string_view symbol;
  std::size_t level;  // those of a higher level bind tighter; between the first two levels stands `~`
  BinaryOperator op;
};
constexpr std::size_t tilde_level = 1, level_count = 4;
constexpr std::array<OperatorRow, 7> operators = {{{"+", 0, BinaryOperator::add},
                                                   {"-", 0, BinaryOperator::subtract},
                                                   {"*", 2, BinaryOperator::multiply},
                                                   {"/", 2, BinaryOperator::divide},
                                                   {"//", 2, BinaryOperator::floor_divide},
                                                   {"%", 2, BinaryOperator::modulo},
                                                   {"**", 3, BinaryOperator::power}}};

constexpr std::array<std::pair<std::string_view, Comparison>, 6> comparisons = {
    {{"==", Comparison::equal},
     {"!=", Comparison::not_equal},
     {"<", Comparison::less},
     {"<=", Comparison::less_equal},
     {">", Comparison::greater},
     {">=", Comparison::greater_equal}}};

constexpr std::size_t most_arguments = 255;

}  // namespace

template <typename Node>
ExpressionPtr Parser::make(std::size_t line, Node node) const {
  auto out = std::make_unique<Expression>(Expression{line, 1, std::move(node)});
  for_each_child(*out, [&](const Expression& child) { out->depth = std::max(out->depth, child.depth + 1); });
  if (out->depth > deepest_tree) fail(line, "expression too long");
  return out;
}

bool Parser::at_tuple_end() const {
  return current().is(Token::Kind::variable_end) || current().is(Token::Kind::block_end) ||
         current().is_symbol(")");
}

ExpressionPtr Parser::tuple(bool with_condition, bool in_parentheses) {
  const auto line = current().line;
  SequenceLiteral items{{}, true};
  bool has_comma = false;
  do {
    if (at_tuple_end()) break;
    items.items.push_back(with_condition ? expression() : disjunction());
    if (current().is_symbol(",")) has_comma = true;
  } while (skip_symbol(","));
  if (!has_comma && !items.items.empty()) return std::move(items.items.front());
  if (!has_comma && !in_parentheses)
    fail(fmt::format("Expected an expression, got {}", quote(current().describe())));
  return make(line, std::move(items));
}

ExpressionPtr Parser::expression() {
  const Nesting nesting(*this);
  auto line = current().line;
  auto value = disjunction();
  while (skip_name("if")) {
    auto test = disjunction();
    auto otherwise = skip_name("else") ? expression() : nullptr;
    value = make(line, Conditional{std::move(test), std::move(value), std::move(otherwise)});
    line = current().line;
  }
  return value;
}

ExpressionPtr Parser::disjunction() {
  auto line = current().line;
  auto left = conjunction();
  while (skip_name("or")) {
    left = make(line, Logical{false, std::move(left), conjunction()});
    line = current().line;
  }
  return left;
}

ExpressionPtr Parser::conjunction() {
  auto line = current().line;
  auto left = negation();
  while (skip_name("and")) {
    left = make(line, Logical{true, std::move(left), negation()});
    line = current().line;
  }
  return left;
}

ExpressionPtr Parser::negation() {
  const Nesting nesting(*this);
  const auto line = current().line;
  if (skip_name("not")) return make(line, Unary{UnaryOperator::logical_not, negation()});
  return comparison();
}

ExpressionPtr Parser::comparison() {
  const auto line = current().line;
  auto first = arithmetic();
  ComparisonChain chain;
  while (true) {
    const auto found = std::find_if(comparisons.begin(), comparisons.end(),
                                    [&](const auto& row) { return current().is_symbol(row.first); });
    Comparison comparison;
    if (found != comparisons.end())
      comparison = found->second;
    else if (current().is_name("in"))
      comparison = Comparison::in;
    else if (current().is_name("not") && ahead().is_name("in"))
      comparison = Comparison::not_in;
    else
      break;
    at_ += comparison == Comparison::not_in ? 2 : 1;
    chain.rest.emplace_back(comparison, arithmetic());
  }
  if (chain.rest.empty()) return first;
  chain.first = std::move(first);
  return make(line, std::move(chain));
}

// All these operators group from the left, ** as well.
ExpressionPtr Parser::arithmetic(std::size_t level) {
  if (level == level_count) return unary();
  auto line = current().line;
  auto left = arithmetic(level + 1);
  if (level == tilde_level) {
    if (!current().is_symbol("~")) return left;
    Concatenation parts;
    parts.parts.push_back(std::move(left));
    while (skip_symbol("~")) parts.parts.push_back(arithmetic(level + 1));
    return make(line, std::move(parts));
  }
  while (true) {
    const auto found = std::find_if(operators.begin(), operators.end(), [&](const OperatorRow& row) {
      return row.level == level && current().is_symbol(row.symbol);
    });
    if (found == operators.end()) return left;
    take();
    left = make(line, Binary{found->op, std::move(left), arithmetic(level + 1)});
    line = current().line;
  }
}

ExpressionPtr Parser::unary(bool with_filter) {
  const Nesting nesting(*this);
  const auto line = current().line;
  ExpressionPtr node;
  if (skip_symbol("-"))
    node = make(line, Unary{UnaryOperator::negative, unary(false)});
  else if (skip_symbol("+"))
    node = make(line, Unary{UnaryOperator::positive, unary(false)});
  else
    node = primary();
  node = postfix(std::move(node));
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::primary() {
  const auto line = current().line;
  if (current().is_symbol("[")) return list();
  if (current().is_symbol("{")) return dict();
  if (skip_symbol("(")) {
    auto inner = tuple(true, true);
    expect_symbol(")");
    return inner;
  }
  if (current().is(Token::Kind::number)) return make(line, Constant{take().number});
  if (current().is(Token::Kind::string)) {
    std::string text;
    while (current().is(Token::Kind::string)) text += take().text;
    return make(line, Constant{std::move(text)});
  }
  if (!current().is(Token::Kind::name)) fail(fmt::format("unexpected {}", quote(current().describe())));
  const std::string name = take_name();
  if (name == "true" || name == "True") return make(line, Constant{true});
  if (name == "false" || name == "False") return make(line, Constant{false});
  if (name == "none" || name == "None") return make(line, Constant{});
  const NameId id = intern(name);
  if (id <= varargs_name)
    for (auto& macro : specials_) macro[id] = true;
  return make(line, Name{id});
}

ExpressionPtr Parser::list() {
  const auto line = current().line;
  SequenceLiteral node{{}, false};
  expect_symbol("[");
  while (!current().is_symbol("]")) {
    node.items.push_back(expression());
    if (!skip_symbol(",")) break;
  }
  expect_symbol("]");
  return make(line, std::move(node));
}

ExpressionPtr Parser::dict() {
  const auto line = current().line;
  DictLiteral node;
  expect_symbol("{");
  while (!current().is_symbol("}")) {
    auto key = expression();
    expect_symbol(":");
    node.entries.emplace_back(std::move(key), expression());
    if (!skip_symbol(",")) break;
  }
  expect_symbol("}");
  return make(line, std::move(node));
}

ExpressionPtr Parser::postfix(ExpressionPtr node) {
  while (true) {
    const auto line = current().line;
    if (current().is_symbol(".") || current().is_symbol("["))
      node = subscript(std::move(node));
    else if (current().is_symbol("("))
      node = make(line, Call{std::move(node), call_arguments()});
    else
      return node;
  }
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr node) {
  while (true) {
    const auto line = current().line;
    if (current().is_symbol("|"))
      node = filter(std::move(node));
    else if (current().is_name("is"))
      node = test(std::move(node));
    else if (current().is_symbol("("))
      node = make(line, Call{std::move(node), call_arguments()});
    else
      return node;
  }
}

ExpressionPtr Parser::subscript(ExpressionPtr object) {
  const auto line = current().line;
  if (skip_symbol(".")) {
    if (current().is(Token::Kind::name)) return make(line, Attribute{std::move(object), take_name()});
    if (!current().is(Token::Kind::number) || current().number.is_real()) fail("expected name or number");
    auto key = make(line, Constant{take().number});
    return make(line, Subscript{std::move(object), std::move(key)});
  }
  expect_symbol("[");
  const auto at_end = [&] { return current().is_symbol("]") || current().is_symbol(","); };
  const auto part = [&] { return current().is_symbol(":") || at_end() ? nullptr : expression(); };
  SequenceLiteral keys{{}, true};
  while (!current().is_symbol("]")) {
    if (!keys.items.empty()) expect_symbol(",");
    auto first = current().is_symbol(":") ? nullptr : expression();
    if (skip_symbol(":")) {
      auto stop = part();
      auto step = skip_symbol(":") ? part() : nullptr;
      if (!keys.items.empty() || !current().is_symbol("]")) fail("a slice must be the only key");
      expect_symbol("]");
      return make(line, Slice{std::move(object), std::move(first), std::move(stop), std::move(step)});
    }
    keys.items.push_back(std::move(first));
  }
  expect_symbol("]");
  auto key = keys.items.size() == 1 ? std::move(keys.items.front()) : make(line, std::move(keys));
  return make(line, Subscript{std::move(object), std::move(key)});
}

std::string Parser::dotted_name() {
  std::string name = take_name();
  while (skip_symbol(".")) name += "." + take_name();
  return name;
}

// One or more filters; the first begins with a name where there is no value, else with a bar.
ExpressionPtr Parser::filter(ExpressionPtr value) {
  bool has_bar = skip_symbol("|");
  do {
    const auto line = current().line;
    std::string name = dotted_name();
    auto arguments = current().is_symbol("(") ? call_arguments() : CallArguments{};
    const Builtin* builtin = find_filter(name);
    value = make(line, Filter{std::move(value), std::move(name), builtin, std::move(arguments)});
    has_bar = skip_symbol("|");
  } while (has_bar);
  return value;
}

ExpressionPtr Parser::test(ExpressionPtr value) {
  const auto line = current().line;
  expect_name("is");
  const bool negated = skip_name("not");
  std::string name = dotted_name();
  CallArguments arguments;
  const auto& token = current();
  if (token.is_symbol("(")) {
    arguments = call_arguments();
  } else if ((token.is(Token::Kind::name) || token.is(Token::Kind::string) || token.is(Token::Kind::number) ||
              token.is_symbol("[") || token.is_symbol("{")) &&
             !token.is_name("else") && !token.is_name("or") && !token.is_name("and")) {
    if (token.is_name("is")) fail("You cannot chain multiple tests with is");
    auto argument = primary();
    arguments.positional.push_back(postfix(std::move(argument)));
  }
  const Builtin* builtin = find_test(name);
  auto node = make(line, Test{std::move(value), std::move(name), builtin, std::move(arguments)});
  return negated ? make(line, Unary{UnaryOperator::logical_not, std::move(node)}) : std::move(node);
}

CallArguments Parser::call_arguments() {
  const auto line = current().line;
  CallArguments out;
  const auto ensure = [&](bool condition) {
    if (!condition) fail(line, "invalid syntax for function call expression");
  };
  expect_symbol("(");
  while (!current().is_symbol(")")) {
    if (skip_symbol("*")) {
      ensure(!out.more_positional && !out.more_named);
      out.more_positional = expression();
    } else if (skip_symbol("**")) {
      ensure(!out.more_named);
      out.more_named = expression();
    } else if (current().is(Token::Kind::name) && ahead().is_symbol("=")) {
      ensure(!out.more_named);
      std::string name = take_name();
      take();
      for (const auto& [other, value] : out.named)
        if (other == name) fail(line, fmt::format("keyword argument repeated: {}", name));
      if (out.named.size() == most_arguments) fail(line, "too many arguments");
      out.named.emplace_back(std::move(name), expression());
    } else {
      ensure(!out.more_positional && !out.more_named && out.named.empty());
      out.positional.push_back(expression());
    }
    if (!skip_symbol(",")) break;
  }
  expect_symbol(")");
  return out;
}

}  // namespace hearth::jinja
