// Loops written for one benchmark each, as a yardstick: what a compiler makes of the bare arithmetic on this
// machine. All work on f32, dense, on all threads.
#pragma once

#include <cstdint>

namespace hearth::bench::by_hand {

// out = max(|(x * 0.5 + y) * x| - 0.25, 0)
void chain(const float* x, const float* y, float* out, std::int64_t n);
void softmax(const float* x, float* out, std::int64_t rows, std::int64_t columns);
void layer_norm(const float* x, const float* weight, const float* bias, float* out, std::int64_t rows,
                std::int64_t columns);
void sum_last_axis(const float* x, float* out, std::int64_t rows, std::int64_t columns);
void sum_first_axis(const float* x, float* out, std::int64_t rows, std::int64_t columns);

}  // namespace hearth::bench::by_hand
