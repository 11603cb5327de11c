// Attention over a cache, keys in runs: the scores of a run, what they change of the largest score and of the
// sum, and the run's values added. A key (value) is widened once for all queries.
#include "cpu/cached_attention_kernels.h"

#include <cmath>
#include <limits>

#include "cpu/isa/rows.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

HEARTH_INLINE float dot(const float* a, const float* b, std::int64_t n) {
  return reduce<float>(
      n, Plus{}, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(a + i) * load<V>(b + i); });
}

// to += factor * x
HEARTH_INLINE void add_scaled(float* to, const float* x, float factor, std::int64_t n) {
  map(to, n,
      [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(to + i) + load<V>(x + i) * factor; });
}

template <typename T>
HEARTH_INLINE const float* as_floats(const T* from, const float16* scales, float* wide, std::int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    return from;
  } else if constexpr (std::is_same_v<T, std::int8_t>) {
    for (std::int64_t i = 0; i < n; i += 32) {
      const float scale = scales[i / 32];
      for (std::int64_t k = i; k < i + 32; ++k) wide[k] = static_cast<float>(from[k]) * scale;
    }
    return wide;
  } else {
    widen(from, wide, n);
    return wide;
  }
}

template <typename T>
void attend(const CachedQueries& work) {
  constexpr float nothing = -std::numeric_limits<float>::infinity();
  constexpr std::int64_t most = cached_attention_keys;
  const std::int64_t count = work.count, n = work.features;
  float *scores = work.scratch, *largest = scores + count * most, *total = largest + count,
        *wide = total + count;
  for (std::int64_t r = 0; r < count; ++r) {
    largest[r] = nothing;
    total[r] = 0;
    map(work.rows[r].out, n, [=]<typename V>(std::int64_t) HEARTH_LAMBDA { return V(0.0f); });
  }
  const auto row_of = [&](const void* data, const float16* scales, std::int64_t position) {
    const std::int64_t first =
        (work.pages[position / work.page] * work.page + position % work.page) * work.slot_stride;
    return as_floats(static_cast<const T*>(data) + first, scales + first / 32, wide, n);
  };
  for (std::int64_t begin = work.first; begin < work.end; begin += most) {
    const std::int64_t keys = work.end - begin < most ? work.end - begin : most;
    for (std::int64_t j = 0; j < keys; ++j) {
      const float* key = row_of(work.keys, work.key_scales, begin + j);
      for (std::int64_t r = 0; r < count; ++r) {
        const auto& row = work.rows[r];
        const bool sees = begin + j >= row.first && begin + j <= row.last;
        scores[r * most + j] = sees ? dot(row.query, key, n) : nothing;
      }
    }
    for (std::int64_t r = 0; r < count; ++r) {
      float* score = scores + r * most;
      if (work.soft_cap > 0)
        for (std::int64_t j = 0; j < keys; ++j)
          if (score[j] != nothing) score[j] = work.soft_cap * std::tanh(score[j] / work.soft_cap);
      const float top = reduce<float>(
          keys, Larger{}, [=]<typename V>(std::int64_t j) HEARTH_LAMBDA { return load<V>(score + j); });
      const float now = top > largest[r] ? top : largest[r];
      if (now == nothing) {
        map(score, keys, [=]<typename V>(std::int64_t) HEARTH_LAMBDA { return V(0.0f); });
        continue;
      }
      const float shrink = largest[r] == nothing ? 0.0f : std::exp(largest[r] - now);
      const float sum = reduce<float>(keys, Plus{}, [=]<typename V>(std::int64_t j) HEARTH_LAMBDA {
        const V weight = math::exp_of_negative(load<V>(score + j) - now);
        store(score + j, weight);
        return weight;
      });
      if (shrink != 1) {
        float* out = work.rows[r].out;
        map(out, n, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(out + i) * shrink; });
      }
      total[r] = total[r] * shrink + sum;
      largest[r] = now;
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      const float* value = row_of(work.values, work.value_scales, begin + j);
      for (std::int64_t r = 0; r < count; ++r)
        if (const float weight = scores[r * most + j]; weight != 0)
          add_scaled(work.rows[r].out, value, weight, n);
    }
  }
  for (std::int64_t r = 0; r < count; ++r) {
    float* out = work.rows[r].out;
    const float share = total[r] > 0 ? 1 / total[r] : total[r];  // a NaN stays
    map(out, n, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(out + i) * share; });
  }
}

}  // namespace

extern const CachedAttentionKernels cached_attention_kernels_table = {
    {attend<float16>, attend<bfloat16>, attend<float>}, attend<std::int8_t>};

}  // namespace hearth::cpu::HEARTH_ISA
