// Training: the loop around model, optimiser and data, with evaluation, checkpoints and resumption.
//
//   train::Trainer trainer(model, optimizer, [](const Tensor& y, const Tensor& t) { return cross_entropy(y,
//   t); },
//                          {.epochs = 3, .checkpoints = {.folder = "run"}});
//   trainer.add_metric(std::make_unique<metrics::Accuracy>());
//   train::Result result = trainer.fit(train_loader, &test_loader);
//
// A run that was killed and is resumed from a checkpoint goes on bit for bit as if it had not been: a
// checkpoint holds model, optimiser, schedule, loss scale, averaged weights, the default random generator,
// the place in the data, and the counters below. It is one safetensors file with the counters as JSON in its
// metadata, put in place in one step, so a crash while saving loses nothing. Runs that computed the same
// write the same bytes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "hearth/data.h"
#include "hearth/error.h"
#include "hearth/metrics.h"
#include "hearth/nn.h"
#include "hearth/optim.h"
#include "hearth/progress.h"
#include "hearth/schedule.h"

namespace hearth::train {

// A loss that is NaN or infinite, of a step or of an evaluation.
class NonFiniteLoss : public Error {
 public:
  NonFiniteLoss(const std::string& message, std::int64_t step) : Error(message), step_(step) {}
  std::int64_t step() const noexcept { return step_; }

 private:
  std::int64_t step_;
};

// Type of the matrix work. f16 also scales the loss.
enum class Precision { f32, bf16, f16 };

// never: begin anew; a folder that already has checkpoints is refused (ValueError), lest two runs mix.
// automatic: go on from the newest checkpoint that can be read, if there is one. required: fail with
// FileError if there is none.
enum class Resume { never, automatic, required };

enum class Interval { step, epoch };

struct CheckpointConfig {
  std::filesystem::path folder{};  // made if absent; empty: no checkpoints
  std::int64_t every_steps = 0;  // also save every so many steps, besides after each evaluation; 0: only then
  int keep_last = 2;             // older ones are removed, except the best
  Resume resume = Resume::never;
};

struct EarlyStopping {
  std::int64_t patience = 0;    // evaluations in a row without improvement that end the run; 0: never
  double minimum_change = 0.0;  // smallest change that counts as improvement
};

struct TrainerConfig {
  // The run ends at the first limit reached; 0 is no limit. At least one must be given.
  std::int64_t epochs = 0;
  std::int64_t steps = 0;
  std::int64_t accumulate = 1;  // batches whose gradients make one step; fewer at the end of an epoch
  double clip_norm = 0.0;       // limit of the norm of all gradients together; 0: none
  double clip_value = 0.0;      // limit of each element; 0: none
  Precision precision = Precision::f32;
  double ema_decay = 0.0;  // > 0: keep a moving average of the parameters, which evaluation uses
  Schedule schedule{};     // of the learning rate; none: constant
  Interval schedule_interval = Interval::step;
  // Lowers the rate when the monitored value stops improving; `maximize` follows from what is monitored.
  std::optional<PlateauOptions> plateau{};
  std::int64_t evaluate_steps = 0;  // evaluate every so many steps; 0: after each epoch
  std::string monitor{};  // "loss" or the name of a metric: decides what is best; default: the first metric,
                          // else the loss
  EarlyStopping early_stopping{};
  CheckpointConfig checkpoints{};
  bool use_compile = false;  // trace the step once and replay it
  // Read the loss every so many steps, and before anything is evaluated or saved. With more than 1 a GPU
  // never waits for the host in between; callbacks hear of steps when their losses are read.
  std::int64_t read_loss_steps = 1;
  bool handle_interrupts =
      true;  // SIGINT and SIGTERM: finish the step, save, return. A second one ends the process.
  ProgressOptions progress{};
};

// What the forward pass of one batch gives. Output and target go to the metrics and may be undefined.
struct Forward {
  Tensor loss;  // scalar
  Tensor output, target;
};

struct Evaluation {
  double loss = 0;                                        // mean over samples
  std::vector<std::pair<std::string, double>> metrics{};  // in order of add_metric
  std::int64_t samples = 0;
  double seconds = 0;  // 0 in the history of a run before it was resumed
};

// One line of a run's history, made at each evaluation, or each epoch where nothing is evaluated.
struct Record {
  std::int64_t step = 0;
  std::int64_t epoch = 0;  // epochs begun
  double train_loss = 0;   // mean since the last record
  double learning_rate = 0;
  std::optional<Evaluation> evaluation{};
};

enum class Ending { finished, stopped_early, interrupted, stopped };

struct Result {
  Ending ending = Ending::finished;
  std::int64_t steps = 0;   // of the whole run, those before resumption included
  std::int64_t epochs = 0;  // completed
  double train_loss = std::numeric_limits<double>::quiet_NaN();  // of the last record
  std::vector<Record> history;
  std::optional<double> best;  // value of the monitor
  std::int64_t best_step = 0;
  std::int64_t resumed_from = 0;  // step; 0 when begun anew
  double seconds = 0;             // of this call
};

class Trainer;

// What a program wants to do in between. Called in the training thread.
class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_begin(Trainer&) {}
  virtual void on_step(Trainer&, std::int64_t step, double loss) { (void)step, (void)loss; }
  virtual void on_record(Trainer&, const Record&) {}
  virtual void on_checkpoint(Trainer&, const std::filesystem::path&) {}
  virtual void on_end(Trainer&, const Result&) {}
};

class Trainer {
 public:
  using LossFunction = std::function<Tensor(const Tensor& output, const Tensor& target)>;
  using ForwardFunction = std::function<Forward(const data::Batch& batch)>;

  // loss(model(batch[0]), batch[1])
  Trainer(std::shared_ptr<nn::Module> model, std::shared_ptr<optim::Optimizer> optimizer, LossFunction loss,
          TrainerConfig config);
  // For models and batches of other forms.
  Trainer(std::shared_ptr<nn::Module> model, std::shared_ptr<optim::Optimizer> optimizer,
          ForwardFunction forward, TrainerConfig config);
  ~Trainer();

  void add_metric(std::unique_ptr<metrics::Metric> metric);
  void add_callback(std::shared_ptr<Callback> callback);

  // Trains until a limit of the config, early stopping, stop() or an interrupt. A further call goes on.
  // Throws NonFiniteLoss; the newest checkpoint is then from before.
  Result fit(data::DataLoader& train, data::DataLoader* evaluation = nullptr);
  // Loss and metrics over the whole loader, with the averaged weights where there are some.
  Evaluation evaluate(data::DataLoader& loader);
  // Ends fit() after the present step. For callbacks.
  void stop();

  // All that a run needs to go on; `train` is the loader that fit() was called with.
  void save(const std::filesystem::path& path, const data::DataLoader& train) const;
  // Throws FormatError for what is not a checkpoint and ValueError for one of another model or another
  // set-up.
  void load(const std::filesystem::path& path, data::DataLoader& train);

  nn::Module& model();
  optim::Optimizer& optimizer();
  std::int64_t step() const;
  const TrainerConfig& config() const;
  std::string explain() const;  // of the compiled step; empty without use_compile

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Checkpoints of a folder, oldest first.
std::vector<std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);
// The checkpoint whose monitored value was best, as the newest readable one knows it.
std::optional<std::filesystem::path> best_checkpoint(const std::filesystem::path& folder);
// Loads only the model from a checkpoint; the averaged weights where there are some and `averaged`.
void load_model(nn::Module& model, const std::filesystem::path& checkpoint, bool averaged = true);

}  // namespace hearth::train
