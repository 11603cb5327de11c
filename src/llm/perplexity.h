// Perplexity: how surprised a model is by a text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "hearth/llm.h"

namespace hearth::llm {

struct PerplexityOptions {
  std::int64_t window = 512;  // tokens that the model sees at most; limited by its context
  std::int64_t stride = 0;    // of them, how many are new and scored; 0: half
};

struct Perplexity {
  double mean = 0;          // of -log(probability), natural
  double error = 0;         // standard error of the mean
  std::int64_t tokens = 0;  // that were scored
  std::int64_t windows = 0;
  double value() const;  // exp(mean)
};

// All tokens but the first are scored, each once, the ones of the first window with less before them. Windows
// begin with the token that begins a text, where the model has one. `progress` gets the figures after each
// window with the number of tokens seen, and ends it early by returning false. Throws ValueError for fewer
// than two tokens, or a stride that is not in [1, window - 1].
Perplexity measure_perplexity(const Model& model, std::span<const TokenId> tokens,
                              const PerplexityOptions& options = {},
                              const std::function<bool(const Perplexity&, std::int64_t seen)>& progress = {});

}  // namespace hearth::llm
