// Gradients of attention, from the logarithms that the forward pass left. With p = the weights:
//
//   dscore = p * (dy v' - delta), delta = sum over features of dy * y
//   dq = scale * dscore k,  dk = scale * dscore' q,  dv = p' dy
//
// Two kernels, each with the rows that it sums for as its own, so that nothing is added across blocks: one
// for dq, past which keys go, and one for dk and dv, past which the queries of all heads of a group go.
#pragma once

#include "attention.h"

namespace attention {

template <class E, bool PACKETS>
DEVICE void gradient_q(const AttentionShape& shape, const typename E::T* q, const typename E::T* k,
                       const typename E::T* v, const f32* logarithms, const f32* delta,
                       const typename E::T* dy, typename E::T* dq) {
  using T = typename E::T;
  using Element = typename E::Element;
  Element* const q_tile = launched_shared<Element>();
  Element* const dy_tile = q_tile + E::own_size;
  Element* const k_tile = q_tile + (E::holds ? 0 : 2 * E::own_size);
  Element* const v_tile = k_tile + (E::together ? E::first_size : 0);
  Element* const k_second = E::transposes ? v_tile + E::first_size : k_tile;
  Element* const exchange = v_tile + E::first_size;  // of engines that do not transpose

  const QueryBlock block = query_block<E>(shape, blockIdx.x);
  const Rows<T> queries{q + block.batch * shape.q.batch + block.head * shape.q.head, shape.q.row,
                        shape.q.feature, shape.queries, shape.features};
  const Rows<T> slopes{dy + block.batch * shape.dy.batch + block.head * shape.dy.head, shape.dy.row,
                       shape.dy.feature, shape.queries, shape.features};
  const Rows<T> keys = key_rows(k, shape.k, shape, block.batch, block.group);
  const Rows<T> values = key_rows(v, shape.v, shape, block.batch, block.group);
  const int rows = block.rows - block.first_row;

  E::template load_own<PACKETS>(q_tile, queries, block.first_row);
  E::template load_own<PACKETS>(dy_tile, slopes, block.first_row);
  barrier();
  const typename E::Own my_q(q_tile), my_dy(dy_tile);

  const int last_row = block.first_row + min(rows, E::own) - 1;
  const Visible pass = visible_to(shape, block.first_row, last_row).any;
  const int wave_row = min(block.first_row + E::first_row(), last_row);
  const VisibleRange range = visible_to(shape, wave_row, min(wave_row + E::wave_rows - 1, last_row));
  const bool idle = block.first_row + E::first_row() > last_row;
  Visible seen[E::slots];
  f32 logarithm[E::slots], shift[E::slots];
  const i64 first_result = ((i64)block.batch * shape.heads + block.head) * shape.queries;
  const f32* const delta_rows = delta + block.batch * shape.delta_batch + block.head * shape.delta_head;
#pragma unroll
  for (int s = 0; s < E::slots; ++s) {
    const int row = block.first_row + E::own_row(s);
    const bool there = row < shape.queries;
    seen[s] = visible(shape, row);
    logarithm[s] = there ? logarithms[first_result + row] : infinity();
    shift[s] = there ? delta_rows[row * shape.delta_row] : 0;
  }
  typename E::Sums sums;
  sums.clear();

  const f32 scale = shape.scale * log2_e;
  for (int first = pass.first / E::others * E::others; first < pass.end; first += E::others) {
    barrier();  // the tiles before are read
    E::template load_first<PACKETS>(k_tile, keys, first);
    if (E::together) E::template load_first<PACKETS>(v_tile, values, first);
    if (E::transposes) E::template load_second<PACKETS>(k_second, keys, first);
    barrier();
    if (E::together && (idle || first >= range.any.end || first + E::others <= range.any.first)) continue;

    typename E::Scores weights, slope;
    E::score(weights, my_q, k_tile);
    if (!E::together) {
      barrier();
      E::template load_first<PACKETS>(v_tile, values, first);
      barrier();
    }
    E::score(slope, my_dy, v_tile);
    const bool masked = first < range.all.first || first + E::others > range.all.end;
    weights.each2(slope, [&](int slot, int other, f32& weight, f32& dp) {
      const int key = first + other;
      const f32 p = fast_exp2(::fmaf(weight, scale, -logarithm[slot]));
      const bool sees = !masked || (key >= seen[slot].first && key < seen[slot].end);
      weight = sees ? p * (dp - shift[slot]) : 0;
    });
    if (!E::together) {
      barrier();
      E::template load_first<PACKETS>(k_tile, keys, first);
      barrier();
    }
    E::add(sums, weights, k_second, exchange);
  }

  f32 factor[E::slots];
#pragma unroll
  for (int s = 0; s < E::slots; ++s) factor[s] = shape.scale;
  store_rows<E, PACKETS>(sums, factor, dq, rows, shape.features, [&](int row) {
    return result_place(shape, block.batch, block.head, block.first_row + row);
  });
}

// K and V: which of the gradients of keys and of values. dk and dv: (batch, key, group, feature), dense.
template <class E, bool PACKETS, bool K, bool V>
DEVICE void gradient_kv(const AttentionShape& shape, const typename E::T* q, const typename E::T* k,
                        const typename E::T* v, const f32* logarithms, const f32* delta,
                        const typename E::T* dy, typename E::T* dk, typename E::T* dv) {
  using T = typename E::T;
  using Element = typename E::Element;
  constexpr bool dy_first = K || !E::transposes, q_second = K && E::transposes;
  Element* const k_tile = launched_shared<Element>();
  Element* const v_tile = k_tile + E::own_size;
  Element* const q_tile = k_tile + (E::holds ? 0 : (K ? 2 : 1) * E::own_size);
  Element* const dy_tile = q_tile + (E::together ? E::first_size : 0);
  Element* const q_transposed = dy_tile + (dy_first ? E::first_size : 0);
  Element* const dy_transposed = q_transposed + (q_second ? E::second_size : 0);
  Element* const exchange = q_transposed;  // of engines that do not transpose
  const Element* const q_other = E::transposes ? q_transposed : q_tile;
  const Element* const dy_other = E::transposes ? dy_transposed : dy_tile;
  __shared__ f32 logarithm_tile[E::others], delta_tile[E::others];

  const int tiles = (shape.keys + E::own - 1) / E::own;
  const int first_key = (int)(blockIdx.x % tiles) * E::own;
  const int group = (int)(blockIdx.x / tiles % shape.groups),
            batch = (int)(blockIdx.x / tiles / shape.groups);
  const int sharing = shape.heads / shape.groups;
  const int rows = shape.keys - first_key, last_key = first_key + min(rows, E::own) - 1;

  E::template load_own<PACKETS>(k_tile, key_rows(k, shape.k, shape, batch, group), first_key);
  if (K) E::template load_own<PACKETS>(v_tile, key_rows(v, shape.v, shape, batch, group), first_key);
  barrier();
  const typename E::Own my_k(k_tile), my_v(K ? v_tile : k_tile);

  const Visible low = seeing(shape, first_key), high = seeing(shape, last_key);
  const Visible pass{low.first, high.end};
  const int wave_key = min(first_key + E::first_row(), last_key);
  const int wave_last = min(wave_key + E::wave_rows - 1, last_key);
  const Visible any{seeing(shape, wave_key).first, seeing(shape, wave_last).end};
  const Visible all{seeing(shape, wave_last).first, seeing(shape, wave_key).end};
  const bool idle = first_key + E::first_row() > last_key;
  Visible seen[E::slots];
#pragma unroll
  for (int s = 0; s < E::slots; ++s) seen[s] = seeing(shape, first_key + E::own_row(s));

  typename E::Sums sums_k, sums_v;
  if (K) sums_k.clear();
  if (V) sums_v.clear();
  const f32 scale = shape.scale * log2_e;
  for (int head = group * sharing; head < (group + 1) * sharing; ++head) {
    const Rows<T> queries{q + batch * shape.q.batch + head * shape.q.head, shape.q.row, shape.q.feature,
                          shape.queries, shape.features};
    const Rows<T> slopes{dy + batch * shape.dy.batch + head * shape.dy.head, shape.dy.row, shape.dy.feature,
                         shape.queries, shape.features};
    const f32* const logarithm_rows = logarithms + ((i64)batch * shape.heads + head) * shape.queries;
    const f32* const delta_rows = delta + batch * shape.delta_batch + head * shape.delta_head;
    for (int first = pass.first / E::others * E::others; first < pass.end; first += E::others) {
      barrier();  // the tiles before are read
      E::template load_first<PACKETS>(q_tile, queries, first);
      if (E::together && dy_first) E::template load_first<PACKETS>(dy_tile, slopes, first);
      if (q_second) E::template load_second<PACKETS>(q_transposed, queries, first);
      if (V && E::transposes) E::template load_second<PACKETS>(dy_transposed, slopes, first);
      for (int i = (int)threadIdx.x; i < E::others; i += E::threads) {
        const int query = first + i;
        const bool there = query < shape.queries;
        logarithm_tile[i] = there ? logarithm_rows[query] : infinity();
        delta_tile[i] = there ? delta_rows[query * shape.delta_row] : 0;
      }
      barrier();
      if (E::together && (idle || first >= any.end || first + E::others <= any.first)) continue;

      typename E::Scores weights, slope;
      E::score(weights, my_k, q_tile);
      if (!E::together) {
        barrier();
        E::template load_first<PACKETS>(dy_tile, slopes, first);
        barrier();
      }
      const bool masked = first < all.first || first + E::others > all.end;
      weights.each([&](int slot, int other, f32& weight) {
        const int query = first + other;
        const bool sees = !masked || (query >= seen[slot].first && query < seen[slot].end);
        weight = sees ? fast_exp2(::fmaf(weight, scale, -logarithm_tile[other])) : 0;
      });
      if (V) E::add(sums_v, weights, dy_other, exchange);
      if (K) {
        E::score(slope, my_v, dy_tile);
        weights.each2(slope, [&](int, int other, f32& weight, f32& dp) { weight *= dp - delta_tile[other]; });
        if (!E::together) {
          barrier();
          E::template load_first<PACKETS>(q_tile, queries, first);
          barrier();
        }
        E::add(sums_k, weights, q_other, exchange);
      }
    }
  }

  const auto place = [&](int row) { return key_result_place(shape, batch, group, first_key + row); };
  f32 factor_k[E::slots], factor_v[E::slots];
#pragma unroll
  for (int s = 0; s < E::slots; ++s) {
    factor_k[s] = shape.scale;
    factor_v[s] = 1;
  }
  if (K) store_rows<E, PACKETS>(sums_k, factor_k, dk, rows, shape.features, place);
  if (V) store_rows<E, PACKETS>(sums_v, factor_v, dv, rows, shape.features, place);
}

}  // namespace attention
