// Sums, products, extremes and scans of blocks, of all twelve types.
#include "../prelude.h"

constexpr int n = 500, block = 96;

template <class T>
T wrapping_sum(T a, T b) {
  if constexpr (is_float<T>)
    return a + b;
  else
    return static_cast<T>(u64(a) + u64(b));
}
template <class T>
T wrapping_product(T a, T b) {
  if constexpr (is_float<T>)
    return a * b;
  else
    return static_cast<T>(u64(a) * u64(b));
}
template <class T>
T largest(T a, T b) {
  return a > b ? a : b;
}
template <class T>
T smallest(T a, T b) {
  return a < b ? a : b;
}

// A tree in LDS; blocks are no power of two.
#define BLOCK_REDUCE(T, operation, start)                                                   \
  KERNEL block_##operation##_##T(T* result, const T* values, int count) {                   \
    SHARED T partial[128];                                                                  \
    const u32 i = thread_x();                                                               \
    T value = start;                                                                        \
    for (u32 k = global_x(); k < static_cast<u32>(count); k += blocks_x() * block_size_x()) \
      value = operation<T>(value, values[k]);                                               \
    partial[i] = value;                                                                     \
    if (i + block_size_x() < 128) partial[i + block_size_x()] = start;                      \
    barrier();                                                                              \
    for (u32 step = 64; step > 0; step /= 2) {                                              \
      if (i < step) partial[i] = operation<T>(partial[i], partial[i + step]);               \
      barrier();                                                                            \
    }                                                                                       \
    if (i == 0) result[block_x()] = partial[0];                                             \
  }                                                                                         \
  CASE(block_##operation##_##T, shape({2, 1, 1}, {block, 1, 1}).together(), out<T>(2), between<T>(n, 0, 3), n)
#define SUM(T, ...) BLOCK_REDUCE(T, wrapping_sum, T(0))
#define PRODUCT(T, ...) BLOCK_REDUCE(T, wrapping_product, T(1))
#define LARGEST(T, ...) BLOCK_REDUCE(T, largest, T(1))
#define SMALLEST(T, ...) BLOCK_REDUCE(T, smallest, T(2))
ALL_TYPES(SUM, )
ALL_TYPES(PRODUCT, )
ALL_TYPES(LARGEST, )
ALL_TYPES(SMALLEST, )

#define BLOCK_SCAN(T, ...)                                                                            \
  KERNEL block_scan_##T(T* result, const T* values) {                                                 \
    SHARED T cells[2][block];                                                                         \
    const u32 i = thread_x();                                                                         \
    u32 side = 0;                                                                                     \
    cells[0][i] = values[global_x()];                                                                 \
    for (u32 distance = 1; distance < block; distance *= 2) {                                         \
      barrier();                                                                                      \
      const T value = cells[side][i];                                                                 \
      cells[1 - side][i] = i >= distance ? wrapping_sum<T>(value, cells[side][i - distance]) : value; \
      side = 1 - side;                                                                                \
    }                                                                                                 \
    result[global_x()] = cells[side][i];                                                              \
  }                                                                                                   \
  CASE(block_scan_##T, shape({3, 1, 1}, {block, 1, 1}).together(), out<T>(3 * block),                 \
       between<T>(3 * block, 0, 2))
ALL_TYPES(BLOCK_SCAN, )

// Where the largest is: the first of equals.
#define ARGMAX(T, ...)                                                                               \
  KERNEL argmax_##T(u32* result, const T* values, int columns) {                                     \
    SHARED T best[64];                                                                               \
    SHARED u32 where[64];                                                                            \
    const u32 i = thread_x();                                                                        \
    const T* row = values + block_x() * static_cast<u32>(columns);                                   \
    T value = row[i % static_cast<u32>(columns)];                                                    \
    u32 at = i % static_cast<u32>(columns);                                                          \
    for (u32 k = i; k < static_cast<u32>(columns); k += 64)                                          \
      if (row[k] > value) {                                                                          \
        value = row[k];                                                                              \
        at = k;                                                                                      \
      }                                                                                              \
    best[i] = value;                                                                                 \
    where[i] = at;                                                                                   \
    barrier();                                                                                       \
    for (u32 step = 32; step > 0; step /= 2) {                                                       \
      if (i < step &&                                                                                \
          (best[i + step] > best[i] || (best[i + step] == best[i] && where[i + step] < where[i]))) { \
        best[i] = best[i + step];                                                                    \
        where[i] = where[i + step];                                                                  \
      }                                                                                              \
      barrier();                                                                                     \
    }                                                                                                \
    if (i == 0) result[block_x()] = where[0];                                                        \
  }                                                                                                  \
  CASE(argmax_##T, shape({3, 1, 1}, {64, 1, 1}).together(), out<u32>(3), between<T>(3 * 90, 0, 100), 90)
ALL_TYPES(ARGMAX, )

// One thread per row: long chains of additions in the type itself, and in a wider one.
#define ROWS(T, Wide)                                                                  \
  KERNEL row_sums_##T(T* narrow, Wide* wide, const T* values, int rows, int columns) { \
    const int row = static_cast<int>(global_x());                                      \
    if (row >= rows) return;                                                           \
    T sum = 0;                                                                         \
    Wide total = 0;                                                                    \
    for (int k = 0; k < columns; ++k) {                                                \
      sum = wrapping_sum<T>(sum, values[row * columns + k]);                           \
      total = wrapping_sum<Wide>(total, static_cast<Wide>(values[row * columns + k])); \
    }                                                                                  \
    narrow[row] = sum;                                                                 \
    wide[row] = total;                                                                 \
  }                                                                                    \
  CASE(row_sums_##T, over(40, 32), out<T>(40), out<Wide>(40), any<T>(40 * 17), 40, 17)
ROWS(f16, f32)
ROWS(bf16, f32)
ROWS(f32, f64)
ROWS(f64, f64)
ROWS(i8, i32)
ROWS(u8, u32)
ROWS(i16, i32)
ROWS(u16, u32)
ROWS(i32, i64)
ROWS(u32, u64)
ROWS(i64, i64)
ROWS(u64, u64)

// Several waves: each reduces by shuffles, the first one what they found.
KERNEL two_stage_sum(f32* result, const f32* values, int count) {
  SHARED f32 of_wave[32];
  const u32 i = thread_x();
  f32 sum = 0;
  for (u32 k = global_x(); k < static_cast<u32>(count); k += blocks_x() * block_size_x()) sum += values[k];
  for (u32 mask = wave_size / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (lane_id() == 0) of_wave[i / wave_size] = sum;
  barrier();
  if (i < wave_size) {
    sum = i < block_size_x() / wave_size ? of_wave[i] : 0;
    for (u32 mask = wave_size / 2; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
    if (i == 0) result[block_x()] = sum;
  }
}
CASE(two_stage_sum, shape({2, 1, 1}, {256, 1, 1}).together(), out<f32>(2), between<f32>(1500, -1, 1), 1500)

// Mean and variance in one pass.
KERNEL welford(f64* result, const f32* values, int rows, int columns) {
  const int row = static_cast<int>(global_x());
  if (row >= rows) return;
  f64 mean = 0, squares = 0;
  for (int k = 0; k < columns; ++k) {
    const f64 delta = values[row * columns + k] - mean;
    mean += delta / (k + 1);
    squares += delta * (values[row * columns + k] - mean);
  }
  result[2 * row] = mean;
  result[2 * row + 1] = squares / (columns - 1);
}
CASE(welford, over(35, 32), out<f64>(70), between<f32>(35 * 20, -5, 5), 35, 20)
