// Times of steps, when Config::enable_profiling is set.
#pragma once

#include <cstdint>
#include <string_view>

namespace hearth {

bool profiling_enabled();

std::int64_t profile_clock();  // nanoseconds since some moment
void record_step(std::string_view name, std::int64_t begin, std::int64_t end);

}  // namespace hearth
