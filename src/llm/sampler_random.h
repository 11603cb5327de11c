// The random numbers of samplers, which are the same on every machine and every device: computed with
// numbers of the host, or with tensors of i64. Both wrap around.
#pragma once

#include <array>
#include <cstdint>

#include "hearth/ops.h"
#include "tensor/variable.h"

namespace hearth::llm {

template <class T>
T bits_of(std::uint64_t value);
template <>
inline std::uint64_t bits_of(std::uint64_t value) {
  return value;
}
template <>
inline Tensor bits_of(std::uint64_t value) {
  return make_constant(static_cast<double>(value), static_cast<std::int64_t>(value), DType::i64);
}

inline std::uint64_t differing(std::uint64_t a, std::uint64_t b) { return a ^ b; }
inline Tensor differing(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
inline std::uint64_t shifted_left(std::uint64_t x, int by) { return x << by; }
inline Tensor shifted_left(const Tensor& x, int by) { return shift_left(x, by); }
// Zeros come in.
inline std::uint64_t shifted_right(std::uint64_t x, int by) { return x >> by; }
inline Tensor shifted_right(const Tensor& x, int by) {
  return bitwise_and(shift_right(x, by), bits_of<Tensor>(~std::uint64_t{0} >> by));
}
template <class T>
T turned(const T& x, int by) {
  return differing(shifted_left(x, by), shifted_right(x, 64 - by));
}

constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;

// splitmix64: mixes the bits of a counter.
template <class T>
T mixed(T z) {
  z = differing(z, shifted_right(z, 30)) * bits_of<T>(0xbf58476d1ce4e5b9u);
  z = differing(z, shifted_right(z, 27)) * bits_of<T>(0x94d049bb133111ebu);
  return differing(z, shifted_right(z, 31));
}

template <class T>
using RandomState = std::array<T, 4>;

// xoshiro256++.
template <class T>
T next_random(RandomState<T>& s) {
  const T result = turned(s[0] + s[3], 23) + s[0], shifted = shifted_left(s[1], 17);
  s[2] = differing(s[2], s[0]);
  s[3] = differing(s[3], s[1]);
  s[1] = differing(s[1], s[2]);
  s[0] = differing(s[0], s[3]);
  s[2] = differing(s[2], shifted);
  s[3] = turned(s[3], 45);
  return result;
}

// What a token has of its own, where a sampler has drawn a number.
template <class T>
T bits_of_token(const T& draw, const T& token) {
  return mixed(draw + (token + bits_of<T>(1)) * bits_of<T>(golden));
}

}  // namespace hearth::llm
