// `hearth demo`: trains a small network in front of the user's eyes.
#include <fmt/format.h>

#include <memory>

#include "cli/checks.h"
#include "cli/commands.h"
#include "cli/device_options.h"
#include "cli/digits.h"
#include "cli/synthetic_digits.h"
#include "hearth/device.h"

namespace hearth::cli {
namespace {

struct DemoOptions {
  DeviceOptions device;
  std::string data;
  std::int64_t epochs = 1;
  std::uint64_t seed = 0;
};

int run_demo(const DemoOptions& options) {
  apply(options.device);
  DigitData digits;
  if (const auto folder = find_mnist(options.data)) {
    digits = {data::mnist(*folder, true), data::mnist(*folder, false),
              fmt::format("MNIST, handwritten digits, from {}", folder->string()), true};
  } else {
    digits = {synthetic_digits(20000, 1), synthetic_digits(4000, 2),
              "digits drawn by this program (no MNIST found; give its folder with --data)", false};
  }
  fmt::print("Hearth trains a small convolutional network on {}.\n", device_info(default_device()).name);
  fmt::print("Data: {}; {} images to learn from, {} to test with.\n", digits.description,
             digits.train->size(), digits.test->size());
  std::fflush(stdout);

  DigitTraining training;
  training.epochs = options.epochs;
  training.seed = options.seed;
  const DigitOutcome outcome = train_digits(digits, training);
  if (outcome.result.ending == train::Ending::interrupted) {
    fmt::print("Interrupted after {} steps.\n", outcome.result.steps);
    return interrupted;
  }
  fmt::print(
      "Test accuracy {:.2f} % on {} images it had never seen{}, after {:.1f} s ({:.0f} images/s, {} "
      "parameters).\n",
      outcome.test.metrics[0].second * 100, outcome.test.samples,
      digits.real ? "" : " (an easier task than MNIST)", outcome.result.seconds, outcome.images_per_second,
      outcome.parameters);
  return success;
}

}  // namespace

void add_demo(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("demo", "Train a small network on digits, in under a minute");
  const auto options = std::make_shared<DemoOptions>();
  command
      ->add_option("--data", options->data,
                   "Folder with the four files of MNIST (default: looked for in ../shared/data/mnist; "
                   "without it, digits are drawn on the spot)")
      ->check(must_not_be_empty())
      ->type_name("DIR");
  command->add_option("--epochs", options->epochs, "Times to go through the training images")
      ->type_name("N")
      ->check(CLI::Range(1, 1000).description(""))
      ->capture_default_str();
  add_device_options(*command, options->device);
  command->add_option("--seed", options->seed, "Seed of initial weights and order")
      ->check(must_be_a_seed())
      ->type_name("N")
      ->capture_default_str();
  command->callback([options, &action] { action = [options] { return run_demo(*options); }; });
}

}  // namespace hearth::cli
