// Reduction loops, vectorised by hand: the compiler may not reorder floating-point sums, we may.
#include "cpu/isa/rows.h"
#include "cpu/reduction_kernels.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;

template <typename W>
HEARTH_INLINE W& in(Total& total) {
  if constexpr (std::is_floating_point_v<W>)
    return total.real;
  else
    return total.integer;
}

struct Sum {
  template <typename T>
  static constexpr T neutral() {
    return T(0);
  }
  template <typename V>
  HEARTH_INLINE static V combine(V a, V b) {
    return a + b;
  }
};
struct Product {
  template <typename T>
  static constexpr T neutral() {
    return T(1);
  }
  template <typename V>
  HEARTH_INLINE static V combine(V a, V b) {
    return a * b;
  }
};
struct Largest {
  template <typename T>
  static constexpr T neutral() {
    return std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();
  }
  // `a` is the running value: NaN stays, and NaN enters.
  template <typename V>
  HEARTH_INLINE static V combine(V a, V b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};
struct Smallest {
  template <typename T>
  static constexpr T neutral() {
    return std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  }
  template <typename V>
  HEARTH_INLINE static V combine(V a, V b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};
struct All {
  template <typename T>
  static constexpr T neutral() {
    return T(1);
  }
  template <typename V>
  HEARTH_INLINE static V combine(V a, V b) {
    return a & b;
  }
};
struct Any {
  template <typename T>
  static constexpr T neutral() {
    return T(0);
  }
  template <typename V>
  HEARTH_INLINE static V combine(V a, V b) {
    return a | b;
  }
};

template <typename R, typename T>
HEARTH_INLINE Pack<T> combine_packs(Pack<T> a, Pack<T> b) {
#if defined(__aarch64__)
  if constexpr (std::is_same_v<T, float> && std::is_same_v<R, Largest>) return math::maximum(a, b);
  if constexpr (std::is_same_v<T, float> && std::is_same_v<R, Smallest>) return math::minimum(a, b);
#endif
  return each_register<Pack<T>>(
      [&](std::size_t i) HEARTH_LAMBDA { return R::template combine<Vector<T>>(a.part[i], b.part[i]); });
}

// Sums are kept short on every level (8 terms, then up to 8 such sums for the tiles that callers hand over),
// so that rounding errors do not pile up.
template <typename R, typename T>
void reduce_row(const void* data, std::int64_t n, Total* total) {
  using P = Pack<T>;
  constexpr std::int64_t lanes = pack_lanes<T>, terms = 8;
  const T* x = static_cast<const T*>(data);
  P all(R::template neutral<T>());
  std::int64_t i = 0;
  for (; i + 2 * terms * lanes <= n; i += 2 * terms * lanes) {
    P first = load<P>(x + i), second = load<P>(x + i + lanes);
    for (std::int64_t k = 2; k < 2 * terms; k += 2) {
      first = combine_packs<R, T>(first, load<P>(x + i + k * lanes));
      second = combine_packs<R, T>(second, load<P>(x + i + (k + 1) * lanes));
    }
    all = combine_packs<R, T>(all, combine_packs<R, T>(first, second));
  }
  if (i < n) {
    P rest(R::template neutral<T>());
    for (; i + lanes <= n; i += lanes) rest = combine_packs<R, T>(rest, load<P>(x + i));
    if (i < n) {
      T padded[lanes];
      for (std::int64_t k = 0; k < lanes; ++k) padded[k] = i + k < n ? x[i + k] : R::template neutral<T>();
      rest = combine_packs<R, T>(rest, load<P>(padded));
    }
    all = combine_packs<R, T>(all, rest);
  }
  Wide<T>& sum = in<Wide<T>>(*total);
  sum = R::template combine<Wide<T>>(sum, static_cast<Wide<T>>(combine_lanes<T>(all, R{})));
}

// Products of integers need all 64 bits from the start; so do long sums of i32.
template <typename R, typename T>
void reduce_row_wide(const void* data, std::int64_t n, Total* total) {
  const T* x = static_cast<const T*>(data);
  Wide<T> rest = in<Wide<T>>(*total);
  for (std::int64_t i = 0; i < n; ++i) rest = R::template combine<Wide<T>>(rest, static_cast<Wide<T>>(x[i]));
  in<Wide<T>>(*total) = rest;
}

// Four rows at a time, so that partial results are loaded and stored once for four loads of elements. The
// four lie a quarter of the rows apart: each is the beginning of a long run that the machine's prefetchers
// can follow, where four neighbours would all break off at their ends.
template <typename R, typename T, typename P>
void reduce_columns(const void* data, std::int64_t rows, std::int64_t width, std::int64_t stride,
                    void* partial) {
  const T* x = static_cast<const T*>(data);
  P* p = static_cast<P*>(partial);
  if constexpr (std::is_same_v<T, P>) {
    using V = Pack<T>;
    const std::int64_t quarter = rows / 4, apart = quarter * stride;
    for (std::int64_t r = 0; r < quarter; ++r, x += stride) {
      std::int64_t j = 0;
      for (; j + pack_lanes<T> <= width; j += pack_lanes<T>) {
        const V low = combine_packs<R, T>(load<V>(x + j), load<V>(x + j + apart));
        const V high = combine_packs<R, T>(load<V>(x + j + 2 * apart), load<V>(x + j + 3 * apart));
        store(p + j, combine_packs<R, T>(load<V>(p + j), combine_packs<R, T>(low, high)));
      }
      for (; j < width; ++j) {
        const T low = R::template combine<T>(x[j], x[j + apart]);
        const T high = R::template combine<T>(x[j + 2 * apart], x[j + 3 * apart]);
        p[j] = R::template combine<T>(p[j], R::template combine<T>(low, high));
      }
    }
    x += 3 * apart;
    rows -= 4 * quarter;
  }
  for (std::int64_t r = 0; r < rows; ++r, x += stride) {
#pragma GCC ivdep
    for (std::int64_t j = 0; j < width; ++j) p[j] = R::template combine<P>(p[j], static_cast<P>(x[j]));
  }
}

template <typename R, typename T, typename P>
void flush_columns(void* partial, std::int64_t width, Total* totals) {
  P* p = static_cast<P*>(partial);
  for (std::int64_t j = 0; j < width; ++j) {
    Wide<T>& total = in<Wide<T>>(totals[j]);
    total = R::template combine<Wide<T>>(total, static_cast<Wide<T>>(p[j]));
    p[j] = R::template neutral<P>();
  }
}

template <typename R, typename P>
void fill_columns(void* partial, std::int64_t width) {
  P* p = static_cast<P*>(partial);
  for (std::int64_t j = 0; j < width; ++j) p[j] = R::template neutral<P>();
}

template <typename R, typename T>
constexpr void fill_one(ReductionKernels& table, int op, int type) {
  constexpr bool widen = std::is_integral_v<T> && (std::is_same_v<R, Sum> || std::is_same_v<R, Product>);
  using P = std::conditional_t<widen, std::int64_t, T>;
  table.rows[op][type] = widen || std::is_same_v<R, Product> ? reduce_row_wide<R, T> : reduce_row<R, T>;
  table.columns[op][type] = reduce_columns<R, T, P>;
  table.flush[op][type] = flush_columns<R, T, P>;
  table.fill[op][type] = fill_columns<R, P>;
}

template <typename R>
constexpr void fill_numeric(ReductionKernels& table, int op) {
  fill_one<R, float>(table, op, 0);
  fill_one<R, double>(table, op, 1);
  fill_one<R, std::int32_t>(table, op, 2);
  fill_one<R, std::int64_t>(table, op, 3);
}

constexpr ReductionKernels make_table() {
  ReductionKernels table{};
  fill_numeric<Sum>(table, 0);
  fill_numeric<Product>(table, 1);
  fill_numeric<Largest>(table, 2);
  fill_numeric<Smallest>(table, 3);
  fill_one<All, std::int32_t>(table, 4, 2);
  fill_one<Any, std::int32_t>(table, 5, 2);
  return table;
}

constexpr ReductionKernels computed_table = make_table();

}  // namespace

extern const ReductionKernels reduction_kernels_table;
const ReductionKernels reduction_kernels_table = computed_table;

}  // namespace hearth::cpu::HEARTH_ISA
