// Conversions of the vector unit, against values worked out by hand.
#include "vector_case.h"

namespace hipemu {
namespace {

constexpr uint64_t nan32 = 0x7fc00000, inf32 = 0x7f800000;

INSTANTIATE_TEST_SUITE_P(
    Integers, VectorAlu,
    testing::Values(VectorCase{"v_cvt_f32_i32_e32 v0, v2", 0xfffffff9, 0, 0, bits(-7.0f)},
                    VectorCase{"v_cvt_f32_u32_e32 v0, v2", 0xffffffff, 0, 0, bits(4294967296.0f)},
                    VectorCase{"v_cvt_f32_i32_e32 v0, v2", 0x01000001, 0, 0, bits(16777216.0f)},
                    VectorCase{"v_cvt_f64_i32_e32 v[0:1], v2", 0xffffffff, 0, 0, bits(-1.0)},
                    VectorCase{"v_cvt_f64_u32_e32 v[0:1], v2", 0xffffffff, 0, 0, bits(4294967295.0)},
                    VectorCase{"v_cvt_f16_i16_e32 v0, v2", 0xffff, 0, 0, 0xbc00},
                    VectorCase{"v_cvt_f16_u16_e32 v0, v2", 0xffff, 0, 0, 0x7c00},
                    VectorCase{"v_cvt_f32_ubyte0_e32 v0, v2", 0x04030201, 0, 0, bits(1.0f)},
                    VectorCase{"v_cvt_f32_ubyte1_e32 v0, v2", 0x04030201, 0, 0, bits(2.0f)},
                    VectorCase{"v_cvt_f32_ubyte2_e32 v0, v2", 0x04030201, 0, 0, bits(3.0f)},
                    VectorCase{"v_cvt_f32_ubyte3_e32 v0, v2", 0xff030201, 0, 0, bits(255.0f)},
                    VectorCase{"v_cvt_off_f32_i4_e32 v0, v2", 0x8, 0, 0, bits(-0.5f)},
                    VectorCase{"v_cvt_off_f32_i4_e32 v0, v2", 0x7, 0, 0, bits(0.4375f)},
                    VectorCase{"v_cvt_i32_f32_e32 v0, v2", bits(-1.99f), 0, 0, 0xffffffff},
                    VectorCase{"v_cvt_i32_f32_e32 v0, v2", bits(3e9f), 0, 0, 0x7fffffff},
                    VectorCase{"v_cvt_i32_f32_e32 v0, v2", bits(-3e9f), 0, 0, 0x80000000},
                    VectorCase{"v_cvt_i32_f32_e32 v0, v2", nan32, 0, 0, 0},
                    VectorCase{"v_cvt_u32_f32_e32 v0, v2", bits(3e9f), 0, 0, 3000000000u},
                    VectorCase{"v_cvt_u32_f32_e32 v0, v2", bits(-1.0f), 0, 0, 0},
                    VectorCase{"v_cvt_u32_f32_e32 v0, v2", inf32, 0, 0, 0xffffffff},
                    VectorCase{"v_cvt_i32_f64_e32 v0, v[2:3]", bits(-2147483648.9), 0, 0, 0x80000000},
                    VectorCase{"v_cvt_u32_f64_e32 v0, v[2:3]", bits(4294967295.5), 0, 0, 0xffffffff},
                    VectorCase{"v_cvt_i16_f16_e32 v0, v2", 0xfbff, 0, 0, 0x8000},
                    VectorCase{"v_cvt_u16_f16_e32 v0, v2", 0x4500, 0, 0, 5},
                    VectorCase{"v_cvt_u16_f16_e32 v0, v2", 0x7c00, 0, 0, 0xffff},
                    VectorCase{"v_cvt_rpi_i32_f32_e32 v0, v2", bits(-1.5f), 0, 0, 0xffffffff},
                    VectorCase{"v_cvt_nearest_i32_f32_e32 v0, v2", bits(2.5f), 0, 0, 3},
                    VectorCase{"v_cvt_flr_i32_f32_e32 v0, v2", bits(-1.5f), 0, 0, 0xfffffffe},
                    VectorCase{"v_cvt_floor_i32_f32_e32 v0, v2", bits(1.5f), 0, 0, 1},
                    VectorCase{"v_cvt_i32_i16_e32 v0, v2", 0x1234fffe, 0, 0, 0xfffffffe},
                    VectorCase{"v_cvt_u32_u16_e32 v0, v2", 0x1234fffe, 0, 0, 0xfffe},
                    VectorCase{"v_cvt_norm_i16_f16_e32 v0, v2", 0xbc00, 0, 0, 0x8001},
                    VectorCase{"v_cvt_norm_u16_f16_e32 v0, v2", 0x3c00, 0, 0, 0xffff}));

INSTANTIATE_TEST_SUITE_P(
    Floats, VectorAlu,
    testing::Values(VectorCase{"v_cvt_f32_f16_e32 v0, v2", 0x12343c00, 0, 0, bits(1.0f)},
                    VectorCase{"v_cvt_f32_f16_e32 v0, v2", 0x8001, 0, 0, bits(-0x1p-24f)},
                    VectorCase{"v_cvt_f32_f16_e32 v0, v2", 0x7c00, 0, 0, inf32},
                    VectorCase{"v_cvt_f32_f16_e32 v0, v2", 0x7c01, 0, 0, 0x7fc02000},
                    VectorCase{"v_cvt_f16_f32_e32 v0, v2", bits(65519.0f), 0, 0, 0x7bff},
                    VectorCase{"v_cvt_f16_f32_e32 v0, v2", bits(65520.0f), 0, 0, 0x7c00},
                    VectorCase{"v_cvt_f16_f32_e32 v0, v2", bits(0x1p-25f), 0, 0, 0},
                    VectorCase{"v_cvt_f16_f32_e32 v0, v2", bits(0x1.8p-24f), 0, 0, 2},
                    VectorCase{"v_cvt_f32_f64_e32 v0, v[2:3]", bits(1.0 + 0x1p-24), 0, 0, bits(1.0f)},
                    VectorCase{"v_cvt_f32_f64_e32 v0, v[2:3]", bits(1e300), 0, 0, inf32},
                    VectorCase{"v_cvt_f64_f32_e32 v[0:1], v2", bits(-0.1f), 0, 0, 0xbfb99999a0000000}));

INSTANTIATE_TEST_SUITE_P(
    Packed, VectorAlu,
    testing::Values(VectorCase{"v_cvt_pkrtz_f16_f32_e32 v0, v2, v4", bits(1.0f + 0x1.ffp-11f), bits(-1e6f), 0,
                               0xfbff3c00},
                    VectorCase{"v_cvt_pk_rtz_f16_f32_e32 v0, v2, v4", inf32, bits(0x1p-25f), 0, 0x00007c00},
                    VectorCase{"v_cvt_pknorm_i16_f32 v0, v2, v4", bits(-1.0f), bits(0.5f), 0, 0x40008001},
                    VectorCase{"v_cvt_pk_norm_u16_f32 v0, v2, v4", bits(-1.0f), bits(2.0f), 0, 0xffff0000},
                    VectorCase{"v_cvt_pknorm_u16_f16 v0, v2, v4", 0x3c00, 0x7e00, 0, 0x0000ffff},
                    VectorCase{"v_cvt_pk_norm_i16_f16 v0, v2, v4", 0x3c00, 0xbc00, 0, 0x80017fff},
                    VectorCase{"v_cvt_pk_u16_u32 v0, v2, v4", 0x10000, 7, 0, 0x0007ffff},
                    VectorCase{"v_cvt_pk_i16_i32 v0, v2, v4", 0xffff0000, 0x8000, 0, 0x7fff8000},
                    VectorCase{"v_cvt_pk_i16_f32 v0, v2, v4", bits(-2.7f), bits(1e9f), 0, 0x7ffffffe},
                    VectorCase{"v_cvt_pk_u16_f32 v0, v2, v4", bits(-2.7f), bits(258.9f), 0, 0x01020000},
                    VectorCase{"v_cvt_pk_u8_f32 v0, v2, v4, v6", bits(300.0f), 2, 0x11223344, 0x11ff3344},
                    VectorCase{"v_cvt_pk_bf16_f32 v0, v2, v4", 0x3f808000, 0x3f818000, 0, 0x3f823f80}));

struct SmallFloatCase {
  const char* processor;
  const char* text;
  uint32_t a, b, result;
};
void PrintTo(const SmallFloatCase& test, std::ostream* out) { *out << test.processor << " " << test.text; }
class SmallFloat : public testing::TestWithParam<SmallFloatCase> {};

// v0 is the result and holds 0x3c3c3c3c before; v2 and v4 are the sources.
TEST_P(SmallFloat, Converts) {
  const auto& test = GetParam();
  WaveFixture fixture(test.processor);
  fixture.set_all<uint32_t>(0, 0x3c3c3c3c);
  fixture.set_all<uint32_t>(2, test.a);
  fixture.set_all<uint32_t>(4, test.b);
  fixture.execute(test.text);
  EXPECT_EQ(fixture.bits(0, 7), test.result) << std::hex << fixture.bits(0, 7) << " for " << test.result;
}

uint32_t single(float value) { return std::bit_cast<uint32_t>(value); }

INSTANTIATE_TEST_SUITE_P(
    Ocp, SmallFloat,
    testing::Values(
        SmallFloatCase{"gfx1201", "v_cvt_f32_fp8_e32 v0, v2", 0x7ec23801, 0, single(0x1p-9f)},
        SmallFloatCase{"gfx1201", "v_cvt_f32_fp8_e64 v0, v2 byte_sel:1", 0x7ec23801, 0, single(1.0f)},
        SmallFloatCase{"gfx1201", "v_cvt_f32_fp8_e64 v0, v2 byte_sel:2", 0x7ec23801, 0, single(-2.5f)},
        SmallFloatCase{"gfx1201", "v_cvt_f32_fp8_e64 v0, v2 byte_sel:3", 0x7ec23801, 0, single(448.0f)},
        SmallFloatCase{"gfx1201", "v_cvt_f32_fp8_e32 v0, v2", 0x7f, 0, 0x7fc00000},
        SmallFloatCase{"gfx1201", "v_cvt_f32_bf8_e32 v0, v2", 0x3c, 0, single(1.0f)},
        SmallFloatCase{"gfx1201", "v_cvt_f32_bf8_e32 v0, v2", 0xfc, 0, 0xff800000},
        SmallFloatCase{"gfx1201", "v_cvt_f32_bf8_e32 v0, v2", 0x01, 0, single(0x1p-16f)},
        SmallFloatCase{"gfx1201", "v_cvt_pk_fp8_f32 v0, v2, v4", single(1.0f), single(-2.5f), 0x3c3cc238},
        SmallFloatCase{"gfx1201", "v_cvt_pk_fp8_f32 v0, v2, v4 op_sel:[0,0,1]", single(1.0f), single(-2.5f),
                       0xc2383c3c},
        SmallFloatCase{"gfx1201", "v_cvt_pk_fp8_f32 v0, v2, v4", single(464.0f), single(465.0f), 0x3c3c7f7e},
        SmallFloatCase{"gfx1201", "v_cvt_pk_fp8_f32 v0, v2, v4", single(-0.0f), single(0x1p-10f), 0x3c3c0080},
        SmallFloatCase{"gfx1201", "v_cvt_pk_fp8_f32 v0, v2, v4", single(0x1.8p-9f), single(INFINITY),
                       0x3c3c7f02},
        SmallFloatCase{"gfx1201", "v_cvt_pk_bf8_f32 v0, v2, v4", single(-1e9f), single(57344.0f), 0x3c3c7bfc},
        SmallFloatCase{"gfx1201", "v_cvt_sr_fp8_f32 v0, v2, v4", single(1.0625f), 0x80000000, 0x3c3c3c39},
        SmallFloatCase{"gfx1201", "v_cvt_sr_fp8_f32 v0, v2, v4 byte_sel:2", single(1.0625f), 0x7fffffff,
                       0x3c383c3c},
        SmallFloatCase{"gfx1201", "v_cvt_sr_bf8_f32 v0, v2, v4 byte_sel:3", single(1.0f), 0xffffffff,
                       0x3c3c3c3c}));

INSTANTIATE_TEST_SUITE_P(
    Fnuz, SmallFloat,
    testing::Values(
        SmallFloatCase{"gfx942", "v_cvt_f32_fp8_e32 v0, v2", 0x40, 0, single(1.0f)},
        SmallFloatCase{"gfx942", "v_cvt_f32_fp8_e32 v0, v2", 0x80, 0, 0x7fc00000},
        SmallFloatCase{"gfx942", "v_cvt_f32_fp8_sdwa v0, v2 src0_sel:BYTE_3", 0xff000000, 0, single(-240.0f)},
        SmallFloatCase{"gfx942", "v_cvt_f32_bf8_e32 v0, v2", 0x01, 0, single(0x1p-17f)},
        SmallFloatCase{"gfx942", "v_cvt_f32_bf8_sdwa v0, v2 src0_sel:BYTE_1", 0x7f00, 0, single(57344.0f)},
        SmallFloatCase{"gfx942", "v_cvt_pk_fp8_f32 v0, v2, v4", single(1.0f), single(-0.0f), 0x3c3c0040},
        SmallFloatCase{"gfx942", "v_cvt_pk_fp8_f32 v0, v2, v4 op_sel:[0,0,1]", single(-1000.0f),
                       single(240.0f), 0x7f803c3c},
        SmallFloatCase{"gfx942", "v_cvt_pk_bf8_f32 v0, v2, v4", single(-1.0f), single(NAN), 0x3c3c80c0},
        SmallFloatCase{"gfx942", "v_cvt_sr_fp8_f32 v0, v2, v4 op_sel:[0,0,1,0]", single(1.0f), 0, 0x3c3c403c},
        SmallFloatCase{"gfx942", "v_cvt_sr_fp8_f32 v0, v2, v4 op_sel:[0,0,1,1]", single(1.0f), 0,
                       0x403c3c3c}));

TEST(VectorConversions, TwoSmallFloats) {
  WaveFixture fixture("gfx1201");
  fixture.set_all<uint32_t>(2, 0xc2384038);
  fixture.execute("v_cvt_pk_f32_fp8_e32 v[0:1], v2");
  EXPECT_EQ(fixture.f32(0), 1.0f);
  EXPECT_EQ(fixture.f32(1), 2.0f);
  fixture.execute("v_cvt_pk_f32_fp8_e64 v[0:1], v2 op_sel:[1,0]");
  EXPECT_EQ(fixture.f32(0), 1.0f);
  EXPECT_EQ(fixture.f32(1), -2.5f);
  WaveFixture other("gfx942");
  other.set_all<uint32_t>(2, 0xc0400000);
  other.execute("v_cvt_pk_f32_bf8_sdwa v[0:1], v2 src0_sel:WORD_1");
  EXPECT_EQ(other.f32(0), 1.0f);
  EXPECT_EQ(other.f32(1), -1.0f);
}

}  // namespace
}  // namespace hipemu
