// `hearth hrm eval`.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/say.h"
#include "cli/checks.h"
#include "cli/hrm.h"
#include "cli/table.h"
#include "cli/timing.h"
#include "hearth/error.h"
#include "hearth/hrm_train.h"
#include "hearth/progress.h"
#include "train/interrupt.h"

namespace hearth::cli {
namespace {

struct EvalCommand {
  std::string model = default_sudoku_model(), data;
  DeviceOptions device;
  std::int64_t count = 1000, limit = 0;
  std::uint64_t seed = 1;
  hrm::SolveOptions solving{};
  bool json = false;
};

struct Band {
  int most;  // rating
  const char* name;
};
constexpr std::array<Band, 5> bands{{{0, "0"}, {4, "1-4"}, {19, "5-19"}, {99, "20-99"}, {1 << 30, "100+"}}};

// The puzzles of a file by where they come from.
std::vector<hrm::SudokuSet> sets_of_file(const std::string& path, std::int64_t limit) {
  std::map<std::string, hrm::SudokuSet> by_source;
  for (const auto& [puzzle, source] : hrm::load_puzzles(path)) {
    auto& set = by_source[source];
    set.name = source.empty() ? "all" : source;
    if (limit == 0 || static_cast<std::int64_t>(set.puzzles.size()) < limit) set.puzzles.push_back(puzzle);
  }
  std::vector<hrm::SudokuSet> sets;
  for (auto& [source, set] : by_source) sets.push_back(std::move(set));
  return sets;
}

struct Outcome {
  hrm::SudokuSet set;
  std::vector<hrm::SolvedSudoku> results;
  std::vector<double> seconds;  // of each puzzle where they are solved one at a time, else none

  void add(const Outcome& from, std::size_t i) {
    set.puzzles.push_back(from.set.puzzles[i]);
    results.push_back(from.results[i]);
    if (!from.seconds.empty()) seconds.push_back(from.seconds[i]);
  }
};

// Of those puzzles that were solved before it was interrupted.
Outcome solve(hrm::Reasoner& reasoner, hrm::SudokuSet set, const hrm::SolveOptions& options, ProgressBar& bar,
              const train::InterruptGuard& interrupt) {
  // Large enough to keep a batch full while single puzzles go on for long.
  const std::size_t slice = options.batch == 1 ? 1 : 8 * static_cast<std::size_t>(options.batch);
  Outcome outcome;
  outcome.set = std::move(set);
  std::vector<hrm::Grid> grids;
  for (const auto& puzzle : outcome.set.puzzles) grids.push_back(puzzle.clues);
  bar.begin(outcome.set.name, static_cast<std::int64_t>(grids.size()));
  for (std::size_t from = 0; from < grids.size() && !interrupt.requested(); from += slice) {
    const auto part = std::span(grids).subspan(from, std::min(slice, grids.size() - from));
    const auto start = std::chrono::steady_clock::now();
    for (auto& result : hrm::solve(reasoner, part, options)) outcome.results.push_back(std::move(result));
    if (slice == 1)
      outcome.seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    bar.update(static_cast<std::int64_t>(from + part.size()), {});
  }
  bar.clear();
  outcome.set.puzzles.resize(outcome.results.size());
  return outcome;
}

// By rating, where there is more than one band.
std::vector<Outcome> divided(const Outcome& whole) {
  std::vector<Outcome> parts;
  int above = -1;
  for (const Band& band : bands) {
    Outcome part;
    part.set.name = fmt::format("rating {}", band.name);
    for (std::size_t i = 0; i < whole.results.size(); ++i) {
      const int rating = whole.set.puzzles[i].rating;
      if (rating > above && rating <= band.most) part.add(whole, i);
    }
    above = band.most;
    if (!part.results.empty()) parts.push_back(std::move(part));
  }
  if (parts.size() < 2) parts.clear();
  return parts;
}

void report(const Outcome& outcome, Table& table, nlohmann::json& json) {
  const auto score = hrm::score(outcome.set, outcome.results);
  const auto percent = [&](std::int64_t part) {
    return fmt::format("{:.2f} %", 100.0 * static_cast<double>(part) / static_cast<double>(score.puzzles));
  };
  std::vector<std::string> row{score.name,
                               std::to_string(score.puzzles),
                               std::to_string(score.solved),
                               percent(score.solved),
                               std::to_string(score.halted_right),
                               percent(score.halted_right),
                               fmt::format("{:.2f}", score.mean_segments)};
  nlohmann::json entry{{"set", score.name},
                       {"puzzles", score.puzzles},
                       {"solved", score.solved},
                       {"halted_right", score.halted_right},
                       {"mean_segments", score.mean_segments}};
  if (!outcome.seconds.empty()) {
    entry["median_milliseconds"] = 1e3 * median(outcome.seconds);
    row.push_back(fmt::format("{:.0f}", 1e3 * median(outcome.seconds)));
  }
  table.push_back(std::move(row));
  json.push_back(std::move(entry));
}

int run_eval(const EvalCommand& command) {
  apply(command.device);
  hrm::Reasoner reasoner(hrm::load_model(command.model));
  if (command.data.empty()) say("making {} puzzles of each kind\n", command.count);
  auto sets = command.data.empty() ? hrm::evaluation_sets(command.count, command.seed)
                                   : sets_of_file(command.data, command.limit);
  if (sets.empty()) throw ValueError(fmt::format("{} has no puzzles", command.data));
  Table table{{"puzzles", "count", "solved", "", "model halts right", "", "segments"}};
  if (command.solving.batch == 1) table[0].push_back("median ms");
  nlohmann::json json = nlohmann::json::array();
  ProgressBar bar;
  const train::InterruptGuard interrupt(true, "\nstopping; once more to stop at once\n");
  for (auto& set : sets) {
    const Outcome outcome = solve(reasoner, std::move(set), command.solving, bar, interrupt);
    if (interrupt.requested() && outcome.results.empty()) break;
    report(outcome, table, json);
    if (!command.data.empty())
      for (const Outcome& part : divided(outcome)) {
        report(part, table, json);
        table.back()[0].insert(0, "  ");
      }
  }
  fmt::print("{}", command.json ? json_text(json) + "\n" : plain(table));
  if (!interrupt.requested()) return success;
  say("interrupted; these are the puzzles until then\n");
  return interrupted;
}

}  // namespace

void add_hrm_eval(CLI::App& hrm_command, Action& action) {
  CLI::App* command = hrm_command.add_subcommand("eval", "How many Sudoku puzzles a model solves");
  const auto options = std::make_shared<EvalCommand>();
  options->solving.batch = 512;
  command->add_option("model", options->model, "Model file")
      ->check(must_not_be_empty())
      ->type_name("FILE")
      ->capture_default_str();
  command
      ->add_option(
          "--data", options->data,
          "CSV file with question and answer, and where it has them source and rating (default: fresh "
          "puzzles)")
      ->check(must_not_be_empty())
      ->type_name("FILE");
  const CLI::Validator positive = CLI::Range(1, 1 << 30).description("");
  const CLI::Validator not_negative = CLI::Range(0, 1 << 30).description("");
  const auto number = [&](const char* name, auto& value, const char* what) {
    return command->add_option(name, value, what)->type_name("N")->capture_default_str();
  };
  number("--count", options->count, "Fresh puzzles of each kind")->check(positive);
  number("--limit", options->limit, "Puzzles of each source of the file at most; 0: all")
      ->check(not_negative);
  number("--seed", options->seed, "Seed of the fresh puzzles")->check(must_be_a_seed());
  number("--segments", options->solving.most_segments, "Segments of an attempt at most")->check(positive);
  number("--patience", options->solving.patience,
         "Segments without a change after which an attempt is given up; 0: never")
      ->check(not_negative);
  number("--attempts", options->solving.attempts, "Attempts, each with the digits renamed")->check(positive);
  number("--batch", options->solving.batch, "Puzzles worked on at once; 1 shows the time of one")
      ->check(positive);
  add_device_options(*command, options->device);
  command->add_flag("--json", options->json, "Print the result as JSON");
  command->callback([options, &action] { action = [options] { return run_eval(*options); }; });
}

}  // namespace hearth::cli
