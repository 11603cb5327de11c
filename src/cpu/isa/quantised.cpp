// Dequantising blocks, and dot products of blocks with activations rounded to 8 bits: integers are
// multiplied, and their sums scaled.
#include <bit>
#include <cmath>

#include "cpu/isa/pieces.h"
#include "cpu/isa/rounding.h"
#include "cpu/quantised_kernels.h"
#if defined(__ARM_FEATURE_DOTPROD)
#include "cpu/isa/quads.h"
#elif defined(__AVX2__)
#include "cpu/isa/eights_x86.h"
#include "cpu/isa/fetch.h"
#endif

namespace hearth::cpu::HEARTH_ISA {
namespace {

template <typename Block>
void dequantise(const void* blocks, float* out, std::int64_t count) {
  const Block* block = static_cast<const Block*>(blocks);
  for (std::int64_t i = 0; i < count / (32 * pieces<Block>); ++i)
    for (int p = 0; p < pieces<Block>; ++p, out += 32) {
      const Piece piece = unpack(block[i], p);
      for (int half = 0; half < 2; ++half)
        for (int k = 0; k < 16; ++k)
          out[16 * half + k] = piece.scale[half] * static_cast<float>(piece.q[half][k]) - piece.offset[half];
    }
}

void round_rows(const float* x, RoundedRows out, std::int64_t count) {
  for (std::int64_t b = 0; b < count / 32; ++b, x += 32) {
    const RoundedRun run = round_run(x, out.q + 32 * b);
    out.scale[b] = run.scale;
    for (int half = 0; half < 2; ++half)
      out.sum[2 * b + half] = run.scale * static_cast<float>(run.sums[half]);
    out.whole[b] = run.scale * static_cast<float>(run.sums[0] + run.sums[1]);
  }
}

#if defined(__ARM_FEATURE_DOTPROD)
// Sums of four neighbouring products. The zero to begin with is made anew for each: the compiler would copy
// it from a register, which costs as much as the product.
HEARTH_INLINE int32x4_t add_products(int32x4_t sums, i8x16 a, int8x16_t b) {
  return vdotq_s32(sums, std::bit_cast<int8x16_t>(a), b);
}
HEARTH_INLINE int32x4_t products_of(i8x16 a, int8x16_t b) {
  int32x4_t zero;
  asm("movi %0.4s, #0" : "=w"(zero) : "w"(a));
  return add_products(zero, a, b);
}

// The same piece of four columns: elements of `sum` are columns. Of Q4_0, whose numbers stay unsigned, it is
// an eighth, so that what stands for 0 is 1.
template <typename Block>
constexpr bool is_unsigned = std::is_same_v<Block, Q4_0>;

template <typename Block>
HEARTH_INLINE float32x4_t add_columns(float32x4_t sum, const Quad& w, const std::int8_t* q, float scale,
                                      const float* whole) {
  const int8x16_t low = vld1q_s8(q), high = vld1q_s8(q + 16);
  int32x4_t columns[4];
  for (int i = 0; i < 4; ++i) columns[i] = add_products(products_of(w.q[i][0], low), w.q[i][1], high);
  const int32x4_t sums = vpaddq_s32(vpaddq_s32(columns[0], columns[1]), vpaddq_s32(columns[2], columns[3]));
  if constexpr (is_unsigned<Block>)
    return vfmsq_f32(sum, w.scale, vfmsq_n_f32(vld1q_dup_f32(whole), vcvtq_n_f32_s32(sums, 3), scale));
  sum = vfmaq_f32(sum, vcvtq_f32_s32(sums), vmulq_n_f32(w.scale, scale));
  return has_offset<Block> ? vfmsq_f32(sum, w.offset, vld1q_dup_f32(whole)) : sum;
}

// Formats with one piece in a block: four columns at a time. They lie far apart, so that weights are read as
// four long runs: a core reads faster from those than from one, or from many short ones.
template <typename Block, int ROWS>
void multiply_rows(const void* weights, std::int64_t columns, RoundedRows x, float* out, std::int64_t stride,
                   std::int64_t count) requires(pieces<Block> == 1) {
  const std::int64_t apart = (columns + 3) / 4, all = count / 32;
  for (std::int64_t first = 0; first < apart; ++first) {
    std::int64_t column[4];  // the last of all stands in for those that are missing
    const Block* block[4];
    for (int i = 0; i < 4; ++i) {
      column[i] = first + i * apart < columns ? first + i * apart : columns - 1;
      block[i] = static_cast<const Block*>(weights) + column[i] * all;
    }
    float32x4_t sums[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) sums[r] = vdupq_n_f32(0);
#pragma GCC unroll 2
    for (std::int64_t piece = 0; piece < all; ++piece) {
      const Quad w = quad(block[0][piece], block[1][piece], block[2][piece], block[3][piece]);
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) {
        const std::int64_t at = r * all + piece;
        sums[r] = add_columns<Block>(sums[r], w, x.q + at * 32, x.scale[at], x.whole + at);
      }
    }
    for (int r = 0; r < ROWS; ++r)
      for (int i = 0; i < 4; ++i)
        out[r * stride + column[i]] = is_unsigned<Block> ? sums[r][i] * 8 : sums[r][i];
  }
}

// Four pieces of one column, which are the elements of the sums.
template <typename Block>
struct BlockSums {
  float32x4_t products = vdupq_n_f32(0), offsets = vdupq_n_f32(0);

  HEARTH_INLINE void add(const NeighbourQuad& w, RoundedRows x, std::int64_t piece) {
    int32x4_t sums[4];
    for (int i = 0; i < 4; ++i) {
      const std::int8_t* q = x.q + (piece + i) * 32;
      const int8x16_t low = vld1q_s8(q), high = vld1q_s8(q + 16);
      sums[i] = has_two_scales<Block> ? vpaddq_s32(products_of(w.q[i][0], low), products_of(w.q[i][1], high))
                                      : add_products(products_of(w.q[i][0], low), w.q[i][1], high);
    }
    const int32x4_t left = vpaddq_s32(sums[0], sums[1]), right = vpaddq_s32(sums[2], sums[3]);
    const int32x4_t scaled = has_two_scales<Block>
                                 ? vpaddq_s32(vmulq_s32(left, w.scale[0]), vmulq_s32(right, w.scale[1]))
                                 : vmulq_s32(vpaddq_s32(left, right), w.scale[0]);
    products = vfmaq_f32(products, vcvtq_f32_s32(scaled), vld1q_f32(x.scale + piece));
    if constexpr (quad_has_offset<Block> && has_two_scales<Block>)
      for (int i = 0; i < 2; ++i)
        offsets = vfmaq_f32(offsets, vcvtq_f32_s32(w.offset[i]), vld1q_f32(x.sum + piece * 2 + 4 * i));
    else if constexpr (quad_has_offset<Block>)
      offsets = vfmaq_f32(offsets, vcvtq_f32_s32(w.offset[0]), vld1q_f32(x.whole + piece));
  }
};

template <typename Block, int ROWS>
void multiply_rows(const void* weights, std::int64_t columns, RoundedRows x, float* out, std::int64_t stride,
                   std::int64_t count) requires(pieces<Block> == 8) {
  const auto* block = static_cast<const Block*>(weights);
  const std::int64_t all = count / 32;
  for (std::int64_t column = 0; column < columns; ++column) {
    float32x4_t sums[ROWS];
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) sums[r] = vdupq_n_f32(0);
    for (std::int64_t piece = 0; piece < all; piece += 8, ++block) {
      BlockSums<Block> parts[ROWS];
#pragma GCC unroll 2
      for (int first = 0; first < 8; first += 4) {
        const NeighbourQuad w = quad(*block, first);
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; ++r) parts[r].add(w, x, r * all + piece + first);
      }
      const BlockScales scales = block_scales(*block);
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) {
        sums[r] = vfmaq_n_f32(sums[r], parts[r].products, scales.d);
        if constexpr (quad_has_offset<Block>) sums[r] = vfmsq_n_f32(sums[r], parts[r].offsets, scales.dmin);
      }
    }
    for (int r = 0; r < ROWS; ++r) out[r * stride + column] = vaddvq_f32(sums[r]);
  }
}
#elif defined(__AVX2__)
HEARTH_INLINE float total(__m256 floats) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(floats), _mm256_extractf128_ps(floats, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}

// Sums of four neighbouring products, of bytes without a sign (up to 127), or with one, with such of x.
template <bool SIGNED>
HEARTH_INLINE __m256 products_of(__m256i w, __m256i x) {
  const __m256i sizes = SIGNED ? _mm256_abs_epi8(w) : w;
  if (SIGNED) x = _mm256_sign_epi8(x, w);
#if defined(__AVX512VNNI__)
  return _mm256_cvtepi32_ps(_mm256_dpbusd_epi32(_mm256_setzero_si256(), sizes, x));
#else
  return _mm256_cvtepi32_ps(_mm256_madd_epi16(_mm256_maddubs_epi16(sizes, x), _mm256_set1_epi16(1)));
#endif
}

template <typename Block, int ROWS>
struct DotProducts {
  __m256 products[ROWS][2], offsets[ROWS];  // in turns, so that a sum does not wait for itself

  HEARTH_INLINE DotProducts() {
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) products[r][0] = products[r][1] = offsets[r] = _mm256_setzero_ps();
  }

  // Eight pieces of weights, with those from `first` on of rows of x of `all` pieces.
  HEARTH_INLINE void add_eight(const Block* w, RoundedRows x, std::int64_t first, std::int64_t all) {
    const Factors factors = factors_of(w);
    const __m256i halves[4] = {
        _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1), _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3),
        _mm256_setr_epi32(4, 4, 4, 4, 5, 5, 5, 5), _mm256_setr_epi32(6, 6, 6, 6, 7, 7, 7, 7)};
#pragma GCC unroll 2
    for (int g = 0; g < 2; ++g) {
      __m256 scale[ROWS];
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) {
        const std::int64_t at = r * all + first + 4 * g;
        scale[r] = _mm256_mul_ps(factors.scale[g], each_twice(_mm_loadu_ps(x.scale + at)));
        if constexpr (takes_offset<Block>)
          offsets[r] = _mm256_fmadd_ps(factors.offset[g], _mm256_loadu_ps(x.sum + 2 * at), offsets[r]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        const __m256i bytes = bytes_of(w, 4 * g + i);
#pragma GCC unroll 4
        for (int r = 0; r < ROWS; ++r)
          products[r][i % 2] = _mm256_fmadd_ps(
              products_of<has_signed_bytes<Block> >(bytes, load_32(x.q + (r * all + first + 4 * g + i) * 32)),
              _mm256_permutevar8x32_ps(scale[r], halves[i]), products[r][i % 2]);
      }
    }
  }

  // One of a format with one piece in a block.
  HEARTH_INLINE void add_one(const Block* w, RoundedRows x, std::int64_t piece, std::int64_t all) {
    const Piece numbers = unpack(*w, 0);
    const __m256i q =
        _mm256_set_m128i(std::bit_cast<__m128i>(numbers.q[1]), std::bit_cast<__m128i>(numbers.q[0]));
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) {
      const std::int64_t at = r * all + piece;
      products[r][0] = _mm256_fmadd_ps(products_of<true>(q, load_32(x.q + at * 32)),
                                       _mm256_set1_ps(numbers.scale[0] * x.scale[at]), products[r][0]);
      offsets[r] =
          _mm256_add_ps(offsets[r], _mm256_castps128_ps256(_mm_set_ss(numbers.offset[0] * x.whole[at])));
    }
  }

  HEARTH_INLINE float result(int r) const {
    return total(_mm256_sub_ps(_mm256_add_ps(products[r][0], products[r][1]), offsets[r]));
  }
};

template <typename Block, int ROWS>
void multiply_rows(const void* weights, std::int64_t columns, RoundedRows x, float* out, std::int64_t stride,
                   std::int64_t count) {
  constexpr int blocks = 8 / pieces<Block>;  // of eight pieces
  const auto* block = static_cast<const Block*>(weights);
  const std::int64_t all = count / 32;
  for (std::int64_t column = 0; column < columns; ++column, ++out) {
    DotProducts<Block, ROWS> sums;
    std::int64_t piece = 0;
    for (; piece + 8 <= all; piece += 8, block += blocks) {
      fetch_ahead<blocks * sizeof(Block)>(block);
      sums.add_eight(block, x, piece, all);
    }
    if constexpr (blocks == 8)
      for (; piece < all; ++piece, ++block) sums.add_one(block, x, piece, all);
    for (int r = 0; r < ROWS; ++r) out[r * stride] = sums.result(r);
  }
}
#else
#if defined(__ARM_NEON)
using Sums = int32x4_t;
using Floats = float32x4_t;
HEARTH_INLINE Sums no_sums() { return vdupq_n_s32(0); }
HEARTH_INLINE Sums add_products(Sums sums, i8x16 a, i8x16 b) {
  const auto x = std::bit_cast<int8x16_t>(a), y = std::bit_cast<int8x16_t>(b);
  sums = vpadalq_s16(sums, vmull_s8(vget_low_s8(x), vget_low_s8(y)));
  return vpadalq_s16(sums, vmull_high_s8(x, y));
}
HEARTH_INLINE Floats no_floats() { return vdupq_n_f32(0); }
HEARTH_INLINE Floats add_scaled(Floats floats, Sums sums, float scale) {
  return vfmaq_n_f32(floats, vcvtq_f32_s32(sums), scale);
}
HEARTH_INLINE float total(Floats floats) { return vaddvq_f32(floats); }
#else
typedef std::int16_t i16x16 __attribute__((vector_size(32)));
typedef std::int32_t Sums __attribute__((vector_size(16)));
typedef float Floats __attribute__((vector_size(16)));
HEARTH_INLINE Sums no_sums() { return Sums{}; }
HEARTH_INLINE Sums add_products(Sums sums, i8x16 a, i8x16 b) {
  const i16x16 products = __builtin_convertvector(a, i16x16) * __builtin_convertvector(b, i16x16);
  for (int i = 0; i < 16; ++i) sums[i % 4] += products[i];
  return sums;
}
HEARTH_INLINE Floats no_floats() { return Floats{}; }
HEARTH_INLINE Floats add_scaled(Floats floats, Sums sums, float scale) {
  return floats + __builtin_convertvector(sums, Floats) * scale;
}
HEARTH_INLINE float total(Floats floats) { return floats[0] + floats[1] + (floats[2] + floats[3]); }
#endif

// ---- kernels ----

// With one row, each sum would wait for the one before: it is kept in several parts.
template <int ROWS>
constexpr int chains = ROWS == 1 ? 4 : 1;

template <typename Block, int ROWS>
struct DotProducts {
  Floats products[ROWS][chains<ROWS>];
  float offsets[ROWS] = {};

  HEARTH_INLINE DotProducts() {
    for (auto& row : products)
      for (auto& chain : row) chain = no_floats();
  }

  // `piece` of all rows, `count` elements each.
  HEARTH_INLINE void add(const Piece& w, RoundedRows x, std::int64_t piece, std::int64_t count, int chain) {
    for (int r = 0; r < ROWS; ++r) {
      const std::int8_t* q = x.q + r * count + piece * 32;
      const float scale = x.scale[r * count / 32 + piece];
      Floats& sum = products[r][chain];
      const i8x16 low = as_signed(load_bytes(q)), high = as_signed(load_bytes(q + 16));
      if constexpr (has_two_scales<Block>) {
        sum = add_scaled(sum, add_products(no_sums(), w.q[0], low), w.scale[0] * scale);
        sum = add_scaled(sum, add_products(no_sums(), w.q[1], high), w.scale[1] * scale);
      } else {
        const Sums sums = add_products(add_products(no_sums(), w.q[0], low), w.q[1], high);
        sum = add_scaled(sum, sums, w.scale[0] * scale);
      }
      if constexpr (has_offset<Block>) {
        const float* halves = x.sum + r * count / 16 + piece * 2;
        offsets[r] += w.offset[0] * halves[0] + w.offset[1] * halves[1];
      }
    }
  }

  HEARTH_INLINE float result(int r) const {
    float sum = 0;
    for (const Floats& chain : products[r]) sum += total(chain);
    return sum - offsets[r];
  }
};

template <typename Block, int ROWS>
HEARTH_INLINE void dot(const Block* block, RoundedRows x, float* out, std::int64_t stride,
                       std::int64_t count) {
  constexpr int inside = pieces<Block>, together = inside > 1 ? inside : chains<ROWS>;
  const std::int64_t all = count / 32;
  DotProducts<Block, ROWS> sums;
  std::int64_t first = 0;
  for (; first + together <= all; first += together)
#pragma GCC unroll 8
    for (int i = 0; i < together; ++i)
      sums.add(unpack(block[first / inside + i / inside], i % inside), x, first + i, count, i % chains<ROWS>);
  for (; first < all; ++first) sums.add(unpack(block[first], 0), x, first, count, 0);
  for (int r = 0; r < ROWS; ++r) out[r * stride] = sums.result(r);
}

template <typename Block, int ROWS>
void multiply_rows(const void* weights, std::int64_t columns, RoundedRows x, float* out, std::int64_t stride,
                   std::int64_t count) {
  const Block* block = static_cast<const Block*>(weights);
  const std::int64_t blocks = count / 32 / pieces<Block>;
  for (std::int64_t column = 0; column < columns; ++column, block += blocks, ++out)
    dot<Block, ROWS>(block, x, out, stride, count);
}
#endif

}  // namespace

#define HEARTH_DEQUANTISE(dtype, Block) dequantise<Block>,
#define HEARTH_MULTIPLY_ROW(dtype, Block) multiply_rows<Block, 1>,
#define HEARTH_MULTIPLY_FOUR_ROWS(dtype, Block) multiply_rows<Block, 4>,
extern const QuantisedKernels quantised_kernels_table = {round_rows,
                                                         {HEARTH_BLOCK_FORMATS(HEARTH_DEQUANTISE)},
                                                         {HEARTH_BLOCK_FORMATS(HEARTH_MULTIPLY_ROW)},
                                                         {HEARTH_BLOCK_FORMATS(HEARTH_MULTIPLY_FOUR_ROWS)}};

}  // namespace hearth::cpu::HEARTH_ISA
