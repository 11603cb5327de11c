// Every matrix instruction that LLVM knows for a chip has a row, and its text can be read.
#include <set>

#include "isa/disassembler.h"
#include "wave_fixture.h"

namespace hipemu {
namespace {

// What the disassembler makes of the 128 opcodes under `encoding` (the first dword with opcode 0). `operands`
// is the second dword.
std::set<std::string> matrix_instructions(std::string_view processor, int wave_size, uint32_t encoding,
                                          uint32_t operands) {
  Disassembler disassembler(*find_chip(processor), wave_size);
  std::set<std::string> lines;
  for (uint32_t opcode = 0; opcode < 128; ++opcode) {
    const uint32_t words[2] = {encoding | opcode << 16, operands};
    const auto line = disassembler.decode(std::as_bytes(std::span(words)), 0);
    const auto has = [&](std::string_view word) { return line.text.find(word) != std::string::npos; };
    // "Invalid immediate": a constant where only a register can be.
    if ((has("mfma") || has("wmma")) && !has("Invalid")) lines.insert(line.text);
  }
  return lines;
}

void expect_all_run(const std::set<std::string>& lines, std::size_t count, std::string_view processor,
                    int wave_size) {
  EXPECT_EQ(lines.size(), count);
  for (const std::string& line : lines) {
    WaveFixture fixture(processor, wave_size);
    EXPECT_NO_THROW(fixture.execute(line)) << line;
    EXPECT_EQ(fixture.wave.exec(), fixture.wave.initial_exec);
  }
}

constexpr uint32_t vector_operands(uint32_t a, uint32_t b, uint32_t c) {
  return (256 + a) | (256 + b) << 9 | (256 + c) << 18;
}

TEST(MatrixDecode, MfmaOfGfx90a) {
  expect_all_run(matrix_instructions("gfx90a", 64, 0xd3800000, vector_operands(64, 72, 80)), 27, "gfx90a",
                 64);
}
TEST(MatrixDecode, MfmaOfGfx942) {
  expect_all_run(matrix_instructions("gfx942", 64, 0xd3800000, vector_operands(64, 72, 80)), 46, "gfx942",
                 64);
}
TEST(MatrixDecode, AccumulatorRegistersAndConstants) {
  constexpr uint32_t accumulators = 3u << 27, to_accumulator = 1u << 15, zero = 128u << 18;
  for (const std::string_view processor : {"gfx90a", "gfx942"}) {
    const auto lines =
        matrix_instructions(processor, 64, 0xd3800000 | to_accumulator,
                            (vector_operands(64, 72, 0) & ~(511u << 18)) | zero | accumulators);
    expect_all_run(lines, processor == "gfx90a" ? 27 : 32, processor, 64);
  }
}
TEST(MatrixDecode, WmmaOfGfx11) {
  for (const int wave_size : {32, 64})
    expect_all_run(
        matrix_instructions("gfx1100", wave_size, 0xcc004000, 3u << 27 | vector_operands(64, 72, 80)), 6,
        "gfx1100", wave_size);
}
TEST(MatrixDecode, WmmaOfGfx12) {
  for (const int wave_size : {32, 64})
    expect_all_run(
        matrix_instructions("gfx1201", wave_size, 0xcc004000, 3u << 27 | vector_operands(64, 72, 80)), 22,
        "gfx1201", wave_size);
}

}  // namespace
}  // namespace hipemu
