// The record of times.
#include "device/profile.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/config_listeners.h"
#include "base/file.h"
#include "hearth/profile.h"

namespace hearth {
namespace {

// One step or region. Names are those of the summaries, which live until the profile is cleared.
struct Span {
  const std::string* name;
  bool region;
  int thread;
  std::int64_t begin, end;  // nanoseconds
};
constexpr std::size_t most_spans = 1'000'000;

struct Record {
  std::mutex mutex;
  Profile steps, regions;
  std::vector<Span> spans;
};

// Never destroyed: threads may end regions until the process does.
Record& record() {
  static auto& instance = *new Record;
  return instance;
}

int thread_number() {
  static std::atomic<int> threads = 0;
  thread_local const int number = ++threads;
  return number;
}

// Names of the regions that the thread is in, joined by slashes.
thread_local std::string region_path;

void add(Profile& profile, std::string_view name, bool region, std::int64_t begin, std::int64_t end) {
  auto it = profile.find(name);
  if (it == profile.end()) it = profile.emplace(name, ProfileEntry{}).first;
  ProfileEntry& entry = it->second;
  const double seconds = static_cast<double>(end - begin) * 1e-9;
  entry.shortest = entry.count == 0 ? seconds : std::min(entry.shortest, seconds);
  entry.longest = std::max(entry.longest, seconds);
  entry.total += seconds;
  ++entry.count;
  if (auto& spans = record().spans; spans.size() < most_spans)
    spans.push_back({&it->first, region, thread_number(), begin, end});
}

std::string row(const std::string& name, const ProfileEntry& entry) {
  return fmt::format("{:<40} {:>9} {:>12.3f} {:>12.4f} {:>12.4f}\n", name, entry.count, entry.total * 1e3,
                     entry.total * 1e3 / static_cast<double>(entry.count), entry.longest * 1e3);
}

std::string_view last_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

bool profiling_enabled() {
  static std::atomic<bool> enabled{false};
  static std::once_flag follow_configuration;
  std::call_once(follow_configuration, [] {
    on_config_change([](const Config& config) { enabled.store(config.enable_profiling); });
  });
  return enabled.load(std::memory_order_relaxed);
}

std::int64_t profile_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void record_step(std::string_view name, std::int64_t begin, std::int64_t end) {
  const std::lock_guard lock(record().mutex);
  add(record().steps, name, false, begin, end);
}

ProfileRegion::ProfileRegion(std::string_view name) {
  if (!profiling_enabled()) return;
  outer_length_ = region_path.size();
  if (!region_path.empty()) region_path += '/';
  region_path += name;
  begin_ = profile_clock();
}

ProfileRegion::~ProfileRegion() {
  if (begin_ < 0) return;
  const std::int64_t end = profile_clock();
  {
    const std::lock_guard lock(record().mutex);
    add(record().regions, region_path, true, begin_, end);
  }
  region_path.resize(outer_length_);
}

Profile profile_summary() {
  const std::lock_guard lock(record().mutex);
  return record().steps;
}

Profile profile_regions() {
  const std::lock_guard lock(record().mutex);
  return record().regions;
}

std::string profile_table() {
  const Profile regions = profile_regions(), steps = profile_summary();
  std::string text =
      fmt::format("{:<40} {:>9} {:>12} {:>12} {:>12}\n", "", "count", "total ms", "mean ms", "longest ms");
  std::vector<std::pair<std::string, ProfileEntry>> nested(regions.begin(), regions.end());
  // Each region before those within it, which come before its neighbours.
  std::sort(nested.begin(), nested.end(), [](const auto& a, const auto& b) {
    return std::lexicographical_compare(
        a.first.begin(), a.first.end(), b.first.begin(), b.first.end(),
        [](char x, char y) { return (x == '/' ? '\0' : x) < (y == '/' ? '\0' : y); });
  });
  for (const auto& [path, entry] : nested) {
    const auto depth = static_cast<std::size_t>(std::count(path.begin(), path.end(), '/'));
    text += row(std::string(2 * depth, ' ') + std::string(last_name(path)), entry);
  }
  std::vector<std::pair<std::string, ProfileEntry>> sorted(steps.begin(), steps.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.total > b.second.total; });
  for (const auto& [name, entry] : sorted) text += row("[" + name + "]", entry);
  return text;
}

void write_profile_trace(const std::filesystem::path& path) {
  nlohmann::json events = nlohmann::json::array();
  {
    const std::lock_guard lock(record().mutex);
    for (const Span& span : record().spans)
      events.push_back({{"name", span.region ? std::string(last_name(*span.name)) : *span.name},
                        {"cat", span.region ? "region" : "step"},
                        {"ph", "X"},
                        {"ts", static_cast<double>(span.begin) * 1e-3},  // microseconds
                        {"dur", static_cast<double>(span.end - span.begin) * 1e-3},
                        {"pid", getpid()},
                        {"tid", span.thread}});
  }
  const nlohmann::json trace{{"traceEvents", std::move(events)}, {"displayTimeUnit", "ms"}};
  write_atomically(path, trace.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void clear_profile() {
  const std::lock_guard lock(record().mutex);
  record().spans.clear();
  record().steps.clear();
  record().regions.clear();
}

}  // namespace hearth
