// A cache of keys and values: rows put into it, and attention of single queries over its pages.
#pragma once

#include "copy_ahead.h"
#include "indexing.h"
#include "key_value_cache_arguments.h"
#include "math.h"
#include "rounded_rows.h"

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
// `count`: of the values, in units; `length`: of a row.
template <class Index, class T, class V>
DEVICE void store_part(const StorePart<T, V>& part, u64 count, const Divisor& length, i64 rows,
                       const Fault& fault) {
  for (Index i = (Index)global_thread(); i < count; i += (Index)global_threads()) {
    const Index number = length.divide(i);
    const i64 index = part.indices[number * part.index_stride];
    if (index < 0) continue;  // names no row
    const u64 row = checked(index, rows, fault);
    if (row >= (u64)rows) continue;
    T& to = part.out[row * length.value + (i - number * (Index)length.value)];
    const V& from = part.values[part.places.at(i).of[0]];
    if constexpr (same_type<T, V>)
      to = from;
    else
      convert(to, from);
  }
}

namespace cached {

constexpr int packet = 8;  // features of a lane

// The keys that a query sees, and how the splits share them: only the first `splits` have any.
struct Seen {
  i64 first, count, share;
  int splits;
  DEVICE Seen(const CachedAttentionShape& shape, i64 last) {
    first = shape.window > 0 && last >= shape.window ? last - shape.window + 1 : 0;
    count = last - first + 1;
    const u32 keys = (u32)count, each = (keys + shape.splits - 1) / (u32)shape.splits;
    share = each > (u32)shape.least_keys ? each : (u32)shape.least_keys;
    splits = (int)((keys + (u32)share - 1) / (u32)share);
  }
};

constexpr f32 log2_e = 1.44269504088896340736f;

// What weights by one largest score are multiplied with, to be by another that is no smaller. Without a
// branch: lanes ask each other later.
DEVICE f32 shrinking(f32 from, f32 top) { return from == top ? 1.0f : fast_exp2(from - top); }

// Adds up what LANES lanes have of each of N values; their numbers differ by multiples of APART. Value i is
// afterwards value first_of(lane) + i of the given ones, for i < kept; where there are fewer values than
// lanes, neighbours have the same.
template <int N, int LANES, int APART>
struct Fold {
  static constexpr int kept = N > LANES ? N / LANES : 1;
  DEVICE static int first_of(int lane) {
    const int among = lane / APART % LANES;
    return N > LANES ? among * kept : among / (LANES / N);
  }
  DEVICE static void add(f32 (&values)[N]) { halve<N, LANES / 2>(values); }

 private:
  template <int LEFT, int HALF>
  DEVICE static void halve(f32 (&values)[N]) {
    if constexpr (HALF > 0) {
      constexpr int mask = HALF * APART, next = LEFT > 1 ? LEFT / 2 : 1;
      const bool upper = (lane() & mask) != 0;
#pragma unroll
      for (int i = 0; i < next; ++i) {
        const f32 first = values[i], second = values[LEFT / 2 + i];  // not a choice between places in memory
        values[i] =
            (LEFT > 1 && upper ? second : first) + from_lane_xor(LEFT > 1 && upper ? first : second, mask);
      }
      halve<next, HALF / 2>(values);
    }
  }
};

// Lanes that have the features of a head between them; enough for each to have scores of one head only.
constexpr int lanes_for(int features) {
  int lanes = 4;
  while (lanes * packet < features) lanes *= 2;
  return lanes;
}

// Keys of a team that are read together: as many as registers hold. All that a block reads is on its way at
// once where it can be: what is read later may have to wait for the weights of kernels that start early.
// Those that were read before there was anything to wait for are fewer, for fewer instructions.
template <class T, int HEADS, bool EARLY>
constexpr int keys_together = HEADS <= 2 && sizeof(T) <= 2 && !EARLY ? 8 : 4;

// The same, of those that are on their way through shared memory (as gpu/key_value_cache.cpp counts its
// bytes).
constexpr int staged_keys = 4;

// The features of a lane as they lie in memory: the compiler would give each one a register.
template <class T>
class Features {
 public:
  // Of a row of FEATURES, from number `feature` on; behind the last one are zeros, and where nothing is
  // `there`.
  template <int FEATURES>
  DEVICE static Features of(const T* row, int feature, bool there) {
    constexpr bool whole = FEATURES % packet == 0;  // else rows are not aligned
    Features result = {};
    if constexpr (whole) {
      if (there && (FEATURES == lanes_for(FEATURES) * packet || feature < FEATURES))
        result.words_ = *reinterpret_cast<const Words*>(row + feature);
    } else {
      Packet<T, packet> values;
#pragma unroll
      for (int e = 0; e < packet; ++e)
        values.element[e] = there && feature + e < FEATURES ? row[feature + e] : store<T>(0.0f);
      result.words_ = bit_cast<Words>(values);
    }
    return result;
  }
  // Those that a copy has brought.
  DEVICE static Features of(const Unit16* place) {
    Features result;
    result.words_ = bit_cast<Words>(*place);
    return result;
  }
  DEVICE f32 operator[](int e) const {
    constexpr int in_word = 4 / (int)sizeof(T);
    const u32 word = words_.element[e / in_word] >> 8 * sizeof(T) * (e % in_word);
    if constexpr (sizeof(T) == 1)
      return (f32)load(bit_cast<T>((u8)word));
    else if constexpr (sizeof(T) == 2)
      return (f32)load(bit_cast<T>((u16)word));
    else
      return (f32)load(bit_cast<T>(word));
  }

 private:
  using Words = Packet<u32, packet*(int)sizeof(T) / 4>;
  Words words_;
};

constexpr int run = 32;  // bytes that share a scale

// What the numbers of a lane are multiples of. Only bytes have scales, and whole runs of features.
template <int FEATURES, class T>
DEVICE f32 scale_of(const f16* scales, i64 row, int feature, bool there) {
  if constexpr (same_type<T, i8>)
    return there && feature < FEATURES ? to_f32(scales[(row + feature) / run]) : 0.0f;
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
// What is read does not wait for each other: other kernels may keep the memory busy. `kept`: shared memory
// for the results, too, or null.
template <int THREADS, class Q, int HEADS, int FEATURES, bool SINKS>
DEVICE void combine(const Partial<FEATURES>& partial, i64 first, int heads, int splits, const f32* sinks,
                    Q* out, f32* kept) {
  constexpr int waves = THREADS / WAVE, slices = waves / HEADS, each = (FEATURES + WAVE - 1) / WAVE;
  static_assert(slices > 0, "a wave for each");
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
  const f32 sink = SINKS ? sinks[h < heads ? h : 0] * log2_e : 0;
  if (SINKS) top = ::fmaxf(top, sink);
#pragma unroll
  for (int i = 0; i < of_lane; ++i) {
    const f32 weight = tops[i] == -infinity() ? 0.0f : fast_exp2(tops[i] - top);
    weights[wave()][i * WAVE + (int)lane()] = weight;
    total = ::fmaf(weight, totals[i], total);
  }
  total = wave_reduce(total, [](f32 a, f32 b) { return a + b; });
  if (SINKS) total += fast_exp2(sink - top);
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
  const f32 by = total == 0 ? 0.0f : fast_reciprocal(total);
#pragma unroll
  for (int e = 0; e < each; ++e) {
    const int feature = e * WAVE + (int)lane();
    for (int other = 1; other < slices; ++other) sum[e] += sums[wave() + other][feature];
    if (feature >= FEATURES) continue;
    out[result * FEATURES + feature] = store<Q>(sum[e] * by);
    if (kept != nullptr) kept[h * FEATURES + feature] = sum[e] * by;
  }
}

// A block has HEADS heads of one group for one query and one split of its keys. Neighbouring lanes, a team,
// take a key together. Waves have largest scores of their own; they and the sums of values meet at the end.
// `scratch`: of a Partial, or null where there is one split; the last block of a query's heads combines the
// splits, after `arrived` has told it that it is the last. Before `wait` is called only `sequences`,
// `positions` and `table` are read; splits without keys leave before, or STAY until then. EARLY: the first
// keys and values are read before, too, but for those at the query's own position. RUN: so many neighbours
// have a scale in `rounded_rows`, where the results are rounded, too; 0: they are not. STAGES: keys and
// values of so many turns are on their way through shared memory; 0: those of a turn are waited for in
// registers.
template <int THREADS, class Q, class T, int HEADS, int FEATURES, bool SOFT_CAP, bool SINKS, bool STAY,
          bool EARLY, u32 RUN, int STAGES, class Wait>
DEVICE void attend(const CachedAttentionShape& shape, const Q* q, const T* keys, const T* values,
                   const f16* key_scales, const f16* value_scales, const f32* sinks, const i64* sequences,
                   const i64* positions, const i64* table, Q* out, u8* rounded_rows, f32* scratch,
                   u32* arrived, const Fault& fault, Wait wait) {
  constexpr int lanes = lanes_for(FEATURES), teams = THREADS / lanes, waves = THREADS / WAVE;
  constexpr int together = STAGES > 0 ? staged_keys : keys_together<T, HEADS, EARLY>, wide = lanes * packet;
  static_assert(STAGES == 0 || (!EARLY && sizeof(T) == 2 && FEATURES % packet == 0),
                "whole packets of 16 bytes");
  static_assert(HEADS <= 4 && HEADS <= lanes, "lanes have scores of one head");
  __shared__ __align__(16) f32 wanted[HEADS][wide];              // queries
  __shared__ __align__(16) f32 weights[teams][together][HEADS];  // of the keys at hand
  __shared__ f32 tops[waves][HEADS], totals[waves][HEADS], sums[waves][HEADS][wide];
  f32* const kept = RUN > 0 ? wanted[0] : nullptr;  // results, when queries are not read any more
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

  const int team = (int)threadIdx.x / lanes, of_team = (int)threadIdx.x % lanes, feature = of_team * packet;
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
  const u32 begin = (u32)(seen.first + split * seen.share);
  const u32 end = fine ? (u32)min((i64)begin + seen.share, seen.first + seen.count) : begin;
  const i64* const pages = table + (fine ? sequence : 0) * (u64)shape.pages;
  const u32 page_size = (u32)shape.page;
  // In which slot of the cache a key and its value are; from `nowhere` on they are in none.
  constexpr u32 nowhere = 0x80000000u;
  const auto slot_of = [&](u32 position) {
    if (position >= end) return nowhere;
    const u32 number = position / page_size;
    const i64 page = pages[number];
    if (page < 0 || (page + 1) * page_size > shape.slots) return nowhere;
    return (u32)page * page_size + (position - number * page_size);
  };
  // Each lane finds a slot or two of those of the keys from `base` on that the team takes.
  constexpr int of_lane = together > lanes ? together / lanes : 1;
  struct Slots {
    u32 of[of_lane];
  };
  const auto find = [&](u32 base) {
    Slots slots;
#pragma unroll
    for (int i = 0; i < of_lane; ++i)
      slots.of[i] = slot_of(base + (u32)((of_team % together + i * lanes) * teams + team));
    return slots;
  };
  // Of the first keys of the team.
  const auto is_newest = [&](int a) { return begin + (u32)(a * teams + team) == (u32)last; };
  const auto row_of = [&](u32 slot) { return ((i64)slot * shape.groups + group) * FEATURES; };
  Slots slots = find(begin);
  if constexpr (STAY) {
    const u32 near = slot_of(begin + (EARLY ? teams * together : 0) + threadIdx.x);
    if (near < nowhere)
#pragma unroll
      for (int f = 0; f < FEATURES; f += 128 / (int)sizeof(T)) {
        bring_near(keys + row_of(near) + f);
        bring_near(values + row_of(near) + f);
      }
  }
  if (!EARLY || begin >= end) wait();
  // Each thread has places of its own, so that it waits for nobody else's copies.
  Unit16* const room = STAGES > 0 ? launched_shared<Unit16>() + threadIdx.x : nullptr;
  const auto place_of = [&](int stage, int a, int value) {
    return room + ((stage * together + a) * 2 + value) * THREADS;
  };
  u32 on_the_way = 0;  // which keys there are, a bit for each, those of the next turn first
  int stage = 0;
  const auto bring = [&](const Slots& from) {
    u32 there = 0;
#pragma unroll
    for (int a = 0; a < together; ++a) {
      const u32 slot = from_lane(from.of[a / lanes], lane() - (u32)of_team + (u32)(a % lanes));
      const bool has = slot < nowhere && feature < FEATURES;
      const i64 at = has ? row_of(slot) + feature : 0;
      start_copy_or_zero(place_of(stage, a, 0), keys + at, has);
      start_copy_or_zero(place_of(stage, a, 1), values + at, has);
      there |= (u32)(slot < nowhere) << a;
    }
    end_of_copies();
    on_the_way |= there << (STAGES > 0 ? STAGES - 1 : 0) * together;
  };
  if constexpr (STAGES > 0) {
    Slots first[STAGES];
#pragma unroll
    for (int s = 0; s < STAGES; ++s) first[s] = s == 0 ? slots : find(begin + s * teams * together);
#pragma unroll
    for (stage = 0; stage < STAGES; ++stage) {
      on_the_way >>= together;
      bring(first[stage]);
    }
    stage = 0;
    slots = find(begin + STAGES * teams * together);
  }

  // Scores are in units of log 2, so that exp2 gives the weights.
  const f32 scale = SOFT_CAP ? shape.scale : shape.scale * log2_e;
  // Each lane has a few scores of some keys at a time, of one head.
  using Scores = Fold<HEADS * together, lanes, 1>;
  constexpr int same_head = lanes / HEADS;                                          // lanes of a team
  constexpr int same_scores = lanes > HEADS * together ? same_head / together : 1;  // of those
  const int own = Scores::first_of((int)lane()), own_head = own / together, own_key = own % together;
  f32 top = -infinity(), total = 0;
  f32 sum[HEADS * packet] = {};
  // A loop from its first turn on, for fewer instructions (as prepare_rows() in quantised.h).
#pragma unroll 1
  for (u32 base = begin; base < end; base += teams * together) {  // whole waves: lanes ask each other
    Features<T> key[together], value[together];
    f32 key_scale[together], value_scale[together];
    u32 counts = 0;  // a bit for each
    const auto read = [&](int a, i64 row, bool there) {
      key[a] = Features<T>::template of<FEATURES>(keys + row, feature, there);
      value[a] = Features<T>::template of<FEATURES>(values + row, feature, there);
      key_scale[a] = scale_of<FEATURES, T>(key_scales, row, feature, there);
      value_scale[a] = scale_of<FEATURES, T>(value_scales, row, feature, there);
    };
    if constexpr (STAGES > 0) {
      wait_for_copies<STAGES - 1>();
      counts = on_the_way & ((1u << together) - 1);
#pragma unroll
      for (int a = 0; a < together; ++a) {
        key[a] = Features<T>::of(place_of(stage, a, 0));
        value[a] = Features<T>::of(place_of(stage, a, 1));
        key_scale[a] = value_scale[a] = 1;
      }
    } else {
#pragma unroll
      for (int a = 0; a < together; ++a) {
        const u32 slot = from_lane(slots.of[a / lanes], lane() - (u32)of_team + (u32)(a % lanes));
        const bool there = slot < nowhere;
        counts |= (u32)there << a;
        const bool early = there && !(EARLY && base == begin && is_newest(a));
        read(a, early ? row_of(slot) : 0, early);
      }
    }
    if (base == begin) {
      if constexpr (EARLY) {
        const u32 newest = slot_of((u32)last);
        wait();
#pragma unroll
        for (int a = 0; a < together; ++a)
          if (is_newest(a) && newest < nowhere) read(a, row_of(newest), true);
      }
#pragma unroll 1
      for (int at = (int)threadIdx.x; at < HEADS * wide; at += THREADS) {
        const int h = at / wide, f = at % wide;
        const i64 place = query * shape.q_query + (first_head + h) * shape.q_head + f * shape.q_feature;
        wanted[h][f] = h < own_heads && f < FEATURES ? load(q[place]) * scale : 0.0f;
      }
      barrier();
    }
    if constexpr (STAGES > 0) {
      on_the_way >>= together;
      bring(slots);
      stage = stage + 1 == STAGES ? 0 : stage + 1;
      slots = find(base + (STAGES + 1) * teams * together);
    } else {
      slots = find(base + teams * together);
    }
    f32 products[HEADS * together] = {};
#pragma unroll
    for (int half = 0; half < packet; half += 4) {
      Packet<f32, 4> query_numbers[HEADS];
#pragma unroll
      for (int h = 0; h < HEADS; ++h)
        query_numbers[h] = *reinterpret_cast<const Packet<f32, 4>*>(&wanted[h][feature + half]);
#pragma unroll
      for (int a = 0; a < together; ++a)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const f32 number = key[a][half + e];
#pragma unroll
          for (int h = 0; h < HEADS; ++h) {
            f32& product = products[h * together + a];
            product = ::fmaf(query_numbers[h].element[e], number, product);
          }
        }
    }
#pragma unroll
    for (int i = 0; i < HEADS * together; ++i) products[i] *= key_scale[i % together];
    Scores::add(products);
    f32 score[Scores::kept];
    f32 next_top = top;
#pragma unroll
    for (int i = 0; i < Scores::kept; ++i) {
      score[i] = products[i];
      if constexpr (SOFT_CAP) score[i] = shape.soft_cap * math::tanh(score[i] / shape.soft_cap) * log2_e;
      if (counts >> (own_key + i) & 1) next_top = ::fmaxf(next_top, score[i]);
    }
#pragma unroll
    for (int mask = 1; mask < same_head; mask *= 2)
      next_top = ::fmaxf(next_top, from_lane_xor(next_top, mask));
#pragma unroll
    for (int mask = lanes; mask < WAVE; mask *= 2)
      next_top = ::fmaxf(next_top, from_lane_xor(next_top, mask));
    const f32 shrink = shrinking(top, next_top);
    top = next_top;
    total *= shrink;
    wave_barrier();  // the weights of the turn before have been read
#pragma unroll
    for (int i = 0; i < Scores::kept; ++i) {
      const f32 weight = counts >> (own_key + i) & 1 ? fast_exp2(score[i] - top) : 0.0f;
      total += weight;
      weights[team][own_key + i][own_head] = weight;
    }
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      const f32 of_head = from_lane(shrink, (u32)(h * same_head));
#pragma unroll
      for (int e = 0; e < packet; ++e) sum[h * packet + e] *= of_head;
    }
    wave_barrier();
#pragma unroll
    for (int a = 0; a < together; ++a) {
      const auto by = *reinterpret_cast<const Packet<f32, HEADS>*>(weights[team][a]);
#pragma unroll
      for (int e = 0; e < packet; ++e) {
        const f32 number = value[a][e] * value_scale[a];
#pragma unroll
        for (int h = 0; h < HEADS; ++h)
          sum[h * packet + e] = ::fmaf(by.element[h], number, sum[h * packet + e]);
      }
    }
  }

  // The lanes of a head and the teams of a wave into one, then the waves.
#pragma unroll
  for (int mask = same_scores; mask < same_head; mask *= 2) total += from_lane_xor(total, mask);
#pragma unroll
  for (int mask = lanes; mask < WAVE; mask *= 2) total += from_lane_xor(total, mask);
  if (lane() < lanes && lane() % same_head == 0) {
    tops[wave()][own_head] = top;
    totals[wave()][own_head] = total;
  }
  using Teams = Fold<HEADS * packet, WAVE / lanes, lanes>;
  Teams::add(sum);
#pragma unroll
  for (int i = 0; i < Teams::kept; ++i) {
    const int at = Teams::first_of((int)lane()) + i;
    sums[wave()][at / packet][feature + at % packet] = sum[i];
  }
  barrier();
  const i64 first = query * shape.heads + first_head;
  const Partial<FEATURES> partial(shape, scratch);
#pragma unroll 1
  for (int at = (int)threadIdx.x; at < own_heads * FEATURES; at += THREADS) {
    const int h = at / FEATURES, f = at % FEATURES;
    f32 most = -infinity(), all = 0, result = 0;
#pragma unroll
    for (int w = 0; w < waves; ++w) most = ::fmaxf(most, tops[w][h]);
    const bool sinks_here = SINKS && seen.splits == 1;  // else where splits are combined
    if (sinks_here) {
      const f32 sink = sinks[first_head + h] * log2_e;
      most = ::fmaxf(most, sink);
      all = fast_exp2(sink - most);
    }
#pragma unroll
    for (int w = 0; w < waves; ++w) {
      const f32 by = shrinking(tops[w][h], most);
      all = ::fmaf(by, totals[w][h], all);
      result = ::fmaf(by, sums[w][h][f], result);
    }
    if (seen.splits == 1) {
      result = all == 0 ? 0.0f : result * fast_reciprocal(all);
      out[(first + h) * FEATURES + f] = store<Q>(result);
      if constexpr (RUN > 0) kept[at] = result;
    } else {
      partial.sums_of(first + h, split)[f] = result;
      if (f != 0) continue;
      partial.scales_of(first + h, split)[0] = most;
      partial.scales_of(first + h, split)[1] = all;
    }
  }
  if (seen.splits > 1) {
    if (!last_to_arrive(arrived, (u32)seen.splits)) return;
    combine<THREADS, Q, HEADS, FEATURES, SINKS>(partial, first, own_heads, seen.splits, sinks + first_head,
                                                out, kept);
  }
  if constexpr (RUN > 0) {
    barrier();
    rounded::give<RUN>(rounded_rows, (u32)shape.queries * (u32)shape.heads * FEATURES, (u32)first * FEATURES,
                       (u32)own_heads * FEATURES, kept, nullptr);
  }
}

}  // namespace cached
