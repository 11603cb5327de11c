// Measuring how long things take.
#pragma once

#include <algorithm>
#include <vector>

#include "base/clock.h"

namespace hearth::cli {

// Of at least one value; the larger of the two in the middle of an even number.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace hearth::cli
