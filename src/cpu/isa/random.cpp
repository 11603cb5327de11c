// Blocks of random words, and normal numbers from them by the Box-Muller transform.
#include "cpu/isa/philox.h"
#include "cpu/isa/turns.h"
#include "cpu/random_kernels.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

void philox(std::uint64_t seed, std::uint64_t first, std::uint32_t* words, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint64_t number = first + static_cast<std::uint64_t>(i);
    const PhiloxBlock counter{static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(number >> 32), 0,
                              0};
    const PhiloxBlock block =
        philox_block(counter, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    words[4 * i] = block.w0;
    words[4 * i + 1] = block.w1;
    words[4 * i + 2] = block.w2;
    words[4 * i + 3] = block.w3;
  }
}

void normal(const std::uint32_t* words, float* out, std::int64_t count) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < count / 2; ++i) {
    const float u = static_cast<float>(words[2 * i]) * 0x1p-32f + 0x1p-33f;
    const float v = static_cast<float>(static_cast<std::int32_t>(words[2 * i + 1] >> 8)) * 0x1p-24f;
    const float radius = math::sqrt(-2.0f * math::log(u));
    const math::SineCosine direction = math::sine_cosine_of_turns(v);
    out[2 * i] = radius * direction.cosine;
    out[2 * i + 1] = radius * direction.sine;
  }
}

}  // namespace

extern const RandomKernels random_kernels_table = {philox, normal};

}  // namespace hearth::cpu::HEARTH_ISA
