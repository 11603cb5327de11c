// Text or JSON of the counters of one launch.
#include "exec/statistics_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "exec/occupancy.h"

namespace hipemu {
namespace {

constexpr std::array unit_names = {"scalar", "vector",  "matrix", "scalar_memory", "global_memory",
                                   "lds",    "scratch", "branch", "wait",          "other"};
constexpr std::array space_names = {"global", "lds", "scratch", "scalar"};

std::FILE* statistics_file() {
  static std::FILE* file = []() -> std::FILE* {
    const char* path = std::getenv("HIPEMU_STATS");
    if (path == nullptr || *path == '\0') return nullptr;
    const std::string name = path;
    if (name == "stderr" || name == "1") return stderr;
    if (name == "stdout") return stdout;
    std::FILE* opened = std::fopen(path, "w");
    if (opened == nullptr) fmt::print(stderr, "hipemu: cannot write statistics to {}\n", name);
    return opened;
  }();
  return file;
}

bool as_json() {
  const char* format = std::getenv("HIPEMU_STATS_FORMAT");
  return format != nullptr && std::string(format) == "json";
}

nlohmann::json to_json(const Launch& launch, int wave_size, const Statistics& statistics,
                       const Occupancy& occupancy) {
  nlohmann::json out;
  out["kernel"] = launch.kernel->name;
  out["chip"] = launch.chip->processor;
  out["wave_size"] = wave_size;
  out["grid"] = launch.grid;
  out["block"] = launch.block;
  for (std::size_t i = 0; i < unit_names.size(); ++i)
    out["instructions"][unit_names[i]] = statistics.instructions[i];
  for (std::size_t i = 0; i < space_names.size(); ++i) {
    out["bytes_read"][space_names[i]] = statistics.bytes_read[i];
    out["bytes_written"][space_names[i]] = statistics.bytes_written[i];
  }
  out["lds_accesses"] = statistics.lds_accesses;
  out["lds_conflict_cycles"] = statistics.lds_conflict_cycles;
  out["atomics"] = statistics.atomics;
  out["barriers"] = statistics.barriers;
  out["active_lanes"] = statistics.active_lanes;
  out["possible_lanes"] = statistics.possible_lanes;
  out["occupancy"] = {{"waves_per_simd", occupancy.waves_per_simd},
                      {"most_waves_per_simd", launch.chip->waves_per_simd},
                      {"limited_by", occupancy.limited_by}};
  out["mnemonics"] = statistics.mnemonics;
  return out;
}

std::string to_text(const Launch& launch, int wave_size, const Statistics& statistics,
                    const Occupancy& occupancy) {
  std::string out =
      fmt::format("{} on {} (wave{}), grid {}x{}x{}, block {}x{}x{}\n", launch.kernel->readable_name(),
                  launch.chip->processor, wave_size, launch.grid[0], launch.grid[1], launch.grid[2],
                  launch.block[0], launch.block[1], launch.block[2]);
  uint64_t total = 0;
  for (const uint64_t count : statistics.instructions) total += count;
  out += fmt::format("  wave instructions      {:>14}\n", total);
  for (std::size_t i = 0; i < unit_names.size(); ++i)
    if (statistics.instructions[i] > 0)
      out +=
          fmt::format("    {:<20} {:>14}  {:5.1f} %\n", unit_names[i], statistics.instructions[i],
                      100.0 * static_cast<double>(statistics.instructions[i]) / static_cast<double>(total));
  for (std::size_t i = 0; i < space_names.size(); ++i)
    if (statistics.bytes_read[i] + statistics.bytes_written[i] > 0)
      out += fmt::format("  {:<8} bytes         {:>14} read, {} written\n", space_names[i],
                         statistics.bytes_read[i], statistics.bytes_written[i]);
  if (statistics.possible_lanes > 0)
    out += fmt::format("  active lanes           {:>13.1f} %\n",
                       100.0 * static_cast<double>(statistics.active_lanes) /
                           static_cast<double>(statistics.possible_lanes));
  if (statistics.lds_accesses > 0)
    out += fmt::format("  LDS accesses           {:>14}, bank conflicts cost {} cycles more\n",
                       statistics.lds_accesses, statistics.lds_conflict_cycles);
  if (statistics.atomics > 0) out += fmt::format("  atomic instructions    {:>14}\n", statistics.atomics);
  if (statistics.barriers > 0) out += fmt::format("  barriers               {:>14}\n", statistics.barriers);
  out += fmt::format("  occupancy              {:>14} of {} waves per SIMD, limited by {}\n",
                     occupancy.waves_per_simd, launch.chip->waves_per_simd, occupancy.limited_by);
  std::vector<std::pair<uint64_t, std::string>> busiest;
  for (const auto& [name, count] : statistics.mnemonics) busiest.emplace_back(count, name);
  std::sort(busiest.rbegin(), busiest.rend());
  out += "  most frequent         ";
  for (std::size_t i = 0; i < std::min<std::size_t>(busiest.size(), 8); ++i)
    out += fmt::format(" {} {}", busiest[i].second, busiest[i].first);
  return out + "\n";
}

}  // namespace

bool statistics_enabled() { return statistics_file() != nullptr; }

void report_statistics(const Launch& launch, int wave_size, const Statistics& statistics) {
  static std::mutex mutex;
  const uint32_t threads = launch.block[0] * launch.block[1] * launch.block[2];
  const Occupancy occupancy = occupancy_of(*launch.kernel, *launch.chip, threads, launch.dynamic_lds);
  const std::string text = as_json() ? to_json(launch, wave_size, statistics, occupancy).dump() + "\n"
                                     : to_text(launch, wave_size, statistics, occupancy);
  const std::lock_guard lock(mutex);
  std::fputs(text.c_str(), statistics_file());
  std::fflush(statistics_file());
}

}  // namespace hipemu
