// Methods of texts.
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

std::size_t as_limit(Integer count) {
  return count < 0 || count > static_cast<Integer>(no_limit) ? no_limit : static_cast<std::size_t>(count);
}

// ---- case

template <std::string (*Change)(std::string_view)>
Value change_case(Interpreter& in, const Value& subject, const Bound&) {
  return in.new_text(Change(subject.text()), subject.is_markup());
}

// ---- cutting

template <Side side>
Value strip_method(Interpreter& in, const Value& subject, const Bound& arguments) {
  std::optional<std::string_view> chars;
  if (arguments.given(0)) {
    chars = arguments.text(0);
    in.budget().spend_bytes(std::min(subject.text().size() * chars->size(), no_limit / 2));
  }
  const auto stripped = strip(subject.text(), side, chars);
  if (stripped.size() == subject.text().size()) return subject;
  return in.new_text(std::string(stripped), subject.is_markup());
}

Value text_list(Interpreter& in, const Value& subject, const std::vector<std::string_view>& pieces) {
  List items;
  in.budget().take(pieces.size() * sizeof(Value));
  for (const auto piece : pieces) items.push_back(in.new_text(std::string(piece), subject.is_markup()));
  return Value::list(std::move(items));
}

template <bool from_right>
Value split_method(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto limit = as_limit(arguments.integer(1, -1));
  const auto& text = subject.text();
  if (!arguments.given(0))
    return text_list(in, subject, from_right ? split_space_right(text, limit) : split_space(text, limit));
  const auto& separator = arguments.text(0);
  if (separator.empty()) throw Failure("empty separator");
  return text_list(in, subject,
                   from_right ? split_right(text, separator, limit) : split(text, separator, limit));
}

Value split_lines_method(Interpreter& in, const Value& subject, const Bound& arguments) {
  return text_list(in, subject, split_lines(subject.text(), arguments.flag(0)));
}

template <bool from_right>
Value partition(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto& text = subject.text();
  const auto& separator = arguments.text(0);
  if (separator.empty()) throw Failure("empty separator");
  const auto at = from_right ? find_last(text, separator) : find(text, separator);
  const auto piece = [&](std::string part) { return in.new_text(std::move(part), subject.is_markup()); };
  if (at == npos)
    return in.new_tuple(from_right ? List{piece(""), piece(""), subject}
                                   : List{subject, piece(""), piece("")});
  return in.new_tuple(
      {piece(text.substr(0, at)), piece(separator), piece(text.substr(at + separator.size()))});
}

Value remove_prefix(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto& prefix = arguments.text(0);
  if (!subject.text().starts_with(prefix)) return subject;
  return in.new_text(subject.text().substr(prefix.size()), subject.is_markup());
}

Value remove_suffix(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto& suffix = arguments.text(0);
  if (!subject.text().ends_with(suffix)) return subject;
  return in.new_text(subject.text().substr(0, subject.text().size() - suffix.size()), subject.is_markup());
}

// ---- finding. Positions of Python are code points.

// The part of the text that arguments `i` and `i + 1` select; null where it begins behind the end.
struct Window {
  std::string_view text;
  std::size_t begin = 0;  // code points before it
};

std::optional<Window> window(const Value& subject, const Bound& arguments, std::size_t i) {
  const std::string_view text = subject.text();
  if (!arguments.given(i) && !arguments.given(i + 1)) return Window{text};
  const auto size = static_cast<Integer>(unicode::length(text));
  const auto bound = [&](std::size_t k, Integer otherwise) {
    const Integer value = arguments.given(k) ? arguments.integer(k) : otherwise;
    return value < 0 ? std::max<Integer>(value + size, 0) : value;
  };
  const Integer start = bound(i, 0), stop = std::min(bound(i + 1, size), size);
  if (start > stop) return std::nullopt;
  const auto begin = unicode::offset(text, static_cast<std::size_t>(start));
  const auto end = unicode::offset(text, static_cast<std::size_t>(stop - start), begin);
  return Window{text.substr(begin, end - begin), static_cast<std::size_t>(start)};
}

template <bool last, bool must_be_there>
Value find_method_of_text(Interpreter&, const Value& subject, const Bound& arguments) {
  const auto& part = arguments.text(0);
  if (const auto where = window(subject, arguments, 1)) {
    const auto at = last ? find_last(where->text, part) : find(where->text, part);
    if (at != npos) return where->begin + unicode::length(where->text.substr(0, at));
  }
  if (must_be_there) throw Failure("substring not found");
  return -1;
}

Value count_method(Interpreter&, const Value& subject, const Bound& arguments) {
  const auto& part = arguments.text(0);
  const auto where = window(subject, arguments, 1);
  return where ? count(where->text, part) : 0;
}

template <bool at_end>
Value starts_or_ends(Interpreter&, const Value& subject, const Bound& arguments) {
  const auto where = window(subject, arguments, 1);
  const auto matches = [&](const Value& part) {
    if (!part.is_text()) {
      if (part.is_undefined()) throw Failure(part.message());
      throw Failure(fmt::format("{} first arg must be str or a tuple of str, not {}",
                                at_end ? "endswith" : "startswith", part.type_name()));
    }
    return where && (at_end ? where->text.ends_with(part.text()) : where->text.starts_with(part.text()));
  };
  const Value& parts = *arguments[0];
  if (!parts.is_tuple()) return matches(parts);
  return std::any_of(parts.items().begin(), parts.items().end(), matches);
}

// ---- making new ones

Value replace_method(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto& old = arguments.text(0);
  const auto& with = arguments.text(1);
  return replaced(in, subject, old, subject.is_markup() ? escape(in, *arguments[1]) : with,
                  as_limit(arguments.integer(2, -1)));
}

Value join_method(Interpreter& in, const Value& subject, const Bound& arguments) {
  std::string out;
  std::size_t i = 0;
  const auto items = iterate(*arguments[0]);
  for (; const auto item = items->next(in); ++i) {
    if (!item->is_text() && !subject.is_markup())
      throw Failure(fmt::format("sequence item {}: expected str instance, {} found", i, item->type_name()));
    if (i > 0) out += subject.text();
    in.budget().take(subject.text().size() + sizeof(Value));
    out += subject.is_markup() ? escape(in, *item) : to_text(in, *item);
  }
  return Value::text(std::move(out), subject.is_markup());
}

template <char align>
Value justify(Interpreter& in, const Value& subject, const Bound& arguments) {
  const std::string fill = arguments.text(1, " ");
  if (unicode::length(fill) != 1) throw Failure("The fill character must be exactly one character long");
  return padded(in, subject, arguments.integer(0), align, subject.is_markup() ? escape_html(fill) : fill);
}

Value zfill(Interpreter& in, const Value& subject, const Bound& arguments) {
  const auto& text = subject.text();
  const bool has_sign = text.starts_with('-') || text.starts_with('+');
  const Value digits = Value::text(text.substr(has_sign ? 1 : 0), subject.is_markup());
  const Value filled = padded(in, digits, arguments.integer(0) - (has_sign ? 1 : 0), '>', "0");
  return has_sign ? in.new_text(text.substr(0, 1) + filled.text(), subject.is_markup()) : filled;
}

Value expand_tabs(Interpreter& in, const Value& subject, const Bound& arguments) {
  const Integer size = arguments.integer(0, 8);
  std::string out;
  Integer column = 0;
  for (const char c : subject.text()) {
    if (c == '\t') {
      const Integer spaces = size > 0 ? size - column % size : 0;
      if (spaces > static_cast<Integer>(no_limit / 2)) throw Failure("result too long");
      in.budget().take(static_cast<std::size_t>(spaces));
      out.append(static_cast<std::size_t>(spaces), ' ');
      column += spaces;
    } else {
      out += c;
      if ((static_cast<unsigned char>(c) & 0xc0) != 0x80) ++column;
      if (c == '\n' || c == '\r') column = 0;
    }
  }
  return in.new_text(std::move(out), subject.is_markup());
}

Value format_method(Interpreter& in, const Value& subject, const Bound& arguments) {
  return format_braces(in, subject, arguments.all());
}

Value format_map_method(Interpreter& in, const Value& subject, const Bound& arguments) {
  if (!arguments[0]->is_dict()) throw Failure("format_map() wants a mapping");
  Arguments named;
  for (const auto& [key, value] : arguments[0]->dict().entries())
    if (key.is_text()) named.named.emplace_back(key.text(), value);
  return format_braces(in, subject, named);
}

// ---- asking. None of these is true of an empty text but is_ascii and is_printable.

template <bool (*Is)(char32_t), bool when_empty = false>
Value all_are(Interpreter&, const Value& subject, const Bound&) {
  const auto& text = subject.text();
  for (std::size_t at = 0; at < text.size();)
    if (!Is(unicode::next(text, at))) return false;
  return when_empty || !text.empty();
}

bool is_alphanumeric(char32_t point) {
  return unicode::is_alpha(point) || unicode::is_decimal(point) || unicode::is_digit(point) ||
         unicode::is_numeric(point);
}
bool is_ascii(char32_t point) { return point < 0x80; }

// Some letter is of this case, and none of another.
template <bool (*Is)(char32_t)>
Value is_case(Interpreter&, const Value& subject, const Bound&) {
  return all_cased(subject.text(), Is);
}

Value is_title_method(Interpreter&, const Value& subject, const Bound&) {
  const auto& text = subject.text();
  bool in_word = false, found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = unicode::next(text, at);
    const bool is_capital = unicode::is_upper(point) || unicode::is_title(point);
    if (is_capital ? in_word : unicode::is_lower(point) && !in_word) return false;
    in_word = unicode::is_cased(point);
    found |= in_word;
  }
  return found;
}

constexpr Builtin text_method_table[] = {
    {"capitalize", {}, change_case<unicode::capitalize>},
    {"center", {"$width", "$fillchar?"}, justify<'^'>},
    {"count", {"$sub", "$start?", "$end?"}, count_method},
    {"endswith", {"$suffix", "$start?", "$end?"}, starts_or_ends<true>},
    {"expandtabs", {"tabsize?"}, expand_tabs},
    {"find", {"$sub", "$start?", "$end?"}, find_method_of_text<false, false>},
    {"format", {"*"}, format_method},
    {"format_map", {"$mapping"}, format_map_method},
    {"index", {"$sub", "$start?", "$end?"}, find_method_of_text<false, true>},
    {"isalnum", {}, all_are<is_alphanumeric>},
    {"isalpha", {}, all_are<unicode::is_alpha>},
    {"isascii", {}, all_are<is_ascii, true>},
    {"isdecimal", {}, all_are<unicode::is_decimal>},
    {"isdigit", {}, all_are<unicode::is_digit>},
    {"islower", {}, is_case<unicode::is_lower>},
    {"isnumeric", {}, all_are<unicode::is_numeric>},
    {"isprintable", {}, all_are<unicode::is_printable, true>},
    {"isspace", {}, all_are<unicode::is_space>},
    {"istitle", {}, is_title_method},
    {"isupper", {}, is_case<unicode::is_upper>},
    {"join", {"$iterable"}, join_method},
    {"ljust", {"$width", "$fillchar?"}, justify<'<'>},
    {"lower", {}, change_case<unicode::to_lower>},
    {"lstrip", {"$chars?"}, strip_method<Side::left>},
    {"partition", {"$sep"}, partition<false>},
    {"removeprefix", {"$prefix"}, remove_prefix},
    {"removesuffix", {"$suffix"}, remove_suffix},
    {"replace", {"$old", "$new", "$count?"}, replace_method},
    {"rfind", {"$sub", "$start?", "$end?"}, find_method_of_text<true, false>},
    {"rindex", {"$sub", "$start?", "$end?"}, find_method_of_text<true, true>},
    {"rjust", {"$width", "$fillchar?"}, justify<'>'>},
    {"rpartition", {"$sep"}, partition<true>},
    {"rsplit", {"sep?", "maxsplit?"}, split_method<true>},
    {"rstrip", {"$chars?"}, strip_method<Side::right>},
    {"split", {"sep?", "maxsplit?"}, split_method<false>},
    {"splitlines", {"keepends?"}, split_lines_method},
    {"startswith", {"$prefix", "$start?", "$end?"}, starts_or_ends<false>},
    {"strip", {"$chars?"}, strip_method<Side::both>},
    {"swapcase", {}, change_case<unicode::swap_case>},
    {"title", {}, change_case<unicode::to_title>},
    {"upper", {}, change_case<unicode::to_upper>},
    {"zfill", {"$width"}, zfill},
};

}  // namespace

std::span<const Builtin> text_methods() { return text_method_table; }

bool all_cased(std::string_view text, bool (*is)(char32_t)) {
  bool found = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t point = unicode::next(text, at);
    if (is(point))
      found = true;
    else if (unicode::is_cased(point))
      return false;
  }
  return found;
}

Value replaced(Interpreter& in, const Value& text, std::string_view old, std::string_view with,
               std::size_t limit) {
  const std::size_t times = std::min(limit, count(text.text(), old));
  std::size_t size;
  if (__builtin_mul_overflow(times, with.size(), &size)) size = no_limit;
  in.budget().take(size);
  return in.new_text(replace(text.text(), old, with, times), text.is_markup());
}

Value padded(Interpreter& in, const Value& text, Integer width, char align, std::string_view fill) {
  const auto length = static_cast<Integer>(unicode::length(text.text()));
  if (width <= length) return text;
  if (width > static_cast<Integer>(no_limit / 8)) throw Failure("result too long");
  const auto missing = static_cast<std::size_t>(width - length);
  in.budget().take(missing * fill.size());
  // Python's str.center() puts the odd one to the left only where the width is odd.
  const std::size_t left = align == '<'   ? 0
                           : align == '>' ? missing
                                          : missing / 2 + (missing & static_cast<std::size_t>(width) & 1);
  std::string out;
  for (std::size_t i = 0; i < left; ++i) out += fill;
  out += text.text();
  for (std::size_t i = left; i < missing; ++i) out += fill;
  return in.new_text(std::move(out), text.is_markup());
}

}  // namespace hearth::jinja
