// The block formats of quantised weights, byte by byte as in GGUF files, and their encoders.
//
// Scales written `d`, `dmin` are f16. A q2_k to iq4_xs block has sub-blocks of 16 or 32 elements with small
// integer scales of their own:
//
//   q4_0   d * (q - 8)                     q2_k  16: (d * scale) * q - dmin * offset, all of 4 bits
//   q4_1   d * q + m                       q3_k  16: d * (scale - 32) * (q - 4), scale of 6 bits
//   q5_0   d * (q - 16)                    q4_k  32: (d * scale) * q - dmin * offset, both of 6 bits
//   q5_1   d * q + m                       q5_k  32: the same
//   q8_0   d * q, q signed                 q6_k  16: d * scale * (q - 32), scale signed
//   iq4_nl d * iq4_nl_numbers[q]           mxfp4 2 ^ (e - 128) * mxfp4_numbers[q]
//   iq4_xs 32: d * (scale - 32) * iq4_nl_numbers[q], scale of 6 bits
//
// Except for the last step, every product above is exact in f32, so that all devices get the same numbers.
#pragma once

#include <bit>
#include <cstdint>

#include "hearth/dtype.h"

namespace hearth::blocks {

struct Q4_0 {  // byte i: element i in its low half, element i + 16 in its high half
  std::uint16_t d;
  std::uint8_t q[16];
};
struct Q4_1 {
  std::uint16_t d, m;
  std::uint8_t q[16];
};
struct Q5_0 {  // bit i of `high`, little endian: the fifth bit of element i
  std::uint16_t d;
  std::uint8_t high[4];
  std::uint8_t q[16];
};
struct Q5_1 {
  std::uint16_t d, m;
  std::uint8_t high[4];
  std::uint8_t q[16];
};
struct Q8_0 {
  std::uint16_t d;
  std::int8_t q[32];
};
struct Q2_K {              // element 128 n + 32 s + l: bits 2 s of q[32 n + l]
  std::uint8_t scale[16];  // low half: scale, high half: offset
  std::uint8_t q[64];
  std::uint16_t d, dmin;
};
struct Q3_K {  // low bits as in Q2_K; the third bit of element 32 j + l: bit j of high[l]
  std::uint8_t high[32];
  std::uint8_t q[64];
  std::uint8_t
      scale[12];  // scale i: low 4 bits in byte i % 8, half i / 8; high 2 bits: byte 8 + i % 4, 2 (i / 4)
  std::uint16_t d;
};
struct Q4_K {  // element 64 c + l: low half of q[32 c + l], element 64 c + 32 + l: its high half
  std::uint16_t d, dmin;
  std::uint8_t scale[12];  // of sub-block i < 4: scale in byte i, offset in byte i + 4, 6 bits each; else low
                           // 4 bits of both in byte i + 4, high 2 bits on top of bytes i - 4 and i
  std::uint8_t q[128];
};
struct Q5_K {  // as Q4_K; the fifth bit of element 32 j + l: bit j of high[l]
  std::uint16_t d, dmin;
  std::uint8_t scale[12];
  std::uint8_t high[32];
  std::uint8_t q[128];
};
struct Q6_K {  // element 128 n + 32 c + l: half c / 2 of low[64 n + 32 (c % 2) + l], bits 2 c of high[32 n +
               // l]
  std::uint8_t low[128];
  std::uint8_t high[64];
  std::int8_t scale[16];
  std::uint16_t d;
};

struct IQ4_XS {  // of sub-block s: halves as in Q4_0 in q[16 s] and behind
  std::uint16_t d;
  std::uint16_t scale_high;   // scale s: its high 2 bits from bit 2 s on,
  std::uint8_t scale_low[4];  // its low 4 in byte s / 2, half s % 2
  std::uint8_t q[128];
};
struct IQ4_NL {  // halves as in Q4_0
  std::uint16_t d;
  std::uint8_t q[16];
};
struct MXFP4 {  // the same
  std::uint8_t e;
  std::uint8_t q[16];
};

// Repacked: the same block of four rows. Bytes come in vectors of 16, four neighbours of each row, so that an
// instruction multiplies neighbours of four rows with those of x. The blocks of a matrix lie in panels of up
// to 2048 columns, all rows of one before the next (cpu/repacked_kernels.h).
struct Q4_0x4 {  // q[j][4 r + i]: byte 4 j + i of row r
  std::uint16_t d[4];
  std::uint8_t q[4][16];
};
struct Q8_0x4 {  // q[j][4 r + i]: element 4 j + i of row r
  std::uint16_t d[4];
  std::int8_t q[8][16];
};
struct Q4_Kx4 {  // q[s][j][4 r + i], of sub-block s: element 4 j + i in its low half, 16 + 4 j + i in its
                 // high
  std::uint16_t d[4], dmin[4];
  std::uint8_t scale[8][4];      // [s][r]
  std::uint8_t offset[2][4][4];  // [s / 4][r][s % 4]
  std::uint8_t q[8][4][16];
};

struct Q6_Kx4 {  // of sub-block s, of 16: low[s][j][4 r + i]: element 4 j + i in its low half, 8 + 4 j + i in
                 // its high; bits 2 k of high[s][4 r + i]: element 4 k + i
  std::uint16_t d[4];
  std::int8_t scale[16][4];  // [s][r]
  std::uint8_t low[16][2][16];
  std::uint8_t high[16][16];
};

// What the sixteen numbers of formats with a table stand for. Those of iq4_nl and iq4_xs lie closer around
// zero; those of mxfp4 are twice the numbers of OCP's E2M1, and 2 ^ (e - 128) is half its scale.
constexpr std::int8_t iq4_nl_numbers[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};
constexpr std::int8_t mxfp4_numbers[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
constexpr float mxfp4_scale(std::uint8_t e) {  // the lowest two are not normal numbers
  return std::bit_cast<float>(e < 2 ? 0x00200000u << e : static_cast<std::uint32_t>(e - 1) << 23);
}

// Whose block it is, in the order of DType.
// The formatter does not agree with itself here.
// clang-format off
#define HEARTH_BLOCK_FORMATS(FORMAT) \
  FORMAT(q4_0, Q4_0) \
  FORMAT(q4_1, Q4_1) \
  FORMAT(q5_0, Q5_0) \
  FORMAT(q5_1, Q5_1) \
  FORMAT(q8_0, Q8_0) \
  FORMAT(q2_k, Q2_K) \
  FORMAT(q3_k, Q3_K) \
  FORMAT(q4_k, Q4_K) \
  FORMAT(q5_k, Q5_K) \
  FORMAT(q6_k, Q6_K) \
  FORMAT(iq4_xs, IQ4_XS) \
  FORMAT(iq4_nl, IQ4_NL) \
  FORMAT(mxfp4, MXFP4)

// Those that are repacked, as files have them and in fours of rows.
#define HEARTH_REPACKED_FORMATS(FORMAT) \
  FORMAT(q4_0, Q4_0, q4_0x4, Q4_0x4) \
  FORMAT(q8_0, Q8_0, q8_0x4, Q8_0x4) \
  FORMAT(q4_k, Q4_K, q4_kx4, Q4_Kx4) \
  FORMAT(q6_k, Q6_K, q6_kx4, Q6_Kx4)
// clang-format on

#define HEARTH_CHECK_SIZE(dtype, Block) static_assert(sizeof(Block) == block_bytes(DType::dtype));
HEARTH_BLOCK_FORMATS(HEARTH_CHECK_SIZE)
#undef HEARTH_CHECK_SIZE
#define HEARTH_CHECK_SIZE(dtype, Block, fours, Quad) \
  static_assert(sizeof(Quad) == 4 * block_bytes(DType::fours));
HEARTH_REPACKED_FORMATS(HEARTH_CHECK_SIZE)
#undef HEARTH_CHECK_SIZE

// Encodes `count` blocks, on the calling thread. Throws ValueError if a value is not finite or a scale is
// beyond f16. `importance` has a number for each value, not negative: how much its squared error counts where
// scales are chosen. Without it all count the same, and the formats of 32 elements but iq4_nl are rounded to
// nearest.
void encode(DType format, const float* values, void* blocks, std::int64_t count,
            const float* importance = nullptr);

}  // namespace hearth::blocks
