// Attention of many rows to keys and values of 16 bits, for AMX.
//
// All that is multiplied is the sum of two numbers of bf16, so that hardly more is rounded than sums.
// Features come in pairs that are 16 apart, which is the same to their sum.
#pragma once

#include "cpu/isa/amx.h"
#include "cpu/isa/attention_avx512.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

template <typename T>
class ByUnit {
 public:
  static bool fits(const CachedQueries& work) { return work.count > 16 && work.features % unit_depth == 0; }

  ByUnit(const CachedQueries& work, const Memory& memory)
      : work_(work),
        memory_(memory),
        depth_(work.features / unit_depth),
        queries_(reinterpret_cast<__m512i*>(memory.queries)),
        numbers_(reinterpret_cast<__m512i*>(memory.numbers)),
        weights_(reinterpret_cast<__m512i*>(memory.rest)) {
    __m512i* to = queries_;
    for (std::int64_t first = 0; first < memory.rows; first += unit_tile)
      for (std::int64_t f = 0; f < work.features; f += unit_depth, to += pair_of_tiles) {
        TwoParts rows[unit_tile] = {};
        for (std::int64_t r = first; r < first + unit_tile && r < work.count; ++r) {
          const float* query = work.rows[r].query + f;
          rows[r - first] = in_pairs(_mm512_loadu_ps(query), _mm512_loadu_ps(query + lanes));
        }
        store_turned(rows, to);
      }
  }

  void score(const Block& block) const {
    const auto* const keys = static_cast<const T*>(work_.keys);
    const auto* const values = static_cast<const T*>(work_.values);
    for (std::int64_t j = 0; j < block.count; ++j) {
      fetch_row(values + block.first[j], work_.features);  // add() comes soon
      __m512i* to = numbers_ + j / unit_tile * depth_ * pair_of_tiles + j % unit_tile;
      const T* key = keys + block.first[j];
      for (std::int64_t k = 0; k < depth_; ++k, key += unit_depth, to += pair_of_tiles) {
        const TwoParts parts = in_pairs(widened(key), widened(key + lanes));
        to[0] = parts.large;
        to[unit_tile] = parts.small;
      }
    }
    for (std::int64_t row = 0; row < memory_.rows; row += 2 * unit_tile)
      multiply<2, 2>({.rows = as_bytes(numbers_),
                      .row_tile_stride = depth_ * 2 * unit_tile_bytes,
                      .columns = as_bytes(queries_) + row / unit_tile * depth_ * 2 * unit_tile_bytes,
                      .column_tile_stride = depth_ * 2 * unit_tile_bytes,
                      .height = block.count,
                      .width = memory_.rows - row < 2 * unit_tile ? unit_tile : 2 * unit_tile,
                      .depth = depth_,
                      .out = memory_.scores + row,
                      .stride = memory_.rows,
                      .adds = false},
                     tiles_);
  }

  void add(const Block& block, const Block& next, const Seen& by_all) const {
    const T* const values = static_cast<const T*>(work_.values);
    const auto finite = [&](std::int64_t key)
                            HEARTH_LAMBDA { return is_finite(values + block.first[key], work_.features); };
    if (!unseen_are_finite(block, by_all, finite))
      return add_seen<T>(work_, memory_, block, [&](std::int64_t key, std::int64_t row) {
        return memory_.scores[key * memory_.rows + row];
      });
    const std::int64_t steps = (block.count + unit_depth - 1) / unit_depth;
    arrange_weights(block, steps);
    arrange_values(block, next, steps);
    for (std::int64_t f = 0; f < work_.features; f += 2 * unit_tile)
      multiply<2, 2>({.rows = as_bytes(weights_),
                      .row_tile_stride = steps * 2 * unit_tile_bytes,
                      .columns = as_bytes(numbers_) + f / unit_tile * steps * 2 * unit_tile_bytes,
                      .column_tile_stride = steps * 2 * unit_tile_bytes,
                      .height = memory_.rows,
                      .width = 2 * unit_tile,
                      .depth = steps,
                      .out = memory_.out + f,
                      .stride = memory_.width,
                      .adds = true},
                     tiles_);
  }

 private:
  static constexpr std::int64_t pair_of_tiles = 2 * unit_tile;  // in vectors: large parts, small ones

  static const char* as_bytes(const __m512i* tiles) { return reinterpret_cast<const char*>(tiles); }

  // Pairs of numbers, the first ones below, as their nearest bf16 and what that leaves of them. (That would
  // be NaN of an infinite number, and stays NaN of NaN.)
  HEARTH_INLINE static TwoParts in_pairs(__m512 first, __m512 second) {
    constexpr int infinite = 0x18;  // for fpclass
    const __m512i half = _mm512_set1_epi32(0x8000), upper = _mm512_set1_epi32(static_cast<int>(0xffff0000));
    const auto nearest = [&](__m512 x) HEARTH_LAMBDA {
      return _mm512_and_si512(_mm512_add_epi32(_mm512_castps_si512(x), half), upper);
    };
    const auto left = [&](__m512 x, __m512i large) HEARTH_LAMBDA {
      return _mm512_castps_si512(_mm512_maskz_sub_ps(_knot_mask16(_mm512_fpclass_ps_mask(x, infinite)), x,
                                                     _mm512_castsi512_ps(large)));
    };
    const auto pairs = [&](__m512i a, __m512i above) HEARTH_LAMBDA {
      constexpr int masked_or_other = (0xf0 & 0xcc) | 0xaa;
      return _mm512_ternarylogic_epi32(above, upper, _mm512_srli_epi32(a, 16), masked_or_other);
    };
    const __m512i large[] = {nearest(first), nearest(second)};
    return {pairs(large[0], large[1]), pairs(left(first, large[0]), left(second, large[1]))};
  }

  // Rows of 16 pairs become columns.
  HEARTH_INLINE static void store_turned(const TwoParts (&rows)[unit_tile], __m512i* to) {
    __m512i part[unit_tile];
    for (int i = 0; i < unit_tile; ++i) part[i] = rows[i].large;
    store_transposed(part, to);
    for (int i = 0; i < unit_tile; ++i) part[i] = rows[i].small;
    store_transposed(part, to + unit_tile);
  }

  // Keys that are not there count nothing, neither as weights nor as values.
  void arrange_weights(const Block& block, std::int64_t steps) const {
    const auto weights_of = [&](std::int64_t key, std::int64_t row) HEARTH_LAMBDA {
      return key < block.count ? _mm512_loadu_ps(memory_.scores + key * memory_.rows + row)
                               : _mm512_setzero_ps();
    };
    __m512i* to = weights_;
    for (std::int64_t row = 0; row < memory_.rows; row += unit_tile)
      for (std::int64_t k = 0; k < steps; ++k, to += pair_of_tiles) {
        TwoParts pairs[unit_tile];
        for (std::int64_t i = 0; i < unit_tile; ++i) {
          const std::int64_t key = k * unit_depth + 2 * i;
          pairs[i] = in_pairs(weights_of(key, row), weights_of(key + 1, row));
        }
        store_turned(pairs, to);
      }
  }
  void arrange_values(const Block& block, const Block& next, std::int64_t steps) const {
    const auto* const keys = static_cast<const T*>(work_.keys);
    const auto* const values = static_cast<const T*>(work_.values);
    for (std::int64_t key = 0; key < steps * unit_depth; key += 2) {
      for (std::int64_t j = key; j < key + 2 && j < next.count; ++j)
        fetch_row(keys + next.first[j], work_.features);
      __m512i* to = numbers_ + key / unit_depth * pair_of_tiles + key % unit_depth / 2;
      for (std::int64_t f = 0; f < work_.features; f += lanes, to += steps * pair_of_tiles) {
        const auto value = [&](std::int64_t j) HEARTH_LAMBDA {
          return j < block.count ? widened(values + block.first[j] + f) : _mm512_setzero_ps();
        };
        const TwoParts pairs = in_pairs(value(key), value(key + 1));
        to[0] = pairs.large;
        to[unit_tile] = pairs.small;
      }
    }
  }

  const CachedQueries& work_;
  const Memory& memory_;
  std::int64_t depth_;  // of a key, in tiles
  __m512i *queries_, *numbers_, *weights_;
  TilesInUse tiles_;
};

}  // namespace
}  // namespace hearth::cpu::HEARTH_ISA
