// Floats of eight bits: the four formats the chips know, and conversions to and from f32.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace hipemu::semantics {

// `top`: the largest finite code. `overflow`: what a number too large becomes. `without_sign`: no negative
// zero, and its code is the only NaN (the formats of gfx942).
struct E4m3 {
  static constexpr int mantissa = 3, bias = 7;
  static constexpr uint8_t top = 0x7e, overflow = 0x7f, nan = 0x7f;
  static constexpr bool without_sign = false, has_infinity = false;
};
struct E5m2 {
  static constexpr int mantissa = 2, bias = 15;
  static constexpr uint8_t top = 0x7b, overflow = 0x7c, nan = 0x7e;
  static constexpr bool without_sign = false, has_infinity = true;
};
struct E4m3Fnuz {
  static constexpr int mantissa = 3, bias = 8;
  static constexpr uint8_t top = 0x7f, overflow = 0x80, nan = 0x80;
  static constexpr bool without_sign = true, has_infinity = false;
};
struct E5m2Fnuz {
  static constexpr int mantissa = 2, bias = 16;
  static constexpr uint8_t top = 0x7f, overflow = 0x80, nan = 0x80;
  static constexpr bool without_sign = true, has_infinity = false;
};

template <class Format>
float decode_small(uint8_t code) {
  const uint32_t size = code & 0x7f, sign = static_cast<uint32_t>(code & 0x80) << 24;
  if (Format::without_sign && code == 0x80) return std::bit_cast<float>(0x7fc00000u);
  if (!Format::without_sign && size > Format::top) {
    const bool infinite = Format::has_infinity && size == Format::overflow;
    return std::bit_cast<float>(sign | (infinite ? 0x7f800000u : 0x7fc00000u));
  }
  // With exponent and mantissa moved into those of a float, the difference of the biases is a factor.
  // Subnormal numbers come out right because the product is exact.
  const float moved = std::bit_cast<float>(size << (23 - Format::mantissa));
  const float factor = std::bit_cast<float>(static_cast<uint32_t>(127 + 127 - Format::bias) << 23);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(moved * factor) | sign);
}

// `random`: the part of a last place, in 2^-32, that is added before cutting off; null rounds to nearest
// even.
template <class Format>
uint8_t encode_small(float value, const uint32_t* random, bool saturate) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (value != value) return Format::without_sign ? Format::nan : Format::nan | sign;
  const uint8_t too_large = Format::without_sign ? Format::overflow : Format::overflow | sign;
  if (std::isinf(value)) return saturate && !Format::has_infinity ? Format::top | sign : too_large;
  const double size = std::abs(static_cast<double>(value));
  if (size == 0) return Format::without_sign ? 0 : sign;
  int exponent = std::ilogb(size);
  exponent = exponent < 1 - Format::bias ? 1 - Format::bias : exponent;
  const double places = std::scalbn(size, Format::mantissa - exponent);
  double whole = std::rint(places);
  if (random != nullptr) {
    const uint32_t kept = *random >> (9 + Format::mantissa);  // as many bits as are cut off a float
    whole = std::floor(places + std::scalbn(static_cast<double>(kept), -(23 - Format::mantissa)));
  }
  const double code = whole + std::scalbn(static_cast<double>(exponent + Format::bias - 1), Format::mantissa);
  if (code > Format::top) return saturate ? Format::top | sign : too_large;
  if (code == 0 && Format::without_sign) return 0;
  return static_cast<uint8_t>(code) | sign;
}

}  // namespace hipemu::semantics
