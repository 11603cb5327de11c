// What a session holds.
#pragma once

#include <memory>

#include "llm/drafter.h"
#include "llm/grammar/token_mask.h"
#include "llm/model.h"

namespace hearth::llm {

struct Session::State {
  std::shared_ptr<Model::State> model;
  Sequence sequence;
  // Kept from one generation to the next: what is known of the last grammar, and the sequence of a draft
  // model.
  std::unique_ptr<grammar::TokenMask> mask;
  std::unique_ptr<DraftModel> draft;

  explicit State(std::shared_ptr<Model::State> of);
  ~State();
};

}  // namespace hearth::llm
