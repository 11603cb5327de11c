// Curves as SVG.
#include "train/curve_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace hearth::train {
namespace {

constexpr double width = 800, height = 450, left = 70, right = 20, top = 40, bottom = 50;
constexpr std::size_t most_points = 800;
constexpr const char* colours[] = {"#1f6feb", "#d1242f", "#1a7f37", "#8250df", "#bf8700", "#57606a"};

using Points = std::vector<std::pair<double, double>>;

Points thinned(const Points& all) {
  Points finite;
  for (const auto& [x, y] : all)
    if (std::isfinite(x) && std::isfinite(y)) finite.emplace_back(x, y);
  const std::size_t group = (finite.size() + most_points - 1) / most_points;
  if (group <= 1) return finite;
  Points means;
  for (std::size_t begin = 0; begin < finite.size(); begin += group) {
    const std::size_t end = std::min(begin + group, finite.size());
    double sum = 0;
    for (std::size_t i = begin; i < end; ++i) sum += finite[i].second;
    means.emplace_back(finite[end - 1].first, sum / static_cast<double>(end - begin));
  }
  return means;
}

// A range of values, and the pixels it is drawn on.
struct Axis {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  double from = 0, to = 1;

  void include(double value) { low = std::min(low, value), high = std::max(high, value); }
  void settle() {
    if (!(low <= high)) low = 0, high = 1;
    // What differs by rounding alone is one value: ticks so fine would not move on from one to the next.
    const double size = std::max(std::abs(low), std::abs(high));
    if (high - low > 1e-9 * size) return;
    const double room = std::max(0.5, 1e-6 * size);
    low -= room, high += room;
  }
  double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
  // 1, 2 or 5 times a power of ten: between four and ten of them fit.
  double tick() const {
    const double power = std::pow(10.0, std::floor(std::log10((high - low) / 4)));
    for (const double factor : {5.0, 2.0})
      if (power * factor * 4 <= high - low) return power * factor;
    return power;
  }
};

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '<' ? "&lt;" : c == '&' ? "&amp;" : std::string(1, c);
  return result;
}

std::string text_at(double x, double y, const char* anchor, const std::string& text,
                    const std::string& more = {}) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(text));
}

std::string axes(const CurvePlot& plot, const Axis& x, const Axis& y) {
  std::string svg;
  const auto label = [](double value, double tick) {
    return std::abs(value) < tick / 2 ? std::string("0") : fmt::format("{:.6g}", value);
  };
  for (double value = std::ceil(x.low / x.tick()) * x.tick(); value <= x.high; value += x.tick())
    svg += text_at(x.at(value), height - bottom + 18, "middle", label(value, x.tick()));
  for (double value = std::ceil(y.low / y.tick()) * y.tick(); value <= y.high; value += y.tick()) {
    svg += fmt::format("<path d=\"M{:.1f} {:.1f}H{:.1f}\" stroke=\"#d0d7de\"/>\n", x.from, y.at(value), x.to);
    svg += text_at(left - 8, y.at(value) + 4, "end", label(value, y.tick()));
  }
  svg += fmt::format("<path d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\" fill=\"none\" stroke=\"#24292f\"/>\n", x.from,
                     top, height - bottom, x.to);
  svg += text_at((x.from + x.to) / 2, height - 12, "middle", plot.x_label);
  svg += text_at(18, (y.from + y.to) / 2, "middle", plot.y_label,
                 fmt::format(" transform=\"rotate(-90 18 {:.1f})\"", (y.from + y.to) / 2));
  return svg + text_at(width / 2, 24, "middle", plot.title, " font-size=\"16\"");
}

}  // namespace

std::string to_svg(const CurvePlot& plot) {
  Axis x{.from = left, .to = width - right}, y{.from = height - bottom, .to = top};
  std::vector<Points> drawn;
  for (const Curve& curve : plot.curves) {
    drawn.push_back(thinned(curve.points));
    for (const auto& [px, py] : drawn.back()) x.include(px), y.include(py);
  }
  x.settle();
  y.settle();
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" height=\"{1}\" "
      "font-family=\"sans-serif\" font-size=\"12\" fill=\"#24292f\">\n<rect width=\"{0}\" height=\"{1}\" "
      "fill=\"#ffffff\"/>\n",
      width, height);
  svg += axes(plot, x, y);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const char* colour = colours[i % std::size(colours)];
    std::string path, dots;
    for (const auto& [px, py] : drawn[i]) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x.at(px), y.at(py));
      if (plot.curves[i].marked)
        dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>\n", x.at(px), y.at(py),
                            colour);
    }
    if (!path.empty())
      svg += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>\n", path, colour);
    svg += dots;
    svg += text_at(width - right - 8, top + 16 + 16 * static_cast<double>(i), "end", plot.curves[i].name,
                   fmt::format(" fill=\"{}\"", colour));
  }
  return svg + "</svg>\n";
}

}  // namespace hearth::train
