// From source to tokens.
#include "llm/template/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/unicode.h"
#include "llm/template/numbers.h"
#include "llm/template/text.h"

namespace hearth::jinja {
namespace {

// Longer ones first.
constexpr std::array<std::string_view, 26> symbols = {"//", "**", "==", "!=", ">=", "<=", "+", "-", "/",
                                                      "*",  "%",  "~",  "[",  "]",  "(",  ")", "{", "}",
                                                      ">",  "<",  "=",  ".",  ":",  "|",  ",", ";"};

bool is_hexadecimal(char c) { return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f'); }

// Every line end as \n, and one at the very end gone.
std::string with_plain_lines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(with_plain_lines(source)), rest_(source_) {}

  std::vector<Token> run() {
    try {
      while (!rest_.empty()) data_up_to_tag();
    } catch (const Failure& failure) {  // of a number
      fail(failure.what());
    }
    emit(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  // ---- text outside of tags

  void data_up_to_tag() {
    std::size_t tag = 0;
    while ((tag = rest_.find('{', tag)) != npos &&
           (tag + 1 == rest_.size() || std::string_view("%{#").find(rest_[tag + 1]) == npos))
      ++tag;
    if (tag == npos) return data(rest_.size(), ' ', false);

    const char kind = rest_[tag + 1];
    const char next = tag + 2 < rest_.size() ? rest_[tag + 2] : ' ';
    const char sign = next == '-' || next == '+' ? next : ' ';
    data(tag, sign, kind != '{');
    advance(sign == ' ' ? 2 : 3);
    if (kind == '#') {
      comment();
    } else if (kind == '{') {
      emit(Token::Kind::variable_begin, "");
      inside("}}", Token::Kind::variable_end);
    } else if (!raw()) {
      emit(Token::Kind::block_begin, "");
      inside("%}", Token::Kind::block_end);
    }
  }

  // `size` bytes of data before a tag with `sign`. `strips`: white space between a line's begin and the tag
  // goes.
  void data(std::size_t size, char sign, bool strips) {
    auto text = rest_.substr(0, size);
    if (sign == '-') {
      text = strip(text, Side::right);
    } else if (sign != '+' && strips) {
      const auto line = text.rfind('\n') == npos ? 0 : text.rfind('\n') + 1;
      if ((line > 0 || at_line_begin_) && strip(text.substr(line)).empty()) text = text.substr(0, line);
    }
    if (!text.empty()) emit(Token::Kind::data, std::string(text));
    advance(size);
  }

  void comment() {
    const auto end = rest_.find("#}");
    if (end == npos) fail("Missing end of comment tag");
    const char sign = end > 0 && (rest_[end - 1] == '-' || rest_[end - 1] == '+') ? rest_[end - 1] : ' ';
    advance(end + 2);
    after_tag(sign, true);
  }

  // {% raw %} ... {% endraw %}, if it is that.
  bool raw() {
    const auto word = [&](std::string_view text, std::string_view name) -> std::string_view {
      text = strip(text, Side::left);
      return text.starts_with(name) ? strip(text.substr(name.size()), Side::left) : std::string_view();
    };
    const auto after = word(rest_, "raw");
    const bool strips = after.starts_with("-%}");
    if (!strips && !after.starts_with("%}")) return false;
    advance(static_cast<std::size_t>(after.data() - rest_.data()) + (strips ? 3 : 2));
    after_tag(strips ? '-' : ' ', false);

    for (std::size_t tag = 0; (tag = rest_.find("{%", tag)) != npos; ++tag) {
      auto inner = rest_.substr(tag + 2);
      const char sign = inner.starts_with('-') || inner.starts_with('+') ? inner[0] : ' ';
      if (sign != ' ') inner.remove_prefix(1);
      const auto end = word(inner, "endraw");
      const char end_sign = end.starts_with("-%}") ? '-' : end.starts_with("+%}") ? '+' : ' ';
      if (end_sign == ' ' && !end.starts_with("%}")) continue;
      const auto size = static_cast<std::size_t>(end.data() - rest_.data()) + (end_sign == ' ' ? 2 : 3);
      const auto rest = rest_;
      data(tag, sign, true);
      advance(size - static_cast<std::size_t>(rest_.data() - rest.data()));
      after_tag(end_sign, true);
      return true;
    }
    fail("Missing end of raw directive");
  }

  // Behind a tag that ends with `sign`: '-' takes all white space, a block's end the line end.
  void after_tag(char sign, bool trims) {
    const char last = *(rest_.data() - 1);
    std::size_t size = 0;
    if (sign == '-')
      size = rest_.size() - strip(rest_, Side::left).size();
    else if (sign != '+' && trims && rest_.starts_with('\n'))
      size = 1;
    advance(size);
    at_line_begin_ = size > 0 ? *(rest_.data() - 1) == '\n' : last == '\n';
  }

  // ---- inside of tags

  void inside(std::string_view closing, Token::Kind end) {
    open_.clear();
    const bool is_block = end == Token::Kind::block_end;
    while (true) {
      advance(rest_.size() - strip(rest_, Side::left).size());
      if (open_.empty()) {
        const char sign = rest_.starts_with('-') || (is_block && rest_.starts_with('+')) ? rest_[0] : ' ';
        if (rest_.substr(sign == ' ' ? 0 : 1).starts_with(closing)) {
          advance(closing.size() + (sign == ' ' ? 0 : 1));
          emit(end, "");
          return after_tag(sign, is_block);
        }
      }
      if (rest_.empty()) return;  // the parser says what is missing
      if (is_digit(rest_[0]))
        number();
      else if (const auto size = name_size(); size > 0)
        name(size);
      else if (rest_[0] == '\'' || rest_[0] == '"')
        string();
      else
        symbol();
    }
  }

  std::size_t name_size() const {
    std::size_t end = 0;
    while (end < rest_.size()) {
      std::size_t at = end;
      const char32_t point = unicode::next(rest_, at);
      if (point != '_' && !unicode::is_alpha(point) && !unicode::is_numeric(point)) break;
      end = at;
    }
    return end;
  }

  void name(std::size_t size) {
    std::size_t at = 0;
    const char32_t first = unicode::next(rest_, at);
    if (first != '_' && !unicode::is_alpha(first)) fail("Invalid character in identifier");
    emit(Token::Kind::name, std::string(rest_.substr(0, size)));
    advance(size);
  }

  // Digits with single underscores between them, from `at` on; where they end.
  template <typename Digit>
  std::size_t digits(std::size_t at, Digit is) const {
    const auto digit_at = [&](std::size_t i) { return i < rest_.size() && is(rest_[i]); };
    if (!digit_at(at)) return at;
    while (digit_at(at) || (at < rest_.size() && rest_[at] == '_' && digit_at(at + 1))) ++at;
    return at;
  }

  void number() {
    const auto put = [&](std::size_t size, bool is_real) {
      std::string text(rest_.substr(0, size));
      std::erase(text, '_');
      Token token{Token::Kind::number, text, line_};
      token.number = is_real ? Value(*parse_real(text)) : Value(*parse_integer(text, 0));
      tokens_.push_back(std::move(token));
      advance(size);
    };
    const auto whole = digits(0, is_digit);
    std::size_t end = whole;
    if (end < rest_.size() && rest_[end] == '.')
      if (const auto fraction = digits(end + 1, is_digit); fraction > end + 1) end = fraction;
    if (end < rest_.size() && (rest_[end] | 0x20) == 'e') {
      const auto sign = end + 1 < rest_.size() && (rest_[end + 1] == '+' || rest_[end + 1] == '-') ? 1u : 0u;
      if (const auto exponent = digits(end + 1 + sign, is_digit); exponent > end + 1 + sign) end = exponent;
    }
    const bool after_dot = !tokens_.empty() && tokens_.back().is_symbol(".");
    if (end > whole && !after_dot) return put(end, true);

    if (rest_[0] == '0' && rest_.size() > 2) {
      const char letter = static_cast<char>(rest_[1] | 0x20);
      const auto first = rest_[2] == '_' ? 3u : 2u;
      std::size_t last = 0;
      if (letter == 'x') last = digits(first, is_hexadecimal);
      if (letter == 'o') last = digits(first, [](char c) { return c >= '0' && c <= '7'; });
      if (letter == 'b') last = digits(first, [](char c) { return c == '0' || c == '1'; });
      if (last > first) return put(last, false);
    }
    // "012" is 0 and 12.
    put(rest_[0] == '0' ? digits(0, [](char c) { return c == '0'; }) : whole, false);
  }

  void string() {
    const char quote = rest_[0];
    std::size_t end = 1;
    while (end < rest_.size() && rest_[end] != quote) end += rest_[end] == '\\' ? 2 : 1;
    if (end >= rest_.size()) fail_unexpected();
    emit(Token::Kind::string, unescaped(rest_.substr(1, end - 1)));
    advance(end + 1);
  }

  // The text of a string literal, by the rules of Python's unicode-escape.
  std::string unescaped(std::string_view text) const {
    std::string out;
    for (std::size_t i = 0; i < text.size();) {
      if (text[i] != '\\') {
        out += text[i++];
        continue;
      }
      const char c = text[++i];  // there is one: a backslash cannot be the last
      static constexpr std::string_view letters = "nrtabfv\\'\"", meanings = "\n\r\t\a\b\f\v\\'\"";
      if (c == '\n') {
        ++i;
      } else if (const auto known = letters.find(c); known != npos) {
        out += meanings[known];
        ++i;
      } else if (c >= '0' && c <= '7') {
        char32_t point = 0;
        for (int k = 0; k < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++k)
          point = point * 8 + static_cast<char32_t>(text[i++] - '0');
        unicode::append(out, point);
      } else if (c == 'x' || c == 'u' || c == 'U') {
        const std::size_t size = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        const auto hex = text.substr(i + 1, size);
        if (hex.size() < size || !std::all_of(hex.begin(), hex.end(), is_hexadecimal))
          fail(fmt::format("truncated \\{} escape", c));
        const auto point = static_cast<char32_t>(*parse_integer(hex, 16));
        if (point > 0x10ffff || (point >= 0xd800 && point < 0xe000)) fail("illegal Unicode character");
        unicode::append(out, point);
        i += 1 + size;
      } else if (c == 'N') {
        fail("characters by name (\\N) are not supported");
      } else if (static_cast<unsigned char>(c) >= 0x80) {
        // What Python makes of this: the code point as hexadecimal digits.
        const auto point = static_cast<std::uint32_t>(unicode::next(text, i));
        out += point < 0x100     ? fmt::format("\\x{:02x}", point)
               : point < 0x10000 ? fmt::format("\\u{:04x}", point)
                                 : fmt::format("\\U{:08x}", point);
      } else {
        out += '\\';
      }
    }
    return out;
  }

  void symbol() {
    const auto found = std::find_if(symbols.begin(), symbols.end(),
                                    [&](std::string_view s) { return rest_.starts_with(s); });
    if (found == symbols.end()) fail_unexpected();
    static constexpr std::string_view opening = "([{", closing = ")]}";
    const char c = (*found)[0];
    if (const auto bracket = opening.find(c); bracket != npos) {
      open_ += closing[bracket];
    } else if (closing.find(c) != npos) {
      if (open_.empty()) fail(fmt::format("unexpected '{}'", c));
      if (open_.back() != c) fail(fmt::format("unexpected '{}', expected '{}'", c, open_.back()));
      open_.pop_back();
    }
    emit(Token::Kind::symbol, std::string(*found));
    advance(found->size());
  }

  // ----

  void emit(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  void advance(std::size_t size) {
    line_ += static_cast<std::size_t>(
        std::count(rest_.begin(), rest_.begin() + static_cast<std::ptrdiff_t>(size), '\n'));
    rest_.remove_prefix(size);
  }

  [[noreturn]] void fail(const std::string& message) const { throw TemplateError(line_, message, false); }
  [[noreturn]] void fail_unexpected() const {
    const auto size = unicode::offset(rest_, 1);
    fail(fmt::format("unexpected char {}", quote(rest_.substr(0, size))));
  }

  const std::string source_;
  std::string_view rest_;
  std::size_t line_ = 1;
  bool at_line_begin_ = true;
  std::string open_;  // the brackets that are to be closed
  std::vector<Token> tokens_;
};

}  // namespace

std::string Token::describe() const {
  switch (kind) {
    case Kind::data:
      return "template data / text";
    case Kind::variable_begin:
      return "begin of print statement";
    case Kind::variable_end:
      return "end of print statement";
    case Kind::block_begin:
      return "begin of statement block";
    case Kind::block_end:
      return "end of statement block";
    case Kind::string:
      return "string";
    case Kind::number:
      return number.is_real() ? "float" : "integer";
    case Kind::end:
      return "end of template";
    default:
      return text;
  }
}

std::vector<Token> tokenize(std::string_view source) { return Lexer(source).run(); }

}  // namespace hearth::jinja
