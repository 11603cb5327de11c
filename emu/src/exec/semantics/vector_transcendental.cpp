// Reciprocals, roots, powers, logarithms and sines. The hardware's own last bits are not specified; these are
// right to within rounding.
#include "exec/semantics/float_functions.h"
#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

void add_single(Rows& rows) {
  add_named(rows, {"v_rcp_f32", "v_rcp_iflag_f32"}, float_alu("", [](float a) { return reciprocal(a); }));
  rows.push_back(float_alu("v_rsq_f32", [](float a) { return reciprocal_root(a); }));
  rows.push_back(float_alu("v_sqrt_f32", [](float a) { return root(a); }));
  add_named(rows, {"v_exp_f32", "v_exp_legacy_f32"}, float_alu("", [](float a) { return power_of_two(a); }));
  add_named(rows, {"v_log_f32", "v_log_legacy_f32"}, float_alu("", [](float a) { return logarithm(a); }));
  rows.push_back(float_alu("v_sin_f32", [](float a) { return sine(a); }));
  rows.push_back(float_alu("v_cos_f32", [](float a) { return cosine(a); }));
}

// Doubles hold every intermediate value of these with bits to spare.
template <class F>
Semantics half_function(std::string_view name, F) {
  return float_alu(name, [](Half16 a) { return HalfOf{F{}(static_cast<float>(a))}; });
}

void add_half(Rows& rows) {
  rows.push_back(half_function("v_rcp_f16", [](float a) { return 1.0f / a; }));
  rows.push_back(
      half_function("v_rsq_f16", [](float a) { return static_cast<float>(1.0 / std::sqrt(double{a})); }));
  rows.push_back(half_function("v_sqrt_f16", [](float a) { return std::sqrt(a); }));
  rows.push_back(half_function("v_exp_f16", [](float a) { return std::exp2(a); }));
  rows.push_back(half_function("v_log_f16", [](float a) { return logarithm(a); }));
  rows.push_back(half_function("v_sin_f16", [](float a) { return sine(a); }));
  rows.push_back(half_function("v_cos_f16", [](float a) { return cosine(a); }));
}

void add_double(Rows& rows) {
  rows.push_back(float_alu("v_rcp_f64", [](double a) { return 1.0 / a; }));
  rows.push_back(float_alu("v_rsq_f64", [](double a) { return 1.0 / std::sqrt(a); }));
  rows.push_back(float_alu("v_sqrt_f64", [](double a) { return std::sqrt(a); }));
}

// gfx12: the same functions of one value, from and to scalar registers. The modifiers of sources apply.
template <class F>
void run_scalar_function(Wave& wave, const Operation& op) {
  const Source& source = op.source[0];
  using T = std::tuple_element_t<0, typename FunctionTraits<F>::Arguments>;
  constexpr uint32_t sign = sizeof(T) == 2 ? 0x8000u : 0x80000000u;
  uint32_t bits =
      source.from == From::scalar ? wave.get_scalar(source.index) : static_cast<uint32_t>(source.bits);
  if (source.absolute) bits &= ~sign;
  if (source.negate) bits ^= sign;
  float value = static_cast<float>(F{}(from_dwords<T>(bits, 0)));
  constexpr float factors[] = {1.0f, 2.0f, 4.0f, 0.5f};
  value *= factors[op.output_multiply & 3];
  if (op.clamp) value = value > 0 ? (value < 1 ? value : 1.0f) : 0.0f;
  if constexpr (sizeof(T) == 2)
    wave.set_scalar(op.destination[0].index, float_to_half(value));
  else
    wave.set_scalar(op.destination[0].index, std::bit_cast<uint32_t>(value));
}
template <class F>
Semantics scalar_function(std::string_view name, F function) {
  Semantics row = vector_alu(name, function);
  row.wave32 = row.wave64 = run_scalar_function<F>;
  return row;
}

void add_pseudo_scalar(Rows& rows) {
  rows.push_back(scalar_function("v_s_rcp_f32", [](float a) { return reciprocal(a); }));
  rows.push_back(scalar_function("v_s_rsq_f32", [](float a) { return reciprocal_root(a); }));
  rows.push_back(scalar_function("v_s_sqrt_f32", [](float a) { return root(a); }));
  rows.push_back(scalar_function("v_s_exp_f32", [](float a) { return power_of_two(a); }));
  rows.push_back(scalar_function("v_s_log_f32", [](float a) { return logarithm(a); }));
  rows.push_back(
      scalar_function("v_s_rcp_f16", [](Half16 a) { return Half16(1.0f / static_cast<float>(a)); }));
  rows.push_back(scalar_function("v_s_rsq_f16", [](Half16 a) {
    return Half16(static_cast<float>(1.0 / std::sqrt(static_cast<double>(static_cast<float>(a)))));
  }));
  rows.push_back(
      scalar_function("v_s_sqrt_f16", [](Half16 a) { return Half16(std::sqrt(static_cast<float>(a))); }));
  rows.push_back(
      scalar_function("v_s_exp_f16", [](Half16 a) { return Half16(std::exp2(static_cast<float>(a))); }));
  rows.push_back(
      scalar_function("v_s_log_f16", [](Half16 a) { return Half16(logarithm(static_cast<float>(a))); }));
}

}  // namespace

void add_vector_transcendental(Rows& rows) {
  add_single(rows);
  add_half(rows);
  add_double(rows);
  add_pseudo_scalar(rows);
}

}  // namespace hipemu::semantics
