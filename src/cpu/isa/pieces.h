// Blocks of quantised weights, unpacked in registers.
//
// Every format unpacks into pieces of 32 neighbours, as two vectors of 16 small integers; element = scale * q
// - offset.
#pragma once

#include <bit>
#include <cstring>
#include <type_traits>

#include "base/block_formats.h"
#include "cpu/isa/pack.h"

namespace hearth::cpu::HEARTH_ISA {

typedef std::uint8_t u8x16 __attribute__((vector_size(16)));
typedef std::int8_t i8x16 __attribute__((vector_size(16)));

HEARTH_INLINE float half_value(std::uint16_t bits) {
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

HEARTH_INLINE u8x16 load_bytes(const void* from) {
  u8x16 result;
  std::memcpy(&result, from, sizeof result);
  return result;
}
HEARTH_INLINE i8x16 as_signed(u8x16 values) { return std::bit_cast<i8x16>(values); }

// table[index], of indices below 16.
HEARTH_INLINE i8x16 look_up(const std::int8_t (&table)[16], u8x16 indices) {
#if defined(__aarch64__)
  return std::bit_cast<i8x16>(vqtbl1q_s8(vld1q_s8(table), std::bit_cast<uint8x16_t>(indices)));
#elif defined(__AVX2__)
  return std::bit_cast<i8x16>(
      _mm_shuffle_epi8(std::bit_cast<__m128i>(load_bytes(table)), std::bit_cast<__m128i>(indices)));
#else
  i8x16 result;
  for (int i = 0; i < 16; ++i) result[i] = table[indices[i]];
  return result;
#endif
}

struct Piece {
  i8x16 q[2];
  float scale[2], offset[2];
};

// Bits of a 32-bit number as 16 bytes: `value` where the bit is set.
HEARTH_INLINE u8x16 spread_bits(std::uint32_t bits, std::uint8_t value) {
  const auto low = static_cast<std::uint8_t>(bits), high = static_cast<std::uint8_t>(bits >> 8);
  const u8x16 bytes = {low,  low,  low,  low,  low,  low,  low,  low,
                       high, high, high, high, high, high, high, high};
  const u8x16 mask = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  return std::bit_cast<u8x16>((bytes & mask) != 0) & value;
}
HEARTH_INLINE std::uint32_t little_endian(const std::uint8_t* bytes) {
  return bytes[0] | static_cast<std::uint32_t>(bytes[1]) << 8 | static_cast<std::uint32_t>(bytes[2]) << 16 |
         static_cast<std::uint32_t>(bytes[3]) << 24;
}

// One scale for the piece; `zero`: the number that stands for 0.
HEARTH_INLINE Piece with_zero(u8x16 low, u8x16 high, float d, int zero) {
  return {{as_signed(low) - static_cast<std::int8_t>(zero), as_signed(high) - static_cast<std::int8_t>(zero)},
          {d, d},
          {0, 0}};
}
HEARTH_INLINE Piece with_offset(u8x16 low, u8x16 high, float d, float offset) {
  return {{as_signed(low), as_signed(high)}, {d, d}, {offset, offset}};
}

using namespace blocks;

HEARTH_INLINE Piece unpack(const Q4_0& block, int) {
  const u8x16 q = load_bytes(block.q);
  return with_zero(q & 15, q >> 4, half_value(block.d), 8);
}
HEARTH_INLINE Piece unpack(const Q4_1& block, int) {
  const u8x16 q = load_bytes(block.q);
  return with_offset(q & 15, q >> 4, half_value(block.d), -half_value(block.m));
}
HEARTH_INLINE Piece unpack(const Q5_0& block, int) {
  const u8x16 q = load_bytes(block.q);
  const std::uint32_t high = little_endian(block.high);
  return with_zero((q & 15) | spread_bits(high, 16), (q >> 4) | spread_bits(high >> 16, 16),
                   half_value(block.d), 16);
}
HEARTH_INLINE Piece unpack(const Q5_1& block, int) {
  const u8x16 q = load_bytes(block.q);
  const std::uint32_t high = little_endian(block.high);
  return with_offset((q & 15) | spread_bits(high, 16), (q >> 4) | spread_bits(high >> 16, 16),
                     half_value(block.d), -half_value(block.m));
}
HEARTH_INLINE Piece unpack(const Q8_0& block, int) {
  const float d = half_value(block.d);
  return {{as_signed(load_bytes(block.q)), as_signed(load_bytes(block.q + 16))}, {d, d}, {0, 0}};
}
HEARTH_INLINE Piece unpack(const Q2_K& block, int piece) {
  const std::uint8_t* q = block.q + piece / 4 * 32;
  const int shift = piece % 4 * 2;
  Piece result;
  for (int half = 0; half < 2; ++half) {
    const int scale = block.scale[2 * piece + half];
    result.q[half] = as_signed(load_bytes(q + 16 * half) >> shift & 3);
    result.scale[half] = half_value(block.d) * static_cast<float>(scale & 15);
    result.offset[half] = half_value(block.dmin) * static_cast<float>(scale >> 4);
  }
  return result;
}
HEARTH_INLINE Piece unpack(const Q3_K& block, int piece) {
  const std::uint8_t* q = block.q + piece / 4 * 32;
  const int shift = piece % 4 * 2;
  Piece result;
  for (int half = 0; half < 2; ++half) {
    const int i = 2 * piece + half;
    const int scale = (block.scale[i % 8] >> 4 * (i / 8) & 15) | (block.scale[8 + i % 4] >> 2 * (i / 4) & 3)
                                                                     << 4;
    const u8x16 high = (load_bytes(block.high + 16 * half) >> piece & 1) << 2;
    result.q[half] = as_signed((load_bytes(q + 16 * half) >> shift & 3) | high) - static_cast<std::int8_t>(4);
    result.scale[half] = half_value(block.d) * static_cast<float>(scale - 32);
    result.offset[half] = 0;
  }
  return result;
}

// Of Q4_K and Q5_K.
struct SubNumbers {
  int scale, offset;
};
template <typename Block>
HEARTH_INLINE SubNumbers sub_numbers(const Block& block, int i) {
  const std::uint8_t* bytes = block.scale;
  return {i < 4 ? bytes[i] & 63 : (bytes[i + 4] & 15) | bytes[i - 4] >> 6 << 4,
          i < 4 ? bytes[i + 4] & 63 : bytes[i + 4] >> 4 | bytes[i] >> 6 << 4};
}
struct SubScale {
  float scale, offset;
};
template <typename Block>
HEARTH_INLINE SubScale sub_scale(const Block& block, int i) {
  const SubNumbers numbers = sub_numbers(block, i);
  return {half_value(block.d) * static_cast<float>(numbers.scale),
          half_value(block.dmin) * static_cast<float>(numbers.offset)};
}
HEARTH_INLINE Piece unpack(const Q4_K& block, int piece) {
  const std::uint8_t* q = block.q + piece / 2 * 32;
  const int shift = piece % 2 * 4;
  const SubScale sub = sub_scale(block, piece);
  return with_offset(load_bytes(q) >> shift & 15, load_bytes(q + 16) >> shift & 15, sub.scale, sub.offset);
}
HEARTH_INLINE Piece unpack(const Q5_K& block, int piece) {
  const std::uint8_t* q = block.q + piece / 2 * 32;
  const int shift = piece % 2 * 4;
  const SubScale sub = sub_scale(block, piece);
  const auto half = [&](int first) {
    return (load_bytes(q + first) >> shift & 15) | (load_bytes(block.high + first) >> piece & 1) << 4;
  };
  return with_offset(half(0), half(16), sub.scale, sub.offset);
}
HEARTH_INLINE Piece unpack(const Q6_K& block, int piece) {
  const int n = piece / 4, c = piece % 4;
  Piece result;
  for (int half = 0; half < 2; ++half) {
    const u8x16 low = load_bytes(block.low + 64 * n + 32 * (c % 2) + 16 * half) >> (c / 2 * 4) & 15;
    const u8x16 high = (load_bytes(block.high + 32 * n + 16 * half) >> (2 * c) & 3) << 4;
    result.q[half] = as_signed(low | high) - static_cast<std::int8_t>(32);
    result.scale[half] = half_value(block.d) * static_cast<float>(block.scale[2 * piece + half]);
    result.offset[half] = 0;
  }
  return result;
}

HEARTH_INLINE Piece from_table(const std::int8_t (&table)[16], const std::uint8_t* halves, float d) {
  const u8x16 q = load_bytes(halves);
  return {{look_up(table, q & 15), look_up(table, q >> 4)}, {d, d}, {0, 0}};
}
HEARTH_INLINE Piece unpack(const IQ4_NL& block, int) {
  return from_table(iq4_nl_numbers, block.q, half_value(block.d));
}
HEARTH_INLINE int sub_scale_number(const IQ4_XS& block, int i) {
  return ((block.scale_low[i / 2] >> 4 * (i % 2) & 15) | (block.scale_high >> 2 * i & 3) << 4) - 32;
}
HEARTH_INLINE Piece unpack(const IQ4_XS& block, int piece) {
  return from_table(iq4_nl_numbers, block.q + 16 * piece,
                    half_value(block.d) * static_cast<float>(sub_scale_number(block, piece)));
}
HEARTH_INLINE Piece unpack(const MXFP4& block, int) {
  return from_table(mxfp4_numbers, block.q, mxfp4_scale(block.e));
}

// Of row 0 to 3 of four.
template <typename Byte>
HEARTH_INLINE u8x16 row_bytes(const Byte (*q)[16], int row) {
  u8x16 result;
  for (int j = 0; j < 4; ++j) std::memcpy(reinterpret_cast<char*>(&result) + 4 * j, q[j] + 4 * row, 4);
  return result;
}
HEARTH_INLINE Piece unpack(const Q4_0x4& block, int, int row) {
  const u8x16 q = row_bytes(block.q, row);
  return with_zero(q & 15, q >> 4, half_value(block.d[row]), 8);
}
HEARTH_INLINE Piece unpack(const Q8_0x4& block, int, int row) {
  const float d = half_value(block.d[row]);
  return {{as_signed(row_bytes(block.q, row)), as_signed(row_bytes(block.q + 4, row))}, {d, d}, {0, 0}};
}
HEARTH_INLINE Piece unpack(const Q4_Kx4& block, int piece, int row) {
  const u8x16 q = row_bytes(block.q[piece], row);
  return with_offset(
      q & 15, q >> 4, half_value(block.d[row]) * static_cast<float>(block.scale[piece][row]),
      half_value(block.dmin[row]) * static_cast<float>(block.offset[piece / 4][row][piece % 4]));
}

HEARTH_INLINE Piece unpack(const Q6_Kx4& block, int piece, int row) {
  Piece result;
  for (int half = 0; half < 2; ++half) {
    const int s = 2 * piece + half;
    u8x16 low = {}, high;
    for (int j = 0; j < 2; ++j)
      std::memcpy(reinterpret_cast<char*>(&low) + 4 * j, block.low[s][j] + 4 * row, 4);
    for (int k = 0; k < 4; ++k)
      std::memcpy(reinterpret_cast<char*>(&high) + 4 * k, block.high[s] + 4 * row, 4);
    // The second eight are the high halves of the first.
    const u8x16 halves =
        __builtin_shufflevector(low & 15, low >> 4, 0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
    const u8x16 shift = {0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6};
    result.q[half] = as_signed(halves | (high >> shift & 3) << 4) - static_cast<std::int8_t>(32);
    result.scale[half] = half_value(block.d[row]) * static_cast<float>(block.scale[s][row]);
    result.offset[half] = 0;
  }
  return result;
}

template <typename Block>
constexpr int pieces =  // in a block, or in each row of one
    sizeof(Block) > 64 && !std::is_same_v<Block, Q4_0x4> && !std::is_same_v<Block, Q8_0x4> ? 8 : 1;
template <typename Block>
constexpr bool has_offset =
    std::is_same_v<Block, Q4_1> || std::is_same_v<Block, Q5_1> || std::is_same_v<Block, Q2_K> ||
    std::is_same_v<Block, Q4_K> || std::is_same_v<Block, Q5_K> || std::is_same_v<Block, Q4_Kx4>;
template <typename Block>
constexpr bool has_two_scales = std::is_same_v<Block, Q2_K> || std::is_same_v<Block, Q3_K> ||
                                std::is_same_v<Block, Q6_K> || std::is_same_v<Block, Q6_Kx4>;

}  // namespace hearth::cpu::HEARTH_ISA
