// Dot products within a lane: two, four or eight small values of each operand, and a sum to start from.
#include <limits>

#include "exec/semantics/float_functions.h"
#include "exec/semantics/float_mode.h"
#include "exec/semantics/small_floats.h"

namespace hipemu::semantics {
namespace {

using u32 = uint32_t;
using i32 = int32_t;
using i64 = int64_t;

// The k-th field of Bits bits.
template <int Bits, bool Signed>
i32 field(u32 value, int k) {
  const u32 moved = value << (32 - Bits * (k + 1));
  if constexpr (Signed)
    return static_cast<i32>(moved) >> (32 - Bits);
  else
    return static_cast<i32>(moved >> (32 - Bits));
}

template <int Bits, bool SignedA, bool SignedB>
i64 dot(u32 a, u32 b) {
  i64 sum = 0;
  for (int k = 0; k < 32 / Bits; ++k)
    sum += static_cast<i64>(field<Bits, SignedA>(a, k)) * field<Bits, SignedB>(b, k);
  return sum;
}
// Products of eight bits and less sum up in 32.
template <int Bits, bool SignedA, bool SignedB>
i32 small_dot(u32 a, u32 b) {
  i32 sum = 0;
  for (int k = 0; k < 32 / Bits; ++k) sum += field<Bits, SignedA>(a, k) * field<Bits, SignedB>(b, k);
  return sum;
}

i32 to_i32(i64 value) {
  constexpr i64 least = std::numeric_limits<i32>::min(), most = std::numeric_limits<i32>::max();
  return static_cast<i32>(value < least ? least : (value > most ? most : value));
}
u32 to_u32(i64 value) {
  return static_cast<u32>(value < 0 ? 0 : (value > 0xffffffffll ? 0xffffffffll : value));
}

template <int Bits, bool SignedA, bool SignedB>
struct Wrapping {
  u32 operator()(u32 a, u32 b, u32 c) const {
    if constexpr (Bits < 16)
      return static_cast<u32>(small_dot<Bits, SignedA, SignedB>(a, b)) + c;
    else
      return static_cast<u32>(dot<Bits, SignedA, SignedB>(a, b)) + c;
  }
};
template <int Bits, bool SignedA, bool SignedB>
struct Saturating {
  u32 operator()(u32 a, u32 b, u32 c) const {
    if constexpr (SignedA || SignedB)
      return static_cast<u32>(to_i32(dot<Bits, SignedA, SignedB>(a, b) + static_cast<i32>(c)));
    else
      return to_u32(dot<Bits, SignedA, SignedB>(a, b) + static_cast<i64>(c));
  }
};

// gfx11's "iu": neg_lo says which operands are signed. The sum is signed always.
template <int Bits, bool SignedA, bool SignedB>
struct SaturatingSigned {
  u32 operator()(u32 a, u32 b, u32 c) const {
    return static_cast<u32>(to_i32(dot<Bits, SignedA, SignedB>(a, b) + static_cast<i32>(c)));
  }
};
template <int W, int Bits, template <int, bool, bool> class Dot>
void run_mixed_signs(Wave& wave, const Operation& op) {
  switch (op.negate_low & 3) {
    case 0:
      return run_vector<W, Dot<Bits, false, false>>(wave, op);
    case 1:
      return run_vector<W, Dot<Bits, true, false>>(wave, op);
    case 2:
      return run_vector<W, Dot<Bits, false, true>>(wave, op);
    default:
      return run_vector<W, Dot<Bits, true, true>>(wave, op);
  }
}
void read_signs(const Instruction& instruction, const Chip&, Operation& op) {
  const auto signs = instruction.list("neg_lo");
  op.negate_low = 0;
  for (std::size_t k = 0; k < signs.size() && k < 2; ++k)
    op.negate_low |= static_cast<uint8_t>((signs[k] & 1) << k);
}
template <int Bits>
Semantics mixed_signs(std::string_view name) {
  Semantics row = vector_alu(name, Wrapping<Bits, false, false>{});
  row.wave32 = run_mixed_signs<32, Bits, Wrapping>;
  row.wave64 = run_mixed_signs<64, Bits, Wrapping>;
  row.saturating32 = run_mixed_signs<32, Bits, SaturatingSigned>;
  row.saturating64 = run_mixed_signs<64, Bits, SaturatingSigned>;
  row.refine = read_signs;
  return row;
}

template <int Bits, bool Signed>
Semantics same_signs(std::string_view name) {
  return vector_alu(name, Wrapping<Bits, Signed, Signed>{}, Saturating<Bits, Signed, Signed>{});
}
template <int Bits, bool Signed>
Semantics accumulated(std::string_view name) {
  Semantics row = same_signs<Bits, Signed>(name);
  row.sources[2] = ValueType::none;
  row.accumulates = true;
  return row;
}

float low_half(PackedF16 pair) { return half_to_float(static_cast<uint16_t>(pair.bits)); }
float high_half(PackedF16 pair) { return half_to_float(static_cast<uint16_t>(pair.bits >> 16)); }
float low_half(PackedBf16 pair) { return bfloat_to_float(static_cast<uint16_t>(pair.bits)); }
float high_half(PackedBf16 pair) { return bfloat_to_float(static_cast<uint16_t>(pair.bits >> 16)); }

template <class Pair>
float dot_of_pairs(Pair a, Pair b, float c) {
  return std::fma(high_half(a), high_half(b), std::fma(low_half(a), low_half(b), c));
}

// Not packed in the third operand and the result: op_sel picks their halves.
void read_third_half(const Instruction& instruction, const Chip&, Operation& op) {
  const auto select = instruction.list("op_sel");
  op.select_low = 0;
  op.select_high = 7;
  if (select.size() > 2 && select[2] != 0) op.source[2].part = Part::high_word;
  if (select.size() > 3 && select[3] != 0) op.destination_part = Part::high_word;
  if (op.source[2].part == Part::high_word || op.destination_part == Part::high_word) op.plain = false;
}

void add_floats(Rows& rows) {
  const auto halves = [](PackedF16 a, PackedF16 b, float c) { return dot_of_pairs(a, b, c); };
  rows.push_back(float_alu("v_dot2_f32_f16", halves));
  Semantics accumulating_row = float_alu("", halves);
  accumulating_row.sources[2] = ValueType::none;
  accumulating_row.accumulates = true;
  add_named(rows, {"v_dot2c_f32_f16", "v_dot2acc_f32_f16"}, accumulating_row);

  const auto bfloats = [](PackedBf16 a, PackedBf16 b, float c) { return dot_of_pairs(a, b, c); };
  rows.push_back(float_alu("v_dot2_f32_bf16", bfloats));
  accumulating_row = float_alu("", bfloats);
  accumulating_row.sources[2] = ValueType::none;
  accumulating_row.accumulates = true;
  add_named(rows, {"v_dot2c_f32_bf16", "v_dot2acc_f32_bf16"}, accumulating_row);

  Semantics row = vector_alu("v_dot2_f16_f16", [](PackedF16 a, PackedF16 b, Half16 c) {
    const Half16 first = fused_multiply_add(Half16::from_bits(static_cast<uint16_t>(a.bits)),
                                            Half16::from_bits(static_cast<uint16_t>(b.bits)), c);
    return fused_multiply_add(Half16::from_bits(static_cast<uint16_t>(a.bits >> 16)),
                              Half16::from_bits(static_cast<uint16_t>(b.bits >> 16)), first);
  });
  row.refine = read_third_half;
  rows.push_back(row);
  row = vector_alu("v_dot2_bf16_bf16", [](PackedBf16 a, PackedBf16 b, Bfloat16 c) {
    const Bfloat16 first(std::fma(low_half(a), low_half(b), static_cast<float>(c)));
    return Bfloat16(std::fma(high_half(a), high_half(b), static_cast<float>(first)));
  });
  row.refine = read_third_half;
  rows.push_back(row);
}

template <class A, class B>
float dot_of_bytes(u32 a, u32 b, float c) {
  for (int k = 0; k < 4; ++k)
    c = std::fma(decode_small<A>(static_cast<uint8_t>(a >> (8 * k))),
                 decode_small<B>(static_cast<uint8_t>(b >> (8 * k))), c);
  return c;
}

void add_small_floats(Rows& rows) {
  rows.push_back(vector_alu("v_dot4_f32_fp8_fp8",
                            [](u32 a, u32 b, float c) { return dot_of_bytes<E4m3, E4m3>(a, b, c); }));
  rows.push_back(vector_alu("v_dot4_f32_fp8_bf8",
                            [](u32 a, u32 b, float c) { return dot_of_bytes<E4m3, E5m2>(a, b, c); }));
  rows.push_back(vector_alu("v_dot4_f32_bf8_fp8",
                            [](u32 a, u32 b, float c) { return dot_of_bytes<E5m2, E4m3>(a, b, c); }));
  rows.push_back(vector_alu("v_dot4_f32_bf8_bf8",
                            [](u32 a, u32 b, float c) { return dot_of_bytes<E5m2, E5m2>(a, b, c); }));
}

}  // namespace

void add_vector_dot(Rows& rows) {
  rows.push_back(same_signs<16, true>("v_dot2_i32_i16"));
  rows.push_back(same_signs<16, false>("v_dot2_u32_u16"));
  rows.push_back(same_signs<8, true>("v_dot4_i32_i8"));
  rows.push_back(same_signs<8, false>("v_dot4_u32_u8"));
  rows.push_back(same_signs<4, true>("v_dot8_i32_i4"));
  rows.push_back(same_signs<4, false>("v_dot8_u32_u4"));
  rows.push_back(accumulated<16, true>("v_dot2c_i32_i16"));
  rows.push_back(accumulated<8, true>("v_dot4c_i32_i8"));
  rows.push_back(accumulated<4, true>("v_dot8c_i32_i4"));
  rows.push_back(mixed_signs<8>("v_dot4_i32_iu8"));
  rows.push_back(mixed_signs<4>("v_dot8_i32_iu4"));
  add_floats(rows);
  add_small_floats(rows);
}

}  // namespace hipemu::semantics
