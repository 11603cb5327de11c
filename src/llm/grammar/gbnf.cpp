// The parser of GBNF:
//
//   rule         name ::= alternatives                  # to the end of the line; goes on after | and in ( )
//   alternatives sequence | sequence
//   sequence     item item ...
//   item         "text"  [a-z]  [^"\\]  .  name  ( alternatives )   with * + ? {2} {2,} {2,5} {,5} behind it
#include "llm/grammar/gbnf.h"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/unicode.h"
#include "hearth/error.h"

namespace hearth::llm::grammar {
namespace {

constexpr int most_parentheses = 200, most_repeats = 3;
constexpr std::int64_t most_times = 1 << 20;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class GbnfParser {
 public:
  explicit GbnfParser(std::string_view text) : text_(text) {
    if (!unicode::is_valid(text)) throw FormatError("[grammar] the text is not UTF-8");
  }

  Rules parse() {
    skip(true);
    while (at_ < text_.size()) {
      const std::size_t start = at_;
      const std::string name = read_name();
      skip(false);
      if (!take("::=")) fail("expected ::= after the name of a rule");
      skip(true);
      const int number = rule(name, start);
      if (defined_[static_cast<std::size_t>(number)]) {
        at_ = start;
        fail(fmt::format("rule '{}' is there already", name));
      }
      defined_[static_cast<std::size_t>(number)] = true;
      Expression expression = alternatives(0);
      rules_.all[static_cast<std::size_t>(number)].expression = std::move(expression);
      if (at_ < text_.size() && text_[at_] != '\n') fail("expected the end of the rule");
      skip(true);
    }
    for (std::size_t i = 0; i < defined_.size(); ++i)
      if (!defined_[i]) {
        at_ = used_[i];
        fail(fmt::format("there is no rule '{}'", rules_.all[i].name));
      }
    const auto root = numbers_.find("root");
    if (root == numbers_.end()) throw FormatError("[grammar] there is no rule 'root'");
    rules_.root = root->second;
    return std::move(rules_);
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    std::size_t line = 1, start = 0;
    for (std::size_t i = 0; i < at_ && i < text_.size(); ++i)
      if (text_[i] == '\n') ++line, start = i + 1;
    throw FormatError(fmt::format("[grammar] line {}, column {}: {}", line, at_ - start + 1, what));
  }

  bool is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }
  void skip(bool lines) {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#')
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      else if (c == ' ' || c == '\t' || c == '\r' || (lines && c == '\n'))
        ++at_;
      else
        break;
    }
  }

  std::string read_name() {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    if (at_ == start) fail("expected a name");
    return std::string(text_.substr(start, at_ - start));
  }
  int rule(const std::string& name, std::size_t used) {
    const auto [found, added] = numbers_.try_emplace(name, static_cast<int>(rules_.all.size()));
    if (added) {
      rules_.all.push_back({name, {}});
      defined_.push_back(false);
      used_.push_back(used);
    }
    return found->second;
  }

  Expression alternatives(int depth) {
    if (depth > most_parentheses)
      fail(fmt::format("parentheses are nested more than {} deep", most_parentheses));
    std::vector<Expression> parts{items(depth)};
    for (;;) {
      // At the outermost level a line may begin with a further alternative.
      const std::size_t end = at_;
      skip(true);
      if (!take("|")) {
        if (depth == 0) at_ = end;
        break;
      }
      skip(true);
      parts.push_back(items(depth));
    }
    return parts.size() == 1 ? std::move(parts[0]) : choice(std::move(parts));
  }

  Expression items(int depth) {
    std::vector<Expression> parts;
    for (;;) {
      skip(depth > 0);
      if (at_ == text_.size() || is('\n') || is('|') || is(')')) break;
      Expression part = item(depth);
      int repeats = 0;
      for (skip(false); at_ < text_.size(); skip(false)) {
        if (take("*"))
          part = repeat(std::move(part), 0, -1);
        else if (take("+"))
          part = repeat(std::move(part), 1, -1);
        else if (take("?"))
          part = optional(std::move(part));
        else if (is('{'))
          part = counted(std::move(part));
        else
          break;
        if (++repeats > most_repeats) fail("a repetition of a repetition of a repetition");
      }
      parts.push_back(std::move(part));
    }
    return parts.size() == 1 ? std::move(parts[0]) : sequence(std::move(parts));
  }

  Expression item(int depth) {
    if (take("(")) {
      Expression inner = alternatives(depth + 1);
      skip(true);
      if (!take(")")) fail("expected )");
      return inner;
    }
    if (take("\"")) return literal();
    if (take("[")) return points_of_class();
    if (take(".")) return points(complement({}));
    if (is_name(text_[at_])) {
      const std::size_t start = at_;
      return call(rule(read_name(), start));
    }
    fail("expected a text, [characters], a name or (");
  }

  std::optional<std::int64_t> number() {
    std::int64_t value = 0;
    const std::size_t start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + (text_[at_] - '0');
      if (value > most_times) fail(fmt::format("a repetition of more than {} times", most_times));
    }
    return at_ > start ? std::optional(value) : std::nullopt;
  }

  Expression counted(Expression part) {
    take("{");
    skip(false);
    const auto least = number();
    skip(false);
    auto most = least;
    if (take(",")) {
      skip(false);
      most = number();
      skip(false);
    } else if (!least) {
      fail("expected a number of times");
    }
    if (!take("}")) fail("expected }");
    if (most && *most < least.value_or(0)) fail("the largest number of times is below the least");
    return repeat(std::move(part), least.value_or(0), most.value_or(-1));
  }

  char32_t hexadecimal(int digits) {
    const auto value = unicode::hexadecimal(text_, at_, digits);
    if (!value) fail(fmt::format("expected {} hexadecimal digits", digits));
    if (*value > 0x10ffff || (*value >= 0xd800 && *value <= 0xdfff)) fail("that is no code point");
    return *value;
  }

  char32_t character() {
    if (at_ == text_.size() || is('\n')) fail("the text is not closed");
    if (!take("\\")) return unicode::next(text_, at_);
    if (at_ == text_.size()) fail("nothing follows \\");
    switch (const char c = text_[at_++]) {
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'x':
        return hexadecimal(2);
      case 'u':
        return hexadecimal(4);
      case 'U':
        return hexadecimal(8);
      case '\\':
      case '"':
      case '[':
      case ']':
      case '-':
      case '^':
        return static_cast<char32_t>(c);
      default:
        --at_;
        fail("that cannot follow \\");
    }
  }

  Expression literal() {
    std::string bytes;
    while (!take("\"")) unicode::append(bytes, character());
    return text(bytes);
  }

  Expression points_of_class() {
    const bool inverted = take("^");
    PointSet set;
    while (!take("]")) {
      const char32_t first = character();
      char32_t last = first;
      if (is('-') && text_.substr(at_, 2) != "-]") {
        take("-");
        last = character();
        if (last < first) fail("a range of characters ends before it begins");
      }
      set.push_back({first, last});
    }
    set = inverted ? complement(set) : normalised(std::move(set));
    if (set.empty()) fail("no character is in these brackets");
    return points(std::move(set));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  Rules rules_;
  std::map<std::string, int> numbers_;
  std::vector<bool> defined_;
  std::vector<std::size_t> used_;  // where the name of a rule came first
};

}  // namespace

Rules parse_gbnf(std::string_view text) { return GbnfParser(text).parse(); }

}  // namespace hearth::llm::grammar
