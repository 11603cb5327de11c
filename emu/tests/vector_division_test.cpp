// Division as the compiler writes it: the sequence has to round correctly for every operand.
#include <cmath>
#include <random>

#include "wave_fixture.h"

namespace hipemu {
namespace {

// The sequences of LLVM for v0 = v2 / v4 and v[0:1] = v[2:3] / v[4:5].
void divide_single(WaveFixture& fixture) {
  for (const char* text :
       {"v_div_scale_f32 v10, s[20:21], v4, v4, v2", "v_div_scale_f32 v11, vcc, v2, v4, v2",
        "v_rcp_f32_e32 v12, v10", "v_fma_f32 v13, -v10, v12, 1.0", "v_fma_f32 v12, v13, v12, v12",
        "v_mul_f32_e32 v14, v11, v12", "v_fma_f32 v15, -v10, v14, v11", "v_fma_f32 v14, v15, v12, v14",
        "v_fma_f32 v15, -v10, v14, v11", "v_div_fmas_f32 v16, v15, v12, v14",
        "v_div_fixup_f32 v0, v16, v4, v2"})
    fixture.execute(text);
}
void divide_double(WaveFixture& fixture) {
  for (const char* text :
       {"v_div_scale_f64 v[10:11], s[20:21], v[4:5], v[4:5], v[2:3]", "v_rcp_f64_e32 v[12:13], v[10:11]",
        "v_fma_f64 v[14:15], -v[10:11], v[12:13], 1.0", "v_fma_f64 v[12:13], v[12:13], v[14:15], v[12:13]",
        "v_fma_f64 v[14:15], -v[10:11], v[12:13], 1.0",
        "v_div_scale_f64 v[16:17], vcc, v[2:3], v[4:5], v[2:3]",
        "v_fma_f64 v[12:13], v[12:13], v[14:15], v[12:13]", "v_mul_f64 v[14:15], v[16:17], v[12:13]",
        "v_fma_f64 v[10:11], -v[10:11], v[14:15], v[16:17]",
        "v_div_fmas_f64 v[10:11], v[10:11], v[12:13], v[14:15]",
        "v_div_fixup_f64 v[0:1], v[10:11], v[4:5], v[2:3]"})
    fixture.execute(text);
}

void check_single(WaveFixture& fixture) {
  divide_single(fixture);
  for (int lane = 0; lane < fixture.size; ++lane) {
    const float top = fixture.f32(2, lane), bottom = fixture.f32(4, lane), found = fixture.f32(0, lane);
    const float expected = top / bottom;
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(found)) << top << " / " << bottom;
    else
      EXPECT_EQ(std::bit_cast<uint32_t>(found), std::bit_cast<uint32_t>(expected))
          << std::hexfloat << top << " / " << bottom << " = " << found << " for " << expected;
  }
}
void check_double(WaveFixture& fixture) {
  divide_double(fixture);
  for (int lane = 0; lane < fixture.size; ++lane) {
    const double top = fixture.f64(2, lane), bottom = fixture.f64(4, lane), found = fixture.f64(0, lane);
    const double expected = top / bottom;
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(found)) << top << " / " << bottom;
    else
      EXPECT_EQ(std::bit_cast<uint64_t>(found), std::bit_cast<uint64_t>(expected))
          << std::hexfloat << top << " / " << bottom << " = " << found << " for " << expected;
  }
}

TEST(Division, EverySizeOfSingles) {
  std::mt19937 random(1);
  for (int round = 0; round < 2000 && !testing::Test::HasFailure(); ++round) {
    WaveFixture fixture("gfx90a");
    fixture.set_vector<uint32_t>(2, [&](int) { return static_cast<uint32_t>(random()); });
    fixture.set_vector<uint32_t>(4, [&](int) { return static_cast<uint32_t>(random()); });
    check_single(fixture);
  }
}

// Quotients that are subnormal, or close to the largest number.
TEST(Division, SinglesAtTheEdges) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000 && !testing::Test::HasFailure(); ++round) {
    WaveFixture fixture("gfx90a");
    const int difference = round % 2 == 0 ? 120 + round / 2 % 12 : -122 - round / 2 % 32;
    fixture.set_vector<float>(4, [&](int) {
      const int exponent =
          difference > 0 ? -static_cast<int>(random() % 120) : static_cast<int>(random() % 120);
      return std::scalbn(1.0f + static_cast<float>(random() & 0x7fffff) * 0x1p-23f, exponent);
    });
    fixture.set_vector<float>(2, [&](int lane) {
      const float mantissa = 1.0f + static_cast<float>(random() & 0x7fffff) * 0x1p-23f;
      return std::scalbn(mantissa, std::ilogb(fixture.f32(4, lane)) + difference);
    });
    check_single(fixture);
  }
}

TEST(Division, SpecialSingles) {
  constexpr float values[] = {0.0f,      -0.0f,       1.0f,       -3.0f,     0x1p-149f,       -0x1p-149f,
                              INFINITY,  -INFINITY,   NAN,        0x1p-126f, 0x1.fffffep127f, 0x1p127f,
                              0x1p-140f, 0x1.8p-127f, -0x1p-126f, 7.0f};
  for (const float bottom : values) {
    WaveFixture fixture("gfx1100");
    fixture.set_vector<float>(2, [&](int lane) { return values[lane % 16]; });
    fixture.set_all<float>(4, bottom);
    check_single(fixture);
  }
}

TEST(Division, EverySizeOfDoubles) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 2000 && !testing::Test::HasFailure(); ++round) {
    WaveFixture fixture("gfx90a");
    fixture.set_vector<uint64_t>(2, [&](int) { return random(); });
    fixture.set_vector<uint64_t>(4, [&](int) { return random(); });
    check_double(fixture);
  }
}

TEST(Division, DoublesAtTheEdges) {
  std::mt19937_64 random(4);
  for (int round = 0; round < 2000 && !testing::Test::HasFailure(); ++round) {
    WaveFixture fixture("gfx90a");
    const int difference = round % 2 == 0 ? 1010 + round / 2 % 16 : -1015 - round / 2 % 64;
    fixture.set_vector<double>(4, [&](int) {
      const int exponent =
          difference > 0 ? -static_cast<int>(random() % 1000) : static_cast<int>(random() % 1000);
      return std::scalbn(1.0 + static_cast<double>(random() >> 12) * 0x1p-52, exponent);
    });
    fixture.set_vector<double>(2, [&](int lane) {
      const double mantissa = 1.0 + static_cast<double>(random() >> 12) * 0x1p-52;
      return std::scalbn(mantissa, std::ilogb(fixture.f64(4, lane)) + difference);
    });
    check_double(fixture);
  }
}

TEST(Division, HalvesAndSpecialCases) {
  WaveFixture fixture("gfx1100");
  const auto fixup = [&](uint16_t quotient, uint16_t denominator, uint16_t numerator) {
    fixture.set_all<uint32_t>(2, quotient);
    fixture.set_all<uint32_t>(3, denominator);
    fixture.set_all<uint32_t>(4, numerator);
    fixture.execute("v_div_fixup_f16 v0, v2, v3, v4");
    return fixture.bits(0, 0) & 0xffff;
  };
  EXPECT_EQ(fixup(0x3c00, 0x4000, 0xc000), 0xbc00u);  // the sign comes from the operands
  EXPECT_EQ(fixup(0x1234, 0x0000, 0x3c00), 0x7c00u);
  EXPECT_EQ(fixup(0x1234, 0x8000, 0x3c00), 0xfc00u);
  EXPECT_EQ(fixup(0x1234, 0x7c00, 0x3c00), 0x0000u);
  EXPECT_EQ(fixup(0x1234, 0x3c00, 0x7e01), 0x7e01u);
  EXPECT_EQ(fixup(0x1234, 0x0000, 0x0000) & 0x7e00, 0x7e00u);
}

}  // namespace
}  // namespace hipemu
