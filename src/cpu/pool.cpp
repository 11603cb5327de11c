// Max and average pooling. Forward passes first combine the rows of a window's band (a loop over contiguous
// memory), then the columns of the combined row.
#include "cpu/pool.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/thread_pool.h"

namespace hearth::cpu {
namespace {

using std::int64_t;

// The part of a window along one axis that lies inside the input, and how many positions average pooling
// counts.
struct Window {
  int64_t begin, end, counted;
  bool empty() const { return begin >= end; }
};

Window window(const PoolShape& s, int axis, int64_t o, bool count_include_pad = false) {
  const int64_t start = o * s.stride[axis] - s.padding[axis], stop = start + s.kernel[axis];
  const int64_t begin = std::max<int64_t>(start, 0), end = std::min(stop, s.in[axis]);
  const int64_t counted =
      count_include_pad ? std::min(stop, s.in[axis] + s.padding[axis]) - start : end - begin;
  return {begin, end, std::max<int64_t>(counted, 0)};
}

int64_t in_size(const PoolShape& s) { return s.in[0] * s.in[1] * s.in[2]; }
int64_t out_size(const PoolShape& s) { return s.out[0] * s.out[1] * s.out[2]; }

// Calls f(plane) for every plane, in parallel, with ranges big enough to be worth a thread.
template <typename F>
void for_each_plane(const PoolShape& s, F&& f) {
  const int64_t work = std::max<int64_t>(1, in_size(s) + out_size(s));
  parallel_for(s.planes, std::max<int64_t>(1, 16384 / work),
               [&](int64_t begin, int64_t end) { f(begin, end); });
}

// Calls f(first row, last row + 1 of the window along axes 0 and 1, index of the output row).
template <typename F>
void for_each_output_row(const PoolShape& s, bool count_include_pad, F&& f) {
  for (int64_t a = 0; a < s.out[0]; ++a)
    for (int64_t b = 0; b < s.out[1]; ++b)
      f(window(s, 0, a, count_include_pad), window(s, 1, b, count_include_pad), a * s.out[1] + b);
}

// A NaN wins over everything, and a later one over an earlier one, as in PyTorch.
template <typename T>
bool beats(T value, T best) {
  return (value > best) | (value != value);
}

template <typename T>
T larger(T best, T value) {
  return beats(value, best) ? value : best;
}

template <typename T>
T add(T sum, T value) {
  return sum + value;
}

// The output positions [begin, end) along the last axis whose windows lie inside the input.
struct Interior {
  int64_t begin, end;
};

Interior interior(const PoolShape& s) {
  const int64_t begin = std::min((s.padding[2] + s.stride[2] - 1) / s.stride[2], s.out[2]);
  const int64_t room = s.in[2] + s.padding[2] - s.kernel[2];
  const int64_t end = room < 0 ? 0 : std::min(s.out[2], room / s.stride[2] + 1);
  return {begin, std::max(begin, end)};
}

template <int kernel, int stride, auto combine, typename T>
void combine_columns(const T* __restrict row, T* __restrict out, int64_t count) {
  for (int64_t o = 0; o < count; ++o) {
    T value = row[o * stride];
    for (int k = 1; k < kernel; ++k) value = combine(value, row[o * stride + k]);
    out[o] = value;
  }
}

// out[o] = the combination of the window of output o over one row.
template <auto combine, typename T>
void combine_row(const PoolShape& s, const Interior& inside, T identity, const T* row, T* out) {
  const auto one = [&](int64_t o) {
    const Window w = window(s, 2, o);
    T value = identity;
    for (int64_t i = w.begin; i < w.end; ++i) value = combine(value, row[i]);
    out[o] = value;
  };
  for (int64_t o = 0; o < inside.begin; ++o) one(o);
  if (inside.begin == inside.end) {
    for (int64_t o = inside.end; o < s.out[2]; ++o) one(o);
    return;
  }
  const T* from = row + inside.begin * s.stride[2] - s.padding[2];
  T* to = out + inside.begin;
  const int64_t count = inside.end - inside.begin;
  if (s.kernel[2] == 2 && s.stride[2] == 2)
    combine_columns<2, 2, combine>(from, to, count);
  else if (s.kernel[2] == 3 && s.stride[2] == 2)
    combine_columns<3, 2, combine>(from, to, count);
  else
    for (int64_t o = inside.begin; o < inside.end; ++o) one(o);
  for (int64_t o = inside.end; o < s.out[2]; ++o) one(o);
}

// band[i] = the combination of column i over the rows of a window.
template <auto combine, typename T>
void combine_band(const PoolShape& s, const Window& wa, const Window& wb, T identity, const T* plane,
                  T* band) {
  bool first = true;
  for (int64_t i = wa.begin; i < wa.end; ++i)
    for (int64_t j = wb.begin; j < wb.end; ++j) {
      const T* row = plane + (i * s.in[1] + j) * s.in[2];
      if (first)
        std::copy_n(row, s.in[2], band);
      else
        for (int64_t k = 0; k < s.in[2]; ++k) band[k] = combine(band[k], row[k]);
      first = false;
    }
  if (first) std::fill_n(band, s.in[2], identity);
}

template <typename T>
void max_forward(const PoolShape& s, const T* x, T* y) {
  const Interior inside = interior(s);
  const T lowest = -std::numeric_limits<T>::infinity();
  for_each_plane(s, [&](int64_t begin, int64_t end) {
    std::vector<T> band(static_cast<std::size_t>(s.in[2]));
    for (int64_t p = begin; p < end; ++p)
      for_each_output_row(s, false, [&](const Window& wa, const Window& wb, int64_t row) {
        combine_band<larger<T>>(s, wa, wb, lowest, x + p * in_size(s), band.data());
        combine_row<larger<T>>(s, inside, lowest, band.data(), y + p * out_size(s) + row * s.out[2]);
      });
  });
}

// Windows of 2 x 2 that tile the plane: every input is in at most one window, so each is written once,
// without branches.
template <typename T>
void max_backward_2x2(const T* __restrict top, const T* __restrict bottom, const T* __restrict dy,
                      T* __restrict dx_top, T* __restrict dx_bottom, int64_t count) {
  for (int64_t o = 0; o < count; ++o) {
    const T a = top[2 * o], b = top[2 * o + 1], c = bottom[2 * o], d = bottom[2 * o + 1], g = dy[o];
    const bool take_b = beats(b, a);
    const T ab = take_b ? b : a;
    const bool take_c = beats(c, ab);
    const T abc = take_c ? c : ab;
    const bool take_d = beats(d, abc);
    const T upper = (take_c | take_d) ? T(0) : g;
    dx_top[2 * o] = take_b ? T(0) : upper;
    dx_top[2 * o + 1] = take_b ? upper : T(0);
    dx_bottom[2 * o] = (take_c & !take_d) ? g : T(0);
    dx_bottom[2 * o + 1] = take_d ? g : T(0);
  }
}

template <typename T>
void max_backward(const PoolShape& s, const T* x, const T* dy, T* dx) {
  const bool tiles_of_2x2 = s.in[0] == 1 && s.out[0] == 1 && s.kernel[0] == 1 && s.padding[0] == 0 &&
                            s.kernel[1] == 2 && s.kernel[2] == 2 && s.stride[1] == 2 && s.stride[2] == 2 &&
                            s.padding[1] == 0 && s.padding[2] == 0 && 2 * s.out[1] <= s.in[1] &&
                            2 * s.out[2] <= s.in[2];
  for_each_plane(s, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const T* from = x + p * in_size(s);
      const T* gradient = dy + p * out_size(s);
      T* to = dx + p * in_size(s);
      std::fill_n(to, in_size(s), T(0));
      if (tiles_of_2x2) {
        for (int64_t b = 0; b < s.out[1]; ++b) {
          const int64_t top = 2 * b * s.in[2], bottom = top + s.in[2];
          max_backward_2x2(from + top, from + bottom, gradient + b * s.out[2], to + top, to + bottom,
                           s.out[2]);
        }
        continue;
      }
      for_each_output_row(s, false, [&](const Window& wa, const Window& wb, int64_t row) {
        if (wa.empty() || wb.empty()) return;
        for (int64_t c = 0; c < s.out[2]; ++c) {
          const Window wc = window(s, 2, c);
          if (wc.empty()) continue;
          int64_t where = (wa.begin * s.in[1] + wb.begin) * s.in[2] + wc.begin;
          T best = from[where];
          for (int64_t i = wa.begin; i < wa.end; ++i)
            for (int64_t j = wb.begin; j < wb.end; ++j)
              for (int64_t k = wc.begin; k < wc.end; ++k) {
                const int64_t at = (i * s.in[1] + j) * s.in[2] + k;
                const bool better = beats(from[at], best);
                best = better ? from[at] : best;
                where = better ? at : where;
              }
          to[where] += gradient[row * s.out[2] + c];
        }
      });
    }
  });
}

// What an output's sum is multiplied by, apart from the two outer axes' share.
template <typename T>
std::vector<T> column_scales(const PoolShape& s, bool count_include_pad) {
  std::vector<T> scales(static_cast<std::size_t>(s.out[2]));
  for (int64_t c = 0; c < s.out[2]; ++c) {
    const int64_t counted = window(s, 2, c, count_include_pad).counted;
    scales[static_cast<std::size_t>(c)] = counted > 0 ? T(counted) : T(1);
  }
  return scales;
}

template <typename T>
T row_scale(const Window& wa, const Window& wb) {
  const int64_t counted = wa.counted * wb.counted;
  return counted > 0 ? T(counted) : T(1);
}

template <typename T>
void avg_forward(const PoolShape& s, bool count_include_pad, const T* x, T* y) {
  const Interior inside = interior(s);
  const std::vector<T> columns = column_scales<T>(s, count_include_pad);
  for_each_plane(s, [&](int64_t begin, int64_t end) {
    std::vector<T> band(static_cast<std::size_t>(s.in[2]));
    for (int64_t p = begin; p < end; ++p)
      for_each_output_row(s, count_include_pad, [&](const Window& wa, const Window& wb, int64_t row) {
        T* out = y + p * out_size(s) + row * s.out[2];
        combine_band<add<T>>(s, wa, wb, T(0), x + p * in_size(s), band.data());
        combine_row<add<T>>(s, inside, T(0), band.data(), out);
        const T rows = row_scale<T>(wa, wb);
        const T* scales = columns.data();
        for (int64_t c = 0; c < s.out[2]; ++c) out[c] /= scales[c] * rows;
      });
  });
}

template <typename T>
void avg_backward(const PoolShape& s, bool count_include_pad, const T* dy, T* dx) {
  const std::vector<T> columns = column_scales<T>(s, count_include_pad);
  for_each_plane(s, [&](int64_t begin, int64_t end) {
    std::vector<T> band(static_cast<std::size_t>(s.in[2]));
    for (int64_t p = begin; p < end; ++p) {
      T* to = dx + p * in_size(s);
      std::fill_n(to, in_size(s), T(0));
      for_each_output_row(s, count_include_pad, [&](const Window& wa, const Window& wb, int64_t row) {
        const T* gradient = dy + p * out_size(s) + row * s.out[2];
        const T rows = row_scale<T>(wa, wb);
        std::fill(band.begin(), band.end(), T(0));
        for (int64_t c = 0; c < s.out[2]; ++c) {
          const Window wc = window(s, 2, c);
          const T share = gradient[c] / (columns[static_cast<std::size_t>(c)] * rows);
          for (int64_t k = wc.begin; k < wc.end; ++k) band[static_cast<std::size_t>(k)] += share;
        }
        for (int64_t i = wa.begin; i < wa.end; ++i)
          for (int64_t j = wb.begin; j < wb.end; ++j) {
            T* out = to + (i * s.in[1] + j) * s.in[2];
            for (int64_t k = 0; k < s.in[2]; ++k) out[k] += band.data()[k];
          }
      });
    }
  });
}

}  // namespace

void max_pool_forward(const PoolShape& s, const float* x, float* y) { max_forward(s, x, y); }
void max_pool_forward(const PoolShape& s, const double* x, double* y) { max_forward(s, x, y); }

void max_pool_backward(const PoolShape& s, const float* x, const float* dy, float* dx) {
  max_backward(s, x, dy, dx);
}
void max_pool_backward(const PoolShape& s, const double* x, const double* dy, double* dx) {
  max_backward(s, x, dy, dx);
}

void avg_pool_forward(const PoolShape& s, bool count_include_pad, const float* x, float* y) {
  avg_forward(s, count_include_pad, x, y);
}
void avg_pool_forward(const PoolShape& s, bool count_include_pad, const double* x, double* y) {
  avg_forward(s, count_include_pad, x, y);
}

void avg_pool_backward(const PoolShape& s, bool count_include_pad, const float* dy, float* dx) {
  avg_backward(s, count_include_pad, dy, dx);
}
void avg_pool_backward(const PoolShape& s, bool count_include_pad, const double* dy, double* dx) {
  avg_backward(s, count_include_pad, dy, dx);
}

}  // namespace hearth::cpu
