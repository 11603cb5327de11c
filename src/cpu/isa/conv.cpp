// The vector kernels of convolution: blocks of sums that stay in registers.
#include <cstdint>

#include "cpu/conv_kernels.h"

#if defined(__aarch64__)
#include <arm_neon.h>
#elif defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hearth::cpu::HEARTH_ISA {
namespace {

using std::int64_t;

#if defined(__AVX512F__)
constexpr int lanes = 16, registers = 32;
using Vector = __m512;
inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
inline float sum_lanes(Vector v) { return _mm512_reduce_add_ps(v); }
// Four sums of lanes: the first steps work on all four at once.
inline void sum_lanes(Vector a, Vector b, Vector c, Vector d, float (&sums)[4]) {
  const Vector ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
  const Vector cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
  const __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  const __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
  const Vector all = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
  const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all),
                                    _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(all), 1)));
  _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
#elif defined(__AVX2__) && defined(__FMA__)
constexpr int lanes = 8, registers = 16;
using Vector = __m256;
inline Vector multiply_add(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
inline float sum_lanes(Vector v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
inline void sum_lanes(Vector a, Vector b, Vector c, Vector d, float (&sums)[4]) {
  const Vector all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
  _mm_storeu_ps(sums, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}
#elif defined(__aarch64__)
constexpr int lanes = 4, registers = 32;
using Vector = float32x4_t;
inline Vector multiply_add(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }
inline float sum_lanes(Vector v) { return vaddvq_f32(v); }
inline void sum_lanes(Vector a, Vector b, Vector c, Vector d, float (&sums)[4]) {
  vst1q_f32(sums, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
}
#else
constexpr int lanes = 4, registers = 16;
typedef float Vector __attribute__((vector_size(16)));
inline Vector multiply_add(Vector a, Vector b, Vector c) { return a * b + c; }
inline float sum_lanes(Vector v) { return (v[0] + v[1]) + (v[2] + v[3]); }
inline void sum_lanes(Vector a, Vector b, Vector c, Vector d, float (&sums)[4]) {
  const Vector vectors[4] = {a, b, c, d};
  for (int i = 0; i < 4; ++i) sums[i] = sum_lanes(vectors[i]);
}
#endif
typedef float Unaligned
    __attribute__((vector_size(lanes * sizeof(float)), aligned(sizeof(float)), may_alias));

inline Vector load(const float* from) { return (Vector) * reinterpret_cast<const Unaligned*>(from); }
inline void store(float* to, Vector value) { *reinterpret_cast<Unaligned*>(to) = (Unaligned)value; }
inline Vector broadcast(float value) { return value - Vector{}; }

// Sums stay in registers only if every loop over them is unrolled, hence the pragmas.
//
// A full block of sums: 8 x 3 vectors where there are 32 registers, 4 x 3 where there are 16. Narrower
// blocks, for the last channels and for small groups, make up for it with more vectors.
constexpr int block = registers == 32 ? 8 : 4;

template <int width>
struct Weights {
#if defined(__aarch64__)
  // Multiplying by a lane of a vector saves the broadcasts.
  static constexpr int size = width < 4 ? width : 4;
  typedef float Part __attribute__((vector_size(size * sizeof(float)), aligned(sizeof(float)), may_alias));
  Part parts[width / size];
  explicit Weights(const float* from) {
    for (int i = 0; i < width / size; ++i) parts[i] = *reinterpret_cast<const Part*>(from + size * i);
  }
  Vector times(int o, Vector x, Vector sum) const { return vfmaq_n_f32(sum, x, parts[o / size][o % size]); }
#else
  const float* from;
  explicit Weights(const float* weights) : from(weights) {}
  Vector times(int o, Vector x, Vector sum) const { return multiply_add(x, broadcast(from[o]), sum); }
#endif
};

// `width` output channels, of which `valid` exist, by `count` vectors of positions.
template <int width, int count>
void correlate_tile(const Correlation& c, const float* planes, const float* weights, const float* start,
                    float* out, int64_t valid) {
  Vector sum[width][count];
#pragma GCC unroll 8
  for (int o = 0; o < width; ++o)
#pragma GCC unroll 8
    for (int j = 0; j < count; ++j)
      sum[o][j] = o >= valid ? Vector{}
                  : start    ? broadcast(start[o])
                             : load(out + o * c.out_stride + j * lanes);
  // The address is looked up one read ahead: the multiply-adds waiting for it would fill the processor's
  // queues.
  const float* next = planes + c.reads[0];
  for (int64_t k = 0; k < c.read_count; ++k, weights += width) {
    const float* from = next;
    next = planes + c.reads[k + 1];
    const Weights<width> w(weights);
    Vector x[count];
#pragma GCC unroll 8
    for (int j = 0; j < count; ++j) x[j] = load(from + j * lanes);
#pragma GCC unroll 8
    for (int o = 0; o < width; ++o)
#pragma GCC unroll 8
      for (int j = 0; j < count; ++j) sum[o][j] = w.times(o, x[j], sum[o][j]);
  }
#pragma GCC unroll 8
  for (int o = 0; o < width; ++o) {
    if (o >= valid) break;
#pragma GCC unroll 8
    for (int j = 0; j < count; ++j) store(out + o * c.out_stride + j * lanes, sum[o][j]);
  }
}

template <int width, int count>
void correlate_block(const Correlation& c, int64_t first_out, int64_t position) {
  correlate_tile<width, count>(c, c.planes + position,
                               c.weights + first_out / block * c.weight_stride + c.first_weight * width,
                               c.start ? c.start + first_out : nullptr,
                               c.out + first_out * c.out_stride + position, c.out_channels - first_out);
}

// The blocks of one tile of positions follow each other, so that the tile's inputs stay in the first-level
// cache.
template <int width, int count>
void correlate_channels(const Correlation& c, int64_t first_out, int64_t last_out, int64_t position) {
  for (int64_t o = first_out; o < last_out; o += block) correlate_block<width, count>(c, o, position);
}

template <int width, int most>
void correlate_positions(const Correlation& c, int64_t first_out, int64_t last_out) {
  const int64_t vectors = (c.positions + lanes - 1) / lanes;
  for (int64_t v = 0; v < vectors;) {
    const int64_t left = vectors - v, position = v * lanes;
    // One vector alone cannot keep the multipliers busy: better 2 + 2 than 3 + 1.
    if (left >= most && left != most + 1) {
      correlate_channels<width, most>(c, first_out, last_out, position);
      v += most;
    } else if (left >= 2) {
      correlate_channels<width, 2>(c, first_out, last_out, position);
      v += 2;
    } else {
      correlate_channels<width, 1>(c, first_out, last_out, position);
      v += 1;
    }
  }
}

void correlate(const Correlation& c) {
  const int64_t rest = c.out_channels % block;
  const int64_t full = block_width(block, rest) == block && rest > 0 ? c.out_channels : c.out_channels - rest;
  correlate_positions<block, 3>(c, 0, full);
  if (full == c.out_channels) return;
  if (rest > 1)
    correlate_positions<block / 2, registers == 32 ? 6 : 4>(c, full, c.out_channels);
  else
    correlate_positions<1, 8>(c, full, c.out_channels);
}

// `width` output channels by `count` taps, each a dot product over all positions.
template <int width, int count>
void sum_tile(const GradientSums& s, int64_t first_out, int64_t first_read) {
  Vector sum[width][count] = {};
  const int64_t* reads = s.reads + first_read;
  const int64_t positions = s.positions;
  for (int64_t image = 0; image < s.images; ++image) {
    const float *planes[count], *gradients[width];
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) planes[k] = s.planes + image * s.planes_image_stride + reads[k];
#pragma GCC unroll 8
    for (int o = 0; o < width; ++o)
      gradients[o] = s.gradients + image * s.gradients_image_stride + (first_out + o) * s.gradients_stride;
    for (int64_t p = 0; p < positions; p += lanes) {
      Vector x[count];
#pragma GCC unroll 8
      for (int k = 0; k < count; ++k) x[k] = load(planes[k] + p);
#pragma GCC unroll 8
      for (int o = 0; o < width; ++o) {
        asm volatile("" ::
                         : "memory");  // or the compiler loads all gradients first, and runs out of registers
        const Vector g = load(gradients[o] + p);
#pragma GCC unroll 8
        for (int k = 0; k < count; ++k) sum[o][k] = multiply_add(g, x[k], sum[o][k]);
      }
    }
  }
  float* sums = s.sums + first_out * s.sums_stride + first_read;
  if constexpr (width == 4) {
#pragma GCC unroll 8
    for (int k = 0; k < count; ++k) {
      float four[4];
      sum_lanes(sum[0][k], sum[1][k], sum[2][k], sum[3][k], four);
#pragma GCC unroll 8
      for (int o = 0; o < width; ++o) sums[o * s.sums_stride + k] += four[o];
    }
  } else {
#pragma GCC unroll 8
    for (int o = 0; o < width; ++o)
#pragma GCC unroll 8
      for (int k = 0; k < count; ++k) sums[o * s.sums_stride + k] += sum_lanes(sum[o][k]);
  }
}

template <int width>
void sum_reads(const GradientSums& s, int64_t first_out) {
  constexpr int most = registers == 32 ? 6 : 3;
  int64_t k = 0;
  for (; k + most <= s.read_count; k += most) sum_tile<width, most>(s, first_out, k);
  for (; k + 3 <= s.read_count; k += 3) sum_tile<width, 3>(s, first_out, k);
  for (; k < s.read_count; ++k) sum_tile<width, 1>(s, first_out, k);
}

void sum_gradients(const GradientSums& s) {
  int64_t o = 0;
  for (; o + 4 <= s.out_channels; o += 4) sum_reads<4>(s, o);
  for (; o + 2 <= s.out_channels; o += 2) sum_reads<2>(s, o);
  for (; o < s.out_channels; ++o) sum_reads<1>(s, o);
}

}  // namespace

const ConvKernels conv_kernels_table = {lanes, block, correlate, sum_gradients};

}  // namespace hearth::cpu::HEARTH_ISA
