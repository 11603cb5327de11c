// Weights whose rows lie in fours: making them, and products with few rows of x.
#include "cpu/repacked_kernels.h"

#if defined(__ARM_FEATURE_DOTPROD)
#include <bit>
#include <cmath>

#include "cpu/isa/pieces.h"
#endif

namespace hearth::cpu::HEARTH_ISA {

#if defined(__ARM_FEATURE_DOTPROD)
namespace {

// ---- making them

// Words of 32 bits of four rows in turns.
HEARTH_INLINE void store_quad(std::uint8_t (&to)[4][16], const uint8x16_t (&rows)[4]) {
  const uint32x4x4_t words = {{vreinterpretq_u32_u8(rows[0]), vreinterpretq_u32_u8(rows[1]),
                               vreinterpretq_u32_u8(rows[2]), vreinterpretq_u32_u8(rows[3])}};
  vst4q_u32(reinterpret_cast<std::uint32_t*>(to), words);
}

HEARTH_INLINE void repack_block(const Q4_0* const (&from)[4], Q4_0x4& to) {
  uint8x16_t rows[4];
  for (int r = 0; r < 4; ++r) {
    to.d[r] = from[r]->d;
    rows[r] = vld1q_u8(from[r]->q);
  }
  store_quad(to.q, rows);
}

HEARTH_INLINE void repack_block(const Q4_K* const (&from)[4], Q4_Kx4& to) {
  for (int r = 0; r < 4; ++r) {
    to.d[r] = from[r]->d;
    to.dmin[r] = from[r]->dmin;
    for (int s = 0; s < 8; ++s) {
      const SubNumbers sub = sub_numbers(*from[r], s);
      to.scale[s][r] = static_cast<std::uint8_t>(sub.scale);
      to.offset[s][r] = static_cast<std::uint8_t>(sub.offset);
    }
  }
  // The halves of a byte are of two sub-blocks; here they are of one.
  for (int s = 0; s < 8; s += 2) {
    uint8x16_t even[4], odd[4];
    for (int r = 0; r < 4; ++r) {
      const uint8x16_t first = vld1q_u8(from[r]->q + 16 * s), second = vld1q_u8(from[r]->q + 16 * s + 16);
      even[r] = vsliq_n_u8(first, second, 4);
      odd[r] = vsriq_n_u8(second, first, 4);
    }
    store_quad(to.q[s], even);
    store_quad(to.q[s + 1], odd);
  }
}

template <typename Block, typename Quad>
void repack(const void* blocks, std::int64_t stride, void* quads, std::int64_t count) {
  const Block* from[4];
  for (int r = 0; r < 4; ++r)
    from[r] = reinterpret_cast<const Block*>(static_cast<const char*>(blocks) + r * stride);
  auto* to = static_cast<Quad*>(quads);
  for (std::int64_t b = 0; b < count / (32 * pieces<Block>); ++b, ++to) {
    repack_block(from, *to);
    for (const Block*& block : from) ++block;
  }
}

template <typename Quad>
void dequantise(const void* quads, int row, float* out, std::int64_t count) {
  const auto* quad = static_cast<const Quad*>(quads);
  for (std::int64_t b = 0; b < count / (32 * pieces<Quad>); ++b)
    for (int p = 0; p < pieces<Quad>; ++p, out += 32) {
      const Piece piece = unpack(quad[b], p, row);
      for (int half = 0; half < 2; ++half)
        for (int k = 0; k < 16; ++k)
          out[16 * half + k] = piece.scale[half] * static_cast<float>(piece.q[half][k]) - piece.offset[half];
    }
}

// ---- rows of x

// What is added up are products of `unit` times x.
#if defined(__ARM_FEATURE_MATMUL_INT8)
// A byte is b = low + 16 high. Instead of taking it apart, b << 4 (16 low) and b itself are multiplied, and
// what b has too much, low times the x of its high half, is taken away from the x of the low half beforehand.
constexpr int unit = 16;
constexpr float most_rounded = 119;  // and a sixteenth of another: at most 127
HEARTH_INLINE float for_low(float low, std::int32_t high) { return low - static_cast<float>(high) / 16; }
HEARTH_INLINE std::int32_t value_of(std::int32_t low, std::int32_t high) { return 16 * low + 17 * high; }
#else
constexpr int unit = 1;
constexpr float most_rounded = 127;
HEARTH_INLINE float for_low(float low, std::int32_t) { return low; }
HEARTH_INLINE std::int32_t value_of(std::int32_t low, std::int32_t high) { return low + high; }
#endif

struct RoundedPiece {
  std::int8_t low[16], high[16];
};

// The scale of numbers, and what makes them small integers; the scale is NaN where one is not finite.
struct Rounding {
  float scale, by;
};
HEARTH_INLINE Rounding rounding_of(const float* x, int count) {
  // As integers, so that NaN counts as larger than infinity, and both as larger than numbers.
  std::uint32_t largest = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t magnitude = std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffffu;
    largest = magnitude > largest ? magnitude : largest;
  }
  if (largest >= 0x7f800000u) return {std::bit_cast<float>(0x7fc00000u), 0};
  const float most = std::bit_cast<float>(largest);
  return {most / most_rounded, most >= 1e-30f ? most_rounded / most : 0};
}

// Returns `unit` times the sum of the rounded numbers.
HEARTH_INLINE std::int32_t round_piece(const float* x, Rounding rounding, RoundedPiece& out) {
  std::int32_t low[16], high[16], sum = 0;
  const bool finite = rounding.scale == rounding.scale;
  for (int i = 0; i < 16; ++i)
    high[i] = finite ? static_cast<std::int32_t>(__builtin_rintf(x[16 + i] * rounding.by)) : 0;
  for (int i = 0; i < 16; ++i)
    low[i] = finite ? static_cast<std::int32_t>(__builtin_rintf(for_low(x[i] * rounding.by, high[i]))) : 0;
  for (int i = 0; i < 16; ++i) sum += value_of(low[i], high[i]);
  for (int i = 0; i < 16; ++i) out.low[i] = static_cast<std::int8_t>(low[i]);
  for (int i = 0; i < 16; ++i) out.high[i] = static_cast<std::int8_t>(high[i]);
  return sum;
}

// Sums start as the bits of 1.5 * 2^23, so that they are those of a float all along, as long as they stay
// below 2^22: an instruction less than converting them. `bias` takes that away again, and what the eights of
// q4_0, which stand for 0, have added.
constexpr float sum_base = 12582912.0f;

struct alignas(16) XPiece {
  RoundedPiece q;
  float scale, bias;
};
void round_simple(const float* x, void* out, std::int64_t count) {
  auto* to = static_cast<XPiece*>(out);
  for (std::int64_t p = 0; p < count / 32; ++p, x += 32) {
    const Rounding rounding = rounding_of(x, 32);
    const std::int32_t sum = round_piece(x, rounding, to[p].q);
    to[p].scale = rounding.scale / unit;
    to[p].bias = -to[p].scale * (sum_base + static_cast<float>(8 * sum));
  }
}

// For blocks of 256: a scale for each half, so that sums of four pieces, times the weights' scales, are
// integers; and sums of pieces for the weights' offsets, likewise.
struct alignas(16) XBlock {
  RoundedPiece q[8];
  std::int16_t sum[8];
  float scale[2], sum_scale;
};
void round_block(const float* x, void* out, std::int64_t count) {
  auto* to = static_cast<XBlock*>(out);
  for (std::int64_t b = 0; b < count / 256; ++b, ++to, x += 256) {
    float sums[8], largest = 0;
    for (int half = 0; half < 2; ++half) {
      const Rounding rounding = rounding_of(x + 128 * half, 128);
      to->scale[half] = rounding.scale / unit;
      for (int i = 4 * half; i < 4 * half + 4; ++i) {
        sums[i] = to->scale[half] * static_cast<float>(round_piece(x + 32 * i, rounding, to->q[i]));
        largest = std::fmax(largest, std::fabs(sums[i]));
      }
    }
    to->sum_scale = largest / 32767;
    const float by = largest >= 1e-30f ? 32767 / largest : 0;
    for (int i = 0; i < 8; ++i) {
      const float rounded = __builtin_rintf(sums[i] * by);
      to->sum[i] = rounded == rounded ? static_cast<std::int16_t>(rounded) : std::int16_t{0};
    }
  }
}

// ---- products

// A piece of four rows, ready for any number of rows of x.
struct QuadPiece {
  uint8x16_t low[4], high[4];
};
HEARTH_INLINE QuadPiece load_quad(const std::uint8_t (&q)[4][16]) {
  QuadPiece w;
  for (int j = 0; j < 4; ++j) {
    const uint8x16_t bytes = vld1q_u8(q[j]);
#if defined(__ARM_FEATURE_MATMUL_INT8)
    w.low[j] = vshlq_n_u8(bytes, 4);
    w.high[j] = bytes;
#else
    w.low[j] = vandq_u8(bytes, vdupq_n_u8(15));
    w.high[j] = vshrq_n_u8(bytes, 4);
#endif
  }
  return w;
}

template <int LANE>
HEARTH_INLINE int32x4_t add_products(int32x4_t sums, uint8x16_t w, int8x16_t x) {
#if defined(__ARM_FEATURE_MATMUL_INT8)
  return vusdotq_laneq_s32(sums, w, x, LANE);
#else
  return vdotq_laneq_s32(sums, vreinterpretq_s8_u8(w), x, LANE);
#endif
}
HEARTH_INLINE int32x4_t add_products(int32x4_t sums, const QuadPiece& w, const RoundedPiece& x) {
  const int8x16_t high = vld1q_s8(x.high), low = vld1q_s8(x.low);
  sums = add_products<0>(sums, w.high[0], high);
  sums = add_products<1>(sums, w.high[1], high);
  sums = add_products<2>(sums, w.high[2], high);
  sums = add_products<3>(sums, w.high[3], high);
  sums = add_products<0>(sums, w.low[0], low);
  sums = add_products<1>(sums, w.low[1], low);
  sums = add_products<2>(sums, w.low[2], low);
  return add_products<3>(sums, w.low[3], low);
}

HEARTH_INLINE float32x4_t half_values(const std::uint16_t (&bits)[4]) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(bits)));
}

// One block of four rows of weights after the other is added to the sums of ROWS rows of x, `x_row` apart.
template <int ROWS>
HEARTH_INLINE void add_block(const Q4_0x4& w, const XPiece* x, std::int64_t x_row,
                             float32x4_t (&sums)[ROWS]) {
  // As a stream, so that it takes the cache away from itself rather than from x. It did not pay for Q4_Kx4.
  __builtin_prefetch(reinterpret_cast<const char*>(&w) + 512, 0, 0);
  const QuadPiece q = load_quad(w.q);
  const float32x4_t d = half_values(w.d);
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r, x += x_row) {
    const int32x4_t products = add_products(vreinterpretq_s32_f32(vdupq_n_f32(sum_base)), q, x->q);
    const float32x4_t scaled =
        vfmaq_n_f32(vld1q_dup_f32(&x->bias), vreinterpretq_f32_s32(products), x->scale);
    sums[r] = vfmaq_f32(sums[r], scaled, d);
  }
}

// Two neighbouring pieces of a block.
template <int PIECE, int ROWS>
HEARTH_INLINE void add_pieces(const Q4_Kx4& w, const XBlock* x, std::int64_t x_row, int32x4_t (&sums)[ROWS],
                              int32x4_t (&offsets)[ROWS]) {
  const QuadPiece first = load_quad(w.q[PIECE]), second = load_quad(w.q[PIECE + 1]);
  const uint16x8_t scales = vmovl_u8(vld1_u8(w.scale[PIECE]));
  const int16x8_t offset = vreinterpretq_s16_u16(vmovl_u8(vld1_u8(w.offset[PIECE])));
  const int32x4_t scale[] = {vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(scales))),
                             vreinterpretq_s32_u32(vmovl_high_u16(scales))};
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r, x += x_row) {
    const int16x8_t sum = vld1q_s16(x->sum);
    sums[r] = vmlaq_s32(sums[r], add_products(vdupq_n_s32(0), first, x->q[PIECE]), scale[0]);
    sums[r] = vmlaq_s32(sums[r], add_products(vdupq_n_s32(0), second, x->q[PIECE + 1]), scale[1]);
    offsets[r] = vmlal_laneq_s16(offsets[r], vget_low_s16(offset), sum, PIECE);
    offsets[r] = vmlal_high_laneq_s16(offsets[r], offset, sum, PIECE + 1);
  }
}
template <int ROWS>
HEARTH_INLINE void add_block(const Q4_Kx4& w, const XBlock* x, std::int64_t x_row,
                             float32x4_t (&sums)[ROWS]) {
  int32x4_t offsets[ROWS], halves[2][ROWS];
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r) offsets[r] = halves[0][r] = halves[1][r] = vdupq_n_s32(0);
  add_pieces<0>(w, x, x_row, halves[0], offsets);
  add_pieces<2>(w, x, x_row, halves[0], offsets);
  add_pieces<4>(w, x, x_row, halves[1], offsets);
  add_pieces<6>(w, x, x_row, halves[1], offsets);
  const float32x4_t d = half_values(w.d), dmin = half_values(w.dmin);
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r, x += x_row) {
    const float32x4_t products = vfmaq_n_f32(vmulq_n_f32(vcvtq_f32_s32(halves[0][r]), x->scale[0]),
                                             vcvtq_f32_s32(halves[1][r]), x->scale[1]);
    sums[r] = vfmaq_f32(sums[r], products, d);
    sums[r] = vfmsq_f32(sums[r], vmulq_n_f32(vcvtq_f32_s32(offsets[r]), x->sum_scale), dmin);
  }
}

// RUNS fours of rows at a time, which lie far apart: a core reads faster from some long runs than from one.
template <int RUNS, int ROWS, typename Quad, typename X>
void multiply_runs(const Quad* weights, std::int64_t apart, std::int64_t blocks, const X* x, float* out,
                   std::int64_t stride) {
  for (std::int64_t first = 0; first < apart; ++first) {
    float32x4_t sums[RUNS][ROWS];
#pragma GCC unroll 4
    for (int run = 0; run < RUNS; ++run)
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) sums[run][r] = vdupq_n_f32(0);
    for (std::int64_t block = 0; block < blocks; ++block)
#pragma GCC unroll 4
      for (int run = 0; run < RUNS; ++run)
        add_block(weights[(first + run * apart) * blocks + block], x + block, blocks, sums[run]);
#pragma GCC unroll 4
    for (int run = 0; run < RUNS; ++run)
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r) vst1q_f32(out + r * stride + 4 * (first + run * apart), sums[run][r]);
  }
}

template <typename Quad, typename X, int ROWS>
void multiply_rows(const void* weights, std::int64_t quads, const void* x, float* out, std::int64_t stride,
                   std::int64_t count) {
  const auto* from = static_cast<const Quad*>(weights);
  const auto* rows = static_cast<const X*>(x);
  const std::int64_t blocks = count / (32 * pieces<Quad>);
  constexpr int runs = ROWS == 1 ? 3 : 1;
  const std::int64_t apart = quads / runs, rest = quads % runs;
  multiply_runs<runs, ROWS>(from, apart, blocks, rows, out, stride);
  multiply_runs<1, ROWS>(from + (quads - rest) * blocks, rest, blocks, rows, out + 4 * (quads - rest),
                         stride);
}

}  // namespace

extern const RepackedKernels repacked_kernels_table = {
    true,
    {repack<Q4_0, Q4_0x4>, repack<Q4_K, Q4_Kx4>},
    {dequantise<Q4_0x4>, dequantise<Q4_Kx4>},
    {round_simple, round_block},
    {8 * sizeof(XPiece), sizeof(XBlock)},
    {multiply_rows<Q4_0x4, XPiece, 1>, multiply_rows<Q4_Kx4, XBlock, 1>},
    {multiply_rows<Q4_0x4, XPiece, 4>, multiply_rows<Q4_Kx4, XBlock, 4>}};
#else
extern const RepackedKernels repacked_kernels_table = {};
#endif

}  // namespace hearth::cpu::HEARTH_ISA
