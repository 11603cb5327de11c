// `hearth hrm train`, `hearth hrm generate`.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/say.h"
#include "cli/checks.h"
#include "cli/ending.h"
#include "cli/hrm.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "cli/timing.h"
#include "hearth/error.h"
#include "hearth/hrm_train.h"

namespace hearth::cli {
namespace {

struct TrainCommand {
  ModelChoice model;
  DeviceOptions device;
  hrm::TrainOptions training;
  std::string data, output = "hrm-run";
  std::int64_t pool = 100000, evaluation_puzzles = 256;
  bool resume = false, quiet = false, json = false;
};

std::vector<hrm::Puzzle> training_puzzles(const TrainCommand& command) {
  if (!command.data.empty()) {
    std::vector<hrm::Puzzle> puzzles;
    for (auto& entry : hrm::load_puzzles(command.data)) puzzles.push_back(entry.puzzle);
    return puzzles;
  }
  const auto start = std::chrono::steady_clock::now();
  auto puzzles = hrm::make_puzzles(hrm::training_mixture(), command.pool, command.training.seed);
  if (!command.quiet) say("{} puzzles made in {:.1f} s\n", puzzles.size(), seconds_since(start));
  return puzzles;
}

int run_train(const TrainCommand& command) {
  const auto start = std::chrono::steady_clock::now();
  apply(command.device);
  hrm::TrainOptions options = command.training;
  options.model = config_of(command.model);
  options.folder = command.output;
  options.resume = command.resume ? train::Resume::automatic : train::Resume::never;
  options.progress.enabled = !command.quiet;
  // Said before minutes are spent on puzzles.
  if (options.steps == 0 && options.minutes == 0)
    throw ValueError("nothing limits the run: --minutes or --steps does");
  const RunFolder folder(options.folder);
  if (!command.resume && !train::list_checkpoints(options.folder).empty())
    throw ValueError(fmt::format(
        "{} has checkpoints of another run: go on with --resume, or give another --output", command.output));
  const hrm::Evaluate evaluate = hrm::sudoku_evaluation(command.evaluation_puzzles);
  auto source = hrm::sudoku_source(training_puzzles(command), options.seed);
  // The limit is of the whole command: a machine may be lent by the minute.
  if (options.minutes > 0) options.minutes = std::max(0.01, options.minutes - seconds_since(start) / 60);
  const auto result = hrm::train(options, source, evaluate);

  const auto model_file = options.folder / "model.safetensors";
  if (command.json) {
    nlohmann::json json{{"steps", result.steps},
                        {"seconds", result.seconds},
                        {"resumed_from_step", result.resumed_from},
                        {"parameters", result.model->parameter_count()},
                        {"ending", name_of(result.ending)},
                        {"model", model_file.string()}};
    for (const auto& line : result.evaluations)
      for (const auto& [name, value] : line.figures)
        json["evaluations"][std::to_string(line.step)][name] = value;
    if (!result.lines.empty()) json["steps_per_second"] = result.lines.back().steps_per_second;
    fmt::print("{}\n", json_text(json));
  }
  if (result.ending == train::Ending::interrupted) {
    say("interrupted at step {}; saved; go on with --resume and the same options\n", result.steps);
    return interrupted;
  }
  if (!command.json)
    fmt::print("{} steps in {:.1f} s, {} parameters: {}\n", result.steps, result.seconds,
               result.model->parameter_count(), model_file.string());
  return success;
}

struct GenerateCommand {
  std::int64_t count = 100000;
  std::uint64_t seed = 0;
  std::string output = "puzzles.csv";
  bool force = false;
  DeviceOptions device;
};

int run_generate(const GenerateCommand& command) {
  check_output(command.output, command.force);
  apply(command.device);
  const auto start = std::chrono::steady_clock::now();
  const auto puzzles = hrm::make_puzzles(hrm::training_mixture(), command.count, command.seed);
  hrm::save_puzzles(command.output, puzzles);
  fmt::print("{} puzzles in {:.1f} s: {}\n", puzzles.size(), seconds_since(start), command.output);
  return success;
}

}  // namespace

void add_hrm_train(CLI::App& hrm_command, Action& action) {
  CLI::App* command = hrm_command.add_subcommand("train", "Train a model on Sudoku puzzles made for it");
  const auto options = std::make_shared<TrainCommand>();
  hrm::TrainOptions& training = options->training;
  training.batch = 1024;
  training.learning_rate = 5e-4;
  const auto number = [&](const char* name, auto& value, const char* what) {
    return command->add_option(name, value, what)->type_name("N")->capture_default_str();
  };
  command->add_option("-o,--output", options->output, "Folder for checkpoints, log, plot and model")
      ->check(must_not_be_empty())
      ->type_name("DIR")
      ->capture_default_str();
  command->add_flag("--resume", options->resume,
                    "Go on from the newest checkpoint in --output, if there is one");
  number("--minutes", training.minutes, "Time limit of the whole command")->check(must_not_be_negative());
  number("--steps", training.steps, "Steps, if the time limit does not come first; 0: no limit")
      ->check(must_not_be_negative());
  number("--batch", training.batch, "Sequences worked on at once")->check(must_be_positive());
  number("--lr", training.learning_rate, "Highest learning rate")->check(must_be_positive());
  number("--last-rate", training.last_rate, "Share of it that is left at the end")
      ->check(must_not_be_negative());
  number("--warmup", training.warmup, "Steps in which the learning rate rises")
      ->check(must_not_be_negative());
  number("--weight-decay", training.weight_decay, "Decoupled weight decay")->check(must_not_be_negative());
  number("--ema", training.ema_decay, "Decay of the averaged weights; 0: none are kept")
      ->check(CLI::Range(0.0, 0.999999).description(""));
  number("--seed", training.seed, "Seed of weights, puzzles and order")->check(must_be_a_seed());
  number("--pool", options->pool, "Different puzzles to make and rearrange")->check(must_be_positive());
  command->add_option("--data", options->data, "Puzzles of a CSV file instead (see 'hearth hrm generate')")
      ->check(must_not_be_empty())
      ->type_name("FILE");
  number("--log-every", training.log_every, "Steps between lines of the log")->check(must_be_positive());
  number("--evaluate-every", training.evaluate_every, "Steps between evaluations; 0: only at the end")
      ->check(must_not_be_negative());
  number("--evaluation-puzzles", options->evaluation_puzzles, "Fresh puzzles of each kind")
      ->check(must_be_positive());
  number("--checkpoint-minutes", training.checkpoint_minutes, "Time between checkpoints")
      ->check(must_be_positive());
  add_model_choice(*command, options->model);
  add_device_options(*command, options->device);
  command->add_flag("-q,--quiet", options->quiet, "Show no progress");
  command->add_flag("--json", options->json, "Print the result as JSON on standard output");
  command->callback([options, &action] { action = [options] { return run_train(*options); }; });
}

void add_hrm_generate(CLI::App& hrm_command, Action& action) {
  CLI::App* command = hrm_command.add_subcommand(
      "generate", "Make Sudoku puzzles of all difficulties, each with one solution");
  const auto options = std::make_shared<GenerateCommand>();
  command->add_option("--count", options->count, "How many")
      ->check(CLI::Range(1, 100000000).description(""))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Seed")
      ->check(must_be_a_seed())
      ->type_name("N")
      ->capture_default_str();
  command->add_option("-o,--output", options->output, "CSV file: question, answer, rating")
      ->check(must_not_be_empty())
      ->type_name("FILE")
      ->capture_default_str();
  command->add_flag("-f,--force", options->force, "Replace the file if it is there");
  command->add_option("--threads", options->device.threads, "CPU threads (default: one per core)")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  command->callback([options, &action] { action = [options] { return run_generate(*options); }; });
}

}  // namespace hearth::cli
