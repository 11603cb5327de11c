// Cross entropy of rows of scores with one right class each: log(sum(exp(x))) - x[class], and its gradient.
#pragma once

#include "indexing.h"
#include "math.h"

// The largest score and the sum of exp(score - largest), of some part of a row.
struct Scores {
  f32 top, sum;
};

// Scores of 16 bits have no use for all digits of exp(x).
template <class T>
DEVICE f32 score_exp(f32 x) {
  if constexpr (sizeof(T) == 2)
    return math::narrow::exp(x);
  else
    return math::exp(x);
}

template <class T>
DEVICE Scores combined(Scores a, Scores b) {
  const f32 top = a.top > b.top ? a.top : b.top;
  if (top == -infinity()) return {top, a.sum + b.sum};  // nothing seen yet; a NaN stays
  return {top, a.sum * score_exp<T>(a.top - top) + b.sum * score_exp<T>(b.top - top)};
}

template <class T, int N>
DEVICE Scores scores_of(const Packet<T, N>& packet) {
  Scores scores = {-infinity(), 0};
#pragma unroll
  for (int e = 0; e < N; ++e) {
    const f32 x = load(packet.element[e]);
    scores.top = x > scores.top ? x : scores.top;
  }
  const f32 centre = scores.top == -infinity() ? 0 : scores.top;
#pragma unroll
  for (int e = 0; e < N; ++e) scores.sum += score_exp<T>(load(packet.element[e]) - centre);
  return scores;
}

// N scores of a row; they lie side by side where N > 1.
template <int N, class T>
DEVICE Packet<T, N> scores_at(const T* row, u64 packet, i64 stride) {
  if constexpr (N == 1)
    return {{row[(i64)packet * stride]}};
  else
    return reinterpret_cast<const Packet<T, N>*>(row)[packet];
}

// One block per row; `out` gets the losses of all rows, then their log-sums. A row is read in packets of N.
template <class T, int N, class I>
DEVICE void row_losses(const T* x, const I* classes, f32* out, u64 rows, u64 size, i64 row_stride, i64 stride,
                       i64 class_stride, Fault fault) {
  for (u64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* scores_in = x + (i64)row * row_stride;
    Scores scores = {-infinity(), 0};
    for (u64 p = threadIdx.x; p < size / N; p += blockDim.x)
      scores = combined<T>(scores, scores_of(scores_at<N>(scores_in, p, stride)));
    scores =
        block_reduce(scores, Scores{-infinity(), 0}, [](Scores a, Scores b) { return combined<T>(a, b); });
    if (threadIdx.x != 0) continue;
    const u64 right = checked((i64)classes[(i64)row * class_stride], (i64)size, fault);
    const f32 total = scores.top + math::log(scores.sum);
    out[row] = right < size ? total - load(scores_in[(i64)right * stride]) : 0;
    out[rows + row] = total;
  }
}

// dx = (softmax(x) - [is the right class]) * slope of the row. Rows whose slope is zero were not counted.
template <class T, int N, class I>
DEVICE void row_loss_slopes(const T* x, const I* classes, const f32* results, const f32* slopes, T* dx,
                            u64 rows, u64 size, i64 row_stride, i64 stride, i64 class_stride,
                            i64 slope_stride) {
  for (u64 row = blockIdx.x; row < rows; row += gridDim.x) {
    const T* in = x + (i64)row * row_stride;
    auto* out = reinterpret_cast<Packet<T, N>*>(dx + row * size);
    const f32 total = results[rows + row], slope = slopes[(i64)row * slope_stride];
    const u64 right = (u64)classes[(i64)row * class_stride];
    for (u64 p = threadIdx.x; p < size / N; p += blockDim.x) {
      const Packet<T, N> packet = scores_at<N>(in, p, stride);
      Packet<T, N> result;
#pragma unroll
      for (int e = 0; e < N; ++e) {
        const f32 share = score_exp<T>(load(packet.element[e]) - total) - (p * N + e == right ? 1.0f : 0.0f);
        result.element[e] = store<T>(slope == 0 ? 0.0f : share * slope);
      }
      out[p] = result;
    }
  }
}
