// Rendering of the synthetic digits.
#include "cli/synthetic_digits.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <vector>

namespace hearth::cli {
namespace {

constexpr int side = 28, font_width = 5, font_height = 7;

constexpr std::array<std::string_view, 10> font = {
    ".###."
    "#...#"
    "#..##"
    "#.#.#"
    "##..#"
    "#...#"
    ".###.",
    "..#.."
    ".##.."
    "..#.."
    "..#.."
    "..#.."
    "..#.."
    ".###.",
    ".###."
    "#...#"
    "....#"
    "..##."
    ".#..."
    "#...."
    "#####",
    "#####"
    "...#."
    "..#.."
    "...#."
    "....#"
    "#...#"
    ".###.",
    "...#."
    "..##."
    ".#.#."
    "#..#."
    "#####"
    "...#."
    "...#.",
    "#####"
    "#...."
    "####."
    "....#"
    "....#"
    "#...#"
    ".###.",
    "..##."
    ".#..."
    "#...."
    "####."
    "#...#"
    "#...#"
    ".###.",
    "#####"
    "....#"
    "...#."
    "..#.."
    ".#..."
    ".#..."
    ".#...",
    ".###."
    "#...#"
    "#...#"
    ".###."
    "#...#"
    "#...#"
    ".###.",
    ".###."
    "#...#"
    "#...#"
    ".####"
    "....#"
    "...#."
    ".##..",
};

// The glyph at a point in font units, interpolated between the centres of its cells.
double ink_at(std::string_view glyph, double x, double y) {
  const double left = std::floor(x - 0.5), top = std::floor(y - 0.5);
  const double right_share = x - 0.5 - left, bottom_share = y - 0.5 - top;
  const auto cell = [&](double column, double row) {
    if (column < 0 || column >= font_width || row < 0 || row >= font_height) return 0.0;
    return glyph[static_cast<std::size_t>(row) * font_width + static_cast<std::size_t>(column)] == '#' ? 1.0
                                                                                                       : 0.0;
  };
  return (1 - bottom_share) * ((1 - right_share) * cell(left, top) + right_share * cell(left + 1, top)) +
         bottom_share * ((1 - right_share) * cell(left, top + 1) + right_share * cell(left + 1, top + 1));
}

void render(std::string_view glyph, data::SampleRandom& random, std::uint8_t* image) {
  const auto between = [&](double low, double high) { return low + (high - low) * random.uniform(); };
  const double height = between(15, 22), width = between(10, 17);
  const double slant = between(-0.3, 0.3), turn = between(-0.25, 0.25);
  const double centre_x = side / 2.0 + between(-4, 4), centre_y = side / 2.0 + between(-3, 3);
  const double brightness = between(120, 255), noise = between(5, 45);
  const double weight = between(1.2, 2.2);  // of the strokes
  // One stray stroke of the pen in every other picture.
  const bool stroke = random.chance(0.5);
  const double stroke_x = between(0, side), stroke_y = between(0, side), stroke_angle = between(0, 3.14159);
  for (int row = 0; row < side; ++row) {
    for (int column = 0; column < side; ++column) {
      const double dx = column + 0.5 - centre_x, dy = row + 0.5 - centre_y;
      const double x = std::cos(turn) * dx + std::sin(turn) * dy + slant * dy;
      const double y = std::cos(turn) * dy - std::sin(turn) * dx;
      const double ink = ink_at(glyph, x / width * font_width + font_width / 2.0,
                                y / height * font_height + font_height / 2.0);
      double value = brightness * std::min(1.0, weight * ink);
      if (stroke) {
        const double along =
            (column - stroke_x) * std::cos(stroke_angle) + (row - stroke_y) * std::sin(stroke_angle);
        const double across =
            (row - stroke_y) * std::cos(stroke_angle) - (column - stroke_x) * std::sin(stroke_angle);
        if (std::abs(along) < 5 && std::abs(across) < 0.8) value = std::max(value, 0.8 * brightness);
      }
      value += noise * random.normal();
      image[row * side + column] = static_cast<std::uint8_t>(std::clamp(value, 0.0, 255.0));
    }
  }
}

}  // namespace

std::shared_ptr<data::TensorDataset> synthetic_digits(std::int64_t count, std::uint64_t seed) {
  std::vector<std::uint8_t> images(static_cast<std::size_t>(count) * side * side);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    data::SampleRandom random(data::combine_streams(seed, i));
    labels[i] = random.below(10);
    render(font[static_cast<std::size_t>(labels[i])], random, images.data() + i * side * side);
  }
  return std::make_shared<data::TensorDataset>(
      std::vector<Tensor>{tensor(images, Shape{count, 1, side, side}), tensor(labels, Shape{count})});
}

}  // namespace hearth::cli
