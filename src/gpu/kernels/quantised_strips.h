// Products of quantised weights with a tile's worth of rows, by the matrix unit.
//
// A wave has all rows of a tile, so that each weight becomes a number once, in the registers that are the
// operand of the matrix unit: a lane reads a pair of runs of its column and has two strips of it. Weights of
// the next step are on their way meanwhile. x is f16 and comes through shared memory.
#pragma once

#include "copy_ahead.h"
#include "quantised.h"

namespace quantised {

// Four pairs of runs of all formats are 128 neighbours. x lies in such chunks, the last one filled up with
// zeros: strips of the first runs of the pairs, then those of the second ones.
constexpr u32 chunk = 128, chunk_pairs = 4;

template <class Format>
struct InChunks {
  static constexpr int apart = crossed<Format> ? 2 : 1;
  DEVICE u32 operator()(u32 k) const {
    const RunPlace place = place_of<Format>(k / 16);
    return k / chunk * chunk + in_chunk(place.pair % chunk_pairs, place.half, k % 16);
  }
  // Element `k` of a run of one of a chunk's pairs.
  static DEVICE u32 in_chunk(u32 pair, u32 half, u32 k) {
    constexpr u32 strip = mma::strip_lanes;
    return (half * chunk_pairs + pair / strip * strip) * 16 +
           mma::strip_place(pair % strip * 16 + crossed_place<Format>(k));
  }
};

template <class FORMAT, int ROWS, int WAVES>
struct StripTile {
  using Format = FORMAT;
  static constexpr int threads = WAVES * WAVE, rows = ROWS, wave_columns = 32, columns = WAVES * wave_columns;
  static constexpr int stride = chunk + 8;  // rows begin in different banks
  static constexpr int down = ROWS / 16, across = wave_columns / 16;
  static constexpr u32 pairs_in_block = Format::elements / 32;

  struct Operands {
    mma::StripB of[2][across];  // first and second runs
  };

  const Blocks& blocks;
  u64 row[across][mma::strip_lines];  // of blocks, for each of the lane's columns
  u32 last_pair;
  typename Format::Pair held[across][mma::strip_lines];
  mma::Accumulator<f16> sums[down][across];

  DEVICE StripTile(const Blocks& from, const GemmShape& shape, u32 first_column) : blocks(from) {
    last_pair = (u32)shape.depth / 32 - 1;
#pragma unroll
    for (int j = 0; j < across; ++j) {
#pragma unroll
      for (int l = 0; l < mma::strip_lines; ++l) {
        const u32 column = first_column + wave_column() + j * 16 + mma::strip_line(l);
        const u32 last = (u32)shape.columns - 1;
        row[j][l] = (u64)(column < last ? column : last) * ((u32)shape.depth / Format::elements);
      }
#pragma unroll
      for (int i = 0; i < down; ++i) mma::clear(sums[i][j]);
    }
  }
  static DEVICE u32 wave_column() { return wave() * wave_columns; }

  // The lane's part of the strips that begin at a pair. Beyond the last one x is zero.
  DEVICE void fetch(u32 first_pair) {
    const u32 wanted = first_pair + mma::strip_lane(), pair = wanted < last_pair ? wanted : last_pair;
#pragma unroll
    for (int j = 0; j < across; ++j)
#pragma unroll
      for (int l = 0; l < mma::strip_lines; ++l)
        held[j][l] = Format::pair(blocks, row[j][l] + pair / pairs_in_block, pair % pairs_in_block);
  }

  DEVICE Operands operands() const {
    Operands right;
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int j = 0; j < across; ++j)
#pragma unroll
        for (int l = 0; l < mma::strip_lines; ++l)
          right.of[half][j].line[l] = bit_cast<mma::StripRun>(
              crossed_halves<Format>(held[j][l], half, half_scales<Format>(held[j][l]).of[half]));
    return right;
  }

  // x from the strips' first pair on.
  DEVICE void multiply(const f16* x, const Operands& right) {
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int i = 0; i < down; ++i) {
        const mma::StripA<f16> left =
            mma::load_strip(x + i * 16 * stride + half * (chunk_pairs * 16), stride);
#pragma unroll
        for (int j = 0; j < across; ++j) mma::multiply_add(sums[i][j], left, right.of[half][j]);
      }
  }

  template <class Finish>
  DEVICE void finish(const GemmShape& shape, i64 first_row, i64 first_column, const Finish& store) const {
    constexpr int length = mma::side_by_side;
#pragma unroll
    for (int i = 0; i < down; ++i)
#pragma unroll
      for (int j = 0; j < across; ++j)
#pragma unroll
        for (int e = 0; e < mma::elements; e += length) {
          Packet<f32, length> run;
#pragma unroll
          for (int r = 0; r < length; ++r) run.element[r] = sums[i][j].element[e + r];
          gemm::finish_run(shape, store, first_row + i * 16 + mma::row(e),
                           first_column + wave_column() + j * 16 + mma::column(e), run);
        }
  }
};

// The first weights of a block's first tile, a few lines of the cache of each column: as much as arrives
// while it waits.
template <class Tile>
DEVICE void bring_near(const GemmShape& shape, const Blocks& blocks) {
  using Format = typename Tile::Format;
  constexpr u32 line = 128, lines = 2;
  const gemm::Job job = gemm::job(shape, blockIdx.x);
  const u64 in_row = (u64)shape.depth / Format::elements;
  const u64 first = job.split * (u64)shape.split_depth / Format::elements * Format::first_plane;
  for (u32 i = threadIdx.x; i < Tile::columns * lines; i += Tile::threads) {
    const u64 column = (u64)job.column_tile * Tile::columns + i / lines;
    const u64 at = column * in_row * Format::first_plane + first + i % lines * line;
    if (at < blocks.count * Format::first_plane) ::bring_near(blocks.data + at);
  }
}

// x has whole tiles of rows, shape.a_row apart.
template <class Tile, class Finish>
DEVICE void multiply_strips(const GemmShape& shape, const Blocks& blocks, const f16* x, Finish finish) {
  constexpr int pieces = chunk / 8, count = Tile::rows * pieces / Tile::threads;
  constexpr int buffers = CopyAhead<count>::buffers;
  constexpr u32 step = mma::strip_lanes;
  static_assert(Tile::rows * pieces % Tile::threads == 0, "as many for each thread");
  alignas(16) __shared__ f16 tiles[buffers][Tile::rows * Tile::stride];
  const u64 jobs = gemm::job_count(shape);
  for (u64 index = blockIdx.x; index < jobs; index += gridDim.x) {
    const gemm::Job job = gemm::job(shape, index);
    const u32 first_column = job.column_tile * Tile::columns, first_row = job.row_tile * Tile::rows;
    const u32 chunks = (u32)(shape.split_depth / chunk), first = job.split * chunks;
    const u32 all = (u32)(shape.a_row / chunk), end = first + chunks < all ? first + chunks : all;
    finish.start(job.product, job.split);

    // The thread's first piece of a tile, in memory and in shared memory; the next is a few rows below.
    constexpr u32 below = Tile::threads / pieces;
    const f16* from = x + (u64)(first_row + threadIdx.x / pieces) * shape.a_row + threadIdx.x % pieces * 8;
    const u32 to = threadIdx.x / pieces * Tile::stride + threadIdx.x % pieces * 8;
    CopyAhead<count> copy;
    const auto start = [&](f16* tile, u32 number) {
#pragma unroll
      for (int i = 0; i < count; ++i)
        copy.start(i, tile + to + i * below * Tile::stride, from + number * chunk + i * below * shape.a_row);
    };
    const auto put = [&](f16* tile) {
#pragma unroll
      for (int i = 0; i < count; ++i) copy.put(i, tile + to + i * below * Tile::stride);
    };

    Tile tile(blocks, shape, first_column);
    tile.fetch(first * chunk_pairs);
    start(tiles[0], first);
    put(tiles[0]);
    u32 current = 0;
#pragma unroll 1
    for (u32 number = first; number < end; ++number) {
      const u32 next = buffers == 1 ? 0 : current ^ 1;
      const bool more = number + 1 < end;
      copy.wait();
      barrier();
      if (more) start(tiles[next], number + 1);
#pragma unroll 1
      for (u32 pair = 0; pair < chunk_pairs; pair += step) {
        const typename Tile::Operands right = tile.operands();
        const u32 following = number * chunk_pairs + pair + step;
        if (following < end * chunk_pairs) tile.fetch(following);
        keep_order();
        tile.multiply(tiles[current] + pair * 16, right);
      }
      if constexpr (buffers == 1) barrier();
      if (more) put(tiles[next]);
      current = next;
    }
    tile.finish(shape, first_row, first_column, finish);
    barrier();  // before the tiles are filled again
  }
}

}  // namespace quantised
