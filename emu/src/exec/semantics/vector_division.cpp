// The instructions a division is made of (scale, multiply-add with the scaling undone, special cases), and
// the bits of 2/pi that reduce large arguments of sines.
#include <array>
#include <bit>

#include "exec/semantics/float_functions.h"
#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

// The numbers that differ between the two precisions.
template <class T>
struct Division;
template <>
struct Division<float> {
  static constexpr int field_shift = 23, bias = 127, scale_by = 64, far_apart = 96, tiny = 23,
                       underflow = -150;
  static constexpr float least_normal = 0x1p-126f;
};
template <>
struct Division<double> {
  static constexpr int field_shift = 52, bias = 1023, scale_by = 128, far_apart = 768, tiny = 53,
                       underflow = -1075;
  static constexpr double least_normal = 0x1p-1022;
};

template <class T>
int exponent_field(T value) {
  return static_cast<int>((bits_of(value) & ~FloatBits<T>::sign) >> Division<T>::field_shift);
}
template <class T>
bool is_subnormal(T value) {
  return value != 0 && std::abs(value) < Division<T>::least_normal;
}

// Scales `value`, which is the numerator or the denominator, so that the quotient and what leads to it stay
// in range. The bit says that v_div_fmas has to undo it because only one of the two was scaled.
template <class T>
WithMask<T> scale_for_division(T value, T denominator, T numerator) {
  using Limits = Division<T>;
  const bool is_denominator = value == denominator;
  const T reciprocal = T(1) / denominator, quotient = numerator / denominator;
  const bool small_quotient = std::abs(quotient) < Limits::least_normal;
  if (denominator == 0 || numerator == 0) return {std::numeric_limits<T>::quiet_NaN(), false};
  if (exponent_field(numerator) - exponent_field(denominator) >= Limits::far_apart)
    return {is_denominator ? scale(value, Limits::scale_by) : value, true};
  if (is_subnormal(denominator)) return {scale(value, Limits::scale_by), false};
  if (is_subnormal(reciprocal)) {
    if (!small_quotient) return {scale(value, -Limits::scale_by), false};
    return {is_denominator ? scale(value, -Limits::scale_by) : value, true};
  }
  if (small_quotient) return {value == numerator ? scale(value, Limits::scale_by) : value, true};
  if (exponent_field(numerator) <= Limits::tiny) return {scale(value, Limits::scale_by), false};
  return {value, false};
}

// (a * b + c) * 2^by with one rounding, where the result is subnormal. Doubles have bits to spare for f32.
float scaled_down(float a, float b, float c, int by) {
  return static_cast<float>(scale(fma_to_odd(a, b, c), by));
}
// For f64 the last bits may be half a place, and then what fma rounded off decides.
double scaled_down(double a, double b, double c, int by) {
  const double sum = std::fma(a, b, c);
  const double product = a * b, product_error = std::fma(a, b, -product);
  const double error = ((c - sum) + product) + product_error;  // c is most of the sum
  const double result = scale(sum, by);
  const double rest = sum - scale(result, -by);
  const bool tie = std::abs(rest) == scale(0x1p-1074, -by - 1);
  if (!tie || error == 0 || (rest > 0) != (error > 0)) return result;
  return result + std::copysign(0x1p-1074, rest);
}

// The last step: when one operand was scaled the quotient is scaled back, rounding once. A quotient above one
// came from a denominator that was made larger.
template <class T>
T fma_and_unscale(T a, T b, T c, bool scaled) {
  const T plain = std::fma(a, b, c);
  if (!scaled) return plain;
  const int by = exponent_field(c) > Division<T>::bias ? Division<T>::scale_by : -Division<T>::scale_by;
  const T result = scale(plain, by);
  return std::abs(result) > Division<T>::least_normal ? result : scaled_down(a, b, c, by);
}

template <class T>
T fix_quotient(T quotient, T denominator, T numerator, int underflow) {
  constexpr T infinity = std::numeric_limits<T>::infinity();
  const bool negative = std::signbit(denominator) != std::signbit(numerator);
  const auto with_sign = [&](T value) { return negative ? -value : value; };
  if (is_nan(numerator)) return quieted(numerator);
  if (is_nan(denominator)) return quieted(denominator);
  const T top = std::abs(numerator), bottom = std::abs(denominator);
  if ((bottom == 0 && top == 0) || (bottom == infinity && top == infinity))
    return -std::numeric_limits<T>::quiet_NaN();
  if (bottom == 0 || top == infinity) return with_sign(infinity);
  if (bottom == infinity || top == 0) return with_sign(T(0));
  if (exponent_field(numerator) - exponent_field(denominator) < underflow) return with_sign(T(0));
  // Steps that overflow leave an infinity, or the difference of two.
  return with_sign(std::isfinite(quotient) ? std::abs(quotient) : infinity);
}

// 2/pi after the binary point, 1201 bits, the highest first.
constexpr std::array<uint64_t, 20> two_over_pi = {
    0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
    0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull,
    0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full,
    0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull,
    0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b0000ull, 0};

// The part-th group of 53 bits of 2/pi that matters for an argument of this size.
double bits_of_two_over_pi(double argument, uint32_t part) {
  const int size = exponent_field(argument) & 0x7ff;
  const int shift = static_cast<int>(part & 31) * 53 + (size > 1077 ? size - 1077 : 0);
  const int word = shift / 64, offset = shift % 64;
  uint64_t window = 0;
  if (word < 19) {
    window = two_over_pi[word] << offset;
    if (offset != 0) window |= two_over_pi[word + 1] >> (64 - offset);
  }
  const int scale_by = -53 - shift + (size >= 1968 ? 128 : 0);
  return std::scalbn(static_cast<double>(window >> 11), scale_by);
}

// v_div_fmas reads VCC without saying so.
void read_vcc_too(const Instruction&, const Chip&, Operation& op) {
  op.source[3].from = From::scalar;
  op.source[3].index = scalar::vcc;
  op.source_count = 4;
}

}  // namespace

void add_vector_division(Rows& rows) {
  rows.push_back(float_alu("v_div_scale_f32", [](float value, float denominator, float numerator) {
    return scale_for_division(value, denominator, numerator);
  }));
  rows.push_back(float_alu("v_div_scale_f64", [](double value, double denominator, double numerator) {
    return scale_for_division(value, denominator, numerator);
  }));
  Semantics fmas = float_alu("v_div_fmas_f32", [](float a, float b, float c, bool scaled) {
    return fma_and_unscale(a, b, c, scaled);
  });
  fmas.sources[3] = ValueType::none;
  fmas.refine = read_vcc_too;
  rows.push_back(fmas);
  fmas = float_alu("v_div_fmas_f64", [](double a, double b, double c, bool scaled) {
    return fma_and_unscale(a, b, c, scaled);
  });
  fmas.sources[3] = ValueType::none;
  fmas.refine = read_vcc_too;
  rows.push_back(fmas);
  rows.push_back(float_alu("v_div_fixup_f32", [](float quotient, float denominator, float numerator) {
    return fix_quotient(quotient, denominator, numerator, Division<float>::underflow);
  }));
  rows.push_back(float_alu("v_div_fixup_f64", [](double quotient, double denominator, double numerator) {
    return fix_quotient(quotient, denominator, numerator, Division<double>::underflow);
  }));
  add_named(rows, {"v_div_fixup_f16", "v_div_fixup_legacy_f16"},
            float_alu("", [](Half16 quotient, Half16 denominator, Half16 numerator) {
              return HalfOf{fix_quotient(static_cast<float>(quotient), static_cast<float>(denominator),
                                         static_cast<float>(numerator), -1000)};
            }));
  rows.push_back(vector_alu("v_trig_preop_f64", [](double argument, uint32_t part) {
    return bits_of_two_over_pi(argument, part);
  }));
}

}  // namespace hipemu::semantics
