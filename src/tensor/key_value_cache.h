// What inference needs of a cache of keys and values: rows are put in place, and queries look at pages of
// them.
//
// Keys (values) of all sequences of a layer lie in one tensor (slots, groups, features). A page is `page`
// neighbouring slots; a table says which pages a sequence has, so that sequences can share them.
#pragma once

#include "hearth/tensor.h"

namespace hearth {

// x (rows, ...) with values (count, ...) in the places of the rows that indices (count,) name; a negative
// index names none. The result takes over x's memory where x is not needed any more: assigned to x in a
// compiled function, it costs what the values cost.
Tensor store_rows(const Tensor& x, const Tensor& indices, const Tensor& values);

struct CachedAttentionOptions {
  double scale = 1;
  std::int64_t window = 0;  // 0: a query sees all keys up to its own
  double soft_cap = 0;      // scores become cap * tanh(score / cap); 0: none
  std::int64_t page = 1;
  // Keys and values at positions before a query's own were in the cache before the program that this is part
  // of began: they may be read before its other parts have ended.
  bool old_keys = false;
  // (heads), f32: the score of nothing, which takes its share of each head's weights; undefined: none.
  Tensor sinks = {};
};

// q (queries, heads, features) of any sequences -> the same shape. Query i, of sequence sequences[i], at
// position positions[i], sees the keys at its own and earlier positions; the one at position p is in the slot
// table[sequence][p / page] * page + p % page. All indices are i64. Heads are a multiple of the groups.
Tensor cached_attention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& sequences,
                        const Tensor& positions, const Tensor& table, const CachedAttentionOptions& options);

// Numbers of 8 bits, and a scale in f16 for every 32 neighbours along the last axis: as q8_0 has it, in two
// tensors, so that rows can be stored.
struct ScaledBytes {
  Tensor bytes, scales;
};
inline constexpr std::int64_t scaled_run = 32;   // elements that share a scale
ScaledBytes to_scaled_bytes(const Tensor& x);    // its last axis is a multiple of 32
Tensor from_scaled_bytes(const ScaledBytes& x);  // f32

// The same attention, on such keys and values.
Tensor cached_attention(const Tensor& q, const ScaledBytes& keys, const ScaledBytes& values,
                        const Tensor& sequences, const Tensor& positions, const Tensor& table,
                        const CachedAttentionOptions& options);

}  // namespace hearth
