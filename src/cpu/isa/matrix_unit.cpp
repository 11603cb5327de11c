// Products of many rows by AMX: x and weights become tiles of bf16, and tiles are multiplied.
//
// Weights of 4 to 8 bits become bf16 once for all rows, without moving anything between lanes where they lie
// in fours of rows: 16 columns are the lanes of a vector. That costs less than scaling the sums of each 32
// products of integers, and rounding x to bf16 loses less than rounding it to 8 bits.
#include "cpu/matrix_unit_kernels.h"

#if defined(__AMX_BF16__)
#include "cpu/isa/amx.h"
#include "cpu/isa/eights_x86.h"
#endif

namespace hearth::cpu::HEARTH_ISA {

#if defined(__AMX_BF16__)
namespace {

void arrange_rows(const float* x, std::int64_t stride, std::int64_t count, std::int64_t depth, int parts,
                  void* tiles) {
  auto* to = static_cast<__m512i*>(tiles);
  for (std::int64_t k = 0; k < depth; k += unit_depth, to += unit_tile * parts) {
    const std::int64_t left = depth - k;
    const auto lanes = [&](std::int64_t n) {
      return static_cast<__mmask16>(n >= 16 ? 0xffff : n <= 0 ? 0 : (1 << n) - 1);
    };
    const __mmask16 first = lanes(left), second = lanes(left - 16);
    for (std::int64_t r = 0; r < unit_tile; ++r) {
      TwoParts row = {_mm512_setzero_si512(), _mm512_setzero_si512()};
      if (r < count) {
        const float* from = x + r * stride + k;
        row = in_parts(_mm512_maskz_loadu_ps(first, from), _mm512_maskz_loadu_ps(second, from + 16));
      }
      to[r] = row.large;
      if (parts == 2) to[unit_tile + r] = row.small;
    }
  }
}

// ---- weights whose rows lie one behind another

// Numbers scale * byte - offset, each of two halves with its own.
HEARTH_INLINE __m512i as_pairs(__m256i bytes, const float* scale, const float* offset) {
  __m512 numbers[2];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
    const __m128i q = half == 0 ? _mm256_castsi256_si128(bytes) : _mm256_extracti128_si256(bytes, 1);
    numbers[half] = _mm512_fmsub_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(q)), _mm512_set1_ps(scale[half]),
                                    _mm512_set1_ps(offset[half]));
  }
  return rounded(numbers[0], numbers[1]);
}

// Eight pieces of each column, which are a block or as many blocks.
template <typename Block>
HEARTH_INLINE void arrange_eight(const Block* const (&columns)[unit_tile], std::int64_t count, __m512i* to) {
  __m512i rows[8][unit_tile];
  for (std::int64_t c = 0; c < unit_tile; ++c) {
    if (c >= count) {
#pragma GCC unroll 8
      for (int p = 0; p < 8; ++p) rows[p][c] = _mm512_setzero_si512();
      continue;
    }
    const Factors factors = factors_of(columns[c]);
    alignas(32) float scale[16], offset[16] = {};
    for (int g = 0; g < 2; ++g) {
      _mm256_store_ps(scale + 8 * g, factors.scale[g]);
      if constexpr (takes_offset<Block>) _mm256_store_ps(offset + 8 * g, factors.offset[g]);
    }
#pragma GCC unroll 8
    for (int p = 0; p < 8; ++p) rows[p][c] = as_pairs(bytes_of(columns[c], p), scale + 2 * p, offset + 2 * p);
  }
#pragma GCC unroll 1
  for (int p = 0; p < 8; ++p) store_transposed(rows[p], to + p * tile_pairs);
}

// A piece of each, of formats with one in a block.
template <typename Block>
HEARTH_INLINE void arrange_one(const Block* const (&columns)[unit_tile], std::int64_t count, __m512i* to) {
  __m512i rows[unit_tile];
  for (std::int64_t c = 0; c < unit_tile; ++c) {
    rows[c] = _mm512_setzero_si512();
    if (c >= count) continue;
    const Piece piece = unpack(*columns[c], 0);
    rows[c] =
        as_pairs(_mm256_set_m128i(std::bit_cast<__m128i>(piece.q[1]), std::bit_cast<__m128i>(piece.q[0])),
                 piece.scale, piece.offset);
  }
  store_transposed(rows, to);
}

template <typename Block>
void arrange_columns(const void* weights, std::int64_t stride, std::int64_t count, std::int64_t depth,
                     void* tiles) {
  constexpr int blocks = 8 / pieces<Block>;  // of eight pieces
  auto* to = static_cast<__m512i*>(tiles);
  const Block* columns[unit_tile];
  for (std::int64_t c = 0; c < unit_tile; ++c)
    columns[c] =
        reinterpret_cast<const Block*>(static_cast<const char*>(weights) + (c < count ? c : 0) * stride);
  std::int64_t left = depth / unit_depth;
  for (; left >= 8; left -= 8, to += 8 * tile_pairs) {
    arrange_eight(columns, count, to);
    for (const Block*& column : columns) column += blocks;
  }
  if constexpr (blocks == 8)
    for (; left > 0; --left, to += tile_pairs) {
      arrange_one(columns, count, to);
      for (const Block*& column : columns) ++column;
    }
}

void arrange_brain_floats(const void* weights, std::int64_t stride, std::int64_t count, std::int64_t depth,
                          void* tiles) {
  auto* to = static_cast<__m512i*>(tiles);
  for (std::int64_t k = 0; k < depth; k += unit_depth, to += tile_pairs) {
    const auto there =
        static_cast<__mmask32>(depth - k >= unit_depth ? ~0u : (std::uint32_t{1} << (depth - k)) - 1);
    __m512i rows[unit_tile];
    for (int c = 0; c < unit_tile; ++c)
      rows[c] = _mm512_maskz_loadu_epi16(c < count ? there : 0,
                                         static_cast<const char*>(weights) + c * stride + k * 2);
    store_transposed(rows, to);
  }
}

void arrange_halves(const void* weights, std::int64_t stride, std::int64_t count, std::int64_t depth,
                    void* tiles) {
  auto* to = static_cast<__m512i*>(tiles);
  for (std::int64_t k = 0; k < depth; k += unit_depth, to += 2 * tile_pairs) {
    const auto there =
        static_cast<__mmask32>(depth - k >= unit_depth ? ~0u : (std::uint32_t{1} << (depth - k)) - 1);
    __m512i large[unit_tile], small[unit_tile];
    for (int c = 0; c < unit_tile; ++c) {
      const __m512i halves = _mm512_maskz_loadu_epi16(c < count ? there : 0,
                                                      static_cast<const char*>(weights) + c * stride + k * 2);
      const TwoParts parts = in_parts(_mm512_cvtph_ps(_mm512_castsi512_si256(halves)),
                                      _mm512_cvtph_ps(_mm512_extracti64x4_epi64(halves, 1)));
      large[c] = parts.large;
      small[c] = parts.small;
    }
    store_transposed(large, to);
    store_transposed(small, to + tile_pairs);
  }
}

// ---- weights whose rows lie in fours

// The same of four neighbouring fours of rows: 16 columns.
template <typename Quad>
struct Quads {
  const Quad* from[4];
};
template <typename Quad>
HEARTH_INLINE __m512i load_quads(const Quads<Quad>& quads, std::size_t offset) {
  const auto vector = [&](int i) {
    return _mm_loadu_si128(
        reinterpret_cast<const __m128i*>(reinterpret_cast<const char*>(quads.from[i]) + offset));
  };
  const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(vector(0)), vector(1), 1),
                high = _mm256_inserti128_si256(_mm256_castsi128_si256(vector(2)), vector(3), 1);
  return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
}
// Words of 4 bytes, and numbers in f16.
template <typename Quad>
HEARTH_INLINE __m128i load_words(const Quads<Quad>& quads, std::size_t offset) {
  std::int32_t words[4];
  for (int i = 0; i < 4; ++i)
    std::memcpy(&words[i], reinterpret_cast<const char*>(quads.from[i]) + offset, sizeof words[i]);
  return _mm_setr_epi32(words[0], words[1], words[2], words[3]);
}
template <typename Quad>
HEARTH_INLINE __m512 load_halves(const Quads<Quad>& quads, std::size_t offset) {
  std::int64_t halves[4];
  for (int i = 0; i < 4; ++i)
    std::memcpy(&halves[i], reinterpret_cast<const char*>(quads.from[i]) + offset, sizeof halves[i]);
  return _mm512_cvtph_ps(_mm256_setr_epi64x(halves[0], halves[1], halves[2], halves[3]));
}

// Numbers made of bits of bytes, without converting integers: those bits become the last of a float's. With
// the exponent of 2^15, bits 8 to 15 of it count 1 to 128.
struct BytesToNumbers {
  __m512i mask;    // of the bits that count
  __m512i turned;  // what is turned over in them, and the exponent
  __m512 scale;
  __m512 zero;  // the number that becomes 0, scaled, and without its sign: what is taken away

  HEARTH_INLINE __m512 operator()(__m512i second_byte) const {
    constexpr int masked_then_turned = (0xf0 & 0xcc) ^ 0xaa;
    const __m512i bits = _mm512_ternarylogic_epi32(second_byte, mask, turned, masked_then_turned);
    return _mm512_fmsub_ps(_mm512_castsi512_ps(bits), scale, zero);
  }
};

constexpr float base = 32768;
constexpr int base_bits = 0x47000000;
// bf16 are the upper halves of floats. They are cut off; of numbers this much larger, so that it is as if
// they were rounded, and what bf16 can hold stays what it is.
constexpr float cut = 1 + 0x3p-10f;

HEARTH_INLINE __m512i pairs_of(__m512 first, __m512 second) {
  constexpr int masked_or_other = (0xf0 & 0xcc) | 0xaa;
  return _mm512_ternarylogic_epi32(_mm512_castps_si512(second),
                                   _mm512_set1_epi32(static_cast<int>(0xffff0000)),
                                   _mm512_srli_epi32(_mm512_castps_si512(first), 16), masked_or_other);
}

// Four neighbours of each column become two rows of a tile.
HEARTH_INLINE void store_pairs(__m512i bytes, const BytesToNumbers& number, __m512i* to) {
  to[0] = pairs_of(number(_mm512_slli_epi32(bytes, 8)), number(bytes));
  to[1] = pairs_of(number(_mm512_srli_epi32(bytes, 8)), number(_mm512_srli_epi32(bytes, 16)));
}

// Numbers q * scale - offset, with q the high half of a byte.
HEARTH_INLINE BytesToNumbers high_half(__m512 scale, __m512 offset) {
  const __m512 sixteenth = _mm512_mul_ps(scale, _mm512_set1_ps(cut / 16));
  return {_mm512_set1_epi32(0xf000), _mm512_set1_epi32(base_bits), sixteenth,
          _mm512_fmadd_ps(sixteenth, _mm512_set1_ps(base), _mm512_mul_ps(offset, _mm512_set1_ps(cut)))};
}
HEARTH_INLINE void store_halves(__m512i bytes, const BytesToNumbers& number, __m512i* low, __m512i* high) {
  store_pairs(_mm512_slli_epi32(bytes, 4), number, low);
  store_pairs(bytes, number, high);
}

HEARTH_INLINE void store_block(const Quads<Q4_0x4>& quads, __m512i* to) {
  const __m512 d = load_halves(quads, offsetof(Q4_0x4, d));
  const BytesToNumbers number = high_half(d, _mm512_mul_ps(d, _mm512_set1_ps(8)));
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j)
    store_halves(load_quads(quads, offsetof(Q4_0x4, q) + 16 * j), number, to + 2 * j, to + 8 + 2 * j);
}

HEARTH_INLINE void store_block(const Quads<Q8_0x4>& quads, __m512i* to) {
  const __m512 scale = _mm512_mul_ps(load_halves(quads, offsetof(Q8_0x4, d)), _mm512_set1_ps(cut));
  // 128 more, so that they have no sign.
  const BytesToNumbers number = {_mm512_set1_epi32(0xff00), _mm512_set1_epi32(base_bits | 0x8000), scale,
                                 _mm512_mul_ps(scale, _mm512_set1_ps(base + 128))};
#pragma GCC unroll 8
  for (int j = 0; j < 8; ++j)
    store_pairs(load_quads(quads, offsetof(Q8_0x4, q) + 16 * j), number, to + 2 * j);
}

HEARTH_INLINE void store_block(const Quads<Q4_Kx4>& quads, __m512i* to) {
  const __m512 d = load_halves(quads, offsetof(Q4_Kx4, d)), dmin = load_halves(quads, offsetof(Q4_Kx4, dmin));
  for (int s = 0; s < 8; ++s, to += tile_pairs) {
    const __m512i scale = _mm512_cvtepu8_epi32(load_words(quads, offsetof(Q4_Kx4, scale) + 4 * s));
    const __m512i offsets = load_quads(quads, offsetof(Q4_Kx4, offset) + 16 * (s / 4));
    const __m512i offset =
        _mm512_and_si512(_mm512_srlv_epi32(offsets, _mm512_set1_epi32(8 * (s % 4))), _mm512_set1_epi32(255));
    const BytesToNumbers number = high_half(_mm512_mul_ps(d, _mm512_cvtepi32_ps(scale)),
                                            _mm512_mul_ps(dmin, _mm512_cvtepi32_ps(offset)));
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j)
      store_halves(load_quads(quads, offsetof(Q4_Kx4, q) + 64 * s + 16 * j), number, to + 2 * j,
                   to + 8 + 2 * j);
  }
}

HEARTH_INLINE void store_block(const Quads<Q6_Kx4>& quads, __m512i* to) {
  const __m512 d = _mm512_mul_ps(load_halves(quads, offsetof(Q6_Kx4, d)), _mm512_set1_ps(cut));
  for (int s = 0; s < 16; ++s, to += tile_pairs / 2) {
    const __m512 scale = _mm512_mul_ps(
        d, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(load_words(quads, offsetof(Q6_Kx4, scale) + 4 * s))));
    const BytesToNumbers number = {_mm512_set1_epi32(0xff00), _mm512_set1_epi32(base_bits), scale,
                                   _mm512_mul_ps(scale, _mm512_set1_ps(base + 32))};
    const __m512i fifteen = _mm512_set1_epi8(15), high = load_quads(quads, offsetof(Q6_Kx4, high) + 16 * s);
    const __m512i highest = _mm512_set1_epi8(0x30);
    constexpr int masked_or_other = (0xf0 & 0xcc) | 0xaa;
    __m512i low[4];
    for (int j = 0; j < 2; ++j) {
      const __m512i halves = load_quads(quads, offsetof(Q6_Kx4, low) + 32 * s + 16 * j);
      low[j] = _mm512_and_si512(halves, fifteen);
      low[2 + j] = _mm512_and_si512(_mm512_srli_epi16(halves, 4), fifteen);
    }
    const __m512i turned[4] = {_mm512_slli_epi16(high, 4), _mm512_slli_epi16(high, 2), high,
                               _mm512_srli_epi16(high, 2)};
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k)
      store_pairs(_mm512_ternarylogic_epi32(turned[k], highest, low[k], masked_or_other), number, to + 2 * k);
  }
}

// `weights`: a panel of fours of rows, from the tile's first on. Fours that are missing are those of the
// first, for nobody looks at the results.
template <typename Quad>
void arrange_quads(const void* weights, std::int64_t, std::int64_t count, std::int64_t depth, void* tiles) {
  constexpr int inside = pieces<Quad>;
  const std::int64_t blocks = depth / (32 * inside);
  auto* to = static_cast<__m512i*>(tiles);
  Quads<Quad> quads;
  for (int i = 0; i < 4; ++i)
    quads.from[i] = static_cast<const Quad*>(weights) + (4 * i < count ? i : 0) * blocks;
  constexpr std::int64_t ahead = 1024;  // lines are fetched so many bytes before they are needed
  for (std::int64_t b = 0; b < blocks; ++b, to += inside * tile_pairs) {
    for (const Quad*& quad : quads.from)
      for (std::size_t line = 0; line < sizeof(Quad); line += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(quad) + ahead + line);
    store_block(quads, to);
    for (const Quad*& quad : quads.from) ++quad;
  }
}

template <int ROW_PARTS, int COLUMN_PARTS>
void multiply_tiles(const UnitProduct& product) {
  multiply<ROW_PARTS, COLUMN_PARTS>(product, TilesInUse());
}

}  // namespace

#define HEARTH_ARRANGE(dtype, Block) arrange_columns<blocks::Block>,
#define HEARTH_ARRANGE_QUADS(dtype, Block, fours, Quad) arrange_quads<blocks::Quad>,
#define HEARTH_ONE(...) 1,
#define HEARTH_MULTIPLY(...) multiply_tiles<1, 1>,
extern const MatrixUnitKernels matrix_unit_kernels_table = {
    true,
    arrange_rows,
    {HEARTH_BLOCK_FORMATS(HEARTH_ARRANGE) HEARTH_REPACKED_FORMATS(HEARTH_ARRANGE_QUADS) arrange_halves,
     arrange_brain_floats},
    {HEARTH_BLOCK_FORMATS(HEARTH_ONE) HEARTH_REPACKED_FORMATS(HEARTH_ONE) 2, 2},
    {HEARTH_BLOCK_FORMATS(HEARTH_ONE) HEARTH_REPACKED_FORMATS(HEARTH_ONE) 2, 1},
    {HEARTH_BLOCK_FORMATS(HEARTH_MULTIPLY) HEARTH_REPACKED_FORMATS(HEARTH_MULTIPLY) multiply_tiles<2, 2>,
     multiply_tiles<2, 1>}};
#else
extern const MatrixUnitKernels matrix_unit_kernels_table = {};
#endif

}  // namespace hearth::cpu::HEARTH_ISA
