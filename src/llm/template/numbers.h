// Python's numbers as text, and text as numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "llm/template/value.h"

namespace hearth::jinja {

std::string integer_text(Integer value);
// repr(float): the shortest digits that read back as the same number.
std::string real_text(double value);
// int(text, base) and float(text); null where Python raises ValueError. Fail where the number is too large.
std::optional<Integer> parse_integer(std::string_view text, int base);
std::optional<double> parse_real(std::string_view text);
// A whole number as an integer. Fails where it is too large.
Integer truncated(double value);

// The arithmetic of integers. Fail on overflow and division by zero.
Integer checked_add(Integer a, Integer b);
Integer checked_subtract(Integer a, Integer b);
Integer checked_multiply(Integer a, Integer b);
Integer checked_power(Integer base, Integer exponent);
Integer floor_divide(Integer a, Integer b);
Integer modulo(Integer a, Integer b);
double floor_divide(double a, double b);
double modulo(double a, double b);

}  // namespace hearth::jinja
