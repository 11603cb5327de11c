// A run from begin to end, and calls.
#include "llm/template/interpreter.h"

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "llm/template/builtins.h"
#include "llm/template/json.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace hearth::jinja {

Interpreter::Interpreter(const Template& parsed, const TemplateLimits& limits,
                         std::optional<std::chrono::local_seconds> now)
    : template_(parsed), budget_(limits), output_limit_(limits.output), now_(now) {}

Interpreter::~Interpreter() {
  for (const auto& scope : kept_scopes_) scope->variables.clear();
  for (const auto& space : namespaces_) space->clear();
}

std::string Interpreter::run(const nlohmann::ordered_json& variables) {
  std::string output;
  output_ = &output;
  try {
    for (const auto& name : template_.names) {
      std::optional<Value>& value = given_.emplace_back();
      if (const auto found = variables.find(name); found != variables.end())
        value = from_json(*found);
      else if (const auto* global = find_global(name))
        value = Value(std::make_shared<Function>(*global, Value()));
    }
    scope_ = std::make_shared<Scope>(nullptr);
    run(template_.body);
  } catch (const Failure& failure) {
    throw TemplateError(line_, failure.what(), failure.raised());
  }
  return output;
}

Value Interpreter::new_text(std::string text, bool is_markup) {
  budget_.take(text.size());
  return Value::text(std::move(text), is_markup);
}

Value Interpreter::new_list(List items) {
  budget_.take(items.size() * sizeof(Value));
  return Value::list(std::move(items));
}

Value Interpreter::new_tuple(List items) {
  budget_.take(items.size() * sizeof(Value));
  return Value::tuple(std::move(items));
}

std::shared_ptr<Namespace> Interpreter::new_namespace() {
  budget_.take(sizeof(Namespace));
  return namespaces_.emplace_back(std::make_shared<Namespace>());
}

std::tm Interpreter::local_time() const {
  std::tm out{};
  if (now_) {
    // As if the local time were UTC: the fields are the same.
    const std::time_t seconds = static_cast<std::time_t>(now_->time_since_epoch().count());
    gmtime_r(&seconds, &out);
  } else {
    const std::time_t seconds = std::time(nullptr);
    localtime_r(&seconds, &out);
  }
  return out;
}

Value Interpreter::call(const Value& callee, Arguments& arguments) {
  if (callee.is_undefined()) throw Failure(callee.message());
  auto* object = callee.as();
  if (!object || !object->is_callable())
    throw Failure(fmt::format("'{}' object is not callable", callee.type_name()));
  return object->call(*this, arguments);
}

Value Interpreter::call(const Builtin& builtin, const Value& subject, Arguments& arguments) {
  // What functions of the language cost, if not what they make: they read what they are given.
  const auto cost = [](const Value& value) {
    return value.is_text() ? value.text().size() : value.is_sequence() ? value.items().size() : 0;
  };
  budget_.spend_bytes(cost(subject));
  for (const auto& value : arguments.positional) budget_.spend_bytes(cost(value));
  return builtin.function(*this, subject, Bound(builtin, arguments));
}

Value Interpreter::call_filter(std::string_view name, const Value& value, Arguments& arguments) {
  const auto* builtin = find_filter(name);
  if (!builtin) throw Failure(fmt::format("No filter named {}.", quote(name)));
  return call(*builtin, value, arguments);
}

bool Interpreter::call_test(std::string_view name, const Value& value, Arguments& arguments) {
  const auto* builtin = find_test(name);
  if (!builtin) throw Failure(fmt::format("No test named {}.", quote(name)));
  return is_true(call(*builtin, value, arguments));
}

}  // namespace hearth::jinja
