// Lists, dicts, and what all values have.
#include "llm/template/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "llm/template/object.h"
#include "llm/template/operators.h"

namespace hearth::jinja {
namespace {

constexpr std::size_t many = 8;  // entries from which a dict has an index

int checked_depth(int depth) {
  if (depth > deepest_value) throw Failure("lists or dicts are nested too deeply");
  return depth;
}

}  // namespace

Value Value::markup(std::string text) {
  return Value(Data(Markup{std::make_shared<const std::string>(std::move(text))}));
}

std::shared_ptr<const Value::Items> Value::share(List items, bool is_group) {
  int depth = 0;
  for (const auto& item : items) depth = std::max(depth, item.depth());
  return std::make_shared<const Items>(Items{std::move(items), checked_depth(depth + 1), is_group});
}

Value Value::list(List items) { return Value(Data(ListItems{share(std::move(items))})); }
Value Value::tuple(List items) { return Value(Data(TupleItems{share(std::move(items))})); }

Value Value::group(Value grouper, Value list) {
  return Value(Data(TupleItems{share({std::move(grouper), std::move(list)}, true)}));
}

bool Value::is_group() const { return is_tuple() && std::get<TupleItems>(data_).shared->is_group; }

const List& Value::items() const {
  return is_list() ? std::get<ListItems>(data_).shared->items : std::get<TupleItems>(data_).shared->items;
}

int Value::depth() const {
  switch (kind()) {
    case Kind::list:
      return std::get<ListItems>(data_).shared->depth;
    case Kind::tuple:
      return std::get<TupleItems>(data_).shared->depth;
    case Kind::dict:
      return dict().depth();
    case Kind::object:
      return as<Object>()->depth();
    default:
      return 0;
  }
}

bool Value::is_same(const Value& other) const {
  if (kind() != other.kind()) return false;
  switch (kind()) {
    case Kind::none:
      return true;
    case Kind::boolean:
      return boolean() == other.boolean();
    case Kind::integer:
      return integer() == other.integer();
    case Kind::real:
      return real() == other.real();
    case Kind::text:
      return text() == other.text();
    case Kind::undefined:
    case Kind::markup:
      return false;
    case Kind::list:
    case Kind::tuple:
      return &items() == &other.items();
    case Kind::dict:
      return &dict() == &other.dict();
    case Kind::object:
      return as<Object>() == other.as<Object>();
  }
  return false;
}

std::string_view Value::type_name() const {
  static constexpr std::array<std::string_view, 10> names = {
      "Undefined", "NoneType", "bool", "int", "float", "str", "Markup", "list", "tuple", "dict"};
  return kind() == Kind::object ? as<Object>()->type_name() : names[static_cast<std::size_t>(kind())];
}

bool is_hashable(Budget& budget, const Value& value) {
  budget.spend(1);
  if (value.is_tuple())
    return std::all_of(value.items().begin(), value.items().end(),
                       [&](const Value& item) { return is_hashable(budget, item); });
  return !value.is_list() && !value.is_dict();
}

std::size_t Dict::position(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(key);
    return found == index_.end() ? size() : found->second;
  }
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& entry) {
    return entry.first.is_text() && entry.first.text() == key;
  });
  return static_cast<std::size_t>(found - entries_.begin());
}

std::size_t Dict::position(Budget& budget, const Value& key) const {
  if (key.is_text()) return position(key.text());
  if (!is_hashable(budget, key)) throw Failure(fmt::format("unhashable type: '{}'", key.type_name()));
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return equals(budget, entry.first, key); });
  return static_cast<std::size_t>(found - entries_.begin());
}

const Value* Dict::find(std::string_view key) const {
  const auto at = position(key);
  return at == size() ? nullptr : &entries_[at].second;
}

const Value* Dict::find(Budget& budget, const Value& key) const {
  const auto at = position(budget, key);
  return at == size() ? nullptr : &entries_[at].second;
}

void Dict::set(Budget& budget, const Value& key, Value value) {
  const auto at = position(budget, key);
  if (at == size()) return append(key, std::move(value));
  depth_ = checked_depth(std::max(depth_, value.depth() + 1));
  entries_[at].second = std::move(value);
}

void Dict::add(std::string key, Value value) { append(Value(std::move(key)), std::move(value)); }

void Dict::append(const Value& key, Value value) {
  depth_ = checked_depth(std::max({depth_, key.depth() + 1, value.depth() + 1}));
  entries_.emplace_back(key, std::move(value));
  const auto index = [&](std::size_t i) {
    if (entries_[i].first.is_text()) index_.emplace(entries_[i].first.text(), i);
  };
  if (entries_.size() == many) {
    for (std::size_t i = 0; i < many; ++i) index(i);
  } else if (entries_.size() > many) {
    index(entries_.size() - 1);
  }
}

}  // namespace hearth::jinja
