// Multiply-add with each operand f32 or one half of a register (v_fma_mix_f32 and its forms with an f16
// result).
#include "exec/semantics/float_functions.h"
#include "exec/semantics/float_mode.h"

namespace hipemu::semantics {
namespace {

// op_sel_hi says that a source is f16, op_sel which half. Unlike for packed instructions both are 0 when not
// printed.
void read_mixed(const Instruction& instruction, const Chip&, Operation& op) {
  const auto select = instruction.list("op_sel"), is_half = instruction.list("op_sel_hi");
  op.destination_part = Part::dword;
  op.select_high = 0;
  for (std::size_t k = 0; k < 3; ++k) {
    Source& source = op.source[k];
    source.part = Part::dword;
    if (k >= is_half.size() || is_half[k] == 0) continue;
    op.select_high |= static_cast<uint8_t>(1u << k);
    if (source.from == From::constant)
      source.bits = float_to_half(std::bit_cast<float>(static_cast<uint32_t>(source.bits)));
    else
      source.part = k < select.size() && select[k] != 0 ? Part::high_word : Part::low_word;
  }
  op.plain = false;
}
void read_mixed_low(const Instruction& instruction, const Chip& chip, Operation& op) {
  read_mixed(instruction, chip, op);
  op.keep_mask = 0xffff0000u;
}
void read_mixed_high(const Instruction& instruction, const Chip& chip, Operation& op) {
  read_mixed(instruction, chip, op);
  op.destination_part = Part::high_word;
}

// Subnormal numbers are flushed with the current FloatMode, where it is not the usual one.
template <int W, bool Flushes>
void read_floats(Wave& wave, const Operation& op, int k, Lanes<W>& lanes, Reading& reading) {
  const bool half = (op.select_high >> k) & 1;
  read_modified<W>(wave, op, k, half ? ValueType::f16 : ValueType::f32, lanes.lane, nullptr, reading);
  for (int i = 0; i < W; ++i) {
    const auto low = Half16::from_bits(static_cast<uint16_t>(lanes.lane[i]));
    const auto whole = std::bit_cast<float>(lanes.lane[i]);
    if constexpr (Flushes)
      lanes.lane[i] = std::bit_cast<uint32_t>(half ? static_cast<float>(flushed(low)) : flushed(whole));
    else
      lanes.lane[i] = std::bit_cast<uint32_t>(half ? static_cast<float>(low) : whole);
  }
}

template <int W, class Result, bool Flushes>
void compute_mixed(Wave& wave, const Operation& op) {
  Reading reading{wave.exec()};
  Lanes<W> a, b, c, result, unused;
  read_floats<W, Flushes>(wave, op, 0, a, reading);
  read_floats<W, Flushes>(wave, op, 1, b, reading);
  read_floats<W, Flushes>(wave, op, 2, c, reading);
  const auto value = [](const Lanes<W>& lanes, int i) { return std::bit_cast<float>(lanes.lane[i]); };
  const auto finished = [](auto number) {
    if constexpr (Flushes)
      return flushed(number);
    else
      return number;
  };
  const auto rounding = static_cast<Rounding>(wave.mode >> 2 & 3);
  for (int i = 0; i < W; ++i) {
    if constexpr (std::is_same_v<Result, float>)
      result.lane[i] = low_dword(finished(std::fma(value(a, i), value(b, i), value(c, i))));
    else
      result.lane[i] = low_dword(finished(Half16::from_bits(
          round_to_half(to_odd_float(fma_to_odd(value(a, i), value(b, i), value(c, i))), rounding))));
  }
  write_result<W, Result>(wave, op, result, unused, reading.write_mask);
}

template <int W, class Result>
void run_mixed(Wave& wave, const Operation& op) {
  if ((wave.mode & 0xff) == usual_mode) [[likely]] {
    compute_mixed<W, Result, false>(wave, op);
  } else {
    const ModeScope<Result> scope(wave.mode);
    compute_mixed<W, Result, true>(wave, op);
  }
}

}  // namespace

void add_vector_mixed(Rows& rows) {
  Semantics row = vector_alu("", [](float a, float b, float c) { return a + b + c; });
  row.wave32 = run_mixed<32, float>;
  row.wave64 = run_mixed<64, float>;
  row.refine = read_mixed;
  add_named(rows, {"v_fma_mix_f32", "v_mad_mix_f32"}, row);
  row = vector_alu("", [](float, float, float) { return Half16(); });
  row.wave32 = run_mixed<32, Half16>;
  row.wave64 = run_mixed<64, Half16>;
  row.refine = read_mixed_low;
  add_named(rows, {"v_fma_mixlo_f16", "v_mad_mixlo_f16"}, row);
  row.refine = read_mixed_high;
  add_named(rows, {"v_fma_mixhi_f16", "v_mad_mixhi_f16"}, row);
}

}  // namespace hipemu::semantics
