// Reasoning models: Sudoku, answers segment by segment, training.
#include "hearth/hrm.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/shared_ptr.h>

#include <cmath>
#include <mutex>

#include "bindings.h"
#include "hearth/hrm_data.h"
#include "hearth/hrm_train.h"
#include "options.h"

namespace hearth::python {
namespace {

using namespace hrm;

// Throws what a signal handler raised, so that Ctrl-C ends the work. Needs the GIL.
void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

// A grid from a text, or from anything that NumPy makes an array of 81 digits of.
Grid grid_of(nb::handle source) {
  if (nb::isinstance<nb::str>(source)) return parse_grid(nb::cast<std::string>(source));
  const nb::object array = nb::module_::import_("numpy").attr("asarray")(source);
  std::vector<std::int64_t> digits;
  if (!nb::try_cast(array.attr("ravel")().attr("tolist")(), digits))
    throw ValueError(std::string("[Grid] digits are needed, got ") + nb::repr(source).c_str());
  Grid grid{};
  if (digits.size() != grid.size())
    throw ValueError("[Grid] a grid has 81 cells, got " + std::to_string(digits.size()));
  for (std::size_t i = 0; i < grid.size(); ++i) {
    if (digits[i] < 0 || digits[i] > 9)
      throw ValueError("[Grid] cell " + std::to_string(i + 1) + " cannot be " + std::to_string(digits[i]));
    grid[i] = static_cast<std::uint8_t>(digits[i]);
  }
  return grid;
}

Puzzle puzzle_of(const Grid& clues) {
  const SudokuAnalysis analysis = check_puzzle(clues);
  if (analysis.solutions > 1) throw ValueError("[Puzzle] there are several solutions");
  return {clues, analysis.solution, analysis.rating};
}

// The model's draft after a segment.
struct Segment {
  Grid grid;
  float q_halt;
};

struct Solution : SolvedSudoku {
  Grid puzzle{};
  std::vector<Segment> drafts;  // of the first attempt
};

// For one thread at a time; a callback of a run may use it again.
class SharedReasoner {
 public:
  explicit SharedReasoner(std::shared_ptr<const Hrm> model)
      : device_(model->parameters().front().device()), reasoner_(std::move(model)) {}

  std::vector<Answer> run(const std::vector<std::int32_t>& tokens, const std::vector<std::int32_t>& puzzles,
                          const ReasonOptions& options) {
    const std::lock_guard lock(mutex_);
    const DeviceScope here(device_);
    return reasoner_.run(tokens, puzzles, options);
  }
  std::vector<SolvedSudoku> solve(const std::vector<Grid>& puzzles, const SolveOptions& options) {
    const std::lock_guard lock(mutex_);
    const DeviceScope here(device_);
    return hrm::solve(reasoner_, puzzles, options);
  }

 private:
  std::recursive_mutex mutex_;
  Device device_;
  Reasoner reasoner_;
};

std::vector<Answer> run(SharedReasoner& self, const std::vector<std::int32_t>& tokens,
                        const std::vector<std::int32_t>& puzzles, const nb::dict& given) {
  ReasonOptions reason;
  nb::object done = nb::none(), on_segment = nb::none();
  Options options(given, "Reasoner");
  options.read("most_segments", reason.most_segments);
  options.read("batch", reason.batch);
  options.read("seconds", reason.seconds);
  options.read("done", done);
  options.read("on_segment", on_segment);
  options.finish();
  const auto list = [](std::span<const std::int32_t> t) {
    return std::vector<std::int32_t>(t.begin(), t.end());
  };
  if (!done.is_none())
    reason.done = [&](std::int64_t sequence, std::span<const std::int32_t> t, float q_halt) {
      const nb::gil_scoped_acquire locked;
      return nb::cast<bool>(nb::bool_(done(sequence, list(t), q_halt)));
    };
  reason.on_segment = [&](std::int64_t sequence, std::int64_t segment, std::span<const std::int32_t> t,
                          float q_halt) {
    const nb::gil_scoped_acquire locked;
    check_signals();
    if (!on_segment.is_none()) on_segment(sequence, segment, list(t), q_halt);
  };
  const nb::gil_scoped_release unlocked;
  return self.run(tokens, puzzles, reason);
}

std::vector<Solution> solve(SharedReasoner& self, const std::vector<Grid>& puzzles, std::int64_t segments,
                            std::int64_t attempts, std::int64_t patience, std::int64_t batch,
                            nb::object on_segment) {
  std::vector<Solution> solutions(puzzles.size());
  SolveOptions options{.most_segments = segments, .attempts = attempts, .patience = patience, .batch = batch};
  options.on_segment = [&](std::size_t puzzle, std::int64_t segment, const Grid& grid, float q_halt) {
    solutions[puzzle].drafts.push_back({grid, q_halt});
    const nb::gil_scoped_acquire locked;
    check_signals();
    if (!on_segment.is_none()) on_segment(puzzle, segment, grid, q_halt);
  };
  const nb::gil_scoped_release unlocked;
  for (const Grid& puzzle : puzzles) check_puzzle(puzzle);
  const std::vector<SolvedSudoku> results = self.solve(puzzles, options);
  for (std::size_t i = 0; i < results.size(); ++i) {
    static_cast<SolvedSudoku&>(solutions[i]) = results[i];
    solutions[i].puzzle = puzzles[i];
  }
  return solutions;
}

nb::dict dict_of(const TrainLine& line) {
  nb::dict d;
  d["step"] = line.step;
  d["seconds"] = line.seconds;
  d["loss"] = line.loss;
  d["token_loss"] = line.token_loss;
  d["accuracy"] = line.accuracy;
  d["exact"] = line.exact;
  d["q_accuracy"] = line.q_accuracy;
  d["segments"] = line.segments;
  d["rate"] = line.rate;
  d["steps_per_second"] = line.steps_per_second;
  return d;
}

nb::dict dict_of(const TrainResult& result) {
  nb::list lines, evaluations;
  for (const TrainLine& line : result.lines) lines.append(dict_of(line));
  for (const EvaluationLine& line : result.evaluations) {
    nb::dict d;
    d["step"] = line.step;
    for (const auto& [name, value] : line.figures) d[name.c_str()] = value;
    evaluations.append(d);
  }
  nb::dict d;
  d["model"] = result.model;
  d["ending"] = name_of(result.ending);
  d["steps"] = result.steps;
  d["resumed_from"] = result.resumed_from;
  d["seconds"] = result.seconds;
  d["lines"] = lines;
  d["evaluations"] = evaluations;
  return d;
}

TrainOptions options_of(const std::string& config, const nb::dict& given) {
  TrainOptions training;
  training.model = config_from_json(config);
  Options options(given, "hrm train");
  options.read("steps", training.steps);
  options.read("minutes", training.minutes);
  options.read("batch", training.batch);
  options.read("learning_rate", training.learning_rate);
  options.read("warmup", training.warmup);
  options.read("last_rate", training.last_rate);
  options.read("beta1", training.beta1);
  options.read("beta2", training.beta2);
  options.read("weight_decay", training.weight_decay);
  options.read("puzzle_learning_rate", training.puzzle_learning_rate);
  options.read("puzzle_weight_decay", training.puzzle_weight_decay);
  options.read("ema_decay", training.ema_decay);
  options.read("seed", training.seed);
  options.read("log_every", training.log_every);
  options.read("evaluate_every", training.evaluate_every);
  options.read("checkpoint_minutes", training.checkpoint_minutes);
  options.read("keep_checkpoints", training.keep_checkpoints);
  options.read("folder", training.folder);
  options.read("progress", training.progress.enabled);
  options.read("resume", training.resume,
               {{"never", train::Resume::never},
                {"automatic", train::Resume::automatic},
                {"required", train::Resume::required}});
  options.finish();
  return training;
}

nb::dict train_model(const std::string& config, std::vector<Puzzle> puzzles, std::int64_t evaluation_puzzles,
                     const std::optional<DeviceIn>& device, nb::object on_line, const nb::dict& given) {
  TrainOptions options = options_of(config, given);
  if (!on_line.is_none())
    options.on_line = [&](const TrainLine& line) {
      const nb::gil_scoped_acquire locked;
      return !on_line(dict_of(line)).is(nb::handle(Py_False));
    };
  TrainResult result;
  {
    const DeviceScope here(device_or_default(device));
    const nb::gil_scoped_release unlocked;
    // Runs take turns: they seed the random numbers and take over the signals of the process.
    static std::mutex running;
    const std::lock_guard lock(running);
    const Evaluate evaluate = evaluation_puzzles > 0 ? sudoku_evaluation(evaluation_puzzles) : Evaluate{};
    auto source = sudoku_source(std::move(puzzles), options.seed);
    result = hrm::train(options, std::move(source), evaluate);
  }
  return dict_of(result);
}

void bind_sudoku(nb::module_& m) {
  nb::class_<Grid>(
      m, "Grid",
      "81 cells, row by row; 0 is empty. From a text of digits and '.', or from an array of digits.")
      .def(
          "__init__", [](Grid* self, nb::handle cells) { new (self) Grid(grid_of(cells)); }, "cells"_a)
      .def_prop_ro("text", &to_text, "81 characters, '.' for empty.")
      .def_prop_ro(
          "cells", [](const Grid& self) { return std::vector<int>(self.begin(), self.end()); },
          "81 digits, 0 for empty.")
      .def_prop_ro("clues", &clue_count, "How many cells are filled.")
      .def_prop_ro("is_solution", &is_solution, "Every cell filled, no digit twice in a row, column or box.")
      .def(
          "conflict",
          [](const Grid& self) -> std::optional<std::pair<int, int>> {
            const auto [a, b] = conflict(self);
            if (a < 0) return std::nullopt;
            return std::pair(a, b);
          },
          "The first two cells of a row, column or box with the same digit, or None.")
      .def(
          "__eq__", [](const Grid& self, const Grid& other) { return self == other; }, nb::is_operator())
      .def("__hash__", [](const Grid& self) { return std::hash<std::string>()(to_text(self)); });

  nb::class_<Puzzle>(m, "Puzzle",
                     "A Sudoku with one solution. `rating`: guesses that a search with singles needs.")
      .def(
          "__init__",
          [](Puzzle* self, nb::handle clues) {
            const Grid grid = nb::isinstance<Grid>(clues) ? nb::cast<Grid>(clues) : grid_of(clues);
            new (self) Puzzle(puzzle_of(grid));
          },
          "clues"_a)
      .def_ro("clues", &Puzzle::clues)
      .def_ro("solution", &Puzzle::solution)
      .def_ro("rating", &Puzzle::rating);

  m.def(
      "make_puzzles",
      [](std::int64_t count, std::uint64_t seed, const std::optional<std::string>& making,
         std::pair<int, int> clues, int iterations) {
        std::vector<PuzzleKind> kinds = training_mixture();
        if (making) {
          const auto word = [&](const char* name) { return *making == name; };
          if (!word("dig") && !word("climb") && !word("thin"))
            throw ValueError("[make_puzzles] making cannot be '" + *making + "'; it is dig, climb or thin");
          kinds = {{.making = word("dig")     ? Making::dig
                              : word("climb") ? Making::climb
                                              : Making::thin,
                    .clues_from = clues.first,
                    .clues_to = clues.second,
                    .iterations = iterations}};
        }
        const nb::gil_scoped_release unlocked;
        return make_puzzles(kinds, count, seed);
      },
      "count"_a, "seed"_a = 0, "making"_a = nb::none(), "clues"_a = std::pair(30, 34), "iterations"_a = 100,
      "Puzzles with one solution each, the same for the same seed. `making`: \"dig\" removes clues at random "
      "until `clues` (from, to) are left, or (0, 0) nothing can be removed; \"climb\" makes hard ones and "
      "\"thin\" ones with few clues, by so many `iterations`; None: all kinds, as models are trained on.");
  m.def(
      "load_puzzles",
      [](const std::filesystem::path& path) {
        std::vector<Puzzle> puzzles;
        for (const NamedPuzzle& entry : load_puzzles(path)) puzzles.push_back(entry.puzzle);
        return puzzles;
      },
      "path"_a, nb::call_guard<nb::gil_scoped_release>(),
      "Puzzles of a CSV file with the columns question and answer, and where it has it rating.");
  m.def("save_puzzles", &save_puzzles, "path"_a, "puzzles"_a, nb::call_guard<nb::gil_scoped_release>(),
        "A CSV file with the columns question, answer and rating.");
}

}  // namespace

void bind_hrm(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_hrm", "Reasoning models.");
  bind_sudoku(m);

  m.def(
      "config_from_name", [](const std::string& name) { return to_json(config_from_name(name)); }, "name"_a);
  m.def(
      "check_config", [](const std::string& json) { config_from_json(json); }, "json"_a);

  nb::class_<Hrm>(m, "CoreModel")
      .def_static(
          "make",
          [](const std::string& config, const std::optional<DeviceIn>& device) {
            const DeviceScope here(device_or_default(device));
            const nb::gil_scoped_release unlocked;
            return std::make_shared<Hrm>(config_from_json(config));
          },
          "config"_a, "device"_a.none())
      .def_static(
          "load",
          [](const std::filesystem::path& path, const std::optional<DeviceIn>& device) {
            const DeviceScope here(device_or_default(device));
            const nb::gil_scoped_release unlocked;
            return load_model(path);
          },
          "path"_a, "device"_a.none())
      .def_static(
          "import_checkpoint",
          [](const std::filesystem::path& path, std::int64_t length, std::int64_t heads,
             std::int64_t h_cycles, std::int64_t l_cycles, const std::optional<DeviceIn>& device) {
            const DeviceScope here(device_or_default(device));
            const nb::gil_scoped_release unlocked;
            return import_checkpoint(
                path, {.length = length, .heads = heads, .h_cycles = h_cycles, .l_cycles = l_cycles});
          },
          "path"_a, "length"_a, "heads"_a, "h_cycles"_a, "l_cycles"_a, "device"_a.none())
      .def("config", [](const Hrm& self) { return to_json(self.config()); })
      .def("parameters", &Hrm::parameter_count)
      .def("state_dict", &Hrm::state_dict)
      .def(
          "save",
          [](const Hrm& self, const std::filesystem::path& path, const DTypeIn& dtype,
             const std::map<std::string, std::string>& notes) {
            const nb::gil_scoped_release unlocked;
            save_model(path, self, dtype, notes);
          },
          "path"_a, "dtype"_a, "notes"_a);

  nb::class_<Answer>(m, "Answer", "What a model makes of a sequence.")
      .def_ro("tokens", &Answer::tokens, "After the last segment.")
      .def_ro("segments", &Answer::segments, "How many there were.")
      .def_ro("q_halt", &Answer::q_halt, "The halting value: positive where the model thinks it is right.")
      .def_ro("halted", &Answer::halted, "Whether it was positive after some segment, ...")
      .def_ro("halted_tokens", &Answer::halted_tokens, "... the first of which gave these ...")
      .def_ro("halted_segments", &Answer::halted_segments, "... and was that.");

  nb::class_<Segment>(m, "Segment", "The model's draft after a segment.")
      .def_ro("grid", &Segment::grid)
      .def_ro("q_halt", &Segment::q_halt, "The halting value: positive where the model thinks it is right.")
      .def_prop_ro(
          "sure", [](const Segment& self) { return 1 / (1 + std::exp(-static_cast<double>(self.q_halt))); },
          "The same as a probability.");

  nb::class_<Solution>(m, "Solution", "A Sudoku and what a model made of it.")
      .def_ro("puzzle", &Solution::puzzle)
      .def_ro("grid", &Solution::grid, "The last draft.")
      .def_ro("solved", &Solution::solved, "Whether it is a solution with the puzzle's clues.")
      .def_ro("segments", &Solution::drafts, "The drafts of the first attempt.")
      .def_ro("segment_count", &Solution::segments, "Segments of all attempts.")
      .def_ro("attempts", &Solution::attempts)
      .def_ro("halted", &Solution::halted, "Whether in the first attempt the model said it was done, ...")
      .def_ro("halted_grid", &Solution::halted_grid, "... with this ...")
      .def_ro("halted_segments", &Solution::halted_segments, "... after so many segments.");

  nb::class_<SharedReasoner>(m, "CoreReasoner")
      .def(nb::init<std::shared_ptr<const Hrm>>(), "model"_a)
      .def("run", &run, "tokens"_a, "puzzles"_a, "options"_a)
      .def("solve", &solve, "puzzles"_a, "segments"_a, "attempts"_a, "patience"_a, "batch"_a,
           "on_segment"_a.none());

  m.def("train", &train_model, "config"_a, "puzzles"_a, "evaluation_puzzles"_a, "device"_a.none(),
        "on_line"_a.none(), "options"_a);
}

}  // namespace hearth::python
