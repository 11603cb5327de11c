// Scores of several sequences. Where they are many they stay on their device, with the best of each block of
// neighbours beside them, from which a sampler sees where it has to look.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "hearth/eval.h"
#include "hearth/llm.h"

namespace hearth::llm {

// Throws that there is no score to choose a token by.
[[noreturn]] void refuse_scores();

struct ScoreRows::State {
  // All of them are here.
  State(std::shared_ptr<float> values, std::size_t rows, std::size_t width);
  explicit State(const Tensor& scores);  // (rows, width), f32, in the host's memory
  // They are where `scores` is, (rows, width), f32; `best` is (rows, blocks). `pick` is what pick_blocks()
  // makes. There is room for all in `values`, and for the best.
  State(std::shared_ptr<float> values, Tensor scores, const Tensor& best, Compiled::Function pick);

  std::size_t rows() const { return rows_; }
  std::size_t blocks() const { return blocks_; }  // of a row; 0: all scores are here
  std::size_t block_size() const { return width_ / blocks_; }
  // The best of each block of a row; NaN where one of them is.
  std::span<const float> best(std::size_t row) const {
    return {values_.get() + rows_ * width_ + row * blocks_, blocks_};
  }

  struct Place {
    std::size_t row, block;
  };
  // Brings these rows and blocks here, at once.
  void bring(std::span<const std::size_t> rows, std::span<const Place> places);
  // A row of which only what was brought has a meaning. Waits for nobody, as threads of the pool must not:
  // who brings scores may be waiting for them.
  std::span<const float> brought(std::size_t row) const { return {values_.get() + row * width_, width_}; }

 private:
  void bring_blocks(std::span<const Place> places);

  std::shared_ptr<float> values_;
  std::size_t rows_, width_, blocks_ = 0;
  Tensor scores_;
  Compiled::Function pick_;
  std::mutex mutex_;            // of what follows
  std::vector<bool> has_rows_;  // that were brought whole
};

// How many neighbours a block has in rows of so many scores: they divide it. 0: rows are better read whole.
std::int64_t score_block(std::int64_t width);
// (rows, width) to (rows, blocks).
Tensor best_of_blocks(const Tensor& scores, std::int64_t size);
// A function of scores and numbers of blocks, counted through all rows: those blocks. Threads may
// call it at the same time.
Compiled::Function pick_blocks();

}  // namespace hearth::llm
