// `hearth hrm solve`.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/say.h"
#include "cli/checks.h"
#include "cli/hrm.h"
#include "cli/table.h"
#include "hearth/error.h"
#include "hearth/hrm_train.h"

namespace hearth::cli {
namespace {

using hrm::Grid;

struct SolveCommand {
  std::string puzzle, model = default_sudoku_model();
  DeviceOptions device;
  std::int64_t segments = 32, attempts = 8;
  bool quiet = false, json = false;
};

// Digits of the puzzle stand out, changed ones are marked.
std::string drawing(const Grid& grid, const Grid& clues, const Grid& before, bool colours) {
  std::string text;
  for (std::size_t row = 0; row < 9; ++row) {
    text += row == 3 || row == 6 ? "  ------+-------+------\n  " : "  ";
    for (std::size_t column = 0; column < 9; ++column) {
      const std::size_t i = 9 * row + column;
      const std::string digit = grid[i] == 0 ? "." : std::to_string(grid[i]);
      if (column == 3 || column == 6) text += "| ";
      if (colours && clues[i] != 0)
        text += fmt::format("\x1b[1m{}\x1b[0m ", digit);
      else if (colours && grid[i] != before[i])
        text += fmt::format("\x1b[33m{}\x1b[0m ", digit);
      else
        text += digit + ' ';
    }
    text += '\n';
  }
  return text;
}

int changed_cells(const Grid& a, const Grid& b) {
  int count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i];
  return count;
}

int run_solve(const SolveCommand& command) {
  const Grid clues = hrm::parse_grid(command.puzzle);
  if (hrm::check_puzzle(clues).solutions > 1) say("the puzzle has several solutions; any of them will do\n");
  apply(command.device);
  hrm::Reasoner reasoner(hrm::load_model(command.model));
  const char* const plain = std::getenv("NO_COLOR");
  const bool colours = isatty(STDOUT_FILENO) != 0 && (plain == nullptr || *plain == '\0');
  nlohmann::json trace = nlohmann::json::array();
  Grid before = clues;
  hrm::SolveOptions options{.most_segments = command.segments, .attempts = command.attempts};
  options.on_segment = [&](std::size_t, std::int64_t segment, const Grid& grid, float q) {
    trace.push_back({{"segment", segment}, {"grid", hrm::to_text(grid)}, {"q_halt", q}});
    if (!command.quiet && !command.json)
      fmt::print("segment {}: {} cells changed, the model is {:.1f} % sure\n{}", segment,
                 changed_cells(grid, before), 100 / (1 + std::exp(-static_cast<double>(q))),
                 drawing(grid, clues, before, colours));
    before = grid;
  };
  const auto start = std::chrono::steady_clock::now();
  const auto result = hrm::solve(reasoner, std::span(&clues, 1), options)[0];
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (command.json) {
    fmt::print("{}\n", json_text({{"solved", result.solved},
                                  {"grid", hrm::to_text(result.grid)},
                                  {"segments", result.segments},
                                  {"attempts", result.attempts},
                                  {"milliseconds", seconds * 1e3},
                                  {"trace", trace}}));
  } else if (command.quiet) {
    fmt::print("{}\n", hrm::to_text(result.grid));
  } else {
    if (result.attempts > 1)
      fmt::print("attempt {}, with digits renamed:\n{}", result.attempts,
                 drawing(result.grid, clues, clues, colours));
    fmt::print("{} after {} segments{}, {:.0f} ms\n", result.solved ? "solved" : "not solved",
               result.segments, result.attempts > 1 ? fmt::format(" in {} attempts", result.attempts) : "",
               seconds * 1e3);
  }
  return result.solved ? success : failure;
}

}  // namespace

void add_hrm_solve(CLI::App& hrm_command, Action& action) {
  CLI::App* command = hrm_command.add_subcommand("solve", "Solve a Sudoku, segment by segment");
  const auto options = std::make_shared<SolveCommand>();
  command->add_option("puzzle", options->puzzle, "81 cells row by row: digits, and '.' for empty")
      ->required()
      ->type_name("PUZZLE");
  command->add_option("--model", options->model, "Model file")
      ->check(must_not_be_empty())
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("--segments", options->segments, "Segments of an attempt at most")
      ->check(CLI::Range(1, 100000).description(""))
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--attempts", options->attempts,
                   "Attempts, each with the digits renamed, until it is solved")
      ->check(CLI::Range(1, 100000).description(""))
      ->type_name("N")
      ->capture_default_str();
  add_device_options(*command, options->device);
  command->add_flag("-q,--quiet", options->quiet, "Print the grid only");
  command->add_flag("--json", options->json, "Print the answer and every segment as JSON");
  command->callback([options, &action] { action = [options] { return run_solve(*options); }; });
}

}  // namespace hearth::cli
