// The product of a mixture of experts: a wave has one result, the product of two rows.
#pragma once

#include "expert_matmul_arguments.h"
#include "quantised.h"

namespace experts {

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
    const i64 expert = chosen[(i64)row * shape.chosen_row + (i64)choice * shape.chosen_step];
    // A negative expert is not there either.
    const u64 there = checked(expert < 0 ? (i64)shape.experts : expert, (i64)shape.experts, fault);
    f32 sum = 0;
    if (there < shape.experts)
      sum = weights.dot(x + (i64)row * shape.x_row + (i64)choice * shape.x_choice, shape.x_step,
                        there * shape.columns + column, shape.depth);
    sum = wave_reduce(sum, [](f32 a, f32 b) { return a + b; });
    if (lane() == 0) out[i] = store<T>(sum);
  }
}

}  // namespace experts
