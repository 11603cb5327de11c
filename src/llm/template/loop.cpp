// loop.index, loop.last, loop.cycle(), loop(children) and the rest.
#include "llm/template/loop.h"

#include <fmt/format.h>

#include "llm/template/operators.h"

namespace hearth::jinja {

// The items that pass the loop's own test: {% for item in items if item.visible %}.
class Loop::Filtered : public Iterator {
 public:
  Filtered(const For& node, std::shared_ptr<Scope> around, std::unique_ptr<Iterator> items)
      : node_(node), around_(std::move(around)), items_(std::move(items)) {}

  std::optional<Value> next(Interpreter& in) override {
    while (auto item = items_->next(in))
      if (in.passes(node_, around_, *item)) return item;
    return std::nullopt;
  }

 private:
  const For& node_;
  std::shared_ptr<Scope> around_;
  std::unique_ptr<Iterator> items_;
};

namespace {

// Items that were taken out of an iterator to count them.
class Taken : public Iterator {
 public:
  explicit Taken(List items) : items_(std::move(items)) {}
  std::optional<Value> next(Interpreter&) override {
    return at_ < items_.size() ? std::optional(items_[at_++]) : std::nullopt;
  }

 private:
  List items_;
  std::size_t at_ = 0;
};

}  // namespace

struct LoopMethods {
  static Value cycle(Interpreter&, const Value& subject, const Bound& arguments) {
    const auto& items = arguments.all().positional;
    if (items.empty()) throw Failure("no items for cycling given");
    return items[static_cast<std::size_t>(subject.as<Loop>()->index_ % static_cast<Integer>(items.size()))];
  }

  static Value changed(Interpreter& in, const Value& subject, const Bound& arguments) {
    Loop& loop = *subject.as<Loop>();
    const Value value = in.new_tuple(arguments.all().positional);
    if (loop.last_changed_ && equals(in.budget(), *loop.last_changed_, value)) return false;
    loop.last_changed_ = value;
    return true;
  }
};

Loop::Loop(const For& node, const Value& iterable, std::shared_ptr<Scope> around, Integer depth)
    : node_(node),
      iterable_(iterable),
      around_(std::move(around)),
      depth_(depth),
      iterator_(iterate(iterable)) {
  if (node_.test) iterator_ = std::make_unique<Filtered>(node_, around_, std::move(iterator_));
}

Loop::~Loop() {
  auto held = std::make_shared<List>();
  held->push_back(std::move(iterable_));
  for (auto* value : {&previous_, &current_, &next_, &last_changed_})
    if (*value) held->push_back(std::move(**value));
  release(std::move(held));
  release(std::shared_ptr<Iterator>(std::move(iterator_)));
  release(std::move(around_));
}

std::optional<Value> Loop::advance(Interpreter& in) {
  auto item = has_peeked_ ? std::exchange(next_, std::nullopt) : iterator_->next(in);
  has_peeked_ = false;
  if (!item) return item;
  ++index_;
  previous_ = std::exchange(current_, item);
  return item;
}

const std::optional<Value>& Loop::peek(Interpreter& in) {
  if (!has_peeked_) next_ = iterator_->next(in);
  has_peeked_ = next_.has_value();
  return next_;
}

Integer Loop::count(Interpreter& in) {
  if (!count_) {
    if (const auto known = node_.test ? std::nullopt : jinja::length(iterable_)) {
      count_ = static_cast<Integer>(*known);
    } else {
      List rest;
      while (auto item = iterator_->next(in)) {
        in.budget().take(sizeof(Value));
        rest.push_back(std::move(*item));
      }
      count_ = static_cast<Integer>(rest.size()) + index_ + 1 + (next_ ? 1 : 0);
      iterator_ = std::make_unique<Taken>(std::move(rest));
    }
  }
  return *count_;
}

std::optional<Value> Loop::attribute(Interpreter& in, std::string_view name) {
  static constexpr Builtin cycle{"cycle", {"*"}, LoopMethods::cycle},
      changed{"changed", {"*"}, LoopMethods::changed};
  if (name == "index") return index_ + 1;
  if (name == "index0") return index_;
  if (name == "first") return index_ == 0;
  if (name == "last") return !peek(in).has_value();
  if (name == "length") return count(in);
  if (name == "revindex") return count(in) - index_;
  if (name == "revindex0") return count(in) - index_ - 1;
  if (name == "depth") return depth_ + 1;
  if (name == "depth0") return depth_;
  if (name == "previtem") return index_ == 0 ? Value::undefined("there is no previous item") : *previous_;
  if (name == "nextitem") return peek(in).value_or(Value::undefined("there is no next item"));
  if (name == "cycle" || name == "changed")
    return Value(std::make_shared<Function>(name == "cycle" ? cycle : changed,
                                            Value(std::static_pointer_cast<Object>(shared_from_this()))));
  return std::nullopt;
}

Value Loop::call(Interpreter& in, Arguments& arguments) {
  if (!node_.is_recursive)
    throw Failure("The loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1 || !arguments.named.empty())
    throw Failure("loop() takes exactly one argument");
  return in.loop_text(node_, arguments.positional[0], around_, depth_ + 1);
}

std::string Loop::repr(Interpreter& in) { return fmt::format("<LoopContext {}/{}>", index_ + 1, count(in)); }

}  // namespace hearth::jinja
