// Scalar instructions one by one, against values worked out by hand.
#include <gtest/gtest.h>

#include "exec/dispatch.h"
#include "wave_fixture.h"

namespace hipemu {
namespace {

struct Case {
  const char* text;  // s0 is the result, s2 and s4 the sources (pairs where 64 bits wide)
  uint64_t a, b;
  bool scc_before;
  uint64_t result;
  bool scc_after;
};

// How a failing case is named.
void PrintTo(const Case& test, std::ostream* out) { *out << test.text; }

class ScalarAlu : public testing::TestWithParam<Case> {};

TEST_P(ScalarAlu, Result) {
  const Case& test = GetParam();
  WaveFixture fixture("gfx90a");
  fixture.wave.set_scalar64(0, 0x1111111122222222ull);
  fixture.wave.set_scalar64(2, test.a);
  fixture.wave.set_scalar64(4, test.b);
  fixture.wave.scc = test.scc_before;
  fixture.execute(test.text);
  const std::string_view text = test.text;
  const bool wide = text.find("s[0:1]") != std::string_view::npos;
  EXPECT_EQ(wide ? fixture.wave.wide(0) : fixture.wave.scalars[0], test.result) << test.text;
  EXPECT_EQ(fixture.wave.scc, test.scc_after) << test.text;
}

constexpr uint64_t keep = 0x22222222;  // s0 as it was
constexpr uint64_t keep64 = 0x1111111122222222ull;

INSTANTIATE_TEST_SUITE_P(
    Arithmetic, ScalarAlu,
    testing::Values(Case{"s_add_u32 s0, s2, s4", 0xffffffff, 1, false, 0, true},
                    Case{"s_add_u32 s0, s2, s4", 5, 6, true, 11, false},
                    Case{"s_add_co_u32 s0, s2, s4", 0x80000000, 0x80000000, false, 0, true},
                    Case{"s_sub_u32 s0, s2, s4", 3, 5, false, 0xfffffffe, true},
                    Case{"s_sub_u32 s0, s2, s4", 5, 5, true, 0, false},
                    Case{"s_add_i32 s0, s2, s4", 0x7fffffff, 1, false, 0x80000000, true},
                    Case{"s_add_i32 s0, s2, s4", 0xffffffff, 1, false, 0, false},
                    Case{"s_sub_i32 s0, s2, s4", 0x80000000, 1, false, 0x7fffffff, true},
                    Case{"s_addc_u32 s0, s2, s4", 0xfffffffe, 1, true, 0, true},
                    Case{"s_addc_u32 s0, s2, s4", 1, 1, false, 2, false},
                    Case{"s_subb_u32 s0, s2, s4", 0, 0, true, 0xffffffff, true},
                    Case{"s_subb_u32 s0, s2, s4", 9, 4, true, 4, false},
                    Case{"s_subb_u32 s0, s2, s4", 5, 0xffffffff, true, 5, true},
                    Case{"s_add_nc_u64 s[0:1], s[2:3], s[4:5]", 0xffffffffull, 1, true, 0x100000000ull, true},
                    Case{"s_sub_nc_u64 s[0:1], s[2:3], s[4:5]", 0x100000000ull, 1, false, 0xffffffffull,
                         false},
                    Case{"s_mul_u64 s[0:1], s[2:3], s[4:5]", 0x100000001ull, 0x100000001ull, false,
                         0x200000001ull, false},
                    Case{"s_mul_i32 s0, s2, s4", 0xffffffff, 7, true, 0xfffffff9, true},
                    Case{"s_mul_hi_u32 s0, s2, s4", 0xffffffff, 0xffffffff, false, 0xfffffffe, false},
                    Case{"s_mul_hi_i32 s0, s2, s4", 0xffffffff, 0xffffffff, false, 0, false},
                    Case{"s_absdiff_i32 s0, s2, s4", 3, 10, false, 7, true},
                    Case{"s_absdiff_i32 s0, s2, s4", 3, 3, true, 0, false},
                    Case{"s_abs_i32 s0, s2", 0xfffffff6, 0, false, 10, true},
                    Case{"s_abs_i32 s0, s2", 0x80000000, 0, false, 0x80000000, true},
                    Case{"s_min_i32 s0, s2, s4", 0xffffffff, 1, false, 0xffffffff, true},
                    Case{"s_min_u32 s0, s2, s4", 0xffffffff, 1, true, 1, false},
                    Case{"s_max_i32 s0, s2, s4", 0xffffffff, 1, true, 1, false},
                    Case{"s_max_u32 s0, s2, s4", 0xffffffff, 1, false, 0xffffffff, true},
                    Case{"s_min_u32 s0, s2, s4", 4, 4, true, 4, false},
                    Case{"s_lshl1_add_u32 s0, s2, s4", 0x80000000, 3, false, 3, true},
                    Case{"s_lshl2_add_u32 s0, s2, s4", 5, 3, true, 23, false},
                    Case{"s_lshl3_add_u32 s0, s2, s4", 5, 3, true, 43, false},
                    Case{"s_lshl4_add_u32 s0, s2, s4", 5, 3, true, 83, false},
                    Case{"s_sext_i32_i8 s0, s2", 0x180, 0, false, 0xffffff80, false},
                    Case{"s_sext_i32_i16 s0, s2", 0x18000, 0, true, 0xffff8000, true}));

INSTANTIATE_TEST_SUITE_P(
    Bits, ScalarAlu,
    testing::Values(Case{"s_and_b32 s0, s2, s4", 0xf0f0, 0xff00, false, 0xf000, true},
                    Case{"s_and_b32 s0, s2, s4", 1, 2, true, 0, false},
                    Case{"s_or_b64 s[0:1], s[2:3], s[4:5]", 1, 1ull << 63, false, 1ull << 63 | 1, true},
                    Case{"s_xor_b32 s0, s2, s4", 7, 7, true, 0, false},
                    Case{"s_nand_b32 s0, s2, s4", 0xffffffff, 0xffffffff, true, 0, false},
                    Case{"s_nor_b32 s0, s2, s4", 0, 1, false, 0xfffffffe, true},
                    Case{"s_xnor_b32 s0, s2, s4", 5, 5, false, 0xffffffff, true},
                    Case{"s_andn2_b32 s0, s2, s4", 0xff, 0x0f, false, 0xf0, true},
                    Case{"s_and_not1_b64 s[0:1], s[2:3], s[4:5]", ~0ull, 1, false, ~1ull, true},
                    Case{"s_orn2_b32 s0, s2, s4", 0, 0xfffffffe, false, 1, true},
                    Case{"s_not_b32 s0, s2", 0xffffffff, 0, true, 0, false},
                    Case{"s_not_b64 s[0:1], s[2:3]", 0, 0, false, ~0ull, true},
                    Case{"s_lshl_b32 s0, s2, s4", 1, 33, false, 2, true},
                    Case{"s_lshr_b32 s0, s2, s4", 0x80000000, 31, false, 1, true},
                    Case{"s_ashr_i32 s0, s2, s4", 0x80000000, 31, false, 0xffffffff, true},
                    Case{"s_lshl_b64 s[0:1], s[2:3], s4", 1, 63, false, 1ull << 63, true},
                    Case{"s_lshr_b64 s[0:1], s[2:3], s4", 1ull << 63, 63, false, 1, true},
                    Case{"s_ashr_i64 s[0:1], s[2:3], s4", 1ull << 63, 62, false, ~1ull, true},
                    Case{"s_bfm_b32 s0, s2, s4", 4, 8, false, 0xf00, false},
                    Case{"s_bfm_b64 s[0:1], s2, s4", 4, 60, true, 0xfull << 60, true},
                    Case{"s_bfe_u32 s0, s2, s4", 0xabcd1234, 8u | 8u << 16, false, 0x12, true},
                    Case{"s_bfe_u32 s0, s2, s4", 0xffffffff, 4u | 0u << 16, true, 0, false},
                    Case{"s_bfe_u32 s0, s2, s4", 0xffffffff, 0u | 32u << 16, false, 0xffffffff, true},
                    Case{"s_bfe_i32 s0, s2, s4", 0x00000f00, 8u | 4u << 16, false, 0xffffffff, true},
                    Case{"s_bfe_i32 s0, s2, s4", 0x00000700, 8u | 4u << 16, false, 7, true},
                    Case{"s_bfe_u64 s[0:1], s[2:3], s4", 0x123456789abcdef0ull, 32u | 16u << 16, false,
                         0x5678, true},
                    Case{"s_bfe_i64 s[0:1], s[2:3], s4", 0x0000800000000000ull, 32u | 16u << 16, false,
                         0xffffffffffff8000ull, true},
                    Case{"s_brev_b32 s0, s2", 1, 0, false, 0x80000000, false},
                    Case{"s_brev_b64 s[0:1], s[2:3]", 2, 0, false, 1ull << 62, false},
                    Case{"s_bcnt1_i32_b32 s0, s2", 0xff, 0, false, 8, true},
                    Case{"s_bcnt0_i32_b32 s0, s2", 0xffffffff, 0, true, 0, false},
                    Case{"s_bcnt1_i32_b64 s0, s[2:3]", ~0ull, 0, false, 64, true},
                    Case{"s_bcnt0_i32_b64 s0, s[2:3]", 1, 0, false, 63, true},
                    Case{"s_ff1_i32_b32 s0, s2", 0x10, 0, true, 4, true},
                    Case{"s_ff1_i32_b32 s0, s2", 0, 0, false, 0xffffffff, false},
                    Case{"s_ctz_i32_b64 s0, s[2:3]", 1ull << 40, 0, false, 40, false},
                    Case{"s_ff0_i32_b32 s0, s2", 0x7, 0, false, 3, false},
                    Case{"s_flbit_i32_b32 s0, s2", 1, 0, false, 31, false},
                    Case{"s_clz_i32_u64 s0, s[2:3]", 0, 0, false, 0xffffffff, false},
                    Case{"s_flbit_i32 s0, s2", 0xffffffff, 0, false, 0xffffffff, false},
                    Case{"s_cls_i32 s0, s2", 0xfffffff0, 0, false, 28, false},
                    Case{"s_bitreplicate_b64_b32 s[0:1], s2", 0x5, 0, false, 0x33, false},
                    Case{"s_wqm_b32 s0, s2", 0x00100002, 0, false, 0x00f0000f, true},
                    Case{"s_quadmask_b32 s0, s2", 0x00100002, 0, false, 0x21, true},
                    Case{"s_pack_ll_b32_b16 s0, s2, s4", 0xaaaa1111, 0xbbbb2222, false, 0x22221111, false},
                    Case{"s_pack_lh_b32_b16 s0, s2, s4", 0xaaaa1111, 0xbbbb2222, false, 0xbbbb1111, false},
                    Case{"s_pack_hh_b32_b16 s0, s2, s4", 0xaaaa1111, 0xbbbb2222, false, 0xbbbbaaaa, false},
                    Case{"s_pack_hl_b32_b16 s0, s2, s4", 0xaaaa1111, 0xbbbb2222, false, 0x2222aaaa, false},
                    Case{"s_bitset1_b32 s0, s2", 0, 0, false, keep | 1, false},
                    Case{"s_bitset0_b32 s0, s2", 1, 0, false, keep & ~2u, false},
                    Case{"s_bitset1_b64 s[0:1], s2", 63, 0, false, keep64 | 1ull << 63, false}));

INSTANTIATE_TEST_SUITE_P(
    Moves, ScalarAlu,
    testing::Values(Case{"s_mov_b32 s0, s2", 7, 0, true, 7, true},
                    Case{"s_mov_b32 s0, 1.0", 0, 0, false, 0x3f800000, false},
                    Case{"s_mov_b32 s0, -1", 0, 0, false, 0xffffffff, false},
                    Case{"s_mov_b32 s0, 0.15915494", 0, 0, false, 0x3e22f983, false},
                    Case{"s_mov_b64 s[0:1], -1", 0, 0, false, ~0ull, false},
                    Case{"s_mov_b64 s[0:1], 1.0", 0, 0, false, 0x3ff0000000000000ull, false},
                    Case{"s_mov_b64 s[0:1], 0xffffffff", 0, 0, false, 0xffffffffull, false},
                    Case{"s_cmov_b32 s0, s2", 7, 0, true, 7, true},
                    Case{"s_cmov_b32 s0, s2", 7, 0, false, keep, false},
                    Case{"s_cmov_b64 s[0:1], s[2:3]", 7, 0, false, keep64, false},
                    Case{"s_cselect_b32 s0, s2, s4", 1, 2, true, 1, true},
                    Case{"s_cselect_b64 s[0:1], s[2:3], s[4:5]", 1, 2, false, 2, false},
                    Case{"s_movk_i32 s0, 0xffe0", 0, 0, false, 0xffffffe0, false},
                    Case{"s_cmovk_i32 s0, 0x10", 0, 0, false, keep, false},
                    Case{"s_addk_i32 s0, 0xffff", 0, 0, true, keep - 1, false},
                    Case{"s_mulk_i32 s0, 0x2", 0, 0, false, keep * 2, false}));

INSTANTIATE_TEST_SUITE_P(
    Compares, ScalarAlu,
    testing::Values(Case{"s_cmp_eq_i32 s2, s4", 5, 5, false, keep, true},
                    Case{"s_cmp_lg_u32 s2, s4", 5, 5, true, keep, false},
                    Case{"s_cmp_gt_i32 s2, s4", 0xffffffff, 0, true, keep, false},
                    Case{"s_cmp_gt_u32 s2, s4", 0xffffffff, 0, false, keep, true},
                    Case{"s_cmp_ge_i32 s2, s4", 3, 3, false, keep, true},
                    Case{"s_cmp_lt_i32 s2, s4", 0xffffffff, 0, false, keep, true},
                    Case{"s_cmp_lt_u32 s2, s4", 0xffffffff, 0, true, keep, false},
                    Case{"s_cmp_le_u32 s2, s4", 4, 3, true, keep, false},
                    Case{"s_cmp_eq_u64 s[2:3], s[4:5]", 1ull << 40, 1ull << 40, false, keep, true},
                    Case{"s_cmp_lg_u64 s[2:3], s[4:5]", 1ull << 40, 0, false, keep, true},
                    Case{"s_cmpk_eq_i32 s2, 0xffff", 0xffffffff, 0, false, keep, true},
                    Case{"s_cmpk_eq_u32 s2, 0xffff", 0xffffffff, 0, true, keep, false},
                    Case{"s_cmpk_lt_u32 s2, 0xffff", 0xfffe, 0, false, keep, true},
                    Case{"s_cmpk_gt_i32 s2, 0xfffe", 0xffffffff, 0, false, keep, true},
                    Case{"s_bitcmp0_b32 s2, s4", 1, 1, false, keep, true},
                    Case{"s_bitcmp1_b32 s2, s4", 2, 33, false, keep, true},
                    Case{"s_bitcmp1_b64 s[2:3], s4", 1ull << 50, 50, false, keep, true}));

INSTANTIATE_TEST_SUITE_P(
    OtherNames, ScalarAlu,
    testing::Values(Case{"s_add_co_ci_u32 s0, s2, s4", 0xffffffff, 0, true, 0, true},
                    Case{"s_add_co_i32 s0, s2, s4", 0x7fffffff, 1, false, 0x80000000, true},
                    Case{"s_sub_co_i32 s0, s2, s4", 5, 7, true, 0xfffffffe, false},
                    Case{"s_addk_co_i32 s0, 0x2", 0, 0, true, keep + 2, false},
                    Case{"s_and_b64 s[0:1], s[2:3], s[4:5]", 3ull << 40, 1ull << 40, false, 1ull << 40, true},
                    Case{"s_xor_b64 s[0:1], s[2:3], s[4:5]", 3ull << 40, 1ull << 40, false, 2ull << 40, true},
                    Case{"s_or_b32 s0, s2, s4", 0, 0, true, 0, false},
                    Case{"s_and_not1_b32 s0, s2, s4", 7, 5, false, 2, true},
                    Case{"s_andn2_b64 s[0:1], s[2:3], s[4:5]", 7ull << 40, 5ull << 40, false, 2ull << 40,
                         true},
                    Case{"s_or_not1_b32 s0, s2, s4", 0, 0xfffffff0, false, 0xf, true},
                    Case{"s_orn2_b64 s[0:1], s[2:3], s[4:5]", 0, ~0xfull, false, 0xf, true},
                    Case{"s_cmp_eq_u32 s2, s4", 4, 4, false, keep, true},
                    Case{"s_cmpk_gt_u32 s2, 0xffff", 0x10000, 0, false, keep, true},
                    Case{"s_cmpk_lg_i32 s2, 0xffff", 0xffff, 0, false, keep, true},
                    Case{"s_ctz_i32_b32 s0, s2", 0x80000000, 0, false, 31, false},
                    Case{"s_ff1_i32_b64 s0, s[2:3]", 1ull << 63, 0, false, 63, false}));

TEST(ScalarExec, OtherNames) {
  WaveFixture fixture("gfx90a");
  const auto after = [&](const char* text) {
    fixture.set_exec(0b1100);
    fixture.wave.set_scalar64(2, 0b1010);
    fixture.execute(text);
    EXPECT_EQ(fixture.wave.wide(0), 0b1100u) << text;
    return fixture.wave.exec();
  };
  EXPECT_EQ(after("s_and_saveexec_b64 s[0:1], s[2:3]"), 0b1000u);
  EXPECT_EQ(after("s_or_saveexec_b64 s[0:1], s[2:3]"), 0b1110u);
  EXPECT_EQ(after("s_xor_saveexec_b64 s[0:1], s[2:3]"), 0b0110u);
  EXPECT_EQ(after("s_andn2_saveexec_b64 s[0:1], s[2:3]"), 0b0010u);
  WaveFixture narrow("gfx1030");
  narrow.set_exec(0b1100);
  narrow.wave.scalars[2] = 0b1010;
  narrow.execute("s_andn2_saveexec_b32 s0, s2");
  EXPECT_EQ(narrow.wave.exec(), 0b0010u);
}

TEST(ScalarFloatCompares, OrderedOnly) {
  WaveFixture fixture("gfx1201");
  const auto holds = [&](const char* text, float a, float b) {
    fixture.wave.scalars[2] = std::bit_cast<uint32_t>(a);
    fixture.wave.scalars[4] = std::bit_cast<uint32_t>(b);
    fixture.execute(text);
    return fixture.wave.scc;
  };
  const float nan = std::bit_cast<float>(0x7fc00000u);
  EXPECT_TRUE(holds("s_cmp_gt_f32 s2, s4", 2, 1));
  EXPECT_FALSE(holds("s_cmp_gt_f32 s2, s4", 1, 1));
  EXPECT_FALSE(holds("s_cmp_gt_f32 s2, s4", nan, 1));
  EXPECT_TRUE(holds("s_cmp_le_f32 s2, s4", 1, 1));
  EXPECT_FALSE(holds("s_cmp_le_f32 s2, s4", 1, nan));
}

TEST(ScalarControl, HintsChangeNothing) {
  WaveFixture fixture("gfx1201");
  const auto before = fixture.wave.scalars;
  for (const char* text :
       {"s_clause 0x1", "s_code_end", "s_delay_alu instid0(VALU_DEP_1)", "s_inst_prefetch 0x3",
        "s_set_inst_prefetch_distance 0x3", "s_wait_bvhcnt 0x0", "s_wait_dscnt 0x0", "s_wait_expcnt 0x0",
        "s_wait_kmcnt 0x0", "s_wait_loadcnt 0x0", "s_wait_loadcnt_dscnt 0x0", "s_wait_samplecnt 0x0",
        "s_wait_storecnt 0x0", "s_wait_storecnt_dscnt 0x0", "s_waitcnt_depctr 0xfff",
        "s_waitcnt_vscnt null, 0x0", "s_barrier_signal -1", "s_sendmsg sendmsg(MSG_DEALLOC_VGPRS)"})
    fixture.execute(text);
  EXPECT_EQ(fixture.wave.scalars, before);
  EXPECT_EQ(fixture.wave.state, Wave::State::running);
}

TEST(ScalarControl, WavesThatWait) {
  WaveFixture fixture("gfx1201");
  fixture.set_exec(0x0000ffff);
  fixture.execute("s_barrier_wait 0xffff");
  EXPECT_EQ(fixture.wave.state, Wave::State::at_barrier);
  EXPECT_EQ(fixture.wave.missed_barrier, 0xffff0000u);
  WaveFixture other("gfx90a");
  other.execute("s_barrier");
  EXPECT_EQ(other.wave.state, Wave::State::at_barrier);
  EXPECT_EQ(other.wave.missed_barrier, 0u);
  other.execute("s_sleep 1");
  EXPECT_EQ(other.wave.state, Wave::State::yielded);
}

TEST(ScalarControl, GridBarrierNeedsACooperativeLaunch) {
  WaveFixture fixture("gfx90a");
  Launch launch;
  Dispatch dispatch;
  dispatch.launch = &launch;
  dispatch.grid_groups = 2;
  fixture.wave.dispatch = &dispatch;
  EXPECT_THROW(fixture.execute("ds_gws_barrier v0 offset:0 gds"), KernelFault);
  launch.cooperative = true;
  fixture.execute("ds_gws_barrier v0 offset:0 gds");
  EXPECT_EQ(fixture.wave.state, Wave::State::at_grid_barrier);
  EXPECT_EQ(dispatch.grid_barrier_epoch, 0u);
  fixture.execute("ds_gws_barrier v0 offset:0 gds");  // the second of two workgroups
  EXPECT_EQ(dispatch.grid_barrier_epoch, 1u);
}

TEST(ScalarControl, IndexingMode) {
  WaveFixture fixture("gfx90a");
  fixture.wave.scalars[2] = 5;
  fixture.execute("s_set_gpr_idx_on s2, gpr_idx(SRC0,DST)");
  EXPECT_EQ(fixture.wave.index_mode, 0b1001);
  EXPECT_EQ(fixture.wave.scalars[scalar::m0] & 0xff, 5u);
  fixture.execute("s_set_gpr_idx_off");
  EXPECT_EQ(fixture.wave.index_mode, 0);
  fixture.execute("s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s2");
  EXPECT_EQ(fixture.wave.mode & 0xf, 5u);
}

TEST(ScalarExec, TheHighHalfHasNoLanesInWave32) {
  WaveFixture fixture("gfx1100");
  fixture.execute("s_mov_b64 exec, 0x80000000");
  fixture.execute("s_mov_b32 exec_hi, -1");
  fixture.execute("s_mov_b32 exec_lo, 0");
  fixture.wave.pc = 0x1000;
  fixture.execute("s_cbranch_execz 4");
  EXPECT_EQ(fixture.wave.pc, 0x1010u);
  fixture.set_vector<uint32_t>(2, [](int lane) { return static_cast<uint32_t>(lane); });
  fixture.wave.scalars[scalar::exec + 1] = 32;
  fixture.execute("v_readfirstlane_b32 s0, v2");  // none is active: the first one counts
  EXPECT_EQ(fixture.wave.scalars[0], 0u);
}

TEST(ScalarExec, SaveExecWave32LeavesTheHighHalfAlone) {
  WaveFixture fixture("gfx1100");
  fixture.set_exec(0x00ff00ff);
  fixture.wave.scalars[2] = 0x0ff00ff0;
  fixture.execute("s_and_saveexec_b32 s0, s2");
  EXPECT_EQ(fixture.wave.scalars[0], 0x00ff00ffu);
  EXPECT_EQ(fixture.wave.exec(), 0x00f000f0u);
  EXPECT_TRUE(fixture.wave.scc);
  fixture.execute("s_and_not1_saveexec_b32 s0, s2");  // s2 & ~exec
  EXPECT_EQ(fixture.wave.exec(), 0x0f000f00u);
  fixture.execute("s_or_saveexec_b32 s0, -1");
  EXPECT_EQ(fixture.wave.exec(), 0xffffffffull);
  fixture.execute("s_xor_saveexec_b32 s0, -1");
  EXPECT_EQ(fixture.wave.exec(), 0u);
  EXPECT_FALSE(fixture.wave.scc);
}

TEST(ScalarExec, SaveExecWave64) {
  WaveFixture fixture("gfx942");
  fixture.set_exec(0xff00ff00ff00ff00ull);
  fixture.wave.set_scalar64(2, 0xffff0000ffff0000ull);
  fixture.execute("s_andn1_saveexec_b64 s[0:1], s[2:3]");  // ~s & exec
  EXPECT_EQ(fixture.wave.wide(0), 0xff00ff00ff00ff00ull);
  EXPECT_EQ(fixture.wave.exec(), 0x0000ff000000ff00ull);
  fixture.execute("s_andn2_wrexec_b64 s[0:1], s[2:3]");  // s & ~exec
  EXPECT_EQ(fixture.wave.exec(), 0xffff0000ffff0000ull);
  EXPECT_EQ(fixture.wave.wide(0), 0xffff0000ffff0000ull);
}

TEST(ScalarControl, BranchesCountFromTheNextInstruction) {
  WaveFixture fixture("gfx1100");
  fixture.wave.pc = 1000;
  fixture.execute("s_branch 3");
  EXPECT_EQ(fixture.wave.pc, 1012u);
  fixture.execute("s_branch 65535");  // -1
  EXPECT_EQ(fixture.wave.pc, 1008u);
  fixture.wave.scc = true;
  fixture.execute("s_cbranch_scc0 4");
  EXPECT_EQ(fixture.wave.pc, 1008u);
  fixture.execute("s_cbranch_scc1 4");
  EXPECT_EQ(fixture.wave.pc, 1024u);
  fixture.set_exec(0);
  fixture.execute("s_cbranch_execnz 4");
  EXPECT_EQ(fixture.wave.pc, 1024u);
  fixture.execute("s_cbranch_execz 1");
  EXPECT_EQ(fixture.wave.pc, 1028u);
  fixture.wave.set_mask(scalar::vcc, 4);
  fixture.wave.scalars[scalar::vcc + 1] = 1;  // not part of VCC in wave32
  fixture.execute("s_cbranch_vccz 1");
  EXPECT_EQ(fixture.wave.pc, 1028u);
  fixture.execute("s_cbranch_vccnz 1");
  EXPECT_EQ(fixture.wave.pc, 1032u);
}

TEST(ScalarControl, CallsAndReturns) {
  WaveFixture fixture("gfx1100");
  fixture.wave.pc = 0x123456789000ull;
  fixture.execute("s_getpc_b64 s[0:1]");
  EXPECT_EQ(fixture.wave.wide(0), 0x123456789000ull);
  fixture.wave.set_scalar64(2, 0x1000);
  fixture.execute("s_swappc_b64 s[30:31], s[2:3]");
  EXPECT_EQ(fixture.wave.pc, 0x1000u);
  fixture.execute("s_setpc_b64 s[30:31]");
  EXPECT_EQ(fixture.wave.pc, 0x123456789000ull);
  fixture.execute("s_call_b64 s[4:5], 2");
  EXPECT_EQ(fixture.wave.pc, 0x123456789008ull);
  EXPECT_EQ(fixture.wave.wide(4), 0x123456789000ull);
}

TEST(ScalarControl, NullIsNeverWritten) {
  WaveFixture fixture("gfx1100");
  fixture.execute("s_mov_b32 null, 5");
  fixture.execute("s_mov_b32 s0, null");
  EXPECT_EQ(fixture.wave.scalars[0], 0u);
  const uint32_t exec = fixture.wave.scalars[scalar::exec];
  fixture.execute("s_mov_b64 null, -1");
  EXPECT_EQ(fixture.wave.scalars[scalar::exec], exec);
}

TEST(ScalarControl, ModeRegister) {
  WaveFixture fixture("gfx1100");
  fixture.execute("s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0");
  EXPECT_EQ(fixture.wave.mode, 0xc0u);
  fixture.execute("s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 4)");
  EXPECT_EQ(fixture.wave.scalars[0], 0xcu);
  fixture.execute("s_denorm_mode 15");
  EXPECT_EQ(fixture.wave.mode, 0xf0u);
  fixture.execute("s_setreg_imm32_b32 hwreg(HW_REG_WAVE_MODE, 0, 4), 5");  // its name in LLVM 20
  EXPECT_EQ(fixture.wave.mode, 0xf5u);
  EXPECT_THROW(fixture.execute("s_getreg_b32 s0, hwreg(HW_REG_NOT_THERE)"), UnknownInstruction);
}

TEST(ScalarControl, AReplyOf32BitsTakesOneRegister) {
  WaveFixture fixture("gfx1100");
  fixture.wave.scalars[1] = 0x1234;
  fixture.execute("s_sendmsg_rtn_b32 s0, sendmsg(MSG_RTN_GET_DOORBELL)");
  EXPECT_EQ(fixture.wave.scalars[1], 0x1234u);
}

TEST(ScalarControl, EndAndTrap) {
  WaveFixture fixture("gfx1100");
  fixture.execute("s_nop 0");
  fixture.execute("s_waitcnt vmcnt(0)");
  EXPECT_EQ(fixture.wave.state, Wave::State::running);
  EXPECT_THROW(fixture.execute("s_trap 2"), KernelFault);
  fixture.execute("s_endpgm");
  EXPECT_EQ(fixture.wave.state, Wave::State::ended);
}

// The last bytes are too few for an instruction.
TEST(Decode, CodeThatEndsInTheMiddle) {
  alignas(4) const uint16_t words[] = {0x0000, 0xbf80, 0x0000};  // s_nop 0, and half of another
  const auto code = std::as_bytes(std::span(words));
  Program program(code, *find_chip("gfx1100"), 32);
  const auto begin = reinterpret_cast<uint64_t>(code.data());
  EXPECT_EQ(program.at(begin).instruction.mnemonic, "s_nop");
  EXPECT_THROW(program.at(begin + 4), KernelFault);
}

TEST(Decode, UnknownInstructionsAreNamed) {
  WaveFixture fixture("gfx1100");
  try {
    fixture.execute("v_frobnicate_b32 v0, v1");
    FAIL();
  } catch (const UnknownInstruction& problem) {
    EXPECT_NE(std::string(problem.what()).find("v_frobnicate_b32 v0, v1"), std::string::npos);
  }
  EXPECT_THROW(fixture.execute("s_add_u32 s0, s1"), UnknownInstruction);
  EXPECT_THROW(fixture.execute("s_add_u32 s0, s1, s2, s3"), UnknownInstruction);
  EXPECT_THROW(fixture.execute("s_mov_b32 5, s1"), UnknownInstruction);
}

}  // namespace
}  // namespace hipemu
