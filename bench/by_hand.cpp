// Compiled for this very machine, with sums in any order (bench/CMakeLists.txt): the compiler vectorises all
// of these loops.
#include "by_hand.h"

#include <bit>
#include <cmath>
#include <vector>

#include "base/thread_pool.h"

namespace hearth::bench::by_hand {
namespace {

using std::int64_t;

// e^x for -87 < x <= 0, to about 1e-7.
inline float exponential(float x) {
  const float n = __builtin_rintf(x * 1.44269504f);
  const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
  const float p = 1 + r * (1 + r * (0.5f + r * (0.1666666f + r * (0.0416664f + r * 0.00836f))));
  return p * std::bit_cast<float>((static_cast<std::int32_t>(n) + 127) << 23);
}

}  // namespace

void chain(const float* x, const float* y, float* out, int64_t n) {
  parallel_for(n, 1 << 16, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float value = std::abs((x[i] * 0.5f + y[i]) * x[i]) - 0.25f;
      out[i] = value > 0 ? value : 0;
    }
  });
}

void softmax(const float* x, float* out, int64_t rows, int64_t columns) {
  parallel_for(rows, 16, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* from = x + r * columns;
      float* to = out + r * columns;
      float largest = from[0], sum = 0;
      for (int64_t i = 0; i < columns; ++i) largest = from[i] > largest ? from[i] : largest;
      for (int64_t i = 0; i < columns; ++i) {
        to[i] = exponential(from[i] - largest);
        sum += to[i];
      }
      const float scale = 1 / sum;
      for (int64_t i = 0; i < columns; ++i) to[i] *= scale;
    }
  });
}

void layer_norm(const float* x, const float* weight, const float* bias, float* out, int64_t rows,
                int64_t columns) {
  parallel_for(rows, 16, [=](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const float* from = x + r * columns;
      float* to = out + r * columns;
      float sum = 0, squares = 0;
      for (int64_t i = 0; i < columns; ++i) {
        sum += from[i];
        squares += from[i] * from[i];
      }
      const float mean = sum / static_cast<float>(columns);
      const float scale = 1 / std::sqrt(squares / static_cast<float>(columns) - mean * mean + 1e-5f);
      const float shift = -mean * scale;
      for (int64_t i = 0; i < columns; ++i) to[i] = (from[i] * scale + shift) * weight[i] + bias[i];
    }
  });
}

// Four rows at once, far apart: prefetchers follow several long runs better than one.
void sum_last_axis(const float* x, float* out, int64_t rows, int64_t columns) {
  constexpr int64_t many = 256;  // rows, a multiple of 4
  parallel_for(rows / many, 1, [=](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block)
      for (int64_t r = 0; r < many / 4; ++r) {
        const int64_t apart = many / 4 * columns, row = block * many + r;
        const float *a = x + row * columns, *b = a + apart, *c = b + apart, *d = c + apart;
        float sum_a = 0, sum_b = 0, sum_c = 0, sum_d = 0;
        for (int64_t i = 0; i < columns; ++i) {
          sum_a += a[i];
          sum_b += b[i];
          sum_c += c[i];
          sum_d += d[i];
        }
        out[row] = sum_a;
        out[row + many / 4] = sum_b;
        out[row + many / 2] = sum_c;
        out[row + many / 4 * 3] = sum_d;
      }
  });
}

void sum_first_axis(const float* x, float* out, int64_t rows, int64_t columns) {
  constexpr int64_t many = 256;
  std::vector<float> partial(static_cast<std::size_t>(rows / many * columns), 0.0f);
  parallel_for(rows / many, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      float* sums = partial.data() + block * columns;
      for (int64_t r = 0; r < many / 4; ++r) {
        const int64_t apart = many / 4 * columns;
        const float* a = x + (block * many + r) * columns;
#pragma GCC ivdep
        for (int64_t i = 0; i < columns; ++i)
          sums[i] += (a[i] + a[i + apart]) + (a[i + 2 * apart] + a[i + 3 * apart]);
      }
    }
  });
  for (int64_t i = 0; i < columns; ++i) out[i] = 0;
  for (int64_t block = 0; block < rows / many; ++block)
    for (int64_t i = 0; i < columns; ++i) out[i] += partial[static_cast<std::size_t>(block * columns + i)];
}

}  // namespace hearth::bench::by_hand
