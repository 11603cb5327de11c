// Attention forward by warpgroups: two multiply, 64 queries each, and a thread of a third one keeps the copy
// engine busy, which brings queries, keys and values.
//
// The scores of the next tile and the sums of this one are computed by the matrix unit at the same time,
// while the exponentials of the scores before are taken. Where sequences are short, a block has many of them,
// one after another, and loads the next while it multiplies.
#pragma once

#include "attention.h"
#include "mma_chain.h"
#include "warpgroup.h"

namespace attention {

// Where the copy engine finds queries, keys and values (and gradients of the output): features, rows, heads,
// batch.
struct HeadRows {
  const TensorMap* map;
  int head, batch;

  // Rows from `first` on as panels of 64 features, `panel_bytes` apart.
  template <int FEATURES>
  DEVICE void copy(u32 to, u32 panel_bytes, int first, u64* barrier) const {
#pragma unroll
    for (int panel = 0; panel < FEATURES / 64; ++panel)
      warpgroup::copy_box(to + panel * panel_bytes, map, barrier, panel * 64, first, head, batch);
  }
};

// A ring of tiles in shared memory: which is next, and how often the ring has been gone round.
template <int COUNT>
struct RingPlace {
  int index = 0;
  u32 round = 0;  // modulo 2
  DEVICE void advance() {
    index = index + 1 == COUNT ? 0 : index + 1;
    round ^= index == 0;
  }
};

template <class Type, int FEATURES>
struct WgmmaForward {
  using T = Type;
  static constexpr int own = 128, others = 128, threads = 384, stages = FEATURES == 64 ? 3 : 2, q_tiles = 2;
  static constexpr int tile_bytes = others * FEATURES * 2, panel_bytes = others * 128;
  static_assert(own == others, "one size of tile");

  struct Barriers {
    u64 q_full[q_tiles], q_empty[q_tiles], k_full[stages], k_empty[stages], v_full[stages], v_empty[stages];
  };
  // Where tiles are, in shared memory.
  struct Tiles {
    u32 q, k, v;
  };
  // What a block does at a time.
  struct Job {
    QueryBlock block;
    Visible pass;
    int tiles;  // of keys; 0: nothing is seen
    DEVICE Job(const AttentionShape& shape, u32 index) : block(query_block<WgmmaForward>(shape, index)) {
      const int last_row = min(block.first_row + own, shape.queries) - 1;
      pass = visible_to(shape, block.first_row, last_row).any;
      pass.first = pass.first / others * others;
      tiles = pass.end > pass.first ? (pass.end - pass.first + others - 1) / others : 0;
    }
  };

  static DEVICE void load(const AttentionShape& shape, u32 jobs, const TensorMap* q, const TensorMap* k,
                          const TensorMap* v, const Tiles& at, Barriers& barriers) {
    RingPlace<q_tiles> own_place;
    RingPlace<stages> place;
    const auto bring = [](const HeadRows& rows, u32 tiles, int index, u32 round, int first, u64* full,
                          u64* empty) {
      warpgroup::barrier_wait(empty + index, round ^ 1);  // the first time round nobody is waited for
      warpgroup::barrier_expect(full + index, tile_bytes);
      rows.copy<FEATURES>(tiles + index * tile_bytes, panel_bytes, first, full + index);
    };
    for (u32 index = blockIdx.x; index < jobs; index += gridDim.x) {
      const Job job(shape, index);
      if (job.tiles == 0) continue;
      const QueryBlock& block = job.block;
      bring({q, block.head, block.batch}, at.q, own_place.index, own_place.round, block.first_row,
            barriers.q_full, barriers.q_empty);
      own_place.advance();
      for (int i = 0; i < job.tiles; ++i) {
        const int first = job.pass.first + i * others;
        bring({k, block.group, block.batch}, at.k, place.index, place.round, first, barriers.k_full,
              barriers.k_empty);
        bring({v, block.group, block.batch}, at.v, place.index, place.round, first, barriers.v_full,
              barriers.v_empty);
        place.advance();
      }
    }
  }

  // scores = q k', one warpgroup's 64 rows.
  static DEVICE void score(f32 (&scores)[64], u64 q, u64 k) {
    warpgroup::begin();
#pragma unroll
    for (int i = 0; i < FEATURES / 16; ++i) {
      const u64 ahead = i / 4 * (panel_bytes >> 4) + i % 4 * warpgroup::rows_step;
      if (i == 0)
        warpgroup::multiply(T{}, scores, q, k);
      else
        warpgroup::multiply_add(T{}, scores, q + ahead, k + ahead);
    }
    warpgroup::commit();
  }
  static DEVICE void add(f32 (&sums)[FEATURES / 2], u32 (&weights)[32], u64 v) {
    warpgroup::begin();
#pragma unroll
    for (int i = 0; i < others / 16; ++i)
      warpgroup::multiply_columns(T{}, sums, weights + 4 * i, v + i * warpgroup::columns_step);
    warpgroup::commit();
  }

  // A thread's part of two rows: element i is in row i % 4 / 2, column i / 4 * 8 + lane % 4 * 2 + i % 2.
  struct Rows {
    f32 largest[2] = {-infinity(), -infinity()}, total[2] = {0, 0}, shrink[2];

    DEVICE void weigh(f32 (&scores)[64], f32 scale) {
      f32 top[2] = {-infinity(), -infinity()};
#pragma unroll
      for (int i = 0; i < 64; ++i) top[i % 4 / 2] = ::fmaxf(top[i % 4 / 2], scores[i]);
      f32 reference[2];
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        top[s] = ::fmaxf(top[s], from_lane_xor(top[s], 1));
        top[s] = ::fmaxf(top[s], from_lane_xor(top[s], 2));
        const f32 now = ::fmaxf(largest[s], top[s] * scale);
        reference[s] = now == -infinity() ? 0 : now;
        shrink[s] = fast_exp2(largest[s] - reference[s]);
        largest[s] = now;
        total[s] *= shrink[s];
      }
#pragma unroll
      for (int i = 0; i < 64; ++i) {
        scores[i] = fast_exp2(::fmaf(scores[i], scale, -reference[i % 4 / 2]));
        total[i % 4 / 2] += scores[i];
      }
    }
  };

  static DEVICE void pack(u32 (&weights)[32], const f32 (&scores)[64]) {
#pragma unroll
    for (int i = 0; i < 32; ++i) weights[i] = chain::pack(T{}, scores[2 * i], scores[2 * i + 1]);
  }

  static DEVICE void run(const AttentionShape& shape, const TensorMap* q, const TensorMap* k,
                         const TensorMap* v, T* out, f32* logarithms) {
    __shared__ Barriers barriers;
    unsigned char* const memory = launched_shared<unsigned char>();
    Tiles at;
    at.q = (warpgroup::shared_address(memory) + 1023) / 1024 * 1024;
    at.k = at.q + q_tiles * tile_bytes;
    at.v = at.k + stages * tile_bytes;
    if (threadIdx.x == 0) {
      const auto init = [](u64* full, u64* empty) {
        warpgroup::barrier_init(full, 1);
        warpgroup::barrier_init(empty, 8);
      };
#pragma unroll
      for (int i = 0; i < q_tiles; ++i) init(&barriers.q_full[i], &barriers.q_empty[i]);
#pragma unroll
      for (int i = 0; i < stages; ++i) {
        init(&barriers.k_full[i], &barriers.k_empty[i]);
        init(&barriers.v_full[i], &barriers.v_empty[i]);
      }
      warpgroup::publish_to_unit();
    }
    barrier();

    const u32 jobs = query_tiles<WgmmaForward>(shape) * shape.heads * shape.batch;
    if (threadIdx.x >= 256) {
      warpgroup::give_registers<40>();
      if (threadIdx.x == 256) load(shape, jobs, q, k, v, at, barriers);
    } else {
      warpgroup::take_registers<232>();
      RingPlace<q_tiles> own_place;
      RingPlace<stages> place;
      for (u32 index = blockIdx.x; index < jobs; index += gridDim.x) {
        const Job job(shape, index);
        multiply(shape, job, at, barriers, own_place, place, out, logarithms);
        if (job.tiles > 0) own_place.advance();
      }
    }
  }

  static DEVICE void multiply(const AttentionShape& shape, const Job& job, const Tiles& at,
                              Barriers& barriers, const RingPlace<q_tiles>& own_place,
                              RingPlace<stages>& place, T* out, f32* logarithms) {
    const QueryBlock& block = job.block;
    const int group_row = block.first_row + (int)threadIdx.x / 128 * 64;
    const int first_row = group_row + (int)threadIdx.x % 128 / 32 * 16 + (int)lane() / 4;
    const int column = (int)lane() % 4 * 2;
    const Visible seen[2] = {visible(shape, first_row), visible(shape, first_row + 8)};
    const int last_row = shape.queries - 1;
    const Visible all = visible_to(shape, min(group_row, last_row), min(group_row + 63, last_row)).all;
    const f32 scale = shape.scale * log2_e;
    const u64 q_operand =
        warpgroup::rows_operand(at.q + own_place.index * tile_bytes + (int)threadIdx.x / 128 * 64 * 128);
    const auto k_operand = [&](int stage) { return warpgroup::rows_operand(at.k + stage * tile_bytes); };
    const auto v_operand = [&](int stage) {
      return warpgroup::columns_operand(at.v + stage * tile_bytes, panel_bytes);
    };
    const auto mask = [&](f32(&scores)[64], int first) {
      if (first >= all.first && first + others <= all.end) return;
#pragma unroll
      for (int i = 0; i < 64; ++i) {
        const int key = first + i / 4 * 8 + column + i % 2;
        if (key < seen[i % 4 / 2].first || key >= seen[i % 4 / 2].end) scores[i] = -infinity();
      }
    };
    const auto release = [&](u64* empty) {
      if (lane() == 0) warpgroup::barrier_arrive(empty);
    };

    Rows rows;
    f32 sums[FEATURES / 2], scores[64];
    u32 weights[32];
#pragma unroll
    for (int i = 0; i < FEATURES / 2; ++i) sums[i] = 0;
    if (job.tiles > 0) {
      warpgroup::barrier_wait(&barriers.q_full[own_place.index], own_place.round);
      warpgroup::barrier_wait(&barriers.k_full[place.index], place.round);
      score(scores, q_operand, k_operand(place.index));
      warpgroup::wait<0>();
      warpgroup::settle(scores);
      release(&barriers.k_empty[place.index]);
      if (job.tiles == 1) release(&barriers.q_empty[own_place.index]);
      mask(scores, job.pass.first);
      rows.weigh(scores, scale);
      pack(weights, scores);
      for (int i = 1; i < job.tiles; ++i) {
        const RingPlace<stages> before = place;
        place.advance();
        warpgroup::barrier_wait(&barriers.k_full[place.index], place.round);
        score(scores, q_operand, k_operand(place.index));
        warpgroup::barrier_wait(&barriers.v_full[before.index], before.round);
        warpgroup::settle(sums);
        warpgroup::settle(weights);
        add(sums, weights, v_operand(before.index));
        warpgroup::wait<1>();
        warpgroup::settle(scores);
        release(&barriers.k_empty[place.index]);
        if (i + 1 == job.tiles) release(&barriers.q_empty[own_place.index]);
        mask(scores, job.pass.first + i * others);
        rows.weigh(scores, scale);
        warpgroup::wait<0>();
        warpgroup::settle(sums);
        warpgroup::settle(weights);
        release(&barriers.v_empty[before.index]);
#pragma unroll
        for (int e = 0; e < FEATURES / 2; ++e) sums[e] *= rows.shrink[e % 4 / 2];
        pack(weights, scores);
      }
      warpgroup::barrier_wait(&barriers.v_full[place.index], place.round);
      warpgroup::settle(sums);
      warpgroup::settle(weights);
      add(sums, weights, v_operand(place.index));
      warpgroup::wait<0>();
      warpgroup::settle(sums);
      release(&barriers.v_empty[place.index]);
      place.advance();
    }

    const i64 first_result = ((i64)block.batch * shape.heads + block.head) * shape.queries;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int row = first_row + 8 * s;
      f32 total = rows.total[s];
      total += from_lane_xor(total, 1);
      total += from_lane_xor(total, 2);
      if (row >= shape.queries) continue;
      const f32 share = total == 0 ? 0 : 1 / total;
      T* const to = out + result_place(shape, block.batch, block.head, row) + column;
#pragma unroll
      for (int j = 0; j < FEATURES / 8; ++j)
        *reinterpret_cast<u32*>(to + j * 8) =
            chain::pack(T{}, sums[j * 4 + s * 2] * share, sums[j * 4 + s * 2 + 1] * share);
      if (column == 0)
        logarithms[first_result + row] = total == 0 ? infinity() : rows.largest[s] + ::log2f(total);
    }
  }
};

}  // namespace attention
