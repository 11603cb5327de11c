// Float arithmetic on lanes: sums, products, least and greatest, rounding to integers. f16, f32 and f64.
#include "exec/semantics/float_functions.h"
#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

HalfOf half_sum(Half16 a, Half16 b) { return {add_to_odd(static_cast<float>(a), static_cast<float>(b))}; }
Half16 negated(Half16 value) { return Half16::from_bits(value.bits ^ 0x8000u); }
HalfOf half_product(Half16 a, Half16 b) { return {static_cast<float>(a) * static_cast<float>(b)}; }
HalfOf half_fma(Half16 a, Half16 b, Half16 c) {
  return {add_to_odd(static_cast<float>(a) * static_cast<float>(b), static_cast<float>(c))};
}
// Rounded after the product too.
HalfOf half_mad(Half16 a, Half16 b, Half16 c) {
  return half_sum(Half16(static_cast<float>(a) * static_cast<float>(b)), c);
}

void add_single(Rows& rows) {
  rows.push_back(float_alu("v_add_f32", [](float a, float b) { return a + b; }));
  rows.push_back(float_alu("v_sub_f32", [](float a, float b) { return a - b; }));
  rows.push_back(float_alu("v_subrev_f32", [](float a, float b) { return b - a; }));
  rows.push_back(float_alu("v_mul_f32", [](float a, float b) { return a * b; }));
  add_named(rows, {"v_mul_legacy_f32", "v_mul_dx9_zero_f32"},
            float_alu("", [](float a, float b) { return multiply_zero_wins(a, b); }));
  // fmaak and fmamk have their constant in the text where it belongs.
  add_named(rows, {"v_fma_f32", "v_fmaak_f32", "v_fmamk_f32"},
            float_alu("", [](float a, float b, float c) { return std::fma(a, b, c); }));
  // The factor in the middle of fmamk's text is the constant: a * K + c, as written.
  rows.push_back(
      float_accumulating("v_fmac_f32", [](float a, float b, float c) { return std::fma(a, b, c); }));
  add_named(rows, {"v_mad_f32", "v_madak_f32", "v_madmk_f32"},
            float_alu("", [](float a, float b, float c) { return a * b + c; }));
  rows.push_back(float_accumulating("v_mac_f32", [](float a, float b, float c) { return a * b + c; }));
  rows.push_back(
      float_alu("v_mad_legacy_f32", [](float a, float b, float c) { return multiply_zero_wins(a, b) + c; }));
  rows.push_back(float_accumulating("v_mac_legacy_f32",
                                    [](float a, float b, float c) { return multiply_zero_wins(a, b) + c; }));
  const auto fma_zero_wins = [](float a, float b, float c) {
    return a == 0 || b == 0 ? 0.0f + c : std::fma(a, b, c);
  };
  add_named(rows, {"v_fma_legacy_f32", "v_fma_dx9_zero_f32"}, float_alu("", fma_zero_wins));
  add_named(rows, {"v_fmac_legacy_f32", "v_fmac_dx9_zero_f32"}, float_accumulating("", fma_zero_wins));
  rows.push_back(float_alu("v_mullit_f32", [](float a, float b, float c) {
    constexpr float most = std::numeric_limits<float>::max();
    return b == -most || b == -INFINITY || is_nan(b) || !(c > 0) ? -most : multiply_zero_wins(a, b);
  }));
  rows.push_back(float_alu("v_floor_f32", [](float a) { return std::floor(a); }));
  rows.push_back(float_alu("v_ceil_f32", [](float a) { return std::ceil(a); }));
  rows.push_back(float_alu("v_trunc_f32", [](float a) { return std::trunc(a); }));
  rows.push_back(float_alu("v_rndne_f32", [](float a) { return nearest_even(a); }));
  rows.push_back(float_alu("v_fract_f32", [](float a) { return fraction(a, 0x1.fffffep-1f); }));
  rows.push_back(float_alu("v_ldexp_f32", [](float a, int32_t b) { return scale(a, b); }));
  rows.push_back(float_alu("v_frexp_mant_f32", [](float a) { return mantissa(a); }));
  rows.push_back(float_alu("v_frexp_exp_i32_f32", [](float a) { return static_cast<int32_t>(exponent(a)); }));
}

void add_double(Rows& rows) {
  add_named(rows, {"v_add_f64"}, float_alu("", [](double a, double b) { return a + b; }));
  rows.push_back(float_alu("v_mul_f64", [](double a, double b) { return a * b; }));
  rows.push_back(float_alu("v_fma_f64", [](double a, double b, double c) { return std::fma(a, b, c); }));
  rows.push_back(
      float_accumulating("v_fmac_f64", [](double a, double b, double c) { return std::fma(a, b, c); }));
  rows.push_back(float_alu("v_floor_f64", [](double a) { return std::floor(a); }));
  rows.push_back(float_alu("v_ceil_f64", [](double a) { return std::ceil(a); }));
  rows.push_back(float_alu("v_trunc_f64", [](double a) { return std::trunc(a); }));
  rows.push_back(float_alu("v_rndne_f64", [](double a) { return nearest_even(a); }));
  rows.push_back(float_alu("v_fract_f64", [](double a) { return fraction(a, 0x1.fffffffffffffp-1); }));
  rows.push_back(float_alu("v_ldexp_f64", [](double a, int32_t b) { return scale(a, b); }));
  rows.push_back(float_alu("v_frexp_mant_f64", [](double a) { return mantissa(a); }));
  rows.push_back(
      float_alu("v_frexp_exp_i32_f64", [](double a) { return static_cast<int32_t>(exponent(a)); }));
}

void add_half(Rows& rows) {
  rows.push_back(float_alu("v_add_f16", [](Half16 a, Half16 b) { return half_sum(a, b); }));
  rows.push_back(float_alu("v_sub_f16", [](Half16 a, Half16 b) { return half_sum(a, negated(b)); }));
  rows.push_back(float_alu("v_subrev_f16", [](Half16 a, Half16 b) { return half_sum(b, negated(a)); }));
  rows.push_back(float_alu("v_mul_f16", [](Half16 a, Half16 b) { return half_product(a, b); }));
  add_named(rows, {"v_fma_f16", "v_fma_legacy_f16", "v_fmaak_f16", "v_fmamk_f16"},
            float_alu("", [](Half16 a, Half16 b, Half16 c) { return half_fma(a, b, c); }));
  rows.push_back(
      float_accumulating("v_fmac_f16", [](Half16 a, Half16 b, Half16 c) { return half_fma(a, b, c); }));
  add_named(rows, {"v_mad_f16", "v_mad_legacy_f16", "v_madak_f16", "v_madmk_f16"},
            float_alu("", [](Half16 a, Half16 b, Half16 c) { return half_mad(a, b, c); }));
  rows.push_back(
      float_accumulating("v_mac_f16", [](Half16 a, Half16 b, Half16 c) { return half_mad(a, b, c); }));
  rows.push_back(
      float_alu("v_floor_f16", [](Half16 a) { return HalfOf{std::floor(static_cast<float>(a))}; }));
  rows.push_back(float_alu("v_ceil_f16", [](Half16 a) { return HalfOf{std::ceil(static_cast<float>(a))}; }));
  rows.push_back(
      float_alu("v_trunc_f16", [](Half16 a) { return HalfOf{std::trunc(static_cast<float>(a))}; }));
  rows.push_back(float_alu("v_rndne_f16", [](Half16 a) { return HalfOf{std::rint(static_cast<float>(a))}; }));
  rows.push_back(float_alu("v_fract_f16", [](Half16 a) {
    return HalfOf{fraction(static_cast<float>(a), half_to_float(0x3bff))};
  }));
  rows.push_back(
      float_alu("v_ldexp_f16", [](Half16 a, int16_t b) { return HalfOf{scale(static_cast<float>(a), b)}; }));
  rows.push_back(
      float_alu("v_frexp_mant_f16", [](Half16 a) { return HalfOf{mantissa(static_cast<float>(a))}; }));
  rows.push_back(float_alu("v_frexp_exp_i16_f16",
                           [](Half16 a) { return static_cast<int16_t>(exponent(static_cast<float>(a))); }));
}

}  // namespace

void add_vector_float(Rows& rows) {
  add_single(rows);
  add_double(rows);
  add_half(rows);
}

}  // namespace hipemu::semantics
