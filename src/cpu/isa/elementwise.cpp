// The tile loops of every elementwise operation, generated from elementwise.inc.
#include "cpu/elementwise_kernels.h"
#include "cpu/isa/math.h"
#include "cpu/isa/rows.h"

namespace hearth::cpu::HEARTH_ISA {
namespace {

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

// ---- f32: blocks of a pack

constexpr std::int64_t block = pack_lanes<float>;

// How an operand is given: a run of elements, or one that serves for all.
enum class Given { run, one, none };

struct Nothing {};

template <Given given>
struct Operand {
  const float* elements;
  Pack<float> value;

  HEARTH_INLINE explicit Operand(const void* from) : elements(static_cast<const float*>(from)), value(0.0f) {
    if constexpr (given == Given::one) value = *elements;
  }
  HEARTH_INLINE auto at(std::int64_t i) const {
    if constexpr (given == Given::none)
      return Nothing{};
    else if constexpr (given == Given::one)
      return value;
    else
      return load<Pack<float>>(elements + i);
  }
};

HEARTH_INLINE void store_result(void* out, std::int64_t i, Pack<float> value) {
  store(static_cast<float*>(out) + i, value);
}
HEARTH_INLINE void store_result(void* out, std::int64_t i, Mask value) {
  store(static_cast<std::int32_t*>(out) + i, as_integers(value));
}

// Fewer elements than a block: by the same function, in a block of its own, so that they come out as they
// would in the middle of a run. Results have 4 bytes, too.
__attribute__((noinline)) void run_rest(TileFunction function, void* out, const void* a, const void* b,
                                        const void* c, Given given_a, Given given_b, Given given_c,
                                        std::int64_t n) {
  alignas(64) float copies[3][block] = {}, result[block];
  const void* operands[] = {a, b, c};
  const Given given[] = {given_a, given_b, given_c};
  for (int k = 0; k < 3; ++k) {
    if (given[k] != Given::run) continue;
    __builtin_memcpy(copies[k], operands[k], static_cast<std::size_t>(n) * sizeof(float));
    operands[k] = copies[k];
  }
  function(result, operands[0], operands[1], operands[2], block);
  __builtin_memcpy(out, result, static_cast<std::size_t>(n) * sizeof(float));
}

// out[i] = f(a[i], b[i], c[i]); `self` is the function that calls this.
template <Given given_a, Given given_b, Given given_c, typename F>
HEARTH_INLINE void run_blocks(TileFunction self, void* out, const void* a, const void* b, const void* c,
                              std::int64_t n, const F& f) {
  const Operand<given_a> x(a);
  const Operand<given_b> y(b);
  const Operand<given_c> z(c);
  std::int64_t i = 0;
  for (; i + block <= n; i += block) store_result(out, i, f(x.at(i), y.at(i), z.at(i)));
  if (i == n) return;
  const auto rest = [i](const void* from, Given given) {
    return given == Given::run ? static_cast<const void*>(static_cast<const float*>(from) + i) : from;
  };
  run_rest(self, static_cast<float*>(out) + i, rest(a, given_a), rest(b, given_b), rest(c, given_c), given_a,
           given_b, given_c, n - i);
}

// One struct per operation; `run<R, T>` is its tile loop for operands of type T and results of type R. A
// float operand may be a single number.
#define HEARTH_UNARY(name, rule, value, gradient, doc)                                            \
  struct name##_loop {                                                                            \
    static constexpr int operands = 1;                                                            \
    template <typename T>                                                                         \
    HEARTH_INLINE static auto apply(T x) {                                                        \
      return value;                                                                               \
    }                                                                                             \
    template <typename R, typename T, Given = Given::run, Given = Given::run>                     \
    static void run(void* out, const void* a, const void*, const void*, std::int64_t n) {         \
      if constexpr (std::is_same_v<T, float>)                                                     \
        run_blocks<Given::run, Given::none, Given::none>(run<R, T>, out, a, nullptr, nullptr, n,  \
                                                         [](auto x, auto, auto)                   \
                                                             HEARTH_LAMBDA { return apply(x); }); \
      else                                                                                        \
        loop1<R, T>(out, a, n, [](T x) HEARTH_LAMBDA { return apply(x); });                       \
    }                                                                                             \
  };
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc)                       \
  struct name##_loop {                                                                      \
    static constexpr int operands = 2;                                                      \
    template <typename T>                                                                   \
    HEARTH_INLINE static auto apply(T a, T b) {                                             \
      return value;                                                                         \
    }                                                                                       \
    template <typename R, typename T, Given left = Given::run, Given right = Given::run>    \
    static void run(void* out, const void* p, const void* q, const void*, std::int64_t n) { \
      if constexpr (std::is_same_v<T, float>)                                               \
        run_blocks<left, right, Given::none>(run<R, T, left, right>, out, p, q, nullptr, n, \
                                             [](auto a, auto b, auto)                       \
                                                 HEARTH_LAMBDA { return apply(a, b); });    \
      else                                                                                  \
        loop2<R, T>(out, p, q, n, [](T a, T b) HEARTH_LAMBDA { return apply(a, b); });      \
    }                                                                                       \
  };
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY

// ---- chains of cheap operations

template <typename Operation, bool result_right, bool number, std::size_t packs>
HEARTH_INLINE void apply_link(Pack<float> (&result)[packs], const float* operand, std::int64_t i) {
  const Pack<float> one = number ? Pack<float>(*operand) : Pack<float>(0.0f);
  for (std::size_t k = 0; k < packs; ++k) {
    const Pack<float> other =
        number ? one : load<Pack<float>>(operand + i + static_cast<std::int64_t>(k) * block);
    result[k] = result_right ? Operation::apply(other, result[k]) : Operation::apply(result[k], other);
  }
}
template <typename Operation, std::size_t packs>
HEARTH_INLINE void apply_link(Pack<float> (&result)[packs]) {
  for (std::size_t k = 0; k < packs; ++k) result[k] = Operation::apply(result[k]);
}

#define HEARTH_EVERY_LINK(unary, binary)                                                              \
  unary(neg) unary(abs) unary(square) unary(relu) binary(add) binary(sub) binary(mul) binary(maximum) \
      binary(minimum)

// Applies the links to n elements, a multiple of what the packs hold. Every operation jumps straight to the
// next one (labels as values, an extension that GCC and Clang share): a loop around a switch would jump three
// times for each.
template <std::size_t packs>
void run_chain(float* out, const float* start, const ChainLink* links, std::size_t count, std::int64_t n) {
  struct Jump {
    const void* target;
    const float* operand;
  };
  Jump jumps[longest_chain + 1];
  for (std::size_t k = 0; k < count; ++k) {
    jumps[k].operand = links[k].operand;
    switch (links[k].code) {
#define HEARTH_TARGET(name, label, right, number)        \
  case chain_code(cheap_index(Op::name), right, number): \
    jumps[k].target = &&label;                           \
    break;
#define HEARTH_UNARY_TARGET(name) HEARTH_TARGET(name, name, false, false)
#define HEARTH_BINARY_TARGETS(name)                  \
  HEARTH_TARGET(name, name##_run, false, false)      \
  HEARTH_TARGET(name, name##_number, false, true)    \
  HEARTH_TARGET(name, name##_after_run, true, false) \
  HEARTH_TARGET(name, name##_after_number, true, true)
      HEARTH_EVERY_LINK(HEARTH_UNARY_TARGET, HEARTH_BINARY_TARGETS)
#undef HEARTH_TARGET
#undef HEARTH_UNARY_TARGET
#undef HEARTH_BINARY_TARGETS
      default:
        __builtin_unreachable();
    }
  }
  jumps[count].target = &&last;

  constexpr std::int64_t lanes = static_cast<std::int64_t>(packs) * block;
  Pack<float> result[packs];
  std::int64_t i = 0;
  const Jump* jump;
first:
  for (std::size_t k = 0; k < packs; ++k)
    result[k] = load<Pack<float>>(start + i + static_cast<std::int64_t>(k) * block);
  jump = jumps;
  goto * jump->target;

#define HEARTH_UNARY_LINK(name)    \
  name:                            \
  apply_link<name##_loop>(result); \
  ++jump;                          \
  goto * jump->target;
#define HEARTH_LINK(name, label, right, number)                     \
  label:                                                            \
  apply_link<name##_loop, right, number>(result, jump->operand, i); \
  ++jump;                                                           \
  goto * jump->target;
#define HEARTH_BINARY_LINKS(name)                  \
  HEARTH_LINK(name, name##_run, false, false)      \
  HEARTH_LINK(name, name##_number, false, true)    \
  HEARTH_LINK(name, name##_after_run, true, false) \
  HEARTH_LINK(name, name##_after_number, true, true)
  HEARTH_EVERY_LINK(HEARTH_UNARY_LINK, HEARTH_BINARY_LINKS)
#undef HEARTH_UNARY_LINK
#undef HEARTH_LINK
#undef HEARTH_BINARY_LINKS

last:
  for (std::size_t k = 0; k < packs; ++k) store(out + i + static_cast<std::int64_t>(k) * block, result[k]);
  i += lanes;
  if (i < n) goto first;
}
#undef HEARTH_EVERY_LINK

void chain(float* out, const float* start, const ChainLink* links, std::size_t count, std::int64_t n) {
  constexpr std::size_t packs = 4;
  constexpr std::int64_t several = static_cast<std::int64_t>(packs) * block;
  const std::int64_t whole = n / several * several;
  if (whole > 0) run_chain<packs>(out, start, links, count, whole);
  // The rest block by block, the last one in memory of its own.
  alignas(64) float copies[longest_chain + 1][block], result[block];
  ChainLink rest[longest_chain];
  for (std::int64_t i = whole; i < n; i += block) {
    const auto bytes = static_cast<std::size_t>(n - i < block ? n - i : block) * sizeof(float);
    const auto moved = [&](const float* from, std::size_t k) {
      if (n - i >= block) return from + i;
      __builtin_memset(copies[k], 0, sizeof copies[k]);
      __builtin_memcpy(copies[k], from + i, bytes);
      return static_cast<const float*>(copies[k]);
    };
    for (std::size_t k = 0; k < count; ++k) {
      const bool binary = links[k].code >= 4 * cheap_unary_count, number = links[k].code % 2 == 1;
      rest[k] = {links[k].code, binary && !number ? moved(links[k].operand, k + 1) : links[k].operand};
    }
    run_chain<1>(result, moved(start, 0), rest, count, block);
    __builtin_memcpy(out + i, result, bytes);
  }
}

// ---- tables

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

template <typename Rule, typename L>
constexpr void fill_numbers(ElementwiseKernels& table, int op) {
  using R = std::conditional_t<std::is_same_v<Rule, compare>, std::int32_t, float>;
  if constexpr (std::is_same_v<Rule, numeric> || std::is_same_v<Rule, floating> ||
                std::is_same_v<Rule, compare>) {
    table.left_number[op] = L::template run<R, float, Given::one, Given::run>;
    table.right_number[op] = L::template run<R, float, Given::run, Given::one>;
  }
}

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
  loop1<R, T>(out, a, n, [](T x) HEARTH_LAMBDA { return converted<R>(x); });
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
  using T = std::conditional_t<std::is_same_v<S, bfloat16>, float, std::int32_t>;
  loop1<T, T>(out, a, n, [](T x) HEARTH_LAMBDA { return static_cast<T>(static_cast<S>(x)); });
}

void narrow_half_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  constexpr std::int64_t most = 64;
  float16 halves[most];
  for (std::int64_t i = 0; i < n; i += most) {
    const std::int64_t count = n - i < most ? n - i : most;
    narrow(static_cast<const float*>(a) + i, halves, count);
    widen(halves, static_cast<float*>(out) + i, count);
  }
}

template <typename S>
void saturate_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  loop1<std::int32_t, std::int32_t>(out, a, n, [](std::int32_t x) HEARTH_LAMBDA {
    constexpr std::int32_t low = std::numeric_limits<S>::min(), high = std::numeric_limits<S>::max();
    return x < low ? low : x > high ? high : x;
  });
}

void convert_to_odd_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  loop1<float, double>(out, a, n, [](double x) HEARTH_LAMBDA {
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
  loop1<T, S>(out, a, n, [](S x) HEARTH_LAMBDA { return static_cast<T>(x); });
}
void load_half_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  widen(static_cast<const float16*>(a), static_cast<float*>(out), n);
}

template <typename S, typename T>
void store_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  loop1<S, T>(out, a, n, [](T x) HEARTH_LAMBDA { return static_cast<S>(x); });
}

void store_half_tile(void* out, const void* a, const void*, const void*, std::int64_t n) {
  narrow(static_cast<const float*>(a), static_cast<float16*>(out), n);
}

constexpr int at(DType dtype) { return static_cast<int>(dtype); }

constexpr ElementwiseKernels make_table() {
  ElementwiseKernels table{};
#define HEARTH_UNARY(name, rule, value, gradient, doc) \
  rule::fill<name##_loop>(table.operations[static_cast<int>(Op::name)]);
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc)    \
  rule::fill<name##_loop>(table.operations[static_cast<int>(Op::name)]); \
  fill_numbers<rule, name##_loop>(table, static_cast<int>(Op::name));
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY
  table.chain = chain;
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
  table.narrow[at(DType::f16)] = narrow_half_tile;
  table.narrow[at(DType::bf16)] = narrow_tile<bfloat16>;
  table.load[at(DType::bool_)] = load_tile<std::uint8_t, std::int32_t>;
  table.load[at(DType::u8)] = load_tile<std::uint8_t, std::int32_t>;
  table.load[at(DType::i8)] = load_tile<std::int8_t, std::int32_t>;
  table.load[at(DType::i16)] = load_tile<std::int16_t, std::int32_t>;
  table.load[at(DType::f16)] = load_half_tile;
  table.load[at(DType::bf16)] = load_tile<bfloat16, float>;
  table.store[at(DType::bool_)] = store_tile<std::uint8_t, std::int32_t>;
  table.store[at(DType::u8)] = store_tile<std::uint8_t, std::int32_t>;
  table.store[at(DType::i8)] = store_tile<std::int8_t, std::int32_t>;
  table.store[at(DType::i16)] = store_tile<std::int16_t, std::int32_t>;
  table.store[at(DType::f16)] = store_half_tile;
  table.store[at(DType::bf16)] = store_tile<bfloat16, float>;
  return table;
}

}  // namespace

extern const ElementwiseKernels elementwise_kernels_table;
constexpr ElementwiseKernels computed_table = make_table();
const ElementwiseKernels elementwise_kernels_table = computed_table;

}  // namespace hearth::cpu::HEARTH_ISA
