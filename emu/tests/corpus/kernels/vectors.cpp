// Vectors of 2, 3, 4, 8 and 16 of each type: loads, arithmetic, shuffles and stores.
#include "../prelude.h"

constexpr int n = 150;

template <class T, int width>
using Wide = Vector<T, width>;

// Arithmetic of small integers is that of their type in vectors: it wraps.
template <class T, int width>
Wide<T, width> combine(Wide<T, width> a, Wide<T, width> b) {
#if CORPUS_HOST
  // clang 19 rounds vectors of bf16 on some hosts only at the end: one by one, each operation is rounded.
  if constexpr (sizeof(T) == 2 && is_float<T>) {
    for (int k = 0; k < width; ++k) {
      const T product = a[k] * b[k], difference = a[k] - b[k];
      a[k] = product + difference;
    }
    return a;
  }
#endif
  if constexpr (is_float<T>)
    return a * b + (a - b);
  else
    return a * b + ((a ^ b) - (a & b));
}

// Element by element, with indices known when compiling: clang 19 has no dynamic ones for three elements at
// -O0.
template <int k = 0, class U, int width, class T>
void load_elements(Wide<U, width>& vector, const T* from) {
  vector[k] = static_cast<U>(from[k]);
  if constexpr (k + 1 < width) load_elements<k + 1, U, width>(vector, from);
}
template <int k = 0, class U, int width, class T>
void store_elements(const Wide<U, width>& vector, T* to) {
  to[k] = static_cast<T>(vector[k]);
  if constexpr (k + 1 < width) store_elements<k + 1, U, width>(vector, to);
}

// Unsigned arithmetic throughout: overflow of signed vectors is not defined.
#define VECTOR(T, U, width)                                                   \
  KERNEL vector_##T##x##width(T* result, const T* a, const T* b, int count) { \
    const int i = static_cast<int>(global_x());                               \
    if (i >= count) return;                                                   \
    Wide<U, width> x, y;                                                      \
    load_elements<0, U, width>(x, a + i * width);                             \
    load_elements<0, U, width>(y, b + i * width);                             \
    const Wide<U, width> z = combine<U, width>(x, y);                         \
    store_elements<0, U, width>(z, result + i * width);                       \
  }                                                                           \
  CASE(vector_##T##x##width, over(n, 64), out<T>(n * width), any<T>(n * width), any<T>(n * width), n)
#define VECTORS(T, U) VECTOR(T, U, 2) VECTOR(T, U, 3) VECTOR(T, U, 4) VECTOR(T, U, 8) VECTOR(T, U, 16)
VECTORS(f16, f16)
VECTORS(bf16, bf16)
VECTORS(f32, f32)
VECTORS(f64, f64)
VECTORS(i8, u8)
VECTORS(u8, u8)
VECTORS(i16, u16)
VECTORS(u16, u16)
VECTORS(i32, u32)
VECTORS(u32, u32)
VECTORS(i64, u64)
VECTORS(u64, u64)

// Whole vectors through memory: the widest loads and stores there are.
#define VECTOR_MEMORY(T, width)                                                                      \
  KERNEL vector_copy_##T##x##width(Vector<T, width>* result, const Vector<T, width>* a, int count) { \
    const int i = static_cast<int>(global_x());                                                      \
    if (i < count) result[count - 1 - i] = a[i] + a[count - 1 - i];                                  \
  }                                                                                                  \
  CASE(vector_copy_##T##x##width, over(n, 64), out<T>(n * width), any<T>(n * width), n)
#define VECTOR_MEMORIES(T, ...) \
  VECTOR_MEMORY(T, 2) VECTOR_MEMORY(T, 4) VECTOR_MEMORY(T, 8) VECTOR_MEMORY(T, 16)
VECTOR_MEMORIES(f16)
VECTOR_MEMORIES(f32)
VECTOR_MEMORIES(f64)
VECTOR_MEMORIES(u8)
VECTOR_MEMORIES(u16)
VECTOR_MEMORIES(u32)
VECTOR_MEMORIES(u64)

// Comparisons of vectors make masks, which select.
#define VECTOR_SELECT(T, width, M)                                                        \
  KERNEL vector_select_##T##x##width(Vector<T, width>* result, const Vector<T, width>* a, \
                                     const Vector<T, width>* b, int count) {              \
    const int i = static_cast<int>(global_x());                                           \
    if (i >= count) return;                                                               \
    const Vector<T, width> x = a[i], y = b[i];                                            \
    const Vector<M, width> mask = (x < y) | (x == -y);                                    \
    result[i] = mask ? x : y;                                                             \
  }                                                                                       \
  CASE(vector_select_##T##x##width, over(n, 64), out<T>(n * width), any<T>(n * width), any<T>(n * width), n)
VECTOR_SELECT(f32, 4, i32)
VECTOR_SELECT(f32, 8, i32)
VECTOR_SELECT(f64, 2, long)
VECTOR_SELECT(u32, 4, i32)
VECTOR_SELECT(u16, 2, i16)
VECTOR_SELECT(u16, 8, i16)
VECTOR_SELECT(f16, 2, i16)
VECTOR_SELECT(f16, 8, i16)

// Elements in another order, known and not known when compiling.
KERNEL vector_shuffle(u32* result, const Vector<u32, 4>* a, const Vector<u16, 8>* b, const u32* where,
                      int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const Vector<u32, 4> x = __builtin_shufflevector(a[i], a[(i + 1) % count], 3, 6, 1, 4);
  const Vector<u16, 8> y = __builtin_shufflevector(b[i], b[i], 7, 6, 1, 0, 3, 2, 5, 4);
  result[i] = x.x * 3 + x.y * 5 + x.z * 7 + x[where[i] % 4] + y[where[i] / 4 % 8] * 65537u + y.s0 + y.s7;
}
CASE(vector_shuffle, over(n, 64), out<u32>(n), any<u32>(4 * n), any<u16>(8 * n), any<u32>(n), n)

// Writes at an index that differs between lanes.
KERNEL vector_insert(Vector<f32, 16>* result, const Vector<f32, 16>* a, const u32* where, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  Vector<f32, 16> x = a[i];
  x[where[i] % 16] = 42;
  x[(where[i] >> 4) % 16] += 1;
  result[i] = x;
}
CASE(vector_insert, over(n, 64), out<f32>(16 * n), any<f32>(16 * n), any<u32>(n), n)

KERNEL vector_convert(Vector<i32, 4>* integers, Vector<f16, 4>* halves, const Vector<f32, 4>* a, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  integers[i] = __builtin_convertvector(a[i], Vector<i32, 4>);
  halves[i] = __builtin_convertvector(a[i], Vector<f16, 4>);
}
CASE(vector_convert, over(n, 64), out<i32>(4 * n), out<f16>(4 * n), between<f32>(4 * n, -100000, 100000), n)

KERNEL vector_reduce(u32* result, const Vector<u32, 16>* a, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  result[i] = __builtin_reduce_add(a[i]) ^ __builtin_reduce_max(a[i]) ^ __builtin_reduce_min(a[i]) ^
              __builtin_reduce_xor(a[i]) ^ __builtin_reduce_or(a[i]);
}
CASE(vector_reduce, over(n, 64), out<u32>(n), any<u32>(16 * n), n)

// bytes to floats and back, as in images
KERNEL pixels(Vector<u8, 4>* result, const Vector<u8, 4>* a, const Vector<u8, 4>* b, f32 weight, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const Vector<f32, 4> x = __builtin_convertvector(a[i], Vector<f32, 4>),
                       y = __builtin_convertvector(b[i], Vector<f32, 4>);
  const Vector<f32, 4> blended = x * weight + y * (1 - weight) + 0.5f;
  result[i] = __builtin_convertvector(blended, Vector<u8, 4>);
}
CASE(pixels, over(n, 64), out<u8>(4 * n), any<u8>(4 * n), any<u8>(4 * n), 0.25f, n)
