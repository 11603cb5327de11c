// Figures of memory as text.
#include "device/memory_stats.h"

#include <fmt/format.h>

#include "hearth/device.h"

namespace hearth {

std::string to_string(MemoryPurpose purpose) {
  constexpr const char* names[memory_purposes] = {"loaded", "results", "arenas", "tuning"};
  return names[static_cast<std::size_t>(purpose)];
}

std::string format_bytes(std::size_t bytes) {
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double size = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; size >= 1024 && unit + 1 < std::size(units); ++unit) size /= 1024;
  return fmt::format("{:.2f} {}", size, units[unit]);
}

std::string to_string(const MemoryStats& stats) {
  std::string uses;
  for (std::size_t i = 0; i < memory_purposes; ++i)
    if (const std::size_t bytes = stats.by_purpose[i].allocated; bytes > 0)
      uses += fmt::format("{}{} {}", uses.empty() ? "" : ", ", to_string(static_cast<MemoryPurpose>(i)),
                          format_bytes(bytes));
  return fmt::format("{} in use{}, {} kept, at most {} allowed", format_bytes(stats.allocated),
                     uses.empty() ? "" : " (" + uses + ")", format_bytes(stats.reserved - stats.allocated),
                     format_bytes(stats.limit));
}

}  // namespace hearth
