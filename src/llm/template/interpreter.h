// Runs a parsed template.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/template/ast.h"
#include "llm/template/budget.h"
#include "llm/template/object.h"

namespace hearth::jinja {

// The variables of a block while it runs, and the scope around it.
struct Scope {
  explicit Scope(std::shared_ptr<Scope> outer) : around(std::move(outer)) {}

  std::shared_ptr<Scope> around;
  std::vector<std::pair<NameId, std::optional<Value>>> variables;  // no value: hidden until it is set
};

class Macro;

class Interpreter {
 public:
  Interpreter(const Template& parsed, const TemplateLimits& limits,
              std::optional<std::chrono::local_seconds> now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Once. Throws TemplateError.
  std::string run(const nlohmann::ordered_json& variables);

  // ---- for the functions of the language

  Budget& budget() { return budget_; }
  Value new_text(std::string text, bool is_markup = false);
  Value new_markup(std::string text) { return new_text(std::move(text), true); }
  Value new_list(List items);
  Value new_tuple(List items);
  std::shared_ptr<Namespace> new_namespace();
  std::tm local_time() const;

  Value call(const Value& callee, Arguments& arguments);
  Value call(const Builtin& builtin, const Value& subject, Arguments& arguments);
  // By name, as map('upper') and select('odd') have it.
  Value call_filter(std::string_view name, const Value& value, Arguments& arguments);
  bool call_test(std::string_view name, const Value& value, Arguments& arguments);

  // ---- for macros and loops

  // What a macro prints; `around` is the scope it was defined in.
  Value macro_text(const MacroBody& macro, const std::shared_ptr<Scope>& around, Arguments& arguments);
  // What a recursive loop prints for the items it is called with.
  Value loop_text(const For& node, const Value& iterable, const std::shared_ptr<Scope>& around,
                  Integer depth);
  // Whether an item passes the loop's own test.
  bool passes(const For& node, const std::shared_ptr<Scope>& around, const Value& item);

 private:
  enum class Flow { next, break_loop, continue_loop };

  // ---- statements: statements.cpp

  Flow run(const Block& block);  // in the scope that is there
  Flow run(const Statement& statement);
  Flow run(const Data& node);
  Flow run(const Print& node);
  Flow run(const If& node);
  Flow run(const For& node);
  Flow run(const Set& node);
  Flow run(const SetBlock& node);
  Flow run(const MacroDefinition& node);
  Flow run(const CallBlock& node);
  Flow run(const FilterBlock& node);
  Flow run(const With& node);
  Flow run(const Break&) { return Flow::break_loop; }
  Flow run(const Continue&) { return Flow::continue_loop; }
  Flow run_loop(const For& node, const Value& iterable, Integer depth);
  Flow run_captured(const Block& block);  // what it prints becomes block_text_
  std::shared_ptr<Macro> new_macro(const MacroBody& body);
  void bind(const MacroBody& macro, Arguments& arguments);
  void write(std::string_view text);
  void assign(const Target& target, const Value& value);
  void set(NameId name, Value value);
  void require_namespaces(const Target& target);
  std::optional<Value> find(NameId name);

  // ---- expressions: evaluate.cpp

  Value evaluate(const Expression& expression);
  Value evaluate(const Constant& node) { return node.value; }
  Value evaluate(const Name& node);
  Value evaluate(const SequenceLiteral& node);
  Value evaluate(const DictLiteral& node);
  Value evaluate(const Attribute& node);
  Value evaluate(const Subscript& node);
  Value evaluate(const Slice& node);
  Value evaluate(const Call& node);
  Value evaluate(const Filter& node);
  Value evaluate(const Test& node);
  Value evaluate(const Unary& node);
  Value evaluate(const Binary& node);
  Value evaluate(const Logical& node);
  Value evaluate(const Concatenation& node);
  Value evaluate(const ComparisonChain& node);
  Value evaluate(const Conditional& node);
  Arguments evaluate(const CallArguments& arguments);

  class Enter;
  class Capture;

  const Template& template_;
  Budget budget_;
  std::size_t output_limit_;
  std::optional<std::chrono::local_seconds> now_;
  std::size_t line_ = 1;                     // of what is being done
  std::vector<std::optional<Value>> given_;  // by NameId: variables the template was given, and globals
  std::shared_ptr<Scope> scope_;
  std::string* output_ = nullptr;
  Value block_text_;  // what the block of a filter has printed
  // Macros and recursive loops keep the scopes around them, which keep the macros; namespaces can contain
  // themselves. All are emptied in the end.
  std::vector<std::shared_ptr<Scope>> kept_scopes_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
};

}  // namespace hearth::jinja
