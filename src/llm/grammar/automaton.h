// A grammar as an automaton over bytes: a state machine for each rule, whose machines call each other.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "llm/grammar/expression.h"

namespace hearth::llm::grammar {

struct State {
  struct Edge {
    std::uint8_t first, last;  // bytes, both included
    std::int32_t to;
  };
  struct Call {
    std::int32_t rule, after;  // where it goes on when the rule has ended
  };
  std::vector<Edge> edges;
  std::vector<std::int32_t> jumps;  // at no cost
  std::vector<Call> calls;
  bool final = false;  // its rule may end here

  bool only_final() const { return final && edges.empty() && jumps.empty() && calls.empty(); }
};

struct Automaton {
  std::vector<State> states;
  std::vector<std::int32_t> starts;  // of rules
  std::int32_t root = 0;             // rule
  // Bytes that no edge tells apart are of one class.
  std::array<std::uint8_t, 256> byte_class{};
  int byte_classes = 0;
};

// From every state that can be reached, the text can come to an end. Throws FormatError naming a rule that
// can begin with itself or never ends, and for rules that would take more than 2^18 states or 2^20
// transitions.
Automaton make_automaton(const Rules& rules);

}  // namespace hearth::llm::grammar
