// Gradients of attention by warpgroups; see attention_backward.h for what is computed and attention_wgmma.h
// for who does what. Two operands of the block's own 128 rows stay; tiles of 64 rows of two others pass by:
//
//            own   passing   first products      sums
//   dq       q, dy  k, v     q k', dy v'         dq += dscore k
//   dk, dv   k, v   q, dy    k q', v dy'         dv += p' dy, dk += dscore' q
#pragma once

#include "attention_backward.h"
#include "attention_wgmma.h"

namespace attention {

// BY_KEYS: the block's own rows are keys.
template <class Type, int FEATURES, bool BY_KEYS>
struct WgmmaGradient {
  using T = Type;
  static constexpr int own = 128, others = 64, threads = 384, stages = FEATURES == 64 ? 4 : 3;
  // Reading both factors from shared memory takes as long as multiplying tiles of 64 by 64: own rows are held
  // in registers where there are enough of them.
  static constexpr bool holds_first = !BY_KEYS || FEATURES == 64, holds_second = FEATURES == 64;
  // The first product of the next tile is computed before the sums of this one are: with wide sums of keys
  // there are too few registers.
  static constexpr bool ahead = !BY_KEYS || FEATURES == 64;
  // A block may have several jobs, one after another; with wide heads there are too few registers.
  static constexpr bool stays = FEATURES == 64;
  // Registers of those who load and of those who multiply.
  static constexpr int loading = BY_KEYS && stays ? 72 : 40, multiplying = (504 - loading) / 2;
  static constexpr int own_panel = own * 128, other_panel = others * 128;
  static constexpr int own_bytes = own * FEATURES * 2, other_bytes = others * FEATURES * 2;

  struct Shared {
    u64 own_full, own_empty, first_full[stages], second_full[stages], empty[stages];
    f32 logarithm[stages][others], delta[stages][others];  // of queries that pass by
  };
  // Where tiles are in shared memory.
  struct Tiles {
    u32 own;
    DEVICE u32 own_second() const { return own + own_bytes; }
    DEVICE u32 first(int stage) const { return own + 2 * own_bytes + 2 * stage * other_bytes; }
    DEVICE u32 second(int stage) const { return first(stage) + other_bytes; }
  };
  // What a block does at a time: `tiles` tiles for each of `heads` heads.
  struct Work {
    int batch, head, group, first_row, rows;  // head: the first one; rows: all there are
    int heads, tiles, first_other;
    DEVICE int steps() const { return heads * tiles; }
  };

  static DEVICE u32 job_count(const AttentionShape& shape) {
    if (BY_KEYS) return (u32)((shape.keys + own - 1) / own) * shape.groups * shape.batch;
    return query_tiles<WgmmaGradient>(shape) * shape.heads * shape.batch;
  }
  static DEVICE Work work_of(const AttentionShape& shape, u32 index) {
    Work work;
    Visible pass;
    if (BY_KEYS) {
      const int blocks = (shape.keys + own - 1) / own;
      work.first_row = (int)turned_tile(index, blocks) * own;
      work.group = (int)(index / blocks % shape.groups);
      work.batch = (int)(index / blocks / shape.groups);
      work.heads = shape.heads / shape.groups;
      work.head = work.group * work.heads;
      work.rows = shape.keys;
      pass = {seeing(shape, work.first_row).first,
              seeing(shape, min(work.first_row + own, shape.keys) - 1).end};
    } else {
      const QueryBlock block = query_block<WgmmaGradient>(shape, index);
      work.first_row = block.first_row;
      work.group = block.group;
      work.batch = block.batch;
      work.heads = 1;
      work.head = block.head;
      work.rows = shape.queries;
      pass = visible_to(shape, block.first_row, min(block.first_row + own, shape.queries) - 1).any;
    }
    work.first_other = pass.first / others * others;
    work.tiles = pass.end > work.first_other ? (pass.end - work.first_other + others - 1) / others : 0;
    return work;
  }

  struct Operands {
    const TensorMap *q, *k, *v, *dy;
    const f32 *logarithms, *delta;

    DEVICE const f32* logarithms_of(const AttentionShape& shape, const Work& work) const {
      return logarithms + ((i64)work.batch * shape.heads + work.head) * shape.queries;
    }
    DEVICE const f32* delta_of(const AttentionShape& shape, const Work& work) const {
      return delta + work.batch * shape.delta_batch + work.head * shape.delta_head;
    }
  };

  // By a warpgroup: its first thread tells the copy engine what to bring, and all of them copy a number of a
  // query each where queries pass by.
  static DEVICE void load(const AttentionShape& shape, const Operands& from, const Tiles& tiles,
                          Shared& shared) {
    const bool leads = threadIdx.x % 128 == 0;
    if (!BY_KEYS && !leads) return;
    u32 step = 0, turn = 0;
    const u32 jobs = job_count(shape);
    for (u32 index = blockIdx.x; index < jobs; index += gridDim.x) {
      const Work work = work_of(shape, index);
      if (work.steps() == 0) continue;
      if (leads) {
        warpgroup::barrier_wait(&shared.own_empty, turn % 2 ^ 1);
        warpgroup::barrier_expect(&shared.own_full, 2 * own_bytes);
        const int head = BY_KEYS ? work.group : work.head;
        HeadRows{BY_KEYS ? from.k : from.q, head, work.batch}.template copy<FEATURES>(
            tiles.own, own_panel, work.first_row, &shared.own_full);
        HeadRows{BY_KEYS ? from.v : from.dy, head, work.batch}.template copy<FEATURES>(
            tiles.own_second(), own_panel, work.first_row, &shared.own_full);
      }
      ++turn;
      const f32* logarithms = from.logarithms_of(shape, work);
      const f32* delta = from.delta_of(shape, work);
      for (int head = 0; head < work.heads; ++head) {
        for (int tile = 0; tile < work.tiles; ++tile, ++step) {
          const int stage = (int)(step % stages), first = work.first_other + tile * others;
          warpgroup::barrier_wait(&shared.empty[stage], step / stages % 2 ^ 1);
          if (leads) {
            const int passing = BY_KEYS ? work.head + head : work.group;
            warpgroup::barrier_expect(&shared.first_full[stage], other_bytes);
            HeadRows{BY_KEYS ? from.q : from.k, passing, work.batch}.template copy<FEATURES>(
                tiles.first(stage), other_panel, first, &shared.first_full[stage]);
            warpgroup::barrier_expect(&shared.second_full[stage], other_bytes);
            HeadRows{BY_KEYS ? from.dy : from.v, passing, work.batch}.template copy<FEATURES>(
                tiles.second(stage), other_panel, first, &shared.second_full[stage]);
          }
          if (BY_KEYS) {
            const int i = (int)threadIdx.x % 64, query = first + i;
            const bool there = query < shape.queries;
            if (threadIdx.x % 128 < 64)
              warpgroup::copy_4(warpgroup::shared_address(&shared.logarithm[stage][i]),
                                there ? logarithms + query : logarithms, there);
            else
              warpgroup::copy_4(warpgroup::shared_address(&shared.delta[stage][i]),
                                there ? delta + query * shape.delta_row : delta, there);
            warpgroup::barrier_arrive_copied(&shared.first_full[stage]);
          }
        }
        logarithms += shape.queries;
        delta += shape.delta_head;
      }
    }
  }

  // 64 rows of the block's own as a factor: in registers, or where they are in shared memory.
  template <bool HELD>
  struct Own {
    u32 value[HELD ? FEATURES / 4 : 1];
    u64 place;

    DEVICE explicit Own(u32 tile) : place(warpgroup::rows_operand(tile)) {
      if (!HELD) return;
      const int row = (int)threadIdx.x % 128 / 32 * 16 + (int)lane() / 4, column = (int)lane() % 4 * 2;
#pragma unroll
      for (int i = 0; i < FEATURES / 4; ++i) {  // i % 2: 8 rows further; i / 2: the 16-byte piece
        const int piece = i / 2;
        value[i] = warpgroup::load_4(tile + piece / 8 * own_panel + (row + i % 2 * 8) * 128 +
                                     ((piece % 8) ^ (row % 8)) * 16 + column * 2);
      }
    }
  };
  template <bool HELD>
  static DEVICE void score(f32 (&scores)[32], const Own<HELD>& mine, u64 theirs) {
    warpgroup::begin();
#pragma unroll
    for (int i = 0; i < FEATURES / 16; ++i) {
      const u64 inside = i % 4 * warpgroup::rows_step, factor = theirs + i / 4 * (other_panel >> 4) + inside;
      if constexpr (HELD) {
        if (i == 0)
          warpgroup::multiply(T{}, scores, mine.value, factor);
        else
          warpgroup::multiply_add(T{}, scores, mine.value + 4 * i, factor);
      } else {
        if (i == 0)
          warpgroup::multiply(T{}, scores, mine.place, factor);
        else
          warpgroup::multiply_add(T{}, scores, mine.place + i / 4 * (own_panel >> 4) + inside, factor);
      }
    }
    warpgroup::commit();
  }
  static DEVICE void add(f32 (&sums)[FEATURES / 2], u32 (&weights)[16], u64 second) {
    warpgroup::begin();
#pragma unroll
    for (int i = 0; i < others / 16; ++i)
      warpgroup::multiply_columns(T{}, sums, weights + 4 * i, second + i * warpgroup::columns_step);
    warpgroup::commit();
  }
  // dk is dq where own rows are queries. `done` and `turn`: steps and jobs that had any before this one.
  static DEVICE void multiply(const AttentionShape& shape, const Work& work, const Operands& from,
                              const Tiles& tiles, Shared& shared, u32 done, u32 turn, T* dk, T* dv) {
    const int warpgroup_row = (int)threadIdx.x / 128 * 64, group_row = work.first_row + warpgroup_row;
    const int first_row = group_row + (int)threadIdx.x % 128 / 32 * 16 + (int)lane() / 4;
    const int column = (int)lane() % 4 * 2, last_row = work.rows - 1;
    const auto seen_by = [&](int row) { return BY_KEYS ? seeing(shape, row) : visible(shape, row); };
    const Visible seen[2] = {seen_by(first_row), seen_by(first_row + 8)};
    const Visible all{seen_by(min(group_row + 63, last_row)).first, seen_by(min(group_row, last_row)).end};
    const f32 scale = shape.scale * log2_e;

    f32 logarithm[2] = {0, 0}, delta[2] = {0, 0};
    if (!BY_KEYS) {
      const f32* const logarithms = from.logarithms_of(shape, work);
      const f32* const deltas = from.delta_of(shape, work);
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        const int row = first_row + 8 * s;
        logarithm[s] = row < work.rows ? logarithms[row] : infinity();
        delta[s] = row < work.rows ? deltas[row * shape.delta_row] : 0;
      }
    }

    f32 sums_k[FEATURES / 2], sums_v[BY_KEYS ? FEATURES / 2 : 1], scores[32], slopes[32];
    u32 weights[16], changes[16];
#pragma unroll
    for (int i = 0; i < FEATURES / 2; ++i) {
      sums_k[i] = 0;
      if (BY_KEYS) sums_v[i] = 0;
    }
    const auto stage_of = [&](int step) { return (int)((done + step) % stages); };
    const auto round_of = [&](int step) { return (done + step) / stages % 2; };
    const auto first_product = [&](const auto& mine, int step) {
      warpgroup::barrier_wait(&shared.first_full[stage_of(step)], round_of(step));
      score(scores, mine, warpgroup::rows_operand(tiles.first(stage_of(step))));
    };
    const auto second_product = [&](const auto& mine, int step) {
      warpgroup::barrier_wait(&shared.second_full[stage_of(step)], round_of(step));
      score(slopes, mine, warpgroup::rows_operand(tiles.second(stage_of(step))));
    };
    int tile = 0;
    const auto weigh = [&](int step) {  // scores become weights
      const int first = work.first_other + tile * others;
      tile = tile + 1 == work.tiles ? 0 : tile + 1;
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const f32 reference =
            BY_KEYS ? shared.logarithm[stage_of(step)][i / 4 * 8 + column + i % 2] : logarithm[i % 4 / 2];
        scores[i] = fast_exp2(::fmaf(scores[i], scale, -reference));
      }
      if (first >= all.first && first + others <= all.end) return;
      warpgroup::settle(scores);  // else the compiler makes a branch for each of them
#pragma unroll
      for (int i = 0; i < 32; ++i) {
        const int other = first + i / 4 * 8 + column + i % 2;
        if (other < seen[i % 4 / 2].first || other >= seen[i % 4 / 2].end) scores[i] = 0;
      }
    };
    const auto add_values = [&](int step) {
#pragma unroll
      for (int i = 0; i < 16; ++i) weights[i] = chain::pack(T{}, scores[2 * i], scores[2 * i + 1]);
      warpgroup::settle(weights);
      if constexpr (BY_KEYS)
        add(sums_v, weights, warpgroup::columns_operand(tiles.second(stage_of(step)), other_panel));
    };
    const auto compute_changes = [&](int step) {
      const auto change = [&](int i) {
        const f32 shift =
            BY_KEYS ? shared.delta[stage_of(step)][i / 4 * 8 + column + i % 2] : delta[i % 4 / 2];
        return scores[i] * (slopes[i] - shift);
      };
#pragma unroll
      for (int i = 0; i < 16; ++i) changes[i] = chain::pack(T{}, change(2 * i), change(2 * i + 1));
      warpgroup::settle(changes);
    };
    const auto add_changes = [&](int step) {
      add(sums_k, changes, warpgroup::columns_operand(tiles.first(stage_of(step)), other_panel));
    };

    const int steps = work.steps();
    if (steps > 0) {
      warpgroup::barrier_wait(&shared.own_full, turn % 2);
      const Own<holds_first> mine(tiles.own + warpgroup_row * 128);
      const Own<holds_second> mine_second(tiles.own_second() + warpgroup_row * 128);
      const auto release_own = [&] {
        __syncwarp();  // all lanes have read it
        if (lane() == 0) warpgroup::barrier_arrive(&shared.own_empty);
      };
      if constexpr (holds_first && holds_second) release_own();
      const auto release = [&](int step) {
        if (lane() == 0) warpgroup::barrier_arrive(&shared.empty[stage_of(step)]);
      };
      // From scores to changes, with two products begun: values are summed meanwhile.
      const auto compute = [&](int step) {
        if constexpr (BY_KEYS) add_values(step);
        warpgroup::wait<BY_KEYS ? 1 : 0>();  // leaves the sums of values
        warpgroup::settle(slopes);
        compute_changes(step);
        if constexpr (BY_KEYS && ahead) {
          warpgroup::wait<0>();
          warpgroup::settle(sums_v);
          warpgroup::settle(weights);
        }
      };

      for (int step = 0; step < (ahead ? 1 : steps); ++step) {
        first_product(mine, step);
        second_product(mine_second, step);
        warpgroup::wait<1>();  // leaves the slopes
        warpgroup::settle(scores);
        weigh(step);
        compute(step);
        if constexpr (!ahead) {
          add_changes(step);
          warpgroup::wait<0>();
          warpgroup::settle(sums_k);
          if constexpr (BY_KEYS) warpgroup::settle(sums_v);
          release(step);
        }
      }
      if constexpr (ahead) {
        for (int step = 1; step < steps; ++step) {
          first_product(mine, step);
          add_changes(step - 1);
          second_product(mine_second, step);
          warpgroup::wait<2>();  // leaves changes and slopes
          warpgroup::settle(scores);
          weigh(step);
          warpgroup::wait<1>();  // leaves the slopes
          warpgroup::settle(sums_k);
          warpgroup::settle(changes);
          release(step - 1);
          compute(step);
        }
        add_changes(steps - 1);
        warpgroup::wait<0>();
        warpgroup::settle(sums_k);
        release(steps - 1);
      }
      if constexpr (!holds_first || !holds_second) release_own();
    }

#pragma unroll
    for (int s = 0; s < 2; ++s) {
      const int row = first_row + 8 * s;
      if (row >= work.rows) continue;
      const i64 place = (BY_KEYS ? key_result_place(shape, work.batch, work.group, row)
                                 : result_place(shape, work.batch, work.head, row)) +
                        column;
#pragma unroll
      for (int j = 0; j < FEATURES / 8; ++j) {
        const int i = j * 4 + s * 2;
        *reinterpret_cast<u32*>(dk + place + j * 8) =
            chain::pack(T{}, sums_k[i] * shape.scale, sums_k[i + 1] * shape.scale);
        if constexpr (BY_KEYS)
          *reinterpret_cast<u32*>(dv + place + j * 8) = chain::pack(T{}, sums_v[i], sums_v[i + 1]);
      }
    }
  }

  static DEVICE void run(const AttentionShape& shape, const Operands& from, T* dk, T* dv) {
    __shared__ Shared shared;
    const u32 memory = warpgroup::shared_address(launched_shared<unsigned char>());
    const Tiles tiles{(memory + 1023) / 1024 * 1024};
    if (threadIdx.x == 0) {
      warpgroup::barrier_init(&shared.own_full, 1);
      warpgroup::barrier_init(&shared.own_empty, 8);
#pragma unroll
      for (int i = 0; i < stages; ++i) {
        warpgroup::barrier_init(&shared.first_full[i], BY_KEYS ? 129 : 1);
        warpgroup::barrier_init(&shared.second_full[i], 1);
        warpgroup::barrier_init(&shared.empty[i], 8);
      }
      warpgroup::publish_to_unit();
    }
    barrier();
    if (threadIdx.x >= 256) {
      warpgroup::give_registers<loading>();
      load(shape, from, tiles, shared);
    } else {
      warpgroup::take_registers<multiplying>();
      if constexpr (stays) {
        u32 done = 0, turn = 0;
        const u32 jobs = job_count(shape);
        for (u32 index = blockIdx.x; index < jobs; index += gridDim.x) {
          const Work work = work_of(shape, index);
          multiply(shape, work, from, tiles, shared, done, turn, dk, dv);
          done += work.steps();
          turn += work.steps() > 0;
        }
      } else {
        multiply(shape, work_of(shape, blockIdx.x), from, tiles, shared, 0, 0, dk, dv);
      }
    }
  }
};

}  // namespace attention
