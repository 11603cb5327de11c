// Sine and cosine of an angle given in turns, as straight-line code.
#pragma once

#include "cpu/isa/math.h"

namespace hearth::cpu::HEARTH_ISA::math {

struct SineCosine {
  float sine, cosine;
};

// Of 2 pi * (quadrant / 4 + rest) for |rest| <= 1/8.
HEARTH_INLINE SineCosine sine_cosine(std::int32_t quadrant, float rest) {
  const float r = rest * 6.28318531f;
  const float z = r * r;
  float s = -1.9515295891e-4f;
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * r + r;
  float c = 2.443315711809948e-5f;
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  const float sine = quadrant & 1 ? c : s;
  const float cosine = quadrant & 1 ? s : c;
  return {quadrant & 2 ? -sine : sine, (quadrant + 1) & 2 ? -cosine : cosine};
}

// The magic numbers are 1.5 * 2^mantissa bits: adding one rounds to an integer, which is then in the low
// bits.
HEARTH_INLINE SineCosine sine_cosine_of_turns(float turns) {  // |turns| < 2^20
  const float shifted = turns * 4.0f + 12582912.0f;
  return sine_cosine(bits<std::int32_t>(shifted), turns - (shifted - 12582912.0f) * 0.25f);
}
HEARTH_INLINE SineCosine sine_cosine_of_turns(double turns) {  // |turns| < 2^48
  const double shifted = turns * 4.0 + 6755399441055744.0;
  return sine_cosine(static_cast<std::int32_t>(bits<std::int64_t>(shifted)),
                     static_cast<float>(turns - (shifted - 6755399441055744.0) * 0.25));
}

}  // namespace hearth::cpu::HEARTH_ISA::math
