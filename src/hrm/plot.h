// Curves over steps as an SVG picture.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace hearth::hrm {

struct Curve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (step, value), by step
};
struct Panel {
  std::string title;
  std::vector<Curve> curves;
  bool shares = false;  // values lie in [0, 1] and are shown as percentages
};
// The panels below each other, with axes and a legend. Values that are not finite are left out.
std::string svg_plot(const std::string& title, const std::vector<Panel>& panels);

}  // namespace hearth::hrm
