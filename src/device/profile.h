// Times of steps, when Config::enable_profiling is set.
#pragma once

#include <string_view>

namespace hearth {

bool profiling_enabled();
void record_step(std::string_view name, double seconds);

}  // namespace hearth
