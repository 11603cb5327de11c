// Shapes, axes, and the rules of broadcasting.
#pragma once

#include <cstdint>
#include <string>

#include "hearth/dtype.h"
#include "hearth/small_vector.h"

namespace hearth {

// Sizes of the axes of a tensor, outermost first; {} is a scalar. At most max_dims axes, no negative size.
using Shape = SmallVector<std::int64_t, 5>;

// Distance in elements between neighbours along each axis; may be 0 (broadcast) or negative (flipped).
using Strides = SmallVector<std::int64_t, 5>;

// A list of axes; negative ones count from the end. Where an operation reduces, {} means all axes.
using Axes = SmallVector<std::int64_t, 5>;

inline constexpr std::size_t max_dims = 16;

// Product of the sizes; 1 for a scalar.
std::int64_t element_count(const Shape& shape);

// Throws ShapeError unless every size is >= 0, there are at most max_dims and the number of bytes for
// elements of `element_bytes` fits in 63 bits. `operation` goes into the message.
void check_shape(const Shape& shape, std::size_t element_bytes, const char* operation);
// The same for elements of a dtype. The last axis of a block format must be whole blocks.
void check_shape(const Shape& shape, DType dtype, const char* operation);

// "(2, 3)", "()" for a scalar.
std::string to_string(const Shape& shape);

// Strides of a dense row-major layout.
Strides contiguous_strides(const Shape& shape);

// True iff (shape, strides) addresses element_count(shape) elements in row-major order without gaps.
bool is_contiguous(const Shape& shape, const Strides& strides);

// The same layout, with the strides of axes that are never stepped along made uniform: layouts that address
// the same elements compare equal.
Strides canonical_strides(const Shape& shape, const Strides& strides);

// NumPy broadcasting of two shapes. Throws ShapeError naming `operation`.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* operation);

// `axis` in [0, ndim). Throws IndexError naming `operation`.
std::size_t normalize_axis(std::int64_t axis, std::size_t ndim, const char* operation);

// Sorted, distinct, in range; {} becomes all axes. Throws IndexError (range) or ValueError (repeated).
Axes normalize_axes(const Axes& axes, std::size_t ndim, const char* operation);

}  // namespace hearth
