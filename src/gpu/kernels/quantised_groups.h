// Products of quantised weights with many rows, by the matrix unit of sm_90.
//
// They are computed transposed: weights are the unit's left operand, which it takes from registers. There a
// lane makes numbers of its pairs of runs, as in quantised_strips.h, while the unit multiplies those before.
// x is f16 in shared memory, brought by a warpgroup of its own with the copy engine, a chunk at a time: a
// panel of 64 of K with the first runs of the chunk, and one with the second. K is divided among warpgroups
// of a block and among blocks of a cluster, which add up their results from each other's shared memory.
#pragma once

#include "quantised_strips.h"
#include "warpgroup.h"

namespace quantised {

// Weights of which others nearby are read soon: they come along into the second-level cache.
struct StreamedBlocks : Blocks {
  static DEVICE Packet<u32, 4> packet(const u8* at) {
    Packet<u32, 4> some;
    asm volatile("ld.global.nc.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(some.element[0]), "=r"(some.element[1]), "=r"(some.element[2]), "=r"(some.element[3])
                 : "l"(at));
    return some;
  }
};

// ROWS of x. GROUPS warpgroups with 64 rows of the weights each, of which AHEAD chunks are under way: PARTS
// of K for each of them, and where the pairing is of two, half of them have the one and half the other.
// STAGES chunks of x; SPLITS blocks of a cluster. WHOLE: K is whole chunks.
template <class FORMAT, class PAIRING, int ROWS, int GROUPS, int PARTS, int AHEAD, int STAGES, int SPLITS,
          bool WHOLE>
struct GroupTile {
  using Format = FORMAT;
  using Pairing = PAIRING;
  static constexpr int multiplying = GROUPS * 128, threads = multiplying + 128, rows = ROWS;
  static constexpr int places = GROUPS / PARTS * 64;                               // rows of the weights
  static constexpr int sides = Pairing::paired ? 2 : 1, columns = places / sides;  // of the result
  static constexpr u32 parts = PARTS, ahead = AHEAD, stages = STAGES, splits = SPLITS;
  static constexpr u32 stage_depth = chunk, empties = 1;  // empties: barriers of a stage that say it was read
  static constexpr u32 panel_bytes = ROWS * 128, stage_bytes = 2 * panel_bytes;
  static constexpr int pitch = places + 4;            // of a row of results in shared memory: banks differ
  static constexpr int result_floats = ROWS * pitch;  // of a part of K
  static constexpr u32 pairs_in_block = Format::elements / 32;
  // Chunks of a group in a turn of its loop.
  static constexpr u32 turn = AHEAD * PARTS * chunk_pairs % pairs_in_block == 0 ? AHEAD : 2 * AHEAD;
  static_assert(turn * PARTS * chunk_pairs % pairs_in_block == 0, "whole blocks");
  static_assert(WHOLE || pairs_in_block == 1, "larger blocks are whole chunks");
  static_assert(STAGES % PARTS == 0, "a stage belongs to a part");
  // A lane's part of a chunk: a pair of runs of each of two rows.
  struct Held {
    typename Format::Pair of[2];
  };

  const StreamedBlocks blocks;
  u64 at[2];  // the block of the turn's first pair, of each row
  u32 pair;   // which of the block's pairs
  i32 left;   // pairs of a row from there on, where K is not whole chunks

  // `first`: the first chunk of the block's part of K, where a block of weights begins.
  DEVICE GroupTile(const Blocks& from, const GemmShape& shape, u32 first_column, u32 first) : blocks{from} {
    const u32 in_row = (u32)shape.depth / 32, own = part() * chunk_pairs + lane() % 4;
    pair = own % pairs_in_block;
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      const u32 place = own_place() + 8 * l;
      const u32 wanted = first_column + place % columns, last = (u32)shape.columns - 1;
      const u32 column = wanted < last ? wanted : last;
      const u32 weights =
          sides == 1 ? column : Pairing::row(column) + place / columns * Pairing::apart(last + 1);
      at[l] = (u64)weights * (in_row / pairs_in_block) + (first * chunk_pairs + own) / pairs_in_block;
    }
    left = (i32)(in_row - first * chunk_pairs - own);
  }
  static DEVICE gemm::Job job(const GemmShape& shape) { return gemm::job(shape, blockIdx.x / splits); }
  static DEVICE u32 first_column(const GemmShape& shape) { return job(shape).column_tile * columns; }
  // The same for a wave, and known to be so: as a vote's result.
  static DEVICE u32 part() {
    const u32 own = threadIdx.x / (multiplying / PARTS);
    u32 part = 0;
#pragma unroll
    for (u32 bit = 1; bit < PARTS; bit *= 2) part |= __ballot_sync(~0u, own & bit) & bit;
    return part;
  }
  // Of all rows of weights, the first one of this lane; the other comes 8 later.
  static DEVICE u32 own_place() { return threadIdx.x / 32 * 16 % places + lane() / 4; }

  // The group's chunk i from the beginning of the turn on. Beyond the last pair x is zero.
  DEVICE void fetch(Held& held, u32 i) const {
    const u32 further = i * PARTS * chunk_pairs;
#pragma unroll
    for (int l = 0; l < 2; ++l)
      if constexpr (WHOLE)
        held.of[l] = Format::pair(blocks, at[l] + further / pairs_in_block, pair + further % pairs_in_block);
      else
        held.of[l] = Format::pair(blocks, at[l] + (i64)((i32)further < left ? (i32)further : left - 1), 0);
  }
  DEVICE void next_turn() {
    constexpr u32 pairs = turn * PARTS * chunk_pairs;
#pragma unroll
    for (int l = 0; l < 2; ++l) at[l] += pairs / pairs_in_block;
    left -= (i32)pairs;
  }
};

// Of a lane's pairs of runs, one of each of its two rows: the operands for four steps of 16, from their first
// or their second runs.
template <class Format>
DEVICE void make_operands(u32 (&a)[16], const typename Format::Pair (&pairs)[2],
                          const PairHalfScales (&scales)[2], int half) {
#pragma unroll
  for (int l = 0; l < 2; ++l) {
    const Halves run = crossed_halves<Format>(pairs[l], half, scales[l].of[half]);
#pragma unroll
    for (int i = 0; i < 8; ++i) a[i / 2 * 4 + i % 2 * 2 + l] = run.pair[i];
  }
}

// The four products of a panel. Until they have been waited for the operands stay as they are.
template <int N>
DEVICE void begin_products(f32 (&sums)[N], u32 (&a)[16], u64 panel) {
  warpgroup::settle(a);
  warpgroup::begin();
#pragma unroll
  for (int i = 0; i < 4; ++i)
    warpgroup::multiply_add(f16{}, sums, a + 4 * i, panel + i * warpgroup::rows_step);
  warpgroup::commit();
}

// Four numbers of a block of the cluster.
DEVICE Packet<f32, 4> load_of_block(const f32* shared, u32 block) {
  Packet<f32, 4> values;
  const u32 address = warpgroup::address_in_block(shared, block);
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(values.element[0]), "=f"(values.element[1]), "=f"(values.element[2]),
                 "=f"(values.element[3])
               : "r"(address)
               : "memory");
  return values;
}

// N neighbours of the results that all parts have, and all blocks of the cluster at the same place of their
// shared memory.
template <class Tile, int N>
DEVICE Packet<f32, N> sum_of_all(const f32* at) {
  Packet<f32, N> sum;
#pragma unroll
  for (int some = 0; some < N; some += 4)
#pragma unroll
    for (u32 i = 0; i < Tile::parts * Tile::splits; ++i) {
      const f32* const from = at + i % Tile::parts * Tile::result_floats + some;
      const Packet<f32, 4> values = Tile::splits == 1 ? *reinterpret_cast<const Packet<f32, 4>*>(from)
                                                      : load_of_block(from, i / Tile::parts);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        sum.element[some + e] = i == 0 ? values.element[e] : sum.element[some + e] + values.element[e];
    }
  return sum;
}

// Results of a tile, as they lie in the shared memory of all blocks of the cluster: each finishes some rows.
template <class Tile, class Finish>
DEVICE void finish_tile(const GemmShape& shape, const f32* tile, u32 first_row, u32 first_column, u32 split,
                        const Finish& finish) {
  constexpr int run = Finish::run_bytes == 2 ? 8 : 4, runs = Tile::columns / run;
  constexpr int rows = (Tile::rows + Tile::splits - 1) / Tile::splits;
  const int first = (int)split * rows, count = Tile::rows - first < rows ? Tile::rows - first : rows;
#pragma unroll 2
  for (int item = (int)threadIdx.x; item < count * runs; item += Tile::multiplying) {
    const u32 row = first + item / runs, column = item % runs * run;
    const f32* const at = tile + row * Tile::pitch + column;
    const Packet<f32, run> sum = sum_of_all<Tile, run>(at);
    if constexpr (Tile::sides == 1)
      gemm::finish_run(shape, finish, (i64)first_row + row, (i64)first_column + column, sum);
    else
      gemm::finish_run(shape, finish, (i64)first_row + row, (i64)first_column + column,
                       gemm::Pair<f32, run>{sum, sum_of_all<Tile, run>(at + Tile::columns)});
  }
}

// What the waves of a block share.
template <class Tile>
struct TileJob {
  u32 split, first_row, first_column;
  u32 first, count;               // stages of K
  u32 panels, is_full, is_empty;  // addresses in shared memory: of stages, and of a barrier for each
  f32* factors;                   // of rows

  DEVICE TileJob(const GemmShape& shape, char* memory, u64* full, u64* empty, f32* of_rows)
      : panels(warpgroup::kept_address(memory)),
        is_full(warpgroup::kept_address(full)),
        is_empty(warpgroup::kept_address(empty)),
        factors(of_rows) {
    const gemm::Job job = Tile::job(shape);
    split = Tile::splits == 1 ? 0 : blockIdx.x % Tile::splits;
    first_row = job.row_tile * Tile::rows;
    first_column = job.column_tile * Tile::columns;
    const u32 in_split = (u32)(shape.split_depth / Tile::stage_depth);
    const u32 all = (u32)(shape.a_row / Tile::stage_depth);
    first = split * in_split;
    const u32 end = first + in_split < all ? first + in_split : all;
    count = end > first ? end - first : 0;
  }

  // By the warpgroup that brings x.
  DEVICE void bring_factors(const GemmShape& shape, const f32* scales) const {
    for (u32 i = threadIdx.x - Tile::multiplying; i < Tile::rows; i += 128)
      factors[i] = first_row + i < (u32)shape.rows ? scales[first_row + i] : 0.0f;
  }

  // Sums of a part of K. A lane has two rows of the weights, 8 apart, and two neighbours of every eight rows
  // of x.
  DEVICE void put(f32* results, const f32 (&sums)[Tile::rows / 2]) const {
    f32* const own = results + Tile::part() * Tile::result_floats + Tile::own_place();
#pragma unroll
    for (int i = 0; i < Tile::rows / 2; ++i) {
      const int row = i / 4 * 8 + (int)lane() % 4 * 2 + i % 2;
      own[row * Tile::pitch + i % 4 / 2 * 8] = sums[i] * factors[row];
    }
  }

  // After this finish_tile() may read results of all blocks.
  static DEVICE void join() {
    if (Tile::splits == 1)
      barrier();
    else
      warpgroup::cluster_barrier();
  }
  // And after this blocks may end.
  static DEVICE void leave() {
    if (Tile::splits > 1) warpgroup::cluster_barrier();
  }
};

// The work of a block where registers hold weights that are on their way.
template <class Tile>
struct GroupJob : TileJob<Tile> {
  using Base = TileJob<Tile>;
  using Base::count, Base::first, Base::first_column, Base::first_row;
  using Base::is_empty, Base::is_full, Base::panels;
  const GemmShape& shape;
  const Blocks& blocks;
  const TensorMap* x;

  DEVICE GroupJob(const GemmShape& of, const Blocks& weights, const TensorMap* rows, char* memory, u64* full,
                  u64* empty, f32* of_rows)
      : Base(of, memory, full, empty, of_rows), shape(of), blocks(weights), x(rows) {}

  DEVICE void bring_maps() const { warpgroup::bring_map(x); }

  // Chunks of x, by a warpgroup.
  template <class Wait>
  DEVICE void bring(Wait wait) const {
    wait();
    if (threadIdx.x == Tile::multiplying)
      for (u32 number = 0; number < count; ++number) {
        const u32 stage = number % Tile::stages, round = number / Tile::stages;
        const u32 barrier = is_full + stage * 8, to = panels + stage * Tile::stage_bytes;
        if (round > 0) warpgroup::barrier_wait(is_empty + stage * 8, (round - 1) % 2);
        warpgroup::barrier_expect(barrier, Tile::stage_bytes);
#pragma unroll
        for (u32 half = 0; half < 2; ++half)
          warpgroup::copy_box(to + half * Tile::panel_bytes, x, barrier,
                              (i32)((first + number) * chunk + half * (chunk / 2)), (i32)first_row, 0);
      }
    __syncwarp();
  }

  // `begun` is called when the first weights are on their way.
  template <class Begun>
  DEVICE void multiply(f32 (&sums)[Tile::rows / 2], Begun begun) const {
    constexpr u32 ahead = Tile::ahead, turn = Tile::turn, parts = Tile::parts;
    const u32 part = Tile::part(), own = count > part ? (count - part + parts - 1) / parts : 0;
    Tile tile(blocks, shape, first_column, first);
    typename Tile::Held held[ahead];
#pragma unroll
    for (u32 i = 0; i < ahead; ++i)
      if (i < own) tile.fetch(held[i], i);
    begun();
#pragma unroll
    for (int i = 0; i < Tile::rows / 2; ++i) sums[i] = 0;
    // Else the compiler may write them between products, and lets each wait for the one before.
    warpgroup::settle(sums);
    u32 even[16], odd[16];
    const u64 first_panel = warpgroup::rows_operand(panels + part * Tile::stage_bytes);
    const u32 first_full = is_full + part * 8, first_empty = is_empty + part * 8;
    u32 stage = 0, parity = 0, before = 0;  // before: the barrier that says that the chunk before was read
#pragma unroll 1
    for (u32 base = 0; base < own; base += turn) {
#pragma unroll
      for (u32 i = 0; i < turn; ++i) {
        if (base + i >= own) break;
        const u64 panel = first_panel + stage * (Tile::stage_bytes >> 4);
        const auto& pairs = held[i % ahead].of;
        const PairHalfScales scales[2] = {half_scales<typename Tile::Format>(pairs[0]),
                                          half_scales<typename Tile::Format>(pairs[1])};
        make_operands<typename Tile::Format>(even, pairs, scales, 0);
        warpgroup::barrier_wait(first_full + stage * 8, parity);
        begin_products(sums, even, panel);
        warpgroup::wait<1>();
        warpgroup::settle(odd);
        warpgroup::barrier_arrive_if(lane() == 0 && before != 0, before);
        make_operands<typename Tile::Format>(odd, pairs, scales, 1);
        if (base + i + ahead < own) tile.fetch(held[i % ahead], i + ahead);
        begin_products(sums, odd, panel + (Tile::panel_bytes >> 4));
        warpgroup::wait<1>();
        warpgroup::settle(even);
        before = first_empty + stage * 8;
        stage += parts;
        if (stage == Tile::stages) {
          stage = 0;
          parity ^= 1;
        }
      }
      tile.next_turn();
    }
    warpgroup::wait<0>();
    warpgroup::settle(sums);
  }
};

// What the waves of a block do, by a job: `scales`: of the rows of x. `memory` begins at a multiple of 1024
// and holds all stages, or results of all parts. `wait` is called before x is read.
template <class Tile, class Job, class Finish, class Wait>
DEVICE void multiply_tile(const Job& job, const GemmShape& shape, const f32* scales, char* memory, u64* full,
                          u64* empty, Finish finish, Wait wait) {
  // Those who bring x leave registers to those who multiply.
  constexpr int bringing_registers = 24;
  constexpr int multiplying_registers =
      (65536 / Tile::threads / 8 * 8 * Tile::threads - bringing_registers * 128) / Tile::multiplying / 8 * 8;
  __syncwarp();
  if (threadIdx.x >= Tile::multiplying) {
    warpgroup::give_registers<bringing_registers>();
    if (threadIdx.x == Tile::multiplying) {
      job.bring_maps();
#pragma unroll
      for (u32 i = 0; i < Tile::stages; ++i) {
        warpgroup::barrier_init(full + i, 1);
#pragma unroll
        for (u32 e = 0; e < Tile::empties; ++e)
          warpgroup::barrier_init(empty + e * Tile::stages + i, Tile::places / 16);
      }
      warpgroup::publish_to_unit();
    }
    barrier();
    job.bring([&] {
      wait();
      job.bring_factors(shape, scales);
    });
    __syncwarp();
    barrier();
    job.join();
    job.leave();
  } else {
    warpgroup::take_registers<multiplying_registers>();
    f32 sums[Tile::rows / 2];
    job.multiply(sums, [&] {
      barrier();
      wait();
    });
    barrier();  // nobody reads panels any more
    f32* const results = reinterpret_cast<f32*>(memory);
    job.put(results, sums);
    job.join();
    finish.start(0, 0);
    finish_tile<Tile>(shape, results, job.first_row, job.first_column, job.split, finish);
    job.leave();
  }
}

// `x`: whole tiles of rows, as halve_rows() leaves them.
template <class Tile, class Finish, class Wait>
DEVICE void multiply_groups(const GemmShape& shape, const Blocks& blocks, const TensorMap* x,
                            const f32* scales, char* memory, Finish finish, Wait wait) {
  __shared__ u64 full[Tile::stages], empty[Tile::stages];
  __shared__ f32 factors[Tile::rows];
  const GroupJob<Tile> job(shape, blocks, x, memory, full, empty, factors);
  multiply_tile<Tile>(job, shape, scales, memory, full, empty, finish, wait);
}

}  // namespace quantised
