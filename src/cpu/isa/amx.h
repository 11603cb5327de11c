// Tiles of AMX: numbers become tiles of bf16, and tiles are multiplied.
#pragma once

#include <immintrin.h>

#include <bit>

#include "cpu/isa/pack.h"
#include "cpu/matrix_unit_kernels.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

constexpr int tile_pairs = 16;  // of neighbours; the rows of a tile of weights

// ---- numbers to bf16

// 32 neighbours as bf16.
HEARTH_INLINE __m512i rounded(__m512 first, __m512 second) {
  return std::bit_cast<__m512i>(_mm512_cvtne2ps_pbh(second, first));
}
// What rounding left of numbers; nothing of those that are not finite.
HEARTH_INLINE __m512 left_over(__m512 numbers, __m256i rounded) {
  const __m512 large = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
  const __mmask16 finite = _mm512_cmp_ps_mask(_mm512_abs_ps(large), _mm512_set1_ps(3.4e38f), _CMP_LT_OQ);
  return _mm512_maskz_sub_ps(finite, numbers, large);
}
struct TwoParts {
  __m512i large, small;
};
HEARTH_INLINE TwoParts in_parts(__m512 first, __m512 second) {
  const __m512i large = rounded(first, second);
  return {large, rounded(left_over(first, _mm512_castsi512_si256(large)),
                         left_over(second, _mm512_extracti64x4_epi64(large, 1)))};
}

HEARTH_INLINE __m512i low_words(__m512i a, __m512i b) { return _mm512_unpacklo_epi32(a, b); }
HEARTH_INLINE __m512i high_words(__m512i a, __m512i b) { return _mm512_unpackhi_epi32(a, b); }

// 16 rows of 16 pairs become 16 rows of a tile, which has a pair of each.
HEARTH_INLINE void store_transposed(const __m512i (&rows)[16], __m512i* to) {
  __m512i fours[16], quarters[16];
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {  // columns i to i + 3: pairs 4 q + j of them in quarter q of i + j
    const __m512i low = low_words(rows[i], rows[i + 1]), low_after = low_words(rows[i + 2], rows[i + 3]);
    const __m512i high = high_words(rows[i], rows[i + 1]), high_after = high_words(rows[i + 2], rows[i + 3]);
    fours[i] = _mm512_unpacklo_epi64(low, low_after);
    fours[i + 1] = _mm512_unpackhi_epi64(low, low_after);
    fours[i + 2] = _mm512_unpacklo_epi64(high, high_after);
    fours[i + 3] = _mm512_unpackhi_epi64(high, high_after);
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    const __m512i first = _mm512_shuffle_i32x4(fours[j], fours[4 + j], 0x88),
                  second = _mm512_shuffle_i32x4(fours[j], fours[4 + j], 0xdd),
                  first_after = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], 0x88),
                  second_after = _mm512_shuffle_i32x4(fours[8 + j], fours[12 + j], 0xdd);
    quarters[j] = _mm512_shuffle_i32x4(first, first_after, 0x88);
    quarters[4 + j] = _mm512_shuffle_i32x4(second, second_after, 0x88);
    quarters[8 + j] = _mm512_shuffle_i32x4(first, first_after, 0xdd);
    quarters[12 + j] = _mm512_shuffle_i32x4(second, second_after, 0xdd);
  }
#pragma GCC unroll 16
  for (int i = 0; i < tile_pairs; ++i) to[i] = quarters[i];
}

// ---- products

struct alignas(64) TileShapes {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
constexpr TileShapes tile_shapes;

// The instructions want tiles by number: 0 to 3 are the result's, row by row, 4 and 5 those of x, 6 and 7
// those of weights.
template <int ROWS>
HEARTH_INLINE void load_rows(const char* x, std::int64_t next) {
  _tile_loadd(4, x, 64);
  if constexpr (ROWS == 2) _tile_loadd(5, x + next, 64);
}
template <int COLUMNS>
HEARTH_INLINE void load_columns(const char* w, std::int64_t next) {
  _tile_loadd(6, w, 64);
  if constexpr (COLUMNS == 2) _tile_loadd(7, w + next, 64);
}
template <int ROWS, int COLUMNS>
HEARTH_INLINE void add_products() {
  _tile_dpbf16ps(0, 4, 6);
  if constexpr (COLUMNS == 2) _tile_dpbf16ps(1, 4, 7);
  if constexpr (ROWS == 2) _tile_dpbf16ps(2, 5, 6);
  if constexpr (ROWS == 2 && COLUMNS == 2) _tile_dpbf16ps(3, 5, 7);
}

// How x and weights are made of parts.
template <int ROW_PARTS, int COLUMN_PARTS>
struct PartsOf {
  static constexpr std::int64_t row_step = ROW_PARTS * unit_tile_bytes,
                                column_step = COLUMN_PARTS * unit_tile_bytes;

  // All products of parts but that of two small ones.
  template <int ROWS, int COLUMNS>
  HEARTH_INLINE static void add(const UnitProduct& p, const char* x, const char* w) {
    load_rows<ROWS>(x, p.row_tile_stride);
    if constexpr (COLUMN_PARTS == 2) {
      load_columns<COLUMNS>(w + unit_tile_bytes, p.column_tile_stride);
      add_products<ROWS, COLUMNS>();
    }
    load_columns<COLUMNS>(w, p.column_tile_stride);
    add_products<ROWS, COLUMNS>();
    if constexpr (ROW_PARTS == 2) {
      load_rows<ROWS>(x + unit_tile_bytes, p.row_tile_stride);
      add_products<ROWS, COLUMNS>();
    }
  }
};

template <int ROWS, int COLUMNS, typename Parts>
void multiply_whole_tiles(const UnitProduct& p, const char* x, float* out, std::int64_t stride, bool adds) {
  const std::int64_t bytes = stride * static_cast<std::int64_t>(sizeof(float));
  float* const below = out + unit_tile * stride;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  if (adds) {
    _tile_loadd(0, out, bytes);
    if constexpr (COLUMNS == 2) _tile_loadd(1, out + unit_tile, bytes);
    if constexpr (ROWS == 2) _tile_loadd(2, below, bytes);
    if constexpr (ROWS == 2 && COLUMNS == 2) _tile_loadd(3, below + unit_tile, bytes);
  }
  const char* w = p.columns;
  for (std::int64_t k = 0; k < p.depth; ++k, x += Parts::row_step, w += Parts::column_step)
    Parts::template add<ROWS, COLUMNS>(p, x, w);
  _tile_stored(0, out, bytes);
  if constexpr (COLUMNS == 2) _tile_stored(1, out + unit_tile, bytes);
  if constexpr (ROWS == 2) _tile_stored(2, below, bytes);
  if constexpr (ROWS == 2 && COLUMNS == 2) _tile_stored(3, below + unit_tile, bytes);
}

// The whole tiles of up to 32 rows.
template <int COLUMNS, typename Parts>
HEARTH_INLINE void multiply_rows(const UnitProduct& p, std::int64_t height, const char* x, float* out,
                                 std::int64_t stride, bool adds) {
  if (height > unit_tile)
    multiply_whole_tiles<2, COLUMNS, Parts>(p, x, out, stride, adds);
  else
    multiply_whole_tiles<1, COLUMNS, Parts>(p, x, out, stride, adds);
}

template <int COLUMNS, typename Parts>
void multiply_columns(const UnitProduct& p) {
  const char* x = p.rows;
  for (std::int64_t row = 0; row < p.height; row += 2 * unit_tile, x += 2 * p.row_tile_stride) {
    const std::int64_t height = p.height - row;
    float* const out = p.out + row * p.stride;
    if ((height == unit_tile || height >= 2 * unit_tile) && p.width == COLUMNS * unit_tile) {
      multiply_rows<COLUMNS, Parts>(p, height, x, out, p.stride, p.adds);
      continue;
    }
    alignas(64) float products[4 * unit_tile * unit_tile];
    constexpr std::int64_t wide = 2 * unit_tile;
    multiply_rows<COLUMNS, Parts>(p, height, x, products, wide, false);
    for (std::int64_t r = 0; r < (height < wide ? height : wide); ++r)
      for (std::int64_t c = 0; c < p.width; ++c) {
        float& element = out[r * p.stride + c];
        element = (p.adds ? element : 0) + products[r * wide + c];
      }
  }
}

// Tiles are there while one of these is, on this thread.
class TilesInUse {
 public:
  TilesInUse() { _tile_loadconfig(&tile_shapes); }
  ~TilesInUse() { _tile_release(); }
  TilesInUse(const TilesInUse&) = delete;
  TilesInUse& operator=(const TilesInUse&) = delete;
};

template <int ROW_PARTS, int COLUMN_PARTS>
void multiply(const UnitProduct& p, const TilesInUse&) {
  // What others wrote is in memory: the instructions do not tell the compiler what they read.
  asm volatile("" ::: "memory");
  if (p.width > unit_tile)
    multiply_columns<2, PartsOf<ROW_PARTS, COLUMN_PARTS>>(p);
  else
    multiply_columns<1, PartsOf<ROW_PARTS, COLUMN_PARTS>>(p);
}

}  // namespace
}  // namespace hearth::cpu::HEARTH_ISA
