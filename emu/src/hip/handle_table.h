// From the handles that a program holds to the objects behind them.
//
// A handle is a number, never an address, and is not given out twice: a handle that was destroyed, or never
// was one, is recognised without reading through it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

namespace hipemu::hip {

inline std::uintptr_t next_handle_number() {
  static std::atomic<std::uintptr_t> next{0x6870'0000'1000};
  return next.fetch_add(64, std::memory_order_relaxed);
}

template <class Handle, class T>
class HandleTable {
 public:
  Handle insert(std::shared_ptr<T> object) {
    const auto handle = reinterpret_cast<Handle>(next_handle_number());
    const std::unique_lock lock(mutex_);
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  std::shared_ptr<T> find(Handle handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  // The object that the handle named, or null.
  std::shared_ptr<T> remove(Handle handle) {
    const std::unique_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    auto object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<Handle, std::shared_ptr<T>> objects_;
};

}  // namespace hipemu::hip
