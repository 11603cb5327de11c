// Quantised weights that become numbers beside a product of others: wgmma.h has few waves to spare for it, so
// that they must do with few instructions.
#pragma once

#include "mma_chain.h"
#include "quantised.h"

namespace quantised {

// Byte i of a word as a number. Among other bits it is one itself, in f32, so many above the byte. Bytes of
// which some are below zero have their sign turned round before.
template <bool SIGNED>
struct ByteNumbers {
  static constexpr f32 above = SIGNED ? 32768.0f + 128.0f : 128.0f;
  static DEVICE f32 raised(u32 word, int i) {
    return bit_cast<f32>(SIGNED ? __byte_perm(word ^ 0x80808080u, 0x47000000u, 0x7404u | (u32)i << 4)
                                : __byte_perm(word, 0x43000000u, 0x7044u | (u32)i << 8));
  }
};

// Of formats with an offset q has at most seven bits, and what it was raised by goes into the offset.
template <class Format>
struct RunNumbers {
  using Bytes = ByteNumbers<!Format::has_offset>;
  const Run& run;
  f32 offset = 0;

  DEVICE explicit RunNumbers(const Run& from) : run(from) {
    if constexpr (Format::has_offset) offset = ::fmaf(-Bytes::above, run.scales.scale, -run.scales.offset);
  }
  DEVICE f32 operator[](int i) const {
    const f32 number = Bytes::raised(run.words.q[i / 4], i % 4);
    if constexpr (Format::has_offset)
      return ::fmaf(number, run.scales.scale, offset);
    else
      return (number - Bytes::above) * run.scales.scale;
  }
};

// Not to stay in a cache longer than it must: what is multiplied now is wanted there.
DEVICE void store_past(void* to, const Packet<u32, 4>& words) {
  asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(words.element[0]),
               "r"(words.element[1]), "r"(words.element[2]), "r"(words.element[3])
               : "memory");
}

// A pair's runs to their places among the numbers of its block.
template <class Format, class T>
DEVICE void write_pair(const typename Format::Pair& held, u32 pair, T* block) {
  constexpr u32 second = Format::second_run;
  T* const first = block + (pair / second * (2 * second) + pair % second) * 16;
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    const Run run{Format::words(held, (int)half), Format::scales(held, (int)half)};
    const RunNumbers<Format> numbers(run);
#pragma unroll
    for (int i = 0; i < 16; i += 8) {
      Packet<u32, 4> packet;
#pragma unroll
      for (int e = 0; e < 4; ++e)
        packet.element[e] = chain::pack(T{}, numbers[i + 2 * e], numbers[i + 2 * e + 1]);
      store_past(first + half * second * 16 + i, packet);
    }
  }
}

// All pairs of `blocks`, by some waves of each block of the grid.
template <class Format, class T>
struct ConvertBeside {
  static constexpr bool any = true;
  Blocks blocks;
  T* out;

  DEVICE void operator()(u32 wave, u32 waves) const {
    constexpr u32 pairs_in_block = Format::elements / 32;
    // Read before the first is written: as many as there are registers for.
    constexpr int at_once = sizeof(typename Format::Pair) <= 24   ? 4
                            : sizeof(typename Format::Pair) <= 40 ? 2
                                                                  : 1;
    const u32 pairs = (u32)blocks.count * pairs_in_block, step = gridDim.x * waves * WAVE;
    for (u32 first = (blockIdx.x * waves + wave) * WAVE + lane(); first < pairs; first += at_once * step) {
      typename Format::Pair held[at_once];
      const auto pair_at = [&](int a) { return first + a * step < pairs ? first + a * step : first; };
#pragma unroll
      for (int a = 0; a < at_once; ++a)
        held[a] = Format::pair(blocks, pair_at(a) / pairs_in_block, pair_at(a) % pairs_in_block);
#pragma unroll
      for (int a = 0; a < at_once; ++a)
        write_pair<Format>(held[a], pair_at(a) % pairs_in_block,
                           out + (u64)(pair_at(a) / pairs_in_block) * Format::elements);
    }
  }
};

}  // namespace quantised
