// The caching allocator of a device. Memory is expensive to get from a system (page faults) or a driver (it
// waits for the device); kept blocks cost nothing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "device/memory_reserve.h"
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
  // False: so much cannot be had, though allocate() would not say so.
  virtual bool has(std::size_t bytes) const { return (void)bytes, true; }
  // Whether it is memory that everything on this machine shares.
  virtual bool of_host() const { return true; }
};

// Safe from any thread. Must outlive its buffers. A block that is given back may be handed out again at once:
// work on a device goes through one stream, so what still uses the block comes before what is done next.
// Every block is an allocation of the source's, given out again for requests of its size class; only what
// reserve() got is divided.
class MemoryPool {
 public:
  MemoryPool(std::unique_ptr<MemorySource> source, Device device);
  // Aligned to 64 bytes. When the budget (Config::max_memory_fraction, max_memory_gb) or the source says no,
  // kept blocks go back to the source first; then it throws OutOfMemory.
  std::shared_ptr<Buffer> allocate(std::size_t bytes, MemoryPurpose purpose = MemoryPurpose::results);

  // What a block's user leaves behind for the next one.
  using Mark = std::shared_ptr<void>;
  // For memory that is written outside of the stream. Blocks of this kind are kept apart: when the buffer is
  // gone, leave_mark() is called, and whoever gets the block next gets the mark too. It is null for memory
  // that nobody has used. Purpose: loaded.
  std::shared_ptr<Buffer> allocate_marked(std::size_t bytes, std::function<Mark()> leave_mark, Mark& mark);

  // Gets a piece of memory that allocations are served from until empty_cache(). Returns where it is.
  std::span<std::byte> reserve(std::size_t bytes);

  void configure(const Config& config);
  MemoryStats stats() const;
  void reset_peak();
  void empty_cache();
  std::size_t total_memory() const { return source_->total_memory(); }

 private:
  class PoolBuffer;
  struct MarkedBlock {
    void* data = nullptr;
    Mark mark;
  };

  // All with the lock held.
  void* take(std::size_t bytes, std::size_t size);         // of `size`, by whatever way there is
  void* from_source(std::size_t bytes, std::size_t size);  // throws OutOfMemory
  void count(std::size_t bytes, std::size_t size, MemoryPurpose purpose);
  void release(void* data, std::size_t size);
  void trim(std::size_t keep);
  [[noreturn]] void refuse(std::size_t bytes, bool by_budget) const;

  void give_back(void* data, std::size_t bytes, std::size_t size, MemoryPurpose purpose, Mark* mark);

  std::unique_ptr<MemorySource> source_;
  Device device_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  // by size
  std::map<std::size_t, std::vector<MarkedBlock>> free_marked_;
  std::vector<MemoryReserve> reserves_;
  std::size_t cached_ = 0;  // bytes of free_ and free_marked_
  MemoryStats stats_;
  std::size_t budget_, cache_limit_;
};

}  // namespace hearth
