// Where the time goes. Recorded while Config::enable_profiling is set; safe from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace hearth {

struct ProfileEntry {  // seconds
  std::uint64_t count = 0;
  double total = 0, shortest = 0, longest = 0;
};

// Per kind of step: "matmul", "copy" (elementwise), "sum", ...
std::map<std::string, ProfileEntry, std::less<>> profile_summary();
void clear_profile();

}  // namespace hearth
