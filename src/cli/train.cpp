// `hearth train`: complete training runs.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/say.h"
#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/device_options.h"
#include "cli/digits.h"
#include "cli/ending.h"
#include "cli/output_file.h"
#include "cli/table.h"
#include "cli/train_lm.h"
#include "hearth/config.h"
#include "hearth/device.h"
#include "hearth/error.h"
#include "hearth/profile.h"

namespace hearth::cli {
namespace {

struct TrainOptions {
  std::string data;
  DeviceOptions device;
  std::string checkpoints;
  std::string profile;
  bool eager = false;
  bool json = false;
  DigitTraining training;
};

nlohmann::json to_json(const DigitOutcome& outcome) {
  nlohmann::json history = nlohmann::json::array();
  for (const train::Record& record : outcome.result.history) {
    nlohmann::json entry{{"step", record.step},
                         {"epoch", record.epoch},
                         {"train_loss", record.train_loss},
                         {"learning_rate", record.learning_rate}};
    if (record.evaluation) {
      entry["test_loss"] = record.evaluation->loss;
      for (const auto& [name, value] : record.evaluation->metrics) entry["test_" + name] = value;
    }
    history.push_back(entry);
  }
  nlohmann::json json{
      {"ending", name_of(outcome.result.ending)}, {"steps", outcome.result.steps},
      {"epochs", outcome.result.epochs},          {"resumed_from_step", outcome.result.resumed_from},
      {"seconds", outcome.result.seconds},        {"images_per_second", outcome.images_per_second},
      {"parameters", outcome.parameters},         {"history", history}};
  if (outcome.test.samples > 0) {
    json["test_loss"] = outcome.test.loss;
    json["test_accuracy"] = outcome.test.metrics[0].second;
  }
  return json;
}

int run_mnist(const TrainOptions& options) {
  if (!options.profile.empty()) check_writable(options.profile);
  apply(options.device);
  Config configuration = config();
  configuration.enable_profiling = !options.profile.empty();
  set_config(configuration);
  const auto folder = find_mnist(options.data);
  if (!folder) throw FileError("no MNIST found in ../shared/data/mnist; give its folder with --data");
  const DigitData digits{data::mnist(*folder, true), data::mnist(*folder, false), "MNIST", true};
  DigitTraining training = options.training;
  training.checkpoints = options.checkpoints;
  training.compile = !options.eager;
  const DigitOutcome outcome = train_digits(digits, training);
  if (!options.profile.empty()) {
    say("{}", profile_table());
    write_profile_trace(options.profile);
  }

  const train::Result& result = outcome.result;
  if (options.json) fmt::print("{}\n", json_text(to_json(outcome)));
  if (result.ending == train::Ending::interrupted) {
    say("interrupted at step {}; {}\n", result.steps,
        options.checkpoints.empty() ? "nothing is kept without --checkpoint"
                                    : "saved; go on with --resume and the same options");
    return interrupted;
  }
  if (!options.json)
    fmt::print("test accuracy {:.2f} %, test loss {:.4f}, after {} steps in {:.1f} s ({:.0f} images/s)\n",
               outcome.test.metrics[0].second * 100, outcome.test.loss, result.steps, result.seconds,
               outcome.images_per_second);
  return success;
}

void add_mnist(CLI::App& train, Action& action) {
  CLI::App* command =
      train.add_subcommand("mnist", "Train a convolutional network on MNIST to 99 % test accuracy");
  const auto options = std::make_shared<TrainOptions>();
  DigitTraining& training = options->training;
  command
      ->add_option("--data", options->data,
                   "Folder with the four files of MNIST (default: ../shared/data/mnist)")
      ->check(must_not_be_empty())
      ->type_name("DIR");
  command->add_option("--epochs", training.epochs, "Times to go through the training images")
      ->check(CLI::Range(1, 100000).description(""))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--batch-size", training.batch_size, "Images per step")
      ->check(CLI::Range(1, 60000).description(""))
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--lr", training.learning_rate, "Highest learning rate of the one-cycle schedule")
      ->check(must_be_positive())
      ->type_name("RATE")
      ->capture_default_str();
  command->add_option("--seed", training.seed, "Seed of initial weights, order and dropout")
      ->check(must_be_a_seed())
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--workers", training.workers, "Threads that prepare batches")
      ->check(CLI::Range(0, 64).description(""))
      ->type_name("N")
      ->capture_default_str();
  const std::map<std::string, train::Precision> precisions{
      {"f32", train::Precision::f32}, {"bf16", train::Precision::bf16}, {"f16", train::Precision::f16}};
  command
      ->add_option("--precision", training.precision,
                   "Type of the matrix work: f32, bf16 or f16 (default f32)")
      ->type_name("TYPE")
      ->transform(CLI::CheckedTransformer(precisions, CLI::ignore_case).description(""));
  add_device_options(*command, options->device);
  CLI::Option* checkpoint = command
                                ->add_option("--checkpoint", options->checkpoints,
                                             "Folder for checkpoints, written after each epoch and on Ctrl-C")
                                ->check(must_not_be_empty())
                                ->type_name("DIR");
  command
      ->add_flag("--resume", training.resume,
                 "Go on from the newest checkpoint in --checkpoint, if there is one")
      ->needs(checkpoint);
  command->add_flag("--eager", options->eager,
                    "Build the graph anew at each step instead of replaying a compiled one");
  command
      ->add_option("--profile", options->profile,
                   "Show where the time goes, and write it to a file for chrome://tracing")
      ->check(must_not_be_empty())
      ->type_name("FILE");
  command->add_flag("-q,--quiet", training.quiet, "Show no progress");
  command->add_flag("--json", options->json, "Print the result as JSON on standard output");
  command->callback([options, &action] { action = [options] { return run_mnist(*options); }; });
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("train", "Train a model");
  command->require_subcommand(1);
  add_mnist(*command, action);
  add_train_lm(*command, action);
  add_train_tokenizer(*command, action);
}

}  // namespace hearth::cli
