// Quantised weights that become numbers beside a product of others: wgmma.h has a wave to spare for it.
#pragma once

#include "quantised.h"

namespace quantised {

// A pair's runs to their places among the numbers of its block.
template <class Format, class T>
DEVICE void write_pair(const typename Format::Pair& held, u32 pair, T* block) {
  constexpr u32 second = Format::second_run;
  const u32 first = pair / second * (2 * second) + pair % second;
#pragma unroll
  for (u32 half = 0; half < 2; ++half)
    write_numbers<Format>({Format::words(held, (int)half), Format::scales(held, (int)half)},
                          block + (first + half * second) * 16);
}

// All pairs of `blocks`, by the waves that call this: one of each block of the grid.
template <class Format, class T>
struct ConvertBeside {
  static constexpr bool any = true;
  // Pairs that are read before the first is written: as many as there are registers for.
  static constexpr int at_once = sizeof(typename Format::Pair) <= 32 ? 4 : 2;
  Blocks blocks;
  T* out;

  DEVICE void operator()() const {
    constexpr u32 pairs_in_block = Format::elements / 32;
    const u64 pairs = blocks.count * pairs_in_block, step = (u64)gridDim.x * WAVE;
    for (u64 first = (u64)blockIdx.x * WAVE + lane(); first < pairs; first += at_once * step) {
      typename Format::Pair held[at_once];
      const auto pair_at = [&](int a) { return first + a * step < pairs ? first + a * step : first; };
#pragma unroll
      for (int a = 0; a < at_once; ++a)
        held[a] = Format::pair(blocks, pair_at(a) / pairs_in_block, (u32)(pair_at(a) % pairs_in_block));
#pragma unroll
      for (int a = 0; a < at_once; ++a)
        write_pair<Format>(held[a], (u32)(pair_at(a) % pairs_in_block),
                           out + pair_at(a) / pairs_in_block * Format::elements);
    }
  }
};

}  // namespace quantised
