// Products of 16 x 16 tiles by one wave, on whichever matrix unit the chip has.
//
//   FragmentA<T>    16 rows of the left operand, Unit<T>::depth elements along K
//   FragmentB<T>    16 columns of the right operand, as deep
//   Accumulator<T>  16 x 16 sums: f32 for f16 and bf16, i32 for i8
//
// Which lane holds what differs from chip to chip and stays in here; all lanes of the wave must take part.
// An accumulator's lane holds `elements` sums, the i-th one at (row(i), column(i)). What all chips share:
// lanes that differ only in their index modulo `column_lanes` hold the same rows, so that a reduction along a
// row is one over a lane's own elements of that row and then over from_lane_xor(1, 2, ... column_lanes / 2).
// Groups of `side_by_side` elements are neighbours in a row.
//
// Operands come from shared memory, at addresses that are multiples of 16 bytes, with strides (in elements)
// that are multiples of 16 bytes.
#pragma once

#include "gpu.h"

#if defined(__GFX11__)
#define HEARTH_WMMA11
#elif defined(__GFX12__)
#define HEARTH_WMMA12
#elif defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx950__)
#define HEARTH_MFMA
#elif defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 800
#define HEARTH_MMA80
#endif

namespace mma {

constexpr int rows = 16, columns = 16, elements = 256 / WAVE;

template <class T>
constexpr bool is_i8 = same_type<T, i8>;
template <class T>
constexpr bool is_f16 = same_type<T, f16>;

#ifdef HEARTH_AMD
using f16x4 = _Float16 __attribute__((ext_vector_type(4)));
using f16x8 = _Float16 __attribute__((ext_vector_type(8)));
using f16x16 = _Float16 __attribute__((ext_vector_type(16)));
using s16x4 = short __attribute__((ext_vector_type(4)));
using s16x8 = short __attribute__((ext_vector_type(8)));
using s16x16 = short __attribute__((ext_vector_type(16)));
using f32x4 = float __attribute__((ext_vector_type(4)));
using f32x8 = float __attribute__((ext_vector_type(8)));
using i32x2 = int __attribute__((ext_vector_type(2)));
using i32x4 = int __attribute__((ext_vector_type(4)));
using i32x8 = int __attribute__((ext_vector_type(8)));
#endif

// ---- what a lane holds ----

// depth: of K, per multiply_add. held: elements of an operand in a lane, side by side along K from first_k().
#if defined(HEARTH_WMMA11)
constexpr int column_lanes = 16, side_by_side = 1;
template <class T>
struct Unit {
  static constexpr int depth = 16, held = 16;
};
DEVICE int first_k(int) { return 0; }  // both halves of a wave hold the same
DEVICE int row(int i) { return 2 * i + (int)lane() / 16; }
DEVICE int column(int) { return (int)lane() % 16; }
#elif defined(HEARTH_WMMA12)
constexpr int column_lanes = 16, side_by_side = 1;
template <class T>
struct Unit {
  static constexpr int depth = is_i8<T> ? 32 : 16, held = is_i8<T> ? 16 : 8;
};
DEVICE int first_k(int held) { return (int)lane() / 16 * held; }
DEVICE int row(int i) { return 8 * ((int)lane() / 16) + i; }
DEVICE int column(int) { return (int)lane() % 16; }
#elif defined(HEARTH_MFMA)
// Deeper than an instruction: the order of K is free as long as both operands have the same, and this one
// lets a lane read 16 bytes.
constexpr int column_lanes = 16, side_by_side = 1;
template <class T>
struct Unit {
  static constexpr int depth = is_i8<T> ? 64 : 32, held = is_i8<T> ? 16 : 8;
};
DEVICE int first_k(int held) { return (int)lane() / 16 * held; }
DEVICE int row(int i) { return 4 * ((int)lane() / 16) + i; }
DEVICE int column(int) { return (int)lane() % 16; }
#elif defined(HEARTH_MMA80)
constexpr int column_lanes = 4, side_by_side = 2;
template <class T>
struct Unit {
  static constexpr int depth = is_i8<T> ? 32 : 16;
};
DEVICE int row(int i) { return (int)lane() / 4 + i % 4 / 2 * 8; }
DEVICE int column(int i) { return i / 4 * 8 + (int)lane() % 4 * 2 + i % 2; }
#else
constexpr int column_lanes = 16, side_by_side = 1;
template <class T>
struct Unit {
  static constexpr int depth = 16;
};
DEVICE int row(int i) { return (int)lane() / 16 * elements + i; }
DEVICE int column(int) { return (int)lane() % 16; }
#endif

template <class T>
struct SumOf {
  using type = f32;
};
template <>
struct SumOf<i8> {
  using type = i32;
};
template <class T>
using Sum = typename SumOf<T>::type;

template <class T>
struct Accumulator {
  Sum<T> element[elements];
};

template <class T>
DEVICE void clear(Accumulator<T>& sums) {
#pragma unroll
  for (int i = 0; i < elements; ++i) sums.element[i] = 0;
}

// f(row, column, value) for each element that the lane holds.
template <class T, class F>
DEVICE void for_each_element(const Accumulator<T>& sums, const F& f) {
#pragma unroll
  for (int i = 0; i < elements; ++i) f(row(i), column(i), sums.element[i]);
}

// Into shared memory, as U, rows `stride` apart: the way from a result to the left operand of another
// product.
template <class U, class T>
DEVICE void store_tile(const Accumulator<T>& sums, U* tile, int stride) {
#pragma unroll
  for (int i = 0; i < elements; ++i) tile[row(i) * stride + column(i)] = store<U>(sums.element[i]);
}

// ---- operands ----

#if defined(HEARTH_WMMA11) || defined(HEARTH_WMMA12) || defined(HEARTH_MFMA)

template <class T>
struct Fragment {
  Packet<T, Unit<T>::held> value;
};
template <class T>
using FragmentA = Fragment<T>;
template <class T>
using FragmentB = Fragment<T>;

// From 16 rows (columns) `stride` apart, K side by side.
template <class T>
DEVICE Fragment<T> load_a(const T* tile, int stride) {
  constexpr int held = Unit<T>::held;
  return {*reinterpret_cast<const Packet<T, held>*>(tile + (int)lane() % 16 * stride + first_k(held))};
}
template <class T>
DEVICE Fragment<T> load_b(const T* tile, int stride) {
  return load_a(tile, stride);
}
// The right operand as it is written: rows of 16 columns side by side, one for each k, `stride` apart.
template <class T>
DEVICE Fragment<T> load_b_rows(const T* tile, int stride) {
  constexpr int held = Unit<T>::held;
  Fragment<T> fragment;
#pragma unroll
  for (int i = 0; i < held; ++i)
    fragment.value.element[i] = tile[(first_k(held) + i) * stride + (int)lane() % 16];
  return fragment;
}

#elif defined(HEARTH_MMA80)

template <class T>
struct FragmentA {
  u32 value[4];
};
template <class T>
struct FragmentB {
  u32 value[4];  // two for each half of the columns
};

template <class T>
DEVICE FragmentA<T> load_a(const T* tile, int stride) {
  FragmentA<T> fragment;
  u32(&v)[4] = fragment.value;
  const u32 from = (u32)__cvta_generic_to_shared(tile + (int)lane() % 16 * stride +
                                                 (int)lane() / 16 * (16 / (int)sizeof(T)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(from)
               : "memory");
  return fragment;
}
// The left operand transposed: rows of 16 of its rows side by side, one for each k, `stride` apart.
template <class T>
DEVICE FragmentA<T> load_a_columns(const T* tile, int stride) {
  static_assert(sizeof(T) == 2, "16-bit elements");
  FragmentA<T> fragment;
  u32(&v)[4] = fragment.value;
  const int k = (int)lane() % 8 + (int)lane() / 16 * 8;
  const u32 from = (u32)__cvta_generic_to_shared(tile + k * stride + (int)lane() / 8 % 2 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(from)
               : "memory");
  return fragment;
}
template <class T>
DEVICE FragmentB<T> load_b(const T* tile, int stride) {
  FragmentB<T> fragment;
  u32(&v)[4] = fragment.value;
  const int column = (int)lane() % 8 + (int)lane() / 16 * 8;
  const u32 from =
      (u32)__cvta_generic_to_shared(tile + column * stride + (int)lane() / 8 % 2 * (16 / (int)sizeof(T)));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(from)
               : "memory");
  return fragment;
}
template <class T>
DEVICE FragmentB<T> load_b_rows(const T* tile, int stride) {
  static_assert(sizeof(T) == 2, "16-bit elements");
  FragmentB<T> fragment;
  u32(&v)[4] = fragment.value;
  const u32 from = (u32)__cvta_generic_to_shared(tile + (int)lane() % 16 * stride + (int)lane() / 16 * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(from)
               : "memory");
  return fragment;
}

#else  // no unit: the operands stay where they are, and must stay until multiply_add

template <class T>
struct Fragment {
  const T* tile;
  int stride, step;  // of rows or columns, and of K
};
template <class T>
using FragmentA = Fragment<T>;
template <class T>
using FragmentB = Fragment<T>;
template <class T>
DEVICE Fragment<T> load_a(const T* tile, int stride) {
  return {tile, stride, 1};
}
template <class T>
DEVICE Fragment<T> load_b(const T* tile, int stride) {
  return {tile, stride, 1};
}
template <class T>
DEVICE Fragment<T> load_b_rows(const T* tile, int stride) {
  return {tile, 1, stride};
}

#endif

// ---- sums += a * b ----

template <class T>
DEVICE void multiply_add(Accumulator<T>& sums, const FragmentA<T>& a, const FragmentB<T>& b) {
#if defined(HEARTH_WMMA11)
  if constexpr (is_i8<T>) {
    const auto left = bit_cast<i32x4>(a.value), right = bit_cast<i32x4>(b.value);
    const auto c = bit_cast<i32x8>(sums);
    sums = bit_cast<Accumulator<T>>(
        __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, left, true, right, c, false));
  } else if constexpr (is_f16<T>) {
    const auto left = bit_cast<f16x16>(a.value), right = bit_cast<f16x16>(b.value);
    sums = bit_cast<Accumulator<T>>(
        __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(left, right, bit_cast<f32x8>(sums)));
  } else {
    const auto left = bit_cast<s16x16>(a.value), right = bit_cast<s16x16>(b.value);
    sums = bit_cast<Accumulator<T>>(
        __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32(left, right, bit_cast<f32x8>(sums)));
  }
#elif defined(HEARTH_WMMA12)
  if constexpr (is_i8<T>) {
    const auto left = bit_cast<i32x4>(a.value), right = bit_cast<i32x4>(b.value);
    auto c = bit_cast<i32x8>(sums);
    c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, left.xy, true, right.xy, c, false);
    c = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, left.zw, true, right.zw, c, false);
    sums = bit_cast<Accumulator<T>>(c);
  } else if constexpr (is_f16<T>) {
    const auto left = bit_cast<f16x8>(a.value), right = bit_cast<f16x8>(b.value);
    sums = bit_cast<Accumulator<T>>(
        __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12(left, right, bit_cast<f32x8>(sums)));
  } else {
    const auto left = bit_cast<s16x8>(a.value), right = bit_cast<s16x8>(b.value);
    sums = bit_cast<Accumulator<T>>(
        __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12(left, right, bit_cast<f32x8>(sums)));
  }
#elif defined(HEARTH_MFMA)
  if constexpr (is_i8<T>) {
    auto c = bit_cast<i32x4>(sums);
#ifdef __gfx90a__
    const auto left = bit_cast<i32x4>(a.value), right = bit_cast<i32x4>(b.value);
#pragma unroll
    for (int i = 0; i < 4; ++i) c = __builtin_amdgcn_mfma_i32_16x16x16i8(left[i], right[i], c, 0, 0, 0);
#else
    struct Halves {
      i64 half[2];
    };
    const auto left = bit_cast<Halves>(a.value), right = bit_cast<Halves>(b.value);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      c = __builtin_amdgcn_mfma_i32_16x16x32_i8(left.half[i], right.half[i], c, 0, 0, 0);
#endif
    sums = bit_cast<Accumulator<T>>(c);
  } else {
    auto c = bit_cast<f32x4>(sums);
    if constexpr (is_f16<T>) {
      const auto left = bit_cast<f16x8>(a.value), right = bit_cast<f16x8>(b.value);
      c = __builtin_amdgcn_mfma_f32_16x16x16f16(left.lo, right.lo, c, 0, 0, 0);
      c = __builtin_amdgcn_mfma_f32_16x16x16f16(left.hi, right.hi, c, 0, 0, 0);
    } else {
      const auto left = bit_cast<s16x8>(a.value), right = bit_cast<s16x8>(b.value);
      c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(left.lo, right.lo, c, 0, 0, 0);
      c = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(left.hi, right.hi, c, 0, 0, 0);
    }
    sums = bit_cast<Accumulator<T>>(c);
  }
#elif defined(HEARTH_MMA80)
  const u32(&x)[4] = a.value;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    auto* c = sums.element + 4 * half;
    const u32* y = b.value + 2 * half;
    if constexpr (is_i8<T>)
      asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    else if constexpr (is_f16<T>)
      asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
    else
      asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
          "{%0, %1, %2, %3};"
          : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
          : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]));
  }
#else
#pragma unroll 1
  for (int k = 0; k < Unit<T>::depth; ++k)
#pragma unroll
    for (int i = 0; i < elements; ++i) {
      const auto left = load(a.tile[row(i) * a.stride + k * a.step]);
      const auto right = load(b.tile[column(i) * b.stride + k * b.step]);
      if constexpr (is_i8<T>)
        sums.element[i] += left * right;
      else
        sums.element[i] = ::fmaf(left, right, sums.element[i]);
    }
#endif
}

#if defined(HEARTH_WMMA11) || defined(HEARTH_WMMA12) || defined(HEARTH_MFMA) || defined(HEARTH_MMA80)

// ---- strips: a right operand from registers ----
//
// The order of K is free as long as both operands have the same. A strip is 16 rows (columns) as deep as
// `strip_lanes` runs of 16 elements of 16 bits. Of the right operand a lane has run number strip_lane() of
// each of its `strip_lines` columns; the left one comes from shared memory, element k of a strip at
// strip_place(k) of its row.
#ifdef HEARTH_MMA80
constexpr int strip_lanes = 4, strip_lines = 2;
DEVICE int strip_line(int i) { return (int)lane() / 4 + 8 * i; }
DEVICE int strip_lane() { return (int)lane() % 4; }
DEVICE u32 strip_place(u32 k) { return k % 16 / 2 * 8 + k / 16 * 2 + k % 2; }
#else
#ifdef HEARTH_WMMA11
constexpr int strip_lanes = 1;  // both halves of a wave hold the same
#else
constexpr int strip_lanes = WAVE / 16;
#endif
constexpr int strip_lines = 1;
DEVICE int strip_line(int) { return (int)lane() % 16; }
DEVICE int strip_lane() { return (int)lane() / 16 % strip_lanes; }
DEVICE u32 strip_place(u32 k) { return k; }
#endif

// Fragments of a strip, as multiply_add takes them.
#ifdef HEARTH_MMA80
constexpr int strip_steps = 4;
#else
constexpr int strip_steps = 16 / Unit<f16>::held;
#endif
template <class T>
struct StripA {
  FragmentA<T> step[strip_steps];
};
using StripRun = Packet<u32, 8>;
struct StripB {
  StripRun line[strip_lines];
};

template <class T>
DEVICE StripA<T> load_strip(const T* tile, int stride) {
  StripA<T> strip;
#ifdef HEARTH_MMA80
#pragma unroll
  for (int i = 0; i < strip_steps; ++i) strip.step[i] = load_a(tile + i * 16, stride);
#else
  const T* from = tile + strip_line(0) * stride + strip_lane() * 16;
#pragma unroll
  for (int i = 0; i < strip_steps; ++i) strip.step[i] = reinterpret_cast<const FragmentA<T>*>(from)[i];
#endif
  return strip;
}

template <class T>
DEVICE void multiply_add(Accumulator<T>& sums, const StripA<T>& a, const StripB& b) {
#pragma unroll
  for (int i = 0; i < strip_steps; ++i) {
#ifdef HEARTH_MMA80
    const u32(&first)[8] = b.line[0].element, (&second)[8] = b.line[1].element;
    multiply_add(sums, a.step[i],
                 FragmentB<T>{{first[2 * i], first[2 * i + 1], second[2 * i], second[2 * i + 1]}});
#else
    multiply_add(sums, a.step[i], bit_cast<StripA<T>>(b).step[i]);
#endif
  }
}

#endif

}  // namespace mma
