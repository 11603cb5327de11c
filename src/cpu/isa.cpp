// Which instruction set this machine has.
#include "cpu/isa.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace hearth::cpu {

Isa best_isa() {
#if defined(__x86_64__)
  static const Isa best = [] {
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
      return Isa::avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
      return Isa::avx2;
    return Isa::baseline;
  }();
  return best;
#else
  return Isa::baseline;
#endif
}

BytesIsa best_bytes_isa() {
#if defined(__aarch64__)
  static const BytesIsa best = (getauxval(AT_HWCAP2) & HWCAP2_I8MM) != 0    ? BytesIsa::i8mm
                               : (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0 ? BytesIsa::dotprod
                                                                            : BytesIsa::baseline;
  return best;
#elif defined(__x86_64__)
  switch (best_isa()) {
    case Isa::avx512:
      return __builtin_cpu_supports("avx512vnni") ? BytesIsa::vnni : BytesIsa::avx512;
    case Isa::avx2:
      return BytesIsa::avx2;
    case Isa::baseline:
      break;
  }
  return BytesIsa::baseline;
#else
  return BytesIsa::baseline;
#endif
}

bool multiplies_halves() {
#if defined(__aarch64__)
  static const bool there = (getauxval(AT_HWCAP) & HWCAP_ASIMDFHM) != 0;
  return there;
#else
  return false;
#endif
}

const char* isa_name() {
#if defined(__x86_64__)
  constexpr const char* names[] = {"x86-64", "avx2", "avx512"};
  return names[static_cast<int>(best_isa())];
#elif defined(__aarch64__)
  return "neon";
#else
  return "generic";
#endif
}

}  // namespace hearth::cpu
