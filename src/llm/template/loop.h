// The variable `loop` of a for statement, which also drives it.
#pragma once

#include <memory>
#include <optional>

#include "llm/template/interpreter.h"
#include "llm/template/object.h"

namespace hearth::jinja {

class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  // `around`: the scope of the statement.
  Loop(const For& node, const Value& iterable, std::shared_ptr<Scope> around, Integer depth);

  ~Loop() override;

  std::string_view type_name() const override { return "LoopContext"; }
  std::string repr(Interpreter& in) override;
  std::optional<Value> attribute(Interpreter& in, std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(Interpreter& in, Arguments& arguments) override;

  // The next item, which becomes the current one.
  std::optional<Value> advance(Interpreter& in);

 private:
  friend struct LoopMethods;
  class Filtered;

  const std::optional<Value>& peek(Interpreter& in);
  Integer count(Interpreter& in);

  const For& node_;
  Value iterable_;
  std::shared_ptr<Scope> around_;
  Integer depth_, index_ = -1;
  std::unique_ptr<Iterator> iterator_;
  std::optional<Value> previous_, current_, next_, last_changed_;
  bool has_peeked_ = false;
  std::optional<Integer> count_;
};

}  // namespace hearth::jinja
