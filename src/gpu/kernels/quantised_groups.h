// Products of quantised weights with many rows, by the matrix unit of sm_90.
//
// They are computed transposed: weights are the unit's left operand, which it takes from registers. There a
// lane makes numbers of its pairs of runs, as in quantised_strips.h, while the unit multiplies those before.
// x is f16 in shared memory, brought by the copy engine in panels of 64 of K, each for the first or the
// second runs of a chunk. Blocks of a cluster have the same results, each for a part of K, and add them up
// from each other's shared memory.
#pragma once

#include "quantised_strips.h"
#include "warpgroup.h"

namespace quantised {

// ROWS of x, and two warpgroups with 64 rows of the weights each, of which AHEAD chunks are under way; STAGES
// panels; SPLITS blocks of a cluster.
template <class FORMAT, int ROWS, int AHEAD, int STAGES, int SPLITS>
struct GroupTile {
  using Format = FORMAT;
  static constexpr int groups = 2, threads = groups * 128, rows = ROWS, columns = groups * 64;
  static constexpr int ahead = AHEAD, stages = STAGES, splits = SPLITS;
  static constexpr u32 panel_bytes = ROWS * 128;
  static constexpr int pitch = columns + 4;  // of a row of results in shared memory: banks differ
  static constexpr u32 pairs_in_block = Format::elements / 32;

  // A lane's part of a chunk: a pair of runs of each of two rows.
  struct Held {
    typename Format::Pair of[2];
  };

  const Blocks& blocks;
  u64 row[2];  // of blocks
  u32 last_pair;

  DEVICE GroupTile(const Blocks& from, const GemmShape& shape, u32 first_column) : blocks(from) {
    last_pair = (u32)shape.depth / 32 - 1;
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      const u32 column = first_column + own_column() + 8 * l, last = (u32)shape.columns - 1;
      row[l] = (u64)(column < last ? column : last) * ((u32)shape.depth / Format::elements);
    }
  }
  // Of the tile's columns, the first one of this lane; the other comes 8 later.
  static DEVICE u32 own_column() { return threadIdx.x / 32 * 16 + lane() / 4; }

  // Beyond the last pair x is zero.
  DEVICE void fetch(Held& held, u32 number) const {
    const u32 wanted = number * chunk_pairs + lane() % 4, pair = wanted < last_pair ? wanted : last_pair;
#pragma unroll
    for (int l = 0; l < 2; ++l)
      held.of[l] = Format::pair(blocks, row[l] + pair / pairs_in_block, pair % pairs_in_block);
  }

  // The operands for four steps of 16.
  static DEVICE void make_operands(u32 (&a)[16], const Held& held, int half) {
#pragma unroll
    for (int l = 0; l < 2; ++l) {
      const Halves run = crossed_halves<Format>(held.of[l], half);
#pragma unroll
      for (int i = 0; i < 8; ++i) a[i / 2 * 4 + i % 2 * 2 + l] = run.pair[i];
    }
  }
};

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

// Results of a tile, as they lie in the shared memory of all blocks of the cluster: each finishes some rows.
template <class Tile, class Finish>
DEVICE void finish_tile(const GemmShape& shape, const f32* tile, u32 first_row, u32 first_column, u32 split,
                        const Finish& finish) {
  constexpr int run = Finish::run_bytes == 2 ? 8 : 4, runs = Tile::columns / run;
  constexpr int rows = (Tile::rows + Tile::splits - 1) / Tile::splits;
  const int first = (int)split * rows, count = Tile::rows - first < rows ? Tile::rows - first : rows;
#pragma unroll 2
  for (int item = (int)threadIdx.x; item < count * runs; item += Tile::threads) {
    const u32 row = first + item / runs, column = item % runs * run;
    Packet<f32, run> sum;
#pragma unroll
    for (int part = 0; part < run; part += 4) {
      const f32* const at = tile + row * Tile::pitch + column + part;
#pragma unroll
      for (u32 block = 0; block < Tile::splits; ++block) {
        const Packet<f32, 4> values =
            Tile::splits == 1 ? *reinterpret_cast<const Packet<f32, 4>*>(at) : load_of_block(at, block);
#pragma unroll
        for (int e = 0; e < 4; ++e)
          sum.element[part + e] = block == 0 ? values.element[e] : sum.element[part + e] + values.element[e];
      }
    }
    gemm::finish_run(shape, finish, (i64)first_row + row, (i64)first_column + column, sum);
  }
}

// `x`: whole tiles of rows, as halve_rows() leaves them. `memory` begins at a multiple of 1024 and holds all
// panels, or a tile of results.
template <class Tile, class Finish>
DEVICE void multiply_groups(const GemmShape& shape, const Blocks& blocks, const TensorMap* x, char* memory,
                            Finish finish) {
  constexpr int stages = Tile::stages, ahead = Tile::ahead;
  __shared__ u64 full[stages], empty[stages];
  const u32 split = Tile::splits == 1 ? 0 : blockIdx.x % Tile::splits;
  const gemm::Job job = gemm::job(shape, blockIdx.x / Tile::splits);
  const u32 first_row = job.row_tile * Tile::rows, first_column = job.column_tile * Tile::columns;
  const int in_split = (int)(shape.split_depth / chunk), first = (int)split * in_split;
  const int rest = (int)(shape.a_row / chunk) - first, count = rest < in_split ? rest : in_split;
  const int panels = 2 * count;
  if (threadIdx.x == 0) {
#pragma unroll
    for (int i = 0; i < stages; ++i) {
      warpgroup::barrier_init(full + i, 1);
      warpgroup::barrier_init(empty + i, Tile::groups * 4);
    }
    warpgroup::publish_to_unit();
  }
  barrier();
  const Tile tile(blocks, shape, first_column);
  typename Tile::Held held[ahead];
#pragma unroll
  for (int i = 0; i < ahead; ++i)
    if (i < count) tile.fetch(held[i], first + i);

  const auto bring = [&](int panel) {
    u64* const barrier = full + panel % stages;
    warpgroup::barrier_expect(barrier, Tile::panel_bytes);
    warpgroup::copy_box(warpgroup::shared_address(memory) + panel % stages * Tile::panel_bytes, x, barrier,
                        (first * 2 + panel) * 64, (i32)first_row, 0);
  };
  if (threadIdx.x == 0)
    for (int i = 0; i < stages && i < panels; ++i) bring(i);

  f32 sums[Tile::rows / 2];
#pragma unroll
  for (int i = 0; i < Tile::rows / 2; ++i) sums[i] = 0;
  // Else the compiler may write them between products, and lets each wait for the one before.
  warpgroup::settle(sums);
  u32 even[16], odd[16];
  const auto multiply = [&](u32(&a)[16], int panel) {
    warpgroup::settle(a);
    warpgroup::barrier_wait(full + panel % stages, panel / stages % 2);
    const u64 b =
        warpgroup::rows_operand(warpgroup::shared_address(memory + panel % stages * Tile::panel_bytes));
    warpgroup::begin();
#pragma unroll
    for (int i = 0; i < 4; ++i) warpgroup::multiply_add(f16{}, sums, a + 4 * i, b + i * warpgroup::rows_step);
    warpgroup::commit();
  };
  // This wave has read a panel. The one before it makes room for another.
  const auto release = [&](int panel) {
    if (lane() == 0 && panel >= 0) {
      warpgroup::barrier_arrive(empty + panel % stages);
      const int before = panel - 1;
      if (threadIdx.x == 0 && before >= 0 && before + stages < panels) {
        warpgroup::barrier_wait(empty + before % stages, before / stages % 2);
        bring(before + stages);
      }
    }
    __syncwarp();
  };
#pragma unroll 1
  for (int base = 0; base < count; base += ahead) {
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      const int number = base + i;
      if (number >= count) break;
      Tile::make_operands(even, held[i], 0);
      multiply(even, 2 * number);
      warpgroup::wait<1>();
      warpgroup::settle(odd);
      release(2 * number - 1);
      Tile::make_operands(odd, held[i], 1);
      if (number + ahead < count) tile.fetch(held[i], first + number + ahead);
      multiply(odd, 2 * number + 1);
      warpgroup::wait<1>();
      warpgroup::settle(even);
      release(2 * number);
    }
  }
  warpgroup::wait<0>();
  warpgroup::settle(sums);
  barrier();  // nobody reads panels any more

  // A lane has two rows of the weights, 8 apart, and two neighbours of every eight rows of x.
  f32* const results = reinterpret_cast<f32*>(memory);
#pragma unroll
  for (int i = 0; i < Tile::rows / 2; ++i)
    results[(i / 4 * 8 + (int)lane() % 4 * 2 + i % 2) * Tile::pitch + Tile::own_column() + i % 4 / 2 * 8] =
        sums[i];
  if (Tile::splits == 1)
    barrier();
  else
    warpgroup::cluster_barrier();
  finish.start(0, 0);
  finish_tile<Tile>(shape, results, first_row, first_column, split, finish);
  if (Tile::splits > 1) warpgroup::cluster_barrier();  // others may still read this block's results
}

}  // namespace quantised
