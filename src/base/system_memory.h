// Memory of the machine.
#pragma once

#include <cstddef>

namespace hearth {

struct SystemMemory {
  std::size_t available = 0;  // bytes that can be had without swapping; 0: not told
  std::size_t free_swap = 0;
};
SystemMemory system_memory();  // now

// Whether so much can still be had. The system says yes to more than it has, and ends processes later.
bool system_has(std::size_t bytes);

}  // namespace hearth
