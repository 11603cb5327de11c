// Filters that make texts.
#include <fmt/format.h>

#include <algorithm>

#include "base/unicode.h"
#include "llm/template/builtins.h"
#include "llm/template/format.h"
#include "llm/template/interpreter.h"
#include "llm/template/operators.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

// Filters that are methods of str, for values of any kind.
template <std::string (*Change)(std::string_view)>
Value in_case(Interpreter& in, const Value& subject, const Bound&) {
  const Value text = to_soft_text(in, subject);
  return in.new_text(Change(text.text()), text.is_markup());
}

Value center(Interpreter& in, const Value& subject, const Bound& arguments) {
  return padded(in, to_soft_text(in, subject), arguments.integer(0, 80), '^', " ");
}

Value trim(Interpreter& in, const Value& subject, const Bound& arguments) {
  const Value text = to_soft_text(in, subject);
  std::optional<std::string_view> chars;
  if (arguments.given(0)) {
    chars = arguments.text(0);
    in.budget().spend_bytes(std::min(text.text().size() * chars->size(), no_limit / 2));
  }
  const auto stripped = strip(text.text(), Side::both, chars);
  if (stripped.size() == text.text().size()) return text;
  return in.new_text(std::string(stripped), text.is_markup());
}

Value replace_filter(Interpreter& in, const Value& subject, const Bound& arguments) {
  const Integer count = arguments.given(2) ? arguments.integer(2) : -1;
  const auto limit =
      count < 0 || count > static_cast<Integer>(no_limit) ? no_limit : static_cast<std::size_t>(count);
  return replaced(in, Value(to_text(in, subject)), to_text(in, *arguments[0]), to_text(in, *arguments[1]),
                  limit);
}

Value string(Interpreter& in, const Value& subject, const Bound&) { return to_soft_text(in, subject); }

Value safe(Interpreter& in, const Value& subject, const Bound&) {
  return Value::markup(to_text(in, subject));
}

Value escape_filter(Interpreter& in, const Value& subject, const Bound&) {
  return Value::markup(escape(in, subject));
}

Value force_escape(Interpreter& in, const Value& subject, const Bound&) {
  return in.new_markup(escape_html(to_text(in, subject)));
}

// Every word begins with a capital; words end at white space and at - ( { [ <.
Value title(Interpreter& in, const Value& subject, const Bound&) {
  const std::string text = to_text(in, subject);
  const auto separates = [](char32_t point) {
    return unicode::is_space(point) || point == '-' || point == '(' || point == '{' || point == '[' ||
           point == '<';
  };
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto begin = at;
    const bool is_separator = separates(unicode::next(text, at));
    const auto second = at;
    std::size_t end = at;
    while (end < text.size() && separates(unicode::next(text, at)) == is_separator) end = at;
    out += unicode::to_upper(std::string_view(text).substr(begin, second - begin));
    out += unicode::to_lower(std::string_view(text).substr(second, end - second));
    at = end;
  }
  return in.new_text(std::move(out));
}

const Value& require_text(const Value& value, std::string_view filter) {
  if (value.is_undefined()) throw Failure(value.message());
  if (!value.is_text()) throw Failure(fmt::format("{} wants a string, not '{}'", filter, value.type_name()));
  return value;
}

Value indent(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto& text = require_text(subject, "indent").text();
  std::string width = "    ";
  if (arguments[0]) {
    if (arguments[0]->is_text()) {
      width = arguments[0]->text();
    } else {
      const Integer spaces = std::clamp<Integer>(arguments.integer(0), 0, no_limit / 2);
      in.budget().take(static_cast<std::size_t>(spaces));
      width.assign(static_cast<std::size_t>(spaces), ' ');
    }
  }
  const bool first = arguments.flag(1), blank = arguments.flag(2);
  // With a line end added, so that a text without any line has one, and one that ends in a line end an empty
  // one.
  const std::string with_end = text + "\n";
  std::string out;
  bool is_first = true;
  for (const auto line : split_lines(with_end, false)) {
    const bool indents = is_first ? first : blank || !line.empty();
    in.budget().take(line.size() + 1 + (indents ? width.size() : 0));
    if (!is_first) out += '\n';
    if (indents) out += width;
    out += line;
    is_first = false;
  }
  return Value::text(std::move(out), subject.is_markup());
}

Value truncate(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto size = length(subject);
  if (!size) throw Failure(fmt::format("object of type '{}' has no len()", subject.type_name()));
  const Integer wanted = arguments.integer(0, 255);
  const std::string end = arguments.text(2, "...");
  const Integer leeway = arguments.given(3) ? arguments.integer(3) : 5;
  const auto end_length = static_cast<Integer>(unicode::length(end));
  if (wanted < end_length) throw Failure(fmt::format("expected length >= {}, got {}", end_length, wanted));
  if (leeway < 0) throw Failure(fmt::format("expected leeway >= 0, got {}", leeway));
  if (static_cast<Integer>(*size) <= wanted + leeway) return subject;
  const auto& text = require_text(subject, "truncate").text();
  std::string kept = text.substr(0, unicode::offset(text, static_cast<std::size_t>(wanted - end_length)));
  if (!arguments.flag(1))
    if (const auto space = kept.rfind(' '); space != kept.npos) kept.resize(space);
  return binary(in, BinaryOperator::add, in.new_text(std::move(kept), subject.is_markup()), Value(end));
}

Value word_count(Interpreter& in, const Value& subject, const Bound&) {
  const std::string text = to_text(in, subject);
  std::size_t words = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = unicode::next(text, at);
    const bool is_word = point == '_' || unicode::is_alpha(point) || unicode::is_numeric(point) ||
                         unicode::is_decimal(point) || unicode::is_digit(point);
    words += is_word && !in_word;
    in_word = is_word;
  }
  return words;
}

Value format_filter(Interpreter& in, const Value& subject, const Bound& arguments) {
  auto& [positional, named] = arguments.all();
  if (!positional.empty() && !named.empty())
    throw Failure("can't handle positional and keyword arguments at the same time");
  const Value format = to_soft_text(in, subject);
  if (named.empty()) return format_percent(in, format, in.new_tuple(positional));
  auto dict = std::make_shared<Dict>();
  for (const auto& [name, value] : named) dict->set(in.budget(), name, value);
  return format_percent(in, format, Value(std::shared_ptr<const Dict>(std::move(dict))));
}

std::string url_quoted(Interpreter& in, const Value& value, bool in_query) {
  std::string out;
  for (const char c : to_text(in, value)) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          c == '_' || c == '.' || c == '-' || c == '~' || (c == '/' && !in_query);
    if (is_plain)
      out += c;
    else if (c == ' ' && in_query)
      out += '+';
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

Value url_encode(Interpreter& in, const Value& subject, const Bound&) {
  const bool has_pairs = !subject.is_text() && iterator_of(subject);
  if (!has_pairs) return in.new_text(url_quoted(in, subject, false));
  const Value pairs = subject.is_dict()
                          ? Value(std::make_shared<DictView>(subject.shared_dict(), DictView::Part::items))
                          : subject;
  std::string out;
  const auto iterator = iterate(pairs);
  while (const auto pair = iterator->next(in)) {
    const List parts = to_list(in, *pair);
    if (parts.size() != 2) throw Failure("urlencode wants pairs");
    if (!out.empty()) out += '&';
    out += url_quoted(in, parts[0], true) + '=' + url_quoted(in, parts[1], true);
  }
  return in.new_text(std::move(out));
}

Value xml_attributes(Interpreter& in, const Value& subject, const Bound& arguments) {
  if (subject.is_undefined()) throw Failure(subject.message());
  if (!subject.is_dict())
    throw Failure(fmt::format("'{}' object has no attribute 'items'", subject.type_name()));
  std::string out;
  for (const auto& [key, value] : subject.dict().entries()) {
    if (value.is_none() || value.is_undefined()) continue;
    if (!key.is_text()) throw Failure("expected string or bytes-like object");
    if (key.text().find_first_of(" \t\n\r\f\v/>=") != std::string::npos)
      throw Failure(fmt::format("Invalid character in attribute name: {}", quote(key.text())));
    if (!out.empty()) out += ' ';
    out += fmt::format("{}=\"{}\"", escape(in, key), escape(in, value));
  }
  const bool with_space = !arguments[0] || arguments.flag(0);
  return in.new_text(with_space && !out.empty() ? " " + out : out);
}

constexpr Builtin text_filter_table[] = {
    {"capitalize", {}, in_case<unicode::capitalize>},
    {"center", {"width?"}, center},
    {"e", {}, escape_filter},
    {"escape", {}, escape_filter},
    {"forceescape", {}, force_escape},
    {"format", {"*"}, format_filter},
    {"indent", {"width?", "first?", "blank?"}, indent},
    {"lower", {}, in_case<unicode::to_lower>},
    {"replace", {"old", "new", "count?"}, replace_filter},
    {"safe", {}, safe},
    {"string", {}, string},
    {"title", {}, title},
    {"trim", {"chars?"}, trim},
    {"truncate", {"length?", "killwords?", "end?", "leeway?"}, truncate},
    {"upper", {}, in_case<unicode::to_upper>},
    {"urlencode", {}, url_encode},
    {"wordcount", {}, word_count},
    {"xmlattr", {"autospace?"}, xml_attributes},
};

}  // namespace

std::span<const Builtin> text_filters() { return text_filter_table; }

}  // namespace hearth::jinja
