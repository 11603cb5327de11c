// A macro, or the body of a call block, as a value.
#pragma once

#include <memory>

#include "llm/template/interpreter.h"
#include "llm/template/object.h"

namespace hearth::jinja {

class Macro : public Object {
 public:
  Macro(const MacroBody& body, std::shared_ptr<Scope> around) : body_(body), around_(std::move(around)) {}
  std::string_view type_name() const override { return "Macro"; }
  std::string repr(Interpreter& in) override;
  std::optional<Value> attribute(Interpreter& in, std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Interpreter& in, Arguments& arguments) override {
    return in.macro_text(body_, around_, arguments);
  }

 private:
  const MacroBody& body_;
  std::shared_ptr<Scope> around_;  // where it was defined
};

}  // namespace hearth::jinja
