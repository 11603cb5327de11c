// Rows that a kernel has rounded for the product behind it, as a test reads them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

namespace hearth {

// Rows as they are stored: bytes, then a scale and a sum of squares for each run.
struct Rounded {
  std::vector<std::int8_t> bytes;
  std::vector<float> scales, squares;
  std::size_t run = 0;

  Rounded(const std::uint8_t* stored, std::size_t elements, std::size_t neighbours)
      : bytes(elements), run(neighbours) {
    std::memcpy(bytes.data(), stored, elements);
    for (std::size_t i = 0; i < elements / run; ++i) {
      float note[2];
      std::memcpy(note, stored + elements + i * sizeof note, sizeof note);
      scales.push_back(note[0]);
      squares.push_back(note[1]);
    }
  }
  float number(std::size_t i) const { return static_cast<float>(bytes[i]) * scales[i / run]; }

  // Of these numbers, each multiplied with a factor.
  void expect_of(const std::vector<float>& numbers, const std::vector<float>& factors) const {
    ASSERT_EQ(bytes.size(), numbers.size());
    for (std::size_t r = 0; r < scales.size(); ++r) {
      float most = 0;
      double sum = 0;
      bool finite = true;
      for (std::size_t i = r * run; i < (r + 1) * run; ++i) {
        finite = finite && std::isfinite(numbers[i]);
        most = std::max(most, std::abs(numbers[i] * factors[i]));
        sum += static_cast<double>(numbers[i]) * static_cast<double>(numbers[i]);
      }
      if (!finite) {
        EXPECT_TRUE(std::isnan(scales[r])) << "run " << r;
        continue;
      }
      EXPECT_NEAR(scales[r], most / 127, 1e-6 * static_cast<double>(most)) << "run " << r;
      EXPECT_NEAR(squares[r], sum, 1e-5 * sum) << "run " << r;
      for (std::size_t i = r * run; i < (r + 1) * run; ++i)
        EXPECT_NEAR(number(i), numbers[i] * factors[i], 0.501 * static_cast<double>(scales[r])) << i;
    }
  }
};

}  // namespace hearth
