// Statements, run one after the other.
#include <fmt/format.h>

#include <algorithm>

#include "llm/template/interpreter.h"
#include "llm/template/loop.h"
#include "llm/template/macro.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace hearth::jinja {

// Puts a new scope in place, while it lives.
class Interpreter::Enter {
 public:
  Enter(Interpreter& in, const std::shared_ptr<Scope>& around)
      : in_(in), before_(std::exchange(in.scope_, std::make_shared<Scope>(around))) {}
  ~Enter() { in_.scope_ = before_; }
  Enter(const Enter&) = delete;
  Enter& operator=(const Enter&) = delete;

 private:
  Interpreter& in_;
  std::shared_ptr<Scope> before_;
};

// Sends what is printed elsewhere, while it lives.
class Interpreter::Capture {
 public:
  Capture(Interpreter& in, std::string& output) : in_(in), before_(std::exchange(in.output_, &output)) {}
  ~Capture() { in_.output_ = before_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

 private:
  Interpreter& in_;
  std::string* before_;
};

Interpreter::Flow Interpreter::run(const Block& block) {
  for (const auto name : block.hidden)
    if (given_[name]) scope_->variables.emplace_back(name, std::nullopt);
  for (const auto& statement : block.statements)
    if (const Flow flow = run(statement); flow != Flow::next) return flow;
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const Statement& statement) {
  const Budget::Level level(budget_);
  budget_.spend(1);
  line_ = statement.line;
  return std::visit([this](const auto& node) { return run(node); }, statement.node);
}

Interpreter::Flow Interpreter::run(const Data& node) {
  write(node.text);
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const Print& node) {
  const Value value = evaluate(*node.value);
  if (value.is_text())
    write(value.text());
  else
    write(to_text(*this, value));
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const If& node) {
  for (const auto& [test, block] : node.branches)
    if (is_true(evaluate(*test))) return run(block);
  return run(node.otherwise);
}

Interpreter::Flow Interpreter::run(const For& node) {
  const Value iterable = evaluate(*node.iterable);
  if (!node.is_recursive) return run_loop(node, iterable, 0);
  const Value text = loop_text(node, iterable, scope_, 0);
  write(text.text());
  return Flow::next;
}

Interpreter::Flow Interpreter::run_loop(const For& node, const Value& iterable, Integer depth) {
  const auto loop = std::make_shared<Loop>(node, iterable, scope_, depth);
  bool has_finished = false;  // an iteration: Jinja takes a loop that was always left early for an empty one
  while (const auto item = loop->advance(*this)) {
    budget_.spend(1);
    const Enter scope(*this, scope_);
    assign(node.target, *item);
    set(loop_name, Value(loop));
    const Flow flow = run(node.body);
    if (flow == Flow::break_loop) break;
    has_finished |= flow == Flow::next;
  }
  if (has_finished) return Flow::next;
  const Enter scope(*this, scope_);
  return run(node.otherwise);
}

Value Interpreter::loop_text(const For& node, const Value& iterable, const std::shared_ptr<Scope>& around,
                             Integer depth) {
  const Budget::Level level(budget_);
  std::string output;
  const Capture capture(*this, output);
  const auto before = std::exchange(scope_, around);
  const auto line = line_;
  run_loop(node, iterable, depth);
  scope_ = before;
  line_ = line;
  return new_text(std::move(output));
}

bool Interpreter::passes(const For& node, const std::shared_ptr<Scope>& around, const Value& item) {
  budget_.spend(1);
  const Enter scope(*this, around);
  assign(node.target, item);
  return is_true(evaluate(*node.test));
}

Interpreter::Flow Interpreter::run(const Set& node) {
  require_namespaces(node.target);
  assign(node.target, evaluate(*node.value));
  return Flow::next;
}

Interpreter::Flow Interpreter::run_captured(const Block& block) {
  std::string output;
  const Capture capture(*this, output);
  const Flow flow = run(block);
  block_text_ = new_text(std::move(output));
  return flow;
}

Interpreter::Flow Interpreter::run(const SetBlock& node) {
  Value value;
  {
    const Enter scope(*this, scope_);
    if (const Flow flow = run_captured(node.body); flow != Flow::next) return flow;
    value = node.filter ? evaluate(*node.filter) : block_text_;
  }
  require_namespaces(node.target);
  assign(node.target, value);
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const FilterBlock& node) {
  Value value;
  {
    const Enter scope(*this, scope_);
    if (const Flow flow = run_captured(node.body); flow != Flow::next) return flow;
    value = evaluate(*node.filter);
  }
  write(to_text(*this, value));
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const With& node) {
  List values;
  for (const auto& [target, value] : node.variables) values.push_back(evaluate(*value));
  const Enter scope(*this, scope_);
  for (std::size_t i = 0; i < values.size(); ++i) assign(node.variables[i].first, values[i]);
  return run(node.body);
}

Interpreter::Flow Interpreter::run(const MacroDefinition& node) {
  set(node.name, Value(new_macro(*node.macro)));
  return Flow::next;
}

Interpreter::Flow Interpreter::run(const CallBlock& node) {
  Arguments arguments;
  Value text;
  if (node.call) {
    const auto& call_node = std::get<Call>(node.call->node);
    const Value callee = evaluate(*call_node.callee);
    arguments = evaluate(call_node.arguments);
    arguments.named.emplace_back("caller", Value(new_macro(*node.caller)));
    text = call(callee, arguments);
  } else {
    text = macro_text(*node.caller, scope_, arguments);
  }
  write(to_text(*this, text));
  return Flow::next;
}

// ---- macros

std::shared_ptr<Macro> Interpreter::new_macro(const MacroBody& body) {
  budget_.take(sizeof(Macro) + sizeof(Scope));
  kept_scopes_.push_back(scope_);
  return std::make_shared<Macro>(body, scope_);
}

Value Interpreter::macro_text(const MacroBody& macro, const std::shared_ptr<Scope>& around,
                              Arguments& arguments) {
  const Budget::Level level(budget_);
  const auto line = line_;
  std::string output;
  const Enter scope(*this, around);
  const Capture capture(*this, output);
  bind(macro, arguments);
  run(macro.body);
  line_ = line;
  return new_text(std::move(output));
}

// Makes variables of the arguments, by the rules of Jinja's macros.
void Interpreter::bind(const MacroBody& macro, Arguments& arguments) {
  const auto& signature = macro.signature;
  const auto name_of = [&](NameId id) -> const std::string& { return template_.names[id]; };
  auto& named = arguments.named;
  const auto take_named = [&](std::string_view name) {
    const auto found =
        std::find_if(named.begin(), named.end(), [&](const auto& pair) { return pair.first == name; });
    std::optional<Value> value;
    if (found != named.end()) {
      value = std::move(found->second);
      named.erase(found);
    }
    return value;
  };

  const std::size_t count = signature.parameters.size();
  std::vector<std::optional<Value>> values(count);
  bool has_caller = false;
  for (std::size_t i = 0; i < count; ++i) {
    const auto& name = name_of(signature.parameters[i]);
    if (i < arguments.positional.size())
      values[i] = arguments.positional[i];
    else
      values[i] = take_named(name);
    has_caller |= name == "caller";
  }
  std::optional<Value> caller;
  if (signature.takes_caller && !has_caller) {
    caller = take_named("caller");
    if (!caller || caller->is_none()) caller = Value::undefined("No caller defined");
  }
  if (!signature.takes_kwargs && !named.empty())
    throw Failure(fmt::format("macro {} takes no keyword argument {}",
                              macro.name.empty() ? "None" : quote(macro.name), quote(named[0].first)));
  if (!signature.takes_varargs && arguments.positional.size() > count)
    throw Failure(fmt::format("macro {} takes not more than {} argument(s)",
                              macro.name.empty() ? "None" : quote(macro.name), count));

  if (caller) set(caller_name, *caller);
  if (signature.takes_kwargs) {
    auto rest = std::make_shared<Dict>();
    for (auto& [name, value] : named) rest->add(name, value);
    set(kwargs_name, Value(std::shared_ptr<const Dict>(std::move(rest))));
  }
  if (signature.takes_varargs) {
    const auto first = arguments.positional.begin() +
                       static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
    set(varargs_name, new_tuple(List(first, arguments.positional.end())));
  }
  // A default may use the parameters before it; those after it are not there yet.
  for (std::size_t i = 0; i < count; ++i) scope_->variables.emplace_back(signature.parameters[i], values[i]);
  for (std::size_t i = 0; i < count; ++i) {
    if (values[i]) continue;
    const std::size_t from_end = count - i;
    if (from_end <= signature.defaults.size())
      set(signature.parameters[i], evaluate(*signature.defaults[signature.defaults.size() - from_end]));
    else
      set(signature.parameters[i], Value::undefined(fmt::format("parameter {} was not provided",
                                                                quote(name_of(signature.parameters[i])))));
  }
}

std::string Macro::repr(Interpreter&) {
  return body_.name.empty() ? "<Macro anonymous>" : fmt::format("<Macro {}>", quote(body_.name));
}

std::optional<Value> Macro::attribute(Interpreter&, std::string_view name) {
  if (name == "name") return body_.name.empty() ? Value() : Value(body_.name);
  if (name == "caller") return body_.signature.takes_caller;
  if (name == "catch_kwargs") return body_.signature.takes_kwargs;
  if (name == "catch_varargs") return body_.signature.takes_varargs;
  return std::nullopt;
}

// ---- variables and output

void Interpreter::write(std::string_view text) {
  budget_.take(text.size());
  if (text.size() > output_limit_ - std::min(output_limit_, output_->size()))
    throw Failure("the template prints too much");
  *output_ += text;
}

void Interpreter::set(NameId name, Value value) {
  budget_.spend(1 + scope_->variables.size() / 16);
  for (auto& [id, current] : scope_->variables)
    if (id == name) {
      current = std::move(value);
      return;
    }
  scope_->variables.emplace_back(name, std::move(value));
}

std::optional<Value> Interpreter::find(NameId name) {
  for (const auto* scope = scope_.get(); scope; scope = scope->around.get()) {
    budget_.spend(1 + scope->variables.size() / 16);
    for (const auto& [id, value] : scope->variables)
      if (id == name) return value;
  }
  return given_[name];
}

void Interpreter::require_namespaces(const Target& target) {
  for (const auto& element : target.elements) require_namespaces(element);
  if (target.attribute.empty()) return;
  const auto value = find(target.name);
  if (!value || !value->as<Namespace>()) throw Failure("cannot assign attribute on non-namespace object");
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    const auto items = iterator_of(value);
    if (!items) throw Failure(fmt::format("cannot unpack non-iterable {} object", value.type_name()));
    List values;
    while (values.size() <= target.elements.size())
      if (auto item = items->next(*this))
        values.push_back(std::move(*item));
      else
        break;
    if (values.size() > target.elements.size())
      throw Failure(fmt::format("too many values to unpack (expected {})", target.elements.size()));
    if (values.size() < target.elements.size())
      throw Failure(fmt::format("not enough values to unpack (expected {}, got {})", target.elements.size(),
                                values.size()));
    for (std::size_t i = 0; i < values.size(); ++i) assign(target.elements[i], values[i]);
  } else if (target.attribute.empty()) {
    set(target.name, value);
  } else {
    find(target.name)->as<Namespace>()->set(budget_, target.attribute, value);
  }
}

}  // namespace hearth::jinja
