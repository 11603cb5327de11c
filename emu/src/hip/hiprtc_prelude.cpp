// Declarations of HIP's device language for where its headers are not installed: built-in variables, vector
// types, half, mathematics, atomics and operations across lanes. Written for clang's built-ins; mathematics
// comes from the device libraries.
#include "hip/hiprtc_prelude.h"

namespace hipemu::hip {

const std::string_view hiprtc_prelude = R"hip(#pragma once
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __managed__ __attribute__((managed))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __hipemu_bounds1(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#define __hipemu_bounds2(threads, waves) \
  __attribute__((amdgpu_flat_work_group_size(1, threads), amdgpu_waves_per_eu(waves)))
#define __hipemu_pick(a, b, name, ...) name
#define __launch_bounds__(...) __hipemu_pick(__VA_ARGS__, __hipemu_bounds2, __hipemu_bounds1, )(__VA_ARGS__)
#define HIP_DYNAMIC_SHARED(type, name) extern __shared__ type name[];
#define __hipemu_fn static inline __attribute__((device, always_inline))

typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
typedef __INT8_TYPE__ int8_t;
typedef __INT16_TYPE__ int16_t;
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
typedef __UINT8_TYPE__ uint8_t;
typedef __UINT16_TYPE__ uint16_t;
typedef __UINT32_TYPE__ uint32_t;
typedef __UINT64_TYPE__ uint64_t;
typedef __UINTPTR_TYPE__ uintptr_t;
typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
#ifndef NULL
#define NULL 0
#endif

struct dim3 {
  unsigned x, y, z;
  __host__ __device__ constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// Number of blocks and size of a block are among the hidden arguments of a kernel.
__hipemu_fn unsigned __hipemu_blocks(int axis) {
  return ((const __attribute__((address_space(4))) unsigned*)__builtin_amdgcn_implicitarg_ptr())[axis];
}
#define __hipemu_fn_member __attribute__((device, always_inline))
#define __hipemu_builtin(variable, vx, vy, vz)                                                    \
  struct __hipemu_##variable {                                                                    \
    struct X { __hipemu_fn_member operator unsigned() const { return vx; } };                     \
    struct Y { __hipemu_fn_member operator unsigned() const { return vy; } };                     \
    struct Z { __hipemu_fn_member operator unsigned() const { return vz; } };                     \
    static constexpr X x{};                                                                       \
    static constexpr Y y{};                                                                       \
    static constexpr Z z{};                                                                       \
    __hipemu_fn_member operator dim3() const { return dim3(x, y, z); }                            \
  };                                                                                              \
  constexpr __hipemu_##variable::X __hipemu_##variable::x;                                        \
  constexpr __hipemu_##variable::Y __hipemu_##variable::y;                                        \
  constexpr __hipemu_##variable::Z __hipemu_##variable::z;                                        \
  static constexpr __attribute__((device)) __hipemu_##variable variable{};
__hipemu_builtin(threadIdx, __builtin_amdgcn_workitem_id_x(), __builtin_amdgcn_workitem_id_y(),
                 __builtin_amdgcn_workitem_id_z())
__hipemu_builtin(blockIdx, __builtin_amdgcn_workgroup_id_x(), __builtin_amdgcn_workgroup_id_y(),
                 __builtin_amdgcn_workgroup_id_z())
__hipemu_builtin(blockDim, __builtin_amdgcn_workgroup_size_x(), __builtin_amdgcn_workgroup_size_y(),
                 __builtin_amdgcn_workgroup_size_z())
__hipemu_builtin(gridDim, __hipemu_blocks(0), __hipemu_blocks(1), __hipemu_blocks(2))
static constexpr __attribute__((device)) int warpSize = __AMDGCN_WAVEFRONT_SIZE__;

// Vector types.
#define __hipemu_operator2(type, op) \
  __host__ __hipemu_fn type operator op(type a, type b) { return {a.x op b.x, a.y op b.y}; }
#define __hipemu_operator3(type, op) \
  __host__ __hipemu_fn type operator op(type a, type b) { return {a.x op b.x, a.y op b.y, a.z op b.z}; }
#define __hipemu_operator4(type, op)                                                                          \
  __host__ __hipemu_fn type operator op(type a, type b) { return {a.x op b.x, a.y op b.y, a.z op b.z, a.w op b.w}; }
#define __hipemu_operators(type, n) \
  __hipemu_operator##n(type, +) __hipemu_operator##n(type, -) __hipemu_operator##n(type, *) __hipemu_operator##n(type, /)
#define __hipemu_vectors(name, scalar)                                                                          \
  struct name##1 { scalar x; };                                                                                 \
  struct __attribute__((aligned(2 * sizeof(scalar)))) name##2 { scalar x, y; };                                 \
  struct name##3 { scalar x, y, z; };                                                                           \
  struct __attribute__((aligned(4 * sizeof(scalar) > 16 ? 16 : 4 * sizeof(scalar)))) name##4 { scalar x, y, z, w; }; \
  __host__ __hipemu_fn name##1 make_##name##1(scalar x) { return {x}; }                                         \
  __host__ __hipemu_fn name##2 make_##name##2(scalar x, scalar y) { return {x, y}; }                            \
  __host__ __hipemu_fn name##3 make_##name##3(scalar x, scalar y, scalar z) { return {x, y, z}; }               \
  __host__ __hipemu_fn name##4 make_##name##4(scalar x, scalar y, scalar z, scalar w) { return {x, y, z, w}; }
#define __hipemu_arithmetic(name) __hipemu_operators(name##2, 2) __hipemu_operators(name##3, 3) __hipemu_operators(name##4, 4)
__hipemu_vectors(char, signed char)
__hipemu_vectors(uchar, unsigned char)
__hipemu_vectors(short, short)
__hipemu_vectors(ushort, unsigned short)
__hipemu_vectors(int, int)
__hipemu_vectors(uint, unsigned)
__hipemu_vectors(long, long)
__hipemu_vectors(ulong, unsigned long)
__hipemu_vectors(longlong, long long)
__hipemu_vectors(ulonglong, unsigned long long)
__hipemu_vectors(float, float)
__hipemu_vectors(double, double)
__hipemu_arithmetic(int)
__hipemu_arithmetic(uint)
__hipemu_arithmetic(float)
__hipemu_arithmetic(double)

// Synchronisation and time.
__hipemu_fn void __threadfence_block() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup"); }
__hipemu_fn void __threadfence() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "agent"); }
__hipemu_fn void __threadfence_system() { __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, ""); }
__hipemu_fn void __syncthreads() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
__hipemu_fn long long clock64() { return (long long)__builtin_readcyclecounter(); }
__hipemu_fn long long clock() { return (long long)__builtin_readcyclecounter(); }
#if __has_builtin(__builtin_readsteadycounter)
__hipemu_fn long long wall_clock64() { return (long long)__builtin_readsteadycounter(); }
#endif

// Lanes.
__hipemu_fn unsigned __lane_id() {
#if __AMDGCN_WAVEFRONT_SIZE__ == 64
  return __builtin_amdgcn_mbcnt_hi(-1, __builtin_amdgcn_mbcnt_lo(-1, 0));
#else
  return __builtin_amdgcn_mbcnt_lo(-1, 0);
#endif
}
__hipemu_fn unsigned long long __ballot(int predicate) {
#if __AMDGCN_WAVEFRONT_SIZE__ == 64
  return __builtin_amdgcn_ballot_w64(predicate != 0);
#else
  return __builtin_amdgcn_ballot_w32(predicate != 0);
#endif
}
__hipemu_fn unsigned long long __ballot64(int predicate) { return __ballot(predicate); }
__hipemu_fn unsigned long long __activemask() { return __ballot(1); }
__hipemu_fn int __any(int predicate) { return __ballot(predicate) != 0; }
__hipemu_fn int __all(int predicate) { return __ballot(predicate) == __ballot(1); }
__hipemu_fn int __hipemu_lane(int value, int lane) { return __builtin_amdgcn_ds_bpermute(lane << 2, value); }
template <class T>
__hipemu_fn T __hipemu_shuffle(T value, int lane) {
  static_assert(sizeof(T) % 4 == 0 || sizeof(T) < 4, "shuffled in words of four bytes");
  constexpr int words = (sizeof(T) + 3) / 4;
  int parts[words] = {};
  __builtin_memcpy(parts, &value, sizeof(T));
  for (int i = 0; i < words; ++i) parts[i] = __hipemu_lane(parts[i], lane);
  __builtin_memcpy(&value, parts, sizeof(T));
  return value;
}
template <class T>
__hipemu_fn T __shfl(T value, int source, int width = __AMDGCN_WAVEFRONT_SIZE__) {
  const int self = __lane_id();
  return __hipemu_shuffle(value, (source & (width - 1)) + (self & ~(width - 1)));
}
template <class T>
__hipemu_fn T __shfl_up(T value, unsigned delta, int width = __AMDGCN_WAVEFRONT_SIZE__) {
  const int self = __lane_id();
  const int lane = self - (int)delta;
  return __hipemu_shuffle(value, lane < (self & ~(width - 1)) ? self : lane);
}
template <class T>
__hipemu_fn T __shfl_down(T value, unsigned delta, int width = __AMDGCN_WAVEFRONT_SIZE__) {
  const int self = __lane_id();
  return __hipemu_shuffle(value, (self & (width - 1)) + (int)delta >= width ? self : self + (int)delta);
}
template <class T>
__hipemu_fn T __shfl_xor(T value, int mask, int width = __AMDGCN_WAVEFRONT_SIZE__) {
  const int self = __lane_id();
  const int lane = self ^ mask;
  return __hipemu_shuffle(value, lane >= ((self + width) & ~(width - 1)) ? self : lane);
}

// Bits.
__hipemu_fn int __popc(unsigned value) { return __builtin_popcount(value); }
__hipemu_fn int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
__hipemu_fn int __clz(int value) { return value ? __builtin_clz((unsigned)value) : 32; }
__hipemu_fn int __clzll(long long value) { return value ? __builtin_clzll((unsigned long long)value) : 64; }
__hipemu_fn int __ffs(int value) { return __builtin_ffs(value); }
__hipemu_fn int __ffsll(long long value) { return __builtin_ffsll(value); }
__hipemu_fn unsigned __brev(unsigned value) { return __builtin_bitreverse32(value); }
__hipemu_fn unsigned long long __brevll(unsigned long long value) { return __builtin_bitreverse64(value); }
__hipemu_fn unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)(((unsigned long long)a * b) >> 32); }
__hipemu_fn int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
__hipemu_fn int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
__hipemu_fn unsigned __float_as_uint(float value) { return __builtin_bit_cast(unsigned, value); }
__hipemu_fn float __int_as_float(int value) { return __builtin_bit_cast(float, value); }
__hipemu_fn float __uint_as_float(unsigned value) { return __builtin_bit_cast(float, value); }
__hipemu_fn long long __double_as_longlong(double value) { return __builtin_bit_cast(long long, value); }
__hipemu_fn double __longlong_as_double(long long value) { return __builtin_bit_cast(double, value); }
template <class T>
__hipemu_fn T __ldg(const T* pointer) { return *pointer; }

// Atomics, relaxed and for the whole device.
#define __hipemu_atomic(name, builtin, type)                                                   \
  __hipemu_fn type name(type* address, type value) {                                           \
    return builtin(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);                \
  }                                                                                            \
  __hipemu_fn type name##_system(type* address, type value) {                                  \
    return builtin(address, value, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM);               \
  }
#define __hipemu_atomic_integers(name, builtin)             \
  __hipemu_atomic(name, builtin, int)                       \
  __hipemu_atomic(name, builtin, unsigned)                  \
  __hipemu_atomic(name, builtin, unsigned long)             \
  __hipemu_atomic(name, builtin, unsigned long long)
__hipemu_atomic_integers(atomicAdd, __hip_atomic_fetch_add)
__hipemu_atomic(atomicAdd, __hip_atomic_fetch_add, float)
__hipemu_atomic(atomicAdd, __hip_atomic_fetch_add, double)
__hipemu_atomic_integers(atomicExch, __hip_atomic_exchange)
__hipemu_atomic(atomicExch, __hip_atomic_exchange, float)
__hipemu_atomic_integers(atomicMin, __hip_atomic_fetch_min)
__hipemu_atomic_integers(atomicMax, __hip_atomic_fetch_max)
__hipemu_atomic_integers(atomicAnd, __hip_atomic_fetch_and)
__hipemu_atomic_integers(atomicOr, __hip_atomic_fetch_or)
__hipemu_atomic_integers(atomicXor, __hip_atomic_fetch_xor)
__hipemu_fn int atomicSub(int* address, int value) { return atomicAdd(address, -value); }
__hipemu_fn unsigned atomicSub(unsigned* address, unsigned value) { return atomicAdd(address, 0u - value); }
#define __hipemu_atomic_swap(type)                                                                     \
  __hipemu_fn type atomicCAS(type* address, type expected, type wanted) {                              \
    __hip_atomic_compare_exchange_strong(address, &expected, wanted, __ATOMIC_RELAXED, __ATOMIC_RELAXED, \
                                         __HIP_MEMORY_SCOPE_AGENT);                                    \
    return expected;                                                                                   \
  }
__hipemu_atomic_swap(int)
__hipemu_atomic_swap(unsigned)
__hipemu_atomic_swap(unsigned long)
__hipemu_atomic_swap(unsigned long long)
__hipemu_fn unsigned atomicInc(unsigned* address, unsigned limit) {
  return __builtin_amdgcn_atomic_inc32(address, limit, __ATOMIC_RELAXED, "agent");
}
__hipemu_fn unsigned atomicDec(unsigned* address, unsigned limit) {
  return __builtin_amdgcn_atomic_dec32(address, limit, __ATOMIC_RELAXED, "agent");
}

// Mathematics: instructions where there is one, else the device libraries.
#define __hipemu_math1(name, builtin)                                             \
  __hipemu_fn float name##f(float x) { return builtin##f(x); }                    \
  __hipemu_fn double name(double x) { return builtin(x); }                        \
  __hipemu_fn float name(float x) { return builtin##f(x); }
#define __hipemu_math2(name, builtin)                                             \
  __hipemu_fn float name##f(float x, float y) { return builtin##f(x, y); }        \
  __hipemu_fn double name(double x, double y) { return builtin(x, y); }           \
  __hipemu_fn float name(float x, float y) { return builtin##f(x, y); }
__hipemu_math1(fabs, __builtin_fabs)
__hipemu_math1(floor, __builtin_floor)
__hipemu_math1(ceil, __builtin_ceil)
__hipemu_math1(trunc, __builtin_trunc)
__hipemu_math1(rint, __builtin_rint)
__hipemu_math1(nearbyint, __builtin_nearbyint)
__hipemu_math1(round, __builtin_round)
__hipemu_math1(sqrt, __builtin_sqrt)
__hipemu_math2(fmin, __builtin_fmin)
__hipemu_math2(fmax, __builtin_fmax)
__hipemu_math2(copysign, __builtin_copysign)
__hipemu_fn float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__hipemu_fn double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
__hipemu_fn float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#define __hipemu_ocml1(name)                                                      \
  extern "C" __device__ __attribute__((const)) float __ocml_##name##_f32(float);  \
  extern "C" __device__ __attribute__((const)) double __ocml_##name##_f64(double);\
  __hipemu_fn float name##f(float x) { return __ocml_##name##_f32(x); }           \
  __hipemu_fn double name(double x) { return __ocml_##name##_f64(x); }            \
  __hipemu_fn float name(float x) { return __ocml_##name##_f32(x); }
#define __hipemu_ocml2(name)                                                                \
  extern "C" __device__ __attribute__((const)) float __ocml_##name##_f32(float, float);     \
  extern "C" __device__ __attribute__((const)) double __ocml_##name##_f64(double, double);  \
  __hipemu_fn float name##f(float x, float y) { return __ocml_##name##_f32(x, y); }         \
  __hipemu_fn double name(double x, double y) { return __ocml_##name##_f64(x, y); }         \
  __hipemu_fn float name(float x, float y) { return __ocml_##name##_f32(x, y); }
__hipemu_ocml1(sin)
__hipemu_ocml1(cos)
__hipemu_ocml1(tan)
__hipemu_ocml1(sinpi)
__hipemu_ocml1(cospi)
__hipemu_ocml1(asin)
__hipemu_ocml1(acos)
__hipemu_ocml1(atan)
__hipemu_ocml1(sinh)
__hipemu_ocml1(cosh)
__hipemu_ocml1(tanh)
__hipemu_ocml1(asinh)
__hipemu_ocml1(acosh)
__hipemu_ocml1(atanh)
__hipemu_ocml1(exp)
__hipemu_ocml1(exp2)
__hipemu_ocml1(exp10)
__hipemu_ocml1(expm1)
__hipemu_ocml1(log)
__hipemu_ocml1(log2)
__hipemu_ocml1(log10)
__hipemu_ocml1(log1p)
__hipemu_ocml1(erf)
__hipemu_ocml1(erfc)
__hipemu_ocml1(erfinv)
__hipemu_ocml1(cbrt)
__hipemu_ocml1(rsqrt)
__hipemu_ocml2(pow)
__hipemu_ocml2(atan2)
__hipemu_ocml2(hypot)
__hipemu_ocml2(fmod)
__hipemu_fn float __expf(float x) { return __builtin_amdgcn_exp2f(x * 1.44269504088896340736f); }
__hipemu_fn float __logf(float x) { return __builtin_amdgcn_logf(x) * 0.693147180559945309417f; }
__hipemu_fn float __log2f(float x) { return __builtin_amdgcn_logf(x); }
__hipemu_fn float __exp2f(float x) { return __builtin_amdgcn_exp2f(x); }
__hipemu_fn float __sinf(float x) { return sinf(x); }
__hipemu_fn float __cosf(float x) { return cosf(x); }
__hipemu_fn float __powf(float x, float y) { return __builtin_amdgcn_exp2f(y * __builtin_amdgcn_logf(x)); }
__hipemu_fn float __fdividef(float x, float y) { return x * __builtin_amdgcn_rcpf(y); }
__hipemu_fn float __frcp_rn(float x) { return 1.0f / x; }
__hipemu_fn float __frsqrt_rn(float x) { return __builtin_amdgcn_rsqf(x); }
__hipemu_fn float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
__hipemu_fn bool isnan(float x) { return __builtin_isnan(x); }
__hipemu_fn bool isinf(float x) { return __builtin_isinf(x); }
__hipemu_fn bool isfinite(float x) { return __builtin_isfinite(x); }
__hipemu_fn bool isnan(double x) { return __builtin_isnan(x); }
__hipemu_fn bool isinf(double x) { return __builtin_isinf(x); }
__hipemu_fn bool isfinite(double x) { return __builtin_isfinite(x); }
__hipemu_fn int abs(int x) { return x < 0 ? -x : x; }
__hipemu_fn float abs(float x) { return __builtin_fabsf(x); }
__hipemu_fn double abs(double x) { return __builtin_fabs(x); }
#define __hipemu_minmax(type)                                            \
  __hipemu_fn type min(type a, type b) { return b < a ? b : a; }         \
  __hipemu_fn type max(type a, type b) { return a < b ? b : a; }
__hipemu_minmax(int)
__hipemu_minmax(unsigned)
__hipemu_minmax(long)
__hipemu_minmax(unsigned long)
__hipemu_minmax(long long)
__hipemu_minmax(unsigned long long)
__hipemu_fn float min(float a, float b) { return __builtin_fminf(a, b); }
__hipemu_fn float max(float a, float b) { return __builtin_fmaxf(a, b); }
__hipemu_fn double min(double a, double b) { return __builtin_fmin(a, b); }
__hipemu_fn double max(double a, double b) { return __builtin_fmax(a, b); }

// Half precision.
typedef _Float16 __half;
typedef _Float16 half;
struct __attribute__((aligned(4))) __half2 { __half x, y; };
typedef __half2 half2;
__hipemu_fn __half __float2half(float x) { return (__half)x; }
__hipemu_fn __half __float2half_rn(float x) { return (__half)x; }
__hipemu_fn float __half2float(__half x) { return (float)x; }
__hipemu_fn __half __int2half_rn(int x) { return (__half)x; }
__hipemu_fn __half __hadd(__half a, __half b) { return a + b; }
__hipemu_fn __half __hsub(__half a, __half b) { return a - b; }
__hipemu_fn __half __hmul(__half a, __half b) { return a * b; }
__hipemu_fn __half __hdiv(__half a, __half b) { return a / b; }
__hipemu_fn __half __hneg(__half a) { return -a; }
__hipemu_fn __half __hfma(__half a, __half b, __half c) { return __builtin_fmaf16(a, b, c); }
__hipemu_fn bool __hlt(__half a, __half b) { return a < b; }
__hipemu_fn bool __hgt(__half a, __half b) { return a > b; }
__hipemu_fn bool __heq(__half a, __half b) { return a == b; }
__hipemu_fn __half2 make_half2(__half x, __half y) { return {x, y}; }
__hipemu_fn __half2 __halves2half2(__half x, __half y) { return {x, y}; }
__hipemu_fn __half2 __half2half2(__half x) { return {x, x}; }
__hipemu_fn __half2 __float2half2_rn(float x) { return {(__half)x, (__half)x}; }
__hipemu_fn __half2 __floats2half2_rn(float x, float y) { return {(__half)x, (__half)y}; }
__hipemu_fn __half __low2half(__half2 a) { return a.x; }
__hipemu_fn __half __high2half(__half2 a) { return a.y; }
__hipemu_fn float __low2float(__half2 a) { return (float)a.x; }
__hipemu_fn float __high2float(__half2 a) { return (float)a.y; }
__hipemu_fn float2 __half22float2(__half2 a) { return {(float)a.x, (float)a.y}; }
__hipemu_fn __half2 __hadd2(__half2 a, __half2 b) { return {a.x + b.x, a.y + b.y}; }
__hipemu_fn __half2 __hsub2(__half2 a, __half2 b) { return {a.x - b.x, a.y - b.y}; }
__hipemu_fn __half2 __hmul2(__half2 a, __half2 b) { return {a.x * b.x, a.y * b.y}; }
__hipemu_fn __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
__hipemu_fn unsigned short __half_as_ushort(__half a) { return __builtin_bit_cast(unsigned short, a); }
__hipemu_fn __half __ushort_as_half(unsigned short a) { return __builtin_bit_cast(__half, a); }

extern "C" __device__ int printf(const char*, ...);
#define assert(condition) ((condition) ? (void)0 : __builtin_trap())
)hip";

}  // namespace hipemu::hip
