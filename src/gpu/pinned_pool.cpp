// Two sizes of blocks, and the wait for copies where they are used up.
#include "gpu/pinned_pool.h"

#include <fmt/format.h>

#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr std::size_t block_sizes[] = {64 << 10, PinnedPool::largest};

std::size_t index_of(std::size_t bytes) { return bytes <= block_sizes[0] ? 0 : 1; }

}  // namespace

PinnedPool::Block PinnedPool::take(std::size_t bytes) {
  const std::size_t size_index = index_of(bytes);
  std::unique_lock lock(mutex_);
  ++allocations_;
  for (;;) {
    if (MemoryPtr memory = find(size_index)) return {*this, std::move(memory)};
    if (busy_.empty()) {
      given_back_.wait(lock);  // other threads have it all, for the moment that a copy takes to begin
      continue;
    }
    const MemoryPtr oldest = busy_.front();
    lock.unlock();
    oldest->event->wait();
    lock.lock();
  }
}

PinnedPool::Block PinnedPool::try_take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  MemoryPtr memory = find(index_of(bytes));
  if (!memory) return {};
  ++allocations_;
  return {*this, std::move(memory)};
}

PinnedPool::MemoryPtr PinnedPool::find(std::size_t size_index) {
  retire();
  MemoryPtr memory;
  if (auto& kept = free_[size_index]; !kept.empty()) {
    memory = std::move(kept.back());
    kept.pop_back();
    ++hits_;
  } else {
    const std::size_t size = block_sizes[size_index];
    while (reserved_ + size > limit_ && release_one()) continue;
    if (reserved_ + size > limit_ && reserved_ > 0) return nullptr;  // one block there must be
    memory = make(size_index);
  }
  taken_ += memory->bytes;
  return memory;
}

PinnedPool::MemoryPtr PinnedPool::make(std::size_t size_index) {
  auto memory = std::make_shared<Memory>();
  memory->bytes = block_sizes[size_index];
  memory->event = std::make_unique<Event>(device_);
  void* data = nullptr;
  const Driver& driver = device_.driver();
  const int code = driver.call.allocate_host(&data, memory->bytes, 0);
  if (code == driver.codes.out_of_memory)
    throw OutOfMemory(fmt::format("[memory] the system has no {} bytes left that it would pin for copies; "
                                  "a smaller pinned_pool_size_mb may help",
                                  memory->bytes),
                      memory->bytes, 0);
  device_.check(code, "allocating memory of the host");
  memory->data = static_cast<std::byte*>(data);
  reserved_ += memory->bytes;
  return memory;
}

bool PinnedPool::release_one() {
  for (auto& kept : free_) {
    if (kept.empty()) continue;
    reserved_ -= kept.back()->bytes;
    if (device_.try_use()) device_.driver().call.release_host(kept.back()->data);
    kept.pop_back();
    return true;
  }
  return false;
}

// Copies of several streams end in any order.
void PinnedPool::retire() {
  for (auto each = busy_.begin(); each != busy_.end();) {
    if (!(*each)->event->reached()) {  // throws if the device has failed
      ++each;
      continue;
    }
    busy_bytes_ -= (*each)->bytes;
    free_[index_of((*each)->bytes)].push_back(std::move(*each));
    each = busy_.erase(each);
  }
}

void PinnedPool::give_back(MemoryPtr memory) {
  const std::lock_guard lock(mutex_);
  taken_ -= memory->bytes;
  busy_bytes_ += memory->bytes;
  busy_.push_back(std::move(memory));
  given_back_.notify_one();
}

void PinnedPool::Block::used_in(StreamHandle stream) const {
  try {
    memory_->event->record(stream);
  } catch (const Error&) {
    pool_->device_.poll([&] { return pool_->device_.driver().call.stream_query(stream); });
    throw;
  }
}

void PinnedPool::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
  while (reserved_ > limit_ && release_one()) continue;
}

void PinnedPool::release_kept() {
  const std::lock_guard lock(mutex_);
  if (!device_.failed()) retire();
  while (release_one()) continue;
}

void PinnedPool::add_to(MemoryStats& stats) {
  const std::lock_guard lock(mutex_);
  if (!device_.failed()) retire();
  stats.pinned_allocated = taken_ + busy_bytes_;
  stats.pinned_reserved = reserved_;
  stats.pinned_allocations = allocations_;
  stats.pinned_hits = hits_;
}

}  // namespace hearth::gpu
