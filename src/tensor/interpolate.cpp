// Resizing spatial axes: interpolation and adaptive pooling. Every axis is treated on its own.
#include <fmt/format.h>

#include <algorithm>

#include "hearth/error.h"
#include "tensor/composite.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

using Sizes = std::vector<std::int64_t>;

// `axis` of x multiplied by a matrix (new size, old size).
Tensor apply_matrix(const Tensor& matrix, const Tensor& x, std::int64_t axis) {
  const auto last = static_cast<std::int64_t>(x.ndim()) - 1;
  if (axis == last) return linear(x, matrix);
  if (axis == last - 1) return matmul(matrix, x);
  return transpose(linear(transpose(x, axis, last), matrix), axis, last);
}

Tensor resize_nearest(const Tensor& x, std::int64_t axis, std::int64_t size) {
  const auto old_size = x.size(axis);
  if (size % old_size == 0) return repeat_interleave(x, size / old_size, axis);
  // In f32, as PyTorch, so that the same elements are chosen where the quotient is not exact.
  const float step = static_cast<float>(old_size) / static_cast<float>(size);
  const Tensor source = floor(as(positions_for(x, size), DType::f32) * step);
  return take(x, minimum(as(source, DType::i64), old_size - 1), axis);
}

// Up to this size a product with the matrix of weights is at least as fast as picking elements, and its
// gradient at least twice as fast.
constexpr std::int64_t largest_matrix_axis = 64;

Tensor resize_linear(const Tensor& x, std::int64_t axis, std::int64_t size, bool align_corners) {
  const auto old_size = x.size(axis);
  const DType wide = wide_dtype(x);
  const auto last = static_cast<double>(old_size - 1);
  Tensor source = as(positions_for(x, size), wide);  // where between the old elements each new one lies
  if (align_corners)
    source = source * (size > 1 ? last / static_cast<double>(size - 1) : 0.0);
  else
    source = (source + 0.5) * (static_cast<double>(old_size) / static_cast<double>(size)) - 0.5;
  source = clamp(source, 0.0, last);
  if (old_size <= largest_matrix_axis) {
    const Tensor distance = abs(unsqueeze(source, 1) - as(positions_for(x, old_size), wide));
    return apply_matrix(relu(1.0 - distance), as(x, wide), axis);
  }
  const Tensor before = as(floor(source), DType::i64);
  const Tensor after = minimum(before + 1, old_size - 1);
  const Tensor weight = along_axis(source - as(before, wide), x, axis);
  return lerp(as(take(x, before, axis), wide), as(take(x, after, axis), wide), weight);
}

// Window i of an axis of `old_size` in `size` windows: first element and the one after the last (i64, size).
struct Windows {
  Tensor start, stop;
};
Windows adaptive_windows(const Tensor& x, std::int64_t old_size, std::int64_t size) {
  const Tensor i = positions_for(x, size);
  return {floor_divide(i * old_size, size), floor_divide((i + 1) * old_size + (size - 1), size)};
}

Tensor average_axis(const Tensor& x, std::int64_t axis, std::int64_t size) {
  const auto old_size = x.size(axis);
  const Windows windows = adaptive_windows(x, old_size, size);
  const Tensor start = unsqueeze(windows.start, 1), stop = unsqueeze(windows.stop, 1);
  const Tensor element = positions_for(x, old_size);
  const Tensor share = reciprocal(as(stop - start, x.dtype()));
  const Tensor averaging = where(logical_and(element >= start, element < stop), share, 0);
  return apply_matrix(averaging, x, axis);
}

Tensor largest_along_axis(const Tensor& x, std::int64_t axis, std::int64_t size) {
  const auto old_size = x.size(axis);
  const Windows windows = adaptive_windows(x, old_size, size);
  // Windows of one width: the shorter ones end in repeats of their last element, which change no maximum.
  std::int64_t width = 0;
  for (std::int64_t i = 0; i < size; ++i)
    width = std::max(width, ((i + 1) * old_size + size - 1) / size - i * old_size / size);
  const Tensor elements =
      minimum(unsqueeze(windows.start, 1) + positions_for(x, width), unsqueeze(windows.stop, 1) - 1);
  Shape split = x.shape();
  split[static_cast<std::size_t>(axis)] = size;
  split.insert(static_cast<std::size_t>(axis) + 1, width);
  return max(reshape(take(x, reshape(elements, {size * width}), axis), split), {axis + 1});
}

// Checks the arguments of an adaptive pool over the last size.size() axes.
void check_adaptive(const Tensor& x, const Sizes& size, std::size_t spatial, const char* name) {
  check_floating(x, name);
  if (size.size() != spatial)
    throw ValueError(fmt::format("[{}] needs {} sizes, got {}", name, spatial, size.size()));
  if (x.ndim() <= spatial)
    throw ShapeError(
        fmt::format("[{}] needs channels and {} spatial axes, got {}", name, spatial, to_string(x.shape())));
  for (std::size_t i = 0; i < spatial; ++i) {
    if (size[i] <= 0) throw ValueError(fmt::format("[{}] sizes must be positive, got {}", name, size[i]));
    if (x.shape()[x.ndim() - spatial + i] == 0)
      throw ShapeError(fmt::format("[{}] nothing to pool in {}", name, to_string(x.shape())));
  }
}

enum class Pool { average, largest };

Tensor adaptive_pool(const Tensor& x, const Sizes& size, std::size_t spatial, Pool pool, const char* name) {
  check_adaptive(x, size, spatial, name);
  const auto first = static_cast<std::int64_t>(x.ndim() - spatial);
  Axes axes;
  bool even = true, global = true;
  PoolOptions options;
  for (std::size_t i = 0; i < spatial; ++i) {
    const auto axis = first + static_cast<std::int64_t>(i);
    axes.push_back(axis);
    even &= x.size(axis) % size[i] == 0;
    global &= size[i] == 1;
    options.kernel.push_back(x.size(axis) / size[i]);
  }
  if (global && pool == Pool::average) return mean(x, axes, true);
  if (even && pool == Pool::average)
    return spatial == 1   ? avg_pool1d(x, options)
           : spatial == 2 ? avg_pool2d(x, options)
                          : avg_pool3d(x, options);
  if (even) return spatial == 1 ? max_pool1d(x, options) : max_pool2d(x, options);
  Tensor result = pool == Pool::average ? as(x, wide_dtype(x)) : x;
  for (std::size_t i = 0; i < spatial; ++i) {
    if (x.size(axes[i]) == size[i]) continue;
    result = pool == Pool::average ? average_axis(result, axes[i], size[i])
                                   : largest_along_axis(result, axes[i], size[i]);
  }
  return as(result, x.dtype());
}

}  // namespace

Tensor interpolate(const Tensor& x, const Sizes& size, Interpolation mode, bool align_corners) {
  const Shape& shape = node_of(x, "interpolate")->shape;
  if (shape.size() < 3 || shape.size() > 5)
    throw ShapeError(
        fmt::format("[interpolate] needs (batch, channels, 1 to 3 spatial axes), got {}", to_string(shape)));
  if (size.size() != shape.size() - 2)
    throw ValueError(fmt::format("[interpolate] needs {} sizes for {}, got {}", shape.size() - 2,
                                 to_string(shape), size.size()));
  if (mode == Interpolation::linear)
    check_floating(x, "interpolate");
  else if (align_corners)
    throw ValueError("[interpolate] align_corners is for linear interpolation");
  for (std::size_t i = 0; i < size.size(); ++i) {
    if (size[i] <= 0) throw ValueError(fmt::format("[interpolate] sizes must be positive, got {}", size[i]));
    if (shape[i + 2] == 0)
      throw ShapeError(fmt::format("[interpolate] nothing to resize in {}", to_string(shape)));
  }
  Tensor result = x;
  // The last axis first: it is the dearest to pick from, and mostly the others are about to grow.
  for (std::size_t i = size.size(); i-- > 0;) {
    const auto axis = static_cast<std::int64_t>(i + 2);
    if (result.size(axis) == size[i]) continue;
    result = mode == Interpolation::nearest ? resize_nearest(result, axis, size[i])
                                            : resize_linear(result, axis, size[i], align_corners);
  }
  return as(result, x.dtype());
}

Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size) {
  return adaptive_pool(x, {size}, 1, Pool::average, "adaptive_avg_pool1d");
}
Tensor adaptive_avg_pool2d(const Tensor& x, const Sizes& size) {
  return adaptive_pool(x, size, 2, Pool::average, "adaptive_avg_pool2d");
}
Tensor adaptive_avg_pool3d(const Tensor& x, const Sizes& size) {
  return adaptive_pool(x, size, 3, Pool::average, "adaptive_avg_pool3d");
}
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t size) {
  return adaptive_pool(x, {size}, 1, Pool::largest, "adaptive_max_pool1d");
}
Tensor adaptive_max_pool2d(const Tensor& x, const Sizes& size) {
  return adaptive_pool(x, size, 2, Pool::largest, "adaptive_max_pool2d");
}

}  // namespace hearth
