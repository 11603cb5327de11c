// Mathematics for the expressions of the elementwise table, on GPUs.
#pragma once

#include "gpu.h"

namespace math {

template <class T>
struct IsInteger {
  static constexpr bool value = false;
};
template <>
struct IsInteger<i32> {
  static constexpr bool value = true;
};
template <>
struct IsInteger<i64> {
  static constexpr bool value = true;
};

template <class T>
DEVICE T select(bool condition, T yes, T no) {
  return condition ? yes : no;
}

// A number as an integer: the nearest end of the range where it is beyond, 0 where it is none.
template <class To, class From>
DEVICE typename Stored<To>::Compute as_integer(From x) {
  using Integer = typename Stored<To>::Compute;
  constexpr bool has_sign = (To)-1 < (To)0;
  constexpr Integer most = (Integer)(~0ull >> (64 - 8 * sizeof(To) + (has_sign ? 1 : 0)));
  constexpr Integer least = has_sign ? -most - 1 : 0;
  return x != x ? 0 : x >= (From)most ? most : x <= (From)least ? least : (Integer)x;
}

// So that rounding it once more, to 16 bits, gives what rounding x at once would: what is lost shows in the
// last bit.
DEVICE f32 rounded_to_odd(f64 x) {
  const f32 nearest = (f32)x;
  const u32 bits = bit_cast<u32>(nearest);
  const f64 back = nearest, size = back < 0 ? -back : back;
  const bool inexact = back != x && x == x && (bits & 0x7fffffffu) < 0x7f800000u;
  const u32 toward = size < (x < 0 ? -x : x) ? bits + 1 : bits - 1;
  return bit_cast<f32>(inexact && (bits & 1) == 0 ? toward : bits);
}

DEVICE f32 infinity(f32) { return bit_cast<f32>(0x7f800000u); }
DEVICE f64 infinity(f64) { return bit_cast<f64>(0x7ff0000000000000ull); }

#define HEARTH_FUNCTION(name, single, twice)     \
  DEVICE f32 name(f32 x) { return ::single(x); } \
  DEVICE f64 name(f64 x) { return ::twice(x); }
HEARTH_FUNCTION(floor, floorf, floor)
HEARTH_FUNCTION(ceil, ceilf, ceil)
HEARTH_FUNCTION(round, rintf, rint)
HEARTH_FUNCTION(trunc, truncf, trunc)
HEARTH_FUNCTION(sqrt, sqrtf, sqrt)
HEARTH_FUNCTION(cbrt, cbrtf, cbrt)
HEARTH_FUNCTION(exp, expf, exp)
HEARTH_FUNCTION(exp2, exp2f, exp2)
HEARTH_FUNCTION(expm1, expm1f, expm1)
HEARTH_FUNCTION(log, logf, log)
HEARTH_FUNCTION(log2, log2f, log2)
HEARTH_FUNCTION(log10, log10f, log10)
HEARTH_FUNCTION(log1p, log1pf, log1p)
HEARTH_FUNCTION(sin, sinf, sin)
HEARTH_FUNCTION(cos, cosf, cos)
HEARTH_FUNCTION(tan, tanf, tan)
HEARTH_FUNCTION(asin, asinf, asin)
HEARTH_FUNCTION(acos, acosf, acos)
HEARTH_FUNCTION(atan, atanf, atan)
HEARTH_FUNCTION(sinh, sinhf, sinh)
HEARTH_FUNCTION(cosh, coshf, cosh)
HEARTH_FUNCTION(tanh, tanhf, tanh)
HEARTH_FUNCTION(asinh, asinhf, asinh)
HEARTH_FUNCTION(acosh, acoshf, acosh)
HEARTH_FUNCTION(atanh, atanhf, atanh)
HEARTH_FUNCTION(erf, erff, erf)
HEARTH_FUNCTION(erfc, erfcf, erfc)
HEARTH_FUNCTION(erfinv, erfinvf, erfinv)
#undef HEARTH_FUNCTION
#define HEARTH_FUNCTION(name, single, twice)               \
  DEVICE f32 name(f32 a, f32 b) { return ::single(a, b); } \
  DEVICE f64 name(f64 a, f64 b) { return ::twice(a, b); }
HEARTH_FUNCTION(hypot, hypotf, hypot)
HEARTH_FUNCTION(atan2, atan2f, atan2)
#undef HEARTH_FUNCTION

DEVICE f32 abs(f32 x) { return bit_cast<f32>(bit_cast<u32>(x) & 0x7fffffffu); }
DEVICE f64 abs(f64 x) { return bit_cast<f64>(bit_cast<u64>(x) & 0x7fffffffffffffffull); }
DEVICE i32 abs(i32 x) { return x < 0 ? -x : x; }
DEVICE i64 abs(i64 x) { return x < 0 ? -x : x; }

// Integers pass the rounding functions unchanged.
DEVICE i32 floor(i32 x) { return x; }
DEVICE i64 floor(i64 x) { return x; }
DEVICE i32 ceil(i32 x) { return x; }
DEVICE i64 ceil(i64 x) { return x; }
DEVICE i32 round(i32 x) { return x; }
DEVICE i64 round(i64 x) { return x; }
DEVICE i32 trunc(i32 x) { return x; }
DEVICE i64 trunc(i64 x) { return x; }

template <class T>
DEVICE T sign(T x) {
  return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : x;
}
template <class T>
DEVICE T maximum(T a, T b) {
  return a > b || a != a ? a : b;
}
template <class T>
DEVICE T minimum(T a, T b) {
  return a < b || a != a ? a : b;
}
template <class T>
DEVICE bool isinf(T x) {
  if constexpr (IsInteger<T>::value)
    return false;
  else
    return abs(x) == infinity(x);
}
template <class T>
DEVICE bool isfinite(T x) {
  if constexpr (IsInteger<T>::value)
    return true;
  else
    return abs(x) < infinity(x);
}

// Integers: division by zero gives 0, and the one quotient that overflows wraps around; neither traps.
template <class T>
DEVICE T fmod(T a, T b) {
  if constexpr (IsInteger<T>::value)
    return b == 0 || b == -1 ? T(0) : a % b;
  else if constexpr (sizeof(T) == 4)
    return ::fmodf(a, b);
  else
    return ::fmod(a, b);
}
template <class T>
DEVICE T remainder(T a, T b) {
  const T r = fmod(a, b);
  return r != T(0) && (r < T(0)) != (b < T(0)) ? r + b : r;
}
template <class T>
DEVICE T floor_divide(T a, T b) {
  if constexpr (IsInteger<T>::value) {
    if (b == 0) return 0;
    if (b == -1) return -a;
    const T quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
  } else {
    const T r = fmod(a, b);
    const T quotient = (a - r) / b - (r != T(0) && (r < T(0)) != (b < T(0)) ? T(1) : T(0));
    return b == T(0) ? a / b : round(quotient);
  }
}
template <class T>
DEVICE T pow(T a, T b) {
  if constexpr (IsInteger<T>::value) {
    if (b < 0) return a == 1 ? T(1) : a == -1 ? (b % 2 ? T(-1) : T(1)) : T(0);
    T result = 1;
    for (; b; b >>= 1, a *= a)
      if (b & 1) result *= a;
    return result;
  } else if constexpr (sizeof(T) == 4) {
    return ::powf(a, b);
  } else {
    return ::pow(a, b);
  }
}
template <class T>
struct Unsigned {
  using Type = u32;
};
template <>
struct Unsigned<i64> {
  using Type = u64;
};
template <class T>
DEVICE T shift_left(T a, T b) {
  return b < 0 || b >= T(sizeof(T) * 8) ? T(0) : T(typename Unsigned<T>::Type(a) << b);
}
template <class T>
DEVICE T shift_right(T a, T b) {
  return b < 0 || b >= T(sizeof(T) * 8) ? (a < 0 ? T(-1) : T(0)) : a >> b;
}
template <class T>
DEVICE T bitwise_not(T x) {
  return ~x;
}

template <class T>
DEVICE T sigmoid(T x) {
  const T e = exp(-abs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}
template <class T>
DEVICE T softplus(T x) {
  return maximum(x, T(0)) + log1p(exp(-abs(x)));
}
template <class T>
DEVICE T logsigmoid(T x) {
  return minimum(x, T(0)) - log1p(exp(-abs(x)));
}
template <class T>
DEVICE T logaddexp(T a, T b) {
  const T larger = maximum(a, b);
  return isinf(larger) ? larger : larger + log1p(exp(-abs(a - b)));
}
template <class T>
DEVICE T silu_slope(T x) {
  const T s = sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}
template <class T>
DEVICE T silu_curvature(T x) {
  const T s = sigmoid(x);
  return s * (T(1) - s) * (T(2) + x * (T(1) - T(2) * s));
}
template <class T>
DEVICE T gelu(T x) {
  return T(0.5) * x * (T(1) + erf(x * T(0.70710678118654752)));
}
template <class T>
DEVICE T gelu_slope(T x) {
  return T(0.5) * (T(1) + erf(x * T(0.70710678118654752))) +
         x * T(0.39894228040143268) * exp(T(-0.5) * x * x);
}
template <class T>
DEVICE T gelu_tanh(T x) {
  return T(0.5) * x * (T(1) + tanh(T(0.79788456080286536) * (x + T(0.044715) * x * x * x)));
}
template <class T>
DEVICE T gelu_tanh_slope(T x) {
  const T t = tanh(T(0.79788456080286536) * (x + T(0.044715) * x * x * x));
  const T inner = T(0.79788456080286536) * (T(1) + T(0.134145) * x * x);
  return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * inner;
}
template <class T>
DEVICE T mish(T x) {
  return x * tanh(softplus(x));
}
template <class T>
DEVICE T mish_slope(T x) {
  const T t = tanh(softplus(x));
  return t + x * sigmoid(x) * (T(1) - t * t);
}

// For results that are kept in 16 bits: some of these with fewer digits, which the chip computes itself.
namespace narrow {

DEVICE f32 exp(f32 x) { return fast_exp2(x * 1.44269504088896340736f); }
DEVICE f32 sigmoid(f32 x) { return fast_reciprocal(1.0f + narrow::exp(-x)); }
DEVICE f32 silu_slope(f32 x) {
  const f32 s = narrow::sigmoid(x);
  return s * (1.0f + x * (1.0f - s));
}
DEVICE f32 tanh(f32 x) {
  const f32 square = x * x;
  // Near zero the difference below has no digits left, and a few terms of the series are enough.
  const f32 series = x + x * square * (-0.333333333f + square * (0.133333333f - square * 0.053968254f));
  return square < 0.0625f ? series : 1.0f - 2.0f * fast_reciprocal(1.0f + narrow::exp(2.0f * x));
}
DEVICE f32 gelu_tanh(f32 x) {  // (1 + tanh(u)) / 2 is sigmoid(2 u)
  return x * narrow::sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));
}

}  // namespace narrow

}  // namespace math
