// What objects do where they are asked for nothing special; ranges, views, generators, namespaces; and how
// arguments find their parameters.
#include "llm/template/object.h"

#include <fmt/format.h>

#include <algorithm>

#include "llm/template/interpreter.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

constexpr Integer longest_range = 100'000;  // as Jinja's sandbox has it

// Over something with a length and items by position. Keeps the object alive.
template <typename Sequence>
class PositionIterator : public Iterator {
 public:
  explicit PositionIterator(const Value& value) : value_(value) {}
  std::optional<Value> next(Interpreter&) override {
    const auto* sequence = value_.as<Sequence>();
    return at_ < *sequence->length() ? std::optional(Value(sequence->item(at_++))) : std::nullopt;
  }

 private:
  Value value_;
  std::size_t at_ = 0;
};

}  // namespace

std::string Object::repr(Interpreter&) { return fmt::format("<{} object>", type_name()); }
std::optional<Value> Object::attribute(Interpreter&, std::string_view) { return std::nullopt; }
Value Object::call(Interpreter&, Arguments&) {
  throw Failure(fmt::format("'{}' object is not callable", type_name()));
}
std::unique_ptr<Iterator> Object::new_iterator(const Value&) { return nullptr; }
bool Object::equals(Budget&, const Object& other) const { return this == &other; }

void release(std::shared_ptr<void> contents) {
  thread_local std::vector<std::shared_ptr<void>> waiting;
  thread_local bool is_busy = false;
  waiting.push_back(std::move(contents));
  if (std::exchange(is_busy, true)) return;
  while (!waiting.empty()) {
    const auto next = std::move(waiting.back());
    waiting.pop_back();
  }
  is_busy = false;
}

Value Function::call(Interpreter& in, Arguments& arguments) { return in.call(builtin_, subject_, arguments); }

// ---- arguments

Bound::Bound(const Builtin& builtin, Arguments& arguments) : builtin_(builtin.name), arguments_(arguments) {
  const auto plain = [](std::string_view parameter) {
    if (parameter.ends_with('?')) parameter.remove_suffix(1);
    return parameter;
  };
  std::size_t count = 0;
  while (count < builtin.parameters.size() && !builtin.parameters[count].empty()) ++count;
  if (count > 0 && builtin.parameters[count - 1] == "*") return;  // takes anything

  if (arguments.positional.size() > count)
    throw Failure(fmt::format("{}() takes at most {} argument(s) ({} given)", builtin_, count,
                              arguments.positional.size()));
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    std::size_t i = 0;
    while (i < count && plain(builtin.parameters[i]) != name) ++i;
    if (i == count)
      throw Failure(fmt::format("{}() got an unexpected keyword argument {}", builtin_, quote(name)));
    if (values_[i])
      throw Failure(fmt::format("{}() got multiple values for argument {}", builtin_, quote(name)));
    values_[i] = &value;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (!values_[i] && !builtin.parameters[i].ends_with('?'))
      throw Failure(
          fmt::format("{}() missing required argument {}", builtin_,
                      quote(builtin.parameters[i].substr(builtin.parameters[i].starts_with('$') ? 1 : 0))));
}

const std::string& Bound::text(std::size_t i) const {
  if (values_[i]->is_undefined()) throw Failure(values_[i]->message());
  if (!values_[i]->is_text())
    throw Failure(fmt::format("{}() argument must be str, not {}", builtin_, values_[i]->type_name()));
  return values_[i]->text();
}

std::string Bound::text(std::size_t i, std::string_view otherwise) const {
  return values_[i] ? text(i) : std::string(otherwise);
}

Integer Bound::integer(std::size_t i) const {
  if (values_[i]->is_undefined()) throw Failure(values_[i]->message());
  if (!values_[i]->is_integer())
    throw Failure(fmt::format("'{}' object cannot be interpreted as an integer", values_[i]->type_name()));
  return values_[i]->integer();
}

Integer Bound::integer(std::size_t i, Integer otherwise) const { return values_[i] ? integer(i) : otherwise; }

bool Bound::flag(std::size_t i) const { return values_[i] && is_true(*values_[i]); }

// ---- ranges

Range::Range(Integer start, Integer stop, Integer step) : start_(start), stop_(stop), step_(step) {
  if (step == 0) throw Failure("range() arg 3 must not be zero");
  constexpr Integer far = Integer(1) << 120;
  if (std::max({start, stop, step}) > far || std::min({start, stop, step}) < -far)
    throw Failure("range() of numbers that are too large");
  const Integer span = step > 0 ? stop - start : start - stop;
  const Integer length = span <= 0 ? 0 : (span - 1) / (step > 0 ? step : -step) + 1;
  if (length > longest_range)
    throw Failure("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  length_ = static_cast<std::size_t>(length);
}

std::string Range::repr(Interpreter&) {
  if (step_ == 1) return fmt::format("range({}, {})", start_, stop_);
  return fmt::format("range({}, {}, {})", start_, stop_, step_);
}

std::optional<Value> Range::attribute(Interpreter&, std::string_view name) {
  if (name == "start") return start_;
  if (name == "stop") return stop_;
  if (name == "step") return step_;
  return std::nullopt;
}

std::unique_ptr<Iterator> Range::new_iterator(const Value& self) {
  return std::make_unique<PositionIterator<Range>>(self);
}

bool Range::equals(Budget&, const Object& other) const {
  const auto* range = dynamic_cast<const Range*>(&other);
  if (!range || length_ != range->length_) return false;
  return length_ == 0 || (start_ == range->start_ && (length_ == 1 || step_ == range->step_));
}

Value Range::slice(Integer from, Integer to, Integer by) const {
  return std::make_shared<Range>(start_ + from * step_, start_ + to * step_, step_ * by);
}

// ---- views

std::string_view DictView::type_name() const {
  return part_ == Part::keys ? "dict_keys" : part_ == Part::values ? "dict_values" : "dict_items";
}

std::string DictView::repr(Interpreter& in) {
  List items;
  for (std::size_t i = 0; i < dict_->size(); ++i) items.push_back(item(i));
  return fmt::format("{}({})", type_name(), to_repr(in, in.new_list(std::move(items))));
}

Value DictView::item(std::size_t i) const {
  const auto& [key, value] = dict_->entries()[i];
  return part_ == Part::keys ? key : part_ == Part::values ? value : Value::tuple({key, value});
}

std::unique_ptr<Iterator> DictView::new_iterator(const Value& self) {
  return std::make_unique<PositionIterator<DictView>>(self);
}

bool DictView::equals(Budget& budget, const Object& other) const {
  const auto* view = dynamic_cast<const DictView*>(&other);
  if (!view || part_ != view->part_ || part_ == Part::values) return this == &other;
  // Keys and items are equal as sets.
  if (dict_->size() != view->dict_->size()) return false;
  return std::all_of(dict_->entries().begin(), dict_->entries().end(), [&](const Dict::Entry& entry) {
    const auto* found = view->dict_->find(budget, entry.first);
    return found && (part_ == Part::keys || jinja::equals(budget, entry.second, *found));
  });
}

// ---- generators

std::unique_ptr<Iterator> Generator::new_iterator(const Value& self) {
  class Forward : public Iterator {
   public:
    explicit Forward(const Value& generator) : generator_(generator) {}
    std::optional<Value> next(Interpreter& in) override {
      const Budget::Level level(in.budget());
      in.budget().spend(1);
      return generator_.as<Generator>()->next_(in);
    }

   private:
    Value generator_;
  };
  return std::make_unique<Forward>(self);
}

// ---- namespaces

std::string Namespace::repr(Interpreter& in) {
  const Budget::Level level(in.budget());  // it may contain itself
  std::string out;
  for (const auto& [name, value] : attributes_)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", quote(name), to_repr(in, value));
  return fmt::format("<Namespace {{{}}}>", out);
}

std::optional<Value> Namespace::attribute(Interpreter& in, std::string_view name) {
  in.budget().spend(1 + attributes_.size() / 16);
  for (const auto& [n, value] : attributes_)
    if (n == name) return value;
  return std::nullopt;
}

void Namespace::set(Budget& budget, std::string_view name, Value value) {
  if (name.starts_with('_'))
    throw Failure(
        fmt::format("Chat templates cannot store underscore-prefixed attributes on a namespace, but got {}.",
                    quote(name)));
  budget.take(sizeof(Value) + name.size());
  budget.spend(1 + attributes_.size() / 16);
  for (auto& [n, current] : attributes_)
    if (n == name) {
      current = std::move(value);
      return;
    }
  attributes_.emplace_back(name, std::move(value));
}

}  // namespace hearth::jinja
