// Products of a large matrix with few vectors: bound by reading the matrix, which is read once, 16 bytes per
// lane at a time.
#pragma once

#include "gemm.h"

namespace gemv {

// What a block reads first of the matrix, as multiply() does.
template <int ROWS, int LENGTH, int WAVES, bool SWAPPED, class SourceMany>
DEVICE void bring_near(const GemmShape& shape, const SourceMany& source_many) {
  constexpr int teams = 256 / WAVE / WAVES;
  const i64 rows = SWAPPED ? shape.columns : shape.rows;
  const u64 groups = (rows + ROWS - 1) / ROWS, job = (u64)blockIdx.x * teams + wave() / WAVES;
  if (job >= groups * shape.products) return;
  const auto matrix = source_many(job / groups, shape.depth);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const i64 k = threadIdx.x % (WAVES * WAVE) * LENGTH;
    if (k < shape.depth) ::bring_near(matrix.row((i64)(job % groups) * ROWS + r) + k);
  }
}

// result(row of `many`, row of `few`) = sum over k. Both operands run along K; where their types differ, one
// is f32 and the other has 16 bits. WAVES of a block share ROWS
// rows of the matrix; the others of the block take rows of their own. `finish` gets (row, few) or, with
// SWAPPED, (few, row).
template <int FEW, int ROWS, int LENGTH, int WAVES, bool SWAPPED, class SourceMany, class SourceFew,
          class Finish>
DEVICE void multiply(const GemmShape& shape, const SourceMany& source_many, const SourceFew& source_few,
                     Finish finish) {
  using T = typename decltype(source_many(0, 0))::Element;
  using V = typename decltype(source_few(0, 0))::Element;
  using Sum = typename Stored<T>::Compute;
  constexpr int ahead = FEW < 4 ? 4 : sizeof(T) < 4 ? 2 : 1;  // packets of each row in flight
  constexpr int teams = 256 / WAVE / WAVES;
  __shared__ Sum partial[256 / WAVE][ROWS][FEW];
  const i64 rows = SWAPPED ? shape.columns : shape.rows, few = SWAPPED ? shape.rows : shape.columns;
  const u64 groups = (rows + ROWS - 1) / ROWS, jobs = groups * shape.products;
  const u32 team = wave() / WAVES, thread = threadIdx.x % (WAVES * WAVE);
  const auto sum_of = [](Sum a, Sum b) { return gemm::add(a, b); };
  for (u64 first = (u64)blockIdx.x * teams; first < jobs; first += (u64)gridDim.x * teams) {
    const u64 job = first + team;
    const bool busy = job < jobs;
    const u64 product = busy ? job / groups : 0;
    const i64 row = busy ? (i64)(job % groups) * ROWS : rows;
    const auto matrix = source_many(product, shape.depth);
    const auto vectors = source_few(product, shape.depth);
    Sum sums[ROWS][FEW] = {};
    if (busy)
      for (i64 k = thread * LENGTH; k < shape.depth; k += ahead * WAVES * WAVE * LENGTH) {
        Words<T, LENGTH> packets[ahead][ROWS];
#pragma unroll
        for (int i = 0; i < ahead; ++i)
#pragma unroll
          for (int r = 0; r < ROWS; ++r)
            packets[i][r] =
                matrix.template along_k<LENGTH>(matrix.row(row + r), k + i * WAVES * WAVE * LENGTH);
#pragma unroll
        for (int i = 0; i < ahead; ++i)
#pragma unroll
          for (int f = 0; f < FEW; ++f) {
            const auto vector = bit_cast<Packet<V, LENGTH>>(
                vectors.template along_k<LENGTH>(vectors.row(f), k + i * WAVES * WAVE * LENGTH));
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
              const auto packet = bit_cast<Packet<T, LENGTH>>(packets[i][r]);
#pragma unroll
              for (int e = 0; e < LENGTH; ++e)
                sums[r][f] = gemm::multiply_add((Sum)load(packet.element[e]), (Sum)load(vector.element[e]),
                                                sums[r][f]);
            }
          }
      }
#pragma unroll
    for (int r = 0; r < ROWS; ++r)
#pragma unroll
      for (int f = 0; f < FEW; ++f) {
        sums[r][f] = wave_reduce(sums[r][f], sum_of);
        if (lane() == 0) partial[wave()][r][f] = sums[r][f];
      }
    barrier();
    // One thread per result: the waves of a team in order.
    for (int i = threadIdx.x; i < teams * ROWS * FEW; i += 256) {
      const int which = i / (ROWS * FEW), r = i / FEW % ROWS, f = i % FEW;
      const u64 done = first + which;
      if (done >= jobs || f >= few || (i64)(done % groups) * ROWS + r >= rows) continue;
      Sum sum = partial[which * WAVES][r][f];
      for (int w = 1; w < WAVES; ++w) sum = gemm::add(sum, partial[which * WAVES + w][r][f]);
      const i64 place = (i64)(done % groups) * ROWS + r;
      finish.start(done / groups, 0);
      finish(SWAPPED ? f : place, SWAPPED ? place : f, Packet<Sum, 1>{{sum}});
    }
    barrier();
  }
}

}  // namespace gemv
