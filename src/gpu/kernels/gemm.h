// Matrix products by tiles: out(row, column) = sum over k of a(row, k) * b(column, k).
//
// A block computes one tile of the result. Along K it goes in steps: while the tiles of one step are
// multiplied from shared memory, those of the next are on their way into registers. What varies is a type:
//   source  where elements come from (Matrix here, gathered ones in conv.h)
//   Stage   how a block's threads share the fetching of a tile
//   Tile    how a step is multiplied (FmaTile by each thread's multiply-adds, MmaTile by the matrix unit)
//   finish  what happens to each element of the result
// Both operands are seen the same way, as rows along K: a column of the result is a row of b.
#pragma once

#include "gemm_arguments.h"
#include "gpu.h"
#include "mma.h"

namespace gemm {

DEVICE f32 multiply_add(f32 a, f32 b, f32 c) { return ::fmaf(a, b, c); }
DEVICE f64 multiply_add(f64 a, f64 b, f64 c) { return ::fma(a, b, c); }
DEVICE i32 multiply_add(i32 a, i32 b, i32 c) { return (i32)((u32)a * (u32)b + (u32)c); }
DEVICE i64 multiply_add(i64 a, i64 b, i64 c) { return (i64)((u64)a * (u64)b + (u64)c); }
template <class T>
DEVICE T add(T a, T b) {
  if constexpr (T(1) / T(2) != T(0))
    return a + b;
  else
    return multiply_add(a, T(1), b);  // wraps around
}

// Dividing 64-bit numbers takes hundreds of cycles; most are small.
DEVICE u64 quotient(u64 a, u64 b) {
  if (a < b) return 0;
  return (a | b) >> 32 == 0 ? (u32)a / (u32)b : a / b;
}

DEVICE i64 stack_offset(const GemmStack& stack, const GemmStackStrides& strides, u64 product) {
  constexpr int at_once = arguments_have_addresses ? 1 : gemm_axes;
  i64 offset = 0;
#pragma unroll at_once
  for (int axis = gemm_axes - 1; axis >= 0; --axis) {
    if (axis >= stack.axes || product == 0) continue;
    const u64 size = (u64)stack.size[axis], rest = quotient(product, size);
    offset += (i64)(product - rest * size) * strides.stride[axis];
    product = rest;
  }
  return offset;
}

// Elements anywhere in memory, zero beyond the depth. Rows beyond the last repeat it: their results are
// nobody's. A packet runs along the axis of step 1 and is aligned.
template <class T>
struct Matrix {
  using Element = T;
  static constexpr bool plain = true;  // a packet is read as it lies
  const T* data;
  i64 row_stride, k_stride, rows, depth;

  using Row = const T*;
  DEVICE Row row(i64 index) const { return data + (index < rows ? index : rows - 1) * row_stride; }
  DEVICE T at(Row row, i64 k) const { return k < depth ? row[k * k_stride] : T{}; }
  // Packets lie along an axis whose elements are side by side: its stride is 1.
  template <int N>
  DEVICE Words<T, N> along_k(Row row, i64 k) const {
    const T* from = row + k;
    if (k + N <= depth) return *reinterpret_cast<const Words<T, N>*>(from);
    Packet<T, N> packet;
#pragma unroll
    for (int i = 0; i < N; ++i) packet.element[i] = k + i < depth ? from[i] : T{};
    return bit_cast<Words<T, N>>(packet);
  }
  template <int N>
  DEVICE Words<T, N> along_row(i64 index, i64 k) const {
    const T* from = data + index + k * k_stride;
    if (index + N <= rows && k < depth) return *reinterpret_cast<const Words<T, N>*>(from);
    Packet<T, N> packet;
#pragma unroll
    for (int i = 0; i < N; ++i) packet.element[i] = index + i < rows && k < depth ? from[i] : T{};
    return bit_cast<Words<T, N>>(packet);
  }
};

// A matrix whose rows are two halves that belong together, along K. Of every WIDTH rows that are asked for
// the first ones are of the left half, the others those of the right half that go with them.
template <class T, int WIDTH>
struct Halves : Matrix<T> {
  DEVICE typename Matrix<T>::Row row(i64 index) const {
    constexpr int half = WIDTH / 2;
    const i64 rows = this->rows / 2, wanted = index / WIDTH * half + index % half;
    const i64 inside = wanted < rows ? wanted : rows - 1;
    return this->data + (index % WIDTH < half ? inside : rows + inside) * this->row_stride;
  }
};
template <class Source>
constexpr bool has_halves = false;
template <class T, int WIDTH>
constexpr bool has_halves<Halves<T, WIDTH>> = true;

// Sums of the left half of the columns, and those of the right half that belong to them.
template <class Sum, int N>
struct Pair {
  Packet<Sum, N> left, right;
};

// How a thread fetches elements, so many rows and so many steps of K together: as packets along one of the
// axes, or one by one. Neighbouring threads go on along K if `k_first`, else along rows, `neighbours` of them
// (0: all), and then along K. Two packets along rows are enough to read whole sectors; more threads that
// write whole steps of K for rows that lie eight apart would meet in the same banks.
template <int LENGTH>
struct AlongK {
  static constexpr int rows = 1, depth = LENGTH, neighbours = 0;
  static constexpr bool k_first = true, packets = true;
};
template <int LENGTH, int DEPTH = 1>
struct AlongRows {
  static constexpr int rows = LENGTH, depth = DEPTH, neighbours = DEPTH == 1 ? 0 : 2;
  static constexpr bool k_first = false, packets = true;
};
template <int DEPTH>
struct EachAlongK {
  static constexpr int rows = 1, depth = DEPTH, neighbours = 0;
  static constexpr bool k_first = true, packets = false;
};
template <int DEPTH>
struct EachAlongRows {
  static constexpr int rows = 1, depth = DEPTH, neighbours = 0;
  static constexpr bool k_first = false, packets = false;
};

// A thread's share of the ROWS x DEPTH elements of one step. What is held stays as it was read until it is
// put: to take it apart is to wait for it.
template <class Source, class Fetch, int ROWS, int DEPTH, int THREADS>
struct Stage {
  using T = typename Source::Element;
  static constexpr int row_items = ROWS / Fetch::rows, k_items = DEPTH / Fetch::depth;
  static constexpr int items = row_items * k_items;
  static constexpr int count = (items + THREADS - 1) / THREADS;
  static constexpr int neighbours = Fetch::neighbours == 0 ? row_items : Fetch::neighbours;
  static constexpr int length = !Fetch::packets ? 1 : Fetch::k_first ? Fetch::depth : Fetch::rows;
  static constexpr int loads = Fetch::rows * Fetch::depth / length;
  static_assert(ROWS % Fetch::rows == 0 && DEPTH % Fetch::depth == 0, "whole packets");

  Source source;
  i64 first_row;
  typename Source::Row rows[count];
  Words<T, length> held[count][loads];

  static DEVICE int row_of(int item) {
    if constexpr (Fetch::k_first) return item / k_items;
    return (item / (neighbours * k_items) * neighbours + item % neighbours) * Fetch::rows;
  }
  static DEVICE int k_of(int item) {
    return (Fetch::k_first ? item % k_items : item / neighbours % k_items) * Fetch::depth;
  }
  static DEVICE int item(int i) { return (int)threadIdx.x + i * THREADS; }
  static DEVICE bool there(int i) { return items % THREADS == 0 || item(i) < items; }

  DEVICE Stage(const Source& from, i64 first) : source(from), first_row(first) {
#pragma unroll
    for (int i = 0; i < count; ++i) rows[i] = source.row(first_row + row_of(item(i)));
  }

  DEVICE void fetch(i64 first_k) {
    if constexpr (Fetch::packets) {
      // The same for all threads: most steps take this way, with nothing to decide.
      if constexpr (Source::plain) {
        if (first_k + DEPTH <= source.depth && (Fetch::k_first || first_row + ROWS <= source.rows))
          return fetch_whole(first_k);
      }
    }
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (!there(i)) continue;
      const i64 k = first_k + k_of(item(i));
#pragma unroll
      for (int l = 0; l < loads; ++l)
        if constexpr (!Fetch::packets)
          held[i][l] = bit_cast<Words<T, 1>>(source.at(rows[i], k + l));
        else if constexpr (Fetch::k_first)
          held[i][l] = source.template along_k<length>(rows[i], k);
        else
          held[i][l] = source.template along_row<length>(first_row + row_of(item(i)), k + l);
    }
  }
  DEVICE void fetch_whole(i64 first_k) {
    const i64 step = Fetch::k_first ? 1 : source.k_stride;
#pragma unroll
    for (int i = 0; i < count; ++i)
      if (there(i)) {
        const T* from = rows[i] + k_of(item(i)) * step + first_k * step;
#pragma unroll
        for (int l = 0; l < loads; ++l)
          held[i][l] = *reinterpret_cast<const Words<T, length>*>(from + l * step);
      }
  }

  template <class Layout>
  DEVICE void put(typename Layout::Element* tile) const {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (!there(i)) continue;
      T values[Fetch::rows][Fetch::depth];
#pragma unroll
      for (int l = 0; l < loads; ++l) {
        const auto packet = bit_cast<Packet<T, length>>(held[i][l]);
#pragma unroll
        for (int e = 0; e < length; ++e)
          values[Fetch::k_first ? 0 : e][Fetch::k_first ? l * length + e : l] = packet.element[e];
      }
      Layout::write(tile, row_of(item(i)), k_of(item(i)), values);
    }
  }
};

// ---- multiply-adds by each thread, for every type ----

// Tiles lie with rows inside, so that a thread reads several of its rows at once.
template <class C, int ROWS, int DEPTH>
struct RowsInside {
  using Element = C;
  static constexpr int stride = ROWS + 16 / (int)sizeof(C);
  static constexpr int size = stride * DEPTH;
  template <int N, int D, class T>
  static DEVICE void write(C* tile, int row, int k, const T (&values)[N][D]) {
#pragma unroll
    for (int d = 0; d < D; ++d) {
      Packet<C, N> packet;
#pragma unroll
      for (int r = 0; r < N; ++r) packet.element[r] = load(values[r][d]);
      *reinterpret_cast<Packet<C, N>*>(tile + (k + d) * stride + row) = packet;
    }
  }
};

// 256 threads as 16 x 16, each with SIDE x SIDE elements in squares of 16 bytes' width.
template <class T, int SIDE, int DEPTH>
struct FmaTile {
  using Sum = typename Stored<T>::Compute;
  static constexpr int threads = 256, rows = 16 * SIDE, columns = 16 * SIDE, depth = DEPTH;
  static constexpr int chunk = 16 / (int)sizeof(Sum);
  static constexpr int buffers = 2;
  static_assert(SIDE % chunk == 0, "whole chunks");
  using LayoutA = RowsInside<Sum, rows, DEPTH>;
  using LayoutB = RowsInside<Sum, columns, DEPTH>;

  Sum sums[SIDE][SIDE] = {};

  static DEVICE int place(int thread, int i) { return (i / chunk * 16 + thread) * chunk + i % chunk; }

  DEVICE void multiply(const Sum* a, const Sum* b) {
    const int down = threadIdx.x / 16, across = threadIdx.x % 16;
#pragma unroll 2  // more would be loaded ahead than there are registers
    for (int k = 0; k < DEPTH; ++k) {
      Packet<Sum, chunk> left[SIDE / chunk], right[SIDE / chunk];
#pragma unroll
      for (int i = 0; i < SIDE / chunk; ++i) {
        left[i] =
            *reinterpret_cast<const Packet<Sum, chunk>*>(a + k * LayoutA::stride + place(down, i * chunk));
        right[i] =
            *reinterpret_cast<const Packet<Sum, chunk>*>(b + k * LayoutB::stride + place(across, i * chunk));
      }
#pragma unroll
      for (int i = 0; i < SIDE; ++i)
#pragma unroll
        for (int j = 0; j < SIDE; ++j)
          sums[i][j] = multiply_add(left[i / chunk].element[i % chunk], right[j / chunk].element[j % chunk],
                                    sums[i][j]);
    }
  }

  template <class F>
  DEVICE void for_each_run(const F& f) const {
    const int down = threadIdx.x / 16, across = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < SIDE; ++i)
#pragma unroll
      for (int j = 0; j < SIDE; j += chunk) {
        Packet<Sum, chunk> run;
#pragma unroll
        for (int e = 0; e < chunk; ++e) run.element[e] = sums[i][j + e];
        f(place(down, i), place(across, j), run);
      }
  }

  // Where b has halves: a thread has both columns of a pair, SIDE / 2 of its own apart.
  static constexpr int pair_width = SIDE > chunk ? columns : SIDE;
  template <class F>
  DEVICE void for_each_pair(const F& f) const {
    constexpr int half = SIDE / 2, run = half < chunk ? half : chunk;
    const int down = threadIdx.x / 16, across = threadIdx.x % 16;
#pragma unroll
    for (int i = 0; i < SIDE; ++i)
#pragma unroll
      for (int j = 0; j < half; j += run) {
        Pair<Sum, run> pair;
#pragma unroll
        for (int e = 0; e < run; ++e) {
          pair.left.element[e] = sums[i][j + e];
          pair.right.element[e] = sums[i][half + j + e];
        }
        f(place(down, i), (j / run * 16 + across) * run, pair);
      }
  }
};

// ---- the matrix unit ----

// Tiles lie with K inside; rows begin in different banks.
template <class T, int ROWS, int DEPTH>
struct KInside {
  using Element = T;
  static constexpr int stride = DEPTH + 16 / (int)sizeof(T);
  static constexpr int size = stride * ROWS;
  template <int N, int D>
  static DEVICE void write(T* tile, int row, int k, const T (&values)[N][D]) {
#pragma unroll
    for (int r = 0; r < N; ++r) {
      Packet<T, D> packet;
#pragma unroll
      for (int d = 0; d < D; ++d) packet.element[d] = values[r][d];
      *reinterpret_cast<Packet<T, D>*>(tile + (row + r) * stride + k) = packet;
    }
  }
};

// DOWN x ACROSS waves, each with a part of the tile made of 16 x 16 pieces.
template <class T, int ROWS, int COLUMNS, int DEPTH, int DOWN, int ACROSS>
struct MmaTile {
  using Sum = mma::Sum<T>;
  static constexpr int threads = DOWN * ACROSS * WAVE, rows = ROWS, columns = COLUMNS, depth = DEPTH;
  // Two save a barrier; where a compute unit has 64 KiB for all its blocks, more blocks are worth more.
  static constexpr int buffers = WAVE == 64 ? 1 : 2;
  static constexpr int piece_rows = ROWS / DOWN / 16, piece_columns = COLUMNS / ACROSS / 16;
  using LayoutA = KInside<T, ROWS, DEPTH>;
  using LayoutB = KInside<T, COLUMNS, DEPTH>;
  static_assert(DEPTH % mma::Unit<T>::depth == 0, "whole steps of the unit");

  mma::Accumulator<T> sums[piece_rows][piece_columns];

  DEVICE MmaTile() {
#pragma unroll
    for (int i = 0; i < piece_rows; ++i)
#pragma unroll
      for (int j = 0; j < piece_columns; ++j) mma::clear(sums[i][j]);
  }
  static DEVICE int first_row() { return (int)wave() / ACROSS * piece_rows * 16; }
  static DEVICE int first_column() { return (int)wave() % ACROSS * piece_columns * 16; }

  DEVICE void multiply(const T* a, const T* b) {
    a += first_row() * LayoutA::stride;
    b += first_column() * LayoutB::stride;
    // A step ahead hides the loads of its operands where there are registers for it.
    constexpr int at_once = piece_rows * piece_columns > 8 ? 1 : 2;
#pragma unroll at_once
    for (int k = 0; k < DEPTH; k += mma::Unit<T>::depth) {
      mma::FragmentB<T> right[piece_columns];
#pragma unroll
      for (int j = 0; j < piece_columns; ++j)
        right[j] = mma::load_b(b + j * 16 * LayoutB::stride + k, LayoutB::stride);
#pragma unroll
      for (int i = 0; i < piece_rows; ++i) {
        const mma::FragmentA<T> left = mma::load_a(a + i * 16 * LayoutA::stride + k, LayoutA::stride);
#pragma unroll
        for (int j = 0; j < piece_columns; ++j) mma::multiply_add(sums[i][j], left, right[j]);
      }
    }
  }

  template <class F>
  DEVICE void for_each_run(const F& f) const {
#pragma unroll
    for (int i = 0; i < piece_rows; ++i)
#pragma unroll
      for (int j = 0; j < piece_columns; ++j)
#pragma unroll
        for (int e = 0; e < mma::elements; e += mma::side_by_side) {
          Packet<Sum, mma::side_by_side> run;
#pragma unroll
          for (int r = 0; r < mma::side_by_side; ++r) run.element[r] = sums[i][j].element[e + r];
          f(first_row() + i * 16 + mma::row(e), first_column() + j * 16 + mma::column(e), run);
        }
  }

  // Where b has halves: a wave has both columns of a pair, in pieces that lie half of its columns apart.
  static constexpr int pair_width = piece_columns * 16;
  template <class F>
  DEVICE void for_each_pair(const F& f) const {
    constexpr int half = piece_columns / 2;
#pragma unroll
    for (int i = 0; i < piece_rows; ++i)
#pragma unroll
      for (int j = 0; j < half; ++j)
#pragma unroll
        for (int e = 0; e < mma::elements; e += mma::side_by_side) {
          Pair<Sum, mma::side_by_side> pair;
#pragma unroll
          for (int r = 0; r < mma::side_by_side; ++r) {
            pair.left.element[r] = sums[i][j].element[e + r];
            pair.right.element[r] = sums[i][half + j].element[e + r];
          }
          f(first_row() + i * 16 + mma::row(e), first_column() / 2 + j * 16 + mma::column(e), pair);
        }
  }
};

// ---- a block's work ----

// One tile: rows from first_row, columns from first_column, K in [first_k, end_k). Sources end at end_k.
template <class Tile, class FetchA, class FetchB, class A, class B, class Finish>
DEVICE void multiply_tile(const A& a, const B& b, i64 first_row, i64 first_column, i64 first_k, i64 end_k,
                          const Finish& finish) {
  using LayoutA = typename Tile::LayoutA;
  using LayoutB = typename Tile::LayoutB;
  alignas(16) __shared__ typename LayoutA::Element tile_a[Tile::buffers][LayoutA::size];
  alignas(16) __shared__ typename LayoutB::Element tile_b[Tile::buffers][LayoutB::size];
  Stage<A, FetchA, Tile::rows, Tile::depth, Tile::threads> stage_a(a, first_row);
  Stage<B, FetchB, Tile::columns, Tile::depth, Tile::threads> stage_b(b, first_column);
  Tile tile;
  int current = 0;
#pragma unroll 1
  for (i64 k = first_k - Tile::depth;; k += Tile::depth) {  // the first round has nothing to multiply yet
    const i64 next = k + Tile::depth;
    const bool more = next < end_k;
    if (more) {
      stage_a.fetch(next);
      stage_b.fetch(next);
    }
    keep_order();
    if (k >= first_k) tile.multiply(tile_a[current], tile_b[current]);
    if (!more) break;
    if constexpr (Tile::buffers == 1)
      barrier();
    else
      current ^= 1;
    stage_a.template put<LayoutA>(tile_a[current]);
    stage_b.template put<LayoutB>(tile_b[current]);
    barrier();
  }
  if constexpr (has_halves<B>)
    tile.for_each_pair([&](int row, int column, const auto& pair) {
      finish(first_row + row, first_column / 2 + column, pair);
    });
  else
    tile.for_each_run(
        [&](int row, int column, const auto& run) { finish(first_row + row, first_column + column, run); });
}

// The tile that a block works on. Neighbours in time share rows and columns, which then stay in the cache.
struct Job {
  u64 product;
  u32 row_tile, column_tile, split;
};
DEVICE u64 job_count(const GemmShape& shape) {
  return shape.products * shape.splits * shape.row_tiles * shape.column_tiles;
}
DEVICE Job job(const GemmShape& shape, u64 index) {
  constexpr u32 together = 8;
  Job job;
  const u64 tiles = (u64)shape.row_tiles * shape.column_tiles;
  const u64 layer = quotient(index, tiles);
  u32 tile = (u32)(index - layer * tiles);
  job.product = quotient(layer, shape.splits);
  job.split = (u32)(layer - job.product * shape.splits);
  const u32 band = tile / (together * shape.column_tiles), first = band * together;
  const u32 height = shape.row_tiles - first < together ? shape.row_tiles - first : together;
  tile -= first * shape.column_tiles;
  job.row_tile = first + tile % height;
  job.column_tile = tile / height;
  return job;
}

template <class Sum, int N>
DEVICE Packet<Sum, 1> one_of(const Packet<Sum, N>& run, int i) {
  return {{run.element[i]}};
}
template <class Sum, int N>
DEVICE Pair<Sum, 1> one_of(const Pair<Sum, N>& run, int i) {
  return {one_of(run.left, i), one_of(run.right, i)};
}

// Results side by side: whole runs inside the result at once, else those that are inside.
template <class Finish, template <class, int> class Run, class Sum, int N>
DEVICE void finish_run(const GemmShape& shape, const Finish& finish, i64 row, i64 column,
                       const Run<Sum, N>& run) {
  if (row >= shape.rows) return;
  if (column + N <= shape.columns) {
    finish(row, column, run);
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i)
      if (column + i < shape.columns) finish(row, column + i, one_of(run, i));
  }
}

// `source_a(product, end_k)` and `source_b` give the operands of a product; `finish` starts with (product,
// split) and then gets all results, in runs along a row.
template <class Tile, class FetchA, class FetchB, class SourceA, class SourceB, class Finish>
DEVICE void multiply(const GemmShape& shape, const SourceA& source_a, const SourceB& source_b,
                     Finish finish) {
  const u64 jobs = job_count(shape);
  for (u64 index = blockIdx.x; index < jobs; index += gridDim.x) {
    const Job work = job(shape, index);
    const i64 first_k = work.split * shape.split_depth;
    const i64 end_k = first_k + shape.split_depth < shape.depth ? first_k + shape.split_depth : shape.depth;
    finish.start(work.product, work.split);
    multiply_tile<Tile, FetchA, FetchB>(
        source_a(work.product, end_k), source_b(work.product, end_k), (i64)work.row_tile * Tile::rows,
        (i64)work.column_tile * Tile::columns, first_k, end_k,
        [&](i64 row, i64 column, const auto& run) { finish_run(shape, finish, row, column, run); });
    barrier();  // before the tiles are filled again
  }
}

// In as few pieces as the address allows.
template <class T, int N>
DEVICE void store_run(T* to, const Packet<T, N>& run) {
  if constexpr (N == 1) {
    *to = run.element[0];
  } else if ((u64)to % alignof(Packet<T, N>) == 0) {
    *reinterpret_cast<Packet<T, N>*>(to) = run;
  } else {
#pragma unroll
    for (int half = 0; half < N; half += N / 2) {
      Packet<T, N / 2> part;
#pragma unroll
      for (int i = 0; i < N / 2; ++i) part.element[i] = run.element[half + i];
      store_run(to + half, part);
    }
  }
}

// Where all runs of up to eight are aligned.
template <int N, class T>
DEVICE Packet<T, N> load_whole(const T* from) {
  return *reinterpret_cast<const Packet<T, N>*>(from);
}

// N neighbours of a row whose elements lie `stride` apart, from column `column` on.
template <int N, class T>
DEVICE Packet<T, N> load_run(const T* row, i64 stride, i64 column) {
  const T* from = row + column * stride;
  if (stride == 1 && (u64)from % alignof(Packet<T, N>) == 0)
    return *reinterpret_cast<const Packet<T, N>*>(from);
  Packet<T, N> run;
#pragma unroll
  for (int i = 0; i < N; ++i) run.element[i] = from[i * stride];
  return run;
}

// Splits of K leave their sums side by side; `combine` adds them in order and finishes.
template <class Sum>
struct Partial {
  static constexpr int run_bytes = sizeof(Sum);
  Sum* sums;
  i64 rows, columns;
  u64 products;
  Sum* layer = nullptr;
  DEVICE void start(u64 product, u32 split) { layer = sums + (split * products + product) * rows * columns; }
  template <int N>
  DEVICE void operator()(i64 row, i64 column, const Packet<Sum, N>& run) const {
    store_run(layer + row * columns + column, run);
  }
};

template <int N, class Sum, class Finish>
DEVICE void combine_runs(const GemmShape& shape, const Sum* sums, Finish& finish) {
  using Run = Packet<Sum, N>;
  const u64 one = (u64)shape.rows * shape.columns, count = one * shape.products;
  for (u64 i = global_thread() * N; i < count; i += global_threads() * N) {
    Run sum = *reinterpret_cast<const Run*>(sums + i);
#pragma unroll 4
    for (u32 split = 1; split < shape.splits; ++split) {
      const Run next = *reinterpret_cast<const Run*>(sums + split * count + i);
#pragma unroll
      for (int e = 0; e < N; ++e) sum.element[e] = add(sum.element[e], next.element[e]);
    }
    const u64 place = i % one;
    finish.start(i / one, 0);
    finish((i64)(place / shape.columns), (i64)(place % shape.columns), sum);
  }
}
template <class Sum, class Finish>
DEVICE void combine(const GemmShape& shape, const Sum* sums, Finish finish) {
  constexpr int packet = 16 / (int)sizeof(Sum);
  if (shape.columns % packet == 0)
    combine_runs<packet>(shape, sums, finish);
  else
    combine_runs<1>(shape, sums, finish);
}

}  // namespace gemm
