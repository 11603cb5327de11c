// Static memory planning: offsets in one arena from lifetimes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hearth {

struct MemoryRequest {
  std::size_t bytes = 0;
  std::uint32_t first = 0, last = 0;  // steps during which the memory is in use, both included
  std::int64_t takes_over = -1;       // an earlier request whose memory becomes this one's at step `first`
};

struct MemoryPlan {
  std::vector<std::size_t> offsets;  // per request, multiples of arena_alignment
  std::size_t total = 0;             // bytes of the arena
  std::size_t required = 0;          // largest sum of bytes in use at one step: no arena can be smaller
};

inline constexpr std::size_t arena_alignment = 64;

// Requests must be sorted by `first`. A request that takes over another must not be larger and must start
// where the other ends.
MemoryPlan plan_memory(const std::vector<MemoryRequest>& requests);

}  // namespace hearth
