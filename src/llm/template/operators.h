// Python's operators and built-in protocols over template values.
#pragma once

#include <memory>
#include <optional>

#include "llm/template/object.h"
#include "llm/template/value.h"

namespace hearth::jinja {

enum class BinaryOperator { add, subtract, multiply, divide, floor_divide, modulo, power };
enum class Comparison { equal, not_equal, less, less_equal, greater, greater_equal, in, not_in };

bool is_true(const Value& value);
bool equals(Budget& budget, const Value& a, const Value& b);
// One of the four that order. Fails where Python cannot order the two.
bool ordered(Budget& budget, Comparison comparison, const Value& a, const Value& b);
bool compare(Interpreter& in, Comparison comparison, const Value& a, const Value& b);
bool contains(Interpreter& in, const Value& container, const Value& item);
Value binary(Interpreter& in, BinaryOperator op, const Value& a, const Value& b);
Value negative(const Value& value);
Value positive(const Value& value);

// len(); null where a value has none.
std::optional<std::size_t> length(const Value& value);
// iter(). Fails for what cannot be iterated; iterator_of returns null.
std::unique_ptr<Iterator> iterate(const Value& value);
std::unique_ptr<Iterator> iterator_of(const Value& value);
List to_list(Interpreter& in, const Value& value);

// ---- access

// `value.name` and `value[key]`: undefined where there is nothing of that name.
Value get_attribute(Interpreter& in, const Value& value, std::string_view name);
Value get_item(Interpreter& in, const Value& value, const Value& key);
// `value[start:stop:step]`
Value get_slice(Interpreter& in, const Value& value, const Value& start, const Value& stop,
                const Value& step);
// getattr() alone: null where `value` has no such attribute, whatever its keys.
std::optional<Value> own_attribute(Interpreter& in, const Value& value, std::string_view name);

// ---- texts

// str() and repr()
std::string to_text(Interpreter& in, const Value& value);
std::string to_repr(Interpreter& in, const Value& value);
// str() that leaves a marked text marked.
Value to_soft_text(Interpreter& in, const Value& value);
// & < > ' " as HTML writes them; a marked text is left as it is.
std::string escape(Interpreter& in, const Value& value);

}  // namespace hearth::jinja
