// Products of tiles: integers multiplied, sums of 32 (16 where the format has a scale for 16) scaled in f32.
#include "cpu/tile_product_kernels.h"

#include <cstring>

#include "cpu/isa/pieces.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

#if defined(__ARM_FEATURE_MATMUL_INT8)
// An instruction multiplies 2 x 8 bytes with 2 x 8 bytes, into [r0c0, r0c1, r1c0, r1c1]: rows and columns
// come in pairs, runs of 8 neighbours, and a pair's scales as such a result needs them.
#define HEARTH_TILES
using Element = std::int8_t;
constexpr int tile_rows = 8, tile_columns = 4, run = 8, copies = 2;
constexpr int place(int index, int, int k) { return (index / 2 * 4 + k / 8) * 16 + index % 2 * 8; }
constexpr int row_copy(int row, int copy) { return row / 2 * 4 + row % 2 * 2 + copy; }
constexpr int column_copy(int column, int copy) { return column / 2 * 4 + column % 2 + copy * 2; }
#elif defined(__ARM_FEATURE_DOTPROD) || defined(__AVX2__)
// An instruction multiplies a run of one row with that run of several columns, which are its lanes.
#define HEARTH_TILES
#if defined(__ARM_FEATURE_DOTPROD)
using Element = std::int8_t;
using Ints = int32x4_t;
constexpr int tile_rows = 8, tile_columns = 4, run = 4;
#elif defined(__AVX512VNNI__)
using Element = std::int8_t;
using Ints = __m512i;
constexpr int tile_rows = 8, tile_columns = 16, run = 4;
#elif defined(__AVX512F__)
using Element = std::int16_t;
using Ints = __m512i;
constexpr int tile_rows = 8, tile_columns = 16, run = 2;
#else
using Element = std::int16_t;
using Ints = __m256i;
constexpr int tile_rows = 4, tile_columns = 8, run = 2;
#endif
constexpr int copies = 1;
constexpr int place(int index, int count, int k) { return (k / run * count + index) * run; }
constexpr int row_copy(int row, int) { return row; }
constexpr int column_copy(int column, int) { return column; }
#endif

#if defined(HEARTH_TILES)
static_assert(tile_rows * tile_columns <= most_tile_elements);

struct alignas(64) RowPiece {
  Element q[tile_rows * 32];
  float scale[tile_rows * copies];
  float sum[3][tile_rows * copies];  // of the first half's numbers, scaled, the second's, all
};

// PARTS have a scale, and an offset where there are OFFSETS, of their own.
template <int PARTS, bool OFFSETS>
struct alignas(32) ColumnPiece {
  Element q[tile_columns * 32];
  float factors[OFFSETS ? 2 * PARTS : PARTS][tile_columns * copies];  // scales, then offsets

  HEARTH_INLINE const float* scale(int part) const { return factors[part]; }
  HEARTH_INLINE const float* offset(int part) const { return factors[PARTS + part]; }
};

#if defined(__AVX512VNNI__)
// The instruction takes bytes without a sign from one side: weights are q + 128 there, and their offsets
// more.
constexpr int unsigned_zero = 128;
#else
constexpr int unsigned_zero = 0;
#endif
template <typename Block>
constexpr int parts = has_two_scales<Block> ? 2 : 1;
template <typename Block>
constexpr bool offsets = has_offset<Block> || unsigned_zero != 0;

// 16 neighbours, from `first` on, of row or column `index` of `count`.
HEARTH_INLINE void arrange(i8x16 q, Element* to, int index, int count, int first) {
  typedef Element Elements __attribute__((vector_size(16 * sizeof(Element))));
  const Elements elements = __builtin_convertvector(q, Elements);
  for (int k = 0; k < 16; k += run)
    std::memcpy(to + place(index, count, first + k), reinterpret_cast<const Element*>(&elements) + k,
                run * sizeof(Element));
}

void arrange_rows(RoundedRows x, std::int64_t count, std::int64_t pieces, void* tile) {
  auto* to = static_cast<RowPiece*>(tile);
  for (std::int64_t p = 0; p < pieces; ++p) {
    if (count < tile_rows) std::memset(&to[p], 0, sizeof(RowPiece));
    for (int row = 0; row < count; ++row) {
      const std::int64_t from = row * pieces + p;
      for (int half = 0; half < 2; ++half)
        arrange(as_signed(load_bytes(x.q + from * 32 + 16 * half)), to[p].q, row, tile_rows, 16 * half);
      for (int copy = 0; copy < copies; ++copy) {
        const int at = row_copy(row, copy);
        to[p].scale[at] = x.scale[from];
        for (int half = 0; half < 2; ++half) to[p].sum[half][at] = x.sum[2 * from + half];
        to[p].sum[2][at] = x.whole[from];
      }
    }
  }
}

template <int PARTS, bool OFFSETS>
HEARTH_INLINE void arrange(const Piece& piece, int column, ColumnPiece<PARTS, OFFSETS>& to) {
  for (int half = 0; half < 2; ++half) {
    const i8x16 q = piece.q[half] + static_cast<std::int8_t>(unsigned_zero);
    arrange(q, to.q, column, tile_columns, 16 * half);
  }
  for (int part = 0; part < PARTS; ++part)
    for (int copy = 0; copy < copies; ++copy) {
      to.factors[part][column_copy(column, copy)] = piece.scale[part];
      if constexpr (OFFSETS)
        to.factors[PARTS + part][column_copy(column, copy)] =
            piece.offset[part] + piece.scale[part] * unsigned_zero;
    }
}

template <typename Block>
void arrange_columns(const void* weights, std::int64_t stride, std::int64_t count, std::int64_t pieces_count,
                     void* tile) {
  using Target = ColumnPiece<parts<Block>, offsets<Block>>;
  constexpr int inside = pieces<Block>;
  auto* const tiles = static_cast<Target*>(tile);
  if (count < tile_columns) std::memset(tile, 0, static_cast<std::size_t>(pieces_count) * sizeof(Target));
  for (int column = 0; column < count; ++column) {
    const auto* block = reinterpret_cast<const Block*>(static_cast<const char*>(weights) + column * stride);
    for (std::int64_t b = 0; b < pieces_count / inside; ++b)
      for (int i = 0; i < inside; ++i) arrange(unpack(block[b], i), column, tiles[b * inside + i]);
  }
}

// `weights`: a panel of fours of rows, from the tile's first on.
template <typename Quad>
void arrange_quads(const void* weights, std::int64_t, std::int64_t count, std::int64_t pieces_count,
                   void* tile) {
  using Target = ColumnPiece<parts<Quad>, offsets<Quad>>;
  constexpr int inside = pieces<Quad>;
  const std::int64_t blocks = pieces_count / inside;
  auto* const tiles = static_cast<Target*>(tile);
  if (count < tile_columns) std::memset(tile, 0, static_cast<std::size_t>(pieces_count) * sizeof(Target));
  for (int first = 0; first < count; first += 4) {
    const auto* quad = static_cast<const Quad*>(weights) + first / 4 * blocks;
    for (std::int64_t b = 0; b < blocks; ++b)
      for (int i = 0; i < inside; ++i)
        for (int r = 0; r < 4; ++r) arrange(unpack(quad[b], i, r), first + r, tiles[b * inside + i]);
  }
}
#endif

#if defined(__ARM_FEATURE_MATMUL_INT8)
// Converting integers to floats is slow on these cores: sums start as the bits of 1.5 * 2^23, so that they
// are those of a float all along, as long as they stay below 2^22.
constexpr float sum_base = 12582912.0f;

HEARTH_INLINE void store(float* to, float32x4_t values, bool adds) {
  vst1q_f32(to, adds ? vaddq_f32(vld1q_f32(to), values) : values);
}

template <int PARTS, bool OFFSETS>
void multiply(const void* row_tile, const void* column_tile, std::int64_t pieces, float* out,
              std::int64_t stride, bool adds) {
  constexpr int row_pairs = tile_rows / 2, column_pairs = tile_columns / 2, steps = 4 / PARTS;
  const auto* x = static_cast<const RowPiece*>(row_tile);
  const auto* w = static_cast<const ColumnPiece<PARTS, OFFSETS>*>(column_tile);
  const float32x4_t base = vdupq_n_f32(sum_base);
  float32x4_t sums[row_pairs][column_pairs];
#pragma GCC unroll 4
  for (int r = 0; r < row_pairs; ++r)
#pragma GCC unroll 4
    for (int c = 0; c < column_pairs; ++c) sums[r][c] = vdupq_n_f32(0);
  for (std::int64_t p = 0; p < pieces; ++p, ++x, ++w)
#pragma GCC unroll 2
    for (int part = 0; part < PARTS; ++part)
#pragma GCC unroll 4
      for (int r = 0; r < row_pairs; ++r) {
        const float32x4_t row_scale = vld1q_f32(x->scale + 4 * r);
        const float32x4_t row_sum = vld1q_f32(x->sum[PARTS == 1 ? 2 : part] + 4 * r);
#pragma GCC unroll 4
        for (int c = 0; c < column_pairs; ++c) {
          int32x4_t products = vreinterpretq_s32_f32(base);
#pragma GCC unroll 4
          for (int k = part * steps; k < (part + 1) * steps; ++k)
            products =
                vmmlaq_s32(products, vld1q_s8(x->q + (4 * r + k) * 16), vld1q_s8(w->q + (4 * c + k) * 16));
          const float32x4_t scale = vmulq_f32(row_scale, vld1q_f32(w->scale(part) + 4 * c));
          sums[r][c] = vfmaq_f32(sums[r][c], vsubq_f32(vreinterpretq_f32_s32(products), base), scale);
          if constexpr (OFFSETS)
            sums[r][c] = vfmsq_f32(sums[r][c], row_sum, vld1q_f32(w->offset(part) + 4 * c));
        }
      }
#pragma GCC unroll 4
  for (int r = 0; r < tile_rows; r += 2)
#pragma GCC unroll 2
    for (int c = 0; c < tile_columns; c += 4) {
      const float32x4_t left = sums[r / 2][c / 2], right = sums[r / 2][c / 2 + 1];
      store(out + r * stride + c, vcombine_f32(vget_low_f32(left), vget_low_f32(right)), adds);
      store(out + (r + 1) * stride + c, vcombine_f32(vget_high_f32(left), vget_high_f32(right)), adds);
    }
}
#elif defined(HEARTH_TILES)
typedef float Floats __attribute__((vector_size(sizeof(Ints))));

#if defined(__ARM_FEATURE_DOTPROD)
HEARTH_INLINE Ints spread(std::int32_t value) { return vdupq_n_s32(value); }
HEARTH_INLINE Ints add_products(Ints sums, const Element* w, const Element* x) {
  return vdotq_s32(sums, vld1q_s8(w),
                   vreinterpretq_s8_s32(vld1q_dup_s32(reinterpret_cast<const std::int32_t*>(x))));
}
HEARTH_INLINE Floats as_floats(Ints values) { return std::bit_cast<Floats>(vcvtq_f32_s32(values)); }
#elif defined(__AVX512F__)
HEARTH_INLINE Ints spread(std::int32_t value) { return _mm512_set1_epi32(value); }
HEARTH_INLINE Ints add_products(Ints sums, const Element* w, const Element* x) {
  std::int32_t bits;
  std::memcpy(&bits, x, sizeof bits);
#if defined(__AVX512VNNI__)
  return _mm512_dpbusd_epi32(sums, _mm512_loadu_si512(w), spread(bits));
#else
  return _mm512_add_epi32(sums, _mm512_madd_epi16(_mm512_loadu_si512(w), spread(bits)));
#endif
}
HEARTH_INLINE Floats as_floats(Ints values) { return std::bit_cast<Floats>(_mm512_cvtepi32_ps(values)); }
#else
HEARTH_INLINE Ints spread(std::int32_t value) { return _mm256_set1_epi32(value); }
HEARTH_INLINE Ints add_products(Ints sums, const Element* w, const Element* x) {
  std::int32_t bits;
  std::memcpy(&bits, x, sizeof bits);
  const __m256i columns = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w));
  return _mm256_add_epi32(sums, _mm256_madd_epi16(columns, spread(bits)));
}
HEARTH_INLINE Floats as_floats(Ints values) { return std::bit_cast<Floats>(_mm256_cvtepi32_ps(values)); }
#endif

template <int PARTS, bool OFFSETS>
void multiply(const void* row_tile, const void* column_tile, std::int64_t pieces, float* out,
              std::int64_t stride, bool adds) {
  constexpr int runs = 32 / run / PARTS;
  const auto* x = static_cast<const RowPiece*>(row_tile);
  const auto* w = static_cast<const ColumnPiece<PARTS, OFFSETS>*>(column_tile);
  Floats sums[tile_rows] = {};
  for (std::int64_t p = 0; p < pieces; ++p, ++x, ++w)
#pragma GCC unroll 2
    for (int part = 0; part < PARTS; ++part) {
      const float* row_sum = x->sum[PARTS == 1 ? 2 : part];
      Ints products[tile_rows];
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) products[r] = spread(0);
#pragma GCC unroll 16
      for (int k = part * runs; k < (part + 1) * runs; ++k)
#pragma GCC unroll 8
        for (int r = 0; r < tile_rows; ++r)
          products[r] =
              add_products(products[r], w->q + k * tile_columns * run, x->q + (k * tile_rows + r) * run);
      Floats scale, offset;
      std::memcpy(&scale, w->scale(part), sizeof scale);
      if constexpr (OFFSETS) std::memcpy(&offset, w->offset(part), sizeof offset);
#pragma GCC unroll 8
      for (int r = 0; r < tile_rows; ++r) {
        sums[r] += as_floats(products[r]) * (scale * x->scale[r]);
        if constexpr (OFFSETS) sums[r] -= offset * row_sum[r];
      }
    }
  for (int r = 0; r < tile_rows; ++r) {
    Floats there = {};
    if (adds) std::memcpy(&there, out + r * stride, sizeof there);
    there += sums[r];
    std::memcpy(out + r * stride, &there, sizeof there);
  }
}
#endif

}  // namespace

#if defined(HEARTH_TILES)
#define HEARTH_ARRANGE(dtype, Block) arrange_columns<blocks::Block>,
#define HEARTH_MULTIPLY(dtype, Block) multiply<parts<blocks::Block>, offsets<blocks::Block>>,
#define HEARTH_ARRANGE_QUADS(dtype, Block, fours, Quad) arrange_quads<blocks::Quad>,
#define HEARTH_MULTIPLY_QUADS(dtype, Block, fours, Quad) HEARTH_MULTIPLY(fours, Quad)
extern const TileProductKernels tile_product_kernels_table = {
    tile_rows,
    tile_columns,
    sizeof(RowPiece),
    sizeof(ColumnPiece<2, true>),
    arrange_rows,
    {HEARTH_BLOCK_FORMATS(HEARTH_ARRANGE) HEARTH_REPACKED_FORMATS(HEARTH_ARRANGE_QUADS)},
    {HEARTH_BLOCK_FORMATS(HEARTH_MULTIPLY) HEARTH_REPACKED_FORMATS(HEARTH_MULTIPLY_QUADS)}};
#else
extern const TileProductKernels tile_product_kernels_table = {};
#endif

}  // namespace hearth::cpu::HEARTH_ISA
