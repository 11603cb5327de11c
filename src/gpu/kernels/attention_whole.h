// Attention forward of short sequences: a block has all queries, keys and values of a head, which are one
// tile, and waits for memory once.
#pragma once

#include "attention.h"
#include "attention_mma.h"
#include "copy_ahead.h"

namespace attention {

// Starts copying rows into a tile, zeros where there are none.
template <class E>
DEVICE void copy_rows(typename E::T* tile, const Rows<typename E::T>& rows) {
  constexpr int packets = E::features / 8;
#pragma unroll
  for (int at = (int)threadIdx.x; at < E::own * packets; at += E::threads) {
    const int row = at / packets, feature = at % packets * 8;
    const bool there = row < rows.rows;
    start_copy_or_zero(tile + row * E::row_stride + feature, rows.at(there ? row : 0) + feature, there);
  }
}

// E: an MmaEngine whose own rows and others are as many.
template <class E>
DEVICE void forward_whole(const AttentionShape& shape, const typename E::T* q, const typename E::T* k,
                          const typename E::T* v, typename E::T* out, f32* logarithms) {
  using T = typename E::T;
  static_assert(!E::transposes && E::own == E::others && !E::holds, "tiles of one size, as they are");
  static_assert(E::own * (E::features / 8) % E::threads == 0, "every thread copies as much");
  T *const q_tile = launched_shared<T>(), *const k_tile = q_tile + E::own_size,
           *const v_tile = k_tile + E::first_size;
  const int head = (int)(blockIdx.x % shape.heads), batch = (int)(blockIdx.x / shape.heads);
  const int group = head / (shape.heads / shape.groups);
  const auto rows_of = [&](const T* data, const AttentionPlace& place, int one, int rows) {
    return Rows<T>{data + batch * place.batch + one * place.head, place.row, place.feature, rows,
                   shape.features};
  };
  copy_rows<E>(q_tile, rows_of(q, shape.q, head, shape.queries));
  copy_rows<E>(k_tile, rows_of(k, shape.k, group, shape.keys));
  copy_rows<E>(v_tile, rows_of(v, shape.v, group, shape.keys));
  wait_for_copies();
  barrier();
  if (E::first_row() >= shape.queries) return;  // the wave only helped to load

  typename E::Scores scores;
  const typename E::Own mine(q_tile);
  E::score(scores, mine, k_tile);
  const Visible all =
      visible_to(shape, E::first_row(), min(E::first_row() + E::wave_rows, shape.queries) - 1).all;
  Visible seen[E::slots];
  f32 top[E::slots], total[E::slots];
#pragma unroll
  for (int s = 0; s < E::slots; ++s) {
    seen[s] = visible(shape, E::own_row(s));
    top[s] = -infinity();
    total[s] = 0;
  }
  scores.each_group([&](int first, int end) { return first < all.first || end > all.end; },
                    [&](int slot, int key, f32& score) {
                      if (key < seen[slot].first || key >= seen[slot].end) score = -infinity();
                    });
  scores.each([&](int slot, int, f32& score) { top[slot] = ::fmaxf(top[slot], score); });
  const f32 scale = shape.scale * log2_e;
  f32 largest[E::slots], reference[E::slots];
#pragma unroll
  for (int s = 0; s < E::slots; ++s) {
    largest[s] = E::row_reduce(top[s], [](f32 a, f32 b) { return ::fmaxf(a, b); }) * scale;
    reference[s] = largest[s] == -infinity() ? 0 : largest[s];
  }
  scores.each([&](int slot, int, f32& score) {
    score = fast_exp2(::fmaf(score, scale, -reference[slot]));
    total[slot] += score;
  });
  typename E::Sums sums;
  sums.clear();
  E::add(sums, scores, v_tile, nullptr);

  f32 share[E::slots];
#pragma unroll
  for (int s = 0; s < E::slots; ++s) {
    total[s] = E::row_reduce(total[s], [](f32 a, f32 b) { return a + b; });
    share[s] = total[s] == 0 ? 0 : 1 / total[s];
  }
  store_rows<E, true>(sums, share, out, shape.queries, shape.features,
                      [&](int row) { return result_place(shape, batch, head, row); });
  const i64 first_result = ((i64)batch * shape.heads + head) * shape.queries;
  for_own_rows<E>(shape.queries, [&](int slot, int row) {
    logarithms[first_result + row] = total[slot] == 0 ? infinity() : largest[slot] + ::log2f(total[slot]);
  });
}

}  // namespace attention
