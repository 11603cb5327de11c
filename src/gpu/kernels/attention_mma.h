// Attention's products on the matrix unit.
#pragma once

#include "attention_tiles.h"
#include "mma_chain.h"

namespace attention {

template <class Type, int FEATURES, int WAVES, int OWN_TILES, int OTHERS, bool HOLDS>
struct MmaEngine {
  using T = Type;
  using Element = T;  // of tiles in shared memory
  static constexpr int exchange_size = 0;
  static constexpr int threads = WAVES * WAVE, own = WAVES * OWN_TILES * 16, others = OTHERS,
                       features = FEATURES;
  static constexpr int slots = OWN_TILES * chain::slots;
  static constexpr int depth = mma::Unit<T>::depth;
  static constexpr bool transposes = chain::transposes;
  static constexpr bool together = true;  // tiles for both products are in shared memory at once
  static constexpr bool holds = HOLDS;
  static constexpr int run = chain::run;
  static constexpr int ahead =
      HOLDS || !transposes ? FEATURES / depth : 1;  // steps of the first product at once
  static constexpr int row_stride = FEATURES + 8, column_stride = OTHERS + 8;
  static constexpr int own_size = own * row_stride, first_size = OTHERS * row_stride;
  static constexpr int second_size = transposes ? FEATURES * column_stride : first_size;
  static_assert(FEATURES % depth == 0 && OTHERS % depth == 0, "whole steps of the unit");

  static DEVICE int first_row() { return (int)wave() * OWN_TILES * 16; }
  static constexpr int wave_rows = OWN_TILES * 16;
  static DEVICE int own_row(int slot) {
    return first_row() + slot / chain::slots * 16 + chain::own(slot % chain::slots);
  }

  static DEVICE bool first_of_row() { return chain::other(0) == 0; }

  template <int COLUMNS>
  struct Values {
    mma::Accumulator<T> tile[OWN_TILES][COLUMNS / 16];

    DEVICE void clear() {
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r)
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; ++j) mma::clear(tile[r][j]);
    }
    // f(slot, column, first of `run` values).
    template <class F>
    DEVICE void each_run(const F& f) {
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r)
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; ++j)
#pragma unroll
          for (int i = 0; i < mma::elements; i += run)
            f(r * chain::slots + chain::slot(i), j * 16 + chain::other(i), tile[r][j].element + i);
    }
    // Only of those 16 columns for which concerns(first, end) holds.
    template <class Concerns, class F>
    DEVICE void each_group(const Concerns& concerns, const F& f) {
#pragma unroll
      for (int j = 0; j < COLUMNS / 16; ++j) {
        if (!concerns(j * 16, j * 16 + 16)) continue;
#pragma unroll
        for (int r = 0; r < OWN_TILES; ++r)
#pragma unroll
          for (int i = 0; i < mma::elements; ++i)
            f(r * chain::slots + chain::slot(i), j * 16 + chain::other(i), tile[r][j].element[i]);
      }
    }
    // f(slot, column, value here, value of `that`).
    template <class F>
    DEVICE void each2(Values& that, const F& f) {
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r)
#pragma unroll
        for (int j = 0; j < COLUMNS / 16; ++j)
#pragma unroll
          for (int i = 0; i < mma::elements; ++i)
            f(r * chain::slots + chain::slot(i), j * 16 + chain::other(i), tile[r][j].element[i],
              that.tile[r][j].element[i]);
    }
    template <class F>
    DEVICE void each(const F& f) {
      each_run([&](int slot, int column, f32* values) {
#pragma unroll
        for (int i = 0; i < run; ++i) f(slot, column + i, values[i]);
      });
    }
  };
  using Scores = Values<OTHERS>;
  using Sums = Values<FEATURES>;

  // The block's own rows as an operand. While they are held, their tile's memory is free after a barrier.
  struct Own {
    const T* tile;
    chain::Own<T> held[HOLDS ? OWN_TILES : 1][HOLDS ? FEATURES / depth : 1];

    DEVICE explicit Own(const T* from) : tile(from + first_row() * row_stride) {
      if constexpr (HOLDS) {
#pragma unroll
        for (int r = 0; r < OWN_TILES; ++r)
#pragma unroll
          for (int k = 0; k < FEATURES / depth; ++k) held[r][k] = read(r, k);
      }
    }
    DEVICE chain::Own<T> read(int r, int k) const {
      return chain::load_own(tile + r * 16 * row_stride + k * depth, row_stride);
    }
    DEVICE chain::Own<T> get(int r, int k) const {
      if constexpr (HOLDS)
        return held[r][k];
      else
        return read(r, k);
    }
  };

  template <bool PACKETS, class Source>
  static DEVICE void load_own(T* tile, const Source& source, int first) {
    load_rows<own, FEATURES, threads, PACKETS>(tile, row_stride, source, first);
  }
  template <bool PACKETS, class Source>
  static DEVICE void load_first(T* tile, const Source& source, int first) {
    load_rows<OTHERS, FEATURES, threads, PACKETS>(tile, row_stride, source, first);
  }
  // For the second product: rows of others, one per feature, two others at a time.
  template <bool PACKETS, class Source>
  static DEVICE void load_second(T* tile, const Source& source, int first) {
    if constexpr (!transposes) {
      load_first<PACKETS>(tile, source, first);
    } else {
      constexpr int pairs = OTHERS / 2, items = pairs * (FEATURES / 8);
#pragma unroll 2
      for (int item = (int)threadIdx.x; item < items; item += threads) {
        const int place = item % pairs * 2, feature = item / pairs * 8;
        const int group = first + place / depth * depth;
        const auto one = fetch<PACKETS>(source, group + chain::other_at(place % depth), feature);
        const auto two = fetch<PACKETS>(source, group + chain::other_at(place % depth + 1), feature);
#pragma unroll
        for (int i = 0; i < 8; ++i)
          *reinterpret_cast<Packet<T, 2>*>(tile + (feature + i) * column_stride + place) = {one.element[i],
                                                                                            two.element[i]};
      }
    }
  }

  static DEVICE void score(Scores& scores, const Own& mine, const T* theirs) {
    scores.clear();
#pragma unroll ahead
    for (int k = 0; k < FEATURES / depth; ++k) {
      chain::Own<T> left[OWN_TILES];
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r) left[r] = mine.get(r, k);
#pragma unroll
      for (int j = 0; j < OTHERS / 16; ++j) {
        const auto right = chain::load_other(theirs + j * 16 * row_stride + k * depth, row_stride);
#pragma unroll
        for (int r = 0; r < OWN_TILES; ++r) chain::multiply_add(scores.tile[r][j], left[r], right);
        if (j % 2) keep_order();
      }
    }
  }

  static DEVICE void add(Sums& sums, const Scores& weights, const T* second, T*) {
#pragma unroll
    for (int g = 0; g < OTHERS / depth; ++g) {
      chain::Own<T> left[OWN_TILES];
#pragma unroll
      for (int r = 0; r < OWN_TILES; ++r) left[r] = chain::operand(&weights.tile[r][g * (depth / 16)]);
#pragma unroll
      for (int j = 0; j < FEATURES / 16; ++j) {
        const auto right =
            transposes ? chain::load_second(second + j * 16 * column_stride + g * depth, column_stride)
                       : chain::load_second(second + g * depth * row_stride + j * 16, row_stride);
#pragma unroll
        for (int r = 0; r < OWN_TILES; ++r) chain::multiply_add(sums.tile[r][j], left[r], right);
        if (j % 2) keep_order();
      }
    }
  }

  template <class Combine>
  static DEVICE f32 row_reduce(f32 value, Combine combine) {
    return chain::row_reduce(value, combine);
  }
};

}  // namespace attention
