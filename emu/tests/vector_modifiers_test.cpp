// What may be asked of any operand: data of other lanes (DPP), parts of registers (SDWA, halves), and what
// happens to the rest of the destination.
#include "wave_fixture.h"

namespace hipemu {
namespace {

constexpr uint32_t before = 9999;
uint32_t number(int lane) { return 100u + static_cast<uint32_t>(lane); }

// v2 has 100 + lane, v0 9999. Returns v0 after the instruction.
struct Permutation {
  explicit Permutation(const char* processor, uint64_t exec = ~0ull) : fixture(processor) {
    fixture.set_vector<uint32_t>(2, number);
    fixture.set_all<uint32_t>(0, before);
    fixture.set_exec(exec);
  }
  uint32_t lane(int index) { return fixture.bits(0, index); }
  WaveFixture fixture;
};

TEST(Dpp, WithinQuadsAndRows) {
  Permutation wave("gfx90a");
  wave.fixture.execute("v_mov_b32_dpp v0, v2 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(wave.lane(0), 103u);
  EXPECT_EQ(wave.lane(62), 161u);
  wave.fixture.execute("v_mov_b32_dpp v0, v2 row_ror:1 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(wave.lane(0), 115u);
  EXPECT_EQ(wave.lane(17), 116u);
  wave.fixture.execute("v_mov_b32_dpp v0, v2 row_mirror row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(wave.lane(16), 131u);
  wave.fixture.execute("v_mov_b32_dpp v0, v2 row_half_mirror row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(wave.lane(8), 115u);
  wave.fixture.execute("v_mov_b32_dpp v0, v2 row_newbcast:5 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(wave.lane(40), 137u);
}

TEST(Dpp, ShiftsLeaveOrClearLanesWithoutSource) {
  Permutation kept("gfx90a");
  kept.fixture.execute("v_mov_b32_dpp v0, v2 row_shr:1 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(kept.lane(0), before);
  EXPECT_EQ(kept.lane(1), 100u);
  EXPECT_EQ(kept.lane(16), before);
  Permutation cleared("gfx90a");
  cleared.fixture.execute("v_mov_b32_dpp v0, v2 row_shl:3 row_mask:0xf bank_mask:0xf bound_ctrl:0");
  EXPECT_EQ(cleared.lane(0), 103u);
  EXPECT_EQ(cleared.lane(13), 0u);
  EXPECT_EQ(cleared.lane(16), 119u);
}

TEST(Dpp, Broadcasts) {
  Permutation rows("gfx90a");
  rows.fixture.execute("v_mov_b32_dpp v0, v2 row_bcast:15 row_mask:0xa bank_mask:0xf");
  EXPECT_EQ(rows.lane(0), before);
  EXPECT_EQ(rows.lane(16), 115u);
  EXPECT_EQ(rows.lane(32), before);
  EXPECT_EQ(rows.lane(63), 147u);
  Permutation halves("gfx90a");
  halves.fixture.execute("v_mov_b32_dpp v0, v2 row_bcast:31 row_mask:0xc bank_mask:0xf");
  EXPECT_EQ(halves.lane(31), before);
  EXPECT_EQ(halves.lane(32), 131u);
  EXPECT_EQ(halves.lane(63), 131u);
  Permutation shared("gfx1100");
  shared.fixture.execute("v_mov_b32_dpp v0, v2 row_share:2 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(shared.lane(31), 118u);
  shared.fixture.execute("v_mov_b32_dpp v0, v2 row_xmask:1 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(shared.lane(30), 131u);
  shared.fixture.execute("v_mov_b32_dpp v0, v2 dpp8:[7,6,5,4,3,2,1,0]");
  EXPECT_EQ(shared.lane(8), 115u);
}

TEST(Dpp, MasksOfBanks) {
  Permutation wave("gfx90a");
  wave.fixture.execute("v_mov_b32_dpp v0, v2 quad_perm:[0,1,2,3] row_mask:0x1 bank_mask:0x2");
  EXPECT_EQ(wave.lane(0), before);
  EXPECT_EQ(wave.lane(4), 104u);
  EXPECT_EQ(wave.lane(7), 107u);
  EXPECT_EQ(wave.lane(8), before);
  EXPECT_EQ(wave.lane(20), before);
}

TEST(Dpp, LanesSwitchedOff) {
  Permutation kept("gfx1100", ~1ull);  // lane 1 reads lane 0, which is off
  kept.fixture.execute("v_mov_b32_dpp v0, v2 row_shr:1 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(kept.lane(1), before);
  EXPECT_EQ(kept.lane(2), 101u);
  Permutation cleared("gfx1100", ~1ull);
  cleared.fixture.execute("v_mov_b32_dpp v0, v2 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1");
  EXPECT_EQ(cleared.lane(1), 0u);
  Permutation fetched("gfx1100", ~1ull);
  fetched.fixture.execute("v_mov_b32_dpp v0, v2 row_shr:1 row_mask:0xf bank_mask:0xf fi:1");
  EXPECT_EQ(fetched.lane(1), 100u);
  EXPECT_EQ(fetched.lane(0), before);
}

// All lanes are read before any is written.
TEST(Dpp, InPlace) {
  Permutation wave("gfx1100");
  wave.fixture.execute("v_add_nc_u32_dpp v2, v2, v2 row_shr:1 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(wave.fixture.bits(2, 0), 100u);
  EXPECT_EQ(wave.fixture.bits(2, 1), 201u);
  EXPECT_EQ(wave.fixture.bits(2, 2), 203u);
  EXPECT_EQ(wave.fixture.bits(2, 15), 229u);
}

TEST(Dpp, SignsAndCarries) {
  WaveFixture fixture("gfx1100");
  fixture.set_vector<float>(2, [](int lane) { return static_cast<float>(lane); });
  fixture.set_all<float>(3, -1.0f);
  fixture.execute("v_add_f32_e64_dpp v0, -v2, |v3| quad_perm:[1,1,1,1] row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(fixture.f32(0, 4), -4.0f);
  fixture.set_vector<uint32_t>(2, [](int lane) { return lane == 3 ? 0xffffffffu : 0u; });
  fixture.set_all<uint32_t>(3, 1);
  fixture.execute(
      "v_add_co_ci_u32_dpp v0, vcc_lo, v2, v3, vcc_lo quad_perm:[3,3,3,3] row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(fixture.wave.mask(scalar::vcc), 0xfull);
}

TEST(Dpp, PairsOfRegisters) {
  WaveFixture fixture("gfx942");
  fixture.set_vector<uint64_t>(2, [](int lane) { return static_cast<uint64_t>(lane) << 32 | 7; });
  fixture.execute("v_mov_b64_dpp v[0:1], v[2:3] row_newbcast:3 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(fixture.bits64(0, 20), 19ull << 32 | 7);
}

TEST(Dpp, Compares) {
  Permutation wave("gfx90a");
  wave.fixture.set_all<uint32_t>(3, 100);
  wave.fixture.execute("v_cmp_eq_u32_dpp vcc, v2, v3 row_shr:2 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(wave.fixture.wave.vcc(), 4ull);
}

// LLVM prints comparisons that write VCC or EXEC without the suffix.
TEST(Dpp, ComparesWithoutSuffix) {
  Permutation wave("gfx1100");
  wave.fixture.set_all<uint32_t>(3, 100);
  wave.fixture.execute("v_cmp_eq_u32 vcc_lo, v2, v3 row_shr:2 row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(wave.fixture.wave.mask(scalar::vcc), 4ull);
  wave.fixture.execute("v_cmp_eq_u32 vcc_lo, v2, v3 dpp8:[7,6,5,4,3,2,1,0]");
  EXPECT_EQ(wave.fixture.wave.mask(scalar::vcc), 0x80ull);
  wave.fixture.execute("v_cmpx_eq_u32 v2, v3 quad_perm:[3,2,1,0] row_mask:0xf bank_mask:0xf");
  EXPECT_EQ(wave.fixture.wave.exec(), 8ull);
}

// What is added to is in the half that is written.
TEST(Halves, AccumulatorsInTheUpperOne) {
  for (const char* text : {"v_fmac_f16_e64 v0, v2, v3 op_sel:[0,0,1,1]", "v_fmac_f16_e32 v0.h, v2.l, v3.l"}) {
    WaveFixture fixture("gfx1100");
    fixture.set_all<uint32_t>(0, 0x40003c00);  // 2 and 1
    fixture.set_all<uint32_t>(2, 0x3c00);
    fixture.set_all<uint32_t>(3, 0x3c00);
    fixture.execute(text);
    EXPECT_EQ(fixture.bits(0, 0), 0x42003c00u) << text;
  }
}

TEST(Clamp, IsRefusedWhereItsMeaningIsNotKnown) {
  WaveFixture fixture("gfx1100");
  EXPECT_THROW(fixture.execute("v_mad_u64_u32 v[0:1], null, v2, v3, v[4:5] clamp"), UnknownInstruction);
  EXPECT_NO_THROW(fixture.execute("v_cvt_i32_f32_e64 v0, v2 clamp"));
  EXPECT_NO_THROW(fixture.execute("v_cmp_eq_f32_e64 s0, v2, v3 clamp"));
}

struct SdwaCase {
  const char* text;
  uint32_t a, b, result;  // v0 holds 0x3c3c3c3c before
};
void PrintTo(const SdwaCase& test, std::ostream* out) { *out << test.text; }
class Sdwa : public testing::TestWithParam<SdwaCase> {};
TEST_P(Sdwa, Result) {
  const auto& test = GetParam();
  WaveFixture fixture("gfx90a");
  fixture.set_all<uint32_t>(0, 0x3c3c3c3c);
  fixture.set_all<uint32_t>(2, test.a);
  fixture.set_all<uint32_t>(4, test.b);
  fixture.set_exec(~8ull);
  fixture.execute(test.text);
  EXPECT_EQ(fixture.bits(0, 0), test.result) << std::hex << fixture.bits(0, 0) << " for " << test.result;
  EXPECT_EQ(fixture.bits(0, 3), 0x3c3c3c3cu);
}
INSTANTIATE_TEST_SUITE_P(
    Parts, Sdwa,
    testing::Values(
        SdwaCase{"v_mov_b32_sdwa v0, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_2", 0x44332211, 0,
                 0x33},
        SdwaCase{"v_mov_b32_sdwa v0, sext(v2) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_3",
                 0x84332211, 0, 0xffffff84},
        SdwaCase{"v_mov_b32_sdwa v0, v2 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:WORD_0", 0x44332211, 0,
                 0x22110000},
        SdwaCase{"v_mov_b32_sdwa v0, v2 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_0",
                 0x44332211, 0, 0x22113c3c},
        SdwaCase{"v_mov_b32_sdwa v0, v2 dst_sel:BYTE_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0",
                 0x44332211, 0, 0x3c3c113c},
        SdwaCase{"v_mov_b32_sdwa v0, v2 dst_sel:BYTE_1 dst_unused:UNUSED_SEXT src0_sel:BYTE_0", 0x44332291, 0,
                 0xffff9100},
        SdwaCase{"v_mov_b32_sdwa v0, v2 dst_sel:WORD_0 dst_unused:UNUSED_SEXT src0_sel:WORD_0", 0x44338211, 0,
                 0xffff8211},
        SdwaCase{
            "v_add_u32_sdwa v0, v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_0",
            0x00050000, 0x0607, 12},
        SdwaCase{"v_add_u32_sdwa v0, v2, sext(v4) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD "
                 "src1_sel:WORD_1",
                 5, 0xfffe0000, 3},
        SdwaCase{"v_add_f16_sdwa v0, v2, v4 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 "
                 "src1_sel:WORD_0",
                 0x40000000, 0x3c00, 0x42003c3c},
        SdwaCase{"v_mul_f16_sdwa v0, -v2, |v4| dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 "
                 "src1_sel:WORD_1",
                 0x40000000, 0xc2000000, 0xc600},
        SdwaCase{"v_lshlrev_b32_sdwa v0, v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD "
                 "src1_sel:WORD_0",
                 4, 0xffff0003, 0x30},
        SdwaCase{"v_cvt_f32_f16_sdwa v0, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1", 0x40000000,
                 0, 0x40000000},
        SdwaCase{"v_cvt_f16_f32_sdwa v0, v2 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:DWORD", 0x40000000,
                 0, 0x40000000}));

TEST(SdwaCompares, Parts) {
  WaveFixture fixture("gfx90a");
  fixture.set_vector<uint32_t>(2, [](int lane) { return static_cast<uint32_t>(lane) << 16 | 0xffff; });
  fixture.set_all<uint32_t>(4, 5);
  fixture.execute("v_cmp_lt_u32_sdwa vcc, v2, v4 src0_sel:WORD_1 src1_sel:DWORD");
  EXPECT_EQ(fixture.wave.vcc(), 0x1full);
}

// The half of the register that a 16-bit result does not need: cleared on gfx9 but for a few instructions,
// kept later.
TEST(Halves, TheOtherHalf) {
  const auto result = [](const char* chip, const char* text) {
    WaveFixture fixture(chip);
    fixture.set_all<uint32_t>(0, 0x12345678);
    fixture.set_all<uint32_t>(2, 0x3c004000);
    fixture.execute(text);
    return fixture.bits(0, 1);
  };
  EXPECT_EQ(result("gfx90a", "v_add_f16_e32 v0, v2, v2"), 0x00004400u);
  EXPECT_EQ(result("gfx1100", "v_add_f16_e32 v0, v2, v2"), 0x12344400u);
  EXPECT_EQ(result("gfx90a", "v_fma_f16 v0, v2, v2, v2"), 0x12344600u);
  EXPECT_EQ(result("gfx1030", "v_fma_f16 v0, v2, v2, v2"), 0x12344600u);
  EXPECT_EQ(result("gfx1100", "v_fma_f16 v0, v2, v2, v2 op_sel:[1,0,0,1]"), 0x44005678u);
  EXPECT_EQ(result("gfx90a", "v_fma_f16 v0, v2, v2, v2 op_sel:[1,1,1,0]"), 0x12344000u);
  EXPECT_EQ(result("gfx1100", "v_add_nc_u16 v0, v2, v2 op_sel:[1,1,1]"), 0x78005678u);
  EXPECT_EQ(result("gfx1100", "v_add_f16_e32 v0.h, v2.l, v2.h"), 0x42005678u);
  EXPECT_EQ(result("gfx1100", "v_mov_b16_e32 v0.h, v2.h"), 0x3c005678u);
  EXPECT_EQ(result("gfx1100", "v_mov_b16_e32 v0.l, v2.h"), 0x12343c00u);
  EXPECT_EQ(result("gfx1100", "v_cvt_f32_f16_e32 v0, v2.h"), 0x3f800000u);
  EXPECT_EQ(result("gfx1100", "v_mul_f16_e64 v0, v2, v2 clamp"), 0x12343c00u);
}

TEST(Halves, ScalarsAndConstants) {
  WaveFixture fixture("gfx1100");
  fixture.set_all<uint32_t>(0, 0);
  fixture.set_all<uint32_t>(2, 0x3c00);
  fixture.wave.scalars[4] = 0x40004200;
  fixture.execute("v_add_f16_e32 v0, s4, v2");
  EXPECT_EQ(fixture.bits(0, 1), 0x4400u);
  fixture.execute("v_add_f16_e32 v0, 0.5, v2");
  EXPECT_EQ(fixture.bits(0, 1), 0x3e00u);
  fixture.execute("v_pk_add_f16 v0, s4, v2 op_sel_hi:[1,0]");
  EXPECT_EQ(fixture.bits(0, 1), 0x42004400u);
  fixture.wave.set_scalar64(6, std::bit_cast<uint64_t>(2.5));
  fixture.set_all<double>(2, 1.0);
  fixture.execute("v_add_f64 v[0:1], s[6:7], v[2:3]");
  EXPECT_EQ(fixture.f64(0), 3.5);
}

}  // namespace
}  // namespace hipemu
