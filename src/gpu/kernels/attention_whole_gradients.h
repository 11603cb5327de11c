// All gradients of attention over short sequences, from one pass over the operands: a block has all queries,
// keys and values of a head. Its waves have keys of their own for dk and dv, for which scores are computed
// transposed, and then queries for dq, whose slopes they pass each other in shared memory:
//
//   p' = weights of (k q'), dv = p' dy, dscore' = p' * (v dy' - delta), dk = scale * dscore' q
//   dq = scale * dscore k
//
// delta = sum over features of dy * y, of each query. (attention_backward.h is for any sequence.)
#pragma once

#include "attention_whole.h"
#include "rope.h"

namespace attention {

// What becomes of gradients by q and k, at the time of their row: nothing, or a rope.
struct AsTheyAre {
  template <class E>
  DEVICE void operator()(typename E::Sums&, int) const {}
};
template <bool INTERLEAVED>
struct Turned {
  RopeTable<f32> table;

  template <class E>
  DEVICE void operator()(typename E::Sums& sums, int times) const {
    constexpr int half = E::features / 2;
    static_assert(E::run == 2 && half % 16 == 0, "a lane has both of each pair");
#pragma unroll
    for (int j = 0; j < E::features / 16; ++j)
#pragma unroll
      for (int i = 0; i < mma::elements; i += 2) {
        const int time = min(E::own_row(chain::slot(i)), times - 1), feature = j * 16 + chain::other(i);
        f32* const low = sums.tile[0][j].element + i;
        if constexpr (INTERLEAVED) {
          f32 c[1], s[1];
          table.read(time, feature / 2, c, s);
          turn(low[0], low[1], c[0], s[0]);
        } else if (j < half / 16) {
          f32* const high = sums.tile[0][j + half / 16].element + i;
          f32 c[2], s[2];
          table.read(time, feature, c, s);
          turn(low[0], high[0], c[0], s[0]);
          turn(low[1], high[1], c[1], s[1]);
        }
      }
  }
  static DEVICE void turn(f32& a, f32& b, f32 c, f32 s) {
    const f32 first = a * c - b * s;
    b = a * s + b * c;
    a = first;
  }
};

// Sums of a wave's own rows into 16-bit elements in shared memory, E::row_stride apart.
template <class E>
DEVICE void put_sums(const typename E::Sums& sums, f32 factor, typename E::T* to) {
#pragma unroll
  for (int j = 0; j < E::features / 16; ++j)
#pragma unroll
    for (int i = 0; i < mma::elements; i += 2) {
      const f32* const pair = sums.tile[0][j].element + i;
      *reinterpret_cast<u32*>(to + chain::own(chain::slot(i)) * E::row_stride + j * 16 + chain::other(i)) =
          chain::pack(typename E::T{}, pair[0] * factor, pair[1] * factor);
    }
}
// Those rows to memory, whole ones at a time.
template <class E>
DEVICE void store_own_rows(const typename E::T* from, typename E::T* out, int rows, int pitch) {
  using T = typename E::T;
  constexpr int packets = E::features / 8;
  wave_barrier();
#pragma unroll
  for (int at = (int)lane(); at < 16 * packets; at += WAVE) {
    const int row = at / packets, feature = at % packets * 8;
    if (E::first_row() + row < rows)
      *reinterpret_cast<Packet<T, 8>*>(out + (E::first_row() + row) * pitch + feature) =
          *reinterpret_cast<const Packet<T, 8>*>(from + row * E::row_stride + feature);
  }
  wave_barrier();
}

// E: an MmaEngine whose own rows and others are as many, a tile of 16 to a wave. `turn`: what becomes of dq
// and dk. out: (batch, time, head, feature), dense: heads of dq, then of dk, then of dv.
template <class E, bool PACKETS, class Turn>
DEVICE void gradients_whole(const AttentionShape& shape, const typename E::T* q, const typename E::T* k,
                            const typename E::T* v, const typename E::T* y, const f32* logarithms,
                            const typename E::T* dy, typename E::T* out, const Turn& turn) {
  using T = typename E::T;
  static_assert(!E::transposes && E::own == E::others && !E::holds && E::wave_rows == 16, "one tile");
  constexpr int packets = E::features / 8, each = E::own * packets / E::threads,
                slope_stride = (E::own > E::features ? E::own : E::features) + 8;
  static_assert(E::own * packets % E::threads == 0 && packets == 8, "every thread loads as much");
  T *const q_tile = launched_shared<T>(), *const k_tile = q_tile + E::own_size,
           *const dy_tile = k_tile + E::own_size, *const v_tile = dy_tile + E::own_size,
           *const slopes = v_tile + E::own_size;
  __shared__ f32 logarithm_tile[E::own], delta_tile[E::own];

  const int head = (int)(blockIdx.x % shape.heads), batch = (int)(blockIdx.x / shape.heads);
  const auto bring = [&](T* tile, const T* data, const AttentionPlace& place) {
    const Rows<T> rows{data + batch * place.batch + head * place.head, place.row, place.feature, shape.keys,
                       shape.features};
    if constexpr (PACKETS)
      copy_rows<E>(tile, rows);
    else
      E::template load_own<false>(tile, rows, 0);
  };
  bring(dy_tile, dy, shape.dy);
  bring(k_tile, k, shape.k);
  bring(q_tile, q, shape.q);
  bring(v_tile, v, shape.v);
  Packet<T, 8> outputs[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int at = (int)threadIdx.x + i * E::threads, row = min(at / packets, shape.queries - 1);
    outputs[i] =
        *reinterpret_cast<const Packet<T, 8>*>(y + result_place(shape, batch, head, row) + at % packets * 8);
  }
  const f32* const logarithm_rows = logarithms + ((i64)batch * shape.heads + head) * shape.queries;
  if ((int)threadIdx.x < E::own)
    logarithm_tile[threadIdx.x] = (int)threadIdx.x < shape.queries ? logarithm_rows[threadIdx.x] : infinity();
  if constexpr (PACKETS) wait_for_copies();
  barrier();
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int at = (int)threadIdx.x + i * E::threads, row = at / packets;
    const auto slope =
        *reinterpret_cast<const Packet<T, 8>*>(dy_tile + row * E::row_stride + at % packets * 8);
    f32 sum = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) sum = ::fmaf(load(slope.element[e]), load(outputs[i].element[e]), sum);
#pragma unroll
    for (int mask = 1; mask < packets; mask *= 2) sum += from_lane_xor(sum, mask);
    if (at % packets == 0) delta_tile[row] = row < shape.queries ? sum : 0;
  }
  barrier();

  const bool idle = E::first_row() >= shape.keys;
  T* const mine =
      v_tile + E::first_row() * E::row_stride;  // read by this wave alone, then its results' place
  const int part = shape.heads * shape.features, pitch = 3 * part;  // of the result's rows
  T* const results = out + (i64)batch * shape.queries * pitch + head * shape.features;
  if (!idle) {
    typename E::Scores weights;
    E::score(weights, typename E::Own(k_tile), q_tile);
    Visible seen[E::slots];
#pragma unroll
    for (int s = 0; s < E::slots; ++s) {
      const int key = E::own_row(s);
      seen[s] = key < shape.keys ? seeing(shape, key) : Visible{0, 0};
    }
    const f32 scale = shape.scale * log2_e;
    weights.each([&](int, int query, f32& weight) {
      weight = fast_exp2(::fmaf(weight, scale, -logarithm_tile[query]));
    });
    const bool masked = shape.bounded || E::first_row() + E::wave_rows > shape.keys;
    weights.each_group([&](int, int end) { return masked || end > shape.queries; },
                       [&](int slot, int query, f32& weight) {
                         if (query < seen[slot].first || query >= seen[slot].end) weight = 0;
                       });
    typename E::Sums sums;
    sums.clear();
    E::add(sums, weights, dy_tile, nullptr);
    T* const staged = slopes + E::first_row() * slope_stride;  // where its slopes will be
    put_sums<E>(sums, 1, staged);
    store_own_rows<E>(staged, results + 2 * part, shape.keys, pitch);

    // Few columns at a time: their slopes are sums beside the weights, which are to stay in registers.
    constexpr int at_once = 2;
    const typename E::Own my_v(v_tile);
#pragma unroll
    for (int first = 0; first < E::own / 16; first += at_once) {
      mma::Accumulator<T> slope[at_once];
#pragma unroll
      for (int j = 0; j < at_once; ++j) mma::clear(slope[j]);
#pragma unroll
      for (int step = 0; step < E::features / E::depth; ++step) {
        const auto left = my_v.get(0, step);
#pragma unroll
        for (int j = 0; j < at_once; ++j)
          chain::multiply_add(
              slope[j], left,
              chain::load_other(dy_tile + (first + j) * 16 * E::row_stride + step * E::depth, E::row_stride));
      }
#pragma unroll
      for (int j = 0; j < at_once; ++j)
#pragma unroll
        for (int i = 0; i < mma::elements; ++i)
          weights.tile[0][first + j].element[i] *=
              slope[j].element[i] - delta_tile[(first + j) * 16 + chain::other(i)];
    }
    weights.each_run([&](int slot, int query, const f32* pair) {
      *reinterpret_cast<u32*>(slopes + E::own_row(slot) * slope_stride + query) =
          chain::pack(T{}, pair[0], pair[1]);
    });
    sums.clear();
    E::add(sums, weights, q_tile, nullptr);
    turn.template operator()<E>(sums, shape.queries);
    wave_barrier();  // all lanes have read their values
    put_sums<E>(sums, shape.scale, mine);
    store_own_rows<E>(mine, results + part, shape.keys, pitch);
  }
  barrier();  // all slopes are there
  if (idle) return;
  typename E::Sums sums;
  sums.clear();
#pragma unroll
  for (int g = 0; g < E::own / E::depth; ++g) {
    if (g * E::depth >= shape.keys) break;
    const auto left =
        mma::load_a_columns(slopes + g * E::depth * slope_stride + E::first_row(), slope_stride);
#pragma unroll
    for (int j = 0; j < E::features / 16; ++j)
      chain::multiply_add(sums.tile[0][j], left,
                          chain::load_second(k_tile + g * E::depth * E::row_stride + j * 16, E::row_stride));
  }
  turn.template operator()<E>(sums, shape.queries);
  put_sums<E>(sums, shape.scale, mine);
  store_own_rows<E>(mine, results, shape.queries, pitch);
}

}  // namespace attention
