// Numbers.
#include "llm/template/numbers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

constexpr Integer largest = static_cast<Integer>(~static_cast<unsigned __int128>(0) >> 1);

[[noreturn]] void fail_overflow() { throw Failure("integer of more than 127 bits"); }

Integer checked(bool overflow, Integer value) {
  if (overflow) fail_overflow();
  return value;
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'z') return c - 'a' + 10;
  if (c >= 'A' && c <= 'Z') return c - 'A' + 10;
  return 99;
}

// "1_000" without its underscores; null where they are not between digits.
std::optional<std::string> without_underscores(std::string_view text, int base) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](std::size_t k) { return k < text.size() && digit_value(text[k]) < base; };
    if (text[i] != '_')
      out += text[i];
    else if (i == 0 || !is_digit(i - 1) || !is_digit(i + 1))
      return std::nullopt;
  }
  return out;
}

}  // namespace

std::string integer_text(Integer value) { return fmt::format("{}", value); }

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<std::size_t>(end - buffer));  // -d.ddde+XX
  std::string out;
  if (text.front() == '-') {
    out = "-";
    text.remove_prefix(1);
  }
  const auto e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  const int exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  const int count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    out += digits[0];
    if (count > 1) out += '.' + digits.substr(1);
    return out + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (count <= exponent + 1)
    return out + digits + std::string(static_cast<std::size_t>(exponent + 1 - count), '0') + ".0";
  const auto point = static_cast<std::size_t>(exponent + 1);
  return out + digits.substr(0, point) + '.' + digits.substr(point);
}

std::optional<Integer> parse_integer(std::string_view text, int base) {
  if (base != 0 && (base < 2 || base > 36)) return std::nullopt;
  text = strip(text);
  bool is_negative = false;
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
    is_negative = text[0] == '-';
    text.remove_prefix(1);
  }
  // A prefix is allowed where it agrees with the base.
  if (text.size() > 1 && text[0] == '0') {
    const char letter = static_cast<char>(text[1] | 0x20);
    const int announced = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (announced != 0 && (base == announced || base == 0)) {
      base = announced;
      text.remove_prefix(2);
      if (!text.empty() && text[0] == '_') text.remove_prefix(1);
    }
  }
  const auto digits = without_underscores(text, 36);
  if (!digits || digits->empty()) return std::nullopt;
  // With base 0 a decimal number does not begin with a zero, unless it is nothing else.
  if (base == 0 && digits->size() > 1 && (*digits)[0] == '0' &&
      digits->find_first_not_of('0') != digits->npos)
    return std::nullopt;
  if (base == 0) base = 10;
  Integer value = 0;
  for (const char c : *digits) {
    if (digit_value(c) >= base) return std::nullopt;
    value = checked_add(checked_multiply(value, base), digit_value(c));
  }
  return is_negative ? -value : value;
}

std::optional<double> parse_real(std::string_view text) {
  text = strip(text);
  const auto digits = without_underscores(text, 10);
  if (!digits) return std::nullopt;
  std::string_view rest = *digits;
  if (!rest.empty() && rest[0] == '+') rest.remove_prefix(1);
  if (rest.starts_with('+') || (rest.starts_with('-') && digits->starts_with('+'))) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (end != rest.data() + rest.size() || rest.empty()) return std::nullopt;
  if (rest.find('(') != rest.npos) return std::nullopt;  // nan(...)
  if (error == std::errc::result_out_of_range) value = std::strtod(std::string(rest).c_str(), nullptr);
  return value;
}

Integer truncated(double value) {
  if (std::isnan(value)) throw Failure("cannot convert float NaN to integer");
  if (std::isinf(value)) throw Failure("cannot convert float infinity to integer");
  if (std::abs(value) >= 0x1p127) fail_overflow();
  return static_cast<Integer>(value);
}

Integer checked_add(Integer a, Integer b) {
  Integer out;
  const bool overflow = __builtin_add_overflow(a, b, &out);
  return checked(overflow, out);
}

Integer checked_subtract(Integer a, Integer b) {
  Integer out;
  const bool overflow = __builtin_sub_overflow(a, b, &out);
  return checked(overflow, out);
}

Integer checked_multiply(Integer a, Integer b) {
  Integer out;
  const bool overflow = __builtin_mul_overflow(a, b, &out);
  return checked(overflow, out);
}

Integer checked_power(Integer base, Integer exponent) {
  if (base == 0 || base == 1) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  Integer out = 1;
  for (; exponent > 0; --exponent) out = checked_multiply(out, base);  // overflows after 127 steps at most
  return out;
}

Integer floor_divide(Integer a, Integer b) {
  if (b == 0) throw Failure("integer division or modulo by zero");
  if (a == -largest - 1 && b == -1) fail_overflow();
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

Integer modulo(Integer a, Integer b) {
  if (b == 0) throw Failure("integer division or modulo by zero");
  if (b == -1) return 0;
  const Integer rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

double floor_divide(double a, double b) {
  if (b == 0) throw Failure("float floor division by zero");
  const double rest = modulo(a, b);
  const double quotient = (a - rest) / b;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double floor = std::floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

double modulo(double a, double b) {
  if (b == 0) throw Failure("float modulo by zero");
  const double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace hearth::jinja
