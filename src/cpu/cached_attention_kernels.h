// The vector kernel of attention over a cache of keys and values.
#pragma once

#include <cstdint>

#include "cpu/isa.h"
#include "hearth/dtype.h"

namespace hearth::cpu {

// Queries of one sequence and one group of heads, against the keys at positions [first, end).
struct CachedQueries {
  struct Row {
    const float* query;        // scaled
    float* out;                // the result
    std::int64_t first, last;  // the keys it sees, both included
    float sink;                // a score without a value; -infinity: none
  };
  const Row* rows;
  std::int64_t count, features;
  const void *keys, *values;                 // those of slot 0, of this group
  const float16 *key_scales, *value_scales;  // of each 32 elements, where those are i8
  std::int64_t slot_stride;                  // elements from slot to slot
  const std::int64_t* pages;                 // of the sequence
  std::int64_t page;                         // slots of a page
  std::int64_t first, end;
  float soft_cap;
  float* scratch;  // cached_attention_scratch() elements, aligned to 64 bytes
};

inline constexpr std::int64_t cached_attention_keys = 64;  // that are looked at together
inline std::int64_t cached_attention_scratch(std::int64_t rows, std::int64_t features) {
  constexpr std::int64_t lanes = 16;  // at most
  const std::int64_t height = (rows + lanes - 1) / lanes * lanes,
                     width = (features + lanes - 1) / lanes * lanes;
  return height * (2 * width + cached_attention_keys * 2 + 3) + cached_attention_keys * width;
}

struct CachedAttentionKernels {
  void (*attend[3])(const CachedQueries&);      // by the dtype of the cache - DType::f16
  void (*attend_scaled)(const CachedQueries&);  // i8 with scales
};

}  // namespace hearth::cpu

HEARTH_DECLARE_HALVES_ISA_TABLE(CachedAttentionKernels, cached_attention_kernels)
