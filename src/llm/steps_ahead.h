// Steps of one token for each of several sequences. On a GPU the next one is begun with the tokens that are
// best by the scores of the one before, or that samplers will probably choose, before the host knows the
// scores: the device waits for nobody.
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
  std::vector<TokenId> append_for_best(std::span<const Piece> pieces, bool goes_on);
  // The same, for the samplers that will choose; their scores.
  ScoreRows append(std::span<const Piece> pieces, std::span<const Sampler* const> samplers, bool goes_on);

  // Steps that were begun ahead so far, and those of them that were of use.
  struct Counts {
    std::size_t begun = 0, used = 0;
  };
  const Counts& counts() const { return counts_; }

 private:
  // What steps of so many sequences work on, always in the same memory.
  struct Batch;
  // A step that the device has been given.
  struct Step;
  // What is to follow, if a step has chosen right: these tokens in these sequences, as they are now.
  struct Expected {
    std::vector<const Sequence*> sequences;
    std::vector<std::uint64_t> versions;
    std::vector<TokenId> tokens;

    bool continues(std::span<const Piece> pieces) const;
    bool is(std::span<const Piece> pieces) const;
  };
  // The one that was asked for, done, and the one after it where that was begun.
  struct Run;

  Run run(std::span<const Piece> pieces, std::span<const Sampler* const> samplers, bool goes_on);
  void go_on_from(std::span<const Piece> pieces, Run run);
  Batch& batch_of(std::size_t count);
  // Where the next token of each sequence goes, `after` so many that are not appended yet.
  void set_places(Batch& batch, std::span<const Piece> pieces, std::size_t after);
  Step launch(Batch& batch, std::span<const Sampler* const> samplers, std::size_t after);

  Model::State& model_;
  std::map<std::size_t, std::unique_ptr<Batch>> batches_;
  Expected expected_;
  std::unique_ptr<Step> begun_;  // with what is expected
  std::uint64_t versions_ = 0;
  // The part of the last expectations that were right: of steps that choose the best, and of guesses.
  double right_best_ = 1, right_guesses_ = 1;
  Counts counts_;
};

}  // namespace hearth::llm
