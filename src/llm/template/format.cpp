// % and format().
#include "llm/template/format.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/unicode.h"
#include "llm/template/format_number.h"
#include "llm/template/interpreter.h"
#include "llm/template/numbers.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

// repr() with everything but ASCII escaped, as ascii() has it.
std::string ascii_repr(Interpreter& in, const Value& value) {
  const std::string text = to_repr(in, value);
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto point = static_cast<std::uint32_t>(unicode::next(text, at));
    if (point < 0x80)
      out += static_cast<char>(point);
    else
      out += point < 0x100     ? fmt::format("\\x{:02x}", point)
             : point < 0x10000 ? fmt::format("\\u{:04x}", point)
                               : fmt::format("\\U{:08x}", point);
  }
  return out;
}

// ---- %

class PercentFormat {
 public:
  PercentFormat(Interpreter& in, const Value& format, const Value& arguments)
      : in_(in), is_markup_(format.is_markup()), rest_(format.text()), arguments_(arguments) {}

  std::string run() {
    while (!rest_.empty()) {
      const auto percent = std::min(rest_.find('%'), rest_.size());
      put(rest_.substr(0, percent));
      rest_.remove_prefix(percent);
      if (!rest_.empty()) conversion();
    }
    // What is left over is a mistake, unless the argument can be asked for items by name.
    const bool is_mapping = arguments_.is_dict() || arguments_.is_list() || arguments_.is_undefined();
    if (!is_mapping && next_ < count()) throw Failure("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  std::size_t count() const { return arguments_.is_tuple() ? arguments_.items().size() : 1; }

  Value next_argument() {
    if (next_ >= count()) throw Failure("not enough arguments for format string");
    ++next_;
    return arguments_.is_tuple() ? arguments_.items()[next_ - 1] : arguments_;
  }

  char next_char() {
    if (rest_.empty()) throw Failure("incomplete format");
    const char c = rest_[0];
    rest_.remove_prefix(1);
    return c;
  }

  std::size_t number() {
    if (rest_.starts_with('*')) {
      rest_.remove_prefix(1);
      const Value value = next_argument();
      if (!value.is_integer()) throw Failure("* wants int");
      if (value.integer() < 0) is_left_ = true;
      const Integer size = value.integer() < 0 ? -value.integer() : value.integer();
      if (size > 1'000'000'000) throw Failure("width too big");
      return static_cast<std::size_t>(size);
    }
    std::size_t value = 0;
    for (; !rest_.empty() && is_digit(rest_[0]); rest_.remove_prefix(1)) {
      value = value * 10 + static_cast<std::size_t>(rest_[0] - '0');
      if (value > 1'000'000'000) throw Failure("width too big");
    }
    return value;
  }

  void conversion() {
    rest_.remove_prefix(1);
    std::optional<Value> argument;
    if (rest_.starts_with('(')) {
      if (!arguments_.is_dict()) throw Failure("format requires a mapping");
      const auto end = rest_.find(')');
      if (end == npos) throw Failure("incomplete format key");
      const auto key = rest_.substr(1, end - 1);
      const auto* found = arguments_.dict().find(key);
      if (!found) throw Failure(quote(key));
      argument = *found;
      rest_.remove_prefix(end + 1);
    }
    FormatSpecification spec;
    is_left_ = false;
    bool is_zero = false;
    for (static constexpr std::string_view flags = "-+ #0"; !rest_.empty() && flags.find(rest_[0]) != npos;) {
      const char flag = next_char();
      is_left_ |= flag == '-';
      is_zero |= flag == '0';
      spec.alternate |= flag == '#';
      if (flag == '+' || (flag == ' ' && spec.sign != '+')) spec.sign = flag;
    }
    spec.width = number();
    if (rest_.starts_with('.')) {
      rest_.remove_prefix(1);
      spec.precision = number();
    }
    while (!rest_.empty() && std::string_view("hlL").find(rest_[0]) != npos) rest_.remove_prefix(1);
    const char type = next_char();
    if (type == '%') return put("%");
    spec.align = is_left_ ? '<' : '>';
    if (is_zero && !is_left_) {
      spec.fill = "0";
      spec.align = '=';
    }
    put(converted(type, argument ? *argument : next_argument(), spec));
  }

  std::string converted(char type, const Value& value, FormatSpecification spec) {
    spec.type = type;
    switch (type) {
      case 's':
        return text(is_markup_ ? escape(in_, value) : to_text(in_, value), spec);
      case 'r':
      case 'a': {
        const std::string repr = type == 'r' ? to_repr(in_, value) : ascii_repr(in_, value);
        return text(is_markup_ ? escape_html(repr) : repr, spec);
      }
      case 'c':
        if (value.is_text() && unicode::length(value.text()) == 1) return text(value.text(), spec);
        if (!value.is_integer()) throw Failure("%c requires int or char");
        return format_integer(in_.budget(), value.integer(), without_precision(spec));
      case 'd':
      case 'i':
      case 'u':
        spec.type = 'd';
        if (!value.is_number()) fail_number(type, value);
        return integer(value.is_real() ? truncated(value.real()) : value.integer(), spec);
      case 'x':
      case 'X':
      case 'o':
        if (!value.is_integer()) fail_number(type, value);
        return integer(value.integer(), spec);
      case 'e':
      case 'E':
      case 'f':
      case 'F':
      case 'g':
      case 'G':
        if (!value.is_number()) throw Failure(fmt::format("must be real number, not {}", value.type_name()));
        return format_real(in_.budget(), value.real(), spec);
      default:
        throw Failure(fmt::format("unsupported format character '{}'", type));
    }
  }

  [[noreturn]] static void fail_number(char type, const Value& value) {
    throw Failure(fmt::format("%{} format: a number is required, not {}", type, value.type_name()));
  }

  static FormatSpecification without_precision(FormatSpecification spec) {
    spec.precision.reset();
    return spec;
  }

  // The precision of an integer is its least number of digits.
  std::string integer(Integer value, FormatSpecification spec) {
    if (!spec.precision) return format_integer(in_.budget(), value, spec);
    FormatSpecification digits = without_precision(spec);
    digits.fill = "0";
    digits.align = '=';
    digits.width = *spec.precision + (value < 0 || spec.sign != '-' ? 1 : 0) +
                   (spec.alternate && spec.type != 'd' ? 2 : 0);
    return text(format_integer(in_.budget(), value, digits), without_precision(spec));
  }

  std::string text(std::string_view text, FormatSpecification spec) {
    spec.type = 's';
    spec.sign = '-';
    spec.fill = " ";
    if (spec.align == '=') spec.align = '>';
    return format_text(in_.budget(), text, spec);
  }

  void put(std::string_view text) {
    in_.budget().take(text.size());
    out_ += text;
  }

  Interpreter& in_;
  bool is_markup_;
  std::string_view rest_;
  const Value& arguments_;
  std::size_t next_ = 0;
  bool is_left_ = false;
  std::string out_;
};

// ---- {}

class BraceFormat {
 public:
  BraceFormat(Interpreter& in, bool is_markup, const Arguments& arguments)
      : in_(in), is_markup_(is_markup), arguments_(arguments) {}

  std::string run(std::string_view format, int levels = 2) {
    if (levels < 0) throw Failure("Max string recursion exceeded");
    std::string out;
    while (!format.empty()) {
      const auto brace = std::min(format.find_first_of("{}"), format.size());
      put(out, format.substr(0, brace));
      format.remove_prefix(brace);
      if (format.empty()) break;
      if (format.size() > 1 && format[1] == format[0]) {
        put(out, format.substr(0, 1));
        format.remove_prefix(2);
      } else if (format[0] == '}') {
        throw Failure("Single '}' encountered in format string");
      } else {
        const auto size = field_size(format);
        put(out, field(format.substr(1, size - 2), levels));
        format.remove_prefix(size);
      }
    }
    return out;
  }

 private:
  // Up to the brace that closes the one it begins with.
  static std::size_t field_size(std::string_view text) {
    int open = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '{') ++open;
      if (text[i] == '}' && --open == 0) return i + 1;
    }
    throw Failure(text.size() == 1 ? "Single '{' encountered in format string"
                                   : "expected '}' before end of string");
  }

  std::string field(std::string_view text, int levels) {
    // A colon or an exclamation mark in brackets belongs to the name.
    std::size_t end = 0;
    for (bool in_brackets = false; end < text.size(); ++end) {
      if (text[end] == '[') in_brackets = true;
      if (text[end] == ']') in_brackets = false;
      if (!in_brackets && (text[end] == ':' || text[end] == '!')) break;
      if (text[end] == '{') throw Failure("unexpected '{' in field name");
    }
    const auto name = text.substr(0, end);
    text.remove_prefix(end);
    char conversion = 0;
    if (text.starts_with('!')) {
      if (text.size() < 2) throw Failure("end of string while looking for conversion specifier");
      conversion = text[1];
      text.remove_prefix(2);
      if (!text.empty() && text[0] != ':') throw Failure("expected ':' after conversion specifier");
    }
    Value value = lookup(name);
    if (conversion == 's')
      value = to_text(in_, value);
    else if (conversion == 'r')
      value = to_repr(in_, value);
    else if (conversion == 'a')
      value = ascii_repr(in_, value);
    else if (conversion)
      throw Failure(fmt::format("Unknown conversion specifier {}", conversion));
    const auto spec = run(text.empty() ? text : text.substr(1), levels - 1);
    if (!is_markup_) return format_value(in_, value, spec);
    if (!value.is_markup()) return escape_html(format_value(in_, value, spec));
    if (!spec.empty()) throw Failure("Unsupported format specification for Markup.");
    return value.text();
  }

  // "0", "name", "name.attribute[item]", or nothing for the next one.
  Value lookup(std::string_view name) {
    const auto end = std::min(name.find_first_of(".["), name.size());
    const auto first = name.substr(0, end);
    Value value;
    if (first.empty() || std::all_of(first.begin(), first.end(), is_digit)) {
      if (numbering_ == (first.empty() ? Numbering::given : Numbering::automatic))
        throw Failure("cannot switch between manual field specification and automatic field numbering");
      numbering_ = first.empty() ? Numbering::automatic : Numbering::given;
      const Integer index = first.empty() ? next_++ : *parse_integer(first, 10);
      if (index >= static_cast<Integer>(arguments_.positional.size()))
        throw Failure(fmt::format("Replacement index {} out of range for positional args tuple", index));
      value = arguments_.positional[static_cast<std::size_t>(index)];
    } else {
      in_.budget().spend(1 + arguments_.named.size() / 16);
      const auto found = std::find_if(arguments_.named.begin(), arguments_.named.end(),
                                      [&](const auto& pair) { return pair.first == first; });
      if (found == arguments_.named.end()) throw Failure(quote(first));
      value = found->second;
    }
    for (auto rest = name.substr(end); !rest.empty();) {
      const bool is_item = rest[0] == '[';
      if (!is_item && rest[0] != '.')
        throw Failure("Only '.' or '[' may follow ']' in format field specifier");
      rest.remove_prefix(1);
      const auto size = rest.find_first_of(is_item ? "]" : ".[");
      if (is_item && size == npos) throw Failure("Missing ']' in format string");
      const auto part = rest.substr(0, size);
      if (part.empty()) throw Failure("Empty attribute in format string");
      rest.remove_prefix(std::min(rest.size(), part.size() + (is_item ? 1 : 0)));
      const bool is_number = std::all_of(part.begin(), part.end(), is_digit);
      value = !is_item    ? get_attribute(in_, value, part)
              : is_number ? get_item(in_, value, *parse_integer(part, 10))
                          : get_item(in_, value, part);
    }
    return value;
  }

  void put(std::string& out, std::string_view text) {
    in_.budget().take(text.size());
    out += text;
  }

  enum class Numbering { unknown, automatic, given };
  Interpreter& in_;
  bool is_markup_;
  const Arguments& arguments_;
  Numbering numbering_ = Numbering::unknown;
  Integer next_ = 0;
};

}  // namespace

Value format_percent(Interpreter& in, const Value& format, const Value& arguments) {
  return Value::text(PercentFormat(in, format, arguments).run(), format.is_markup());
}

Value format_braces(Interpreter& in, const Value& format, const Arguments& arguments) {
  return Value::text(BraceFormat(in, format.is_markup(), arguments).run(format.text()), format.is_markup());
}

std::string format_value(Interpreter& in, const Value& value, std::string_view specification) {
  if (specification.empty()) return to_text(in, value);
  if (!value.is_text() && !value.is_number())
    throw Failure(fmt::format("unsupported format string passed to {}.__format__", value.type_name()));
  const auto spec = parse_specification(specification);
  if (value.is_text()) return format_text(in.budget(), value.text(), spec);
  if (value.is_real()) return format_real(in.budget(), value.real(), spec);
  return format_integer(in.budget(), value.integer(), spec);
}

}  // namespace hearth::jinja
