// The log of a run.
#include "lm/training_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <fstream>
#include <utility>

#include "base/file.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "train/curve_plot.h"

namespace hearth::lm {
namespace {

double seconds_between(std::chrono::steady_clock::time_point a, std::chrono::steady_clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

}  // namespace

TrainingLog::TrainingLog(TrainingLogOptions options)
    : options_(std::move(options)), bar_(options_.progress) {}

// Losses come several at a time: in a moment there may be many steps.
double TrainingLog::tokens_per_second() const {
  constexpr double enough = 1;
  return seconds_ >= enough ? tokens_ / seconds_ : 0;
}

std::vector<std::string> TrainingLog::columns() const {
  std::vector<std::string> names{"step",           "tokens", "loss", "learning_rate", "tokens_per_second",
                                 "validation_loss"};
  for (std::string source : options_.sources) {
    for (char& c : source)
      if (c == ',' || c == '"' || c == '\n' || c == '\r') c = ' ';  // no quotes in our own table
    names.push_back("validation_loss " + source);
  }
  return names;
}

// The lines of a run that is resumed, without those after its checkpoint.
void TrainingLog::read_lines(std::int64_t up_to) {
  const auto path = options_.folder / "log.csv";
  if (up_to == 0 || !std::filesystem::exists(path)) return;
  const CsvTable table(path, {.empty_is_nan = true});
  if (table.names() != columns()) throw FormatError(fmt::format("{}: the log of another run", path.string()));
  const auto values = table.numbers({}, DType::f64).to_vector<double>();
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const double* cell = values.data() + row * table.columns();
    if (cell[0] > static_cast<double>(up_to)) break;
    Line line{static_cast<std::int64_t>(cell[0]), cell[2], cell[3], cell[4], {}, {}};
    if (!std::isnan(cell[5])) {
      line.validation_loss = cell[5];
      line.source_losses.assign(cell + 6, cell + table.columns());
    }
    lines_.push_back(std::move(line));
  }
}

void TrainingLog::write_lines() const {
  std::string text = fmt::format("{}\n", fmt::join(columns(), ","));
  for (const Line& line : lines_) {
    text += fmt::format("{},{},{:.6f},{:.6g},{:.0f},", line.step, line.step * options_.tokens_per_step,
                        line.loss, line.learning_rate, line.tokens_per_second);
    if (line.validation_loss) text += fmt::format("{:.6f}", *line.validation_loss);
    for (std::size_t i = 0; i < options_.sources.size(); ++i)
      text += i < line.source_losses.size() ? fmt::format(",{:.6f}", line.source_losses[i]) : ",";
    text += '\n';
  }
  write_atomically(options_.folder / "log.csv", text);
}

void TrainingLog::draw() const {
  std::vector<train::Curve> curves{{"training", {}, false}, {"validation", {}, true}};
  for (const std::string& source : options_.sources) curves.push_back({"validation, " + source, {}, true});
  for (const Line& line : lines_) {
    const double millions = static_cast<double>(line.step * options_.tokens_per_step) * 1e-6;
    curves[0].points.emplace_back(millions, line.loss);
    if (line.validation_loss) curves[1].points.emplace_back(millions, *line.validation_loss);
    for (std::size_t i = 0; i < line.source_losses.size(); ++i)
      curves[2 + i].points.emplace_back(millions, line.source_losses[i]);
  }
  write_atomically(options_.folder / "curve.svg",
                   train::to_svg({"loss", "million tokens", "nats per token", std::move(curves)}));
}

// The steps since the last line as one.
void TrainingLog::add_line(std::int64_t step, double learning_rate) {
  if (pending_steps_ == 0) return;
  const double mean = std::exchange(pending_loss_, 0) / static_cast<double>(std::exchange(pending_steps_, 0));
  lines_.push_back({step, mean, learning_rate, tokens_per_second(), {}, {}});
  std::string rate = tokens_per_second() > 0 ? format_count(tokens_per_second()) + " tokens/s" : "";
  if (tflops() >= 1) rate += fmt::format("  {:.0f} TFLOP/s", tflops());
  if (tflops() >= 1 && options_.matmul_tflops)
    rate += fmt::format(" ({:.0f} % of a product)", 100 * tflops() / *options_.matmul_tflops);
  bar_.update(step, {{"loss", fmt::format("{:.4f}", mean)}}, rate);
}

void TrainingLog::on_begin(train::Trainer& trainer) {
  first_step_ = trainer.step();
  read_lines(first_step_);
  if (first_step_ > 0) bar_.line(fmt::format("resumed at step {}", first_step_));
  bar_.begin("training", options_.steps, first_step_);
  begun_ = last_ = Clock::now();
}

void TrainingLog::on_step(train::Trainer& trainer, std::int64_t step, double loss) {
  const auto now = Clock::now();
  if (step > first_step_ + options_.line_steps) {
    seconds_ += seconds_between(last_, now);
    tokens_ += static_cast<double>(options_.tokens_per_step);
  }
  last_ = now;
  pending_loss_ += loss;
  ++pending_steps_;
  if (step % options_.line_steps == 0) add_line(step, trainer.optimizer().learning_rate());
  if (options_.minutes > 0 && seconds_between(begun_, now) > options_.minutes * 60) trainer.stop();
}

void TrainingLog::on_record(train::Trainer&, const train::Record& record) {
  add_line(record.step, record.learning_rate);
  std::string text = fmt::format("step {}  {} tokens  loss {:.4f}", record.step,
                                 format_count(static_cast<double>(record.step * options_.tokens_per_step)),
                                 record.train_loss);
  if (record.evaluation && !lines_.empty()) {
    lines_.back().validation_loss = record.evaluation->loss;
    text += fmt::format("  validation loss {:.4f}", record.evaluation->loss);
    if (!options_.sources.empty()) lines_.back().source_losses = options_.source_losses();
    for (std::size_t i = 0; i < options_.sources.size(); ++i)
      text += fmt::format("  {} {:.4f}", options_.sources[i], lines_.back().source_losses[i]);
  }
  bar_.line(text);
  write_lines();
  draw();
  if (const std::string sample = options_.sample ? options_.sample() : ""; !sample.empty()) {
    std::ofstream(options_.folder / "samples.txt", std::ios::app)
        << fmt::format("---- step {}\n{}\n", record.step, sample);
    bar_.line(sample);
  }
  last_ = Clock::now();
}

void TrainingLog::on_checkpoint(train::Trainer&, const std::filesystem::path&) { last_ = Clock::now(); }

void TrainingLog::on_end(train::Trainer&, const train::Result&) {
  bar_.clear();
  write_lines();
  draw();
}

}  // namespace hearth::lm
