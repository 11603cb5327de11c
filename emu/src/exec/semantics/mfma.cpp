// MFMA of gfx90a and gfx942, and SMFMAC (sparse A) of gfx942. They ignore EXEC: all lanes take part, always.
#include "exec/semantics/matrix.h"

namespace hipemu::semantics {
namespace {

// The rows of A and columns of B of every block fill the lanes; what lanes are left hold more of K.
constexpr Shape shape_mfma(Format a, Format b, Format result, int rows, int depth, int blocks, bool sparse) {
  const int groups = 64 / (rows * blocks);
  return {.a = a,
          .b = b,
          .result = result,
          .rows = rows,
          .columns = rows,
          .depth = depth,
          .blocks = blocks,
          .order = RowOrder::mfma,
          .wave = 64,
          .a_groups = groups,
          .b_groups = groups,
          .sparse = sparse};
}

// blgp of f64 is printed as neg on gfx942; gfx90a has neither. gfx942 permutes the lanes of B for f32 and for
// instructions with blocks only.
void read_lane_pattern(const Instruction& instruction, const Chip& chip, const Shape& shape, Operation& op) {
  const int64_t pattern = instruction.number("blgp", 0);
  const bool has_blocks_or_f32 = shape.blocks > 1 || shape.a == Format::f32;
  const bool permutes = shape.a != Format::f64 && !shape.sparse && (!chip.fp8_is_fnuz || has_blocks_or_f32);
  if (pattern < 0 || pattern > 7 || (pattern != 0 && !permutes))
    throw std::invalid_argument(fmt::format("blgp:{} has no meaning here on {}", pattern, chip.processor));
  op.flags |= static_cast<uint32_t>(pattern) << 8;
  if (shape.a == Format::f64) op.negate_low = bits_from_list(instruction.list("neg"));
}

// Dense: blocks of A to broadcast. Sparse: which of the index sets in the register, when cbsz is 0.
void read_broadcast(const Instruction& instruction, const Shape& shape, Operation& op) {
  const int64_t size = instruction.number("cbsz", 0), block = instruction.number("abid", 0);
  if (shape.sparse) {
    const int sets = 32 / (2 * shape.a_elements());
    if (size == 0) op.flags |= static_cast<uint32_t>(block & (sets - 1)) << 12;
    return;
  }
  if (size < 0 || size > 4 || 1 << size > shape.blocks)
    throw std::invalid_argument(
        fmt::format("cbsz:{} broadcasts to more blocks than the {} there are", size, shape.blocks));
  if (block < 0 || (block != 0 && block >= 1 << size))
    throw std::invalid_argument(
        fmt::format("abid:{} is not among the {} blocks of a broadcast", block, 1 << size));
  op.flags |= static_cast<uint32_t>(size) | static_cast<uint32_t>(block) << 4;
}

template <Shape S>
void prepare_mfma(const Instruction& instruction, const Chip& chip, Operation& op) {
  if (!chip.has_mfma) throw std::invalid_argument(fmt::format("{} has no such instruction", chip.processor));
  read_matrix_operands<S>(instruction, chip, op);
  read_broadcast(instruction, S, op);
  read_lane_pattern(instruction, chip, S, op);
  // On gfx90a alone, f16 and bf16 see and make no denormals, whatever MODE says.
  if (chip.processor == "gfx90a" && (S.a == Format::f16 || S.a == Format::bf16))
    op.flags |= MatrixFlags::flush_denormals;
}

template <Format A, Format B, Format R, int Rows, int Depth, int Blocks = 1, bool Sparse = false>
Semantics mfma(std::string_view name) {
  constexpr Shape shape = shape_mfma(A, B, R, Rows, Depth, Blocks, Sparse);
  return custom(name, Unit::matrix, nullptr, run_matrix<shape>, prepare_mfma<shape>);
}
template <Format A, Format B, Format R, int Rows, int Depth>
Semantics smfmac(std::string_view name) {
  return mfma<A, B, R, Rows, Depth, 1, true>(name);
}

}  // namespace

void add_mfma(Rows& rows) {
  using enum Format;
  // Names as gfx90a and as gfx942 has them.
  const auto add = [&](const Semantics& row, std::string_view other_name) {
    rows.push_back(row);
    rows.push_back(row);
    rows.back().name = other_name;
  };
  add(mfma<f64, f64, f64, 16, 4>("v_mfma_f64_16x16x4f64"), "v_mfma_f64_16x16x4_f64");
  add(mfma<f64, f64, f64, 4, 4, 4>("v_mfma_f64_4x4x4f64"), "v_mfma_f64_4x4x4_4b_f64");

  add(mfma<f32, f32, f32, 32, 1, 2>("v_mfma_f32_32x32x1f32"), "v_mfma_f32_32x32x1_2b_f32");
  add(mfma<f32, f32, f32, 16, 1, 4>("v_mfma_f32_16x16x1f32"), "v_mfma_f32_16x16x1_4b_f32");
  add(mfma<f32, f32, f32, 4, 1, 16>("v_mfma_f32_4x4x1f32"), "v_mfma_f32_4x4x1_16b_f32");
  add(mfma<f32, f32, f32, 32, 2>("v_mfma_f32_32x32x2f32"), "v_mfma_f32_32x32x2_f32");
  add(mfma<f32, f32, f32, 16, 4>("v_mfma_f32_16x16x4f32"), "v_mfma_f32_16x16x4_f32");

  add(mfma<f16, f16, f32, 32, 4, 2>("v_mfma_f32_32x32x4f16"), "v_mfma_f32_32x32x4_2b_f16");
  add(mfma<f16, f16, f32, 16, 4, 4>("v_mfma_f32_16x16x4f16"), "v_mfma_f32_16x16x4_4b_f16");
  add(mfma<f16, f16, f32, 4, 4, 16>("v_mfma_f32_4x4x4f16"), "v_mfma_f32_4x4x4_16b_f16");
  add(mfma<f16, f16, f32, 32, 8>("v_mfma_f32_32x32x8f16"), "v_mfma_f32_32x32x8_f16");
  add(mfma<f16, f16, f32, 16, 16>("v_mfma_f32_16x16x16f16"), "v_mfma_f32_16x16x16_f16");

  add(mfma<bf16, bf16, f32, 32, 4, 2>("v_mfma_f32_32x32x4bf16_1k"), "v_mfma_f32_32x32x4_2b_bf16");
  add(mfma<bf16, bf16, f32, 16, 4, 4>("v_mfma_f32_16x16x4bf16_1k"), "v_mfma_f32_16x16x4_4b_bf16");
  add(mfma<bf16, bf16, f32, 4, 4, 16>("v_mfma_f32_4x4x4bf16_1k"), "v_mfma_f32_4x4x4_16b_bf16");
  add(mfma<bf16, bf16, f32, 32, 8>("v_mfma_f32_32x32x8bf16_1k"), "v_mfma_f32_32x32x8_bf16");
  add(mfma<bf16, bf16, f32, 16, 16>("v_mfma_f32_16x16x16bf16_1k"), "v_mfma_f32_16x16x16_bf16");

  add(mfma<iu8, iu8, i32, 32, 4, 2>("v_mfma_i32_32x32x4i8"), "v_mfma_i32_32x32x4_2b_i8");
  add(mfma<iu8, iu8, i32, 16, 4, 4>("v_mfma_i32_16x16x4i8"), "v_mfma_i32_16x16x4_4b_i8");
  add(mfma<iu8, iu8, i32, 4, 4, 16>("v_mfma_i32_4x4x4i8"), "v_mfma_i32_4x4x4_16b_i8");

  // gfx90a only.
  rows.push_back(mfma<bf16, bf16, f32, 32, 2, 2>("v_mfma_f32_32x32x2bf16"));
  rows.push_back(mfma<bf16, bf16, f32, 16, 2, 4>("v_mfma_f32_16x16x2bf16"));
  rows.push_back(mfma<bf16, bf16, f32, 4, 2, 16>("v_mfma_f32_4x4x2bf16"));
  rows.push_back(mfma<bf16, bf16, f32, 32, 4>("v_mfma_f32_32x32x4bf16"));
  rows.push_back(mfma<bf16, bf16, f32, 16, 8>("v_mfma_f32_16x16x8bf16"));
  rows.push_back(mfma<iu8, iu8, i32, 32, 8>("v_mfma_i32_32x32x8i8"));
  rows.push_back(mfma<iu8, iu8, i32, 16, 16>("v_mfma_i32_16x16x16i8"));

  // gfx942 only.
  rows.push_back(mfma<iu8, iu8, i32, 32, 16>("v_mfma_i32_32x32x16_i8"));
  rows.push_back(mfma<iu8, iu8, i32, 16, 32>("v_mfma_i32_16x16x32_i8"));
  rows.push_back(mfma<xf32, xf32, f32, 32, 4>("v_mfma_f32_32x32x4_xf32"));
  rows.push_back(mfma<xf32, xf32, f32, 16, 8>("v_mfma_f32_16x16x8_xf32"));
  rows.push_back(mfma<bf8_fnuz, bf8_fnuz, f32, 32, 16>("v_mfma_f32_32x32x16_bf8_bf8"));
  rows.push_back(mfma<bf8_fnuz, fp8_fnuz, f32, 32, 16>("v_mfma_f32_32x32x16_bf8_fp8"));
  rows.push_back(mfma<fp8_fnuz, bf8_fnuz, f32, 32, 16>("v_mfma_f32_32x32x16_fp8_bf8"));
  rows.push_back(mfma<fp8_fnuz, fp8_fnuz, f32, 32, 16>("v_mfma_f32_32x32x16_fp8_fp8"));
  rows.push_back(mfma<bf8_fnuz, bf8_fnuz, f32, 16, 32>("v_mfma_f32_16x16x32_bf8_bf8"));
  rows.push_back(mfma<bf8_fnuz, fp8_fnuz, f32, 16, 32>("v_mfma_f32_16x16x32_bf8_fp8"));
  rows.push_back(mfma<fp8_fnuz, bf8_fnuz, f32, 16, 32>("v_mfma_f32_16x16x32_fp8_bf8"));
  rows.push_back(mfma<fp8_fnuz, fp8_fnuz, f32, 16, 32>("v_mfma_f32_16x16x32_fp8_fp8"));

  rows.push_back(smfmac<f16, f16, f32, 32, 16>("v_smfmac_f32_32x32x16_f16"));
  rows.push_back(smfmac<f16, f16, f32, 16, 32>("v_smfmac_f32_16x16x32_f16"));
  rows.push_back(smfmac<bf16, bf16, f32, 32, 16>("v_smfmac_f32_32x32x16_bf16"));
  rows.push_back(smfmac<bf16, bf16, f32, 16, 32>("v_smfmac_f32_16x16x32_bf16"));
  rows.push_back(smfmac<iu8, iu8, i32, 32, 32>("v_smfmac_i32_32x32x32_i8"));
  rows.push_back(smfmac<iu8, iu8, i32, 16, 64>("v_smfmac_i32_16x16x64_i8"));
  rows.push_back(smfmac<bf8_fnuz, bf8_fnuz, f32, 32, 32>("v_smfmac_f32_32x32x32_bf8_bf8"));
  rows.push_back(smfmac<bf8_fnuz, fp8_fnuz, f32, 32, 32>("v_smfmac_f32_32x32x32_bf8_fp8"));
  rows.push_back(smfmac<fp8_fnuz, bf8_fnuz, f32, 32, 32>("v_smfmac_f32_32x32x32_fp8_bf8"));
  rows.push_back(smfmac<fp8_fnuz, fp8_fnuz, f32, 32, 32>("v_smfmac_f32_32x32x32_fp8_fp8"));
  rows.push_back(smfmac<bf8_fnuz, bf8_fnuz, f32, 16, 64>("v_smfmac_f32_16x16x64_bf8_bf8"));
  rows.push_back(smfmac<bf8_fnuz, fp8_fnuz, f32, 16, 64>("v_smfmac_f32_16x16x64_bf8_fp8"));
  rows.push_back(smfmac<fp8_fnuz, bf8_fnuz, f32, 16, 64>("v_smfmac_f32_16x16x64_fp8_bf8"));
  rows.push_back(smfmac<fp8_fnuz, fp8_fnuz, f32, 16, 64>("v_smfmac_f32_16x16x64_fp8_fp8"));
}

}  // namespace hipemu::semantics
