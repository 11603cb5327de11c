// Attention over a cache, a block of keys at a time (online softmax):
//
//   1. scores (keys, rows) = keys (keys, features) @ queries (features, rows), masked;
//   2. what they change of each row's largest score and sum, and the scores as weights;
//   3. out (rows, features) = out * change + transposed(weights) @ values (keys, features).
//
// Rows are the lanes of 1 and 2, features those of 3, so that nothing is summed across lanes. Queries are
// transposed once; keys and values are widened a block at a time, for all rows.
#include "cpu/cached_attention_kernels.h"

#include <cmath>
#include <limits>

#include "cpu/isa/rows.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

constexpr std::int64_t lanes = vector_lanes<float>;
constexpr float nothing = -std::numeric_limits<float>::infinity();

// A product whose left side is read number by number, and whose right side is in rows of vectors.
struct Product {
  const float* left;
  std::int64_t row_stride, term_stride;  // of left
  const float* right;
  std::int64_t right_stride;
  std::int64_t terms;
  float* out;
  std::int64_t out_stride;
  bool adds;  // to what is there
};

#if defined(__aarch64__)
template <int LANE, int ROWS, int REGISTERS>
HEARTH_INLINE void add_lanes(Vector<float> (&sums)[ROWS][REGISTERS], const float32x4_t (&left)[ROWS],
                             const float* right) {
  float32x4_t terms[REGISTERS];
#pragma GCC unroll 4
  for (int v = 0; v < REGISTERS; ++v) terms[v] = vld1q_f32(right + v * lanes);
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < REGISTERS; ++v) sums[r][v] = vfmaq_laneq_f32(sums[r][v], terms[v], left[r], LANE);
}
#endif

template <int ROWS, int REGISTERS>
HEARTH_INLINE void multiply_tile(const Product& p, std::int64_t row, std::int64_t column) {
  const float* left = p.left + row * p.row_stride;
  const float* right = p.right + column;
  float* out = p.out + row * p.out_stride + column;
  Vector<float> sums[ROWS][REGISTERS];
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < REGISTERS; ++v)
      sums[r][v] = p.adds ? load<Vector<float>>(out + r * p.out_stride + v * lanes) : Vector<float>{};
  std::int64_t t = 0;
#if defined(__aarch64__)
  // An instruction multiplies with one lane of a vector: four numbers are one load.
  if (p.term_stride == 1)
    for (; t + 4 <= p.terms; t += 4, left += 4) {
      float32x4_t four[ROWS];
#pragma GCC unroll 16
      for (int r = 0; r < ROWS; ++r) four[r] = vld1q_f32(left + r * p.row_stride);
      [&]<int... i>(std::integer_sequence<int, i...>) HEARTH_LAMBDA {
        (add_lanes<i>(sums, four, right + i * p.right_stride), ...);
      }
      (std::make_integer_sequence<int, 4>{});
      right += 4 * p.right_stride;
    }
#endif
  for (; t < p.terms; ++t, left += p.term_stride, right += p.right_stride) {
    Vector<float> terms[REGISTERS];
#pragma GCC unroll 4
    for (int v = 0; v < REGISTERS; ++v) terms[v] = load<Vector<float>>(right + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < REGISTERS; ++v) sums[r][v] += left[r * p.row_stride] * terms[v];
  }
#pragma GCC unroll 16
  for (int r = 0; r < ROWS; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < REGISTERS; ++v) store(out + r * p.out_stride + v * lanes, sums[r][v]);
}

template <int REGISTERS>
HEARTH_INLINE void multiply_column(const Product& p, std::int64_t rows, std::int64_t column) {
  constexpr int most = REGISTERS == 1 ? 8 : 4;  // so many sums that none waits for itself
  std::int64_t row = 0;
  for (; row + most <= rows; row += most) multiply_tile<most, REGISTERS>(p, row, column);
  for (; row < rows; ++row) multiply_tile<1, REGISTERS>(p, row, column);
}

// `columns`: a multiple of `lanes`.
void multiply(const Product& p, std::int64_t rows, std::int64_t columns) {
  std::int64_t column = 0;
  for (; column + 4 * lanes <= columns; column += 4 * lanes) multiply_column<4>(p, rows, column);
  for (; column < columns; column += lanes) multiply_column<1>(p, rows, column);
}

// Of each row: the largest score so far, the sum of the weights, and by what a block changed those before it.
struct Softmax {
  float *largest, *total, *change;
};

// The scores of a block become weights. `rows`: a multiple of `lanes`.
void weigh(float* scores, std::int64_t keys, std::int64_t rows, const Softmax& softmax) {
  using V = Vector<float>;
  for (std::int64_t r = 0; r < rows; r += lanes) {
    const V before = load<V>(softmax.largest + r);
    V largest = before;
    for (std::int64_t j = 0; j < keys; ++j)
      largest = Larger::combine(largest, load<V>(scores + j * rows + r));
    store(softmax.largest + r, largest);
    const V base = largest == nothing ? V{} : largest;  // of a row that has seen nothing yet
    store(softmax.change + r, before - base);
    for (std::int64_t j = 0; j < keys; ++j)
      store(scores + j * rows + r, load<V>(scores + j * rows + r) - base);
  }
  const auto exponential = [](float* x, std::int64_t n) {
    map(x, n,
        [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return math::exp_of_negative(load<V>(x + i)); });
  };
  exponential(softmax.change, rows);
  exponential(scores, keys * rows);
  for (std::int64_t r = 0; r < rows; r += lanes) {
    V sum = load<V>(softmax.total + r) * load<V>(softmax.change + r);
    for (std::int64_t j = 0; j < keys; ++j) sum += load<V>(scores + j * rows + r);
    store(softmax.total + r, sum);
  }
}

void hide_unseen(const CachedQueries& work, std::int64_t begin, std::int64_t keys, float* scores,
                 std::int64_t stride) {
  for (std::int64_t r = 0; r < work.count; ++r)
    for (std::int64_t j = 0; j < keys; ++j)
      if (begin + j < work.rows[r].first || begin + j > work.rows[r].last) scores[j * stride + r] = nothing;
}

// `scales`: of each 32 elements, where those are i8.
template <typename T>
HEARTH_INLINE void widen_row(const T* from, const float16* scales, float* to, std::int64_t n) {
  if constexpr (std::is_same_v<T, std::int8_t>) {
    for (std::int64_t i = 0; i < n; i += 32) {
      const float scale = scales[i / 32];
      for (std::int64_t k = i; k < i + 32; ++k) to[k] = static_cast<float>(from[k]) * scale;
    }
  } else {
    widen(from, to, n);
  }
}

template <typename T>
void attend(const CachedQueries& work) {
  constexpr std::int64_t most = cached_attention_keys;
  const auto padded = [](std::int64_t n) { return (n + lanes - 1) / lanes * lanes; };
  const std::int64_t count = work.count, rows = padded(count), n = work.features, width = padded(n);
  float *queries = work.scratch, *scores = queries + n * rows, *numbers = scores + most * rows,
        *out = numbers + most * width;
  const Softmax softmax{out + rows * width, out + rows * (width + 1), out + rows * (width + 2)};
  std::int64_t last_first = 0, first_last = work.end;
  for (std::int64_t r = 0; r < rows; ++r) {
    softmax.largest[r] = nothing;
    softmax.total[r] = 0;
    for (std::int64_t f = 0; f < n; ++f) queries[f * rows + r] = r < count ? work.rows[r].query[f] : 0.0f;
  }
  for (std::int64_t r = 0; r < count; ++r) {
    last_first = work.rows[r].first > last_first ? work.rows[r].first : last_first;
    first_last = work.rows[r].last < first_last ? work.rows[r].last : first_last;
  }
  for (std::int64_t i = 0; i < rows * width; ++i) out[i] = 0;
  if (n < width)
    for (std::int64_t i = 0; i < most * width; ++i) numbers[i] = 0;

  const auto first_of = [&](std::int64_t position) HEARTH_LAMBDA {
    return (work.pages[position / work.page] * work.page + position % work.page) * work.slot_stride;
  };
  // Rows of a group lie far apart, so that the machine does not see what comes next: while a block is
  // widened, the one after it, from `next` on, is fetched.
  const auto widen_block = [&](const void* data, const float16* scales, std::int64_t begin, std::int64_t keys,
                               const void* next_data, std::int64_t next) {
    for (std::int64_t j = 0; j < keys; ++j) {
      if (next + j < work.end) {
        const T* row = static_cast<const T*>(next_data) + first_of(next + j);
        for (std::int64_t i = 0; i < n; i += 64 / static_cast<std::int64_t>(sizeof(T)))
          __builtin_prefetch(row + i);
      }
      const std::int64_t first = first_of(begin + j);
      widen_row(static_cast<const T*>(data) + first, scales == nullptr ? nullptr : scales + first / 32,
                numbers + j * width, n);
    }
  };
  for (std::int64_t begin = work.first; begin < work.end; begin += most) {
    const std::int64_t keys = work.end - begin < most ? work.end - begin : most;
    widen_block(work.keys, work.key_scales, begin, keys, work.values, begin);
    multiply({.left = numbers,
              .row_stride = width,
              .term_stride = 1,
              .right = queries,
              .right_stride = rows,
              .terms = n,
              .out = scores,
              .out_stride = rows,
              .adds = false},
             keys, rows);
    if (work.soft_cap > 0)
      for (std::int64_t i = 0; i < keys * rows; ++i)
        scores[i] = work.soft_cap * std::tanh(scores[i] / work.soft_cap);
    if (begin < last_first || begin + keys - 1 > first_last) hide_unseen(work, begin, keys, scores, rows);
    weigh(scores, keys, rows, softmax);
    for (std::int64_t r = 0; r < count; ++r)
      if (const float change = softmax.change[r]; change != 1) {
        float* row = out + r * width;
        map(row, width, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(row + i) * change; });
      }
    widen_block(work.values, work.value_scales, begin, keys, work.keys, begin + most);
    multiply({.left = scores,
              .row_stride = 1,
              .term_stride = rows,
              .right = numbers,
              .right_stride = width,
              .terms = keys,
              .out = out,
              .out_stride = width,
              .adds = true},
             count, width);
  }
  for (std::int64_t r = 0; r < count; ++r) {
    const float* row = out + r * width;
    const float total = softmax.total[r], share = total > 0 ? 1 / total : total;  // a NaN stays
    map(work.rows[r].out, n,
        [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(row + i) * share; });
  }
}

}  // namespace

extern const CachedAttentionKernels cached_attention_kernels_table = {
    {attend<float16>, attend<bfloat16>, attend<float>}, attend<std::int8_t>};

}  // namespace hearth::cpu::HEARTH_ISA
