// A progress bar: redrawn in place on a terminal, occasional plain lines elsewhere (files, pipes, CI).
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hearth {

struct ProgressOptions {
  bool enabled = true;
  std::FILE* stream = stderr;
  // Whether to redraw in place; asks the stream when not given.
  std::optional<bool> terminal{};
  double redraw_seconds = 0.1;  // on a terminal
  double line_seconds = 15.0;   // between plain lines
};

class ProgressBar {
 public:
  // Shown after the count, in order: {"loss", "0.1234"}.
  using Figures = std::vector<std::pair<std::string, std::string>>;

  explicit ProgressBar(ProgressOptions options = {});
  // A bar that is still drawn is left on its line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Begins a task of `total` units (0: nobody knows), `done` of which were done before.
  void begin(std::string label, std::int64_t total, std::int64_t done = 0);
  void set_label(std::string label) { label_ = std::move(label); }
  // `rate`: what is worked through per second, with its unit, e.g. "5.2k/s"; empty for none.
  void update(std::int64_t done, const Figures& figures, const std::string& rate = {});
  // Removes the bar (on a terminal); nothing more is drawn until begin().
  void clear();
  // A line of text that stays, above the bar.
  void line(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  void draw();

  ProgressOptions options_;
  bool terminal_ = false, active_ = false, drawn_ = false;
  std::string label_, rate_;
  Figures figures_;
  std::int64_t total_ = 0, first_ = 0, done_ = 0;
  Clock::time_point begun_{}, last_{};
};

// The bar as text of at most `width` columns; what does not fit is left out, figures first. For ProgressBar.
struct ProgressView {
  std::string label;
  std::int64_t done = 0, total = 0;
  ProgressBar::Figures figures;
  std::string rate;
  std::optional<double> seconds_left;
};
std::string render_progress(const ProgressView& view, int width, bool unicode);

// "1:05", "2:03:04"
std::string format_duration(double seconds);
// "950", "12.3k", "4.56M"; then G and T
std::string format_count(double count);

}  // namespace hearth
