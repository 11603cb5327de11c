// Float instructions honour the MODE register: the direction of rounding and whether subnormal numbers count
// as zero. HIP's default (nearest, all kept) is the fast way; anything else runs the same lambda in a slower
// one.
#pragma once

#include <cfenv>
#include <cmath>
#include <limits>

#include "exec/semantics/build.h"

namespace hipemu::semantics {

constexpr uint32_t usual_mode = 0xf0;

enum class Rounding : uint8_t { nearest, up, down, toward_zero };  // as in MODE

// A float that rounding to f16 once turns into the result: either exact, or rounded to odd.
struct HalfOf {
  float value;
};

// To f16 in any direction. `value` is exact or rounded to odd.
inline uint16_t round_to_half(float value, Rounding rounding) {
  const uint16_t nearest = float_to_half(value);
  if (rounding == Rounding::nearest || value != value || std::isinf(value)) return nearest;
  const float back = half_to_float(nearest);
  const bool negative = std::signbit(value);
  const float distance = std::abs(back) - std::abs(value);  // infinite after overflow
  const bool away = (rounding == Rounding::up && !negative) || (rounding == Rounding::down && negative);
  if (distance > 0 && !away) return static_cast<uint16_t>(nearest - 1);
  if (distance < 0 && away) return static_cast<uint16_t>(nearest + 1);
  return nearest;
}

template <>
struct ResultTraits<HalfOf> {
  using Value = Half16;
  static constexpr bool has_mask = false;
};

// What the lambda of the instruction being executed has to know; set for the time of one instruction.
struct FloatMode {
  bool flush_single = false, flush_others = false;
  Rounding half = Rounding::nearest;
  static FloatMode& current() {
    static thread_local FloatMode mode;
    return mode;
  }
};

template <class T>
class ModeScope {
 public:
  explicit ModeScope(uint32_t mode) : before_(std::fegetround()) {
    FloatMode& current = FloatMode::current();
    current.flush_single = (mode & 0x30) != 0x30;
    current.flush_others = (mode & 0xc0) != 0xc0;
    current.half = static_cast<Rounding>(mode >> 2 & 3);
    constexpr int host[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, PackedF32>) std::fesetround(host[mode & 3]);
    if constexpr (std::is_same_v<T, double>) std::fesetround(host[mode >> 2 & 3]);
  }
  ~ModeScope() { std::fesetround(before_); }
  ModeScope(const ModeScope&) = delete;

 private:
  int before_;
};

inline uint16_t flush_half(uint16_t bits) { return (bits & 0x7c00u) == 0 ? bits & 0x8000u : bits; }

template <class T>
T flushed(T value) {
  const FloatMode& mode = FloatMode::current();
  if constexpr (std::is_same_v<T, float>) {
    return mode.flush_single && std::abs(value) < 0x1p-126f ? std::copysign(0.0f, value) : value;
  } else if constexpr (std::is_same_v<T, double>) {
    return mode.flush_others && std::abs(value) < 0x1p-1022 ? std::copysign(0.0, value) : value;
  } else if constexpr (std::is_same_v<T, Half16>) {
    return mode.flush_others ? Half16::from_bits(flush_half(value.bits)) : value;
  } else if constexpr (std::is_same_v<T, PackedF16>) {
    if (!mode.flush_others) return value;
    return {flush_half(static_cast<uint16_t>(value.bits)) |
            static_cast<uint32_t>(flush_half(static_cast<uint16_t>(value.bits >> 16))) << 16};
  } else if constexpr (std::is_same_v<T, PackedF32>) {
    return {flushed(value.low), flushed(value.high)};
  } else {
    return value;
  }
}
template <class T>
WithMask<T> flushed(WithMask<T> result) {
  return {flushed(result.value), result.bit};
}
inline Half16 flushed(HalfOf result) {
  return flushed(Half16::from_bits(round_to_half(result.value, FloatMode::current().half)));
}

// The lambda F as it is in the usual mode, and with the current FloatMode.
template <class F, class R, class Arguments>
struct UsualMode : F {};
template <class F, class... A>
struct UsualMode<F, HalfOf, std::tuple<A...>> {
  Half16 operator()(A... arguments) const { return Half16(F{}(arguments...).value); }
};
template <class F, class R, class Arguments>
struct AnyMode;
template <class F, class R, class... A>
struct AnyMode<F, R, std::tuple<A...>> {
  auto operator()(A... arguments) const { return flushed(F{}(flushed(arguments)...)); }
};

template <template <class, class, class> class Mode, class F>
using InMode = Mode<F, typename FunctionTraits<F>::Result, typename FunctionTraits<F>::Arguments>;

template <int W, class F>
[[gnu::noinline]] void run_in_mode(Wave& wave, const Operation& op) {
  using Value = typename ResultTraits<typename FunctionTraits<F>::Result>::Value;
  const ModeScope<Value> scope(wave.mode);
  run_vector<W, InMode<AnyMode, F>>(wave, op);
}
template <int W, class F>
void run_float(Wave& wave, const Operation& op) {
  if ((wave.mode & 0xff) == usual_mode) [[likely]]
    run_vector<W, InMode<UsualMode, F>>(wave, op);
  else
    run_in_mode<W, F>(wave, op);
}

// Like vector_alu and accumulating, for instructions that MODE applies to. A result of f16 is given as
// HalfOf.
template <class F>
Semantics float_alu(std::string_view name, F) {
  Semantics row = vector_alu(name, InMode<UsualMode, F>{});
  row.wave32 = run_float<32, F>;
  row.wave64 = run_float<64, F>;
  return row;
}
template <class F>
Semantics float_accumulating(std::string_view name, F function) {
  Semantics row = float_alu(name, function);
  row.sources[FunctionTraits<F>::count - 1] = ValueType::none;
  row.accumulates = true;
  return row;
}

// Adds the same row under each of several names.
inline void add_named(Rows& rows, std::initializer_list<std::string_view> names, Semantics row) {
  for (const std::string_view name : names) {
    row.name = name;
    rows.push_back(row);
  }
}

}  // namespace hipemu::semantics
