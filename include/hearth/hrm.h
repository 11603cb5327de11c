// Hierarchical reasoning models: two small recurrent transformers that refine an answer segment by segment.
//
// A model reads a sequence of tokens (a puzzle) and gives scores of the answer's tokens. It has two states
// per position: z_L changes fast, z_H slowly. A segment runs h_cycles times: l_cycles updates of z_L, each
// from z_L + z_H + input, then one of z_H from z_H + z_L. After each segment the model says with its Q head
// whether the answer is there. System 1 is one segment; System 2 goes on until the model halts, with the same
// weights.
//
//   hrm::Reasoner reasoner(hrm::load_model("sudoku.safetensors"));
//   auto answers = hrm::solve(reasoner, {puzzle});
//
// Parameters have the names of the reference implementation (sapientinc/HRM), so its weights load.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hearth/eval.h"
#include "hearth/nn.h"
#include "hearth/sudoku.h"

namespace hearth::hrm {

// What lets positions see each other.
//   attention  every position sees every other
//   units      Sudoku only: cells see the cells of their row, column and box, by means of gated features
enum class Mixing { attention, units };
// Where a position is told from another: rotation of queries and keys, a learned vector, or not at all.
enum class Positions { rope, learned, none };
// How far gradients go back in a segment: the last update of z_L and of z_H, or the whole last cycle.
enum class GradientPath { last_step, last_cycle };
enum class TokenLoss { stablemax, softmax };

struct HrmConfig {
  std::int64_t vocabulary = 11;  // tokens; 0 is padding
  std::int64_t length = 81;      // tokens of a sequence
  std::int64_t puzzles = 1;      // rows of the table of puzzle vectors
  std::int64_t prefix = 1;       // positions before the tokens that hold the puzzle's vector
  std::int64_t features = 512;
  std::int64_t heads = 8;
  std::int64_t unit_features = 0;  // units: features averaged over each of row, column and box
  double expansion = 4;            // the feed-forward part's inner size is 2/3 of that, rounded up
  std::int64_t h_layers = 4, l_layers = 4;
  std::int64_t h_cycles = 2, l_cycles = 2;
  bool shared = false;  // one network is both, as in TRM; h_layers is not used
  Mixing mixing = Mixing::attention;
  Positions positions = Positions::rope;
  double rope_base = 10000;
  double epsilon = 1e-5;
  GradientPath gradient = GradientPath::last_step;
  TokenLoss loss = TokenLoss::stablemax;
  bool q_continue = true;  // learn the value of going on too (Q-learning); else halt where q_halt > 0
  double halt_above = 0;   // training halts where q_halt exceeds this (or q_continue, where that is learned)
  std::int64_t most_segments = 16;
  double exploration = 0.1;       // how often training goes on for a random number of segments
  DType precision = DType::bf16;  // of activations; parameters are f32

  static constexpr std::int64_t inner_multiple = 256;  // what it is rounded up to
  std::int64_t inner_features() const;
  std::int64_t position_count() const { return prefix + length; }
};

HrmConfig reference_config();  // the reference's Sudoku set-up: 27,275,266 parameters
HrmConfig trm_config();        // Tiny Recursive Model
HrmConfig sudoku_config();     // what `hearth hrm train` trains where nothing else is asked for
HrmConfig config_from_name(const std::string& name);  // "reference", "trm", "sudoku"; ValueError for others

// JSON, as checkpoints carry it. Throws FormatError for what is not a configuration, ValueError for one that
// cannot be.
std::string to_json(const HrmConfig& config);
HrmConfig config_from_json(const std::string& text);
void check(const HrmConfig& config);

// The states between segments, (batch, prefix + length, features).
struct Carry {
  Tensor z_h, z_l;
};

struct SegmentResult {
  Carry carry;    // cut off from the graph
  Tensor scores;  // (batch, length, vocabulary)
  Tensor q_halt;  // (batch), f32: the answer is right where positive
  Tensor q_continue;
};

class HrmLevel;

class Hrm : public nn::Module {
 public:
  explicit Hrm(const HrmConfig& config);
  const HrmConfig& config() const { return config_; }

  // The states that every sequence begins with.
  Carry initial_carry(std::int64_t batch) const;
  // `carry` with the rows of `reset` (bool, (batch)) begun anew.
  Carry reset(const Carry& carry, const Tensor& reset) const;

  // What is added to the states: tokens (batch, length) integers, vectors (batch, prefix * features) of the
  // puzzles, undefined where there is no prefix.
  Tensor embed(const Tensor& tokens, const Tensor& puzzle_vectors) const;
  // Rows of the table of puzzle vectors.
  Tensor puzzle_vectors(const Tensor& puzzle_ids) const;

  SegmentResult segment(const Carry& carry, const Tensor& input) const;

  // The learned parts, for tests.
  const HrmLevel& h_level() const { return *h_level_; }
  const HrmLevel& l_level() const { return *l_level_; }

  Tensor puzzle_table;  // (puzzles, prefix * features); a buffer: it has an optimiser of its own

 private:
  HrmConfig config_;
  Tensor embed_tokens_, embed_positions_, lm_head_, q_weight_, q_bias_;
  Tensor h_init_, l_init_;
  std::shared_ptr<HrmLevel> h_level_, l_level_;
};

// ---- files: safetensors with the configuration in the metadata

// The weights in `dtype`, with `notes` in the metadata.
void save_model(const std::filesystem::path& path, const Hrm& model, DType dtype = DType::bf16,
                const std::map<std::string, std::string>& notes = {});
// On the default device; activations are f32 on a CPU, which has no faster type, and else as in training.
// Throws FormatError, or ValueError for weights that do not fit their configuration.
std::shared_ptr<Hrm> load_model(const std::filesystem::path& path);

// ---- answers

struct ReasonOptions {
  std::int64_t most_segments = 16;
  std::int64_t batch = 256;  // sequences worked on at once
  double seconds = 0;        // no further segment is begun after that; 0: no limit
  // Whether a sequence is done, besides by the number of segments; none: where q_halt is positive.
  std::function<bool(std::int64_t sequence, std::span<const std::int32_t> tokens, float q_halt)> done{};
  // Called after each segment for every sequence that was worked on.
  std::function<void(std::int64_t sequence, std::int64_t segment, std::span<const std::int32_t> tokens,
                     float q_halt)>
      on_segment{};
};

struct Answer {
  std::vector<std::int32_t> tokens;  // after the last segment
  std::int64_t segments = 0;
  float q_halt = 0;
  bool halted = false;                      // q_halt was positive at some segment, ...
  std::vector<std::int32_t> halted_tokens;  // ... the first of which gave these
  std::int64_t halted_segments = 0;
};

// Runs a model on sequences, each for as many segments as it needs: those that are done leave the batch,
// which is made smaller. For one thread at a time.
class Reasoner {
 public:
  explicit Reasoner(std::shared_ptr<const Hrm> model);
  // `tokens`: sequences one after the other. `puzzles`: a row of the table for each; {}: row 0 for all.
  std::vector<Answer> run(std::span<const std::int32_t> tokens, std::span<const std::int32_t> puzzles = {},
                          const ReasonOptions& options = {});
  const Hrm& model() const { return *model_; }

 private:
  std::shared_ptr<const Hrm> model_;
  Compiled segment_;
};

// ---- Sudoku

// Tokens: 1 is an empty cell, d + 1 the digit d.
inline constexpr std::int32_t sudoku_empty_token = 1;
void to_tokens(const Grid& grid, std::span<std::int32_t> tokens);

struct SolveOptions {
  std::int64_t most_segments = 32;
  // A grid that does not become a solution is tried again with its digits renamed, and so on.
  std::int64_t attempts = 1;
  // An attempt whose grid stayed the same for so many segments seldom moves again and ends; 0: never.
  std::int64_t patience = 6;
  std::int64_t batch = 256;
  // Called after each segment of the first attempt with the puzzle's number among those given.
  std::function<void(std::size_t puzzle, std::int64_t segment, const Grid& grid, float q_halt)> on_segment{};
};

struct SolvedSudoku {
  Grid grid{};          // the last one; cells that the model gave no digit are 0
  bool solved = false;  // it is a solution and has the clues
  std::int64_t segments = 0, attempts = 0;
  bool halted = false;  // in the first attempt the model said it was done, ...
  Grid halted_grid{};   // ... with this
  std::int64_t halted_segments = 0;
};
// Goes on until the grid is a solution, which anybody can check, or the options end it.
std::vector<SolvedSudoku> solve(Reasoner& reasoner, std::span<const Grid> puzzles,
                                const SolveOptions& options = {});

}  // namespace hearth::hrm
