// What all ways to attend to cached keys and values (isa/cached_attention.cpp) have in common: their memory,
// the keys of a block, and which of them a row sees.
#pragma once

#include "cpu/cached_attention_kernels.h"
#include "cpu/isa/rows.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

constexpr std::int64_t lanes = vector_lanes<float>;

// Of each row: the largest score so far, the sum of the weights, and by what a block changed those before it.
struct Softmax {
  float *largest, *total, *change;
};

template <typename T>
HEARTH_INLINE void fetch_row(const T* row, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 64 / static_cast<std::int64_t>(sizeof(T))) __builtin_prefetch(row + i);
}

constexpr std::int64_t most_keys = cached_attention_keys;

// The parts of the scratch memory.
struct Memory {
  std::int64_t rows, width;  // of queries and of features, to whole vectors
  float *queries, *scores, *numbers, *out, *rest;
  Softmax softmax;

  explicit Memory(const CachedQueries& work) : rows(whole(work.count)), width(whole(work.features)) {
    queries = work.scratch;
    scores = queries + work.features * rows;
    numbers = scores + most_keys * rows;
    out = numbers + most_keys * width;
    softmax = {out + rows * width, out + rows * (width + 1), out + rows * (width + 2)};
    rest = out + rows * (width + 3);
  }

 private:
  static std::int64_t whole(std::int64_t n) { return (n + lanes - 1) / lanes * lanes; }
};

// Where the keys and values from `begin` on are: elements from those of slot 0.
struct Block {
  std::int64_t begin, count;
  std::int64_t first[most_keys] = {};

  Block(const CachedQueries& work, std::int64_t from)
      : begin(from), count(work.end - from < most_keys ? work.end - from : most_keys) {
    for (std::int64_t j = 0, position = begin; j < count;) {
      std::int64_t slot = work.pages[position / work.page] * work.page + position % work.page;
      for (std::int64_t left = work.page - position % work.page; left > 0 && j < count;
           --left, ++j, ++position, ++slot)
        first[j] = slot * work.slot_stride;
    }
  }
};

// The keys of a block at positions [from, to], counted from its beginning: [first, past).
struct Seen {
  std::int64_t first, past;

  Seen(std::int64_t from, std::int64_t to, const Block& block)
      : first(clamped(from - block.begin, block.count)), past(clamped(to - block.begin + 1, block.count)) {}

 private:
  static std::int64_t clamped(std::int64_t n, std::int64_t most) { return n < 0 ? 0 : n > most ? most : n; }
};

// Whether finite(key) holds for the keys that some row does not see. Weights are 0 there, which a value that
// is not finite would turn into NaN.
template <typename Finite>
HEARTH_INLINE bool unseen_are_finite(const Block& block, const Seen& by_all, const Finite& finite) {
  for (std::int64_t j = 0; j < by_all.first; ++j)
    if (!finite(j)) return false;
  for (std::int64_t j = by_all.past; j < block.count; ++j)
    if (!finite(j)) return false;
  return true;
}

// Where a value is not finite: each row adds those that it sees. `weight(key, row)` is a number.
template <typename T, typename Weight>
void add_seen(const CachedQueries& work, const Memory& memory, const Block& block, const Weight& weight) {
  const T* values = static_cast<const T*>(work.values);
  for (std::int64_t r = 0; r < work.count; ++r) {
    const Seen seen(work.rows[r].first, work.rows[r].last, block);
    for (std::int64_t j = seen.first; j < seen.past; ++j)
      for (std::int64_t f = 0; f < work.features; ++f)
        memory.out[r * memory.width + f] += weight(j, r) * static_cast<float>(values[block.first[j] + f]);
  }
}

template <typename T>
bool is_finite(const T* value, std::int64_t features) {
  constexpr std::uint16_t exponent = std::is_same_v<T, float16> ? 0x7c00 : 0x7f80;
  std::uint16_t beyond = 0;
  for (std::int64_t f = 0; f < features; ++f) beyond |= (value[f].bits & exponent) == exponent;
  return beyond == 0;
}

}  // namespace
}  // namespace hearth::cpu::HEARTH_ISA
