// Attributes, items and slices, by the rules of Jinja's sandbox: `a.b` looks for an attribute first and for a
// key then, `a['b']` the other way round, and what is not there is undefined.
#include <fmt/format.h>

#include <algorithm>

#include "base/unicode.h"
#include "llm/template/builtins.h"
#include "llm/template/interpreter.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

Value unsafe(const Value& value, std::string_view name) {
  return Value::undefined(
      fmt::format("access to attribute {} of '{}' object is unsafe.", quote(name), value.type_name()));
}

// Names like __class__ lead to the inside of Python.
bool is_internal(std::string_view name) {
  return name.size() > 4 && name.starts_with("__") && name.ends_with("__");
}

std::string type_in_message(const Value& value) {
  return value.is_none() ? "None" : fmt::format("{} object", value.type_name());
}

// value[key] of Python: null where that raises TypeError or LookupError.
std::optional<Value> subscript(Interpreter& in, const Value& value, const Value& key) {
  if (value.is_undefined()) throw Failure(value.message());
  if (value.is_dict()) {
    if (!is_hashable(in.budget(), key)) return std::nullopt;
    const auto* found = value.dict().find(in.budget(), key);
    return found ? std::optional(*found) : std::nullopt;
  }
  if (!key.is_integer()) return std::nullopt;
  const auto* range = value.as<Range>();
  if (!value.is_text() && !value.is_sequence() && !range) return std::nullopt;
  if (value.is_text()) in.budget().spend_bytes(value.text().size());
  const auto size = static_cast<Integer>(*length(value));
  const Integer index = key.integer() < 0 ? key.integer() + size : key.integer();
  if (index < 0 || index >= size) return std::nullopt;
  const auto i = static_cast<std::size_t>(index);
  if (range) return range->item(i);
  if (value.is_sequence()) return value.items()[i];
  const auto begin = unicode::offset(value.text(), i);
  const auto end = unicode::offset(value.text(), 1, begin);
  return Value::text(value.text().substr(begin, end - begin), value.is_markup());
}

// The bounds of a slice of `size` items, as Python's slice.indices() has them.
struct Bounds {
  Integer start, stop, step;

  Bounds(const Value& from, const Value& to, const Value& by, Integer size) {
    step = index(by, 1);
    if (step == 0) throw Failure("slice step cannot be zero");
    const Integer low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;
    const auto bound = [&](const Value& value, Integer otherwise) {
      const Integer i = index(value, otherwise);
      if (value.is_none()) return i;
      return std::clamp(i < 0 ? i + size : i, low, high);
    };
    start = bound(from, step < 0 ? high : low);
    stop = bound(to, step < 0 ? low : high);
  }

  std::size_t count() const {
    const Integer span = step < 0 ? start - stop : stop - start;
    return span <= 0 ? 0 : static_cast<std::size_t>((span - 1) / (step < 0 ? -step : step) + 1);
  }

 private:
  static Integer index(const Value& value, Integer otherwise) {
    if (value.is_none()) return otherwise;
    if (value.is_undefined()) throw Failure(value.message());
    if (!value.is_integer())
      throw Failure("slice indices must be integers or None or have an __index__ method");
    constexpr Integer far = Integer(1) << 100;  // so that sums below cannot overflow
    return std::clamp(value.integer(), -far, far);
  }
};

std::string slice_text(const std::string& text, const Bounds& bounds) {
  std::string out;
  if (bounds.step == 1) {
    const auto begin = unicode::offset(text, static_cast<std::size_t>(bounds.start));
    const auto end = unicode::offset(text, bounds.count(), begin);
    return text.substr(begin, end - begin);
  }
  std::vector<std::size_t> begins;
  for (std::size_t at = 0; at < text.size(); at = unicode::offset(text, 1, at)) begins.push_back(at);
  begins.push_back(text.size());
  Integer index = bounds.start;
  for (std::size_t k = bounds.count(); k > 0; --k, index += bounds.step) {
    const auto i = static_cast<std::size_t>(index);
    out += text.substr(begins[i], begins[i + 1] - begins[i]);
  }
  return out;
}

}  // namespace

std::optional<Value> own_attribute(Interpreter& in, const Value& value, std::string_view name) {
  if (value.is_undefined()) throw Failure(value.message());
  if (is_internal(name)) return unsafe(value, name);
  if (auto* object = value.as()) return object->attribute(in, name);
  if (value.is_group() && (name == "grouper" || name == "list")) return value.items()[name == "list" ? 1 : 0];
  const Builtin* method = find_method(value, name);
  if (!method) return std::nullopt;
  if (!method->function) return unsafe(value, name);
  return Value(std::make_shared<Function>(*method, value));
}

Value get_attribute(Interpreter& in, const Value& value, std::string_view name) {
  // The common case, without making a text of the name.
  if (value.is_dict() && !find_method(value, name))
    if (const auto* found = value.dict().find(name)) return *found;
  if (auto attribute = own_attribute(in, value, name)) return *attribute;
  return Value::undefined(fmt::format("'{}' has no attribute {}", type_in_message(value), quote(name)));
}

Value get_item(Interpreter& in, const Value& value, const Value& key) {
  if (auto item = subscript(in, value, key)) return *item;
  if (key.is_text()) {
    if (auto attribute = own_attribute(in, value, key.text())) return *attribute;
    return Value::undefined(
        fmt::format("'{}' has no attribute {}", type_in_message(value), quote(key.text())));
  }
  return Value::undefined(fmt::format("{} has no element {}", type_in_message(value), to_repr(in, key)));
}

Value get_slice(Interpreter& in, const Value& value, const Value& start, const Value& stop,
                const Value& step) {
  if (value.is_undefined()) throw Failure(value.message());
  const auto* range = value.as<Range>();
  if (!value.is_text() && !value.is_sequence() && !range)
    throw Failure(value.is_dict() ? "unhashable type: 'slice'"
                                  : fmt::format("'{}' object is not subscriptable", value.type_name()));
  if (value.is_text()) in.budget().spend_bytes(value.text().size());
  const Bounds bounds(start, stop, step, static_cast<Integer>(*length(value)));
  if (value.is_text()) return in.new_text(slice_text(value.text(), bounds), value.is_markup());
  if (range) return range->slice(bounds.start, bounds.stop, bounds.step);
  List items;
  Integer index = bounds.start;
  in.budget().take(bounds.count() * sizeof(Value));
  for (std::size_t k = bounds.count(); k > 0; --k, index += bounds.step)
    items.push_back(value.items()[static_cast<std::size_t>(index)]);
  return value.is_list() ? Value::list(std::move(items)) : Value::tuple(std::move(items));
}

}  // namespace hearth::jinja
