// A cache of keys and values: rows put into it, and attention of single queries over its pages.
#pragma once

#include "indexing.h"
#include "key_value_cache_arguments.h"
#include "math.h"

template <class A, class B>
constexpr bool is_same = false;
template <class A>
constexpr bool is_same<A, A> = true;

// out: (rows, length) dense; values: (count, length) anywhere, of the same type or of another floating one.
template <class T, class V>
DEVICE void store_rows(T* out, const i64* indices, i64 index_stride, const V* values, const Nest<1>& places,
                       u64 count, u64 length, i64 rows, const Fault& fault) {
  for (u64 i = global_thread(); i < count * length; i += global_threads()) {
    const i64 index = indices[(i64)(i / length) * index_stride];
    if (index < 0) continue;  // names no row
    const u64 row = checked(index, rows, fault);
    if (row >= (u64)rows) continue;
    T& to = out[row * length + i % length];
    if constexpr (is_same<T, V>)
      to = values[places.at(i).of[0]];
    else
      to = store<T>((f32)load(values[places.at(i).of[0]]));
  }
}

namespace cached {

constexpr int threads = 256;
constexpr int packet = 8;       // features of a lane
constexpr int ahead = 4;        // keys of a lane that are read together
constexpr int least_keys = 64;  // of a split, where there are more

// The keys that a query sees, and how the splits share them: only the first `splits` have any.
struct Seen {
  i64 first, count, share;
  int splits;
  DEVICE Seen(const CachedAttentionShape& shape, i64 last) {
    first = shape.window > 0 && last >= shape.window ? last - shape.window + 1 : 0;
    count = last - first + 1;
    share = max((i64)least_keys, (count + shape.splits - 1) / shape.splits);
    splits = (int)((count + share - 1) / share);
  }
};

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

DEVICE Running of_lane_xor(const Running& r, int mask) {
  Running other{from_lane_xor(r.top, mask), from_lane_xor(r.total, mask), {}};
#pragma unroll
  for (int e = 0; e < packet; ++e) other.sum[e] = from_lane_xor(r.sum[e], mask);
  return other;
}

template <class T>
DEVICE Packet<T, packet> features_of(const T* row, int feature, int features) {
  if (features % packet == 0 && feature < features)  // else rows are not aligned
    return *reinterpret_cast<const Packet<T, packet>*>(row + feature);
  Packet<T, packet> values;
#pragma unroll
  for (int e = 0; e < packet; ++e)
    values.element[e] = feature + e < features ? row[feature + e] : store<T>(0.0f);
  return values;
}

constexpr int run = 32;  // bytes that share a scale

// What the numbers of a lane are multiples of. Only bytes have scales, and whole runs of features.
template <class T>
DEVICE f32 scale_of(const f16* scales, i64 row, int feature, int features) {
  if constexpr (is_same<T, i8>)
    return feature < features ? to_f32(scales[(row + feature) / run]) : 0.0f;
  else
    return 1;
}

// A block has HEADS heads of one group for one query and one split of its keys. LANES neighbouring lanes, a
// team, take a key together. `partial`: (query, head, split, features + 2), or null where there is one split.
template <class Q, class T, int HEADS, int LANES>
DEVICE void attend(const CachedAttentionShape& shape, const Q* q, const T* keys, const T* values,
                   const f16* key_scales, const f16* value_scales, const i64* sequences, const i64* positions,
                   const i64* table, Q* out, f32* partial, const Fault& fault) {
  constexpr int teams = threads / LANES, waves = threads / WAVE;
  __shared__ Running shared[waves][HEADS][LANES];
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
  const bool inside = (u64)last < (u64)shape.pages * (u64)shape.page;
  const bool fine = sequence < (u64)shape.sequences && inside;
  const Seen seen(shape, inside ? last : 0);
  if (split >= seen.splits) return;
  const i64 begin = seen.first + split * seen.share;
  const i64 end = fine ? min(begin + seen.share, seen.first + seen.count) : begin;
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
  for (i64 base = begin; base < end; base += teams * ahead) {  // whole waves: lanes ask each other
    Packet<T, packet> key[ahead], value[ahead];
    f32 key_scale[ahead], value_scale[ahead];
    bool counts[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      const i64 position = base + a * teams + team;
      const i64 at = position < end ? position : begin;
      const i64 page = pages[at / shape.page];
      const bool stored = page >= 0 && (page + 1) * shape.page <= shape.slots;
      counts[a] = position < end && stored;
      const i64 row =
          (stored ? page * shape.page + at % shape.page : 0) * slot_size + (i64)group * shape.features;
      key[a] = features_of(keys + row, feature, shape.features);
      value[a] = features_of(values + row, feature, shape.features);
      key_scale[a] = scale_of<T>(key_scales, row, feature, shape.features);
      value_scale[a] = scale_of<T>(value_scales, row, feature, shape.features);
    }
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      Running& r = running[h];
      f32 score[ahead], top = r.top;
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        score[a] = 0;
#pragma unroll
        for (int e = 0; e < packet; ++e)
          score[a] = ::fmaf(wanted[h][e], (f32)load(key[a].element[e]), score[a]);
        score[a] *= key_scale[a];
#pragma unroll
        for (int mask = LANES / 2; mask > 0; mask /= 2) score[a] += from_lane_xor(score[a], mask);
        if (shape.soft_cap > 0)
          score[a] = shape.soft_cap * math::tanh(score[a] / shape.soft_cap) * 1.44269504088896340736f;
        if (counts[a]) top = ::fmaxf(top, score[a]);
      }
      if (top == -infinity()) continue;
      const f32 shrink = fast_exp2(r.top - top);
      r.top = top;
      r.total *= shrink;
#pragma unroll
      for (int e = 0; e < packet; ++e) r.sum[e] *= shrink;
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        const f32 weight = counts[a] ? fast_exp2(score[a] - top) : 0.0f;
        r.total += weight;
        const f32 scaled = weight * value_scale[a];
#pragma unroll
        for (int e = 0; e < packet; ++e) r.sum[e] = ::fmaf(scaled, (f32)load(value[a].element[e]), r.sum[e]);
      }
    }
  }
  // The teams of a wave into one, then the waves, by a thread for each head and lane.
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
#pragma unroll
    for (int mask = LANES; mask < WAVE; mask *= 2)
      running[h] = combined(running[h], of_lane_xor(running[h], mask));
    if (lane() < LANES) shared[wave()][h][lane()] = running[h];
  }
  barrier();
  const int h = (int)threadIdx.x / LANES;
  if (h >= own_heads) return;
  Running r = shared[0][h][threadIdx.x % LANES];
  for (int w = 1; w < waves; ++w) r = combined(r, shared[w][h][threadIdx.x % LANES]);
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
      if (feature + e < shape.features) out[result * shape.features + feature + e] = store<Q>(r.sum[e] * by);
  }
}

// The splits of a query's head into one; a thread for each feature.
template <class Q>
DEVICE void combine(const CachedAttentionShape& shape, const i64* positions, const f32* partial, Q* out) {
  const u64 count = (u64)shape.queries * shape.heads * shape.features;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const i64 last = positions[(i64)(i / ((u64)shape.heads * shape.features)) * shape.position_stride];
    const bool inside = (u64)last < (u64)shape.pages * (u64)shape.page;
    const int splits = Seen(shape, inside ? last : 0).splits;
    const f32* from = partial + i / shape.features * shape.splits * (shape.features + 2);
    f32 top = -infinity(), total = 0, sum = 0;
#pragma unroll 4
    for (int s = 0; s < splits; ++s) top = ::fmaxf(top, from[s * (shape.features + 2)]);
    if (top != -infinity()) {
#pragma unroll 4
      for (int s = 0; s < splits; ++s) {
        const f32* split = from + s * (shape.features + 2);
        const f32 weight = fast_exp2(split[0] - top);
        total = ::fmaf(weight, split[1], total);
        sum = ::fmaf(weight, split[2 + i % shape.features], sum);
      }
    }
    out[i] = store<Q>(total == 0 ? 0.0f : sum / total);
  }
}

}  // namespace cached
