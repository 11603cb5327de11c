// Methods of lists, tuples and dicts. Those that would change them are not allowed.
#include <fmt/format.h>

#include "llm/template/builtins.h"
#include "llm/template/interpreter.h"
#include "llm/template/operators.h"

namespace hearth::jinja {
namespace {

Value count_items(Interpreter& in, const Value& subject, const Bound& arguments) {
  std::size_t found = 0;
  for (const auto& item : subject.items())
    if (item.is_same(*arguments[0]) || equals(in.budget(), item, *arguments[0])) ++found;
  return found;
}

Value index_of(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto& items = subject.items();
  const auto size = static_cast<Integer>(items.size());
  const auto bound = [&](std::size_t i, Integer otherwise) {
    const Integer value = arguments.integer(i, otherwise);
    return std::clamp<Integer>(value < 0 ? value + size : value, 0, size);
  };
  for (Integer i = bound(1, 0); i < bound(2, size); ++i) {
    const auto& item = items[static_cast<std::size_t>(i)];
    if (item.is_same(*arguments[0]) || equals(in.budget(), item, *arguments[0])) return i;
  }
  throw Failure(fmt::format("{} is not in {}", to_repr(in, *arguments[0]), subject.type_name()));
}

Value copy(Interpreter&, const Value& subject, const Bound&) { return subject; }

Value get(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto* found = subject.dict().find(in.budget(), *arguments[0]);
  return found ? *found : arguments[1] ? *arguments[1] : Value();
}

template <DictView::Part part>
Value view(Interpreter&, const Value& subject, const Bound&) {
  return std::make_shared<DictView>(subject.shared_dict(), part);
}

constexpr Builtin of_lists[] = {
    {"append", {}, nullptr}, {"clear", {}, nullptr},
    {"copy", {}, copy},      {"count", {"$value"}, count_items},
    {"extend", {}, nullptr}, {"index", {"$value", "$start?", "$stop?"}, index_of},
    {"insert", {}, nullptr}, {"pop", {}, nullptr},
    {"remove", {}, nullptr}, {"reverse", {}, nullptr},
    {"sort", {}, nullptr},
};

constexpr Builtin of_tuples[] = {
    {"count", {"$value"}, count_items},
    {"index", {"$value", "$start?", "$stop?"}, index_of},
};

constexpr Builtin of_dicts[] = {
    {"clear", {}, nullptr},
    {"copy", {}, copy},
    {"get", {"$key", "$default?"}, get},
    {"items", {}, view<DictView::Part::items>},
    {"keys", {}, view<DictView::Part::keys>},
    {"pop", {}, nullptr},
    {"popitem", {}, nullptr},
    {"setdefault", {}, nullptr},
    {"update", {}, nullptr},
    {"values", {}, view<DictView::Part::values>},
};

}  // namespace

std::span<const Builtin> list_methods() { return of_lists; }
std::span<const Builtin> tuple_methods() { return of_tuples; }
std::span<const Builtin> dict_methods() { return of_dicts; }

}  // namespace hearth::jinja
