// Filters that take sequences apart or put them together.
#include <fmt/format.h>

#include <algorithm>

#include "llm/template/builtins.h"
#include "llm/template/interpreter.h"
#include "llm/template/lookup.h"
#include "llm/template/operators.h"

namespace hearth::jinja {
namespace {

// A generator of what `make` returns, which is called when the first item is asked for.
template <typename Make>
Value generator(Make make) {
  struct State {
    std::optional<List> items;
    std::size_t at = 0;
  };
  const auto state = std::make_shared<State>();
  return std::make_shared<Generator>([state, make](Interpreter& in) -> std::optional<Value> {
    if (!state->items) state->items = make(in);
    return state->at < state->items->size() ? std::optional((*state->items)[state->at++]) : std::nullopt;
  });
}

Value length_filter(Interpreter&, const Value& subject, const Bound&) {
  const auto size = length(subject);
  if (!size) throw Failure(fmt::format("object of type '{}' has no len()", subject.type_name()));
  return *size;
}

Value list(Interpreter& in, const Value& subject, const Bound&) { return Value::list(to_list(in, subject)); }

Value first(Interpreter& in, const Value& subject, const Bound&) {
  const auto item = iterate(subject)->next(in);
  return item ? *item : Value::undefined("No first item, sequence was empty.");
}

// Whether reversed() takes it.
bool is_reversible(const Value& value) { return iterator_of(value) && !value.as<Generator>(); }

Value last(Interpreter& in, const Value& subject, const Bound&) {
  if (!is_reversible(subject))
    throw Failure(fmt::format("'{}' object is not reversible", subject.type_name()));
  const List items = subject.is_sequence() ? List() : to_list(in, subject);
  const List& all = subject.is_sequence() ? subject.items() : items;
  return all.empty() ? Value::undefined("No last item, sequence was empty.") : all.back();
}

Value reverse(Interpreter& in, const Value& subject, const Bound&) {
  if (subject.is_text()) return get_slice(in, subject, {}, {}, -1);
  if (!iterator_of(subject)) throw Failure("argument must be iterable");
  const auto backwards = [subject](Interpreter& inner) {
    List items = to_list(inner, subject);
    std::reverse(items.begin(), items.end());
    return items;
  };
  if (!is_reversible(subject)) return Value::list(backwards(in));
  return generator(backwards);
}

Value items(Interpreter&, const Value& subject, const Bound&) {
  return generator([subject](Interpreter& in) {
    if (subject.is_undefined()) return List();
    if (!subject.is_dict()) throw Failure("Can only get item pairs from a mapping.");
    return to_list(in, Value(std::make_shared<DictView>(subject.shared_dict(), DictView::Part::items)));
  });
}

Value join(Interpreter& in, const Value& subject, const Bound& arguments) {
  const std::string separator = arguments[0] ? to_text(in, *arguments[0]) : "";
  const Lookup attribute(arguments.given(1));
  std::string out;
  const auto iterator = iterate(subject);
  for (bool is_first = true; const auto item = iterator->next(in); is_first = false) {
    in.budget().take(separator.size());
    if (!is_first) out += separator;
    out += to_text(in, attribute(in, *item));
  }
  return Value(std::move(out));
}

Value batch(Interpreter&, const Value& subject, const Bound& arguments) {
  const Integer size = arguments.integer(0);
  const Value fill = arguments[1] ? *arguments[1] : Value();
  return generator([subject, size, fill](Interpreter& in) {
    List out, row;
    for (auto& item : to_list(in, subject)) {
      if (static_cast<Integer>(row.size()) == size) out.push_back(in.new_list(std::exchange(row, {})));
      row.push_back(std::move(item));
    }
    if (!row.empty()) {
      const Integer missing = size - static_cast<Integer>(row.size());
      if (!fill.is_none() && missing > 0) {
        if (missing > static_cast<Integer>(1) << 40) throw Failure("the template takes too much memory");
        in.budget().take(static_cast<std::size_t>(missing) * sizeof(Value));
        row.insert(row.end(), static_cast<std::size_t>(missing), fill);
      }
      out.push_back(in.new_list(std::move(row)));
    }
    return out;
  });
}

Value slice(Interpreter&, const Value& subject, const Bound& arguments) {
  const Integer slices = arguments.integer(0);
  const Value fill = arguments[1] ? *arguments[1] : Value();
  return generator([subject, slices, fill](Interpreter& in) {
    const List all = to_list(in, subject);
    if (slices == 0) throw Failure("integer division or modulo by zero");
    List out;
    const auto count = static_cast<Integer>(all.size());
    std::size_t at = 0;
    for (Integer i = 0; i < slices; ++i) {
      const auto size = static_cast<std::size_t>(count / slices + (i < count % slices ? 1 : 0));
      List part(all.begin() + static_cast<std::ptrdiff_t>(at),
                all.begin() + static_cast<std::ptrdiff_t>(at + size));
      if (!fill.is_none() && i >= count % slices) part.push_back(fill);
      out.push_back(in.new_list(std::move(part)));
      in.budget().take(sizeof(Value));
      at += size;
    }
    return out;
  });
}

Value sum(Interpreter& in, const Value& subject, const Bound& arguments) {
  const Lookup attribute(arguments.given(0));
  Value total = arguments[1] ? *arguments[1] : Value(0);
  if (total.is_text()) throw Failure("sum() can't sum strings [use ''.join(seq) instead]");
  const auto iterator = iterate(subject);
  while (const auto item = iterator->next(in))
    total = binary(in, BinaryOperator::add, total, attribute(in, *item));
  return total;
}

constexpr Builtin sequence_table[] = {
    {"batch", {"linecount", "fill_with?"}, batch},
    {"count", {}, length_filter},
    {"first", {}, first},
    {"items", {}, items},
    {"join", {"d?", "attribute?"}, join},
    {"last", {}, last},
    {"length", {}, length_filter},
    {"list", {}, list},
    {"reverse", {}, reverse},
    {"slice", {"slices", "fill_with?"}, slice},
    {"sum", {"attribute?", "start?"}, sum},
};

}  // namespace

std::span<const Builtin> sequence_filters() { return sequence_table; }

}  // namespace hearth::jinja
