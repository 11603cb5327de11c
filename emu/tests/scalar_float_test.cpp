// Float instructions on scalar registers.
#include <gtest/gtest.h>

#include "wave_fixture.h"

namespace hipemu {
namespace {

struct Case {
  const char* text;  // s0 is the result, s2 and s4 the sources
  uint32_t a, b, result;
};
void PrintTo(const Case& test, std::ostream* out) { *out << test.text; }
class ScalarFloat : public testing::TestWithParam<Case> {};

constexpr uint32_t single(float value) { return std::bit_cast<uint32_t>(value); }

TEST_P(ScalarFloat, Result) {
  const Case& test = GetParam();
  WaveFixture fixture("gfx1201");
  fixture.wave.scalars[0] = single(100.0f);
  fixture.wave.scalars[2] = test.a;
  fixture.wave.scalars[4] = test.b;
  fixture.execute(test.text);
  EXPECT_EQ(fixture.wave.scalars[0], test.result) << std::hex << fixture.wave.scalars[0];
}

INSTANTIATE_TEST_SUITE_P(
    Results, ScalarFloat,
    testing::Values(Case{"s_add_f32 s0, s2, s4", single(1.5f), single(2.0f), single(3.5f)},
                    Case{"s_sub_f32 s0, s2, 1.0", single(1.5f), 0, single(0.5f)},
                    Case{"s_mul_f32 s0, s2, s4", single(1.5f), single(2.0f), single(3.0f)},
                    Case{"s_fmac_f32 s0, s2, s4", single(1.5f), single(2.0f), single(103.0f)},
                    Case{"s_fmaak_f32 s0, s2, s4, 0x3f800000", single(1.5f), single(2.0f), single(4.0f)},
                    Case{"s_fmamk_f32 s0, s2, 0x40800000, s4", single(1.5f), single(2.0f), single(8.0f)},
                    Case{"s_min_num_f32 s0, s2, s4", 0x7fc00000, single(2.0f), single(2.0f)},
                    Case{"s_maximum_f32 s0, s2, s4", 0x7fc00000, single(2.0f), 0x7fc00000},
                    Case{"s_ceil_f32 s0, s2", single(1.25f), 0, single(2.0f)},
                    Case{"s_floor_f32 s0, s2", single(-1.25f), 0, single(-2.0f)},
                    Case{"s_trunc_f32 s0, s2", single(-1.25f), 0, single(-1.0f)},
                    Case{"s_rndne_f32 s0, s2", single(2.5f), 0, single(2.0f)},
                    Case{"s_cvt_f32_i32 s0, s2", 0xffffffff, 0, single(-1.0f)},
                    Case{"s_cvt_f32_u32 s0, s2", 7, 0, single(7.0f)},
                    Case{"s_cvt_i32_f32 s0, s2", single(-1e20f), 0, 0x80000000},
                    Case{"s_cvt_u32_f32 s0, s2", 0x7fc00000, 0, 0},
                    Case{"s_cvt_f16_f32 s0, s2", single(1.0f), 0, 0x3c00},
                    Case{"s_cvt_f32_f16 s0, s2", 0x40003c00, 0, single(1.0f)},
                    Case{"s_cvt_hi_f32_f16 s0, s2", 0x40003c00, 0, single(2.0f)},
                    Case{"s_cvt_pk_rtz_f16_f32 s0, s2, s4", single(1e6f), single(1.0f), 0x3c007bff},
                    Case{"s_add_f16 s0, s2, s4", 0x3c00, 0x4000, 0x4200},
                    Case{"s_mul_f16 s0, s2, s4", 0x4200, 0x4000, 0x4600},
                    Case{"s_max_num_f16 s0, s2, s4", 0x4200, 0x4000, 0x4200}));

TEST(ScalarFloatCompares, SetScc) {
  WaveFixture fixture("gfx1201");
  fixture.wave.scalars[2] = single(1.0f);
  fixture.wave.scalars[4] = single(2.0f);
  fixture.wave.scalars[5] = 0x7fc00000;
  const auto holds = [&](const char* text) {
    fixture.execute(text);
    return fixture.wave.scc;
  };
  EXPECT_TRUE(holds("s_cmp_lt_f32 s2, s4"));
  EXPECT_FALSE(holds("s_cmp_lt_f32 s4, s2"));
  EXPECT_FALSE(holds("s_cmp_lt_f32 s4, s5"));
  EXPECT_TRUE(holds("s_cmp_nlt_f32 s4, s5"));
  EXPECT_TRUE(holds("s_cmp_u_f32 s4, s5"));
  EXPECT_FALSE(holds("s_cmp_o_f32 s4, s5"));
  EXPECT_TRUE(holds("s_cmp_neq_f32 s4, s2"));
  EXPECT_FALSE(holds("s_cmp_lg_f32 s5, s2"));
  EXPECT_TRUE(holds("s_cmp_ge_f16 0x4200, s5"));  // 3 and the 0 of the low half
}

// MODE: rounding of f32 in bits 0 and 1, of f16 in bits 2 and 3; denormals in bits 4 to 7.
TEST(ScalarFloatMode, RoundingAndSubnormalNumbers) {
  WaveFixture fixture("gfx1201");
  const auto result = [&](uint32_t mode, const char* text, uint32_t a, uint32_t b) {
    fixture.wave.mode = mode;
    fixture.wave.scalars[0] = 0;
    fixture.wave.scalars[2] = a;
    fixture.wave.scalars[4] = b;
    fixture.execute(text);
    return fixture.wave.scalars[0];
  };
  const uint32_t one = single(1.0f), little = single(0x1p-30f), tiny = 5;
  EXPECT_EQ(result(0xf0, "s_add_f32 s0, s2, s4", one, little), one);
  EXPECT_EQ(result(0xf1, "s_add_f32 s0, s2, s4", one, little), one + 1);
  EXPECT_EQ(result(0xf2, "s_sub_f32 s0, s2, s4", one, little), one - 1);
  EXPECT_EQ(result(0xf3, "s_cvt_f32_i32 s0, s2", 0x7fffffff, 0), single(0x1.fffffep30f));
  EXPECT_EQ(result(0xf1, "s_rndne_f32 s0, s2", single(2.5f), 0), single(2.0f));
  EXPECT_EQ(result(0xf4, "s_add_f16 s0, s2, s4", 0x3c00, 0x0001), 0x3c01u);
  EXPECT_EQ(result(0xf1, "s_add_f16 s0, s2, s4", 0x3c00, 0x0001), 0x3c00u);
  EXPECT_EQ(result(0xfc, "s_cvt_f16_f32 s0, s2", single(65519.0f), 0), 0x7bffu);
  EXPECT_EQ(result(0xf0, "s_add_f32 s0, s2, s4", tiny, 0), tiny);
  EXPECT_EQ(result(0xc0, "s_add_f32 s0, s2, s4", tiny, 0), 0u);
  EXPECT_EQ(result(0xc0, "s_add_f16 s0, s2, s4", tiny, 0), tiny);
  EXPECT_EQ(result(0x30, "s_add_f16 s0, s2, s4", tiny, 0), 0u);
  result(0xc0, "s_cmp_lg_f32 s2, s4", tiny, 0);
  EXPECT_FALSE(fixture.wave.scc);
  result(0xf0, "s_cmp_lg_f32 s2, s4", tiny, 0);
  EXPECT_TRUE(fixture.wave.scc);
}

}  // namespace
}  // namespace hipemu
