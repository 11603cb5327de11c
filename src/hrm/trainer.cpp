// The training loop of reasoning models.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/file.h"
#include "hearth/error.h"
#include "hearth/hrm_train.h"
#include "hearth/random.h"
#include "hrm/example_stream.h"
#include "hrm/plot.h"
#include "hrm/training_step.h"
#include "train/checkpoint.h"
#include "train/interrupt.h"

namespace hearth::hrm {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(TrainLine, step, seconds, loss, token_loss, accuracy, exact, q_accuracy,
                                   segments, rate, steps_per_second)

namespace {

nlohmann::json to_json(const std::vector<EvaluationLine>& evaluations) {
  nlohmann::json json = nlohmann::json::array();
  for (const EvaluationLine& line : evaluations)
    json.push_back({{"step", line.step}, {"figures", line.figures}});
  return json;
}

// JSON has no NaN and no infinity: they are written as null and read as NaN.
std::vector<EvaluationLine> evaluations_from(const nlohmann::json& json) {
  std::vector<EvaluationLine> evaluations;
  for (const auto& line : json) {
    evaluations.push_back({line.at("step"), {}});
    for (const auto& figure : line.at("figures"))
      evaluations.back().figures.emplace_back(
          figure.at(0), figure.at(1).is_null() ? std::nan("") : figure.at(1).get<double>());
  }
  return evaluations;
}

// What must agree for one run to go on from another's checkpoint.
nlohmann::json fingerprint(const TrainOptions& o) {
  return {{"model", nlohmann::json::parse(to_json(o.model))},
          {"batch", o.batch},
          {"learning_rate", o.learning_rate},
          {"warmup", o.warmup},
          {"last_rate", o.last_rate},
          {"betas", {o.beta1, o.beta2}},
          {"weight_decay", o.weight_decay},
          {"puzzle_learning_rate", o.puzzle_learning_rate},
          {"puzzle_weight_decay", o.puzzle_weight_decay},
          {"ema_decay", o.ema_decay},
          {"seed", o.seed}};
}

std::string log_csv(const std::vector<TrainLine>& lines) {
  std::string text =
      "step,seconds,loss,token_loss,accuracy,exact,q_accuracy,segments,rate,steps_per_second\n";
  for (const TrainLine& l : lines)
    text += fmt::format("{},{:.2f},{:.6f},{:.6f},{:.5f},{:.5f},{:.5f},{:.3f},{:.6g},{:.3f}\n", l.step,
                        l.seconds, l.loss, l.token_loss, l.accuracy, l.exact, l.q_accuracy, l.segments,
                        l.rate, l.steps_per_second);
  return text;
}

std::string evaluation_csv(const std::vector<EvaluationLine>& evaluations) {
  std::string text = "step,set,value\n";
  for (const EvaluationLine& line : evaluations)
    for (const auto& [name, value] : line.figures)
      text += fmt::format("{},{},{:.5f}\n", line.step, name, value);
  return text;
}

std::string picture(const std::vector<TrainLine>& lines, const std::vector<EvaluationLine>& evaluations) {
  Panel losses{"loss", {{"all", {}}, {"tokens", {}}}, false};
  Panel shares{
      "sequences that ended in training", {{"exact", {}}, {"tokens right", {}}, {"Q right", {}}}, true};
  Panel fresh{"fresh puzzles, averaged weights", {}, true};
  for (const TrainLine& l : lines) {
    const auto step = static_cast<double>(l.step);
    losses.curves[0].points.emplace_back(step, l.loss);
    losses.curves[1].points.emplace_back(step, l.token_loss);
    shares.curves[0].points.emplace_back(step, l.exact);
    shares.curves[1].points.emplace_back(step, l.accuracy);
    shares.curves[2].points.emplace_back(step, l.q_accuracy);
  }
  for (const EvaluationLine& line : evaluations)
    for (std::size_t i = 0; i < line.figures.size(); ++i) {
      if (fresh.curves.size() <= i) fresh.curves.push_back({line.figures[i].first, {}});
      fresh.curves[i].points.emplace_back(static_cast<double>(line.step), line.figures[i].second);
    }
  std::vector<Panel> panels{losses, shares};
  if (!evaluations.empty()) panels.push_back(fresh);
  return svg_plot(fmt::format("{} steps", lines.empty() ? 0 : lines.back().step), panels);
}

// "batch was 8, is 16"
std::string difference(const nlohmann::json& before, const nlohmann::json& now) {
  std::string text;
  const auto add = [&](const std::string& more) { text += (text.empty() ? "" : ", ") + more; };
  for (const auto& [name, value] : now.items()) {
    const auto was = before.is_object() ? before.value(name, nlohmann::json()) : nlohmann::json();
    if (was == value) continue;
    add(value.is_object() ? difference(was, value)
                          : fmt::format("{} was {}, is {}", name, was.dump(), value.dump()));
  }
  if (before.is_object())
    for (const auto& [name, value] : before.items())
      if (!now.contains(name)) add(fmt::format("{} was {}", name, value.dump()));
  return text;
}

class Run {
 public:
  Run(const TrainOptions& options, std::shared_ptr<const ExampleSource> source, const Evaluate& evaluate)
      : options_(options),
        source_(std::move(source)),
        evaluate_(evaluate),
        model_(seeded_model(options)),
        step_(model_, options.batch,
              {.learning_rate = options.learning_rate,
               .beta1 = options.beta1,
               .beta2 = options.beta2,
               .weight_decay = options.weight_decay,
               .puzzle_learning_rate = options.puzzle_learning_rate,
               .puzzle_weight_decay = options.puzzle_weight_decay,
               .ema_decay = options.ema_decay}),
        reasoner_(model_),
        bar_(options.progress) {}

  TrainResult run();

 private:
  static std::shared_ptr<Hrm> seeded_model(const TrainOptions& options) {
    manual_seed(options.seed);
    return std::make_shared<Hrm>(options.model);
  }

  void resume();
  void save_checkpoint();
  void log_line();
  void evaluate();
  void write_model();
  void write_files();
  double share_done() const;
  double rate() const;
  void show();

  const TrainOptions& options_;
  std::shared_ptr<const ExampleSource> source_;
  const Evaluate& evaluate_;
  std::shared_ptr<Hrm> model_;
  TrainingStep step_;
  Reasoner reasoner_;
  ProgressBar bar_;

  Clock::time_point begun_ = Clock::now();
  std::int64_t now_ = 0, resumed_from_ = 0, saved_ = -1, evaluated_ = -1;
  double seconds_before_ = 0;      // of the run, before this call
  double share_before_ = 0;        // of the run that was done then
  double steady_since_ = -1;       // seconds of this call until the first step, which compiles, was over
  double evaluation_seconds_ = 0;  // what an evaluation takes
  Clock::time_point saved_at_ = Clock::now(), logged_at_ = Clock::now();
  std::int64_t logged_ = 0;
  bool stopped_ = false;  // by on_line
  std::vector<TrainLine> lines_;
  std::vector<EvaluationLine> evaluations_;
};

// The share of the run that is behind us, by steps or by the clock, whichever is further.
double Run::share_done() const {
  double share = 0;
  if (options_.steps > 0) share = static_cast<double>(now_) / static_cast<double>(options_.steps);
  if (options_.minutes > 0) {
    const double limit = options_.minutes * 60 - evaluation_seconds_ - steady_since_;
    const double passed =
        steady_since_ < 0 ? 0 : (seconds_since(begun_) - steady_since_) / std::max(limit, 1.0);
    share = std::max(share, share_before_ + (1 - share_before_) * passed);
  }
  return std::min(share, 1.0);
}

double Run::rate() const {
  const double warm =
      std::min(1.0, static_cast<double>(now_ + 1) / (static_cast<double>(options_.warmup) + 1));
  const double cosine = 0.5 * (1 + std::cos(std::acos(-1.0) * share_done()));
  return warm * (options_.last_rate + (1 - options_.last_rate) * cosine);
}

void Run::show() {
  ProgressBar::Figures figures;
  std::string pace;
  if (!lines_.empty()) {
    const TrainLine& line = lines_.back();
    figures = {{"loss", fmt::format("{:.4f}", line.loss)},
               {"exact", fmt::format("{:.1f} %", line.exact * 100)},
               {"segments", fmt::format("{:.1f}", line.segments)}};
    pace = fmt::format("{:.2f} steps/s {}/s", line.steps_per_second,
                       format_count(line.steps_per_second * static_cast<double>(options_.batch)));
  }
  if (options_.minutes > 0)
    figures.emplace_back("left",
                         format_duration(std::max(0.0, options_.minutes * 60 - seconds_since(begun_))));
  bar_.update(now_, figures, pace);
}

void Run::log_line() {
  const StepSums sums = step_.read_sums();
  if (sums.steps == 0) return;
  if (!std::isfinite(sums.loss)) {
    std::string text =
        fmt::format("[hrm train] the loss is {} at one of the steps {} to {}", sums.loss, logged_ + 1, now_);
    text += "; a lower learning rate may help";
    const auto paths = train::list_checkpoints(options_.folder);
    if (!paths.empty()) text += fmt::format("; the last good checkpoint is {}", paths.back().string());
    throw train::NonFiniteLoss(text, now_);
  }
  const double ended = std::max(sums.halted, 1.0);
  const double steps = static_cast<double>(now_ - std::max(logged_, resumed_from_));
  lines_.push_back({.step = now_,
                    .seconds = seconds_before_ + seconds_since(begun_),
                    .loss = sums.loss / sums.steps,
                    .token_loss = sums.token_loss / sums.steps,
                    .accuracy = sums.accuracy / ended,
                    .exact = sums.exact / ended,
                    .q_accuracy = sums.q_right / ended,
                    .segments = sums.segments / ended,
                    .rate = options_.learning_rate * rate(),
                    .steps_per_second = steps / std::max(seconds_since(logged_at_), 1e-9)});
  logged_ = now_;
  logged_at_ = Clock::now();
  if (options_.on_line && !options_.on_line(lines_.back())) stopped_ = true;
}

void Run::evaluate() {
  if (evaluated_ == now_) return;
  const auto start = Clock::now();
  if (step_.ema()) step_.ema()->apply();
  if (evaluate_) {
    evaluations_.push_back({now_, evaluate_(reasoner_)});
    std::string text = fmt::format("step {}", now_);
    for (const auto& [name, value] : evaluations_.back().figures)
      text += fmt::format("  {} {:.1f} %", name, value * 100);
    bar_.line(text);
  }
  write_model();
  if (step_.ema()) step_.ema()->restore();
  evaluated_ = now_;
  evaluation_seconds_ = seconds_since(start);
  logged_at_ += Clock::now() - start;  // the pace is that of the steps
}

void Run::write_model() {
  if (options_.folder.empty()) return;
  save_model(options_.folder / "model.safetensors", *model_, DType::bf16, {{"steps", std::to_string(now_)}});
}

void Run::write_files() {
  if (options_.folder.empty()) return;
  write_atomically(options_.folder / "log.csv", log_csv(lines_));
  write_atomically(options_.folder / "evaluations.csv", evaluation_csv(evaluations_));
  write_atomically(options_.folder / "progress.svg", picture(lines_, evaluations_));
}

void Run::save_checkpoint() {
  if (options_.folder.empty() || saved_ == now_) return;
  if (!step_.is_finite())
    throw train::NonFiniteLoss(
        fmt::format(
            "[hrm train] a loss or weight is not finite at step {}; a lower learning rate may help. No "
            "checkpoint was written",
            now_),
        now_);
  train::Checkpoint checkpoint;
  checkpoint.tensors = step_.state_dict();
  const Generator::State random = default_generator().state();
  checkpoint.counters = {{"kind", "hrm"},
                         {"options", fingerprint(options_)},
                         {"step", now_},
                         {"seconds", seconds_before_ + seconds_since(begun_)},
                         {"share", share_done()},
                         {"logged", logged_},
                         {"evaluated", evaluated_},
                         {"random_seed", random.seed},
                         {"random_offset", random.offset},
                         {"lines", lines_},
                         {"evaluations", to_json(evaluations_)}};
  train::write_checkpoint(train::checkpoint_path(options_.folder, now_), checkpoint);
  train::remove_old_checkpoints(options_.folder, options_.keep_checkpoints, -1);
  saved_ = now_;
  saved_at_ = Clock::now();
}

void Run::resume() {
  if (options_.folder.empty()) return;
  const auto paths = train::list_checkpoints(options_.folder);
  if (options_.resume == train::Resume::never) {
    if (!paths.empty())
      throw ValueError(
          fmt::format("[hrm train] {} has checkpoints of another run: resume it, or give another folder",
                      options_.folder.string()));
    return;
  }
  for (auto path = paths.rbegin(); path != paths.rend(); ++path) {
    train::Checkpoint checkpoint;
    try {
      checkpoint = train::read_checkpoint(*path);
    } catch (const FormatError& error) {
      bar_.line(fmt::format("damaged checkpoint passed over: {}", error.what()));
      continue;
    }
    const auto& counters = checkpoint.counters;
    if (counters.value("kind", "") != "hrm")
      throw ValueError(
          fmt::format("[hrm train] {} is not a checkpoint of a reasoning model", path->string()));
    if (const auto mine = fingerprint(options_); counters["options"] != mine) {
      throw ValueError(fmt::format("[hrm train] {} was written with other options: {}", path->string(),
                                   difference(counters["options"], mine)));
    }
    step_.load_state_dict(checkpoint.tensors);
    default_generator().set_state({counters["random_seed"], counters["random_offset"]});
    now_ = resumed_from_ = saved_ = counters["step"];
    seconds_before_ = counters["seconds"];
    share_before_ = counters["share"];
    logged_ = counters["logged"];
    evaluated_ = counters["evaluated"];
    lines_ = counters["lines"].get<std::vector<TrainLine>>();
    evaluations_ = evaluations_from(counters["evaluations"]);
    bar_.line(fmt::format("resumed from {}", path->string()));
    return;
  }
  if (options_.resume == train::Resume::required)
    throw FileError(fmt::format("no checkpoint to resume from in {}", options_.folder.string()));
}

TrainResult Run::run() {
  if (!options_.folder.empty()) std::filesystem::create_directories(options_.folder);
  resume();
  const train::InterruptGuard interrupt(true);
  bar_.begin("training", options_.steps, now_);
  ExampleStream stream(source_, options_.batch, options_.model.length, now_);
  logged_at_ = Clock::now();
  std::optional<train::Ending> ending;
  while (!ending) {
    if (share_done() >= 1) ending = train::Ending::finished;
    if (stopped_) ending = train::Ending::stopped;
    if (interrupt.requested()) ending = train::Ending::interrupted;
    if (ending) break;
    step_.run(stream.next(), rate());
    ++now_;
    if (steady_since_ < 0) {
      step_.is_finite();  // waits for the first step
      steady_since_ = seconds_since(begun_);
      logged_at_ = Clock::now();
    }
    if (now_ % options_.log_every == 0) log_line();
    show();
    if (options_.evaluate_every > 0 && now_ % options_.evaluate_every == 0) {
      evaluate();
      write_files();
    }
    if (seconds_since(saved_at_) > options_.checkpoint_minutes * 60) {
      save_checkpoint();
      write_files();
    }
  }
  if (*ending == train::Ending::finished) {
    log_line();
    save_checkpoint();  // what comes now may take its time, or be given up
    evaluate();
    saved_ = -1;  // and once more, with its figures
  } else {
    save_checkpoint();  // refuses what is not finite
    if (step_.ema()) step_.ema()->apply();
    write_model();
    if (step_.ema()) step_.ema()->restore();
  }
  save_checkpoint();
  write_files();
  bar_.clear();

  TrainResult result;
  result.ending = *ending;
  result.steps = now_;
  result.resumed_from = resumed_from_;
  result.seconds = seconds_since(begun_);
  result.lines = lines_;
  result.evaluations = evaluations_;
  if (step_.ema()) step_.ema()->apply();
  result.model = model_;
  return result;
}

}  // namespace

TrainResult train(const TrainOptions& options, std::shared_ptr<const ExampleSource> source,
                  const Evaluate& evaluate) {
  if (options.steps <= 0 && !(options.minutes > 0))
    throw ValueError("[hrm train] neither steps nor minutes limit the run");
  if (options.log_every < 1 || options.batch < 1 || options.warmup < 0)
    throw ValueError("[hrm train] log_every and batch must be positive, warmup must not be negative");
  if (!source) throw ValueError("[hrm train] there are no examples");
  return Run(options, std::move(source), evaluate).run();
}

}  // namespace hearth::hrm
