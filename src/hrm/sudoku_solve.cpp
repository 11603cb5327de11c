// Sudoku with a model: grids to tokens and back, and attempts until the grid is a solution.
#include <algorithm>

#include "hearth/error.h"
#include "hearth/hrm.h"
#include "hrm/random_source.h"

namespace hearth::hrm {
namespace {

Grid to_grid(std::span<const std::int32_t> tokens) {
  Grid grid{};
  for (std::size_t i = 0; i < grid.size(); ++i)
    grid[i] = static_cast<std::uint8_t>(tokens[i] > sudoku_empty_token && tokens[i] <= sudoku_empty_token + 9
                                            ? tokens[i] - sudoku_empty_token
                                            : 0);
  return grid;
}

bool solves(const Grid& grid, const Grid& clues) {
  for (std::size_t i = 0; i < grid.size(); ++i)
    if (clues[i] != 0 && grid[i] != clues[i]) return false;
  return is_solution(grid);
}

using Renaming = std::array<std::uint8_t, 10>;

Renaming renaming_of(std::int64_t attempt) {
  Renaming names{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  RandomSource random(0, static_cast<std::uint64_t>(attempt));
  if (attempt > 0) random.shuffle(std::span<std::uint8_t>(names).subspan(1));
  return names;
}

Grid renamed(const Grid& grid, const Renaming& names) {
  Grid result{};
  for (std::size_t i = 0; i < grid.size(); ++i) result[i] = names[grid[i]];
  return result;
}

Renaming inverse(const Renaming& names) {
  Renaming result{};
  for (std::size_t i = 0; i < names.size(); ++i) result[names[i]] = static_cast<std::uint8_t>(i);
  return result;
}

// Notices grids that stay the same.
class Stillness {
 public:
  explicit Stillness(std::size_t grids) : last_(grids), unchanged_(grids, 0) {}
  // Segments since grid `i` was another.
  std::int64_t after(std::size_t i, const Grid& grid) {
    unchanged_[i] = grid == last_[i] ? unchanged_[i] + 1 : 0;
    last_[i] = grid;
    return unchanged_[i];
  }

 private:
  std::vector<Grid> last_;
  std::vector<std::int64_t> unchanged_;
};

}  // namespace

void to_tokens(const Grid& grid, std::span<std::int32_t> tokens) {
  for (std::size_t i = 0; i < grid.size(); ++i) tokens[i] = sudoku_empty_token + grid[i];
}

std::vector<SolvedSudoku> solve(Reasoner& reasoner, std::span<const Grid> puzzles,
                                const SolveOptions& options) {
  const HrmConfig& config = reasoner.model().config();
  if (config.length != 81 || config.vocabulary != 11)
    throw ValueError("[solve] the model is not one for Sudoku: it needs 81 tokens of 11 kinds");
  std::vector<SolvedSudoku> results(puzzles.size());
  std::vector<std::size_t> open(puzzles.size());
  for (std::size_t i = 0; i < open.size(); ++i) open[i] = i;
  for (std::int64_t attempt = 0; attempt < std::max<std::int64_t>(options.attempts, 1) && !open.empty();
       ++attempt) {
    const Renaming names = renaming_of(attempt), back = inverse(names);
    std::vector<std::int32_t> tokens(open.size() * 81);
    for (std::size_t i = 0; i < open.size(); ++i)
      to_tokens(renamed(puzzles[open[i]], names), std::span(tokens).subspan(i * 81, 81));
    const auto grid_of = [&](std::span<const std::int32_t> t) { return renamed(to_grid(t), back); };
    const auto puzzle_of = [&](std::int64_t sequence) { return open[static_cast<std::size_t>(sequence)]; };
    ReasonOptions reason{.most_segments = options.most_segments, .batch = options.batch};
    Stillness stillness(open.size());
    reason.done = [&](std::int64_t sequence, std::span<const std::int32_t> t, float) {
      const Grid grid = grid_of(t);
      const std::int64_t still = stillness.after(static_cast<std::size_t>(sequence), grid);
      return (options.patience > 0 && still >= options.patience) ||
             solves(grid, puzzles[puzzle_of(sequence)]);
    };
    if (options.on_segment && attempt == 0)
      reason.on_segment = [&](std::int64_t sequence, std::int64_t segment, std::span<const std::int32_t> t,
                              float q) { options.on_segment(puzzle_of(sequence), segment, grid_of(t), q); };
    const auto answers = reasoner.run(tokens, {}, reason);
    std::vector<std::size_t> unsolved;
    for (std::size_t i = 0; i < open.size(); ++i) {
      SolvedSudoku& result = results[open[i]];
      result.grid = grid_of(answers[i].tokens);
      result.solved = solves(result.grid, puzzles[open[i]]);
      result.segments += answers[i].segments;
      ++result.attempts;
      if (attempt == 0 && answers[i].halted) {
        result.halted = true;
        result.halted_grid = grid_of(answers[i].halted_tokens);
        result.halted_segments = answers[i].halted_segments;
      }
      if (!result.solved) unsolved.push_back(open[i]);
    }
    open = std::move(unsolved);
  }
  return results;
}

}  // namespace hearth::hrm
