// Products of quantised weights with up to 64 rows, by the matrix unit of sm_90: as in quantised_groups.h,
// but the copy engine brings the weights, too. Many more of them are on their way then than registers could
// hold, which is what products of so few rows are bound by.
//
// A stage is 256 of K: two chunks of x, in four panels, and behind them the weights' planes, each a box of
// the bytes that all rows of the tile have of it.
#pragma once

#include "quantised_groups.h"

namespace quantised {

// The compiler takes these as written here, so that what is made of them stays behind the products before.
template <class Pair>
DEVICE void settle(Pair (&pairs)[2]) {
#pragma unroll
  for (Pair& pair : pairs) {
    auto words = bit_cast<Packet<u32, sizeof(Pair) / 4>>(pair);
    warpgroup::settle(words.element);
    pair = bit_cast<Pair>(words);
  }
}

// Where x lies: as InChunks has it, but for pairs that share scales. Those are at the same place of both
// chunks of a stage, so that a lane needs their scales once.
template <class Format>
struct InStages {
  static constexpr int apart = InChunks<Format>::apart;
  static constexpr u32 depth = 256, chunks = depth / chunk;
  DEVICE u32 operator()(u32 k) const {
    const RunPlace place = place_of<Format>(k / 16);
    const u32 pair = place.pair % (chunks * chunk_pairs);
    const u32 of_chunk = Format::pairs_share_scales ? pair / chunks : pair % chunk_pairs;
    const u32 number = Format::pairs_share_scales ? pair % chunks : pair / chunk_pairs;
    return k / depth * depth + number * chunk + InChunks<Format>::in_chunk(of_chunk, place.half, k % 16);
  }
  // Which of a stage's pairs is pair `of_chunk` of a chunk.
  static DEVICE u32 pair_of(u32 of_chunk, u32 number) {
    return Format::pairs_share_scales ? of_chunk * chunks + number : number * chunk_pairs + of_chunk;
  }
};

// What the copy engine knows of each plane.
template <int COUNT>
struct PlaneMaps {
  TensorMap of[COUNT];
};

// ROWS of x. GROUPS warpgroups with 64 rows of the weights each; STAGES; SPLITS blocks of a cluster; PLANES:
// bytes of a block in each.
template <class FORMAT, class PAIRING, int ROWS, int GROUPS, int STAGES, int SPLITS, int... PLANES>
struct BoxTile {
  using Format = FORMAT;
  using Pairing = PAIRING;
  static constexpr int multiplying = GROUPS * 128, threads = multiplying + 128, rows = ROWS;
  static constexpr int places = GROUPS * 64;                                       // rows of the weights
  static constexpr int sides = Pairing::paired ? 2 : 1, columns = places / sides;  // of the result
  static constexpr u32 parts = 1, stages = STAGES, splits = SPLITS, planes = sizeof...(PLANES);
  static constexpr u32 empties = 2;  // of the weights, which are read first, and of x
  static constexpr u32 stage_depth = InStages<FORMAT>::depth, stage_chunks = InStages<FORMAT>::chunks;
  static constexpr u32 blocks_in_stage = stage_depth / Format::elements;  // of a row
  static constexpr u32 panel_bytes = ROWS * 128, x_bytes = 2 * stage_chunks * panel_bytes;
  static constexpr u32 stage_bytes = x_bytes + places * blocks_in_stage * (PLANES + ...);
  static_assert(stage_bytes % 1024 == 0, "where panels begin");
  static constexpr int pitch = places + 4;  // of a row of results in shared memory: banks differ
  static constexpr int result_floats = ROWS * pitch;
  // The halves of a pairing of two are boxes of their own, unless they lie in one.
  static constexpr bool apart = same_type<Pairing, LeftAndRight>;
  static constexpr u32 boxes = apart ? 2 : 1;

  static DEVICE gemm::Job job(const GemmShape& shape) { return gemm::job(shape, blockIdx.x / splits); }
  static DEVICE u32 first_column(const GemmShape& shape) { return job(shape).column_tile * columns; }
  static DEVICE u32 part() { return 0; }
  // Of all rows of weights, the first one of this lane; the other comes 8 later.
  static DEVICE u32 own_place() { return threadIdx.x / 32 * 16 + lane() / 4; }
  // Where that row lies in a stage.
  static DEVICE u32 row_of(u32 place) {
    if constexpr (sides == 1 || apart) return place;
    return Pairing::row(place % columns) + place / columns * Pairing::apart(columns);
  }
  // The first row of a box.
  static DEVICE u32 first_row_of(u32 box, u32 first_column, u32 all_columns) {
    return sides == 1 ? first_column : Pairing::row(first_column) + box * Pairing::apart(all_columns);
  }
};

template <class Tile, int... PLANES>
struct BoxJob : TileJob<Tile> {
  using Base = TileJob<Tile>;
  using Base::count, Base::first, Base::first_column, Base::first_row;
  using Base::is_empty, Base::is_full, Base::panels;
  using Format = typename Tile::Format;
  const GemmShape& shape;
  const PlaneMaps<sizeof...(PLANES)>& weights;
  const TensorMap* x;
  const char* memory;

  DEVICE BoxJob(const GemmShape& of, const PlaneMaps<sizeof...(PLANES)>& maps, const TensorMap* rows,
                char* stages, u64* full, u64* empty, f32* of_rows)
      : Base(of, stages, full, empty, of_rows), shape(of), weights(maps), x(rows), memory(stages) {}

  DEVICE void bring_maps() const {
#pragma unroll
    for (u32 p = 0; p < Tile::planes; ++p) warpgroup::bring_map(weights.of + p);
    warpgroup::bring_map(x);
  }

  // All stages, by a thread: weights of the first ones before x may be looked at.
  template <class Wait>
  DEVICE void bring(Wait wait) const {
    const bool brings = threadIdx.x == Tile::multiplying;
    const u32 early = count < Tile::stages ? count : Tile::stages;
    if (brings)
      for (u32 number = 0; number < early; ++number) bring_weights(number, number);
    wait();
    if (!brings) return;
    for (u32 number = 0; number < early; ++number) bring_x(number, number);
    for (u32 number = Tile::stages, stage = 0, parity = 0; number < count; ++number) {
      warpgroup::barrier_wait(is_empty + stage * 8, parity);
      bring_weights(number, stage);
      warpgroup::barrier_wait(x_is_empty() + stage * 8, parity);
      bring_x(number, stage);
      if (++stage == Tile::stages) {
        stage = 0;
        parity ^= 1;
      }
    }
  }

  template <class Begun>
  DEVICE void multiply(f32 (&sums)[Tile::rows / 2], Begun begun) const {
    begun();
#pragma unroll
    for (int i = 0; i < Tile::rows / 2; ++i) sums[i] = 0;
    // Else the compiler may write them between products, and lets each wait for the one before.
    warpgroup::settle(sums);
    u32 even[16], odd[16];
    u32 row[2];  // of a stage
#pragma unroll
    for (int l = 0; l < 2; ++l) row[l] = Tile::row_of(Tile::own_place() + 8 * l);
    const u64 first_panel = warpgroup::rows_operand(panels);
    u32 stage = 0, parity = 0;
    u32 before = 0;  // the barrier that says that x of the stage before was read
#pragma unroll 1
    for (u32 number = 0; number < count; ++number) {
      warpgroup::barrier_wait(is_full + stage * 8, parity);
      const Blocks blocks{reinterpret_cast<const u8*>(memory) + stage * Tile::stage_bytes + Tile::x_bytes,
                          Tile::places * Tile::blocks_in_stage};
      const u64 panel = first_panel + stage * (Tile::stage_bytes >> 4);
      PairHalfScales scales[2];
#pragma unroll
      for (u32 c = 0; c < Tile::stage_chunks; ++c) {
        typename Format::Pair held[2];
        const u32 pair = InStages<Format>::pair_of(lane() % 4, c);
#pragma unroll
        for (int l = 0; l < 2; ++l) {
          held[l] = Format::pair(blocks, row[l] * Tile::blocks_in_stage + pair * 32 / Format::elements,
                                 pair % (Format::elements / 32));
          if (!Format::pairs_share_scales || c == 0) scales[l] = half_scales<Format>(held[l]);
        }
        make_operands<Format>(even, held, scales, 0);
        begin_products(sums, even, panel + 2 * c * (Tile::panel_bytes >> 4));
        warpgroup::wait<1>();
        warpgroup::settle(odd);
        settle(held);
        if (c == 0) warpgroup::barrier_arrive_if(lane() == 0 && before != 0, before);
        if (c + 1 == Tile::stage_chunks) {
          __syncwarp();  // all lanes have their weights
          warpgroup::barrier_arrive_if(lane() == 0, is_empty + stage * 8);
        }
        make_operands<Format>(odd, held, scales, 1);
        begin_products(sums, odd, panel + (2 * c + 1) * (Tile::panel_bytes >> 4));
        warpgroup::wait<1>();
        warpgroup::settle(even);
      }
      before = x_is_empty() + stage * 8;
      if (++stage == Tile::stages) {
        stage = 0;
        parity ^= 1;
      }
    }
    warpgroup::wait<0>();
    warpgroup::settle(sums);
  }

 private:
  DEVICE u32 x_is_empty() const { return is_empty + Tile::stages * 8; }
  DEVICE void bring_weights(u32 number, u32 stage) const {
    const u32 barrier = is_full + stage * 8;
    warpgroup::barrier_expect(barrier, Tile::stage_bytes);
    u32 to = panels + stage * Tile::stage_bytes + Tile::x_bytes, plane = 0;
    (bring_plane<PLANES>(to, plane, number, barrier), ...);
  }
  template <int SIZE>
  DEVICE void bring_plane(u32& to, u32& plane, u32 number, u32 barrier) const {
    constexpr u32 in_row = Tile::blocks_in_stage * SIZE;
#pragma unroll
    for (u32 box = 0; box < Tile::boxes; ++box) {
      warpgroup::copy_box(to, weights.of + plane, barrier, (i32)((first + number) * in_row),
                          (i32)Tile::first_row_of(box, first_column, (u32)shape.columns));
      to += Tile::places / Tile::boxes * in_row;
    }
    ++plane;
  }
  DEVICE void bring_x(u32 number, u32 stage) const {
#pragma unroll
    for (u32 panel = 0; panel < 2 * Tile::stage_chunks; ++panel)
      warpgroup::copy_box(panels + stage * Tile::stage_bytes + panel * Tile::panel_bytes, x,
                          is_full + stage * 8, (i32)((first + number) * Tile::stage_depth + panel * 64),
                          (i32)first_row, 0);
  }
};

// As multiply_groups(). Depth is whole stages.
template <class Tile, int... PLANES, class Finish, class Wait>
DEVICE void multiply_boxes(const GemmShape& shape, const PlaneMaps<sizeof...(PLANES)>& weights,
                           const TensorMap* x, const f32* scales, char* memory, Finish finish, Wait wait) {
  __shared__ u64 full[Tile::stages], empty[Tile::empties * Tile::stages];
  __shared__ f32 factors[Tile::rows];
  const BoxJob<Tile, PLANES...> job(shape, weights, x, memory, full, empty, factors);
  multiply_tile<Tile>(job, shape, scales, memory, full, empty, finish, wait);
}

}  // namespace quantised
