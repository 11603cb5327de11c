// The tile loops of every elementwise operation, generated from elementwise.inc.
#include "cpu/elementwise_kernels.h"
#include "cpu/isa/math.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

template <typename T>
constexpr int index_of = std::is_same_v<T, float>          ? 0
                         : std::is_same_v<T, double>       ? 1
                         : std::is_same_v<T, std::int32_t> ? 2
                                                           : 3;

template <typename R, typename T, typename F>
HEARTH_INLINE void loop1(void* out, const void* a, std::int64_t n, F f) {
  R* r = static_cast<R*>(out);
  const T* x = static_cast<const T*>(a);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) r[i] = static_cast<R>(f(x[i]));
}

template <typename R, typename T, typename F>
HEARTH_INLINE void loop2(void* out, const void* a, const void* b, std::int64_t n, F f) {
  R* r = static_cast<R*>(out);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) r[i] = static_cast<R>(f(x[i], y[i]));
}

// One struct per operation; `run<R, T>` is its tile loop for operands of type T and results of type R.
#define HEARTH_UNARY(name, rule, value, gradient, doc)                                                \
  struct name##_loop {                                                                                \
    template <typename R, typename T>                                                                 \
    static void run(void* out, const void* a, const void*, const void*, std::int64_t n) {             \
      loop1<R, T>(out, a, n, [](T x) __attribute__((always_inline)) { return value; });               \
    }                                                                                                 \
  };
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc)                                 \
  struct name##_loop {                                                                                \
    template <typename R, typename T>                                                                 \
    static void run(void* out, const void* p, const void* q, const void*, std::int64_t n) {           \
      loop2<R, T>(out, p, q, n, [](T a, T b) __attribute__((always_inline)) { return value; });       \
    }                                                                                                 \
  };
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY

// Which compute types a dtype rule needs; the names are those of elementwise.inc.
struct numeric {
  template <typename L>
  static constexpr void fill(TileFunction (&row)[compute_count]) {
    row[0] = L::template run<float, float>;
    row[1] = L::template run<double, double>;
    row[2] = L::template run<std::int32_t, std::int32_t>;
    row[3] = L::template run<std::int64_t, std::int64_t>;
  }
};
struct floating {
  template <typename L>
  static constexpr void fill(TileFunction (&row)[compute_count]) {
    row[0] = L::template run<float, float>;
    row[1] = L::template run<double, double>;
  }
};
using rounding = floating;
struct integral {
  template <typename L>
  static constexpr void fill(TileFunction (&row)[compute_count]) {
    row[2] = L::template run<std::int32_t, std::int32_t>;
    row[3] = L::template run<std::int64_t, std::int64_t>;
  }
};
struct compare {
  template <typename L>
  static constexpr void fill(TileFunction (&row)[compute_count]) {
    row[0] = L::template run<std::int32_t, float>;
    row[1] = L::template run<std::int32_t, double>;
    row[2] = L::template run<std::int32_t, std::int32_t>;
    row[3] = L::template run<std::int32_t, std::int64_t>;
  }
};
struct logical {
  template <typename L>
  static constexpr void fill(TileFunction (&row)[compute_count]) {
    row[2] = L::template run<std::int32_t, std::int32_t>;
  }
};

template <typename T>
void where_tile(void* out, const void* a, const void* b, const void* c, std::int64_t n) {
  T* r = static_cast<T*>(out);
  const std::int32_t* condition = static_cast<const std::int32_t*>(a);
  const T* x = static_cast<const T*>(b);
  const T* y = static_cast<const T*>(c);
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    const T yes = x[i], no = y[i];  // read both, so that this is a select
    r[i] = condition[i] ? yes : no;
  }
}

// Floating to integer saturates; NaN becomes 0.
template <typename R, typename T>
HEARTH_INLINE R converted(T x) {
  if constexpr (std::is_floating_point_v<T> && std::is_integral_v<R>) {
    constexpr T low = static_cast<T>(std::numeric_limits<R>::min());
    constexpr T high = -low;  // 2^31 or 2^63: the first value above the range
    const T safe = x >= low && x < high ? x : T(0);
    const R inside = static_cast<R>(safe);
    return x >= high ? std::numeric_limits<R>::max() : x < low ? std::numeric_limits<R>::min() : inside;
  } else {
    return static_cast<R>(x);
  }
}

template <typename R, typename T>
void convert_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  loop1<R, T>(out, a, n, [](T x) __attribute__((always_inline)) { return converted<R>(x); });
}

template <typename T>
constexpr void fill_converts(TileFunction (&row)[compute_count]) {
  row[0] = convert_tile<float, T>;
  row[1] = convert_tile<double, T>;
  row[2] = convert_tile<std::int32_t, T>;
  row[3] = convert_tile<std::int64_t, T>;
}

// As if stored as S and loaded again.
template <typename S>
void narrow_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  using T = std::conditional_t<std::is_same_v<S, float16> || std::is_same_v<S, bfloat16>, float, std::int32_t>;
  loop1<T, T>(out, a, n, [](T x) __attribute__((always_inline)) { return static_cast<T>(static_cast<S>(x)); });
}

template <typename S>
void saturate_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  loop1<std::int32_t, std::int32_t>(out, a, n, [](std::int32_t x) __attribute__((always_inline)) {
    constexpr std::int32_t low = std::numeric_limits<S>::min(), high = std::numeric_limits<S>::max();
    return x < low ? low : x > high ? high : x;
  });
}

void convert_to_odd_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  loop1<float, double>(out, a, n, [](double x) __attribute__((always_inline)) {
    const float nearest = static_cast<float>(x);
    const std::uint32_t u = math::bits<std::uint32_t>(nearest);
    const double back = nearest;
    const bool inexact = back != x && x == x && math::abs(nearest) <= std::numeric_limits<float>::max();
    const std::uint32_t toward = math::abs(back) < math::abs(x) ? u + 1 : u - 1;
    return math::bits<float>(inexact && (u & 1) == 0 ? toward : u);
  });
}

template <typename S, typename T>
void load_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  loop1<T, S>(out, a, n, [](S x) __attribute__((always_inline)) { return static_cast<T>(x); });
}

template <typename S, typename T>
void store_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  loop1<S, T>(out, a, n, [](T x) __attribute__((always_inline)) { return static_cast<S>(x); });
}

constexpr int at(DType dtype) { return static_cast<int>(dtype); }

constexpr ElementwiseKernels make_table() {
  ElementwiseKernels table{};
#define HEARTH_UNARY(name, rule, value, gradient, doc) \
  rule::fill<name##_loop>(table.operations[static_cast<int>(Op::name)]);
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc) \
  rule::fill<name##_loop>(table.operations[static_cast<int>(Op::name)]);
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY
  table.where[0] = where_tile<float>;
  table.where[1] = where_tile<double>;
  table.where[2] = where_tile<std::int32_t>;
  table.where[3] = where_tile<std::int64_t>;
  fill_converts<float>(table.convert[0]);
  fill_converts<double>(table.convert[1]);
  fill_converts<std::int32_t>(table.convert[2]);
  fill_converts<std::int64_t>(table.convert[3]);
  table.convert_to_odd = convert_to_odd_tile;
  table.saturate[at(DType::u8)] = saturate_tile<std::uint8_t>;
  table.saturate[at(DType::i8)] = saturate_tile<std::int8_t>;
  table.saturate[at(DType::i16)] = saturate_tile<std::int16_t>;
  table.narrow[at(DType::u8)] = narrow_tile<std::uint8_t>;
  table.narrow[at(DType::i8)] = narrow_tile<std::int8_t>;
  table.narrow[at(DType::i16)] = narrow_tile<std::int16_t>;
  table.narrow[at(DType::f16)] = narrow_tile<float16>;
  table.narrow[at(DType::bf16)] = narrow_tile<bfloat16>;
  table.load[at(DType::bool_)] = load_tile<std::uint8_t, std::int32_t>;
  table.load[at(DType::u8)] = load_tile<std::uint8_t, std::int32_t>;
  table.load[at(DType::i8)] = load_tile<std::int8_t, std::int32_t>;
  table.load[at(DType::i16)] = load_tile<std::int16_t, std::int32_t>;
  table.load[at(DType::f16)] = load_tile<float16, float>;
  table.load[at(DType::bf16)] = load_tile<bfloat16, float>;
  table.store[at(DType::bool_)] = store_tile<std::uint8_t, std::int32_t>;
  table.store[at(DType::u8)] = store_tile<std::uint8_t, std::int32_t>;
  table.store[at(DType::i8)] = store_tile<std::int8_t, std::int32_t>;
  table.store[at(DType::i16)] = store_tile<std::int16_t, std::int32_t>;
  table.store[at(DType::f16)] = store_tile<float16, float>;
  table.store[at(DType::bf16)] = store_tile<bfloat16, float>;
  return table;
}

}  // namespace

extern const ElementwiseKernels elementwise_kernels_table;
constexpr ElementwiseKernels computed_table = make_table();
const ElementwiseKernels elementwise_kernels_table = computed_table;

}  // namespace hearth::cpu::HEARTH_ISA
