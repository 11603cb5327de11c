// Curves over the course of a training run, as an SVG picture.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hearth::train {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x ascending; what is not finite is left out
  bool marked = false;                            // with a dot at each point, for curves of few
};

struct CurvePlot {
  std::string title, x_label, y_label;
  std::vector<Curve> curves;
};

// Curves of many points are drawn by means of neighbours. An empty plot has axes only.
std::string to_svg(const CurvePlot& plot);

}  // namespace hearth::train
