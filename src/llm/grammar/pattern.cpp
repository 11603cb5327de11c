// The parser of regular expressions.
#include "llm/grammar/pattern.h"

#include <fmt/format.h>

#include <optional>

#include "base/unicode.h"
#include "hearth/error.h"
#include "llm/grammar/json_text.h"

namespace hearth::llm::grammar {
namespace {

constexpr int most_groups = 100;
constexpr std::int64_t most_repeated = 1 << 20;

const PointSet digit_points{{'0', '9'}}, words{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
    spaces{{'\t', '\r'}, {' ', ' '}}, line_ends{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {
    if (!unicode::is_valid(text)) throw ValueError("the pattern is not UTF-8");
  }

  Expression parse() {
    Expression result = alternatives(0);
    if (at_ < text_.size()) fail("a ) too many");
    return result;
  }

 private:
  [[noreturn]] void fail(std::string_view what) const {
    throw ValueError(fmt::format("the pattern {}: at {}: {}", text_, at_, what));
  }
  bool is(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool take(std::string_view expected) {
    if (text_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  // At the outermost level anything may come before and after, unless ^ and $ say otherwise.
  Expression alternatives(int depth) {
    if (depth > most_groups) fail("groups are nested too deep");
    const auto anything = [] { return repeat(json_character(complement({})), 0, -1); };
    std::vector<Expression> options;
    do {
      std::vector<Expression> parts;
      if (depth == 0 && !take("^")) parts.push_back(anything());
      bool ended = false;
      while (at_ < text_.size() && !is('|') && !is(')')) {
        if (depth == 0 && take("$")) {
          ended = true;
          if (at_ < text_.size() && !is('|')) fail("something follows $");
          break;
        }
        parts.push_back(quantified(depth));
      }
      if (depth == 0 && !ended) parts.push_back(anything());
      options.push_back(sequence(std::move(parts)));
    } while (take("|"));
    return choice(std::move(options));
  }

  Expression quantified(int depth) {
    Expression part = item(depth);
    if (take("*"))
      part = repeat(std::move(part), 0, -1);
    else if (take("+"))
      part = repeat(std::move(part), 1, -1);
    else if (take("?"))
      part = optional(std::move(part));
    else if (is('{'))
      part = counted(std::move(part));
    else
      return part;
    take("?");  // how much is taken first does not matter for whether it is found
    if (is('*') || is('+') || is('?') || is('{')) fail("a repetition of a repetition");
    return part;
  }

  Expression counted(Expression part) {
    take("{");
    const auto least = number();
    if (!least) fail("expected a number of times");
    auto most = least;
    if (take(",")) most = number();
    if (!take("}")) fail("expected }");
    if (most && *most < *least) fail("the largest number of times is below the least");
    return repeat(std::move(part), *least, most.value_or(-1));
  }
  std::optional<std::int64_t> number() {
    const std::size_t start = at_;
    std::int64_t value = 0;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if ((value = value * 10 + (text_[at_] - '0')) > most_repeated) fail("too many times");
    return at_ > start ? std::optional(value) : std::nullopt;
  }

  Expression item(int depth) {
    if (take("(")) {
      if (!take("?:") && is('?')) fail("groups that begin with (? other than (?: are not known");
      Expression inner = alternatives(depth + 1);
      if (!take(")")) fail("expected )");
      return inner;
    }
    if (take("[")) return bracket();
    if (take(".")) return json_character(complement(line_ends));
    if (is('^') || is('$')) fail("^ and $ are known at the ends of the pattern only");
    if (is('*') || is('+') || is('?') || is('{')) fail("nothing that could be repeated");
    if (take("\\")) return json_character(escape());
    const char32_t point = unicode::next(text_, at_);
    return json_character({{point, point}});
  }

  PointSet escape() {
    if (at_ == text_.size()) fail("nothing follows \\");
    const char c = text_[at_++];
    const auto one = [](char32_t point) { return PointSet{{point, point}}; };
    switch (c) {
      case 'd':
        return digit_points;
      case 'D':
        return complement(digit_points);
      case 'w':
        return words;
      case 'W':
        return complement(words);
      case 's':
        return spaces;
      case 'S':
        return complement(spaces);
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
        return one(hexadecimal(2));
      case 'u':
        return one(hexadecimal(4));
      default:
        break;
    }
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (letter) fail(fmt::format("\\{} is not known", c));
    --at_;
    return one(unicode::next(text_, at_));
  }

  char32_t hexadecimal(int count) {
    const auto value = unicode::hexadecimal(text_, at_, count);
    if (!value) fail(fmt::format("expected {} hexadecimal digits", count));
    if (*value >= 0xd800 && *value <= 0xdfff) fail("a surrogate");
    return *value;
  }

  Expression bracket() {
    const bool inverted = take("^");
    PointSet set;
    while (!take("]")) {
      if (at_ == text_.size()) fail("expected ]");
      const auto one = [&] {
        if (take("\\b")) return PointSet{{'\b', '\b'}};
        if (take("\\")) return escape();
        const char32_t point = unicode::next(text_, at_);
        return PointSet{{point, point}};
      };
      PointSet first = one();
      if (is('-') && at_ + 1 < text_.size() && text_[at_ + 1] != ']') {
        take("-");
        const PointSet last = one();
        const auto single = [](const PointSet& s) { return s.size() == 1 && s[0].first == s[0].last; };
        if (!single(first) || !single(last) || last[0].first < first[0].first) fail("that is no range");
        first = {{first[0].first, last[0].first}};
      }
      set.insert(set.end(), first.begin(), first.end());
    }
    set = inverted ? complement(set) : normalised(std::move(set));
    if (set.empty()) fail("no character is in these brackets");
    return json_character(set);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Expression string_with_pattern(std::string_view pattern) { return PatternParser(pattern).parse(); }

}  // namespace hearth::llm::grammar
