// Float instructions on scalar registers (gfx11.5 and gfx12). MODE applies to them as to those on lanes.
#include <limits>
#include <memory>
#include <string>

#include "exec/semantics/float_functions.h"
#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

// The lambda F as it is in the usual mode, and with the current FloatMode.
Half16 rounded(HalfOf result) { return Half16(result.value); }
template <class T>
T rounded(T result) {
  return result;
}
template <class F, class Arguments>
struct Usual;
template <class F, class... A>
struct Usual<F, std::tuple<Wave&, A...>> {
  auto operator()(Wave& wave, A... arguments) const {
    if constexpr (std::is_void_v<typename FunctionTraits<F>::Result>)
      F{}(wave, arguments...);
    else
      return rounded(F{}(wave, arguments...));
  }
};
template <class F, class Arguments>
struct Any;
template <class F, class... A>
struct Any<F, std::tuple<Wave&, A...>> {
  auto operator()(Wave& wave, A... arguments) const {
    if constexpr (std::is_void_v<typename FunctionTraits<F>::Result>)
      F{}(wave, flushed(arguments)...);
    else
      return flushed(F{}(wave, flushed(arguments)...));
  }
};

// The registers are read and written while the host rounds as MODE says.
template <class F>
void run_scalar_float(Wave& wave, const Operation& op) {
  using Traits = FunctionTraits<F>;
  using Result = typename Traits::Result;
  if ((wave.mode & 0xff) == usual_mode) [[likely]] {
    run_scalar<Usual<F, typename Traits::Arguments>>(wave, op);
  } else {
    const ModeScope<Result> scope(wave.mode);
    run_scalar<Any<F, typename Traits::Arguments>>(wave, op);
  }
}
template <class F>
Semantics scalar_float(std::string_view name, F) {
  Semantics row = scalar_alu(name, Usual<F, typename FunctionTraits<F>::Arguments>{});
  row.wave32 = row.wave64 = run_scalar_float<F>;
  return row;
}

float f(Half16 value) { return static_cast<float>(value); }

template <class T>
T to_integer(float value) {
  constexpr double least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  const double number = value == value ? value : 0.0f;
  return static_cast<T>(number < least ? least : (number > most ? most : number));
}

// s_fmac: the destination is the third source.
void read_destination_too(const Instruction&, const Chip&, Operation& op) {
  op.source[2].from = From::scalar;
  op.source[2].index = op.destination[0].index;
  op.source_count = 3;
}
Semantics accumulating_scalar(Semantics row) {
  row.sources[2] = ValueType::none;
  row.refine = read_destination_too;
  return row;
}

void add_single(Rows& rows) {
  rows.push_back(scalar_float("s_add_f32", [](Wave&, float a, float b) { return a + b; }));
  rows.push_back(scalar_float("s_sub_f32", [](Wave&, float a, float b) { return a - b; }));
  rows.push_back(scalar_float("s_mul_f32", [](Wave&, float a, float b) { return a * b; }));
  const auto fma = [](Wave&, float a, float b, float c) { return std::fma(a, b, c); };
  rows.push_back(scalar_float("s_fmaak_f32", fma));
  rows.push_back(scalar_float("s_fmamk_f32", fma));
  rows.push_back(accumulating_scalar(scalar_float("s_fmac_f32", fma)));
  rows.push_back(scalar_float("s_min_f32", [](Wave&, float a, float b) { return min_ieee(a, b); }));
  rows.push_back(scalar_float("s_max_f32", [](Wave&, float a, float b) { return max_ieee(a, b); }));
  rows.push_back(scalar_float("s_min_num_f32", [](Wave&, float a, float b) { return min_num(a, b); }));
  rows.push_back(scalar_float("s_max_num_f32", [](Wave&, float a, float b) { return max_num(a, b); }));
  rows.push_back(scalar_float("s_minimum_f32", [](Wave&, float a, float b) { return minimum(a, b); }));
  rows.push_back(scalar_float("s_maximum_f32", [](Wave&, float a, float b) { return maximum(a, b); }));
  rows.push_back(scalar_float("s_ceil_f32", [](Wave&, float a) { return std::ceil(a); }));
  rows.push_back(scalar_float("s_floor_f32", [](Wave&, float a) { return std::floor(a); }));
  rows.push_back(scalar_float("s_trunc_f32", [](Wave&, float a) { return std::trunc(a); }));
  rows.push_back(scalar_float("s_rndne_f32", [](Wave&, float a) { return nearest_even(a); }));
}

void add_half(Rows& rows) {
  rows.push_back(
      scalar_float("s_add_f16", [](Wave&, Half16 a, Half16 b) { return HalfOf{add_to_odd(f(a), f(b))}; }));
  rows.push_back(
      scalar_float("s_sub_f16", [](Wave&, Half16 a, Half16 b) { return HalfOf{add_to_odd(f(a), -f(b))}; }));
  rows.push_back(scalar_float("s_mul_f16", [](Wave&, Half16 a, Half16 b) { return HalfOf{f(a) * f(b)}; }));
  rows.push_back(accumulating_scalar(scalar_float("s_fmac_f16", [](Wave&, Half16 a, Half16 b, Half16 c) {
    return HalfOf{add_to_odd(f(a) * f(b), f(c))};
  })));
  rows.push_back(
      scalar_float("s_min_f16", [](Wave&, Half16 a, Half16 b) { return HalfOf{min_ieee(f(a), f(b))}; }));
  rows.push_back(
      scalar_float("s_max_f16", [](Wave&, Half16 a, Half16 b) { return HalfOf{max_ieee(f(a), f(b))}; }));
  rows.push_back(
      scalar_float("s_min_num_f16", [](Wave&, Half16 a, Half16 b) { return HalfOf{min_num(f(a), f(b))}; }));
  rows.push_back(
      scalar_float("s_max_num_f16", [](Wave&, Half16 a, Half16 b) { return HalfOf{max_num(f(a), f(b))}; }));
  rows.push_back(
      scalar_float("s_minimum_f16", [](Wave&, Half16 a, Half16 b) { return HalfOf{minimum(f(a), f(b))}; }));
  rows.push_back(
      scalar_float("s_maximum_f16", [](Wave&, Half16 a, Half16 b) { return HalfOf{maximum(f(a), f(b))}; }));
  rows.push_back(scalar_float("s_ceil_f16", [](Wave&, Half16 a) { return HalfOf{std::ceil(f(a))}; }));
  rows.push_back(scalar_float("s_floor_f16", [](Wave&, Half16 a) { return HalfOf{std::floor(f(a))}; }));
  rows.push_back(scalar_float("s_trunc_f16", [](Wave&, Half16 a) { return HalfOf{std::trunc(f(a))}; }));
  rows.push_back(scalar_float("s_rndne_f16", [](Wave&, Half16 a) { return HalfOf{nearest_even(f(a))}; }));
}

void add_conversions(Rows& rows) {
  rows.push_back(scalar_float("s_cvt_f32_i32", [](Wave&, int32_t a) { return static_cast<float>(a); }));
  rows.push_back(scalar_float("s_cvt_f32_u32", [](Wave&, uint32_t a) { return static_cast<float>(a); }));
  rows.push_back(scalar_float("s_cvt_i32_f32", [](Wave&, float a) { return to_integer<int32_t>(a); }));
  rows.push_back(scalar_float("s_cvt_u32_f32", [](Wave&, float a) { return to_integer<uint32_t>(a); }));
  rows.push_back(scalar_float("s_cvt_f16_f32", [](Wave&, float a) { return HalfOf{a}; }));
  rows.push_back(scalar_float("s_cvt_f32_f16", [](Wave&, Half16 a) { return quieted(f(a)); }));
  rows.push_back(scalar_float("s_cvt_hi_f32_f16", [](Wave&, uint32_t a) {
    return quieted(half_to_float(static_cast<uint16_t>(a >> 16)));
  }));
  rows.push_back(scalar_float("s_cvt_pk_rtz_f16_f32", [](Wave&, float a, float b) {
    return round_to_half(a, Rounding::toward_zero) |
           static_cast<uint32_t>(round_to_half(b, Rounding::toward_zero)) << 16;
  }));
}

// Comparisons set SCC and have no destination.
template <class F>
void add_compare(Rows& rows, std::string_view single_name, std::string_view half_name, F) {
  rows.push_back(scalar_float(single_name, [](Wave& wave, float a, float b) { wave.scc = F{}(a, b); }));
  rows.push_back(scalar_float(half_name, [](Wave& wave, Half16 a, Half16 b) { wave.scc = F{}(f(a), f(b)); }));
}
void add_compares(Rows& rows) {
  add_compare(rows, "s_cmp_lt_f32", "s_cmp_lt_f16", [](float a, float b) { return a < b; });
  add_compare(rows, "s_cmp_eq_f32", "s_cmp_eq_f16", [](float a, float b) { return a == b; });
  add_compare(rows, "s_cmp_le_f32", "s_cmp_le_f16", [](float a, float b) { return a <= b; });
  add_compare(rows, "s_cmp_gt_f32", "s_cmp_gt_f16", [](float a, float b) { return a > b; });
  add_compare(rows, "s_cmp_lg_f32", "s_cmp_lg_f16", [](float a, float b) { return a < b || a > b; });
  add_compare(rows, "s_cmp_ge_f32", "s_cmp_ge_f16", [](float a, float b) { return a >= b; });
  add_compare(rows, "s_cmp_o_f32", "s_cmp_o_f16", [](float a, float b) { return a == a && b == b; });
  add_compare(rows, "s_cmp_u_f32", "s_cmp_u_f16", [](float a, float b) { return a != a || b != b; });
  add_compare(rows, "s_cmp_nge_f32", "s_cmp_nge_f16", [](float a, float b) { return !(a >= b); });
  add_compare(rows, "s_cmp_nlg_f32", "s_cmp_nlg_f16", [](float a, float b) { return !(a < b || a > b); });
  add_compare(rows, "s_cmp_ngt_f32", "s_cmp_ngt_f16", [](float a, float b) { return !(a > b); });
  add_compare(rows, "s_cmp_nle_f32", "s_cmp_nle_f16", [](float a, float b) { return !(a <= b); });
  add_compare(rows, "s_cmp_neq_f32", "s_cmp_neq_f16", [](float a, float b) { return !(a == b); });
  add_compare(rows, "s_cmp_nlt_f32", "s_cmp_nlt_f16", [](float a, float b) { return !(a < b); });
}

}  // namespace

void add_scalar_float(Rows& rows) {
  add_single(rows);
  add_half(rows);
  add_conversions(rows);
  add_compares(rows);
}

}  // namespace hipemu::semantics
