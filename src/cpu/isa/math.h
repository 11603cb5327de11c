// Mathematics for the expressions of elementwise.inc, on the CPU.
//
// The f32 functions used most are straight-line code, written once for a number and for a Pack of them; the
// others, and all of f64, call the C library. Files that include this may be compiled with or without
// contraction of a * b + c; where one rounding matters the functions ask for it with multiply_add.
//
// Accuracy of f32, held by tests/math_test.cpp: 4 units in the last place over the whole range, results below
// the normal range included (erf 5, erfinv 8). The activations that lie near zero as a difference of larger
// numbers (gelu, gelu_slope, silu_slope and their like, far out on the negative side) have an absolute error
// of up to 1e-6 instead.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "cpu/isa/pack.h"

namespace hearth::cpu::HEARTH_ISA::math {

// float or a pack of them.
template <typename F>
concept Float32 = std::is_same_v<F, float> || std::is_same_v<F, Pack<float>>;
// The integers that go with it.
template <Float32 F>
using Integer = std::conditional_t<std::is_same_v<F, float>, std::int32_t, Pack<std::int32_t>>;

inline constexpr float infinity = std::numeric_limits<float>::infinity();

template <typename To, typename From>
HEARTH_INLINE To bits(From value) {
  if constexpr (requires { value.part; })
    return each_register<To>([&](std::size_t i) HEARTH_LAMBDA {
      return __builtin_bit_cast(std::remove_reference_t<decltype(To{}.part[0])>, value.part[i]);
    });
  else
    return __builtin_bit_cast(To, value);
}

template <typename T>
HEARTH_INLINE T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}
template <typename T>
HEARTH_INLINE Pack<T> select(Mask mask, Pack<T> yes, Pack<T> no) {
  return each_register<Pack<T>>(
      [&](std::size_t i) HEARTH_LAMBDA { return select_register<T>(mask.part[i], yes.part[i], no.part[i]); });
}
template <typename T>
HEARTH_INLINE Pack<T> select(Mask mask, Pack<T> yes, std::type_identity_t<T> no) {
  return select(mask, yes, Pack<T>(no));
}
template <typename T>
HEARTH_INLINE Pack<T> select(Mask mask, std::type_identity_t<T> yes, Pack<T> no) {
  return select(mask, Pack<T>(yes), no);
}

// a * b + c, rounded once where the machine can.
HEARTH_INLINE float multiply_add(float a, float b, float c) {
#if defined(__aarch64__) || defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
HEARTH_INLINE Pack<float> multiply_add(Pack<float> a, Pack<float> b, Pack<float> c) {
  return each_register<Pack<float>>([&](std::size_t i) HEARTH_LAMBDA {
#if defined(__aarch64__)
    return vfmaq_f32(c.part[i], a.part[i], b.part[i]);
#elif defined(__AVX512F__)
    return _mm512_fmadd_ps(a.part[i], b.part[i], c.part[i]);
#elif defined(__FMA__)
    return _mm256_fmadd_ps(a.part[i], b.part[i], c.part[i]);
#else
    return a.part[i] * b.part[i] + c.part[i];
#endif
  });
}

// A constant that a product is added to. On aarch64 the sum replaces what is added to: a constant kept in a
// register would be copied before each, which costs as much as a product. It is loaded each time instead, as
// loads have units of their own.
struct Constant {
  constexpr Constant(float value) : lanes{value, value, value, value} {}  // NOLINT: it is a number
  alignas(16) float lanes[4];
};
#if defined(__aarch64__)
// `use` is what the constant is for: without it the compiler would load once, before the loop.
HEARTH_INLINE Vector<float> load_for(Vector<float> use, const Constant& constant) {
  Vector<float> result;
  asm("ldr %q0, %1" : "=w"(result) : "m"(constant.lanes), "w"(use));
  return result;
}
#endif
HEARTH_INLINE float multiply_add(float a, float b, const Constant& c) {
  return multiply_add(a, b, c.lanes[0]);
}
HEARTH_INLINE Pack<float> multiply_add(Pack<float> a, Pack<float> b, const Constant& c) {
#if defined(__aarch64__)
  return each_register<Pack<float>>(
      [&](std::size_t i) HEARTH_LAMBDA { return vfmaq_f32(load_for(a.part[i], c), a.part[i], b.part[i]); });
#else
  return multiply_add(a, b, Pack<float>(c.lanes[0]));
#endif
}

// terms[0] * x^(n - 1) + ... + terms[n - 1], by Horner's rule on pairs of terms: z is x^2.
template <std::size_t next, Float32 F, std::size_t n>
HEARTH_INLINE F go_on_with_pairs(F p, F x, F z, const Constant (&terms)[n]) {
  if constexpr (next == n)
    return p;
  else
    return go_on_with_pairs<next + 2>(
        multiply_add(p, z, multiply_add(x, F(terms[next].lanes[0]), terms[next + 1])), x, z, terms);
}
template <Float32 F, std::size_t n>
HEARTH_INLINE F polynomial(F x, F z, const Constant (&terms)[n]) {
  const F first = terms[0].lanes[0];
  if constexpr (n % 2 == 0)
    return go_on_with_pairs<2>(multiply_add(x, first, terms[1]), x, z, terms);
  else
    return go_on_with_pairs<1>(first, x, z, terms);
}

// ---- arithmetic

HEARTH_INLINE float abs(float x) { return __builtin_fabsf(x); }
HEARTH_INLINE double abs(double x) { return __builtin_fabs(x); }
HEARTH_INLINE std::int32_t abs(std::int32_t x) { return x < 0 ? -x : x; }
HEARTH_INLINE std::int64_t abs(std::int64_t x) { return x < 0 ? -x : x; }
HEARTH_INLINE Pack<float> abs(Pack<float> x) {
  return bits<Pack<float>>(bits<Pack<std::int32_t>>(x) & 0x7fffffff);
}
// |magnitude| with the sign of x.
template <Float32 F>
HEARTH_INLINE F copysign(F magnitude, F x) {
  using I = Integer<F>;
  return bits<F>((bits<I>(magnitude) & 0x7fffffff) | (bits<I>(x) & std::numeric_limits<std::int32_t>::min()));
}

template <typename T>
HEARTH_INLINE T sign(T x) {
  return select(x > T(0), T(1), select(x < T(0), T(-1), select(x == T(0), T(0), x)));
}

// On the CPU itself where it has the instruction.
#if defined(__aarch64__)
#define HEARTH_ROUNDING(name, builtin, neon, sse, avx512) neon(x.part[i])
#elif defined(__AVX512F__)
#define HEARTH_ROUNDING(name, builtin, neon, sse, avx512) \
  _mm512_roundscale_ps(x.part[i], (avx512) | _MM_FROUND_NO_EXC)
#elif defined(__AVX__)
#define HEARTH_ROUNDING(name, builtin, neon, sse, avx512) \
  _mm256_round_ps(x.part[i], (sse) | _MM_FROUND_NO_EXC)
#else
#define HEARTH_ROUNDING(name, builtin, neon, sse, avx512) rounded_##name(x.part[i])
#endif
#define HEARTH_DEFINE_ROUNDING(name, builtin, neon, mode)                                               \
  HEARTH_INLINE float name(float x) { return __builtin_##builtin##f(x); }                               \
  HEARTH_INLINE double name(double x) { return __builtin_##builtin(x); }                                \
  HEARTH_INLINE Vector<float> rounded_##name(Vector<float> x) {                                         \
    for (int j = 0; j < vector_lanes<float>; ++j) x[j] = name(x[j]);                                    \
    return x;                                                                                           \
  }                                                                                                     \
  HEARTH_INLINE Pack<float> name(Pack<float> x) {                                                       \
    return each_register<Pack<float>>(                                                                  \
        [&](std::size_t i) HEARTH_LAMBDA { return HEARTH_ROUNDING(name, builtin, neon, mode, mode); }); \
  }
HEARTH_DEFINE_ROUNDING(floor, floor, vrndmq_f32, _MM_FROUND_TO_NEG_INF)
HEARTH_DEFINE_ROUNDING(ceil, ceil, vrndpq_f32, _MM_FROUND_TO_POS_INF)
HEARTH_DEFINE_ROUNDING(round, rint, vrndnq_f32, _MM_FROUND_TO_NEAREST_INT)
HEARTH_DEFINE_ROUNDING(trunc, trunc, vrndq_f32, _MM_FROUND_TO_ZERO)
#undef HEARTH_DEFINE_ROUNDING
#undef HEARTH_ROUNDING

HEARTH_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }
HEARTH_INLINE double sqrt(double x) { return __builtin_sqrt(x); }
HEARTH_INLINE Pack<float> sqrt(Pack<float> x) {
  return each_register<Pack<float>>([&](std::size_t i) HEARTH_LAMBDA {
#if defined(__aarch64__)
    return vsqrtq_f32(x.part[i]);
#elif defined(__AVX512F__)
    return _mm512_sqrt_ps(x.part[i]);
#elif defined(__AVX__)
    return _mm256_sqrt_ps(x.part[i]);
#elif defined(__x86_64__)
    return _mm_sqrt_ps(x.part[i]);
#else
    Vector<float> root = x.part[i];
    for (int j = 0; j < vector_lanes<float>; ++j) root[j] = sqrt(root[j]);
    return root;
#endif
  });
}

template <typename T>
HEARTH_INLINE T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}
template <typename T>
HEARTH_INLINE T minimum(T a, T b) {
  return a < b || a != a ? a : b;
}
HEARTH_INLINE Pack<float> maximum(Pack<float> a, Pack<float> b) {
#if defined(__aarch64__)
  return each_register<Pack<float>>([&](std::size_t i)
                                        HEARTH_LAMBDA { return vmaxq_f32(a.part[i], b.part[i]); });
#else
  return select(a != a, a, select(a > b, a, b));
#endif
}
HEARTH_INLINE Pack<float> minimum(Pack<float> a, Pack<float> b) {
#if defined(__aarch64__)
  return each_register<Pack<float>>([&](std::size_t i)
                                        HEARTH_LAMBDA { return vminq_f32(a.part[i], b.part[i]); });
#else
  return select(a != a, a, select(a < b, a, b));
#endif
}
// x, but not below `low` or not above `high`; NaN stays.
HEARTH_INLINE float at_least(float x, float low) { return x < low ? low : x; }
HEARTH_INLINE float at_most(float x, float high) { return x > high ? high : x; }
HEARTH_INLINE Pack<float> at_least(Pack<float> x, float low) {
#if defined(__aarch64__)
  return maximum(x, low);
#else
  return select(Pack<float>(low) > x, low, x);
#endif
}
HEARTH_INLINE Pack<float> at_most(Pack<float> x, float high) {
#if defined(__aarch64__)
  return minimum(x, high);
#else
  return select(Pack<float>(high) < x, high, x);
#endif
}
template <Float32 F>
HEARTH_INLINE F clamp(F x, float low, float high) {
  return at_least(at_most(x, high), low);
}

template <typename T>
concept Floating = std::is_floating_point_v<T> || Float32<T>;

HEARTH_INLINE float fmod(float a, float b) { return __builtin_fmodf(a, b); }
HEARTH_INLINE double fmod(double a, double b) { return __builtin_fmod(a, b); }
HEARTH_INLINE Pack<float> fmod(Pack<float> a, Pack<float> b) {
  return each_lane([](float u, float v) { return __builtin_fmodf(u, v); }, a, b);
}

template <Floating T>
HEARTH_INLINE T remainder(T a, T b) {
  const T r = fmod(a, b);
  return select((r != T(0)) & ((r < T(0)) ^ (b < T(0))), r + b, r);
}
template <Floating T>
HEARTH_INLINE T floor_divide(T a, T b) {
  const T r = fmod(a, b);
  const T quotient = (a - r) / b - select((r != T(0)) & ((r < T(0)) ^ (b < T(0))), T(1), T(0));
  return select(b == T(0), a / b, round(quotient));
}

// Integers: division by zero gives 0, and the one quotient that overflows wraps around; neither traps.
template <typename T>
requires std::is_integral_v<T> HEARTH_INLINE T fmod(T a, T b) { return b == 0 || b == -1 ? T(0) : a % b; }
template <typename T>
requires std::is_integral_v<T> HEARTH_INLINE T remainder(T a, T b) {
  const T r = fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
template <typename T>
requires std::is_integral_v<T> HEARTH_INLINE T floor_divide(T a, T b) {
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

template <Float32 F>
HEARTH_INLINE auto isinf(F x) {
  return abs(x) == F(infinity);
}
template <Float32 F>
HEARTH_INLINE auto isfinite(F x) {
  return abs(x) <= F(std::numeric_limits<float>::max());
}
HEARTH_INLINE bool isinf(double x) { return abs(x) == std::numeric_limits<double>::infinity(); }
HEARTH_INLINE bool isfinite(double x) { return abs(x) <= std::numeric_limits<double>::max(); }
template <typename T>
requires std::is_integral_v<T> HEARTH_INLINE bool isinf(T) { return false; }
template <typename T>
requires std::is_integral_v<T> HEARTH_INLINE bool isfinite(T) { return true; }

// ---- functions of the C library

#define HEARTH_LIBRARY_FUNCTION(name)                                    \
  HEARTH_INLINE float name(float x) { return __builtin_##name##f(x); }   \
  HEARTH_INLINE double name(double x) { return __builtin_##name(x); }    \
  HEARTH_INLINE Pack<float> name(Pack<float> x) {                        \
    return each_lane([](float v) { return __builtin_##name##f(v); }, x); \
  }
#define HEARTH_LIBRARY_FUNCTION_OF_TWO(name)                                            \
  HEARTH_INLINE float name(float a, float b) { return __builtin_##name##f(a, b); }      \
  HEARTH_INLINE double name(double a, double b) { return __builtin_##name(a, b); }      \
  HEARTH_INLINE Pack<float> name(Pack<float> a, Pack<float> b) {                        \
    return each_lane([](float u, float v) { return __builtin_##name##f(u, v); }, a, b); \
  }
HEARTH_LIBRARY_FUNCTION(log2)
HEARTH_LIBRARY_FUNCTION(log10)
HEARTH_LIBRARY_FUNCTION(cbrt)
HEARTH_LIBRARY_FUNCTION(tan)
HEARTH_LIBRARY_FUNCTION(asin)
HEARTH_LIBRARY_FUNCTION(acos)
HEARTH_LIBRARY_FUNCTION(atan)
HEARTH_LIBRARY_FUNCTION(sinh)
HEARTH_LIBRARY_FUNCTION(cosh)
HEARTH_LIBRARY_FUNCTION(asinh)
HEARTH_LIBRARY_FUNCTION(acosh)
HEARTH_LIBRARY_FUNCTION(atanh)
HEARTH_LIBRARY_FUNCTION(erfc)
HEARTH_LIBRARY_FUNCTION_OF_TWO(pow)
HEARTH_LIBRARY_FUNCTION_OF_TWO(hypot)
HEARTH_LIBRARY_FUNCTION_OF_TWO(atan2)
#undef HEARTH_LIBRARY_FUNCTION
#undef HEARTH_LIBRARY_FUNCTION_OF_TWO

template <typename T>
requires std::is_integral_v<T> HEARTH_INLINE T pow(T a, T b) {
  if (b < 0) return a == 1 ? T(1) : a == -1 ? (b % 2 ? T(-1) : T(1)) : T(0);
  T result = 1;
  for (; b; b >>= 1, a *= a)
    if (b & 1) result *= a;
  return result;
}

// ---- exponential and logarithm

// Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits. 254 more make those bits twice the
// bias of an exponent, so that either half of n becomes a power of two by a shift alone.
inline constexpr float exponent_shifter = 12582912.0f + 254.0f;

// (e^r - 1 - r) / r^2 for |r| <= ln(2) / 2.
template <Float32 F>
HEARTH_INLINE F exponential_tail(F r) {
  static constexpr Constant terms[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                       4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
  return polynomial(r, r * r, terms);
}

// e^r * 2^n for n = shifted - exponent_shifter. The power is applied in two factors, so that results below
// the normal range and overflow come out right.
template <Float32 F>
HEARTH_INLINE F scaled_exponential(F r, F shifted) {
  using I = Integer<F>;
  const F p = multiply_add(exponential_tail(r), r * r, r) + 1.0f;
  const I whole = bits<I>(shifted), half = whole >> 1;
  return p * bits<F>(half << 23) * bits<F>((whole - half) << 23);
}

// x - n ln(2), with ln(2) in two pieces.
template <Float32 F>
HEARTH_INLINE F without_ln2(F x, F n) {
  return multiply_add(n, F(2.12194440e-4f), multiply_add(n, F(-0.693359375f), x));
}

template <Float32 F>
HEARTH_INLINE F exp(F x) {
  x = clamp(x, -104.0f, 89.0f);
  const F shifted = multiply_add(x, F(1.44269504f), F(exponent_shifter));
  return scaled_exponential(without_ln2(x, shifted - exponent_shifter), shifted);
}
HEARTH_INLINE double exp(double x) { return __builtin_exp(x); }

// e^x for x <= 0, of one x after the other. next(x) begins with x and returns the result of the x before, or
// 0 at first. Its lines take turns between the two: a core looks ahead over too few instructions to find the
// beginning of the next exponential by itself while it waits for the end of this one.
//
// The error is up to 2.1 units near 0 and 5 for the smallest results; below 2^-126.5 they are 0. NaN stays
// NaN.
template <Float32 F>
struct RunningExponential {
  F r = 0.0f, power = 0.0f;  // of the x before: e^x = e^r * power

  HEARTH_INLINE F next(F x) {
    using I = Integer<F>;
    static constexpr Constant shifter = 12582912.0f + 127.0f;
    static constexpr Constant terms[] = {0x1.0f9f9cp-7f, 0x1.573a1ap-5f, 0x1.555a80p-3f, 0x1.fffdc6p-2f,
                                         0x1.fffff6p-1f};
    F slope = multiply_add(r, F(terms[0].lanes[0]), terms[1]);
    x = at_least(x, -88.0f);  // the limit's n is -127, whose power of two comes out as 0
    slope = multiply_add(slope, r, terms[2]);
    const F shifted = multiply_add(x, F(1.44269504f), shifter);
    slope = multiply_add(slope, r, terms[3]);
    const F n = shifted - shifter.lanes[0];
    slope = multiply_add(slope, r, terms[4]);
#if defined(__aarch64__) || defined(__FMA__)
    const F next_r = multiply_add(n, F(-0.693147181f), x);  // ln(2) is off by 1.9e-9
#else
    const F next_r = without_ln2(x, n);
#endif
    const F result = multiply_add(slope, r * power, power);
    power = bits<F>(bits<I>(shifted) << 23);
    r = next_r;
    return result;
  }
};
template <Float32 F>
HEARTH_INLINE F exp_of_negative(F x) {
  RunningExponential<F> exponential;
  exponential.next(x);
  return exponential.next(x);
}
HEARTH_INLINE double exp_of_negative(double x) { return exp(x); }
HEARTH_INLINE Pack<double> exp_of_negative(Pack<double> x) {
  return each_lane([](double v) { return exp(v); }, x);
}

template <Float32 F>
HEARTH_INLINE F exp2(F x) {
  x = clamp(x, -151.0f, 129.0f);
  const F shifted = x + exponent_shifter;
  return scaled_exponential((x - (shifted - exponent_shifter)) * 0.693147181f, shifted);
}
HEARTH_INLINE double exp2(double x) { return __builtin_exp2(x); }

template <Float32 F>
HEARTH_INLINE F expm1(F x) {
  // 2^n (e^r - 1) + (2^n - 1), all halved so that 2^n does not overflow before its time.
  using I = Integer<F>;
  const F c = clamp(x, -18.0f, 89.0f);
  const F shifted = multiply_add(c, F(1.44269504f), F(12582912.0f + 126.0f));
  const F r = without_ln2(c, shifted - (12582912.0f + 126.0f));
  const F less = multiply_add(exponential_tail(r), r * r, r);
  const F half = bits<F>(bits<I>(shifted) << 23);
  const F result = multiply_add(half, less, half - 0.5f) * 2.0f;
  return select(abs(x) < F(1e-8f), x, result);
}
HEARTH_INLINE double expm1(double x) { return __builtin_expm1(x); }

// log(1 + m) - m for m in [sqrt(1/2) - 1, sqrt(2) - 1].
template <Float32 F>
HEARTH_INLINE F logarithm_tail(F m) {
  const F z = m * m;
  static constexpr Constant terms[] = {7.0376836292e-2f,  -1.1514610310e-1f, 1.1676998740e-1f,
                                       -1.2420140846e-1f, 1.4249322787e-1f,  -1.6668057665e-1f,
                                       2.0000714765e-1f,  -2.4999993993e-1f, 3.3333331174e-1f};
  const F p = polynomial(m, z, terms);
  return multiply_add(F(-0.5f), z, p * m * z);
}

HEARTH_INLINE float as_float(std::int32_t x) { return static_cast<float>(x); }
HEARTH_INLINE Pack<float> as_float(Pack<std::int32_t> x) {
  return each_register<Pack<float>>(
      [&](std::size_t i) HEARTH_LAMBDA { return __builtin_convertvector(x.part[i], Vector<float>); });
}

// log(x) + correction for positive finite x, where the correction is small.
template <Float32 F>
HEARTH_INLINE F log_of_positive(F x, F correction) {
  // x = 2^e (1 + m) with 1 + m in [sqrt(1/2), sqrt(2)).
  using I = Integer<F>;
  const auto tiny = x < F(1.17549435e-38f);
  const I u = bits<I>(select(tiny, x * 8388608.0f, x));
  const I exponent = (u - 0x3f3504f3) >> 23;
  const F m = bits<F>(u - (exponent << 23)) - 1.0f;
  const F e = as_float(exponent) - select(tiny, F(23.0f), F(0.0f));
  const F tail = multiply_add(e, F(-2.12194440e-4f), logarithm_tail(m) + correction);
  return multiply_add(e, F(0.693359375f), m + tail);
}

// What log gives where its argument is not positive and finite.
template <Float32 F>
HEARTH_INLINE F with_log_limits(F x, F result) {
  const F beyond =
      select(x == F(0.0f), F(-infinity), select(x < F(0.0f), F(std::numeric_limits<float>::quiet_NaN()), x));
  return select((x > F(0.0f)) & (x < F(infinity)), result, beyond);
}

template <Float32 F>
HEARTH_INLINE F log(F x) {
  return with_log_limits(x, log_of_positive(x, F(0.0f)));
}
HEARTH_INLINE double log(double x) { return __builtin_log(x); }

template <Float32 F>
HEARTH_INLINE F log1p(F x) {
  // log(u) for u = 1 + x, corrected for the rounding of that sum. Where x is large against 1, it is the 1
  // that was rounded.
  const F u = 1.0f + x;
  const F lost = select(abs(x) < F(1.0f), x - (u - 1.0f), 1.0f - (u - x));
  return select(abs(x) < F(1e-8f), x, with_log_limits(u, log_of_positive(u, lost / u)));
}
HEARTH_INLINE double log1p(double x) { return __builtin_log1p(x); }

// ---- trigonometric and hyperbolic

// Of |r| <= pi / 4.
template <Float32 F>
HEARTH_INLINE F sine_polynomial(F r) {
  const F z = r * r;
  static constexpr Constant terms[] = {-1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f};
  return multiply_add(polynomial(z, z * z, terms) * z, r, r);
}
template <Float32 F>
HEARTH_INLINE F cosine_polynomial(F r) {
  const F z = r * r;
  static constexpr Constant terms[] = {2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f};
  const F c = polynomial(z, z * z, terms);
  return multiply_add(c * z, z, multiply_add(F(-0.5f), z, F(1.0f)));
}

// The larger arguments go to the C library: for these, n pi / 2 in three pieces is exact enough.
inline constexpr float largest_reduced_angle = 1.0e6f;

// What is left of x after n quarter turns, in [-pi / 4, pi / 4].
HEARTH_INLINE float reduced_angle(float x, float n) {
  const double wide = x, count = n;
  return static_cast<float>((wide - count * 1.5707963267341256) - count * 6.0771005065061922e-11);
}
HEARTH_INLINE Pack<float> reduced_angle(Pack<float> x, Pack<float> n) {
#if defined(__aarch64__) || defined(__FMA__)
  const Pack<float> first = multiply_add(n, Pack<float>(-0x1.921fb6p+0f), x);
  return multiply_add(n, Pack<float>(0x1.ee59dap-50f), multiply_add(n, Pack<float>(0x1.777a5cp-25f), first));
#else
  return each_lane([](float u, float v) { return reduced_angle(u, v); }, x, n);
#endif
}

// sin(x + quarters * pi / 2), for |x| <= largest_reduced_angle.
template <Float32 F>
HEARTH_INLINE F sin_turned(F x, std::int32_t quarters) {
  using I = Integer<F>;
  const F shifted = multiply_add(x, F(0.636619772f), F(12582912.0f));
  const I quadrant = bits<I>(shifted) + quarters;
  const F r = reduced_angle(x, shifted - 12582912.0f);
  const F value = select((quadrant & 1) == I(0), sine_polynomial(r), cosine_polynomial(r));
  return bits<F>(bits<I>(value) ^ ((quadrant & 2) << 30));
}

HEARTH_INLINE float sin(float x) {
  return abs(x) > largest_reduced_angle ? __builtin_sinf(x) : x == 0.0f ? x : sin_turned(x, 0);
}
HEARTH_INLINE float cos(float x) {
  return abs(x) > largest_reduced_angle ? __builtin_cosf(x) : sin_turned(x, 1);
}
HEARTH_INLINE Pack<float> sin(Pack<float> x) {
  const Pack<float> y = select(x == 0.0f, x, sin_turned(x, 0));  // -0 stays
  if (!any(abs(x) > largest_reduced_angle)) return y;
  return each_lane([](float v, float w) { return abs(v) > largest_reduced_angle ? __builtin_sinf(v) : w; }, x,
                   y);
}
HEARTH_INLINE Pack<float> cos(Pack<float> x) {
  const Pack<float> y = sin_turned(x, 1);
  if (!any(abs(x) > largest_reduced_angle)) return y;
  return each_lane([](float v, float w) { return abs(v) > largest_reduced_angle ? __builtin_cosf(v) : w; }, x,
                   y);
}
HEARTH_INLINE double sin(double x) { return __builtin_sin(x); }
HEARTH_INLINE double cos(double x) { return __builtin_cos(x); }

template <Float32 F>
HEARTH_INLINE F tanh(F x) {
  const F magnitude = abs(x), z = x * x;
  static constexpr Constant terms[] = {-5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f,
                                       1.33314422036e-1f, -3.33332819422e-1f};
  const F p = polynomial(z, z * z, terms);
  const F large = 1.0f - 2.0f / (exp(2.0f * magnitude) + 1.0f);
  return copysign(select(magnitude < F(0.625f), multiply_add(p * z, magnitude, magnitude), large), x);
}
HEARTH_INLINE double tanh(double x) { return __builtin_tanh(x); }

// ---- error function

template <Float32 F>
HEARTH_INLINE F erf(F x) {
  // Rational minimax approximation on [-4, 4]; beyond, erf is 1 to f32.
  const F c = clamp(x, -4.0f, 4.0f);
  const F z = c * c;
  static constexpr Constant numerator[] = {
      -2.72614225801306e-10f, 2.77068142495902e-08f,  -2.10102402082508e-06f, -5.69250639462346e-05f,
      -7.34990630326855e-04f, -2.95459980854025e-03f, -1.60960333262415e-02f};
  const F p = polynomial(z, z * z, numerator);
  static constexpr Constant denominator[] = {-1.45660718464996e-05f, -2.13374055278905e-04f,
                                             -1.68282697438203e-03f, -7.37332916720468e-03f,
                                             -1.42647390514189e-02f};
  const F q = polynomial(z, z * z, denominator);
  return clamp(c * (p / q), -1.0f, 1.0f);
}
HEARTH_INLINE double erf(double x) { return __builtin_erf(x); }

// Giles' approximation, good to f32.
template <Floating T>
HEARTH_INLINE T erfinv_estimate(T x) {
  const T w = -log((T(1) - x) * (T(1) + x));
  const T u = w - T(2.5);
  T p = T(2.81022636e-08);
  p = p * u + T(3.43273939e-07);
  p = p * u + T(-3.5233877e-06);
  p = p * u + T(-4.39150654e-06);
  p = p * u + T(0.00021858087);
  p = p * u + T(-0.00125372503);
  p = p * u + T(-0.00417768164);
  p = p * u + T(0.246640727);
  p = p * u + T(1.50140941);
  const T v = sqrt(w) - T(3);
  T q = T(-0.000200214257);
  q = q * v + T(0.000100950558);
  q = q * v + T(0.00134934322);
  q = q * v + T(-0.00367342844);
  q = q * v + T(0.00573950773);
  q = q * v + T(-0.0076224613);
  q = q * v + T(0.00943887047);
  q = q * v + T(1.00167406);
  q = q * v + T(2.83297682);
  return select(abs(x) == T(1), x * T(infinity), select(w < T(5), p, q) * x);
}
template <Float32 F>
HEARTH_INLINE F erfinv(F x) {
  return erfinv_estimate(x);
}
HEARTH_INLINE double erfinv(double x) {
  double y = erfinv_estimate(x);
  if (!isfinite(y)) return y;
  for (int i = 0; i < 2; ++i) y -= (erf(y) - x) * 0.88622692545275801 * exp(y * y);
  return y;
}

// ---- activations

template <typename T>
HEARTH_INLINE T sigmoid(T x) {
  const T e = exp(-abs(x));
  return select(x < T(0), e, T(1)) / (T(1) + e);
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
  return select(isinf(larger), larger, larger + log1p(exp(-abs(a - b))));
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
  return T(0.5) * (T(1) + erf(x * T(0.70710678118654752))) +
         x * T(0.39894228040143268) * exp(T(-0.5) * x * x);
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
