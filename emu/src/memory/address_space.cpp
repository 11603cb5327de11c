// The map of allocations. Small ones are slots of slabs, large ones have mappings of their own; either way at
// least 4 KiB lie between two of them. Freed ones stay in the map, marked, until the quarantine is full.
#include "memory/address_space.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <vector>

#include "exec/check/options.h"

namespace hipemu {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t red_zone = 4096;
constexpr std::size_t slab_bytes = 2u << 20;
constexpr std::size_t largest_slot = 32768;
constexpr std::size_t quarantine_bytes = 256u << 20;
constexpr std::size_t quarantine_count = 4096;

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Zero, and no memory is used until it is touched. Null when it cannot be had.
std::byte* map_pages(std::size_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

// Where the bytes of an allocation came from.
struct Record {
  Allocation allocation;
  std::byte* mapping = nullptr;  // own mapping, null for slots and what was adopted
  std::size_t mapping_bytes = 0;
  std::size_t slot_bytes = 0;  // size class, 0 when not in a slab
  std::byte* shadow = nullptr;
  std::size_t shadow_bytes = 0;
  bool shadow_is_mapped = false;
};

}  // namespace

struct AddressSpace::State {
  explicit State(bool with_shadow) : shadow(with_shadow) {}

  const bool shadow;
  mutable std::shared_mutex mutex;
  std::map<uint64_t, std::unique_ptr<Record>> records;  // by address; live and quarantined, never overlapping
  std::deque<uint64_t> quarantine;                      // addresses, oldest first
  std::size_t bytes_in_quarantine = 0;
  std::unordered_map<std::size_t, std::vector<std::byte*>> free_slots;  // by size class
  std::vector<std::byte*> slabs;
  uint64_t next_id = 1;
  std::unordered_map<int, std::size_t> in_use;  // bytes of device memory by device

  std::byte* take_slot(std::size_t slot);
  bool add_shadow(Record& record, bool written);
  void destroy(Record& record);
  void forget_oldest();
  void forget_adopted(uint64_t begin, uint64_t end);
  Record* find(uint64_t address) const;
};

std::byte* AddressSpace::State::take_slot(std::size_t slot) {
  std::vector<std::byte*>& free = free_slots[slot];
  if (free.empty()) {
    std::byte* slab = map_pages(slab_bytes);
    if (slab == nullptr) return nullptr;
    slabs.push_back(slab);
    // Also before the first and after the last slot: the neighbouring mapping may be another slab.
    const std::size_t stride = slot + red_zone;
    std::vector<std::byte*> fresh;
    for (std::size_t at = red_zone; at + stride <= slab_bytes; at += stride) fresh.push_back(slab + at);
    free.assign(fresh.rbegin(), fresh.rend());
  }
  std::byte* memory = free.back();
  free.pop_back();
  return memory;
}

// One byte per byte, then one granule per four bytes. False when the host has no room.
bool AddressSpace::State::add_shadow(Record& record, bool written) {
  Allocation& allocation = record.allocation;
  if (!shadow || allocation.size == 0) return true;
  const std::size_t granule_count = (allocation.end() + 3) / 4 - allocation.begin() / 4;
  const std::size_t written_bytes = written ? 0 : round_up(allocation.size, sizeof(Granule));
  record.shadow_bytes = written_bytes + granule_count * sizeof(Granule);
  record.shadow_is_mapped = record.shadow_bytes >= 64 * page;
  record.shadow = record.shadow_is_mapped ? map_pages(record.shadow_bytes)
                                          : static_cast<std::byte*>(std::calloc(1, record.shadow_bytes));
  if (record.shadow == nullptr) return false;
  if (!written) allocation.written = reinterpret_cast<uint8_t*>(record.shadow);
  allocation.granules = reinterpret_cast<Granule*>(record.shadow + written_bytes);
  return true;
}

void AddressSpace::State::destroy(Record& record) {
  if (record.shadow != nullptr) {
    if (record.shadow_is_mapped)
      munmap(record.shadow, record.shadow_bytes);
    else
      std::free(record.shadow);
  }
  if (record.mapping != nullptr) munmap(record.mapping, record.mapping_bytes);
  if (record.slot_bytes != 0) free_slots[record.slot_bytes].push_back(record.allocation.base);
}

void AddressSpace::State::forget_oldest() {
  const auto at = records.find(quarantine.front());
  quarantine.pop_front();
  if (at == records.end() || !at->second->allocation.freed) return;  // adopted anew since
  bytes_in_quarantine -= at->second->allocation.size;
  destroy(*at->second);
  records.erase(at);
}

// The system gives memory out that was adopted once (the program has unmapped it since): what is known about
// these addresses is no longer true.
void AddressSpace::State::forget_adopted(uint64_t begin, uint64_t end) {
  auto at = records.lower_bound(begin);
  if (at != records.begin() && std::prev(at)->second->allocation.end() > begin) --at;
  while (at != records.end() && at->first < end) {
    Record& other = *at->second;
    if (other.allocation.freed) bytes_in_quarantine -= other.allocation.size;
    destroy(other);
    at = records.erase(at);
  }
}

Record* AddressSpace::State::find(uint64_t address) const {
  auto at = records.upper_bound(address);
  if (at == records.begin()) return nullptr;
  --at;
  const Allocation& allocation = at->second->allocation;
  return allocation.contains(address, 1) ? at->second.get() : nullptr;
}

AddressSpace::AddressSpace() : AddressSpace(check_options().shadow()) {}

AddressSpace::AddressSpace(bool shadow) : state_(std::make_unique<State>(shadow)) {}

AddressSpace::~AddressSpace() {
  for (auto& [address, record] : state_->records) state_->destroy(*record);
  for (std::byte* slab : state_->slabs) munmap(slab, slab_bytes);
}

Allocation* AddressSpace::allocate(std::size_t size, MemoryKind kind, int device, std::string origin) {
  if (size > (std::size_t{1} << 46)) return nullptr;
  auto record = std::make_unique<Record>();
  Allocation& allocation = record->allocation;
  allocation.size = size;
  allocation.kind = kind;
  allocation.device = device;
  allocation.origin = std::move(origin);

  State& state = *state_;
  const std::unique_lock lock(state.mutex);
  if (size <= largest_slot) {
    record->slot_bytes = std::max<std::size_t>(256, std::bit_ceil(size));
    allocation.base = state.take_slot(record->slot_bytes);
    if (allocation.base == nullptr) return nullptr;
  } else {
    record->mapping_bytes = round_up(size, page) + 2 * red_zone;
    record->mapping = map_pages(record->mapping_bytes);
    if (record->mapping == nullptr) return nullptr;
    allocation.base = record->mapping + red_zone;
  }
  if (!state.add_shadow(*record, kind != MemoryKind::device)) {
    state.destroy(*record);
    return nullptr;
  }
  if (allocation.written != nullptr && size <= poison_limit) {
    for (std::size_t i = 0; i < size; i += sizeof memory_poison)
      std::memcpy(allocation.base + i, &memory_poison, std::min(sizeof memory_poison, size - i));
  } else if (record->slot_bytes != 0) {
    std::memset(allocation.base, 0, size);
  }
  state.forget_adopted(allocation.begin(), allocation.end());
  allocation.id = state.next_id++;
  if (kind == MemoryKind::device) state.in_use[device] += size;
  Allocation* result = &allocation;
  state.records[allocation.begin()] = std::move(record);
  generation_.fetch_add(1, std::memory_order_release);
  return result;
}

Allocation* AddressSpace::adopt(void* base, std::size_t size, MemoryKind kind, int device,
                                std::string origin) {
  auto record = std::make_unique<Record>();
  Allocation& allocation = record->allocation;
  allocation.base = static_cast<std::byte*>(base);
  allocation.size = size;
  allocation.kind = kind;
  allocation.device = device;
  allocation.origin = std::move(origin);

  State& state = *state_;
  const std::unique_lock lock(state.mutex);
  // The host may have given the addresses of something released out again. What is still live stays.
  auto at = state.records.lower_bound(allocation.begin());
  if (at != state.records.begin() && std::prev(at)->second->allocation.end() > allocation.begin()) --at;
  while (at != state.records.end() && at->first < allocation.end()) {
    Record& other = *at->second;
    if (!other.allocation.freed) return nullptr;
    if (other.mapping != nullptr || other.slot_bytes != 0) return nullptr;  // ours, in quarantine
    state.bytes_in_quarantine -= other.allocation.size;
    state.destroy(other);
    at = state.records.erase(at);
  }
  if (!state.add_shadow(*record, true)) return nullptr;
  allocation.id = state.next_id++;
  Allocation* result = &allocation;
  state.records[allocation.begin()] = std::move(record);
  generation_.fetch_add(1, std::memory_order_release);
  return result;
}

bool AddressSpace::release(void* base) {
  State& state = *state_;
  const std::unique_lock lock(state.mutex);
  const auto at = state.records.find(reinterpret_cast<uint64_t>(base));
  if (at == state.records.end() || at->second->allocation.freed) return false;
  Record& record = *at->second;
  Allocation& allocation = record.allocation;
  allocation.freed = true;
  if (allocation.kind == MemoryKind::device && (record.mapping != nullptr || record.slot_bytes != 0))
    state.in_use[allocation.device] -= allocation.size;
  // Only the addresses are wanted from here on.
  if (record.mapping != nullptr) madvise(record.mapping, record.mapping_bytes, MADV_DONTNEED);
  if (record.shadow_is_mapped) madvise(record.shadow, record.shadow_bytes, MADV_DONTNEED);
  state.quarantine.push_back(allocation.begin());
  state.bytes_in_quarantine += allocation.size;
  while (state.quarantine.size() > quarantine_count ||
         (state.bytes_in_quarantine > quarantine_bytes && state.quarantine.size() > 1))
    state.forget_oldest();
  generation_.fetch_add(1, std::memory_order_release);
  return true;
}

Allocation* AddressSpace::find(const void* address) const {
  const std::shared_lock lock(state_->mutex);
  Record* record = state_->find(reinterpret_cast<uint64_t>(address));
  return record != nullptr && !record->allocation.freed ? &record->allocation : nullptr;
}

const Allocation* AddressSpace::nearest(const void* pointer) const {
  const std::shared_lock lock(state_->mutex);
  const auto& records = state_->records;
  if (records.empty()) return nullptr;
  const uint64_t address = reinterpret_cast<uint64_t>(pointer);
  const auto above = records.upper_bound(address);
  if (above == records.begin()) return &above->second->allocation;
  const Allocation& below = std::prev(above)->second->allocation;
  if (below.contains(address, 1) || above == records.end()) return &below;
  return address - below.end() <= above->first - address ? &below : &above->second->allocation;
}

void AddressSpace::mark_written(const void* address, std::size_t bytes) {
  if (!state_->shadow || bytes == 0) return;
  const std::shared_lock lock(state_->mutex);
  const uint64_t begin = reinterpret_cast<uint64_t>(address);
  const Record* record = state_->find(begin);
  if (record == nullptr || record->allocation.written == nullptr) return;
  const Allocation& allocation = record->allocation;
  std::memset(allocation.written + (begin - allocation.begin()), 1,
              std::min<std::size_t>(bytes, allocation.end() - begin));
}

void AddressSpace::copy_written(void* destination, const void* source, std::size_t bytes) {
  if (!state_->shadow || bytes == 0) return;
  const uint64_t from = reinterpret_cast<uint64_t>(source), to = reinterpret_cast<uint64_t>(destination);
  {
    const std::shared_lock lock(state_->mutex);
    const Record* left = state_->find(from);
    const Record* right = state_->find(to);
    if (right == nullptr || right->allocation.written == nullptr) return;
    if (left != nullptr && left->allocation.written != nullptr && left->allocation.contains(from, bytes) &&
        right->allocation.contains(to, bytes)) {
      std::memmove(right->allocation.written + (to - right->allocation.begin()),
                   left->allocation.written + (from - left->allocation.begin()), bytes);
      return;
    }
  }
  mark_written(destination, bytes);
}

std::size_t AddressSpace::bytes_in_use(int device) const {
  const std::shared_lock lock(state_->mutex);
  const auto at = state_->in_use.find(device);
  return at == state_->in_use.end() ? 0 : at->second;
}

AddressSpace& address_space() {
  static AddressSpace instance;
  return instance;
}

AllocationCache& AllocationCache::of_this_thread() {
  static constinit thread_local AllocationCache cache;
  return cache;
}

Allocation* AllocationCache::find_slowly(uint64_t address, std::size_t bytes, uint64_t generation) {
  if (generation != generation_) {
    entries_.fill(nullptr);
    generation_ = generation;
  }
  Allocation* allocation = address_space().find(reinterpret_cast<const void*>(address));
  if (allocation == nullptr || !allocation->contains(address, bytes)) return nullptr;
  std::rotate(entries_.rbegin(), entries_.rbegin() + 1, entries_.rend());
  entries_[0] = allocation;
  return allocation;
}

}  // namespace hipemu
