// What the host tells the kernels of gemm.h. Included by both sides.
#pragma once

// out(row, column) = sum over k of a(row, k) * b(column, k), for a stack of products. Strides in elements.
struct GemmShape {
  long long rows, columns, depth;  // of one product
  long long a_row, a_k;
  long long b_column, b_k;
  long long split_depth;  // the part of K that a block works on; depth when it is not split
  unsigned row_tiles, column_tiles, splits;
  unsigned long long products;
};

// The axes of the stack, outermost first.
constexpr int gemm_axes = 6;
struct GemmStack {
  int axes;
  long long size[gemm_axes];
};
// One operand's strides along them.
struct GemmStackStrides {
  long long stride[gemm_axes];
};
// Columns that a rope turns (TurnedHeads of the host): angles of `time` positions, for rows in this order
// again and again.
struct GemmTurn {
  const float *cosine, *sine;
  long long begin, end, time;
};
// An operand of the expression that follows a product, laid out over its result.
struct GemmPlace {
  long long row, column;
  GemmStackStrides stack;
};
