// Convolutions as matrix products whose operands are gathered: nothing is copied into matrix form.
//
//   conv              y(o; image, pixel) = sum over (channel, tap)  w(o; channel, tap) * x(image, channel,
//   pixel meets tap) conv_input_grad   dx(c; image, pixel) = sum over (o, tap)       w(c; o, tap) * dy(image,
//   o, pixel meets tap) conv_weight_grad  dw(o; channel, tap) = sum over (image, pixel) dy(o; image, pixel) *
//   x(image, channel, pixel meets tap)
//
// for each group. `Pair` is the operand that is only laid out differently, `Patches` the one read where
// pixels meet taps.
#pragma once

#include "conv_arguments.h"
#include "gemm.h"

namespace conv {

struct Division {
  i32 quotient, rest;
};
DEVICE Division divide(i32 number, const ConvDivisor& by) {
  const u32 quotient = (__umulhi((u32)number, by.multiplier) + (u32)number) >> by.shift;
  return {(i32)quotient, (i32)((u32)number - quotient * by.divisor)};
}

// k = (outer, three inner axes).
template <class T>
struct Pair {
  using Element = T;
  const T* data;
  ConvPair shape;
  i64 rows, depth;
  struct Row {
    const T* data;
    bool there;
  };
  DEVICE Row row(i64 index) const { return {data + index * shape.row, index < rows}; }
  DEVICE T at(const Row& row, i64 k) const {
    if (!row.there || k >= depth) return T{};
    const Division outer = divide((i32)k, shape.inner_size), plane = divide(outer.rest, shape.plane),
                   line = divide(plane.rest, shape.line);
    return row.data[outer.quotient * shape.outer + plane.quotient * shape.inner[0] +
                    line.quotient * shape.inner[1] + line.rest * shape.inner[2]];
  }
};

// PIXEL_ROWS: rows are (image, pixel) and k is (channel, tap); otherwise the other way round.
template <class T, bool PIXEL_ROWS>
struct Patches {
  using Element = T;
  const T* data;
  ConvPatches shape;
  i64 rows, depth;
  struct Row {
    const T* data;
    i32 at[3];
    bool there;
  };

  DEVICE Row pixel(i32 index) const {
    const Division image = divide(index, shape.pixels), plane = divide(image.rest, shape.pixel_plane),
                   line = divide(plane.rest, shape.pixel_row);
    return {data + image.quotient * shape.image,
            {plane.quotient * shape.pixel_step[0] + shape.shift[0],
             line.quotient * shape.pixel_step[1] + shape.shift[1],
             line.rest * shape.pixel_step[2] + shape.shift[2]},
            true};
  }
  DEVICE Row tap(i32 index) const {
    const Division channel = divide(index, shape.taps), plane = divide(channel.rest, shape.tap_plane),
                   line = divide(plane.rest, shape.tap_row);
    return {data + channel.quotient * shape.channel,
            {plane.quotient * shape.tap_step[0], line.quotient * shape.tap_step[1],
             line.rest * shape.tap_step[2]},
            true};
  }

  DEVICE Row row(i64 index) const {
    if (index >= rows) return {data, {0, 0, 0}, false};
    return PIXEL_ROWS ? pixel((i32)index) : tap((i32)index);
  }
  DEVICE T at(const Row& row, i64 k) const {
    if (!row.there || k >= depth) return T{};
    const Row other = PIXEL_ROWS ? tap((i32)k) : pixel((i32)k);
    i64 offset = 0;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
      i32 place = row.at[axis] + other.at[axis];
      if (place < 0) return T{};
      if (shape.quotient[axis] != 1) {  // only where a stride is turned round
        if (place % shape.quotient[axis] != 0) return T{};
        place /= shape.quotient[axis];
      }
      if (place >= shape.size[axis]) return T{};
      offset += place * shape.spatial[axis];
    }
    return row.data[(other.data - data) + offset];
  }
};

// Stores (row; image, pixel) at (image, group, row, pixel).
template <class T>
struct Planes {
  T* out;
  ConvPlanes shape;
  i64 first = 0;
  DEVICE void start(u64 group, u32) { first = (i64)group * shape.rows; }
  template <class Sum, int N>
  DEVICE void operator()(i64 row, i64 column, const Packet<Sum, N>& run) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Division image = divide((i32)column + i, shape.pixels);
      out[(image.quotient * shape.channels + first + row) * shape.pixels.divisor + image.rest] =
          store<T>(run.element[i]);
    }
  }
};

// Stores results side by side.
template <class T>
struct Dense {
  T* out;
  i64 rows, columns;
  i64 first = 0;
  DEVICE void start(u64 group, u32) { first = (i64)group * rows * columns; }
  template <class Sum, int N>
  DEVICE void operator()(i64 row, i64 column, const Packet<Sum, N>& run) const {
#pragma unroll
    for (int i = 0; i < N; ++i) out[first + row * columns + column + i] = store<T>(run.element[i]);
  }
};

// Few rows or columns in a group, where tiles would be mostly empty: a thread for each result.
template <class Sum, class SourceA, class SourceB, class Finish>
DEVICE void by_thread(const GemmShape& shape, const SourceA& source_a, const SourceB& source_b,
                      Finish finish) {
  const u64 one = (u64)shape.rows * shape.columns, count = one * shape.products;
  for (u64 i = global_thread(); i < count; i += global_threads()) {
    const u64 group = i / one, place = i % one;
    const i64 row = (i64)(place / shape.columns), column = (i64)(place % shape.columns);
    const auto a = source_a(group, shape.depth);
    const auto b = source_b(group, shape.depth);
    const auto left = a.row(row);
    const auto right = b.row(column);
    Sum sum = 0;
    for (i64 k = 0; k < shape.depth; ++k)
      sum = gemm::multiply_add((Sum)load(a.at(left, k)), (Sum)load(b.at(right, k)), sum);
    finish.start(group, 0);
    finish(row, column, Packet<Sum, 1>{{sum}});
  }
}

// The same for long sums: a block for each result.
template <class Sum, class SourceA, class SourceB, class Finish>
DEVICE void by_block(const GemmShape& shape, const SourceA& source_a, const SourceB& source_b,
                     Finish finish) {
  const u64 one = (u64)shape.rows * shape.columns, count = one * shape.products;
  for (u64 i = blockIdx.x; i < count; i += gridDim.x) {
    const u64 group = i / one, place = i % one;
    const i64 row = (i64)(place / shape.columns), column = (i64)(place % shape.columns);
    const auto a = source_a(group, shape.depth);
    const auto b = source_b(group, shape.depth);
    const auto left = a.row(row);
    const auto right = b.row(column);
    Sum sum = 0;
    for (i64 k = threadIdx.x; k < shape.depth; k += blockDim.x)
      sum = gemm::multiply_add((Sum)load(a.at(left, k)), (Sum)load(b.at(right, k)), sum);
    sum = block_reduce(sum, Sum(0), [](Sum x, Sum y) { return x + y; });
    finish.start(group, 0);
    if (threadIdx.x == 0) finish(row, column, Packet<Sum, 1>{{sum}});
  }
}

}  // namespace conv
