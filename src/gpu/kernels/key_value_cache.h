// A cache of keys and values: rows put into it, and attention of single queries over its pages.
#pragma once

#include "indexing.h"
#include "key_value_cache_arguments.h"
#include "math.h"

template <class A, class B>
constexpr bool is_same = false;
template <class A>
constexpr bool is_same<A, A> = true;

template <class T, class V, int N>
DEVICE void convert(Packet<T, N>& to, const Packet<V, N>& from) {
#pragma unroll
  for (int e = 0; e < N; ++e) to.element[e] = store<T>((f32)load(from.element[e]));
}

// out: (rows, length) dense; values: (count, length) anywhere, of the same type, or packets of one and of
// another.
template <class T, class V>
struct StorePart {
  const i64* indices;
  i64 index_stride;
  const V* values;
  Nest<1> places;
  T* out;
};
template <class T, class V>
DEVICE void store_part(const StorePart<T, V>& part, u64 count, u64 length, i64 rows, const Fault& fault) {
  const V* const values = part.values;
  const Nest<1>& places = part.places;
  for (u64 i = global_thread(); i < count * length; i += global_threads()) {
    const i64 index = part.indices[(i64)(i / length) * part.index_stride];
    if (index < 0) continue;  // names no row
    const u64 row = checked(index, rows, fault);
    if (row >= (u64)rows) continue;
    T& to = part.out[row * length + i % length];
    const V& from = values[places.at(i).of[0]];
    if constexpr (is_same<T, V>)
      to = from;
    else
      convert(to, from);
  }
}

namespace cached {

constexpr int threads = 256;
constexpr int packet = 8;       // features of a lane
constexpr int ahead = 4;        // keys of a lane that are read together
constexpr u32 least_keys = 64;  // of a split, where there are more

// The keys that a query sees, and how the splits share them: only the first `splits` have any.
struct Seen {
  i64 first, count, share;
  int splits;
  DEVICE Seen(const CachedAttentionShape& shape, i64 last) {
    first = shape.window > 0 && last >= shape.window ? last - shape.window + 1 : 0;
    count = last - first + 1;
    const u32 keys = (u32)count, each = (keys + shape.splits - 1) / (u32)shape.splits;
    share = each > least_keys ? each : least_keys;
    splits = (int)((keys + (u32)share - 1) / (u32)share);
  }
};

// The largest score, the sum of weights and the weighted sum of values so far, of one head. Several
// lanes have the features between them.
struct Running {
  f32 top, total, sum[packet];
};

// What weights by one largest score are multiplied with, to be by another that is no smaller. Without a
// branch: lanes ask each other later.
DEVICE f32 shrinking(f32 from, f32 top) { return from == top ? 1.0f : fast_exp2(from - top); }

DEVICE Running combined(const Running& a, const Running& b) {
  const f32 top = ::fmaxf(a.top, b.top);
  const f32 of_a = shrinking(a.top, top), of_b = shrinking(b.top, top);
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

// Lanes that have the features of a head between them.
constexpr int lanes_for(int features) {
  int lanes = 1;
  while (lanes * packet < features) lanes *= 2;
  return lanes;
}

template <int FEATURES, class T>
DEVICE Packet<T, packet> features_of(const T* row, int feature) {
  constexpr bool whole = FEATURES % packet == 0;  // else rows are not aligned
  if (whole && (FEATURES == lanes_for(FEATURES) * packet || feature < FEATURES))
    return *reinterpret_cast<const Packet<T, packet>*>(row + feature);
  Packet<T, packet> values;
#pragma unroll
  for (int e = 0; e < packet; ++e)
    values.element[e] = !whole && feature + e < FEATURES ? row[feature + e] : store<T>(0.0f);
  return values;
}

constexpr int run = 32;  // bytes that share a scale

// What the numbers of a lane are multiples of. Only bytes have scales, and whole runs of features.
template <int FEATURES, class T>
DEVICE f32 scale_of(const f16* scales, i64 row, int feature) {
  if constexpr (is_same<T, i8>)
    return feature < FEATURES ? to_f32(scales[(row + feature) / run]) : 0.0f;
  else
    return 1;
}

// What splits leave for the block that combines them: sums (result, split, features), and for each the
// largest score and the sum of weights.
template <int FEATURES>
struct Partial {
  f32 *sums, *scales;
  int splits;
  DEVICE Partial(const CachedAttentionShape& shape, f32* scratch)
      : sums(scratch),
        scales(scratch + (i64)shape.queries * shape.heads * shape.splits * FEATURES),
        splits(shape.splits) {}
  DEVICE f32* sums_of(i64 result, int split) const { return sums + (result * splits + split) * FEATURES; }
  DEVICE f32* scales_of(i64 result, int split) const { return scales + (result * splits + split) * 2; }
};

// The splits of HEADS results from `first` on into one each, by a block: waves share the splits of a result.
// What is read does not wait for each other: other kernels may keep the memory busy.
template <class Q, int HEADS, int FEATURES>
DEVICE void combine(const Partial<FEATURES>& partial, i64 first, int heads, int splits, Q* out) {
  constexpr int waves = threads / WAVE, slices = waves / HEADS, each = (FEATURES + WAVE - 1) / WAVE;
  constexpr int of_lane = (most_attention_splits + WAVE - 1) / WAVE, at_once = 4;
  __shared__ f32 weights[waves][of_lane * WAVE], sums[waves][each * WAVE];
  const int h = (int)wave() / slices, slice = (int)wave() % slices;
  const i64 result = first + (h < heads ? h : 0);
  f32 tops[of_lane], totals[of_lane];
#pragma unroll
  for (int i = 0; i < of_lane; ++i) {
    const int s = i * WAVE + (int)lane();
    const f32* const scales = partial.scales_of(result, s < splits ? s : 0);
    tops[i] = s < splits ? load_fresh(scales) : -infinity();
    totals[i] = s < splits ? load_fresh(scales + 1) : 0.0f;
  }
  // Of some splits from `s` on.
  struct Some {
    f32 of[at_once][each];
  };
  const auto read = [&](int s) {
    Some some;
#pragma unroll
    for (int a = 0; a < at_once; ++a)
#pragma unroll
      for (int e = 0; e < each; ++e) {
        const int feature = e * WAVE + (int)lane(), split = s + a * slices;
        const bool there = split < splits && (FEATURES % WAVE == 0 || feature < FEATURES);
        some.of[a][e] = there ? load_fresh(partial.sums_of(result, split) + feature) : 0.0f;
      }
    return some;
  };
  Some some = read(slice);
  f32 top = tops[0], total = 0;
#pragma unroll
  for (int i = 1; i < of_lane; ++i) top = ::fmaxf(top, tops[i]);
  top = wave_reduce(top, [](f32 a, f32 b) { return ::fmaxf(a, b); });
#pragma unroll
  for (int i = 0; i < of_lane; ++i) {
    const f32 weight = tops[i] == -infinity() ? 0.0f : fast_exp2(tops[i] - top);
    weights[wave()][i * WAVE + (int)lane()] = weight;
    total = ::fmaf(weight, totals[i], total);
  }
  total = wave_reduce(total, [](f32 a, f32 b) { return a + b; });
  wave_barrier();
  f32 sum[each] = {};
  for (int s = slice;;) {
#pragma unroll
    for (int a = 0; a < at_once; ++a)
#pragma unroll
      for (int e = 0; e < each; ++e)
        if (s + a * slices < splits) sum[e] = ::fmaf(weights[wave()][s + a * slices], some.of[a][e], sum[e]);
    s += at_once * slices;
    if (s >= splits) break;
    some = read(s);
  }
#pragma unroll
  for (int e = 0; e < each; ++e) sums[wave()][e * WAVE + (int)lane()] = sum[e];
  barrier();
  if (slice > 0 || h >= heads) return;
  const f32 by = total == 0 ? 0.0f : 1 / total;
#pragma unroll
  for (int e = 0; e < each; ++e) {
    const int feature = e * WAVE + (int)lane();
    for (int other = 1; other < slices; ++other) sum[e] += sums[wave() + other][feature];
    if (feature < FEATURES) out[result * FEATURES + feature] = store<Q>(sum[e] * by);
  }
}

// A block has HEADS heads of one group for one query and one split of its keys. Neighbouring lanes, a team,
// take a key together. `scratch`: of a Partial, or null where there is one split; the last block of a query's
// heads combines the splits, after `arrived` has told it that it is the last. Before `wait` is called only
// `sequences`, `positions` and `table` are read; splits without keys leave before, or STAY until then.
template <class Q, class T, int HEADS, int FEATURES, bool SOFT_CAP, bool STAY, class Wait>
DEVICE void attend(const CachedAttentionShape& shape, const Q* q, const T* keys, const T* values,
                   const f16* key_scales, const f16* value_scales, const i64* sequences, const i64* positions,
                   const i64* table, Q* out, f32* scratch, u32* arrived, const Fault& fault, Wait wait) {
  constexpr int lanes = lanes_for(FEATURES), teams = threads / lanes, waves = threads / WAVE;
  __shared__ Running shared[waves][HEADS][lanes];
  const int per_group = shape.heads / shape.groups, head_blocks = (per_group + HEADS - 1) / HEADS;
  // First the splits that always have keys.
  const u32 of_split = (u32)shape.queries * (u32)shape.groups * (u32)head_blocks;
  const int split = (int)(blockIdx.x / of_split);
  u32 block = blockIdx.x % of_split;
  arrived += block;
  const int head_block = (int)(block % (u32)head_blocks);
  block /= (u32)head_blocks;
  const int group = (int)(block % (u32)shape.groups);
  const i64 query = block / (u32)shape.groups;
  const int first_head = group * per_group + head_block * HEADS;
  const int own_heads = min(HEADS, per_group - head_block * HEADS);

  const int team = (int)threadIdx.x / lanes, feature = (int)threadIdx.x % lanes * packet;
  const u64 sequence = checked(sequences[query * shape.sequence_stride], shape.sequences, fault);
  const i64 last =
      (i64)checked(positions[query * shape.position_stride], (i64)shape.pages * shape.page, fault);
  const bool inside = (u64)last < (u64)shape.pages * (u64)shape.page;
  const bool fine = sequence < (u64)shape.sequences && inside;
  const Seen seen(shape, inside ? last : 0);
  if (split >= seen.splits) {
    if (STAY) wait();
    return;
  }
  const i64 begin = seen.first + split * seen.share;
  const i64 end = fine ? min(begin + seen.share, seen.first + seen.count) : begin;
  const i64* const pages = table + (fine ? sequence : 0) * (u64)shape.pages;
  const i64 slot_size = (i64)shape.groups * FEATURES;
  const u32 page_size = (u32)shape.page;
  // Where the keys and values of a position are, if they are anywhere.
  const auto place_of = [&](i64 position, i64& row) {
    const u32 at = (u32)(position < end ? position : begin), number = at / page_size;
    const i64 page = pages[number];
    const bool stored = page >= 0 && (page + 1) * shape.page <= shape.slots;
    row = (stored ? page * shape.page + (at - number * page_size) : 0) * slot_size + (i64)group * FEATURES;
    return position < end && stored;
  };
  if (STAY && end > begin && (feature * (int)sizeof(T)) % 128 == 0 && feature < FEATURES)
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      i64 row;
      if (!place_of(begin + a * teams + team, row)) continue;
      bring_near(keys + row + feature);
      bring_near(values + row + feature);
    }
  wait();

  // Scores are in units of log 2, so that exp2 gives the weights.
  const f32 scale = SOFT_CAP ? shape.scale : shape.scale * 1.44269504088896340736f;
  f32 wanted[HEADS][packet];
  Running running[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    running[h] = {-infinity(), 0, {}};
#pragma unroll
    for (int e = 0; e < packet; ++e)
      wanted[h][e] = h < own_heads && feature + e < FEATURES
                         ? load(q[query * shape.q_query + (first_head + h) * shape.q_head +
                                  (feature + e) * shape.q_feature]) *
                               scale
                         : 0.0f;
  }
  for (i64 base = begin; base < end; base += teams * ahead) {  // whole waves: lanes ask each other
    Packet<T, packet> key[ahead], value[ahead];
    f32 key_scale[ahead], value_scale[ahead];
    bool counts[ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      i64 row;
      counts[a] = place_of(base + a * teams + team, row);
      key[a] = features_of<FEATURES>(keys + row, feature);
      value[a] = features_of<FEATURES>(values + row, feature);
      key_scale[a] = scale_of<FEATURES, T>(key_scales, row, feature);
      value_scale[a] = scale_of<FEATURES, T>(value_scales, row, feature);
    }
    f32 score[HEADS][ahead];
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      f32 numbers[packet];
#pragma unroll
      for (int e = 0; e < packet; ++e) numbers[e] = (f32)load(key[a].element[e]);
#pragma unroll
      for (int h = 0; h < HEADS; ++h) {
        score[h][a] = 0;
#pragma unroll
        for (int e = 0; e < packet; ++e) score[h][a] = ::fmaf(wanted[h][e], numbers[e], score[h][a]);
        score[h][a] *= key_scale[a];
      }
    }
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      Running& r = running[h];
      f32 top = r.top;
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
#pragma unroll
        for (int mask = lanes / 2; mask > 0; mask /= 2) score[h][a] += from_lane_xor(score[h][a], mask);
        if constexpr (SOFT_CAP)
          score[h][a] = shape.soft_cap * math::tanh(score[h][a] / shape.soft_cap) * 1.44269504088896340736f;
        top = counts[a] ? ::fmaxf(top, score[h][a]) : top;
      }
      const f32 shrink = shrinking(r.top, top);
      r.top = top;
      r.total *= shrink;
#pragma unroll
      for (int e = 0; e < packet; ++e) r.sum[e] *= shrink;
#pragma unroll
      for (int a = 0; a < ahead; ++a) {
        score[h][a] = counts[a] ? fast_exp2(score[h][a] - top) : 0.0f;  // from here on the weight
        r.total += score[h][a];
      }
    }
#pragma unroll
    for (int a = 0; a < ahead; ++a) {
      f32 numbers[packet];
#pragma unroll
      for (int e = 0; e < packet; ++e) numbers[e] = (f32)load(value[a].element[e]) * value_scale[a];
#pragma unroll
      for (int h = 0; h < HEADS; ++h)
#pragma unroll
        for (int e = 0; e < packet; ++e)
          running[h].sum[e] = ::fmaf(score[h][a], numbers[e], running[h].sum[e]);
    }
  }
  // The teams of a wave into one, then the waves, by a thread for each head and lane.
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
#pragma unroll
    for (int mask = lanes; mask < WAVE; mask *= 2)
      running[h] = combined(running[h], of_lane_xor(running[h], mask));
    if (lane() < lanes) shared[wave()][h][lane()] = running[h];
  }
  barrier();
  const int h = (int)threadIdx.x / lanes;
  const i64 first = query * shape.heads + first_head;
  const Partial<FEATURES> partial(shape, scratch);
  if (h < own_heads) {
    Running r = shared[0][h][threadIdx.x % lanes];
    for (int w = 1; w < waves; ++w) r = combined(r, shared[w][h][threadIdx.x % lanes]);
    if (seen.splits == 1) {
      const f32 by = r.total == 0 ? 0.0f : 1 / r.total;
#pragma unroll
      for (int e = 0; e < packet; ++e)
        if (feature + e < FEATURES) out[(first + h) * FEATURES + feature + e] = store<Q>(r.sum[e] * by);
    } else {
      if (feature == 0) {
        partial.scales_of(first + h, split)[0] = r.top;
        partial.scales_of(first + h, split)[1] = r.total;
      }
#pragma unroll
      for (int e = 0; e < packet; ++e)
        if (feature + e < FEATURES) partial.sums_of(first + h, split)[feature + e] = r.sum[e];
    }
  }
  if (seen.splits == 1 || !last_to_arrive(arrived, (u32)seen.splits)) return;
  combine<Q, HEADS, FEATURES>(partial, first, own_heads, seen.splits, out);
}

}  // namespace cached
