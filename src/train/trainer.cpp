// The training loop.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/precision.h"
#include "hearth/profile.h"
#include "hearth/random.h"
#include "hearth/train.h"
#include "train/checkpoint.h"
#include "train/counters.h"
#include "train/interrupt.h"

namespace hearth::train {
namespace {

using data::Batch;

std::int64_t sample_count(const Batch& batch) {
  return batch.empty() || batch[0].ndim() == 0 ? 1 : batch[0].size(0);
}

std::int64_t sample_count(const std::vector<Batch>& batches) {
  std::int64_t count = 0;
  for (const Batch& batch : batches) count += sample_count(batch);
  return count;
}

Batch on_device(Batch batch) {
  for (Tensor& field : batch)
    if (!(field.device() == default_device())) field = field.to(default_device());
  return batch;
}

std::optional<DType> low_dtype(Precision precision) {
  if (precision == Precision::bf16) return DType::bf16;
  if (precision == Precision::f16) return DType::f16;
  return std::nullopt;
}

// Samples per second of the steps; the first ones, which compile, do not count.
class Throughput {
 public:
  // A step begins, unless earlier ones are still under way.
  void start() {
    if (samples_under_way_ == 0) start_ = Clock::now();
  }
  void add(std::int64_t samples) { samples_under_way_ += samples; }
  // All steps begun are done.
  void stop() {
    const double samples = static_cast<double>(std::exchange(samples_under_way_, 0));
    if (!std::exchange(warm_, true)) return;
    samples_ += samples;
    seconds_ += seconds_since(start_);
  }
  std::string text() const { return seconds_ > 0 ? format_count(samples_ / seconds_) + "/s" : ""; }

 private:
  Clock::time_point start_{};
  std::int64_t samples_under_way_ = 0;
  bool warm_ = false;
  double samples_ = 0, seconds_ = 0;
};

// A step whose loss has not been read yet.
struct UnreadLoss {
  Tensor loss;
  std::int64_t step, samples;
  std::uint64_t epoch;  // place in the data, for messages
  std::int64_t position;
};

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw FileError(
        fmt::format("[Trainer] the folder {} cannot be made: {}", folder.string(), error.message()));
}

// The model in evaluation, with averaged weights where there are some, for as long as this lives.
class EvaluationMode {
 public:
  EvaluationMode(nn::Module& model, optim::Ema* ema) : modules_(model.modules()), ema_(ema) {
    for (const nn::Module* module : modules_) training_.push_back(module->training());
    if (ema_ != nullptr) ema_->apply();
    model.eval();
  }
  ~EvaluationMode() {
    if (ema_ != nullptr) ema_->restore();
    // train() reaches down to all children, so from the top down each ends with its own.
    for (std::size_t i = 0; i < modules_.size(); ++i) modules_[i]->train(training_[i]);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<nn::Module*> modules_;
  std::vector<bool> training_;
  optim::Ema* ema_;
};

void check_config(const TrainerConfig& config) {
  const auto require = [](bool condition, const char* option, double value) {
    if (!condition) throw ValueError(fmt::format("[Trainer] {} = {} is out of range", option, value));
  };
  require(config.epochs >= 0, "epochs", static_cast<double>(config.epochs));
  require(config.steps >= 0, "steps", static_cast<double>(config.steps));
  require(config.accumulate >= 1, "accumulate", static_cast<double>(config.accumulate));
  require(config.clip_norm >= 0, "clip_norm", config.clip_norm);
  require(config.clip_value >= 0, "clip_value", config.clip_value);
  require(config.ema_decay >= 0 && config.ema_decay < 1, "ema_decay", config.ema_decay);
  require(config.read_loss_steps >= 1, "read_loss_steps", static_cast<double>(config.read_loss_steps));
  require(config.evaluate_steps >= 0, "evaluate_steps", static_cast<double>(config.evaluate_steps));
  require(config.early_stopping.patience >= 0, "early_stopping.patience",
          static_cast<double>(config.early_stopping.patience));
  require(config.checkpoints.every_steps >= 0, "checkpoints.every_steps",
          static_cast<double>(config.checkpoints.every_steps));
  require(config.checkpoints.keep_last >= 1, "checkpoints.keep_last", config.checkpoints.keep_last);
  if (config.schedule && config.plateau)
    throw ValueError("[Trainer] both schedule and plateau set the learning rate; give one");
  if (config.checkpoints.folder.empty() && config.checkpoints.resume == Resume::required)
    throw ValueError("[Trainer] cannot resume without a checkpoint folder");
}

}  // namespace

struct Trainer::Impl {
  std::shared_ptr<nn::Module> model;
  std::shared_ptr<optim::Optimizer> optimizer;
  ForwardFunction forward;
  TrainerConfig config;

  std::vector<std::unique_ptr<metrics::Metric>> metrics;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::optional<Scheduler> scheduler;
  std::optional<ReduceOnPlateau> plateau;
  std::optional<LossScaler> scaler;
  std::optional<optim::Ema> ema;
  std::optional<Compiled> compiled_step, compiled_forward;
  std::size_t batch_fields = 0;  // of the batches of the compiled step

  Counters now;

  // ---- of this process only
  std::int64_t saved_step = -1;
  std::int64_t resumed_from = 0;
  bool resume_tried = false;
  bool stop_requested = false;
  metrics::MovingMean shown_loss;
  std::vector<UnreadLoss> unread;  // of the last steps

  Impl(std::shared_ptr<nn::Module> model_, std::shared_ptr<optim::Optimizer> optimizer_,
       ForwardFunction forward_, TrainerConfig config_)
      : model(std::move(model_)),
        optimizer(std::move(optimizer_)),
        forward(std::move(forward_)),
        config(std::move(config_)) {
    if (!model || !optimizer || !forward) throw ValueError("[Trainer] model, optimiser or loss is missing");
    check_config(config);
    if (config.schedule) scheduler.emplace(*optimizer, config.schedule);
    if (config.plateau) plateau.emplace(*optimizer, *config.plateau);
    if (config.precision == Precision::f16) scaler.emplace();
    if (config.ema_decay > 0) ema.emplace(model->parameters(), config.ema_decay);
    if (config.use_compile) {
      compiled_step.emplace([this](const std::vector<Tensor>& arguments) {
        std::vector<Batch> batches;
        for (std::size_t first = 0; first < arguments.size(); first += batch_fields)
          batches.emplace_back(arguments.begin() + static_cast<std::ptrdiff_t>(first),
                               arguments.begin() + static_cast<std::ptrdiff_t>(first + batch_fields));
        return std::vector<Tensor>{build_step(batches, true)};
      });
      compiled_forward.emplace([this](const std::vector<Tensor>& arguments) {
        const Forward result = run_forward(arguments);
        std::vector<Tensor> results{result.loss};
        if (result.output.defined() && result.target.defined())
          results.insert(results.end(), {result.output, result.target});
        return results;
      });
    }
  }

  // ---- one step

  Forward run_forward(const Batch& batch) const {
    const Autocast precision(low_dtype(config.precision));
    return forward(batch);
  }

  void clear_gradients() {
    model->zero_grad();
    optimizer->zero_grad();
  }

  // Builds the graph of one optimiser step and assigns its results; returns the loss, the mean over all
  // samples. Unless `tracing`, several batches are evaluated one by one, so that memory holds the values of
  // one of them at a time.
  Tensor build_step(const std::vector<Batch>& batches, bool tracing) {
    clear_gradients();
    const std::int64_t samples = sample_count(batches);
    Tensor loss;
    for (const Batch& batch : batches) {
      Tensor part = run_forward(batch).loss;
      if (batches.size() > 1)
        part = part * (static_cast<double>(sample_count(batch)) / static_cast<double>(samples));
      (scaler ? scaler->scale(part) : part).backward();
      loss = loss.defined() ? loss + part.detach() : part.detach();
      if (!tracing && batches.size() > 1) {
        std::vector<Tensor> pending = model->variables();
        pending.push_back(loss);
        for (const Tensor& parameter : optimizer->parameters())
          if (parameter.grad().defined()) pending.push_back(parameter.grad());
        hearth::eval(pending);
      }
    }
    const bool clips = config.clip_norm > 0 || config.clip_value > 0;
    if (scaler && clips) scaler->unscale(*optimizer);
    if (config.clip_value > 0) optim::clip_grad_value(optimizer->parameters(), config.clip_value);
    if (config.clip_norm > 0) optim::clip_grad_norm(optimizer->parameters(), config.clip_norm);
    if (scaler) {
      scaler->step(*optimizer);
      scaler->update();
    } else {
      optimizer->step();
    }
    if (ema) ema->update();
    clear_gradients();
    return loss;
  }

  Tensor take_step(const std::vector<Batch>& batches) {
    const ProfileRegion region("step");
    if (compiled_step) {
      batch_fields = batches[0].size();
      std::vector<Tensor> arguments;
      for (const Batch& batch : batches) arguments.insert(arguments.end(), batch.begin(), batch.end());
      return (*compiled_step)(arguments)[0];
    }
    const Tensor loss = build_step(batches, false);
    std::vector<Tensor> pending{loss};
    const auto add = [&](const std::vector<Tensor>& tensors) {
      pending.insert(pending.end(), tensors.begin(), tensors.end());
    };
    add(model->variables());
    add(optimizer->variables());
    if (ema) add(ema->averages());
    if (scaler)
      for (const auto& [name, value] : scaler->state_dict()) pending.push_back(value);
    hearth::eval(pending);
    return loss;
  }

  // ---- evaluation

  // Nothing when interrupted.
  std::optional<Evaluation> evaluate(data::DataLoader& loader, const InterruptGuard* interrupt) {
    const auto start = Clock::now();
    const EvaluationMode mode(*model, ema ? &*ema : nullptr);
    const NoGrad no_grad;
    // Always the same epoch, so that an evaluation does not depend on those before it.
    loader.load_state_dict({loader.state_dict().seed, 0, 0, loader.size()});
    for (auto& metric : metrics) metric->reset();
    metrics::RunningMean loss;
    for (const Batch& host_batch : loader) {
      if (interrupt != nullptr && interrupt->requested()) return std::nullopt;
      const Batch batch = on_device(host_batch);
      Forward result;
      if (compiled_forward) {
        const std::vector<Tensor> results = (*compiled_forward)(batch);
        result.loss = results[0];
        if (results.size() == 3) result.output = results[1], result.target = results[2];
      } else {
        result = run_forward(batch);
        std::vector<Tensor> pending{result.loss};
        if (result.output.defined()) pending.push_back(result.output);
        hearth::eval(pending);
      }
      loss.add(result.loss.item<double>(), static_cast<double>(sample_count(batch)));
      if (result.output.defined() && result.target.defined())
        for (auto& metric : metrics) metric->update(result.output, result.target);
    }
    Evaluation evaluation;
    evaluation.loss = loss.value();
    evaluation.samples = static_cast<std::int64_t>(loss.weight());
    for (const auto& metric : metrics) evaluation.metrics.emplace_back(metric->name(), metric->value());
    evaluation.seconds = seconds_since(start);
    return evaluation;
  }

  bool monitor_grows() const {
    if (config.monitor == "loss") return false;
    if (config.monitor.empty()) return !metrics.empty() && metrics[0]->larger_is_better();
    for (const auto& metric : metrics)
      if (metric->name() == config.monitor) return metric->larger_is_better();
    throw ValueError(
        fmt::format("[Trainer] monitor \"{}\" is neither \"loss\" nor a metric", config.monitor));
  }

  double monitored(const Record& record) const {
    if (!record.evaluation) return record.train_loss;
    if (config.monitor == "loss" || metrics.empty()) return record.evaluation->loss;
    if (config.monitor.empty()) return record.evaluation->metrics[0].second;
    for (const auto& [name, value] : record.evaluation->metrics)
      if (name == config.monitor) return value;
    return std::numeric_limits<double>::quiet_NaN();
  }

  void judge(const Record& record) {
    const double value = monitored(record);
    const double gain = now.best_value ? (monitor_grows() && record.evaluation ? value - *now.best_value
                                                                               : *now.best_value - value)
                                       : std::numeric_limits<double>::infinity();
    if (!std::isnan(value) && gain > (now.best_value ? config.early_stopping.minimum_change : 0)) {
      now.best_value = value;
      now.best_step = record.step;
      now.stale_evaluations = 0;
    } else {
      ++now.stale_evaluations;
    }
    if (plateau) plateau->step(value);
  }

  // The plateau looks for growth where the monitored value should grow.
  void aim_plateau(bool grows) {
    if (!plateau || config.plateau->maximize == grows) return;
    config.plateau->maximize = grows;
    const StateDict state = plateau->state_dict();
    plateau.emplace(*optimizer, *config.plateau);
    // Before the first value the best one is an infinity, of the wrong sign now.
    if (std::isfinite(state.at("best").item<double>())) plateau->load_state_dict(state);
  }

  // ---- checkpoints

  Checkpoint checkpoint(const data::DataLoader& train) const {
    Checkpoint result;
    add_part(result.tensors, "model", model->state_dict());
    add_part(result.tensors, "optimizer", optimizer->state_dict());
    if (scheduler) add_part(result.tensors, "scheduler", scheduler->state_dict());
    if (plateau) add_part(result.tensors, "plateau", plateau->state_dict());
    if (scaler) add_part(result.tensors, "scaler", scaler->state_dict());
    if (ema) add_part(result.tensors, "ema", ema->state_dict());
    result.counters = to_json(RunState{now, default_generator().state(), train.state_dict()});
    return result;
  }

  void load(const std::filesystem::path& path, data::DataLoader& train) {
    const Checkpoint from = read_checkpoint(path);
    RunState state;
    try {
      state = run_state_from_json(from.counters);
    } catch (const nlohmann::json::exception& error) {
      throw FormatError(
          fmt::format("{}: its counters are not those of a run: {}", path.string(), error.what()));
    }
    const auto load_part = [&](const char* part, auto& target) {
      const StateDict tensors = part_of(from.tensors, part);
      if (tensors.empty())
        throw ValueError(
            fmt::format("{}: the run it is of had no {}; set this one up alike", path.string(), part));
      target.load_state_dict(tensors);
    };
    train.load_state_dict(state.loader);
    load_part("model", *model);
    load_part("optimizer", *optimizer);
    if (scheduler) load_part("scheduler", *scheduler);
    if (plateau) load_part("plateau", *plateau);
    if (scaler) load_part("scaler", *scaler);
    if (ema) load_part("ema", *ema);
    default_generator().set_state(state.random);
    now = std::move(state.counters);
    saved_step = now.step;
  }

  // From the newest checkpoint that can be read.
  void resume(data::DataLoader& train, ProgressBar& bar) {
    const CheckpointConfig& checkpoints = config.checkpoints;
    resume_tried = true;
    if (checkpoints.folder.empty()) return;
    auto paths = list_checkpoints(checkpoints.folder);
    if (checkpoints.resume == Resume::never) {
      if (paths.empty()) return;
      throw ValueError(
          fmt::format("{}: has checkpoints of an earlier run; resume it, or choose another folder",
                      checkpoints.folder.string()));
    }
    for (auto newest = paths.rbegin(); newest != paths.rend(); ++newest) {
      try {
        load(*newest, train);
      } catch (const FormatError& error) {
        bar.line(fmt::format("damaged checkpoint, trying the one before: {}", error.what()));
        continue;
      }
      resumed_from = now.step;
      bar.line(fmt::format("resumed from {} at step {}", newest->string(), now.step));
      return;
    }
    if (checkpoints.resume == Resume::required)
      throw FileError(fmt::format("{}: no checkpoint to resume from", checkpoints.folder.string()));
  }

  std::filesystem::path save(const data::DataLoader& train) {
    const std::filesystem::path& folder = config.checkpoints.folder;
    make_folder(folder);
    const auto path = checkpoint_path(folder, now.step);
    write_checkpoint(path, checkpoint(train));
    saved_step = now.step;
    remove_old_checkpoints(folder, config.checkpoints.keep_last, now.best_step);
    return path;
  }

  // ---- the loop

  bool epoch_over(const data::DataLoader& train) const {
    return now.step > 0 && train.position() >= train.size();
  }

  std::int64_t epochs_completed(const data::DataLoader& train) const {
    return static_cast<std::int64_t>(train.epoch()) + (epoch_over(train) ? 1 : 0);
  }

  bool limit_reached(const data::DataLoader& train) const {
    return (config.steps > 0 && now.step >= config.steps) ||
           (config.epochs > 0 && epochs_completed(train) >= config.epochs);
  }

  bool record_due(const data::DataLoader& train) const {
    if (now.recorded_step == now.step) return false;
    if (limit_reached(train)) return true;
    return config.evaluate_steps > 0 ? now.step % config.evaluate_steps == 0 : epoch_over(train);
  }

  // A run that someone ends keeps what it has; one that ends by itself has just been recorded.
  bool save_due(std::optional<Ending> ending) const {
    if (config.checkpoints.folder.empty() || saved_step == now.step || now.step == 0) return false;
    if (ending == Ending::interrupted || ending == Ending::stopped) return true;
    const std::int64_t every = config.checkpoints.every_steps;
    return now.recorded_step == now.step || (every > 0 && now.step % every == 0);
  }

  std::optional<Ending> ending(const data::DataLoader& train, const InterruptGuard& interrupt) const {
    if (interrupt.requested()) return Ending::interrupted;
    if (stop_requested) return Ending::stopped;
    const std::int64_t patience = config.early_stopping.patience;
    if (patience > 0 && now.stale_evaluations >= patience) return Ending::stopped_early;
    if (limit_reached(train)) return Ending::finished;
    return std::nullopt;
  }

  // Evaluates and adds a line to the history. Nothing when interrupted: a resumed run makes up for it.
  std::optional<Record> make_record(const data::DataLoader& train, data::DataLoader* evaluation,
                                    const InterruptGuard& interrupt) {
    const std::int64_t epochs_begun = static_cast<std::int64_t>(train.epoch()) + 1;
    Record record{now.step, epochs_begun, now.train_loss.value(), optimizer->learning_rate(), {}};
    if (evaluation != nullptr) {
      record.evaluation = evaluate(*evaluation, &interrupt);
      if (!record.evaluation) return std::nullopt;
      // The last step may have spoilt the weights, which its own loss does not show.
      if (record.evaluation->samples > 0 && !std::isfinite(record.evaluation->loss))
        fail_for_loss(fmt::format("[train] the loss of the evaluation is {} after step {}",
                                  record.evaluation->loss, now.step),
                      now.step);
    }
    judge(record);
    now.history.push_back(record);
    now.recorded_step = now.step;
    now.train_loss.reset();
    saved_step = -1;  // a checkpoint of this step from before an interrupt does not know of it
    return record;
  }

  void count_step(const Tensor& loss, const std::vector<Batch>& batches, const data::DataLoader& train) {
    ++now.step;
    unread.push_back({loss, now.step, sample_count(batches), train.epoch(), train.position()});
    if (scheduler && (config.schedule_interval == Interval::step || epoch_over(train))) scheduler->step();
  }

  // Whether what comes next needs the losses.
  bool reading_due(const data::DataLoader& train, const InterruptGuard& interrupt) const {
    if (unread.empty()) return false;
    // At the same steps whether the run was resumed or not.
    return now.step % config.read_loss_steps == 0 || record_due(train) || ending(train, interrupt) ||
           save_due(std::nullopt);
  }

  // Calls `each(step, loss)` for the steps not read so far.
  template <typename Each>
  void read_losses(std::int64_t batches, const Each& each) {
    for (const UnreadLoss& part : std::exchange(unread, {})) {
      const double loss = part.loss.item<double>();
      if (!std::isfinite(loss))
        fail_for_loss(fmt::format("[train] the loss is {} at step {} (epoch {}, batch {} of {})", loss,
                                  part.step, part.epoch + 1, part.position, batches),
                      part.step);
      now.train_loss.add(loss, static_cast<double>(part.samples));
      shown_loss.add(loss);
      each(part.step, loss);
    }
  }

  [[noreturn]] void fail_for_loss(std::string text, std::int64_t step) const {
    text += "; a lower learning rate or clip_norm may help";
    const auto paths = list_checkpoints(config.checkpoints.folder);
    if (!paths.empty()) text += fmt::format("; the last good checkpoint is {}", paths.back().string());
    throw NonFiniteLoss(text, step);
  }

  ProgressBar::Figures figures() const {
    ProgressBar::Figures result{{"loss", fmt::format("{:.4f}", shown_loss.value())}};
    if (!now.history.empty() && now.history.back().evaluation && !metrics.empty()) {
      const auto& [name, value] = now.history.back().evaluation->metrics[0];
      result.emplace_back(name, fmt::format("{:.4f}", value));
    }
    return result;
  }

  std::int64_t steps_per_epoch(const data::DataLoader& train) const {
    return (train.size() + config.accumulate - 1) / config.accumulate;
  }

  std::int64_t planned_steps(const data::DataLoader& train) const {
    const std::int64_t by_epochs = config.epochs * steps_per_epoch(train);
    if (config.steps == 0) return by_epochs;
    return config.epochs == 0 ? config.steps : std::min(config.steps, by_epochs);
  }

  // The batches of one step; none at the end of an epoch.
  std::vector<Batch> next_batches(data::DataLoader& train) const {
    const ProfileRegion region("batch");
    std::vector<Batch> batches;
    const std::int64_t wanted =
        std::min(config.accumulate, std::max<std::int64_t>(1, train.size() - train.position()));
    while (static_cast<std::int64_t>(batches.size()) < wanted) {
      std::optional<Batch> batch = train.next();
      if (!batch) break;
      batches.push_back(on_device(std::move(*batch)));
    }
    return batches;
  }

  std::string epoch_label(const data::DataLoader& train) const {
    const std::int64_t epoch = static_cast<std::int64_t>(train.epoch()) + 1;
    return config.epochs > 0 ? fmt::format("epoch {}/{}", epoch, config.epochs)
                             : fmt::format("epoch {}", epoch);
  }

  std::string describe(const Record& record) const {
    std::string text =
        fmt::format("epoch {}  step {}  loss {:.4f}", record.epoch, record.step, record.train_loss);
    if (record.evaluation) {
      text += fmt::format("  test loss {:.4f}", record.evaluation->loss);
      for (const auto& [name, value] : record.evaluation->metrics)
        text += fmt::format("  {} {:.4f}", name, value);
    }
    return text;
  }
};

Trainer::Trainer(std::shared_ptr<nn::Module> model, std::shared_ptr<optim::Optimizer> optimizer,
                 LossFunction loss, TrainerConfig config) {
  if (!model || !loss) throw ValueError("[Trainer] model or loss is missing");
  ForwardFunction forward = [model, loss = std::move(loss)](const Batch& batch) {
    if (batch.size() != 2)
      throw ValueError(fmt::format("[Trainer] a loss of (output, target) wants batches of 2 fields, got {}",
                                   batch.size()));
    const Tensor output = model->forward(batch[0]);
    return Forward{loss(full_precision(output), batch[1]), output, batch[1]};
  };
  impl_ =
      std::make_unique<Impl>(std::move(model), std::move(optimizer), std::move(forward), std::move(config));
}

Trainer::Trainer(std::shared_ptr<nn::Module> model, std::shared_ptr<optim::Optimizer> optimizer,
                 ForwardFunction forward, TrainerConfig config)
    : impl_(std::make_unique<Impl>(std::move(model), std::move(optimizer), std::move(forward),
                                   std::move(config))) {}

Trainer::~Trainer() = default;

void Trainer::add_metric(std::unique_ptr<metrics::Metric> metric) {
  impl_->metrics.push_back(std::move(metric));
}
void Trainer::add_callback(std::shared_ptr<Callback> callback) {
  impl_->callbacks.push_back(std::move(callback));
}
void Trainer::stop() { impl_->stop_requested = true; }
nn::Module& Trainer::model() { return *impl_->model; }
optim::Optimizer& Trainer::optimizer() { return *impl_->optimizer; }
std::int64_t Trainer::step() const { return impl_->now.step; }
const TrainerConfig& Trainer::config() const { return impl_->config; }
std::string Trainer::explain() const { return impl_->compiled_step ? impl_->compiled_step->explain() : ""; }

Evaluation Trainer::evaluate(data::DataLoader& loader) { return *impl_->evaluate(loader, nullptr); }

void Trainer::save(const std::filesystem::path& path, const data::DataLoader& train) const {
  write_checkpoint(path, impl_->checkpoint(train));
}

void Trainer::load(const std::filesystem::path& path, data::DataLoader& train) {
  impl_->load(path, train);
  impl_->resumed_from = impl_->now.step;
  impl_->resume_tried = true;
}

// The loop asks what is due, does it, and takes the next step, until there is nothing left. What is due
// follows from the counters alone, so a resumed run takes up exactly where its checkpoint was written.
Result Trainer::fit(data::DataLoader& train, data::DataLoader* evaluation) {
  Impl& run = *impl_;
  const TrainerConfig& config = run.config;
  if (config.epochs == 0 && config.steps == 0)
    throw ValueError("[Trainer] neither epochs nor steps limit the run");
  if (train.size() == 0) throw ValueError("[Trainer] the training loader has no batches");
  if (evaluation == &train)
    throw ValueError(
        "[Trainer] one loader both trains and evaluates: evaluating would start its epoch again");
  // Complains about a monitor that is not there before the work, not after.
  const bool monitor_grows = run.monitor_grows();

  const auto start = Clock::now();
  const InterruptGuard interrupt(config.handle_interrupts);
  ProgressBar bar(config.progress);
  run.aim_plateau(monitor_grows && evaluation != nullptr);
  if (!run.resume_tried) run.resume(train, bar);
  if (!config.checkpoints.folder.empty()) make_folder(config.checkpoints.folder);  // or fail before the work
  if (run.now.step == 0) {  // epochs are counted by the loader, which may have been used before
    data::DataLoaderState beginning = train.state_dict();
    beginning.epoch = 0;
    beginning.position = 0;
    train.load_state_dict(beginning);
  }
  if (!run.model->training()) run.model->train();
  run.stop_requested = false;
  for (auto& callback : run.callbacks) callback->on_begin(*this);
  bar.begin(run.epoch_label(train), run.planned_steps(train), run.now.step);

  Throughput throughput;
  std::optional<Ending> ending;
  for (;;) {
    if (run.reading_due(train, interrupt)) {
      run.read_losses(train.size(), [&](std::int64_t step, double loss) {
        for (auto& callback : run.callbacks) callback->on_step(*this, step, loss);
      });
      throughput.stop();
      bar.update(run.now.step, run.figures(), throughput.text());
    }
    if (run.record_due(train)) {
      const ProfileRegion region("evaluate");
      if (const auto record = run.make_record(train, evaluation, interrupt)) {
        bar.line(run.describe(*record));
        for (auto& callback : run.callbacks) callback->on_record(*this, *record);
      }
    }
    ending = run.ending(train, interrupt);
    if (run.save_due(ending)) {
      const ProfileRegion region("checkpoint");
      const auto path = run.save(train);
      for (auto& callback : run.callbacks) callback->on_checkpoint(*this, path);
    }
    if (ending) break;

    throughput.start();
    const std::vector<Batch> batches = run.next_batches(train);
    if (batches.empty()) {  // a new epoch begins
      bar.set_label(run.epoch_label(train));
      continue;
    }
    run.count_step(run.take_step(batches), batches, train);
    throughput.add(sample_count(batches));
  }
  bar.clear();

  Result result;
  result.ending = *ending;
  result.steps = run.now.step;
  result.epochs = run.epochs_completed(train);
  result.history = run.now.history;
  if (!result.history.empty()) result.train_loss = result.history.back().train_loss;
  result.best = run.now.best_value;
  result.best_step = run.now.best_step;
  result.resumed_from = run.resumed_from;
  result.seconds = seconds_since(start);
  for (auto& callback : run.callbacks) callback->on_end(*this, result);
  return result;
}

}  // namespace hearth::train
