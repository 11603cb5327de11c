// Reducing a row with vectors: the compiler may not reorder floating-point sums, we may.
#pragma once

#include <cstdint>
#include <type_traits>

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

template <typename V, typename T>
HEARTH_INLINE V load(const T* from) {
  V value;
  __builtin_memcpy(&value, from, sizeof value);
  return value;
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

// Combines term(i) for i in [0, n), n > 0. `term.operator()<V>(i)` gives the terms from i on as a V, which is
// a vector or one number.
template <typename T, typename Operation, typename Term>
HEARTH_INLINE T reduce(std::int64_t n, Operation, const Term& term) {
  using V = Vector<T>;
  constexpr std::int64_t lanes = vector_bytes / sizeof(T);
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
    a = Operation::combine(Operation::combine(a, b), Operation::combine(c, d));
    total = a[0];
    for (std::int64_t j = 1; j < lanes; ++j) total = Operation::combine(total, static_cast<T>(a[j]));
  } else {
    total = term.template operator()<T>(0);
    i = 1;
  }
  for (; i < n; ++i) total = Operation::combine(total, term.template operator()<T>(i));
  return total;
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

}  // namespace hearth::cpu::HEARTH_ISA
