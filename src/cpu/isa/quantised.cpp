// Dequantising blocks, and dot products of blocks with activations rounded to 8 bits.
//
// Every format unpacks into pieces of 32 neighbours, as two vectors of 16 small integers; element = scale * q
// - offset. A dot product multiplies integers, and scales their sums.
#include <bit>
#include <cmath>
#include <cstring>

#include "base/block_formats.h"
#include "cpu/quantised_kernels.h"

#if defined(__ARM_NEON)
#include <arm_neon.h>
#elif defined(__AVX2__)
#include <immintrin.h>
#endif

namespace hearth::cpu::HEARTH_ISA {
namespace {

typedef std::uint8_t u8x16 __attribute__((vector_size(16)));
typedef std::int8_t i8x16 __attribute__((vector_size(16)));

#define INLINE __attribute__((always_inline)) inline

INLINE float half_value(std::uint16_t bits) {
#if defined(__aarch64__)
  return static_cast<float>(std::bit_cast<__fp16>(bits));
#elif defined(__F16C__)
  return _cvtsh_ss(bits);
#else
  float16 half;
  half.bits = bits;
  return half;
#endif
}

INLINE u8x16 load(const void* from) {
  u8x16 result;
  std::memcpy(&result, from, sizeof result);
  return result;
}
INLINE i8x16 as_signed(u8x16 values) { return std::bit_cast<i8x16>(values); }

// table[index], of indices below 16.
INLINE i8x16 look_up(const std::int8_t (&table)[16], u8x16 indices) {
#if defined(__ARM_NEON) && defined(__aarch64__)
  return std::bit_cast<i8x16>(vqtbl1q_s8(vld1q_s8(table), std::bit_cast<uint8x16_t>(indices)));
#elif defined(__AVX2__)
  return std::bit_cast<i8x16>(
      _mm_shuffle_epi8(std::bit_cast<__m128i>(load(table)), std::bit_cast<__m128i>(indices)));
#else
  i8x16 result;
  for (int i = 0; i < 16; ++i) result[i] = table[indices[i]];
  return result;
#endif
}

// ---- sums of products ----

#if defined(__ARM_NEON)
using Sums = int32x4_t;
using Floats = float32x4_t;
INLINE Sums no_sums() { return vdupq_n_s32(0); }
INLINE Sums add_products(Sums sums, i8x16 a, i8x16 b) {
  const auto x = std::bit_cast<int8x16_t>(a), y = std::bit_cast<int8x16_t>(b);
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sums, x, y);
#else
  sums = vpadalq_s16(sums, vmull_s8(vget_low_s8(x), vget_low_s8(y)));
  return vpadalq_s16(sums, vmull_high_s8(x, y));
#endif
}
INLINE Floats no_floats() { return vdupq_n_f32(0); }
INLINE Floats add_scaled(Floats floats, Sums sums, float scale) {
  return vfmaq_n_f32(floats, vcvtq_f32_s32(sums), scale);
}
INLINE float total(Floats floats) { return vaddvq_f32(floats); }
#elif defined(__AVX2__)
using Sums = __m256i;
using Floats = __m256;
INLINE Sums no_sums() { return _mm256_setzero_si256(); }
INLINE Sums add_products(Sums sums, i8x16 a, i8x16 b) {
  const __m256i x = _mm256_cvtepi8_epi16(std::bit_cast<__m128i>(a));
  const __m256i y = _mm256_cvtepi8_epi16(std::bit_cast<__m128i>(b));
  return _mm256_add_epi32(sums, _mm256_madd_epi16(x, y));
}
INLINE Floats no_floats() { return _mm256_setzero_ps(); }
INLINE Floats add_scaled(Floats floats, Sums sums, float scale) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), _mm256_set1_ps(scale), floats);
}
INLINE float total(Floats floats) {
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(floats), _mm256_extractf128_ps(floats, 1));
  four = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}
#else
typedef std::int16_t i16x16 __attribute__((vector_size(32)));
typedef std::int32_t Sums __attribute__((vector_size(16)));
typedef float Floats __attribute__((vector_size(16)));
INLINE Sums no_sums() { return Sums{}; }
INLINE Sums add_products(Sums sums, i8x16 a, i8x16 b) {
  const i16x16 products = __builtin_convertvector(a, i16x16) * __builtin_convertvector(b, i16x16);
  for (int i = 0; i < 16; ++i) sums[i % 4] += products[i];
  return sums;
}
INLINE Floats no_floats() { return Floats{}; }
INLINE Floats add_scaled(Floats floats, Sums sums, float scale) {
  return floats + __builtin_convertvector(sums, Floats) * scale;
}
INLINE float total(Floats floats) { return floats[0] + floats[1] + (floats[2] + floats[3]); }
#endif

// ---- pieces of 32 neighbours ----

struct Piece {
  i8x16 q[2];
  float scale[2], offset[2];
};

// Bits of a 32-bit number as 16 bytes: `value` where the bit is set.
INLINE u8x16 spread_bits(std::uint32_t bits, std::uint8_t value) {
  const auto low = static_cast<std::uint8_t>(bits), high = static_cast<std::uint8_t>(bits >> 8);
  const u8x16 bytes = {low,  low,  low,  low,  low,  low,  low,  low,
                       high, high, high, high, high, high, high, high};
  const u8x16 mask = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  return std::bit_cast<u8x16>((bytes & mask) != 0) & value;
}
INLINE std::uint32_t little_endian(const std::uint8_t* bytes) {
  return bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8 | static_cast<std::uint32_t>(bytes[2]) << 16 |
         static_cast<std::uint32_t>(bytes[3]) << 24;
}

// One scale for the piece; `zero`: the number that stands for 0.
INLINE Piece with_zero(u8x16 low, u8x16 high, float d, int zero) {
  return {{as_signed(low) - static_cast<std::int8_t>(zero), as_signed(high) - static_cast<std::int8_t>(zero)},
          {d, d},
          {0, 0}};
}
INLINE Piece with_offset(u8x16 low, u8x16 high, float d, float offset) {
  return {{as_signed(low), as_signed(high)}, {d, d}, {offset, offset}};
}

using namespace blocks;

INLINE Piece unpack(const Q4_0& block, int) {
  const u8x16 q = load(block.q);
  return with_zero(q & 15, q >> 4, half_value(block.d), 8);
}
INLINE Piece unpack(const Q4_1& block, int) {
  const u8x16 q = load(block.q);
  return with_offset(q & 15, q >> 4, half_value(block.d), -half_value(block.m));
}
INLINE Piece unpack(const Q5_0& block, int) {
  const u8x16 q = load(block.q);
  const std::uint32_t high = little_endian(block.high);
  return with_zero((q & 15) | spread_bits(high, 16), (q >> 4) | spread_bits(high >> 16, 16),
                   half_value(block.d), 16);
}
INLINE Piece unpack(const Q5_1& block, int) {
  const u8x16 q = load(block.q);
  const std::uint32_t high = little_endian(block.high);
  return with_offset((q & 15) | spread_bits(high, 16), (q >> 4) | spread_bits(high >> 16, 16),
                     half_value(block.d), -half_value(block.m));
}
INLINE Piece unpack(const Q8_0& block, int) {
  const float d = half_value(block.d);
  return {{as_signed(load(block.q)), as_signed(load(block.q + 16))}, {d, d}, {0, 0}};
}
INLINE Piece unpack(const Q2_K& block, int piece) {
  const std::uint8_t* q = block.q + piece / 4 * 32;
  const int shift = piece % 4 * 2;
  Piece result;
  for (int half = 0; half < 2; ++half) {
    const int scale = block.scale[2 * piece + half];
    result.q[half] = as_signed(load(q + 16 * half) >> shift & 3);
    result.scale[half] = half_value(block.d) * static_cast<float>(scale & 15);
    result.offset[half] = half_value(block.dmin) * static_cast<float>(scale >> 4);
  }
  return result;
}
INLINE Piece unpack(const Q3_K& block, int piece) {
  const std::uint8_t* q = block.q + piece / 4 * 32;
  const int shift = piece % 4 * 2;
  Piece result;
  for (int half = 0; half < 2; ++half) {
    const int i = 2 * piece + half;
    const int scale = (block.scale[i % 8] >> 4 * (i / 8) & 15) | (block.scale[8 + i % 4] >> 2 * (i / 4) & 3)
                                                                     << 4;
    const u8x16 high = (load(block.high + 16 * half) >> piece & 1) << 2;
    result.q[half] = as_signed((load(q + 16 * half) >> shift & 3) | high) - static_cast<std::int8_t>(4);
    result.scale[half] = half_value(block.d) * static_cast<float>(scale - 32);
    result.offset[half] = 0;
  }
  return result;
}

// Of Q4_K and Q5_K.
struct SubScale {
  float scale, offset;
};
template <typename Block>
INLINE SubScale sub_scale(const Block& block, int i) {
  const std::uint8_t* bytes = block.scale;
  const int scale = i < 4 ? bytes[i] & 63 : (bytes[i + 4] & 15) | bytes[i - 4] >> 6 << 4;
  const int offset = i < 4 ? bytes[i + 4] & 63 : bytes[i + 4] >> 4 | bytes[i] >> 6 << 4;
  return {half_value(block.d) * static_cast<float>(scale),
          half_value(block.dmin) * static_cast<float>(offset)};
}
INLINE Piece unpack(const Q4_K& block, int piece) {
  const std::uint8_t* q = block.q + piece / 2 * 32;
  const int shift = piece % 2 * 4;
  const SubScale sub = sub_scale(block, piece);
  return with_offset(load(q) >> shift & 15, load(q + 16) >> shift & 15, sub.scale, sub.offset);
}
INLINE Piece unpack(const Q5_K& block, int piece) {
  const std::uint8_t* q = block.q + piece / 2 * 32;
  const int shift = piece % 2 * 4;
  const SubScale sub = sub_scale(block, piece);
  const auto half = [&](int first) {
    return (load(q + first) >> shift & 15) | (load(block.high + first) >> piece & 1) << 4;
  };
  return with_offset(half(0), half(16), sub.scale, sub.offset);
}
INLINE Piece unpack(const Q6_K& block, int piece) {
  const int n = piece / 4, c = piece % 4;
  Piece result;
  for (int half = 0; half < 2; ++half) {
    const u8x16 low = load(block.low + 64 * n + 32 * (c % 2) + 16 * half) >> (c / 2 * 4) & 15;
    const u8x16 high = (load(block.high + 32 * n + 16 * half) >> (2 * c) & 3) << 4;
    result.q[half] = as_signed(low | high) - static_cast<std::int8_t>(32);
    result.scale[half] = half_value(block.d) * static_cast<float>(block.scale[2 * piece + half]);
    result.offset[half] = 0;
  }
  return result;
}

INLINE Piece from_table(const std::int8_t (&table)[16], const std::uint8_t* halves, float d) {
  const u8x16 q = load(halves);
  return {{look_up(table, q & 15), look_up(table, q >> 4)}, {d, d}, {0, 0}};
}
INLINE Piece unpack(const IQ4_NL& block, int) {
  return from_table(iq4_nl_numbers, block.q, half_value(block.d));
}
INLINE Piece unpack(const MXFP4& block, int) {
  return from_table(mxfp4_numbers, block.q, mxfp4_scale(block.e));
}

template <typename Block>
constexpr int pieces = sizeof(Block) > 64 ? 8 : 1;  // in a block
template <typename Block>
constexpr bool has_offset =
    std::is_same_v<Block, Q4_1> || std::is_same_v<Block, Q5_1> || std::is_same_v<Block, Q2_K> ||
    std::is_same_v<Block, Q4_K> || std::is_same_v<Block, Q5_K>;
template <typename Block>
constexpr bool has_two_scales =
    std::is_same_v<Block, Q2_K> || std::is_same_v<Block, Q3_K> || std::is_same_v<Block, Q6_K>;

// ---- kernels ----

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

void round_activations(const float* x, ActivationBlock* out, std::int64_t count) {
  for (std::int64_t b = 0; b < count / 32; ++b, x += 32) {
    ActivationBlock& block = out[b];
    // As integers, so that NaN counts as larger than infinity, and both as larger than numbers.
    std::uint32_t largest = 0;
    for (int i = 0; i < 32; ++i) {
      const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
      largest = magnitude > largest ? magnitude : largest;
    }
    const bool finite = largest < 0x7f800000u;
    const float most = std::bit_cast<float>(largest);
    const float by = finite && most >= 1e-30f ? 127.0f / most : 0.0f;
    block.scale = finite ? most / 127.0f : std::bit_cast<float>(0x7fc00000u);
    std::int32_t q[32];
    for (int i = 0; i < 32; ++i) q[i] = finite ? static_cast<std::int32_t>(__builtin_rintf(x[i] * by)) : 0;
    std::int32_t sums[2] = {0, 0};
    for (int i = 0; i < 16; ++i) sums[0] += q[i];
    for (int i = 16; i < 32; ++i) sums[1] += q[i];
    for (int i = 0; i < 32; ++i) block.q[i] = static_cast<std::int8_t>(q[i]);
    block.sum[0] = static_cast<std::int16_t>(sums[0]);
    block.sum[1] = static_cast<std::int16_t>(sums[1]);
  }
}

// With one row, each sum would wait for the one before: it is kept in several parts.
template <int ROWS>
constexpr int chains = ROWS == 1 ? 4 : 1;

template <typename Block, int ROWS>
struct DotProducts {
  Floats products[ROWS][chains<ROWS>];
  float offsets[ROWS] = {};

  INLINE DotProducts() {
    for (auto& row : products)
      for (auto& chain : row) chain = no_floats();
  }

  INLINE void add(const Piece& piece, const ActivationBlock* x, std::int64_t stride, int chain) {
    for (int r = 0; r < ROWS; ++r) {
      const ActivationBlock& row = x[r * stride];
      Floats& sum = products[r][chain];
      const i8x16 low = as_signed(load(row.q)), high = as_signed(load(row.q + 16));
      if constexpr (has_two_scales<Block>) {
        sum = add_scaled(sum, add_products(no_sums(), piece.q[0], low), piece.scale[0] * row.scale);
        sum = add_scaled(sum, add_products(no_sums(), piece.q[1], high), piece.scale[1] * row.scale);
      } else {
        const Sums sums = add_products(add_products(no_sums(), piece.q[0], low), piece.q[1], high);
        sum = add_scaled(sum, sums, piece.scale[0] * row.scale);
      }
      if constexpr (has_offset<Block>)
        offsets[r] += row.scale * (piece.offset[0] * static_cast<float>(row.sum[0]) +
                                   piece.offset[1] * static_cast<float>(row.sum[1]));
    }
  }

  INLINE float result(int r) const {
    float sum = 0;
    for (const Floats& chain : products[r]) sum += total(chain);
    return sum - offsets[r];
  }
};

template <typename Block, int ROWS>
void dot(const void* weights, const ActivationBlock* x, std::int64_t stride, float* out, std::int64_t count) {
  const Block* block = static_cast<const Block*>(weights);
  constexpr int inside = pieces<Block>, together = inside > 1 ? inside : chains<ROWS>;
  const std::int64_t all = count / 32;
  DotProducts<Block, ROWS> sums;
  std::int64_t first = 0;
  for (; first + together <= all; first += together)
#pragma GCC unroll 8
    for (int i = 0; i < together; ++i)
      sums.add(unpack(block[first / inside + i / inside], i % inside), x + first + i, stride,
               i % chains<ROWS>);
  for (; first < all; ++first) sums.add(unpack(block[first], 0), x + first, stride, 0);
  for (int r = 0; r < ROWS; ++r) out[r] = sums.result(r);
}

}  // namespace

#define HEARTH_DEQUANTISE(dtype, Block) dequantise<Block>,
#define HEARTH_DOT1(dtype, Block) dot<Block, 1>,
#define HEARTH_DOT4(dtype, Block) dot<Block, 4>,
extern const QuantisedKernels quantised_kernels_table = {round_activations,
                                                         {HEARTH_BLOCK_FORMATS(HEARTH_DEQUANTISE)},
                                                         {HEARTH_BLOCK_FORMATS(HEARTH_DOT1)},
                                                         {HEARTH_BLOCK_FORMATS(HEARTH_DOT4)}};

}  // namespace hearth::cpu::HEARTH_ISA
