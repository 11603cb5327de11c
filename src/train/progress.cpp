// The progress bar.
#include "hearth/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "base/say.h"

namespace hearth {
namespace {

int terminal_width(std::FILE* stream) {
  winsize size{};
  if (ioctl(fileno(stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

bool locale_is_unicode() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(variable);
    if (value == nullptr || *value == 0) continue;
    const std::string_view name(value);
    return name.find("UTF-8") != name.npos || name.find("utf8") != name.npos;
  }
  return false;
}

std::string bar_of(double share, int columns, bool unicode) {
  const int filled = static_cast<int>(std::clamp(share, 0.0, 1.0) * columns);
  std::string bar;
  for (int i = 0; i < columns; ++i) {
    if (unicode)
      bar += i < filled ? "█" : "░";
    else
      bar += i < filled ? '#' : '.';
  }
  return bar;
}

}  // namespace

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  if (whole >= 3600) return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

std::string format_count(double count) {
  // From where three digits round up to 1 of the unit on.
  for (const auto& [unit, name] : {std::pair{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}})
    if (count >= 0.9995 * unit) return fmt::format("{:.3g}{}", count / unit, name);
  return fmt::format("{:.3g}", count);
}

namespace {

std::string count_of(const ProgressView& view) {
  return view.total > 0 ? fmt::format("{}/{}", view.done, view.total) : fmt::format("{}", view.done);
}

}  // namespace

std::string render_progress(const ProgressView& view, int width, bool unicode) {
  const double share = view.total > 0 ? static_cast<double>(view.done) / static_cast<double>(view.total) : 0;
  std::string head = view.label.empty() ? "" : view.label + ' ';
  std::string tail = (view.total > 0 ? " " : "") + count_of(view);
  const int room = width - static_cast<int>(head.size() + tail.size());
  std::string figures;
  const auto add = [&](const std::string& text) {
    if (room - static_cast<int>(figures.size() + text.size()) >= 12) figures += text;
  };
  if (view.seconds_left) add(fmt::format("  {} left", format_duration(*view.seconds_left)));
  std::string left = std::exchange(figures, {});
  const auto used = left.size();
  figures = std::string(used, ' ');  // room for the time left, which stands last
  for (const auto& [name, value] : view.figures) add(fmt::format("  {} {}", name, value));
  if (!view.rate.empty()) add("  " + view.rate);
  figures.erase(0, used);
  const int columns = view.total > 0 ? std::clamp(room - static_cast<int>(figures.size() + used), 0, 30) : 0;
  return head + bar_of(share, columns, unicode) + tail + figures + left;
}

ProgressBar::ProgressBar(ProgressOptions options) : options_(options) {
  const char* const kind = std::getenv("TERM");
  const bool draws = kind == nullptr || std::string_view(kind) != "dumb";
  terminal_ = options_.terminal.value_or(draws && isatty(fileno(options_.stream)) == 1);
}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fputc('\n', options_.stream);
}

void ProgressBar::begin(std::string label, std::int64_t total, std::int64_t done) {
  label_ = std::move(label);
  total_ = total;
  first_ = done_ = done;
  figures_.clear();
  rate_.clear();
  begun_ = last_ = Clock::now();
  active_ = true;
}

void ProgressBar::update(std::int64_t done, const Figures& figures, const std::string& rate) {
  if (!options_.enabled || !active_) return;
  done_ = done;
  const auto now = Clock::now();
  const double interval = terminal_ ? options_.redraw_seconds : options_.line_seconds;
  if (std::chrono::duration<double>(now - last_).count() < interval) return;
  figures_ = figures;
  rate_ = rate;
  last_ = now;
  draw();
}

void ProgressBar::draw() {
  ProgressView view{label_, done_, total_, figures_, rate_, {}};
  const double seconds = std::chrono::duration<double>(last_ - begun_).count();
  if (done_ > first_ && total_ > 0)
    view.seconds_left = seconds * static_cast<double>(total_ - done_) / static_cast<double>(done_ - first_);
  if (terminal_) {
    // Return, draw, erase what the line before had more.
    static const bool unicode = locale_is_unicode();
    say_to(options_.stream,
           "\r" + render_progress(view, terminal_width(options_.stream) - 1, unicode) + "\x1b[K");
    drawn_ = true;
  } else {
    std::string text = view.label + ' ' + count_of(view);
    for (const auto& [name, value] : view.figures) text += fmt::format("  {} {}", name, value);
    if (!view.rate.empty()) text += "  " + view.rate;
    if (view.seconds_left) text += fmt::format("  {} left", format_duration(*view.seconds_left));
    say_to(options_.stream, text + "\n");
  }
  std::fflush(options_.stream);
}

void ProgressBar::clear() {
  if (drawn_) std::fputs("\r\x1b[K", options_.stream);
  std::fflush(options_.stream);
  drawn_ = active_ = false;
}

void ProgressBar::line(const std::string& text) {
  if (!options_.enabled) return;
  if (drawn_) std::fputs("\r\x1b[K", options_.stream);
  say_to(options_.stream, text + "\n");
  std::fflush(options_.stream);
  drawn_ = false;
}

}  // namespace hearth
