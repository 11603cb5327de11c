// Max and average pooling over one to three axes, which are stored as three.
#pragma once

#include "nest.h"

// Output position o covers input positions o * stride - padding + k, k < kernel.
struct Pool {
  i64 in[3], kernel[3], stride[3], padding[3];
  Divisor in_size[3], out[3];
  Nest<1> planes;     // of the first input (x, or dy for the gradient of the mean)
  i64 step[3];        // of that input
  Nest<1> dy_planes;  // of the gradient of the maximum
  i64 dy_step[3];
  u64 include_padding;  // in what a mean is over
};

// The part of a window along one axis that lies inside the input, and how many positions a mean counts.
struct Window {
  i64 begin, end, counted;
};

DEVICE Window window(const Pool& pool, int axis, i64 o) {
  const i64 start = o * pool.stride[axis] - pool.padding[axis], stop = start + pool.kernel[axis];
  const i64 begin = start < 0 ? 0 : start, end = stop < pool.in[axis] ? stop : pool.in[axis];
  const i64 padded = pool.in[axis] + pool.padding[axis];
  const i64 counted = pool.include_padding ? (stop < padded ? stop : padded) - start : end - begin;
  return {begin, end, counted < 0 ? 0 : counted};
}

// The output positions [begin, end) whose windows may hold input position i.
struct Covering {
  i64 begin, end;
};

DEVICE Covering covering(const Pool& pool, int axis, i64 i) {
  const i64 reach = i + pool.padding[axis], first = reach - pool.kernel[axis] + 1;
  const i64 begin = first <= 0 ? 0 : (first + pool.stride[axis] - 1) / pool.stride[axis];
  const i64 end = reach / pool.stride[axis] + 1, size = (i64)pool.out[axis].value;
  return {begin, end < size ? end : size};
}

// The number of an element as plane and three positions.
struct Place {
  u64 plane;
  i64 at[3];
};

template <class Index>
DEVICE Place place_of(Index element, const Divisor (&size)[3]) {
  Place place;
  Index rest = element;
#pragma unroll
  for (int axis = 2; axis >= 0; --axis) {
    const Index next = size[axis].divide(rest);
    place.at[axis] = (i64)(rest - next * (Index)size[axis].value);
    rest = next;
  }
  place.plane = rest;
  return place;
}

// A NaN wins over everything, and a later one over an earlier one.
template <class C>
DEVICE bool beats(C value, C best) {
  return value > best || value != value;
}

template <class C>
DEVICE C lowest();
template <>
DEVICE f32 lowest<f32>() {
  return bit_cast<f32>(0xff800000u);
}
template <>
DEVICE f64 lowest<f64>() {
  return bit_cast<f64>(0xfff0000000000000ull);
}

template <class Index, class T>
DEVICE void max_pool(const T* x, T* y, const Pool& pool, u64 count) {
  using C = typename Stored<T>::Compute;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const Place o = place_of((Index)i, pool.out);
    const T* plane = x + pool.planes.at((Index)o.plane).of[0];
    const Window a = window(pool, 0, o.at[0]), b = window(pool, 1, o.at[1]), c = window(pool, 2, o.at[2]);
    C best = lowest<C>();
    for (i64 p = a.begin; p < a.end; ++p)
      for (i64 q = b.begin; q < b.end; ++q) {
        const T* row = plane + p * pool.step[0] + q * pool.step[1];
        for (i64 r = c.begin; r < c.end; ++r) {
          const C value = load(row[r * pool.step[2]]);
          if (beats(value, best)) best = value;
        }
      }
    y[i] = store<T>(best);
  }
}

// The number, within its plane, of the element that an output's maximum is; -1 where the window is empty.
template <class Index, class Number, class T>
DEVICE void max_pool_winners(const T* x, Number* winners, const Pool& pool, u64 count) {
  using C = typename Stored<T>::Compute;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const Place o = place_of((Index)i, pool.out);
    const T* plane = x + pool.planes.at((Index)o.plane).of[0];
    const Window a = window(pool, 0, o.at[0]), b = window(pool, 1, o.at[1]), c = window(pool, 2, o.at[2]);
    C best = lowest<C>();
    i64 winner = -1;
    for (i64 p = a.begin; p < a.end; ++p)
      for (i64 q = b.begin; q < b.end; ++q) {
        const T* row = plane + p * pool.step[0] + q * pool.step[1];
        const i64 number = (p * pool.in[1] + q) * pool.in[2];
        for (i64 r = c.begin; r < c.end; ++r) {
          const C value = load(row[r * pool.step[2]]);
          if (winner >= 0 && !beats(value, best)) continue;
          best = value;
          winner = number + r;
        }
      }
    winners[i] = (Number)winner;
  }
}

// Each element of the input adds up the gradients of the outputs that it is the maximum of.
template <class Index, class Number, class T>
DEVICE void max_pool_grad(const Number* winners, const T* dy, T* dx, const Pool& pool, u64 count) {
  using C = typename Stored<T>::Compute;
  const i64 out_plane = (i64)(pool.out[0].value * pool.out[1].value * pool.out[2].value);
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const Place at = place_of((Index)i, pool.in_size);
    const T* plane = dy + pool.dy_planes.at((Index)at.plane).of[0];
    const Number* of_plane = winners + (i64)at.plane * out_plane;
    const Number number = (Number)((at.at[0] * pool.in[1] + at.at[1]) * pool.in[2] + at.at[2]);
    const Covering a = covering(pool, 0, at.at[0]), b = covering(pool, 1, at.at[1]),
                   c = covering(pool, 2, at.at[2]);
    C sum = 0;
    for (i64 p = a.begin; p < a.end; ++p)
      for (i64 q = b.begin; q < b.end; ++q)
        for (i64 r = c.begin; r < c.end; ++r) {
          const i64 o = (p * (i64)pool.out[1].value + q) * (i64)pool.out[2].value + r;
          if (of_plane[o] == number)
            sum = sum + load(plane[p * pool.dy_step[0] + q * pool.dy_step[1] + r * pool.dy_step[2]]);
        }
    dx[i] = store<T>(sum);
  }
}

template <class C>
DEVICE C scale(i64 counted) {
  return counted > 0 ? C(counted) : C(1);
}

// Columns of a window are added down first, then across: the order of the CPU.
template <class Index, class T>
DEVICE void avg_pool(const T* x, T* y, const Pool& pool, u64 count) {
  using C = typename Stored<T>::Compute;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const Place o = place_of((Index)i, pool.out);
    const T* plane = x + pool.planes.at((Index)o.plane).of[0];
    const Window a = window(pool, 0, o.at[0]), b = window(pool, 1, o.at[1]), c = window(pool, 2, o.at[2]);
    C sum = 0;
    for (i64 r = c.begin; r < c.end; ++r) {
      C column = 0;
      for (i64 p = a.begin; p < a.end; ++p)
        for (i64 q = b.begin; q < b.end; ++q)
          column = column + load(plane[p * pool.step[0] + q * pool.step[1] + r * pool.step[2]]);
      sum = sum + column;
    }
    y[i] = store<T>(sum / (scale<C>(c.counted) * scale<C>(a.counted * b.counted)));
  }
}

template <class Index, class T>
DEVICE void avg_pool_grad(const T* dy, T* dx, const Pool& pool, u64 count) {
  using C = typename Stored<T>::Compute;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const Place at = place_of((Index)i, pool.in_size);
    const T* plane = dy + pool.planes.at((Index)at.plane).of[0];
    const Covering a = covering(pool, 0, at.at[0]), b = covering(pool, 1, at.at[1]),
                   c = covering(pool, 2, at.at[2]);
    C sum = 0;
    for (i64 p = a.begin; p < a.end; ++p)
      for (i64 q = b.begin; q < b.end; ++q) {
        const C rows = scale<C>(window(pool, 0, p).counted * window(pool, 1, q).counted);
        C band = 0;
        for (i64 r = c.begin; r < c.end; ++r) {
          const C gradient = load(plane[p * pool.step[0] + q * pool.step[1] + r * pool.step[2]]);
          band = band + gradient / (scale<C>(window(pool, 2, r).counted) * rows);
        }
        sum = sum + band;
      }
    dx[i] = store<T>(sum);
  }
}
