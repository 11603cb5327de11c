// Atomic operations in global memory and LDS, with and without the old value, at several scopes.
#include "../prelude.h"

constexpr int n = 300;
constexpr int cells_shared = 16;

#if CORPUS_DEVICE
#define ATOMIC(operation, pointer, value, scope) \
  __hip_atomic_##operation(pointer, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_##scope)
#define ATOMIC_ORDERED(operation, pointer, value, order, scope) \
  __hip_atomic_##operation(pointer, value, __ATOMIC_##order, __HIP_MEMORY_SCOPE_##scope)
template <class T>
bool compare_exchange(T* pointer, T& expected, T desired) {
  return __hip_atomic_compare_exchange_strong(pointer, &expected, desired, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                              __HIP_MEMORY_SCOPE_AGENT);
}
u32 wrapping_increment(u32* pointer, u32 limit) {
  return __builtin_amdgcn_atomic_inc32(pointer, limit, __ATOMIC_RELAXED, "agent");
}
u64 wrapping_increment(u64* pointer, u64 limit) {
  return __builtin_amdgcn_atomic_inc64(reinterpret_cast<unsigned long*>(pointer), limit, __ATOMIC_RELAXED,
                                       "agent");
}
u32 wrapping_decrement(u32* pointer, u32 limit) {
  return __builtin_amdgcn_atomic_dec32(pointer, limit, __ATOMIC_RELAXED, "agent");
}
u64 wrapping_decrement(u64* pointer, u64 limit) {
  return __builtin_amdgcn_atomic_dec64(reinterpret_cast<unsigned long*>(pointer), limit, __ATOMIC_RELAXED,
                                       "agent");
}
#else
// Threads take turns here: a plain operation is atomic.
template <class T>
T update(T* pointer, T value) {
  const T old = *pointer;
  *pointer = value;
  return old;
}
template <class T>
T fetch_add(T* pointer, T value) {
  if constexpr (is_float<T>)
    return update<T>(pointer, *pointer + value);
  else
    return update<T>(pointer, static_cast<T>(u64(*pointer) + u64(value)));
}
template <class T>
T fetch_sub(T* pointer, T value) {
  if constexpr (is_float<T>)
    return update<T>(pointer, *pointer - value);
  else
    return update<T>(pointer, static_cast<T>(u64(*pointer) - u64(value)));
}
template <class T>
T fetch_min(T* pointer, T value) {
  return update<T>(pointer, value < *pointer ? value : *pointer);
}
template <class T>
T fetch_max(T* pointer, T value) {
  return update<T>(pointer, value > *pointer ? value : *pointer);
}
template <class T>
T fetch_and(T* pointer, T value) {
  return update<T>(pointer, *pointer & value);
}
template <class T>
T fetch_or(T* pointer, T value) {
  return update<T>(pointer, *pointer | value);
}
template <class T>
T fetch_xor(T* pointer, T value) {
  return update<T>(pointer, *pointer ^ value);
}
template <class T>
T exchange(T* pointer, T value) {
  return update<T>(pointer, value);
}
#define ATOMIC(operation, pointer, value, scope) operation(pointer, value)
#define ATOMIC_ORDERED(operation, pointer, value, order, scope) operation(pointer, value)
template <class T>
bool compare_exchange(T* pointer, T& expected, T desired) {
  if (*pointer == expected) {
    *pointer = desired;
    return true;
  }
  expected = *pointer;
  return false;
}
template <class T>
T wrapping_increment(T* pointer, T limit) {
  return update<T>(pointer, *pointer >= limit ? 0 : *pointer + 1);
}
template <class T>
T wrapping_decrement(T* pointer, T limit) {
  return update<T>(pointer, *pointer == 0 || *pointer > limit ? limit : *pointer - 1);
}
#endif

// Each thread has a cell of its own, whose old value it keeps; and all share a few cells, in global memory
// and in LDS, where the order does not matter.
#define ATOMIC_KERNEL(T, operation, values_)                                                                \
  KERNEL atomic_##operation##_##T(T* old, T* own, T* cells, T* from_lds, const T* values, int count) {      \
    SHARED T local[cells_shared];                                                                           \
    const int i = static_cast<int>(global_x());                                                             \
    const u32 lane = thread_x();                                                                            \
    if (lane < cells_shared) local[lane] = T(1);                                                            \
    barrier();                                                                                              \
    if (i < count) {                                                                                        \
      const T value = values[i];                                                                            \
      old[i] = ATOMIC(operation, &own[i], value, AGENT);                                                    \
      ATOMIC(operation, &cells[i * 7 % cells_shared], value, SYSTEM);                                       \
      ATOMIC(operation, &local[i * 5 % cells_shared], value, WORKGROUP);                                    \
    }                                                                                                       \
    barrier();                                                                                              \
    if (lane < cells_shared) {                                                                              \
      const T before = ATOMIC(operation, &local[lane], T(1), WORKGROUP);                                    \
      from_lds[block_x() * cells_shared + lane] = before;                                                   \
    }                                                                                                       \
  }                                                                                                         \
  CASE(atomic_##operation##_##T, over(n, 100).together(), out<T>(n), values_, whole<T>(cells_shared, 0, 5), \
       out<T>(3 * cells_shared), values_, n)
// Small whole numbers, so that sums in floats are exact.
#define ATOMIC_FLOAT(T, operation) ATOMIC_KERNEL(T, operation, whole<T>(n, 1, 6))
#define ATOMIC_INTEGER(T, operation) ATOMIC_KERNEL(T, operation, any<T>(n))
#define WORD_TYPES(X, operation) X(i32, operation) X(u32, operation) X(i64, operation) X(u64, operation)

INTEGER_TYPES(ATOMIC_INTEGER, fetch_add)
FLOAT_TYPES(ATOMIC_FLOAT, fetch_add)
WORD_TYPES(ATOMIC_INTEGER, fetch_sub)
ATOMIC_INTEGER(u8, fetch_sub)
ATOMIC_INTEGER(i16, fetch_sub)
INTEGER_TYPES(ATOMIC_INTEGER, fetch_min)
INTEGER_TYPES(ATOMIC_INTEGER, fetch_max)
ATOMIC_FLOAT(f32, fetch_min)
ATOMIC_FLOAT(f64, fetch_min)
ATOMIC_FLOAT(f32, fetch_max)
ATOMIC_FLOAT(f64, fetch_max)
INTEGER_TYPES(ATOMIC_INTEGER, fetch_and)
INTEGER_TYPES(ATOMIC_INTEGER, fetch_or)
INTEGER_TYPES(ATOMIC_INTEGER, fetch_xor)

// Exchanges where each thread has its own cell: the order decides otherwise.
#define EXCHANGE(T, ...)                                                                \
  KERNEL atomic_exchange_##T(T* old, T* own, T* from_lds, const T* values, int count) { \
    SHARED T local[64];                                                                 \
    const int i = static_cast<int>(global_x());                                         \
    const u32 lane = thread_x();                                                        \
    local[lane] = T(3);                                                                 \
    if (i >= count) return;                                                             \
    old[i] = ATOMIC(exchange, &own[i], values[i], SYSTEM);                              \
    from_lds[i] = ATOMIC(exchange, &local[lane], values[i], WORKGROUP);                 \
    from_lds[i] += local[lane];                                                         \
  }                                                                                     \
  CASE(atomic_exchange_##T, over(n, 64), out<T>(n), whole<T>(n, 0, 50), out<T>(n), whole<T>(n, 0, 50), n)
WORD_TYPES(EXCHANGE, )
EXCHANGE(f32)
EXCHANGE(f64)

// Loops around compare-and-exchange, in global memory and LDS.
#define COMPARE_EXCHANGE(T, ...)                                                         \
  KERNEL atomic_compare_##T(T* cells, T* from_lds, const T* values, int count) {         \
    SHARED T local[4];                                                                   \
    const int i = static_cast<int>(global_x());                                          \
    const u32 lane = thread_x();                                                         \
    if (lane < 4) local[lane] = T(0);                                                    \
    barrier();                                                                           \
    if (i < count) {                                                                     \
      T seen = cells[i & 3];                                                             \
      while (!compare_exchange(&cells[i & 3], seen, static_cast<T>(seen + values[i]))) { \
      }                                                                                  \
      seen = local[i & 3];                                                               \
      while (!compare_exchange(&local[i & 3], seen, static_cast<T>(seen + values[i]))) { \
      }                                                                                  \
    }                                                                                    \
    barrier();                                                                           \
    if (lane < 4) from_lds[block_x() * 4 + lane] = local[lane];                          \
  }                                                                                      \
  CASE(atomic_compare_##T, over(120, 60).together(), whole<T>(4, 0, 3), out<T>(8), whole<T>(120, 0, 20), 120)
WORD_TYPES(COMPARE_EXCHANGE, )
COMPARE_EXCHANGE(u8)
COMPARE_EXCHANGE(i16)

#define WRAPPING(T, ...)                                                                                    \
  KERNEL atomic_wrapping_##T(T* old_up, T* old_down, T* up, T* down, T* shared, T* from_lds, T limit) {     \
    SHARED T local[2];                                                                                      \
    const u32 i = global_x();                                                                               \
    if (thread_x() < 2) local[thread_x()] = 5;                                                              \
    barrier();                                                                                              \
    old_up[i] = wrapping_increment(&up[i], limit);                                                          \
    old_down[i] = wrapping_decrement(&down[i], limit);                                                      \
    wrapping_increment(&shared[0], limit);                                                                  \
    wrapping_decrement(&shared[1], limit);                                                                  \
    wrapping_increment(&local[0], limit);                                                                   \
    wrapping_decrement(&local[1], limit);                                                                   \
    barrier();                                                                                              \
    if (thread_x() < 2) from_lds[block_x() * 2 + thread_x()] = local[thread_x()];                           \
  }                                                                                                         \
  CASE(atomic_wrapping_##T, shape({2, 1, 1}, {80, 1, 1}).together(), out<T>(160), out<T>(160), any<T>(160), \
       any<T>(160), whole<T>(2, 3, 4), out<T>(4), 37)
WRAPPING(u32)
WRAPPING(u64)

// Tickets: every thread gets another number, so that every place is written once.
KERNEL tickets(u32* counter, u32* places) {
  const u32 ticket = ATOMIC(fetch_add, counter, 1u, AGENT);
  places[ticket] += 1;
}
CASE(tickets, shape({4, 1, 1}, {70, 1, 1}), zeros<u32>(1), zeros<u32>(280))

KERNEL histogram(u32* bins, const u8* values, int count) {
  SHARED u32 local[256];
  for (u32 k = thread_x(); k < 256; k += block_size_x()) local[k] = 0;
  barrier();
  for (u32 i = global_x(); i < static_cast<u32>(count); i += blocks_x() * block_size_x())
    ATOMIC(fetch_add, &local[values[i]], 1u, WORKGROUP);
  barrier();
  for (u32 k = thread_x(); k < 256; k += block_size_x())
    if (local[k] != 0) ATOMIC(fetch_add, &bins[k], local[k], AGENT);
}
CASE(histogram, shape({3, 1, 1}, {96, 1, 1}).together(), zeros<u32>(256), any<u8>(2000), 2000)

// Orderings, each at another scope.
KERNEL orderings(u32* cells, const u32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  ATOMIC_ORDERED(fetch_add, &cells[0], values[i], ACQUIRE, SYSTEM);
  ATOMIC_ORDERED(fetch_add, &cells[1], values[i], RELEASE, AGENT);
  ATOMIC_ORDERED(fetch_xor, &cells[2], values[i], ACQ_REL, WORKGROUP);
  ATOMIC_ORDERED(fetch_max, &cells[3], values[i], SEQ_CST, SYSTEM);
  ATOMIC_ORDERED(fetch_or, &cells[4], values[i], SEQ_CST, AGENT);
}
CASE(orderings, over(n, 64), zeros<u32>(5), any<u32>(n), n)

// The last block to finish adds up what all have written.
KERNEL last_block(u32* total, u32* partial, u32* finished, const u32* values, int count) {
  SHARED u32 last;
  const u32 i = global_x();
  const u32 value = i < static_cast<u32>(count) ? values[i] : 0;
  if (thread_x() == 0) partial[block_x()] = 0;
  barrier();
  ATOMIC(fetch_add, &partial[block_x()], value, AGENT);
  barrier();
  if (thread_x() == 0) last = ATOMIC_ORDERED(fetch_add, finished, 1u, ACQ_REL, AGENT) == blocks_x() - 1;
  barrier();
  if (last != 0 && thread_x() == 0) {
    u32 sum = 0;
    for (u32 k = 0; k < blocks_x(); ++k) sum += ATOMIC(fetch_add, &partial[k], 0u, AGENT);
    *total = sum;
  }
}
CASE(last_block, shape({5, 1, 1}, {64, 1, 1}).together(), zeros<u32>(1), zeros<u32>(5), zeros<u32>(1),
     any<u32>(n), n)

// Instructions that add floats, which the compiler does not use unless told to.
#if CORPUS_DEVICE
#define NATIVE_ADD(builtin, pointer, value) builtin(pointer, value)
#else
#define NATIVE_ADD(builtin, pointer, value) fetch_add(pointer, value)
#endif
#if CORPUS_HOST || defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx1100__) || defined(__gfx1201__)
KERNEL native_add_f32(f32* cells, f32* old, f32* own, const f32* values, int count) {
  const int i = static_cast<int>(global_x());
  if (i >= count) return;
  NATIVE_ADD(__builtin_amdgcn_global_atomic_fadd_f32, &cells[i % 8], values[i]);
  old[i] = NATIVE_ADD(__builtin_amdgcn_global_atomic_fadd_f32, &own[i], values[i]);
}
CASE(native_add_f32, over(n, 64).only(gfx90a | gfx942 | gfx1100 | gfx1201), zeros<f32>(8), out<f32>(n),
     whole<f32>(n, 0, 9), whole<f32>(n, -9, 9), n)
#endif
#if CORPUS_HOST || defined(__gfx90a__) || defined(__gfx942__)
#if CORPUS_DEVICE
f64 add_in_lds(f64* pointer, f64 value) {
  return __builtin_amdgcn_ds_atomic_fadd_f64((__attribute__((address_space(3))) f64*)pointer, value);
}
#endif
KERNEL native_add_f64(f64* cells, f64* old, f64* own, f64* from_lds, const f64* values, int count) {
  SHARED f64 local[4];
  const int i = static_cast<int>(global_x());
  if (thread_x() < 4) local[thread_x()] = 0;
  barrier();
  if (i < count) {
    NATIVE_ADD(__builtin_amdgcn_global_atomic_fadd_f64, &cells[i % 8], values[i]);
    old[i] = NATIVE_ADD(__builtin_amdgcn_flat_atomic_fadd_f64, &own[i], values[i]);
    NATIVE_ADD(add_in_lds, &local[i % 4], values[i]);
  }
  barrier();
  if (thread_x() < 4) from_lds[block_x() * 4 + thread_x()] = local[thread_x()];
}
CASE(native_add_f64, over(n, 100).together().only(gfx90a | gfx942), zeros<f64>(8), out<f64>(n),
     whole<f64>(n, 0, 9), zeros<f64>(12), whole<f64>(n, -9, 9), n)
#endif
