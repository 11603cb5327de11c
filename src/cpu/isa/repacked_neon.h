// Weights whose rows lie in fours, for NEON with dot products of bytes: rounding x, and adding a block of
// weights.
#pragma once

#include <bit>
#include <cmath>

#include "cpu/isa/pieces.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

// ---- rows of x

// A row of x in pieces of 32, rounded. What is multiplied with a piece gives Scheme::unit times the product.
struct RoundedPiece {
  std::int8_t low[16], high[16];
};

struct Plain {
  static constexpr int unit = 1;
  static constexpr float most = 127;
  HEARTH_INLINE static float32x4_t for_low(float32x4_t low, int32x4_t) { return low; }
  HEARTH_INLINE static std::int32_t value(std::int32_t low, std::int32_t high) { return low + high; }
};
#if defined(__ARM_FEATURE_MATMUL_INT8)
// For bytes of two halves, b = low + 16 high. Instead of taking it apart, b << 4 (16 low) and b itself are
// multiplied, and what b has too much, low times the x of its high half, is taken away from the x of the low
// half beforehand.
struct ForHalves {
  static constexpr int unit = 16;
  static constexpr float most = 119;  // and a sixteenth of another: at most 127
  HEARTH_INLINE static float32x4_t for_low(float32x4_t low, int32x4_t high) {
    return vsubq_f32(low, vcvtq_n_f32_s32(high, 4));
  }
  HEARTH_INLINE static std::int32_t value(std::int32_t low, std::int32_t high) {
    return 16 * low + 17 * high;
  }
};
#else
using ForHalves = Plain;
#endif

// The scale of numbers, and what makes them small integers; the scale is NaN where one is not finite.
struct Rounding {
  float scale, by;
};
template <typename Scheme>
HEARTH_INLINE Rounding rounding_of(const float* x, int count) {
  // As integers, so that NaN counts as larger than infinity, and both as larger than numbers.
  uint32x4_t largest[4];
  for (int i = 0; i < 4; ++i) largest[i] = vdupq_n_u32(0);
  for (int i = 0; i < count; i += 16)
    for (int k = 0; k < 4; ++k)
      largest[k] = vmaxq_u32(largest[k], vreinterpretq_u32_f32(vabsq_f32(vld1q_f32(x + i + 4 * k))));
  const std::uint32_t bits =
      vmaxvq_u32(vmaxq_u32(vmaxq_u32(largest[0], largest[1]), vmaxq_u32(largest[2], largest[3])));
  if (bits >= 0x7f800000u) return {std::bit_cast<float>(0x7fc00000u), 0};
  const float most = std::bit_cast<float>(bits);
  return {most / Scheme::most, most >= 1e-30f ? Scheme::most / most : 0};
}

HEARTH_INLINE void store_bytes(std::int8_t* to, const int32x4_t (&values)[4]) {
  const int16x8_t first = vcombine_s16(vmovn_s32(values[0]), vmovn_s32(values[1])),
                  second = vcombine_s16(vmovn_s32(values[2]), vmovn_s32(values[3]));
  vst1q_s8(to, vcombine_s8(vmovn_s16(first), vmovn_s16(second)));
}

// Returns `unit` times the sum of the rounded numbers. What is not finite, times 0, is NaN and becomes 0.
template <typename Scheme>
HEARTH_INLINE std::int32_t round_piece(const float* x, Rounding rounding, RoundedPiece& out) {
  int32x4_t low[4], high[4];
  for (int i = 0; i < 4; ++i) {
    high[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 16 + 4 * i), rounding.by));
    low[i] = vcvtnq_s32_f32(Scheme::for_low(vmulq_n_f32(vld1q_f32(x + 4 * i), rounding.by), high[i]));
  }
  store_bytes(out.low, low);
  store_bytes(out.high, high);
  const auto sum = [](const int32x4_t(&values)[4]) HEARTH_LAMBDA {
    return vaddvq_s32(vaddq_s32(vaddq_s32(values[0], values[1]), vaddq_s32(values[2], values[3])));
  };
  return Scheme::value(sum(low), sum(high));
}

// Sums start as the bits of 1.5 * 2^23, so that they are those of a float all along, as long as they stay
// below 2^22: an instruction less than converting them. `bias` takes that away again, and what the number
// that stands for 0, where that is another, has added.
constexpr float sum_base = 12582912.0f;

struct alignas(16) XPiece {
  RoundedPiece q;
  float scale, bias;
};
template <typename Scheme, int ZERO>
void round_pieces(const float* x, void* out, std::int64_t count) {
  auto* to = static_cast<XPiece*>(out);
  for (std::int64_t p = 0; p < count / 32; ++p, x += 32) {
    const Rounding rounding = rounding_of<Scheme>(x, 32);
    const std::int32_t sum = round_piece<Scheme>(x, rounding, to[p].q);
    to[p].scale = rounding.scale / Scheme::unit;
    to[p].bias = -to[p].scale * (sum_base + static_cast<float>(ZERO * sum));
  }
}

// For blocks of 256: a scale for each half, so that sums of four pieces, times the weights' scales, are
// integers; and sums of pieces for the weights' offsets, likewise: 16 bits in two bytes.
struct alignas(16) XBlock {
  RoundedPiece q[8];
  std::int8_t sum_high[8];
  std::uint8_t sum_low[8];
  float scale[2], sum_scale;
};
void round_blocks(const float* x, void* out, std::int64_t count) {
  auto* to = static_cast<XBlock*>(out);
  for (std::int64_t b = 0; b < count / 256; ++b, ++to, x += 256) {
    float sums[8], largest = 0;
    for (int half = 0; half < 2; ++half) {
      const Rounding rounding = rounding_of<ForHalves>(x + 128 * half, 128);
      to->scale[half] = rounding.scale / ForHalves::unit;
      for (int i = 4 * half; i < 4 * half + 4; ++i) {
        const std::int32_t sum = round_piece<ForHalves>(x + 32 * i, rounding, to->q[i]);
        sums[i] = to->scale[half] * static_cast<float>(sum);
        largest = std::fmax(largest, std::fabs(sums[i]));
      }
    }
    to->sum_scale = largest / 32767;
    const float by = largest >= 1e-30f ? 32767 / largest : 0;
    for (int i = 0; i < 8; ++i) {
      const float rounded = __builtin_rintf(sums[i] * by);
      const std::int32_t sum = rounded == rounded ? static_cast<std::int32_t>(rounded) : 0;
      to->sum_high[i] = static_cast<std::int8_t>(sum >> 8);
      to->sum_low[i] = static_cast<std::uint8_t>(sum);
    }
  }
}

// For blocks of 256 with a scale for each 16, whose numbers come as halves of bytes and pairs of bits.
struct alignas(16) XSixBits {
  std::int8_t halves[16][16], pairs[16][16];
  std::int32_t start[16];  // what the 32s, which stand for 0, add to the sums of the pairs
  float scale[8];
};
#if defined(__ARM_FEATURE_MATMUL_INT8)
// As ForHalves, and the same for four pairs of bits: b << 6, b << 4, b << 2 and b are multiplied, of which
// those after the first have parts of the pairs before.
constexpr float most_of_pairs = 101;  // and a quarter of another: at most 127
HEARTH_INLINE std::int32_t round_sixteen(const float* x, float by, std::int8_t* halves, std::int8_t* pairs) {
  float32x4_t scaled[4];
  for (int i = 0; i < 4; ++i) scaled[i] = vmulq_n_f32(vld1q_f32(x + 4 * i), by);
  int32x4_t half[4];
  for (int i = 2; i < 4; ++i) half[i] = vcvtnq_s32_f32(scaled[i]);
  for (int i = 0; i < 2; ++i) half[i] = vcvtnq_s32_f32(ForHalves::for_low(scaled[i], half[i + 2]));
  store_bytes(halves, half);
  int32x4_t pair[4], sum = vdupq_n_s32(0);
  int32x4_t later = vdupq_n_s32(0);  // 64 times what the pairs after this one add to it
  for (int i = 3; i >= 0; --i) {
    pair[i] = vcvtnq_s32_f32(vsubq_f32(scaled[i], vcvtq_n_f32_s32(later, 6)));
    const int32x4_t value = vaddq_s32(vshlq_n_s32(pair[i], 6), later);
    sum = vaddq_s32(sum, value);
    later = vshrq_n_s32(value, 2);
  }
  store_bytes(pairs, pair);
  return -2 * vaddvq_s32(sum);
}
#else
constexpr float most_of_pairs = 127;
HEARTH_INLINE std::int32_t round_sixteen(const float* x, float by, std::int8_t* halves, std::int8_t* pairs) {
  int32x4_t q[4];
  for (int i = 0; i < 4; ++i) q[i] = vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x + 4 * i), by));
  store_bytes(halves, q);
  store_bytes(pairs, q);
  return -2 * vaddvq_s32(vaddq_s32(vaddq_s32(q[0], q[1]), vaddq_s32(q[2], q[3])));
}
#endif
struct WithPairs {
  static constexpr float most = most_of_pairs;
};
void round_six_bits(const float* x, void* out, std::int64_t count) {
  auto* to = static_cast<XSixBits*>(out);
  for (std::int64_t b = 0; b < count / 256; ++b, ++to)
    for (int piece = 0; piece < 8; ++piece) {
      const Rounding rounding = rounding_of<WithPairs>(x, 32);
      to->scale[piece] = rounding.scale / ForHalves::unit;
      for (int s = 2 * piece; s < 2 * piece + 2; ++s, x += 16)
        to->start[s] = round_sixteen(x, rounding.by, to->halves[s], to->pairs[s]);
    }
}

// ---- products

using Sums = float32x4_t;  // of a row of x with four rows of weights
HEARTH_INLINE Sums no_sums() { return vdupq_n_f32(0); }
HEARTH_INLINE void store_sums(float* to, Sums sums, bool adds) {
  vst1q_f32(to, adds ? vaddq_f32(vld1q_f32(to), sums) : sums);
}

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

// Products of two neighbouring pieces of x, each with its piece of three runs of weights: those of the second
// are APART bytes behind those of the first. All begin as `start`.
struct SixProducts {
  int32x4_t of[2][3];  // [piece][run]
};
// By hand, because the order decides: a product waits for the one before it that is added to the same sums,
// so the six take turns, and weights are on their way while those before them are multiplied. It has 30
// operands, as many as GCC allows.
// clang-format off
#define HEARTH_SIX(op, ...)                                                                              \
  op("0", "run0", "0", __VA_ARGS__) op("1", "run1", "0", __VA_ARGS__) op("2", "run2", "0", __VA_ARGS__)  \
  op("3", "run0", "1", __VA_ARGS__) op("4", "run1", "1", __VA_ARGS__) op("5", "run2", "1", __VA_ARGS__)
#define HEARTH_FETCH(i, run, piece, w, offset)                                                           \
  "ldur %q[" w i "], [%[" run "], #(" piece "*%c[apart]+" offset ")]\n"
#define HEARTH_START(i, run, piece, from) "mov %[s" i "].16b, %[" from "].16b\n"
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define HEARTH_DOT "usdot"
#define HEARTH_MASK
#define HEARTH_CHANGED
#define HEARTH_HIGH(i, run, piece, w, other, lane)                                                       \
  "usdot %[s" i "].4s, %[" w i "].16b, %[high" piece "].4b[" lane "]\n"                                  \
  "shl %[" w i "].16b, %[" w i "].16b, #4\n"
#else
#define HEARTH_DOT "sdot"
#define HEARTH_MASK "movi v31.16b, #15\n"
#define HEARTH_CHANGED "v31"
#define HEARTH_HIGH(i, run, piece, w, other, lane)                                                       \
  "ushr %[" other i "].16b, %[" w i "].16b, #4\n"                                                        \
  "and %[" w i "].16b, %[" w i "].16b, v31.16b\n"                                                        \
  "sdot %[s" i "].4s, %[" other i "].16b, %[high" piece "].4b[" lane "]\n"
#endif
#define HEARTH_LOW(i, run, piece, w, lane)                                                               \
  HEARTH_DOT " %[s" i "].4s, %[" w i "].16b, %[low" piece "].4b[" lane "]\n"
#define HEARTH_LOW_AND_FETCH(i, run, piece, w, lane, next, offset)                                       \
  HEARTH_LOW(i, run, piece, w, lane) HEARTH_FETCH(i, run, piece, next, offset)
// clang-format on
template <int APART>
HEARTH_INLINE SixProducts six_products(const std::uint8_t* const (&runs)[3], const RoundedPiece& first,
                                       const RoundedPiece& second, int32x4_t start) {
  // Not arrays, which GCC would store each time.
  int32x4_t s0, s1, s2, s3, s4, s5;
  uint8x16_t a0, a1, a2, a3, a4, a5, b0, b1, b2, b3, b4, b5;
  using Bytes = const std::uint8_t[APART + 4 * 16];
  // clang-format off
  asm(HEARTH_MASK
      HEARTH_SIX(HEARTH_FETCH, "a", "0") HEARTH_SIX(HEARTH_START, "start")
      HEARTH_SIX(HEARTH_HIGH, "a", "b", "0") HEARTH_SIX(HEARTH_LOW_AND_FETCH, "a", "0", "b", "16")
      HEARTH_SIX(HEARTH_HIGH, "b", "a", "1") HEARTH_SIX(HEARTH_LOW_AND_FETCH, "b", "1", "a", "32")
      HEARTH_SIX(HEARTH_HIGH, "a", "b", "2") HEARTH_SIX(HEARTH_LOW_AND_FETCH, "a", "2", "b", "48")
      HEARTH_SIX(HEARTH_HIGH, "b", "a", "3") HEARTH_SIX(HEARTH_LOW, "b", "3")
      // clang-format on
      : [s0] "=&w"(s0), [s1] "=&w"(s1), [s2] "=&w"(s2), [s3] "=&w"(s3), [s4] "=&w"(s4), [s5] "=&w"(s5),
        [a0] "=&w"(a0), [a1] "=&w"(a1), [a2] "=&w"(a2), [a3] "=&w"(a3), [a4] "=&w"(a4), [a5] "=&w"(a5),
        [b0] "=&w"(b0), [b1] "=&w"(b1), [b2] "=&w"(b2), [b3] "=&w"(b3), [b4] "=&w"(b4), [b5] "=&w"(b5)
      : [run0] "r"(runs[0]), [run1] "r"(runs[1]), [run2] "r"(runs[2]), [start] "w"(start),
        [high0] "w"(vld1q_s8(first.high)), [low0] "w"(vld1q_s8(first.low)),
        [high1] "w"(vld1q_s8(second.high)), [low1] "w"(vld1q_s8(second.low)), [apart] "n"(APART),
        "m"(*reinterpret_cast<Bytes*>(runs[0])), "m"(*reinterpret_cast<Bytes*>(runs[1])),
        "m"(*reinterpret_cast<Bytes*>(runs[2]))
      : HEARTH_CHANGED);
  return {{{s0, s1, s2}, {s3, s4, s5}}};
}
#undef HEARTH_SIX
#undef HEARTH_FETCH
#undef HEARTH_START
#undef HEARTH_DOT
#undef HEARTH_MASK
#undef HEARTH_CHANGED
#undef HEARTH_HIGH
#undef HEARTH_LOW
#undef HEARTH_LOW_AND_FETCH

HEARTH_INLINE float32x4_t half_values(const std::uint16_t (&bits)[4]) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(bits)));
}

// Sums that began as sum_base, of a row of x with four rows of weights, are added to what is there.
HEARTH_INLINE float32x4_t add_scaled(float32x4_t sums, int32x4_t products, const XPiece& x, float32x4_t d) {
  const float32x4_t scaled = vfmaq_n_f32(vld1q_dup_f32(&x.bias), vreinterpretq_f32_s32(products), x.scale);
  return vfmaq_f32(sums, scaled, d);
}
// One block of four rows of weights is added to the sums of ROWS rows of x, `x_row` apart.
template <int ROWS>
HEARTH_INLINE void add_block(const Q4_0x4& w, const XPiece* x, std::int64_t x_row, Sums (&sums)[ROWS]) {
  // As a stream, so that it takes the cache away from itself rather than from x. It does not pay for Q4_Kx4,
  // nor in add_woven().
  __builtin_prefetch(reinterpret_cast<const char*>(&w) + 512, 0, 0);
  const QuadPiece q = load_quad(w.q);
  const float32x4_t d = half_values(w.d);
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r, x += x_row) {
    const int32x4_t products = add_products(vreinterpretq_s32_f32(vdupq_n_f32(sum_base)), q, x->q);
    sums[r] = add_scaled(sums[r], products, *x, d);
  }
}

// Two blocks of three runs, one row of x.
HEARTH_INLINE void add_woven(const Q4_0x4* const (&w)[3], const XPiece* x, Sums (&sums)[3][1]) {
  const SixProducts products = six_products<sizeof(Q4_0x4)>(
      {w[0]->q[0], w[1]->q[0], w[2]->q[0]}, x[0].q, x[1].q, vreinterpretq_s32_f32(vdupq_n_f32(sum_base)));
#pragma GCC unroll 2
  for (int block = 0; block < 2; ++block)
#pragma GCC unroll 3
    for (int run = 0; run < 3; ++run)
      sums[run][0] =
          add_scaled(sums[run][0], products.of[block][run], x[block], half_values(w[run][block].d));
}

template <int ROWS>
HEARTH_INLINE void add_block(const Q8_0x4& w, const XPiece* x, std::int64_t x_row, Sums (&sums)[ROWS]) {
  const float32x4_t d = half_values(w.d);
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r, x += x_row) {
    const int8x16_t low = vld1q_s8(x->q.low), high = vld1q_s8(x->q.high);
    int32x4_t products = vreinterpretq_s32_f32(vdupq_n_f32(sum_base));
    products = vdotq_laneq_s32(products, vld1q_s8(w.q[0]), low, 0);
    products = vdotq_laneq_s32(products, vld1q_s8(w.q[1]), low, 1);
    products = vdotq_laneq_s32(products, vld1q_s8(w.q[2]), low, 2);
    products = vdotq_laneq_s32(products, vld1q_s8(w.q[3]), low, 3);
    products = vdotq_laneq_s32(products, vld1q_s8(w.q[4]), high, 0);
    products = vdotq_laneq_s32(products, vld1q_s8(w.q[5]), high, 1);
    products = vdotq_laneq_s32(products, vld1q_s8(w.q[6]), high, 2);
    products = vdotq_laneq_s32(products, vld1q_s8(w.q[7]), high, 3);
    sums[r] = add_scaled(sums[r], products, *x, d);
  }
}

HEARTH_INLINE float32x4_t scaled_halves(int32x4_t first, int32x4_t second, const float (&scale)[2]) {
  return vfmaq_n_f32(vmulq_n_f32(vcvtq_f32_s32(first), scale[0]), vcvtq_f32_s32(second), scale[1]);
}

// Scales of two pieces, of four rows each.
struct QuadScales {
  int32x4_t of[2];
};
HEARTH_INLINE QuadScales load_scales(const std::uint8_t* from) {
  const uint16x8_t scales = vmovl_u8(vld1_u8(from));
  return {{vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(scales))),
           vreinterpretq_s32_u32(vmovl_high_u16(scales))}};
}

// Of four pieces the sums of the products, times their scales.
template <int HALF, int ROWS>
HEARTH_INLINE void add_half(const Q4_Kx4& w, const XBlock* x, std::int64_t x_row, int32x4_t (&sums)[ROWS]) {
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) {
    const QuadScales scales = load_scales(w.scale[4 * HALF + i]);
    const QuadPiece a = load_quad(w.q[4 * HALF + i]), b = load_quad(w.q[4 * HALF + i + 1]);
    const XBlock* row = x;
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r, row += x_row) {
      sums[r] = vmlaq_s32(sums[r], add_products(vdupq_n_s32(0), a, row->q[4 * HALF + i]), scales.of[0]);
      sums[r] = vmlaq_s32(sums[r], add_products(vdupq_n_s32(0), b, row->q[4 * HALF + i + 1]), scales.of[1]);
    }
  }
}
// What the halves of a block, sums of integers, and the offsets of its weights come to.
HEARTH_INLINE Sums add_halves(Sums sums, const Q4_Kx4& w, const XBlock& x, int32x4_t first_half,
                              int32x4_t second_half) {
  const uint8x16_t first = vld1q_u8(w.offset[0][0]), second = vld1q_u8(w.offset[1][0]);
  const int8x8_t high = vld1_s8(x.sum_high);
  const uint8x8_t low = vld1_u8(x.sum_low);
  int32x4_t offsets = vdotq_lane_s32(vdupq_n_s32(0), vreinterpretq_s8_u8(first), high, 0);
  offsets = vshlq_n_s32(vdotq_lane_s32(offsets, vreinterpretq_s8_u8(second), high, 1), 8);
  uint32x4_t lower = vdotq_lane_u32(vreinterpretq_u32_s32(offsets), first, low, 0);
  lower = vdotq_lane_u32(lower, second, low, 1);
  sums = vfmaq_f32(sums, scaled_halves(first_half, second_half, x.scale), half_values(w.d));
  return vfmsq_f32(sums, vmulq_n_f32(vcvtq_f32_s32(vreinterpretq_s32_u32(lower)), x.sum_scale),
                   half_values(w.dmin));
}
template <int ROWS>
HEARTH_INLINE void add_block(const Q4_Kx4& w, const XBlock* x, std::int64_t x_row, Sums (&sums)[ROWS]) {
  int32x4_t halves[2][ROWS];
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r) halves[0][r] = halves[1][r] = vdupq_n_s32(0);
  add_half<0>(w, x, x_row, halves[0]);
  add_half<1>(w, x, x_row, halves[1]);
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r, x += x_row) sums[r] = add_halves(sums[r], w, *x, halves[0][r], halves[1][r]);
}
// A block of three runs, one row of x.
HEARTH_INLINE void add_woven(const Q4_Kx4* const (&w)[3], const XBlock* x, Sums (&sums)[3][1]) {
  int32x4_t halves[2][3];
#pragma GCC unroll 2
  for (int half = 0; half < 2; ++half) {
#pragma GCC unroll 3
    for (int run = 0; run < 3; ++run) halves[half][run] = vdupq_n_s32(0);
#pragma GCC unroll 2
    for (int i = 4 * half; i < 4 * half + 4; i += 2) {
      const SixProducts products = six_products<sizeof(w[0]->q[0])>(
          {w[0]->q[i][0], w[1]->q[i][0], w[2]->q[i][0]}, x->q[i], x->q[i + 1], vdupq_n_s32(0));
#pragma GCC unroll 3
      for (int run = 0; run < 3; ++run) {
        const QuadScales scales = load_scales(w[run]->scale[i]);
        halves[half][run] = vmlaq_s32(halves[half][run], products.of[0][run], scales.of[0]);
        halves[half][run] = vmlaq_s32(halves[half][run], products.of[1][run], scales.of[1]);
      }
    }
  }
#pragma GCC unroll 3
  for (int run = 0; run < 3; ++run)
    sums[run][0] = add_halves(sums[run][0], *w[run], *x, halves[0][run], halves[1][run]);
}

template <int ROWS>
HEARTH_INLINE void add_block(const Q6_Kx4& w, const XSixBits* x, std::int64_t x_row, Sums (&sums)[ROWS]) {
  float32x4_t products_of_block[ROWS];
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r) products_of_block[r] = vdupq_n_f32(0);
#pragma GCC unroll 2
  for (int pair = 0; pair < 16; pair += 2) {
    int32x4_t both[ROWS];  // of the two sub-blocks, times their scales
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r) both[r] = vdupq_n_s32(0);
    const int16x8_t scales = vmovl_s8(vld1_s8(w.scale[pair]));
#pragma GCC unroll 2
    for (int s = pair; s < pair + 2; ++s) {
      const int32x4_t scale = s == pair ? vmovl_s16(vget_low_s16(scales)) : vmovl_high_s16(scales);
      const uint8x16_t bits = vld1q_u8(w.high[s]), first = vld1q_u8(w.low[s][0]),
                       second = vld1q_u8(w.low[s][1]);
      const XSixBits* row = x;
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r, row += x_row) {
        const int8x16_t pairs = vld1q_s8(row->pairs[s]), halves = vld1q_s8(row->halves[s]);
        int32x4_t products = vld1q_dup_s32(row->start + s);
#if defined(__ARM_FEATURE_MATMUL_INT8)
        products = add_products<0>(products, vshlq_n_u8(bits, 6), pairs);
        products = add_products<1>(products, vshlq_n_u8(bits, 4), pairs);
        products = add_products<2>(products, vshlq_n_u8(bits, 2), pairs);
        products = add_products<3>(products, bits, pairs);
        int32x4_t lower = add_products<2>(vdupq_n_s32(0), first, halves);
        lower = add_products<3>(lower, second, halves);
        lower = add_products<0>(lower, vshlq_n_u8(first, 4), halves);
        lower = add_products<1>(lower, vshlq_n_u8(second, 4), halves);
        products = vaddq_s32(lower, vshlq_n_s32(products, 2));
#else
        const uint8x16_t three = vdupq_n_u8(3), fifteen = vdupq_n_u8(15);
        products = add_products<0>(products, vandq_u8(bits, three), pairs);
        products = add_products<1>(products, vandq_u8(vshrq_n_u8(bits, 2), three), pairs);
        products = add_products<2>(products, vandq_u8(vshrq_n_u8(bits, 4), three), pairs);
        products = vshlq_n_s32(add_products<3>(products, vshrq_n_u8(bits, 6), pairs), 4);
        products = add_products<0>(products, vandq_u8(first, fifteen), halves);
        products = add_products<1>(products, vandq_u8(second, fifteen), halves);
        products = add_products<2>(products, vshrq_n_u8(first, 4), halves);
        products = add_products<3>(products, vshrq_n_u8(second, 4), halves);
#endif
        both[r] = vmlaq_s32(both[r], products, scale);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < ROWS; ++r)
      products_of_block[r] =
          vfmaq_n_f32(products_of_block[r], vcvtq_f32_s32(both[r]), x[r * x_row].scale[pair / 2]);
  }
  const float32x4_t d = half_values(w.d);
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r) sums[r] = vfmaq_f32(sums[r], products_of_block[r], d);
}

constexpr std::int64_t repacked_few_rows = 5;  // more have not been measured

// ---- by format: x, how many fours of rows are multiplied at a time, and how many blocks of them are woven,
// if any
template <typename Quad>
struct ColumnsOf;
template <>
struct ColumnsOf<Q4_0x4> {
  using X = XPiece;
  static constexpr auto round = round_pieces<ForHalves, 8>;
  static constexpr int runs(int rows) { return rows > 1 ? 1 : 3; }
  static constexpr int woven = 2;
};
template <>
struct ColumnsOf<Q8_0x4> {
  using X = XPiece;
  static constexpr auto round = round_pieces<Plain, 0>;
  static constexpr int runs(int rows) { return rows > 1 ? 1 : 3; }
  static constexpr int woven = 0;
};
template <>
struct ColumnsOf<Q4_Kx4> {
  using X = XBlock;
  static constexpr auto round = round_blocks;
  static constexpr int runs(int rows) { return rows > 1 ? 1 : 3; }
  static constexpr int woven = 1;
};
template <>
struct ColumnsOf<Q6_Kx4> {
  using X = XSixBits;
  static constexpr auto round = round_six_bits;
  static constexpr int runs(int rows) { return rows > 1 ? 1 : 2; }
  static constexpr int woven = 0;
};

}  // namespace
}  // namespace hearth::cpu::HEARTH_ISA
