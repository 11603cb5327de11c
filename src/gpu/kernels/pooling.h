// Max and average pooling over one to three axes, which are stored as three.
#pragma once

#include "nest.h"

// Output position o covers input positions o * stride - padding + k, k < kernel.
struct Pool {
  i64 kernel[3], padding[3];
  Divisor in[3], out[3], stride[3];
  Nest<1> planes;     // of the first input (x, or dy for the gradient of the mean)
  i64 step[3];        // of that input
  Nest<1> dy_planes;  // of the gradient of the maximum
  i64 dy_step[3];
  u64 include_padding;  // in what a mean is over
};

// Positions are signed numbers of the width of `Index`, which numbers elements.
template <class Index>
struct Signed {
  using Type = i32;
};
template <>
struct Signed<u64> {
  using Type = i64;
};

// The part of a window along one axis that lies inside the input, and how many positions a mean counts.
template <class P>
struct Window {
  P begin, end, counted;
};

template <class P>
DEVICE Window<P> window(const Pool& pool, int axis, P o) {
  const P start = o * (P)pool.stride[axis].value - (P)pool.padding[axis], stop = start + (P)pool.kernel[axis];
  const P size = (P)pool.in[axis].value, padded = size + (P)pool.padding[axis];
  const P begin = start < 0 ? 0 : start, end = stop < size ? stop : size;
  const P counted = pool.include_padding ? (stop < padded ? stop : padded) - start : end - begin;
  return {begin, end, counted < 0 ? 0 : counted};
}

// The output positions [begin, end) whose windows hold input position i.
template <class P>
struct Covering {
  P begin, end;
};

template <class Index, class P>
DEVICE Covering<P> covering(const Pool& pool, int axis, P i) {
  const Divisor& stride = pool.stride[axis];
  const P reach = i + (P)pool.padding[axis], before = reach - (P)pool.kernel[axis];
  const P begin = before < 0 ? 0 : (P)stride.divide((Index)before) + 1;
  const P end = (P)stride.divide((Index)reach) + 1, size = (P)pool.out[axis].value;
  return {begin, end < size ? end : size};
}

// The number of an element as plane and three positions.
template <class Index>
struct Place {
  Index plane;
  typename Signed<Index>::Type at[3];
};

template <class Index>
DEVICE Place<Index> place_of(Index element, const Divisor (&size)[3]) {
  Place<Index> place;
  Index rest = element;
#pragma unroll
  for (int axis = 2; axis >= 0; --axis) {
    const Index next = size[axis].divide(rest);
    place.at[axis] = (typename Signed<Index>::Type)(rest - next * (Index)size[axis].value);
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
  using P = typename Signed<Index>::Type;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const auto o = place_of((Index)i, pool.out);
    const T* plane = x + pool.planes.at(o.plane).of[0];
    const auto a = window(pool, 0, o.at[0]), b = window(pool, 1, o.at[1]), c = window(pool, 2, o.at[2]);
    C best = lowest<C>();
    for (P p = a.begin; p < a.end; ++p)
      for (P q = b.begin; q < b.end; ++q) {
        const T* row = plane + p * pool.step[0] + q * pool.step[1];
        for (P r = c.begin; r < c.end; ++r) {
          const C value = load(row[(i64)r * pool.step[2]]);
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
  using P = typename Signed<Index>::Type;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const auto o = place_of((Index)i, pool.out);
    const T* plane = x + pool.planes.at(o.plane).of[0];
    const auto a = window(pool, 0, o.at[0]), b = window(pool, 1, o.at[1]), c = window(pool, 2, o.at[2]);
    C best = lowest<C>();
    P winner = -1;
    for (P p = a.begin; p < a.end; ++p)
      for (P q = b.begin; q < b.end; ++q) {
        const T* row = plane + p * pool.step[0] + q * pool.step[1];
        const P number = (p * (P)pool.in[1].value + q) * (P)pool.in[2].value;
        for (P r = c.begin; r < c.end; ++r) {
          const C value = load(row[(i64)r * pool.step[2]]);
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
  using P = typename Signed<Index>::Type;
  const i64 out_plane = (i64)(pool.out[0].value * pool.out[1].value * pool.out[2].value);
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const auto at = place_of((Index)i, pool.in);
    const T* plane = dy + pool.dy_planes.at(at.plane).of[0];
    const Number* of_plane = winners + (i64)at.plane * out_plane;
    const Number number =
        (Number)((at.at[0] * (P)pool.in[1].value + at.at[1]) * (P)pool.in[2].value + at.at[2]);
    const auto a = covering<Index>(pool, 0, at.at[0]), b = covering<Index>(pool, 1, at.at[1]),
               c = covering<Index>(pool, 2, at.at[2]);
    C sum = 0;
    for (P p = a.begin; p < a.end; ++p)
      for (P q = b.begin; q < b.end; ++q)
        for (P r = c.begin; r < c.end; ++r) {
          const P o = (p * (P)pool.out[1].value + q) * (P)pool.out[2].value + r;
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
  using P = typename Signed<Index>::Type;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const auto o = place_of((Index)i, pool.out);
    const T* plane = x + pool.planes.at(o.plane).of[0];
    const auto a = window(pool, 0, o.at[0]), b = window(pool, 1, o.at[1]), c = window(pool, 2, o.at[2]);
    C sum = 0;
    for (P r = c.begin; r < c.end; ++r) {
      C column = 0;
      for (P p = a.begin; p < a.end; ++p)
        for (P q = b.begin; q < b.end; ++q)
          column = column + load(plane[p * pool.step[0] + q * pool.step[1] + r * pool.step[2]]);
      sum = sum + column;
    }
    y[i] = store<T>(sum / (scale<C>(c.counted) * scale<C>((i64)a.counted * b.counted)));
  }
}

template <class Index, class T>
DEVICE void avg_pool_grad(const T* dy, T* dx, const Pool& pool, u64 count) {
  using C = typename Stored<T>::Compute;
  using P = typename Signed<Index>::Type;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const auto at = place_of((Index)i, pool.in);
    const T* plane = dy + pool.planes.at(at.plane).of[0];
    const auto a = covering<Index>(pool, 0, at.at[0]), b = covering<Index>(pool, 1, at.at[1]),
               c = covering<Index>(pool, 2, at.at[2]);
    C sum = 0;
    for (P p = a.begin; p < a.end; ++p)
      for (P q = b.begin; q < b.end; ++q) {
        const C rows = scale<C>((i64)window(pool, 0, p).counted * window(pool, 1, q).counted);
        C band = 0;
        for (P r = c.begin; r < c.end; ++r) {
          const C gradient = load(plane[p * pool.step[0] + q * pool.step[1] + r * pool.step[2]]);
          band = band + gradient / (scale<C>(window(pool, 2, r).counted) * rows);
        }
        sum = sum + band;
      }
    dx[i] = store<T>(sum);
  }
}
