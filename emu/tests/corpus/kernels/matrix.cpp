// Products of matrices by WMMA (gfx11, gfx12) and MFMA (gfx90a, gfx942): one wave makes a tile of the result.
// Places of elements in registers are those of AMD's manuals; the reference is a plain product. Numbers are
// small and whole, so that every order of summation gives the same.
#include "../prelude.h"

constexpr int rows = 32, columns = 48, depth = 64;

#if CORPUS_HOST

// C = A B, all row by row.
#define PRODUCT(name, chips_, A, C, tile, low, high)                                           \
  KERNEL name(C* c, const A* a, const A* b);                                                   \
  CASE_AGAINST(name, (multiply<A, C>),                                                         \
               shape({columns / tile, rows / tile, 1}, {wave_for(chips_), 1, 1}).only(chips_), \
               out<C>(rows * columns), whole<A>(rows * depth, low, high),                      \
               whole<A>(depth * columns, low, high))

template <class A, class C>
void multiply(C* c, const A* a, const A* b) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) {
      f64 sum = 0;
      for (int k = 0; k < depth; ++k)
        sum += static_cast<f64>(a[i * depth + k]) * static_cast<f64>(b[k * columns + j]);
      if constexpr (is_float<C> && sizeof(C) == 2)
        c[i * columns + j] = static_cast<C>(static_cast<f32>(sum));
      else
        c[i * columns + j] = static_cast<C>(sum);
    }
}
constexpr u32 wave_for(unsigned chips) { return (chips & (gfx90a | gfx942)) != 0 ? 64 : 32; }

PRODUCT(wmma_gfx11_f32_f16, gfx1100, f16, f32, 16, -5, 5)
PRODUCT(wmma_gfx11_f32_bf16, gfx1100, bf16, f32, 16, -5, 5)
PRODUCT(wmma_gfx11_f16_f16, gfx1100, f16, f16, 16, -4, 4)
PRODUCT(wmma_gfx11_bf16_bf16, gfx1100, bf16, bf16, 16, -1, 1)
PRODUCT(wmma_gfx11_i32_i8, gfx1100, i8, i32, 16, -128, 127)
PRODUCT(wmma_gfx11_i32_u8, gfx1100, u8, i32, 16, 0, 255)
PRODUCT(wmma_gfx11_i32_i4, gfx1100, i8, i32, 16, -8, 7)
PRODUCT(wmma_gfx12_f32_f16, gfx1201, f16, f32, 16, -5, 5)
PRODUCT(wmma_gfx12_f32_bf16, gfx1201, bf16, f32, 16, -5, 5)
PRODUCT(wmma_gfx12_f16_f16, gfx1201, f16, f16, 16, -4, 4)
PRODUCT(wmma_gfx12_bf16_bf16, gfx1201, bf16, bf16, 16, -1, 1)
PRODUCT(wmma_gfx12_i32_i8, gfx1201, i8, i32, 16, -128, 127)
PRODUCT(wmma_gfx12_i32_u8, gfx1201, u8, i32, 16, 0, 255)
PRODUCT(wmma_gfx12_i32_i4, gfx1201, i8, i32, 16, -8, 7)
PRODUCT(mfma_16x16x16_f16, gfx90a | gfx942, f16, f32, 16, -5, 5)
PRODUCT(mfma_16x16x16_bf16, gfx90a | gfx942, bf16, f32, 16, -5, 5)
PRODUCT(mfma_16x16x4_f32, gfx90a | gfx942, f32, f32, 16, -9, 9)
PRODUCT(mfma_16x16x4_f64, gfx90a | gfx942, f64, f64, 16, -99, 99)
PRODUCT(mfma_4x4x4_f16, gfx90a | gfx942, f16, f32, 16, -5, 5)
PRODUCT(mfma_16x16x16_i8, gfx90a, i8, i32, 16, -128, 127)
PRODUCT(mfma_16x16x32_i8, gfx942, i8, i32, 16, -128, 127)

// Tiles of 32 by 32 need a result of another shape: columns 0 to 31 only.
#define PRODUCT_32(name, chips_, A, C, low, high)                                                     \
  KERNEL name(C* c, const A* a, const A* b);                                                          \
  CASE_AGAINST(name, (multiply_32<A, C>), shape({1, 1, 1}, {64, 1, 1}).only(chips_), out<C>(32 * 32), \
               whole<A>(32 * depth, low, high), whole<A>(depth * 32, low, high))
template <class A, class C>
void multiply_32(C* c, const A* a, const A* b) {
  for (int i = 0; i < 32; ++i)
    for (int j = 0; j < 32; ++j) {
      f64 sum = 0;
      for (int k = 0; k < depth; ++k)
        sum += static_cast<f64>(a[i * depth + k]) * static_cast<f64>(b[k * 32 + j]);
      c[i * 32 + j] = static_cast<C>(sum);
    }
}
PRODUCT_32(mfma_32x32x8_f16, gfx90a | gfx942, f16, f32, -5, 5)
PRODUCT_32(mfma_32x32x8_bf16, gfx90a | gfx942, bf16, f32, -5, 5)
PRODUCT_32(mfma_32x32x2_f32, gfx90a | gfx942, f32, f32, -9, 9)
PRODUCT_32(mfma_32x32x8_i8, gfx90a, i8, i32, -128, 127)
PRODUCT_32(mfma_32x32x16_i8, gfx942, i8, i32, -128, 127)

#else  // the chips

template <class To, class From>
To reshape(From value) {
  return __builtin_bit_cast(To, value);
}
// Rows of A, columns of B, with the tile that this wave makes as the origin.
template <class T>
struct Operands {
  const T *a, *b;
  int row, column;
  T at_a(int i, int k) const { return a[(row + i) * depth + k]; }
  T at_b(int k, int j) const { return b[k * columns + column + j]; }
};
template <class T>
Operands<T> operands(const T* a, const T* b, int tile) {
  return {a, b, static_cast<int>(block_y()) * tile, static_cast<int>(block_x()) * tile};
}

// ---- gfx11: a lane holds all sixteen elements of a row of A (a column of B); lanes 16 to 31 repeat lanes 0
// to 15. Register i of C holds row 2 i + lane / 16.

#if defined(__gfx1100__)
#define WMMA_11_FLOAT(name, A, C, Packed, Sums, per_register, builtin, ...)                  \
  KERNEL name(C* c, const A* a, const A* b) {                                                \
    const auto from = operands(a, b, 16);                                                    \
    const int lane = static_cast<int>(lane_id()), at = lane % 16, upper = lane / 16;         \
    Sums sum = {};                                                                           \
    for (int k = 0; k < depth; k += 16) {                                                    \
      Vector<A, 16> x, y;                                                                    \
      for (int e = 0; e < 16; ++e) {                                                         \
        x[e] = from.at_a(at, k + e);                                                         \
        y[e] = from.at_b(k + e, at);                                                         \
      }                                                                                      \
      sum = builtin(reshape<Packed>(x), reshape<Packed>(y), sum __VA_OPT__(, ) __VA_ARGS__); \
    }                                                                                        \
    for (int i = 0; i < 8; ++i) {                                                            \
      const auto element = sum[per_register * i];                                            \
      c[(from.row + 2 * i + upper) * columns + from.column + at] = reshape<C>(element);      \
    }                                                                                        \
  }
using Shorts16 = Vector<i16, 16>;
using Halves16 = Vector<f16, 16>;
using Floats8 = Vector<f32, 8>;
WMMA_11_FLOAT(wmma_gfx11_f32_f16, f16, f32, Halves16, Floats8, 1, __builtin_amdgcn_wmma_f32_16x16x16_f16_w32)
WMMA_11_FLOAT(wmma_gfx11_f32_bf16, bf16, f32, Shorts16, Floats8, 1,
              __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32)
WMMA_11_FLOAT(wmma_gfx11_f16_f16, f16, f16, Halves16, Halves16, 2, __builtin_amdgcn_wmma_f16_16x16x16_f16_w32,
              false)
WMMA_11_FLOAT(wmma_gfx11_bf16_bf16, bf16, bf16, Shorts16, Shorts16, 2,
              __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32, false)

#define WMMA_11_BYTES(name, A, is_signed)                                                            \
  KERNEL name(i32* c, const A* a, const A* b) {                                                      \
    const auto from = operands(a, b, 16);                                                            \
    const int lane = static_cast<int>(lane_id()), at = lane % 16, upper = lane / 16;                 \
    Vector<i32, 8> sum = {};                                                                         \
    for (int k = 0; k < depth; k += 16) {                                                            \
      Vector<A, 16> x, y;                                                                            \
      for (int e = 0; e < 16; ++e) {                                                                 \
        x[e] = from.at_a(at, k + e);                                                                 \
        y[e] = from.at_b(k + e, at);                                                                 \
      }                                                                                              \
      using Words = Vector<i32, 4>;                                                                  \
      sum = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(is_signed, reshape<Words>(x), is_signed,      \
                                                       reshape<Words>(y), sum, false);               \
    }                                                                                                \
    for (int i = 0; i < 8; ++i) c[(from.row + 2 * i + upper) * columns + from.column + at] = sum[i]; \
  }
WMMA_11_BYTES(wmma_gfx11_i32_i8, i8, true)
WMMA_11_BYTES(wmma_gfx11_i32_u8, u8, false)

KERNEL wmma_gfx11_i32_i4(i32* c, const i8* a, const i8* b) {
  const auto from = operands(a, b, 16);
  const int lane = static_cast<int>(lane_id()), at = lane % 16, upper = lane / 16;
  Vector<i32, 8> sum = {};
  for (int k = 0; k < depth; k += 16) {
    u64 x = 0, y = 0;
    for (int e = 0; e < 16; ++e) {
      x |= static_cast<u64>(from.at_a(at, k + e) & 15) << (4 * e);
      y |= static_cast<u64>(from.at_b(k + e, at) & 15) << (4 * e);
    }
    using Words = Vector<i32, 2>;
    sum = __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32(true, reshape<Words>(x), true, reshape<Words>(y), sum,
                                                     false);
  }
  for (int i = 0; i < 8; ++i) c[(from.row + 2 * i + upper) * columns + from.column + at] = sum[i];
}
#endif

// ---- gfx12: nothing is repeated. Lanes 0 to 15 hold elements 0 to 7 of K, lanes 16 to 31 elements 8 to 15,
// and so with the rows of C.

#if defined(__gfx1201__)
#define WMMA_12_FLOAT(name, A, C, Packed, Sums, builtin)                                \
  KERNEL name(C* c, const A* a, const A* b) {                                           \
    const auto from = operands(a, b, 16);                                               \
    const int lane = static_cast<int>(lane_id()), at = lane % 16, upper = lane / 16;    \
    Sums sum = {};                                                                      \
    for (int k = 0; k < depth; k += 16) {                                               \
      Vector<A, 8> x, y;                                                                \
      for (int e = 0; e < 8; ++e) {                                                     \
        x[e] = from.at_a(at, k + 8 * upper + e);                                        \
        y[e] = from.at_b(k + 8 * upper + e, at);                                        \
      }                                                                                 \
      sum = builtin(reshape<Packed>(x), reshape<Packed>(y), sum);                       \
    }                                                                                   \
    for (int i = 0; i < 8; ++i) {                                                       \
      const auto element = sum[i];                                                      \
      c[(from.row + 8 * upper + i) * columns + from.column + at] = reshape<C>(element); \
    }                                                                                   \
  }
using Shorts8 = Vector<i16, 8>;
using Halves8 = Vector<f16, 8>;
using Floats8 = Vector<f32, 8>;
WMMA_12_FLOAT(wmma_gfx12_f32_f16, f16, f32, Halves8, Floats8,
              __builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12)
WMMA_12_FLOAT(wmma_gfx12_f32_bf16, bf16, f32, Shorts8, Floats8,
              __builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12)
WMMA_12_FLOAT(wmma_gfx12_f16_f16, f16, f16, Halves8, Halves8,
              __builtin_amdgcn_wmma_f16_16x16x16_f16_w32_gfx12)
WMMA_12_FLOAT(wmma_gfx12_bf16_bf16, bf16, bf16, Shorts8, Shorts8,
              __builtin_amdgcn_wmma_bf16_16x16x16_bf16_w32_gfx12)

#define WMMA_12_BYTES(name, A, is_signed)                                                             \
  KERNEL name(i32* c, const A* a, const A* b) {                                                       \
    const auto from = operands(a, b, 16);                                                             \
    const int lane = static_cast<int>(lane_id()), at = lane % 16, upper = lane / 16;                  \
    Vector<i32, 8> sum = {};                                                                          \
    for (int k = 0; k < depth; k += 16) {                                                             \
      Vector<A, 8> x, y;                                                                              \
      for (int e = 0; e < 8; ++e) {                                                                   \
        x[e] = from.at_a(at, k + 8 * upper + e);                                                      \
        y[e] = from.at_b(k + 8 * upper + e, at);                                                      \
      }                                                                                               \
      using Words = Vector<i32, 2>;                                                                   \
      sum = __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(is_signed, reshape<Words>(x), is_signed, \
                                                             reshape<Words>(y), sum, false);          \
    }                                                                                                 \
    for (int i = 0; i < 8; ++i) c[(from.row + 8 * upper + i) * columns + from.column + at] = sum[i];  \
  }
WMMA_12_BYTES(wmma_gfx12_i32_i8, i8, true)
WMMA_12_BYTES(wmma_gfx12_i32_u8, u8, false)

KERNEL wmma_gfx12_i32_i4(i32* c, const i8* a, const i8* b) {
  const auto from = operands(a, b, 16);
  const int lane = static_cast<int>(lane_id()), at = lane % 16, upper = lane / 16;
  Vector<i32, 8> sum = {};
  for (int k = 0; k < depth; k += 16) {
    u32 x = 0, y = 0;
    for (int e = 0; e < 8; ++e) {
      x |= static_cast<u32>(from.at_a(at, k + 8 * upper + e) & 15) << (4 * e);
      y |= static_cast<u32>(from.at_b(k + 8 * upper + e, at) & 15) << (4 * e);
    }
    sum = __builtin_amdgcn_wmma_i32_16x16x16_iu4_w32_gfx12(true, static_cast<i32>(x), true,
                                                           static_cast<i32>(y), sum, false);
  }
  for (int i = 0; i < 8; ++i) c[(from.row + 8 * upper + i) * columns + from.column + at] = sum[i];
}
#endif

// ---- MFMA: lane l holds elements of row l % 16 (of 16) or l % 32 (of 32); the lanes above go on along K.

#if defined(__gfx90a__) || defined(__gfx942__)
// C of 16 by 16: register i holds row 4 (lane / 16) + i. In f64: row 4 i + lane / 16.
#define MFMA_16(name, A, C, per_lane, Packed, builtin)                               \
  KERNEL name(C* c, const A* a, const A* b) {                                        \
    const auto from = operands(a, b, 16);                                            \
    const int lane = static_cast<int>(lane_id()), at = lane % 16, group = lane / 16; \
    Vector<C, 4> sum = {};                                                           \
    for (int k = 0; k < depth; k += 4 * per_lane) {                                  \
      A x[per_lane], y[per_lane];                                                    \
      for (int e = 0; e < per_lane; ++e) {                                           \
        x[e] = from.at_a(at, k + per_lane * group + e);                              \
        y[e] = from.at_b(k + per_lane * group + e, at);                              \
      }                                                                              \
      Packed px, py;                                                                 \
      __builtin_memcpy(&px, x, sizeof px);                                           \
      __builtin_memcpy(&py, y, sizeof py);                                           \
      sum = builtin(px, py, sum, 0, 0, 0);                                           \
    }                                                                                \
    for (int i = 0; i < 4; ++i) {                                                    \
      const int row = sizeof(C) == 8 ? 4 * i + group : 4 * group + i;                \
      c[(from.row + row) * columns + from.column + at] = sum[i];                     \
    }                                                                                \
  }
using Halves4 = Vector<f16, 4>;
using Shorts4 = Vector<i16, 4>;
MFMA_16(mfma_16x16x16_f16, f16, f32, 4, Halves4, __builtin_amdgcn_mfma_f32_16x16x16f16)
MFMA_16(mfma_16x16x16_bf16, bf16, f32, 4, Shorts4, __builtin_amdgcn_mfma_f32_16x16x16bf16_1k)
MFMA_16(mfma_16x16x4_f32, f32, f32, 1, f32, __builtin_amdgcn_mfma_f32_16x16x4f32)
MFMA_16(mfma_16x16x4_f64, f64, f64, 1, f64, __builtin_amdgcn_mfma_f64_16x16x4f64)
#if defined(__gfx90a__)
MFMA_16(mfma_16x16x16_i8, i8, i32, 4, i32, __builtin_amdgcn_mfma_i32_16x16x16i8)
#else
MFMA_16(mfma_16x16x32_i8, i8, i32, 8, long, __builtin_amdgcn_mfma_i32_16x16x32_i8)
#endif

// Sixteen products of 4 by 4 at once: block l / 4 makes rows 4 (block / 4) and columns 4 (block % 4) of the
// tile.
KERNEL mfma_4x4x4_f16(f32* c, const f16* a, const f16* b) {
  const auto from = operands(a, b, 16);
  const int lane = static_cast<int>(lane_id()), at = lane % 4, block = lane / 4;
  Vector<f32, 4> sum = {};
  for (int k = 0; k < depth; k += 4) {
    Halves4 x, y;
    for (int e = 0; e < 4; ++e) {
      x[e] = from.at_a(block / 4 * 4 + at, k + e);
      y[e] = from.at_b(k + e, block % 4 * 4 + at);
    }
    sum = __builtin_amdgcn_mfma_f32_4x4x4f16(x, y, sum, 0, 0, 0);
  }
  for (int i = 0; i < 4; ++i)
    c[(from.row + block / 4 * 4 + i) * columns + from.column + block % 4 * 4 + at] = sum[i];
}

// C of 32 by 32: register i holds row 8 (i / 4) + 4 (lane / 32) + i % 4.
#define MFMA_32(name, A, C, per_lane, Packed, builtin)                                    \
  KERNEL name(C* c, const A* a, const A* b) {                                             \
    const int lane = static_cast<int>(lane_id()), at = lane % 32, group = lane / 32;      \
    Vector<C, 16> sum = {};                                                               \
    for (int k = 0; k < depth; k += 2 * per_lane) {                                       \
      A x[per_lane], y[per_lane];                                                         \
      for (int e = 0; e < per_lane; ++e) {                                                \
        x[e] = a[at * depth + k + per_lane * group + e];                                  \
        y[e] = b[(k + per_lane * group + e) * 32 + at];                                   \
      }                                                                                   \
      Packed px, py;                                                                      \
      __builtin_memcpy(&px, x, sizeof px);                                                \
      __builtin_memcpy(&py, y, sizeof py);                                                \
      sum = builtin(px, py, sum, 0, 0, 0);                                                \
    }                                                                                     \
    for (int i = 0; i < 16; ++i) c[(8 * (i / 4) + 4 * group + i % 4) * 32 + at] = sum[i]; \
  }
MFMA_32(mfma_32x32x8_f16, f16, f32, 4, Halves4, __builtin_amdgcn_mfma_f32_32x32x8f16)
MFMA_32(mfma_32x32x8_bf16, bf16, f32, 4, Shorts4, __builtin_amdgcn_mfma_f32_32x32x8bf16_1k)
MFMA_32(mfma_32x32x2_f32, f32, f32, 1, f32, __builtin_amdgcn_mfma_f32_32x32x2f32)
#if defined(__gfx90a__)
MFMA_32(mfma_32x32x8_i8, i8, i32, 4, i32, __builtin_amdgcn_mfma_i32_32x32x8i8)
#else
MFMA_32(mfma_32x32x16_i8, i8, i32, 8, long, __builtin_amdgcn_mfma_i32_32x32x16_i8)
#endif
#endif

#endif
