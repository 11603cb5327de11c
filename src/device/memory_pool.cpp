// Size classes, the cache and the budget.
#include "device/memory_pool.h"

#include <fmt/format.h>

#include <bit>
#include <limits>

#include "hearth/error.h"

namespace hearth {
namespace {

constexpr std::size_t alignment = 64;

// Four sizes per power of two, so that a freed block fits requests of nearly its size.
std::size_t size_class(std::size_t bytes) {
  if (bytes <= alignment) return alignment;
  const std::size_t step = std::max<std::size_t>(alignment, std::bit_ceil(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

}  // namespace

class MemoryPool::PoolBuffer final : public Buffer {
 public:
  PoolBuffer(MemoryPool& pool, void* block, std::size_t requested, std::size_t size)
      : pool_(pool), size_(size) {
    data = block;
    bytes = requested;
    device = pool.device_;
  }
  ~PoolBuffer() override { pool_.give_back(data, size_); }

 private:
  MemoryPool& pool_;
  std::size_t size_;
};

MemoryPool::MemoryPool(std::unique_ptr<MemorySource> source, Device device)
    : source_(std::move(source)), device_(device) {
  configure(Config{});
}

void MemoryPool::configure(const Config& config) {
  std::lock_guard lock(mutex_);
  budget_ = config.enable_oom_protection
                ? static_cast<std::size_t>(static_cast<double>(total_memory()) * config.max_memory_fraction)
                : std::numeric_limits<std::size_t>::max();
  cache_limit_ =
      config.enable_memory_pooling ? static_cast<std::size_t>(config.memory_pool_size_gb * (1ull << 30)) : 0;
  trim(cache_limit_);
}

std::shared_ptr<Buffer> MemoryPool::allocate(std::size_t bytes) {
  const std::size_t size = bytes > budget_ ? bytes : size_class(bytes);
  void* block = nullptr;
  {
    std::lock_guard lock(mutex_);
    ++stats_.allocations;
    if (auto it = free_.find(size); it != free_.end()) {
      block = it->second.back();
      it->second.pop_back();
      if (it->second.empty()) free_.erase(it);
      ++stats_.cache_hits;
    } else {
      if (stats_.reserved + size > budget_) trim(0);
      if (size > budget_ || stats_.reserved > budget_ - size)
        throw OutOfMemory(
            fmt::format("[memory] {} bytes asked for, {} in use, the limit is {}; raise max_memory_fraction "
                        "or use smaller tensors",
                        bytes, stats_.allocated, budget_),
            bytes, budget_ - std::min(budget_, stats_.reserved));
      block = source_->allocate(size);
      if (!block) {
        trim(0);  // blocks kept for later may be what is missing
        block = source_->allocate(size);
      }
      if (!block)
        throw OutOfMemory(fmt::format("[memory] {} has no {} bytes left ({} in use)", to_string(device_),
                                      bytes, stats_.allocated),
                          bytes, 0);
      stats_.reserved += size;
    }
    stats_.allocated += size;
    stats_.peak = std::max(stats_.peak, stats_.allocated);
  }
  return std::make_shared<PoolBuffer>(*this, block, bytes, size);
}

void MemoryPool::give_back(void* data, std::size_t size) {
  std::lock_guard lock(mutex_);
  stats_.allocated -= size;
  if (stats_.reserved - stats_.allocated > cache_limit_) {
    stats_.reserved -= size;
    source_->release(data);
  } else {
    free_[size].push_back(data);
  }
}

void MemoryPool::trim(std::size_t keep) {
  while (!free_.empty() && stats_.reserved - stats_.allocated > keep) {
    auto largest = std::prev(free_.end());
    source_->release(largest->second.back());
    stats_.reserved -= largest->first;
    largest->second.pop_back();
    if (largest->second.empty()) free_.erase(largest);
  }
}

MemoryStats MemoryPool::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void MemoryPool::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak = stats_.allocated;
}

void MemoryPool::empty_cache() {
  std::lock_guard lock(mutex_);
  trim(0);
}

}  // namespace hearth
