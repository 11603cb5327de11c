// Shape arithmetic: counting, strides, broadcasting, axis normalisation.
#include "hearth/shape.h"

#include <fmt/format.h>

#include <limits>

#include "hearth/error.h"

namespace hearth {

std::int64_t element_count(const Shape& shape) {
  std::int64_t count = 1;
  for (auto size : shape) count *= size;
  return count;
}

void check_shape(const Shape& shape, std::size_t element_bytes, const char* operation) {
  if (shape.size() > max_dims)
    throw ShapeError(fmt::format("[{}] {} axes; at most {} are allowed", operation, shape.size(), max_dims));
  bool empty = false;
  for (auto size : shape) {
    if (size < 0) throw ShapeError(fmt::format("[{}] negative size in {}", operation, to_string(shape)));
    empty |= size == 0;
  }
  // The non-zero sizes must fit too: strides of an empty tensor are computed from them.
  std::int64_t bytes = static_cast<std::int64_t>(element_bytes);
  for (auto size : shape) {
    if (size == 0) continue;
    if (bytes > std::numeric_limits<std::int64_t>::max() / size)
      throw ShapeError(fmt::format("[{}] {} has more bytes than 63 bits can count{}", operation,
                                   to_string(shape), empty ? " (zero axes aside)" : ""));
    bytes *= size;
  }
}

void check_shape(const Shape& shape, DType dtype, const char* operation) {
  check_shape(shape, block_bytes(dtype), operation);
  if (shape.empty() ? is_quantised(dtype) : shape.back() % block_elements(dtype) != 0)
    throw ShapeError(fmt::format("[{}] {} comes in blocks of {}, the last axis of {} is not a multiple",
                                 operation, dtype_name(dtype), block_elements(dtype), to_string(shape)));
}

std::string to_string(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides(shape.size());
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(shape[i], 1);
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  // No elements: whatever the strides.
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  std::int64_t step = 1;
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (shape[i] != 1 && strides[i] != step) return false;
    step *= shape[i];
  }
  return true;
}

Strides canonical_strides(const Shape& shape, const Strides& strides) {
  if (is_contiguous(shape, strides)) return contiguous_strides(shape);
  Strides result = strides;
  for (std::size_t i = 0; i < shape.size(); ++i)
    if (shape[i] == 1) result[i] = 0;
  return result;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* operation) {
  const std::size_t ndim = std::max(a.size(), b.size());
  Shape result(ndim);
  for (std::size_t i = 0; i < ndim; ++i) {
    const auto from_a = i < ndim - a.size() ? 1 : a[i - (ndim - a.size())];
    const auto from_b = i < ndim - b.size() ? 1 : b[i - (ndim - b.size())];
    if (from_a != from_b && from_a != 1 && from_b != 1)
      throw ShapeError(
          fmt::format("[{}] shapes {} and {} do not broadcast", operation, to_string(a), to_string(b)));
    result[i] = from_a == 1 ? from_b : from_a;
  }
  return result;
}

std::size_t normalize_axis(std::int64_t axis, std::size_t ndim, const char* operation) {
  const auto n = static_cast<std::int64_t>(ndim);
  if (axis < -n || axis >= n)
    throw IndexError(fmt::format("[{}] axis {} is out of range for {} axes", operation, axis, ndim));
  return static_cast<std::size_t>(axis < 0 ? axis + n : axis);
}

Axes normalize_axes(const Axes& axes, std::size_t ndim, const char* operation) {
  Axes result;
  if (axes.empty()) {
    for (std::size_t i = 0; i < ndim; ++i) result.push_back(static_cast<std::int64_t>(i));
    return result;
  }
  for (auto axis : axes) result.push_back(static_cast<std::int64_t>(normalize_axis(axis, ndim, operation)));
  std::sort(result.begin(), result.end());
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    throw ValueError(fmt::format("[{}] an axis is repeated", operation));
  return result;
}

}  // namespace hearth
