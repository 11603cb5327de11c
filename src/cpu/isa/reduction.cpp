// Reduction loops, vectorised by hand: the compiler may not reorder floating-point sums, we may.
#include "cpu/reduction_kernels.h"
#include "cpu/isa/math.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::int64_t>;

template <typename W>
HEARTH_INLINE W& in(Total& total) {
  if constexpr (std::is_floating_point_v<W>) return total.real;
  else return total.integer;
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
void reduce_row(const void* data, std::int64_t n, Total* total) {
  const T* x = static_cast<const T*>(data);
  constexpr int lanes = 64 / sizeof(T);
  typedef T Vector __attribute__((vector_size(64)));
  typedef T Unaligned __attribute__((vector_size(64), aligned(alignof(T)), may_alias));
  T rest = R::template neutral<T>();
  std::int64_t i = 0;
  if (n >= 2 * lanes) {
    Vector first = *reinterpret_cast<const Unaligned*>(x), second = *reinterpret_cast<const Unaligned*>(x + lanes);
    for (i = 2 * lanes; i + 2 * lanes <= n; i += 2 * lanes) {
      first = R::template combine<Vector>(first, *reinterpret_cast<const Unaligned*>(x + i));
      second = R::template combine<Vector>(second, *reinterpret_cast<const Unaligned*>(x + i + lanes));
    }
    first = R::template combine<Vector>(first, second);
    for (int half = lanes / 2; half > 0; half /= 2)
      for (int j = 0; j < half; ++j) first[j] = R::template combine<T>(first[j], first[j + half]);
    rest = first[0];
  }
  for (; i < n; ++i) rest = R::template combine<T>(rest, x[i]);
  Wide<T>& sum = in<Wide<T>>(*total);
  sum = R::template combine<Wide<T>>(sum, static_cast<Wide<T>>(rest));
}

// Products of integers need all 64 bits from the start; so do long sums of i32.
template <typename R, typename T>
void reduce_row_wide(const void* data, std::int64_t n, Total* total) {
  const T* x = static_cast<const T*>(data);
  Wide<T> rest = in<Wide<T>>(*total);
  for (std::int64_t i = 0; i < n; ++i) rest = R::template combine<Wide<T>>(rest, static_cast<Wide<T>>(x[i]));
  in<Wide<T>>(*total) = rest;
}

template <typename R, typename T, typename P>
void reduce_columns(const void* data, std::int64_t rows, std::int64_t width, void* partial) {
  const T* x = static_cast<const T*>(data);
  P* p = static_cast<P*>(partial);
  for (std::int64_t r = 0; r < rows; ++r, x += width) {
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
