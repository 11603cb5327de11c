// The picture: panels of one size, axes with round numbers, one polyline per curve.
#include "hrm/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace hearth::hrm {
namespace {

constexpr double width = 860, left_margin = 64, right_margin = 170, panel_height = 220, gap = 58, top = 40;
constexpr std::array colours{"#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b"};

struct Range {
  double low = 0, high = 1;
  double share(double value) const { return (value - low) / (high - low); }
};

// About five round numbers that cover a range.
std::vector<double> ticks(const Range& range) {
  const double rough = (range.high - range.low) / 5;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {5.0, 2.0, 1.0})
    if (factor * power >= rough) step = factor * power;
  std::vector<double> result;
  for (double at = std::ceil(range.low / step - 1e-9) * step; at <= range.high + step * 1e-9; at += step)
    result.push_back(std::abs(at) < step * 1e-9 ? 0 : at);
  return result;
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text)
    result += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

// The range of all finite values of one coordinate, a little widened; of [0, 1] if there are none.
template <typename Coordinate>
Range range_of(const std::vector<Curve>& curves, Coordinate coordinate) {
  Range range{INFINITY, -INFINITY};
  for (const Curve& curve : curves)
    for (const auto& point : curve.points)
      if (const double value = coordinate(point); std::isfinite(value)) {
        range.low = std::min(range.low, value);
        range.high = std::max(range.high, value);
      }
  if (!(range.low <= range.high)) return {};
  if (range.low == range.high) range.high = range.low + 1;
  return range;
}

void draw_panel(std::string& svg, const Panel& panel, double y0) {
  const double plot_width = width - left_margin - right_margin;
  Range steps = range_of(panel.curves, [](const auto& p) { return p.first; });
  steps.low = std::min(steps.low, 0.0);
  Range values{0, 1};
  if (!panel.shares) {
    values = range_of(panel.curves, [](const auto& p) { return p.second; });
    values.low = std::min(values.low, 0.0);
  }
  const auto x_at = [&](double step) { return left_margin + steps.share(step) * plot_width; };
  const auto y_at = [&](double value) { return y0 + (1 - values.share(value)) * panel_height; };

  svg += fmt::format("<text x='{}' y='{}' font-weight='bold'>{}</text>\n", left_margin, y0 - 10,
                     escaped(panel.title));
  svg += fmt::format("<rect x='{}' y='{}' width='{}' height='{}' fill='none' stroke='#999'/>\n", left_margin,
                     y0, plot_width, panel_height);
  for (const double tick : ticks(values)) {
    svg += fmt::format("<line x1='{}' y1='{:.1f}' x2='{}' y2='{:.1f}' stroke='#ddd'/>\n", left_margin,
                       y_at(tick), left_margin + plot_width, y_at(tick));
    svg +=
        fmt::format("<text x='{}' y='{:.1f}' text-anchor='end'>{}</text>\n", left_margin - 6, y_at(tick) + 4,
                    panel.shares ? fmt::format("{:.0f} %", tick * 100) : fmt::format("{:g}", tick));
  }
  for (const double tick : ticks(steps))
    svg += fmt::format("<text x='{:.1f}' y='{}' text-anchor='middle'>{:g}</text>\n", x_at(tick),
                       y0 + panel_height + 16, tick);
  for (std::size_t i = 0; i < panel.curves.size(); ++i) {
    const Curve& curve = panel.curves[i];
    const char* colour = colours[i % colours.size()];
    std::string points;
    for (const auto& [step, value] : curve.points)
      if (std::isfinite(value)) points += fmt::format("{:.1f},{:.1f} ", x_at(step), y_at(value));
    svg +=
        fmt::format("<polyline points='{}' fill='none' stroke='{}' stroke-width='1.5'/>\n", points, colour);
    const double y = y0 + 14 + 18 * static_cast<double>(i);
    svg += fmt::format("<text x='{}' y='{}' fill='{}'>{}</text>\n", width - right_margin + 10, y, colour,
                       escaped(curve.name));
  }
}

}  // namespace

std::string svg_plot(const std::string& title, const std::vector<Panel>& panels) {
  const double height = top + (panel_height + gap) * static_cast<double>(panels.size());
  std::string svg = fmt::format(
      "<svg xmlns='http://www.w3.org/2000/svg' width='{0}' height='{1}' viewBox='0 0 {0} {1}' "
      "font-family='sans-serif' font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n"
      "<text x='{2}' y='20' font-size='15'>{3}</text>\n",
      width, height, left_margin, escaped(title));
  for (std::size_t i = 0; i < panels.size(); ++i)
    draw_panel(svg, panels[i], top + 20 + (panel_height + gap) * static_cast<double>(i));
  return svg + "</svg>\n";
}

}  // namespace hearth::hrm
