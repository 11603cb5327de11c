// Steps that take the best token each time. On a GPU the next one is begun with the tokens that the one
// before has chosen, before the host knows them: the device waits for nobody.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "hearth/eval.h"
#include "llm/model.h"

namespace hearth::llm {

class StepsAhead {
 public:
  // Whether there are such steps for a model: a GPU has all of its layers.
  static bool possible(const Model::State& model);
  // The model outlives it.
  explicit StepsAhead(Model::State& model);
  ~StepsAhead();

  // Appends a token to each of several sequences, and chooses what follows: an id for each, or -1 where the
  // best score is NaN or -infinity; then nothing has been appended. goes_on: as Session::feed_for_best().
  std::vector<TokenId> append(std::span<const Piece> pieces, bool goes_on);

 private:
  // What steps of so many sequences work on, always in the same memory.
  struct Batch;
  // A step that the device has been given.
  struct Step;

  bool is_begun(std::span<const Piece> pieces) const;
  Batch& batch_of(std::size_t count);
  // Where the next token of each sequence goes, `after` so many that are not appended yet.
  void set_places(Batch& batch, std::span<const Piece> pieces, std::size_t after);
  Step launch(Batch& batch);

  Model::State& model_;
  Compiled step_;
  std::map<std::size_t, std::unique_ptr<Batch>> batches_;
  std::unique_ptr<Step> begun_;
  std::uint64_t versions_ = 0;
};

}  // namespace hearth::llm
