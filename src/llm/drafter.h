// Guesses of the tokens that come next.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "hearth/llm.h"

namespace hearth::llm {

// What followed when the last `most` tokens (or fewer, down to two) came before, the last time.
std::vector<TokenId> look_up(std::span<const TokenId> text, std::size_t most, std::size_t count);

// A model that guesses for another.
class DraftModel {
 public:
  // Throws ValueError where they do not have the same tokens, but for those behind the last of one of them:
  // models of one family pad their vocabularies to different sizes.
  DraftModel(const Model& draft, const Model::State& of);
  bool is(const Model& model) const { return model.state() == model_.state(); }
  // Guesses with the random numbers that `sampler` is about to use. Fewer than `count` where the context
  // ends, and where a token comes that only one of the models has.
  std::vector<TokenId> guess(std::span<const TokenId> text, Sampler sampler, std::size_t count);

 private:
  Model model_;
  Session session_;
  TokenId tokens_;  // that both have
};

}  // namespace hearth::llm
