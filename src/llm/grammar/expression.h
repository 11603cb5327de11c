// Rules of a grammar before they become an automaton: regular expressions over code points that may call
// other rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hearth::llm::grammar {

struct PointRange {
  char32_t first, last;
};

// Code points as ranges; normalised: in order, apart, without surrogates.
using PointSet = std::vector<PointRange>;
PointSet normalised(PointSet set);
PointSet complement(const PointSet& set);
PointSet intersection(const PointSet& a, const PointSet& b);
PointSet without(const PointSet& a, const PointSet& b);
bool contains(const PointSet& set, char32_t point);

struct Expression {
  enum class Kind { text, points, sequence, choice, repeat, call };
  Kind kind = Kind::text;
  std::string text = {};               // UTF-8
  PointSet points = {};                // one of these
  std::vector<Expression> parts = {};  // of a sequence or choice; what is repeated
  std::int64_t least = 0, most = -1;   // of a repeat; most -1: no limit
  int rule = -1;                       // that is called
};

Expression text(std::string_view bytes);
Expression points(PointSet set);
Expression sequence(std::vector<Expression> parts);
Expression choice(std::vector<Expression> parts);
Expression repeat(Expression part, std::int64_t least, std::int64_t most);
Expression optional(Expression part);
Expression call(int rule);

struct Rule {
  std::string name;
  Expression expression;
};
struct Rules {
  std::vector<Rule> all;
  int root = 0;
};

}  // namespace hearth::llm::grammar
