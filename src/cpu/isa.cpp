// Which instruction set this machine has.
#include "cpu/isa.h"

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
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

#if defined(__x86_64__)
namespace {

// What the variant `amx` is compiled for.
bool processor_has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned amx_bf16 = 1u << 22, amx_tile = 1u << 24;
  if ((d & amx_bf16) == 0 || (d & amx_tile) == 0) return false;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d) == 0) return false;
  constexpr unsigned avx512_bf16 = 1u << 5;
  return (a & avx512_bf16) != 0;
}

// Linux keeps a process's tiles when it switches to another only after it was asked to.
bool system_allows_tiles() {
  constexpr long ask = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, ask, tile_data) == 0;
}

}  // namespace
#endif

bool has_matrix_unit() {
#if defined(__x86_64__)
  static const bool there = best_isa() == Isa::avx512 && processor_has_amx() && system_allows_tiles();
  return there;
#else
  return false;
#endif
}

const char* isa_name() {
#if defined(__x86_64__)
  if (has_matrix_unit()) return "amx";
  constexpr const char* names[] = {"x86-64", "avx2", "avx512"};
  return names[static_cast<int>(best_isa())];
#elif defined(__aarch64__)
  return "neon";
#else
  return "generic";
#endif
}

}  // namespace hearth::cpu
