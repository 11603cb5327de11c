// Scalar arithmetic and logic: SOP1, SOP2, SOPC and SOPK.
#include <algorithm>
#include <initializer_list>

#include "exec/semantics/build.h"

namespace hipemu::semantics {
namespace {

using Names =
    std::initializer_list<std::string_view>;  // the same instruction under the names of several chips

template <class F>
void add(Rows& rows, Names names, F function) {
  for (const std::string_view name : names) rows.push_back(scalar_alu(name, function));
}

template <class T>
T set_scc_if_not_zero(Wave& wave, T value) {
  wave.scc = value != 0;
  return value;
}

void add_arithmetic(Rows& rows) {
  add(rows, {"s_add_u32", "s_add_co_u32"}, [](Wave& wave, uint32_t a, uint32_t b) {
    wave.scc = a + b < a;
    return a + b;
  });
  add(rows, {"s_sub_u32", "s_sub_co_u32"}, [](Wave& wave, uint32_t a, uint32_t b) {
    wave.scc = b > a;
    return a - b;
  });
  add(rows, {"s_add_i32", "s_add_co_i32"}, [](Wave& wave, int32_t a, int32_t b) {
    int32_t sum;
    wave.scc = __builtin_add_overflow(a, b, &sum);
    return sum;
  });
  add(rows, {"s_sub_i32", "s_sub_co_i32"}, [](Wave& wave, int32_t a, int32_t b) {
    int32_t difference;
    wave.scc = __builtin_sub_overflow(a, b, &difference);
    return difference;
  });
  add(rows, {"s_addc_u32", "s_add_co_ci_u32"}, [](Wave& wave, uint32_t a, uint32_t b) {
    const uint64_t sum = static_cast<uint64_t>(a) + b + wave.scc;
    wave.scc = sum >> 32;
    return static_cast<uint32_t>(sum);
  });
  add(rows, {"s_subb_u32", "s_sub_co_ci_u32"}, [](Wave& wave, uint32_t a, uint32_t b) {
    const uint64_t subtracted = static_cast<uint64_t>(b) + wave.scc;
    wave.scc = subtracted > a;
    return static_cast<uint32_t>(a - subtracted);
  });
  add(rows, {"s_add_u64", "s_add_nc_u64"}, [](Wave&, uint64_t a, uint64_t b) { return a + b; });
  add(rows, {"s_sub_u64", "s_sub_nc_u64"}, [](Wave&, uint64_t a, uint64_t b) { return a - b; });
  add(rows, {"s_mul_u64"}, [](Wave&, uint64_t a, uint64_t b) { return a * b; });
  add(rows, {"s_mul_i32"}, [](Wave&, uint32_t a, uint32_t b) { return a * b; });
  add(rows, {"s_mul_hi_u32"}, [](Wave&, uint32_t a, uint32_t b) {
    return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32);
  });
  add(rows, {"s_mul_hi_i32"},
      [](Wave&, int32_t a, int32_t b) { return static_cast<int32_t>(static_cast<int64_t>(a) * b >> 32); });
  add(rows, {"s_absdiff_i32"}, [](Wave& wave, int32_t a, int32_t b) {
    const uint32_t difference = static_cast<uint32_t>(a) - static_cast<uint32_t>(b);
    return set_scc_if_not_zero(wave, static_cast<int32_t>(difference) < 0 ? 0 - difference : difference);
  });
  add(rows, {"s_abs_i32"}, [](Wave& wave, uint32_t a) {
    return set_scc_if_not_zero(wave, static_cast<int32_t>(a) < 0 ? 0 - a : a);
  });
  add(rows, {"s_min_i32"}, [](Wave& wave, int32_t a, int32_t b) {
    wave.scc = a < b;
    return std::min(a, b);
  });
  add(rows, {"s_min_u32"}, [](Wave& wave, uint32_t a, uint32_t b) {
    wave.scc = a < b;
    return std::min(a, b);
  });
  add(rows, {"s_max_i32"}, [](Wave& wave, int32_t a, int32_t b) {
    wave.scc = a > b;
    return std::max(a, b);
  });
  add(rows, {"s_max_u32"}, [](Wave& wave, uint32_t a, uint32_t b) {
    wave.scc = a > b;
    return std::max(a, b);
  });
  const auto shift_add = [&rows](std::string_view name, auto shift) {
    add(rows, {name}, [](Wave& wave, uint32_t a, uint32_t b) {
      const uint64_t sum = (static_cast<uint64_t>(a) << decltype(shift)::value) + b;
      wave.scc = sum >> 32 != 0;
      return static_cast<uint32_t>(sum);
    });
  };
  shift_add("s_lshl1_add_u32", std::integral_constant<int, 1>());
  shift_add("s_lshl2_add_u32", std::integral_constant<int, 2>());
  shift_add("s_lshl3_add_u32", std::integral_constant<int, 3>());
  shift_add("s_lshl4_add_u32", std::integral_constant<int, 4>());
  add(rows, {"s_sext_i32_i8"},
      [](Wave&, uint32_t a) { return static_cast<int32_t>(static_cast<int8_t>(a)); });
  add(rows, {"s_sext_i32_i16"},
      [](Wave&, uint32_t a) { return static_cast<int32_t>(static_cast<int16_t>(a)); });
}

// A logic instruction of 32 and of 64 bits.
template <class F>
void add_logic(Rows& rows, Names names32, Names names64, F) {
  add(rows, names32,
      [](Wave& wave, uint32_t a, uint32_t b) { return set_scc_if_not_zero<uint32_t>(wave, F{}(a, b)); });
  add(rows, names64,
      [](Wave& wave, uint64_t a, uint64_t b) { return set_scc_if_not_zero<uint64_t>(wave, F{}(a, b)); });
}

void add_bits(Rows& rows) {
  add_logic(rows, {"s_and_b32"}, {"s_and_b64"}, [](auto a, auto b) { return a & b; });
  add_logic(rows, {"s_or_b32"}, {"s_or_b64"}, [](auto a, auto b) { return a | b; });
  add_logic(rows, {"s_xor_b32"}, {"s_xor_b64"}, [](auto a, auto b) { return a ^ b; });
  add_logic(rows, {"s_nand_b32"}, {"s_nand_b64"}, [](auto a, auto b) { return ~(a & b); });
  add_logic(rows, {"s_nor_b32"}, {"s_nor_b64"}, [](auto a, auto b) { return ~(a | b); });
  add_logic(rows, {"s_xnor_b32"}, {"s_xnor_b64"}, [](auto a, auto b) { return ~(a ^ b); });
  add_logic(rows, {"s_andn2_b32", "s_and_not1_b32"}, {"s_andn2_b64", "s_and_not1_b64"},
            [](auto a, auto b) { return a & ~b; });
  add_logic(rows, {"s_orn2_b32", "s_or_not1_b32"}, {"s_orn2_b64", "s_or_not1_b64"},
            [](auto a, auto b) { return a | ~b; });
  add(rows, {"s_not_b32"}, [](Wave& wave, uint32_t a) { return set_scc_if_not_zero(wave, ~a); });
  add(rows, {"s_not_b64"}, [](Wave& wave, uint64_t a) { return set_scc_if_not_zero(wave, ~a); });

  add(rows, {"s_lshl_b32"},
      [](Wave& wave, uint32_t a, uint32_t b) { return set_scc_if_not_zero(wave, a << (b & 31)); });
  add(rows, {"s_lshr_b32"},
      [](Wave& wave, uint32_t a, uint32_t b) { return set_scc_if_not_zero(wave, a >> (b & 31)); });
  add(rows, {"s_ashr_i32"},
      [](Wave& wave, int32_t a, uint32_t b) { return set_scc_if_not_zero(wave, a >> (b & 31)); });
  add(rows, {"s_lshl_b64"},
      [](Wave& wave, uint64_t a, uint32_t b) { return set_scc_if_not_zero(wave, a << (b & 63)); });
  add(rows, {"s_lshr_b64"},
      [](Wave& wave, uint64_t a, uint32_t b) { return set_scc_if_not_zero(wave, a >> (b & 63)); });
  add(rows, {"s_ashr_i64"},
      [](Wave& wave, int64_t a, uint32_t b) { return set_scc_if_not_zero(wave, a >> (b & 63)); });
  add(rows, {"s_bfm_b32"}, [](Wave&, uint32_t a, uint32_t b) { return ((1u << (a & 31)) - 1) << (b & 31); });
  add(rows, {"s_bfm_b64"},
      [](Wave&, uint32_t a, uint32_t b) { return ((1ull << (a & 63)) - 1) << (b & 63); });
  // Bit field: offset in the low bits of b, width in bits 16 and up.
  add(rows, {"s_bfe_u32"}, [](Wave& wave, uint32_t a, uint32_t b) {
    const uint32_t width = (b >> 16) & 0x7f;
    const uint64_t shifted = a >> (b & 31);
    return set_scc_if_not_zero(
        wave, static_cast<uint32_t>(width >= 32 ? shifted : shifted & ((1ull << width) - 1)));
  });
  add(rows, {"s_bfe_i32"}, [](Wave& wave, int32_t a, uint32_t b) {
    const uint32_t width = (b >> 16) & 0x7f;
    const int64_t shifted = a >> (b & 31);
    if (width == 0) return set_scc_if_not_zero(wave, 0);
    if (width >= 32) return set_scc_if_not_zero(wave, static_cast<int32_t>(shifted));
    return set_scc_if_not_zero(
        wave, static_cast<int32_t>(static_cast<int64_t>(static_cast<uint64_t>(shifted) << (64 - width)) >>
                                   (64 - width)));
  });
  add(rows, {"s_bfe_u64"}, [](Wave& wave, uint64_t a, uint32_t b) {
    const uint32_t width = (b >> 16) & 0x7f;
    const uint64_t shifted = a >> (b & 63);
    return set_scc_if_not_zero(wave, width >= 64 ? shifted : shifted & ((1ull << width) - 1));
  });
  add(rows, {"s_bfe_i64"}, [](Wave& wave, int64_t a, uint32_t b) {
    const uint32_t width = (b >> 16) & 0x7f;
    const int64_t shifted = a >> (b & 63);
    if (width == 0) return set_scc_if_not_zero<int64_t>(wave, 0);
    if (width >= 64) return set_scc_if_not_zero(wave, shifted);
    return set_scc_if_not_zero(
        wave, static_cast<int64_t>(static_cast<uint64_t>(shifted) << (64 - width)) >> (64 - width));
  });
  add(rows, {"s_brev_b32"}, [](Wave&, uint32_t a) {
    uint32_t reversed = 0;
    for (int i = 0; i < 32; ++i) reversed |= ((a >> i) & 1) << (31 - i);
    return reversed;
  });
  add(rows, {"s_brev_b64"}, [](Wave&, uint64_t a) {
    uint64_t reversed = 0;
    for (int i = 0; i < 64; ++i) reversed |= ((a >> i) & 1) << (63 - i);
    return reversed;
  });
  add(rows, {"s_bcnt0_i32_b32"}, [](Wave& wave, uint32_t a) {
    return set_scc_if_not_zero(wave, static_cast<uint32_t>(32 - std::popcount(a)));
  });
  add(rows, {"s_bcnt1_i32_b32"}, [](Wave& wave, uint32_t a) {
    return set_scc_if_not_zero(wave, static_cast<uint32_t>(std::popcount(a)));
  });
  add(rows, {"s_bcnt0_i32_b64"}, [](Wave& wave, uint64_t a) {
    return set_scc_if_not_zero(wave, static_cast<uint32_t>(64 - std::popcount(a)));
  });
  add(rows, {"s_bcnt1_i32_b64"}, [](Wave& wave, uint64_t a) {
    return set_scc_if_not_zero(wave, static_cast<uint32_t>(std::popcount(a)));
  });
  add(rows, {"s_ff1_i32_b32", "s_ctz_i32_b32"},
      [](Wave&, uint32_t a) { return a == 0 ? -1 : std::countr_zero(a); });
  add(rows, {"s_ff1_i32_b64", "s_ctz_i32_b64"},
      [](Wave&, uint64_t a) { return a == 0 ? -1 : std::countr_zero(a); });
  add(rows, {"s_ff0_i32_b32"}, [](Wave&, uint32_t a) { return ~a == 0 ? -1 : std::countr_one(a); });
  add(rows, {"s_ff0_i32_b64"}, [](Wave&, uint64_t a) { return ~a == 0 ? -1 : std::countr_one(a); });
  add(rows, {"s_flbit_i32_b32", "s_clz_i32_u32"},
      [](Wave&, uint32_t a) { return a == 0 ? -1 : std::countl_zero(a); });
  add(rows, {"s_flbit_i32_b64", "s_clz_i32_u64"},
      [](Wave&, uint64_t a) { return a == 0 ? -1 : std::countl_zero(a); });
  // Leading bits equal to the sign; -1 when all are.
  add(rows, {"s_flbit_i32", "s_cls_i32"}, [](Wave&, int32_t a) {
    const uint32_t magnitude = static_cast<uint32_t>(a < 0 ? ~a : a);
    return magnitude == 0 ? -1 : std::countl_zero(magnitude);
  });
  add(rows, {"s_flbit_i32_i64", "s_cls_i32_i64"}, [](Wave&, int64_t a) {
    const uint64_t magnitude = static_cast<uint64_t>(a < 0 ? ~a : a);
    return magnitude == 0 ? -1 : std::countl_zero(magnitude);
  });
  add(rows, {"s_bitreplicate_b64_b32"}, [](Wave&, uint32_t a) {
    uint64_t doubled = 0;
    for (int i = 0; i < 32; ++i) doubled |= static_cast<uint64_t>((a >> i) & 1) * 3 << (2 * i);
    return doubled;
  });
  add(rows, {"s_wqm_b32"}, [](Wave& wave, uint32_t a) {
    uint32_t whole = 0;
    for (int i = 0; i < 32; i += 4) whole |= (a >> i & 15) != 0 ? 15u << i : 0;
    return set_scc_if_not_zero(wave, whole);
  });
  add(rows, {"s_wqm_b64"}, [](Wave& wave, uint64_t a) {
    uint64_t whole = 0;
    for (int i = 0; i < 64; i += 4) whole |= (a >> i & 15) != 0 ? 15ull << i : 0;
    return set_scc_if_not_zero(wave, whole);
  });
  add(rows, {"s_quadmask_b32"}, [](Wave& wave, uint32_t a) {
    uint32_t mask = 0;
    for (int i = 0; i < 8; ++i) mask |= static_cast<uint32_t>((a >> (4 * i) & 15) != 0) << i;
    return set_scc_if_not_zero(wave, mask);
  });
  add(rows, {"s_quadmask_b64"}, [](Wave& wave, uint64_t a) {
    uint64_t mask = 0;
    for (int i = 0; i < 16; ++i) mask |= static_cast<uint64_t>((a >> (4 * i) & 15) != 0) << i;
    return set_scc_if_not_zero(wave, mask);
  });
  add(rows, {"s_pack_ll_b32_b16"}, [](Wave&, uint32_t a, uint32_t b) { return (a & 0xffff) | b << 16; });
  add(rows, {"s_pack_lh_b32_b16"},
      [](Wave&, uint32_t a, uint32_t b) { return (a & 0xffff) | (b & 0xffff0000); });
  add(rows, {"s_pack_hh_b32_b16"}, [](Wave&, uint32_t a, uint32_t b) { return a >> 16 | (b & 0xffff0000); });
  add(rows, {"s_pack_hl_b32_b16"}, [](Wave&, uint32_t a, uint32_t b) { return a >> 16 | b << 16; });
}

void add_moves(Rows& rows) {
  add(rows, {"s_mov_b32"}, [](Wave&, uint32_t a) { return a; });
  add(rows, {"s_mov_b64"}, [](Wave&, uint64_t a) { return a; });
  add(rows, {"s_cselect_b32"}, [](Wave& wave, uint32_t a, uint32_t b) { return wave.scc ? a : b; });
  add(rows, {"s_cselect_b64"}, [](Wave& wave, uint64_t a, uint64_t b) { return wave.scc ? a : b; });
}

// The destination is a source as well.
void run_cmov_b32(Wave& wave, const Operation& op) {
  if (wave.scc) wave.set_scalar(op.destination[0].index, read_scalar_source<uint32_t>(wave, op.source[0]));
}
void run_cmov_b64(Wave& wave, const Operation& op) {
  if (wave.scc) wave.set_scalar64(op.destination[0].index, read_scalar_source<uint64_t>(wave, op.source[0]));
}

template <int Wide, int Value>
void run_bitset(Wave& wave, const Operation& op) {
  const uint32_t bit = read_scalar_source<uint32_t>(wave, op.source[0]);
  const uint32_t index = op.destination[0].index;
  if constexpr (Wide) {
    const uint64_t mask = 1ull << (bit & 63), old = wave.get_scalar64(index);
    wave.set_scalar64(index, Value ? old | mask : old & ~mask);
  } else {
    const uint32_t mask = 1u << (bit & 31), old = wave.get_scalar(index);
    wave.set_scalar(index, Value ? old | mask : old & ~mask);
  }
}

Semantics scalar_custom(std::string_view name, Execute run, ValueType destination, ValueType source) {
  Semantics row = custom(name, Unit::scalar, run, run);
  row.destinations[0] = destination;
  row.sources[0] = source;
  return row;
}

// EXEC is combined with the source, and what it was before goes to the destination.
template <class T, class F>
void add_saveexec(Rows& rows, Names names, F) {
  add(rows, names, [](Wave& wave, T source) {
    T before;
    if constexpr (sizeof(T) == 8)
      before = wave.wide(scalar::exec);
    else
      before = wave.scalars[scalar::exec];
    const T now = static_cast<T>(F{}(source, before));
    if constexpr (sizeof(T) == 8)
      wave.set_scalar64(scalar::exec, now);
    else
      wave.set_scalar(scalar::exec, now);
    wave.scc = now != 0;
    return before;
  });
}

template <class F>
void add_saveexec_pair(Rows& rows, Names names32, Names names64, F function) {
  add_saveexec<uint32_t>(rows, names32, function);
  add_saveexec<uint64_t>(rows, names64, function);
}

// EXEC is combined with the source; the new value also goes to the destination.
template <class T, class F>
void add_wrexec(Rows& rows, Names names, F) {
  add(rows, names, [](Wave& wave, T source) {
    const T now = static_cast<T>(F{}(source, static_cast<T>(wave.wide(scalar::exec))));
    if constexpr (sizeof(T) == 8)
      wave.set_scalar64(scalar::exec, now);
    else
      wave.set_scalar(scalar::exec, now);
    return set_scc_if_not_zero(wave, now);
  });
}

void add_exec(Rows& rows) {
  add_saveexec_pair(rows, {"s_and_saveexec_b32"}, {"s_and_saveexec_b64"},
                    [](auto s, auto e) { return s & e; });
  add_saveexec_pair(rows, {"s_or_saveexec_b32"}, {"s_or_saveexec_b64"}, [](auto s, auto e) { return s | e; });
  add_saveexec_pair(rows, {"s_xor_saveexec_b32"}, {"s_xor_saveexec_b64"},
                    [](auto s, auto e) { return s ^ e; });
  add_saveexec_pair(rows, {"s_nand_saveexec_b32"}, {"s_nand_saveexec_b64"},
                    [](auto s, auto e) { return ~(s & e); });
  add_saveexec_pair(rows, {"s_nor_saveexec_b32"}, {"s_nor_saveexec_b64"},
                    [](auto s, auto e) { return ~(s | e); });
  add_saveexec_pair(rows, {"s_xnor_saveexec_b32"}, {"s_xnor_saveexec_b64"},
                    [](auto s, auto e) { return ~(s ^ e); });
  add_saveexec_pair(rows, {"s_andn2_saveexec_b32", "s_and_not1_saveexec_b32"},
                    {"s_andn2_saveexec_b64", "s_and_not1_saveexec_b64"},
                    [](auto s, auto e) { return s & ~e; });
  add_saveexec_pair(rows, {"s_andn1_saveexec_b32", "s_and_not0_saveexec_b32"},
                    {"s_andn1_saveexec_b64", "s_and_not0_saveexec_b64"},
                    [](auto s, auto e) { return ~s & e; });
  add_saveexec_pair(rows, {"s_orn2_saveexec_b32", "s_or_not1_saveexec_b32"},
                    {"s_orn2_saveexec_b64", "s_or_not1_saveexec_b64"}, [](auto s, auto e) { return s | ~e; });
  add_saveexec_pair(rows, {"s_orn1_saveexec_b32", "s_or_not0_saveexec_b32"},
                    {"s_orn1_saveexec_b64", "s_or_not0_saveexec_b64"}, [](auto s, auto e) { return ~s | e; });
  add_wrexec<uint32_t>(rows, {"s_andn1_wrexec_b32", "s_and_not0_wrexec_b32"},
                       [](auto s, auto e) { return ~s & e; });
  add_wrexec<uint64_t>(rows, {"s_andn1_wrexec_b64", "s_and_not0_wrexec_b64"},
                       [](auto s, auto e) { return ~s & e; });
  add_wrexec<uint32_t>(rows, {"s_andn2_wrexec_b32", "s_and_not1_wrexec_b32"},
                       [](auto s, auto e) { return s & ~e; });
  add_wrexec<uint64_t>(rows, {"s_andn2_wrexec_b64", "s_and_not1_wrexec_b64"},
                       [](auto s, auto e) { return s & ~e; });
}

// --- Compares, and the forms with a 16-bit constant in the instruction ---

int64_t short_constant(const TextOperand& operand, bool is_signed) {
  if (operand.kind != TextOperand::Kind::integer && operand.kind != TextOperand::Kind::literal)
    throw std::invalid_argument("constant expected");
  const auto value = static_cast<uint16_t>(operand.integer);
  return is_signed ? static_cast<int16_t>(value) : static_cast<int64_t>(value);
}

const TextOperand& scalar_operand(const Instruction& instruction, std::size_t index) {
  if (instruction.operands.size() <= index || instruction.operands[index].kind != TextOperand::Kind::scalar)
    throw std::invalid_argument("scalar register expected");
  return instruction.operands[index];
}

template <bool Signed>
void prepare_short(const Instruction& instruction, const Chip&, Operation& op) {
  op.destination[0] = {From::scalar, scalar_operand(instruction, 0).index};
  if (instruction.operands.size() != 2) throw std::invalid_argument("two operands expected");
  op.immediate = short_constant(instruction.operands[1], Signed);
}

template <class T, class F>
void run_compare_short(Wave& wave, const Operation& op) {
  wave.scc = F{}(static_cast<T>(wave.get_scalar(op.destination[0].index)), static_cast<T>(op.immediate));
}

template <class F>
void add_compare(Rows& rows, std::string_view i32, std::string_view k_i32, std::string_view u32,
                 std::string_view k_u32, F) {
  rows.push_back(scalar_alu(i32, [](Wave& wave, int32_t a, int32_t b) { wave.scc = F{}(a, b); }));
  rows.push_back(scalar_alu(u32, [](Wave& wave, uint32_t a, uint32_t b) { wave.scc = F{}(a, b); }));
  constexpr Execute run_signed = run_compare_short<int32_t, F>, run_unsigned = run_compare_short<uint32_t, F>;
  rows.push_back(custom(k_i32, Unit::scalar, run_signed, run_signed, prepare_short<true>));
  rows.push_back(custom(k_u32, Unit::scalar, run_unsigned, run_unsigned, prepare_short<false>));
}

void add_compares(Rows& rows) {
  add_compare(rows, "s_cmp_eq_i32", "s_cmpk_eq_i32", "s_cmp_eq_u32", "s_cmpk_eq_u32",
              [](auto a, auto b) { return a == b; });
  add_compare(rows, "s_cmp_lg_i32", "s_cmpk_lg_i32", "s_cmp_lg_u32", "s_cmpk_lg_u32",
              [](auto a, auto b) { return a != b; });
  add_compare(rows, "s_cmp_gt_i32", "s_cmpk_gt_i32", "s_cmp_gt_u32", "s_cmpk_gt_u32",
              [](auto a, auto b) { return a > b; });
  add_compare(rows, "s_cmp_ge_i32", "s_cmpk_ge_i32", "s_cmp_ge_u32", "s_cmpk_ge_u32",
              [](auto a, auto b) { return a >= b; });
  add_compare(rows, "s_cmp_lt_i32", "s_cmpk_lt_i32", "s_cmp_lt_u32", "s_cmpk_lt_u32",
              [](auto a, auto b) { return a < b; });
  add_compare(rows, "s_cmp_le_i32", "s_cmpk_le_i32", "s_cmp_le_u32", "s_cmpk_le_u32",
              [](auto a, auto b) { return a <= b; });
  add(rows, {"s_cmp_eq_u64"}, [](Wave& wave, uint64_t a, uint64_t b) { wave.scc = a == b; });
  add(rows, {"s_cmp_lg_u64"}, [](Wave& wave, uint64_t a, uint64_t b) { wave.scc = a != b; });
  add(rows, {"s_bitcmp0_b32"},
      [](Wave& wave, uint32_t a, uint32_t b) { wave.scc = (a >> (b & 31) & 1) == 0; });
  add(rows, {"s_bitcmp1_b32"},
      [](Wave& wave, uint32_t a, uint32_t b) { wave.scc = (a >> (b & 31) & 1) != 0; });
  add(rows, {"s_bitcmp0_b64"},
      [](Wave& wave, uint64_t a, uint32_t b) { wave.scc = (a >> (b & 63) & 1) == 0; });
  add(rows, {"s_bitcmp1_b64"},
      [](Wave& wave, uint64_t a, uint32_t b) { wave.scc = (a >> (b & 63) & 1) != 0; });
}

void run_movk(Wave& wave, const Operation& op) {
  wave.set_scalar(op.destination[0].index, static_cast<uint32_t>(op.immediate));
}
void run_cmovk(Wave& wave, const Operation& op) {
  if (wave.scc) run_movk(wave, op);
}
void run_addk(Wave& wave, const Operation& op) {
  int32_t sum;
  const auto old = static_cast<int32_t>(wave.get_scalar(op.destination[0].index));
  wave.scc = __builtin_add_overflow(old, static_cast<int32_t>(op.immediate), &sum);
  wave.set_scalar(op.destination[0].index, static_cast<uint32_t>(sum));
}
void run_mulk(Wave& wave, const Operation& op) {
  const uint32_t old = wave.get_scalar(op.destination[0].index);
  wave.set_scalar(op.destination[0].index, old * static_cast<uint32_t>(op.immediate));
}

}  // namespace

void add_scalar_alu(Rows& rows) {
  add_arithmetic(rows);
  add_bits(rows);
  add_moves(rows);
  add_exec(rows);
  add_compares(rows);
  rows.push_back(scalar_custom("s_cmov_b32", run_cmov_b32, ValueType::u32, ValueType::u32));
  rows.push_back(scalar_custom("s_cmov_b64", run_cmov_b64, ValueType::u64, ValueType::u64));
  rows.push_back(scalar_custom("s_bitset0_b32", run_bitset<0, 0>, ValueType::u32, ValueType::u32));
  rows.push_back(scalar_custom("s_bitset1_b32", run_bitset<0, 1>, ValueType::u32, ValueType::u32));
  rows.push_back(scalar_custom("s_bitset0_b64", run_bitset<1, 0>, ValueType::u64, ValueType::u32));
  rows.push_back(scalar_custom("s_bitset1_b64", run_bitset<1, 1>, ValueType::u64, ValueType::u32));
  rows.push_back(custom("s_movk_i32", Unit::scalar, run_movk, run_movk, prepare_short<true>));
  rows.push_back(custom("s_cmovk_i32", Unit::scalar, run_cmovk, run_cmovk, prepare_short<true>));
  rows.push_back(custom("s_addk_i32", Unit::scalar, run_addk, run_addk, prepare_short<true>));
  rows.push_back(custom("s_addk_co_i32", Unit::scalar, run_addk, run_addk, prepare_short<true>));
  rows.push_back(custom("s_mulk_i32", Unit::scalar, run_mulk, run_mulk, prepare_short<true>));
}

}  // namespace hipemu::semantics
