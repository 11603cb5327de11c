// Convolutions that are matrix products. Cuts among threads follow from the shape alone: how a product is cut
// can change the order of its sums.
#include "cpu/conv_gemm.h"

#include <cblas.h>

#include <algorithm>
#include <limits>

#include "base/thread_pool.h"
#include "cpu/blas.h"
#include "cpu/scratch.h"

namespace hearth::cpu {
namespace {

using std::int64_t;

constexpr int64_t tasks_wanted = 32;

int64_t volume(const int64_t (&extents)[3]) { return extents[0] * extents[1] * extents[2]; }
int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// c (m, n) = a (m, k) @ b (k, n) + beta * c, where a and b may be stored transposed; all with their row
// strides.
struct Matrix {
  const float* data;
  int64_t stride;
  bool transposed;
};

void multiply(int64_t m, int64_t n, int64_t k, Matrix a, Matrix b, float beta, float* c, int64_t c_stride) {
  keep_blas_on_one_thread();
  cblas_sgemm(CblasRowMajor, a.transposed ? CblasTrans : CblasNoTrans,
              b.transposed ? CblasTrans : CblasNoTrans, static_cast<blasint>(m), static_cast<blasint>(n),
              static_cast<blasint>(k), 1, a.data, static_cast<blasint>(a.stride), b.data,
              static_cast<blasint>(b.stride), beta, c, static_cast<blasint>(c_stride));
}

// Cuts [0, rows) so that `tasks` tasks become about tasks_wanted, in pieces of at least 32 rows.
int64_t piece(int64_t rows, int64_t tasks) {
  const int64_t pieces =
      std::clamp<int64_t>(tasks_wanted / std::max<int64_t>(tasks, 1), 1, ceil_div(rows, 32));
  return ceil_div(ceil_div(rows, pieces), 8) * 8;
}

bool blas_counts_to(int64_t most) { return most <= std::numeric_limits<blasint>::max(); }

bool no_padding(const ConvShape& s) { return s.padding[0] == 0 && s.padding[1] == 0 && s.padding[2] == 0; }

}  // namespace

namespace pointwise {

bool applies(const ConvShape& s) {
  for (int i = 0; i < 3; ++i)
    if (s.kernel[i] != 1 || s.stride[i] != 1 || s.in[i] != s.out[i]) return false;
  return no_padding(s) && s.in_channels > 0 && s.out_channels > 0 && s.batch * volume(s.in) > 0 &&
         blas_counts_to(std::max({s.in_channels, s.out_channels, volume(s.in)}));
}

void conv_forward(const ConvShape& s, const float* x, const float* w, const float* bias, float* y) {
  const int64_t c = s.in_channels / s.groups, o = s.out_channels / s.groups, p = volume(s.in);
  const int64_t rows = piece(o, s.batch * s.groups), pieces = ceil_div(o, rows);
  parallel_for(s.batch * s.groups * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image_group = task / pieces, group = image_group % s.groups;
      const int64_t first = task % pieces * rows, count = std::min(rows, o - first);
      float* to = y + (image_group * o + first) * p;
      if (bias)
        for (int64_t i = 0; i < count; ++i) std::fill_n(to + i * p, p, bias[group * o + first + i]);
      multiply(count, p, c, {w + (group * o + first) * c, c, false}, {x + image_group * c * p, p, false},
               bias ? 1.0f : 0.0f, to, p);
    }
  });
}

void conv_input_gradient(const ConvShape& s, const float* dy, const float* w, float* dx) {
  const int64_t c = s.in_channels / s.groups, o = s.out_channels / s.groups, p = volume(s.in);
  const int64_t rows = piece(c, s.batch * s.groups), pieces = ceil_div(c, rows);
  parallel_for(s.batch * s.groups * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t image_group = task / pieces, group = image_group % s.groups, first = task % pieces * rows;
      multiply(std::min(rows, c - first), p, o, {w + group * o * c + first, c, true},
               {dy + image_group * o * p, p, false}, 0, dx + (image_group * c + first) * p, p);
    }
  });
}

void conv_weight_gradient(const ConvShape& s, const float* x, const float* dy, float* dw) {
  const int64_t c = s.in_channels / s.groups, o = s.out_channels / s.groups, p = volume(s.in);
  // Chunks of images have copies of dw of their own, which are added in order.
  constexpr int64_t copies_most = 8 << 20;
  const int64_t weights = s.out_channels * c;
  const int64_t chunk = ceil_div(s.batch, std::clamp<int64_t>(copies_most / weights, 1, tasks_wanted));
  const int64_t chunks = ceil_div(s.batch, chunk);
  const int64_t rows = piece(o, chunks * s.groups), pieces = ceil_div(o, rows);
  const Scratch copies((chunks - 1) * weights);
  const auto copy = [&](int64_t i) { return i == 0 ? dw : copies.data() + (i - 1) * weights; };
  parallel_for(chunks * s.groups * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task / pieces % s.groups, first = task % pieces * rows,
                    i = task / pieces / s.groups;
      for (int64_t n = i * chunk; n < std::min((i + 1) * chunk, s.batch); ++n)
        multiply(std::min(rows, o - first), c, p,
                 {dy + (n * s.out_channels + group * o + first) * p, p, false},
                 {x + (n * s.in_channels + group * c) * p, p, true}, n == i * chunk ? 0.0f : 1.0f,
                 copy(i) + (group * o + first) * c, c);
    }
  });
  parallel_for(weights, 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = 1; i < chunks; ++i) {
      const float* from = copy(i);
      for (int64_t j = begin; j < end; ++j) dw[j] += from[j];
    }
  });
}

}  // namespace pointwise

namespace linear {

bool applies(const ConvShape& s) {
  for (int i = 0; i < 3; ++i)
    if (s.kernel[i] != s.in[i] || s.dilation[i] != 1) return false;
  return no_padding(s) && volume(s.out) == 1 && s.in_channels > 0 && s.out_channels > 0 && s.batch > 0 &&
         blas_counts_to(std::max({s.batch, s.out_channels, s.in_channels * volume(s.in)}));
}

void conv_forward(const ConvShape& s, const float* x, const float* w, const float* bias, float* y) {
  const int64_t k = s.in_channels / s.groups * volume(s.kernel), o = s.out_channels / s.groups;
  const int64_t columns = piece(o, s.groups), pieces = ceil_div(o, columns);
  parallel_for(s.groups * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task / pieces, first = task % pieces * columns,
                    count = std::min(columns, o - first);
      float* to = y + group * o + first;
      if (bias)
        for (int64_t n = 0; n < s.batch; ++n)
          std::copy_n(bias + group * o + first, count, to + n * s.out_channels);
      multiply(s.batch, count, k, {x + group * k, s.groups * k, false},
               {w + (group * o + first) * k, k, true}, bias ? 1.0f : 0.0f, to, s.out_channels);
    }
  });
}

void conv_input_gradient(const ConvShape& s, const float* dy, const float* w, float* dx) {
  const int64_t k = s.in_channels / s.groups * volume(s.kernel), o = s.out_channels / s.groups;
  const int64_t columns = piece(k, s.groups), pieces = ceil_div(k, columns);
  parallel_for(s.groups * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task / pieces, first = task % pieces * columns;
      multiply(s.batch, std::min(columns, k - first), o, {dy + group * o, s.out_channels, false},
               {w + group * o * k + first, k, false}, 0, dx + group * k + first, s.groups * k);
    }
  });
}

void conv_weight_gradient(const ConvShape& s, const float* x, const float* dy, float* dw) {
  const int64_t k = s.in_channels / s.groups * volume(s.kernel), o = s.out_channels / s.groups;
  const int64_t rows = piece(o, s.groups), pieces = ceil_div(o, rows);
  parallel_for(s.groups * pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t group = task / pieces, first = task % pieces * rows;
      multiply(std::min(rows, o - first), k, s.batch, {dy + group * o + first, s.out_channels, true},
               {x + group * k, s.groups * k, false}, 0, dw + (group * o + first) * k, k);
    }
  });
}

}  // namespace linear
}  // namespace hearth::cpu
