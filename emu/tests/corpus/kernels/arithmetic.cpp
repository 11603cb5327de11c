// Binary and unary operations, comparisons and multiply-adds on all twelve types.
#include "../prelude.h"

constexpr int n = 700;  // not a multiple of the wave

// Integers wrap around: the sum of two is computed unsigned.
template <class T>
struct Wrapping {
  using type = T;
};
template <>
struct Wrapping<i32> {
  using type = u32;
};
template <>
struct Wrapping<i64> {
  using type = u64;
};
template <>
struct Wrapping<i16> {
  using type = u32;
};
template <>
struct Wrapping<u16> {
  using type = u32;
};
template <class T>
using wrapping = typename Wrapping<T>::type;

// A divisor for which the quotient is defined.
template <class T>
T divisor(T b) {
  if (b == 0) return 1;
  if constexpr (TypeTraits<T>::is_signed)
    if (b == T(-1)) return 2;
  return b;
}

template <class T>
T add(T a, T b) {
  return static_cast<T>(wrapping<T>(a) + wrapping<T>(b));
}
template <class T>
T subtract(T a, T b) {
  return static_cast<T>(wrapping<T>(a) - wrapping<T>(b));
}
template <class T>
T multiply(T a, T b) {
  return static_cast<T>(wrapping<T>(a) * wrapping<T>(b));
}
template <class T>
T divide(T a, T b) {
  if constexpr (is_float<T>)
    return a / b;
  else
    return static_cast<T>(a / divisor(b));
}
template <class T>
T remainder(T a, T b) {
  return static_cast<T>(a % divisor(b));
}
template <class T>
T minimum(T a, T b) {
  if constexpr (sizeof(T) == 8 && is_float<T>)
    return __builtin_fmin(a, b);
  else if constexpr (is_float<T>)
    return static_cast<T>(__builtin_fminf(a, b));
  else
    return a < b ? a : b;
}
template <class T>
T maximum(T a, T b) {
  if constexpr (sizeof(T) == 8 && is_float<T>)
    return __builtin_fmax(a, b);
  else if constexpr (is_float<T>)
    return static_cast<T>(__builtin_fmaxf(a, b));
  else
    return a > b ? a : b;
}
template <class T>
T bit_and(T a, T b) {
  return a & b;
}
template <class T>
T bit_or(T a, T b) {
  return a | b;
}
template <class T>
T bit_xor(T a, T b) {
  return a ^ b;
}
template <class T>
T shift_left(T a, T b) {
  return static_cast<T>(u64(a) << (b & (sizeof(T) * 8 - 1)));
}
template <class T>
T shift_right(T a, T b) {
  return static_cast<T>(a >> (b & (sizeof(T) * 8 - 1)));
}
template <class T>
T absolute_difference(T a, T b) {
  return static_cast<T>(a > b ? wrapping<T>(a) - wrapping<T>(b) : wrapping<T>(b) - wrapping<T>(a));
}
// (a + b) / 2 without overflow, rounded down.
template <class T>
T average(T a, T b) {
  return static_cast<T>((a & b) + ((a ^ b) >> 1));
}
template <class T>
T square_less_product(T a, T b) {
  return static_cast<T>(static_cast<T>(wrapping<T>(a) * wrapping<T>(a)) -
                        static_cast<T>(wrapping<T>(a) * wrapping<T>(b)));
}

#define BINARY_WITHIN(T, operation, output)                              \
  KERNEL operation##_##T(T* result, const T* a, const T* b, int count) { \
    const int i = static_cast<int>(global_x());                          \
    if (i < count) result[i] = operation<T>(a[i], b[i]);                 \
  }                                                                      \
  CASE(operation##_##T, over(n), output, any<T>(n), any<T>(n), n)
#define BINARY(T, operation) BINARY_WITHIN(T, operation, out<T>(n))
#define BINARY_ZERO_SIGN_FREE(T, operation) BINARY_WITHIN(T, operation, out<T>(n).near(0))

ALL_TYPES(BINARY, add)
ALL_TYPES(BINARY, subtract)
ALL_TYPES(BINARY, multiply)
INTEGER_TYPES(BINARY, divide)
BINARY(f32, divide)
BINARY(f64, divide)
BINARY_WITHIN(f16, divide,
              out<f16>(n).within(1))  // the chip divides by multiplying with the reciprocal in f32
BINARY(bf16, divide)
INTEGER_TYPES(BINARY, remainder)
// Which zero is the smaller one is not defined.
FLOAT_TYPES(BINARY_ZERO_SIGN_FREE, minimum)
FLOAT_TYPES(BINARY_ZERO_SIGN_FREE, maximum)
INTEGER_TYPES(BINARY, minimum)
INTEGER_TYPES(BINARY, maximum)
INTEGER_TYPES(BINARY, bit_and)
INTEGER_TYPES(BINARY, bit_or)
INTEGER_TYPES(BINARY, bit_xor)
INTEGER_TYPES(BINARY, shift_left)
INTEGER_TYPES(BINARY, shift_right)
INTEGER_TYPES(BINARY, absolute_difference)
INTEGER_TYPES(BINARY, average)
ALL_TYPES(BINARY, square_less_product)

// All six comparisons and a selection by each.
#define COMPARISONS(T, ...)                                                                              \
  KERNEL compare_##T(u8* result, T* chosen, const T* a, const T* b, int count) {                         \
    const int i = static_cast<int>(global_x());                                                          \
    if (i >= count) return;                                                                              \
    const T x = a[i], y = b[i];                                                                          \
    result[i] = static_cast<u8>((x < y) | (x <= y) << 1 | (x > y) << 2 | (x >= y) << 3 | (x == y) << 4 | \
                                (x != y) << 5 | !(x < y) << 6 | !(x >= y) << 7);                         \
    T picked = x < y ? x : y;                                                                            \
    picked = x == y ? T(1) : picked;                                                                     \
    chosen[i] = !(x > T(3)) && y != T(0) ? picked : x;                                                   \
  }                                                                                                      \
  CASE(compare_##T, over(n), out<u8>(n), out<T>(n), any<T>(n), any<T>(n), n)
ALL_TYPES(COMPARISONS, )

template <class T>
T negate(T a) {
  return static_cast<T>(-wrapping<T>(a));
}
template <class T>
T absolute(T a) {
  if constexpr (is_float<T>)
    return bits_as<T>(a) < T(0) ? -a : a;
  else
    return a < 0 ? static_cast<T>(-wrapping<T>(a)) : a;
}
template <class T>
T complement(T a) {
  return static_cast<T>(~a);
}
template <class T>
T logical_not(T a) {
  return static_cast<T>(!a);
}
template <class T>
T sign(T a) {
  return static_cast<T>((a > T(0)) - (a < T(0)));
}
template <class T>
T magnitude(T a) {
  if constexpr (sizeof(T) == 8)
    return __builtin_fabs(a);
  else
    return static_cast<T>(__builtin_fabsf(a));
}
#define ROUNDING(operation, builtin)                    \
  template <class T>                                    \
  T operation(T a) {                                    \
    if constexpr (sizeof(T) == 8)                       \
      return __builtin_##builtin(a);                    \
    else                                                \
      return static_cast<T>(__builtin_##builtin##f(a)); \
  }
ROUNDING(round_down, floor)
ROUNDING(round_up, ceil)
ROUNDING(truncate, trunc)
ROUNDING(round_even, rint)
ROUNDING(round_nearby, nearbyint)
ROUNDING(round_half_away, round)
ROUNDING(square_root, sqrt)
template <class T>
T fraction(T a) {
  return a - round_down(a);
}
template <class T>
T relu(T a) {
  return a > T(0) ? a : T(0);
}
template <class T>
T square(T a) {
  return a * a;
}
template <class T>
T halve(T a) {
  return a * T(0.5f);
}
template <class T>
T clamp_to_one(T a) {
  return a < T(-1) ? T(-1) : a > T(1) ? T(1) : a;
}

#define UNARY(T, operation)                                  \
  KERNEL operation##_##T(T* result, const T* a, int count) { \
    const int i = static_cast<int>(global_x());              \
    if (i < count) result[i] = operation<T>(a[i]);           \
  }                                                          \
  CASE(operation##_##T, over(n, 64), out<T>(n), any<T>(n), n)

ALL_TYPES(UNARY, negate)
ALL_TYPES(UNARY, absolute)
INTEGER_TYPES(UNARY, complement)
ALL_TYPES(UNARY, logical_not)
ALL_TYPES(UNARY, sign)
FLOAT_TYPES(UNARY, magnitude)
FLOAT_TYPES(UNARY, round_down)
FLOAT_TYPES(UNARY, round_up)
FLOAT_TYPES(UNARY, truncate)
FLOAT_TYPES(UNARY, round_even)
FLOAT_TYPES(UNARY, round_nearby)
FLOAT_TYPES(UNARY, round_half_away)
FLOAT_TYPES(UNARY, square_root)
FLOAT_TYPES(UNARY, fraction)
FLOAT_TYPES(UNARY, relu)
FLOAT_TYPES(UNARY, square)
FLOAT_TYPES(UNARY, halve)
FLOAT_TYPES(UNARY, clamp_to_one)

// a * b + c with one rounding. The host has no fused operation in f16: there the exact product is added in
// f64, with the lost part kept as the last bit.
template <class T>
T fused(T a, T b, T c) {
  if constexpr (sizeof(T) == 8) {
    return __builtin_fma(a, b, c);
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_fmaf(a, b, c);
  } else {
#if CORPUS_DEVICE
    return __builtin_fmaf16(a, b, c);
#else
    const f64 product = static_cast<f64>(a) * static_cast<f64>(b), addend = c, sum = product + addend;
    const f64 high = sum - product, lost = (product - (sum - high)) + (addend - high);
    if (lost == 0 || lost != lost || (bits_as<u64>(sum) & 1) != 0) return static_cast<T>(sum);
    return static_cast<T>(bits_as<f64>(bits_as<u64>(sum) + ((lost > 0) == (sum > 0) ? 1 : -1)));
#endif
  }
}
template <class T>
T multiply_add(T a, T b, T c) {
  return static_cast<T>(wrapping<T>(static_cast<T>(wrapping<T>(a) * wrapping<T>(b))) + wrapping<T>(c));
}
template <class T>
T middle_of_three(T a, T b, T c) {
  const T low = a < b ? a : b, high = a < b ? b : a;
  return high < c ? high : (low > c ? low : c);
}
template <class T>
T fused_negated(T a, T b, T c) {
  return fused<T>(-a, b, c);
}
template <class T>
T fused_magnitude(T a, T b, T c) {
  return fused<T>(magnitude(a), -b, -magnitude(c));
}

#define TERNARY(T, operation)                                                        \
  KERNEL operation##_##T(T* result, const T* a, const T* b, const T* c, int count) { \
    const int i = static_cast<int>(global_x());                                      \
    if (i < count) result[i] = operation<T>(a[i], b[i], c[i]);                       \
  }                                                                                  \
  CASE(operation##_##T, over(n, 128), out<T>(n), any<T>(n), any<T>(n), any<T>(n), n)
TERNARY(f16, fused)
TERNARY(f32, fused)
TERNARY(f64, fused)
TERNARY(f16, fused_negated)
TERNARY(f32, fused_negated)
TERNARY(f64, fused_negated)
TERNARY(f16, fused_magnitude)
TERNARY(f32, fused_magnitude)
TERNARY(f64, fused_magnitude)
ALL_TYPES(TERNARY, multiply_add)
ALL_TYPES(TERNARY, middle_of_three)
