// Attention without its matrix of scores: y = softmax(scale * q k' where visible) v, and for the gradients
// the logarithm of each row's sum. All exponentials are to base 2.
//
// A block has a tile of queries; tiles of keys and values pass by. Each row keeps the largest score so far
// and the sum of its weights, and rescales what it has summed when a larger score comes. The scale is
// positive.
#pragma once

#include "attention_tiles.h"

namespace attention {

constexpr f32 log2_e = 1.44269504088896340736f;

// The keys that a query sees: [first, end).
struct Visible {
  int first, end;
};
DEVICE Visible visible(const AttentionShape& shape, int query) {
  const int place = query + shape.keys - shape.queries;
  const int end = shape.bounded && place + 1 < shape.keys ? place + 1 : shape.keys;
  const int first = shape.window > 0 && place - shape.window + 1 > 0 ? place - shape.window + 1 : 0;
  return {first, end < 0 ? 0 : end};
}
// The queries that see a key: [first, end).
DEVICE Visible seeing(const AttentionShape& shape, int key) {
  const int place = key - (shape.keys - shape.queries);
  const int first = shape.bounded && place > 0 ? place : 0;
  const int end =
      shape.window > 0 && place + shape.window < shape.queries ? place + shape.window : shape.queries;
  return {first, end < 0 ? 0 : end};
}
// Of several queries in a row: those that any sees, and those that all see.
struct VisibleRange {
  Visible any, all;
};
DEVICE VisibleRange visible_to(const AttentionShape& shape, int first_query, int last_query) {
  const Visible low = visible(shape, first_query), high = visible(shape, last_query);
  return {{low.first, high.end}, {high.first, low.end}};
}

// Which rows a block works on. Tiles with the most keys to see come first.
struct QueryBlock {
  int batch, head, group;  // head: the first of those stacked
  int first_row, rows;     // rows of all stacked heads
  int split;
};
template <class E>
DEVICE u32 query_tiles(const AttentionShape& shape) {
  return (shape.stacked * shape.queries + E::own - 1) / E::own;
}
// A block that has several jobs has other tiles of a sequence each time: they differ in what they see.
DEVICE u32 turned_tile(u32 index, u32 tiles) {
  const u32 turn = index / tiles * tiles / gridDim.x;
  return (index + turn) % tiles;
}
template <class E>
DEVICE QueryBlock query_block(const AttentionShape& shape, u32 index) {
  const u32 tiles = query_tiles<E>(shape);
  const int shares = shape.heads / shape.stacked;
  QueryBlock block;
  block.rows = shape.stacked * shape.queries;
  block.first_row = (int)(tiles - 1 - turned_tile(index, tiles)) * E::own;
  index /= tiles;
  block.split = (int)(index % shape.splits);
  index /= shape.splits;
  block.head = (int)(index % shares) * shape.stacked;
  block.group = block.head / (shape.heads / shape.groups);
  block.batch = (int)(index / shares);
  return block;
}

template <class T>
DEVICE Rows<T> key_rows(const T* data, const AttentionPlace& place, const AttentionShape& shape, int batch,
                        int group) {
  return {data + batch * place.batch + group * place.head, place.row, place.feature, shape.keys,
          shape.features};
}

// Where a query's result begins: (batch, query, head, feature), dense.
DEVICE i64 result_place(const AttentionShape& shape, i64 batch, int head, int query) {
  return ((batch * shape.queries + query) * shape.heads + head) * shape.features;
}
// The same of a key's gradients: (batch, key, group, feature).
DEVICE i64 key_result_place(const AttentionShape& shape, i64 batch, int group, int key) {
  return ((batch * shape.keys + key) * shape.groups + group) * shape.features;
}

// `partial`: with several splits, the sums of each, then the logarithms; else null.
template <class E, bool PACKETS>
DEVICE void forward(const AttentionShape& shape, const typename E::T* q, const typename E::T* k,
                    const typename E::T* v, typename E::T* out, f32* logarithms, f32* partial) {
  using T = typename E::T;
  using Element = typename E::Element;
  Element* const own_tile = launched_shared<Element>();
  Element* const k_tile = own_tile + (E::holds ? 0 : E::own_size);
  Element* const v_tile = k_tile + (E::together ? E::first_size : 0);
  Element* const exchange = v_tile + E::second_size;

  const QueryBlock block = query_block<E>(shape, blockIdx.x);
  const StackedRows<T> queries{q + block.batch * shape.q.batch + block.head * shape.q.head,
                               shape.q.head,
                               shape.q.row,
                               shape.q.feature,
                               block.rows,
                               shape.features,
                               shape.queries};
  const Rows<T> keys = key_rows(k, shape.k, shape, block.batch, block.group);
  const Rows<T> values = key_rows(v, shape.v, shape, block.batch, block.group);

  E::template load_own<PACKETS>(own_tile, queries, block.first_row);
  barrier();
  const typename E::Own mine(own_tile);

  // What the block, the wave and each row see. Rows of several heads: any of their queries.
  const auto range_of = [&](int first, int rows) {
    const int last = min(first + rows, block.rows) - 1;
    return first / shape.queries == last / shape.queries
               ? visible_to(shape, first % shape.queries, last % shape.queries)
               : visible_to(shape, 0, shape.queries - 1);
  };
  Visible pass = range_of(block.first_row, E::own).any;
  pass.first = max(pass.first, block.split * shape.split_keys);
  pass.end = min(pass.end, (block.split + 1) * shape.split_keys);
  const int wave_row = block.first_row + E::first_row();
  const bool idle = wave_row >= block.rows;  // the wave only helps to load
  const VisibleRange range = range_of(idle ? block.rows - 1 : wave_row, E::wave_rows);
  Visible seen[E::slots];
  f32 largest[E::slots], total[E::slots];
#pragma unroll
  for (int s = 0; s < E::slots; ++s) {
    seen[s] = visible(shape, (block.first_row + E::own_row(s)) % shape.queries);
    largest[s] = -infinity();
    total[s] = 0;
  }
  typename E::Sums sums;
  sums.clear();

  const f32 scale = shape.scale * log2_e;
  for (int first = pass.first / E::others * E::others; first < pass.end; first += E::others) {
    barrier();  // the tiles before are read
    E::template load_first<PACKETS>(k_tile, keys, first);
    if (E::together) E::template load_second<PACKETS>(v_tile, values, first);
    barrier();
    if (E::together && (idle || first >= range.any.end || first + E::others <= range.any.first)) continue;

    typename E::Scores scores;
    E::score(scores, mine, k_tile);
    const Visible open{max(range.all.first, pass.first), min(range.all.end, pass.end)};
    if (first < open.first || first + E::others > open.end)
      scores.each([&](int slot, int other, f32& score) {
        const int key = first + other;
        const bool sees = key >= max(seen[slot].first, pass.first) && key < min(seen[slot].end, pass.end);
        if (!sees) score = -infinity();
      });

    f32 reference[E::slots], top[E::slots];
#pragma unroll
    for (int s = 0; s < E::slots; ++s) top[s] = -infinity();
    scores.each([&](int slot, int, f32& score) { top[slot] = ::fmaxf(top[slot], score); });
    f32 shrink[E::slots];
#pragma unroll
    for (int s = 0; s < E::slots; ++s) {
      top[s] = E::row_reduce(top[s], [](f32 a, f32 b) { return ::fmaxf(a, b); });
      const f32 now = ::fmaxf(largest[s], top[s] * scale);
      reference[s] = now == -infinity() ? 0 : now;
      shrink[s] = fast_exp2(largest[s] - reference[s]);
      largest[s] = now;
      total[s] *= shrink[s];
    }
    scores.each([&](int slot, int, f32& score) {
      score = fast_exp2(::fmaf(score, scale, -reference[slot]));
      total[slot] += score;
    });
    sums.each([&](int slot, int, f32& sum) { sum *= shrink[slot]; });

    if (!E::together) {
      barrier();
      E::template load_second<PACKETS>(v_tile, values, first);
      barrier();
    }
    E::add(sums, scores, v_tile, exchange);
  }

  // Rows of sums and logarithms: (batch, head, query), dense.
  const i64 result_rows = (i64)shape.batch * shape.heads * shape.queries;
  const i64 first_result = ((i64)block.batch * shape.heads + block.head) * shape.queries + block.first_row;
  f32 share[E::slots];
#pragma unroll
  for (int s = 0; s < E::slots; ++s) {
    total[s] = E::row_reduce(total[s], [](f32 a, f32 b) { return a + b; });
    share[s] = total[s] == 0 ? 0 : 1 / total[s];
  }
  const int rows = block.rows - block.first_row;
  if (partial) {
    const i64 first = block.split * result_rows + first_result;
    f32* const logarithm_rows = partial + shape.splits * result_rows * shape.features + first;
    store_rows<E, PACKETS>(sums, share, partial, rows, shape.features,
                           [&](int row) { return (first + row) * shape.features; });
    for_own_rows<E>(rows,
                    [&](int slot, int row) { logarithm_rows[row] = largest[slot] + ::log2f(total[slot]); });
  } else {
    store_rows<E, PACKETS>(sums, share, out, rows, shape.features, [&](int row) {
      const int at = block.first_row + row;
      return result_place(shape, block.batch, block.head + at / shape.queries, at % shape.queries);
    });
    // A row that sees nothing: infinite, so that its weights in the gradients are zero.
    for_own_rows<E>(rows, [&](int slot, int row) {
      logarithms[first_result + row] = total[slot] == 0 ? infinity() : largest[slot] + ::log2f(total[slot]);
    });
  }
}

// One row of `combine`, N features per lane at a time. `share_of(split)` is the weight of a split's result.
template <int N, class T, class Share>
DEVICE void combine_row(const f32* partial, i64 split_stride, int splits, int features, T* out,
                        const Share& share_of) {
  for (int feature = (int)lane() * N; feature < features; feature += WAVE * N) {
    f32 sum[N] = {};
    for (int split = 0; split < splits; ++split) {
      const f32 weight = share_of(split);
      const auto values = *reinterpret_cast<const Packet<f32, N>*>(partial + split * split_stride + feature);
#pragma unroll
      for (int e = 0; e < N; ++e) sum[e] = ::fmaf(weight, values.element[e], sum[e]);
    }
#pragma unroll
    for (int e = 0; e < N; ++e) out[feature + e] = store<T>(sum[e]);
  }
}

// The splits' results into one, weighted by their sums of weights. One wave per row.
template <class T>
DEVICE void combine(const AttentionShape& shape, const f32* partial, T* out, f32* logarithms) {
  const i64 rows = (i64)shape.batch * shape.heads * shape.queries;
  const f32* const logarithm_rows = partial + shape.splits * rows * shape.features;
  const i64 waves = (i64)global_threads() / WAVE;
  for (i64 row = (i64)global_thread() / WAVE; row < rows; row += waves) {
    f32 largest = -infinity(), total = 0;
    for (int split = 0; split < shape.splits; ++split)
      largest = ::fmaxf(largest, logarithm_rows[split * rows + row]);
    const f32 reference = largest == -infinity() ? 0 : largest;
    for (int split = 0; split < shape.splits; ++split)
      total += fast_exp2(logarithm_rows[split * rows + row] - reference);
    const f32 share = total == 0 ? 0 : 1 / total;
    const i64 head = row / shape.queries;
    const i64 place =
        result_place(shape, head / shape.heads, (int)(head % shape.heads), (int)(row % shape.queries));
    const auto share_of = [&](int split) {
      return fast_exp2(logarithm_rows[split * rows + row] - reference) * share;
    };
    const f32* const sums = partial + row * shape.features;
    if (shape.features % 4 == 0)
      combine_row<4>(sums, rows * shape.features, shape.splits, shape.features, out + place, share_of);
    else
      combine_row<1>(sums, rows * shape.features, shape.splits, shape.features, out + place, share_of);
    if (lane() == 0) logarithms[row] = total == 0 ? infinity() : largest + ::log2f(total);
  }
}

}  // namespace attention
