// Reads /proc/meminfo.
#include "base/system_memory.h"

#include <cstdint>
#include <fstream>
#include <string>

namespace hearth {

SystemMemory system_memory() {
  SystemMemory memory;
  std::ifstream info("/proc/meminfo");
  std::string name, unit;
  for (std::uint64_t kibibytes = 0; info >> name >> kibibytes && std::getline(info, unit);) {
    if (name == "MemAvailable:") memory.available = kibibytes * 1024;
    if (name == "SwapFree:") memory.free_swap = kibibytes * 1024;
  }
  return memory;
}

bool system_has(std::size_t bytes) {
  constexpr std::size_t worth_asking = 64 << 20;
  if (bytes < worth_asking) return true;
  const SystemMemory memory = system_memory();
  return memory.available == 0 || bytes <= memory.available + memory.free_swap;
}

}  // namespace hearth
