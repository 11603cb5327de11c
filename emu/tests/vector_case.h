// A table of vector instructions: what is in the registers before, and what has to be in them after.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <ostream>
#include <string_view>

#include "wave_fixture.h"

namespace hipemu {

// v0 is the result and v2, v4, v6 the sources (pairs where they are 64 bits wide); VCC is the mask read or
// written.
struct VectorCase {
  const char* text;
  uint64_t a = 0, b = 0, c = 0;
  uint64_t result = 0;
  bool mask_before = false, mask_after = false;
};

inline void PrintTo(const VectorCase& test, std::ostream* out) { *out << test.text; }

class VectorAlu : public testing::TestWithParam<VectorCase> {};

constexpr uint64_t vector_before = 0x5a5a5a5a3c3c3c3cull;  // what v[0:1] holds first

inline uint64_t bits(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }

inline void set_pair(WaveFixture& fixture, int row, uint64_t value) { fixture.set_all<uint64_t>(row, value); }

// Runs the case on one chip with every third lane switched off. Those lanes keep what they had.
inline void run_case(const VectorCase& test, std::string_view processor) {
  SCOPED_TRACE(std::string(processor) + ": " + test.text);
  WaveFixture fixture(processor);
  uint64_t exec = 0;
  for (int lane = 0; lane < fixture.size; ++lane)
    if (lane % 3 != 1) exec |= 1ull << lane;
  fixture.set_exec(exec);
  set_pair(fixture, 0, vector_before);
  set_pair(fixture, 2, test.a);
  set_pair(fixture, 4, test.b);
  set_pair(fixture, 6, test.c);
  const uint64_t all = fixture.size == 64 ? ~0ull : 0xffffffffull;
  fixture.wave.set_mask(scalar::vcc, test.mask_before ? all : 0);
  const Semantics* row = find_semantics(parse_instruction(test.text).mnemonic);
  ASSERT_NE(row, nullptr);
  fixture.execute(test.text);

  const bool writes_mask = row->destinations[0] == ValueType::mask || row->destinations[1] == ValueType::mask;
  if (writes_mask) {
    EXPECT_EQ(fixture.wave.mask(scalar::vcc), test.mask_after ? exec : 0);
  }
  if (row->destinations[0] == ValueType::mask) return;
  const int registers = dwords(row->destinations[0]);
  // The other half of a 16-bit result is a matter of the chip; see vector_modifiers_test.cpp.
  const uint64_t compared =
      registers == 2 ? ~0ull : (is_16_bit(row->destinations[0]) ? 0xffffull : 0xffffffffull);
  for (int lane = 0; lane < fixture.size; ++lane) {
    const bool active = (exec >> lane) & 1;
    const uint64_t expected = active ? test.result : vector_before;
    const uint64_t found = fixture.bits64(0, lane);
    EXPECT_EQ(found & compared, expected & compared)
        << "lane " << lane << std::hex << ": 0x" << found << " for 0x" << expected;
    if ((found & compared) != (expected & compared)) break;
  }
}

TEST_P(VectorAlu, Wave32) { run_case(GetParam(), "gfx1100"); }
TEST_P(VectorAlu, Wave64) { run_case(GetParam(), "gfx90a"); }

}  // namespace hipemu
