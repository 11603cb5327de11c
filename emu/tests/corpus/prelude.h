// What kernels of the corpus are written in: the same text is compiled for an AMD chip and for the host.
//
// On the chip these are clang's attributes and builtins, without any header of ROCm. On the host a kernel is
// a function that host_threads.cpp calls once per thread; barriers and operations of a wave switch between
// threads there.
#pragma once

#if defined(__HIP__)
#pragma clang force_cuda_host_device begin
#endif

using f16 = _Float16;
using bf16 = __bf16;
using f32 = float;
using f64 = double;
using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;

// The twelve, and the subsets that some operations need: LIST(macro, further arguments...) gives macro(type,
// ...).
#define FLOAT_TYPES(X, ...) X(f16, __VA_ARGS__) X(bf16, __VA_ARGS__) X(f32, __VA_ARGS__) X(f64, __VA_ARGS__)
#define INTEGER_TYPES(X, ...) \
  X(i8, __VA_ARGS__)          \
  X(u8, __VA_ARGS__)          \
  X(i16, __VA_ARGS__)         \
  X(u16, __VA_ARGS__) X(i32, __VA_ARGS__) X(u32, __VA_ARGS__) X(i64, __VA_ARGS__) X(u64, __VA_ARGS__)
#define ALL_TYPES(X, ...) FLOAT_TYPES(X, __VA_ARGS__) INTEGER_TYPES(X, __VA_ARGS__)

template <class T>
struct TypeTraits {
  static constexpr bool floating = false;
  static constexpr bool is_signed = T(-1) < T(0);
};
template <>
struct TypeTraits<f16> {
  static constexpr bool floating = true, is_signed = true;
};
template <>
struct TypeTraits<bf16> {
  static constexpr bool floating = true, is_signed = true;
};
template <>
struct TypeTraits<f32> {
  static constexpr bool floating = true, is_signed = true;
};
template <>
struct TypeTraits<f64> {
  static constexpr bool floating = true, is_signed = true;
};
template <class T>
constexpr bool is_float = TypeTraits<T>::floating;

template <class T, int n>
using Vector = T __attribute__((ext_vector_type(n)));

template <class To, class From>
inline To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, value);
}

#if defined(__HIP__)

#define CORPUS_DEVICE 1
#define KERNEL extern "C" __attribute__((global)) void
#define SHARED __attribute__((shared))
#define DEVICE_VARIABLE __attribute__((device))
#define CONSTANT_VARIABLE __attribute__((constant))
#define LAUNCH_BOUNDS(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define DEVICE __attribute__((device))
#define CASE(...)
#define CASE_AGAINST(...)

extern "C" SHARED __attribute__((aligned(16))) unsigned char corpus_dynamic_lds[];
template <class T>
DEVICE inline T* dynamic_lds() {
  return reinterpret_cast<T*>(corpus_dynamic_lds);
}

DEVICE inline u32 thread_x() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE inline u32 thread_y() { return __builtin_amdgcn_workitem_id_y(); }
DEVICE inline u32 thread_z() { return __builtin_amdgcn_workitem_id_z(); }
DEVICE inline u32 block_x() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE inline u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
DEVICE inline u32 block_z() { return __builtin_amdgcn_workgroup_id_z(); }
// Code object version 5: counts of blocks, then sizes of a block, at the start of the implicit arguments.
DEVICE inline u32 implicit_count(int axis) {
  return ((const __attribute__((opencl_constant)) u32*)__builtin_amdgcn_implicitarg_ptr())[axis];
}
DEVICE inline u32 implicit_size(int axis) {
  return ((const __attribute__((opencl_constant)) u16*)__builtin_amdgcn_implicitarg_ptr())[6 + axis];
}
DEVICE inline u32 blocks_x() { return implicit_count(0); }
DEVICE inline u32 blocks_y() { return implicit_count(1); }
DEVICE inline u32 blocks_z() { return implicit_count(2); }
DEVICE inline u32 block_size_x() { return implicit_size(0); }
DEVICE inline u32 block_size_y() { return implicit_size(1); }
DEVICE inline u32 block_size_z() { return implicit_size(2); }

DEVICE inline void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

#define wave_size __AMDGCN_WAVEFRONT_SIZE
DEVICE inline u32 lane_id() {
#if wave_size == 64
  return __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0));
#else
  return __builtin_amdgcn_mbcnt_lo(~0u, 0);
#endif
}
DEVICE inline u64 ballot(bool predicate) {
#if wave_size == 64
  return __builtin_amdgcn_ballot_w64(predicate);
#else
  return __builtin_amdgcn_ballot_w32(predicate);
#endif
}
DEVICE inline u32 shuffle_word(u32 value, u32 lane) { return __builtin_amdgcn_ds_bpermute(lane * 4, value); }
DEVICE inline u32 push_word(u32 value, u32 lane) { return __builtin_amdgcn_ds_permute(lane * 4, value); }
DEVICE inline u32 first_lane_word(u32 value) { return __builtin_amdgcn_readfirstlane(value); }
DEVICE inline u32 read_lane_word(u32 value, u32 lane) {
  return __builtin_amdgcn_readlane(value, __builtin_amdgcn_readfirstlane(lane));
}
template <int control, int row_mask = 15, int bank_mask = 15, bool bound_control = false>
DEVICE inline u32 dpp(u32 old, u32 value) {
  return __builtin_amdgcn_update_dpp(old, value, control, row_mask, bank_mask, bound_control);
}
template <int pattern>
DEVICE inline u32 swizzle(u32 value) {
  return __builtin_amdgcn_ds_swizzle(value, pattern);
}

#else  // the host

#define CORPUS_HOST 1
#include "host.h"

#endif

inline u32 global_x() { return block_x() * block_size_x() + thread_x(); }
inline u32 global_y() { return block_y() * block_size_y() + thread_y(); }
inline u32 global_z() { return block_z() * block_size_z() + thread_z(); }

// Shuffles of any type that is whole words, or fits into one.
template <class T>
inline T shuffle(T value, u32 lane) {
  if constexpr (sizeof(T) <= 4) {
    u32 word = 0;
    __builtin_memcpy(&word, &value, sizeof(T));
    word = shuffle_word(word, lane);
    __builtin_memcpy(&value, &word, sizeof(T));
    return value;
  } else {
    u32 words[sizeof(T) / 4];
    __builtin_memcpy(words, &value, sizeof(T));
    for (u32& word : words) word = shuffle_word(word, lane);
    __builtin_memcpy(&value, words, sizeof(T));
    return value;
  }
}
template <class T>
inline T shuffle_xor(T value, u32 mask) {
  return shuffle(value, lane_id() ^ mask);
}
template <class T>
inline T shuffle_down(T value, u32 distance) {
  const u32 lane = lane_id();
  return shuffle(value, lane + distance < wave_size ? lane + distance : lane);
}
template <class T>
inline T shuffle_up(T value, u32 distance) {
  const u32 lane = lane_id();
  return shuffle(value, lane >= distance ? lane - distance : lane);
}
