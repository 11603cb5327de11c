// Where the time goes. Recorded while Config::enable_profiling is set; safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace hearth {

struct ProfileEntry {  // seconds
  std::uint64_t count = 0;
  double total = 0, shortest = 0, longest = 0;
};

// While one lives, time counts as spent in a region of this name. Regions nest, each in those that the same
// thread has begun before. Tensors are lazy: the time of a computation counts where it is evaluated.
//
//   { ProfileRegion region("forward"); loss = model(x).eval(); }
class ProfileRegion {
 public:
  explicit ProfileRegion(std::string_view name);
  ~ProfileRegion();
  ProfileRegion(const ProfileRegion&) = delete;
  ProfileRegion& operator=(const ProfileRegion&) = delete;

 private:
  std::int64_t begin_ = -1;       // nanoseconds; -1: nothing is recorded
  std::size_t outer_length_ = 0;  // of the names of the regions around it
};

using Profile = std::map<std::string, ProfileEntry, std::less<>>;
// Per kind of step: "matmul", "elementwise", "sum", ...
Profile profile_summary();
// Per region, with those around it: "epoch", "epoch/forward". Times include those of regions within.
Profile profile_regions();
// Both as a table for people.
std::string profile_table();
// All steps and regions one by one, for chrome://tracing and ui.perfetto.dev; at most a million, the first
// ones. Throws FileError.
void write_profile_trace(const std::filesystem::path& path);
void clear_profile();

}  // namespace hearth
