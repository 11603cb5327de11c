// Rotary position embedding.
#include "cpu/isa/rows.h"
#include "cpu/isa/turns.h"
#include "cpu/normalisation_kernels.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

void angles(double position, const double* turns, float* cosine, float* sine, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count; ++i) {
    const auto [s, c] = math::sine_cosine_of_turns(position * turns[i]);
    cosine[i] = c;
    sine[i] = s;
  }
}

template <typename S, bool interleaved>
void rotate(const void* from, void* to, const void* cosines, const void* sines, std::int64_t half) {
  using C = Compute<S>;
  const S* x = static_cast<const S*>(from);
  S* out = static_cast<S*>(to);
  const C* cosine = static_cast<const C*>(cosines);
  const C* sine = static_cast<const C*>(sines);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < half; ++i) {
    const std::int64_t first = interleaved ? 2 * i : i, second = interleaved ? 2 * i + 1 : i + half;
    const C a = static_cast<C>(x[first]), b = static_cast<C>(x[second]);
    out[first] = static_cast<S>(a * cosine[i] - b * sine[i]);
    out[second] = static_cast<S>(a * sine[i] + b * cosine[i]);
  }
}

}  // namespace

extern const RopeKernels rope_kernels_table = {
    angles,
    {rotate<float16, false>, rotate<bfloat16, false>, rotate<float, false>, rotate<double, false>},
    {rotate<float16, true>, rotate<bfloat16, true>, rotate<float, true>, rotate<double, true>}};

}  // namespace hearth::cpu::HEARTH_ISA
