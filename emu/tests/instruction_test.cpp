// Taking assembler text apart, in the forms that LLVM prints.
#include "isa/instruction.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace hipemu {
namespace {

using Kind = TextOperand::Kind;

TEST(Instruction, PlainRegistersAndSuffix) {
  const auto i = parse_instruction("v_add_f32_e32 v1, s2, v[3:4]");
  EXPECT_EQ(i.mnemonic, "v_add_f32");
  EXPECT_EQ(i.encoding, Encoding::e32);
  ASSERT_EQ(i.operands.size(), 3u);
  EXPECT_EQ(i.operands[0].kind, Kind::vector);
  EXPECT_EQ(i.operands[0].index, 1);
  EXPECT_EQ(i.operands[1].kind, Kind::scalar);
  EXPECT_EQ(i.operands[1].index, 2);
  EXPECT_EQ(i.operands[2].index, 3);
  EXPECT_EQ(i.operands[2].count, 2);
}

TEST(Instruction, ModifiersOfOperands) {
  const auto i = parse_instruction("v_fma_f32 v6, -v4, |v5|, -|s7| clamp mul:2");
  ASSERT_EQ(i.operands.size(), 4u);
  EXPECT_TRUE(i.operands[1].negate && !i.operands[1].absolute);
  EXPECT_TRUE(!i.operands[2].negate && i.operands[2].absolute);
  EXPECT_TRUE(i.operands[3].negate && i.operands[3].absolute);
  EXPECT_EQ(i.operands[3].kind, Kind::scalar);
  EXPECT_TRUE(i.has("clamp"));
  EXPECT_EQ(i.number("mul", 0), 2);
}

TEST(Instruction, Constants) {
  const auto i = parse_instruction("v_add3_u32 v0, 64, 0xdeadbeef, -16");
  EXPECT_EQ(i.operands[1].kind, Kind::integer);
  EXPECT_EQ(i.operands[1].integer, 64);
  EXPECT_EQ(i.operands[2].kind, Kind::literal);
  EXPECT_EQ(i.operands[2].integer, 0xdeadbeef);
  EXPECT_EQ(i.operands[3].integer, -16);
  const auto f = parse_instruction("v_mul_f32_e64 v0, -0.5, 0.15915494");
  EXPECT_EQ(f.operands[1].kind, Kind::floating);
  EXPECT_EQ(f.operands[1].floating, -0.5);
  EXPECT_NEAR(f.operands[2].floating, 0.15915494, 1e-12);
}

TEST(Instruction, NamedRegisters) {
  const auto i = parse_instruction("v_add_co_ci_u32_e32 v3, vcc_lo, s5, v1, vcc_lo");
  EXPECT_EQ(i.operands[1].index, scalar::vcc);
  EXPECT_EQ(i.operands[1].count, 1);
  EXPECT_EQ(parse_instruction("s_mov_b64 exec, s[0:1]").operands[0].count, 2);
  EXPECT_EQ(parse_instruction("s_mov_b64 s[0:1], src_shared_base").operands[1].index, scalar::shared_base);
  EXPECT_EQ(parse_instruction("s_mov_b32 s0, ttmp9").operands[1].index, scalar::ttmp + 9);
  EXPECT_EQ(parse_instruction("s_load_b32 s0, s[0:1], null").operands[2].index, scalar::null);
  EXPECT_EQ(parse_instruction("v_accvgpr_read_b32 v0, a3").operands[1].index, 256 + 3);
}

TEST(Instruction, MemoryForms) {
  const auto load = parse_instruction("global_load_dwordx4 v[0:3], v4, s[2:3] offset:-16 glc slc");
  ASSERT_EQ(load.operands.size(), 3u);
  EXPECT_EQ(load.number("offset", 0), -16);
  EXPECT_TRUE(load.has("glc") && load.has("slc") && !load.has("dlc"));
  const auto store = parse_instruction("buffer_store_dword v0, off, s[0:3], s33 offset:4");
  EXPECT_EQ(store.operands[1].kind, Kind::off);
  EXPECT_EQ(store.operands[3].index, 33);
  const auto wide = parse_instruction("ds_load_2addr_b32 v[0:1], v2 offset0:1 offset1:65");
  EXPECT_EQ(wide.number("offset1", 0), 65);
  const auto scoped = parse_instruction("global_store_b32 v0, v1, s[0:1] th:TH_STORE_NT scope:SCOPE_SYS");
  EXPECT_EQ(*scoped.find("scope"), "SCOPE_SYS");
  const auto write_back = parse_instruction("buffer_wbl2 sc1");
  EXPECT_TRUE(write_back.operands.empty());
  EXPECT_TRUE(write_back.has("sc1"));
  const auto swizzle = parse_instruction("ds_swizzle_b32 v0, v1 offset:swizzle(BITMASK_PERM,\"00p11\")");
  EXPECT_EQ(*swizzle.find("offset"), "swizzle(BITMASK_PERM,\"00p11\")");
}

TEST(Instruction, DppAndSdwa) {
  const auto dpp = parse_instruction(
      "v_add_f32_dpp v1, v2, v3 quad_perm:[1,0,3,2] row_mask:0xa bank_mask:0xf bound_ctrl:1");
  EXPECT_EQ(dpp.encoding, Encoding::dpp);
  EXPECT_EQ(dpp.list("quad_perm"), (std::vector<int>{1, 0, 3, 2}));
  EXPECT_EQ(dpp.number("row_mask", 0), 0xa);
  EXPECT_TRUE(dpp.has("bound_ctrl"));
  EXPECT_EQ(parse_instruction("v_mov_b32_e64_dpp v0, v1 row_shr:1").encoding, Encoding::e64_dpp);
  const auto sdwa = parse_instruction(
      "v_mul_f16_sdwa v2, v2, sext(v3) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:WORD_1");
  EXPECT_EQ(sdwa.encoding, Encoding::sdwa);
  EXPECT_TRUE(sdwa.operands[2].sign_extend);
  EXPECT_EQ(*sdwa.find("src1_sel"), "WORD_1");
}

TEST(Instruction, DualIssue) {
  const auto i = parse_instruction("v_dual_mov_b32 v40, v0 :: v_dual_fmaak_f32 v41, v1, v2, 0x40490fdb");
  EXPECT_EQ(i.mnemonic, "v_dual_mov_b32");
  ASSERT_EQ(i.second.size(), 1u);
  EXPECT_EQ(i.second[0].mnemonic, "v_dual_fmaak_f32");
  EXPECT_EQ(i.second[0].operands[3].integer, 0x40490fdb);
}

TEST(Instruction, HalvesOfRegisters) {
  const auto i = parse_instruction("v_add_f16_e32 v0.l, v1.h, v2");
  EXPECT_EQ(i.operands[0].half, Half::low);
  EXPECT_EQ(i.operands[1].half, Half::high);
  EXPECT_EQ(i.operands[2].half, Half::whole);
}

TEST(Instruction, HintsAreNotTakenApart) {
  EXPECT_TRUE(parse_instruction("s_waitcnt vmcnt(0) lgkmcnt(0)").operands.empty());
  EXPECT_TRUE(parse_instruction("s_delay_alu instid0(SALU_CYCLE_1) | instskip(NEXT)").operands.empty());
}

// As printed by LLVM 19: s[99:100] and v18's upper half are what the bits say.
TEST(Instruction, EncodingsThatDoNotExistAreRefused) {
  EXPECT_THROW(
      parse_instruction("s_andn2_b64 s[98:99], 7, s[68:69] ; Warning: SGPR_64: scalar reg isn't aligned 99"),
      std::invalid_argument);
  EXPECT_THROW(
      parse_instruction(
          "v_add_f16_e32 v1, v146/*Invalid register, operand has 'VS_32_Lo128' register class*/, v2"),
      std::invalid_argument);
}

TEST(Instruction, NonsenseIsRefused) {
  EXPECT_THROW(parse_instruction("v_x v0 op_sel:[a]").list("op_sel"), std::invalid_argument);
  EXPECT_THROW(parse_instruction("v_x v0 offset:zz").number("offset", 0), std::invalid_argument);
  EXPECT_EQ(parse_instruction("v_x v[9:3]").operands[0].kind, Kind::name);
  EXPECT_EQ(parse_instruction("v_x v9999").operands[0].kind, Kind::name);
}

}  // namespace
}  // namespace hipemu
