// Four neighbouring pieces of quantised weights at once, for NEON.
//
// Scales of four pieces are one vector, so that unpacking them, and scaling sums, costs an instruction where
// it would cost four. A format without a function of its own here is put together from its pieces.
#pragma once

#include "cpu/isa/pieces.h"

namespace hearth::cpu::HEARTH_ISA {

// Formats with a scale for each half of a piece have those of pieces 0 and 1 first, of 2 and 3 next.
struct Quad {
  i8x16 q[4][2];
  float32x4_t scale[2], offset[2];
};

// Numbers that stay unsigned: taking away what stands for 0 is left to the offset.
template <typename Block>
constexpr int quad_zero = std::is_same_v<Block, Q4_0>   ? 8
                          : std::is_same_v<Block, Q6_K> ? 32
                                                        : 0;
template <typename Block>
constexpr bool quad_has_offset = has_offset<Block> || quad_zero<Block> != 0;

template <typename Block>
HEARTH_INLINE Quad quad(const Block* block, int first) {
  Quad result;
  for (int i = 0; i < 4; ++i) {
    const int at = first + i;
    const Piece piece = unpack(block[at / pieces<Block>], at % pieces<Block>);
    for (int half = 0; half < 2; ++half) result.q[i][half] = piece.q[half];
    if constexpr (has_two_scales<Block>) {
      for (int half = 0; half < 2; ++half) {
        result.scale[i / 2][i % 2 * 2 + half] = piece.scale[half];
        result.offset[i / 2][i % 2 * 2 + half] = piece.offset[half];
      }
    } else {
      result.scale[0][i] = piece.scale[0];
      result.offset[0][i] = piece.offset[0];
    }
  }
  return result;
}

HEARTH_INLINE float32x4_t half_values(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  return vcvt_f32_f16(vreinterpret_f16_u64(vcreate_u64(a | b << 16 | c << 32 | d << 48)));
}

HEARTH_INLINE Quad quad(const Q8_0* block, int) {
  Quad result;
  for (int i = 0; i < 4; ++i)
    for (int half = 0; half < 2; ++half) result.q[i][half] = as_signed(load_bytes(block[i].q + 16 * half));
  result.scale[0] = half_values(block[0].d, block[1].d, block[2].d, block[3].d);
  return result;
}

HEARTH_INLINE Quad quad(const Q4_0* block, int) {
  Quad result;
  for (int i = 0; i < 4; ++i) {
    const u8x16 q = load_bytes(block[i].q);
    result.q[i][0] = as_signed(q & 15);
    result.q[i][1] = as_signed(q >> 4);
  }
  result.scale[0] = half_values(block[0].d, block[1].d, block[2].d, block[3].d);
  result.offset[0] = vmulq_n_f32(result.scale[0], quad_zero<Q4_0>);
  return result;
}

HEARTH_INLINE std::uint32_t four_bytes(const void* from) {
  std::uint32_t result;
  std::memcpy(&result, from, sizeof result);
  return result;
}

// Of Q4_K and Q5_K, pieces `first` to first + 3: four numbers of 6 bits for the scales, four for the offsets.
template <typename Block>
HEARTH_INLINE void set_factors(Quad& quad, const Block& block, int first) {
  const std::uint32_t a = four_bytes(block.scale), b = four_bytes(block.scale + 4),
                      c = four_bytes(block.scale + 8);
  const std::uint32_t scale = first == 0 ? a & 0x3f3f3f3f : (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
  const std::uint32_t offset = first == 0 ? b & 0x3f3f3f3f : (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);
  const uint16x8_t both = vmovl_u8(vcreate_u8(scale | static_cast<std::uint64_t>(offset) << 32));
  quad.scale[0] = vmulq_n_f32(vcvtq_f32_u32(vmovl_u16(vget_low_u16(both))), half_value(block.d));
  quad.offset[0] = vmulq_n_f32(vcvtq_f32_u32(vmovl_high_u16(both)), half_value(block.dmin));
}

HEARTH_INLINE Quad quad(const Q4_K* block, int first) {
  Quad result;
  for (int i = 0; i < 4; i += 2)
    for (int half = 0; half < 2; ++half) {
      const u8x16 q = load_bytes(block->q + (first + i) * 16 + 16 * half);
      result.q[i][half] = as_signed(q & 15);
      result.q[i + 1][half] = as_signed(q >> 4);
    }
  set_factors(result, *block, first);
  return result;
}

HEARTH_INLINE Quad quad(const Q5_K* block, int first) {
  Quad result;
  for (int half = 0; half < 2; ++half) {
    const u8x16 high = load_bytes(block->high + 16 * half) >> first;
    for (int i = 0; i < 4; i += 2) {
      const u8x16 q = load_bytes(block->q + (first + i) * 16 + 16 * half);
      result.q[i][half] = as_signed((q & 15) | (high << (4 - i) & 16));
      result.q[i + 1][half] = as_signed(q >> 4 | (high << (3 - i) & 16));
    }
  }
  set_factors(result, *block, first);
  return result;
}

HEARTH_INLINE Quad quad(const Q6_K* block, int first) {
  Quad result;
  for (int half = 0; half < 2; ++half) {
    const u8x16 high = load_bytes(block->high + 8 * first + 16 * half);
    const u8x16 low0 = load_bytes(block->low + 16 * first + 16 * half),
                low1 = load_bytes(block->low + 16 * first + 32 + 16 * half);
    result.q[0][half] = as_signed((low0 & 15) | (high << 4 & 0x30));
    result.q[1][half] = as_signed((low1 & 15) | (high << 2 & 0x30));
    result.q[2][half] = as_signed(low0 >> 4 | (high & 0x30));
    result.q[3][half] = as_signed(low1 >> 4 | (high >> 2 & 0x30));
  }
  const int16x8_t scales = vmovl_s8(vld1_s8(block->scale + 2 * first));
  const float d = half_value(block->d);
  result.scale[0] = vmulq_n_f32(vcvtq_f32_s32(vmovl_s16(vget_low_s16(scales))), d);
  result.scale[1] = vmulq_n_f32(vcvtq_f32_s32(vmovl_high_s16(scales)), d);
  for (int i = 0; i < 2; ++i) result.offset[i] = vmulq_n_f32(result.scale[i], quad_zero<Q6_K>);
  return result;
}

}  // namespace hearth::cpu::HEARTH_ISA
