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

// One value of each window of a row of outputs: where it beats the best so far, it and its index take the
// place.
template <int fixed_stride, typename T, typename Index>
void keep_better(const T* __restrict from, int64_t stride, Index index, T* __restrict best,
                 Index* __restrict where, int64_t count) {
  const int64_t step = fixed_stride > 0 ? fixed_stride : stride;
  for (int64_t o = 0; o < count; ++o) {
    const T value = from[o * step];
    const bool better = beats(value, best[o]);
    best[o] = better ? value : best[o];
    where[o] = better ? static_cast<Index>(index + o * step) : where[o];
  }
}

// Index: signed, of the size of T where the plane allows it, so that both fit the same vector lanes.
template <typename Index, typename T>
void max_backward(const PoolShape& s, const T* x, const T* dy, T* dx) {
  const int64_t stride = s.stride[2];
  for_each_plane(s, [&](int64_t begin, int64_t end) {
    std::vector<T> best(static_cast<std::size_t>(s.out[2]));
    std::vector<Index> where(best.size());
    for (int64_t p = begin; p < end; ++p) {
      const T* from = x + p * in_size(s);
      T* to = dx + p * in_size(s);
      std::fill_n(to, in_size(s), T(0));
      for_each_output_row(s, false, [&](const Window& wa, const Window& wb, int64_t row) {
        if (wa.empty() || wb.empty() || s.in[2] == 0) return;
        const int64_t first_row = (wa.begin * s.in[1] + wb.begin) * s.in[2];
        for (int64_t o = 0; o < s.out[2]; ++o) {
          const int64_t first = std::clamp<int64_t>(o * stride - s.padding[2], 0, s.in[2] - 1);
          where[static_cast<std::size_t>(o)] = static_cast<Index>(first_row + first);
          best[static_cast<std::size_t>(o)] = -std::numeric_limits<T>::infinity();
        }
        for (int64_t i = wa.begin; i < wa.end; ++i)
          for (int64_t j = wb.begin; j < wb.end; ++j)
            for (int64_t k = 0; k < s.kernel[2]; ++k) {
              // Outputs [low, high) have column o * stride + shift of this row in their window.
              const int64_t shift = k - s.padding[2], room = s.in[2] - 1 - shift;
              const int64_t low = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
              const int64_t high = room < 0 ? 0 : std::min(s.out[2], room / stride + 1);
              if (low >= high) continue;
              const int64_t index = (i * s.in[1] + j) * s.in[2] + low * stride + shift;
              const auto keep = stride == 1   ? keep_better<1, T, Index>
                                : stride == 2 ? keep_better<2, T, Index>
                                              : keep_better<0, T, Index>;
              keep(from + index, stride, static_cast<Index>(index), best.data() + low, where.data() + low,
                   high - low);
            }
        const T* gradient = dy + p * out_size(s) + row * s.out[2];
        for (int64_t o = 0; o < s.out[2]; ++o)
          if (!window(s, 2, o).empty()) to[where[static_cast<std::size_t>(o)]] += gradient[o];
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
  if (in_size(s) <= std::numeric_limits<std::int32_t>::max())
    max_backward<std::int32_t>(s, x, dy, dx);
  else
    max_backward<int64_t>(s, x, dy, dx);
}
void max_pool_backward(const PoolShape& s, const double* x, const double* dy, double* dx) {
  max_backward<int64_t>(s, x, dy, dx);
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
