// Frequencies of rotary positions.
#include "llm/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace hearth::llm {

std::vector<double> rope_frequencies(double base, std::int64_t size) {
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i + 1 < size; i += 2)
    frequencies.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(size)));
  return frequencies;
}

RopeConfig plain_rope(double base, std::int64_t size) {
  return {.frequencies = rope_frequencies(base, size), .base = base};
}

std::vector<double> divided(std::vector<double> frequencies, std::span<const double> factors) {
  for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] /= factors[i];
  return frequencies;
}

std::vector<double> divided(std::vector<double> frequencies, double factor) {
  for (double& frequency : frequencies) frequency /= factor;
  return frequencies;
}

std::vector<double> stretched(std::vector<double> frequencies, const Llama3Scaling& s) {
  for (double& frequency : frequencies) {
    const double turns = s.original_context * frequency / (2 * std::numbers::pi);  // in the original context
    const double kept = std::clamp(
        (turns - s.low_frequency_factor) / (s.high_frequency_factor - s.low_frequency_factor), 0.0, 1.0);
    frequency = kept * frequency + (1 - kept) * frequency / s.factor;
  }
  return frequencies;
}

std::vector<double> stretched(double base, std::int64_t size, const YarnScaling& s) {
  std::vector<double> frequencies = rope_frequencies(base, size);
  // The pair, as a fraction, that turns so many times in the original context.
  const auto pair_of = [&](double turns) {
    return static_cast<double>(size) * std::log(s.original_context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(base));
  };
  const double from = pair_of(s.fast), to = pair_of(s.slow);
  const double first = std::max(s.rounds ? std::floor(from) : from, 0.0);
  const double last = std::min(s.rounds ? std::ceil(to) : to, static_cast<double>(size - 1));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double divided_part =
        std::clamp((static_cast<double>(i) - first) / std::max(last - first, 1e-3), 0.0, 1.0);
    frequencies[i] = frequencies[i] * (1 - divided_part) + frequencies[i] / s.factor * divided_part;
  }
  return frequencies;
}

double yarn_scale(double factor, double slope) {
  return factor <= 1 ? 1.0 : 0.1 * slope * std::log(factor) + 1;
}

double longrope_scale(double factor, double original_context) {
  return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original_context));
}

}  // namespace hearth::llm
