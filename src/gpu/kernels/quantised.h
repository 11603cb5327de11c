// Quantised weights: dequantise, take, and products with few and with many rows.
#pragma once

#include "block_formats.h"
#include "gemm.h"
#include "indexing.h"

namespace quantised {

// ---- numbers ----

template <class Format, class T>
DEVICE void write_run(const Blocks& blocks, u64 run, T* out) {
  constexpr int runs = Format::elements / 16, length = sizeof(T) < 2 ? 16 : 16 / sizeof(T);
  const Run numbers = run_of<Format>(blocks, run / runs, (u32)(run % runs));
#pragma unroll
  for (int i = 0; i < 16; i += length) {
    Packet<T, length> packet;
#pragma unroll
    for (int e = 0; e < length; ++e) packet.element[e] = store<T>(number<Format>(numbers, i + e));
    *reinterpret_cast<Packet<T, length>*>(out + i) = packet;
  }
}

template <class Format, class T>
DEVICE void dequantise(const Blocks& blocks, T* out) {
  const u64 runs = blocks.count * (Format::elements / 16);
  for (u64 i = global_thread(); i < runs; i += global_threads()) write_run<Format>(blocks, i, out + i * 16);
}

// `runs` of a row; `rows` of the weights, `count` to be taken.
template <class Format, class T>
DEVICE void take(const Blocks& blocks, const i64* indices, const Nest<1>& places, u64 runs, i64 rows,
                 u64 count, T* out, const Fault& fault) {
  for (u64 i = global_thread(); i < count * runs; i += global_threads()) {
    const u64 row = checked(indices[places.at(i / runs).of[0]], rows, fault);
    if (row < (u64)rows)
      write_run<Format>(blocks, row * runs + i % runs, out + i * 16);
    else
      for (int e = 0; e < 16; ++e) out[i * 16 + e] = store<T>(0.0f);
  }
}

// ---- products with few rows ----

// x is rounded to bytes, 32 neighbours with one scale. It lies as pairs of runs are read: the first runs of
// all pairs, then the second ones. A pair has one Rounding if its runs are neighbours, else each run has.
struct Rounding {
  f32 scale;  // NaN where an element is not finite
  f32 sum;    // of the run's elements, or of the pair's
};
template <class Format>
constexpr bool one_rounding = Format::second_run == 1;

// x, anywhere in memory.
template <class T>
struct Operand {
  const T* data;
  i64 row_stride, k_stride;
  u32 rows, depth;
  DEVICE f32 at(u32 row, u32 k) const { return load(data[row * row_stride + k * k_stride]); }
};

// What is done to x before it is rounded: nothing, or a norm. The factor of a row need not be there for that.
struct AsItIs {
  DEVICE f32 weight(u32) const { return 1; }
  DEVICE f32 factor(u32) const { return 1; }
};
struct Normed {
  const f32 *weights, *factors;
  DEVICE f32 weight(u32 k) const { return weights[k]; }
  DEVICE f32 factor(u32 row) const { return factors[row]; }
};
// By which rows have a mean square of 1; by all threads of a block.
template <class T>
DEVICE void norm_factors(const Operand<T>& x, f32 epsilon, f32* factors) {
  for (u32 row = 0; row < x.rows; ++row) {
    f32 sum = 0;
#pragma unroll 4
    for (u32 k = threadIdx.x; k < x.depth; k += blockDim.x) {
      const f32 value = x.at(row, k);
      sum = ::fmaf(value, value, sum);
    }
    sum = block_reduce(sum, 0.0f, [](f32 a, f32 b) { return a + b; });
    if (threadIdx.x == 0) factors[row] = 1 / ::sqrtf(sum / (f32)x.depth + epsilon);
  }
  barrier();
}

// Rows of x, rounded by all threads from number `thread` on.
template <class Format, class T, class Prepare>
DEVICE void round_rows(const Operand<T>& x, const Prepare& prepare, u8* q, Rounding* roundings, u32 thread,
                       u32 threads) {
  const u32 depth = x.depth, quads = x.rows * depth / 4;
  for (u32 first = thread - lane(); first < quads; first += threads) {  // whole waves: lanes ask each other
    const u32 i = first + lane();
    const bool there = i < quads;
    const u32 at = there ? i * 4 : 0, row = at / depth, k = at % depth;
    f32 value[4];
    u32 most = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      value[e] = x.at(row, k + e) * prepare.weight(k + e);
      const u32 magnitude = bit_cast<u32>(value[e]) & 0x7fffffffu;  // NaN above infinity above numbers
      most = magnitude > most ? magnitude : most;
    }
#pragma unroll
    for (int mask = 1; mask < 8; mask *= 2) {
      const u32 other = from_lane_xor(most, mask);
      most = other > most ? other : most;
    }
    const bool finite = most < 0x7f800000u;
    const f32 largest = bit_cast<f32>(most), by = finite && largest >= 1e-30f ? 127.0f / largest : 0.0f;
    u32 bytes = 0;
    i32 sum = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const i32 rounded = finite ? (i32)rintf(value[e] * by) : 0;
      bytes |= ((u32)rounded & 255) << 8 * e;
      sum += rounded;
    }
    sum += from_lane_xor(sum, 1);
    sum += from_lane_xor(sum, 2);
    if constexpr (one_rounding<Format>) sum += from_lane_xor(sum, 4);
    if (!there) continue;
    const RunPlace place = place_of<Format>(k / 16);
    *reinterpret_cast<u32*>(q + row * depth + place.half * (depth / 2) + place.pair * 16 + k % 16) = bytes;
    const f32 scale = prepare.factor(row) * (finite ? largest / 127.0f : bit_cast<f32>(0x7fc00000u));
    const Rounding rounding{scale, scale * (f32)sum};
    if constexpr (one_rounding<Format>) {
      if (k % 32 == 0) roundings[row * (depth / 32) + place.pair] = rounding;
    } else {
      if (k % 16 == 0) roundings[(row * 2 + place.half) * (depth / 32) + place.pair] = rounding;
    }
  }
}

template <int N>
struct Sums {
  f32 of[N];
};

// A wave's work on few rows: COLUMNS neighbours at a time, each lane every so many pairs of runs, AHEAD of
// them under way while those before are multiplied. With HALVES a column of the left half of the weights and
// the one of the right half that belongs to it, in place of two neighbours.
template <class Format, int ROWS, int COLUMNS, bool HALVES, int AHEAD, int THREADS>
struct FewRows {
  static_assert(!HALVES || COLUMNS == 2, "one of each half");
  static constexpr u32 side = HALVES ? 1 : COLUMNS;  // results of a row, side by side
  static constexpr u32 ahead = AHEAD;
  static constexpr u32 pairs_in_block = Format::elements / 32;
  using Pair = typename Format::Pair;
  using Total = Sums<ROWS * COLUMNS>;
  struct Held {
    Pair pair[AHEAD][COLUMNS];
  };

  const Blocks& blocks;
  u32 rows, columns, depth;  // columns: of the result
  u32 parts;                 // waves that share the pairs of the same columns
  u32 in_row, step, first_pair;

  DEVICE FewRows(const Blocks& from, u32 row_count, u32 column_count, u32 size, u32 shares)
      : blocks(from), rows(row_count), columns(column_count), depth(size), parts(shares) {
    in_row = depth / 32;
    step = parts * WAVE;
    first_pair = wave() % parts * WAVE + lane();
  }
  // Columns that a block has at a time, and all blocks.
  DEVICE u32 in_block() const { return THREADS / WAVE / parts * side; }
  DEVICE u32 first_column() const { return blockIdx.x * in_block() + wave() / parts * side; }
  DEVICE u32 stride() const { return gridDim.x * in_block(); }

  // Of the block's first columns, a line of the cache by each thread: as much as arrives while it waits.
  DEVICE void bring_near() const {
    constexpr u32 line = 128;
    constexpr u32 threads = HALVES ? THREADS / 2 : THREADS;  // for each half
    const u64 row = (u64)(depth / Format::elements) * Format::first_plane;
    const u64 at = (u64)blockIdx.x * in_block() * row + threadIdx.x % threads * line;
    if (at < columns * row) ::bring_near(blocks.data + threadIdx.x / threads * columns * row + at);
  }

  DEVICE void fetch(Held& held, u32 column, u32 pair) const {
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) {
      const u32 p = pair + a * step < in_row ? pair + a * step : in_row - 1;
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) {
        const u32 wanted = HALVES ? column : column + c;
        const u32 inside = (wanted < columns ? wanted : columns - 1) + (HALVES ? c * columns : 0);
        held.pair[a][c] = Format::pair(blocks, (u64)inside * (depth / Format::elements) + p / pairs_in_block,
                                       p % pairs_in_block);
      }
    }
  }

  // x as round_rows() left it.
  DEVICE void multiply(Total& sums, const Held& held, u32 pair, const u8* q,
                       const Rounding* roundings) const {
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) {
      const u32 p = pair + a * step;
      if (p >= in_row) break;
      Scales scales[COLUMNS][2];
      RunWords words[COLUMNS][2];
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          words[c][half] = Format::words(held.pair[a][c], half);
          scales[c][half] = Format::scales(held.pair[a][c], half);
        }
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        const u32 row = (u32)r < rows ? r : 0;
        Packet<u32, 4> x[2];
        Rounding rounding[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          x[half] = packet(q + row * depth + half * (depth / 2) + p * 16);
          rounding[half] =
              one_rounding<Format> ? roundings[row * in_row + p] : roundings[(row * 2 + half) * in_row + p];
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
          f32& sum = sums.of[r * COLUMNS + c];
          i32 dot = 0;
#pragma unroll
          for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int i = 0; i < 4; ++i) dot = dot4((i32)words[c][half].q[i], (i32)x[half].element[i], dot);
            if (one_rounding<Format> && half == 0) continue;
            sum = fmaf(scales[c][half].scale * rounding[half].scale, (f32)dot, sum);
            if constexpr (Format::has_offset) sum = fmaf(-scales[c][half].offset, rounding[half].sum, sum);
            dot = 0;
          }
        }
      }
    }
  }

  template <class Finish>
  DEVICE void finish(Total& sums, u32 column, Finish& store) const {
    __shared__ Total partial[THREADS / WAVE];
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS; ++i)
      sums.of[i] = wave_reduce(sums.of[i], [](f32 a, f32 b) { return a + b; });
    if (parts > 1) {
      if (lane() == 0) partial[wave()] = sums;
      barrier();
      if (wave() % parts == 0)
        for (u32 other = 1; other < parts; ++other)
#pragma unroll
          for (int i = 0; i < ROWS * COLUMNS; ++i) sums.of[i] += partial[wave() + other].of[i];
      barrier();
    }
    if (wave() % parts != 0) return;
    // All lanes have all sums: each finishes one result.
    static_assert(ROWS * COLUMNS <= WAVE, "a lane for each");
    const u32 row = lane() / side, at = column + lane() % side;
    f32 own[HALVES ? 2 : 1];
#pragma unroll
    for (int half = 0; half < (HALVES ? 2 : 1); ++half) {
      own[half] = sums.of[half];
#pragma unroll
      for (int i = 1; i < ROWS * (int)side; ++i)
        own[half] = lane() == i ? sums.of[HALVES ? i * 2 + half : i] : own[half];
    }
    if (row >= ROWS || row >= rows || at >= columns) return;
    if constexpr (HALVES)
      store((i64)row, (i64)at, gemm::Pair<f32, 1>{{{own[0]}}, {{own[1]}}});
    else
      store((i64)row, (i64)at, Packet<f32, 1>{{own[0]}});
  }
};

// `finish` gets the result of each row and column (rows from `rows` on count for nothing). The first weights
// are under way when `round` is called, after which x lies in q and roundings. All waves of a block have as
// many columns: they may have to wait for each other.
template <class Work, class Round, class Finish>
DEVICE void multiply_few(const Work& work, const u8* q, const Rounding* roundings, Finish finish,
                         Round round) {
  typename Work::Held held;
  u32 column = work.first_column(), pair = work.first_pair;
  finish.start(0, 0);
  work.fetch(held, column, pair);
  round();
  const u32 turn = work.step * Work::ahead;
  typename Work::Total sums = {};
  for (u32 base = blockIdx.x * work.in_block(); base < work.columns;) {
    const bool last = pair + turn >= work.in_row;
    const u32 next_column = last ? column + work.stride() : column;
    const u32 next_pair = last ? work.first_pair : pair + turn;
    typename Work::Held next;
    work.fetch(next, next_column, next_pair);
    work.multiply(sums, held, pair, q, roundings);
    if (last) {
      work.finish(sums, column, finish);
      sums = {};
      base += work.stride();
    }
    held = next;
    column = next_column;
    pair = next_pair;
  }
}

// ---- products with many rows ----

// Rows of x as f16, each multiplied with a power of two that keeps it in range; a block per row. Results are
// filled up with zeros to `to_rows` rows of `to_depth` elements, and `place` says where in a row element k
// lies.
template <class T, class Place>
DEVICE void halve_rows(const T* x, i64 row_stride, i64 k_stride, u32 rows, u32 depth, f16* out, u32 to_rows,
                       u32 to_depth, f32* scales, Place place) {
  for (u32 row = blockIdx.x; row < to_rows; row += gridDim.x) {
    const u32 length = row < rows ? depth : 0;
    u32 most = 0;
#pragma unroll 4
    for (u32 k = threadIdx.x; k < length; k += blockDim.x) {
      const u32 magnitude = bit_cast<u32>((f32)load(x[row * row_stride + k * k_stride])) & 0x7fffffffu;
      most = magnitude > most ? magnitude : most;
    }
    most = block_reduce(most, 0u, [](u32 a, u32 b) { return a > b ? a : b; });
    // The largest element lands in [2^8, 2^9): sums of products stay far from both ends of f16's numbers.
    const bool finite = most < 0x7f800000u;
    i32 exponent = (i32)(most >> 23) - 127 - 8;
    exponent = exponent < -100 ? -100 : exponent;
    const f32 by = bit_cast<f32>((u32)(127 - exponent) << 23);
    if (threadIdx.x == 0 && row < rows)
      scales[row] = finite ? bit_cast<f32>((u32)(127 + exponent) << 23) : bit_cast<f32>(0x7fc00000u);
#pragma unroll 4
    for (u32 k = threadIdx.x; k < to_depth; k += blockDim.x) {
      const f32 value = k < length && finite ? load(x[row * row_stride + k * k_stride]) * by : 0.0f;
      out[(u64)row * to_depth + place(k)] = to_f16(value);
    }
  }
}

// Weights as the right operand of gemm.h, fetched a run at a time.
template <class Format>
struct Weights {
  using Element = f16;
  static constexpr bool plain = false;
  Blocks blocks;
  i64 rows, depth, blocks_in_row;

  struct Row {
    u64 block;
    bool there;
  };
  DEVICE Row row(i64 index) const { return {(u64)(index * blocks_in_row), index < rows}; }
  template <int N>
  DEVICE Words<f16, N> along_k(const Row& row, i64 k) const {
    static_assert(N == 16, "a run");
    if (!row.there || k >= depth) return {};
    const u32 at = (u32)k;
    const Run run = run_of<Format>(blocks, row.block + at / Format::elements, at % Format::elements / 16);
    return bit_cast<Words<f16, N>>(halves_of<Format>(run.words, run.scales));
  }
};

// Sums of rows that halve_rows() scaled, as they would be without.
template <class Finish>
struct Scaled {
  Finish finish;
  const f32* scales;
  DEVICE void start(u64 product, u32 split) { finish.start(product, split); }
  template <int N>
  DEVICE void operator()(i64 row, i64 column, const Packet<f32, N>& run) const {
    Packet<f32, N> values;
#pragma unroll
    for (int i = 0; i < N; ++i) values.element[i] = run.element[i] * scales[row];
    finish(row, column, values);
  }
};

}  // namespace quantised
