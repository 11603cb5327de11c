// The CPU's caching allocator. Large blocks cost page faults each time they come from the system; kept ones
// do not.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/node.h"
#include "hearth/config.h"
#include "hearth/device.h"

namespace hearth::cpu {

// Safe from any thread. Must outlive its buffers.
class MemoryPool {
 public:
  MemoryPool();
  // Aligned to 64 bytes. Throws OutOfMemory when the budget (Config::max_memory_fraction) or the system says
  // no.
  std::shared_ptr<Buffer> allocate(std::size_t bytes);
  void configure(const Config& config);
  MemoryStats stats() const;
  void reset_peak();
  void empty_cache();
  std::size_t total_memory() const { return total_memory_; }

 private:
  class PoolBuffer;
  void give_back(void* data, std::size_t size);
  void trim(std::size_t keep);  // with the lock held

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  // by size
  MemoryStats stats_;
  std::size_t total_memory_;
  std::size_t budget_, cache_limit_;
};

}  // namespace hearth::cpu
