// Whole algorithms: products of matrices, norms, softmax, attention, sorting, quantised weights and more.
#include "../prelude.h"

// ---- Products of matrices through tiles in LDS ----

constexpr int tile = 16;
#define MATMUL(T, Sum)                                                                                       \
  KERNEL matmul_##T(Sum* c, const T* a, const T* b, int m, int columns, int depth) {                         \
    SHARED T tile_a[tile][tile + 1], tile_b[tile][tile];                                                     \
    const int x = static_cast<int>(thread_x()), y = static_cast<int>(thread_y());                            \
    const int row = static_cast<int>(block_y()) * tile + y, column = static_cast<int>(block_x()) * tile + x; \
    Sum sum = 0;                                                                                             \
    for (int k = 0; k < depth; k += tile) {                                                                  \
      tile_a[y][x] = row < m && k + x < depth ? a[row * depth + k + x] : T(0);                               \
      tile_b[y][x] = k + y < depth && column < columns ? b[(k + y) * columns + column] : T(0);               \
      barrier();                                                                                             \
      for (int j = 0; j < tile; ++j) sum += static_cast<Sum>(tile_a[y][j]) * static_cast<Sum>(tile_b[j][x]); \
      barrier();                                                                                             \
    }                                                                                                        \
    if (row < m && column < columns) c[row * columns + column] = sum;                                        \
  }                                                                                                          \
  CASE(matmul_##T, shape({2, 2, 1}, {tile, tile, 1}).together(), out<Sum>(23 * 29),                          \
       between<T>(23 * 37, -2, 2), between<T>(37 * 29, -2, 2), 23, 29, 37)
MATMUL(f16, f32)
MATMUL(bf16, f32)
MATMUL(f32, f32)
MATMUL(f64, f64)
MATMUL(i8, i32)
MATMUL(i16, i32)
MATMUL(i32, i32)
MATMUL(i64, i64)

// Each thread makes four by four elements, fused.
KERNEL matmul_register_tiles(f32* c, const f32* a, const f32* b, int m, int columns, int depth) {
  const int row = static_cast<int>(global_y()) * 4, column = static_cast<int>(global_x()) * 4;
  f32 sum[4][4] = {};
  for (int k = 0; k < depth; ++k)
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        sum[i][j] = __builtin_fmaf(a[(row + i) * depth + k], b[k * columns + column + j], sum[i][j]);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      if (row + i < m) c[(row + i) * columns + column + j] = sum[i][j];
}
CASE(matmul_register_tiles, shape({1, 1, 1}, {8, 8, 1}), out<f32>(32 * 32), between<f32>(32 * 20, -1, 1),
     between<f32>(20 * 32, -1, 1), 32, 32, 20)

// 32 threads per row of a matrix of 4-bit weights: blocks of 32 with a scale, low nibbles first.
struct Block4 {
  f16 scale;
  u8 nibbles[16];
};
KERNEL matvec_4bit(f32* result, const Block4* weights, const f32* values, int blocks) {
  const u32 row = block_x(), lane = thread_x();
  f32 sum = 0;
  for (u32 k = lane; k < static_cast<u32>(blocks); k += 32) {
    const Block4& block = weights[row * static_cast<u32>(blocks) + k];
    const f32 scale = block.scale;
    for (u32 j = 0; j < 16; ++j) {
      const u8 pair = block.nibbles[j];
      sum += scale * static_cast<f32>((pair & 15) - 8) * values[k * 32 + j];
      sum += scale * static_cast<f32>((pair >> 4) - 8) * values[k * 32 + j + 16];
    }
  }
  for (u32 mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
  if (lane == 0) result[row] = sum;
}
#if CORPUS_HOST
void fill_blocks(std::byte* to, std::size_t bytes, uint64_t seed) {
  for (std::size_t i = 0; i < bytes / sizeof(Block4); ++i) {
    Block4 block;
    block.scale = static_cast<f16>(0.01f * static_cast<f32>(1 + (seed + i) % 37));
    for (u8& pair : block.nibbles)
      pair = static_cast<u8>((seed = seed * 6364136223846793005ull + 1442695040888963407ull) >> 56);
    std::memcpy(to + i * sizeof block, &block, sizeof block);
  }
}
#endif
CASE(matvec_4bit, shape({5, 1, 1}, {32, 1, 1}).together(), out<f32>(5), custom<Block4>(5 * 70, fill_blocks),
     between<f32>(70 * 32, -1, 1), 70)

// int8 with scales: quantise a row, then take products with another.
KERNEL quantise_row(i8* quantised, f32* scales, const f32* values, int columns) {
  SHARED f32 largest[64];
  const u32 i = thread_x(), row = block_x();
  f32 most = 0;
  for (u32 k = i; k < static_cast<u32>(columns); k += 64) {
    const f32 magnitude = __builtin_fabsf(values[row * static_cast<u32>(columns) + k]);
    most = magnitude > most ? magnitude : most;
  }
  largest[i] = most;
  barrier();
  for (u32 step = 32; step > 0; step /= 2) {
    if (i < step) largest[i] = largest[i] > largest[i + step] ? largest[i] : largest[i + step];
    barrier();
  }
  const f32 scale = largest[0] / 127;
  if (i == 0) scales[row] = scale;
  for (u32 k = i; k < static_cast<u32>(columns); k += 64)
    quantised[row * static_cast<u32>(columns) + k] =
        static_cast<i8>(__builtin_rintf(values[row * static_cast<u32>(columns) + k] / scale));
}
CASE(quantise_row, shape({4, 1, 1}, {64, 1, 1}).together(), out<i8>(4 * 150), out<f32>(4),
     between<f32>(4 * 150, -3, 3), 150)

// ---- Norms and softmax ----

#define LAYER_NORM(T)                                                                                        \
  KERNEL layer_norm_##T(T* result, const T* values, const T* gain, const T* bias, int columns) {             \
    SHARED f32 sums[64], squares[64];                                                                        \
    const u32 i = thread_x(), width = static_cast<u32>(columns);                                             \
    const T* row = values + block_x() * width;                                                               \
    f32 sum = 0, square = 0;                                                                                 \
    for (u32 k = i; k < width; k += 64) {                                                                    \
      const f32 value = static_cast<f32>(row[k]);                                                            \
      sum += value;                                                                                          \
      square += value * value;                                                                               \
    }                                                                                                        \
    sums[i] = sum;                                                                                           \
    squares[i] = square;                                                                                     \
    barrier();                                                                                               \
    for (u32 step = 32; step > 0; step /= 2) {                                                               \
      if (i < step) {                                                                                        \
        sums[i] += sums[i + step];                                                                           \
        squares[i] += squares[i + step];                                                                     \
      }                                                                                                      \
      barrier();                                                                                             \
    }                                                                                                        \
    const f32 mean = sums[0] / static_cast<f32>(width);                                                      \
    const f32 inverse = 1 / __builtin_sqrtf(squares[0] / static_cast<f32>(width) - mean * mean + 1e-5f);     \
    for (u32 k = i; k < width; k += 64)                                                                      \
      result[block_x() * width + k] =                                                                        \
          static_cast<T>((static_cast<f32>(row[k]) - mean) * inverse * static_cast<f32>(gain[k]) +           \
                         static_cast<f32>(bias[k]));                                                         \
  }                                                                                                          \
  CASE(layer_norm_##T, shape({3, 1, 1}, {64, 1, 1}).together(), out<T>(3 * 100), between<T>(3 * 100, -3, 5), \
       between<T>(100, 0, 2), between<T>(100, -1, 1), 100)
LAYER_NORM(f16)
LAYER_NORM(bf16)
LAYER_NORM(f32)

#define SOFTMAX(T, tolerance)                                                                   \
  KERNEL softmax_##T(T* result, const T* values, int columns) {                                 \
    SHARED f32 cells[64];                                                                       \
    const u32 i = thread_x(), width = static_cast<u32>(columns);                                \
    const T* row = values + block_x() * width;                                                  \
    f32 most = -1e30f;                                                                          \
    for (u32 k = i; k < width; k += 64)                                                         \
      most = static_cast<f32>(row[k]) > most ? static_cast<f32>(row[k]) : most;                 \
    cells[i] = most;                                                                            \
    barrier();                                                                                  \
    for (u32 step = 32; step > 0; step /= 2) {                                                  \
      if (i < step) cells[i] = cells[i] > cells[i + step] ? cells[i] : cells[i + step];         \
      barrier();                                                                                \
    }                                                                                           \
    most = cells[0];                                                                            \
    barrier();                                                                                  \
    f32 sum = 0;                                                                                \
    for (u32 k = i; k < width; k += 64) sum += __builtin_expf(static_cast<f32>(row[k]) - most); \
    cells[i] = sum;                                                                             \
    barrier();                                                                                  \
    for (u32 step = 32; step > 0; step /= 2) {                                                  \
      if (i < step) cells[i] += cells[i + step];                                                \
      barrier();                                                                                \
    }                                                                                           \
    for (u32 k = i; k < width; k += 64)                                                         \
      result[block_x() * width + k] =                                                           \
          static_cast<T>(__builtin_expf(static_cast<f32>(row[k]) - most) / cells[0]);           \
  }                                                                                             \
  CASE(softmax_##T, shape({3, 1, 1}, {64, 1, 1}).together(), out<T>(3 * 100).within(tolerance), \
       between<T>(3 * 100, -8, 8), 100)
SOFTMAX(f16, 1)
SOFTMAX(bf16, 1)
SOFTMAX(f32, 16)

// ---- Attention in the manner of flash attention: keys and values by tiles, the softmax as it goes ----

constexpr int head = 32, keys_per_tile = 16;
#define ATTENTION(T, tolerance)                                                                             \
  KERNEL attention_##T(T* result, const T* queries, const T* keys, const T* values, int length,             \
                       int causal) {                                                                        \
    SHARED T tile_k[keys_per_tile][head], tile_v[keys_per_tile][head];                                      \
    const int query = static_cast<int>(global_x());                                                         \
    const int at = query < length ? query : length - 1;                                                     \
    f32 own[head], sum[head];                                                                               \
    for (int d = 0; d < head; ++d) {                                                                        \
      own[d] = static_cast<f32>(queries[at * head + d]) * 0.17677669f;                                      \
      sum[d] = 0;                                                                                           \
    }                                                                                                       \
    f32 most = -1e30f, total = 0;                                                                           \
    for (int first = 0; first < length; first += keys_per_tile) {                                           \
      for (u32 k = thread_x(); k < keys_per_tile * head; k += block_size_x()) {                             \
        const int row = first + static_cast<int>(k) / head;                                                 \
        tile_k[k / head][k % head] = row < length ? keys[row * head + static_cast<int>(k) % head] : T(0);   \
        tile_v[k / head][k % head] = row < length ? values[row * head + static_cast<int>(k) % head] : T(0); \
      }                                                                                                     \
      barrier();                                                                                            \
      for (int k = 0; k < keys_per_tile; ++k) {                                                             \
        if (first + k >= length || (causal != 0 && first + k > at)) continue;                               \
        f32 score = 0;                                                                                      \
        for (int d = 0; d < head; ++d) score += own[d] * static_cast<f32>(tile_k[k][d]);                    \
        const f32 larger = score > most ? score : most;                                                     \
        const f32 keep = __builtin_expf(most - larger), weight = __builtin_expf(score - larger);            \
        most = larger;                                                                                      \
        total = total * keep + weight;                                                                      \
        for (int d = 0; d < head; ++d) sum[d] = sum[d] * keep + weight * static_cast<f32>(tile_v[k][d]);    \
      }                                                                                                     \
      barrier();                                                                                            \
    }                                                                                                       \
    if (query < length)                                                                                     \
      for (int d = 0; d < head; ++d) result[query * head + d] = static_cast<T>(sum[d] / total);             \
  }                                                                                                         \
  CASE(attention_##T, shape({2, 1, 1}, {32, 1, 1}).together(), out<T>(45 * head).near(tolerance),           \
       between<T>(45 * head, -1, 1), between<T>(45 * head, -1, 1), between<T>(45 * head, -1, 1), 45, 1)
ATTENTION(f16, 1e-3)
ATTENTION(bf16, 8e-3)
ATTENTION(f32, 2e-6)

// Rotation of pairs by a table of cosines and sines.
KERNEL rope(f32* values, const Vector<f32, 2>* table, int pairs, int rows) {
  const int pair = static_cast<int>(global_x()), row = static_cast<int>(global_y());
  if (pair >= pairs || row >= rows) return;
  Vector<f32, 2>* at = reinterpret_cast<Vector<f32, 2>*>(values) + row * pairs + pair;
  const Vector<f32, 2> x = *at, t = table[pair];
  *at = Vector<f32, 2>{x.x * t.x - x.y * t.y, x.x * t.y + x.y * t.x};
}
CASE(rope, shape({1, 3, 1}, {32, 4, 1}), between<f32>(10 * 60, -2, 2), between<f32>(60, -1, 1), 30, 10)

// ---- Sorting ----

#define BITONIC(T, ...)                                \
  KERNEL bitonic_sort_##T(T* values) {                 \
    SHARED T cells[128];                               \
    const u32 i = thread_x();                          \
    cells[i] = values[global_x()];                     \
    barrier();                                         \
    for (u32 size = 2; size <= 128; size *= 2)         \
      for (u32 step = size / 2; step > 0; step /= 2) { \
        const u32 other = i ^ step;                    \
        if (other > i) {                               \
          const bool upwards = (i & size) == 0;        \
          const T a = cells[i], b = cells[other];      \
          if ((a > b) == upwards) {                    \
            cells[i] = b;                              \
            cells[other] = a;                          \
          }                                            \
        }                                              \
        barrier();                                     \
      }                                                \
    values[global_x()] = cells[i];                     \
  }                                                    \
  CASE(bitonic_sort_##T, shape({2, 1, 1}, {128, 1, 1}).together(), between<T>(256, -100, 100))
BITONIC(f32)
BITONIC(i32)
BITONIC(i64)
BITONIC(i16)

// ---- Others ----

KERNEL convolution(f32* result, const f32* image, const f32* filter, int width, int height) {
  const int x = static_cast<int>(global_x()), y = static_cast<int>(global_y());
  if (x >= width || y >= height) return;
  f32 sum = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx) {
      const int sx = x + dx, sy = y + dy;
      if (sx >= 0 && sx < width && sy >= 0 && sy < height)
        sum += image[sy * width + sx] * filter[(dy + 1) * 3 + dx + 1];
    }
  result[y * width + x] = sum;
}
CASE(convolution, shape({3, 4, 1}, {8, 4, 1}), out<f32>(21 * 15), between<f32>(21 * 15, -1, 1),
     between<f32>(9, -1, 1), 21, 15)

KERNEL mandelbrot(u32* result, f32 left, f32 top, f32 step, int width) {
  const int x = static_cast<int>(global_x()), y = static_cast<int>(global_y());
  if (x >= width) return;
  const f32 cr = left + static_cast<f32>(x) * step, ci = top + static_cast<f32>(y) * step;
  f32 r = 0, i = 0;
  u32 rounds = 0;
  while (r * r + i * i < 4 && rounds < 60) {
    const f32 next = r * r - i * i + cr;
    i = 2 * r * i + ci;
    r = next;
    ++rounds;
  }
  result[y * width + x] = rounds;
}
CASE(mandelbrot, shape({2, 5, 1}, {16, 4, 1}), out<u32>(30 * 20), -2.0f, -1.0f, 0.1f, 30)

KERNEL life(u8* result, const u8* cells, int width, int height) {
  const int x = static_cast<int>(global_x()), y = static_cast<int>(global_y());
  if (x >= width || y >= height) return;
  int neighbours = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx)
      if ((dx | dy) != 0)
        neighbours += cells[(y + dy + height) % height * width + (x + dx + width) % width] & 1;
  result[y * width + x] = neighbours == 3 || (neighbours == 2 && (cells[y * width + x] & 1) != 0);
}
CASE(life, shape({3, 3, 1}, {8, 8, 1}), out<u8>(23 * 19), any<u8>(23 * 19), 23, 19)

KERNEL bodies(f32* result, const Vector<f32, 4>* bodies, int count) {
  SHARED Vector<f32, 4> near_by[64];
  const int i = static_cast<int>(global_x());
  const Vector<f32, 4> own = bodies[i < count ? i : 0];
  f32 x = 0, y = 0, z = 0;
  for (int first = 0; first < count; first += 64) {
    near_by[thread_x()] =
        bodies[first + static_cast<int>(thread_x()) < count ? first + static_cast<int>(thread_x()) : 0];
    barrier();
    for (int k = 0; k < 64 && first + k < count; ++k) {
      const Vector<f32, 4> d = near_by[k] - own;
      const f32 distance = d.x * d.x + d.y * d.y + d.z * d.z + 0.01f;
      const f32 pull = near_by[k].w / (distance * __builtin_sqrtf(distance));
      x += d.x * pull;
      y += d.y * pull;
      z += d.z * pull;
    }
    barrier();
  }
  if (i >= count) return;
  result[3 * i] = x;
  result[3 * i + 1] = y;
  result[3 * i + 2] = z;
}
CASE(bodies, shape({2, 1, 1}, {64, 1, 1}).together(), out<f32>(300), between<f32>(400, -5, 5), 100)

// Philox: four random words from a counter and a key.
KERNEL philox(Vector<u32, 4>* result, u32 key_low, u32 key_high, int count) {
  const u32 i = global_x();
  if (i >= static_cast<u32>(count)) return;
  u32 c0 = i, c1 = 1, c2 = 2, c3 = 3, k0 = key_low, k1 = key_high;
  for (int round = 0; round < 10; ++round) {
    const u64 a = u64(0xd2511f53u) * c0, b = u64(0xcd9e8d57u) * c2;
    const u32 n0 = static_cast<u32>(b >> 32) ^ c1 ^ k0, n2 = static_cast<u32>(a >> 32) ^ c3 ^ k1;
    c1 = static_cast<u32>(b);
    c3 = static_cast<u32>(a);
    c0 = n0;
    c2 = n2;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  result[i] = Vector<u32, 4>{c0, c1, c2, c3};
}
CASE(philox, shape({3, 1, 1}, {96, 1, 1}), out<u32>(4 * 250), 0xdeadbeefu, 42u, 250)

// A transform of 64 points in LDS, with a table of roots.
KERNEL fourier(Vector<f32, 2>* values, const Vector<f32, 2>* roots) {
  SHARED Vector<f32, 2> cells[64];
  const u32 i = thread_x();
  u32 reversed = 0;
  for (u32 bit = 0; bit < 6; ++bit) reversed |= (i >> bit & 1) << (5 - bit);
  cells[reversed] = values[block_x() * 64 + i];
  barrier();
  for (u32 half = 1; half < 64; half *= 2) {
    if (i < 32) {
      const u32 k = i % half, at = i / half * half * 2 + k;
      const Vector<f32, 2> root = roots[k * (32 / half)], a = cells[at], b = cells[at + half];
      const Vector<f32, 2> turned{b.x * root.x - b.y * root.y, b.x * root.y + b.y * root.x};
      cells[at] = a + turned;
      cells[at + half] = a - turned;
    }
    barrier();
  }
  values[block_x() * 64 + i] = cells[i];
}
CASE(fourier, shape({2, 1, 1}, {64, 1, 1}).together(), between<f32>(256, -1, 1), between<f32>(64, -1, 1))

// The adam step of an optimiser, in mixed precision.
KERNEL adam(bf16* weights, f32* first, f32* second, const f16* gradients, f32 rate, f32 correction,
            int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const f32 g = static_cast<f32>(gradients[i]);
  const f32 m = 0.9f * first[i] + 0.1f * g, v = 0.999f * second[i] + 0.001f * g * g;
  first[i] = m;
  second[i] = v;
  weights[i] =
      static_cast<bf16>(static_cast<f32>(weights[i]) - rate * m / (__builtin_sqrtf(v * correction) + 1e-8f));
}
CASE(adam, over(300), between<bf16>(300, -1, 1), between<f32>(300, -1, 1), between<f32>(300, 0, 1),
     between<f16>(300, -2, 2), 0.01f, 1.5f, 300)

// Edit distance of two short texts: a table on the stack.
KERNEL edit_distance(u32* result, const u8* texts, int length, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u8 row[25];
  const u8 *a = texts + i * length, *b = texts + (i + 1) % count * length;
  for (int k = 0; k <= length; ++k) row[k] = static_cast<u8>(k);
  for (int y = 1; y <= length; ++y) {
    u8 corner = row[0];
    row[0] = static_cast<u8>(y);
    for (int x = 1; x <= length; ++x) {
      const u8 above = row[x];
      u8 best = static_cast<u8>(corner + ((a[y - 1] & 3) != (b[x - 1] & 3)));
      if (above + 1 < best) best = static_cast<u8>(above + 1);
      if (row[x - 1] + 1 < best) best = static_cast<u8>(row[x - 1] + 1);
      row[x] = best;
      corner = above;
    }
  }
  result[i] = row[length];
}
CASE(edit_distance, over(50, 32), out<u32>(50), any<u8>(50 * 20), 20, 50)

// Lights of a small scene: spheres met by rays.
KERNEL rays(f32* result, const Vector<f32, 4>* spheres, int number, int width) {
  const int x = static_cast<int>(global_x()), y = static_cast<int>(global_y());
  if (x >= width) return;
  const f32 dx = (static_cast<f32>(x) - 12) * 0.1f, dy = (static_cast<f32>(y) - 8) * 0.1f;
  const f32 scale = 1 / __builtin_sqrtf(dx * dx + dy * dy + 1);
  f32 nearest = 1e9f;
  int hit = -1;
  for (int k = 0; k < number; ++k) {
    const Vector<f32, 4> s = spheres[k];
    const f32 b = (s.x * dx + s.y * dy + s.z) * scale;
    const f32 c = s.x * s.x + s.y * s.y + s.z * s.z - s.w * s.w;
    const f32 discriminant = b * b - c;
    if (discriminant < 0) continue;
    const f32 distance = b - __builtin_sqrtf(discriminant);
    if (distance > 0 && distance < nearest) {
      nearest = distance;
      hit = k;
    }
  }
  result[y * width + x] = hit < 0 ? 0 : nearest + static_cast<f32>(hit) * 100;
}
CASE(rays, shape({2, 4, 1}, {16, 4, 1}), out<f32>(25 * 16), between<f32>(4 * 12, -3, 3), 12, 25)
