// Walking over strided arrays: from the number of an element to its place in each of several operands.
// gpu/nest.h on the host fills these structs.
#pragma once

#include "gpu.h"

constexpr int most_axes = 16;

// A size to divide by, with what makes a multiplication of the division for numbers below 2^31.
struct Divisor {
  u64 value;
  u32 magic, shift;

  DEVICE u32 divide(u32 number) const { return ((u32)((u64)number * magic >> 32) + number) >> shift; }
  DEVICE u64 divide(u64 number) const { return number / value; }
};

// `Index` is u32 where there are fewer than 2^31 elements, else u64.
template <int operands>
struct Nest {
  u64 axes;  // at least one
  Divisor size[most_axes];
  i64 stride[operands][most_axes];

  struct Offsets {
    i64 of[operands];
  };

  template <class Index>
  DEVICE Offsets at(Index element) const {
    Offsets offsets = {};
    Index rest = element;
    for (int axis = (int)axes - 1; axis >= 0; --axis) {
      const Index next = axis > 0 ? size[axis].divide(rest) : 0;
      const i64 coordinate = rest - next * (Index)size[axis].value;
#pragma unroll
      for (int k = 0; k < operands; ++k) offsets.of[k] += coordinate * stride[k][axis];
      rest = next;
    }
    return offsets;
  }
};
