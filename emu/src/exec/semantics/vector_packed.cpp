// Two values per lane: the v_pk_* instructions, made from the operation on one of the two.
#include <limits>

#include "exec/semantics/float_functions.h"
#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

using u16 = uint16_t;
using i16 = int16_t;

// The type of a source that holds two of T, and its two halves.
template <class T>
struct PairOf;
template <>
struct PairOf<u16> {
  using Type = PackedI16;
};
template <>
struct PairOf<i16> {
  using Type = PackedI16;
};
template <>
struct PairOf<Half16> {
  using Type = PackedF16;
};
template <>
struct PairOf<HalfOf> {
  using Type = PackedF16;
};
template <>
struct PairOf<float> {
  using Type = PackedF32;
};

template <class T, class Pair>
T half_of(Pair pair, bool high) {
  if constexpr (std::is_same_v<T, float>) {
    return high ? pair.high : pair.low;
  } else {
    const u16 bits = static_cast<u16>(pair.bits >> (high ? 16 : 0));
    if constexpr (std::is_same_v<T, Half16>)
      return Half16::from_bits(bits);
    else
      return static_cast<T>(bits);
  }
}

template <class T>
typename PairOf<T>::Type pair_of(T low, T high) {
  if constexpr (std::is_same_v<T, float>) {
    return {low, high};
  } else if constexpr (std::is_same_v<T, HalfOf>) {
    const FloatMode& mode = FloatMode::current();
    return {static_cast<uint32_t>(round_to_half(low.value, mode.half)) |
            static_cast<uint32_t>(round_to_half(high.value, mode.half)) << 16};
  } else if constexpr (std::is_same_v<T, Half16>) {
    return {low.bits | static_cast<uint32_t>(high.bits) << 16};
  } else {
    return {static_cast<u16>(low) | static_cast<uint32_t>(static_cast<u16>(high)) << 16};
  }
}

// F on both halves.
template <class F, class Arguments>
struct Pairwise;
template <class F, class... A>
struct Pairwise<F, std::tuple<A...>> {
  auto operator()(typename PairOf<A>::Type... pairs) const {
    return pair_of(F{}(half_of<A>(pairs, false)...), F{}(half_of<A>(pairs, true)...));
  }
};
// The same in the usual mode, which rounds to nearest without having to ask.
template <class F, class Arguments>
struct PairwiseNearest;
template <class F, class... A>
struct PairwiseNearest<F, std::tuple<A...>> {
  auto operator()(typename PairOf<A>::Type... pairs) const {
    return pair_of(Half16(F{}(half_of<A>(pairs, false)...).value),
                   Half16(F{}(half_of<A>(pairs, true)...).value));
  }
};

template <class F>
using Both = Pairwise<F, typename FunctionTraits<F>::Arguments>;
template <class F>
using BothNearest = PairwiseNearest<F, typename FunctionTraits<F>::Arguments>;

template <int W, class F>
void run_halves(Wave& wave, const Operation& op) {
  if ((wave.mode & 0xff) == usual_mode) [[likely]]
    run_vector<W, BothNearest<F>>(wave, op);
  else
    run_in_mode<W, Both<F>>(wave, op);
}

template <class F>
Semantics packed_integers(std::string_view name, F) {
  return vector_alu(name, Both<F>{});
}
template <class F, class G>
Semantics packed_integers(std::string_view name, F, G) {
  return vector_alu(name, Both<F>{}, Both<G>{});
}
template <class F>
Semantics packed_floats(std::string_view name, F) {
  return float_alu(name, Both<F>{});
}
template <class F>
Semantics packed_halves(std::string_view name, F) {
  Semantics row = vector_alu(name, BothNearest<F>{});
  row.wave32 = run_halves<32, F>;
  row.wave64 = run_halves<64, F>;
  return row;
}

template <class T>
T saturated(int64_t exact) {
  constexpr int64_t least = std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max();
  return static_cast<T>(exact < least ? least : (exact > most ? most : exact));
}

void add_integers(Rows& rows) {
  rows.push_back(packed_integers(
      "v_pk_add_u16", [](u16 a, u16 b) { return static_cast<u16>(a + b); },
      [](u16 a, u16 b) { return saturated<u16>(a + b); }));
  rows.push_back(packed_integers(
      "v_pk_sub_u16", [](u16 a, u16 b) { return static_cast<u16>(a - b); },
      [](u16 a, u16 b) { return saturated<u16>(a - b); }));
  rows.push_back(packed_integers(
      "v_pk_add_i16", [](i16 a, i16 b) { return static_cast<i16>(a + b); },
      [](i16 a, i16 b) { return saturated<i16>(a + b); }));
  rows.push_back(packed_integers(
      "v_pk_sub_i16", [](i16 a, i16 b) { return static_cast<i16>(a - b); },
      [](i16 a, i16 b) { return saturated<i16>(a - b); }));
  rows.push_back(
      packed_integers("v_pk_mul_lo_u16", [](u16 a, u16 b) { return static_cast<u16>(uint32_t{a} * b); }));
  rows.push_back(packed_integers(
      "v_pk_mad_u16", [](u16 a, u16 b, u16 c) { return static_cast<u16>(uint32_t{a} * b + c); },
      [](u16 a, u16 b, u16 c) { return saturated<u16>(int64_t{a} * b + c); }));
  rows.push_back(packed_integers(
      "v_pk_mad_i16", [](i16 a, i16 b, i16 c) { return static_cast<i16>(a * b + c); },
      [](i16 a, i16 b, i16 c) { return saturated<i16>(int64_t{a} * b + c); }));
  rows.push_back(
      packed_integers("v_pk_lshlrev_b16", [](u16 a, u16 b) { return static_cast<u16>(b << (a & 15)); }));
  rows.push_back(
      packed_integers("v_pk_lshrrev_b16", [](u16 a, u16 b) { return static_cast<u16>(b >> (a & 15)); }));
  rows.push_back(
      packed_integers("v_pk_ashrrev_i16", [](i16 a, i16 b) { return static_cast<i16>(b >> (a & 15)); }));
  rows.push_back(packed_integers("v_pk_min_u16", [](u16 a, u16 b) { return a < b ? a : b; }));
  rows.push_back(packed_integers("v_pk_max_u16", [](u16 a, u16 b) { return a > b ? a : b; }));
  rows.push_back(packed_integers("v_pk_min_i16", [](i16 a, i16 b) { return a < b ? a : b; }));
  rows.push_back(packed_integers("v_pk_max_i16", [](i16 a, i16 b) { return a > b ? a : b; }));
}

float f(Half16 value) { return static_cast<float>(value); }

void add_halves(Rows& rows) {
  rows.push_back(
      packed_halves("v_pk_add_f16", [](Half16 a, Half16 b) { return HalfOf{add_to_odd(f(a), f(b))}; }));
  rows.push_back(packed_halves("v_pk_mul_f16", [](Half16 a, Half16 b) { return HalfOf{f(a) * f(b)}; }));
  const auto fma = [](Half16 a, Half16 b, Half16 c) { return HalfOf{add_to_odd(f(a) * f(b), f(c))}; };
  rows.push_back(packed_halves("v_pk_fma_f16", fma));
  Semantics fmac = packed_halves("v_pk_fmac_f16", fma);
  fmac.sources[2] = ValueType::none;
  fmac.accumulates = true;
  rows.push_back(fmac);
  rows.push_back(
      packed_halves("v_pk_min_f16", [](Half16 a, Half16 b) { return HalfOf{min_ieee(f(a), f(b))}; }));
  rows.push_back(
      packed_halves("v_pk_max_f16", [](Half16 a, Half16 b) { return HalfOf{max_ieee(f(a), f(b))}; }));
  rows.push_back(
      packed_halves("v_pk_min_num_f16", [](Half16 a, Half16 b) { return HalfOf{min_num(f(a), f(b))}; }));
  rows.push_back(
      packed_halves("v_pk_max_num_f16", [](Half16 a, Half16 b) { return HalfOf{max_num(f(a), f(b))}; }));
  rows.push_back(
      packed_halves("v_pk_minimum_f16", [](Half16 a, Half16 b) { return HalfOf{minimum(f(a), f(b))}; }));
  rows.push_back(
      packed_halves("v_pk_maximum_f16", [](Half16 a, Half16 b) { return HalfOf{maximum(f(a), f(b))}; }));
}

void add_floats(Rows& rows) {
  rows.push_back(packed_floats("v_pk_add_f32", [](float a, float b) { return a + b; }));
  rows.push_back(packed_floats("v_pk_mul_f32", [](float a, float b) { return a * b; }));
  rows.push_back(packed_floats("v_pk_fma_f32", [](float a, float b, float c) { return std::fma(a, b, c); }));
  // op_sel of each source names the half it gives.
  rows.push_back(moving(vector_alu("v_pk_mov_b32", [](PackedF32 a, PackedF32 b) {
    return PackedF32{a.low, b.low};
  })));
}

}  // namespace

void add_vector_packed(Rows& rows) {
  add_integers(rows);
  add_halves(rows);
  add_floats(rows);
}

}  // namespace hipemu::semantics
