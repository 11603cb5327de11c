// The product of a mixture of experts: of any weights by a wave for each result, of weights in blocks by
// more.
#pragma once

#include "expert_matmul_arguments.h"
#include "quantised.h"

namespace experts {

// The expert that was chosen; from shape.experts on there is none.
DEVICE u64 expert_of(const ExpertShape& shape, const i64* chosen, u64 row, u64 choice, const Fault& fault) {
  const i64 expert = chosen[(i64)row * shape.chosen_row + (i64)choice * shape.chosen_step];
  // A negative expert is not there either.
  return checked(expert < 0 ? (i64)shape.experts : expert, (i64)shape.experts, fault);
}

// Each gives dot(x, row, depth): a lane's part of a product, x being `step` elements apart.
template <class W>
struct Plain {
  const W* weights;
  template <class T>
  DEVICE f32 dot(const T* x, i64 step, u64 row, u64 depth) const {
    f32 sum = 0;
    for (u64 k = lane(); k < depth; k += WAVE)
      sum = fmaf((f32)load(weights[row * depth + k]), (f32)load(x[(i64)k * step]), sum);
    return sum;
  }
};

template <class Format>
struct InBlocks {
  quantised::Blocks blocks;
  template <class T>
  DEVICE f32 dot(const T* x, i64 step, u64 row, u64 depth) const {
    constexpr u64 runs = Format::elements / 16;
    f32 sum = 0;
    for (u64 k = lane() * 16; k < depth; k += WAVE * 16) {
      const u64 run = (row * depth + k) / 16;
      const quantised::Run numbers = quantised::run_of<Format>(blocks, run / runs, (u32)(run % runs));
#pragma unroll
      for (int i = 0; i < 16; ++i)
        sum = fmaf(quantised::number<Format>(numbers, i), (f32)load(x[(i64)(k + i) * step]), sum);
    }
    return sum;
  }
};

// x (rows, chosen or 1, depth), chosen (rows, chosen), out (rows, chosen, columns) dense.
template <class T, class Weights>
DEVICE void multiply(const ExpertShape& shape, const T* x, const Weights& weights, const i64* chosen, T* out,
                     const Fault& fault) {
  const u64 results = shape.rows * shape.chosen * shape.columns, waves = global_threads() / WAVE;
  for (u64 i = global_thread() / WAVE; i < results; i += waves) {
    const u64 column = i % shape.columns, choice = i / shape.columns % shape.chosen,
              row = i / shape.columns / shape.chosen;
    const u64 there = expert_of(shape, chosen, row, choice, fault);
    f32 sum = 0;
    if (there < shape.experts)
      sum = weights.dot(x + (i64)row * shape.x_row + (i64)choice * shape.x_choice, shape.x_step,
                        there * shape.columns + column, shape.depth);
    sum = wave_reduce(sum, [](f32 a, f32 b) { return a + b; });
    if (lane() == 0) out[i] = store<T>(sum);
  }
}

// ---- weights in blocks, few rows: as other products of few rows, a result row for each blockIdx.y

template <class T>
struct StoreRow {
  T* out;
  DEVICE void start(u64, u32) const {}
  DEVICE void operator()(i64, i64 column, const Packet<f32, 1>& sum) const {
    out[column] = store<T>(sum.element[0]);
  }
};

template <class Format, int COLUMNS, int THREADS, bool WHOLE, class T>
DEVICE void multiply_few(const ExpertShape& shape, const T* x, const quantised::Blocks& blocks,
                         const i64* chosen, T* out, const Fault& fault) {
  using namespace quantised;
  using Work = FewRows<Format, 1, Neighbours<COLUMNS>, 2, THREADS, FromRow>;
  const u64 result = blockIdx.y, row = result / shape.chosen, choice = result % shape.chosen;
  const u64 expert = expert_of(shape, chosen, row, choice, fault);
  if (expert >= shape.experts) return;
  const u32 columns = (u32)shape.columns, depth = (u32)shape.depth;
  u8* const q = launched_shared<u8>();
  Rounding* const roundings = reinterpret_cast<Rounding*>(q + depth);
  const Work work(blocks, q, roundings, 1, columns, depth, 1, FromRow{expert * shape.columns});
  AsItIs prepare;
  quantised::multiply_few(work, prepare, StoreRow<T>{out + result * shape.columns}, [&] {
    const Operand<T, WHOLE> operand{x + (i64)row * shape.x_row + (i64)choice * shape.x_choice, 0,
                                    shape.x_step, 1, depth};
    round_rows<Format>(operand, prepare, q, roundings, threadIdx.x, blockDim.x);
    barrier();
  });
}

// ---- weights in blocks, many rows: those that chose the same expert are multiplied together

// By one block. `order`: numbers of all results, those of an expert side by side; `tiles`: of up to `height`
// of them each, as many as there can be.
DEVICE void group(const ExpertShape& shape, const i64* chosen, u32 height, u32 tile_count, ExpertTile* tiles,
                  u32* order, const Fault& fault) {
  __shared__ u32 counts[most_grouped_experts], places[most_grouped_experts], used;
  const u32 experts = (u32)shape.experts, results = (u32)(shape.rows * shape.chosen);
  const u32 thread = threadIdx.x, threads = blockDim.x;
  const auto expert_at = [&](u32 i) {
    return (u32)expert_of(shape, chosen, i / (u32)shape.chosen, i % (u32)shape.chosen, fault);
  };
  for (u32 e = thread; e < experts; e += threads) counts[e] = 0;
  barrier();
  for (u32 i = thread; i < results; i += threads)
    if (const u32 expert = expert_at(i); expert < experts) atomicAdd(&counts[expert], 1u);
  barrier();
  for (u32 e = thread; e < experts; e += threads) {
    u32 first = 0, tile = 0;
    for (u32 before = 0; before < e; ++before) {
      first += counts[before];
      tile += (counts[before] + height - 1) / height;
    }
    const u32 count = counts[e];
    places[e] = first;
    for (u32 done = 0; done < count; done += height)
      tiles[tile++] = {e, first + done, count - done < height ? count - done : height};
    if (e == experts - 1) used = tile;
  }
  barrier();
  for (u32 t = used + thread; t < tile_count; t += threads) tiles[t] = {0, 0, 0};
  for (u32 i = thread; i < results; i += threads)
    if (const u32 expert = expert_at(i); expert < experts) order[atomicAdd(&places[expert], 1u)] = i;
}

// Rows of x as halve_rows() leaves them, those of a tile.
struct Gathered : gemm::Matrix<f16> {
  const u32* order;
  u32 shared_by;  // results that have the same row
  DEVICE Row row(i64 index) const {
    return data + (i64)(order[index < rows ? index : rows - 1] / shared_by) * row_stride;
  }
};

// blockIdx.y is the tile, blockIdx.x which of its columns.
template <class Tile, class Fetch, class Format, class T>
DEVICE void multiply_tiles(const ExpertShape& shape, const f16* x, const f32* scales,
                           const quantised::Blocks& blocks, const ExpertTile* tiles, const u32* order,
                           T* out) {
  const ExpertTile tile = tiles[blockIdx.y];
  if (tile.count == 0) return;
  const u32 shared_by = shape.x_choice == 0 ? (u32)shape.chosen : 1;
  const i64 columns = (i64)shape.columns, depth = (i64)shape.depth;
  const u32* const own = order + tile.first;
  const Gathered left{{x, depth, 1, tile.count, depth}, own, shared_by};
  const quantised::Weights<Format> right{blocks, columns, depth, depth / Format::elements,
                                         (i64)tile.expert * columns};
  gemm::multiply_tile<Tile, Fetch, gemm::AlongK<16>>(
      left, right, 0, (i64)blockIdx.x * Tile::columns, 0, depth, [&](i64 row, i64 column, const auto& run) {
        if (row >= tile.count) return;
        const u32 result = own[row];
        const f32 scale = scales[result / shared_by];
        constexpr int length = sizeof(run.element) / sizeof(run.element[0]);
#pragma unroll
        for (int i = 0; i < length; ++i)
          if (column + i < columns)
            out[(i64)result * columns + column + i] = store<T>(run.element[i] * scale);
      });
}

}  // namespace experts
