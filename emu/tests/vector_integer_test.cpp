// Integer and bit instructions of the vector unit, against values worked out by hand.
#include "vector_case.h"

namespace hipemu {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Sums, VectorAlu,
    testing::Values(VectorCase{"v_add_u32_e32 v0, v2, v4", 0xffffffff, 2, 0, 1},
                    VectorCase{"v_add_co_u32 v0, vcc, v2, v4 clamp", 0xffffffff, 2, 0, 0xffffffff, false,
                               true},
                    VectorCase{"v_sub_co_u32 v0, vcc, v2, v4 clamp", 1, 3, 0, 0, false, true},
                    VectorCase{"v_subrev_co_u32 v0, vcc, v2, v4 clamp", 10, 4, 0, 0, false, true},
                    VectorCase{"v_sad_u8 v0, v2, v4, v6 clamp", 9, 4, 0xfffffffe, 0xffffffff},
                    VectorCase{"v_sad_hi_u8 v0, v2, v4, v6 clamp", 9, 4, 0xfffffffe, 0xffffffff},
                    VectorCase{"v_sad_u16 v0, v2, v4, v6 clamp", 9, 4, 0xfffffffe, 0xffffffff},
                    VectorCase{"v_sad_u32 v0, v2, v4, v6 clamp", 9, 4, 0xfffffffe, 0xffffffff},
                    VectorCase{"v_msad_u8 v0, v2, v4, v6 clamp", 9, 4, 0xfffffffe, 0xffffffff},
                    VectorCase{"v_add_u32_e64 v0, v2, v4 clamp", 0xffffffff, 2, 0, 0xffffffff},
                    VectorCase{"v_add_nc_u32_e32 v0, v2, v4", 7, 8, 0, 15},
                    VectorCase{"v_sub_nc_u32_e32 v0, v2, v4", 1, 3, 0, 0xfffffffe},
                    VectorCase{"v_sub_nc_u32_e64 v0, v2, v4 clamp", 1, 3, 0, 0},
                    VectorCase{"v_sub_u32_e32 v0, v2, v4", 10, 4, 0, 6},
                    VectorCase{"v_subrev_u32_e32 v0, v2, v4", 10, 4, 0, 0xfffffffa},
                    VectorCase{"v_subrev_nc_u32_e32 v0, v2, v4", 4, 10, 0, 6},
                    VectorCase{"v_subrev_nc_u32_e64 v0, v2, v4 clamp", 10, 4, 0, 0},
                    VectorCase{"v_add_i32 v0, v2, v4", 0x7fffffff, 1, 0, 0x80000000},
                    VectorCase{"v_add_i32 v0, v2, v4 clamp", 0x7fffffff, 1, 0, 0x7fffffff},
                    VectorCase{"v_add_nc_i32 v0, v2, v4 clamp", 0x80000000, 0xffffffff, 0, 0x80000000},
                    VectorCase{"v_sub_nc_i32 v0, v2, v4 clamp", 0x80000000, 1, 0, 0x80000000},
                    VectorCase{"v_sub_i32 v0, v2, v4", 0x80000000, 1, 0, 0x7fffffff},
                    VectorCase{"v_add_nc_u16 v0, v2, v4", 0xffff, 3, 0, 2},
                    VectorCase{"v_add_nc_u16 v0, v2, v4 clamp", 0xffff, 3, 0, 0xffff},
                    VectorCase{"v_add_u16_e32 v0, v2, v4", 0x1234ffff, 0x55550001, 0, 0},
                    VectorCase{"v_sub_u16_e32 v0, v2, v4", 1, 2, 0, 0xffff},
                    VectorCase{"v_sub_nc_u16 v0, v2, v4 clamp", 1, 2, 0, 0},
                    VectorCase{"v_subrev_u16_e32 v0, v2, v4", 1, 2, 0, 1},
                    VectorCase{"v_add_i16 v0, v2, v4 clamp", 0x7fff, 1, 0, 0x7fff},
                    VectorCase{"v_add_nc_i16 v0, v2, v4", 0x7fff, 1, 0, 0x8000},
                    VectorCase{"v_sub_nc_i16 v0, v2, v4 clamp", 0x8000, 1, 0, 0x8000},
                    VectorCase{"v_sub_i16 v0, v2, v4", 5, 9, 0, 0xfffc},
                    VectorCase{"v_add3_u32 v0, v2, v4, v6", 0xfffffffe, 1, 2, 1},
                    VectorCase{"v_xad_u32 v0, v2, v4, v6", 0xff00, 0x0ff0, 1, 0xf0f1},
                    VectorCase{"v_lshl_add_u32 v0, v2, v4, v6", 3, 33, 5, 11},
                    VectorCase{"v_add_lshl_u32 v0, v2, v4, v6", 3, 4, 4, 112},
                    VectorCase{"v_lshl_add_u64 v[0:1], v[2:3], v4, v[6:7]", 0x80000001, 1, 5, 0x100000007},
                    VectorCase{"v_add_u32_e32 v0, 5, v4", 0, 6, 0, 11},
                    VectorCase{"v_add_u32_e32 v0, -3, v4", 0, 6, 0, 3}));

INSTANTIATE_TEST_SUITE_P(
    Carries, VectorAlu,
    testing::Values(
        VectorCase{"v_add_co_u32_e32 v0, vcc, v2, v4", 0xffffffff, 1, 0, 0, false, true},
        VectorCase{"v_add_co_u32_e32 v0, vcc, v2, v4", 0xfffffffe, 1, 0, 0xffffffff, true, false},
        VectorCase{"v_sub_co_u32_e32 v0, vcc, v2, v4", 1, 2, 0, 0xffffffff, false, true},
        VectorCase{"v_sub_co_u32_e32 v0, vcc, v2, v4", 2, 2, 0, 0, false, false},
        VectorCase{"v_subrev_co_u32_e32 v0, vcc, v2, v4", 2, 1, 0, 0xffffffff, false, true},
        VectorCase{"v_addc_co_u32_e32 v0, vcc, v2, v4, vcc", 0xffffffff, 0, 0, 0, true, true},
        VectorCase{"v_addc_co_u32_e32 v0, vcc, v2, v4, vcc", 0xffffffff, 0xffffffff, 0, 0xffffffff, true,
                   true},
        VectorCase{"v_add_co_ci_u32_e32 v0, vcc, v2, v4, vcc", 4, 5, 0, 9, false, false},
        VectorCase{"v_subb_co_u32_e32 v0, vcc, v2, v4, vcc", 0, 0, 0, 0xffffffff, true, true},
        VectorCase{"v_sub_co_ci_u32_e32 v0, vcc, v2, v4, vcc", 5, 0xffffffff, 0, 5, true, true},
        VectorCase{"v_subbrev_co_u32_e32 v0, vcc, v2, v4, vcc", 3, 10, 0, 6, true, false},
        VectorCase{"v_subrev_co_ci_u32_e32 v0, vcc, v2, v4, vcc", 10, 3, 0, 0xfffffff9, false, true},
        VectorCase{"v_mad_u64_u32 v[0:1], vcc, v2, v4, v[6:7]", 0xffffffff, 0xffffffff, 2, 0xfffffffe00000003,
                   false, false},
        VectorCase{"v_mad_u64_u32 v[0:1], vcc, v2, v4, v[6:7]", 2, 3, 0xfffffffffffffffb, 1, false, true},
        VectorCase{"v_mad_co_u64_u32 v[0:1], vcc, v2, v4, v[6:7]", 2, 3, 0xfffffffffffffffb, 1, false, true},
        VectorCase{"v_mad_i64_i32 v[0:1], vcc, v2, v4, v[6:7]", 0xffffffff, 5, 3, 0xfffffffffffffffe, false,
                   false},
        VectorCase{"v_mad_co_i64_i32 v[0:1], vcc, v2, v4, v[6:7]", 1, 1, 0x7fffffffffffffff,
                   0x8000000000000000, false, true}));

INSTANTIATE_TEST_SUITE_P(
    Products, VectorAlu,
    testing::Values(VectorCase{"v_mul_lo_u32 v0, v2, v4", 0x10001, 0x10001, 0, 0x20001},
                    VectorCase{"v_mul_hi_u32 v0, v2, v4", 0xffffffff, 0xffffffff, 0, 0xfffffffe},
                    VectorCase{"v_mul_hi_i32 v0, v2, v4", 0xffffffff, 2, 0, 0xffffffff},
                    VectorCase{"v_mul_u32_u24_e32 v0, v2, v4", 0xff000003, 0xff000005, 0, 15},
                    VectorCase{"v_mul_i32_i24_e32 v0, v2, v4", 0x00ffffff, 7, 0, 0xfffffff9},
                    VectorCase{"v_mul_hi_u32_u24_e32 v0, v2, v4", 0xffffff, 0xffffff, 0, 0xffff},
                    VectorCase{"v_mul_hi_i32_i24_e32 v0, v2, v4", 0xffffff, 3, 0, 0xffffffff},
                    VectorCase{"v_mul_lo_u16 v0, v2, v4", 0x1ff, 0x201, 0, 0xffff},
                    VectorCase{"v_mad_u32_u24 v0, v2, v4, v6", 0x1000003, 5, 1, 16},
                    VectorCase{"v_mad_u32_u24 v0, v2, v4, v6 clamp", 0xffffff, 0xffffff, 1, 0xffffffff},
                    VectorCase{"v_mad_i32_i24 v0, v2, v4, v6", 0xffffff, 5, 1, 0xfffffffc},
                    VectorCase{"v_mad_i32_i24 v0, v2, v4, v6 clamp", 0x800000, 0x7fffff, 0, 0x80000000},
                    VectorCase{"v_mad_u16 v0, v2, v4, v6", 0x100, 0x101, 1, 0x101},
                    VectorCase{"v_mad_u16 v0, v2, v4, v6 clamp", 0x100, 0x101, 1, 0xffff},
                    VectorCase{"v_mad_i16 v0, v2, v4, v6", 0xffff, 4, 1, 0xfffd},
                    VectorCase{"v_mad_i16 v0, v2, v4, v6 clamp", 0x4000, 0x4000, 1, 0x7fff},
                    VectorCase{"v_mad_u32_u16 v0, v2, v4, v6", 0xffff, 0xffff, 1, 0xfffe0002},
                    VectorCase{"v_mad_i32_i16 v0, v2, v4, v6", 0xffff, 2, 1, 0xffffffff}));

INSTANTIATE_TEST_SUITE_P(
    Orders, VectorAlu,
    testing::Values(VectorCase{"v_min_i32_e32 v0, v2, v4", 0xffffffff, 1, 0, 0xffffffff},
                    VectorCase{"v_min_u32_e32 v0, v2, v4", 0xffffffff, 1, 0, 1},
                    VectorCase{"v_max_i32_e32 v0, v2, v4", 0xffffffff, 1, 0, 1},
                    VectorCase{"v_max_u32_e32 v0, v2, v4", 0xffffffff, 1, 0, 0xffffffff},
                    VectorCase{"v_min_i16 v0, v2, v4", 0xffff, 1, 0, 0xffff},
                    VectorCase{"v_max_u16 v0, v2, v4", 0xffff, 1, 0, 0xffff},
                    VectorCase{"v_max_i16 v0, v2, v4", 0xffff, 1, 0, 1},
                    VectorCase{"v_min_u16 v0, v2, v4", 0xffff, 1, 0, 1},
                    VectorCase{"v_min3_i32 v0, v2, v4, v6", 5, 0xfffffff0, 7, 0xfffffff0},
                    VectorCase{"v_min3_u32 v0, v2, v4, v6", 5, 0xfffffff0, 7, 5},
                    VectorCase{"v_mad_legacy_u16 v0, v2, v4, v6", 0x100, 0x101, 1, 0x101},
                    VectorCase{"v_max3_u32 v0, v2, v4, v6", 5, 0xfffffff0, 7, 0xfffffff0},
                    VectorCase{"v_max3_i32 v0, v2, v4, v6", 5, 0xfffffff0, 7, 7},
                    VectorCase{"v_med3_i32 v0, v2, v4, v6", 5, 0xfffffff0, 7, 5},
                    VectorCase{"v_med3_u32 v0, v2, v4, v6", 5, 0xfffffff0, 7, 7},
                    VectorCase{"v_med3_i16 v0, v2, v4, v6", 9, 0xffff, 2, 2},
                    VectorCase{"v_min3_u16 v0, v2, v4, v6", 9, 0xffff, 2, 2},
                    VectorCase{"v_minmax_i32 v0, v2, v4, v6", 9, 3, 5, 5},
                    VectorCase{"v_maxmin_i32 v0, v2, v4, v6", 9, 3, 5, 5},
                    VectorCase{"v_minmax_u32 v0, v2, v4, v6", 0xffffffff, 3, 1, 3},
                    VectorCase{"v_maxmin_u32 v0, v2, v4, v6", 0xffffffff, 3, 7, 7}));

INSTANTIATE_TEST_SUITE_P(
    Bits, VectorAlu,
    testing::Values(
        VectorCase{"v_mov_b32_e32 v0, v2", 0xdeadbeef, 0, 0, 0xdeadbeef},
        VectorCase{"v_mov_b64_e32 v[0:1], v[2:3]", 0x123456789abcdef0, 0, 0, 0x123456789abcdef0},
        VectorCase{"v_not_b32_e32 v0, v2", 0x0f0f0f0f, 0, 0, 0xf0f0f0f0},
        VectorCase{"v_and_b32_e32 v0, v2, v4", 0xff00ff00, 0x0ff00ff0, 0, 0x0f000f00},
        VectorCase{"v_or_b32_e32 v0, v2, v4", 0xff00, 0x0ff0, 0, 0xfff0},
        VectorCase{"v_xor_b32_e32 v0, v2, v4", 0xff00, 0x0ff0, 0, 0xf0f0},
        VectorCase{"v_xnor_b32_e32 v0, v2, v4", 0xff00, 0x0ff0, 0, 0xffff0f0f},
        VectorCase{"v_and_b16 v0, v2, v4", 0xff00, 0x0ff0, 0, 0x0f00},
        VectorCase{"v_not_b16_e32 v0, v2", 0xff00, 0, 0, 0x00ff},
        VectorCase{"v_and_or_b32 v0, v2, v4, v6", 0xff, 0x3c, 0x100, 0x13c},
        VectorCase{"v_or3_b32 v0, v2, v4, v6", 1, 2, 4, 7},
        VectorCase{"v_xor3_b32 v0, v2, v4, v6", 3, 6, 5, 0},
        VectorCase{"v_lshl_or_b32 v0, v2, v4, v6", 3, 4, 1, 0x31},
        VectorCase{"v_lshlrev_b32_e32 v0, v2, v4", 33, 0x80000001, 0, 2},
        VectorCase{"v_lshrrev_b32_e32 v0, v2, v4", 4, 0x80000010, 0, 0x08000001},
        VectorCase{"v_ashrrev_i32_e32 v0, v2, v4", 4, 0x80000010, 0, 0xf8000001},
        VectorCase{"v_lshlrev_b16 v0, v2, v4", 17, 0x8001, 0, 2},
        VectorCase{"v_lshrrev_b16 v0, v2, v4", 4, 0x8010, 0, 0x0801},
        VectorCase{"v_ashrrev_i16 v0, v2, v4", 4, 0x8010, 0, 0xf801},
        VectorCase{"v_lshlrev_b64 v[0:1], v2, v[4:5]", 65, 0x8000000080000001, 0, 0x0000000100000002},
        VectorCase{"v_lshrrev_b64 v[0:1], v2, v[4:5]", 36, 0x8000001000000000, 0, 0x08000001},
        VectorCase{"v_ashrrev_i64 v[0:1], v2, v[4:5]", 60, 0x8000000000000000, 0, 0xfffffffffffffff8},
        VectorCase{"v_alignbit_b32 v0, v2, v4, v6", 0x00000001, 0x80000000, 31, 3},
        VectorCase{"v_alignbyte_b32 v0, v2, v4, v6", 0x44332211, 0x88776655, 3, 0x33221188},
        VectorCase{"v_bfe_u32 v0, v2, v4, v6", 0xabcd1234, 8, 8, 0x12},
        VectorCase{"v_bfe_u32 v0, v2, v4, v6", 0xabcd1234, 28, 8, 0xa},
        VectorCase{"v_bfe_u32 v0, v2, v4, v6", 0xabcd1234, 8, 0, 0},
        VectorCase{"v_bfe_i32 v0, v2, v4, v6", 0xabcd1234, 16, 8, 0xffffffcd},
        VectorCase{"v_bfe_i32 v0, v2, v4, v6", 0xabcd1234, 28, 8, 0xfffffffa},
        VectorCase{"v_bfe_i32 v0, v2, v4, v6", 0xabcd1234, 4, 0, 0},
        VectorCase{"v_bfi_b32 v0, v2, v4, v6", 0xffff0000, 0x12345678, 0x9abcdef0, 0x1234def0},
        VectorCase{"v_bfm_b32 v0, v2, v4", 5, 8, 0, 0x1f00},
        VectorCase{"v_bfrev_b32_e32 v0, v2", 0x80000003, 0, 0, 0xc0000001},
        VectorCase{"v_ffbh_u32_e32 v0, v2", 0x00010000, 0, 0, 15},
        VectorCase{"v_clz_i32_u32_e32 v0, v2", 0, 0, 0, 0xffffffff},
        VectorCase{"v_ffbh_i32_e32 v0, v2", 0xffffff00, 0, 0, 24},
        VectorCase{"v_cls_i32_e32 v0, v2", 0xffffffff, 0, 0, 0xffffffff},
        VectorCase{"v_ffbl_b32_e32 v0, v2", 0x00010000, 0, 0, 16},
        VectorCase{"v_ctz_i32_b32_e32 v0, v2", 0, 0, 0, 0xffffffff},
        VectorCase{"v_bcnt_u32_b32 v0, v2, v4", 0xf0f00001, 100, 0, 109},
        VectorCase{"v_cndmask_b32_e32 v0, v2, v4, vcc", 1, 2, 0, 1, false},
        VectorCase{"v_cndmask_b32_e32 v0, v2, v4, vcc", 1, 2, 0, 2, true},
        VectorCase{"v_cndmask_b32_e64 v0, -v2, |v4|, vcc", 0x3f800000, 0xc0000000, 0, 0xbf800000, false},
        VectorCase{"v_cndmask_b32_e64 v0, -v2, |v4|, vcc", 0x3f800000, 0xc0000000, 0, 0x40000000, true},
        VectorCase{"v_pack_b32_f16 v0, v2, v4", 0x11113c00, 0x2222c000, 0, 0xc0003c00},
        VectorCase{"v_pack_b32_f16 v0, v2, v4 op_sel:[1,1,0]", 0x11113c00, 0x2222c000, 0, 0x22221111}));

// v4 has bytes 0 to 3, v2 bytes 4 to 7.
INSTANTIATE_TEST_SUITE_P(
    Bytes, VectorAlu,
    testing::Values(VectorCase{"v_perm_b32 v0, v2, v4, v6", 0x77665544, 0x33221100, 0x07050301, 0x77553311},
                    VectorCase{"v_perm_b32 v0, v2, v4, v6", 0x77665544, 0x33221100, 0x06040200, 0x66442200},
                    VectorCase{"v_perm_b32 v0, v2, v4, v6", 0x77665544, 0x33221100, 0x0c0dff00, 0x00ffff00},
                    // The signs of bytes 7, 5, 3, 1.
                    VectorCase{"v_perm_b32 v0, v2, v4, v6", 0x80000000, 0x80000000, 0x0b0a0908, 0xff00ff00},
                    VectorCase{"v_perm_b32 v0, v2, v4, v6", 0x00008000, 0x00008000, 0x0b0a0908, 0x00ff00ff},
                    VectorCase{"v_sad_u8 v0, v2, v4, v6", 0x01020304, 0x04030201, 100, 108},
                    VectorCase{"v_sad_hi_u8 v0, v2, v4, v6", 0x01020304, 0x04030201, 1, 0x80001},
                    VectorCase{"v_sad_u16 v0, v2, v4, v6", 0x00010009, 0x00050002, 1, 12},
                    VectorCase{"v_sad_u32 v0, v2, v4, v6", 3, 10, 1, 8},
                    VectorCase{"v_msad_u8 v0, v2, v4, v6", 0x05050505, 0x00010001, 1, 9},
                    VectorCase{"v_lerp_u8 v0, v2, v4, v6", 0x04060803, 0x02040402, 0x00000001, 0x03050603},
                    VectorCase{"v_qsad_pk_u16_u8 v[0:1], v[2:3], v4, v[6:7]", 0x0000000001010101, 0x01010101,
                               0x0005000000000000, 0x0008000200010000},
                    VectorCase{"v_sat_pk_u8_i16_e32 v0, v2", 0xfff00123, 0, 0, 0x00ff}));

TEST(VectorInteger, FourSumsOfMaskedDifferences) {
  WaveFixture fixture("gfx1100");
  fixture.set_all<uint32_t>(10, 0x04030201);
  fixture.set_all<uint32_t>(11, 0x08070605);
  fixture.set_all<uint32_t>(12, 0x00000001);  // only the lowest byte counts
  for (int row = 20; row < 24; ++row) fixture.set_all<uint32_t>(row, 100u * row);
  fixture.execute("v_mqsad_u32_u8 v[0:3], v[10:11], v12, v[20:23]");
  for (uint32_t window = 0; window < 4; ++window)
    EXPECT_EQ(fixture.bits(window, 3), window + 100u * (20 + window));
}

TEST(VectorInteger, NothingHappensWithoutLanes) {
  for (const char* chip : {"gfx1100", "gfx90a"}) {
    WaveFixture fixture(chip);
    fixture.set_all<uint32_t>(0, 7);
    fixture.set_all<uint32_t>(2, 9);
    fixture.wave.set_mask(scalar::vcc, 5);
    fixture.set_exec(0);
    fixture.execute("v_add_co_u32_e32 v0, vcc, v2, v2");
    EXPECT_EQ(fixture.bits(0, 0), 7u);
    EXPECT_EQ(fixture.wave.mask(scalar::vcc), 0u);
  }
}

}  // namespace
}  // namespace hipemu
