// The float operations whose results the instruction set manuals pin down: least and greatest with what is
// not a number, median, fractions, exponents.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "exec/value.h"

namespace hipemu::semantics {

// A float with its bits, so that f16, f32 and f64 share the code below. Halves are handled as floats: every
// half and every comparison of halves is exact there, and a signaling half is a signaling float.
template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Bits = uint32_t;
  static constexpr Bits sign = 0x80000000u, quiet = 0x00400000u, infinity = 0x7f800000u;
};
template <>
struct FloatBits<double> {
  using Bits = uint64_t;
  static constexpr Bits sign = 1ull << 63, quiet = 1ull << 51, infinity = 0x7ffull << 52;
};

template <class T>
auto bits_of(T value) {
  return std::bit_cast<typename FloatBits<T>::Bits>(value);
}
template <class T>
bool is_nan(T value) {
  return (bits_of(value) & ~FloatBits<T>::sign) > FloatBits<T>::infinity;
}
template <class T>
bool is_signaling(T value) {
  return is_nan(value) && (bits_of(value) & FloatBits<T>::quiet) == 0;
}
template <class T>
T quieted(T value) {
  return is_nan(value) ? std::bit_cast<T>(bits_of(value) | FloatBits<T>::quiet) : value;
}

// With -0 below +0, for numbers.
template <class T>
T lesser(T a, T b) {
  const T tie = std::bit_cast<T>(bits_of(a) | bits_of(b));
  return a < b ? a : (a == b ? tie : b);
}
template <class T>
T greater(T a, T b) {
  const T tie = std::bit_cast<T>(bits_of(a) & bits_of(b));
  return a > b ? a : (a == b ? tie : b);
}

// Up to gfx11, in IEEE mode: a signaling NaN comes out quiet, a quiet one gives way to the other operand.
template <class T>
T min_ieee(T a, T b) {
  T result = lesser(a, b);
  result = is_nan(b) ? a : result;
  result = is_nan(a) ? b : result;
  result = is_signaling(b) ? quieted(b) : result;
  return is_signaling(a) ? quieted(a) : result;
}
template <class T>
T max_ieee(T a, T b) {
  T result = greater(a, b);
  result = is_nan(b) ? a : result;
  result = is_nan(a) ? b : result;
  result = is_signaling(b) ? quieted(b) : result;
  return is_signaling(a) ? quieted(a) : result;
}

// gfx12's "num" form: any NaN gives way to a number (minimumNumber of IEEE 754-2019).
template <class T>
T min_num(T a, T b) {
  T result = lesser(a, b);
  result = is_nan(b) ? a : result;
  return is_nan(a) ? quieted(b) : result;
}
template <class T>
T max_num(T a, T b) {
  T result = greater(a, b);
  result = is_nan(b) ? a : result;
  return is_nan(a) ? quieted(b) : result;
}

// gfx12's other form: any NaN wins (minimum of IEEE 754-2019).
template <class T>
T minimum(T a, T b) {
  T result = lesser(a, b);
  result = is_nan(b) ? quieted(b) : result;
  return is_nan(a) ? quieted(a) : result;
}
template <class T>
T maximum(T a, T b) {
  T result = greater(a, b);
  result = is_nan(b) ? quieted(b) : result;
  return is_nan(a) ? quieted(a) : result;
}

// The middle of three; with a NaN among them, what v_min3 gives.
template <class T, class Min, class Max>
T median(T a, T b, T c, Min min, Max max) {
  const T least = min(min(a, b), c);
  const T middle = max(min(a, b), min(max(a, b), c));
  return is_nan(a) || is_nan(b) || is_nan(c) ? least : middle;
}

// Zero times anything is zero.
inline float multiply_zero_wins(float a, float b) { return a == 0 || b == 0 ? 0.0f : a * b; }

template <class T>
T fraction(T value, T largest) {
  const T result = value - std::floor(value);
  return result > largest ? largest : result;
}

// To the nearest integer, the even one of two, whatever direction the host rounds in.
template <class T>
T nearest_even(T value) {
  const T whole = std::abs(std::trunc(value)), rest = std::abs(value) - whole;
  const T half = whole * T(0.5);
  const bool odd = half != std::trunc(half);
  const bool up = rest > T(0.5) || (rest == T(0.5) && odd);
  return std::copysign(up ? whole + T(1) : whole, value);
}

// value * 2^exponent, rounded once.
inline float scale(float value, int exponent) {
  const int limited = exponent < -400 ? -400 : (exponent > 400 ? 400 : exponent);
  const double factor = std::bit_cast<double>(static_cast<uint64_t>(limited + 1023) << 52);
  return static_cast<float>(static_cast<double>(value) * factor);
}
inline double scale(double value, int exponent) { return std::scalbn(value, exponent); }

template <class T>
T mantissa(T value) {
  int exponent = 0;
  return std::isfinite(value) ? std::frexp(value, &exponent) : quieted(value);
}
template <class T>
int exponent(T value) {
  int result = 0;
  if (std::isfinite(value)) std::frexp(value, &result);
  return value == 0 ? 0 : result;
}

// a * b + c rounded to odd: rounding that to fewer bits gives the rounding of the exact value.
inline double fma_to_odd(double a, double b, double c) {
  const double product = a * b, product_error = std::fma(a, b, -product);
  const double sum = product + c, from_c = sum - product;
  const double error = (product - (sum - from_c)) + (c - from_c) + product_error;
  const uint64_t bits = bits_of(sum);
  const bool adjust = error != 0 && (bits & 1) == 0 && std::isfinite(sum) && error == error;
  return std::bit_cast<double>(adjust ? bits + ((error > 0) == (sum > 0) ? 1 : ~0ull) : bits);
}
inline float to_odd_float(double value) {
  const float nearest = static_cast<float>(value);
  const double error = value - static_cast<double>(nearest);
  const uint32_t bits = bits_of(nearest);
  const bool adjust = error != 0 && (bits & 1) == 0 && std::isfinite(nearest) && error == error;
  const bool away = nearest == 0 || (error > 0) == (nearest > 0);
  const uint32_t sign = value < 0 ? 0x80000000u : 0u;
  return std::bit_cast<float>(adjust ? (bits | sign) + (away ? 1u : ~0u) : bits);
}

// The hardware's f32 rcp, rsq, sqrt, exp and log know no subnormal numbers.
inline float without_subnormals(float value) {
  return std::abs(value) < 0x1p-126f ? std::bit_cast<float>(bits_of(value) & 0x80000000u) : value;
}

inline float reciprocal(float value) { return without_subnormals(1.0f / without_subnormals(value)); }
inline float reciprocal_root(float value) {
  const float input = without_subnormals(value);
  return input == 0 ? 1.0f / input : static_cast<float>(1.0 / std::sqrt(static_cast<double>(input)));
}
inline float root(float value) { return std::sqrt(without_subnormals(value)); }
inline float power_of_two(float value) { return without_subnormals(std::exp2(without_subnormals(value))); }
inline float logarithm(float value) {
  return static_cast<float>(std::log2(static_cast<double>(without_subnormals(value))));
}

// The arguments of sine and cosine count whole turns.
template <class Function>
float of_turns(float turns, Function function) {
  constexpr double full_circle = 6.283185307179586476925286766559;
  const double part = static_cast<double>(turns) - std::rint(static_cast<double>(turns));
  return static_cast<float>(function(part * full_circle));
}
inline float sine(float turns) {
  return turns == 0 ? turns : of_turns(turns, [](double x) { return std::sin(x); });
}
inline float cosine(float turns) {
  return of_turns(turns, [](double x) { return std::cos(x); });
}

}  // namespace hipemu::semantics
