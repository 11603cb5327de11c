// Access to memory: gathers and scatters, strides, addresses that are not aligned, arguments, variables, LDS.
#include "../prelude.h"

constexpr int n = 333;

// ---- Every type: copy, gather, scatter, strides, transposition ----

#define GATHER(T, ...)                                                                  \
  KERNEL gather_##T(T* result, const T* table, const u32* where, u32 size, int count) { \
    const int i = static_cast<int>(global_x());                                         \
    if (i >= count) return;                                                             \
    const u32 at = where[i];                                                            \
    result[i] = at < size ? table[at] : T(7);                                           \
  }                                                                                     \
  CASE(gather_##T, over(n), out<T>(n), any<T>(200), between<u32>(n, 0, 260), 200, n)
ALL_TYPES(GATHER, )

// 257 is prime: every place is written once.
#define SCATTER(T, ...)                                              \
  KERNEL scatter_##T(T* result, const T* values, int count) {        \
    const int i = static_cast<int>(global_x());                      \
    if (i < count && i % 3 != 0) result[(i * 29) % 257] = values[i]; \
  }                                                                  \
  CASE(scatter_##T, over(257), out<T>(257), any<T>(257), 257)
ALL_TYPES(SCATTER, )

#define STRIDED(T, ...)                                                                                      \
  KERNEL strided_##T(T* result, const T* values, i64 rows, i64 columns, i64 row_stride, i64 column_stride) { \
    const i64 column = global_x(), row = global_y();                                                         \
    if (row < rows && column < columns)                                                                      \
      result[row * columns + column] = values[row * row_stride - column * column_stride + 19 * 2];           \
  }                                                                                                          \
  CASE(strided_##T, shape({2, 3, 1}, {16, 4, 1}), out<T>(220), any<T>(11 * 39), 11, 20, 39, 2)
ALL_TYPES(STRIDED, )

constexpr int tile = 16;
#define TRANSPOSE(T, ...)                                                                              \
  KERNEL transpose_##T(T* result, const T* values, int rows, int columns) {                            \
    SHARED T staged[tile][tile + 1];                                                                   \
    const int x = static_cast<int>(thread_x()), y = static_cast<int>(thread_y());                      \
    int column = static_cast<int>(block_x()) * tile + x, row = static_cast<int>(block_y()) * tile + y; \
    if (row < rows && column < columns) staged[y][x] = values[row * columns + column];                 \
    barrier();                                                                                         \
    column = static_cast<int>(block_x()) * tile + y;                                                   \
    row = static_cast<int>(block_y()) * tile + x;                                                      \
    if (row < rows && column < columns) result[column * rows + row] = staged[x][y];                    \
  }                                                                                                    \
  CASE(transpose_##T, shape({3, 2, 1}, {tile, tile, 1}).together(), out<T>(37 * 21), any<T>(37 * 21), 21, 37)
ALL_TYPES(TRANSPOSE, )

// Grid-stride loop.
#define FILL(T, ...)                                                                    \
  KERNEL fill_##T(T* result, T value, int count) {                                      \
    const u32 step = blocks_x() * block_size_x();                                       \
    for (u32 i = global_x(); i < static_cast<u32>(count); i += step) result[i] = value; \
  }                                                                                     \
  CASE(fill_##T, shape({2, 1, 1}, {70, 1, 1}), out<T>(n), T(42), n)
ALL_TYPES(FILL, )

// Neighbours through LDS.
#define STENCIL(T, ...)                                                                  \
  KERNEL stencil_##T(T* result, const T* values, int count) {                            \
    SHARED T window[66];                                                                 \
    const int i = static_cast<int>(global_x()), local = static_cast<int>(thread_x());    \
    window[local + 1] = i < count ? values[i] : T(0);                                    \
    if (local == 0) window[0] = i > 0 ? values[i - 1] : T(0);                            \
    if (local == 63) window[65] = i + 1 < count ? values[i + 1] : T(0);                  \
    barrier();                                                                           \
    const T left = window[local], middle = window[local + 1], right = window[local + 2]; \
    if (i < count) result[i] = left < middle ? (right > middle ? right : middle) : left; \
  }                                                                                      \
  CASE(stencil_##T, over(n, 64).together(), out<T>(n), any<T>(n), n)
ALL_TYPES(STENCIL, )

// ---- Unaligned, packed, volatile, copies of structures ----

struct __attribute__((packed)) Packed {
  u8 tag;
  u32 word;
  u16 half;
  u64 wide;
};
KERNEL packed_fields(u64* result, const Packed* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i < count) result[i] = values[i].tag + values[i].word * 3ull + values[i].half * 5ull + values[i].wide;
}
CASE(packed_fields, over(n), out<u64>(n), any<u8>(n * sizeof(Packed)), n)

KERNEL packed_stores(Packed* result, const u64* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const u64 value = values[i];
  result[i].tag = static_cast<u8>(value);
  result[i].word = static_cast<u32>(value >> 7);
  result[i].half = static_cast<u16>(value >> 40);
  result[i].wide = ~value;
}
CASE(packed_stores, over(n), out<u8>(n * sizeof(Packed)), any<u64>(n), n)

#define UNALIGNED(T, offset)                                           \
  KERNEL unaligned_##T(u8* result, const u8* bytes, int count) {       \
    const int i = static_cast<int>(global_x());                        \
    if (i >= count) return;                                            \
    T value;                                                           \
    __builtin_memcpy(&value, bytes + i * (sizeof(T) + 1), sizeof(T));  \
    value = static_cast<T>(value + T(1));                              \
    __builtin_memcpy(result + i * (sizeof(T) + 1), &value, sizeof(T)); \
  }                                                                    \
  CASE(unaligned_##T, over(n), out<u8>(n * 9).misaligned(offset), any<u8>(n * 9).misaligned(offset + 2), n)
UNALIGNED(u16, 1)
UNALIGNED(u32, 3)
UNALIGNED(i32, 2)
UNALIGNED(u64, 5)

struct Record {
  f32 position[3];
  u16 kind;
  u8 flags[5];
  f64 mass;
  Vector<f32, 4> colour;
};
KERNEL copy_records(Record* result, const Record* values, const u32* where, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  Record record;
  __builtin_memcpy(&record, &values[where[i]], sizeof record);
  record.flags[record.kind % 5] += 3;
  record.position[1] = record.position[0] + record.position[2];
  record.colour.z = record.colour.x;
  __builtin_memcpy(&result[i], &record, sizeof record);
}
CASE(copy_records, over(n), out<u8>(n * sizeof(Record)), between<u8>(n * sizeof(Record), 0, 120),
     between<u32>(n, 0, n - 1), n)

struct Large {
  u32 words[64];
};
KERNEL copy_large(Large* result, const Large* values, int shift, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  Large local = values[i];
  for (int k = 0; k < 64; ++k) local.words[k] += local.words[(k + shift) & 63];
  result[i] = local;
}
CASE(copy_large, over(40, 64), out<u32>(40 * 64), any<u32>(40 * 64), 5, 40)

KERNEL volatile_access(volatile u32* result, const volatile u32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u32 sum = values[i];
  sum += values[i];
  result[i] = sum;
  result[i] = result[i] + 1;
}
CASE(volatile_access, over(n), out<u32>(n), any<u32>(n), n)

// ---- Arguments ----

struct Options {
  u8 flag;
  i16 offsets[3];
  f64 scale;
  f32 bias;
};
struct Small {
  u8 a, b, c;
};
KERNEL struct_arguments(f64* result, Options options, Small small, const f32* values, Vector<f32, 4> weights,
                        int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  f64 value = values[i] * options.scale + options.bias;
  if (options.flag != 0) value += weights[i & 3] + small.a + small.b * small.c;
  result[i] = value + options.offsets[i % 3];
}
CASE(struct_arguments, over(n), out<f64>(n), (Options{1, {-5, 300, -7}, 2.5, 0.125f}), (Small{1, 2, 3}),
     between<f32>(n, -10, 10), (Vector<f32, 4>{1, 2, 4, 8}), n)

KERNEL many_arguments(u64* result, u8 a, i8 b, u16 c, i16 d, u32 e, i32 f, u64 g, i64 h, f32 i, f64 j, bool k,
                      u8 l, const u32* p, const u32* q, const u32* r, f16 s, u16 t, i8 u, u64 v, u8 w, i32 x,
                      int count) {
  const int at = static_cast<int>(global_x());
  if (at >= count) return;
  result[at] = a + b + c + d + e + static_cast<u64>(f) + g + static_cast<u64>(h) + static_cast<u64>(i) +
               static_cast<u64>(j) + k + l + p[at] + q[at] * 2ull + r[at] * 3ull + static_cast<u64>(s) + t +
               u + v + w + x;
}
CASE(many_arguments, over(n), out<u64>(n), 200, -100, 60000, -30000, 4000000000u, -2000000000, 1ull << 60,
     -(1ll << 50), 12.0f, 1e12, true, 99, any<u32>(n), any<u32>(n), any<u32>(n), f16(3), 1234, -5, 77, 8, -9,
     n)

KERNEL no_bounds(u32* result) { result[global_x()] = global_x() * blocks_x() + block_size_x(); }
CASE(no_bounds, shape({5, 1, 1}, {33, 1, 1}), out<u32>(165))

// ---- Grids ----

KERNEL three_dimensions(u32* result, u32 width, u32 height, u32 depth) {
  const u32 x = global_x(), y = global_y(), z = global_z();
  if (x >= width || y >= height || z >= depth) return;
  result[(z * height + y) * width + x] =
      (thread_x() | thread_y() << 4 | thread_z() << 8 | block_x() << 12 | block_y() << 16 | block_z() << 20) ^
      (blocks_x() << 24 | blocks_y() << 26 | blocks_z() << 28) ^
      (block_size_x() * block_size_y() + block_size_z());
}
CASE(three_dimensions, shape({3, 2, 3}, {8, 4, 2}), out<u32>(19 * 7 * 5), 19, 7, 5)

KERNEL block_of_one(u32* result) { result[block_x()] = block_x() * block_x() + thread_x(); }
CASE(block_of_one, shape({37, 1, 1}, {1, 1, 1}), out<u32>(37))

KERNEL LAUNCH_BOUNDS(1024) largest_block(u32* result) {
  SHARED u32 values[1024];
  const u32 i = thread_z() * block_size_y() * block_size_x() + thread_y() * block_size_x() + thread_x();
  values[i] = i * 7;
  barrier();
  result[i] = values[(i * 33 + 1) & 1023] + values[1023 - i];
}
CASE(largest_block, shape({1, 1, 1}, {32, 8, 4}).together(), out<u32>(1024))

KERNEL LAUNCH_BOUNDS(64, 2) launch_bounds(f32* result, const f32* values, int count) {
  f32 window[8];
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  for (int k = 0; k < 8; ++k) window[k] = values[(i + k) % count];
  f32 sum = 0;
  for (int k = 0; k < 8; ++k) sum += window[k] * window[7 - k];
  result[i] = sum;
}
CASE(launch_bounds, over(n, 64), out<f32>(n), between<f32>(n, -2, 2), n)

// ---- LDS ----

KERNEL dynamic_reverse(u32* result, const u32* values, int count) {
  u32* staged = dynamic_lds<u32>();
  const int i = static_cast<int>(thread_x());
  const int base = static_cast<int>(block_x()) * count;
  for (int k = i; k < count; k += static_cast<int>(block_size_x())) staged[k] = values[base + k];
  barrier();
  for (int k = i; k < count; k += static_cast<int>(block_size_x())) result[base + k] = staged[count - 1 - k];
}
CASE(dynamic_reverse, shape({3, 1, 1}, {64, 1, 1}).lds(4 * 500).together(), out<u32>(1500), any<u32>(1500),
     500)

// Fixed and dynamic LDS in one kernel, in several widths.
KERNEL mixed_lds(u64* result, const u64* values) {
  SHARED u8 bytes[64];
  SHARED u64 wide[64];
  SHARED Vector<u32, 4> vectors[64];
  u16* halves = dynamic_lds<u16>();
  const u32 i = thread_x();
  const u64 value = values[global_x()];
  bytes[i] = static_cast<u8>(value);
  wide[i] = value;
  vectors[i] = Vector<u32, 4>{static_cast<u32>(value), static_cast<u32>(value >> 32), i, ~i};
  halves[i] = static_cast<u16>(value >> 16);
  barrier();
  const u32 j = (i * 5 + 3) & 63;
  const Vector<u32, 4> vector = vectors[63 - j];
  result[global_x()] =
      bytes[j] + wide[j ^ 1] * 3 + halves[63 - i] + vector.x + vector.y * 5ull + vector.z + vector.w;
}
CASE(mixed_lds, shape({2, 1, 1}, {64, 1, 1}).lds(128).together(), out<u64>(128), any<u64>(128))

// A pointer that may point to LDS or to global memory.
u32 read_through(const u32* pointer, u32 index) { return pointer[index]; }
KERNEL generic_pointers(u32* result, const u32* values, u32 modulus) {
  SHARED u32 local[64];
  const u32 i = thread_x();
  local[i] = values[i] ^ 0x55555555;
  barrier();
  u32 own[4] = {i, i + 1, i + 2, i + 3};
  const u32* pointer = i % modulus == 0 ? local : i % modulus == 1 ? values : own;
  result[i] = read_through(pointer, i % modulus == 2 ? i & 3 : 63 - i);
}
CASE(generic_pointers, shape({1, 1, 1}, {64, 1, 1}).together(), out<u32>(64), any<u32>(64), 3)

KERNEL generic_stores(u32* result, u32 modulus) {
  SHARED u32 local[64];
  const u32 i = thread_x();
  u32 own[2] = {5, 6};
  local[i] = 0;
  result[64 + i] = 0;
  u32* pointer = i % modulus == 0 ? &local[i] : i % modulus == 1 ? &result[64 + i] : &own[i & 1];
  *pointer = i * 100;
  barrier();
  result[i] = local[i] + own[0] + own[1];
}
CASE(generic_stores, shape({1, 1, 1}, {64, 1, 1}).together(), out<u32>(128), 3)

// ---- Variables ----

CONSTANT_VARIABLE const u32 constant_table[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
DEVICE_VARIABLE f32 device_table[8] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f, 6.5f, 7.5f};
DEVICE_VARIABLE const u8 byte_table[] = "The quick brown fox jumps over the lazy dog";
struct Node {
  const Node* next;
  u32 value;
};
extern DEVICE_VARIABLE const Node nodes[4];
DEVICE_VARIABLE const Node nodes[4] = {{&nodes[2], 10}, {&nodes[0], 20}, {&nodes[3], 30}, {&nodes[1], 40}};

KERNEL read_variables(f32* result, u32* sums, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  result[i] = static_cast<f32>(constant_table[i & 15]) * device_table[i & 7] + byte_table[i % 43];
  u32 sum = 0;
  const Node* node = &nodes[i & 3];
  for (int step = 0; step < i % 6; ++step, node = node->next) sum = sum * 7 + node->value;
  sums[i] = sum;
}
CASE(read_variables, over(n), out<f32>(n), out<u32>(n), n)

// Lists that are followed through memory.
KERNEL follow_links(u32* result, const u32* next, u32 steps, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  u32 at = static_cast<u32>(i);
  for (u32 k = 0; k < steps; ++k) at = next[at];
  result[i] = at;
}
CASE(follow_links, over(n), out<u32>(n), between<u32>(n, 0, n - 1), 9, n)

// Offsets that need 64 bits, and negative ones.
KERNEL far_offsets(u32* result, const u32* values, i64 bias, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  const u32* shifted =
      reinterpret_cast<const u32*>(reinterpret_cast<u64>(values) - static_cast<u64>(bias) * 4);
  result[i] = *reinterpret_cast<const u32*>(reinterpret_cast<u64>(shifted) + static_cast<u64>(bias + i) * 4) +
              values[count - 1 - i];
}
CASE(far_offsets, over(n), out<u32>(n), any<u32>(n), 1ll << 33, n)
