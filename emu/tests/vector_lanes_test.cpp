// Instructions that move data between lanes, and registers addressed through M0.
#include <vector>

#include "wave_fixture.h"

namespace hipemu {
namespace {

class BothSizes : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Chips, BothSizes, testing::Values("gfx1100", "gfx90a"));

uint32_t number(int lane) { return 100u + static_cast<uint32_t>(lane); }

TEST_P(BothSizes, ReadsAndWritesOneLane) {
  WaveFixture fixture(GetParam());
  fixture.set_vector<uint32_t>(2, number);
  fixture.set_exec(0x30);
  fixture.execute("v_readlane_b32 s4, v2, 9");  // switched off, and read all the same
  EXPECT_EQ(fixture.wave.scalars[4], 109u);
  fixture.wave.scalars[5] = static_cast<uint32_t>(fixture.size) + 3;  // the number wraps around
  fixture.execute("v_readlane_b32 s4, v2, s5");
  EXPECT_EQ(fixture.wave.scalars[4], 103u);
  fixture.execute("v_readfirstlane_b32 s4, v2");
  EXPECT_EQ(fixture.wave.scalars[4], 104u);
  fixture.set_exec(0);
  fixture.execute("v_readfirstlane_b32 s4, v2");
  EXPECT_EQ(fixture.wave.scalars[4], 100u);
  fixture.execute("v_writelane_b32 v2, s4, 7");
  EXPECT_EQ(fixture.bits(2, 7), 100u);
  EXPECT_EQ(fixture.bits(2, 8), 108u);
}

TEST_P(BothSizes, CountsLanesBelow) {
  WaveFixture fixture(GetParam());
  fixture.set_all<uint32_t>(4, 1000);
  fixture.execute("v_mbcnt_lo_u32_b32 v0, -1, 0");
  fixture.execute("v_mbcnt_hi_u32_b32 v1, -1, v0");
  fixture.wave.scalars[2] = 0x0000ff01;
  fixture.execute("v_mbcnt_lo_u32_b32 v3, s2, v4");
  for (int lane = 0; lane < fixture.size; ++lane)
    EXPECT_EQ(fixture.bits(1, lane), static_cast<uint32_t>(lane)) << lane;
  EXPECT_EQ(fixture.bits(0, fixture.size - 1), fixture.size == 64 ? 32u : 31u);
  EXPECT_EQ(fixture.bits(3, 0), 1000u);
  EXPECT_EQ(fixture.bits(3, 10), 1003u);
  EXPECT_EQ(fixture.bits(3, 31), 1009u);
}

TEST_P(BothSizes, SwapsRegisters) {
  WaveFixture fixture(GetParam());
  fixture.set_vector<uint32_t>(2, number);
  fixture.set_all<uint32_t>(3, 7);
  fixture.set_exec(2);
  fixture.execute("v_swap_b32 v2, v3");
  EXPECT_EQ(fixture.bits(2, 1), 7u);
  EXPECT_EQ(fixture.bits(3, 1), 101u);
  EXPECT_EQ(fixture.bits(2, 2), 102u);
}

TEST(VectorLanes, PermutesRows) {
  WaveFixture fixture("gfx1100");
  fixture.set_vector<uint32_t>(2, number);
  fixture.wave.scalars[4] = 0x76543211;  // lane 0 reads 1, lane 1 reads 1, others as they are
  fixture.wave.scalars[5] = 0x0edcba98;  // lane 15 reads 0
  fixture.execute("v_permlane16_b32 v0, v2, s4, s5");
  EXPECT_EQ(fixture.bits(0, 0), 101u);
  EXPECT_EQ(fixture.bits(0, 5), 105u);
  EXPECT_EQ(fixture.bits(0, 15), 100u);
  EXPECT_EQ(fixture.bits(0, 31), 116u);
  fixture.execute("v_permlanex16_b32 v0, v2, s4, s5");
  EXPECT_EQ(fixture.bits(0, 0), 117u);
  EXPECT_EQ(fixture.bits(0, 31), 100u);
}

TEST(VectorLanes, PermutesWithLanesSwitchedOff) {
  WaveFixture fixture("gfx1100");
  fixture.wave.scalars[4] = 0x76543211;
  fixture.wave.scalars[5] = 0xfedcba98;
  fixture.set_exec(~2u);
  const auto run = [&](const char* text) {
    fixture.set_vector<uint32_t>(2, number);
    fixture.set_all<uint32_t>(0, 5);
    fixture.execute(text);
    return fixture.bits(0, 0);
  };
  EXPECT_EQ(run("v_permlane16_b32 v0, v2, s4, s5"), 5u);
  EXPECT_EQ(run("v_permlane16_b32 v0, v2, s4, s5 op_sel:[0,1]"), 0u);
  EXPECT_EQ(run("v_permlane16_b32 v0, v2, s4, s5 op_sel:[1,0]"), 101u);
}

TEST(VectorLanes, PermutesByVector) {
  WaveFixture fixture("gfx1201");
  fixture.set_vector<uint32_t>(2, number);
  fixture.set_vector<uint32_t>(3, [](int lane) { return static_cast<uint32_t>(15 - lane % 16); });
  fixture.execute("v_permlane16_var_b32 v0, v2, v3");
  EXPECT_EQ(fixture.bits(0, 0), 115u);
  EXPECT_EQ(fixture.bits(0, 17), 130u);
  fixture.execute("v_permlanex16_var_b32 v0, v2, v3");
  EXPECT_EQ(fixture.bits(0, 0), 131u);
}

TEST(VectorLanes, SwapsHalvesOfAWave) {
  WaveFixture fixture("gfx1100", 64);
  fixture.set_vector<uint32_t>(2, number);
  fixture.execute("v_permlane64_b32 v0, v2");
  EXPECT_EQ(fixture.bits(0, 0), 132u);
  EXPECT_EQ(fixture.bits(0, 40), 108u);
}

TEST(VectorLanes, RegistersByM0) {
  WaveFixture fixture("gfx1100");
  for (int row = 10; row < 20; ++row) fixture.set_all<uint32_t>(row, static_cast<uint32_t>(row));
  fixture.wave.scalars[scalar::m0] = 3;
  fixture.execute("v_movrels_b32_e32 v0, v10");
  EXPECT_EQ(fixture.bits(0, 0), 13u);
  fixture.execute("v_movreld_b32_e32 v11, v10");
  EXPECT_EQ(fixture.bits(14, 0), 10u);
  fixture.wave.scalars[scalar::m0] = 2u << 16 | 5;  // destination + 2, source + 5
  fixture.execute("v_movrelsd_2_b32_e32 v10, v10");
  EXPECT_EQ(fixture.bits(12, 0), 15u);
  fixture.execute("v_swaprel_b32 v14, v11");  // v16 and v16: nothing changes
  EXPECT_EQ(fixture.bits(16, 0), 16u);
  fixture.wave.scalars[scalar::m0] = 1000;
  EXPECT_THROW(fixture.execute("v_movrels_b32_e32 v0, v10"), KernelFault);
}

TEST(VectorLanes, Accumulators) {
  WaveFixture fixture("gfx90a");
  fixture.set_vector<uint32_t>(2, number);
  fixture.execute("v_accvgpr_write_b32 a3, v2");
  EXPECT_EQ(fixture.bits(256 + 3, 5), 105u);
  fixture.execute("v_accvgpr_mov_b32 a4, a3");
  fixture.execute("v_accvgpr_read_b32 v0, a4");
  EXPECT_EQ(fixture.bits(0, 63), 163u);
  fixture.execute("v_accvgpr_write_b32 a16, v2");  // a16 is also the name of a modifier of images
  EXPECT_EQ(fixture.bits(256 + 16, 5), 105u);
}

TEST(VectorLanes, Nothing) {
  WaveFixture fixture("gfx1100");
  EXPECT_NO_THROW(fixture.execute("v_nop"));
}

}  // namespace
}  // namespace hipemu
