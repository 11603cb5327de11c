// Comparisons of the vector unit.
#include <string>

#include "vector_case.h"

namespace hipemu {

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(VectorAlu);

namespace {

// For a < b, a == b, a > b and unordered operands: does the condition hold?
struct Condition {
  const char* name;
  bool below, equal, above, unordered;
};
constexpr Condition float_conditions[] = {
    {"f", false, false, false, false}, {"lt", true, false, false, false}, {"eq", false, true, false, false},
    {"le", true, true, false, false},  {"gt", false, false, true, false}, {"lg", true, false, true, false},
    {"ge", false, true, true, false},  {"o", true, true, true, false},    {"u", false, false, false, true},
    {"nge", true, false, false, true}, {"nlg", false, true, false, true}, {"ngt", true, true, false, true},
    {"nle", false, false, true, true}, {"neq", true, false, true, true},  {"nlt", false, true, true, true},
    {"tru", true, true, true, true}};
constexpr Condition integer_conditions[] = {
    {"f", false, false, false, false}, {"lt", true, false, false, false}, {"eq", false, true, false, false},
    {"le", true, true, false, false},  {"gt", false, false, true, false}, {"ne", true, false, true, false},
    {"ge", false, true, true, false},  {"t", true, true, true, false}};

// A type, and in it -1 (or the largest unsigned number), 2 and NaN.
struct Operands {
  const char* type;
  uint64_t first, two, nan;
  bool first_is_below;
};

void check(const Condition& condition, const Operands& operands, bool is_float) {
  const bool wide = std::string_view(operands.type).ends_with("64");
  const std::string text = std::string("v_cmp_") + condition.name + "_" + operands.type +
                           (wide ? " vcc, v[2:3], v[4:5]" : " vcc, v2, v4");
  const bool low = operands.first_is_below ? condition.below : condition.above;
  const bool high = operands.first_is_below ? condition.above : condition.below;
  for (const char* chip : {"gfx1100", "gfx90a"}) {
    run_case({text.c_str(), operands.first, operands.two, 0, 0, false, low}, chip);
    run_case({text.c_str(), operands.two, operands.first, 0, 0, true, high}, chip);
    run_case({text.c_str(), operands.two, operands.two, 0, 0, false, condition.equal}, chip);
    if (!is_float) continue;
    run_case({text.c_str(), operands.nan, operands.two, 0, 0, true, condition.unordered}, chip);
    run_case({text.c_str(), operands.two, operands.nan, 0, 0, true, condition.unordered}, chip);
  }
}

TEST(VectorCompares, Floats) {
  for (const Condition& condition : float_conditions) {
    check(condition, {"f16", 0xbc00, 0x4000, 0x7e00, true}, true);
    check(condition, {"f32", 0xbf800000, 0x40000000, 0x7fc00000, true}, true);
    check(condition, {"f64", 0xbff0000000000000, 0x4000000000000000, 0x7ff8000000000000, true}, true);
  }
}

TEST(VectorCompares, Integers) {
  for (const Condition& condition : integer_conditions) {
    check(condition, {"i16", 0xffff, 2, 0, true}, false);
    check(condition, {"u16", 0xffff, 2, 0, false}, false);
    check(condition, {"i32", 0xffffffff, 2, 0, true}, false);
    check(condition, {"u32", 0xffffffff, 2, 0, false}, false);
    check(condition, {"i64", ~0ull, 2, 0, true}, false);
    check(condition, {"u64", ~0ull, 2, 0, false}, false);
  }
}

// The same conditions, written to EXEC: lane 0 compares below, lane 1 equal, lane 2 above, lane 3 with NaN.
TEST(VectorCompares, EveryConditionToExec) {
  const auto check_exec = [](const Condition& condition, const char* type, uint64_t one, uint64_t two,
                             uint64_t nan) {
    const bool wide = std::string_view(type).ends_with("64");
    WaveFixture fixture("gfx1100");
    for (int lane = 0; lane < 4; ++lane) {
      const uint64_t a = lane == 0 ? one : lane == 3 ? nan : two, b = lane == 2 ? one : two;
      fixture.wave.row(2)[lane] = static_cast<uint32_t>(a);
      fixture.wave.row(4)[lane] = static_cast<uint32_t>(b);
      if (wide) fixture.wave.row(3)[lane] = static_cast<uint32_t>(a >> 32);
      if (wide) fixture.wave.row(5)[lane] = static_cast<uint32_t>(b >> 32);
    }
    fixture.set_exec(nan != 0 ? 0xf : 0x7);
    fixture.execute(std::string("v_cmpx_") + condition.name + "_" + type + "_e32 " +
                    (wide ? "v[2:3], v[4:5]" : "v2, v4"));
    const uint64_t expected = static_cast<uint64_t>(condition.below) |
                              static_cast<uint64_t>(condition.equal) << 1 |
                              static_cast<uint64_t>(condition.above) << 2 |
                              (nan != 0 ? static_cast<uint64_t>(condition.unordered) << 3 : 0);
    EXPECT_EQ(fixture.wave.exec(), expected) << condition.name << " " << type;
  };
  for (const Condition& condition : float_conditions) {
    check_exec(condition, "f16", 0x3c00, 0x4000, 0x7e00);
    check_exec(condition, "f32", 0x3f800000, 0x40000000, 0x7fc00000);
    check_exec(condition, "f64", 0x3ff0000000000000, 0x4000000000000000, 0x7ff8000000000000);
  }
  for (const Condition& condition : integer_conditions)
    for (const char* type : {"i16", "u16", "i32", "u32", "i64", "u64"}) check_exec(condition, type, 1, 2, 0);
}

// One bit of the class mask per kind of number.
TEST(VectorCompares, Classes) {
  constexpr uint64_t singles[] = {0x7f800001, 0x7fc00000, 0xff800000, 0xbf800000, 0x80000001,
                                  0x80000000, 0,          1,          0x3f800000, 0x7f800000};
  constexpr uint64_t halves[] = {0x7c01, 0x7e00, 0xfc00, 0xbc00, 0x8001, 0x8000, 0, 1, 0x3c00, 0x7c00};
  constexpr uint64_t doubles[] = {0x7ff0000000000001,
                                  0x7ff8000000000000,
                                  0xfff0000000000000,
                                  0xbff0000000000000,
                                  0x8000000000000001,
                                  0x8000000000000000,
                                  0,
                                  1,
                                  0x3ff0000000000000,
                                  0x7ff0000000000000};
  for (int kind = 0; kind < 10; ++kind) {
    for (int bit = 0; bit < 10; ++bit) {
      const uint64_t mask = 1ull << bit;
      run_case({"v_cmp_class_f32_e64 vcc, v2, v4", singles[kind], mask, 0, 0, false, kind == bit}, "gfx1100");
      run_case({"v_cmp_class_f16_e64 vcc, v2, v4", halves[kind], mask, 0, 0, false, kind == bit}, "gfx1100");
      run_case({"v_cmp_class_f64_e64 vcc, v[2:3], v4", doubles[kind], mask, 0, 0, false, kind == bit},
               "gfx90a");
    }
  }
}

TEST(VectorCompares, ToAScalarRegister) {
  WaveFixture fixture("gfx90a");
  fixture.set_vector<uint32_t>(2, [](int lane) { return static_cast<uint32_t>(lane); });
  fixture.execute("v_cmp_gt_u32_e64 s[4:5], 40, v2");
  EXPECT_EQ(fixture.wave.wide(4), (1ull << 40) - 1);
  WaveFixture narrow("gfx1100");
  narrow.set_vector<uint32_t>(2, [](int lane) { return static_cast<uint32_t>(lane); });
  narrow.wave.scalars[5] = 77;
  narrow.execute("v_cmp_gt_u32_e64 s4, 8, v2");
  EXPECT_EQ(narrow.wave.scalars[4], 0xffu);
  EXPECT_EQ(narrow.wave.scalars[5], 77u);
}

// Up to gfx9 both the destination and EXEC, later EXEC alone.
TEST(VectorCompares, SettingExec) {
  WaveFixture old("gfx90a");
  old.set_vector<float>(2, [](int lane) { return static_cast<float>(lane); });
  old.set_all<float>(4, 10.0f);
  old.set_exec(~1ull);
  old.execute("v_cmpx_lt_f32_e32 vcc, v2, v4");
  EXPECT_EQ(old.wave.exec(), 0x3feull);
  EXPECT_EQ(old.wave.vcc(), 0x3feull);
  WaveFixture recent("gfx1100");
  recent.set_vector<uint32_t>(2, [](int lane) { return static_cast<uint32_t>(lane); });
  recent.wave.set_mask(scalar::vcc, 0x123);
  recent.execute("v_cmpx_gt_u32_e32 4, v2");
  EXPECT_EQ(recent.wave.exec(), 0xfull);
  EXPECT_EQ(recent.wave.mask(scalar::vcc), 0x123ull);
  recent.execute("v_cmpx_class_f32_e64 v2, 64");  // +0
  EXPECT_EQ(recent.wave.exec(), 1ull);
}

}  // namespace
}  // namespace hipemu
