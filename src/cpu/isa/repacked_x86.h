// Weights whose rows lie in fours, for AVX2 and for AVX-512 with VNNI: rounding x, and adding a block of
// weights.
//
// A vector has several fours of neighbours beside each other, each of four rows; they are added up when a row
// is done.
#pragma once

#include "cpu/isa/pieces.h"
#include "cpu/isa/rounding.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

// A run of 32 neighbours of x, rounded to 8 bits.
struct alignas(16) XPiece {
  std::int8_t q[32];
  float scale;   // NaN where an element is not finite
  float sum[2];  // of the first half's numbers, scaled, and the second's
  float whole;
};
struct XBlock {
  XPiece piece[8];
};

void round_pieces(const float* x, void* out, std::int64_t count) {
  auto* to = static_cast<XPiece*>(out);
  for (std::int64_t p = 0; p < count / 32; ++p, ++to, x += 32) {
    const RoundedRun run = round_run(x, to->q);
    to->scale = run.scale;
    for (int half = 0; half < 2; ++half) to->sum[half] = run.scale * static_cast<float>(run.sums[half]);
    to->whole = run.scale * static_cast<float>(run.sums[0] + run.sums[1]);
  }
}

#if defined(__AVX512VNNI__)
using Ints = __m512i;
using Floats = __m512;
constexpr int fours = 4;  // in a vector
HEARTH_INLINE Ints load_ints(const void* from) { return _mm512_loadu_si512(from); }
HEARTH_INLINE Ints no_ints() { return _mm512_setzero_si512(); }
HEARTH_INLINE Ints bytes_of(int value) { return _mm512_set1_epi8(static_cast<char>(value)); }
HEARTH_INLINE Ints low_halves(Ints bytes) { return _mm512_and_si512(bytes, bytes_of(15)); }
HEARTH_INLINE Ints high_halves(Ints bytes) {
  return _mm512_and_si512(_mm512_srli_epi16(bytes, 4), bytes_of(15));
}
// Each four neighbours of x for four rows.
HEARTH_INLINE Ints spread(const std::int8_t* x) {
  const __m512i places = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
  return _mm512_permutexvar_epi32(
      places, _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x))));
}
HEARTH_INLINE Ints add_products(Ints sums, Ints w, Ints x) { return _mm512_dpbusd_epi32(sums, w, x); }
HEARTH_INLINE Floats no_floats() { return _mm512_setzero_ps(); }
HEARTH_INLINE Floats add_scaled(Floats floats, Ints sums, __m128 scale) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums), _mm512_broadcast_f32x4(scale), floats);
}
HEARTH_INLINE __m128 added_up(Floats floats) {
  return _mm_add_ps(_mm_add_ps(_mm512_castps512_ps128(floats), _mm512_extractf32x4_ps(floats, 1)),
                    _mm_add_ps(_mm512_extractf32x4_ps(floats, 2), _mm512_extractf32x4_ps(floats, 3)));
}
#else
using Ints = __m256i;
using Floats = __m256;
constexpr int fours = 2;  // in a vector
HEARTH_INLINE Ints load_ints(const void* from) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(from));
}
HEARTH_INLINE Ints no_ints() { return _mm256_setzero_si256(); }
HEARTH_INLINE Ints bytes_of(int value) { return _mm256_set1_epi8(static_cast<char>(value)); }
HEARTH_INLINE Ints low_halves(Ints bytes) { return _mm256_and_si256(bytes, bytes_of(15)); }
HEARTH_INLINE Ints high_halves(Ints bytes) {
  return _mm256_and_si256(_mm256_srli_epi16(bytes, 4), bytes_of(15));
}
// Each four neighbours of x for four rows.
HEARTH_INLINE Ints spread(const std::int8_t* x) {
  const __m256i places = _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0);
  return _mm256_permutevar8x32_epi32(
      _mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(x))), places);
}
HEARTH_INLINE Ints add_products(Ints sums, Ints w, Ints x) {  // of w up to 127
  return _mm256_add_epi32(sums, _mm256_madd_epi16(_mm256_maddubs_epi16(w, x), _mm256_set1_epi16(1)));
}
HEARTH_INLINE Floats no_floats() { return _mm256_setzero_ps(); }
HEARTH_INLINE Floats add_scaled(Floats floats, Ints sums, __m128 scale) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_set_m128(scale, scale), floats);
}
HEARTH_INLINE __m128 added_up(Floats floats) {
  return _mm_add_ps(_mm256_castps256_ps128(floats), _mm256_extractf128_ps(floats, 1));
}
#endif

HEARTH_INLINE __m128 half_values(const std::uint16_t (&bits)[4]) {
  return _mm_cvtph_ps(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bits)));
}
HEARTH_INLINE __m128i four_bytes(const void* from) {
  std::int32_t word;
  std::memcpy(&word, from, sizeof word);
  return _mm_cvtsi32_si128(word);
}

// Of a row of x with four rows of weights.
struct Sums {
  Floats products;
  __m128 offsets;  // to be taken away

  HEARTH_INLINE void add(Ints sums, __m128 d, float x_scale) {
    products = add_scaled(products, sums, _mm_mul_ps(d, _mm_set1_ps(x_scale)));
  }
  HEARTH_INLINE void add_offset(__m128 offset, float x_sum) {
    offsets = _mm_fmadd_ps(offset, _mm_set1_ps(x_sum), offsets);
  }
};
HEARTH_INLINE Sums no_sums() { return {no_floats(), _mm_setzero_ps()}; }
HEARTH_INLINE void store_sums(float* to, const Sums& sums, bool adds) {
  const __m128 total = _mm_sub_ps(added_up(sums.products), sums.offsets);
  _mm_storeu_ps(to, adds ? _mm_add_ps(_mm_loadu_ps(to), total) : total);
}

// Four rows of a piece, as numbers without a sign.
constexpr int parts_of_piece = 8 / fours;
struct QuadPiece {
  Ints part[parts_of_piece];
};
HEARTH_INLINE QuadPiece load_quad(const std::uint8_t (&q)[4][16]) {
  QuadPiece w;
  for (int i = 0; i < parts_of_piece / 2; ++i) {
    const Ints bytes = load_ints(q[fours * i]);
    w.part[i] = low_halves(bytes);
    w.part[parts_of_piece / 2 + i] = high_halves(bytes);
  }
  return w;
}
HEARTH_INLINE Ints products_of(const QuadPiece& w, const std::int8_t* x) {
  Ints sums = no_ints();
  for (int i = 0; i < parts_of_piece; ++i) sums = add_products(sums, w.part[i], spread(x + 4 * fours * i));
  return sums;
}

// One block of four rows of weights is added to the sums of ROWS rows of x, `x_row` apart.
template <int ROWS>
HEARTH_INLINE void add_block(const Q4_0x4& w, const XPiece* x, std::int64_t x_row, Sums (&sums)[ROWS]) {
  const QuadPiece q = load_quad(w.q);
  const __m128 d = half_values(w.d);
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r, x += x_row) {
    sums[r].add(products_of(q, x->q), d, x->scale);
    sums[r].add_offset(d, 8 * x->whole);
  }
}

template <int ROWS>
HEARTH_INLINE void add_block(const Q8_0x4& w, const XPiece* x, std::int64_t x_row, Sums (&sums)[ROWS]) {
  const __m128 d = half_values(w.d);
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r, x += x_row) {
    Ints products = no_ints();
    for (int i = 0; i < parts_of_piece; ++i) {
      const Ints bytes = load_ints(w.q[fours * i]), four = spread(x->q + 4 * fours * i);
#if defined(__AVX512VNNI__)
      products = add_products(products, _mm512_xor_si512(bytes, bytes_of(128)), four);  // 128 more
#else
      products = add_products(products, _mm256_abs_epi8(bytes), _mm256_sign_epi8(four, bytes));
#endif
    }
    sums[r].add(products, d, x->scale);
#if defined(__AVX512VNNI__)
    sums[r].add_offset(d, 128 * x->whole);
#endif
  }
}

template <int ROWS>
HEARTH_INLINE void add_block(const Q4_Kx4& w, const XBlock* x, std::int64_t x_row, Sums (&sums)[ROWS]) {
  const __m128 d = half_values(w.d), dmin = half_values(w.dmin);
#pragma GCC unroll 8
  for (int p = 0; p < 8; ++p) {
    const QuadPiece q = load_quad(w.q[p]);
    const __m128 scale = _mm_mul_ps(d, _mm_cvtepi32_ps(_mm_cvtepu8_epi32(four_bytes(w.scale[p]))));
    const __m128i offsets = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w.offset[p / 4]));
    const __m128i offset = _mm_and_si128(_mm_srli_epi32(offsets, 8 * (p % 4)), _mm_set1_epi32(255));
    const __m128 scaled_offset = _mm_mul_ps(dmin, _mm_cvtepi32_ps(offset));
    const XBlock* row = x;
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r, row += x_row) {
      sums[r].add(products_of(q, row->piece[p].q), scale, row->piece[p].scale);
      sums[r].add_offset(scaled_offset, row->piece[p].whole);
    }
  }
}

// 16 neighbours of four rows.
constexpr int parts_of_half = parts_of_piece / 2;
HEARTH_INLINE void load_six_bits(const Q6_Kx4& w, int s, Ints (&part)[parts_of_half]) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(w.low[s]));
  const __m256i halves[] = {
      _mm256_and_si256(low, _mm256_set1_epi8(15)),
      _mm256_and_si256(_mm256_srli_epi16(low, 4), _mm256_set1_epi8(15)),
  };
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(w.high[s]));
#if defined(__AVX512VNNI__)
  const __m512i turns = _mm512_set_epi32(30, 30, 30, 30, 0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4);
  const __m512i high =
      _mm512_and_si512(_mm512_rolv_epi32(_mm512_broadcast_i32x4(bits), turns), bytes_of(0x30));
  part[0] = _mm512_or_si512(_mm512_inserti64x4(_mm512_castsi256_si512(halves[0]), halves[1], 1), high);
#else
  const __m256i both = _mm256_broadcastsi128_si256(bits), mask = _mm256_set1_epi8(0x30);
  const __m256i first = _mm256_sllv_epi32(both, _mm256_set_epi32(2, 2, 2, 2, 4, 4, 4, 4)),
                second = _mm256_srlv_epi32(both, _mm256_set_epi32(2, 2, 2, 2, 0, 0, 0, 0));
  part[0] = _mm256_or_si256(halves[0], _mm256_and_si256(first, mask));
  part[1] = _mm256_or_si256(halves[1], _mm256_and_si256(second, mask));
#endif
}

template <int ROWS>
HEARTH_INLINE void add_block(const Q6_Kx4& w, const XBlock* x, std::int64_t x_row, Sums (&sums)[ROWS]) {
  const __m128 d = half_values(w.d);
#pragma GCC unroll 16
  for (int s = 0; s < 16; ++s) {
    Ints part[parts_of_half];
    load_six_bits(w, s, part);
    const __m128 scale = _mm_mul_ps(d, _mm_cvtepi32_ps(_mm_cvtepi8_epi32(four_bytes(w.scale[s]))));
    const XBlock* row = x;
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r, row += x_row) {
      const XPiece& piece = row->piece[s / 2];
      Ints products = no_ints();
      for (int i = 0; i < parts_of_half; ++i)
        products = add_products(products, part[i], spread(piece.q + 16 * (s % 2) + 4 * fours * i));
      sums[r].add(products, scale, piece.scale);
      sums[r].add_offset(scale, 32 * piece.sum[s % 2]);
    }
  }
}

// On two cores of a Xeon (AVX-512), 5 to 8 rows took three quarters of the time of tiles, or less.
constexpr std::int64_t repacked_few_rows = 8;

// ---- by format: x, and how many fours of rows are multiplied at a time (none are woven)
template <typename Quad>
struct ColumnsOf {
  using X = std::conditional_t<pieces<Quad> == 1, XPiece, XBlock>;
  static constexpr auto round = round_pieces;
  static constexpr int runs(int rows) { return fours == 4 && pieces<Quad> == 1 && rows == 1 ? 4 : 2; }
  static constexpr int woven = 0;
};

}  // namespace
}  // namespace hearth::cpu::HEARTH_ISA
