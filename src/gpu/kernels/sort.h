// Sorting lines of (key, position) pairs: tiles in shared memory, then merges of neighbouring runs.
//
// No two pairs of a line are equal, so any sort of them is stable. Where only the first `count` pairs of a
// line are wanted, no run keeps more than that.
#pragma once

#include "nest.h"

constexpr u32 sort_threads = 256;

// A key and a position of 32 bits in one word.
struct PackedPair {
  using Position = u32;
  static constexpr u32 tile = 2048;
  u64 word;
  static DEVICE PackedPair of(u64 key, u64 position) { return {key << 32 | position}; }
  static DEVICE PackedPair last() { return {~0ull}; }
  DEVICE u64 key() const { return word >> 32; }
  DEVICE u64 position() const { return word & 0xffffffffu; }
};
DEVICE bool operator<(const PackedPair& a, const PackedPair& b) { return a.word < b.word; }

struct WidePair {
  using Position = u64;
  static constexpr u32 tile = 1024;
  u64 word, place;
  static DEVICE WidePair of(u64 key, u64 position) { return {key, position}; }
  static DEVICE WidePair last() { return {~0ull, ~0ull}; }
  DEVICE u64 key() const { return word; }
  DEVICE u64 position() const { return place; }
};
DEVICE bool operator<(const WidePair& a, const WidePair& b) {
  return a.word < b.word || (a.word == b.word && a.place < b.place);
}

// Unsigned numbers in the order of the values: NaN largest, -0 equal to 0.
DEVICE u64 sort_key(f32 value) {
  if (value != value) return 0xffffffffu;
  const u32 bits = bit_cast<u32>(value == 0 ? 0.0f : value);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
DEVICE u64 sort_key(f64 value) {
  if (value != value) return ~0ull;
  const u64 bits = bit_cast<u64>(value == 0 ? 0.0 : value);
  return bits >> 63 ? ~bits : bits | 1ull << 63;
}
DEVICE u64 sort_key(i32 value) { return (u32)value ^ 0x80000000u; }
DEVICE u64 sort_key(i64 value) { return (u64)value ^ 1ull << 63; }

// The pairs that a step of the sort leaves: runs of up to `width` elements of a line, cut to `count` pairs,
// lie min(count, width) apart.
struct Runs {
  u64 length, count, width, line_pairs;  // line_pairs: from line to line in memory

  DEVICE u64 kept(u64 run) const {
    const u64 first = run * width;
    if (first >= length) return 0;
    const u64 all = length - first < width ? length - first : width;
    return all < count ? all : count;
  }
  DEVICE u64 per_line() const { return (length + width - 1) / width; }
  DEVICE u64 stride() const { return width < count ? width : count; }
  DEVICE u64 place(u64 line, u64 run) const { return line * line_pairs + run * stride(); }
};

// Where sorted pairs go: to memory, for the next step ...
template <class Pair>
struct PairSink {
  Pair* pairs;
  DEVICE void put(const Runs& runs, u64 line, u64 run, u64 k, const Pair& pair) const {
    pairs[runs.place(line, run) + k] = pair;
  }
};
// ... or, of complete lines, their positions to the result.
template <class Index>
struct PositionSink {
  i64* out;
  Nest<1> places;  // over lines and the first `count` of each
  template <class Pair>
  DEVICE void put(const Runs& runs, u64 line, u64, u64 k, const Pair& pair) const {
    out[places.at((Index)(line * runs.count + k)).of[0]] = (i64)pair.position();
  }
};

// Sorts tiles of `runs.width` elements, a power of two up to Pair::tile. A block does Pair::tile elements at
// a time: one run of a long line, or several short lines. key_of(line, k) gives a key.
template <class Pair, class KeyOf, class Sink>
DEVICE void sort_tiles(const KeyOf& key_of, const Sink& sink, const Runs& runs, u64 lines) {
  __shared__ Pair tile[Pair::tile];
  const u32 width = (u32)runs.width, shift = __ffs((int)width) - 1;
  const u64 per_line = runs.per_line(), all = lines * per_line, per_block = Pair::tile >> shift;
  for (u64 first = blockIdx.x * per_block; first < all; first += gridDim.x * per_block) {
    const u64 first_line = first / per_line, run = first - first_line * per_line;
    for (u32 i = threadIdx.x; i < Pair::tile; i += sort_threads) {
      const u64 line = first_line + (i >> shift), k = run * width + (i & (width - 1));
      tile[i] = line < lines && k < runs.length ? Pair::of(key_of(line, k), k) : Pair::last();
    }
    barrier();
    for (u32 size = 2; size <= width; size *= 2)
      for (u32 stride = size / 2; stride > 0; stride /= 2) {
        for (u32 p = threadIdx.x; p < Pair::tile / 2; p += sort_threads) {
          const u32 i = 2 * p - (p & (stride - 1)), j = i + stride;
          const bool ascending = (i & (width - 1) & size) == 0;
          const Pair a = tile[i], b = tile[j];
          if ((b < a) == ascending) {
            tile[i] = b;
            tile[j] = a;
          }
        }
        barrier();
      }
    const u64 kept = runs.kept(run);
    for (u32 i = threadIdx.x; i < Pair::tile; i += sort_threads) {
      const u64 line = first_line + (i >> shift), k = i & (width - 1);
      if (line < lines && k < kept) sink.put(runs, line, run, k, tile[i]);
    }
    barrier();
  }
}

// How many of the first `diagonal` pairs of the merge of a and b come from a.
template <class Pair>
DEVICE u64 merge_path(const Pair* a, u64 a_length, const Pair* b, u64 b_length, u64 diagonal) {
  u64 low = diagonal > b_length ? diagonal - b_length : 0, high = diagonal < a_length ? diagonal : a_length;
  while (low < high) {
    const u64 middle = (low + high) / 2;
    if (b[diagonal - 1 - middle] < a[middle])
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Merges runs 2 r and 2 r + 1 of `from` into run r of `to`, which is twice as wide. A block does a tile of
// the result at a time.
template <class Pair, class Sink>
DEVICE void merge_runs(const Pair* pairs, const Sink& sink, const Runs& from, const Runs& to, u64 lines) {
  constexpr u32 each = Pair::tile / sort_threads;
  __shared__ Pair tile[Pair::tile];
  __shared__ u16 order[Pair::tile];  // where in the tile each pair of the result is
  __shared__ u64 split[2];
  const u64 per_line = to.per_line(), per_run = (to.stride() + Pair::tile - 1) / Pair::tile;
  const u64 all = lines * per_line * per_run;
  for (u64 job = blockIdx.x; job < all; job += gridDim.x) {
    const u64 run = job / per_run % per_line, line = job / per_run / per_line;
    const u64 kept = to.kept(run), begin = job % per_run * Pair::tile;
    if (begin >= kept) continue;
    const u64 end = begin + Pair::tile < kept ? begin + Pair::tile : kept;
    const Pair *a = pairs + from.place(line, 2 * run), *b = pairs + from.place(line, 2 * run + 1);
    const u64 a_length = from.kept(2 * run), b_length = from.kept(2 * run + 1);
    if (threadIdx.x < 2)
      split[threadIdx.x] = merge_path(a, a_length, b, b_length, threadIdx.x == 0 ? begin : end);
    barrier();
    const u64 a_begin = split[0], b_begin = begin - a_begin;
    const u32 a_count = (u32)(split[1] - a_begin), total = (u32)(end - begin), b_count = total - a_count;
    for (u32 i = threadIdx.x; i < total; i += sort_threads)
      tile[i] = i < a_count ? a[a_begin + i] : b[b_begin + i - a_count];
    barrier();
    const u32 first = threadIdx.x * each;
    if (first < total) {
      u32 i = (u32)merge_path(tile, a_count, tile + a_count, b_count, first), j = first - i;
      for (u32 e = 0; e < each && first + e < total; ++e) {
        const bool from_b = i >= a_count || (j < b_count && tile[a_count + j] < tile[i]);
        order[first + e] = (u16)(from_b ? a_count + j : i);
        from_b ? ++j : ++i;
      }
    }
    barrier();
    for (u32 i = threadIdx.x; i < total; i += sort_threads)
      sink.put(to, line, run, begin + i, tile[order[i]]);
    barrier();
  }
}

// Keys of an array of values, by line.
template <class Index, class T>
struct ValueKeys {
  const T* values;
  Nest<1> places;  // over lines and the axis
  u64 length;
  u64 flip;  // all ones of a key for descending order
  DEVICE u64 operator()(u64 line, u64 k) const {
    return sort_key(load(values[places.at((Index)(line * length + k)).of[0]])) ^ flip;
  }
};
