// Products of few rows with weights in 16 bits, which are widened in registers.
#include "cpu/half_product_kernels.h"

#include <bit>

#include "cpu/isa/fetch.h"
#include "cpu/isa/rows.h"
#include "hearth/dtype.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

// A register of floats.
#if defined(__aarch64__)
HEARTH_INLINE Vector<float> widened(const bfloat16* from) {
  return vreinterpretq_f32_u32(vshll_n_u16(load<uint16x4_t>(from), 16));
}
HEARTH_INLINE Vector<float> widened(const float16* from) { return vcvt_f32_f16(load<float16x4_t>(from)); }
#elif defined(__AVX512F__)
HEARTH_INLINE Vector<float> widened(const bfloat16* from) {
  return std::bit_cast<Vector<float>>(_mm512_slli_epi32(_mm512_cvtepu16_epi32(load<__m256i>(from)), 16));
}
HEARTH_INLINE Vector<float> widened(const float16* from) {
  return std::bit_cast<Vector<float>>(_mm512_cvtph_ps(load<__m256i>(from)));
}
#elif defined(__AVX2__)
HEARTH_INLINE Vector<float> widened(const bfloat16* from) {
  return std::bit_cast<Vector<float>>(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load<__m128i>(from)), 16));
}
HEARTH_INLINE Vector<float> widened(const float16* from) {
  return std::bit_cast<Vector<float>>(_mm256_cvtph_ps(load<__m128i>(from)));
}
#else
template <typename T>
HEARTH_INLINE Vector<float> widened(const T* from) {
  Vector<float> result;
  for (std::int64_t i = 0; i < vector_lanes<float>; ++i) result[i] = static_cast<float>(from[i]);
  return result;
}
#endif

// A sum that waits for itself at every step keeps a core waiting: there are at least eight.
template <typename T, int ROWS>
HEARTH_INLINE void dot(const T* w, const float* x, float* out, std::int64_t stride, std::int64_t depth) {
  constexpr int chains = ROWS >= 4 ? 2 : 8;
  constexpr std::int64_t lanes = vector_lanes<float>;
  Vector<float> sums[ROWS][chains] = {};
  std::int64_t k = 0;
  for (; k + chains * lanes <= depth; k += chains * lanes) {
    fetch_ahead<chains * lanes * sizeof(T)>(w + k);
#pragma GCC unroll 8
    for (int i = 0; i < chains; ++i) {
      const Vector<float> weights = widened(w + k + i * lanes);
#pragma GCC unroll 4
      for (int r = 0; r < ROWS; ++r)
        sums[r][i] += weights * load<Vector<float>>(x + r * depth + k + i * lanes);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < ROWS; ++r) {
#pragma GCC unroll 8
    for (int i = 1; i < chains; ++i) sums[r][0] += sums[r][i];
    float sum = combine_lanes<float>(sums[r][0], Plus{});
    for (std::int64_t i = k; i < depth; ++i) sum += static_cast<float>(w[i]) * x[r * depth + i];
    out[r * stride] = sum;
  }
}

template <typename T, int ROWS>
void multiply_rows(const void* weights, std::int64_t columns, const float* x, float* out, std::int64_t stride,
                   std::int64_t depth) {
  const T* row = static_cast<const T*>(weights);
  for (std::int64_t column = 0; column < columns; ++column, row += depth)
    dot<T, ROWS>(row, x, out + column, stride, depth);
}

}  // namespace

extern const HalfProductKernels half_product_kernels_table = {
    {multiply_rows<float16, 1>, multiply_rows<bfloat16, 1>},
    {multiply_rows<float16, 4>, multiply_rows<bfloat16, 4>}};

}  // namespace hearth::cpu::HEARTH_ISA
