// Attention of few rows to keys and values of f16 as they are, for Arm's FHM.
#pragma once

#include "cpu/isa/attention_work.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

// Keys and values as they are, in f16.
class Halves {
 public:
  static bool fits(const CachedQueries& work) {
    constexpr std::int64_t few = 16;  // more are worth widening for
    constexpr float most = 65504;     // of f16
    if (work.count > few || work.features % 16 != 0) return false;
    for (std::int64_t r = 0; r < work.count; ++r)
      for (std::int64_t f = 0; f < work.features; ++f)
        if (!(std::abs(work.rows[r].query[f]) <= most)) return false;
    return true;
  }

  Halves(const CachedQueries& work, const Memory& memory)
      : work_(work),
        memory_(memory),
        queries_(reinterpret_cast<float16*>(memory.queries)),
        weights_(reinterpret_cast<float16*>(memory.rest)) {
    for (std::int64_t r = 0; r < memory.rows; ++r)
      if (r < work.count)
        narrow(work.rows[r].query, queries_ + r * work.features, work.features);
      else
        for (std::int64_t f = 0; f < work.features; ++f) queries_[r * work.features + f] = float16(0.0f);
  }

  void score(const Block& block) const {
    const auto* keys = static_cast<const float16*>(work_.keys);
    const auto* values = static_cast<const float16*>(work_.values);
    for (std::int64_t j = 0; j < block.count; j += 4) {
      const float16* key[4];
      for (int i = 0; i < 4; ++i) {
        const std::int64_t first = block.first[j + i < block.count ? j + i : block.count - 1];
        key[i] = keys + first;
        fetch_row(values + first, work_.features);  // add() comes soon
      }
      for (std::int64_t r = 0; r < memory_.rows; r += 4)
        score_tile(key, queries_ + r * work_.features, memory_.scores + j * memory_.rows + r);
    }
  }

  void add(const Block& block, const Block&, const Seen& by_all) const {
    const auto* values = static_cast<const float16*>(work_.values);
    const std::int64_t rows = memory_.rows;
    narrow(memory_.scores, weights_, block.count * rows);
    const auto finite = [&](std::int64_t key)
                            HEARTH_LAMBDA { return is_finite(values + block.first[key], work_.features); };
    if (!unseen_are_finite(block, by_all, finite))
      return add_seen<float16>(work_, memory_, block, [&](std::int64_t key, std::int64_t row) {
        return static_cast<float>(weights_[key * rows + row]);
      });
    for (std::int64_t f = 0; f < work_.features; f += 16)
      for (std::int64_t r = 0; r < rows; r += 4)
        add_tile(block, values + f, weights_ + r, memory_.out + r * memory_.width + f);
  }

 private:
  // Four keys and four rows; a multiple of four keys is written.
  HEARTH_INLINE void score_tile(const float16* const (&key)[4], const float16* query, float* scores) const {
    const std::int64_t n = work_.features;
    float32x4_t sums[4][4] = {};
    for (std::int64_t f = 0; f < n; f += 8) {
      float16x8_t q[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) q[r] = load<float16x8_t>(query + r * n + f);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const auto features = load<float16x8_t>(key[k] + f);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r)
          sums[k][r] = vfmlalq_high_f16(vfmlalq_low_f16(sums[k][r], features, q[r]), features, q[r]);
      }
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k)
      vst1q_f32(scores + k * memory_.rows,
                vpaddq_f32(vpaddq_f32(sums[k][0], sums[k][1]), vpaddq_f32(sums[k][2], sums[k][3])));
  }

  // Four rows and sixteen features.
  HEARTH_INLINE void add_tile(const Block& block, const float16* values, const float16* weights,
                              float* out) const {
    float32x4_t sums[4][4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) sums[r][v] = vld1q_f32(out + r * memory_.width + v * 4);
#pragma GCC unroll 2
    for (std::int64_t j = 0; j < block.count; ++j)
      add_key(sums, values + block.first[j], load<float16x4_t>(weights + j * memory_.rows));
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) vst1q_f32(out + r * memory_.width + v * 4, sums[r][v]);
  }
  HEARTH_INLINE static void add_key(float32x4_t (&sums)[4][4], const float16* value, float16x4_t weights) {
    const auto low = load<float16x8_t>(value), high = load<float16x8_t>(value + 8);
    [&]<int... r>(std::integer_sequence<int, r...>) HEARTH_LAMBDA {
      ((sums[r][0] = vfmlalq_lane_low_f16(sums[r][0], low, weights, r),
        sums[r][1] = vfmlalq_lane_high_f16(sums[r][1], low, weights, r),
        sums[r][2] = vfmlalq_lane_low_f16(sums[r][2], high, weights, r),
        sums[r][3] = vfmlalq_lane_high_f16(sums[r][3], high, weights, r)),
       ...);
    }
    (std::make_integer_sequence<int, 4>{});
  }

  const CachedQueries& work_;
  const Memory& memory_;
  float16 *queries_, *weights_;  // (rows, features) and (keys, rows)
};

}  // namespace
}  // namespace hearth::cpu::HEARTH_ISA
