// Logarithms of probabilities, natural, by the scores that a model gives.
#pragma once

#include <cstddef>
#include <span>

#include "hearth/llm.h"

namespace hearth::llm {

double log_probability(std::span<const float> scores, TokenId token);
LogProbabilities log_probabilities(std::span<const float> scores, TokenId chosen, std::size_t best);

// Where scores of all tokens of a text are wanted: so many rows of them, which are large.
constexpr std::size_t rows_at_once = 64;

}  // namespace hearth::llm
