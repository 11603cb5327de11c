// Elements put elsewhere.
#pragma once

#include "nest.h"

// Each thread has several loads under way: one narrow unit per thread would leave memory waiting.
constexpr int units_under_way = 4;

// target[operand 1 of the nest] = source[operand 0]
template <class Index, class Unit>
DEVICE void copy_units(const Unit* source, Unit* target, const Nest<2>& nest, u64 count) {
  const u64 stride = blockDim.x, step = (u64)gridDim.x * stride * units_under_way;
  for (u64 first = blockIdx.x * stride * units_under_way + threadIdx.x; first < count; first += step) {
    Unit value[units_under_way];
    i64 place[units_under_way];
#pragma unroll
    for (int e = 0; e < units_under_way; ++e) {
      const u64 i = first + e * stride;
      const auto offsets = nest.at((Index)(i < count ? i : count - 1));  // no branch between the loads
      value[e] = source[offsets.of[0]];
      place[e] = offsets.of[1];
    }
#pragma unroll
    for (int e = 0; e < units_under_way; ++e)
      if (first + e * stride < count) target[place[e]] = value[e];
  }
}

// Where an array lies in a larger one: element y of an axis at start + y * step.
struct Placement {
  u64 axes;
  Divisor size[most_axes];  // of the larger array
  Divisor step[most_axes];
  i64 start[most_axes], length[most_axes], stride[most_axes];  // of the array that is placed
};

// The larger array, dense: `source` where it is placed, elsewhere `fill`.
template <class Index, class Unit>
DEVICE void place_units(const Unit* source, Unit* target, Unit fill, const Placement& placement, u64 count) {
  const u64 stride = blockDim.x, step = (u64)gridDim.x * stride * units_under_way;
  for (u64 first = blockIdx.x * stride * units_under_way + threadIdx.x; first < count; first += step) {
    Unit value[units_under_way];
#pragma unroll
    for (int e = 0; e < units_under_way; ++e) {
      const u64 i = first + e * stride;
      value[e] = fill;
      if (i >= count) continue;
      Index rest = (Index)i;
      i64 offset = 0;
      bool inside = true;
      for (int axis = (int)placement.axes - 1; axis >= 0; --axis) {
        const Divisor& size = placement.size[axis];
        const Index next = axis > 0 ? size.divide(rest) : 0;
        const i64 beyond = (i64)(rest - next * (Index)size.value) - placement.start[axis];
        rest = next;
        // Before the start: made 0, whose place is as good as any.
        const Index distance = beyond < 0 ? 0 : (Index)beyond;
        const Index position = placement.step[axis].divide(distance);
        inside &= beyond >= 0 && position * (Index)placement.step[axis].value == distance &&
                  (i64)position < placement.length[axis];
        offset += (i64)position * placement.stride[axis];
      }
      if (inside) value[e] = source[offset];
    }
#pragma unroll
    for (int e = 0; e < units_under_way; ++e)
      if (first + e * stride < count) target[first + e * stride] = value[e];
  }
}

// What a cast to T gives; a double beyond the range of i64 saturates.
template <class T>
struct FromDouble {
  static DEVICE T convert(f64 value) {
    if (value != value) return T(0);
    if (value >= 9223372036854775808.0) return (T)0x7fffffffffffffffll;
    if (value <= -9223372036854775808.0) return (T)(-0x7fffffffffffffffll - 1);
    return (T)(i64)value;
  }
};
template <>
struct FromDouble<bool> {
  static DEVICE bool convert(f64 value) { return value != 0; }
};
template <>
struct FromDouble<f32> {
  static DEVICE f32 convert(f64 value) { return (f32)value; }
};
template <>
struct FromDouble<f64> {
  static DEVICE f64 convert(f64 value) { return value; }
};
template <>
struct FromDouble<f16> {
  static DEVICE f16 convert(f64 value) { return to_f16((f32)value); }
};
template <>
struct FromDouble<bf16> {
  static DEVICE bf16 convert(f64 value) { return to_bf16((f32)value); }
};

template <class T>
DEVICE void range_of_reals(T* out, f64 start, f64 step, u64 count) {
  for (u64 i = global_thread(); i < count; i += global_threads())
    out[i] = FromDouble<T>::convert(start + step * (f64)i);
}
// Exact beyond 2^53.
template <class T>
DEVICE void range_of_integers(T* out, u64 start, u64 step, u64 count) {
  for (u64 i = global_thread(); i < count; i += global_threads()) out[i] = (T)(start + step * i);
}
