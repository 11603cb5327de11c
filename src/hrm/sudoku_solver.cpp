// The search, and what is asked of it: solutions, ratings, conflicts.
#include "hrm/sudoku_solver.h"

#include <bit>

namespace hearth::hrm {
namespace {

constexpr std::uint16_t all_digits = 0x1FF;

// The cells of the 27 units and the 20 cells that each cell sees.
struct Geometry {
  std::array<std::array<std::uint8_t, 9>, 27> units{};
  std::array<std::array<std::uint8_t, 20>, 81> peers{};

  constexpr Geometry() {
    for (int i = 0; i < 9; ++i)
      for (int j = 0; j < 9; ++j) {
        const auto u = static_cast<std::size_t>(i), k = static_cast<std::size_t>(j);
        units[u][k] = static_cast<std::uint8_t>(9 * i + j);
        units[9 + u][k] = static_cast<std::uint8_t>(9 * j + i);
        units[18 + u][k] = static_cast<std::uint8_t>(27 * (i / 3) + 3 * (i % 3) + 9 * (j / 3) + j % 3);
      }
    for (int a = 0; a < 81; ++a) {
      std::size_t count = 0;
      for (int b = 0; b < 81; ++b)
        if (a != b && (a / 9 == b / 9 || a % 9 == b % 9 || (a / 27 == b / 27 && a % 9 / 3 == b % 9 / 3)))
          peers[static_cast<std::size_t>(a)][count++] = static_cast<std::uint8_t>(b);
    }
  }
};
constexpr Geometry geometry;

}  // namespace

SudokuSearch::SudokuSearch() : start_{{}, {}, 81} { start_.candidates.fill(all_digits); }

// Decides a cell and takes the digit from all cells that see it.
bool SudokuSearch::place(State& state, int cell, unsigned bit) {
  const auto at = static_cast<std::size_t>(cell);
  if (!(state.candidates[at] & bit)) return false;
  if (state.digits[at] != 0) return true;
  state.digits[at] = static_cast<std::uint8_t>(std::countr_zero(bit) + 1);
  state.candidates[at] = static_cast<std::uint16_t>(bit);
  --state.open;
  for (const auto peer : geometry.peers[at]) {
    std::uint16_t& candidates = state.candidates[peer];
    if (!(candidates & bit)) continue;
    candidates = static_cast<std::uint16_t>(candidates & ~bit);
    if (candidates == 0) return false;
  }
  return true;
}

// Decides cells with one candidate and digits with one cell in a unit until there are none.
bool SudokuSearch::place_singles(State& state) {
  for (bool changed = true; changed && state.open > 0;) {
    changed = false;
    for (int cell = 0; cell < 81; ++cell) {
      const unsigned candidates = state.candidates[static_cast<std::size_t>(cell)];
      if (state.digits[static_cast<std::size_t>(cell)] != 0 || !std::has_single_bit(candidates)) continue;
      if (!place(state, cell, candidates)) return false;
      changed = true;
    }
    for (const auto& unit : geometry.units) {
      unsigned once = 0, twice = 0, decided = 0;
      for (const auto cell : unit) {
        twice |= once & state.candidates[cell];
        once |= state.candidates[cell];
        if (state.digits[cell] != 0) decided |= state.candidates[cell];
      }
      if (once != all_digits) return false;
      unsigned single = once & ~twice & ~decided;
      if (single == 0) continue;
      for (const auto cell : unit)
        if (const unsigned bit = state.candidates[cell] & single; bit != 0) {
          if (!std::has_single_bit(bit) || !place(state, cell, bit)) return false;
          single &= ~bit;
        }
      changed = true;
    }
  }
  return true;
}

bool SudokuSearch::set(const Grid& clues) {
  for (int cell = 0; cell < 81; ++cell)
    if (const int digit = clues[static_cast<std::size_t>(cell)]; digit != 0)
      if (!place(start_, cell, 1u << (digit - 1))) return false;
  return true;
}

bool SudokuSearch::forbid(int cell, int digit) {
  std::uint16_t& candidates = start_.candidates[static_cast<std::size_t>(cell)];
  candidates = static_cast<std::uint16_t>(candidates & ~(1u << (digit - 1)));
  return candidates != 0;
}

void SudokuSearch::run(int limit, RandomSource* random, int most_guesses) {
  limit_ = limit;
  random_ = random;
  most_guesses_ = most_guesses;
  solutions_ = guesses_ = 0;
  search(start_);
}

void SudokuSearch::search(const State& before) {
  State state = before;
  if (!place_singles(state)) return;
  if (state.open == 0) {
    if (solutions_++ == 0) solution_ = state.digits;
    return;
  }
  int cell = -1, fewest = 10, ties = 0;
  for (int i = 0; i < 81; ++i) {
    if (state.digits[static_cast<std::size_t>(i)] != 0) continue;
    const int count = std::popcount(state.candidates[static_cast<std::size_t>(i)]);
    if (count > fewest) continue;
    if (count < fewest) ties = 0;
    fewest = count;
    ++ties;
    if (ties == 1 || (random_ && random_->below(static_cast<std::uint32_t>(ties)) == 0)) cell = i;
    if (fewest == 2 && !random_) break;
  }
  unsigned left = state.candidates[static_cast<std::size_t>(cell)];
  while (left != 0 && solutions_ < limit_ && guesses_ < most_guesses_) {
    unsigned bit = left & (~left + 1);
    if (random_)
      for (auto skip = random_->below(static_cast<std::uint32_t>(std::popcount(left))); skip > 0; --skip) {
        unsigned later = left & ~((bit << 1) - 1);
        bit = later & (~later + 1);
      }
    left &= ~bit;
    ++guesses_;
    State branch = state;
    if (place(branch, cell, bit)) search(branch);
  }
}

SudokuAnalysis analyse(const Grid& puzzle, int limit) {
  SudokuSearch search;
  if (!search.set(puzzle)) return {};
  search.run(limit);
  return {search.solutions(), search.guesses(), search.solution()};
}

int clue_count(const Grid& grid) {
  int count = 0;
  for (const auto digit : grid) count += digit != 0;
  return count;
}

std::array<int, 2> conflict(const Grid& grid) {
  for (std::size_t a = 0; a < 81; ++a)
    for (const auto b : geometry.peers[a])
      if (b > a && grid[a] != 0 && grid[a] == grid[b]) return {static_cast<int>(a), b};
  return {-1, -1};
}

bool is_solution(const Grid& grid) { return clue_count(grid) == 81 && conflict(grid)[0] < 0; }

}  // namespace hearth::hrm
