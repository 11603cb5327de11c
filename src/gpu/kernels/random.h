// Random numbers: what graph/random.h says, on GPUs.
#pragma once

#include "math.h"

// The Philox 4x32-10 generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3").
struct PhiloxBlock {
  u32 word[4];
  DEVICE u64 wide(int k) const { return word[2 * k] | (u64)word[2 * k + 1] << 32; }
};

DEVICE PhiloxBlock philox_block(u64 seed, u64 number) {
  u32 c0 = (u32)number, c1 = (u32)(number >> 32), c2 = 0, c3 = 0;
  u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const u64 a = (u64)0xd2511f53u * c0, b = (u64)0xcd9e8d57u * c2;
    c0 = (u32)(b >> 32) ^ c1 ^ k0;
    c1 = (u32)b;
    c2 = (u32)(a >> 32) ^ c3 ^ k1;
    c3 = (u32)a;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {{c0, c1, c2, c3}};
}

constexpr f32 two_to_minus_24 = 1.0f / (1 << 24);
constexpr f64 two_to_minus_53 = 1.0 / (1ull << 53);

// A number in [0, 1) with the bits that T cannot hold cut off.
template <class T>
struct Cut;
template <>
struct Cut<f32> {
  static DEVICE f32 of(f32 value) { return value; }
};
template <>
struct Cut<bf16> {
  static DEVICE bf16 of(f32 value) { return {(u16)(bit_cast<u32>(value) >> 16)}; }
};
template <>
struct Cut<f16> {
  static DEVICE f16 of(f32 value) {
    // Below 2^-14 halves are the multiples of 2^-24, which `value` is one of.
    const u32 normal = (bit_cast<u32>(value) - 0x38000000u) >> 13, denormal = (u32)(value * (f32)(1 << 24));
    return {(u16)(value < 1.0f / (1 << 14) ? denormal : normal)};
  }
};

// Sine and cosine of 2 pi * turns, for turns in [0, 1).
DEVICE void sine_cosine_of_turns(f32 turns, f32& sine, f32& cosine) {
  const f32 quarters = math::round(turns * 4.0f);
  const i32 quadrant = (i32)quarters;
  const f32 r = (turns - quarters * 0.25f) * 6.28318531f, z = r * r;
  f32 s = -1.9515295891e-4f;
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  f32 c = 2.443315711809948e-5f;
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  sine = quadrant & 1 ? c : s;
  cosine = quadrant & 1 ? s : c;
  if (quadrant & 2) sine = -sine;
  if ((quadrant + 1) & 2) cosine = -cosine;
}

// Distributions: how the elements of a block come from its words.

template <class T>
struct Uniform {
  static constexpr int elements = 4;
  static DEVICE Packet<T, 4> of(const PhiloxBlock& block) {
    Packet<T, 4> out;
#pragma unroll
    for (int i = 0; i < 4; ++i) out.element[i] = Cut<T>::of((f32)(block.word[i] >> 8) * two_to_minus_24);
    return out;
  }
};
template <>
struct Uniform<f64> {
  static constexpr int elements = 2;
  static DEVICE Packet<f64, 2> of(const PhiloxBlock& block) {
    return {{(f64)(block.wide(0) >> 11) * two_to_minus_53, (f64)(block.wide(1) >> 11) * two_to_minus_53}};
  }
};

template <class T>
struct Normal {
  static constexpr int elements = 4;
  static DEVICE Packet<T, 4> of(const PhiloxBlock& block) {
    Packet<T, 4> out;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const f32 u = (f32)block.word[i] * (two_to_minus_24 / 256) + two_to_minus_24 / 512;
      const f32 v = (f32)(block.word[i + 1] >> 8) * two_to_minus_24;
      const f32 radius = math::sqrt(-2.0f * math::log(u));
      f32 sine, cosine;
      sine_cosine_of_turns(v, sine, cosine);
      out.element[i] = store<T>(radius * cosine);
      out.element[i + 1] = store<T>(radius * sine);
    }
    return out;
  }
};
template <>
struct Normal<f64> {
  static constexpr int elements = 2;
  static DEVICE Packet<f64, 2> of(const PhiloxBlock& block) {
    const f64 u = (f64)((block.wide(0) >> 11) + 1) * two_to_minus_53;
    const f64 v = (f64)(block.wide(1) >> 11) * two_to_minus_53;
    const f64 radius = math::sqrt(-2.0 * math::log(u));
    return {{radius * ::cospi(2 * v), radius * ::sinpi(2 * v)}};
  }
};

template <class T>
struct Bits {
  static constexpr int elements = 2;
  static DEVICE Packet<i64, 2> of(const PhiloxBlock& block) {
    return {{(i64)(block.wide(0) >> 1), (i64)(block.wide(1) >> 1)}};
  }
};

// `aligned`: whole packets can be stored.
template <class Distribution, class T>
DEVICE void fill_random(T* out, u64 seed, u64 offset, u64 count, bool aligned) {
  constexpr int N = Distribution::elements;
  for (u64 i = global_thread(); i * N < count; i += global_threads()) {
    const Packet<T, N> packet = Distribution::of(philox_block(seed, offset + i));
    if (aligned && (i + 1) * N <= count) {
      reinterpret_cast<Packet<T, N>*>(out)[i] = packet;
    } else {
#pragma unroll
      for (int n = 0; n < N; ++n)
        if (i * N + n < count) out[i * N + n] = packet.element[n];
    }
  }
}
