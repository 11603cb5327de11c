// What every kernel is written in: types, places of a thread, barriers, cooperation of a wave and of a block.
//
// The compile options define WAVE (lanes of a wave) and HEARTH_AMD or HEARTH_NVIDIA; no kernel names a
// vendor.
#pragma once

using i8 = signed char;
using u8 = unsigned char;
using i16 = short;
using u16 = unsigned short;
using i32 = int;
using u32 = unsigned int;
using i64 = long long;
using u64 = unsigned long long;
using f32 = float;
using f64 = double;

#define KERNEL extern "C" __global__
// One that is launched with at most so many threads per block, and may use more registers for it; fewer again
// where a number of blocks follows that are to fit at once.
#define KERNEL_OF(...) extern "C" __global__ __launch_bounds__(__VA_ARGS__)
#define DEVICE __device__ __forceinline__

// Every kernel of a text calls this first, or none does. Those that do are started while the kernel before
// them in a plan still runs, where the chip can do that (sm_90); from here on what it wrote is there. Before,
// memory may only be brought near, and what no kernel before it in the plan writes be read.
DEVICE void after_previous() {
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// Into the second-level cache. What is written there in the meantime is seen by those who read it later.
DEVICE void bring_near([[maybe_unused]] const void* at) {
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 900
  asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
#endif
}

template <class A, class B>
constexpr bool same_type = false;
template <class A>
constexpr bool same_type<A, A> = true;

template <class To, class From>
DEVICE To bit_cast(From value) {
  static_assert(sizeof(To) == sizeof(From), "sizes differ");
  return __builtin_bit_cast(To, value);
}

DEVICE f32 infinity() { return bit_cast<f32>(0x7f800000u); }

// ---- 16-bit floats: storage; arithmetic happens in f32 ----

struct f16 {
  u16 bits;
};
struct bf16 {
  u16 bits;
};

DEVICE f32 to_f32(f16 value) {
#ifdef HEARTH_AMD
  return (f32)bit_cast<_Float16>(value.bits);
#else
  f32 result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#endif
}
DEVICE f16 to_f16(f32 value) {
#ifdef HEARTH_AMD
  return {bit_cast<u16>((_Float16)value)};
#else
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {bits};
#endif
}
DEVICE f32 to_f32(bf16 value) { return bit_cast<f32>((u32)value.bits << 16); }
DEVICE bf16 to_bf16(f32 value) {  // to nearest, ties to even; NaN stays NaN
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 800
  u16 bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return {bits};
#else
  const u32 bits = bit_cast<u32>(value);
  const u32 rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16, quiet = (bits >> 16) | 0x40u;
  return {(u16)((bits & 0x7fffffffu) > 0x7f800000u ? quiet : rounded)};
#endif
}

// ---- conversion between storage and the types to compute in: i32, i64, f32, f64 ----

template <class T>
struct Stored {
  using Compute = T;
  static DEVICE T load(T value) { return value; }
  static DEVICE T store(T value) { return value; }
};
template <class T>
struct StoredSmall {  // in i32; what does not fit wraps around
  using Compute = i32;
  static DEVICE i32 load(T value) { return value; }
  static DEVICE T store(i32 value) { return (T)value; }
};
template <>
struct Stored<i8> : StoredSmall<i8> {};
template <>
struct Stored<u8> : StoredSmall<u8> {};
template <>
struct Stored<i16> : StoredSmall<i16> {};
template <>
struct Stored<bool> {
  using Compute = i32;
  static DEVICE i32 load(bool value) { return value; }
  template <class C>
  static DEVICE bool store(C value) {  // of any type: a half is true, too
    return value != 0;
  }
};
template <>
struct Stored<f16> {
  using Compute = f32;
  static DEVICE f32 load(f16 value) { return to_f32(value); }
  static DEVICE f16 store(f32 value) { return to_f16(value); }
};
template <>
struct Stored<bf16> {
  using Compute = f32;
  static DEVICE f32 load(bf16 value) { return to_f32(value); }
  static DEVICE bf16 store(f32 value) { return to_bf16(value); }
};

template <class T>
DEVICE typename Stored<T>::Compute load(T value) {
  return Stored<T>::load(value);
}
template <class T, class C>
DEVICE T store(C value) {
  return Stored<T>::store(value);
}
// What a value of the compute type becomes when it passes through memory as a T.
template <class T, class C>
DEVICE typename Stored<T>::Compute through(C value) {
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 800
  // Two numbers are converted by the arithmetic unit, one alone by the slow one that has roots and powers.
  u32 pair;
  if constexpr (same_type<T, f16>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(0.0f), "f"((f32)value));
    return to_f32(f16{(u16)pair});
  } else if constexpr (same_type<T, bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"((f32)value), "f"(0.0f));
    return bit_cast<f32>(pair);
  } else
#endif
    return load<T>(store<T>(value));
}

// N elements that are read and written as one, up to 16 bytes at a time.
template <class T, int N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Packet {
  T element[N];
};

// 16 bytes moved as one.
#ifdef HEARTH_AMD
using Unit16 = u32 __attribute__((ext_vector_type(4)));  // arrays of structs may end up in memory
#else
using Unit16 = Packet<u32, 4>;
#endif

// N elements as they travel: nothing needs to take them apart on the way.
template <int BYTES>
struct WordsOf {
  using type = Packet<u32, BYTES / 4>;
};
template <>
struct WordsOf<16> {
  using type = Unit16;
};
template <>
struct WordsOf<2> {
  using type = u16;
};
template <>
struct WordsOf<1> {
  using type = u8;
};
template <class T, int N>
using Words = typename WordsOf<(int)sizeof(T) * N>::type;

// A packet by one load, even if some of its elements turn out not to be needed.
template <class T, int N>
DEVICE Packet<T, N> read_whole(const Packet<T, N>& from) {
  return bit_cast<Packet<T, N>>(reinterpret_cast<const Words<T, N>&>(from));
}

// Arrays among a kernel's arguments: either they can be read at any index, and loops over them stay loops,
// which takes fewer registers, or every index has to be known, by unrolling.
#ifdef HEARTH_AMD
constexpr bool arguments_have_addresses = true;
#else
constexpr bool arguments_have_addresses = false;
#endif

// ---- places ----

DEVICE u64 global_thread() { return (u64)blockIdx.x * blockDim.x + threadIdx.x; }
DEVICE u64 global_threads() { return (u64)gridDim.x * blockDim.x; }
DEVICE u32 lane() { return threadIdx.x % WAVE; }
DEVICE u32 wave() { return threadIdx.x / WAVE; }
// The value, which the compiler then keeps instead of computing it again.
DEVICE u32 in_register(u32 value) {
#ifdef HEARTH_AMD
  asm volatile("" : "+v"(value));
#else
  asm volatile("" : "+r"(value));
#endif
  return value;
}
DEVICE void barrier() { __syncthreads(); }
// Among the lanes of a wave: what they wrote to shared memory is there.
DEVICE void wave_barrier() {
#ifdef HEARTH_AMD
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
#else
  __syncwarp();
#endif
}

// The compiler moves nothing across: what it would load ahead costs more registers than there are.
DEVICE void keep_order() {
#ifdef HEARTH_AMD
  __builtin_amdgcn_sched_barrier(0);
#endif
}

// The shared memory that the launch asked for.
template <class T>
DEVICE T* launched_shared() {
  extern __shared__ __align__(128) unsigned char launched_shared_bytes[];
  return reinterpret_cast<T*>(launched_shared_bytes);
}

// ---- arithmetic in one instruction ----

DEVICE f32 fast_exp2(f32 x) {  // two units in the last place; results below the normal range are zero
#ifdef HEARTH_AMD
#if __has_builtin(__builtin_amdgcn_exp2f)  // not in the compilers of ROCm 5
  return __builtin_amdgcn_exp2f(x);
#else
  return ::exp2f(x);
#endif
#else
  f32 result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

DEVICE f32 fast_reciprocal(f32 x) {  // one unit in the last place; zero where that is below 2^-126
#ifdef HEARTH_AMD
  return __builtin_amdgcn_rcpf(x);
#else
  f32 result;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}
DEVICE f32 fast_reciprocal_root(f32 x) {  // two units in the last place
#ifdef HEARTH_AMD
  return __builtin_amdgcn_rsqf(x);
#else
  f32 result;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#endif
}

// The sum of four products of signed bytes, and c.
DEVICE i32 dot4(i32 a, i32 b, i32 c) {
#if defined(HEARTH_NVIDIA)
  return __dp4a(a, b, c);
#elif defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_sudot4(true, a, true, b, c, false);
#elif defined(__gfx906__) || defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx942__) ||   \
    defined(__gfx950__) || defined(__gfx1011__) || defined(__gfx1012__) || defined(__gfx1030__) ||  \
    defined(__gfx1031__) || defined(__gfx1032__) || defined(__gfx1033__) || defined(__gfx1034__) || \
    defined(__gfx1035__) || defined(__gfx1036__)
  return __builtin_amdgcn_sdot4(a, b, c, false);
#else
#pragma unroll
  for (int i = 0; i < 32; i += 8) c += (i32)(i8)(a >> i) * (i32)(i8)(b >> i);
  return c;
#endif
}

// The same with a's bytes unsigned.
DEVICE i32 dot4_unsigned(u32 a, i32 b, i32 c) {
#if defined(HEARTH_NVIDIA)
  asm("dp4a.u32.s32 %0, %1, %2, %0;" : "+r"(c) : "r"(a), "r"(b));
  return c;
#elif defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_sudot4(false, (i32)a, true, b, c, false);
#else
  return dot4((i32)(a ^ 0x80808080u), b, c) + 128 * dot4(0x01010101, b, 0);
#endif
}

// Two f16 in a word: each instruction computes both.
#ifdef HEARTH_AMD
using F16Pair = _Float16 __attribute__((ext_vector_type(2)));
DEVICE u32 f16_pair(f32 low, f32 high) { return bit_cast<u32>(F16Pair{(_Float16)low, (_Float16)high}); }
DEVICE u32 add_f16_pairs(u32 a, u32 b) { return bit_cast<u32>(bit_cast<F16Pair>(a) + bit_cast<F16Pair>(b)); }
DEVICE u32 multiply_f16_pairs(u32 a, u32 b) {
  return bit_cast<u32>(bit_cast<F16Pair>(a) * bit_cast<F16Pair>(b));
}
DEVICE u32 multiply_add_f16_pairs(u32 a, u32 b, u32 c) {
  const auto x = bit_cast<F16Pair>(a), y = bit_cast<F16Pair>(b), z = bit_cast<F16Pair>(c);
  return bit_cast<u32>(
      F16Pair{(_Float16)__builtin_fmaf16(x.x, y.x, z.x), (_Float16)__builtin_fmaf16(x.y, y.y, z.y)});
}
#else
DEVICE u32 f16_pair(f32 low, f32 high) {
#if __CUDA_ARCH__ >= 800
  u32 pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return to_f16(low).bits | (u32)to_f16(high).bits << 16;
#endif
}
DEVICE u32 add_f16_pairs(u32 a, u32 b) {
  u32 sum;
  asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
  return sum;
}
DEVICE u32 multiply_f16_pairs(u32 a, u32 b) {
  u32 product;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}
DEVICE u32 multiply_add_f16_pairs(u32 a, u32 b, u32 c) {
  u32 sum;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
}
#endif

// ---- cooperation ----

// What this thread wrote before is there for all blocks, what it reads after is as fresh as that.
DEVICE void device_fence() {
#if defined(HEARTH_NVIDIA) && __CUDA_ARCH__ >= 700
  asm volatile("fence.acq_rel.gpu;" ::: "memory");  // __threadfence() orders more than that, and takes longer
#else
  __threadfence();
#endif
}
// What another block of the same kernel wrote: past a cache that only sees this one's writes.
DEVICE f32 load_fresh(const f32* place) {
#ifdef HEARTH_AMD
  return __hip_atomic_load(place, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
#else
  f32 value;
  asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(value) : "l"(place) : "memory");
  return value;
#endif
}
// Whether this block is the last of `count` that get here; in every thread. What the others wrote before is
// there then. `arrived` is zero before the first and after the last.
DEVICE bool last_to_arrive(u32* arrived, u32 count) {
  __shared__ bool last;
#ifdef HEARTH_AMD
  device_fence();  // by all waves: a barrier need not wait for what they store
#endif
  __syncthreads();
  if (threadIdx.x == 0) {
    device_fence();
    last = atomicAdd(arrived, 1u) == count - 1;
    if (last) *arrived = 0;
    device_fence();
  }
  __syncthreads();
  return last;
}

// A store to memory of the host, where several threads may store at a time: one of them wins.
DEVICE void store_for_host(u64* place, u64 value) {
#ifdef HEARTH_AMD
  __hip_atomic_store(place, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);
#else
  *(volatile u64*)place = value;
#endif
}

// What lane `source` of the wave has. All lanes of the wave must be there.
template <class T>
DEVICE T from_lane(T value, u32 source) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "four or eight bytes");
  if constexpr (sizeof(T) == 4) {
#ifdef HEARTH_AMD
    return bit_cast<T>(__builtin_amdgcn_ds_bpermute((int)source << 2, bit_cast<int>(value)));
#else
    return bit_cast<T>(__shfl_sync(0xffffffffu, bit_cast<int>(value), (int)source));
#endif
  } else {
    struct Halves {
      int low, high;
    };
    const Halves halves = bit_cast<Halves>(value);
    return bit_cast<T>(Halves{from_lane(halves.low, source), from_lane(halves.high, source)});
  }
}

template <class T>
DEVICE T from_lane_xor(T value, int mask) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "four or eight bytes");
  if constexpr (sizeof(T) == 4) {
#ifdef HEARTH_AMD
    const int source = (int)(__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)) ^ mask);
    return bit_cast<T>(__builtin_amdgcn_ds_bpermute(source << 2, bit_cast<int>(value)));
#else
    return bit_cast<T>(__shfl_xor_sync(0xffffffffu, bit_cast<int>(value), mask));
#endif
  } else {
    struct Halves {
      int low, high;
    };
    const Halves halves = bit_cast<Halves>(value);
    return bit_cast<T>(Halves{from_lane_xor(halves.low, mask), from_lane_xor(halves.high, mask)});
  }
}

// The combination of all lanes' values, in every lane. All lanes of the wave must be there.
template <class T, class Combine>
DEVICE T wave_reduce(T value, Combine combine) {
#pragma unroll
  for (int mask = WAVE / 2; mask > 0; mask /= 2) value = combine(value, from_lane_xor(value, mask));
  return value;
}

// The combination of all threads' values, in every thread. The block is a whole number of waves, at most 1024
// threads.
template <class T, class Combine>
DEVICE T block_reduce(T value, T identity, Combine combine) {
  __shared__ T partial[1024 / WAVE];
  value = wave_reduce(value, combine);
  const u32 waves = blockDim.x / WAVE;
  if (waves == 1) return value;
  barrier();  // a reduction before this one may still be reading
  if (lane() == 0) partial[wave()] = value;
  barrier();
  value = lane() < waves ? partial[lane()] : identity;
  return wave_reduce(value, combine);
}
