// Quantised weights: dequantise, take, and products with few and with many rows.
#pragma once

#include "block_formats.h"
#include "gemm.h"
#include "indexing.h"
#include "rounded_rows.h"

namespace quantised {

// ---- numbers ----

template <class Format, class T>
DEVICE void write_numbers(const Run& run, T* out) {
  constexpr int length = sizeof(T) < 2 ? 16 : 16 / sizeof(T);
#pragma unroll
  for (int i = 0; i < 16; i += length) {
    Packet<T, length> packet;
#pragma unroll
    for (int e = 0; e < length; ++e) packet.element[e] = store<T>(number<Format>(run, i + e));
    *reinterpret_cast<Packet<T, length>*>(out + i) = packet;
  }
}
template <class Format, class T>
DEVICE void write_run(const Blocks& blocks, u64 run, T* out) {
  constexpr int runs = Format::elements / 16;
  write_numbers<Format>(run_of<Format>(blocks, run / runs, (u32)(run % runs)), out);
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
struct alignas(8) Rounding {
  f32 scale;  // NaN where an element is not finite
  f32 sum;    // of the run's elements, or of the pair's
};
template <class Format>
constexpr bool one_rounding = Format::second_run == 1;

// x, anywhere in memory. WHOLE: four neighbours are read as one.
template <class T, bool WHOLE>
struct Operand {
  const T* data;
  i64 row_stride, k_stride;
  u32 rows, depth;
  DEVICE Packet<f32, 4> quad(u32 row, u32 k) const {
    Packet<f32, 4> numbers;
    const T* const at = data + row * row_stride + k * (WHOLE ? 1 : k_stride);
    if constexpr (WHOLE) {
      const auto packet = read_whole(*reinterpret_cast<const Packet<T, 4>*>(at));
#pragma unroll
      for (int e = 0; e < 4; ++e) numbers.element[e] = load(packet.element[e]);
    } else {
#pragma unroll
      for (int e = 0; e < 4; ++e) numbers.element[e] = load(at[e * k_stride]);
    }
    return numbers;
  }
};

// What is done to x before it is multiplied: nothing, or a norm. The results are multiplied with the factor
// of their row instead of x, so that nobody waits for it in between.
struct AsItIs {
  static constexpr int ahead = 4;  // quads of a thread that are on their way at a time
  DEVICE Packet<f32, 4> weights(u32) const { return {{1, 1, 1, 1}}; }
  DEVICE void note(u32, f32) const {}
  DEVICE void publish() const {}
  DEVICE f32 factor(u32) const { return 1; }
};
// By which rows have a mean square of 1.
template <int ROWS, int THREADS, bool WHOLE>
struct Normed {
  static constexpr int ahead = 2;
  const f32* weight;
  f32 epsilon;
  u32 depth;
  f32* partial;  // shared, [ROWS][THREADS / WAVE]
  f32 squares[ROWS] = {};

  DEVICE Packet<f32, 4> weights(u32 k) const {
    return Operand<f32, WHOLE>{weight, 0, 1, 1, depth}.quad(0, k);
  }
  DEVICE void note(u32 row, f32 sum_of_squares) {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) squares[r] += ROWS == 1 || row == (u32)r ? sum_of_squares : 0.0f;
  }
  // By all threads; before a barrier.
  DEVICE void publish() const {
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
      const f32 sum = wave_reduce(squares[r], [](f32 a, f32 b) { return a + b; });
      if (lane() == 0) partial[r * (THREADS / WAVE) + wave()] = sum;
    }
  }
  DEVICE f32 factor(u32 row) const {
    constexpr u32 waves = THREADS / WAVE;
    f32 sum = 0;
    if constexpr (ROWS == 1)
      sum = wave_reduce(lane() < waves ? partial[lane()] : 0.0f, [](f32 a, f32 b) { return a + b; });
    else
#pragma unroll 4
      for (u32 w = 0; w < waves; ++w) sum += partial[(row < ROWS ? row : ROWS - 1) * waves + w];
    return fast_reciprocal_root(sum * fast_reciprocal((f32)depth) + epsilon);
  }
};

// Calls take(row, k, four prepared numbers, there) for all of x; threads from number `thread` on share it.
// All lanes of a wave take part, `there` says whether in earnest.
//
// What is on its way moves through registers, so that the work on it is a loop's, and once in the kernel: on
// an H200 versions of these kernels with more instructions were slower.
template <class T, bool WHOLE, class Prepare, class Take>
DEVICE void prepare_rows(const Operand<T, WHOLE>& x, Prepare& prepare, u32 thread, u32 threads, Take take) {
  constexpr int ahead = Prepare::ahead;
  const u32 quads = x.rows * x.depth / 4;
  struct Quad {
    Packet<f32, 4> numbers, weights;
  };
  struct Place {
    u32 row, k;
  };
  const auto place_of = [&](u32 base) {
    const u32 at = base + thread < quads ? (base + thread) * 4 : 0, row = x.rows == 1 ? 0 : at / x.depth;
    return Place{row, at - row * x.depth};
  };
  const auto read = [&](Quad& quad, u32 base) {
    const Place place = place_of(base);
    quad = {x.quad(place.row, place.k), prepare.weights(place.k)};
  };
  Quad next[ahead];
#pragma unroll
  for (int i = 0; i < ahead; ++i)
    if (i * threads < quads) read(next[i], i * threads);
#pragma unroll 1
  for (u32 base = 0; base < quads; base += threads) {
    Quad quad = next[0];
#pragma unroll
    for (int i = 1; i < ahead; ++i) next[i - 1] = next[i];
    if (base + ahead * threads < quads) read(next[ahead - 1], base + ahead * threads);
    f32 squares = 0;
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      f32& number = quad.numbers.element[e];
      squares = ::fmaf(number, number, squares);
      number *= quad.weights.element[e];
    }
    const Place place = place_of(base);
    const bool there = base + thread < quads;
    if (there) prepare.note(place.row, squares);
    take(place.row, place.k, quad.numbers, there);
  }
  prepare.publish();
}

// Rows of x, rounded by all threads from number `thread` on.
template <class Format, class T, bool WHOLE, class Prepare>
DEVICE void round_rows(const Operand<T, WHOLE>& x, Prepare& prepare, u8* q, Rounding* roundings, u32 thread,
                       u32 threads) {
  const u32 depth = x.depth;
  prepare_rows(x, prepare, thread, threads, [&](u32 row, u32 k, const Packet<f32, 4>& value, bool there) {
    const rounded::Quad quad = rounded::round_quad<8>(value);
    i32 sum = quad.sum;
    sum += from_lane_xor(sum, 1);
    sum += from_lane_xor(sum, 2);
    if constexpr (one_rounding<Format>) sum += from_lane_xor(sum, 4);
    if (!there) return;
    const RunPlace place = place_of<Format>(k / 16);
    *reinterpret_cast<u32*>(q + row * depth + place.half * (depth / 2) + place.pair * 16 + k % 16) =
        quad.bytes;
    const Rounding rounding{quad.scale, quad.scale * (f32)sum};
    if constexpr (one_rounding<Format>) {
      if (k % 32 == 0) roundings[row * (depth / 32) + place.pair] = rounding;
    } else {
      if (k % 16 == 0) roundings[(row * 2 + place.half) * (depth / 32) + place.pair] = rounding;
    }
  });
}

template <int N>
struct Sums {
  f32 of[N];
};

// Which rows of the weights a wave has at a time for the results from `column` on: the first one's row, and
// how far apart they are. PAIRED: they give one result.
template <int COUNT>
struct Neighbours {
  static constexpr int count = COUNT;
  static constexpr bool paired = false;
  DEVICE static u32 row(u32 column) { return column; }
  DEVICE static u32 apart(u32) { return 1; }
};
// One of the left half of the weights and the one of the right half that belongs to it.
struct LeftAndRight {
  static constexpr int count = 2;
  static constexpr bool paired = true;
  DEVICE static u32 row(u32 column) { return column; }
  DEVICE static u32 apart(u32 columns) { return columns; }
};
// Those that a rope turns into each other, in heads of 2 HALF: side by side, or in different halves of a
// head.
template <int HALF, bool INTERLEAVED>
struct Turned {
  static constexpr int count = 2;
  static constexpr bool paired = true;
  DEVICE static u32 row(u32 column) {
    return INTERLEAVED ? 2 * column : column / HALF * (2 * HALF) + column % HALF;
  }
  DEVICE static u32 apart(u32) { return INTERLEAVED ? 1 : HALF; }
};

// What a wave has at a time. Several waves may share it, each with a part of K. TOGETHER: results of a row
// that a block has whole, if those of a wave are fewer.
template <int ROWS, class Pairing, int THREADS, u32 TOGETHER = 1>
struct WaveColumns {
  static constexpr int count = Pairing::count;              // rows of the weights
  static constexpr u32 side = Pairing::paired ? 1 : count;  // results of a row, side by side
  static constexpr u32 together = TOGETHER > side ? TOGETHER : side;
  using Total = Sums<ROWS * count>;

  u32 rows, columns, depth;  // columns: of the result
  u32 parts;                 // waves that share columns
  u32 part;                  // which of them this wave is
  u32 begin, end;            // of the block's columns: neighbours, and as many as other blocks have
  u32 first, stride;         // of the wave's

  DEVICE WaveColumns(u32 row_count, u32 column_count, u32 size, u32 shares)
      : rows(row_count), columns(column_count), depth(size), parts(shares) {
    part = wave() % parts;
    const u32 blocks = TOGETHER > 1 && jobs() < gridDim.x ? jobs() : gridDim.x;
    const u32 block = spare() ? blockIdx.x - blocks : blockIdx.x;
    const u32 each = jobs() / blocks, more = jobs() % blocks;  // the first ones have one more
    begin = (each * block + (block < more ? block : more)) * together;
    end = begin + (each + (block < more ? 1 : 0)) * together;
    first = begin + wave() / parts * side;
    stride = THREADS / WAVE / parts * side;
  }

  DEVICE u32 jobs() const { return (columns + together - 1) / together; }
  // More blocks than there are runs: the last ones compute what others do, and store nothing. They are there
  // so that each compute unit has one for as long as the others have.
  DEVICE bool spare() const { return TOGETHER > 1 && blockIdx.x >= jobs(); }

  // Which row of the weights has number `c` of the columns from `column` on, or the last one.
  DEVICE u32 weight_row(u32 column, int c) const {
    if (Pairing::paired && column >= columns) column = columns - 1;
    const u32 row = Pairing::row(column) + c * Pairing::apart(columns);
    return Pairing::paired || row < columns ? row : columns - 1;
  }

  // `factor`: of row lane() / side.
  template <class Finish>
  DEVICE void finish(Total& sums, u32 column, f32 factor, const Finish& store) const {
    __shared__ Total partial[THREADS / WAVE];
#pragma unroll
    for (int i = 0; i < ROWS * count; ++i)
      sums.of[i] = wave_reduce(sums.of[i], [](f32 a, f32 b) { return a + b; });
    if (parts > 1) {
      if (lane() == 0) partial[wave()] = sums;
      barrier();
      if (part == 0)
#pragma unroll 1
        for (u32 other = 1; other < parts; ++other)
#pragma unroll
          for (int i = 0; i < ROWS * count; ++i) sums.of[i] += partial[wave() + other].of[i];
      barrier();
    }
    if (part != 0) return;
    // All lanes have all sums: each finishes one result.
    static_assert(ROWS * count <= WAVE, "a lane for each");
    const u32 row = lane() / side, at = column + lane() % side;
    constexpr int results = Pairing::paired ? 2 : 1;  // sums of a result
    f32 own[results];
#pragma unroll
    for (int half = 0; half < results; ++half) {
      own[half] = sums.of[half];
#pragma unroll
      for (int i = 1; i < ROWS * (int)side; ++i)
        own[half] = lane() == i ? sums.of[Pairing::paired ? i * 2 + half : i] : own[half];
      own[half] *= factor;
    }
    if (row >= ROWS || row >= rows || at >= columns || column >= end || spare()) return;
    if constexpr (Pairing::paired)
      store((i64)row, (i64)at, gemm::Pair<f32, 1>{{{own[0]}}, {{own[1]}}});
    else
      store((i64)row, (i64)at, Packet<f32, 1>{{own[0]}});
  }
};

// Where the rows of the weights begin.
struct FromTheFirst {
  DEVICE static u64 row(u32 row) { return row; }
};
struct FromRow {
  u64 first;
  DEVICE u64 row(u32 row) const { return first + row; }
};

// Weights in blocks and x in bytes: each lane has every so many pairs of runs, AHEAD of them under way while
// those before are multiplied.
template <class Format, int ROWS, class Pairing, int AHEAD, int THREADS, class From = FromTheFirst>
struct FewRows : WaveColumns<ROWS, Pairing, THREADS> {
  using Base = WaveColumns<ROWS, Pairing, THREADS>;
  using Base::columns, Base::count, Base::depth, Base::parts, Base::rows;
  using typename Base::Total;
  static constexpr u32 ahead = AHEAD;
  static constexpr u32 pairs_in_block = Format::elements / 32;
  using Pair = typename Format::Pair;
  struct Held {
    Pair pair[AHEAD][count];
  };

  const Blocks& blocks;
  u32 in_row, step, first_pair;
  const u8* q;  // x as round_rows() leaves it
  const Rounding* roundings;
  From weights_from;

  DEVICE FewRows(const Blocks& from, const u8* bytes, const Rounding* scales, u32 row_count, u32 column_count,
                 u32 size, u32 shares, From first = {})
      : Base(row_count, column_count, size, shares),
        blocks(from),
        q(bytes),
        roundings(scales),
        weights_from(first) {
    in_row = depth / 32;
    step = parts * WAVE;
    first_pair = this->part * WAVE + lane();
  }

  // Of the wave's first columns, a line of the cache by each lane: as much as arrives while it waits.
  DEVICE void bring_near() const {
    constexpr u32 line = 128;
    const u64 row = (u64)(depth / Format::elements) * Format::first_plane;
    const u64 at = (u64)first_pair % (WAVE * parts / count) * line;
    const u32 c = first_pair / (WAVE * parts / count);
    if (this->first < this->end && at < row)
      ::bring_near(blocks.data + weights_from.row(this->weight_row(this->first, (int)c)) * row + at);
  }

  DEVICE void fetch(Held& held, u32 column, u32 pair) const {
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) {
      const u32 p = pair + a * step < in_row ? pair + a * step : in_row - 1;
#pragma unroll
      for (int c = 0; c < count; ++c)
        held.pair[a][c] = Format::pair(
            blocks,
            weights_from.row(this->weight_row(column, c)) * (depth / Format::elements) + p / pairs_in_block,
            p % pairs_in_block);
    }
  }

  DEVICE void multiply(Total& sums, const Held& held, u32 pair) const {
#pragma unroll
    for (int a = 0; a < AHEAD; ++a) {
      const u32 p = pair + a * step;
      if (p >= in_row) break;
      Scales scales[count][2];
      RunWords words[count][2];
#pragma unroll
      for (int c = 0; c < count; ++c)
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
        for (int c = 0; c < count; ++c) {
          f32& sum = sums.of[r * count + c];
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
};

// `finish` gets the result of each row and column (rows from `rows` on count for nothing). The first weights
// are under way when `round` is called, after which x is there and its factors are. All waves of a block have
// as many columns: they may have to wait for each other.
template <class Work, class Prepare, class Round, class Finish>
DEVICE void multiply_few(const Work& work, const Prepare& prepare, Finish finish, Round round) {
  typename Work::Held held;
  u32 column = work.first, pair = work.first_pair;
  finish.start(0, 0);
  work.fetch(held, column, pair);
  round();
  const f32 factor = prepare.factor(lane() / Work::side);
  const u32 turn = work.step * Work::ahead;
  typename Work::Total sums = {};
  for (u32 base = work.begin; base < work.end;) {
    const bool last = pair - lane() + turn >= work.in_row;  // for all lanes, which finish together
    const u32 next_column = last ? column + work.stride : column;
    const u32 next_pair = last ? work.first_pair : pair + turn;
    typename Work::Held next;
    work.fetch(next, next_column, next_pair);
    work.multiply(sums, held, pair);
    if (last) {
      work.finish(sums, column, factor, finish);
      sums = {};
      base += work.stride;
    }
    held = next;
    column = next_column;
    pair = next_pair;
  }
}

// ---- products with many rows ----

// Where element k of a row lies.
struct InOrder {
  static constexpr int apart = 1;
  DEVICE u32 operator()(u32 k) const { return k; }
};

// What rows go through on their way to f16: nothing, or a norm by which they have a mean square of 1.
struct NoNorm {
  static constexpr bool norms = false;
};
struct RowNorm {
  static constexpr bool norms = true;
  const f32* weight;
  f32 epsilon;
};

// Rows of x as f16, each multiplied with a power of two that keeps it in range; a block per row. Results are
// filled up with zeros to `to_rows` rows of `to_depth` elements, and `place` says where in a row element k
// lies. Of four neighbours two and two lie side by side: the first and the one `Place::apart` behind it, and
// the others. Sizes are multiples of four.
template <class T, class Norm, class Place>
DEVICE void halve_rows(const T* x, i64 row_stride, i64 k_stride, u32 rows, u32 depth, const Norm& norm,
                       f16* out, u32 to_rows, u32 to_depth, f32* scales, Place place) {
  constexpr int held = 4;  // quads that a thread has in registers; what comes behind them is read twice
  using Quad = Packet<f32, 4>;
  struct Noted {
    u32 most;     // magnitude
    f32 squares;  // their sum
  };
  for (u32 row = blockIdx.x; row < to_rows; row += gridDim.x) {
    const u32 length = row < rows ? depth : 0;
    const auto quad_at = [&](u32 k) {
      const Packet<T, 4> stored = gemm::load_run<4>(x + row * row_stride, k_stride, k);
      Quad quad;
#pragma unroll
      for (int e = 0; e < 4; ++e) quad.element[e] = (f32)load(stored.element[e]);
      return quad;
    };
    Noted noted{0, 0};
    // From x to what is stored, but for the factors of the row.
    const auto weighted = [&](u32 k, Quad quad) {
      if constexpr (Norm::norms) {
        const Quad weights = gemm::load_run<4>(norm.weight, 1, k);
#pragma unroll
        for (int e = 0; e < 4; ++e) quad.element[e] *= weights.element[e];
      }
      return quad;
    };
    const auto note = [&](const Quad& quad, const Quad& result) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const u32 magnitude = bit_cast<u32>(result.element[e]) & 0x7fffffffu;
        noted.most = magnitude > noted.most ? magnitude : noted.most;
        if constexpr (Norm::norms) noted.squares += quad.element[e] * quad.element[e];
      }
    };
    const u32 first = threadIdx.x * 4, step = blockDim.x * 4;
    Quad quads[held] = {};
#pragma unroll
    for (int i = 0; i < held; ++i)
      if (first + i * step < length) quads[i] = quad_at(first + i * step);
#pragma unroll
    for (int i = 0; i < held; ++i)
      if (const u32 k = first + i * step; k < length) {
        const Quad result = weighted(k, quads[i]);
        note(quads[i], result);
        quads[i] = result;
      }
    for (u32 k = first + held * step; k < length; k += step) {
      const Quad quad = quad_at(k);
      note(quad, weighted(k, quad));
    }
    u32 most = block_reduce(noted.most, 0u, [](u32 a, u32 b) { return a > b ? a : b; });
    f32 factor = 1;
    if constexpr (Norm::norms) {
      const f32 squares = block_reduce(noted.squares, 0.0f, [](f32 a, f32 b) { return a + b; });
      factor = fast_reciprocal_root(squares * fast_reciprocal((f32)depth) + norm.epsilon);
      if (most < 0x7f800000u) most = bit_cast<u32>(bit_cast<f32>(most) * factor);
    }
    // The largest element lands in [2^8, 2^9): sums of products stay far from both ends of f16's numbers.
    const bool finite = most < 0x7f800000u;
    i32 exponent = (i32)(most >> 23) - 127 - 8;
    exponent = exponent < -100 ? -100 : exponent;
    const f32 by = bit_cast<f32>((u32)(127 - exponent) << 23);
    if (threadIdx.x == 0 && row < rows)
      scales[row] = finite ? bit_cast<f32>((u32)(127 + exponent) << 23) : bit_cast<f32>(0x7fc00000u);
    const auto put = [&](u32 k, const Quad& quad) {
      const bool there = k < length && finite;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int e = i * (3 - Place::apart);
        const f32 a = there ? quad.element[e] * factor * by : 0.0f;
        const f32 b = there ? quad.element[e + Place::apart] * factor * by : 0.0f;
        *reinterpret_cast<u32*>(out + (u64)row * to_depth + place(k + e)) = f16_pair(a, b);
      }
    };
#pragma unroll
    for (int i = 0; i < held; ++i)
      if (first + i * step < to_depth) put(first + i * step, quads[i]);
    for (u32 k = first + held * step; k < to_depth; k += step)
      put(k, k < length ? weighted(k, quad_at(k)) : Quad{});
  }
}

// Weights as the right operand of gemm.h, fetched a run at a time.
template <class Format>
struct Weights {
  using Element = f16;
  static constexpr bool plain = false;
  Blocks blocks;
  i64 rows, depth, blocks_in_row;
  i64 first = 0;  // row of the blocks

  struct Row {
    u64 block;
    bool there;
  };
  DEVICE Row row(i64 index) const { return {(u64)((first + index) * blocks_in_row), index < rows}; }
  template <int N>
  DEVICE Words<f16, N> along_k(const Row& row, i64 k) const {
    static_assert(N == 16, "a run");
    if (!row.there || k >= depth) return {};
    const u32 at = (u32)k;
    const Run run = run_of<Format>(blocks, row.block + at / Format::elements, at % Format::elements / 16);
    return bit_cast<Words<f16, N>>(halves_of<Format>(run.words, half_scales_of<Format>(run.scales)));
  }
};

// Sums of rows that halve_rows() scaled, as they would be without.
template <class Finish>
struct Scaled {
  static constexpr int run_bytes = Finish::run_bytes;
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
