// Memory of the host that a GPU's copy engine can reach. Getting it takes the system long, so it is kept.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/event.h"

namespace hearth::gpu {

// Safe from any thread.
class PinnedPool {
 public:
  static constexpr std::size_t largest = 4 << 20;  // bytes of the largest block; longer copies go in pieces

  explicit PinnedPool(GpuDevice& device) : device_(device) {}

  // Memory for one copy. It is given back when the handle is gone.
  class Block;
  // At most `largest` bytes. Waits where the limit is reached for the oldest copy.
  Block take(std::size_t bytes);
  // The same without waiting: an empty handle where it would have to.
  Block try_take(std::size_t bytes);

  void set_limit(std::size_t bytes);
  void add_to(MemoryStats& stats);
  void release_kept();  // what no copy uses goes back to the system

 private:
  struct Memory {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    std::unique_ptr<Event> event;
  };
  using MemoryPtr = std::shared_ptr<Memory>;  // shared with whoever waits for its event
  static constexpr std::size_t sizes = 2;

  MemoryPtr find(std::size_t size_index);  // with the lock held, as the next two; null where there is none
  MemoryPtr make(std::size_t size_index);
  bool release_one();
  void retire();
  void give_back(MemoryPtr memory);

  GpuDevice& device_;
  std::mutex mutex_;
  std::condition_variable given_back_;
  std::array<std::vector<MemoryPtr>, sizes> free_;
  std::deque<MemoryPtr> busy_;  // given back, their copies perhaps still under way; oldest first
  std::size_t limit_ = 0, reserved_ = 0, taken_ = 0, busy_bytes_ = 0;
  std::uint64_t allocations_ = 0, hits_ = 0;
};

class PinnedPool::Block {
 public:
  Block() = default;
  Block(PinnedPool& pool, MemoryPtr memory) : pool_(&pool), memory_(std::move(memory)) {}
  ~Block() {
    if (memory_) pool_->give_back(std::move(memory_));
  }
  Block(Block&&) = default;
  Block& operator=(Block&&) = delete;
  explicit operator bool() const { return memory_ != nullptr; }
  std::byte* data() const { return memory_->data; }
  // After the copy was put into `stream`: the memory is not handed out again before it is done.
  void used_in(StreamHandle stream) const;
  bool done() const { return memory_->event->reached(); }
  void wait() const { memory_->event->wait(); }

 private:
  PinnedPool* pool_ = nullptr;
  MemoryPtr memory_;
};

}  // namespace hearth::gpu
