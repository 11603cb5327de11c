// Holes.
#include "device/memory_reserve.h"

#include <algorithm>
#include <iterator>

namespace hearth {

MemoryReserve::MemoryReserve(void* base, std::size_t bytes)
    : base_(static_cast<std::byte*>(base)), bytes_(bytes), free_{{0, bytes}} {}

std::size_t MemoryReserve::largest_hole() const {
  std::size_t largest = 0;
  for (const auto& [offset, size] : free_) largest = std::max(largest, size);
  return largest;
}

void* MemoryReserve::take(std::size_t bytes) {
  auto best = free_.end();
  for (auto hole = free_.begin(); hole != free_.end(); ++hole)
    if (hole->second >= bytes && (best == free_.end() || hole->second < best->second)) best = hole;
  if (best == free_.end()) return nullptr;
  const auto [offset, size] = *best;
  free_.erase(best);
  if (size > bytes) free_.emplace(offset + bytes, size - bytes);
  return base_ + offset;
}

bool MemoryReserve::owns(const void* memory) const {
  const auto* address = static_cast<const std::byte*>(memory);
  return address >= base_ && address < base_ + bytes_;
}

void MemoryReserve::give_back(void* memory, std::size_t bytes) {
  const auto offset = static_cast<std::size_t>(static_cast<std::byte*>(memory) - base_);
  auto hole = free_.emplace(offset, bytes).first;
  if (const auto next = std::next(hole); next != free_.end() && next->first == offset + bytes) {
    hole->second += next->second;
    free_.erase(next);
  }
  if (hole == free_.begin()) return;
  const auto before = std::prev(hole);
  if (before->first + before->second != offset) return;
  before->second += hole->second;
  free_.erase(hole);
}

}  // namespace hearth
