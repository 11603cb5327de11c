// Filters that look at an attribute of each item, or ask a test or another filter about it.
#include <fmt/format.h>

#include <algorithm>

#include "base/unicode.h"
#include "llm/template/builtins.h"
#include "llm/template/lookup.h"
#include "llm/template/numbers.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace hearth::jinja {

Lookup::Lookup(const Value* attribute, Value otherwise, bool ignores_case)
    : otherwise_(std::move(otherwise)), ignores_case_(ignores_case) {
  if (!attribute) return;
  if (!attribute->is_text()) {
    path_.push_back(*attribute);
    return;
  }
  for (const auto part : split(attribute->text(), ".", no_limit)) {
    const bool is_number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    path_.push_back(is_number ? Value(*parse_integer(part, 10)) : Value(part));
  }
}

Value Lookup::operator()(Interpreter& in, const Value& item) const {
  Value value = item;
  for (const auto& key : path_) {
    in.budget().spend(1);
    value = get_item(in, value, key);
    if (value.is_undefined() && !otherwise_.is_none()) value = otherwise_;
  }
  if (!ignores_case_ || !value.is_text()) return value;
  return in.new_text(unicode::to_lower(value.text()), value.is_markup());
}

namespace {

// ---- order

struct Keyed {
  Value key, item;
};

void sort_by_key(Interpreter& in, std::vector<Keyed>& items, bool reverse) {
  std::stable_sort(items.begin(), items.end(), [&](const Keyed& a, const Keyed& b) {
    return reverse ? ordered(in.budget(), Comparison::less, b.key, a.key)
                   : ordered(in.budget(), Comparison::less, a.key, b.key);
  });
}

Value sort(Interpreter& in, const Value& subject, const Bound& arguments) {
  const bool ignores_case = !arguments.flag(1);
  // Several attributes are separated by commas.
  std::vector<Lookup> lookups;
  if (const auto* attribute = arguments.given(2); attribute && attribute->is_text()) {
    for (const auto part : split(attribute->text(), ",", no_limit)) {
      const Value name(part);
      lookups.emplace_back(&name, Value(), ignores_case);
    }
  } else {
    lookups.emplace_back(attribute, Value(), ignores_case);
  }
  std::vector<Keyed> keyed;
  for (auto& item : to_list(in, subject)) {
    List keys;
    for (const auto& lookup : lookups) keys.push_back(lookup(in, item));
    keyed.push_back({in.new_list(std::move(keys)), std::move(item)});
  }
  sort_by_key(in, keyed, arguments.flag(0));
  List out;
  for (auto& row : keyed) out.push_back(std::move(row.item));
  return in.new_list(std::move(out));
}

Value dict_sort(Interpreter& in, const Value& subject, const Bound& arguments) {
  if (subject.is_undefined()) throw Failure(subject.message());
  if (!subject.is_dict())
    throw Failure(fmt::format("'{}' object has no attribute 'items'", subject.type_name()));
  const std::string by = arguments.text(1, "key");
  if (by != "key" && by != "value") throw Failure("You can only sort by either \"key\" or \"value\"");
  const Lookup lookup(nullptr, {}, !arguments.flag(0));
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : subject.dict().entries())
    keyed.push_back({lookup(in, by == "key" ? key : value), in.new_tuple({key, value})});
  sort_by_key(in, keyed, arguments.flag(2));
  List out;
  for (auto& row : keyed) out.push_back(std::move(row.item));
  return in.new_list(std::move(out));
}

template <bool largest>
Value extreme(Interpreter& in, const Value& subject, const Bound& arguments) {
  const Lookup lookup(arguments.given(1), {}, !arguments.flag(0));
  std::optional<Keyed> best;
  const auto iterator = iterate(subject);
  while (const auto item = iterator->next(in)) {
    Value key = lookup(in, *item);
    if (!best || ordered(in.budget(), largest ? Comparison::greater : Comparison::less, key, best->key))
      best = Keyed{std::move(key), *item};
  }
  return best ? best->item : Value::undefined("No aggregated item, sequence was empty.");
}

Value group_by(Interpreter& in, const Value& subject, const Bound& arguments) {
  const Value otherwise = arguments[1] ? *arguments[1] : Value();
  const Lookup lookup(arguments.given(0), otherwise, !arguments.flag(2)),
      plain(arguments.given(0), otherwise);
  std::vector<Keyed> keyed;
  for (auto& item : to_list(in, subject)) {
    Value key = lookup(in, item);
    keyed.push_back({std::move(key), std::move(item)});
  }
  sort_by_key(in, keyed, false);
  List groups;
  for (std::size_t begin = 0, end; begin < keyed.size(); begin = end) {
    List members;
    for (end = begin; end < keyed.size() && equals(in.budget(), keyed[begin].key, keyed[end].key); ++end)
      members.push_back(keyed[end].item);
    if (end == begin) members.push_back(keyed[end++].item);  // a key that is not equal to itself
    Value grouper = plain(in, members.front());
    groups.push_back(Value::group(std::move(grouper), in.new_list(std::move(members))));
  }
  return in.new_list(std::move(groups));
}

Value unique(Interpreter&, const Value& subject, const Bound& arguments) {
  const Lookup lookup(arguments.given(1), {}, !arguments.flag(0));
  struct State {
    std::unique_ptr<Iterator> items;
    Dict seen;
  };
  const auto state = std::make_shared<State>();
  return std::make_shared<Generator>([subject, lookup, state](Interpreter& in) -> std::optional<Value> {
    if (!state->items) state->items = iterate(subject);
    while (auto item = state->items->next(in)) {
      const Value key = lookup(in, *item);
      if (state->seen.find(in.budget(), key)) continue;
      in.budget().take(sizeof(Dict::Entry));
      state->seen.set(in.budget(), key, Value());
      return item;
    }
    return std::nullopt;
  });
}

// ---- each item

// A generator that calls `next` with an iterator over the subject until that gives nothing.
template <typename Next>
Value lazily(const Value& subject, Next next) {
  const auto items = std::make_shared<std::unique_ptr<Iterator>>();
  return std::make_shared<Generator>([subject, next, items](Interpreter& in) -> std::optional<Value> {
    if (!is_true(subject)) return std::nullopt;
    if (!*items) *items = iterate(subject);
    return next(in, **items);
  });
}

Value map(Interpreter&, const Value& subject, const Bound& arguments) {
  Arguments rest = arguments.all();
  if (rest.positional.empty()) {
    std::optional<Value> attribute;
    Value otherwise;
    for (const auto& [name, value] : rest.named)
      if (name == "attribute")
        attribute = value;
      else if (name == "default")
        otherwise = value;
    return lazily(
        subject, [rest, attribute, otherwise](Interpreter& in, Iterator& items) -> std::optional<Value> {
          if (!attribute) throw Failure("map requires a filter argument");
          for (const auto& [name, value] : rest.named)
            if (name != "attribute" && name != "default")
              throw Failure(fmt::format("Unexpected keyword argument {}", quote(name)));
          const auto item = items.next(in);
          return item ? std::optional(
                            Lookup(attribute->is_none() ? nullptr : &*attribute, otherwise)(in, *item))
                      : std::nullopt;
        });
  }
  const Value name = rest.positional[0];
  rest.positional.erase(rest.positional.begin());
  return lazily(subject, [rest, name](Interpreter& in, Iterator& items) -> std::optional<Value> {
    const auto item = items.next(in);
    if (!item) return std::nullopt;
    Arguments passed = rest;
    return in.call_filter(name.is_text() ? name.text() : to_repr(in, name), *item, passed);
  });
}

// select, reject, and the two that ask an attribute.
template <bool wanted, bool of_attribute>
Value select(Interpreter&, const Value& subject, const Bound& arguments) {
  const Arguments& all = arguments.all();
  return lazily(subject, [all](Interpreter& in, Iterator& items) -> std::optional<Value> {
    constexpr std::size_t test_at = of_attribute ? 1 : 0;
    if (of_attribute && all.positional.empty()) throw Failure("Missing parameter for attribute name");
    const Lookup lookup(of_attribute && !all.positional[0].is_none() ? &all.positional[0] : nullptr);
    while (auto item = items.next(in)) {
      in.budget().spend(1);
      const Value value = lookup(in, *item);
      bool passes;
      if (all.positional.size() > test_at) {
        const Value& name = all.positional[test_at];
        Arguments passed{List(all.positional.begin() + test_at + 1, all.positional.end()), all.named};
        passes = in.call_test(name.is_text() ? name.text() : to_repr(in, name), value, passed);
      } else {
        passes = is_true(value);
      }
      if (passes == wanted) return item;
    }
    return std::nullopt;
  });
}

Value attribute(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto& name = arguments.text(0);
  if (auto found = own_attribute(in, subject, name)) return *found;
  return Value::undefined(fmt::format("'{} object' has no attribute {}", subject.type_name(), quote(name)));
}

constexpr Builtin lookup_table[] = {
    {"attr", {"name"}, attribute},
    {"dictsort", {"case_sensitive?", "by?", "reverse?"}, dict_sort},
    {"groupby", {"attribute", "default?", "case_sensitive?"}, group_by},
    {"map", {"*"}, map},
    {"max", {"case_sensitive?", "attribute?"}, extreme<true>},
    {"min", {"case_sensitive?", "attribute?"}, extreme<false>},
    {"reject", {"*"}, select<false, false>},
    {"rejectattr", {"*"}, select<false, true>},
    {"select", {"*"}, select<true, false>},
    {"selectattr", {"*"}, select<true, true>},
    {"sort", {"reverse?", "case_sensitive?", "attribute?"}, sort},
    {"unique", {"case_sensitive?", "attribute?"}, unique},
};

}  // namespace

std::span<const Builtin> lookup_filters() { return lookup_table; }

}  // namespace hearth::jinja
