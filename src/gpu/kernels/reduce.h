// Reductions over rows and over columns of what a kernel evaluates.
//
// A reducer has a type Total and combines totals; `evaluate(kept, reduced)` gives a Many<Total, P>: the
// elements from one position on, along the axis that is contiguous in memory. Sums are built from short
// pieces, so that rounding errors do not pile up.
#pragma once

#include "math.h"

// ---- reducers; C is the type that elements are computed in ----

template <class T>
struct WideType {
  using Type = T;
};
template <>
struct WideType<i32> {
  using Type = i64;
};

template <class C>
struct Sum {
  using Total = typename WideType<C>::Type;
  static DEVICE Total identity() { return 0; }
  static DEVICE Total element(C value, i64) { return value; }
  static DEVICE Total combine(Total a, Total b) {
    if constexpr (math::IsInteger<Total>::value)
      return (Total)((u64)a + (u64)b);  // wraps around
    else
      return a + b;
  }
  static DEVICE Total result(Total total) { return total; }
};

template <class C>
struct Product {
  using Total = typename WideType<C>::Type;
  static DEVICE Total identity() { return 1; }
  static DEVICE Total element(C value, i64) { return value; }
  static DEVICE Total combine(Total a, Total b) {
    if constexpr (math::IsInteger<Total>::value)
      return (Total)((u64)a * (u64)b);
    else
      return a * b;
  }
  static DEVICE Total result(Total total) { return total; }
};

// Less than every other value, or equal to the least.
template <class C>
DEVICE C lowest() {
  if constexpr (math::IsInteger<C>::value)
    return (C)((typename math::Unsigned<C>::Type)1 << (sizeof(C) * 8 - 1));
  else
    return -math::infinity(C(0));
}
template <class C>
DEVICE C highest() {
  if constexpr (math::IsInteger<C>::value)
    return ~lowest<C>();
  else
    return math::infinity(C(0));
}

template <class C>
struct Largest {
  using Total = C;
  static DEVICE C identity() { return lowest<C>(); }
  static DEVICE C element(C value, i64) { return value; }
  static DEVICE C combine(C a, C b) { return math::maximum(a, b); }
  static DEVICE C result(C total) { return total; }
};

template <class C>
struct Smallest {
  using Total = C;
  static DEVICE C identity() { return highest<C>(); }
  static DEVICE C element(C value, i64) { return value; }
  static DEVICE C combine(C a, C b) { return math::minimum(a, b); }
  static DEVICE C result(C total) { return total; }
};

template <class C>
struct All {
  using Total = C;
  static DEVICE C identity() { return 1; }
  static DEVICE C element(C value, i64) { return value; }
  static DEVICE C combine(C a, C b) { return a & b; }
  static DEVICE C result(C total) { return total; }
};

template <class C>
struct Any {
  using Total = C;
  static DEVICE C identity() { return 0; }
  static DEVICE C element(C value, i64) { return value; }
  static DEVICE C combine(C a, C b) { return a | b; }
  static DEVICE C result(C total) { return total; }
};

// An element and where it is.
template <class C>
struct Placed {
  C value;
  i64 index;
};

// The index of the first largest (smallest) element; a NaN counts as the largest (smallest).
template <class C, bool LARGEST>
struct Extreme {
  using Total = Placed<C>;
  static DEVICE Total identity() { return {LARGEST ? lowest<C>() : highest<C>(), 0x7fffffffffffffffll}; }
  static DEVICE Total element(C value, i64 index) { return {value, index}; }
  static DEVICE Total combine(Total a, Total b) {
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    const bool better = LARGEST ? b.value > a.value : b.value < a.value;
    const bool equal = a.value == b.value || (a_nan && b_nan);
    const bool take = equal ? b.index < a.index : b_nan || (better && !a_nan);
    return {take ? b.value : a.value, take ? b.index : a.index};
  }
  static DEVICE i64 result(Total total) { return total.index; }
};
template <class C>
using FirstLargest = Extreme<C, true>;
template <class C>
using FirstSmallest = Extreme<C, false>;

// ---- several totals side by side ----

template <class T, int N>
struct Many {
  T element[N];
};

template <class Reducer, int N>
struct ManyOf {
  using Total = Many<typename Reducer::Total, N>;
  static DEVICE Total identity() {
    Total result;
#pragma unroll
    for (int e = 0; e < N; ++e) result.element[e] = Reducer::identity();
    return result;
  }
  static DEVICE Total combine(const Total& a, const Total& b) {
    Total result;
#pragma unroll
    for (int e = 0; e < N; ++e) result.element[e] = Reducer::combine(a.element[e], b.element[e]);
    return result;
  }
};

// All N totals in one, by halves.
template <class Reducer, int N>
DEVICE typename Reducer::Total fold(Many<typename Reducer::Total, N> values) {
#pragma unroll
  for (int half = N / 2; half > 0; half /= 2)
#pragma unroll
    for (int e = 0; e < half; ++e)
      values.element[e] = Reducer::combine(values.element[e], values.element[e + half]);
  return values.element[0];
}

// ---- cooperation ----

template <class T>
DEVICE T exchange(T value, int mask) {
  return from_lane_xor(value, mask);
}
template <class C>
DEVICE Placed<C> exchange(Placed<C> value, int mask) {
  return {from_lane_xor(value.value, mask), from_lane_xor(value.index, mask)};
}
template <class T, int N>
DEVICE Many<T, N> exchange(Many<T, N> value, int mask) {
#pragma unroll
  for (int e = 0; e < N; ++e) value.element[e] = exchange(value.element[e], mask);
  return value;
}

// The total of `lanes` neighbouring threads, in each of them: a power of two up to WAVE, or the whole block.
// All threads of the block must be there. ALTERNATES: between two of the same kind there is always one of
// another, with memory of its own.
template <class Reducer, bool ALTERNATES = false>
DEVICE typename Reducer::Total group_reduce(typename Reducer::Total total, u32 lanes) {
  for (u32 mask = (lanes < WAVE ? lanes : WAVE) / 2; mask > 0; mask /= 2)
    total = Reducer::combine(total, exchange(total, mask));
  if (lanes <= WAVE) return total;
  __shared__ typename Reducer::Total partial[1024 / WAVE];
  if (!ALTERNATES) barrier();  // a reduction before this one may still be reading
  if (lane() == 0) partial[wave()] = total;
  barrier();
  total = lane() < lanes / WAVE ? partial[lane()] : Reducer::identity();
#pragma unroll
  for (u32 mask = WAVE / 2; mask > 0; mask /= 2) total = Reducer::combine(total, exchange(total, mask));
  return total;
}

// The total of next(at), next(at + step), ... before `end`. Four are loaded at a time.
template <class Reducer, class Index, class Next>
DEVICE typename Reducer::Total span_total(Index at, Index end, Index step, Next next) {
  constexpr int most_rounds = 32;
  auto total = Reducer::identity();
  while (at < end) {
    auto piece = Reducer::identity();
    int rounds = 0;
    for (; rounds < most_rounds && at + 3 * step < end; ++rounds, at += 4 * step) {
      const auto a = next(at), b = next(at + step), c = next(at + 2 * step), d = next(at + 3 * step);
      piece = Reducer::combine(piece, Reducer::combine(Reducer::combine(a, b), Reducer::combine(c, d)));
    }
    if (rounds == 0)
      for (; at < end; at += step) piece = Reducer::combine(piece, next(at));
    total = Reducer::combine(total, piece);
  }
  return total;
}

// ---- rows and columns ----
//
// There are `kept` totals, each over `reduced` elements. Where they are few, each is divided into `slices`,
// whose totals go to `partial`, to be combined by another kernel.

// A group of `lanes` threads has a row; P elements of it are neighbours in memory.
template <class Reducer, class Stored, int P, class Index, class Evaluate>
DEVICE void reduce_rows(Stored* result, typename Reducer::Total* partial, Index kept, Index reduced,
                        u32 lanes, u32 slices, Evaluate evaluate) {
  const u32 rows = blockDim.x / lanes, place = threadIdx.x % lanes;
  const u64 packets = reduced / P, jobs = (u64)((kept + rows - 1) / rows) * slices;
  for (u64 job = blockIdx.x; job < jobs; job += gridDim.x) {
    const u64 row = job / slices * rows + threadIdx.x / lanes, slice = job % slices;
    const Index begin = packets * slice / slices, end = packets * (slice + 1) / slices;
    auto total = Reducer::identity();
    if (row < kept)
      total = span_total<Reducer, Index>(begin + place, end, lanes, [&](Index packet) {
        return fold<Reducer, P>(evaluate((Index)row, packet * P));
      });
    total = group_reduce<Reducer>(total, lanes);
    if (row < kept && place == 0) {
      if (slices == 1)
        result[row] = store<Stored>(Reducer::result(total));
      else
        partial[row * slices + slice] = total;
    }
  }
}

// A thread has P neighbouring columns, `across` threads have neighbouring packets of them, and the other
// threads of the block take other rows. The block has THREADS threads.
template <class Reducer, class Stored, int P, int THREADS, class Index, class Evaluate>
DEVICE void reduce_columns(Stored* result, typename Reducer::Total* partial, Index kept, Index reduced,
                           u32 across, u32 slices, Evaluate evaluate) {
  using Columns = ManyOf<Reducer, P>;
  __shared__ typename Reducer::Total shared[P][THREADS];
  const u32 along = THREADS / across, x = threadIdx.x % across, y = threadIdx.x / across;
  const u64 columns = kept / P, jobs = (columns + across - 1) / across * slices;
  for (u64 job = blockIdx.x; job < jobs; job += gridDim.x) {
    const u64 column = job / slices * across + x, slice = job % slices;
    const Index begin = (u64)reduced * slice / slices, end = (u64)reduced * (slice + 1) / slices;
    auto total = Columns::identity();
    if (column < columns)
      total = span_total<Columns, Index>(begin + y, end, along,
                                         [&](Index row) { return evaluate((Index)(column * P), row); });
    for (u32 half = along / 2; half > 0; half /= 2) {
      if (y >= half && y < 2 * half)
        for (int e = 0; e < P; ++e) shared[e][threadIdx.x] = total.element[e];
      barrier();
      if (y < half)
#pragma unroll
        for (int e = 0; e < P; ++e)
          total.element[e] = Reducer::combine(total.element[e], shared[e][threadIdx.x + half * across]);
    }
    barrier();  // the next round writes again
    if (column < columns && y == 0)
#pragma unroll
      for (int e = 0; e < P; ++e) {
        if (slices == 1)
          result[column * P + e] = store<Stored>(Reducer::result(total.element[e]));
        else
          partial[slice * kept + column * P + e] = total.element[e];
      }
  }
}

// The slices' totals: that of a slice is at partial[kept * kept_step + slice * slice_step].
template <class Reducer, class Stored>
DEVICE void combine_slices(Stored* result, const typename Reducer::Total* partial, u64 kept, u64 slices,
                           u64 kept_step, u64 slice_step, u32 lanes) {
  reduce_rows<Reducer, Stored, 1, u64>(result, nullptr, kept, slices, lanes, 1, [&](u64 row, u64 slice) {
    return Many<typename Reducer::Total, 1>{{partial[row * kept_step + slice * slice_step]}};
  });
}
