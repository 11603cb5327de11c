// What a run says of itself: progress, log.csv, curve.svg, samples.txt.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "hearth/train.h"

namespace hearth::lm {

struct TrainingLogOptions {
  std::filesystem::path folder;
  ProgressOptions progress;
  std::int64_t steps = 0;  // planned
  std::int64_t tokens_per_step = 0;
  double flops_per_token = 0;
  std::optional<double> matmul_tflops;
  std::int64_t line_steps = 10;                        // mean of so many steps for a line of the log
  double minutes = 0;                                  // stops the trainer after so long; 0: never
  std::vector<std::string> sources;                    // by name; those with a validation loss of their own
  std::function<std::vector<double>()> source_losses;  // with the present weights
  std::function<std::string()> sample;                 // text made with the present weights; may be empty
};

class TrainingLog : public train::Callback {
 public:
  explicit TrainingLog(TrainingLogOptions options);

  void on_begin(train::Trainer& trainer) override;
  void on_step(train::Trainer& trainer, std::int64_t step, double loss) override;
  void on_record(train::Trainer& trainer, const train::Record& record) override;
  void on_checkpoint(train::Trainer& trainer, const std::filesystem::path& path) override;
  void on_end(train::Trainer& trainer, const train::Result& result) override;

  // While training, without evaluation and without the first steps, which compile. 0 before.
  double tokens_per_second() const;
  double tflops() const { return tokens_per_second() * options_.flops_per_token * 1e-12; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Line {
    std::int64_t step;
    double loss, learning_rate, tokens_per_second;
    std::optional<double> validation_loss;
    std::vector<double> source_losses;  // where there is a validation loss
  };
  void add_line(std::int64_t step, double learning_rate);
  std::vector<std::string> columns() const;
  void read_lines(std::int64_t up_to);
  void write_lines() const;
  void draw() const;

  TrainingLogOptions options_;
  ProgressBar bar_;
  std::vector<Line> lines_;
  std::int64_t first_step_ = 0, pending_steps_ = 0;
  double pending_loss_ = 0;
  Clock::time_point begun_{}, last_{};
  double seconds_ = 0, tokens_ = 0;
};

}  // namespace hearth::lm
