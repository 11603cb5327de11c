// Float instructions of the vector unit, against values worked out by hand.
#include <cmath>
#include <limits>

#include "vector_case.h"

namespace hipemu {
namespace {

constexpr uint64_t nan32 = 0x7fc00000, signaling32 = 0x7f800001, inf32 = 0x7f800000, minus_inf32 = 0xff800000;
constexpr uint64_t one32 = 0x3f800000, minus_zero32 = 0x80000000, denormal32 = 1, largest32 = 0x7f7fffff;
constexpr uint64_t one64 = 0x3ff0000000000000, minus_zero64 = 0x8000000000000000, inf64 = 0x7ff0000000000000,
                   nan64 = 0x7ff8000000000000;

INSTANTIATE_TEST_SUITE_P(
    Single, VectorAlu,
    testing::Values(
        VectorCase{"v_add_f32_e32 v0, v2, v4", bits(1.5f), bits(2.25f), 0, bits(3.75f)},
        VectorCase{"v_add_f32_e32 v0, v2, v4", denormal32, denormal32, 0, 2},
        VectorCase{"v_add_f32_e32 v0, v2, v4", bits(1.0f), 0x33800000, 0,
                   one32},  // half a last place: to even
        VectorCase{"v_add_f32_e32 v0, v2, v4", 0x3f800001, 0x33800000, 0, 0x3f800002},  // up to even
        VectorCase{"v_add_f32_e32 v0, 0.5, v4", 0, bits(2.0f), 0, bits(2.5f)},
        VectorCase{"v_add_f32_e32 v0, 0.15915494, v4", 0, 0, 0, 0x3e22f983},
        VectorCase{"v_sub_f32_e32 v0, v2, v4", bits(1.0f), bits(1.0f), 0, 0},
        VectorCase{"v_sub_f32_e64 v0, |v2|, -v4", bits(-1.0f), bits(2.0f), 0, bits(3.0f)},
        VectorCase{"v_subrev_f32_e32 v0, v2, v4", bits(1.0f), bits(5.0f), 0, bits(4.0f)},
        VectorCase{"v_mul_f32_e32 v0, v2, v4", bits(3.0f), bits(-0.5f), 0, bits(-1.5f)},
        VectorCase{"v_mul_f32_e32 v0, v2, v4", largest32, bits(2.0f), 0, inf32},
        VectorCase{"v_mul_f32_e64 v0, v2, v4 mul:2", bits(3.0f), bits(4.0f), 0, bits(24.0f)},
        VectorCase{"v_mul_f32_e64 v0, v2, v4 mul:4", bits(3.0f), bits(4.0f), 0, bits(48.0f)},
        VectorCase{"v_mul_f32_e64 v0, v2, v4 div:2", bits(3.0f), bits(4.0f), 0, bits(6.0f)},
        VectorCase{"v_mul_f32_e64 v0, v2, v4 clamp", bits(3.0f), bits(4.0f), 0, one32},
        VectorCase{"v_mul_f32_e64 v0, v2, v4 clamp", bits(3.0f), bits(-4.0f), 0, 0},
        VectorCase{"v_mul_f32_e64 v0, v2, v4 clamp", nan32, bits(4.0f), 0, 0},
        VectorCase{"v_mul_f32_e64 v0, v2, v4 clamp", bits(0.5f), bits(0.5f), 0, bits(0.25f)},
        VectorCase{"v_mul_legacy_f32_e32 v0, v2, v4", 0, inf32, 0, 0},
        VectorCase{"v_mul_dx9_zero_f32_e32 v0, v2, v4", nan32, minus_zero32, 0, 0},
        VectorCase{"v_fma_dx9_zero_f32 v0, v2, v4, v6", inf32, 0, bits(2.0f), bits(2.0f)},
        // (1 + 2^-12)^2 - (1 + 2^-11) = 2^-24 only when fused
        VectorCase{"v_fma_f32 v0, v2, v4, v6", 0x3f800800, 0x3f800800, 0xbf801000, 0x33800000},
        VectorCase{"v_mad_f32 v0, v2, v4, v6", 0x3f800800, 0x3f800800, 0xbf801000, 0},
        VectorCase{"v_fma_f32 v0, -v2, |v4|, v6", bits(2.0f), bits(-3.0f), bits(10.0f), bits(4.0f)},
        VectorCase{"v_fmaak_f32 v0, v2, v4, 0x40a00000", bits(2.0f), bits(3.0f), 0, bits(11.0f)},
        VectorCase{"v_fmamk_f32 v0, v2, 0x40a00000, v4", bits(2.0f), bits(3.0f), 0, bits(13.0f)},
        VectorCase{"v_floor_f32_e32 v0, v2", bits(-1.5f), 0, 0, bits(-2.0f)},
        VectorCase{"v_ceil_f32_e32 v0, v2", bits(-0.5f), 0, 0, minus_zero32},
        VectorCase{"v_trunc_f32_e32 v0, v2", bits(-1.75f), 0, 0, bits(-1.0f)},
        VectorCase{"v_rndne_f32_e32 v0, v2", bits(2.5f), 0, 0, bits(2.0f)},
        VectorCase{"v_rndne_f32_e32 v0, v2", bits(3.5f), 0, 0, bits(4.0f)},
        VectorCase{"v_fract_f32_e32 v0, v2", bits(-1.25f), 0, 0, bits(0.75f)},
        VectorCase{"v_fract_f32_e32 v0, v2", bits(-1e-30f), 0, 0, 0x3f7fffff},
        VectorCase{"v_ldexp_f32 v0, v2, v4", bits(1.5f), 3, 0, bits(12.0f)},
        VectorCase{"v_ldexp_f32 v0, v2, v4", bits(1.5f), 0xffffff6b, 0, 2},  // 1.5 * 2^-149: a tie, to even
        VectorCase{"v_ldexp_f32 v0, v2, v4", bits(1.5f), 0x7fffffff, 0, inf32},
        VectorCase{"v_ldexp_f32 v0, v2, v4", bits(-1.5f), 0x80000000, 0, minus_zero32},
        VectorCase{"v_frexp_mant_f32_e32 v0, v2", bits(-12.0f), 0, 0, bits(-0.75f)},
        VectorCase{"v_frexp_mant_f32_e32 v0, v2", inf32, 0, 0, inf32},
        VectorCase{"v_frexp_exp_i32_f32_e32 v0, v2", bits(-12.0f), 0, 0, 4},
        VectorCase{"v_frexp_exp_i32_f32_e32 v0, v2", denormal32, 0, 0, 0xffffff6c},  // 0.5 * 2^-148
        VectorCase{"v_frexp_exp_i32_f32_e32 v0, v2", inf32, 0, 0, 0},
        VectorCase{"v_frexp_exp_i32_f32_e32 v0, v2", 0, 0, 0, 0}));

INSTANTIATE_TEST_SUITE_P(
    Orders, VectorAlu,
    testing::Values(
        VectorCase{"v_min_f32_e32 v0, v2, v4", bits(1.0f), bits(-2.0f), 0, bits(-2.0f)},
        VectorCase{"v_max_f32_e32 v0, v2, v4", bits(1.0f), bits(-2.0f), 0, bits(1.0f)},
        VectorCase{"v_min_f32_e32 v0, v2, v4", 0, minus_zero32, 0, minus_zero32},
        VectorCase{"v_max_f32_e32 v0, v2, v4", minus_zero32, 0, 0, 0},
        VectorCase{"v_min_f32_e32 v0, v2, v4", nan32, one32, 0, one32},
        VectorCase{"v_max_f32_e32 v0, v2, v4", one32, nan32, 0, one32},
        VectorCase{"v_max_f32_e32 v0, v2, v4", signaling32, one32, 0, 0x7fc00001},
        VectorCase{"v_max_num_f32_e32 v0, v2, v4", signaling32, one32, 0, one32},
        VectorCase{"v_min_num_f32_e32 v0, v2, v4", signaling32, signaling32, 0, 0x7fc00001},
        VectorCase{"v_minimum_f32 v0, v2, v4", one32, nan32, 0, nan32},
        VectorCase{"v_maximum_f32 v0, v2, v4", minus_zero32, 0, 0, 0},
        VectorCase{"v_maximum3_f32 v0, v2, v4, v6", one32, nan32, bits(2.0f), nan32},
        VectorCase{"v_minimummaximum_f32 v0, v2, v4, v6", bits(1.0f), bits(5.0f), bits(3.0f), bits(3.0f)},
        VectorCase{"v_min3_f32 v0, v2, v4, v6", bits(3.0f), bits(1.0f), bits(2.0f), bits(1.0f)},
        VectorCase{"v_max3_f32 v0, v2, v4, v6", bits(3.0f), nan32, bits(2.0f), bits(3.0f)},
        VectorCase{"v_med3_f32 v0, v2, v4, v6", bits(3.0f), bits(1.0f), bits(2.0f), bits(2.0f)},
        VectorCase{"v_med3_f32 v0, v2, v4, v6", bits(3.0f), nan32, bits(2.0f), bits(2.0f)},
        VectorCase{"v_med3_num_f32 v0, v2, v4, v6", bits(9.0f), bits(0.0f), bits(1.0f), bits(1.0f)},
        VectorCase{"v_minmax_f32 v0, v2, v4, v6", bits(4.0f), bits(1.0f), bits(2.0f), bits(2.0f)},
        VectorCase{"v_maxmin_f32 v0, v2, v4, v6", bits(4.0f), bits(1.0f), bits(2.0f), bits(2.0f)},
        VectorCase{"v_min_f64 v[0:1], v[2:3], v[4:5]", bits(2.0), bits(-3.0), 0, bits(-3.0)},
        VectorCase{"v_max_f64 v[0:1], v[2:3], v[4:5]", nan64, bits(-3.0), 0, bits(-3.0)},
        VectorCase{"v_max_num_f64_e32 v[0:1], v[2:3], v[4:5]", bits(2.0), minus_zero64, 0, bits(2.0)},
        VectorCase{"v_minimum_f64 v[0:1], v[2:3], v[4:5]", bits(2.0), nan64, 0, nan64},
        VectorCase{"v_min_f16_e32 v0, v2, v4", 0x3c00, 0xc000, 0, 0xc000},
        VectorCase{"v_max_f16_e32 v0, v2, v4", 0x7e00, 0xc000, 0, 0xc000},
        VectorCase{"v_max_f16_e32 v0, v2, v4", 0x7c01, 0xc000, 0, 0x7e01},
        VectorCase{"v_max_num_f16_e32 v0, v2, v4", 0x7c01, 0xc000, 0, 0xc000},
        VectorCase{"v_maximum_f16 v0, v2, v4", 0x7e00, 0xc000, 0, 0x7e00},
        VectorCase{"v_med3_f16 v0, v2, v4, v6", 0x3c00, 0x4000, 0xbc00, 0x3c00},
        VectorCase{"v_min3_f16 v0, v2, v4, v6", 0x3c00, 0x4000, 0xbc00, 0xbc00},
        VectorCase{"v_maxmin_f16 v0, v2, v4, v6", 0x3c00, 0x4000, 0xbc00, 0xbc00}));

INSTANTIATE_TEST_SUITE_P(
    Half, VectorAlu,
    testing::Values(
        VectorCase{"v_add_f16_e32 v0, v2, v4", 0x3c00, 0x4000, 0, 0x4200},
        VectorCase{"v_add_f16_e32 v0, v2, v4", 0x6800, 0x3c00, 0, 0x6800},  // 2048 + 1: a tie, to even
        VectorCase{"v_add_f16_e32 v0, v2, v4", 0x6801, 0x3c00, 0, 0x6802},  // 2050 + 1: a tie, to even
        VectorCase{"v_add_f16_e32 v0, v2, v4", 0x0001, 0x0001, 0, 0x0002},
        VectorCase{"v_add_f16_e32 v0, v2, v4", 0x7bff, 0x7bff, 0, 0x7c00},
        VectorCase{"v_sub_f16_e32 v0, v2, v4", 0x3c00, 0x3c00, 0, 0x0000},
        VectorCase{"v_subrev_f16_e32 v0, v2, v4", 0x3c00, 0x4000, 0, 0x3c00},
        VectorCase{"v_mul_f16_e32 v0, v2, v4", 0x4200, 0xc000, 0, 0xc600},
        VectorCase{"v_mul_f16_e32 v0, v2, v4", 0x0001, 0x3800, 0, 0x0000},  // half the least: to even
        VectorCase{"v_mul_f16_e32 v0, v2, v4", 0x0003, 0x3800, 0, 0x0002},
        VectorCase{"v_mul_f16_e64 v0, v2, v4 clamp", 0x4200, 0x4000, 0, 0x3c00},
        VectorCase{"v_mul_f16_e64 v0, -v2, |v4|", 0x4200, 0xc000, 0, 0xc600},
        // 1.0009765625^2 = 1.0019540787: to f16 1.001953125; with - that, fused leaves 2^-20
        VectorCase{"v_fma_f16 v0, v2, v4, v6", 0x3c01, 0x3c01, 0xbc02, 0x0010},
        VectorCase{"v_mad_f16 v0, v2, v4, v6", 0x3c01, 0x3c01, 0xbc02, 0x0000},
        // 2050 - 1.0009765625 lies just below the tie at 2049
        VectorCase{"v_fma_f16 v0, v2, v4, v6", 0x6801, 0x3c00, 0xbc01, 0x6800},
        VectorCase{"v_fmaak_f16 v0, v2, v4, 0x4500", 0x4000, 0x4200, 0, 0x4980},
        VectorCase{"v_floor_f16_e32 v0, v2", 0xbe00, 0, 0, 0xc000},
        VectorCase{"v_ceil_f16_e32 v0, v2", 0x3e00, 0, 0, 0x4000},
        VectorCase{"v_trunc_f16_e32 v0, v2", 0xbe00, 0, 0, 0xbc00},
        VectorCase{"v_rndne_f16_e32 v0, v2", 0x4100, 0, 0, 0x4000},
        VectorCase{"v_fract_f16_e32 v0, v2", 0x4100, 0, 0, 0x3800},
        VectorCase{"v_ldexp_f16_e32 v0, v2, v4", 0x3c00, 3, 0, 0x4800},
        VectorCase{"v_frexp_mant_f16_e32 v0, v2", 0x4a00, 0, 0, 0x3a00},
        VectorCase{"v_frexp_exp_i16_f16_e32 v0, v2", 0x4a00, 0, 0, 4}));

INSTANTIATE_TEST_SUITE_P(
    Double, VectorAlu,
    testing::Values(
        VectorCase{"v_add_f64 v[0:1], v[2:3], v[4:5]", bits(1.5), bits(2.25), 0, bits(3.75)},
        VectorCase{"v_add_f64 v[0:1], v[2:3], -v[4:5]", bits(1.5), bits(2.25), 0, bits(-0.75)},
        VectorCase{"v_add_f64 v[0:1], v[2:3], 1.0", bits(1.5), 0, 0, bits(2.5)},
        VectorCase{"v_mul_f64 v[0:1], |v[2:3]|, v[4:5]", bits(-1.5), bits(2.0), 0, bits(3.0)},
        VectorCase{"v_mul_f64 v[0:1], v[2:3], v[4:5] clamp", bits(1.5), bits(2.0), 0, one64},
        VectorCase{"v_fma_f64 v[0:1], v[2:3], v[4:5], v[6:7]", bits(2.0), bits(3.0), bits(0.5), bits(6.5)},
        VectorCase{"v_floor_f64_e32 v[0:1], v[2:3]", bits(-1.5), 0, 0, bits(-2.0)},
        VectorCase{"v_ceil_f64_e32 v[0:1], v[2:3]", bits(1.25), 0, 0, bits(2.0)},
        VectorCase{"v_trunc_f64_e32 v[0:1], v[2:3]", bits(-1.5), 0, 0, bits(-1.0)},
        VectorCase{"v_rndne_f64_e32 v[0:1], v[2:3]", bits(0.5), 0, 0, 0},
        VectorCase{"v_fract_f64_e32 v[0:1], v[2:3]", bits(-0.25), 0, 0, bits(0.75)},
        VectorCase{"v_ldexp_f64 v[0:1], v[2:3], v4", bits(1.5), 0xfffffff0, 0, bits(1.5 / 65536)},
        VectorCase{"v_frexp_mant_f64_e32 v[0:1], v[2:3]", bits(12.0), 0, 0, bits(0.75)},
        VectorCase{"v_frexp_exp_i32_f64_e32 v0, v[2:3]", bits(12.0), 0, 0, 4},
        VectorCase{"v_rcp_f64_e32 v[0:1], v[2:3]", bits(4.0), 0, 0, bits(0.25)},
        VectorCase{"v_rsq_f64_e32 v[0:1], v[2:3]", bits(16.0), 0, 0, bits(0.25)},
        VectorCase{"v_sqrt_f64_e32 v[0:1], v[2:3]", bits(2.25), 0, 0, bits(1.5)},
        // 2/pi = 0.a2f9836e4e44152 in hexadecimal, 53 bits at a time
        VectorCase{"v_trig_preop_f64 v[0:1], v[2:3], v4", bits(1.0), 0, 0, bits(0x1.45f306dc9c882p-1)},
        VectorCase{"v_trig_preop_f64 v[0:1], v[2:3], v4", inf64, 40, 0, 0}));

INSTANTIATE_TEST_SUITE_P(
    Transcendental, VectorAlu,
    testing::Values(VectorCase{"v_rcp_f32_e32 v0, v2", bits(4.0f), 0, 0, bits(0.25f)},
                    VectorCase{"v_rcp_f32_e32 v0, v2", 0, 0, 0, inf32},
                    VectorCase{"v_rcp_f32_e32 v0, v2", minus_zero32, 0, 0, minus_inf32},
                    VectorCase{"v_rcp_f32_e32 v0, v2", denormal32, 0, 0, inf32},
                    VectorCase{"v_rcp_iflag_f32_e32 v0, v2", minus_inf32, 0, 0, minus_zero32},
                    VectorCase{"v_rsq_f32_e32 v0, v2", bits(16.0f), 0, 0, bits(0.25f)},
                    VectorCase{"v_rsq_f32_e32 v0, v2", inf32, 0, 0, 0},
                    VectorCase{"v_sqrt_f32_e32 v0, v2", bits(2.25f), 0, 0, bits(1.5f)},
                    VectorCase{"v_sqrt_f32_e32 v0, v2", minus_zero32, 0, 0, minus_zero32},
                    VectorCase{"v_exp_f32_e32 v0, v2", bits(-3.0f), 0, 0, bits(0.125f)},
                    VectorCase{"v_exp_f32_e32 v0, v2", minus_inf32, 0, 0, 0},
                    VectorCase{"v_exp_f32_e32 v0, v2", bits(-140.0f), 0, 0, 0},
                    VectorCase{"v_exp_f32_e32 v0, v2", bits(200.0f), 0, 0, inf32},
                    VectorCase{"v_log_f32_e32 v0, v2", bits(8.0f), 0, 0, bits(3.0f)},
                    VectorCase{"v_log_f32_e32 v0, v2", 0, 0, 0, minus_inf32},
                    VectorCase{"v_log_f32_e32 v0, v2", denormal32, 0, 0, minus_inf32},
                    VectorCase{"v_sin_f32_e32 v0, v2", bits(0.25f), 0, 0, bits(1.0f)},
                    VectorCase{"v_sin_f32_e32 v0, v2", bits(-0.25f), 0, 0, bits(-1.0f)},
                    VectorCase{"v_sin_f32_e32 v0, v2", bits(3.0f), 0, 0, 0},
                    VectorCase{"v_cos_f32_e32 v0, v2", bits(0.5f), 0, 0, bits(-1.0f)},
                    VectorCase{"v_cos_f32_e32 v0, v2", bits(2.0f), 0, 0, bits(1.0f)},
                    VectorCase{"v_rcp_f16_e32 v0, v2", 0x4000, 0, 0, 0x3800},
                    VectorCase{"v_rcp_f16_e32 v0, v2", 0x7bff, 0, 0, 0x0100},  // subnormal
                    VectorCase{"v_rsq_f16_e32 v0, v2", 0x4400, 0, 0, 0x3800},
                    VectorCase{"v_sqrt_f16_e32 v0, v2", 0x4400, 0, 0, 0x4000},
                    VectorCase{"v_exp_f16_e32 v0, v2", 0xcb00, 0, 0, 0x0400},  // 2^-14
                    VectorCase{"v_log_f16_e32 v0, v2", 0x4800, 0, 0, 0x4200},
                    VectorCase{"v_sin_f16_e32 v0, v2", 0x3400, 0, 0, 0x3c00},
                    VectorCase{"v_cos_f16_e32 v0, v2", 0x3800, 0, 0, 0xbc00}));

TEST(VectorFloat, NotANumber) {
  for (const char* text : {"v_sqrt_f32_e32 v0, v2", "v_log_f32_e32 v0, v2", "v_rsq_f32_e32 v0, v2"}) {
    WaveFixture fixture("gfx1100");
    fixture.set_all<float>(2, -1.0f);
    fixture.execute(text);
    EXPECT_TRUE(std::isnan(fixture.f32(0))) << text;
  }
  for (const char* text : {"v_sin_f32_e32 v0, v2", "v_cos_f32_e32 v0, v2", "v_fract_f32_e32 v0, v2"}) {
    WaveFixture fixture("gfx1100");
    fixture.set_all<float>(2, INFINITY);
    fixture.execute(text);
    EXPECT_TRUE(std::isnan(fixture.f32(0))) << text;
  }
}

TEST(VectorFloat, TheDestinationIsAdded) {
  for (const char* chip : {"gfx1100", "gfx90a"}) {
    WaveFixture fixture(chip);
    fixture.set_all<float>(0, 10.0f);
    fixture.set_all<float>(2, 2.0f);
    fixture.set_all<float>(4, 3.0f);
    fixture.execute("v_fmac_f32_e32 v0, v2, v4");
    EXPECT_EQ(fixture.f32(0, 5), 16.0f);
    fixture.execute("v_fmac_f32_e64 v0, -v2, v4");
    EXPECT_EQ(fixture.f32(0, 5), 10.0f);
    fixture.execute("v_dual_fmac_f32 v0, v2, v4 :: v_dual_mul_f32 v1, v2, v4");
    EXPECT_EQ(fixture.f32(0, 5), 16.0f);
    EXPECT_EQ(fixture.f32(1, 5), 6.0f);
    // The select of a dual-issue pair reads VCC without saying so.
    fixture.wave.set_mask(scalar::vcc, 2);
    fixture.execute("v_dual_cndmask_b32 v0, v2, v4 :: v_dual_mov_b32 v1, v2");
    EXPECT_EQ(fixture.f32(0, 0), 2.0f);
    EXPECT_EQ(fixture.f32(0, 1), 3.0f);
  }
}

// v2 and v4 are 2 and 3 in each type, the destination 10 before.
TEST(VectorFloat, TheDestinationIsAddedInOtherTypes) {
  WaveFixture fixture("gfx90a");
  const auto result = [&](const char* text, uint64_t ten, uint64_t two, uint64_t three) {
    for (int lane = 0; lane < fixture.size; ++lane) {
      const auto set = [&](uint32_t row, uint64_t value) {
        fixture.wave.row(row)[lane] = static_cast<uint32_t>(value);
        fixture.wave.row(row + 1)[lane] = static_cast<uint32_t>(value >> 32);
      };
      set(0, ten);
      set(2, two);
      set(4, three);
    }
    fixture.execute(text);
    return fixture.bits64(0, 7);
  };
  EXPECT_EQ(result("v_fmac_f64_e32 v[0:1], v[2:3], v[4:5]", 0x4024000000000000, 0x4000000000000000,
                   0x4008000000000000),
            0x4030000000000000u);                                                                  // 16
  EXPECT_EQ(result("v_fmac_f16_e32 v0, v2, v4", 0x4900, 0x4000, 0x4200), 0x4c00u);                 // 16
  EXPECT_EQ(result("v_mac_f32_e32 v0, v2, v4", 0x41200000, 0x40000000, 0x40400000), 0x41800000u);  // 16
  EXPECT_EQ(result("v_madmk_f32 v0, v2, 0x40a00000, v4", 0, 0x40000000, 0x40400000),
            0x41500000u);                                                                    // 2 * 5 + 3 = 13
  EXPECT_EQ(result("v_fmamk_f16 v0, v2, 0x4500, v4", 0, 0x4000, 0x4200) & 0xffff, 0x4a80u);  // 2 * 5 + 3 = 13
  // The smaller number, whatever the other is; -0 is below 0.
  EXPECT_EQ(result("v_min_num_f64 v[0:1], v[2:3], v[4:5]", 0, 0x7ff8000000000000, 0x4008000000000000),
            0x4008000000000000u);
  EXPECT_EQ(result("v_min_num_f64 v[0:1], v[2:3], v[4:5]", 0, 0, 0x8000000000000000), 0x8000000000000000u);
  EXPECT_EQ(result("v_min_num_f16 v0, v2, v4", 0, 0x7e00, 0x4200) & 0xffff, 0x4200u);
  EXPECT_EQ(result("v_min_num_f16 v0, v2, v4", 0, 0xc000, 0x4200) & 0xffff, 0xc000u);
  EXPECT_EQ(result("v_pk_min_num_f16 v0, v2, v4", 0, 0x7e003c00, 0x40004000) & 0xffffffff, 0x40003c00u);
}

// Directions of rounding: nearest, up, down, toward zero.
TEST(VectorFloat, ModeRounds) {
  struct Directed {
    uint32_t mode;
    uint32_t positive, negative;   // +-(1 + 2^-25) in f32
    uint16_t half, negative_half;  // +-(1 + 2^-12) in f16
  };
  for (const Directed& test : {Directed{0, 0x3f800000, 0xbf800000, 0x3c00, 0xbc00},
                               Directed{5, 0x3f800001, 0xbf800000, 0x3c01, 0xbc00},
                               Directed{10, 0x3f800000, 0xbf800001, 0x3c00, 0xbc01},
                               Directed{15, 0x3f800000, 0xbf800000, 0x3c00, 0xbc00}}) {
    WaveFixture fixture("gfx1100");
    fixture.wave.mode = 0xf0 | test.mode;
    fixture.set_all<float>(2, 1.0f);
    fixture.set_all<float>(3, 0x1p-25f);
    fixture.execute("v_add_f32_e32 v0, v2, v3");
    fixture.execute("v_sub_f32_e64 v1, -v2, v3");
    EXPECT_EQ(fixture.bits(0, 0), test.positive) << test.mode;
    EXPECT_EQ(fixture.bits(1, 0), test.negative) << test.mode;
    fixture.set_all<float>(2, 1.0f + 0x1p-12f);
    fixture.execute("v_cvt_f16_f32_e32 v0, v2");
    fixture.execute("v_cvt_f16_f32_e64 v1, -v2");
    EXPECT_EQ(fixture.bits(0, 0) & 0xffff, test.half) << test.mode;
    EXPECT_EQ(fixture.bits(1, 0) & 0xffff, test.negative_half) << test.mode;
  }
}

TEST(FloatMode, ToTheNearestEvenIntegerInAllOfThem) {
  WaveFixture fixture("gfx1100");
  for (uint32_t mode = 0; mode < 4; ++mode) {
    fixture.wave.mode = 0xf0 | mode | mode << 2;
    const auto single = [&](float value) {
      fixture.set_all<float>(2, value);
      fixture.execute("v_rndne_f32_e32 v0, v2");
      return fixture.bits(0, 0);
    };
    const auto wide = [&](double value) {
      fixture.set_all<double>(2, value);
      fixture.execute("v_rndne_f64_e32 v[0:1], v[2:3]");
      return fixture.f64(0);
    };
    EXPECT_EQ(single(2.5f), bits(2.0f)) << mode;
    EXPECT_EQ(single(3.5f), bits(4.0f)) << mode;
    EXPECT_EQ(single(-2.75f), bits(-3.0f)) << mode;
    EXPECT_EQ(single(-0.25f), bits(-0.0f)) << mode;
    EXPECT_EQ(single(0x1.fffffep-2f), bits(0.0f)) << mode;
    EXPECT_EQ(single(0x1.800002p0f), bits(2.0f)) << mode;
    EXPECT_EQ(single(0x1.000002p23f), bits(0x1.000002p23f)) << mode;
    EXPECT_EQ(single(-INFINITY), bits(-INFINITY)) << mode;
    EXPECT_EQ(wide(-2.5), -2.0) << mode;
    EXPECT_EQ(wide(0x1.fffffffffffffp-2), 0.0) << mode;
    EXPECT_EQ(wide(1e300), 1e300) << mode;
    EXPECT_TRUE(std::isnan(wide(NAN))) << mode;
  }
}

TEST(VectorFloat, ModeFlushesSubnormals) {
  WaveFixture fixture("gfx1100");
  fixture.wave.mode = 0xc0;  // f16 and f64 kept, f32 flushed
  fixture.set_all<uint32_t>(2, 0x80000001);
  fixture.set_all<uint32_t>(3, 0);
  fixture.execute("v_mul_f32_e64 v0, v2, 1.0");
  EXPECT_EQ(fixture.bits(0, 0), 0x80000000u);
  fixture.execute("v_mov_b32_e32 v0, v2");
  EXPECT_EQ(fixture.bits(0, 0), 0x80000001u);
  fixture.set_all<uint32_t>(2, 0x00800000);
  fixture.execute("v_mul_f32_e64 v0, v2, 0.5");
  EXPECT_EQ(fixture.bits(0, 0), 0u);
  fixture.set_all<uint32_t>(2, 1);
  fixture.execute("v_add_f16_e32 v0, v2, v3");
  EXPECT_EQ(fixture.bits(0, 0) & 0xffff, 1u);
  fixture.wave.mode = 0x30;
  fixture.execute("v_add_f16_e32 v0, v2, v3");
  EXPECT_EQ(fixture.bits(0, 0) & 0xffff, 0u);
  fixture.execute("v_pk_add_f16 v0, v2, v3");
  EXPECT_EQ(fixture.bits(0, 0), 0u);
}

TEST(VectorFloat, ScalarResults) {
  WaveFixture fixture("gfx1201");
  fixture.wave.set_scalar(2, static_cast<uint32_t>(bits(-4.0f)));
  fixture.execute("v_s_rcp_f32 s0, s2");
  EXPECT_EQ(fixture.wave.get_scalar(0), bits(-0.25f));
  fixture.execute("v_s_sqrt_f32 s0, |s2|");
  EXPECT_EQ(fixture.wave.get_scalar(0), bits(2.0f));
  fixture.execute("v_s_exp_f32 s0, -s2");
  EXPECT_EQ(fixture.wave.get_scalar(0), bits(16.0f));
  fixture.wave.set_scalar(3, 0x4400);
  fixture.execute("v_s_rsq_f16 s0, s3");
  EXPECT_EQ(fixture.wave.get_scalar(0), 0x3800u);
  fixture.execute("v_s_log_f16 s0, s3");
  EXPECT_EQ(fixture.wave.get_scalar(0), 0x4000u);
}

}  // namespace
}  // namespace hipemu
