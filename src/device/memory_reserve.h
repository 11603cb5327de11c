// One piece of memory, divided as it is asked for.
#pragma once

#include <cstddef>
#include <map>

namespace hearth {

// Best fit; neighbours that are free become one. Not safe from several threads.
class MemoryReserve {
 public:
  MemoryReserve(void* base, std::size_t bytes);
  void* base() const { return base_; }
  std::size_t bytes() const { return bytes_; }
  bool unused() const { return free_.size() == 1 && free_.begin()->second == bytes_; }
  std::size_t largest_hole() const;

  void* take(std::size_t bytes);  // null when no hole is large enough
  bool owns(const void* memory) const;
  void give_back(void* memory, std::size_t bytes);

 private:
  std::byte* base_;
  std::size_t bytes_;
  std::map<std::size_t, std::size_t> free_;  // holes: offset to size
};

}  // namespace hearth
