// The caching allocator of a device. Memory is expensive to get from a system (page faults) or a driver (it
// waits for the device); kept blocks cost nothing.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "graph/node.h"
#include "hearth/config.h"
#include "hearth/device.h"

namespace hearth {

// Where a pool's memory comes from.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  virtual void* allocate(std::size_t bytes) = 0;  // null when there is none left
  virtual void release(void* memory) = 0;
  virtual std::size_t total_memory() const = 0;
};

// Safe from any thread. Must outlive its buffers. A block that is given back may be handed out again at once:
// work on a device goes through one stream, so what still uses the block comes before what is done next.
class MemoryPool {
 public:
  MemoryPool(std::unique_ptr<MemorySource> source, Device device);
  // Aligned to 64 bytes. Throws OutOfMemory when the budget (Config::max_memory_fraction) or the source says
  // no.
  std::shared_ptr<Buffer> allocate(std::size_t bytes);
  void configure(const Config& config);
  MemoryStats stats() const;
  void reset_peak();
  void empty_cache();
  std::size_t total_memory() const { return source_->total_memory(); }

 private:
  class PoolBuffer;
  void give_back(void* data, std::size_t size);
  void trim(std::size_t keep);  // with the lock held

  std::unique_ptr<MemorySource> source_;
  Device device_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  // by size
  MemoryStats stats_;
  std::size_t budget_, cache_limit_;
};

}  // namespace hearth
