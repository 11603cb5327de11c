// Packed instructions, mixed precision and dot products.
#include "vector_case.h"

namespace hipemu {
namespace {

INSTANTIATE_TEST_SUITE_P(
    Integers, VectorAlu,
    testing::Values(VectorCase{"v_pk_add_u16 v0, v2, v4", 0xffff0001, 0x00020003, 0, 0x00010004},
                    VectorCase{"v_pk_add_u16 v0, v2, v4 clamp", 0xffff0001, 0x00020003, 0, 0xffff0004},
                    VectorCase{"v_pk_sub_u16 v0, v2, v4", 0x00010005, 0x00020003, 0, 0xffff0002},
                    VectorCase{"v_pk_sub_u16 v0, v2, v4 clamp", 0x00010005, 0x00020003, 0, 0x00000002},
                    VectorCase{"v_pk_add_i16 v0, v2, v4 clamp", 0x7fff8000, 0x0001ffff, 0, 0x7fff8000},
                    VectorCase{"v_pk_sub_i16 v0, v2, v4", 0x00010002, 0x00030001, 0, 0xfffe0001},
                    VectorCase{"v_pk_mul_lo_u16 v0, v2, v4", 0x00ff0003, 0x01010004, 0, 0xffff000c},
                    VectorCase{"v_pk_mad_u16 v0, v2, v4, v6", 0x00020003, 0x00040005, 0x00010001, 0x00090010},
                    VectorCase{"v_pk_mad_i16 v0, v2, v4, v6", 0xffff0003, 0x00040005, 0x00010001, 0xfffd0010},
                    VectorCase{"v_pk_lshlrev_b16 v0, v2, v4", 0x00040001, 0x00030003, 0, 0x00300006},
                    VectorCase{"v_pk_lshrrev_b16 v0, v2, v4", 0x00040001, 0x80008000, 0, 0x08004000},
                    VectorCase{"v_pk_ashrrev_i16 v0, v2, v4", 0x00040001, 0x80008000, 0, 0xf800c000},
                    VectorCase{"v_pk_min_i16 v0, v2, v4", 0xffff0001, 0x00000002, 0, 0xffff0001},
                    VectorCase{"v_pk_max_u16 v0, v2, v4", 0xffff0001, 0x00000002, 0, 0xffff0002},
                    VectorCase{"v_pk_min_u16 v0, v2, v4", 0xffff0001, 0x00000002, 0, 0x00000001},
                    VectorCase{"v_pk_max_i16 v0, v2, v4", 0xffff0001, 0x00000002, 0, 0x00000002},
                    // The low half takes the high of v2, the high half the low of v4.
                    VectorCase{"v_pk_add_u16 v0, v2, v4 op_sel:[1,0] op_sel_hi:[1,0]", 0x00050001, 0x00200010,
                               0, 0x00150015},
                    VectorCase{"v_pk_add_u16 v0, v2, 3 op_sel_hi:[1,0]", 0x00050001, 0, 0, 0x00080004},
                    VectorCase{"v_pk_lshlrev_b16 v0, 2, v4 op_sel_hi:[0,1]", 0, 0x00050001, 0, 0x00140004}));

INSTANTIATE_TEST_SUITE_P(
    Halves, VectorAlu,
    testing::Values(VectorCase{"v_pk_add_f16 v0, v2, v4", 0x40003c00, 0x3c003c00, 0, 0x42004000},
                    VectorCase{"v_pk_add_f16 v0, v2, v4 neg_lo:[0,1] neg_hi:[1,0]", 0x40003c00, 0x3c003c00, 0,
                               0xbc000000},
                    VectorCase{"v_pk_add_f16 v0, v2, 1.0 op_sel_hi:[1,0]", 0x40003c00, 0, 0, 0x42004000},
                    VectorCase{"v_pk_mul_f16 v0, v2, v4", 0x40003c00, 0xc0004200, 0, 0xc4004200},
                    VectorCase{"v_pk_mul_f16 v0, v2, v4 clamp", 0x40003c00, 0xc0004200, 0, 0x00003c00},
                    VectorCase{"v_pk_fma_f16 v0, v2, v4, v6", 0x40003c01, 0x40003c01, 0x3c00bc02, 0x45000010},
                    VectorCase{"v_pk_min_f16 v0, v2, v4", 0x7e003c00, 0x40004000, 0, 0x40003c00},
                    VectorCase{"v_pk_max_f16 v0, v2, v4", 0xbc003c00, 0xc0004000, 0, 0xbc004000},
                    VectorCase{"v_pk_max_num_f16 v0, v2, v4", 0x7c013c00, 0xc0004000, 0, 0xc0004000},
                    VectorCase{"v_pk_minimum_f16 v0, v2, v4", 0x7e003c00, 0xc0004000, 0, 0x7e003c00},
                    VectorCase{"v_pk_mul_f16 v0, v2, v4 op_sel:[1,1] op_sel_hi:[0,0]", 0x40003c00, 0x42003c00,
                               0, 0x3c004600}));

constexpr uint64_t two_floats(float low, float high) {
  return static_cast<uint64_t>(std::bit_cast<uint32_t>(high)) << 32 | std::bit_cast<uint32_t>(low);
}

INSTANTIATE_TEST_SUITE_P(
    Floats, VectorAlu,
    testing::Values(VectorCase{"v_pk_add_f32 v[0:1], v[2:3], v[4:5]", two_floats(1, 2), two_floats(10, 20), 0,
                               two_floats(11, 22)},
                    VectorCase{"v_pk_mul_f32 v[0:1], v[2:3], v[4:5] op_sel_hi:[1,0]", two_floats(1, 2),
                               two_floats(10, 20), 0, two_floats(10, 20)},
                    VectorCase{"v_pk_mul_f32 v[0:1], v[2:3], v[4:5] op_sel:[0,1] neg_lo:[1,0]",
                               two_floats(1, 2), two_floats(10, 20), 0, two_floats(-20, 40)},
                    VectorCase{"v_pk_fma_f32 v[0:1], v[2:3], v[4:5], v[6:7]", two_floats(1, 2),
                               two_floats(10, 20), two_floats(0.5, 0.25), two_floats(10.5, 40.25)},
                    VectorCase{"v_pk_mul_f32 v[0:1], v[2:3], 2.0 op_sel_hi:[1,0]", two_floats(1, 2), 0, 0,
                               two_floats(2, 4)},
                    VectorCase{"v_pk_mov_b32 v[0:1], v[2:3], v[4:5] op_sel:[1,0]", two_floats(1, 2),
                               two_floats(10, 20), 0, two_floats(2, 10)},
                    VectorCase{"v_pk_mov_b32 v[0:1], v[2:3], v[4:5] op_sel:[0,1]", two_floats(1, 2),
                               two_floats(10, 20), 0, two_floats(1, 20)}));

INSTANTIATE_TEST_SUITE_P(
    Mixed, VectorAlu,
    testing::Values(
        VectorCase{"v_fma_mix_f32 v0, v2, v4, v6", bits(2.0f), bits(3.0f), bits(0.5f), bits(6.5f)},
        // v2 high half as f16: 2, v4 low half: 3, v6 f32
        VectorCase{"v_fma_mix_f32 v0, v2, v4, v6 op_sel:[1,0,0] op_sel_hi:[1,1,0]", 0x40000000, 0x7e004200,
                   bits(0.5f), bits(6.5f)},
        VectorCase{"v_fma_mix_f32 v0, -v2, |v4|, v6 op_sel_hi:[1,1,0]", 0x4000, 0xc200, bits(0.5f),
                   bits(-5.5f)},
        VectorCase{"v_fma_mix_f32 v0, v2, 1.0, v6 op_sel_hi:[1,0,0]", 0x4000, 0, bits(0.5f), bits(2.5f)},
        VectorCase{"v_fma_mixlo_f16 v0, v2, v4, v6 op_sel_hi:[0,0,1]", bits(2.0f), bits(3.0f), 0x3800,
                   0x4680},
        // 1 + 2^-11 + 2^-24 is above the tie though neither f32 nor the tie shows it: rounded once, up
        VectorCase{"v_fma_mixlo_f16 v0, v2, v4, v6", bits(1.0f), bits(1.0f + 0x1p-11f), bits(0x1p-30f),
                   0x3c01}));

TEST(VectorMixed, HalvesOfTheResult) {
  for (const char* chip : {"gfx1100", "gfx90a"}) {
    WaveFixture fixture(chip);
    fixture.set_all<uint32_t>(0, 0x12345678);
    fixture.set_all<float>(2, 2.0f);
    fixture.execute("v_fma_mixlo_f16 v0, v2, v2, v2");
    EXPECT_EQ(fixture.bits(0, 3), 0x12344600u);
    fixture.execute("v_fma_mixhi_f16 v0, v2, v2, -v2");
    EXPECT_EQ(fixture.bits(0, 3), 0x40004600u);
    fixture.execute("v_fma_mixhi_f16 v0, v2, v2, -v2 clamp");
    EXPECT_EQ(fixture.bits(0, 3), 0x3c004600u);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Dots, VectorAlu,
    testing::Values(
        VectorCase{"v_dot2_f32_f16 v0, v2, v4, v6", 0x40003c00, 0x44004200, bits(0.5f), bits(11.5f)},
        VectorCase{"v_dot2_f32_f16 v0, v2, v4, v6 neg_lo:[1,0,0]", 0x40003c00, 0x44004200, bits(0.5f),
                   bits(5.5f)},
        VectorCase{"v_dot2_f32_bf16 v0, v2, v4, v6", 0x40003f80, 0x40804040, bits(0.5f), bits(11.5f)},
        VectorCase{"v_dot2_f16_f16 v0, v2, v4, v6", 0x40003c00, 0x44004200, 0x3800, 0x49c0},
        VectorCase{"v_dot2_f16_f16 v0, v2, v4, v6 op_sel:[0,0,1,0]", 0x40003c00, 0x44004200, 0x38000000,
                   0x49c0},
        VectorCase{"v_dot2_bf16_bf16 v0, v2, v4, v6", 0x40003f80, 0x40804040, 0x3f00, 0x4138},
        VectorCase{"v_dot2_i32_i16 v0, v2, v4, v6", 0xffff0002, 0x00030004, 1, 6},
        VectorCase{"v_dot2_u32_u16 v0, v2, v4, v6", 0xffff0002, 0x00030004, 1, 0x30006},
        VectorCase{"v_dot4_i32_i8 v0, v2, v4, v6", 0xff020304, 0x01020304, 100, 128},
        VectorCase{"v_dot4_u32_u8 v0, v2, v4, v6", 0xff020304, 0x01020304, 100, 384},
        VectorCase{"v_dot4_i32_i8 v0, v2, v4, v6 clamp", 0x7f7f7f7f, 0x7f7f7f7f, 0x7fffffff, 0x7fffffff},
        VectorCase{"v_dot4_i32_i8 v0, v2, v4, v6", 0x01000000, 0x01000000, 0x7fffffff, 0x80000000},
        VectorCase{"v_dot8_i32_i4 v0, v2, v4, v6", 0xf1111111, 0x22222222, 0, 12},
        VectorCase{"v_dot8_u32_u4 v0, v2, v4, v6", 0xf1111111, 0x22222222, 0, 44},
        // signs of each operand by neg_lo
        VectorCase{"v_dot4_i32_iu8 v0, v2, v4, v6", 0xff000000, 0xff000000, 0, 65025},
        VectorCase{"v_dot4_i32_iu8 v0, v2, v4, v6 neg_lo:[1,0,0]", 0xff000000, 0xff000000, 0, 0xffffff01},
        VectorCase{"v_dot4_i32_iu8 v0, v2, v4, v6 neg_lo:[0,1,0]", 0x02000000, 0xff000000, 0, 0xfffffffe},
        VectorCase{"v_dot4_i32_iu8 v0, v2, v4, v6 neg_lo:[1,1,0]", 0xff000000, 0xff000000, 0, 1},
        VectorCase{"v_dot8_i32_iu4 v0, v2, v4, v6 neg_lo:[1,0,0]", 0xf0000000, 0x30000000, 0, 0xfffffffd},
        VectorCase{"v_dot4_f32_fp8_fp8 v0, v2, v4, v6", 0x38383840, 0x38383838, bits(0.5f), bits(5.5f)},
        VectorCase{"v_dot4_f32_fp8_bf8 v0, v2, v4, v6", 0x38000000, 0x40000000, bits(0.5f), bits(2.5f)},
        VectorCase{"v_dot4_f32_bf8_bf8 v0, v2, v4, v6", 0x40000000, 0x40000000, 0, bits(4.0f)}));

TEST(VectorDots, TheDestinationIsAdded) {
  WaveFixture fixture("gfx1030");
  fixture.set_all<uint32_t>(0, 100);
  fixture.set_all<uint32_t>(2, 0xff020304);
  fixture.set_all<uint32_t>(4, 0x01020304);
  fixture.execute("v_dot4c_i32_i8_e32 v0, v2, v4");
  EXPECT_EQ(fixture.bits(0, 9), 128u);
  fixture.set_all<float>(0, 0.5f);
  fixture.set_all<uint32_t>(2, 0x40003c00);
  fixture.set_all<uint32_t>(4, 0x44004200);
  fixture.execute("v_dot2c_f32_f16_e32 v0, v2, v4");
  EXPECT_EQ(fixture.f32(0, 9), 11.5f);
  fixture.execute("v_dual_dot2acc_f32_f16 v0, v2, v4 :: v_dual_mov_b32 v1, v2");
  EXPECT_EQ(fixture.f32(0, 9), 22.5f);
  fixture.set_all<uint32_t>(0, 0x3c004000);
  fixture.execute("v_pk_fmac_f16 v0, v2, v4");
  EXPECT_EQ(fixture.bits(0, 9), 0x48804500u);
}

// Eight products of 4-bit numbers are added to the destination.
TEST(VectorDot, TheDestinationIsAdded) {
  WaveFixture fixture("gfx90a");
  fixture.set_all<uint32_t>(0, 100);
  fixture.set_all<uint32_t>(2, 0xf1111111);  // -1 and seven times 1
  fixture.set_all<uint32_t>(4, 0x22222222);
  fixture.execute("v_dot8c_i32_i4_e32 v0, v2, v4");
  EXPECT_EQ(fixture.bits(0, 9), 112u);
}

TEST(MixedFma, SubnormalNumbersAsModeSays) {
  WaveFixture fixture("gfx1100");
  const auto result = [&](uint32_t mode, const char* text, uint32_t a) {
    fixture.wave.mode = mode;
    fixture.set_all<uint32_t>(0, 0);
    fixture.set_all<uint32_t>(2, a);
    fixture.set_all<float>(4, 1.0f);
    fixture.execute(text);
    return fixture.bits(0, 0);
  };
  const char* single_product = "v_fma_mix_f32 v0, v2, v4, 0";
  EXPECT_EQ(result(0xf0, single_product, 7), 7u);
  EXPECT_EQ(result(0xc0, single_product, 7), 0u);
  const char* half_source = "v_fma_mix_f32 v0, v2, v4, 0 op_sel_hi:[1,0,0]";
  EXPECT_EQ(result(0xc0, half_source, 1), bits(0x1p-24f));
  EXPECT_EQ(result(0x30, half_source, 1), 0u);
  const char* half_result = "v_fma_mixlo_f16 v0, v2, v4, 0";
  EXPECT_EQ(result(0xc0, half_result, static_cast<uint32_t>(bits(0x1p-24f))), 1u);
  EXPECT_EQ(result(0x30, half_result, static_cast<uint32_t>(bits(0x1p-24f))), 0u);
}

}  // namespace
}  // namespace hipemu
