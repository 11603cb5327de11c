// Numbers and texts in columns.
#include "llm/template/format_number.h"

#include <fmt/format.h>

#include <cmath>

#include "base/unicode.h"
#include "llm/template/numbers.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

std::size_t parse_count(std::string_view& text) {
  std::size_t value = 0;
  while (!text.empty() && is_digit(text[0])) {
    value = value * 10 + static_cast<std::size_t>(text[0] - '0');
    if (value > 1'000'000'000) throw Failure("Too many decimal digits in format string");
    text.remove_prefix(1);
  }
  return value;
}

// Padded on the side that the alignment says; `head` (a sign, 0x) stays in front of padding by '='.
std::string pad(Budget& budget, std::string_view head, std::string_view body, const FormatSpecification& spec,
                char default_align) {
  const auto length = unicode::length(head) + unicode::length(body);
  const std::size_t missing = spec.width > length ? spec.width - length : 0;
  budget.take(head.size() + body.size() + missing * spec.fill.size());
  const char align = spec.align ? spec.align : default_align;
  const std::size_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const auto filling = [&](std::size_t count) {
    std::string out;
    for (; count > 0; --count) out += spec.fill;
    return out;
  };
  std::string out;
  if (align == '=') out += head;
  out += filling(left);
  if (align != '=') out += head;
  out += body;
  return out += filling(missing - left);
}

std::string grouped(std::string_view digits, char separator, std::size_t every) {
  std::string out;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (separator && i > 0 && (digits.size() - i) % every == 0) out += separator;
    out += digits[i];
  }
  return out;
}

std::string sign_of(bool is_negative, const FormatSpecification& spec) {
  return is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
}

[[noreturn]] void fail_type(char type, std::string_view of) {
  throw Failure(fmt::format("Unknown format code '{}' for object of type '{}'", type, of));
}

// Significant digits without a type: as %g, but always with a point.
std::string significant(double value, std::size_t precision) {
  const int digits = static_cast<int>(std::max<std::size_t>(precision, 1));
  const std::string scientific = fmt::format("{:.{}e}", value, digits - 1);
  const int exponent = std::atoi(scientific.c_str() + scientific.find('e') + 1);
  const bool fixed = exponent >= -4 && exponent < digits - 1;
  std::string text = fixed ? fmt::format("{:.{}f}", value, digits - 1 - exponent) : scientific;
  std::string tail;
  if (!fixed) {
    tail = text.substr(text.find('e'));
    text.resize(text.find('e'));
  }
  if (text.find('.') != text.npos) {
    while (text.back() == '0') text.pop_back();
    if (text.back() == '.') text += fixed ? "0" : "";
    if (text.back() == '.') text.pop_back();
  }
  return text + tail;
}

// The digits of a number that is not negative.
std::string digits_of(double value, const FormatSpecification& spec) {
  const auto precision = spec.precision.value_or(6);
  switch (spec.type) {
    case 0:
      return spec.precision ? significant(value, precision) : real_text(value);
    case 'e':
    case 'E':
      return spec.alternate ? fmt::format("{:#.{}e}", value, precision)
                            : fmt::format("{:.{}e}", value, precision);
    case 'f':
    case 'F':
      return spec.alternate ? fmt::format("{:#.{}f}", value, precision)
                            : fmt::format("{:.{}f}", value, precision);
    case 'g':
    case 'G':
    case 'n': {
      const auto significant_digits = std::max<std::size_t>(precision, 1);
      return spec.alternate ? fmt::format("{:#.{}g}", value, significant_digits)
                            : fmt::format("{:.{}g}", value, significant_digits);
    }
    case '%':
      return fmt::format("{:.{}f}%", value * 100, precision);
    default:
      fail_type(spec.type, "float");
  }
}

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
  return text;
}

}  // namespace

FormatSpecification parse_specification(std::string_view text) {
  static constexpr std::string_view aligns = "<>^=";
  FormatSpecification spec;
  const auto is_one_of = [&](std::string_view set) { return !text.empty() && set.find(text[0]) != set.npos; };
  const auto next = [&] {
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  if (!text.empty()) {
    const auto size = unicode::offset(text, 1);
    if (size < text.size() && aligns.find(text[size]) != aligns.npos) {
      spec.fill = text.substr(0, size);
      spec.align = text[size];
      text.remove_prefix(size + 1);
    } else if (is_one_of(aligns)) {
      spec.align = next();
    }
  }
  if (is_one_of("+- ")) spec.sign = next();
  if (is_one_of("#")) spec.alternate = next() == '#';
  if (is_one_of("0")) {
    if (!spec.align) {
      spec.fill = "0";
      spec.align = '0';  // '=' for numbers, nothing for texts
    }
    next();
  }
  spec.width = parse_count(text);
  if (is_one_of(",_")) spec.grouping = next();
  if (is_one_of(".")) {
    next();
    if (!is_one_of("0123456789")) throw Failure("Format specifier missing precision");
    spec.precision = parse_count(text);
  }
  if (!text.empty() && static_cast<unsigned char>(text[0]) < 0x80) spec.type = next();
  if (!text.empty()) throw Failure("Invalid format specifier");
  return spec;
}

std::string format_integer(Budget& budget, Integer value, const FormatSpecification& specification) {
  FormatSpecification spec = specification;
  if (spec.align == '0') spec.align = '=';
  static constexpr std::string_view real_types = "eEfFgG%";
  if (spec.type && real_types.find(spec.type) != real_types.npos)
    return format_real(budget, static_cast<double>(value), specification);
  if (spec.precision) throw Failure("Precision not allowed in integer format specifier");
  if (spec.type == 'c') {
    if (value < 0 || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
      throw Failure("%c arg not in range(0x110000)");
    std::string text;
    unicode::append(text, static_cast<char32_t>(value));
    return pad(budget, "", text, spec, '<');
  }
  const bool is_negative = value < 0;
  const auto magnitude =
      is_negative ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value);
  std::string digits, prefix;
  switch (spec.type) {
    case 0:
    case 'd':
    case 'n':
      digits = fmt::format("{}", magnitude);
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude);
      prefix = "0b";
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      prefix = "0o";
      break;
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      prefix = "0x";
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      prefix = "0X";
      break;
    default:
      fail_type(spec.type, "int");
  }
  const bool is_decimal = prefix.empty();
  if (!spec.alternate) prefix.clear();
  return pad(budget, sign_of(is_negative, spec) + prefix, grouped(digits, spec.grouping, is_decimal ? 3 : 4),
             spec, '>');
}

std::string format_real(Budget& budget, double value, const FormatSpecification& specification) {
  FormatSpecification spec = specification;
  if (spec.align == '0') spec.align = '=';
  budget.take(spec.precision.value_or(0));
  const bool is_negative = std::signbit(value) && !std::isnan(value);
  std::string digits;
  if (std::isfinite(value)) {
    digits = digits_of(std::abs(value), spec);
  } else {
    digits = std::isnan(value) ? "nan" : "inf";
    if (spec.type == '%') digits += '%';
  }
  if (spec.grouping && std::isfinite(value)) {
    const auto whole = digits.find_first_not_of("0123456789");
    const auto end = whole == digits.npos ? digits.size() : whole;
    digits = grouped(std::string_view(digits).substr(0, end), spec.grouping, 3) + digits.substr(end);
  }
  static constexpr std::string_view upper_types = "EFG";
  if (spec.type && upper_types.find(spec.type) != upper_types.npos) digits = upper(std::move(digits));
  return pad(budget, sign_of(is_negative, spec), digits, spec, '>');
}

std::string format_text(Budget& budget, std::string_view text, const FormatSpecification& specification) {
  FormatSpecification spec = specification;
  if (spec.type && spec.type != 's') fail_type(spec.type, "str");
  if (spec.align == '=') throw Failure("'=' alignment not allowed in string format specifier");
  if (spec.align == '0') spec.align = 0;
  if (spec.sign != '-') throw Failure("Sign not allowed in string format specifier");
  if (spec.precision) text = text.substr(0, unicode::offset(text, *spec.precision));
  return pad(budget, "", text, spec, '<');
}

}  // namespace hearth::jinja
