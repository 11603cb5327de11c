// WMMA of gfx11 and gfx12, and SWMMAC of gfx12: 16x16 results, a wave of 32 or 64 lanes.
#include "exec/semantics/matrix.h"

namespace hipemu::semantics {
namespace {

// gfx11: every group of 16 lanes holds all of A and B. Copies in the other groups are demanded, not used.
constexpr Shape shape_gfx11(Format input, Format result, int wave) {
  return {.a = input,
          .b = input,
          .result = result,
          .rows = 16,
          .columns = 16,
          .depth = 16,
          .order = RowOrder::wmma_gfx11,
          .wave = wave};
}

// gfx12: the groups of 16 lanes share K out among them, down to one register.
constexpr Shape shape_gfx12(Format a, Format b, Format result, int depth, bool sparse, int wave) {
  const auto groups = [&](Format format, int elements) {
    return std::min(wave / 16, elements * bits_of(format) / 32);
  };
  return {.a = a,
          .b = b,
          .result = result,
          .rows = 16,
          .columns = 16,
          .depth = depth,
          .order = RowOrder::wmma_gfx12,
          .wave = wave,
          .a_groups = groups(a, sparse ? depth / 2 : depth),
          .b_groups = groups(b, depth),
          .sparse = sparse};
}

void check_exec(const Wave& wave) {
  const uint64_t all = wave.lanes == 64 ? ~0ull : 0xffffffffull;
  const uint64_t missing = all & ~wave.exec();
  if (missing == 0) return;
  const int lane = std::countr_zero(missing);
  throw KernelFault{
      Fault::Kind::matrix_layout,
      fmt::format("lane {} is switched off (EXEC is {:#x}): a matrix instruction needs all {} lanes", lane,
                  wave.exec() & all, wave.lanes),
      lane};
}

void check_copies(Wave& wave, uint32_t first, int registers, char operand) {
  for (int r = 0; r < registers; ++r) {
    const uint32_t* row = wave.row(first + r);
    for (int group = 1; group < wave.lanes / 16; ++group) {
      if (std::equal(row, row + 16, row + 16 * group)) continue;
      const int i = static_cast<int>(std::mismatch(row, row + 16, row + 16 * group).first - row),
                lane = 16 * group + i;
      throw KernelFault{
          Fault::Kind::matrix_layout,
          fmt::format("matrix {} differs between lanes: v{} is {:#010x} in lane {} and {:#010x} in lane {} "
                      "(on gfx11 lanes {}-{} must repeat lanes 0-15)",
                      operand, first + r, row[i], i, row[lane], lane, 16 * group, 16 * group + 15),
          lane};
    }
  }
}

template <Shape S>
void run_wmma_gfx11(Wave& wave, const Operation& op) {
  if (checks_matrix(wave)) {
    check_exec(wave);
    check_copies(wave, op.source[0].index, S.a_registers(), 'A');
    check_copies(wave, op.source[1].index, S.b_registers(), 'B');
  }
  run_matrix<S>(wave, op);
}

template <Shape S>
void run_wmma_gfx12(Wave& wave, const Operation& op) {
  if (checks_matrix(wave)) check_exec(wave);
  run_matrix<S>(wave, op);
}

// The text does not say how many lanes the wave has: the number of registers of D does.
template <Shape Wave32, Shape Wave64>
void read_operands_of_either(const Instruction& instruction, const Chip& chip, Operation& op) {
  if (!instruction.operands.empty() && instruction.operands[0].count == Wave64.result_registers())
    read_matrix_operands<Wave64>(instruction, chip, op);
  else
    read_matrix_operands<Wave32>(instruction, chip, op);
  op.negate_low = bits_from_list(instruction.list("neg_lo"));
  op.negate_high = bits_from_list(instruction.list("neg_hi"));
  op.clamp = instruction.has("clamp");
}

template <Shape Wave32, Shape Wave64>
void prepare_gfx11(const Instruction& instruction, const Chip& chip, Operation& op) {
  read_operands_of_either<Wave32, Wave64>(instruction, chip, op);
  const uint8_t select = bits_from_list(instruction.list("op_sel"));
  if ((select & 3) != 0 || (select != 0 && bits_of(Wave32.result) != 16))
    throw std::invalid_argument(
        "op_sel can choose the half of C and D only, and only when they have 16 bits");
  op.flags = static_cast<uint32_t>(select >> 2 & 1) << 16;
}

template <Shape Wave32, Shape Wave64>
void prepare_gfx12(const Instruction& instruction, const Chip& chip, Operation& op) {
  if (chip.generation != Generation::gfx12)
    throw std::invalid_argument(fmt::format("{} has no such instruction", chip.processor));
  read_operands_of_either<Wave32, Wave64>(instruction, chip, op);
  op.flags = MatrixFlags::gfx12 | static_cast<uint32_t>(instruction.number("index_key", 0) & 3) << 12;
  if (Wave32.sparse) {  // the place of C's modifiers belongs to the index
    op.negate_low &= 3;
    op.negate_high &= 3;
  }
}

template <Format A, Format B, Format R, int Depth, bool Sparse>
Semantics on_gfx12(std::string_view name) {
  constexpr Shape wave32 = shape_gfx12(A, B, R, Depth, Sparse, 32),
                  wave64 = shape_gfx12(A, B, R, Depth, Sparse, 64);
  return custom(name, Unit::matrix, run_wmma_gfx12<wave32>, run_wmma_gfx12<wave64>,
                prepare_gfx12<wave32, wave64>);
}

// Instructions that both have, under one name and with different layouts.
template <Shape Gfx11, Shape Gfx12>
void run_either(Wave& wave, const Operation& op) {
  if ((op.flags & MatrixFlags::gfx12) != 0)
    run_wmma_gfx12<Gfx12>(wave, op);
  else
    run_wmma_gfx11<Gfx11>(wave, op);
}

template <Format Input, Format R>
void prepare_either(const Instruction& instruction, const Chip& chip, Operation& op) {
  if (!chip.has_wmma) throw std::invalid_argument(fmt::format("{} has no such instruction", chip.processor));
  if (chip.generation == Generation::gfx12)
    prepare_gfx12<shape_gfx12(Input, Input, R, 16, false, 32), shape_gfx12(Input, Input, R, 16, false, 64)>(
        instruction, chip, op);
  else
    prepare_gfx11<shape_gfx11(Input, R, 32), shape_gfx11(Input, R, 64)>(instruction, chip, op);
}

template <Format Input, Format R>
Semantics on_both(std::string_view name) {
  return custom(name, Unit::matrix,
                run_either<shape_gfx11(Input, R, 32), shape_gfx12(Input, Input, R, 16, false, 32)>,
                run_either<shape_gfx11(Input, R, 64), shape_gfx12(Input, Input, R, 16, false, 64)>,
                prepare_either<Input, R>);
}

}  // namespace

void add_wmma(Rows& rows) {
  using enum Format;
  rows.push_back(on_both<f16, f32>("v_wmma_f32_16x16x16_f16"));
  rows.push_back(on_both<bf16, f32>("v_wmma_f32_16x16x16_bf16"));
  rows.push_back(on_both<f16, f16>("v_wmma_f16_16x16x16_f16"));
  rows.push_back(on_both<bf16, bf16>("v_wmma_bf16_16x16x16_bf16"));
  rows.push_back(on_both<iu8, i32>("v_wmma_i32_16x16x16_iu8"));
  rows.push_back(on_both<iu4, i32>("v_wmma_i32_16x16x16_iu4"));

  rows.push_back(on_gfx12<iu4, iu4, i32, 32, false>("v_wmma_i32_16x16x32_iu4"));
  rows.push_back(on_gfx12<fp8, fp8, f32, 16, false>("v_wmma_f32_16x16x16_fp8_fp8"));
  rows.push_back(on_gfx12<fp8, bf8, f32, 16, false>("v_wmma_f32_16x16x16_fp8_bf8"));
  rows.push_back(on_gfx12<bf8, fp8, f32, 16, false>("v_wmma_f32_16x16x16_bf8_fp8"));
  rows.push_back(on_gfx12<bf8, bf8, f32, 16, false>("v_wmma_f32_16x16x16_bf8_bf8"));

  rows.push_back(on_gfx12<f16, f16, f32, 32, true>("v_swmmac_f32_16x16x32_f16"));
  rows.push_back(on_gfx12<bf16, bf16, f32, 32, true>("v_swmmac_f32_16x16x32_bf16"));
  rows.push_back(on_gfx12<f16, f16, f16, 32, true>("v_swmmac_f16_16x16x32_f16"));
  rows.push_back(on_gfx12<bf16, bf16, bf16, 32, true>("v_swmmac_bf16_16x16x32_bf16"));
  rows.push_back(on_gfx12<iu8, iu8, i32, 32, true>("v_swmmac_i32_16x16x32_iu8"));
  rows.push_back(on_gfx12<iu4, iu4, i32, 32, true>("v_swmmac_i32_16x16x32_iu4"));
  rows.push_back(on_gfx12<iu4, iu4, i32, 64, true>("v_swmmac_i32_16x16x64_iu4"));
  rows.push_back(on_gfx12<fp8, fp8, f32, 32, true>("v_swmmac_f32_16x16x32_fp8_fp8"));
  rows.push_back(on_gfx12<fp8, bf8, f32, 32, true>("v_swmmac_f32_16x16x32_fp8_bf8"));
  rows.push_back(on_gfx12<bf8, fp8, f32, 32, true>("v_swmmac_f32_16x16x32_bf8_fp8"));
  rows.push_back(on_gfx12<bf8, bf8, f32, 32, true>("v_swmmac_f32_16x16x32_bf8_bf8"));
}

}  // namespace hipemu::semantics
