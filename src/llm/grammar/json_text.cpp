// Strings and numbers of JSON.
#include "llm/grammar/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "base/unicode.h"
#include "hearth/error.h"

namespace hearth::llm::grammar {
namespace {

const PointSet must_be_escaped{{0, 0x1f}, {'"', '"'}, {'\\', '\\'}};
constexpr std::pair<char32_t, char> short_escapes[] = {{'"', '"'},  {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'},
                                                       {'\n', 'n'}, {'\r', 'r'},  {'\t', 't'}};

constexpr std::int64_t most_integer = 9'999'999'999'999'999;  // 16 digits
constexpr std::int64_t most_fraction = 16;

Expression digits(std::int64_t least, std::int64_t most) { return repeat(points({{'0', '9'}}), least, most); }
Expression digit(char first, char last) {
  return points({{static_cast<char32_t>(first), static_cast<char32_t>(last)}});
}

// Numbers written with as many digits as both limits have.
Expression between(std::string_view low, std::string_view high) {
  if (low.empty()) return text("");
  const auto rest = static_cast<std::int64_t>(low.size()) - 1;
  if (low.find_first_not_of('0') == low.npos && high.find_first_not_of('9') == high.npos)
    return digits(rest + 1, rest + 1);
  const std::string nines(low.size() - 1, '9'), zeros(low.size() - 1, '0');
  char a = low[0], b = high[0];
  if (a == b) return sequence({digit(a, a), between(low.substr(1), high.substr(1))});
  std::vector<Expression> parts;
  if (low.substr(1) != zeros) parts.push_back(sequence({digit(a, a), between(low.substr(1), nines)})), ++a;
  if (high.substr(1) != nines) parts.push_back(sequence({digit(b, b), between(zeros, high.substr(1))})), --b;
  if (a <= b) parts.push_back(sequence({digit(a, b), digits(rest, rest)}));
  return choice(std::move(parts));
}

// Whole numbers from low to high, 0 <= low <= high.
Expression whole(std::int64_t low, std::int64_t high) {
  std::vector<Expression> parts;
  while (low <= high) {
    const std::string from = fmt::format("{}", low);
    const std::int64_t end = std::min<std::int64_t>(high, std::stoll(std::string(from.size(), '9')));
    parts.push_back(between(from, fmt::format("{}", end)));
    low = end + 1;
  }
  return choice(std::move(parts));
}

Expression fraction() { return sequence({text("."), digits(1, most_fraction)}); }

// Numbers of this size and more, up to another, neither negative.
void add_sizes(std::vector<Expression>& parts, std::string_view sign, std::int64_t low, std::int64_t high,
               bool above_low, bool below_high) {
  const auto add = [&](Expression e) { parts.push_back(sequence({text(sign), std::move(e)})); };
  const Expression zeros = optional(sequence({text("."), repeat(text("0"), 1, most_fraction)}));
  if (low > high || (low == high && (above_low || below_high))) return;
  if (low == high) return add(sequence({whole(low, low), zeros}));
  if (above_low)
    add(sequence({whole(low, low), text("."), repeat(text("0"), 0, most_fraction - 1), digit('1', '9'),
                  digits(0, most_fraction)}));
  else
    add(sequence({whole(low, low), optional(fraction())}));
  if (low + 1 < high) add(sequence({whole(low + 1, high - 1), optional(fraction())}));
  if (!below_high) add(sequence({whole(high, high), zeros}));
}

[[noreturn]] void none() { throw ValueError("no number is between the limits"); }

}  // namespace

Expression json_character(const PointSet& set) {
  std::vector<Expression> parts;
  const PointSet plain = without(set, must_be_escaped);
  if (!plain.empty()) parts.push_back(points(plain));
  for (const auto& [point, letter] : short_escapes)
    if (contains(set, point)) parts.push_back(text(std::string{'\\', letter}));
  for (char32_t point = 0; point < 0x20; ++point) {
    const bool has_short = std::any_of(std::begin(short_escapes), std::end(short_escapes),
                                       [&](const auto& escape) { return escape.first == point; });
    if (contains(set, point) && !has_short)
      parts.push_back(text(fmt::format("\\u{:04x}", static_cast<unsigned>(point))));
  }
  return choice(std::move(parts));
}

Expression json_any_character() {
  const PointSet hex{{'0', '9'}, {'a', 'f'}, {'A', 'F'}},
      not_d{{'0', '9'}, {'a', 'c'}, {'e', 'f'}, {'A', 'C'}, {'E', 'F'}};
  const PointSet d{{'d', 'd'}, {'D', 'D'}}, high{{'8', '9'}, {'a', 'b'}, {'A', 'B'}},
      low{{'c', 'f'}, {'C', 'F'}};
  // Surrogates come in pairs, or the text would not be Unicode.
  const Expression unit = choice({sequence({points(not_d), repeat(points(hex), 3, 3)}),
                                  sequence({points(d), points({{'0', '7'}}), repeat(points(hex), 2, 2)}),
                                  sequence({points(d), points(high), repeat(points(hex), 2, 2), text("\\u"),
                                            points(d), points(low), repeat(points(hex), 2, 2)})});
  return choice(
      {points(complement(must_be_escaped)), sequence({text("\\"), choice({points({{'"', '"'},
                                                                                  {'\\', '\\'},
                                                                                  {'/', '/'},
                                                                                  {'b', 'b'},
                                                                                  {'f', 'f'},
                                                                                  {'n', 'n'},
                                                                                  {'r', 'r'},
                                                                                  {'t', 't'}}),
                                                                          sequence({text("u"), unit})})})});
}

Expression json_other_text(const std::vector<std::string>& texts) {
  const PointSet plain = complement(must_be_escaped);
  // After so many characters that some texts begin with: another one, or an end where no text ends.
  const auto rest = [&](const auto& self, std::vector<std::string> left) -> Expression {
    std::map<char32_t, std::vector<std::string>> next;
    bool ends = false;
    for (const std::string& item : left) {
      std::size_t at = 0;
      if (item.empty())
        ends = true;
      else if (const char32_t point = unicode::next(item, at); contains(plain, point))
        next[point].push_back(item.substr(at));
    }
    PointSet taken;
    std::vector<Expression> parts;
    for (auto& [point, items] : next) {
      taken.push_back({point, point});
      std::string bytes;
      unicode::append(bytes, point);
      parts.push_back(sequence({text(bytes), self(self, std::move(items))}));
    }
    parts.push_back(sequence({points(without(plain, taken)), repeat(points(plain), 0, -1)}));
    if (!ends) parts.push_back(text(""));
    return choice(std::move(parts));
  };
  return rest(rest, texts);
}

Expression json_integer(const Limits& limits) {
  std::int64_t low = std::max(limits.low.value_or(-most_integer), -most_integer),
               high = std::min(limits.high.value_or(most_integer), most_integer);
  if (limits.low && limits.above_low && low == *limits.low) ++low;
  if (limits.high && limits.below_high && high == *limits.high) --high;
  if (low > high) none();
  std::vector<Expression> parts;
  if (high >= 0) parts.push_back(whole(std::max<std::int64_t>(low, 0), high));
  if (low < 0) parts.push_back(sequence({text("-"), whole(std::max<std::int64_t>(1, -high), -low)}));
  return choice(std::move(parts));
}

Expression json_number(const Limits& limits) {
  if (!limits.low && !limits.high) {
    const Expression exponent = sequence(
        {points({{'e', 'e'}, {'E', 'E'}}), optional(points({{'+', '+'}, {'-', '-'}})), digits(1, 2)});
    return sequence({optional(text("-")), whole(0, most_integer), optional(fraction()), optional(exponent)});
  }
  const std::int64_t low = std::max(limits.low.value_or(-most_integer), -most_integer),
                     high = std::min(limits.high.value_or(most_integer), most_integer);
  const bool above_low = limits.low && limits.above_low, below_high = limits.high && limits.below_high;
  std::vector<Expression> parts;
  if (low >= 0) {
    add_sizes(parts, "", low, high, above_low, below_high);
  } else {
    if (high >= 0) add_sizes(parts, "", 0, high, false, below_high);
    add_sizes(parts, "-", std::max<std::int64_t>(0, -high), -low, high >= 0 ? true : below_high, above_low);
  }
  if (parts.empty()) none();
  return choice(std::move(parts));
}

}  // namespace hearth::llm::grammar
