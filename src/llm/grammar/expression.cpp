// Expressions of grammars, and sets of code points.
#include "llm/grammar/expression.h"

#include <algorithm>

namespace hearth::llm::grammar {
namespace {

constexpr char32_t last_point = 0x10ffff, first_surrogate = 0xd800, last_surrogate = 0xdfff;

}  // namespace

PointSet normalised(PointSet set) {
  std::sort(set.begin(), set.end(),
            [](const PointRange& a, const PointRange& b) { return a.first < b.first; });
  PointSet joined;
  for (const PointRange& range : set) {
    if (range.first > range.last) continue;
    if (!joined.empty() && range.first <= joined.back().last + 1)
      joined.back().last = std::max(joined.back().last, range.last);
    else
      joined.push_back(range);
  }
  PointSet result;
  for (const auto& [first, last] : joined) {
    if (first < first_surrogate) result.push_back({first, std::min<char32_t>(last, first_surrogate - 1)});
    if (last > last_surrogate)
      result.push_back({std::max<char32_t>(first, last_surrogate + 1), std::min(last, last_point)});
  }
  return result;
}

PointSet complement(const PointSet& set) {
  PointSet result;
  char32_t next = 0;
  for (const auto& [first, last] : normalised(set)) {
    if (first > next) result.push_back({next, first - 1});
    next = last + 1;
  }
  if (next <= last_point) result.push_back({next, last_point});
  return normalised(std::move(result));
}

PointSet intersection(const PointSet& a, const PointSet& b) {
  PointSet outside = complement(a);
  const PointSet other = complement(b);
  outside.insert(outside.end(), other.begin(), other.end());
  return complement(outside);
}

PointSet without(const PointSet& a, const PointSet& b) { return intersection(a, complement(b)); }

bool contains(const PointSet& set, char32_t point) {
  return std::any_of(set.begin(), set.end(),
                     [&](const PointRange& range) { return range.first <= point && point <= range.last; });
}

Expression text(std::string_view bytes) {
  return {.kind = Expression::Kind::text, .text = std::string(bytes)};
}
Expression points(PointSet set) {
  return {.kind = Expression::Kind::points, .points = normalised(std::move(set))};
}
Expression sequence(std::vector<Expression> parts) {
  return {.kind = Expression::Kind::sequence, .parts = std::move(parts)};
}
Expression choice(std::vector<Expression> parts) {
  return {.kind = Expression::Kind::choice, .parts = std::move(parts)};
}
Expression repeat(Expression part, std::int64_t least, std::int64_t most) {
  Expression result{.kind = Expression::Kind::repeat, .least = least, .most = most};
  result.parts.push_back(std::move(part));
  return result;
}
Expression optional(Expression part) { return repeat(std::move(part), 0, 1); }
Expression call(int rule) { return {.kind = Expression::Kind::call, .rule = rule}; }

}  // namespace hearth::llm::grammar
