// Attention forward of short sequences: a block has all queries, keys and values of a head, which are one
// tile, and waits for memory once.
#pragma once

#include "attention.h"
#include "attention_mma.h"

namespace attention {

// E: an MmaEngine whose own rows and others are as many.
template <class E>
DEVICE void forward_whole(const AttentionShape& shape, const typename E::T* q, const typename E::T* k,
                          const typename E::T* v, typename E::T* out, f32* logarithms) {
  using T = typename E::T;
  static_assert(!E::transposes && E::own == E::others && !E::holds, "tiles of one size, as they are");
  T *const q_tile = launched_shared<T>(), *const k_tile = q_tile + E::own_size,
           *const v_tile = k_tile + E::first_size;
  const int head = (int)(blockIdx.x % shape.heads), batch = (int)(blockIdx.x / shape.heads);
  const int group = head / (shape.heads / shape.groups);
  const auto rows_of = [&](const T* data, const AttentionPlace& place, int one, int rows) {
    return Rows<T>{data + batch * place.batch + one * place.head, place.row, place.feature, rows,
                   shape.features};
  };
  constexpr int count = (E::own * (E::features / 8) + E::threads - 1) / E::threads;
  using Packets = RowPackets<E::own, E::features, E::threads, count, true, T>;
  {
    const int item = (int)threadIdx.x;
    Packets queries, keys, values;
    queries.fetch(rows_of(q, shape.q, head, shape.queries), 0, item);
    keys.fetch(rows_of(k, shape.k, group, shape.keys), 0, item);
    values.fetch(rows_of(v, shape.v, group, shape.keys), 0, item);
    queries.put(q_tile, E::row_stride, item);
    keys.put(k_tile, E::row_stride, item);
    values.put(v_tile, E::row_stride, item);
  }
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
