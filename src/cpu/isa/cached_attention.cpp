// Attention over a cache, a block of keys at a time (online softmax):
//
//   1. scores (keys, rows) = keys (keys, features) @ queries (features, rows), masked;
//   2. what they change of each row's largest score and sum, and the scores as weights;
//   3. out (rows, features) = out * change + transposed(weights) @ values (keys, features).
//
// Rows are the lanes of 1 and 2, features those of 3, so that nothing is summed across lanes. Queries are
// transposed once; keys and values are widened a block at a time, for all rows.
//
// Where an instruction multiplies f16 and adds the products in f32, few rows take keys and values of f16 as
// they are (Halves::fits()); then queries and weights are rounded to f16, and features are the lanes of 1.
// With AVX-512, few rows take them into registers at once (InRegisters).
#include "cpu/cached_attention_kernels.h"

#include <cmath>
#include <limits>

#include "cpu/isa/attention_work.h"
#if defined(__ARM_FEATURE_FP16_FML)
#include "cpu/isa/attention_neon.h"
#elif defined(__AMX_BF16__)
#include "cpu/isa/attention_amx.h"
#elif defined(__AVX512F__)
#include "cpu/isa/attention_avx512.h"
#endif

namespace hearth::cpu::HEARTH_ISA {
namespace {

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

// Keys and values as f32.
template <typename T>
class Widened {
 public:
  Widened(const CachedQueries& work, const Memory& memory) : work_(work), memory_(memory) {
    for (std::int64_t r = 0; r < memory.rows; ++r)
      for (std::int64_t f = 0; f < work.features; ++f)
        memory.queries[f * memory.rows + r] = r < work.count ? work.rows[r].query[f] : 0.0f;
    if (work.features < memory.width)
      for (std::int64_t i = 0; i < most_keys * memory.width; ++i) memory.numbers[i] = 0;
  }

  void score(const Block& block) const {
    widen_block(block, work_.keys, work_.key_scales, block, work_.values);
    multiply({.left = memory_.numbers,
              .row_stride = memory_.width,
              .term_stride = 1,
              .right = memory_.queries,
              .right_stride = memory_.rows,
              .terms = work_.features,
              .out = memory_.scores,
              .out_stride = memory_.rows,
              .adds = false},
             block.count, memory_.rows);
  }

  // `by_all`: the keys that all rows see.
  void add(const Block& block, const Block& next, const Seen& by_all) const {
    widen_block(block, work_.values, work_.value_scales, next, work_.keys);
    const auto finite = [&](std::int64_t key) HEARTH_LAMBDA { return is_finite(key); };
    if (unseen_are_finite(block, by_all, finite)) return add_rows(0, work_.count, 0, block.count);
    for (std::int64_t r = 0; r < work_.count; ++r)
      if (const Seen seen(work_.rows[r].first, work_.rows[r].last, block); seen.first < seen.past)
        add_rows(r, 1, seen.first, seen.past - seen.first);
  }

 private:
  // Keys [key, key + keys) of the block.
  void add_rows(std::int64_t row, std::int64_t rows, std::int64_t key, std::int64_t keys) const {
    multiply({.left = memory_.scores + key * memory_.rows + row,
              .row_stride = 1,
              .term_stride = memory_.rows,
              .right = memory_.numbers + key * memory_.width,
              .right_stride = memory_.width,
              .terms = keys,
              .out = memory_.out + row * memory_.width,
              .out_stride = memory_.width,
              .adds = true},
             rows, memory_.width);
  }
  bool is_finite(std::int64_t key) const {
    const float* numbers = memory_.numbers + key * memory_.width;
    std::uint32_t beyond = 0;
    for (std::int64_t f = 0; f < work_.features; ++f)
      beyond |= (math::bits<std::uint32_t>(numbers[f]) & 0x7f800000u) == 0x7f800000u;
    return beyond == 0;
  }

  // Rows of a group lie far apart, so that the machine does not see what comes next: while a block is
  // widened, the one after it is fetched.
  void widen_block(const Block& block, const void* data, const float16* scales, const Block& next,
                   const void* next_data) const {
    for (std::int64_t j = 0; j < block.count; ++j) {
      if (j < next.count) fetch_row(static_cast<const T*>(next_data) + next.first[j], work_.features);
      widen_row(static_cast<const T*>(data) + block.first[j],
                scales == nullptr ? nullptr : scales + block.first[j] / 32,
                memory_.numbers + j * memory_.width, work_.features);
    }
  }
  const CachedQueries& work_;
  const Memory& memory_;
};

template <typename Engine>
void attend_with(const CachedQueries& work) {
  const Memory memory(work);
  const Engine engine(work, memory);
  const Softmax& softmax = memory.softmax;
  const std::int64_t count = work.count, n = work.features, rows = memory.rows, width = memory.width;
  float *const scores = memory.scores, *const out = memory.out;
  std::int64_t last_first = 0, first_last = work.end;
  for (std::int64_t r = 0; r < rows; ++r) {
    softmax.largest[r] = nothing;
    softmax.total[r] = 0;
  }
  for (std::int64_t r = 0; r < count; ++r) {
    if (const float sink = work.rows[r].sink; sink > nothing) {
      softmax.largest[r] = sink;
      softmax.total[r] = 1;
    }
    last_first = work.rows[r].first > last_first ? work.rows[r].first : last_first;
    first_last = work.rows[r].last < first_last ? work.rows[r].last : first_last;
  }
  for (std::int64_t i = 0; i < rows * width; ++i) out[i] = 0;

  Block block(work, work.first);
  for (std::int64_t begin = work.first; begin < work.end; begin += most_keys) {
    const std::int64_t keys = block.count;
    const Block next(work, begin + most_keys);
    engine.score(block);
    if (work.soft_cap > 0)
      for (std::int64_t i = 0; i < keys * rows; ++i)
        scores[i] = work.soft_cap * std::tanh(scores[i] / work.soft_cap);
    const Seen by_all(last_first, first_last, block);
    if (by_all.first > 0 || by_all.past < keys) hide_unseen(work, begin, keys, scores, rows);
    weigh(scores, keys, rows, softmax);
    for (std::int64_t r = 0; r < count; ++r)
      if (const float change = softmax.change[r]; change != 1) {
        float* row = out + r * width;
        map(row, width, [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(row + i) * change; });
      }
    engine.add(block, next, by_all);
    block = next;
  }
  for (std::int64_t r = 0; r < count; ++r) {
    const float* row = out + r * width;
    const float total = softmax.total[r], share = total > 0 ? 1 / total : total;  // a NaN stays
    map(work.rows[r].out, n,
        [=]<typename V>(std::int64_t i) HEARTH_LAMBDA { return load<V>(row + i) * share; });
  }
}

template <typename T>
void attend(const CachedQueries& work) {
#if defined(__ARM_FEATURE_FP16_FML)
  if constexpr (std::is_same_v<T, float16>)
    if (Halves::fits(work)) return attend_with<Halves>(work);
#elif defined(__AVX512F__)
  if constexpr (std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>) {
    if (InRegisters<T>::fits(work)) return attend_with<InRegisters<T>>(work);
#if defined(__AMX_BF16__)
    if (ByUnit<T>::fits(work)) return attend_with<ByUnit<T>>(work);
#endif
  }
#endif
  attend_with<Widened<T>>(work);
}

}  // namespace

extern const CachedAttentionKernels cached_attention_kernels_table = {
    {attend<float16>, attend<bfloat16>, attend<float>}, attend<std::int8_t>};

}  // namespace hearth::cpu::HEARTH_ISA
