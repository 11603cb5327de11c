// A 128-bit structural hash: two 64-bit lanes with different multipliers, so that equal hashes may be taken
// as equal structures.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "hearth/small_vector.h"

namespace hearth {

struct Hash128 {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

struct Hash128Hasher {
  std::size_t operator()(const Hash128& hash) const { return hash.low; }
};

class Hasher {
 public:
  void add(std::uint64_t word) {
    low_ = mix((low_ ^ word) * 0x9e3779b97f4a7c15ull);
    high_ = mix((high_ + word) * 0xd6e8feb86659fd93ull + 1);
  }
  template <std::integral T>
  void add(T value) {
    add(static_cast<std::uint64_t>(static_cast<std::int64_t>(value)));
  }
  void add(double value) { add(std::bit_cast<std::uint64_t>(value)); }
  template <typename T, std::size_t N>
  void add(const SmallVector<T, N>& values) {
    add(static_cast<std::uint64_t>(values.size()));
    for (const auto& value : values) add(value);
  }
  template <typename... T>
  void add(const std::tuple<T...>& fields) {
    std::apply([this](const auto&... field) { (add(field), ...); }, fields);
  }
  Hash128 finish() const { return {low_, high_}; }

 private:
  static std::uint64_t mix(std::uint64_t x) { return x ^ (x >> 32); }
  std::uint64_t low_ = 0x243f6a8885a308d3ull, high_ = 0x13198a2e03707344ull;
};

}  // namespace hearth
