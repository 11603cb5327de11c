// Training on digits.
#include "cli/digits.h"

#include <fmt/format.h>

#include <system_error>

#include "hearth/error.h"
#include "hearth/models.h"
#include "hearth/ops.h"
#include "hearth/random.h"

namespace hearth::cli {

std::optional<std::filesystem::path> find_mnist(const std::filesystem::path& given) {
  if (!given.empty()) {
    if (data::has_mnist(given)) return given;
    throw FileError(fmt::format(
        "{}: not the four files of MNIST (train-images-idx3-ubyte and so on, plain or .gz)", given.string()));
  }
  std::vector<std::filesystem::path> beside{std::filesystem::current_path()};
  std::error_code no_proc;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", no_proc);
  // <source tree>/build/bin/hearth
  if (!no_proc) beside.push_back(program.parent_path().parent_path().parent_path());
  for (const auto& folder : beside) {
    const auto found = folder.parent_path() / "shared" / "data" / "mnist";
    if (data::has_mnist(found)) return found;
  }
  return std::nullopt;
}

DigitOutcome train_digits(const DigitData& digits, const DigitTraining& options) {
  manual_seed(options.seed);
  const auto prepared = [](const data::DatasetPtr& images) {
    // Mean and deviation of MNIST's pixels.
    return std::make_shared<data::MapDataset>(images,
                                              std::vector{data::normalize({0.1307 * 255}, {0.3081 * 255})});
  };
  data::DataLoader train_loader(prepared(digits.train), {.batch_size = options.batch_size,
                                                         .shuffle = true,
                                                         .drop_last = true,
                                                         .workers = options.workers,
                                                         .seed = options.seed,
                                                         .device = default_device()});
  data::DataLoader test_loader(prepared(digits.test),
                               {.batch_size = 500, .workers = options.workers, .device = default_device()});

  auto model = std::make_shared<models::MnistCnn>();
  auto optimizer = std::make_shared<optim::AdamW>(
      model->parameters(), optim::AdamWOptions{.learning_rate = options.learning_rate});
  train::TrainerConfig config;
  config.epochs = options.epochs;
  config.precision = options.precision;
  config.use_compile = options.compile;
  config.schedule = schedule::one_cycle(options.learning_rate, options.epochs * train_loader.size());
  config.checkpoints.folder = options.checkpoints;
  config.checkpoints.resume = options.resume ? train::Resume::automatic : train::Resume::never;
  config.progress.enabled = !options.quiet;
  train::Trainer trainer(
      model, optimizer,
      [](const Tensor& scores, const Tensor& labels) { return cross_entropy(scores, labels); }, config);
  trainer.add_metric(std::make_unique<metrics::Accuracy>());

  DigitOutcome outcome;
  outcome.parameters = model->parameter_count();
  outcome.result = trainer.fit(train_loader, &test_loader);
  const train::Result& result = outcome.result;
  if (!result.history.empty() && result.history.back().step == result.steps &&
      result.history.back().evaluation)
    outcome.test = *result.history.back().evaluation;
  else if (result.ending != train::Ending::interrupted)
    outcome.test = trainer.evaluate(test_loader);
  const auto steps = static_cast<double>(result.steps - result.resumed_from);
  outcome.images_per_second = steps * static_cast<double>(options.batch_size) / result.seconds;
  return outcome;
}

}  // namespace hearth::cli
