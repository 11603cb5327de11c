// All memory that kernels may touch: what it is, who allocated it, which bytes were ever written, and who
// touched them last. Device pointers are ordinary host addresses.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace hipemu {

enum class MemoryKind : uint8_t { device, pinned_host, managed, registered_host, code, kernarg, scratch };

// Who touched a granule of four bytes last, and when; see exec/check/races.h.
struct Granule {
  std::atomic<uint64_t> writer{0};
  std::atomic<uint64_t> reader{0};
};

struct Allocation {
  uint64_t id = 0;  // counts from 1, as named in reports
  std::byte* base = nullptr;
  std::size_t size = 0;  // bytes asked for
  MemoryKind kind = MemoryKind::device;
  int device = 0;
  unsigned flags = 0;  // of hipHostMalloc, hipMallocManaged and so on
  std::string origin;  // the call that made it: "hipMalloc", "variable table"
  bool freed = false;
  uint8_t* written = nullptr;   // one byte per byte: 1 once written; null: all of them count as written
  Granule* granules = nullptr;  // one per four bytes; null when checks are off

  uint64_t begin() const { return reinterpret_cast<uint64_t>(base); }
  uint64_t end() const { return begin() + size; }
  bool contains(uint64_t address, std::size_t bytes) const {
    return address >= begin() && bytes <= size && address - begin() <= size - bytes;
  }
  Granule& granule(uint64_t address) const { return granules[(address >> 2) - (begin() >> 2)]; }
};

// Fresh device memory is filled with this when checks are on, up to poison_limit bytes (beyond, touching
// every page would cost more than it tells): a NaN as f16, bf16, f32 and f64, and an index that is out of
// bounds.
constexpr uint32_t memory_poison = 0x7ffb7ffb;
constexpr std::size_t poison_limit = 16u << 20;

// Safe to call from any thread.
class AddressSpace {
 public:
  AddressSpace();  // with shadow when HIPEMU_CHECK asks for it
  explicit AddressSpace(bool shadow);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // New memory, 256-byte aligned. Never less than 4 KiB from another allocation. Device memory is poisoned
  // and counts as never written when checks are on; the host can write to the other kinds unseen, so they are
  // zero and count as written. Null when there is not enough.
  Allocation* allocate(std::size_t size, MemoryKind kind, int device, std::string origin);
  // Memory that belongs to someone else (hipHostRegister, images of code). Counts as written.
  Allocation* adopt(void* base, std::size_t size, MemoryKind kind, int device, std::string origin);
  // Frees, or forgets what was adopted. The addresses stay in quarantine for a while, so that a late use is
  // named. False when `base` is not the start of a live allocation.
  bool release(void* base);

  // The live allocation that holds `address`, or null.
  Allocation* find(const void* address) const;
  // The nearest allocation, live or freed, for reports. Null when there is none at all.
  const Allocation* nearest(const void* address) const;

  // Changes at every allocate, adopt and release: whoever caches an Allocation* looks here first.
  uint64_t generation() const { return generation_.load(std::memory_order_acquire); }

  // The host wrote (a copy, a memset): these bytes now count as written.
  void mark_written(const void* address, std::size_t bytes);
  // A copy from device memory to device memory carries "never written" along with the bytes.
  void copy_written(void* destination, const void* source, std::size_t bytes);

  std::size_t bytes_in_use(int device) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::atomic<uint64_t> generation_{1};
};

AddressSpace& address_space();

// The allocations that this thread has touched last, so that an access need not search (nor lock).
class AllocationCache {
 public:
  // The live allocation that holds [address, address + bytes), or null.
  Allocation* find(uint64_t address, std::size_t bytes) {
    const uint64_t generation = address_space().generation();
    if (generation == generation_) [[likely]] {
      for (std::size_t i = 0; i < entries_.size(); ++i) {
        Allocation* allocation = entries_[i];
        if (allocation != nullptr && allocation->contains(address, bytes)) {
          if (i > 0) std::swap(entries_[i], entries_[i / 2]);  // the busiest ones gather at the front
          return allocation;
        }
      }
    }
    return find_slowly(address, bytes, generation);
  }
  static AllocationCache& of_this_thread();

 private:
  Allocation* find_slowly(uint64_t address, std::size_t bytes, uint64_t generation);

  uint64_t generation_ = 0;
  std::array<Allocation*, 8> entries_{};
};

}  // namespace hipemu
