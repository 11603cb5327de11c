// Reducing a row with vectors: the compiler may not reorder floating-point sums, we may.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__F16C__)
#include <immintrin.h>
#endif

#include "cpu/isa/math.h"
#include "hearth/dtype.h"

namespace hearth::cpu::HEARTH_ISA {

// After a lambda's parameters: it must not become a function of its own.
#define HEARTH_LAMBDA __attribute__((always_inline))

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32;
#else
inline constexpr int vector_bytes = 16;
#endif

template <typename T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
template <typename T>
using Vector = typename VectorOf<T>::type;
template <typename T>
inline constexpr std::int64_t vector_lanes = vector_bytes / sizeof(T);

template <typename V, typename T>
HEARTH_INLINE V load(const T* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
}
template <typename V, typename T>
HEARTH_INLINE void store(T* to, V value) {
  __builtin_memcpy(static_cast<void*>(to), &value, sizeof value);
}

struct Plus {
  template <typename V>
  HEARTH_INLINE static V combine(V a, V b) {
    return a + b;
  }
};
struct Larger {  // NaN may be lost
  template <typename V>
  HEARTH_INLINE static V combine(V a, V b) {
    return a > b ? a : b;
  }
};

// Each lane exchanged with the one `distance` away, a power of two.
template <std::size_t distance, typename V, std::size_t... lane>
HEARTH_INLINE V exchanged(V v, std::index_sequence<lane...>) {
  return __builtin_shufflevector(v, v, (lane ^ distance)...);
}

// Combines all lanes: first the two halves, then the halves of that.
template <typename T, typename Operation, std::size_t distance = vector_lanes<T> / 2>
HEARTH_INLINE T combine_lanes(Vector<T> v, Operation operation) {
  if constexpr (distance == 0) {
    return v[0];
  } else {
    v = Operation::combine(v, exchanged<distance>(v, std::make_index_sequence<vector_lanes<T>>{}));
    return combine_lanes<T, Operation, distance / 2>(v, operation);
  }
}

// Combines term(i) for i in [0, n), n > 0. `term.operator()<V>(i)` gives the terms from i on as a V, which is
// a vector or one number; it is called once for each.
template <typename T, typename Operation, typename Term>
HEARTH_INLINE T reduce(std::int64_t n, Operation operation, const Term& term) {
  using V = Vector<T>;
  constexpr std::int64_t lanes = vector_lanes<T>;
  std::int64_t i = 0;
  T total;
  if (n >= 4 * lanes) {
    V a = term.template operator()<V>(0), b = term.template operator()<V>(lanes);
    V c = term.template operator()<V>(2 * lanes), d = term.template operator()<V>(3 * lanes);
    for (i = 4 * lanes; i + 4 * lanes <= n; i += 4 * lanes) {
      a = Operation::combine(a, term.template operator()<V>(i));
      b = Operation::combine(b, term.template operator()<V>(i + lanes));
      c = Operation::combine(c, term.template operator()<V>(i + 2 * lanes));
      d = Operation::combine(d, term.template operator()<V>(i + 3 * lanes));
    }
    for (; i + lanes <= n; i += lanes) a = Operation::combine(a, term.template operator()<V>(i));
    total =
        combine_lanes<T>(Operation::combine(Operation::combine(a, b), Operation::combine(c, d)), operation);
  } else {
    total = term.template operator()<T>(0);
    i = 1;
  }
  for (; i < n; ++i) total = Operation::combine(total, term.template operator()<T>(i));
  return total;
}

// out(i) = term(i) for i in [0, n), as above.
template <typename T, typename Term>
HEARTH_INLINE void map(T* out, std::int64_t n, const Term& term) {
  std::int64_t i = 0;
  for (; i + vector_lanes<T> <= n; i += vector_lanes<T>)
    store(out + i, term.template operator()<Vector<T>>(i));
  for (; i < n; ++i) out[i] = term.template operator()<T>(i);
}

// A vector comparison's result that stays the one written. The compiler likes to turn x < y into "not (x >= y
// or unordered)", which costs several instructions.
template <typename Mask>
HEARTH_INLINE Mask as_written(Mask mask) {
#if defined(__aarch64__)
  asm("" : "+w"(mask));
#elif defined(__x86_64__)
  asm("" : "+x"(mask));
#endif
  return mask;
}

// e^x; 0 where the result would be below the normal range. NaN stays NaN.
template <typename V>
HEARTH_INLINE V exponential(V x) {
  using I = Vector<std::int32_t>;
  const V shifted = x * 1.44269504f + 12582912.0f;  // its low bits are n
  const V n = shifted - 12582912.0f;
  const V power = math::bits<V>((math::bits<I>(shifted) << 23) + 0x3f800000);  // 2^n
  const V r = (x - n * 0x1.62e400p-1f) - n * 0x1.7f7d1cp-20f;
  V p = r * 0x1.0f9f9cp-7f + 0x1.573a1ap-5f;
  p = p * r + 0x1.555a80p-3f;
  p = p * r + 0x1.fffdc6p-2f;
  p = p * r + 0x1.fffff6p-1f;
  const I value = math::bits<I>(p * (r * power) + power);
  const I below = as_written(x < -87.33f), above = as_written(x > 88.37f);
  return math::bits<V>((value & ~below & ~above) | (above & 0x7f800000));
}
HEARTH_INLINE float exponential(float x) { return math::exp(x); }
HEARTH_INLINE double exponential(double x) { return math::exp(x); }
HEARTH_INLINE Vector<double> exponential(Vector<double> x) {
  for (std::int64_t j = 0; j < vector_lanes<double>; ++j) x[j] = math::exp(x[j]);
  return x;
}

// The type to compute in.
template <typename S>
using Compute = std::conditional_t<std::is_same_v<S, double>, double, float>;

template <typename S>
HEARTH_INLINE void widen(const S* from, Compute<S>* to, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<Compute<S>>(from[i]);
}
template <typename S>
HEARTH_INLINE void narrow(const Compute<S>* from, S* to, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<S>(from[i]);
}

// Halves have instructions of their own on most machines, which the compiler does not find by itself.
#if defined(__aarch64__) || defined(__F16C__)
HEARTH_INLINE void widen(const float16* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__aarch64__)
  for (; i + 4 <= n; i += 4) vst1q_f32(to + i, vcvt_f32_f16(load<float16x4_t>(from + i)));
#else
  for (; i + 8 <= n; i += 8) _mm256_storeu_ps(to + i, _mm256_cvtph_ps(load<__m128i>(from + i)));
#endif
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}
HEARTH_INLINE void narrow(const float* from, float16* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__aarch64__)
  for (; i + 4 <= n; i += 4) store(to + i, vcvt_f16_f32(vld1q_f32(from + i)));
#else
  for (; i + 8 <= n; i += 8)
    store(to + i, _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
  for (; i < n; ++i) to[i] = static_cast<float16>(from[i]);
}
#endif

}  // namespace hearth::cpu::HEARTH_ISA
