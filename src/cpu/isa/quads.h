// Four pieces of quantised weights at once, for NEON.
//
// Scales of four pieces are one vector, so that unpacking them, and scaling sums, costs an instruction where
// it would cost four.
#pragma once

#include "cpu/isa/pieces.h"

namespace hearth::cpu::HEARTH_ISA {

// Of formats with one piece in a block, the pieces of four columns: element = scale * q - offset.
struct Quad {
  i8x16 q[4][2];
  float32x4_t scale, offset;
};

// A format without a function of its own is put together from its pieces.
template <typename Block>
HEARTH_INLINE Quad quad(const Block& a, const Block& b, const Block& c, const Block& d) {
  const Piece piece[] = {unpack(a, 0), unpack(b, 0), unpack(c, 0), unpack(d, 0)};
  Quad result;
  for (int i = 0; i < 4; ++i) {
    for (int half = 0; half < 2; ++half) result.q[i][half] = piece[i].q[half];
    result.scale[i] = piece[i].scale[0];
    result.offset[i] = piece[i].offset[0];
  }
  return result;
}

HEARTH_INLINE float32x4_t half_values(std::uint64_t a, std::uint64_t b, std::uint64_t c, std::uint64_t d) {
  return vcvt_f32_f16(vreinterpret_f16_u64(vcreate_u64(a | b << 16 | c << 32 | d << 48)));
}

HEARTH_INLINE Quad quad(const Q8_0& a, const Q8_0& b, const Q8_0& c, const Q8_0& d) {
  Quad result;
  const Q8_0* const blocks[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i)
    for (int half = 0; half < 2; ++half) result.q[i][half] = as_signed(load_bytes(blocks[i]->q + 16 * half));
  result.scale = half_values(a.d, b.d, c.d, d.d);
  return result;
}

// Its numbers stay unsigned: taking away 8 is left to the product.
HEARTH_INLINE Quad quad(const Q4_0& a, const Q4_0& b, const Q4_0& c, const Q4_0& d) {
  Quad result;
  const Q4_0* const blocks[] = {&a, &b, &c, &d};
  for (int i = 0; i < 4; ++i) {
    const u8x16 q = load_bytes(blocks[i]->q);
    result.q[i][0] = as_signed(q & 15);
    result.q[i][1] = as_signed(q >> 4);
  }
  result.scale = half_values(a.d, b.d, c.d, d.d);
  return result;
}

// Of formats with eight pieces, four neighbours: element = d * scale * q - dmin * offset. Formats with a
// scale for each half of a piece have those of pieces 0 and 1 first, of 2 and 3 next.
struct NeighbourQuad {
  i8x16 q[4][2];
  int32x4_t scale[2], offset[2];
};

template <typename Block>
constexpr bool quad_has_offset = has_offset<Block> || std::is_same_v<Block, Q6_K>;

struct BlockScales {
  float d, dmin;
};
template <typename Block>
HEARTH_INLINE BlockScales block_scales(const Block& block) {
  return {half_value(block.d), half_value(block.dmin)};
}
HEARTH_INLINE BlockScales block_scales(const Q3_K& block) { return {half_value(block.d), 0}; }
HEARTH_INLINE BlockScales block_scales(const IQ4_XS& block) { return {half_value(block.d), 0}; }
// Its numbers stay unsigned: an offset of 32 * scale takes away what stands for 0.
HEARTH_INLINE BlockScales block_scales(const Q6_K& block) {
  const float d = half_value(block.d);
  return {d, 32 * d};
}

HEARTH_INLINE std::uint32_t four_bytes(const void* from) {
  std::uint32_t result;
  std::memcpy(&result, from, sizeof result);
  return result;
}

HEARTH_INLINE void widen(uint8x8_t from, int32x4_t (&to)[2]) {
  const uint16x8_t all = vmovl_u8(from);
  to[0] = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(all)));
  to[1] = vreinterpretq_s32_u32(vmovl_high_u16(all));
}
HEARTH_INLINE void widen(int8x8_t from, int32x4_t (&to)[2]) {
  const int16x8_t all = vmovl_s8(from);
  to[0] = vmovl_s16(vget_low_s16(all));
  to[1] = vmovl_high_s16(all);
}

HEARTH_INLINE NeighbourQuad quad(const Q2_K& block, int first) {
  NeighbourQuad result;
  for (int half = 0; half < 2; ++half) {
    const u8x16 q = load_bytes(block.q + 8 * first + 16 * half);
    for (int i = 0; i < 4; ++i) result.q[i][half] = as_signed(q >> 2 * i & 3);
  }
  const uint8x8_t both = vld1_u8(block.scale + 2 * first);
  widen(vand_u8(both, vdup_n_u8(15)), result.scale);
  widen(vshr_n_u8(both, 4), result.offset);
  return result;
}

HEARTH_INLINE NeighbourQuad quad(const Q3_K& block, int first) {
  NeighbourQuad result;
  for (int half = 0; half < 2; ++half) {
    const u8x16 q = load_bytes(block.q + 8 * first + 16 * half);
    const u8x16 high = load_bytes(block.high + 16 * half) >> first;
    for (int i = 0; i < 4; ++i)
      result.q[i][half] = as_signed((q >> 2 * i & 3) | (high >> i & 1) << 2) - static_cast<std::int8_t>(4);
  }
  const uint8x8_t low = vld1_u8(block.scale);
  const uint8x8_t high = vreinterpret_u8_u32(vdup_n_u32(four_bytes(block.scale + 8)));
  constexpr std::int8_t shifts[2][8] = {{0, 0, 0, 0, -2, -2, -2, -2}, {-4, -4, -4, -4, -6, -6, -6, -6}};
  const uint8x8_t four = first == 0 ? vand_u8(low, vdup_n_u8(15)) : vshr_n_u8(low, 4);
  const uint8x8_t two = vand_u8(vshl_u8(high, vld1_s8(shifts[first / 4])), vdup_n_u8(3));
  widen(vsub_s8(vreinterpret_s8_u8(vorr_u8(four, vshl_n_u8(two, 4))), vdup_n_s8(32)), result.scale);
  return result;
}

// Of Q4_K and Q5_K, pieces `first` to first + 3: four numbers of 6 bits for the scales, four for the offsets.
HEARTH_INLINE void set_scales(NeighbourQuad& quad, const std::uint8_t* bytes, int first) {
  const std::uint32_t a = four_bytes(bytes), b = four_bytes(bytes + 4), c = four_bytes(bytes + 8);
  const std::uint32_t scale = first == 0 ? a & 0x3f3f3f3f : (c & 0x0f0f0f0f) | (a >> 2 & 0x30303030);
  const std::uint32_t offset = first == 0 ? b & 0x3f3f3f3f : (c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030);
  int32x4_t both[2];
  widen(vcreate_u8(scale | static_cast<std::uint64_t>(offset) << 32), both);
  quad.scale[0] = both[0];
  quad.offset[0] = both[1];
}

HEARTH_INLINE NeighbourQuad quad(const Q4_K& block, int first) {
  NeighbourQuad result;
  for (int i = 0; i < 4; i += 2)
    for (int half = 0; half < 2; ++half) {
      const u8x16 q = load_bytes(block.q + (first + i) * 16 + 16 * half);
      result.q[i][half] = as_signed(q & 15);
      result.q[i + 1][half] = as_signed(q >> 4);
    }
  set_scales(result, block.scale, first);
  return result;
}

HEARTH_INLINE NeighbourQuad quad(const Q5_K& block, int first) {
  NeighbourQuad result;
  for (int half = 0; half < 2; ++half) {
    const u8x16 high = load_bytes(block.high + 16 * half) >> first;
    for (int i = 0; i < 4; i += 2) {
      const u8x16 q = load_bytes(block.q + (first + i) * 16 + 16 * half);
      result.q[i][half] = as_signed((q & 15) | (high << (4 - i) & 16));
      result.q[i + 1][half] = as_signed(q >> 4 | (high << (3 - i) & 16));
    }
  }
  set_scales(result, block.scale, first);
  return result;
}

HEARTH_INLINE NeighbourQuad quad(const Q6_K& block, int first) {
  NeighbourQuad result;
  for (int half = 0; half < 2; ++half) {
    const u8x16 high = load_bytes(block.high + 8 * first + 16 * half);
    const u8x16 low0 = load_bytes(block.low + 16 * first + 16 * half),
                low1 = load_bytes(block.low + 16 * first + 32 + 16 * half);
    result.q[0][half] = as_signed((low0 & 15) | (high << 4 & 0x30));
    result.q[1][half] = as_signed((low1 & 15) | (high << 2 & 0x30));
    result.q[2][half] = as_signed(low0 >> 4 | (high & 0x30));
    result.q[3][half] = as_signed(low1 >> 4 | (high >> 2 & 0x30));
  }
  widen(vld1_s8(block.scale + 2 * first), result.scale);
  for (int i = 0; i < 2; ++i) result.offset[i] = result.scale[i];
  return result;
}

HEARTH_INLINE NeighbourQuad quad(const IQ4_XS& block, int first) {
  NeighbourQuad result;
  for (int i = 0; i < 4; ++i) {
    const u8x16 q = load_bytes(block.q + 16 * (first + i));
    result.q[i][0] = look_up(iq4_nl_numbers, q & 15);
    result.q[i][1] = look_up(iq4_nl_numbers, q >> 4);
    result.scale[0][i] = sub_scale_number(block, first + i);
  }
  return result;
}

}  // namespace hearth::cpu::HEARTH_ISA
