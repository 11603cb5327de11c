// Random numbers for making data on the host: small, fast, and the same everywhere for the same seed.
#pragma once

#include <cstdint>
#include <span>
#include <utility>

namespace hearth::hrm {

// SplitMix64. Sources made from different (seed, stream) pairs are independent for all we do with them.
class RandomSource {
 public:
  explicit RandomSource(std::uint64_t seed, std::uint64_t stream = 0) : state_(mix(seed) ^ mix(~stream)) {}

  std::uint64_t next() {
    state_ += 0x9E3779B97F4A7C15u;
    return mix(state_);
  }
  // In [0, bound), bound > 0. The bias of the multiplication is below 2^-32 here.
  std::uint32_t below(std::uint32_t bound) {
    return static_cast<std::uint32_t>(((next() >> 32) * bound) >> 32);
  }
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  template <typename T>
  void shuffle(std::span<T> values) {
    for (std::size_t i = values.size(); i > 1; --i)
      std::swap(values[i - 1], values[below(static_cast<std::uint32_t>(i))]);
  }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  std::uint64_t state_;
};

}  // namespace hearth::hrm
