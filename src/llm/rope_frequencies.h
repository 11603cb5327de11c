// The frequencies of rotary positions, and how models stretch them to longer contexts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "hearth/llm.h"

namespace hearth::llm {

// base ^ (-2 i / size) for each of the size / 2 pairs.
std::vector<double> rope_frequencies(double base, std::int64_t size);

RopeConfig plain_rope(double base, std::int64_t size);

// Each divided by its factor, of which there are as many.
std::vector<double> divided(std::vector<double> frequencies, std::span<const double> factors);
std::vector<double> divided(std::vector<double> frequencies, double factor);

// Llama 3: pairs that turn fast stay, slow ones are divided by the factor, those between get some of both.
struct Llama3Scaling {
  double factor, low_frequency_factor, high_frequency_factor, original_context;
};
std::vector<double> stretched(std::vector<double> frequencies, const Llama3Scaling& scaling);

std::vector<double> stretched(double base, std::int64_t size, const YarnScaling& scaling);
// What YaRN multiplies turned features by.
double yarn_scale(double factor, double slope = 1);
// ... and LongRoPE.
double longrope_scale(double factor, double original_context);

}  // namespace hearth::llm
