// What a template says, as a tree.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "llm/template/operators.h"
#include "llm/template/value.h"

namespace hearth::jinja {

using NameId = std::uint32_t;  // into Template::names
// Names with a meaning of their own; every template has them.
constexpr NameId loop_name = 0, caller_name = 1, kwargs_name = 2, varargs_name = 3;

// ---- expressions

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  // *list, **dict; null: none
};

struct Constant {
  Value value;
};
struct Name {
  NameId id;
};
struct SequenceLiteral {
  std::vector<ExpressionPtr> items;
  bool is_tuple;
};
struct DictLiteral {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct Attribute {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object, key;
};
struct Slice {
  ExpressionPtr object, start, stop, step;  // the last three may be null
};
struct Call {
  ExpressionPtr callee;
  CallArguments arguments;
};
// value | name(arguments), value is name(arguments)
struct Filter {
  ExpressionPtr value;  // null: the text of the block around it
  std::string name;
  const Builtin* builtin;  // null: there is none of that name
  CallArguments arguments;
};
struct Test {
  ExpressionPtr value;
  std::string name;
  const Builtin* builtin;
  CallArguments arguments;
};
enum class UnaryOperator { negative, positive, logical_not };
struct Unary {
  UnaryOperator op;
  ExpressionPtr operand;
};
struct Binary {
  BinaryOperator op;
  ExpressionPtr left, right;
};
struct Logical {
  bool is_and;
  ExpressionPtr left, right;
};
// a ~ b ~ c
struct Concatenation {
  std::vector<ExpressionPtr> parts;
};
// a < b < c
struct ComparisonChain {
  ExpressionPtr first;
  std::vector<std::pair<Comparison, ExpressionPtr>> rest;
};
struct Conditional {
  ExpressionPtr test, yes, no;  // no: may be null
};

struct Expression {
  std::size_t line;
  int depth;  // of the tree below
  std::variant<Constant, Name, SequenceLiteral, DictLiteral, Attribute, Subscript, Slice, Call, Filter, Test,
               Unary, Binary, Logical, Concatenation, ComparisonChain, Conditional>
      node;
};

// Calls f with each expression directly inside `expression`.
template <typename F>
void for_each_child(const Expression& expression, F&& f);

// ---- statements

struct Statement;

// Statements with a scope of their own, or the branch of an if, which has none.
struct Block {
  std::vector<Statement> statements;
  // Names that are hidden from the begin, before the block sets them: see scopes.cpp.
  std::vector<NameId> hidden;
};

// What can be assigned to: a name, an attribute of a namespace, or several.
struct Target {
  std::size_t line = 0;
  NameId name = 0;
  std::string attribute = {};  // empty: the name itself
  bool is_tuple = false;       // then it has elements instead
  std::vector<Target> elements = {};
};

struct Signature {
  std::vector<NameId> parameters;
  std::vector<ExpressionPtr> defaults;  // of the last parameters
  // Whether the body uses these special names, which then are parameters as well.
  bool takes_caller = false, takes_kwargs = false, takes_varargs = false;
};

struct Data {
  std::string text;
};
struct Print {
  ExpressionPtr value;
};
struct Branch {
  ExpressionPtr test;
  Block then;
};
struct If {
  std::vector<Branch> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable, test;  // test: may be null
  bool is_recursive;
  Block body, otherwise;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // may be null
  Block body;
};
struct MacroBody {
  std::string name;  // empty: a call block
  Signature signature;
  Block body;
};
struct MacroDefinition {
  NameId name;
  std::unique_ptr<MacroBody> macro;
};
struct CallBlock {
  ExpressionPtr call;  // null: {% generation %}, which prints its body
  std::unique_ptr<MacroBody> caller;
};
struct FilterBlock {
  ExpressionPtr filter;
  Block body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  std::size_t line;
  std::variant<Data, Print, If, For, Set, SetBlock, MacroDefinition, CallBlock, FilterBlock, With, Break,
               Continue>
      node;
};

struct Template {
  std::vector<std::string> names;
  Block body;
};

// ----

// One lambda per alternative of a variant.
template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

template <typename F>
void for_each_child(const Expression& expression, F&& f) {
  const auto one = [&](const ExpressionPtr& child) {
    if (child) f(*child);
  };
  const auto all = [&](const std::vector<ExpressionPtr>& children) {
    for (const auto& child : children) one(child);
  };
  const auto passed = [&](const CallArguments& arguments) {
    all(arguments.positional);
    for (const auto& [name, child] : arguments.named) one(child);
    one(arguments.more_positional);
    one(arguments.more_named);
  };
  std::visit(
      Overloaded{
          [](const Constant&) {}, [](const Name&) {}, [&](const SequenceLiteral& node) { all(node.items); },
          [&](const DictLiteral& node) {
            for (const auto& [key, value] : node.entries) one(key), one(value);
          },
          [&](const Attribute& node) { one(node.object); },
          [&](const Subscript& node) { one(node.object), one(node.key); },
          [&](const Slice& node) { one(node.object), one(node.start), one(node.stop), one(node.step); },
          [&](const Call& node) { one(node.callee), passed(node.arguments); },
          [&](const Filter& node) { one(node.value), passed(node.arguments); },
          [&](const Test& node) { one(node.value), passed(node.arguments); },
          [&](const Unary& node) { one(node.operand); },
          [&](const Binary& node) { one(node.left), one(node.right); },
          [&](const Logical& node) { one(node.left), one(node.right); },
          [&](const Concatenation& node) { all(node.parts); },
          [&](const ComparisonChain& node) {
            one(node.first);
            for (const auto& [comparison, child] : node.rest) one(child);
          },
          [&](const Conditional& node) { one(node.test), one(node.yes), one(node.no); }},
      expression.node);
}

}  // namespace hearth::jinja
