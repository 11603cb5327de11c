// The types of operands, and arithmetic on the 16-bit floats that C++20 compilers do not all have.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace hipemu {

// How the bits of an operand are read: it decides how many registers it spans and what a constant in the text
// means.
enum class ValueType : uint8_t {
  none,
  u16,
  i16,
  f16,
  bf16,
  u32,
  i32,
  f32,
  u64,
  i64,
  f64,
  packed_i16,  // two 16-bit integers in one register
  packed_f16,  // two f16
  packed_bf16,
  packed_f32,  // two f32 in two registers
  mask,        // one bit per lane, in one scalar register (wave32) or two
};

constexpr int dwords(ValueType type) {
  switch (type) {
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
    case ValueType::packed_f32:
      return 2;
    case ValueType::none:
      return 0;
    default:
      return 1;
  }
}

constexpr bool is_16_bit(ValueType type) { return type >= ValueType::u16 && type <= ValueType::bf16; }
constexpr bool is_packed(ValueType type) {
  return type >= ValueType::packed_i16 && type <= ValueType::packed_f32;
}
constexpr bool is_float(ValueType type) {
  return type == ValueType::f16 || type == ValueType::bf16 || type == ValueType::f32 ||
         type == ValueType::f64 || type == ValueType::packed_f16 || type == ValueType::packed_bf16 ||
         type == ValueType::packed_f32;
}

// Written without branches, so that loops over lanes vectorise.
inline float half_to_float(uint16_t bits) {
  const uint32_t magnitude = bits & 0x7fffu;
  uint32_t value = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f);
  value |= magnitude >= 0x7c00u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(value | (bits & 0x8000u) << 16);
}

inline uint16_t float_to_half(float value) {  // to nearest, ties to even
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
  // Adding 0.5 lines the last bit of a subnormal half up with the last bit of the sum.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t half = magnitude < 0x38800000u ? small : normal;
  half = magnitude >= 0x47800000u ? 0x7c00u : half;
  half = magnitude > 0x7f800000u ? 0x7e00u | ((magnitude >> 13) & 0x3ffu) : half;
  return static_cast<uint16_t>(half | (bits >> 16 & 0x8000u));
}

inline float bfloat_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t float_to_bfloat(float value) {  // to nearest, ties to even
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  const uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

struct Half16 {
  uint16_t bits = 0;
  Half16() = default;
  explicit Half16(float value) : bits(float_to_half(value)) {}
  static Half16 from_bits(uint16_t bits) {
    Half16 half;
    half.bits = bits;
    return half;
  }
  explicit operator float() const { return half_to_float(bits); }
};

struct Bfloat16 {
  uint16_t bits = 0;
  Bfloat16() = default;
  explicit Bfloat16(float value) : bits(float_to_bfloat(value)) {}
  static Bfloat16 from_bits(uint16_t bits) {
    Bfloat16 value;
    value.bits = bits;
    return value;
  }
  explicit operator float() const { return bfloat_to_float(bits); }
};

// a + b in float, rounded to odd: rounding that to fewer bits gives what rounding the exact sum would have
// given.
inline float add_to_odd(float a, float b) {
  const float sum = a + b;
  const float from_b = sum - a;
  const float error = (a - (sum - from_b)) + (b - from_b);
  const uint32_t bits = std::bit_cast<uint32_t>(sum);
  const bool adjust = error != 0 && (bits & 1) == 0 && std::abs(sum) < INFINITY && error == error;
  const uint32_t step = ((error > 0) == (sum > 0)) ? 1u : ~0u;
  return std::bit_cast<float>(adjust ? bits + step : bits);
}

// The product of two halves is exact in float.
inline Half16 fused_multiply_add(Half16 a, Half16 b, Half16 c) {
  return Half16(add_to_odd(static_cast<float>(a) * static_cast<float>(b), static_cast<float>(c)));
}

// Two values of 16 bits in one register, as the v_pk_* instructions see it.
struct PackedI16 {
  uint32_t bits;
};
struct PackedF16 {
  uint32_t bits;
};
struct PackedBf16 {
  uint32_t bits;
};
struct PackedF32 {
  float low, high;
};

}  // namespace hipemu
