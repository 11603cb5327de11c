// Training of reasoning models.
//
// A run is a folder: checkpoints, the model so far (model.safetensors, averaged weights), log.csv,
// evaluations.csv and progress.svg, which are replaced as it goes. A run that was killed and is resumed goes
// on bit for bit as if it had not been, where its length is given in steps; with a time limit the learning
// rate depends on the clock.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "hearth/hrm.h"
#include "hearth/progress.h"
#include "hearth/train.h"

namespace hearth::hrm {

// Where examples come from: row `row` of the batch of step `step`, a pure function of the two. Called from
// several threads.
class ExampleSource {
 public:
  virtual ~ExampleSource() = default;
  virtual void fill(std::int64_t step, std::int64_t row, std::span<std::int32_t> tokens,
                    std::span<std::int32_t> labels, std::int32_t& puzzle) const = 0;
};
inline constexpr std::int32_t ignored_label = -100;  // of tokens that are not asked for

// Puzzles of a pool drawn at random, each time rearranged anew.
std::shared_ptr<ExampleSource> sudoku_source(std::vector<Puzzle> pool, std::uint64_t seed);

struct TrainLine {
  std::int64_t step = 0;
  double seconds = 0;  // of the whole run
  double loss = 0, token_loss = 0;
  double accuracy = 0, exact = 0, q_accuracy = 0, segments = 0;  // of sequences that ended
  double rate = 0;
  double steps_per_second = 0;
};

struct TrainOptions {
  HrmConfig model = sudoku_config();
  std::int64_t batch = 768;
  // The run ends at the first limit reached; 0 is no limit. One must be given. Minutes are of this call, with
  // the evaluation at the end.
  std::int64_t steps = 0;
  double minutes = 0;
  double learning_rate = 1e-4;
  std::int64_t warmup = 500;  // steps in which the rate rises
  double last_rate = 0.1;     // share of the rate that is left at the end, along a cosine
  double beta1 = 0.9, beta2 = 0.95;
  double weight_decay = 0.1;
  double puzzle_learning_rate = 1e-2, puzzle_weight_decay = 0.1;
  double ema_decay = 0.999;  // 0: the weights themselves are evaluated and kept
  std::uint64_t seed = 0;
  std::int64_t log_every = 50;         // steps between lines of the log; the device is waited for
  std::int64_t evaluate_every = 2000;  // steps; always at the end
  double checkpoint_minutes = 2;
  int keep_checkpoints = 2;
  std::filesystem::path folder{};
  train::Resume resume = train::Resume::never;
  ProgressOptions progress{};
  std::function<bool(const TrainLine& line)> on_line{};  // gets every line of the log; false ends the run
};

// Named figures, e.g. {"30-34 clues", 0.97}; shares of sequences that are answered exactly.
using Figures = std::vector<std::pair<std::string, double>>;
struct EvaluationLine {
  std::int64_t step = 0;
  Figures figures;
};
using Evaluate = std::function<Figures(Reasoner& reasoner)>;

struct TrainResult {
  train::Ending ending = train::Ending::finished;
  std::int64_t steps = 0;
  std::int64_t resumed_from = 0;
  double seconds = 0;  // of this call
  std::vector<TrainLine> lines;
  std::vector<EvaluationLine> evaluations;
  std::shared_ptr<Hrm> model;  // averaged weights
};

// On the default device. Throws train::NonFiniteLoss; the newest checkpoint is then from before.
TrainResult train(const TrainOptions& options, std::shared_ptr<const ExampleSource> source,
                  const Evaluate& evaluate = {});

// How many of some puzzles a model solves.
struct SudokuScore {
  std::string name;
  std::int64_t puzzles = 0;
  std::int64_t solved = 0;        // the grid becomes a solution
  std::int64_t halted_right = 0;  // what the model halts on, without looking whether it is one
  double mean_segments = 0;       // of the solved
};
struct SudokuSet {
  std::string name;
  std::vector<Puzzle> puzzles;
};
// Fresh puzzles by kind: 30 to 34 clues, 26 to 28, minimal, and rated hard. They are not those that
// make_puzzles makes of the same seed.
std::vector<SudokuSet> evaluation_sets(std::int64_t count, std::uint64_t seed);
// For train(): the shares of those that are solved, of so many of each kind. They come from another sequence
// than those trained on, whatever its seed.
Evaluate sudoku_evaluation(std::int64_t count);
// What became of the set's puzzles, in order.
SudokuScore score(const SudokuSet& set, std::span<const SolvedSudoku> results);
SudokuScore score(Reasoner& reasoner, const SudokuSet& set, const SolveOptions& options = {});

}  // namespace hearth::hrm
