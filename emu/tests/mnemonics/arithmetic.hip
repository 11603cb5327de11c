// Operations of tensor code on every type: what the compiler turns them into depends on the chip.
#include <hip/hip_fp16.h>
#include <hip/hip_runtime.h>

using half2v = _Float16 __attribute__((ext_vector_type(2)));
using short2v = short __attribute__((ext_vector_type(2)));
using ushort2v = unsigned short __attribute__((ext_vector_type(2)));
using float2v = float __attribute__((ext_vector_type(2)));
using float4v = float __attribute__((ext_vector_type(4)));
using half8v = _Float16 __attribute__((ext_vector_type(8)));
using int4v = int __attribute__((ext_vector_type(4)));
using char4v = signed char __attribute__((ext_vector_type(4)));

#define KERNEL(name, type) __global__ void name(type* a, type* b, type* c, type* d, int n)
#define INDEX const int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return

template <class T>
__device__ T least(T a, T b) { return a < b ? a : b; }
template <class T>
__device__ T most(T a, T b) { return a > b ? a : b; }

template <class T>
__device__ void anything(T* a, T* b, T* c, T* d, int i) {
  const T x = a[i], y = b[i], z = c[i];
  d[16 * i + 0] = x + y;
  d[16 * i + 1] = x - y;
  d[16 * i + 2] = x * y;
  d[16 * i + 3] = x / y;
  d[16 * i + 4] = x * y + z;
  d[16 * i + 5] = least(x, y);
  d[16 * i + 6] = most(x, y);
  d[16 * i + 7] = least(most(x, y), z);
  d[16 * i + 8] = x < y ? z : x;
  d[16 * i + 9] = x == y ? z : y;
  d[16 * i + 10] = -x;
  d[16 * i + 11] = x > T(0) ? x : T(0);
  d[16 * i + 12] = least(least(x, y), z);
  d[16 * i + 13] = x + y + z;
  d[16 * i + 14] = x - y * z;
}
template <class T>
__device__ void bits(T* a, T* b, T* c, T* d, int i) {
  const T x = a[i], y = b[i], z = c[i];
  d[16 * i + 0] = x & y;
  d[16 * i + 1] = x | y;
  d[16 * i + 2] = x ^ y;
  d[16 * i + 3] = ~x;
  d[16 * i + 4] = x << (y & T(8 * sizeof(T) - 1));
  d[16 * i + 5] = x >> (y & T(8 * sizeof(T) - 1));
  d[16 * i + 6] = (x & y) | z;
  d[16 * i + 7] = x | y | z;
  d[16 * i + 8] = x ^ y ^ z;
  d[16 * i + 9] = (x << T(3)) | z;
  d[16 * i + 10] = (x << T(3)) + z;
  d[16 * i + 11] = (x + y) << T(3);
  d[16 * i + 12] = (x >> T(4)) & T(15);
  d[16 * i + 13] = (x & y) | (~x & z);
  d[16 * i + 14] = x % y;
  d[16 * i + 15] = ~(x ^ y);
}

#define TYPES_OF_FLOAT(name, type) KERNEL(name, type) { INDEX; anything(a, b, c, d, i); }
#define TYPES_OF_INTEGER(name, type) TYPES_OF_FLOAT(name, type) KERNEL(name##_bits, type) { INDEX; bits(a, b, c, d, i); }
TYPES_OF_FLOAT(singles, float)
TYPES_OF_FLOAT(doubles, double)
TYPES_OF_FLOAT(halves, _Float16)
TYPES_OF_INTEGER(chars, signed char)
TYPES_OF_INTEGER(bytes, unsigned char)
TYPES_OF_INTEGER(shorts, short)
TYPES_OF_INTEGER(ushorts, unsigned short)
TYPES_OF_INTEGER(ints, int)
TYPES_OF_INTEGER(uints, unsigned)
TYPES_OF_INTEGER(longs, long)
TYPES_OF_INTEGER(ulongs, unsigned long)

// Packed halves and shorts, pairs of floats.
#define PACKED(name, type)                                                                                     \
  KERNEL(name, type) {                                                                                         \
    INDEX;                                                                                                     \
    const type x = a[i], y = b[i], z = c[i];                                                                   \
    d[8 * i] = x + y;                                                                                          \
    d[8 * i + 1] = x - y;                                                                                      \
    d[8 * i + 2] = x * y;                                                                                      \
    d[8 * i + 3] = x * y + z;                                                                                  \
    d[8 * i + 4] = x.yx + y;                                                                                   \
    d[8 * i + 5] = __builtin_elementwise_max(x, y);                                                            \
    d[8 * i + 6] = __builtin_elementwise_min(x, y);                                                            \
    d[8 * i + 7] = -x * y.yy + z.xx;                                                                           \
  }
PACKED(half_pairs, half2v)
PACKED(short_pairs, short2v)
PACKED(ushort_pairs, ushort2v)
PACKED(float_pairs, float2v)

// Every conversion between two types.
template <class From>
__device__ void convert_from(const From* a, int i, float* f, double* d, _Float16* h, signed char* c, unsigned char* uc,
                             short* s, unsigned short* us, int* n, unsigned* u, long* l, unsigned long* ul) {
  const From x = a[i];
  f[i] = x, d[i] = x, h[i] = x, c[i] = x, uc[i] = x, s[i] = x, us[i] = x, n[i] = x, u[i] = x, l[i] = x, ul[i] = x;
}
#define CONVERT(name, type)                                                                                    \
  __global__ void name(const type* a, float* f, double* d, _Float16* h, signed char* c, unsigned char* uc,     \
                       short* s, unsigned short* us, int* n, unsigned* u, long* l, unsigned long* ul) {        \
    convert_from(a, threadIdx.x, f, d, h, c, uc, s, us, n, u, l, ul);                                          \
  }
CONVERT(from_float, float)
CONVERT(from_double, double)
CONVERT(from_half, _Float16)
CONVERT(from_char, signed char)
CONVERT(from_byte, unsigned char)
CONVERT(from_short, short)
CONVERT(from_ushort, unsigned short)
CONVERT(from_int, int)
CONVERT(from_uint, unsigned)
CONVERT(from_long, long)
CONVERT(from_ulong, unsigned long)

// Comparisons in all ways, ordered and not.
template <class T>
__device__ int compare(T x, T y) {
  return (x < y) + 2 * (x <= y) + 4 * (x == y) + 8 * (x != y) + 16 * (x > y) + 32 * (x >= y) + 64 * !(x < y) +
         128 * !(x <= y) + 256 * __builtin_isunordered(double(x), double(y)) + 512 * __builtin_isnan(double(x)) +
         1024 * __builtin_isinf(double(x)) + 2048 * __builtin_islessgreater(double(x), double(y));
}
__global__ void compares(const float* f, const double* d, const _Float16* h, const short* s, const unsigned short* us,
                         const int* n, const unsigned* u, const long* l, const unsigned long* ul, int* out) {
  const int i = threadIdx.x;
  out[i] = compare(f[i], f[i + 1]) ^ compare(d[i], d[i + 1]) ^ compare(h[i], h[i + 1]) ^ compare(s[i], s[i + 1]) ^
           compare(us[i], us[i + 1]) ^ compare(n[i], n[i + 1]) ^ compare(u[i], u[i + 1]) ^ compare(l[i], l[i + 1]) ^
           compare(ul[i], ul[i + 1]);
}

__global__ void mixed_precision(const _Float16* a, const _Float16* b, const float* c, float* d, _Float16* e) {
  const int i = threadIdx.x;
  d[i] = static_cast<float>(a[i]) * static_cast<float>(b[i]) + c[i];
  e[i] = static_cast<_Float16>(static_cast<float>(a[i]) * static_cast<float>(b[i]) + c[i]);
  e[2 * i + 1] = static_cast<_Float16>(c[i] * 2.0f + c[i + 1]);
}

__global__ void lanes(int* a, float* f, unsigned long* masks) {
  const int i = threadIdx.x;
  int x = a[i];
  for (int step = 1; step < warpSize; step *= 2) x += __shfl_xor(x, step);
  x += __shfl_up(x, 3) + __shfl_down(x, 1) + __shfl(x, 5);
  masks[i] = __ballot(x > 3) + __popcll(__ballot(x < 9)) + __lane_id();
  x += __any(x > 7) + 2 * __all(x > 5);
  x += __builtin_amdgcn_update_dpp(0, x, 0x111, 0xf, 0xf, true);
  x += __builtin_amdgcn_update_dpp(x, x, 0xb1, 0xa, 0xf, false);
  x += __builtin_amdgcn_mov_dpp(x, 0x141, 0xf, 0xf, true);
  x += __builtin_amdgcn_readfirstlane(x) + __builtin_amdgcn_readlane(x, 3);
  x += __builtin_amdgcn_ds_swizzle(x, 0x401f) + __builtin_amdgcn_ds_bpermute(4 * i, x);
  f[i] += __builtin_amdgcn_fmed3f(f[i], f[i + 1], f[i + 2]);
  a[i] = x;
}

__global__ void counting(unsigned* a, unsigned long* b, int* c) {
  const int i = threadIdx.x;
  c[8 * i] = __clz(a[i]) + __ffs(a[i]) + __popc(a[i]) + __brev(a[i]);
  c[8 * i + 1] = __clzll(b[i]) + __ffsll(static_cast<unsigned long long>(b[i])) + __popcll(b[i]) + __brevll(b[i]);
  c[8 * i + 2] = __byte_perm(a[i], a[i + 1], 0x5140) + __mul24(a[i], a[i + 1]) + __umul24(a[i], a[i + 1]);
  c[8 * i + 3] = __mulhi(int(a[i]), int(a[i + 1])) + __umulhi(a[i], a[i + 1]);
  c[8 * i + 4] = __usad(a[i], a[i + 1], a[i + 2]) + __hadd(int(a[i]), int(a[i + 1]));
  c[8 * i + 5] = __umul64hi(b[i], b[i + 1]) + __mul64hi(long(b[i]), long(b[i + 1]));
  c[8 * i + 6] = __funnelshift_l(a[i], a[i + 1], a[i + 2]);
  c[8 * i + 7] = __builtin_amdgcn_alignbit(a[i], a[i + 1], 7) + __builtin_amdgcn_sad_u8(a[i], a[i + 1], a[i + 2]) +
                 __builtin_amdgcn_perm(a[i], a[i + 1], a[i + 2]) + __builtin_amdgcn_lerp(a[i], a[i + 1], a[i + 2]);
}

// The dot products a chip has.
__global__ void dots(const int* a, const int* b, int* c, float* f) {
  const int i = threadIdx.x;
#if __has_builtin(__builtin_amdgcn_sdot4)
#if defined(__gfx90a__) || defined(__gfx942__) || defined(__gfx1030__)
  c[i] = __builtin_amdgcn_sdot4(a[i], b[i], c[i], false) + __builtin_amdgcn_sdot8(a[i], b[i], c[i + 1], true);
#else
  c[i] = __builtin_amdgcn_sudot4(true, a[i], true, b[i], c[i], false) +
         __builtin_amdgcn_sudot4(false, a[i], true, b[i], c[i], true) +
         __builtin_amdgcn_sudot8(true, a[i], false, b[i], c[i], false);
  f[i + 1] = __builtin_amdgcn_fdot2_f32_bf16(__builtin_bit_cast(__bf16 __attribute__((ext_vector_type(2))), a[i]),
                                             __builtin_bit_cast(__bf16 __attribute__((ext_vector_type(2))), b[i]), f[i],
                                             false);
#endif
#endif
  c[2 * i + 1] = __builtin_amdgcn_udot4(a[i], b[i], c[i], false) + __builtin_amdgcn_udot8(a[i], b[i], c[i], true);
  f[i] = __builtin_amdgcn_fdot2(__builtin_bit_cast(half2v, a[i]), __builtin_bit_cast(half2v, b[i]), f[i], false);
}

#if defined(__gfx942__) || defined(__gfx1201__)
__global__ void small_floats(const float* a, int* b, float* f, const unsigned* random) {
  const int i = threadIdx.x;
  int packed = __builtin_amdgcn_cvt_pk_fp8_f32(a[i], a[i + 1], 0, false);
  packed = __builtin_amdgcn_cvt_pk_bf8_f32(a[i + 2], a[i + 3], packed, true);
  packed = __builtin_amdgcn_cvt_sr_fp8_f32(a[i + 4], random[i], packed, 1);
  packed = __builtin_amdgcn_cvt_sr_bf8_f32(a[i + 5], random[i], packed, 3);
  b[i] = packed;
  f[i] = __builtin_amdgcn_cvt_f32_fp8(b[i], 0) + __builtin_amdgcn_cvt_f32_fp8(b[i], 2) +
         __builtin_amdgcn_cvt_f32_bf8(b[i], 3) + __builtin_amdgcn_cvt_pk_f32_fp8(b[i], true)[1] +
         __builtin_amdgcn_cvt_pk_f32_bf8(b[i], false)[0];
}
#endif

// Registers addressed by a variable.
__global__ void indexed(const float* a, const int* where, float* out) {
  float values[16];
  for (int k = 0; k < 16; ++k) values[k] = a[16 * threadIdx.x + k];
  values[where[0] & 15] = 3.0f;
  values[where[threadIdx.x] & 15] += 1.0f;
  float sum = 0;
  for (int k = 0; k < 16; ++k) sum += values[(k * where[1]) & 15] * static_cast<float>(k);
  out[threadIdx.x] = sum + values[where[2] & 15];
}

__global__ void softmax(const _Float16* in, _Float16* out, int n) {
  __shared__ float partial[256];
  float most = -INFINITY;
  for (int k = threadIdx.x; k < n; k += blockDim.x) most = fmaxf(most, static_cast<float>(in[k]));
  partial[threadIdx.x] = most;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] = fmaxf(partial[threadIdx.x], partial[threadIdx.x + step]);
    __syncthreads();
  }
  most = partial[0];
  __syncthreads();
  float sum = 0;
  for (int k = threadIdx.x; k < n; k += blockDim.x) sum += __expf(static_cast<float>(in[k]) - most);
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
    __syncthreads();
  }
  for (int k = threadIdx.x; k < n; k += blockDim.x)
    out[k] = static_cast<_Float16>(__expf(static_cast<float>(in[k]) - most) / partial[0]);
}
