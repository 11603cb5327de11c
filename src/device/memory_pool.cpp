// Size classes, the cache and the budget.
#include "device/memory_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "base/whole_bytes.h"
#include "device/memory_stats.h"
#include "hearth/error.h"

namespace hearth {
namespace {

constexpr std::size_t alignment = 64;

// Four sizes per power of two, so that a freed block fits requests of nearly its size. What is loaded mostly
// stays: large weights take no more than they need, where those of language models took a tenth to a sixth
// more.
std::size_t size_class(std::size_t bytes, MemoryPurpose purpose) {
  if (bytes <= alignment) return alignment;
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) return bytes;  // nobody has that much
  constexpr std::size_t small_step = 64 << 10;
  const std::size_t quarter = std::max<std::size_t>(alignment, std::bit_ceil(bytes) / 8);
  const std::size_t step = purpose == MemoryPurpose::loaded ? std::min(quarter, small_step) : quarter;
  return (bytes + step - 1) / step * step;
}

std::size_t budget_of(const Config& config, std::size_t total) {
  if (!config.enable_oom_protection) return std::numeric_limits<std::size_t>::max();
  const auto fraction = static_cast<double>(total) * config.max_memory_fraction;
  const double cap = config.max_memory_gb * (1ull << 30);
  return static_cast<std::size_t>(cap > 0 ? std::min(cap, fraction) : fraction);
}

// A GPU's own memory is handed out slowly and taken back only when the GPU is idle, so that its pool gives
// nothing back by itself.
std::size_t cache_limit_of(const Config& config, bool of_host) {
  constexpr double gib = 1ull << 30, host = 8;
  if (!config.enable_memory_pooling) return 0;
  const double wanted = config.memory_pool_size_gb;
  if (wanted < 0 && !of_host) return std::numeric_limits<std::size_t>::max();
  return whole_bytes((wanted < 0 ? host : wanted) * gib);
}

// The blocks of a size, which stays in the map without any: it will have one again soon. Null: there is none.
template <class Blocks>
auto* blocks_of(Blocks& blocks, std::size_t size) {
  const auto found = blocks.find(size);
  return found == blocks.end() || found->second.empty() ? nullptr : &found->second;
}

template <class Block>
Block pop(std::vector<Block>& blocks) {
  Block block = std::move(blocks.back());
  blocks.pop_back();
  return block;
}

// The largest size that has blocks; 0: there is none.
template <class Blocks>
std::size_t largest(const Blocks& blocks) {
  for (auto size = blocks.rbegin(); size != blocks.rend(); ++size)
    if (!size->second.empty()) return size->first;
  return 0;
}

}  // namespace

class MemoryPool::PoolBuffer final : public Buffer {
 public:
  PoolBuffer(MemoryPool& pool, void* block, std::size_t requested, std::size_t size, MemoryPurpose purpose)
      : pool_(pool), size_(size), purpose_(purpose) {
    data = block;
    bytes = requested;
    device = pool.device_;
  }
  ~PoolBuffer() override {
    Mark mark = leave_mark ? leave_mark() : nullptr;
    pool_.give_back(data, bytes, size_, purpose_, leave_mark ? &mark : nullptr);
  }

  std::function<Mark()> leave_mark;

 private:
  MemoryPool& pool_;
  std::size_t size_;
  MemoryPurpose purpose_;
};

MemoryPool::MemoryPool(std::unique_ptr<MemorySource> source, Device device)
    : source_(std::move(source)), device_(device) {
  configure(Config{});
}

void MemoryPool::configure(const Config& config) {
  std::lock_guard lock(mutex_);
  budget_ = budget_of(config, total_memory());
  cache_limit_ = cache_limit_of(config, source_->of_host());
  trim(cache_limit_);
}

std::shared_ptr<Buffer> MemoryPool::allocate(std::size_t bytes, MemoryPurpose purpose) {
  const std::size_t size = size_class(bytes, purpose);
  void* block = nullptr;
  {
    std::lock_guard lock(mutex_);
    block = take(bytes, size);
    count(bytes, size, purpose);
  }
  return std::make_shared<PoolBuffer>(*this, block, bytes, size, purpose);
}

std::shared_ptr<Buffer> MemoryPool::allocate_marked(std::size_t bytes, std::function<Mark()> leave_mark,
                                                    Mark& mark) {
  const std::size_t size = size_class(bytes, MemoryPurpose::loaded);
  MarkedBlock block;
  {
    std::lock_guard lock(mutex_);
    if (auto* kept = blocks_of(free_marked_, size)) {
      block = pop(*kept);
      cached_ -= size;
      ++stats_.cache_hits;
    } else {
      block.data = from_source(bytes, size);
    }
    count(bytes, size, MemoryPurpose::loaded);
  }
  mark = std::move(block.mark);
  auto buffer = std::make_shared<PoolBuffer>(*this, block.data, bytes, size, MemoryPurpose::loaded);
  buffer->leave_mark = std::move(leave_mark);
  return buffer;
}

std::span<std::byte> MemoryPool::reserve(std::size_t bytes) {
  const std::size_t size = size_class(bytes, MemoryPurpose::results);
  std::lock_guard lock(mutex_);
  void* memory = from_source(bytes, size);
  reserves_.emplace_back(memory, size);
  return {static_cast<std::byte*>(memory), size};
}

void* MemoryPool::take(std::size_t bytes, std::size_t size) {
  if (auto* kept = blocks_of(free_, size)) {
    cached_ -= size;
    ++stats_.cache_hits;
    return pop(*kept);
  }
  for (MemoryReserve& reserve : reserves_)
    if (void* block = reserve.take(size)) {
      ++stats_.cache_hits;
      return block;
    }
  return from_source(bytes, size);
}

void* MemoryPool::from_source(std::size_t bytes, std::size_t size) {
  const auto fits = [&] { return size <= budget_ && stats_.reserved <= budget_ - size; };
  if (!fits()) trim(0);
  if (!fits()) refuse(bytes, true);
  const auto get = [&] { return source_->has(size) ? source_->allocate(size) : nullptr; };
  void* block = get();
  if (!block) {
    trim(0);  // blocks kept for later may be what is missing
    block = get();
  }
  if (!block) refuse(bytes, false);
  stats_.reserved += size;
  return block;
}

void MemoryPool::count(std::size_t bytes, std::size_t size, MemoryPurpose purpose) {
  ++stats_.allocations;
  stats_.requested += bytes;
  stats_.allocated += size;
  stats_.peak = std::max(stats_.peak, stats_.allocated);
  MemoryStats::Use& use = stats_.by_purpose[static_cast<std::size_t>(purpose)];
  use.allocated += size;
  use.peak = std::max(use.peak, use.allocated);
}

void MemoryPool::refuse(std::size_t bytes, bool by_budget) const {
  MemoryStats now = stats_;
  now.limit = std::min(budget_, total_memory());
  const std::size_t left = by_budget ? budget_ - std::min(budget_, stats_.reserved) : 0;
  throw OutOfMemory(
      fmt::format("[memory] {} has no {} left{}: {}; {}smaller batches, 16-bit types or fewer tensors kept "
                  "at a time would help",
                  to_string(device_), format_bytes(bytes), by_budget ? " within its limit" : "",
                  to_string(now), by_budget ? "a higher max_memory_fraction or max_memory_gb, " : ""),
      bytes, left);
}

void MemoryPool::give_back(void* data, std::size_t bytes, std::size_t size, MemoryPurpose purpose,
                           Mark* mark) {
  std::lock_guard lock(mutex_);
  stats_.requested -= bytes;
  stats_.allocated -= size;
  stats_.by_purpose[static_cast<std::size_t>(purpose)].allocated -= size;
  for (MemoryReserve& reserve : reserves_)
    if (reserve.owns(data)) return reserve.give_back(data, size);
  if (size > cache_limit_ || cached_ > cache_limit_ - size) return release(data, size);
  cached_ += size;
  if (mark)
    free_marked_[size].push_back({data, std::move(*mark)});
  else
    free_[size].push_back(data);
}

void MemoryPool::release(void* data, std::size_t size) {
  source_->release(data);
  stats_.reserved -= size;
}

// The largest first. Without any to keep, what was reserved goes too, where it is not in use.
void MemoryPool::trim(std::size_t keep) {
  while (cached_ > keep) {
    const std::size_t plain = largest(free_), marked = largest(free_marked_);
    const std::size_t size = std::max(plain, marked);
    release(plain >= marked ? pop(free_[size]) : pop(free_marked_[size]).data, size);
    cached_ -= size;
  }
  if (keep > 0) return;
  std::erase_if(reserves_, [&](const MemoryReserve& reserve) {
    if (!reserve.unused()) return false;
    release(reserve.base(), reserve.bytes());
    return true;
  });
}

MemoryStats MemoryPool::stats() const {
  std::lock_guard lock(mutex_);
  MemoryStats stats = stats_;
  stats.limit = std::min(budget_, total_memory());
  stats.largest_kept = std::max(largest(free_), largest(free_marked_));
  for (const MemoryReserve& reserve : reserves_)
    stats.largest_kept = std::max(stats.largest_kept, reserve.largest_hole());
  return stats;
}

void MemoryPool::reset_peak() {
  std::lock_guard lock(mutex_);
  stats_.peak = stats_.allocated;
  for (MemoryStats::Use& use : stats_.by_purpose) use.peak = use.allocated;
}

void MemoryPool::empty_cache() {
  std::lock_guard lock(mutex_);
  trim(0);
}

}  // namespace hearth
