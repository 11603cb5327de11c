// Puzzles with exactly one solution, made from a seed.
#include <algorithm>
#include <numeric>

#include "base/thread_pool.h"
#include "hearth/error.h"
#include "hrm/sudoku_solver.h"

namespace hearth::hrm {
namespace {

// A search that meets more is given up: some grids with few clues have solutions by the million.
constexpr int guess_limit = 2000;
// Puzzles of one walk of climb or thin, `iterations` changes apart.
constexpr std::uint64_t walk_length = 16;

Grid random_solution(RandomSource& random) {
  SudokuSearch search;
  do search.run(1, &random, guess_limit);
  while (search.solutions() == 0);
  return search.solution();
}

// Takes clues away in random order, each if the solution stays the only one, until `clues` are left.
void dig(Puzzle& puzzle, int clues, RandomSource& random) {
  std::array<std::uint8_t, 81> order{};
  std::iota(order.begin(), order.end(), std::uint8_t{0});
  random.shuffle(std::span<std::uint8_t>(order));
  int left = clue_count(puzzle.clues);
  for (const auto cell : order) {
    if (left <= clues) break;
    const std::uint8_t digit = puzzle.clues[cell];
    if (digit == 0) continue;
    puzzle.clues[cell] = 0;
    // Without the clue, is there a solution that has another digit there?
    SudokuSearch other;
    bool needed = false;
    if (other.set(puzzle.clues) && other.forbid(cell, digit)) {
      other.run(1, nullptr, guess_limit);
      needed = other.solutions() > 0 || other.guesses() >= guess_limit;
    }
    if (needed)
      puzzle.clues[cell] = digit;
    else
      --left;
  }
}

Puzzle minimal_puzzle(RandomSource& random) {
  Puzzle puzzle;
  puzzle.solution = puzzle.clues = random_solution(random);
  dig(puzzle, 0, random);
  puzzle.rating = analyse(puzzle.clues).rating;
  return puzzle;
}

// A minimal puzzle near another one: some clues dropped, the rest completed in one of the ways that leaves,
// and minimised again.
Puzzle changed(const Puzzle& puzzle, RandomSource& random) {
  Puzzle next = puzzle;
  const auto dropped = 1 + random.below(3);
  for (std::uint32_t i = 0; i < dropped; ++i) {
    std::uint32_t cell = 0;
    do cell = random.below(81);
    while (next.clues[cell] == 0);
    next.clues[cell] = 0;
  }
  SudokuSearch search;
  search.set(next.clues);
  search.run(1, &random, guess_limit);
  if (search.solutions() == 0) return puzzle;
  next.solution = search.solution();
  // Clues until there is one solution again: where the solution found last differs from the one wanted.
  for (;;) {
    SudokuSearch two;
    two.set(next.clues);
    two.run(2, &random, guess_limit);
    if (two.solutions() < 2) {
      if (two.guesses() >= guess_limit) return puzzle;  // given up: there may be another solution
      break;
    }
    Grid other = two.solution();
    if (other == next.solution) {
      SudokuSearch again;
      again.set(next.clues);
      do again.run(1, &random, guess_limit);
      while (again.solutions() == 0 || again.solution() == next.solution);
      other = again.solution();
    }
    std::uint32_t cell = 0;
    do cell = random.below(81);
    while (other[cell] == next.solution[cell]);
    next.clues[cell] = next.solution[cell];
  }
  dig(next, 0, random);
  next.rating = analyse(next.clues).rating;
  return next;
}

// Walks from a minimal puzzle to harder ones (or ones with fewer clues) and calls `visit` for every stop,
// each of them another puzzle: from a peak, where nothing near is as hard, the walk leaves for a new
// beginning.
template <typename Visit>
void walk(const PuzzleKind& kind, RandomSource& random, std::uint64_t stops, Visit visit) {
  constexpr int patience = 8;  // rounds of changes at one stop
  Puzzle puzzle = minimal_puzzle(random);
  std::vector<Grid> visited;
  for (std::uint64_t stop = 0; stop < stops; ++stop) {
    int round = 0;
    do {
      if (round++ == patience) {
        puzzle = minimal_puzzle(random);
        round = 0;
      }
      for (int i = 0; i < kind.iterations; ++i) {
        const Puzzle next = changed(puzzle, random);
        const bool keep = kind.making == Making::climb ? next.rating >= 0.97 * puzzle.rating
                                                       : clue_count(next.clues) <= clue_count(puzzle.clues);
        if (keep) puzzle = next;
      }
    } while (std::find(visited.begin(), visited.end(), puzzle.clues) != visited.end());
    visited.push_back(puzzle.clues);
    visit(stop, puzzle);
  }
}

void check(const PuzzleKind& kind) {
  if (kind.clues_from < 0 || kind.clues_to > 81 || kind.clues_from > kind.clues_to || kind.iterations < 0 ||
      !(kind.share >= 0))
    throw ValueError("[make_puzzle] clues must lie in 0..81, iterations and share must not be negative");
}

// `count` puzzles of one kind, from the first.
void make_kind(const PuzzleKind& kind, std::uint64_t seed, std::span<Puzzle> puzzles) {
  const auto walks = kind.making == Making::dig ? std::uint64_t{1} : walk_length;
  const auto tasks = static_cast<std::int64_t>((puzzles.size() + walks - 1) / walks);
  parallel_for(tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto task = static_cast<std::uint64_t>(begin); task < static_cast<std::uint64_t>(end); ++task) {
      if (kind.making == Making::dig) {
        puzzles[task] = make_puzzle(kind, seed, task);
        continue;
      }
      RandomSource random(seed, task);
      const auto first = task * walks;
      walk(kind, random, std::min<std::uint64_t>(walks, puzzles.size() - first),
           [&](std::uint64_t stop, const Puzzle& puzzle) { puzzles[first + stop] = puzzle; });
    }
  });
}

}  // namespace

Puzzle make_puzzle(const PuzzleKind& kind, std::uint64_t seed, std::uint64_t index) {
  check(kind);
  Puzzle puzzle;
  if (kind.making != Making::dig) {
    RandomSource random(seed, index / walk_length);
    walk(kind, random, index % walk_length + 1, [&](std::uint64_t, const Puzzle& stop) { puzzle = stop; });
    return puzzle;
  }
  RandomSource random(seed, index);
  puzzle.solution = puzzle.clues = random_solution(random);
  const auto choices = static_cast<std::uint32_t>(kind.clues_to - kind.clues_from + 1);
  dig(puzzle, kind.clues_from + static_cast<int>(random.below(choices)), random);
  puzzle.rating = analyse(puzzle.clues).rating;
  return puzzle;
}

std::vector<Puzzle> make_puzzles(const std::vector<PuzzleKind>& mixture, std::int64_t count,
                                 std::uint64_t seed) {
  double total = 0;
  for (const PuzzleKind& kind : mixture) {
    check(kind);
    total += kind.share;
  }
  if (count < 0 || !(total > 0))
    throw ValueError("[make_puzzles] needs a mixture with shares, and a count that is not negative");
  std::vector<Puzzle> puzzles(static_cast<std::size_t>(count));
  double passed = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < mixture.size(); ++i) {
    passed += mixture[i].share;
    const auto end = i + 1 == mixture.size()
                         ? puzzles.size()
                         : static_cast<std::size_t>(passed / total * static_cast<double>(count));
    RandomSource seeds(seed, i);
    make_kind(mixture[i], seeds.next(), std::span(puzzles).subspan(begin, end - begin));
    begin = end;
  }
  RandomSource random(seed, ~std::uint64_t{0});
  random.shuffle(std::span(puzzles));
  return puzzles;
}

std::vector<PuzzleKind> training_mixture() {
  return {{.making = Making::dig, .clues_from = 34, .clues_to = 50, .share = 10},
          {.making = Making::dig, .clues_from = 26, .clues_to = 34, .share = 25},
          {.making = Making::dig, .clues_from = 0, .clues_to = 0, .share = 20},
          {.making = Making::climb, .iterations = 12, .share = 30},
          {.making = Making::thin, .iterations = 12, .share = 15}};
}

namespace {
// Positions 0..8 with groups of three exchanged, and the members of each group.
std::array<std::uint8_t, 9> line_order(RandomSource& random) {
  std::array<std::uint8_t, 3> bands{0, 1, 2};
  random.shuffle(std::span<std::uint8_t>(bands));
  std::array<std::uint8_t, 9> order{};
  for (std::size_t band = 0; band < 3; ++band) {
    std::array<std::uint8_t, 3> lines{0, 1, 2};
    random.shuffle(std::span<std::uint8_t>(lines));
    for (std::size_t i = 0; i < 3; ++i)
      order[3 * band + i] = static_cast<std::uint8_t>(3 * bands[band] + lines[i]);
  }
  return order;
}
}  // namespace

void rearrange(const Puzzle& puzzle, std::uint64_t seed, std::uint64_t index, Grid& clues, Grid& solution) {
  RandomSource random(seed, index);
  std::array<std::uint8_t, 10> digits{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  random.shuffle(std::span<std::uint8_t>(digits).subspan(1));
  const auto rows = line_order(random), columns = line_order(random);
  const bool transpose = random.below(2) != 0;
  for (std::size_t row = 0; row < 9; ++row)
    for (std::size_t column = 0; column < 9; ++column) {
      const std::size_t from =
          transpose ? 9u * columns[column] + rows[row] : 9u * rows[row] + columns[column];
      clues[9 * row + column] = digits[puzzle.clues[from]];
      solution[9 * row + column] = digits[puzzle.solution[from]];
    }
}

}  // namespace hearth::hrm
