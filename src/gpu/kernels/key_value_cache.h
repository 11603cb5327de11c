// A cache of keys and values: rows put into it, and attention of single queries over its pages.
#pragma once

#include "indexing.h"
#include "key_value_cache_arguments.h"
#include "math.h"

// out: (rows, length) dense; values: (count, length) anywhere.
template <class T>
DEVICE void store_rows(T* out, const i64* indices, i64 index_stride, const T* values, const Nest<1>& places,
                       u64 count, u64 length, i64 rows, const Fault& fault) {
  for (u64 i = global_thread(); i < count * length; i += global_threads()) {
    const i64 index = indices[(i64)(i / length) * index_stride];
    if (index < 0) continue;  // names no row
    const u64 row = checked(index, rows, fault);
    if (row < (u64)rows) out[row * length + i % length] = values[places.at(i).of[0]];
  }
}

namespace cached {

constexpr int threads = 256;
constexpr int packet = 8;  // features of a lane

// The largest score, the sum of weights and the weighted sum of values so far, of one head. LANES lanes have
// the features between them.
struct Running {
  f32 top, total, sum[packet];
};

DEVICE Running combined(const Running& a, const Running& b) {
  const f32 top = ::fmaxf(a.top, b.top);
  if (top == -infinity()) return a;
  const f32 of_a = fast_exp2(a.top - top), of_b = fast_exp2(b.top - top);
  Running result{top, a.total * of_a + b.total * of_b, {}};
#pragma unroll
  for (int e = 0; e < packet; ++e) result.sum[e] = a.sum[e] * of_a + b.sum[e] * of_b;
  return result;
}

template <class T>
DEVICE void read_features(const T* row, int feature, int features, f32 (&to)[packet]) {
  if (features % packet == 0 && feature < features) {  // else rows are not aligned
    const auto values = *reinterpret_cast<const Packet<T, packet>*>(row + feature);
#pragma unroll
    for (int e = 0; e < packet; ++e) to[e] = load(values.element[e]);
  } else {
#pragma unroll
    for (int e = 0; e < packet; ++e) to[e] = feature + e < features ? load(row[feature + e]) : 0.0f;
  }
}

// A block has HEADS heads of one group for one query and one split of its keys. LANES neighbouring lanes take
// a key together. `partial`: (query, head, split, features + 2), or null where there is one split.
template <class Q, class T, int HEADS, int LANES>
DEVICE void attend(const CachedAttentionShape& shape, const Q* q, const T* keys, const T* values,
                   const i64* sequences, const i64* positions, const i64* table, Q* out, f32* partial,
                   const Fault& fault) {
  constexpr int teams = threads / LANES;
  __shared__ Running shared[teams][HEADS][LANES];
  const int per_group = shape.heads / shape.groups, head_blocks = (per_group + HEADS - 1) / HEADS;
  u32 block = blockIdx.x;
  const int split = (int)(block % (u32)shape.splits);
  block /= (u32)shape.splits;
  const int head_block = (int)(block % (u32)head_blocks);
  block /= (u32)head_blocks;
  const int group = (int)(block % (u32)shape.groups);
  const i64 query = block / (u32)shape.groups;
  const int first_head = group * per_group + head_block * HEADS;
  const int own_heads = min(HEADS, per_group - head_block * HEADS);

  const int team = (int)threadIdx.x / LANES, feature = (int)threadIdx.x % LANES * packet;
  const u64 sequence = checked(sequences[query * shape.sequence_stride], shape.sequences, fault);
  const i64 last =
      (i64)checked(positions[query * shape.position_stride], (i64)shape.pages * shape.page, fault);
  const bool fine = sequence < (u64)shape.sequences && (u64)last < (u64)shape.pages * (u64)shape.page;
  const i64 first = shape.window > 0 && last >= shape.window ? last - shape.window + 1 : 0;
  const i64 count = fine ? last - first + 1 : 0, share = (count + shape.splits - 1) / shape.splits;
  const i64 begin = first + split * share, end = min(begin + share, first + count);
  const i64* const pages = table + (fine ? sequence : 0) * (u64)shape.pages;

  // Scores are in units of log 2, so that exp2 gives the weights.
  const f32 scale = shape.soft_cap > 0 ? shape.scale : shape.scale * 1.44269504088896340736f;
  f32 wanted[HEADS][packet];
  Running running[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    running[h] = {-infinity(), 0, {}};
#pragma unroll
    for (int e = 0; e < packet; ++e)
      wanted[h][e] = h < own_heads && feature + e < shape.features
                         ? load(q[query * shape.q_query + (first_head + h) * shape.q_head +
                                  (feature + e) * shape.q_feature]) *
                               scale
                         : 0.0f;
  }
  const i64 slot_size = (i64)shape.groups * shape.features;
  for (i64 base = begin; base < end; base += teams) {  // whole waves: lanes ask each other
    const i64 position = base + team;
    const bool there = position < end;
    const i64 at = there ? position : begin;
    const i64 page = pages[at / shape.page];
    const bool stored = page >= 0 && (page + 1) * shape.page <= shape.slots;
    const i64 row =
        (stored ? page * shape.page + at % shape.page : 0) * slot_size + (i64)group * shape.features;
    f32 key[packet], value[packet];
    read_features(keys + row, feature, shape.features, key);
    read_features(values + row, feature, shape.features, value);
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      f32 score = 0;
#pragma unroll
      for (int e = 0; e < packet; ++e) score = ::fmaf(wanted[h][e], key[e], score);
#pragma unroll
      for (int mask = LANES / 2; mask > 0; mask /= 2) score += from_lane_xor(score, mask);
      if (shape.soft_cap > 0)
        score = shape.soft_cap * math::tanh(score / shape.soft_cap) * 1.44269504088896340736f;
      if (!there || !stored) continue;
      Running& r = running[h];
      const f32 top = ::fmaxf(r.top, score);
      const f32 shrink = r.top == -infinity() ? 0.0f : fast_exp2(r.top - top),
                weight = fast_exp2(score - top);
      r.total = r.total * shrink + weight;
#pragma unroll
      for (int e = 0; e < packet; ++e) r.sum[e] = ::fmaf(weight, value[e], r.sum[e] * shrink);
      r.top = top;
    }
  }
  // The teams' results into that of the first, pair by pair.
#pragma unroll
  for (int h = 0; h < HEADS; ++h) shared[team][h][threadIdx.x % LANES] = running[h];
  for (int distance = teams / 2; distance > 0; distance /= 2) {
    barrier();
    if (team < distance)
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        running[h] = combined(running[h], shared[team + distance][h][threadIdx.x % LANES]);
        shared[team][h][threadIdx.x % LANES] = running[h];
      }
  }
  if (team != 0) return;
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    if (h >= own_heads) continue;
    const Running& r = running[h];
    const i64 result = query * shape.heads + first_head + h;
    if (partial) {
      f32* to = partial + (result * shape.splits + split) * (shape.features + 2);
      if (feature == 0) {
        to[0] = r.top;
        to[1] = r.total;
      }
#pragma unroll
      for (int e = 0; e < packet; ++e)
        if (feature + e < shape.features) to[2 + feature + e] = r.sum[e];
    } else {
      const f32 by = r.total == 0 ? 0.0f : 1 / r.total;
#pragma unroll
      for (int e = 0; e < packet; ++e)
        if (feature + e < shape.features)
          out[result * shape.features + feature + e] = store<Q>(r.sum[e] * by);
    }
  }
}

// The splits of a query's head into one; a thread for each feature.
template <class Q>
DEVICE void combine(const CachedAttentionShape& shape, const f32* partial, Q* out) {
  const u64 count = (u64)shape.queries * shape.heads * shape.features;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const f32* from = partial + i / shape.features * shape.splits * (shape.features + 2);
    f32 top = -infinity(), total = 0, sum = 0;
    for (int s = 0; s < shape.splits; ++s) top = ::fmaxf(top, from[s * (shape.features + 2)]);
    if (top != -infinity())
      for (int s = 0; s < shape.splits; ++s) {
        const f32* split = from + s * (shape.features + 2);
        const f32 weight = fast_exp2(split[0] - top);
        total = ::fmaf(weight, split[1], total);
        sum = ::fmaf(weight, split[2 + i % shape.features], sum);
      }
    out[i] = store<Q>(total == 0 ? 0.0f : sum / total);
  }
}

}  // namespace cached
