// Stops a program that would otherwise die of an illegal instruction in the middle of a kernel.
#include <cstdio>
#include <cstdlib>

#if defined(__x86_64__)

namespace {

__attribute__((constructor)) void require_instruction_sets() {
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    return;
  std::fputs("hipemu: this processor lacks AVX2, FMA or BMI2, which the emulator is compiled for\n", stderr);
  std::_Exit(1);
}

}  // namespace

#endif
