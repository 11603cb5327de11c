// Values that are more than data: functions and macros, what can be iterated once, what can be changed.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "llm/template/value.h"

namespace hearth::jinja {

class Interpreter;

// What a call passes.
struct Arguments {
  List positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Gives the items of something, one at a time.
class Iterator {
 public:
  virtual ~Iterator() = default;
  virtual std::optional<Value> next(Interpreter& in) = 0;
};

class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual std::string repr(Interpreter& in);
  // Null where there is none of that name.
  virtual std::optional<Value> attribute(Interpreter& in, std::string_view name);
  virtual bool is_callable() const { return false; }
  virtual Value call(Interpreter& in, Arguments& arguments);
  virtual std::optional<std::size_t> length() const { return std::nullopt; }
  // Null where it cannot be iterated. `self` is this object.
  virtual std::unique_ptr<Iterator> new_iterator(const Value& self);
  virtual bool equals(Budget& budget, const Object& other) const;
  virtual int depth() const { return 0; }  // see Value::depth
};

// Destroys what an object has contained. Data is nested only so deep, but objects that change can form chains
// without end; they are destroyed one after another, not one within another.
void release(std::shared_ptr<void> contents);

// ---- functions of the language: filters, tests, methods, globals

class Bound;
using BuiltinFunction = Value (*)(Interpreter& in, const Value& subject, const Bound& arguments);

// "name?" may be left out; "$name" cannot be passed by name; a final "*" takes whatever else is passed.
// Those without a function exist in Python but are not allowed, because they would change the subject.
struct Builtin {
  std::string_view name;
  std::array<std::string_view, 5> parameters;
  BuiltinFunction function;
};

// Arguments matched to the parameters of a builtin. Getters fail where a value is not of the type.
class Bound {
 public:
  Bound(const Builtin& builtin, Arguments& arguments);

  const Value* operator[](std::size_t i) const { return values_[i]; }  // null: not given
  // Of an optional parameter, where None counts as not given.
  const Value* given(std::size_t i) const {
    return values_[i] && !values_[i]->is_none() ? values_[i] : nullptr;
  }
  const std::string& text(std::size_t i) const;
  std::string text(std::size_t i, std::string_view otherwise) const;
  Integer integer(std::size_t i) const;
  Integer integer(std::size_t i, Integer otherwise) const;
  bool flag(std::size_t i) const;  // false where not given
  // All that was passed, for builtins that take whatever comes.
  Arguments& all() const { return arguments_; }

 private:
  std::string_view builtin_;
  Arguments& arguments_;
  std::array<const Value*, 5> values_{};
};

// A builtin as a value: `message.get`, where message is the subject; `range`.
class Function : public Object {
 public:
  Function(const Builtin& builtin, Value subject) : builtin_(builtin), subject_(std::move(subject)) {}
  std::string_view type_name() const override { return "builtin_function_or_method"; }
  bool is_callable() const override { return true; }
  Value call(Interpreter& in, Arguments& arguments) override;
  int depth() const override { return subject_.depth(); }

 private:
  const Builtin& builtin_;
  Value subject_;
};

// ---- what can be iterated

class Range : public Object {
 public:
  Range(Integer start, Integer stop, Integer step);
  std::string_view type_name() const override { return "range"; }
  std::string repr(Interpreter& in) override;
  std::optional<Value> attribute(Interpreter& in, std::string_view name) override;
  std::optional<std::size_t> length() const override { return length_; }
  std::unique_ptr<Iterator> new_iterator(const Value& self) override;
  bool equals(Budget& budget, const Object& other) const override;

  Integer item(std::size_t i) const { return start_ + static_cast<Integer>(i) * step_; }
  // Of positions, whose bounds are checked.
  Value slice(Integer from, Integer to, Integer by) const;

 private:
  Integer start_, stop_, step_;
  std::size_t length_;
};

// d.keys(), d.values(), d.items()
class DictView : public Object {
 public:
  enum class Part { keys, values, items };
  DictView(std::shared_ptr<const Dict> dict, Part part) : dict_(std::move(dict)), part_(part) {}
  std::string_view type_name() const override;
  std::string repr(Interpreter& in) override;
  std::optional<std::size_t> length() const override { return dict_->size(); }
  std::unique_ptr<Iterator> new_iterator(const Value& self) override;
  bool equals(Budget& budget, const Object& other) const override;
  int depth() const override { return dict_->depth(); }

  Value item(std::size_t i) const;

 private:
  std::shared_ptr<const Dict> dict_;
  Part part_;
};

// Items made when they are asked for, once.
class Generator : public Object {
 public:
  using Next = std::function<std::optional<Value>(Interpreter& in)>;
  explicit Generator(Next next) : next_(std::move(next)) {}
  ~Generator() override { release(std::make_shared<Next>(std::move(next_))); }
  std::string_view type_name() const override { return "generator"; }
  std::unique_ptr<Iterator> new_iterator(const Value& self) override;

 private:
  Next next_;
};

// ---- what can be changed

class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  std::string repr(Interpreter& in) override;
  std::optional<Value> attribute(Interpreter& in, std::string_view name) override;
  void set(Budget& budget, std::string_view name, Value value);  // fails for names that begin with _
  // A namespace can contain itself; the interpreter empties all of them in the end.
  void clear() { attributes_.clear(); }

 private:
  std::vector<std::pair<std::string, Value>> attributes_;
};

}  // namespace hearth::jinja
