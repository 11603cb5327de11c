// Reducing a row with vectors: the compiler may not reorder floating-point sums, we may.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cpu/isa/math.h"
#include "hearth/dtype.h"

namespace hearth::cpu::HEARTH_ISA {

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
  template <typename T>
  HEARTH_INLINE static Pack<T> combine(Pack<T> a, Pack<T> b) {
    return each_register<Pack<T>>([&](std::size_t i) HEARTH_LAMBDA { return combine(a.part[i], b.part[i]); });
  }
#if defined(__aarch64__)
  HEARTH_INLINE static Vector<float> combine(Vector<float> a, Vector<float> b) { return vmaxq_f32(a, b); }
#endif
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
template <typename T, typename Operation>
HEARTH_INLINE Vector<T> combine_registers(Pack<T> pack, Operation) {
  for (int half = pack_registers / 2; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) pack.part[i] = Operation::combine(pack.part[i], pack.part[i + half]);
  return pack.part[0];
}
template <typename T, typename Operation>
HEARTH_INLINE T combine_lanes(Pack<T> pack, Operation operation) {
  return combine_lanes<T>(combine_registers(pack, operation), operation);
}

// Combines term(i) for i in [0, n), n > 0. `term.operator()<V>(i)` gives the terms from i on as a V, which is
// a pack or one number; it is called once for each.
template <typename T, typename Operation, typename Term>
HEARTH_INLINE T reduce(std::int64_t n, Operation operation, const Term& term) {
  using V = Pack<T>;
  constexpr std::int64_t lanes = pack_lanes<T>;
  std::int64_t i = 0;
  T total;
  if (n >= lanes) {
    V sum = term.template operator()<V>(0);
    for (i = lanes; i + lanes <= n; i += lanes) sum = Operation::combine(sum, term.template operator()<V>(i));
    total = combine_lanes<T>(sum, operation);
  } else {
    total = term.template operator()<T>(0);
    i = 1;
  }
  for (; i < n; ++i) total = Operation::combine(total, term.template operator()<T>(i));
  return total;
}

// Two sums in one pass: `term(i, first, second)` adds the terms from i on to the sums.
template <typename T>
struct TwoSums {
  T first, second;
};
template <typename T, typename Term>
HEARTH_INLINE TwoSums<T> two_sums(std::int64_t n, const Term& term) {
  constexpr std::int64_t lanes = pack_lanes<T>;
  Pack<T> first(T(0)), second(T(0)), first_odd(T(0)), second_odd(T(0));
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    term(i, first, second);
    term(i + lanes, first_odd, second_odd);
  }
  if (i + lanes <= n) {
    term(i, first, second);
    i += lanes;
  }
  T first_rest(0), second_rest(0);
  for (; i < n; ++i) term(i, first_rest, second_rest);
  return {combine_lanes<T>(first + first_odd, Plus{}) + first_rest,
          combine_lanes<T>(second + second_odd, Plus{}) + second_rest};
}

// out(i) = term(i) for i in [0, n), as above.
template <typename T, typename Term>
HEARTH_INLINE void map(T* out, std::int64_t n, const Term& term) {
  std::int64_t i = 0;
  for (; i + pack_lanes<T> <= n; i += pack_lanes<T>) store(out + i, term.template operator()<Pack<T>>(i));
  for (; i < n; ++i) out[i] = term.template operator()<T>(i);
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
