// Finding functions by name.
#include "llm/template/builtins.h"

#include <algorithm>
#include <initializer_list>
#include <unordered_map>

namespace hearth::jinja {
namespace {

using Index = std::unordered_map<std::string_view, const Builtin*>;

Index index(std::initializer_list<std::span<const Builtin>> tables) {
  Index out;
  for (const auto table : tables)
    for (const auto& builtin : table) out.emplace(builtin.name, &builtin);
  return out;
}

const Builtin* look_up(const Index& index, std::string_view name) {
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

}  // namespace

const Builtin* find_filter(std::string_view name) {
  static const Index all = index({text_filters(), sequence_filters(), lookup_filters(), value_filters()});
  return look_up(all, name);
}

const Builtin* find_test(std::string_view name) {
  static const Index all = index({tests()});
  return look_up(all, name);
}

const Builtin* find_global(std::string_view name) {
  static const Index all = index({globals()});
  return look_up(all, name);
}

const Builtin* find_method(const Value& subject, std::string_view name) {
  static const Index texts = index({text_methods()}), lists = index({list_methods()}),
                     tuples = index({tuple_methods()}), dicts = index({dict_methods()});
  switch (subject.kind()) {
    case Value::Kind::text:
    case Value::Kind::markup:
      return look_up(texts, name);
    case Value::Kind::list:
      return look_up(lists, name);
    case Value::Kind::tuple:
      return look_up(tuples, name);
    case Value::Kind::dict:
      return look_up(dicts, name);
    default:
      return nullptr;
  }
}

}  // namespace hearth::jinja
