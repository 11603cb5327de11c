// MFMA and SMFMAC, each on its own, against layouts written down in matrix_mfma_layouts.h.
#include "matrix_mfma_layouts.h"

namespace hipemu::matrix_test {
namespace {

TEST(MfmaGfx90a, PlacesOfA) {
  for (const auto& instruction : all_mfma_gfx90a()) check_places_of_a(instruction);
}
TEST(MfmaGfx90a, PlacesOfB) {
  for (const auto& instruction : all_mfma_gfx90a()) check_places_of_b(instruction);
}
TEST(MfmaGfx90a, Products) {
  for (const auto& instruction : all_mfma_gfx90a()) check_product(instruction);
}
TEST(MfmaGfx942, PlacesOfA) {
  for (const auto& instruction : all_mfma_gfx942()) check_places_of_a(instruction);
}
TEST(MfmaGfx942, PlacesOfB) {
  for (const auto& instruction : all_mfma_gfx942()) check_places_of_b(instruction);
}
TEST(MfmaGfx942, Products) {
  for (const auto& instruction : all_mfma_gfx942()) check_product(instruction);
}
TEST(Smfmac, Places) {
  for (const auto& instruction : all_smfmac()) check_sparse_places(instruction, 0);
}

// With cbsz:0, abid chooses among four sets of 8 bits (16-bit sources) or two of 16 bits; with another, it is
// the first.
TEST(Smfmac, ProductsWithEachSetOfIndices) {
  for (auto instruction : all_smfmac()) {
    const int bits = instruction.a.bits == 16 ? 8 : 16;
    for (int set = 0; set < 32 / bits; ++set) {
      instruction.modifiers = set == 0 ? "" : fmt::format("abid:{}", set);
      check_sparse_product(instruction, set * bits);
    }
    instruction.modifiers = "cbsz:1 abid:1";
    check_sparse_product(instruction, 0);
  }
}

MatrixInstruction with_modifiers(MatrixInstruction instruction, std::string modifiers) {
  instruction.modifiers = std::move(modifiers);
  return instruction;
}

// cbsz:n makes groups of 2^n blocks; all of a group use the A of block abid of the group.
TEST(Mfma, BroadcastOfBlocksOfA) {
  const struct {
    int size, block;
    std::vector<int> source;  // of A, for each block
  } cases[] = {
      {1, 0, {0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14}},
      {1, 1, {1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15}},
      {2, 3, {3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11, 15, 15, 15, 15}},
      {3, 5, {5, 5, 5, 5, 5, 5, 5, 5, 13, 13, 13, 13, 13, 13, 13, 13}},
      {4, 9, std::vector<int>(16, 9)},
  };
  for (const char* name : {"v_mfma_f32_4x4x1f32", "v_mfma_f32_4x4x1_16b_f32"}) {
    for (const auto& test : cases) {
      const bool old = std::string_view(name) == "v_mfma_f32_4x4x1f32";
      const auto instruction =
          with_modifiers(mfma(name, old ? "gfx90a" : "gfx942", f32, f32, f32, {4, 1, 16}),
                         fmt::format("cbsz:{} abid:{}", test.size, test.block));
      std::mt19937 random(1);
      const Matrices a = random_integers(16, 4, 1, 50, random), b = random_integers(16, 1, 4, 50, random);
      MatrixWave wave(instruction);
      wave.set_a(a);
      wave.set_b(b);
      wave.execute();
      for (int block = 0; block < 16; ++block)
        for (int i = 0; i < 4; ++i)
          for (int j = 0; j < 4; ++j)
            ASSERT_EQ(wave.d(block, i, j), a.at(test.source[block], i, 0) * b.at(block, 0, j))
                << instruction.modifiers;
    }
  }
}

TEST(Mfma, BroadcastBeyondTheBlocksIsRefused) {
  for (const char* modifiers : {"cbsz:2", "cbsz:1 abid:2"}) {
    const auto instruction =
        with_modifiers(mfma("v_mfma_f32_32x32x1f32", "gfx90a", f32, f32, f32, {32, 1, 2}), modifiers);
    MatrixWave wave(instruction);
    EXPECT_THROW(wave.execute(), UnknownInstruction) << modifiers;
  }
}

// blgp: which group of 16 lanes each group takes B from.
TEST(Mfma, PatternsOfLanesOfB) {
  constexpr int source[8][4] = {
      {0, 1, 2, 3},  // as it is
      {0, 1, 0, 1},  // lanes 0-31 to 32-63
      {2, 3, 2, 3},  // lanes 32-63 to 0-31
      {1, 2, 3, 0},  // all down by 16
      {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3},
  };
  for (int pattern = 0; pattern < 8; ++pattern) {
    const auto instruction =
        with_modifiers(mfma("v_mfma_f32_16x16x2bf16", "gfx90a", bf16, bf16, f32, {16, 2, 4}),
                       pattern == 0 ? "" : fmt::format("blgp:{}", pattern));
    std::mt19937 random(1);
    const Matrices a = random_integers(4, 16, 2, 50, random), b = random_integers(4, 2, 16, 50, random);
    MatrixWave wave(instruction);
    wave.set_a(a);
    wave.set_b(b);
    wave.execute();
    for (int block = 0; block < 4; ++block)
      for (int i = 0; i < 16; ++i)
        for (int j = 0; j < 16; ++j) {
          const int from = source[pattern][block];
          ASSERT_EQ(wave.d(block, i, j),
                    a.at(block, i, 0) * b.at(from, 0, j) + a.at(block, i, 1) * b.at(from, 1, j))
              << "blgp:" << pattern << " block " << block;
        }
  }
}

TEST(Mfma, PatternWhereThereIsNoneIsRefused) {
  WaveFixture gfx90a("gfx90a"), gfx942("gfx942");
  EXPECT_NO_THROW(gfx90a.execute("v_mfma_f32_32x32x8f16 v[0:15], v[16:17], v[18:19], 0 blgp:2"));
  EXPECT_THROW(gfx90a.execute("v_mfma_f64_16x16x4f64 v[0:7], v[16:17], v[18:19], 0 blgp:2"),
               UnknownInstruction);
  EXPECT_THROW(gfx942.execute("v_mfma_f32_32x32x8_f16 v[0:15], v[16:17], v[18:19], 0 blgp:2"),
               UnknownInstruction);
  EXPECT_NO_THROW(gfx942.execute("v_mfma_f32_32x32x2_f32 v[0:15], v16, v18, 0 blgp:2"));
}

TEST(Mfma, DoublesAreNegatedByNeg) {
  const struct {
    const char* modifiers;
    double expected;
  } cases[] = {
      {"", 106}, {"neg:[1,0,0]", 94}, {"neg:[0,1,0]", 94}, {"neg:[1,1,0]", 106}, {"neg:[0,0,1]", -94}};
  for (const auto& test : cases) {
    const auto instruction =
        with_modifiers(mfma("v_mfma_f64_16x16x4_f64", "gfx942", f64, f64, f64, {16, 4, 1}), test.modifiers);
    MatrixWave wave(instruction);
    wave.set_a_bits(0, 9, 2, encode(f64, 2));
    wave.set_b_bits(0, 2, 11, encode(f64, 3));
    wave.set_c_bits(0, 9, 11, encode(f64, 100));
    wave.execute();
    EXPECT_EQ(wave.d(0, 9, 11), test.expected) << test.modifiers;
  }
}

TEST(Mfma, SingleAndDoubleProductsAreNotRounded) {
  {
    const auto instruction = mfma("v_mfma_f32_32x32x2f32", "gfx90a", f32, f32, f32, {32, 2, 1});
    MatrixWave wave(instruction);
    const float x = 1 + 0x1p-23f;  // x * x = 1 + 2^-22 + 2^-46
    wave.set_a_bits(0, 0, 0, std::bit_cast<uint32_t>(x));
    wave.set_b_bits(0, 0, 0, std::bit_cast<uint32_t>(x));
    wave.set_c_bits(0, 0, 0, std::bit_cast<uint32_t>(-(1 + 0x1p-22f)));
    wave.execute();
    EXPECT_EQ(wave.d(0, 0, 0), 0x1p-46);
  }
  {
    const auto instruction = mfma("v_mfma_f64_4x4x4f64", "gfx90a", f64, f64, f64, {4, 4, 4});
    MatrixWave wave(instruction);
    const double x = 1 + 0x1p-52;
    wave.set_a_bits(3, 2, 0, std::bit_cast<uint64_t>(x));
    wave.set_b_bits(3, 0, 1, std::bit_cast<uint64_t>(x));
    wave.set_c_bits(3, 2, 1, std::bit_cast<uint64_t>(-(1 + 0x1p-51)));
    wave.execute();
    EXPECT_EQ(wave.d(3, 2, 1), 0x1p-104);
  }
}

// xf32 has 10 bits of mantissa; the others are cut off.
TEST(Mfma, Xf32CutsTheMantissa) {
  const auto instruction = mfma("v_mfma_f32_16x16x8_xf32", "gfx942", f32, f32, f32, {16, 8, 1});
  MatrixWave wave(instruction);
  wave.set_a_bits(0, 0, 0, std::bit_cast<uint32_t>(1 + 0x1p-10f + 0x1p-11f + 0x1p-23f));
  wave.set_b_bits(0, 0, 0, std::bit_cast<uint32_t>(1.0f));
  wave.set_c_bits(0, 0, 0, std::bit_cast<uint32_t>(0x1p-20f));  // C has all of its bits
  wave.execute();
  EXPECT_EQ(wave.d(0, 0, 0), 1 + 0x1p-10 + 0x1p-20);
}

// gfx90a treats subnormal f16 and bf16, and subnormal results, as zero. f32 is kept, and gfx942 keeps all.
TEST(Mfma, SubnormalNumbers) {
  const auto product = [](const MatrixInstruction& instruction, uint64_t a, uint64_t b, uint64_t c) {
    MatrixWave wave(instruction);
    wave.set_a_bits(0, 1, 0, a);
    wave.set_b_bits(0, 0, 2, b);
    wave.set_c_bits(0, 1, 2, c);
    wave.execute();
    return wave.d_bits(0, 1, 2);
  };
  const auto f16_90a = mfma("v_mfma_f32_32x32x8f16", "gfx90a", f16, f16, f32, {32, 8, 1});
  const auto f16_942 = mfma("v_mfma_f32_32x32x8_f16", "gfx942", f16, f16, f32, {32, 8, 1});
  const auto bf16_90a = mfma("v_mfma_f32_32x32x8bf16_1k", "gfx90a", bf16, bf16, f32, {32, 8, 1});
  const auto bf16_942 = mfma("v_mfma_f32_32x32x8_bf16", "gfx942", bf16, bf16, f32, {32, 8, 1});
  const auto f32_90a = mfma("v_mfma_f32_32x32x2f32", "gfx90a", f32, f32, f32, {32, 2, 1});
  const uint64_t one = encode(f16, 1);
  EXPECT_EQ(product(f16_90a, 0x03ff, one, 0), 0u);
  EXPECT_EQ(product(f16_90a, one, 0x03ff, 0), 0u);
  EXPECT_EQ(product(f16_90a, 0x0400, one, 0), encode(f32, 0x1p-14));
  EXPECT_EQ(product(f16_90a, 0, 0, 1), 0u);
  EXPECT_EQ(product(f16_942, 0x0001, one, 0), encode(f32, 0x1p-24));
  EXPECT_EQ(product(f16_942, 0, 0, 1), 1u);
  EXPECT_EQ(product(bf16_90a, 0x007f, encode(bf16, 1), 0), 0u);
  EXPECT_EQ(product(bf16_90a, encode(bf16, -0x1p-100), encode(bf16, 0x1p-40), 0), 0x80000000u);
  EXPECT_EQ(product(bf16_942, 0x007f, encode(bf16, 1), 0), 0x007f0000u);
  EXPECT_EQ(product(bf16_942, encode(bf16, -0x1p-100), encode(bf16, 0x1p-40), 0), 0x80000200u);
  EXPECT_EQ(product(f32_90a, 1, encode(f32, 1), 1), 2u);
}

// All 256 values of the 8-bit floats of gfx942, times one.
TEST(Mfma, EightBitFloatsAreFnuz) {
  for (const bool five_exponent_bits : {false, true}) {
    const auto instruction =
        five_exponent_bits
            ? mfma("v_mfma_f32_16x16x32_bf8_fp8", "gfx942", bf8_fnuz, fp8_fnuz, f32, {16, 32, 1})
            : mfma("v_mfma_f32_16x16x32_fp8_bf8", "gfx942", fp8_fnuz, bf8_fnuz, f32, {16, 32, 1});
    for (int bits = 0; bits < 256; ++bits) {
      MatrixWave wave(instruction);
      wave.set_a_bits(0, 0, 0, static_cast<uint64_t>(bits));
      wave.set_b_bits(0, 0, 0, encode(instruction.b, 1));
      wave.execute();
      if (bits == 0x80) {
        EXPECT_TRUE(std::isnan(wave.d(0, 0, 0)));
        continue;
      }
      const int mantissa_bits = instruction.a.mantissa_bits, exponent = (bits & 0x7f) >> mantissa_bits;
      const double fraction = std::ldexp(bits & ((1 << mantissa_bits) - 1), -mantissa_bits);
      const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - instruction.a.bias)
                                             : std::ldexp(1 + fraction, exponent - instruction.a.bias);
      EXPECT_EQ(wave.d(0, 0, 0), (bits & 0x80) != 0 ? -magnitude : magnitude) << bits;
    }
  }
}

TEST(Mfma, BytesAreSignedAndSumsWrap) {
  const auto instruction = mfma("v_mfma_i32_16x16x32_i8", "gfx942", i8, i8, i32, {16, 32, 1});
  MatrixWave wave(instruction);
  for (int k = 0; k < 32; ++k) {
    wave.set_a_bits(0, 4, k, 0x80);
    wave.set_b_bits(0, k, 5, 0x80);
    wave.set_b_bits(0, k, 6, 0x7f);
  }
  wave.set_c_bits(0, 4, 5, 0x7fffffff);
  wave.execute();
  EXPECT_EQ(wave.d_bits(0, 4, 5), 0x7fffffffu + 32 * 128 * 128);
  EXPECT_EQ(wave.d(0, 4, 6), -32 * 128 * 127);
}

TEST(Mfma, SpecialValues) {
  const auto instruction = mfma("v_mfma_f32_16x16x16f16", "gfx90a", f16, f16, f32, {16, 16, 1});
  MatrixWave wave(instruction);
  wave.set_a_bits(0, 0, 3, 0xfc00);  // -inf * 1
  wave.set_a_bits(0, 1, 4, 0x7c00);  // inf * 0
  wave.set_b_bits(0, 3, 0, encode(f16, 1));
  wave.execute();
  EXPECT_EQ(wave.d(0, 0, 0), -INFINITY);
  EXPECT_TRUE(std::isnan(wave.d(0, 1, 0)));
  EXPECT_EQ(wave.d(0, 2, 0), 0);
}

TEST(Mfma, ExecIsIgnored) {
  auto instruction = mfma("v_mfma_f32_16x16x4f32", "gfx90a", f32, f32, f32, {16, 4, 1});
  MatrixWave wave(instruction);
  wave.set_a_bits(0, 15, 3, encode(f32, 2));
  wave.set_b_bits(0, 3, 15, encode(f32, 3));
  wave.fixture.set_exec(0);
  wave.execute();
  EXPECT_EQ(wave.d(0, 15, 15), 6);
}

TEST(Mfma, AccumulatorRegisters) {
  WaveFixture fixture("gfx90a");
  fixture.set_all<uint32_t>(256 + 16, 0x3c003c00);  // A: all ones, in a16 and a17
  fixture.set_all<uint32_t>(256 + 17, 0x3c003c00);
  fixture.set_all<uint32_t>(2, 0x40004000);  // B: all twos, in v2 and v3
  fixture.set_all<uint32_t>(3, 0x40004000);
  for (int r = 0; r < 16; ++r) fixture.set_all<float>(256 + r, 0.5f);
  fixture.execute("v_mfma_f32_32x32x8f16 a[0:15], a[16:17], v[2:3], a[0:15]");
  for (int r = 0; r < 16; ++r)
    for (int lane = 0; lane < 64; ++lane) EXPECT_EQ(fixture.f32(256 + r, lane), 16.5f);
}

TEST(Mfma, ResultMayCoverTheSources) {
  const auto instruction = mfma("v_mfma_f32_16x16x4f32", "gfx90a", f32, f32, f32, {16, 4, 1});
  std::mt19937 random(7);
  const Matrices a = random_integers(1, 16, 4, 7, random), b = random_integers(1, 4, 16, 7, random);
  MatrixWave apart(instruction), over(instruction);
  for (MatrixWave* wave : {&apart, &over}) {
    wave->set_a(a);
    wave->set_b(b);
  }
  apart.execute("1.0");
  over.fixture.execute(
      fmt::format("v_mfma_f32_16x16x4f32 v[{}:{}], v{}, v{}, 1.0", a_first, a_first + 3, a_first, b_first));
  for (int r = 0; r < 4; ++r)
    for (int lane = 0; lane < 64; ++lane)
      EXPECT_EQ(over.fixture.bits(a_first + r, lane), apart.fixture.bits(d_first + r, lane));
}

TEST(Mfma, OddTuplesAndWrongSizesAreRefused) {
  WaveFixture fixture("gfx90a");
  EXPECT_THROW(fixture.execute("v_mfma_f32_32x32x8f16 a[1:16], v[0:1], v[2:3], 0"), UnknownInstruction);
  EXPECT_THROW(fixture.execute("v_mfma_f32_32x32x8f16 a[0:15], v[1:2], v[4:5], 0"), UnknownInstruction);
  EXPECT_THROW(fixture.execute("v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v2, 0"), UnknownInstruction);
  EXPECT_THROW(fixture.execute("v_mfma_f32_32x32x8f16 a[0:15], v[0:1], v[2:3], s[0:15]"), UnknownInstruction);
  WaveFixture gfx11("gfx1100");
  EXPECT_THROW(gfx11.execute("v_mfma_f32_32x32x8f16 v[0:15], v[16:17], v[18:19], 0"), UnknownInstruction);
}

}  // namespace
}  // namespace hipemu::matrix_test
