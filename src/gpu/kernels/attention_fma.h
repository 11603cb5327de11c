// Attention's products by multiply-adds in f32: for f32, and for chips without a matrix unit.
#pragma once

#include "attention_tiles.h"

namespace attention {

// 256 threads, 16 down and 16 across. A thread has one own row in 16, one other in 16, and four features in a
// row out of 64.
template <class Type, int FEATURES, int OWN_TILES, int OTHERS, bool TOGETHER>
struct FmaEngine {
  using T = Type;
  using Element = f32;
  static constexpr int threads = 256, own = OWN_TILES * 16, others = OTHERS, features = FEATURES;
  static constexpr int slots = OWN_TILES;
  static constexpr bool transposes = false, together = TOGETHER;
  static constexpr int row_stride = FEATURES + 4, weight_stride = OTHERS + 4;
  static constexpr int own_size = own * row_stride, first_size = OTHERS * row_stride,
                       second_size = first_size;
  static constexpr bool holds = false;
  static constexpr int run = 4;
  static_assert(FEATURES % 64 == 0 && OTHERS % 16 == 0, "whole parts");

  static DEVICE int down() { return (int)threadIdx.x / 16; }
  static DEVICE int across() { return (int)threadIdx.x % 16; }
  static DEVICE int first_row() { return 0; }
  static constexpr int wave_rows = own;
  static DEVICE int own_row(int slot) { return slot * 16 + down(); }

  static DEVICE bool first_of_row() { return across() == 0; }

  struct Scores {
    f32 value[OWN_TILES][OTHERS / 16];
    template <class F>
    DEVICE void each(const F& f) {
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r)
#pragma unroll
        for (int j = 0; j < OTHERS / 16; ++j) f(r, j * 16 + across(), value[r][j]);
    }
    template <class F>
    DEVICE void each2(Scores& that, const F& f) {
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r)
#pragma unroll
        for (int j = 0; j < OTHERS / 16; ++j) f(r, j * 16 + across(), value[r][j], that.value[r][j]);
    }
  };
  struct Sums {
    f32 value[OWN_TILES][FEATURES / 16];
    DEVICE void clear() {
      each([](int, int, f32& value) { value = 0; });
    }
    template <class F>
    DEVICE void each_run(const F& f) {
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r)
#pragma unroll
        for (int j = 0; j < FEATURES / 16; j += run) f(r, j / 4 * 64 + across() * 4, value[r] + j);
    }
    template <class F>
    DEVICE void each(const F& f) {
      each_run([&](int slot, int column, f32* values) {
#pragma unroll
        for (int i = 0; i < run; ++i) f(slot, column + i, values[i]);
      });
    }
  };
  struct Own {
    const f32* tile;
    DEVICE explicit Own(const f32* from) : tile(from) {}
  };

  template <bool PACKETS, class Source>
  static DEVICE void load_own(f32* tile, const Source& source, int first) {
    load_rows<own, FEATURES, threads, PACKETS>(tile, row_stride, source, first);
  }
  template <bool PACKETS, class Source>
  static DEVICE void load_first(f32* tile, const Source& source, int first) {
    load_rows<OTHERS, FEATURES, threads, PACKETS>(tile, row_stride, source, first);
  }
  template <bool PACKETS, class Source>
  static DEVICE void load_second(f32* tile, const Source& source, int first) {
    load_first<PACKETS>(tile, source, first);
  }

  static DEVICE void score(Scores& scores, const Own& mine, const f32* theirs) {
    using Four = Packet<f32, 4>;
    scores.each([](int, int, f32& value) { value = 0; });
#pragma unroll 2
    for (int k = 0; k < FEATURES; k += 4) {
      Four left[OWN_TILES], right[OTHERS / 16];
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r)
        left[r] = *reinterpret_cast<const Four*>(mine.tile + own_row(r) * row_stride + k);
#pragma unroll
      for (int j = 0; j < OTHERS / 16; ++j)
        right[j] = *reinterpret_cast<const Four*>(theirs + (j * 16 + across()) * row_stride + k);
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r)
#pragma unroll
        for (int j = 0; j < OTHERS / 16; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            scores.value[r][j] = ::fmaf(left[r].element[i], right[j].element[i], scores.value[r][j]);
    }
  }

  // The threads that share an own row are in one wave; they exchange weights through `exchange`.
  static constexpr int exchange_size = own * weight_stride;
  static DEVICE void add(Sums& sums, Scores& weights, const f32* second, f32* exchange) {
    using Four = Packet<f32, 4>;
    wave_barrier();  // what was there may still be read
    weights.each(
        [&](int slot, int other, f32& value) { exchange[own_row(slot) * weight_stride + other] = value; });
    wave_barrier();
#pragma unroll 2
    for (int other = 0; other < OTHERS; ++other) {
      f32 left[OWN_TILES];
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r) left[r] = exchange[own_row(r) * weight_stride + other];
#pragma unroll
      for (int j = 0; j < FEATURES / 64; ++j) {
        const Four right =
            *reinterpret_cast<const Four*>(second + other * row_stride + j * 64 + across() * 4);
#pragma unroll
        for (int r = 0; r < OWN_TILES; ++r)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            sums.value[r][j * 4 + i] = ::fmaf(left[r], right.element[i], sums.value[r][j * 4 + i]);
      }
    }
  }

  template <class Combine>
  static DEVICE f32 row_reduce(f32 value, Combine combine) {
#pragma unroll
    for (int mask = 1; mask < 16; mask *= 2) value = combine(value, from_lane_xor(value, mask));
    return value;
  }
};

}  // namespace attention
