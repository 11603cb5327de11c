// Search for solutions of Sudoku puzzles: naked and hidden singles, then the cell with the fewest candidates.
#pragma once

#include "hearth/sudoku.h"
#include "hrm/random_source.h"

namespace hearth::hrm {

class SudokuSearch {
 public:
  SudokuSearch();

  // False where a digit has no place any more: there is no solution. Cells count from 0, digits from 1.
  bool set(const Grid& clues);
  bool forbid(int cell, int digit);

  // Looks for solutions until `limit` are found or `most_guesses` made. With `random`, digits are tried in
  // random order.
  void run(int limit, RandomSource* random = nullptr, int most_guesses = 1 << 30);

  int solutions() const { return solutions_; }
  int guesses() const { return guesses_; }            // branches tried
  const Grid& solution() const { return solution_; }  // the first one found

 private:
  struct State {
    std::array<std::uint16_t, 81> candidates;  // bit d - 1: the cell may have digit d
    Grid digits;                               // 0 where not decided
    int open;                                  // cells not decided
  };
  static bool place(State& state, int cell, unsigned bit);
  static bool place_singles(State& state);
  void search(const State& state);

  State start_;
  int limit_ = 0, most_guesses_ = 0;
  RandomSource* random_ = nullptr;
  int solutions_ = 0, guesses_ = 0;
  Grid solution_{};
};

}  // namespace hearth::hrm
