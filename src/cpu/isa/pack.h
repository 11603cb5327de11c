// Pack: a few vector registers that are computed with as one number.
//
// A chain of dependent instructions keeps a core waiting; the registers of a pack are independent, so their
// chains overlap. Functions written as templates over float and Pack<float> (isa/math.h) serve single numbers
// and loops alike.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hearth::cpu::HEARTH_ISA {

#define HEARTH_INLINE inline __attribute__((always_inline))
// After a lambda's parameters: it must not become a function of its own.
#define HEARTH_LAMBDA __attribute__((always_inline))

#if defined(__AVX512F__)
inline constexpr int vector_bytes = 64, pack_registers = 2;
#elif defined(__AVX__)
inline constexpr int vector_bytes = 32, pack_registers = 2;
#elif defined(__aarch64__)
inline constexpr int vector_bytes = 16, pack_registers = 4;
#else
inline constexpr int vector_bytes = 16, pack_registers = 2;
#endif

template <typename T>
struct VectorOf {
  typedef T type __attribute__((vector_size(vector_bytes)));
};
// One register.
template <typename T>
using Vector = typename VectorOf<T>::type;
template <typename T>
inline constexpr std::int64_t vector_lanes = vector_bytes / sizeof(T);
template <typename T>
inline constexpr std::int64_t pack_lanes = pack_registers* vector_lanes<T>;

// What a comparison of packs gives; for `select` and the logical operators.
struct Mask {
  Vector<std::int32_t> part[pack_registers];  // -1 or 0 in each lane
};

// Comparison and what follows from it are for elements of 4 bytes.
template <typename T>
struct Pack {
  Vector<T> part[pack_registers];

  Pack() = default;
  HEARTH_INLINE Pack(T value) {  // NOLINT: a number is a pack of equal numbers
    for (auto& p : part) p = value - Vector<T>{};
  }
};

// A pack or mask of f(0), f(1), ... Unrolled by hand: a loop over `part` would keep the pack in memory.
template <typename R, typename F, std::size_t... i>
HEARTH_INLINE R each_register(const F& f, std::index_sequence<i...>) {
  R result;
  ((result.part[i] = f(i)), ...);
  return result;
}
template <typename R, typename F>
HEARTH_INLINE R each_register(const F& f) {
  return each_register<R>(f, std::make_index_sequence<pack_registers>{});
}

// The numbers from `from` on, as a pack, a register or a number.
template <typename V, typename T>
HEARTH_INLINE V load(const T* from) {
  if constexpr (std::is_same_v<V, Pack<T>>) {
    return each_register<V>([&](std::size_t i) HEARTH_LAMBDA {
      return load<Vector<T>>(from + static_cast<std::int64_t>(i) * vector_lanes<T>);
    });
  } else {
    V value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
  }
}
template <typename V, typename T>
HEARTH_INLINE void store(T* to, V value) {
  if constexpr (std::is_same_v<V, Pack<T>>) {
    for (int i = 0; i < pack_registers; ++i) store(to + i * vector_lanes<T>, value.part[i]);
  } else {
    __builtin_memcpy(static_cast<void*>(to), &value, sizeof value);
  }
}

#define HEARTH_PACK_OPERATOR(sign)                                                                        \
  template <typename T>                                                                                   \
  HEARTH_INLINE Pack<T> operator sign(Pack<T> a, Pack<T> b) {                                             \
    return each_register<Pack<T>>([&](std::size_t i) HEARTH_LAMBDA { return a.part[i] sign b.part[i]; }); \
  }                                                                                                       \
  template <typename T>                                                                                   \
  HEARTH_INLINE Pack<T> operator sign(Pack<T> a, std::type_identity_t<T> b) {                             \
    return a sign Pack<T>(b);                                                                             \
  }                                                                                                       \
  template <typename T>                                                                                   \
  HEARTH_INLINE Pack<T> operator sign(std::type_identity_t<T> a, Pack<T> b) {                             \
    return Pack<T>(a) sign b;                                                                             \
  }
HEARTH_PACK_OPERATOR(+)
HEARTH_PACK_OPERATOR(-)
HEARTH_PACK_OPERATOR(*)
HEARTH_PACK_OPERATOR(/)
HEARTH_PACK_OPERATOR(&)
HEARTH_PACK_OPERATOR(|)
HEARTH_PACK_OPERATOR(^)
#undef HEARTH_PACK_OPERATOR

template <typename T>
HEARTH_INLINE Pack<T> operator-(Pack<T> a) {
  return each_register<Pack<T>>([&](std::size_t i) HEARTH_LAMBDA { return -a.part[i]; });
}
template <typename T>
HEARTH_INLINE Pack<T> operator<<(Pack<T> a, int count) {
  return each_register<Pack<T>>([&](std::size_t i) HEARTH_LAMBDA { return a.part[i] << count; });
}
template <typename T>
HEARTH_INLINE Pack<T> operator>>(Pack<T> a, int count) {
  return each_register<Pack<T>>([&](std::size_t i) HEARTH_LAMBDA { return a.part[i] >> count; });
}

// The comparison that is written. The compiler likes to turn x < y into "not (x >= y or unordered)", which
// costs several instructions where it has no mask registers.
template <typename M>
HEARTH_INLINE M as_written(M mask) {
#if defined(__aarch64__)
  asm("" : "+w"(mask));
#endif
  return mask;
}

#define HEARTH_PACK_COMPARISON(sign)                                                                \
  template <typename T>                                                                             \
  HEARTH_INLINE Mask operator sign(Pack<T> a, Pack<T> b) {                                          \
    return each_register<Mask>([&](std::size_t i)                                                   \
                                   HEARTH_LAMBDA { return as_written(a.part[i] sign b.part[i]); }); \
  }                                                                                                 \
  template <typename T>                                                                             \
  HEARTH_INLINE Mask operator sign(Pack<T> a, std::type_identity_t<T> b) {                          \
    return a sign Pack<T>(b);                                                                       \
  }
HEARTH_PACK_COMPARISON(==)
HEARTH_PACK_COMPARISON(!=)
HEARTH_PACK_COMPARISON(<)
HEARTH_PACK_COMPARISON(<=)
HEARTH_PACK_COMPARISON(>)
HEARTH_PACK_COMPARISON(>=)
#undef HEARTH_PACK_COMPARISON

#define HEARTH_MASK_OPERATOR(sign)                                                                     \
  HEARTH_INLINE Mask operator sign(Mask a, Mask b) {                                                   \
    return each_register<Mask>([&](std::size_t i) HEARTH_LAMBDA { return a.part[i] sign b.part[i]; }); \
  }
HEARTH_MASK_OPERATOR(&)
HEARTH_MASK_OPERATOR(|)
HEARTH_MASK_OPERATOR(^)
#undef HEARTH_MASK_OPERATOR
HEARTH_INLINE Mask operator!(Mask a) {
  return each_register<Mask>([&](std::size_t i) HEARTH_LAMBDA { return ~a.part[i]; });
}

// 1 where the mask is set, else 0.
HEARTH_INLINE Pack<std::int32_t> as_integers(Mask mask) {
  return each_register<Pack<std::int32_t>>([&](std::size_t i) HEARTH_LAMBDA { return mask.part[i] & 1; });
}

HEARTH_INLINE bool any(Mask mask) {
  Vector<std::int32_t> all = mask.part[0];
  for (int i = 1; i < pack_registers; ++i) all |= mask.part[i];
#if defined(__aarch64__)
  return vmaxvq_u32(__builtin_bit_cast(uint32x4_t, all)) != 0;
#elif defined(__AVX512F__)
  return _mm512_test_epi32_mask(__builtin_bit_cast(__m512i, all), __builtin_bit_cast(__m512i, all)) != 0;
#elif defined(__AVX__)
  return _mm256_movemask_ps(__builtin_bit_cast(__m256, all)) != 0;
#elif defined(__x86_64__)
  return _mm_movemask_ps(__builtin_bit_cast(__m128, all)) != 0;
#else
  bool result = false;
  for (int j = 0; j < vector_lanes<std::int32_t>; ++j) result |= all[j] != 0;
  return result;
#endif
}

template <typename T>
HEARTH_INLINE Vector<T> select_register(Vector<std::int32_t> mask, Vector<T> yes, Vector<T> no) {
#if defined(__aarch64__)
  using I = Vector<std::int32_t>;
  return __builtin_bit_cast(Vector<T>,
                            (mask & __builtin_bit_cast(I, yes)) | (~mask & __builtin_bit_cast(I, no)));
#else
  return mask ? yes : no;
#endif
}

// f of each lane, for functions that have no vector form.
template <typename F, typename T, typename... P>
HEARTH_INLINE Pack<T> each_lane(const F& f, const Pack<T>& first, const P&... others) {
  T results[pack_lanes<T>];
  for (int i = 0; i < pack_registers; ++i)
    for (int j = 0; j < vector_lanes<T>; ++j)
      results[i * vector_lanes<T> + j] = f(first.part[i][j], others.part[i][j]...);
  return load<Pack<T>>(results);
}

}  // namespace hearth::cpu::HEARTH_ISA
