// Scalar mathematics for the expressions of elementwise.inc, on the CPU.
//
// The f32 functions used most are straight-line code without calls, so that a loop over them becomes vector code; the
// others, and all of f64, call the C library. tests/math_test.cpp holds their accuracy: at most 4 units in the last
// place (sin and cos up to |x| = 1e6).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace hearth::cpu::HEARTH_ISA::math {

#define HEARTH_INLINE inline __attribute__((always_inline))

template <typename To, typename From>
HEARTH_INLINE To bits(From value) {
  return __builtin_bit_cast(To, value);
}

// ---- arithmetic

HEARTH_INLINE float abs(float x) { return __builtin_fabsf(x); }
HEARTH_INLINE double abs(double x) { return __builtin_fabs(x); }
HEARTH_INLINE std::int32_t abs(std::int32_t x) { return x < 0 ? -x : x; }
HEARTH_INLINE std::int64_t abs(std::int64_t x) { return x < 0 ? -x : x; }

template <typename T>
HEARTH_INLINE T sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : x;
}

HEARTH_INLINE float floor(float x) { return __builtin_floorf(x); }
HEARTH_INLINE double floor(double x) { return __builtin_floor(x); }
HEARTH_INLINE float ceil(float x) { return __builtin_ceilf(x); }
HEARTH_INLINE double ceil(double x) { return __builtin_ceil(x); }
HEARTH_INLINE float round(float x) { return __builtin_rintf(x); }
HEARTH_INLINE double round(double x) { return __builtin_rint(x); }
HEARTH_INLINE float trunc(float x) { return __builtin_truncf(x); }
HEARTH_INLINE double trunc(double x) { return __builtin_trunc(x); }
HEARTH_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
HEARTH_INLINE double sqrt(double x) { return __builtin_sqrt(x); }

template <typename T>
HEARTH_INLINE T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}
template <typename T>
HEARTH_INLINE T minimum(T a, T b) {
  return a < b || a != a ? a : b;
}

HEARTH_INLINE float fmod(float a, float b) { return __builtin_fmodf(a, b); }
HEARTH_INLINE double fmod(double a, double b) { return __builtin_fmod(a, b); }

template <typename T>
  requires std::is_floating_point_v<T>
HEARTH_INLINE T remainder(T a, T b) {
  const T r = fmod(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}
template <typename T>
  requires std::is_floating_point_v<T>
HEARTH_INLINE T floor_divide(T a, T b) {
  const T r = fmod(a, b);
  const T quotient = (a - r) / b - (r != T(0) && (r < T(0)) != (b < T(0)) ? T(1) : T(0));
  return b == T(0) ? a / b : round(quotient);
}

// Integers: division by zero gives 0, and the one quotient that overflows wraps around; neither traps.
template <typename T>
  requires std::is_integral_v<T>
HEARTH_INLINE T fmod(T a, T b) {
  return b == 0 || b == -1 ? T(0) : a % b;
}
template <typename T>
  requires std::is_integral_v<T>
HEARTH_INLINE T remainder(T a, T b) {
  const T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <typename T>
  requires std::is_integral_v<T>
HEARTH_INLINE T floor_divide(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return -a;
  const T quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}
template <typename T>
HEARTH_INLINE T shift_left(T a, T b) {
  return b < 0 || b >= T(sizeof(T) * 8) ? T(0) : T(std::make_unsigned_t<T>(a) << b);
}
template <typename T>
HEARTH_INLINE T shift_right(T a, T b) {
  return b < 0 || b >= T(sizeof(T) * 8) ? (a < 0 ? T(-1) : T(0)) : a >> b;
}
template <typename T>
HEARTH_INLINE T bitwise_not(T x) {
  return ~x;
}

HEARTH_INLINE bool isinf(float x) { return abs(x) == std::numeric_limits<float>::infinity(); }
HEARTH_INLINE bool isinf(double x) { return abs(x) == std::numeric_limits<double>::infinity(); }
HEARTH_INLINE bool isfinite(float x) { return abs(x) <= std::numeric_limits<float>::max(); }
HEARTH_INLINE bool isfinite(double x) { return abs(x) <= std::numeric_limits<double>::max(); }
template <typename T>
  requires std::is_integral_v<T>
HEARTH_INLINE bool isinf(T) {
  return false;
}
template <typename T>
  requires std::is_integral_v<T>
HEARTH_INLINE bool isfinite(T) {
  return true;
}

// ---- exponential and logarithm

HEARTH_INLINE float exp(float x) {
  // e^x = 2^n e^r with |r| <= ln(2) / 2. 2^n is applied in two factors, so that results below the normal range and
  // overflow come out right.
  x = x > 89.0f ? 89.0f : x;
  x = x < -104.0f ? -104.0f : x;
  const float shifted = x * 1.44269504f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const std::int32_t whole = bits<std::int32_t>(shifted) - 0x4b400000;
  float r = x - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const std::int32_t half = whole >> 1;
  return p * bits<float>((half + 127) << 23) * bits<float>((whole - half + 127) << 23);
}
HEARTH_INLINE double exp(double x) { return __builtin_exp(x); }

HEARTH_INLINE float exp2(float x) {
  x = x > 129.0f ? 129.0f : x;
  x = x < -151.0f ? -151.0f : x;
  const float shifted = x + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const std::int32_t whole = bits<std::int32_t>(shifted) - 0x4b400000;
  const float r = (x - n) * 0.693147181f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  const std::int32_t half = whole >> 1;
  return p * bits<float>((half + 127) << 23) * bits<float>((whole - half + 127) << 23);
}
HEARTH_INLINE double exp2(double x) { return __builtin_exp2(x); }

HEARTH_INLINE float log(float x) {
  // x = 2^e m with m in [sqrt(1/2), sqrt(2)); log(m) by a polynomial in m - 1.
  const bool tiny = x < 1.17549435e-38f;
  const float scaled = tiny ? x * 8388608.0f : x;
  const std::int32_t u = bits<std::int32_t>(scaled);
  const std::int32_t exponent = ((u - 0x3f3504f3) >> 23);
  const float m = bits<float>(u - (exponent << 23)) - 1.0f;
  const float e = static_cast<float>(exponent) - (tiny ? 23.0f : 0.0f);
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  p = p * m * z;
  p = p + e * -2.12194440e-4f;
  p = p - 0.5f * z;
  float result = m + p + e * 0.693359375f;
  result = x == 0.0f ? -std::numeric_limits<float>::infinity() : result;
  result = x < 0.0f ? std::numeric_limits<float>::quiet_NaN() : result;
  return x == std::numeric_limits<float>::infinity() || x != x ? x : result;
}
HEARTH_INLINE double log(double x) { return __builtin_log(x); }

HEARTH_INLINE float log2(float x) { return __builtin_log2f(x); }
HEARTH_INLINE double log2(double x) { return __builtin_log2(x); }
HEARTH_INLINE float log10(float x) { return __builtin_log10f(x); }
HEARTH_INLINE double log10(double x) { return __builtin_log10(x); }

HEARTH_INLINE float log1p(float x) {
  // log(u) for u = 1 + x, corrected for the rounding of that sum.
  const float u = 1.0f + x;
  const float corrected = log(u) * (x / (u - 1.0f));
  return u == 1.0f ? x : u == std::numeric_limits<float>::infinity() ? u : u == 0.0f ? log(u) : corrected;
}
HEARTH_INLINE double log1p(double x) { return __builtin_log1p(x); }

HEARTH_INLINE float expm1(float x) {
  const float u = exp(x);
  const float less = u - 1.0f;
  const float corrected = less * (x / log(u));
  return u == 1.0f ? x : less == -1.0f ? -1.0f : u == std::numeric_limits<float>::infinity() ? u : corrected;
}
HEARTH_INLINE double expm1(double x) { return __builtin_expm1(x); }

HEARTH_INLINE float pow(float a, float b) { return __builtin_powf(a, b); }
HEARTH_INLINE double pow(double a, double b) { return __builtin_pow(a, b); }
template <typename T>
  requires std::is_integral_v<T>
HEARTH_INLINE T pow(T a, T b) {
  if (b < 0) return a == 1 ? T(1) : a == -1 ? (b % 2 ? T(-1) : T(1)) : T(0);
  T result = 1;
  for (; b; b >>= 1, a *= a)
    if (b & 1) result *= a;
  return result;
}
HEARTH_INLINE float cbrt(float x) { return __builtin_cbrtf(x); }
HEARTH_INLINE double cbrt(double x) { return __builtin_cbrt(x); }
HEARTH_INLINE float hypot(float a, float b) { return __builtin_hypotf(a, b); }
HEARTH_INLINE double hypot(double a, double b) { return __builtin_hypot(a, b); }

// ---- trigonometric and hyperbolic

// sin(x + quarter turns * pi / 2), reduced in double so that large arguments keep their accuracy.
HEARTH_INLINE float sin_turned(float x, std::int32_t quarters) {
  const double wide = x;
  const double shifted = wide * 0.63661977236758134 + 6755399441055744.0;
  const double n = shifted - 6755399441055744.0;
  const std::int32_t quadrant = static_cast<std::int32_t>(bits<std::int64_t>(shifted)) + quarters;
  const float r = static_cast<float>((wide - n * 1.5707963267341256) - n * 6.0771005065061922e-11);
  const float z = r * r;
  float s = -1.9515295891e-4f;
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  float c = 2.443315711809948e-5f;
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  const float value = quadrant & 1 ? c : s;
  return quadrant & 2 ? -value : value;
}
HEARTH_INLINE float sin(float x) { return sin_turned(x, 0); }
HEARTH_INLINE double sin(double x) { return __builtin_sin(x); }
HEARTH_INLINE float cos(float x) { return sin_turned(x, 1); }
HEARTH_INLINE double cos(double x) { return __builtin_cos(x); }
HEARTH_INLINE float tan(float x) { return __builtin_tanf(x); }
HEARTH_INLINE double tan(double x) { return __builtin_tan(x); }
HEARTH_INLINE float asin(float x) { return __builtin_asinf(x); }
HEARTH_INLINE double asin(double x) { return __builtin_asin(x); }
HEARTH_INLINE float acos(float x) { return __builtin_acosf(x); }
HEARTH_INLINE double acos(double x) { return __builtin_acos(x); }
HEARTH_INLINE float atan(float x) { return __builtin_atanf(x); }
HEARTH_INLINE double atan(double x) { return __builtin_atan(x); }
HEARTH_INLINE float atan2(float a, float b) { return __builtin_atan2f(a, b); }
HEARTH_INLINE double atan2(double a, double b) { return __builtin_atan2(a, b); }
HEARTH_INLINE float sinh(float x) { return __builtin_sinhf(x); }
HEARTH_INLINE double sinh(double x) { return __builtin_sinh(x); }
HEARTH_INLINE float cosh(float x) { return __builtin_coshf(x); }
HEARTH_INLINE double cosh(double x) { return __builtin_cosh(x); }
HEARTH_INLINE float asinh(float x) { return __builtin_asinhf(x); }
HEARTH_INLINE double asinh(double x) { return __builtin_asinh(x); }
HEARTH_INLINE float acosh(float x) { return __builtin_acoshf(x); }
HEARTH_INLINE double acosh(double x) { return __builtin_acosh(x); }
HEARTH_INLINE float atanh(float x) { return __builtin_atanhf(x); }
HEARTH_INLINE double atanh(double x) { return __builtin_atanh(x); }

HEARTH_INLINE float tanh(float x) {
  const float magnitude = abs(x);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  p = p * z * x + x;
  const float large = 1.0f - 2.0f / (exp(2.0f * magnitude) + 1.0f);
  return magnitude < 0.625f ? p : __builtin_copysignf(large, x);
}
HEARTH_INLINE double tanh(double x) { return __builtin_tanh(x); }

// ---- error function

HEARTH_INLINE float erf(float x) {
  // Rational minimax approximation on [-4, 4]; beyond, erf is 1 to f32.
  const float c = x > 4.0f ? 4.0f : x < -4.0f ? -4.0f : x;
  const float z = c * c;
  float p = -2.72614225801306e-10f;
  p = p * z + 2.77068142495902e-08f;
  p = p * z - 2.10102402082508e-06f;
  p = p * z - 5.69250639462346e-05f;
  p = p * z - 7.34990630326855e-04f;
  p = p * z - 2.95459980854025e-03f;
  p = p * z - 1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * z - 2.13374055278905e-04f;
  q = q * z - 1.68282697438203e-03f;
  q = q * z - 7.37332916720468e-03f;
  q = q * z - 1.42647390514189e-02f;
  return c * p / q;
}
HEARTH_INLINE double erf(double x) { return __builtin_erf(x); }
HEARTH_INLINE float erfc(float x) { return __builtin_erfcf(x); }
HEARTH_INLINE double erfc(double x) { return __builtin_erfc(x); }

// Giles' approximation, good to f32.
template <typename T>
HEARTH_INLINE T erfinv_estimate(T x) {
  T w = -log((T(1) - x) * (T(1) + x));
  T p;
  if (w < T(5)) {
    w -= T(2.5);
    p = T(2.81022636e-08);
    p = p * w + T(3.43273939e-07);
    p = p * w + T(-3.5233877e-06);
    p = p * w + T(-4.39150654e-06);
    p = p * w + T(0.00021858087);
    p = p * w + T(-0.00125372503);
    p = p * w + T(-0.00417768164);
    p = p * w + T(0.246640727);
    p = p * w + T(1.50140941);
  } else {
    w = sqrt(w) - T(3);
    p = T(-0.000200214257);
    p = p * w + T(0.000100950558);
    p = p * w + T(0.00134934322);
    p = p * w + T(-0.00367342844);
    p = p * w + T(0.00573950773);
    p = p * w + T(-0.0076224613);
    p = p * w + T(0.00943887047);
    p = p * w + T(1.00167406);
    p = p * w + T(2.83297682);
  }
  return abs(x) == T(1) ? x * std::numeric_limits<T>::infinity() : p * x;
}
HEARTH_INLINE float erfinv(float x) { return erfinv_estimate(x); }
HEARTH_INLINE double erfinv(double x) {
  double y = erfinv_estimate(x);
  if (!isfinite(y)) return y;
  for (int i = 0; i < 2; ++i) y -= (erf(y) - x) * 0.88622692545275801 * exp(y * y);
  return y;
}

// ---- activations

template <typename T>
HEARTH_INLINE T sigmoid(T x) {
  return T(1) / (T(1) + exp(-x));
}
template <typename T>
HEARTH_INLINE T softplus(T x) {
  return maximum(x, T(0)) + log1p(exp(-abs(x)));
}
template <typename T>
HEARTH_INLINE T logsigmoid(T x) {
  return minimum(x, T(0)) - log1p(exp(-abs(x)));
}
template <typename T>
HEARTH_INLINE T logaddexp(T a, T b) {
  const T larger = maximum(a, b);
  return isinf(larger) ? larger : larger + log1p(exp(-abs(a - b)));
}
template <typename T>
HEARTH_INLINE T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}
template <typename T>
HEARTH_INLINE T silu_curvature(T x) {
  const T s = sigmoid(x);
  return s * (T(1) - s) * (T(2) + x * (T(1) - T(2) * s));
}
template <typename T>
HEARTH_INLINE T gelu(T x) {
  return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752)));
}
template <typename T>
HEARTH_INLINE T gelu_slope(T x) {
  return T(0.5) * (T(1) + erf(x * T(0.70710678118654752))) + x * T(0.39894228040143268) * exp(T(-0.5) * x * x);
}
template <typename T>
HEARTH_INLINE T gelu_tanh(T x) {
  return T(0.5) * x * (T(1) + tanh(T(0.79788456080286536) * (x + T(0.044715) * x * x * x)));
}
template <typename T>
HEARTH_INLINE T gelu_tanh_slope(T x) {
  const T t = tanh(T(0.79788456080286536) * (x + T(0.044715) * x * x * x));
  const T inner = T(0.79788456080286536) * (T(1) + T(0.134145) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner;
}
template <typename T>
HEARTH_INLINE T mish(T x) {
  return x * tanh(softplus(x));
}
template <typename T>
HEARTH_INLINE T mish_slope(T x) {
  const T t = tanh(softplus(x));
  return t + x * sigmoid(x) * (T(1) - t * t);
}

}  // namespace hearth::cpu::HEARTH_ISA::math
