// All memory that kernels may touch: what it is, who allocated it, which bytes were ever written, and who
// touched them last. Device pointers are ordinary host addresses.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace hipemu {

enum class MemoryKind : uint8_t { device, pinned_host, managed, registered_host, code, kernarg, scratch };

// Who touched a granule of four bytes last, and when; see check/races.
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
  uint8_t* written = nullptr;   // one byte per byte: 1 once written; null when checks are off (all written)
  Granule* granules = nullptr;  // one per four bytes; null when checks are off

  bool contains(uint64_t address, std::size_t bytes) const {
    const uint64_t begin = reinterpret_cast<uint64_t>(base);
    return address >= begin && bytes <= size && address - begin <= size - bytes;
  }
};

// Safe to call from any thread.
class AddressSpace {
 public:
  AddressSpace();
  ~AddressSpace();

  // New memory, 256-byte aligned, poisoned when checks are on. Null when there is not enough.
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

}  // namespace hipemu
