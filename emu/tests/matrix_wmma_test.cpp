// WMMA and SWMMAC, each on its own, against layouts written down in matrix_wmma_layouts.h.
#include <limits>

#include "matrix_wmma_layouts.h"

namespace hipemu::matrix_test {
namespace {

TEST(WmmaGfx11, PlacesOfA) {
  for (const auto& instruction : all_wmma_gfx11()) check_places_of_a(instruction);
}
TEST(WmmaGfx11, PlacesOfB) {
  for (const auto& instruction : all_wmma_gfx11()) check_places_of_b(instruction);
}
TEST(WmmaGfx11, Products) {
  for (const auto& instruction : all_wmma_gfx11()) check_product(instruction);
}
TEST(WmmaGfx12, PlacesOfA) {
  for (const auto& instruction : all_wmma_gfx12()) check_places_of_a(instruction);
}
TEST(WmmaGfx12, PlacesOfB) {
  for (const auto& instruction : all_wmma_gfx12()) check_places_of_b(instruction);
}
TEST(WmmaGfx12, Products) {
  for (const auto& instruction : all_wmma_gfx12()) check_product(instruction);
}
TEST(Swmmac, Places) {
  for (const auto& instruction : all_swmmac()) check_sparse_places(instruction, 0);
}

// The index register holds as many sets of indices as fit; index_key chooses.
TEST(Swmmac, ProductsWithEachSetOfIndices) {
  for (auto instruction : all_swmmac()) {
    const int bits = 4 * instruction.index_layout.runs[0].count *
                     (instruction.wave == 32 && instruction.a.bits == 16 ? 2 : 1);
    const std::string others = instruction.modifiers;
    for (int set = 0; set < 32 / bits; ++set) {
      instruction.modifiers = set == 0 ? others : fmt::format("{} index_key:{}", others, set);
      check_sparse_product(instruction, set * bits);
    }
  }
}

// The halves of the products that the index leaves out are not computed: infinities there do no harm.
TEST(Swmmac, ElementsNotChosenAreNotMultiplied) {
  const auto instruction = swmmac("v_swmmac_f32_16x16x32_f16", f16, f16, f32, 32, 32);
  MatrixWave wave(instruction);
  for (int pair = 0; pair < 8; ++pair)
    for (int i = 0; i < 16; ++i) wave.set_index(i, pair, 0, 1);
  for (int j = 0; j < 16; ++j) wave.set_b_bits(0, 2, j, 0x7c00);
  wave.execute();
  EXPECT_EQ(wave.d(0, 0, 0), 0);
  wave.set_index(0, 0, 0, 2);
  wave.execute();
  EXPECT_TRUE(std::isnan(wave.d(0, 0, 0)));  // 0 * inf
  EXPECT_EQ(wave.d(0, 1, 0), 0);
}

MatrixInstruction gfx11_f16(Number result = f32, int wave = 32) {
  return wmma_gfx11(result.bits == 16 ? "v_wmma_f16_16x16x16_f16" : "v_wmma_f32_16x16x16_f16", f16, result,
                    wave);
}

TEST(Wmma, SpecialValues) {
  const auto instruction = gfx11_f16();
  MatrixWave wave(instruction);
  // Row 0: inf * 1, row 1: inf * 0, row 2: NaN, row 3: subnormals, row 4: 65504 * 65504 * 2.
  wave.set_a_bits(0, 0, 0, 0x7c00);
  wave.set_a_bits(0, 1, 1, 0x7c00);
  wave.set_a_bits(0, 2, 0, 0x7e00);
  wave.set_a_bits(0, 3, 0, 0x0001);
  wave.set_a_bits(0, 4, 2, 0x7bff);
  wave.set_a_bits(0, 4, 3, 0x7bff);
  wave.set_b_bits(0, 0, 0, 0x3c00);
  wave.set_b_bits(0, 2, 0, 0x7bff);
  wave.set_b_bits(0, 3, 0, 0x7bff);
  wave.set_c_bits(0, 5, 0, 0x00000001);  // a subnormal f32 is kept
  wave.execute();
  EXPECT_EQ(wave.d(0, 0, 0), INFINITY);
  EXPECT_TRUE(std::isnan(wave.d(0, 1, 0)));
  EXPECT_TRUE(std::isnan(wave.d(0, 2, 0)));
  EXPECT_EQ(wave.d(0, 3, 0), 0x1p-24);
  EXPECT_EQ(wave.d(0, 4, 0), 2 * 65504.0 * 65504.0);
  EXPECT_EQ(wave.d_bits(0, 5, 0), 1u);
}

TEST(Wmma, HalfResultsAreRoundedOnceToEven) {
  for (const auto& instruction :
       {gfx11_f16(f16), wmma_gfx12("v_wmma_f16_16x16x16_f16", f16, f16, f16, 16, 32)}) {
    MatrixWave wave(instruction);
    // 2048 + 1 is half way, to even: 2048. 2048 + 1 + 2^-10 is above: 2050. Adding to f16 each time would
    // lose it.
    for (int i = 0; i < 3; ++i) wave.set_c_bits(0, i, 0, encode(f16, 2048));
    for (int k = 0; k < 3; ++k) wave.set_b_bits(0, k, 0, encode(f16, 1));
    wave.set_a_bits(0, 0, 0, encode(f16, 1));
    wave.set_a_bits(0, 1, 0, encode(f16, 1));
    wave.set_a_bits(0, 1, 1, encode(f16, 0x1p-10));
    wave.set_c_bits(0, 2, 0, encode(f16, 65504));  // overflows to infinity
    wave.set_a_bits(0, 2, 2, encode(f16, 16));
    wave.execute();
    EXPECT_EQ(wave.d(0, 0, 0), 2048) << instruction;
    EXPECT_EQ(wave.d(0, 1, 0), 2050) << instruction;
    EXPECT_EQ(wave.d(0, 2, 0), INFINITY) << instruction;
  }
}

TEST(Wmma, OpSelTakesTheHighHalfOfCAndDAndKeepsTheOther) {
  for (const int wave_size : {32, 64}) {
    auto instruction = gfx11_f16(f16, wave_size);
    for (auto& run : instruction.d_layout.runs) run.bit += 16;
    instruction.modifiers = "op_sel:[0,0,1]";
    check_product(instruction);
    MatrixWave wave(instruction);
    wave.set_a_bits(0, 3, 5, encode(f16, 2));
    wave.set_b_bits(0, 5, 7, encode(f16, 3));
    wave.execute();
    EXPECT_EQ(wave.d(0, 3, 7), 6);
    Place low = instruction.d_layout.at(3, 7, 0);
    low.bit -= 16;
    EXPECT_EQ(wave.get_bits(d_first, low, 16), 0xbeefu);
  }
  WaveFixture fixture("gfx1100");
  EXPECT_THROW(fixture.execute("v_wmma_f16_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7] op_sel:[1,0,0]"),
               UnknownInstruction);
}

TEST(Wmma, NegationOfHalvesAndOfC) {
  for (auto instruction : {gfx11_f16(), wmma_gfx12("v_wmma_f32_16x16x16_f16", f16, f16, f32, 16, 32)}) {
    const auto result = [&](const std::string& modifiers) {
      instruction.modifiers = modifiers;
      MatrixWave wave(instruction);
      wave.set_a_bits(0, 0, 0, encode(f16, 1));  // in a low half
      wave.set_a_bits(0, 0, 1, encode(f16, 2));  // in a high half
      wave.set_b_bits(0, 0, 0, encode(f16, 10));
      wave.set_b_bits(0, 1, 0, encode(f16, 10));
      wave.set_c_bits(0, 0, 0, encode(f32, -100));
      wave.execute();
      return wave.d(0, 0, 0);
    };
    EXPECT_EQ(result(""), -70) << instruction;
    EXPECT_EQ(result("neg_lo:[1,0,0]"), -90) << instruction;
    EXPECT_EQ(result("neg_hi:[1,0,0]"), -110) << instruction;
    EXPECT_EQ(result("neg_lo:[1,1,0] neg_hi:[1,1,0]"), -70) << instruction;
    EXPECT_EQ(result("neg_lo:[0,0,1]"), 130) << instruction;
    EXPECT_EQ(result("neg_hi:[0,0,1]"), 130) << instruction;                 // the absolute value
    EXPECT_EQ(result("neg_lo:[0,0,1] neg_hi:[0,0,1]"), -70) << instruction;  // its negative
  }
}

TEST(Wmma, IntegersAreSignedByNegLoAndSaturateByClamp) {
  for (const std::string processor : {"gfx1100", "gfx1201"}) {
    auto instruction = processor == "gfx1100" ? wmma_gfx11("v_wmma_i32_16x16x16_iu8", i8, i32, 32)
                                              : wmma_gfx12("v_wmma_i32_16x16x16_iu8", i8, i8, i32, 16, 32);
    const auto result = [&](const std::string& modifiers, int64_t c) {
      instruction.modifiers = modifiers;
      MatrixWave wave(instruction);
      for (int k = 0; k < 16; ++k) {
        wave.set_a_bits(0, 2, k, 0xff);
        wave.set_b_bits(0, k, 3, 0xfe);
      }
      wave.set_c_bits(0, 2, 3, static_cast<uint32_t>(c));
      wave.execute();
      return wave.d(0, 2, 3);
    };
    EXPECT_EQ(result("", 5), 16 * 255 * 254 + 5);
    EXPECT_EQ(result("neg_lo:[1,0,0]", 5), -16 * 254 + 5);
    EXPECT_EQ(result("neg_lo:[0,1,0]", 5), 16 * 255 * -2 + 5);
    EXPECT_EQ(result("neg_lo:[1,1,0]", 5), 16 * 2 + 5);
    constexpr int64_t largest = std::numeric_limits<int32_t>::max(),
                      smallest = std::numeric_limits<int32_t>::min();
    EXPECT_EQ(result("neg_lo:[1,1,0]", largest), static_cast<double>(smallest + 31));
    EXPECT_EQ(result("neg_lo:[1,1,0] clamp", largest), static_cast<double>(largest));
    EXPECT_EQ(result("neg_lo:[1,0,0] clamp", smallest), static_cast<double>(smallest));
    EXPECT_EQ(result("clamp", -1), 16 * 255 * 254 - 1);
  }
}

TEST(Wmma, FourBitIntegers) {
  auto instruction = wmma_gfx12("v_wmma_i32_16x16x32_iu4", i4, i4, i32, 32, 32);
  const auto result = [&](const std::string& modifiers) {
    instruction.modifiers = modifiers;
    MatrixWave wave(instruction);
    for (int k = 0; k < 32; ++k) {
      wave.set_a_bits(0, 0, k, 0xf);
      wave.set_b_bits(0, k, 0, 0x8);
    }
    wave.execute();
    return wave.d(0, 0, 0);
  };
  EXPECT_EQ(result(""), 32 * 15 * 8);
  EXPECT_EQ(result("neg_lo:[1,0,0]"), 32 * -1 * 8);
  EXPECT_EQ(result("neg_lo:[1,1,0]"), 32 * -1 * -8);
}

// All 256 values of the 8-bit floats of gfx12, times one.
TEST(Wmma, EightBitFloatsAreOcp) {
  for (const bool five_exponent_bits : {false, true}) {
    const auto instruction = five_exponent_bits
                                 ? wmma_gfx12("v_wmma_f32_16x16x16_bf8_bf8", bf8, bf8, f32, 16, 32)
                                 : wmma_gfx12("v_wmma_f32_16x16x16_fp8_fp8", fp8, fp8, f32, 16, 32);
    for (int bits = 0; bits < 256; ++bits) {
      MatrixWave wave(instruction);
      wave.set_a_bits(0, 0, 0, static_cast<uint64_t>(bits));
      wave.set_b_bits(0, 0, 0, encode(instruction.b, 1));
      wave.execute();
      double expected = decode_number(instruction.a, static_cast<uint64_t>(bits));
      // E4M3 has numbers where others have infinity: only 0x7f and 0xff are NaN.
      if (!five_exponent_bits && (bits & 0x78) == 0x78)
        expected =
            (bits & 0x7f) == 0x7f ? NAN : std::ldexp(1 + (bits & 7) / 8.0, 8) * ((bits & 0x80) != 0 ? -1 : 1);
      if (std::isnan(expected))
        EXPECT_TRUE(std::isnan(wave.d(0, 0, 0))) << bits;
      else
        EXPECT_EQ(wave.d(0, 0, 0), expected) << bits;
    }
  }
}

TEST(Wmma, IntegerConstantAsCIsItsBits) {
  const auto instruction = gfx11_f16();
  MatrixWave wave(instruction);
  wave.execute("1");
  EXPECT_EQ(wave.d_bits(0, 0, 0), 1u);
}

TEST(Wmma, ResultMayCoverTheSources) {
  const auto instruction = gfx11_f16();
  std::mt19937 random(7);
  const Matrices a = random_integers(1, 16, 16, 7, random), b = random_integers(1, 16, 16, 7, random);
  MatrixWave apart(instruction), over(instruction);
  for (MatrixWave* wave : {&apart, &over}) {
    wave->set_a(a);
    wave->set_b(b);
  }
  apart.execute("0");
  over.fixture.execute(fmt::format("v_wmma_f32_16x16x16_f16 v[{0}:{1}], v[{0}:{1}], v[{2}:{3}], 0", a_first,
                                   a_first + 7, b_first, b_first + 7));
  for (int r = 0; r < 8; ++r)
    for (int lane = 0; lane < 32; ++lane)
      EXPECT_EQ(over.fixture.bits(a_first + r, lane), apart.fixture.bits(d_first + r, lane));
}

std::string fault_of(MatrixWave& wave) {
  try {
    wave.execute();
  } catch (const KernelFault& fault) {
    EXPECT_EQ(fault.kind, Fault::Kind::matrix_layout);
    return fault.message;
  }
  return "";
}

TEST(WmmaCheck, EveryLaneMustBeOn) {
  for (const auto& instruction :
       {gfx11_f16(), gfx11_f16(f32, 64), wmma_gfx12("v_wmma_f32_16x16x16_f16", f16, f16, f32, 16, 32),
        swmmac("v_swmmac_f32_16x16x32_f16", f16, f16, f32, 32, 32)}) {
    MatrixWave wave(instruction);
    wave.fixture.set_exec(wave.fixture.wave.initial_exec & ~(1ull << 9));
    EXPECT_EQ(fault_of(wave),
              fmt::format("lane 9 is switched off (EXEC is {:#x}): a matrix instruction needs all {} lanes",
                          wave.fixture.wave.initial_exec & ~(1ull << 9), instruction.wave));
  }
}

TEST(WmmaCheck, LanesOfGfx11MustRepeat) {
  {
    const auto instruction = gfx11_f16();
    MatrixWave wave(instruction);
    wave.fixture.wave.row(a_first + 3)[18] = 0x3c003c00;
    EXPECT_EQ(fault_of(wave),
              "matrix A differs between lanes: v3 is 0x00000000 in lane 2 and 0x3c003c00 in lane 18 "
              "(on gfx11 lanes 16-31 must repeat lanes 0-15)");
  }
  {
    const auto instruction = gfx11_f16(f32, 64);
    MatrixWave wave(instruction);
    wave.fixture.wave.row(b_first + 7)[63] = 1;
    EXPECT_EQ(fault_of(wave),
              "matrix B differs between lanes: v39 is 0x00000000 in lane 15 and 0x00000001 in lane 63 "
              "(on gfx11 lanes 48-63 must repeat lanes 0-15)");
  }
}

TEST(WmmaCheck, NegativeZeroIsNotACopyOfZero) {
  const auto instruction = gfx11_f16();
  MatrixWave wave(instruction);
  wave.fixture.wave.row(a_first)[16] = 0x8000;
  EXPECT_NE(fault_of(wave), "");
}

TEST(Wmma, OperandsOfTheWrongSizeOrChipAreRefused) {
  WaveFixture gfx11("gfx1100");
  EXPECT_THROW(gfx11.execute("v_wmma_f32_16x16x16_f16 v[0:7], v[8:11], v[16:23], v[0:7]"),
               UnknownInstruction);
  EXPECT_THROW(gfx11.execute("v_wmma_f32_16x16x16_f16 v[0:7], s[0:7], v[16:23], v[0:7]"), UnknownInstruction);
  EXPECT_THROW(gfx11.execute("v_wmma_f32_16x16x16_fp8_fp8 v[0:7], v[8:9], v[16:17], v[0:7]"),
               UnknownInstruction);
  WaveFixture gfx9("gfx90a");
  EXPECT_THROW(gfx9.execute("v_wmma_f32_16x16x16_f16 v[0:3], v[8:15], v[16:23], v[0:3]"), UnknownInstruction);
}

}  // namespace
}  // namespace hipemu::matrix_test
