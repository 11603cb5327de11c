// The record of step times.
#include "device/profile.h"

#include <algorithm>
#include <mutex>

#include "hearth/config.h"
#include "hearth/profile.h"

namespace hearth {
namespace {

std::mutex mutex;
std::map<std::string, ProfileEntry, std::less<>> entries;

}  // namespace

bool profiling_enabled() { return config().enable_profiling; }

void record_step(std::string_view name, double seconds) {
  std::lock_guard lock(mutex);
  auto it = entries.find(name);
  if (it == entries.end()) it = entries.emplace(name, ProfileEntry{}).first;
  ProfileEntry& entry = it->second;
  entry.shortest = entry.count == 0 ? seconds : std::min(entry.shortest, seconds);
  entry.longest = std::max(entry.longest, seconds);
  entry.total += seconds;
  ++entry.count;
}

std::map<std::string, ProfileEntry, std::less<>> profile_summary() {
  std::lock_guard lock(mutex);
  return entries;
}

void clear_profile() {
  std::lock_guard lock(mutex);
  entries.clear();
}

}  // namespace hearth
