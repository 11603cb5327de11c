// Whole launches: grids, blocks, LDS, barriers, calls, faults, on every chip.
#include "exec/launch.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "memory/address_space.h"

namespace hipemu {
namespace {

std::shared_ptr<const LoadedCode> load(const std::string& chip, bool damaged_sections = false) {
  std::ifstream file(std::string(HIPEMU_TEST_KERNELS) + "/launch." + chip + ".co", std::ios::binary);
  if (!file) return nullptr;
  const std::vector<char> text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  constexpr std::size_t size_of_a_section_header = 58;
  if (damaged_sections) bytes.at(size_of_a_section_header) = std::byte{1};
  CodeObject object = parse_code_object(bytes);
  return std::make_shared<LoadedCode>(std::move(object), std::move(bytes));
}

class LaunchTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    code_ = load(GetParam());
    if (code_ == nullptr) GTEST_SKIP() << "clang 19 was not there to compile the kernels";
  }
  void TearDown() override {
    for (void* buffer : buffers_) address_space().release(buffer);
  }

  Launch launch(const std::string& kernel) {
    Launch result;
    result.code = code_;
    result.kernel = code_->find_kernel(kernel);
    result.chip = find_chip(GetParam());
    EXPECT_NE(result.kernel, nullptr) << kernel;
    return result;
  }

  template <class T>
  T* buffer(std::size_t count, bool written = true) {
    Allocation* allocation = address_space().allocate(count * sizeof(T), MemoryKind::device, 0, "hipMalloc");
    buffers_.push_back(allocation->base);
    if (written) {
      std::memset(allocation->base, 0, count * sizeof(T));
      address_space().mark_written(allocation->base, count * sizeof(T));
    }
    return reinterpret_cast<T*>(allocation->base);
  }

  template <class... A>
  static void pass(Launch& launch, A... arguments) {
    (append(launch.arguments, arguments), ...);
  }

  static std::string report(const std::optional<Fault>& fault) { return fault ? fault->report : "no fault"; }

 private:
  template <class T>
  static void append(std::vector<std::byte>& arguments, T value) {
    arguments.resize((arguments.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    arguments.insert(arguments.end(), bytes, bytes + sizeof(T));
  }

  std::shared_ptr<const LoadedCode> code_;
  std::vector<void*> buffers_;
};

TEST_P(LaunchTest, EveryThreadKnowsItsPlace) {
  Launch l = launch("places");
  l.grid = {3, 2, 2};
  l.block = {5, 3, 4};
  constexpr std::size_t blocks = 12, threads = 60;
  auto* out = buffer<uint32_t>(blocks * threads * 6);
  pass(l, out);
  const auto fault = run(l);
  ASSERT_FALSE(fault) << fault->report;
  for (uint32_t b = 0; b < blocks; ++b)
    for (uint32_t t = 0; t < threads; ++t) {
      const uint32_t* place = out + (b * threads + t) * 6;
      const uint32_t expected[6] = {t % 5, t / 5 % 3, t / 15, b % 3, b / 3 % 2, b / 6};
      for (int i = 0; i < 6; ++i)
        ASSERT_EQ(place[i], expected[i]) << "block " << b << " thread " << t << " item " << i;
    }
}

TEST_P(LaunchTest, DynamicLdsAndBarriers) {
  Launch l = launch("reverse");
  l.grid = {4, 1, 1};
  l.block = {200, 1, 1};
  l.dynamic_lds = 200 * 4;
  auto* data = buffer<uint32_t>(800);
  for (uint32_t i = 0; i < 800; ++i) data[i] = i;
  pass(l, data);
  const auto fault = run(l);
  ASSERT_FALSE(fault) << fault->report;
  for (uint32_t i = 0; i < 800; ++i) ASSERT_EQ(data[i], i / 200 * 200 + 199 - i % 200);
}

TEST_P(LaunchTest, DynamicLdsIsWhatTheLaunchAskedFor) {
  Launch l = launch("dynamic_bytes");
  l.block = {8, 1, 1};
  l.dynamic_lds = 96;
  auto* out = buffer<uint32_t>(8);
  pass(l, out);
  const auto fault = run(l);
  ASSERT_FALSE(fault) << report(fault);
  EXPECT_EQ(out[5], 96u);
}

TEST_P(LaunchTest, RecursionAndScratch) {
  Launch l = launch("fibonacci");
  l.block = {40, 1, 1};
  auto* out = buffer<uint32_t>(40);
  pass(l, out, 16u);
  const auto fault = run(l);
  ASSERT_FALSE(fault) << fault->report;
  const uint32_t expected[16] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610};
  for (uint32_t i = 0; i < 40; ++i) ASSERT_EQ(out[i], expected[i % 16]);
}

TEST_P(LaunchTest, EarlyReturnBeforeABarrierIsNoFault) {
  Launch l = launch("early_return");
  l.block = {96, 1, 1};
  auto* out = buffer<uint32_t>(96);
  pass(l, out, 70u);
  const auto fault = run(l);
  ASSERT_FALSE(fault) << fault->report;
  EXPECT_EQ(out[69], 69u + 1);
  EXPECT_EQ(out[70], 0u);
}

TEST_P(LaunchTest, WritePastTheEnd) {
  Launch l = launch("fill");
  l.block = {64, 1, 1};
  auto* out = buffer<uint32_t>(63);
  pass(l, out, 7u);
  const auto fault = run(l);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::illegal_address);
  EXPECT_NE(fault->report.find("fill"), std::string::npos) << fault->report;
  EXPECT_NE(fault->report.find("252 bytes"), std::string::npos) << fault->report;
  EXPECT_NE(fault->report.find("63"), std::string::npos) << fault->report;
}

// The report looks for source lines in them.
TEST_P(LaunchTest, AFaultInAFileWithDamagedSections) {
  const auto code = load(GetParam(), true);
  Launch l = launch("fill");
  l.code = code;
  l.kernel = code->find_kernel("fill");
  l.grid = {8, 1, 1};
  l.block = {64, 1, 1};
  pass(l, uint64_t{4096}, 1u);
  const auto fault = run(l);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::illegal_address) << fault->report;
}

TEST_P(LaunchTest, UseAfterFree) {
  Launch l = launch("fill");
  l.block = {4, 1, 1};
  Allocation* allocation = address_space().allocate(64, MemoryKind::device, 0, "hipMalloc");
  auto* out = reinterpret_cast<uint32_t*>(allocation->base);
  address_space().release(out);
  pass(l, out, 7u);
  const auto fault = run(l);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::illegal_address);
  EXPECT_NE(fault->report.find("freed"), std::string::npos) << fault->report;
}

TEST_P(LaunchTest, UninitialisedRead) {
  Launch l = launch("increment");
  l.block = {4, 1, 1};
  auto* data = buffer<uint32_t>(4, false);
  pass(l, data);
  const auto fault = run(l);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::uninitialised) << fault->report;
}

TEST_P(LaunchTest, MissingBarrier) {
  Launch l = launch("reverse_without_barrier");
  l.block = {256, 1, 1};
  auto* data = buffer<uint32_t>(256);
  pass(l, data);
  const auto fault = run(l);
  ASSERT_TRUE(fault);
  // Whichever wave comes first: it reads what was not written yet, or the race is seen.
  EXPECT_TRUE(fault->kind == Fault::Kind::race || fault->kind == Fault::Kind::uninitialised) << fault->report;
}

TEST_P(LaunchTest, RaceBetweenBlocks) {
  Launch l = launch("race");
  l.grid = {8, 1, 1};
  l.block = {1, 1, 1};
  auto* data = buffer<uint32_t>(1);
  pass(l, data);
  const auto fault = run(l);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::race) << fault->report;
}

TEST_P(LaunchTest, DivergentBarrier) {
  Launch l = launch("divergent_barrier");
  l.block = {32, 1, 1};
  auto* data = buffer<uint32_t>(32);
  pass(l, data);
  const auto fault = run(l);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::barrier) << fault->report;
}

TEST_P(LaunchTest, EndlessLoop) {
  setenv("HIPEMU_WATCHDOG", "1", 1);
  Launch l = launch("endless");
  auto* data = buffer<uint32_t>(1);
  pass(l, data);
  const auto fault = run(l);
  unsetenv("HIPEMU_WATCHDOG");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::timeout) << fault->report;
}

// No wave ever runs for as long as it may: each turn of the loop waits for the other one.
TEST_P(LaunchTest, EndlessLoopOfBarriers) {
  setenv("HIPEMU_WATCHDOG", "1", 1);
  Launch l = launch("endless_barriers");
  l.block = {128, 1, 1};
  const auto fault = run(l);
  unsetenv("HIPEMU_WATCHDOG");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::timeout) << fault->report;
}

// More scratch than any host has: a fault of the launch, on whichever thread it shows.
TEST_P(LaunchTest, MemoryThatTheHostDoesNotHave) {
  Launch l = launch("fill");
  Kernel kernel = *l.kernel;
  kernel.descriptor.private_segment_size = 0xffffff00;
  l.kernel = &kernel;
  l.grid = {64, 1, 1};
  l.block = {1024, 1, 1};
  auto* out = buffer<uint32_t>(1024);
  pass(l, out, 1u);
  for (const bool cooperative : {false, true}) {
    l.cooperative = cooperative;
    const auto fault = run(l);
    ASSERT_TRUE(fault);
    EXPECT_EQ(fault->kind, Fault::Kind::abort);
    EXPECT_NE(fault->report.find("could not be run"), std::string::npos) << fault->report;
  }
}

// What the metadata of a hostile file may say.
TEST_P(LaunchTest, HiddenArgumentsThatAreNone) {
  Launch l = launch("fill");
  l.block = {32, 1, 1};
  Kernel kernel = *l.kernel;
  auto* out = buffer<uint32_t>(32);
  pass(l, out, 7u);
  for (const char* kind : {"hidden_block_count_", "hidden_block_count_A", "hidden_group_size_\x7f"})
    kernel.arguments.push_back({.name = "", .kind = kind, .offset = 16, .size = 8});
  l.kernel = &kernel;
  const auto fault = run(l);
  ASSERT_FALSE(fault) << report(fault);
  EXPECT_EQ(out[31], 7u);
}

TEST_P(LaunchTest, TrapIsAnAssertion) {
  Launch l = launch("trap");
  const auto fault = run(l);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::assertion) << fault->report;
}

TEST_P(LaunchTest, WrongMatrixLayout) {
  if (std::string_view(GetParam()) != "gfx1100") GTEST_SKIP() << "operands are repeated on gfx11 only";
  auto* out = buffer<float>(256);
  Launch right = launch("matrix_layout");
  right.block = {32, 1, 1};
  pass(right, out, 0u);
  const auto none = run(right);
  ASSERT_FALSE(none) << none->report;
  // A times the unit matrix: element (row, column) is row + column.
  for (int i = 0; i < 256; ++i) ASSERT_EQ(out[i], static_cast<float>(i / 16 + i % 16));
  Launch wrong = launch("matrix_layout");
  wrong.block = {32, 1, 1};
  pass(wrong, out, 1u);
  const auto fault = run(wrong);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, Fault::Kind::matrix_layout) << fault->report;
  EXPECT_NE(fault->report.find("v_wmma_f32_16x16x16_f16"), std::string::npos) << fault->report;
}

INSTANTIATE_TEST_SUITE_P(Chips, LaunchTest,
                         testing::Values("gfx1100", "gfx90a", "gfx942", "gfx1201", "gfx1030"),
                         [](const auto& chip) { return std::string(chip.param); });

}  // namespace
}  // namespace hipemu
