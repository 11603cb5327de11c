// Normalisation of rows: softmax, layer_norm, rms_norm and their gradients.
//
// An operation has one or two totals over the row, the second of elements that the first one changed
// ("prepared"), and a result for each element. C is the type to compute in; x is an element of the row, g
// that of the gradient, times the weight where there is one.
#pragma once

#include "packet.h"
#include "reduce.h"

template <class C>
struct RowFacts {
  C count, epsilon;
};

// exp(x). The text that includes this says whether results are stored in 16 bits: the unit's own power of two
// has digits enough for them.
template <class C>
DEVICE C row_exp(C x) {
  if constexpr (narrow_results && sizeof(C) == 4)
    return fast_exp2(x * 1.44269504088896340736f);
  else
    return math::exp(x);
}

// Several sums in one.
template <class C, int N>
struct Sums : ManyOf<Sum<C>, N> {};

struct NoTotal {
  struct Total {};
  static DEVICE Total identity() { return {}; }
  static DEVICE Total combine(Total, Total) { return {}; }
};

// What an operation has:
//   First, first(x, g)          the first total and an element's share of it
//   centre(first, row)          what prepare() needs of a row: computed once
//   prepare(x, g, centre)       changes an element
//   Second, second(x, g)        the second total, of prepared elements
//   scale(first, second, row)   what result() needs of a row
//   result(x, g, scale)         from a prepared element
template <class C, bool GRADIENT, int TOTALS>
struct Operation {
  using Compute = C;
  static constexpr bool gradient = GRADIENT;
  static constexpr int totals = TOTALS;
};
template <class C, bool GRADIENT>
struct OneTotal : Operation<C, GRADIENT, 1> {
  using Second = NoTotal;
  template <class Total>
  static DEVICE NoTotal::Total centre(Total, RowFacts<C>) {
    return {};
  }
  static DEVICE void prepare(C&, C&, NoTotal::Total) {}
  static DEVICE NoTotal::Total second(C, C) { return {}; }
};

// A row of -inf or with a NaN becomes NaN throughout: x - largest is NaN somewhere, and so is the sum.
template <class C>
struct Softmax : Operation<C, false, 2> {
  using First = Largest<C>;
  using Second = Sum<C>;
  static DEVICE C first(C x, C) { return x; }
  static DEVICE C centre(C top, RowFacts<C>) { return top; }
  static DEVICE void prepare(C& x, C&, C top) { x = row_exp(x - top); }
  static DEVICE C second(C x, C) { return x; }
  static DEVICE C scale(C, C sum, RowFacts<C>) { return C(1) / sum; }
  static DEVICE C result(C x, C, C scale) { return x * scale; }
};

template <class C>
struct LogSoftmax : Operation<C, false, 2> {
  using First = Largest<C>;
  using Second = Sum<C>;
  static DEVICE C first(C x, C) { return x; }
  static DEVICE C centre(C top, RowFacts<C>) { return top; }
  static DEVICE void prepare(C& x, C&, C top) { x = x - top; }
  static DEVICE C second(C x, C) { return row_exp(x); }
  static DEVICE C scale(C, C sum, RowFacts<C>) { return math::log(sum); }
  static DEVICE C result(C x, C, C logarithm) { return x - logarithm; }
};

// The largest so far and the sum of exp(x - largest), in one pass: for rows that have to be read again for
// every total.
template <class C>
struct ScaledSum {
  using Total = Many<C, 2>;
  static DEVICE Total identity() { return {{-math::infinity(C(0)), C(0)}}; }
  static DEVICE Total combine(Total a, Total b) {
    const C top = math::maximum(a.element[0], b.element[0]);
    const C scale = a.element[0] == b.element[0] ? C(1) : row_exp(-math::abs(a.element[0] - b.element[0]));
    const bool a_larger = a.element[0] > b.element[0];
    return {{top, a.element[1] * (a_larger ? C(1) : scale) + b.element[1] * (a_larger ? scale : C(1))}};
  }
  // NaN where the largest is not finite.
  static DEVICE C sum(Total total) { return total.element[1] + (total.element[0] - total.element[0]); }
};
template <class C>
struct LongSoftmax : OneTotal<C, false> {
  using First = ScaledSum<C>;
  static DEVICE Many<C, 2> first(C x, C) { return {{x, C(1)}}; }
  static DEVICE Many<C, 2> scale(Many<C, 2> total, NoTotal::Total, RowFacts<C>) {
    return {{total.element[0], C(1) / First::sum(total)}};
  }
  static DEVICE C result(C x, C, Many<C, 2> row) { return row_exp(x - row.element[0]) * row.element[1]; }
};
template <class C>
struct LongLogSoftmax : OneTotal<C, false> {
  using First = ScaledSum<C>;
  static DEVICE Many<C, 2> first(C x, C) { return {{x, C(1)}}; }
  static DEVICE Many<C, 2> scale(Many<C, 2> total, NoTotal::Total, RowFacts<C>) {
    return {{total.element[0], math::log(First::sum(total))}};
  }
  static DEVICE C result(C x, C, Many<C, 2> row) { return (x - row.element[0]) - row.element[1]; }
};

// From the result y, which stands for x.
template <class C>
struct SoftmaxGrad : OneTotal<C, true> {
  using First = Sum<C>;
  static DEVICE C first(C y, C g) { return y * g; }
  static DEVICE C scale(C projection, NoTotal::Total, RowFacts<C>) { return projection; }
  static DEVICE C result(C y, C g, C projection) { return y * (g - projection); }
};
template <class C>
struct LogSoftmaxGrad : OneTotal<C, true> {
  using First = Sum<C>;
  static DEVICE C first(C, C g) { return g; }
  static DEVICE C scale(C total, NoTotal::Total, RowFacts<C>) { return total; }
  static DEVICE C result(C y, C g, C total) { return g - row_exp(y) * total; }
};

// 1 / sqrt(variance + epsilon) from the sums of x and of x^2, where x is nearly centred.
template <class C>
DEVICE C deviation_scale(C rest, C squares, RowFacts<C> row) {
  const C variance = math::maximum(squares / row.count - rest * rest, C(0));
  return C(1) / math::sqrt(variance + row.epsilon);
}

// Elements are centred in two steps: the second sum of what is left makes up for the digits that the mean
// lost when it was rounded.
template <class C>
struct LayerNorm : Operation<C, false, 2> {
  using First = Sum<C>;
  using Second = Sums<C, 2>;
  static DEVICE C first(C x, C) { return x; }
  static DEVICE C centre(C sum, RowFacts<C> row) { return sum / row.count; }
  static DEVICE void prepare(C& x, C&, C mean) { x = x - mean; }
  static DEVICE Many<C, 2> second(C x, C) { return {{x, x * x}}; }
  static DEVICE Many<C, 2> scale(C, Many<C, 2> sums, RowFacts<C> row) {
    const C rest = sums.element[0] / row.count;
    return {{rest, deviation_scale(rest, sums.element[1], row)}};
  }
  static DEVICE C result(C x, C, Many<C, 2> row) { return (x - row.element[0]) * row.element[1]; }
};

// With z = (x - mean) * scale: dx = scale * (g - mean(g) - z * mean(g * z)).
template <class C>
struct LayerNormGrad : Operation<C, true, 2> {
  using First = Sums<C, 2>;
  using Second = Sums<C, 3>;
  static DEVICE Many<C, 2> first(C x, C g) { return {{x, g}}; }
  static DEVICE Many<C, 2> centre(Many<C, 2> sums, RowFacts<C> row) {
    return {{sums.element[0] / row.count, sums.element[1] / row.count}};
  }
  static DEVICE void prepare(C& x, C& g, Many<C, 2> mean) {
    x = x - mean.element[0];
    g = g - mean.element[1];
  }
  static DEVICE Many<C, 3> second(C x, C g) { return {{x, x * x, x * g}}; }
  static DEVICE Many<C, 3> scale(Many<C, 2>, Many<C, 3> sums, RowFacts<C> row) {
    const C rest = sums.element[0] / row.count, scale = deviation_scale(rest, sums.element[1], row);
    return {{rest, scale, scale * scale * sums.element[2] / row.count}};
  }
  static DEVICE C result(C x, C g, Many<C, 3> row) {
    return row.element[1] * (g - (x - row.element[0]) * row.element[2]);
  }
  static DEVICE C normalised(C x, Many<C, 3> row) { return (x - row.element[0]) * row.element[1]; }
};

template <class C>
struct RmsNorm : OneTotal<C, false> {
  using First = Sum<C>;
  static DEVICE C first(C x, C) { return x * x; }
  static DEVICE C scale(C squares, NoTotal::Total, RowFacts<C> row) {
    return deviation_scale(C(0), squares, row);
  }
  static DEVICE C result(C x, C, C scale) { return x * scale; }
};

// dx = scale * (g - x * scale^2 * mean(g * x)).
template <class C>
struct RmsNormGrad : OneTotal<C, true> {
  using First = Sums<C, 2>;
  static DEVICE Many<C, 2> first(C x, C g) { return {{x * x, x * g}}; }
  static DEVICE Many<C, 2> scale(Many<C, 2> sums, NoTotal::Total, RowFacts<C> row) {
    const C scale = deviation_scale(C(0), sums.element[0], row);
    return {{scale, scale * scale * sums.element[1] / row.count}};
  }
  static DEVICE C result(C x, C g, Many<C, 2> row) { return row.element[0] * (g - x * row.element[1]); }
  static DEVICE C normalised(C x, Many<C, 2> row) { return x * row.element[0]; }
};

// ---- reading and writing rows ----

struct None {};  // in place of the type of a weight or bias that is not there
template <class T>
struct IsThere {
  static constexpr bool value = true;
};
template <>
struct IsThere<None> {
  static constexpr bool value = false;
};

template <class X, class G, class W, class B, class Out>
struct Line {
  const X* x;
  const G* dy;
  const W* weight;
  const B* term_row;  // added to results: a bias, or another gradient by x
  Out* out;
  i64 x_step, dy_step, weight_step, term_step;

  template <class Op, int P, class C>
  DEVICE void load(i64 at, C* value, C* gradient) const {
    read_packet<P>(x, x_step, at, value);
    if constexpr (Op::gradient) {
      read_packet<P>(dy, dy_step, at, gradient);
      if constexpr (IsThere<W>::value) {
        C factor[P];
        read_packet<P>(weight, weight_step, at, factor);
#pragma unroll
        for (int e = 0; e < P; ++e) gradient[e] *= factor[e];
      }
    } else {
#pragma unroll
      for (int e = 0; e < P; ++e) gradient[e] = C(0);
    }
  }

  template <class Op, int P, class C>
  DEVICE void write(i64 at, C* value) const {
    if constexpr (!Op::gradient && IsThere<W>::value) {
      C factor[P];
      read_packet<P>(weight, weight_step, at, factor);
#pragma unroll
      for (int e = 0; e < P; ++e) value[e] *= factor[e];
    }
    if constexpr (IsThere<B>::value) {
      C term[P];
      read_packet<P>(term_row, term_step, at, term);
#pragma unroll
      for (int e = 0; e < P; ++e) value[e] += term[e];
    }
    write_packet<P>(out + at, value);
  }
};

// ---- rows that fit into registers: up to PACKETS packets of P elements in each of `lanes` threads ----

template <class Op, int P, int PACKETS, class Index, class LineAt>
DEVICE void normalise_rows(LineAt line_at, Index rows, Index size, typename Op::Compute epsilon, u32 lanes) {
  using C = typename Op::Compute;
  using First = typename Op::First;
  using Second = typename Op::Second;
  const RowFacts<C> facts{(C)size, epsilon};
  const Index in_block = blockDim.x / lanes, packets = size / P, place = threadIdx.x % lanes;
  for (Index first_row = blockIdx.x * in_block; first_row < rows; first_row += gridDim.x * in_block) {
    const Index row = first_row + threadIdx.x / lanes;
    const auto line = line_at(row < rows ? row : rows - 1);
    const Index mine = row < rows ? packets : 0;
    C x[PACKETS][P], g[PACKETS][P];
#pragma unroll
    for (int k = 0; k < PACKETS; ++k)
      if (place + k * lanes < mine) line.template load<Op, P>((i64)(place + k * lanes) * P, x[k], g[k]);
    auto first = First::identity();
#pragma unroll
    for (int k = 0; k < PACKETS; ++k)
      if (place + k * lanes < mine)
#pragma unroll
        for (int e = 0; e < P; ++e) first = First::combine(first, Op::first(x[k][e], g[k][e]));
    first = group_reduce<First, Op::totals == 2>(first, lanes);
    const auto centre = Op::centre(first, facts);
    auto second = Second::identity();
    if constexpr (Op::totals == 2) {
#pragma unroll
      for (int k = 0; k < PACKETS; ++k)
        if (place + k * lanes < mine)
#pragma unroll
          for (int e = 0; e < P; ++e) {
            Op::prepare(x[k][e], g[k][e], centre);
            second = Second::combine(second, Op::second(x[k][e], g[k][e]));
          }
      second = group_reduce<Second, true>(second, lanes);
    }
    const auto scale = Op::scale(first, second, facts);
#pragma unroll
    for (int k = 0; k < PACKETS; ++k)
      if (place + k * lanes < mine) {
#pragma unroll
        for (int e = 0; e < P; ++e) x[k][e] = Op::result(x[k][e], g[k][e], scale);
        line.template write<Op, P>((i64)(place + k * lanes) * P, x[k]);
      }
  }
}

// ---- gradients by the parameters as well ----

// The gradient by x goes to its line, those by weight and bias to `partial`, summed over the rows of a block:
// (blocks, TERMS, size). A block has a row at a time, each of its threads the same columns of all of them.
template <class Op, int TERMS, int P, int PACKETS, class Index, class LineAt>
DEVICE void normalise_gradients(LineAt line_at, Index rows, Index size, typename Op::Compute epsilon,
                                typename Op::Compute* partial) {
  using C = typename Op::Compute;
  using First = typename Op::First;
  using Second = typename Op::Second;
  const RowFacts<C> facts{(C)size, epsilon};
  const Index packets = size / P;
  C by_weight[PACKETS][P] = {}, by_bias[PACKETS][P] = {};
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto line = line_at(row);
    C x[PACKETS][P], g[PACKETS][P], dy[PACKETS][P];
#pragma unroll
    for (int k = 0; k < PACKETS; ++k) {
      const Index packet = threadIdx.x + k * blockDim.x;
      if (packet >= packets) continue;
      line.template load<Op, P>((i64)packet * P, x[k], g[k]);
      read_packet<P>(line.dy, line.dy_step, (i64)packet * P, dy[k]);
    }
    auto first = First::identity();
#pragma unroll
    for (int k = 0; k < PACKETS; ++k)
      if (threadIdx.x + k * blockDim.x < packets)
#pragma unroll
        for (int e = 0; e < P; ++e) first = First::combine(first, Op::first(x[k][e], g[k][e]));
    first = group_reduce<First, Op::totals == 2>(first, blockDim.x);
    const auto centre = Op::centre(first, facts);
    auto second = Second::identity();
    if constexpr (Op::totals == 2) {
#pragma unroll
      for (int k = 0; k < PACKETS; ++k)
        if (threadIdx.x + k * blockDim.x < packets)
#pragma unroll
          for (int e = 0; e < P; ++e) {
            Op::prepare(x[k][e], g[k][e], centre);
            second = Second::combine(second, Op::second(x[k][e], g[k][e]));
          }
      second = group_reduce<Second, true>(second, blockDim.x);
    }
    const auto scale = Op::scale(first, second, facts);
#pragma unroll
    for (int k = 0; k < PACKETS; ++k) {
      const Index packet = threadIdx.x + k * blockDim.x;
      if (packet >= packets) continue;
#pragma unroll
      for (int e = 0; e < P; ++e) {
        by_weight[k][e] += dy[k][e] * Op::normalised(x[k][e], scale);
        by_bias[k][e] += dy[k][e];
        x[k][e] = Op::result(x[k][e], g[k][e], scale);
      }
      line.template write<Op, P>((i64)packet * P, x[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < PACKETS; ++k) {
    const Index packet = threadIdx.x + k * blockDim.x;
    if (packet >= packets) continue;
    C* mine = partial + (u64)blockIdx.x * TERMS * size + packet * P;
    write_packet<P>(mine, by_weight[k]);
    if constexpr (TERMS == 2) write_packet<P>(mine + size, by_bias[k]);
  }
}

// The sums of the columns of `partial` (rows, columns). 8 columns are a sector; 32 threads share their rows.
template <class C, class T>
DEVICE void sum_columns(const C* partial, T* out, u32 rows, u64 columns) {
  constexpr u32 across = 8, along = 32;
  __shared__ C shared[along][across];
  const u32 x = threadIdx.x % across, y = threadIdx.x / across;
  const u64 column = blockIdx.x * (u64)across + x;
  C sum = C(0);
  if (column < columns) {
    // Many loads at once: each waits for memory.
    constexpr u32 at_once = 16;
    u32 row = y;
    for (; row + (at_once - 1) * along < rows; row += at_once * along) {
      C values[at_once];
#pragma unroll
      for (u32 i = 0; i < at_once; ++i) values[i] = partial[(u64)(row + i * along) * columns + column];
#pragma unroll
      for (u32 i = 0; i < at_once; ++i) sum += values[i];
    }
    for (; row < rows; row += along) sum += partial[(u64)row * columns + column];
  }
  shared[y][x] = sum;
  barrier();
  if (y != 0 || column >= columns) return;
#pragma unroll
  for (u32 i = 1; i < along; ++i) sum += shared[i][x];
  out[column] = store<T>(sum);
}

// ---- long rows: read again for each total ----

// This thread's share of the first (second) total, from the packets [begin, end).
template <class Op, int P, class Index, class Row>
DEVICE typename Op::First::Total first_share(const Row& line, Index begin, Index end) {
  using C = typename Op::Compute;
  using First = typename Op::First;
  return span_total<First, Index>(begin + threadIdx.x, end, blockDim.x, [&](Index packet) {
    C x[P], g[P];
    line.template load<Op, P>((i64)packet * P, x, g);
    Many<typename First::Total, P> terms;
#pragma unroll
    for (int e = 0; e < P; ++e) terms.element[e] = Op::first(x[e], g[e]);
    return fold<First, P>(terms);
  });
}
template <class Op, int P, class Index, class Row>
DEVICE typename Op::Second::Total second_share(const Row& line, Index begin, Index end,
                                               typename Op::First::Total first,
                                               RowFacts<typename Op::Compute> facts) {
  using C = typename Op::Compute;
  using Second = typename Op::Second;
  const auto centre = Op::centre(first, facts);
  return span_total<Second, Index>(begin + threadIdx.x, end, blockDim.x, [&](Index packet) {
    C x[P], g[P];
    line.template load<Op, P>((i64)packet * P, x, g);
    Many<typename Second::Total, P> terms;
#pragma unroll
    for (int e = 0; e < P; ++e) {
      Op::prepare(x[e], g[e], centre);
      terms.element[e] = Op::second(x[e], g[e]);
    }
    return fold<Second, P>(terms);
  });
}
template <class Op, int P, class Index, class Row>
DEVICE void write_results(const Row& line, Index begin, Index end, typename Op::First::Total first,
                          typename Op::Second::Total second, RowFacts<typename Op::Compute> facts) {
  using C = typename Op::Compute;
  const auto centre = Op::centre(first, facts);
  const auto scale = Op::scale(first, second, facts);
  for (Index packet = begin + threadIdx.x; packet < end; packet += blockDim.x) {
    C x[P], g[P];
    line.template load<Op, P>((i64)packet * P, x, g);
#pragma unroll
    for (int e = 0; e < P; ++e) {
      Op::prepare(x[e], g[e], centre);
      x[e] = Op::result(x[e], g[e], scale);
    }
    line.template write<Op, P>((i64)packet * P, x);
  }
}

// A block for each row.
template <class Op, int P, class Index, class LineAt>
DEVICE void normalise_long_rows(LineAt line_at, Index rows, Index size, typename Op::Compute epsilon) {
  const RowFacts<typename Op::Compute> facts{(typename Op::Compute)size, epsilon};
  const Index packets = size / P;
  for (Index row = blockIdx.x; row < rows; row += gridDim.x) {
    const auto line = line_at(row);
    const auto first =
        group_reduce<typename Op::First>(first_share<Op, P, Index>(line, 0, packets), blockDim.x);
    auto second = Op::Second::identity();
    if constexpr (Op::totals == 2)
      second = group_reduce<typename Op::Second>(second_share<Op, P, Index>(line, 0, packets, first, facts),
                                                 blockDim.x);
    write_results<Op, P, Index>(line, 0, packets, first, second, facts);
  }
}

// The total of all slices of a row.
template <class Reducer>
DEVICE typename Reducer::Total slices_total(const typename Reducer::Total* slice, u32 slices) {
  auto total = Reducer::identity();
  for (u32 i = threadIdx.x; i < slices; i += blockDim.x) total = Reducer::combine(total, slice[i]);
  return group_reduce<Reducer>(total, blockDim.x);
}

// Few rows: a block for each slice of a row, and a launch for each of the STAGES first total, second total
// and result.
template <class Op, int P, int STAGE, class Index, class LineAt>
DEVICE void normalise_slices(LineAt line_at, Index rows, Index size, typename Op::Compute epsilon, u32 slices,
                             typename Op::First::Total* firsts, typename Op::Second::Total* seconds) {
  using First = typename Op::First;
  using Second = typename Op::Second;
  const RowFacts<typename Op::Compute> facts{(typename Op::Compute)size, epsilon};
  const u64 packets = size / P, jobs = (u64)rows * slices;
  for (u64 job = blockIdx.x; job < jobs; job += gridDim.x) {
    const Index row = job / slices, slice = job % slices;
    const Index begin = packets * slice / slices, end = packets * (slice + 1) / slices;
    const auto line = line_at(row);
    if constexpr (STAGE == 0) {
      const auto first = group_reduce<First>(first_share<Op, P, Index>(line, begin, end), blockDim.x);
      if (threadIdx.x == 0) firsts[job] = first;
    } else {
      const auto first = slices_total<First>(firsts + (u64)row * slices, slices);
      if constexpr (STAGE == 1) {
        const auto second =
            group_reduce<Second>(second_share<Op, P, Index>(line, begin, end, first, facts), blockDim.x);
        if (threadIdx.x == 0) seconds[job] = second;
      } else {
        auto second = Second::identity();
        if constexpr (Op::totals == 2) second = slices_total<Second>(seconds + (u64)row * slices, slices);
        write_results<Op, P, Index>(line, begin, end, first, second, facts);
      }
    }
  }
}
