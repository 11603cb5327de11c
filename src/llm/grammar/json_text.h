// Expressions for parts of JSON texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "llm/grammar/expression.h"

namespace hearth::llm::grammar {

// One of these characters within a string of JSON: as it is, or escaped where it must be.
Expression json_character(const PointSet& set);
// All of what a string may hold, any escape included.
Expression json_any_character();
// What is between the quotes of a string that is none of these, without escapes.
Expression json_other_text(const std::vector<std::string>& texts);

// Limits of a number, each with whether it is itself outside.
struct Limits {
  std::optional<std::int64_t> low = {}, high = {};
  bool above_low = false, below_high = false;
};
// Both throw ValueError where no number is between the limits.
Expression json_integer(const Limits& limits);
Expression json_number(const Limits& limits);

}  // namespace hearth::llm::grammar
