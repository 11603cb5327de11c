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
HEARTH_INLINE void fetch_row(const T* row, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 64 / static_cast<std::int64_t>(sizeof(T))) __builtin_prefetch(row + i);
}

constexpr std::int64_t most_keys = cached_attention_keys;

// The parts of the scratch memory.
struct Memory {
  std::int64_t rows, width;  // of queries and of features, to whole vectors
  float *queries, *scores, *numbers, *out, *rest;
  Softmax softmax;

  explicit Memory(const CachedQueries& work) : rows(whole(work.count)), width(whole(work.features)) {
    queries = work.scratch;
    scores = queries + work.features * rows;
    numbers = scores + most_keys * rows;
    out = numbers + most_keys * width;
    softmax = {out + rows * width, out + rows * (width + 1), out + rows * (width + 2)};
    rest = out + rows * (width + 3);
  }

 private:
  static std::int64_t whole(std::int64_t n) { return (n + lanes - 1) / lanes * lanes; }
};

// Where the keys and values from `begin` on are: elements from those of slot 0.
struct Block {
  std::int64_t begin, count;
  std::int64_t first[most_keys] = {};

  Block(const CachedQueries& work, std::int64_t from)
      : begin(from), count(work.end - from < most_keys ? work.end - from : most_keys) {
    for (std::int64_t j = 0, position = begin; j < count;) {
      std::int64_t slot = work.pages[position / work.page] * work.page + position % work.page;
      for (std::int64_t left = work.page - position % work.page; left > 0 && j < count;
           --left, ++j, ++position, ++slot)
        first[j] = slot * work.slot_stride;
    }
  }
};

// The keys of a block at positions [from, to], counted from its beginning: [first, past).
struct Seen {
  std::int64_t first, past;

  Seen(std::int64_t from, std::int64_t to, const Block& block)
      : first(clamped(from - block.begin, block.count)), past(clamped(to - block.begin + 1, block.count)) {}

 private:
  static std::int64_t clamped(std::int64_t n, std::int64_t most) { return n < 0 ? 0 : n > most ? most : n; }
};

// Whether finite(key) holds for the keys that some row does not see. Weights are 0 there, which a value that
// is not finite would turn into NaN.
template <typename Finite>
HEARTH_INLINE bool unseen_are_finite(const Block& block, const Seen& by_all, const Finite& finite) {
  for (std::int64_t j = 0; j < by_all.first; ++j)
    if (!finite(j)) return false;
  for (std::int64_t j = by_all.past; j < block.count; ++j)
    if (!finite(j)) return false;
  return true;
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

#if defined(__ARM_FEATURE_FP16_FML)
// Keys and values as they are, in f16.
class Halves {
 public:
  static bool fits(const CachedQueries& work) {
    constexpr std::int64_t few = 16;  // more are worth widening for
    constexpr float most = 65504;     // of f16
    if (work.count > few || work.features % 16 != 0) return false;
    for (std::int64_t r = 0; r < work.count; ++r)
      for (std::int64_t f = 0; f < work.features; ++f)
        if (!(std::abs(work.rows[r].query[f]) <= most)) return false;
    return true;
  }

  Halves(const CachedQueries& work, const Memory& memory)
      : work_(work),
        memory_(memory),
        queries_(reinterpret_cast<float16*>(memory.queries)),
        weights_(reinterpret_cast<float16*>(memory.rest)) {
    for (std::int64_t r = 0; r < memory.rows; ++r)
      if (r < work.count)
        narrow(work.rows[r].query, queries_ + r * work.features, work.features);
      else
        for (std::int64_t f = 0; f < work.features; ++f) queries_[r * work.features + f] = float16(0.0f);
  }

  void score(const Block& block) const {
    const auto* keys = static_cast<const float16*>(work_.keys);
    const auto* values = static_cast<const float16*>(work_.values);
    for (std::int64_t j = 0; j < block.count; j += 4) {
      const float16* key[4];
      for (int i = 0; i < 4; ++i) {
        const std::int64_t first = block.first[j + i < block.count ? j + i : block.count - 1];
        key[i] = keys + first;
        fetch_row(values + first, work_.features);  // add() comes soon
      }
      for (std::int64_t r = 0; r < memory_.rows; r += 4)
        score_tile(key, queries_ + r * work_.features, memory_.scores + j * memory_.rows + r);
    }
  }

  void add(const Block& block, const Block&, const Seen& by_all) const {
    const auto* values = static_cast<const float16*>(work_.values);
    const std::int64_t rows = memory_.rows;
    narrow(memory_.scores, weights_, block.count * rows);
    const auto finite = [&](std::int64_t key) HEARTH_LAMBDA { return is_finite(values + block.first[key]); };
    if (!unseen_are_finite(block, by_all, finite)) return add_seen(block, values);
    for (std::int64_t f = 0; f < work_.features; f += 16)
      for (std::int64_t r = 0; r < rows; r += 4)
        add_tile(block, values + f, weights_ + r, memory_.out + r * memory_.width + f);
  }

 private:
  // Four keys and four rows; a multiple of four keys is written.
  HEARTH_INLINE void score_tile(const float16* const (&key)[4], const float16* query, float* scores) const {
    const std::int64_t n = work_.features;
    float32x4_t sums[4][4] = {};
    for (std::int64_t f = 0; f < n; f += 8) {
      float16x8_t q[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) q[r] = load<float16x8_t>(query + r * n + f);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const auto features = load<float16x8_t>(key[k] + f);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r)
          sums[k][r] = vfmlalq_high_f16(vfmlalq_low_f16(sums[k][r], features, q[r]), features, q[r]);
      }
    }
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k)
      vst1q_f32(scores + k * memory_.rows,
                vpaddq_f32(vpaddq_f32(sums[k][0], sums[k][1]), vpaddq_f32(sums[k][2], sums[k][3])));
  }

  bool is_finite(const float16* value) const {
    std::uint16_t beyond = 0;
    for (std::int64_t f = 0; f < work_.features; ++f) beyond |= (value[f].bits & 0x7c00u) == 0x7c00u;
    return beyond == 0;
  }
  // As Widened::add() where a value is not finite.
  void add_seen(const Block& block, const float16* values) const {
    for (std::int64_t r = 0; r < work_.count; ++r) {
      const Seen seen(work_.rows[r].first, work_.rows[r].last, block);
      for (std::int64_t j = seen.first; j < seen.past; ++j)
        for (std::int64_t f = 0; f < work_.features; ++f)
          memory_.out[r * memory_.width + f] += static_cast<float>(weights_[j * memory_.rows + r]) *
                                                static_cast<float>(values[block.first[j] + f]);
    }
  }

  // Four rows and sixteen features.
  HEARTH_INLINE void add_tile(const Block& block, const float16* values, const float16* weights,
                              float* out) const {
    float32x4_t sums[4][4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) sums[r][v] = vld1q_f32(out + r * memory_.width + v * 4);
#pragma GCC unroll 2
    for (std::int64_t j = 0; j < block.count; ++j)
      add_key(sums, values + block.first[j], load<float16x4_t>(weights + j * memory_.rows));
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) vst1q_f32(out + r * memory_.width + v * 4, sums[r][v]);
  }
  HEARTH_INLINE static void add_key(float32x4_t (&sums)[4][4], const float16* value, float16x4_t weights) {
    const auto low = load<float16x8_t>(value), high = load<float16x8_t>(value + 8);
    [&]<int... r>(std::integer_sequence<int, r...>) HEARTH_LAMBDA {
      ((sums[r][0] = vfmlalq_lane_low_f16(sums[r][0], low, weights, r),
        sums[r][1] = vfmlalq_lane_high_f16(sums[r][1], low, weights, r),
        sums[r][2] = vfmlalq_lane_low_f16(sums[r][2], high, weights, r),
        sums[r][3] = vfmlalq_lane_high_f16(sums[r][3], high, weights, r)),
       ...);
    }
    (std::make_integer_sequence<int, 4>{});
  }

  const CachedQueries& work_;
  const Memory& memory_;
  float16 *queries_, *weights_;  // (rows, features) and (keys, rows)
};
#endif

#if defined(__AVX512F__)
HEARTH_INLINE __m512 widened(const float16* from) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}
HEARTH_INLINE __m512 widened(const bfloat16* from) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

// Few rows: keys and values are widened in registers, where they are multiplied, and features are the lanes
// of 1 as well.
template <typename T>
class InRegisters {
 public:
  static bool fits(const CachedQueries& work) {
    constexpr std::int64_t few = 16;  // more are worth widening for
    return work.count <= few && work.features % 16 == 0;
  }

  InRegisters(const CachedQueries& work, const Memory& memory) : work_(work), memory_(memory) {
    for (std::int64_t r = 0; r < memory.rows; ++r)
      for (std::int64_t f = 0; f < work.features; ++f)
        memory.queries[r * work.features + f] = r < work.count ? work.rows[r].query[f] : 0.0f;
    for (std::int64_t i = 0; i < most_keys * memory.rows; ++i) memory.scores[i] = 0;
  }

  void score(const Block& block) const {
    const T *const keys = static_cast<const T*>(work_.keys), *const values =
                                                                 static_cast<const T*>(work_.values);
    for (std::int64_t j = 0; j < block.count; j += 4) {
      const T* key[4];
      for (int i = 0; i < 4; ++i) {
        const std::int64_t first = block.first[j + i < block.count ? j + i : block.count - 1];
        key[i] = keys + first;
        fetch_row(values + first, work_.features);  // add() comes soon
      }
      for (std::int64_t r = 0; r < work_.count; r += 4)
        score_tile(key, memory_.queries + r * work_.features, memory_.scores + j * memory_.rows + r);
    }
  }

  void add(const Block& block, const Block& next, const Seen& by_all) const {
    const T *const keys = static_cast<const T*>(work_.keys), *const values =
                                                                 static_cast<const T*>(work_.values);
    const auto finite = [&](std::int64_t key) HEARTH_LAMBDA { return is_finite(values + block.first[key]); };
    if (!unseen_are_finite(block, by_all, finite)) return add_seen(block, values);
    constexpr std::int64_t together = 8;  // keys, while those of the next block are fetched
    for (std::int64_t j = 0; j < block.count; j += together) {
      const std::int64_t end = j + together < block.count ? j + together : block.count;
      for (std::int64_t k = j; k < end && k < next.count; ++k)
        fetch_row(keys + next.first[k], work_.features);
      for (std::int64_t r = 0; r < work_.count; r += 4) {
        std::int64_t f = 0;
        for (; f + 4 * lanes <= work_.features; f += 4 * lanes) add_tile<4>(block, j, end, values + f, r, f);
        for (; f < work_.features; f += lanes) add_tile<1>(block, j, end, values + f, r, f);
      }
    }
  }

 private:
  // Four keys and four rows; a multiple of four keys is written.
  HEARTH_INLINE void score_tile(const T* const (&key)[4], const float* query, float* scores) const {
    const std::int64_t n = work_.features;
    __m512 sums[4][4] = {};
    for (std::int64_t f = 0; f < n; f += lanes) {
      __m512 q[4];
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) q[r] = _mm512_loadu_ps(query + r * n + f);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        const __m512 features = widened(key[k] + f);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r) sums[k][r] = _mm512_fmadd_ps(features, q[r], sums[k][r]);
      }
    }
    __m512 of_key[4];  // in each quarter a part of its four sums
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) {
      const __m512 left = _mm512_add_ps(_mm512_unpacklo_ps(sums[k][0], sums[k][1]),
                                        _mm512_unpackhi_ps(sums[k][0], sums[k][1])),
                   right = _mm512_add_ps(_mm512_unpacklo_ps(sums[k][2], sums[k][3]),
                                         _mm512_unpackhi_ps(sums[k][2], sums[k][3]));
      of_key[k] = _mm512_add_ps(
          _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(left), _mm512_castps_pd(right))),
          _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(left), _mm512_castps_pd(right))));
    }
    const auto quarters_added = [](__m512 a, __m512 b) HEARTH_LAMBDA {
      return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    };
    const __m512 all =
        quarters_added(quarters_added(of_key[0], of_key[1]), quarters_added(of_key[2], of_key[3]));
    _mm_storeu_ps(scores, _mm512_castps512_ps128(all));
    _mm_storeu_ps(scores + memory_.rows, _mm512_extractf32x4_ps(all, 1));
    _mm_storeu_ps(scores + 2 * memory_.rows, _mm512_extractf32x4_ps(all, 2));
    _mm_storeu_ps(scores + 3 * memory_.rows, _mm512_extractf32x4_ps(all, 3));
  }

  // Keys [key, end), four rows, and some features, from the given ones on.
  template <int REGISTERS>
  HEARTH_INLINE void add_tile(const Block& block, std::int64_t key, std::int64_t end, const T* values,
                              std::int64_t row, std::int64_t feature) const {
    float* const out = memory_.out + row * memory_.width + feature;
    __m512 sums[4][REGISTERS];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < REGISTERS; ++v) sums[r][v] = _mm512_loadu_ps(out + r * memory_.width + v * lanes);
    for (std::int64_t j = key; j < end; ++j) {
      const float* weights = memory_.scores + j * memory_.rows + row;
#pragma GCC unroll 4
      for (int v = 0; v < REGISTERS; ++v) {
        const __m512 value = widened(values + block.first[j] + v * lanes);
#pragma GCC unroll 4
        for (int r = 0; r < 4; ++r)
          sums[r][v] = _mm512_fmadd_ps(_mm512_set1_ps(weights[r]), value, sums[r][v]);
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r)
#pragma GCC unroll 4
      for (int v = 0; v < REGISTERS; ++v) _mm512_storeu_ps(out + r * memory_.width + v * lanes, sums[r][v]);
  }

  bool is_finite(const T* value) const {
    constexpr std::uint16_t exponent = std::is_same_v<T, float16> ? 0x7c00 : 0x7f80;
    std::uint16_t beyond = 0;
    for (std::int64_t f = 0; f < work_.features; ++f) beyond |= (value[f].bits & exponent) == exponent;
    return beyond == 0;
  }
  // As Widened::add() where a value is not finite.
  void add_seen(const Block& block, const T* values) const {
    for (std::int64_t r = 0; r < work_.count; ++r) {
      const Seen seen(work_.rows[r].first, work_.rows[r].last, block);
      for (std::int64_t j = seen.first; j < seen.past; ++j)
        for (std::int64_t f = 0; f < work_.features; ++f)
          memory_.out[r * memory_.width + f] +=
              memory_.scores[j * memory_.rows + r] * static_cast<float>(values[block.first[j] + f]);
    }
  }

  const CachedQueries& work_;
  const Memory& memory_;
};
#endif

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
  if constexpr (sizeof(T) == 2)
    if (InRegisters<T>::fits(work)) return attend_with<InRegisters<T>>(work);
#endif
  attend_with<Widened<T>>(work);
}

}  // namespace

extern const CachedAttentionKernels cached_attention_kernels_table = {
    {attend<float16>, attend<bfloat16>, attend<float>}, attend<std::int8_t>};

}  // namespace hearth::cpu::HEARTH_ISA
