// Formats of quantised weights, as kernels read them.
//
// Blocks lie in planes (gpu/block_planes.h): what is read in packets of 16 bytes is aligned to them. All
// formats are seen as pairs of runs of 16 neighbours that share packets: element = scale * q - offset, q in
// bytes. A format has
//   elements            of a block, 32 for each pair
//   first_plane         bytes of a block in the first plane, which has most of them
//   second_run          the second run of a pair comes so many after its first
//   Pair, pair()        a pair as it lies in memory: to take it apart is to wait for it. Where it is read
//                       from may have a packet() of its own.
//   words(pair, half)   the q of one of its runs
//   scales(pair, half)  that run's scale and offset
//   pairs_share_scales  pairs 2 i and 2 i + 1 have the same; sub_blocks(pair) is what those are made of
//   nibbles             the q of a pair are the lower and the upper four bits of its bytes `q`, and nothing
//   else zero                the q of 0, where there is one: the offset is a multiple of the scale then
//   middle              of all q, where there is none
#pragma once

#include "gpu.h"

namespace quantised {

DEVICE Packet<u32, 4> packet(const u8* at) { return *reinterpret_cast<const Packet<u32, 4>*>(at); }

struct Blocks {
  const u8* data;
  u64 count;
  // Where a block's part of a plane is: its offset in a block, and its size.
  DEVICE const u8* part(u64 block, u32 before, u32 size) const {
    return data + count * before + block * size;
  }
  static DEVICE Packet<u32, 4> packet(const u8* at) { return quantised::packet(at); }
};

struct Scales {
  f32 scale, offset;
};
struct RunWords {
  u32 q[4];
};
// Of two sub-blocks: sub_fields(), and what these are multiplied with.
struct SubBlocks {
  u32 fields;
  f32 scale, offset;
};

DEVICE u32 word(const u8* at) { return *reinterpret_cast<const u32*>(at); }
DEVICE u32 half_word(const u8* at) { return *reinterpret_cast<const u16*>(at); }
DEVICE f32 half_of(u32 bits) { return to_f32(f16{(u16)bits}); }
// Four bits as the given bit of four bytes.
template <int BIT>
DEVICE u32 spread(u32 bits) {
  return ((bits & 15) * 0x00204081u & 0x01010101u) << BIT;
}
// The bits from `shift` on that `mask` has in every byte.
DEVICE RunWords cut(const Packet<u32, 4>& from, u32 shift, u32 mask) {
  RunWords run;
#pragma unroll
  for (int i = 0; i < 4; ++i) run.q[i] = from.element[i] >> shift & mask;
  return run;
}
// The same bits of `high`, put above those of `run`.
template <int PLACE>
DEVICE void put_above(RunWords& run, const Packet<u32, 4>& high, u32 shift, u32 mask) {
#pragma unroll
  for (int i = 0; i < 4; ++i) run.q[i] |= (high.element[i] >> shift & mask) << PLACE;
}

// ---- blocks of 32: one pair, of neighbours ----

struct Small {
  static constexpr int elements = 32;
  static constexpr u32 first_plane = 16;
  static constexpr u32 second_run = 1;
  static constexpr bool pairs_share_scales = false, nibbles = false;
};

struct q4_0 : Small {
  static constexpr bool nibbles = true;
  static constexpr bool has_offset = true;
  static constexpr int zero = 8;
  struct Pair {
    Packet<u32, 4> q;
    u32 d;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32) {
    return {blocks.packet(blocks.part(block, 0, first_plane)), half_word(blocks.part(block, 16, 2))};
  }
  static DEVICE RunWords words(const Pair& pair, int half) { return cut(pair.q, 4 * half, 0x0f0f0f0fu); }
  static DEVICE Scales scales(const Pair& pair, int) {
    const f32 d = half_of(pair.d);
    return {d, 8 * d};
  }
};
struct q4_1 : Small {
  static constexpr bool nibbles = true;
  static constexpr bool has_offset = true;
  static constexpr int zero = 0, middle = 8;
  struct Pair {
    Packet<u32, 4> q;
    u32 d;  // scale and least element
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32) {
    return {blocks.packet(blocks.part(block, 0, first_plane)), word(blocks.part(block, 16, 4))};
  }
  static DEVICE RunWords words(const Pair& pair, int half) { return cut(pair.q, 4 * half, 0x0f0f0f0fu); }
  static DEVICE Scales scales(const Pair& pair, int) { return {half_of(pair.d), -half_of(pair.d >> 16)}; }
};
// The fifth bits of q5_0 and q5_1.
DEVICE RunWords with_fifth_bits(RunWords run, u32 high) {
#pragma unroll
  for (int i = 0; i < 4; ++i) run.q[i] |= spread<4>(high >> 4 * i);
  return run;
}
struct q5_0 : Small {
  static constexpr bool has_offset = true;
  static constexpr int zero = 16;
  struct Pair {
    Packet<u32, 4> q;
    u32 high, d;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32) {
    return {blocks.packet(blocks.part(block, 0, first_plane)), word(blocks.part(block, 16, 4)),
            half_word(blocks.part(block, 20, 2))};
  }
  static DEVICE RunWords words(const Pair& pair, int half) {
    return with_fifth_bits(cut(pair.q, 4 * half, 0x0f0f0f0fu), pair.high >> 16 * half);
  }
  static DEVICE Scales scales(const Pair& pair, int) {
    const f32 d = half_of(pair.d);
    return {d, 16 * d};
  }
};
struct q5_1 : Small {
  static constexpr bool has_offset = true;
  static constexpr int zero = 0, middle = 16;
  struct Pair {
    Packet<u32, 4> q;
    u32 high, d;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32) {
    return {blocks.packet(blocks.part(block, 0, first_plane)), word(blocks.part(block, 16, 4)),
            word(blocks.part(block, 20, 4))};
  }
  static DEVICE RunWords words(const Pair& pair, int half) {
    return q5_0::words({pair.q, pair.high, 0}, half);
  }
  static DEVICE Scales scales(const Pair& pair, int) { return {half_of(pair.d), -half_of(pair.d >> 16)}; }
};
struct q8_0 : Small {
  static constexpr u32 first_plane = 32;
  static constexpr bool has_offset = false;
  static constexpr int zero = 0;
  struct Pair {
    Packet<u32, 4> q[2];
    u32 d;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32) {
    const u8* at = blocks.part(block, 0, first_plane);
    return {{blocks.packet(at), blocks.packet(at + 16)}, half_word(blocks.part(block, 32, 2))};
  }
  static DEVICE RunWords words(const Pair& pair, int half) {
    RunWords run;  // chosen, not indexed: an index that only the kernel knows would put the pair into memory
#pragma unroll
    for (int i = 0; i < 4; ++i) run.q[i] = half ? pair.q[1].element[i] : pair.q[0].element[i];
    return run;
  }
  static DEVICE Scales scales(const Pair& pair, int) { return {half_of(pair.d), 0}; }
};

// Sixteen numbers of 8 bits, and four of their places, as bytes.
template <u64 LOW, u64 HIGH>
DEVICE u32 look_up(u32 places) {
#ifdef HEARTH_AMD
  const u32 inside = places & 0x07070707u;
  const u32 low = __builtin_amdgcn_perm((u32)(LOW >> 32), (u32)LOW, inside);
  const u32 high = __builtin_amdgcn_perm((u32)(HIGH >> 32), (u32)HIGH, inside);
  return __builtin_amdgcn_perm(high, low, 0x03020100u + (places >> 1 & 0x04040404u));
#else
  const u32 packed = __byte_perm(places | places >> 4, 0, 0x0020), inside = packed & 0x7777u;
  const u32 low = __byte_perm((u32)LOW, (u32)(LOW >> 32), inside);
  const u32 high = __byte_perm((u32)HIGH, (u32)(HIGH >> 32), inside);
  return __byte_perm(low, high, 0x3210u + (packed >> 1 & 0x4444u));
#endif
}
// Of halves of bytes as places.
template <u64 LOW, u64 HIGH>
DEVICE RunWords look_up(const Packet<u32, 4>& from, u32 shift) {
  RunWords run = cut(from, shift, 0x0f0f0f0fu);
#pragma unroll
  for (int i = 0; i < 4; ++i) run.q[i] = look_up<LOW, HIGH>(run.q[i]);
  return run;
}
struct iq4_nl : Small {
  static constexpr bool has_offset = false;
  static constexpr int zero = 0;
  using Pair = q4_0::Pair;
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32 index) {
    return q4_0::pair(blocks, block, index);
  }
  static DEVICE RunWords words(const Pair& pair, int half) {  // -127 -104 -83 ... -10, 1 13 ... 113
    return look_up<0xf6eaddcfbfad9881u, 0x7159453526190d01u>(pair.q, 4 * half);
  }
  static DEVICE Scales scales(const Pair& pair, int) { return {half_of(pair.d), 0}; }
};
struct mxfp4 : Small {
  static constexpr bool has_offset = false;
  static constexpr int zero = 0;
  struct Pair {
    Packet<u32, 4> q;
    u32 e;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32) {
    return {blocks.packet(blocks.part(block, 0, first_plane)), *blocks.part(block, 16, 1)};
  }
  static DEVICE RunWords words(const Pair& pair, int half) {  // 0 1 2 3 4 6 8 12, and the same below zero
    return look_up<0x0c08060403020100u, 0xf4f8fafcfdfeff00u>(pair.q, 4 * half);
  }
  static DEVICE Scales scales(const Pair& pair, int) {  // 2 ^ (e - 128)
    const u32 bits = pair.e < 2 ? 0x00200000u << pair.e : (pair.e - 1) << 23;
    return {bit_cast<f32>(bits), 0};
  }
};

// ---- blocks of 256: eight pairs ----

// Sixteen runs with a scale each; those of a pair are two apart, at places 0, 1, 4, 5, ...
DEVICE u32 run_of_two_apart(u32 pair) { return pair / 2 * 4 + pair % 2; }

struct q2_k {
  static constexpr int elements = 256;
  static constexpr u32 first_plane = 80;
  static constexpr u32 second_run = 2;
  static constexpr bool has_offset = true, pairs_share_scales = false, nibbles = false;
  static constexpr int zero = 0, middle = 2;
  struct Pair {
    Packet<u32, 4> q;
    u32 scales;  // of four runs
    u32 d;
    u32 run;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32 index) {
    const u8* at = blocks.part(block, 0, first_plane);
    const u32 run = run_of_two_apart(index);
    return {blocks.packet(at + 16 + run / 8 * 32 + run % 2 * 16), word(at + run / 4 * 4),
            word(blocks.part(block, 80, 4)), run};
  }
  static DEVICE RunWords words(const Pair& pair, int half) {
    return cut(pair.q, pair.run / 2 % 4 * 2 + 2 * half, 0x03030303u);
  }
  static DEVICE Scales scales(const Pair& pair, int half) {
    const u32 scale = pair.scales >> 8 * (pair.run % 4 + 2 * half);
    return {half_of(pair.d) * (f32)(scale & 15), half_of(pair.d >> 16) * (f32)(scale >> 4 & 15)};
  }
};
struct q3_k {
  static constexpr int elements = 256;
  static constexpr u32 first_plane = 96;
  static constexpr u32 second_run = 2;
  static constexpr bool has_offset = true, pairs_share_scales = false, nibbles = false;
  static constexpr int zero = 4;
  struct Pair {
    Packet<u32, 4> q, high;
    u32 low, more;  // bits of the scales of runs
    u32 d;
    u32 run;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32 index) {
    const u8* at = blocks.part(block, 0, first_plane);
    const u32 run = run_of_two_apart(index);
    const u8* scales = blocks.part(block, 96, 12);
    return {blocks.packet(at + 32 + run / 8 * 32 + run % 2 * 16),
            blocks.packet(at + run % 2 * 16),
            word(scales + run / 4 % 2 * 4),
            word(scales + 8),
            half_word(blocks.part(block, 108, 2)),
            run};
  }
  static DEVICE RunWords words(const Pair& pair, int half) {
    const u32 run = pair.run + 2 * half;
    RunWords words = cut(pair.q, run / 2 % 4 * 2, 0x03030303u);
    put_above<2>(words, pair.high, run / 2, 0x01010101u);
    return words;
  }
  static DEVICE Scales scales(const Pair& pair, int half) {
    const u32 run = pair.run + 2 * half, byte = run % 4 * 8;
    const u32 scale = (pair.low >> (byte + run / 8 * 4) & 15) | (pair.more >> (byte + run / 4 * 2) & 3) << 4;
    const f32 d = half_of(pair.d) * (f32)((i32)scale - 32);
    return {d, 4 * d};
  }
};
// Byte number `which` of three words, side by side; the fourth byte counts for nothing.
DEVICE u32 byte_of_each(u32 first, u32 second, u32 third, u32 which) {
#ifdef HEARTH_AMD
  const u32 two = __builtin_amdgcn_perm(second, first, which | (which + 4) << 8 | 0x0c0c0000u);
  return __builtin_amdgcn_perm(third, two, 0x0c000100u | (which + 4) << 16);
#else
  const u32 two = __byte_perm(first, second, which | (which + 4) << 4);
  return __byte_perm(two, third, 0x0010u | (which + 4) << 8);
#endif
}
// The scale of sub-block `sub`, of the one behind it, and their offsets, six bits each from the lowest on;
// from the first 16 bytes of a block of q4_k or q5_k. `sub` is even. (Their order is gpu/block_planes.cpp's.)
DEVICE u32 sub_fields(const Packet<u32, 4>& head, u32 sub) {
  return byte_of_each(head.element[1], head.element[2], head.element[3], sub / 2);
}
DEVICE SubBlocks sub_blocks_of(const Packet<u32, 4>& head, u32 sub) {
  return {sub_fields(head, sub), half_of(head.element[0]), half_of(head.element[0] >> 16)};
}
DEVICE Scales sub_scales(const Packet<u32, 4>& head, u32 sub, int half) {
  const SubBlocks of = sub_blocks_of(head, sub);
  const u32 fields = of.fields >> 6 * half;
  return {of.scale * (f32)(fields & 63), of.offset * (f32)(fields >> 12 & 63)};
}
struct q4_k {
  static constexpr int elements = 256;
  static constexpr u32 first_plane = 144;
  static constexpr u32 second_run = 2;
  static constexpr bool has_offset = true, pairs_share_scales = true, nibbles = true;
  static constexpr int zero = 0, middle = 8;
  struct Pair {
    Packet<u32, 4> q, head;
    u32 sub;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32 index) {
    const u8* at = blocks.part(block, 0, first_plane);
    return {blocks.packet(at + 16 + index * 16), blocks.packet(at), index / 2 * 2};
  }
  static DEVICE RunWords words(const Pair& pair, int half) { return cut(pair.q, 4 * half, 0x0f0f0f0fu); }
  static DEVICE Scales scales(const Pair& pair, int half) { return sub_scales(pair.head, pair.sub, half); }
  static DEVICE SubBlocks sub_blocks(const Pair& pair) { return sub_blocks_of(pair.head, pair.sub); }
};
struct q5_k {
  static constexpr int elements = 256;
  static constexpr u32 first_plane = 176;
  static constexpr u32 second_run = 2;
  static constexpr bool has_offset = true, pairs_share_scales = true, nibbles = false;
  static constexpr int zero = 0, middle = 16;
  struct Pair {
    Packet<u32, 4> q, high, head;
    u32 sub;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32 index) {
    const u8* at = blocks.part(block, 0, first_plane);
    return {blocks.packet(at + 48 + index * 16), blocks.packet(at + 16 + index % 2 * 16), blocks.packet(at),
            index / 2 * 2};
  }
  static DEVICE RunWords words(const Pair& pair, int half) {
    RunWords words = cut(pair.q, 4 * half, 0x0f0f0f0fu);
    put_above<4>(words, pair.high, pair.sub + half, 0x01010101u);
    return words;
  }
  static DEVICE Scales scales(const Pair& pair, int half) { return sub_scales(pair.head, pair.sub, half); }
  static DEVICE SubBlocks sub_blocks(const Pair& pair) { return sub_blocks_of(pair.head, pair.sub); }
};
struct q6_k {
  static constexpr int elements = 256;
  static constexpr u32 first_plane = 208;
  static constexpr u32 second_run = 4;
  static constexpr bool has_offset = true, pairs_share_scales = false, nibbles = false;
  static constexpr int zero = 32;
  struct Pair {
    Packet<u32, 4> low, high;
    Packet<u32, 2> scales;  // of four runs each
    u32 d;
    u32 index;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32 index) {
    const u8* at = blocks.part(block, 0, first_plane);
    return {blocks.packet(at + index * 16), blocks.packet(at + 128 + index / 4 * 32 + index % 2 * 16),
            *reinterpret_cast<const Packet<u32, 2>*>(at + 192 + index / 4 * 8),
            half_word(blocks.part(block, 208, 2)), index};
  }
  static DEVICE RunWords words(const Pair& pair, int half) {
    RunWords words = cut(pair.low, 4 * half, 0x0f0f0f0fu);
    put_above<4>(words, pair.high, pair.index % 4 / 2 * 2 + 4 * half, 0x03030303u);
    return words;
  }
  static DEVICE Scales scales(const Pair& pair, int half) {
    const u32 scales = half ? pair.scales.element[1] : pair.scales.element[0];
    const f32 d = half_of(pair.d) * (f32)(i32)(i8)(scales >> pair.index % 4 * 8);
    return {d, 32 * d};
  }
};

struct iq4_xs {
  static constexpr int elements = 256;
  static constexpr u32 first_plane = 128;
  static constexpr u32 second_run = 1;
  static constexpr bool has_offset = false, pairs_share_scales = false, nibbles = false;
  static constexpr int zero = 0;
  struct Pair {
    Packet<u32, 4> q;
    Packet<u32, 2> head;  // d and high bits of the scales, low bits of them
    u32 index;
  };
  template <class From>
  static DEVICE Pair pair(const From& blocks, u64 block, u32 index) {
    return {blocks.packet(blocks.part(block, 0, first_plane) + index * 16),
            *reinterpret_cast<const Packet<u32, 2>*>(blocks.part(block, 128, 8)), index};
  }
  static DEVICE RunWords words(const Pair& pair, int half) { return iq4_nl::words({pair.q, 0}, half); }
  static DEVICE Scales scales(const Pair& pair, int) {
    const u32 d = pair.head.element[0], low = pair.head.element[1];
    const u32 scale = (low >> 4 * pair.index & 15) | (d >> (16 + 2 * pair.index) & 3) << 4;
    return {half_of(d) * (f32)((i32)scale - 32), 0};
  }
};

// ---- runs ----

// Which of the pairs of a row (or of a block) a run belongs to, and as which half.
struct RunPlace {
  u32 pair, half;
};
template <class Format>
DEVICE RunPlace place_of(u32 run) {
  constexpr u32 second = Format::second_run;
  return {run / (2 * second) * second + run % second, run / second % 2};
}

struct Run {
  RunWords words;
  Scales scales;
};
template <class Format>
DEVICE Run run_of(const Blocks& blocks, u64 block, u32 run) {
  const RunPlace place = place_of<Format>(run);
  const auto pair = Format::pair(blocks, block, place.pair);
  return {Format::words(pair, (int)place.half), Format::scales(pair, (int)place.half)};
}

// q is signed where a format has bytes of all values, and small elsewhere. Where some q stands for zero, the
// offset is not needed, and without it zeros get the right sign.
template <class Format>
DEVICE f32 number(const Run& run, int i) {
  const i32 q = (i32)(i8)(run.words.q[i / 4] >> i % 4 * 8) - Format::zero;
  return fmaf(run.scales.scale, (f32)q, Format::zero ? -0.0f : -run.scales.offset);
}

// ---- runs as f16 ----

struct Halves {
  u32 pair[8];
};

// A run's scale, twice, and the number of q's middle, twice, where a format has such an offset.
struct HalfScales {
  u32 scale, middle;
};

// Formats of which no q stands for 0 are given by the number of q's middle.
template <class Format>
constexpr bool has_middle = Format::has_offset&& Format::zero == 0;
// What is taken from q before it is scaled.
template <class Format>
DEVICE constexpr u32 half_zero() {
  if constexpr (has_middle<Format>) return Format::middle;
  return Format::has_offset ? Format::zero : 128;  // signed bytes lie 128 higher
}

// Scale and offset are rounded to f16 before they are applied, the offset as that of q's middle: what is near
// zero keeps small errors.
template <class Format>
DEVICE HalfScales half_scales_of(const Scales& scales) {
  HalfScales halves{f16_pair(scales.scale, scales.scale), 0};
  if constexpr (has_middle<Format>) {
    const f32 middle = fmaf((f32)Format::middle, scales.scale, -scales.offset);
    halves.middle = f16_pair(middle, middle);
  }
  return halves;
}

// (value & mask) | more. Both constants would not fit into one instruction; the compiler would take two
// rather than keep one of them in a register.
DEVICE u32 and_or(u32 value, u32 mask, u32 more) {
#ifdef HEARTH_AMD
  return (value & mask) | more;
#else
  u32 result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(value), "r"(mask), "r"(more));
  return result;
#endif
}

// The lower (0) or upper (1) of the two f16 of a word, twice.
template <int HALF>
DEVICE u32 twice(u32 pair) {
#ifdef HEARTH_AMD
  return __builtin_amdgcn_perm(pair, pair, 0x01000100u + HALF * 0x02020202u);
#else
  return __byte_perm(pair, pair, 0x1010u + HALF * 0x2222u);
#endif
}

// Two bytes of a word, from number FIRST on, as the numbers 1024 + byte in f16.
template <int FIRST>
DEVICE u32 above_1024(u32 bytes) {
#ifdef HEARTH_AMD
  return __builtin_amdgcn_perm(0x64646464u, bytes, 0x04010400u + FIRST * 0x00010001u);
#else
  return __byte_perm(bytes, 0x64646464u, 0x4140u + FIRST * 0x0101u);
#endif
}

// Of both runs of a pair.
struct PairHalfScales {
  HalfScales of[2];
};
template <class Format>
DEVICE PairHalfScales half_scales(const typename Format::Pair& pair) {
  if constexpr (same_type<Format, q4_k> || same_type<Format, q5_k>) {
    // In f16 throughout, for both runs at once.
    constexpr u32 middle = Format::middle == 8 ? 0x48004800u : 0x4c004c00u;  // as f16
    const u32 fields = sub_fields(pair.head, pair.sub);
    const u32 d = twice<0>(pair.head.element[0]), dmin = twice<1>(pair.head.element[0]);
    // Two fields behind 0x64 each: 1024 + what they are.
    const auto above = [](u32 first, u32 second) {
      return and_or(first, 63, 0x64006400u) | (second & 63u << 16);
    };
    const u32 q = add_f16_pairs(above(fields, fields << 10), 0xe400e400u);
    const u32 minus_offset =
        multiply_add_f16_pairs(above(fields >> 12, fields >> 2), 0xbc00bc00u, 0x64006400u);
    const u32 scales = multiply_f16_pairs(q, d);
    const u32 middles =
        multiply_add_f16_pairs(multiply_f16_pairs(q, middle), d, multiply_f16_pairs(minus_offset, dmin));
    return {{{twice<0>(scales), twice<0>(middles)}, {twice<1>(scales), twice<1>(middles)}}};
  }
  return {{half_scales_of<Format>(Format::scales(pair, 0)), half_scales_of<Format>(Format::scales(pair, 1))}};
}

// The numbers of two q, given as q - half_zero.
template <class Format>
DEVICE u32 scaled_halves(u32 q, const HalfScales& scales) {
  return has_middle<Format> ? multiply_add_f16_pairs(q, scales.scale, scales.middle)
                            : multiply_f16_pairs(q, scales.scale);
}

// What number() gives, without a conversion per element.
template <class Format>
DEVICE Halves halves_of(const RunWords& words, const HalfScales& scales) {
  constexpr u32 minus_zero = (0xe400u + half_zero<Format>()) * 0x00010001u;  // -1024 - zero
  Halves halves;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const u32 bytes = Format::has_offset ? words.q[i / 2] : words.q[i / 2] ^ 0x80808080u;
    const u32 q = add_f16_pairs(i % 2 == 0 ? above_1024<0>(bytes) : above_1024<2>(bytes), minus_zero);
    halves.pair[i] = scaled_halves<Format>(q, scales);
  }
  return halves;
}

// ---- runs as f16 in an order of their own ----

// Where the order of K is free, formats whose q are halves of bytes need fewer instructions with bytes 0 and
// 2 of a word side by side, then 1 and 3.
template <class Format>
constexpr bool crossed = same_type<Format, q4_0> || same_type<Format, q4_1> || same_type<Format, q4_k>;

// Where element k of a run lies.
template <class Format>
DEVICE u32 crossed_place(u32 k) {
  return crossed<Format> ? (k & ~3u) + k % 2 * 2 + k / 2 % 2 : k;
}

template <class Format>
DEVICE Halves crossed_halves(const typename Format::Pair& pair, int half, const HalfScales& scales) {
  if constexpr (crossed<Format>) {
    // Behind 0x64 the lower half of a byte is 1024 + q, the upper one 1024 + 16 q.
    constexpr u32 zero = half_zero<Format>();
    constexpr u32 minus_zero = (0xe400u + zero) * 0x00010001u, sixteenth = 0x2c002c00u;
    constexpr u32 minus_64_zero = (0xd400u + zero * 16) * 0x00010001u;  // -64 - zero
    Halves halves;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const u32 bytes = pair.q.element[i / 2] >> i % 2 * 8;
      const u32 q = half == 0 ? add_f16_pairs(and_or(bytes, 0x000f000fu, 0x64006400u), minus_zero)
                              : multiply_add_f16_pairs(and_or(bytes, 0x00f000f0u, 0x64006400u), sixteenth,
                                                       minus_64_zero);
      halves.pair[i] = scaled_halves<Format>(q, scales);
    }
    return halves;
  }
  return halves_of<Format>(Format::words(pair, half), scales);
}

}  // namespace quantised
