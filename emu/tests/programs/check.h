// What every sample program uses: stop on an error of HIP, compare, say PASSED.
#pragma once

#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#define HIP_CHECK(call)                                                                                 \
  do {                                                                                                  \
    const hipError_t status_ = (call);                                                                  \
    if (status_ != hipSuccess) {                                                                        \
      std::fprintf(stderr, "%s:%d: %s: %s (%s)\n", __FILE__, __LINE__, #call, hipGetErrorName(status_), \
                   hipGetErrorString(status_));                                                         \
      std::exit(1);                                                                                     \
    }                                                                                                   \
  } while (0)

#define CHECK(condition)                                                           \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1);                                                                \
    }                                                                              \
  } while (0)

inline bool close_to(double value, double expected, double tolerance = 1e-5) {
  return std::fabs(value - expected) <= tolerance * std::fmax(1.0, std::fabs(expected));
}

inline int passed(const char* name) {
  std::printf("%s PASSED\n", name);
  return 0;
}
