// Sudoku for training and evaluation: examples from a pool of puzzles, sets of fresh ones, scores.
#include "hearth/error.h"
#include "hearth/hrm_train.h"
#include "hrm/random_source.h"

namespace hearth::hrm {
namespace {

constexpr std::uint64_t evaluation_seed = 0x5EED0E7A1u;
// A source of random numbers that make_puzzles does not draw from.
constexpr std::uint64_t evaluation_stream = 0xF2E54;

class SudokuSource : public ExampleSource {
 public:
  SudokuSource(std::vector<Puzzle> pool, std::uint64_t seed) : pool_(std::move(pool)), seed_(seed) {
    if (pool_.empty()) throw ValueError("[sudoku_source] there are no puzzles");
  }

  void fill(std::int64_t step, std::int64_t row, std::span<std::int32_t> tokens,
            std::span<std::int32_t> labels, std::int32_t& puzzle) const override {
    const auto index = static_cast<std::uint64_t>(step) << 32 | static_cast<std::uint64_t>(row);
    RandomSource random(seed_, index);
    Grid clues{}, solution{};
    const auto drawn = random.below(static_cast<std::uint32_t>(pool_.size()));
    rearrange(pool_[drawn], random.next(), index, clues, solution);
    to_tokens(clues, tokens);
    to_tokens(solution, labels);
    puzzle = 0;
  }

 private:
  std::vector<Puzzle> pool_;
  std::uint64_t seed_;
};

}  // namespace

std::shared_ptr<ExampleSource> sudoku_source(std::vector<Puzzle> pool, std::uint64_t seed) {
  return std::make_shared<SudokuSource>(std::move(pool), seed);
}

std::vector<SudokuSet> evaluation_sets(std::int64_t count, std::uint64_t seed) {
  // Of a seed of their own: with that of a training run, they would be its puzzles with fewer clues.
  const std::uint64_t own = RandomSource(seed, evaluation_stream).next();
  const auto made = [&](const PuzzleKind& kind) { return make_puzzles({kind}, count, own); };
  return {{"30-34 clues", made({.making = Making::dig, .clues_from = 30, .clues_to = 34})},
          {"26-28 clues", made({.making = Making::dig, .clues_from = 26, .clues_to = 28})},
          {"minimal", made({.making = Making::dig, .clues_from = 0, .clues_to = 0})},
          {"hard", made({.making = Making::climb, .iterations = 12})}};
}

Evaluate sudoku_evaluation(std::int64_t count) {
  return [sets = evaluation_sets(count, evaluation_seed)](Reasoner& reasoner) {
    Figures figures;
    for (const SudokuSet& set : sets) {
      const SudokuScore result = score(reasoner, set, {.most_segments = 16});
      figures.emplace_back(set.name,
                           static_cast<double>(result.solved) / static_cast<double>(result.puzzles));
    }
    return figures;
  };
}

SudokuScore score(const SudokuSet& set, std::span<const SolvedSudoku> results) {
  SudokuScore score{.name = set.name, .puzzles = static_cast<std::int64_t>(set.puzzles.size())};
  double segments = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (results[i].solved) {
      ++score.solved;
      segments += static_cast<double>(results[i].segments);
    }
    if (results[i].halted && results[i].halted_grid == set.puzzles[i].solution) ++score.halted_right;
  }
  if (score.solved > 0) score.mean_segments = segments / static_cast<double>(score.solved);
  return score;
}

SudokuScore score(Reasoner& reasoner, const SudokuSet& set, const SolveOptions& options) {
  std::vector<Grid> grids;
  for (const Puzzle& puzzle : set.puzzles) grids.push_back(puzzle.clues);
  return score(set, solve(reasoner, grids, options));
}

}  // namespace hearth::hrm
