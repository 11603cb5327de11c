// Attention of few rows to keys and values of 16 bits, for AVX-512.
#pragma once

#include "cpu/isa/attention_work.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

HEARTH_INLINE __m512 widened(const float16* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
HEARTH_INLINE __m512 widened(const bfloat16* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// Few rows: keys and values are widened in registers, where they are multiplied, and features are the lanes
// of 1 as well.
template <typename T>
class InRegisters {
 public:
  static bool fits(const CachedQueries& work) {
    constexpr std::int64_t few = 16;  // more are worth widening for
    return work.count <= few && work.features % 16 == 0;
  }

  InRegisters(const CachedQueries& work, const Memory& memory) : work_(work), memory_(memory) {
    for (std::int64_t r = 0; r < memory.rows; ++r)
      for (std::int64_t f = 0; f < work.features; ++f)
        memory.queries[r * work.features + f] = r < work.count ? work.rows[r].query[f] : 0.0f;
    for (std::int64_t i = 0; i < most_keys * memory.rows; ++i) memory.scores[i] = 0;
  }

  void score(const Block& block) const {
    const auto* const keys = static_cast<const T*>(work_.keys);
    const auto* const values = static_cast<const T*>(work_.values);
    for (std::int64_t j = 0; j < block.count; j += 4) {
      const T* key[4];
      for (int i = 0; i < 4; ++i) {
        const std::int64_t first = block.first[j + i < block.count ? j + i : block.count - 1];
        key[i] = keys + first;
        fetch_row(values + first, work_.features);  // add() comes soon
      }
      for (std::int64_t r = 0; r < work_.count; r += 4)
        score_tile(key, memory_.queries + r * work_.features, memory_.scores + j * memory_.rows + r);
    }
  }

  void add(const Block& block, const Block& next, const Seen& by_all) const {
    const auto* const keys = static_cast<const T*>(work_.keys);
    const auto* const values = static_cast<const T*>(work_.values);
    const auto finite = [&](std::int64_t key)
                            HEARTH_LAMBDA { return is_finite(values + block.first[key], work_.features); };
    if (!unseen_are_finite(block, by_all, finite))
      return add_seen<T>(work_, memory_, block, [&](std::int64_t key, std::int64_t row) {
        return memory_.scores[key * memory_.rows + row];
      });
    constexpr std::int64_t together = 8;  // keys, while those of the next block are fetched
    for (std::int64_t j = 0; j < block.count; j += together) {
      const std::int64_t end = j + together < block.count ? j + together : block.count;
      for (std::int64_t k = j; k < end && k < next.count; ++k)
        fetch_row(keys + next.first[k], work_.features);
      for (std::int64_t r = 0; r < work_.count; r += 4) {
        std::int64_t f = 0;
        for (; f + 4 * lanes <= work_.features; f += 4 * lanes) add_tile<4>(block, j, end, values + f, r, f);
        for (; f < work_.features; f += lanes) add_tile<1>(block, j, end, values + f, r, f);
      }
    }
  }

 private:
  // Four keys and four rows; a multiple of four keys is written.
  HEARTH_INLINE void score_tile(const T* const (&key)[4], const float* query, float* scores) const {
    const std::int64_t n = work_.features;
    __m512 sums[4][4] = {};
    for (std::int64_t f = 0; f < n; f += lanes) {
      __m512 q[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) q[r] = _mm512_loadu_ps(query + r * n + f);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const __m512 features = widened(key[k] + f);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) sums[k][r] = _mm512_fmadd_ps(features, q[r], sums[k][r]);
      }
    }
    __m512 of_key[4];  // in each quarter a part of its four sums
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const __m512 left = _mm512_add_ps(_mm512_unpacklo_ps(sums[k][0], sums[k][1]),
                                        _mm512_unpackhi_ps(sums[k][0], sums[k][1])),
                   right = _mm512_add_ps(_mm512_unpacklo_ps(sums[k][2], sums[k][3]),
                                         _mm512_unpackhi_ps(sums[k][2], sums[k][3]));
      of_key[k] = _mm512_add_ps(
          _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(left), _mm512_castps_pd(right))),
          _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(left), _mm512_castps_pd(right))));
    }
    const auto quarters_added = [](__m512 a, __m512 b) HEARTH_LAMBDA {
      return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    };
    const __m512 all =
        quarters_added(quarters_added(of_key[0], of_key[1]), quarters_added(of_key[2], of_key[3]));
    _mm_storeu_ps(scores, _mm512_castps512_ps128(all));
    _mm_storeu_ps(scores + memory_.rows, _mm512_extractf32x4_ps(all, 1));
    _mm_storeu_ps(scores + 2 * memory_.rows, _mm512_extractf32x4_ps(all, 2));
    _mm_storeu_ps(scores + 3 * memory_.rows, _mm512_extractf32x4_ps(all, 3));
  }

  // Keys [key, end), four rows, and some features, from the given ones on.
  template <int REGISTERS>
  HEARTH_INLINE void add_tile(const Block& block, std::int64_t key, std::int64_t end, const T* values,
                              std::int64_t row, std::int64_t feature) const {
    float* const out = memory_.out + row * memory_.width + feature;
    __m512 sums[4][REGISTERS];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < REGISTERS; ++v) sums[r][v] = _mm512_loadu_ps(out + r * memory_.width + v * lanes);
    for (std::int64_t j = key; j < end; ++j) {
      const float* weights = memory_.scores + j * memory_.rows + row;
#pragma GCC unroll 4
      for (int v = 0; v < REGISTERS; ++v) {
        const __m512 value = widened(values + block.first[j] + v * lanes);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r)
          sums[r][v] = _mm512_fmadd_ps(_mm512_set1_ps(weights[r]), value, sums[r][v]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < REGISTERS; ++v) _mm512_storeu_ps(out + r * memory_.width + v * lanes, sums[r][v]);
  }

  const CachedQueries& work_;
  const Memory& memory_;
};

}  // namespace
}  // namespace hearth::cpu::HEARTH_ISA
