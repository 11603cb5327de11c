// Filters over single values: numbers, defaults, JSON.
#include <fmt/format.h>

#include <cmath>

#include "llm/template/builtins.h"
#include "llm/template/interpreter.h"
#include "llm/template/json.h"
#include "llm/template/numbers.h"
#include "llm/template/operators.h"

namespace hearth::jinja {
namespace {

Value default_value(Interpreter&, const Value& subject, const Bound& arguments) {
  if (!subject.is_undefined() && !(arguments.flag(1) && !is_true(subject))) return subject;
  return arguments[0] ? *arguments[0] : Value("");
}

Value integer(Interpreter&, const Value& subject, const Bound& arguments) {
  if (subject.is_undefined()) throw Failure(subject.message());
  if (subject.is_integer()) return subject.integer();
  std::optional<double> real;
  if (subject.is_text()) {
    const Integer base = arguments.integer(1, 10);
    if (base >= 0 && base <= 36)
      if (const auto value = parse_integer(subject.text(), static_cast<int>(base))) return *value;
    real = parse_real(subject.text());
    if (real && !std::isfinite(*real)) real.reset();
  } else if (subject.is_real() && !std::isnan(subject.real())) {
    real = subject.real();
  }
  if (real) return truncated(*real);
  return arguments[0] ? *arguments[0] : Value(0);
}

Value real(Interpreter&, const Value& subject, const Bound& arguments) {
  if (subject.is_undefined()) throw Failure(subject.message());
  if (subject.is_number()) return subject.real();
  if (subject.is_text())
    if (const auto value = parse_real(subject.text())) return *value;
  return arguments[0] ? *arguments[0] : Value(0.0);
}

Value absolute(Interpreter&, const Value& subject, const Bound&) {
  if (subject.is_real()) return std::abs(subject.real());
  if (!subject.is_integer())
    throw Failure(fmt::format("bad operand type for abs(): '{}'", subject.type_name()));
  return subject.integer() < 0 ? negative(subject) : positive(subject);
}

// To the nearest; halves of the number as it is stored go to the even digit.
Value rounded(const Value& value, Integer precision) {
  if (value.is_integer()) {
    if (precision >= 0) return positive(value);
    if (precision < -38) return 0;
    const Integer unit = checked_power(10, -precision);
    const Integer rest = modulo(value.integer(), unit), down = value.integer() - rest;
    const bool is_odd = modulo(floor_divide(down, unit), 2) == 1;
    return rest > unit - rest || (rest == unit - rest && is_odd) ? checked_add(down, unit) : down;
  }
  const double real = value.real();
  if (!std::isfinite(real) || precision > 323) return real;
  if (precision < -308) return std::copysign(0.0, real);
  if (precision >= 0) return *parse_real(fmt::format("{:.{}f}", real, static_cast<int>(precision)));
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(real / unit) * unit;
}

Value round_filter(Interpreter&, const Value& subject, const Bound& arguments) {
  const Integer precision = arguments.integer(0, 0);
  const std::string method = arguments.text(1, "common");
  if (method != "common" && method != "ceil" && method != "floor")
    throw Failure("method must be common, ceil or floor");
  if (subject.is_undefined()) throw Failure(subject.message());
  if (!subject.is_number())
    throw Failure(fmt::format("type {} doesn't define __round__ method", subject.type_name()));
  if (method == "common") return rounded(subject, precision);
  const double unit = std::pow(10.0, static_cast<double>(precision));
  const double scaled = subject.real() * unit;
  if (!std::isfinite(scaled)) throw Failure("cannot convert float infinity or NaN to integer");
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit;
}

Value to_json_filter(Interpreter& in, const Value& subject, const Bound& arguments) {
  JsonStyle style;
  style.ascii_only = arguments.flag(0);
  if (const auto* indent = arguments.given(1)) {
    if (indent->is_text()) {
      style.indent = indent->text();
    } else {
      const Integer spaces = std::clamp<Integer>(arguments.integer(1), 0, 1'000'000);
      style.indent = std::string(static_cast<std::size_t>(spaces), ' ');
    }
    style.item_separator = ",";
  }
  if (const auto* separators = arguments.given(2)) {
    const List parts = to_list(in, *separators);
    if (parts.size() != 2 || !parts[0].is_text() || !parts[1].is_text())
      throw Failure("separators must be two strings");
    style.item_separator = parts[0].text();
    style.key_separator = parts[1].text();
  }
  style.sort_keys = arguments.flag(3);
  return to_json(in, subject, style);
}

Value file_size(Interpreter&, const Value& subject, const Bound& arguments) {
  if (subject.is_undefined()) throw Failure(subject.message());
  const auto parsed = subject.is_number() ? std::optional(subject.real())
                      : subject.is_text() ? parse_real(subject.text())
                                          : std::nullopt;
  if (!parsed) throw Failure(fmt::format("could not convert '{}' to float", subject.type_name()));
  const double bytes = *parsed, base = arguments.flag(0) ? 1024 : 1000;
  if (bytes == 1) return "1 Byte";
  if (bytes < base) return integer_text(truncated(bytes)) + " Bytes";
  const std::string_view letters = arguments.flag(0) ? "KMGTPEZY" : "kMGTPEZY";
  double unit = base * base;
  std::size_t i = 0;
  for (; i + 1 < letters.size() && bytes >= unit; ++i) unit *= base;
  return fmt::format("{:.1f} {}{}", base * bytes / unit, letters[i], arguments.flag(0) ? "iB" : "B");
}

constexpr Builtin value_table[] = {
    {"abs", {}, absolute},
    {"d", {"default_value?", "boolean?"}, default_value},
    {"default", {"default_value?", "boolean?"}, default_value},
    {"filesizeformat", {"binary?"}, file_size},
    {"float", {"default?"}, real},
    {"int", {"default?", "base?"}, integer},
    {"round", {"precision?", "method?"}, round_filter},
    {"tojson", {"ensure_ascii?", "indent?", "separators?", "sort_keys?"}, to_json_filter},
};

}  // namespace

std::span<const Builtin> value_filters() { return value_table; }

}  // namespace hearth::jinja
