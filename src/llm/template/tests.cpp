// Tests: what may stand after `is`.
#include <fmt/format.h>

#include "base/unicode.h"
#include "llm/template/builtins.h"
#include "llm/template/interpreter.h"
#include "llm/template/operators.h"

namespace hearth::jinja {
namespace {

template <bool (Value::*Is)() const>
Value is_kind(Interpreter&, const Value& subject, const Bound&) {
  return (subject.*Is)();
}

template <Comparison comparison>
Value compares(Interpreter& in, const Value& subject, const Bound& arguments) {
  return compare(in, comparison, subject, *arguments[0]);
}

Value is_defined(Interpreter&, const Value& subject, const Bound&) { return !subject.is_undefined(); }

Value is_integer(Interpreter&, const Value& subject, const Bound&) {
  return subject.is_integer() && !subject.is_boolean();
}

template <bool wanted>
Value is_truth_value(Interpreter&, const Value& subject, const Bound&) {
  return subject.is_boolean() && subject.boolean() == wanted;
}

// value % divisor == rest
Value has_remainder(Interpreter& in, const Value& subject, const Value& divisor, Integer rest) {
  return equals(in.budget(), binary(in, BinaryOperator::modulo, subject, divisor), rest);
}
Value is_odd(Interpreter& in, const Value& subject, const Bound&) { return has_remainder(in, subject, 2, 1); }
Value is_even(Interpreter& in, const Value& subject, const Bound&) {
  return has_remainder(in, subject, 2, 0);
}
Value is_divisible(Interpreter& in, const Value& subject, const Bound& arguments) {
  return has_remainder(in, subject, *arguments[0], 0);
}

template <bool (*Is)(char32_t)>
Value has_case(Interpreter& in, const Value& subject, const Bound&) {
  return all_cased(to_text(in, subject), Is);
}

// What has a length and items by position or key.
Value is_sequence(Interpreter&, const Value& subject, const Bound&) {
  return subject.is_undefined() || subject.is_text() || subject.is_sequence() || subject.is_dict() ||
         subject.as<Range>() != nullptr;
}

Value is_iterable(Interpreter&, const Value& subject, const Bound&) {
  return iterator_of(subject) != nullptr;
}

Value is_callable(Interpreter&, const Value& subject, const Bound&) {
  const auto* object = subject.as();
  return subject.is_undefined() || (object && object->is_callable());
}

Value is_same_as(Interpreter&, const Value& subject, const Bound& arguments) {
  return subject.is_same(*arguments[0]);
}

Value is_filter(Interpreter&, const Value& subject, const Bound&) {
  return subject.is_text() && find_filter(subject.text()) != nullptr;
}

Value is_test(Interpreter&, const Value& subject, const Bound&) {
  return subject.is_text() && find_test(subject.text()) != nullptr;
}

constexpr Builtin test_table[] = {
    {"!=", {"$other"}, compares<Comparison::not_equal>},
    {"<", {"$other"}, compares<Comparison::less>},
    {"<=", {"$other"}, compares<Comparison::less_equal>},
    {"==", {"$other"}, compares<Comparison::equal>},
    {">", {"$other"}, compares<Comparison::greater>},
    {">=", {"$other"}, compares<Comparison::greater_equal>},
    {"boolean", {}, is_kind<&Value::is_boolean>},
    {"callable", {}, is_callable},
    {"defined", {}, is_defined},
    {"divisibleby", {"num"}, is_divisible},
    {"eq", {"$other"}, compares<Comparison::equal>},
    {"equalto", {"$other"}, compares<Comparison::equal>},
    {"escaped", {}, is_kind<&Value::is_markup>},
    {"even", {}, is_even},
    {"false", {}, is_truth_value<false>},
    {"filter", {}, is_filter},
    {"float", {}, is_kind<&Value::is_real>},
    {"ge", {"$other"}, compares<Comparison::greater_equal>},
    {"greaterthan", {"$other"}, compares<Comparison::greater>},
    {"gt", {"$other"}, compares<Comparison::greater>},
    {"in", {"seq"}, compares<Comparison::in>},
    {"integer", {}, is_integer},
    {"iterable", {}, is_iterable},
    {"le", {"$other"}, compares<Comparison::less_equal>},
    {"lessthan", {"$other"}, compares<Comparison::less>},
    {"lower", {}, has_case<unicode::is_lower>},
    {"lt", {"$other"}, compares<Comparison::less>},
    {"mapping", {}, is_kind<&Value::is_dict>},
    {"ne", {"$other"}, compares<Comparison::not_equal>},
    {"none", {}, is_kind<&Value::is_none>},
    {"number", {}, is_kind<&Value::is_number>},
    {"odd", {}, is_odd},
    {"sameas", {"other"}, is_same_as},
    {"sequence", {}, is_sequence},
    {"string", {}, is_kind<&Value::is_text>},
    {"test", {}, is_test},
    {"true", {}, is_truth_value<true>},
    {"undefined", {}, is_kind<&Value::is_undefined>},
    {"upper", {}, has_case<unicode::is_upper>},
};

}  // namespace

std::span<const Builtin> tests() { return test_table; }

}  // namespace hearth::jinja
