// Atomics on global memory, buffers and LDS.
#include <bit>
#include <cmath>
#include <thread>

#include "memory_fixture.h"

namespace hipemu {
namespace {

// One atomic on one address in memory, buffer, flat and LDS form, whichever the chip's names are.
struct Case {
  std::string_view older, newer, lds;  // empty where it does not exist
  uint32_t memory, data, expected;
};

constexpr uint32_t bits(float value) { return std::bit_cast<uint32_t>(value); }
constexpr uint32_t halves(uint16_t low, uint16_t high) { return static_cast<uint32_t>(high) << 16 | low; }

const Case cases[] = {
    {"add", "add_u32", "add%u32", 0xffffffff, 5, 4},
    {"sub", "sub_u32", "sub%u32", 3, 5, 0xfffffffe},
    {"", "", "rsub%u32", 3, 5, 2},
    {"swap", "swap_b32", "", 3, 5, 5},
    {"smin", "min_i32", "min%i32", 3, 0xffffffff, 0xffffffff},
    {"umin", "min_u32", "min%u32", 3, 0xffffffff, 3},
    {"smax", "max_i32", "max%i32", 3, 0xffffffff, 3},
    {"umax", "max_u32", "max%u32", 3, 0xffffffff, 0xffffffff},
    {"and", "and_b32", "and%b32", 0b1100, 0b1010, 0b1000},
    {"or", "or_b32", "or%b32", 0b1100, 0b1010, 0b1110},
    {"xor", "xor_b32", "xor%b32", 0b1100, 0b1010, 0b0110},
    {"inc", "inc_u32", "inc%u32", 4, 5, 5},
    {"inc", "inc_u32", "inc%u32", 5, 5, 0},
    {"inc", "inc_u32", "inc%u32", 9, 5, 0},
    {"dec", "dec_u32", "dec%u32", 4, 5, 3},
    {"dec", "dec_u32", "dec%u32", 0, 5, 5},
    {"dec", "dec_u32", "dec%u32", 6, 5, 5},
    {"csub", "sub_clamp_u32", "sub_clamp%u32", 9, 5, 4},
    {"csub", "csub_u32", "sub_clamp%u32", 4, 5, 0},
    {"", "cond_sub_u32", "cond_sub%u32", 9, 5, 4},
    {"", "cond_sub_u32", "cond_sub%u32", 4, 5, 4},
    {"add_f32", "add_f32", "add%f32", bits(1.5f), bits(2.25f), bits(3.75f)},
    {"fmin", "min_f32", "min%f32", bits(1.5f), bits(-2.25f), bits(-2.25f)},
    {"fmin", "min_num_f32", "min_num%f32", bits(NAN), bits(-2.25f), bits(-2.25f)},
    {"fmax", "max_f32", "max%f32", bits(1.5f), bits(-2.25f), bits(1.5f)},
    {"fmax", "max_num_f32", "max_num%f32", bits(1.5f), bits(NAN), bits(1.5f)},
    // 1 + 2 = 3 and -1 + 0.5 = -0.5
    {"pk_add_f16", "pk_add_f16", "pk_add%f16", halves(0x3c00, 0xbc00), halves(0x4000, 0x3800),
     halves(0x4200, 0xb800)},
    {"pk_add_bf16", "pk_add_bf16", "pk_add%bf16", halves(0x3f80, 0xbf80), halves(0x4000, 0x3f00),
     halves(0x4040, 0xbf00)},
};

std::string lds_name(std::string_view pattern, bool returns) {
  const std::size_t at = pattern.find('%');
  return "ds_" + std::string(pattern.substr(0, at)) + (returns ? "_rtn_" : "_") +
         std::string(pattern.substr(at + 1));
}

TEST(Atomics, GlobalFlatAndBuffer) {
  for (const std::string_view processor : {"gfx90a", "gfx1100", "gfx1201"}) {
    const bool older = processor == "gfx90a";
    const std::string returning = older || processor == "gfx1100" ? " glc" : " th:TH_ATOMIC_RETURN";
    for (const Case& test : cases) {
      const std::string_view name = older ? test.older : test.newer;
      if (name.empty()) continue;
      MemoryFixture f(processor);
      uint32_t* memory = f.memory(std::vector<uint32_t>(4, test.memory));
      f.set_exec(8);
      f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory));
      f.set_row(1, [](int) { return 4; });
      f.set_row(2, [&](int) { return test.data; });
      f.set_rows64(6, [&](int) { return reinterpret_cast<uint64_t>(memory); });
      f.run("global_atomic_" + std::string(name) + " v1, v2, s[4:5]");
      EXPECT_EQ(memory[1], test.expected) << name;
      EXPECT_EQ(memory[0], test.memory);
      f.run("global_atomic_" + std::string(name) + " v0, v[6:7], v2, off offset:8" + returning);
      EXPECT_EQ(memory[2], test.expected) << name;
      EXPECT_EQ(f.at(0, 3), test.memory);
      EXPECT_EQ(f.at(0, 2), 0u);
      f.run("flat_atomic_" + std::string(name) + " v0, v[6:7], v2" + returning);
      EXPECT_EQ(memory[0], test.expected);
      f.wave().scalars[10] = 16;
      f.wave().scalars[11] = 0x30000000;
      f.set_scalar64(f.wave(), 8, reinterpret_cast<uint64_t>(memory));
      f.run("buffer_atomic_" + std::string(name) + " v2, v1, s[8:11], 0 offen offset:8" + returning);
      EXPECT_EQ(memory[3], test.expected);
      EXPECT_EQ(f.at(2, 3), test.memory);
      // Out of range: nothing is written, and zero comes back.
      f.run("buffer_atomic_" + std::string(name) + " v2, v1, s[8:11], 0 offen offset:12" + returning);
      EXPECT_EQ(f.at(2, 3), 0u);
    }
  }
}

TEST(Atomics, Lds) {
  for (const Case& test : cases) {
    if (test.lds.empty()) continue;
    MemoryFixture f("gfx1201");
    f.set_lds<uint32_t>(12, test.memory);
    f.set_lds<uint32_t>(16, test.memory);
    f.set_exec(1ull << 5);
    f.set_row(1, [](int) { return 8; });
    f.set_row(2, [&](int) { return test.data; });
    f.run(lds_name(test.lds, false) + " v1, v2 offset:4");
    EXPECT_EQ(f.lds_at<uint32_t>(12), test.expected) << test.lds;
    f.run(lds_name(test.lds, true) + " v0, v1, v2 offset:8");
    EXPECT_EQ(f.lds_at<uint32_t>(16), test.expected) << test.lds;
    EXPECT_EQ(f.at(0, 5), test.memory);
  }
}

TEST(Atomics, SixtyFourBits) {
  MemoryFixture f("gfx90a");
  uint64_t* memory = f.memory(std::vector<uint64_t>{0xffffffffull, 10, 20, std::bit_cast<uint64_t>(1.5)});
  f.set_exec(1);
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory));
  f.set_row(1, [](int) { return 0; });
  f.set_rows64(2, [](int) { return 3; });
  f.run("global_atomic_add_x2 v[6:7], v1, v[2:3], s[4:5] glc");
  EXPECT_EQ(memory[0], 0x100000002ull);
  EXPECT_EQ(f.at64(6, 0), 0xffffffffull);
  f.run("global_atomic_umax_x2 v1, v[2:3], s[4:5] offset:8");
  EXPECT_EQ(memory[1], 10u);
  f.set_rows64(2, [](int) { return std::bit_cast<uint64_t>(0.25); });
  f.run("global_atomic_add_f64 v1, v[2:3], s[4:5] offset:24");
  EXPECT_EQ(std::bit_cast<double>(memory[3]), 1.75);
  f.run("global_atomic_min_f64 v1, v[2:3], s[4:5] offset:24");
  EXPECT_EQ(std::bit_cast<double>(memory[3]), 0.25);
  // New value, then what to compare with.
  f.set_rows64(2, [](int) { return 99; });
  f.set_rows64(4, [](int) { return 20; });
  f.run("global_atomic_cmpswap_x2 v[6:7], v1, v[2:5], s[4:5] offset:16 glc");
  EXPECT_EQ(memory[2], 99u);
  EXPECT_EQ(f.at64(6, 0), 20u);
  f.run("global_atomic_cmpswap_x2 v[6:7], v1, v[2:5], s[4:5] offset:16 glc");
  EXPECT_EQ(memory[2], 99u);
  EXPECT_EQ(f.at64(6, 0), 99u);
  f.set_lds<uint64_t>(8, 0x1ffffffffull);
  f.set_rows64(2, [](int) { return 1; });
  f.run("ds_add_rtn_u64 v[6:7], v1, v[2:3] offset:8");
  EXPECT_EQ(f.lds_at<uint64_t>(8), 0x200000000ull);
  EXPECT_EQ(f.at64(6, 0), 0x1ffffffffull);
}

TEST(Atomics, CompareAndSwapOrders) {
  MemoryFixture f("gfx90a");
  uint32_t* memory = f.memory(std::vector<uint32_t>{5, 5});
  f.set_exec(1);
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory));
  f.set_row(1, [](int) { return 0; });
  f.set_row(2, [](int) { return 77; });
  f.set_row(3, [](int) { return 5; });
  f.run("global_atomic_cmpswap v0, v1, v[2:3], s[4:5] glc");
  EXPECT_EQ(memory[0], 77u);
  EXPECT_EQ(f.at(0, 0), 5u);
  // Up to gfx10: address, what to compare with, new value.
  f.set_lds<uint32_t>(0, 5);
  f.run("ds_cmpst_rtn_b32 v0, v1, v3, v2");
  EXPECT_EQ(f.lds_at<uint32_t>(0), 77u);
  EXPECT_EQ(f.at(0, 0), 5u);
  f.run("ds_cmpst_b32 v1, v3, v2");
  EXPECT_EQ(f.lds_at<uint32_t>(0), 77u);
  // From gfx11 on: address, new value, what to compare with.
  MemoryFixture g("gfx1100");
  g.set_exec(1);
  g.set_row(1, [](int) { return 0; });
  g.set_row(2, [](int) { return 77; });
  g.set_row(3, [](int) { return 5; });
  g.set_lds<uint32_t>(0, 5);
  g.run("ds_cmpstore_rtn_b32 v0, v1, v2, v3");
  EXPECT_EQ(g.lds_at<uint32_t>(0), 77u);
  EXPECT_EQ(g.at(0, 0), 5u);
  g.set_lds<float>(0, -0.0f);
  g.set_row(3, [](int) { return bits(0.0f); });
  g.run("ds_cmpstore_f32 v1, v2, v3");  // as numbers: -0 is 0
  EXPECT_EQ(g.lds_at<uint32_t>(0), 77u);
}

TEST(Atomics, MaskedOrWrapAndExchanges) {
  MemoryFixture f("gfx90a");
  f.set_exec(1);
  f.set_row(1, [](int) { return 0; });
  f.set_row(2, [](int) { return 0xff; });
  f.set_row(3, [](int) { return 0x12; });
  f.set_lds<uint32_t>(0, 0xabcd);
  f.run("ds_mskor_rtn_b32 v0, v1, v2, v3");
  EXPECT_EQ(f.lds_at<uint32_t>(0), 0xab12u);
  EXPECT_EQ(f.at(0, 0), 0xabcdu);
  f.run("ds_wrxchg_rtn_b32 v0, v1, v3");
  EXPECT_EQ(f.lds_at<uint32_t>(0), 0x12u);
  f.set_lds<uint32_t>(4, 0x44);
  f.run("ds_wrxchg2_rtn_b32 v[4:5], v1, v2, v3 offset1:1");
  EXPECT_EQ(f.at(4, 0), 0x12u);
  EXPECT_EQ(f.at(5, 0), 0x44u);
  EXPECT_EQ(f.lds_at<uint32_t>(0), 0xffu);
  EXPECT_EQ(f.lds_at<uint32_t>(4), 0x12u);
  // The second result register is the first one's data, and so on.
  f.run("ds_wrxchg2_rtn_b32 v[2:3], v1, v2, v3 offset1:1");
  EXPECT_EQ(f.at(2, 0), 0xffu);
  EXPECT_EQ(f.at(3, 0), 0x12u);
  MemoryFixture g("gfx1030");
  g.set_exec(1);
  g.set_row(1, [](int) { return 0; });
  g.set_row(2, [](int) { return 10; });
  g.set_row(3, [](int) { return 3; });
  g.set_lds<uint32_t>(0, 12);
  g.run("ds_wrap_rtn_b32 v0, v1, v2, v3");
  EXPECT_EQ(g.lds_at<uint32_t>(0), 2u);
  g.run("ds_wrap_rtn_b32 v0, v1, v2, v3");
  EXPECT_EQ(g.lds_at<uint32_t>(0), 5u);
}

TEST(Atomics, LanesGoInOrder) {
  for (const std::string_view processor : {"gfx1100", "gfx942"}) {
    MemoryFixture f(processor);
    uint32_t* memory = f.memory(std::vector<uint32_t>{100});
    f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory));
    f.set_row(1, [](int) { return 0; });
    f.set_row(2, [](int lane) { return lane; });
    f.run(processor == "gfx942" ? "global_atomic_add v0, v1, v2, s[4:5] sc0"
                                : "global_atomic_add_u32 v0, v1, v2, s[4:5] glc");
    uint32_t sum = 100;
    for (int lane = 0; lane < f.size; ++lane) {
      EXPECT_EQ(f.at(0, lane), sum);
      sum += static_cast<uint32_t>(lane);
    }
    EXPECT_EQ(memory[0], sum);
    f.set_exec(0);
    f.run(processor == "gfx942" ? "global_atomic_add v1, v2, s[4:5]"
                                : "global_atomic_add_u32 v1, v2, s[4:5]");
    EXPECT_EQ(memory[0], sum);
  }
}

TEST(Atomics, MisalignedIsAFault) {
  MemoryFixture f("gfx1100");
  uint32_t* memory = f.memory(std::vector<uint32_t>(8, 0));
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory));
  f.set_row(1, [](int) { return 2; });
  f.set_row(2, [](int) { return 1; });
  EXPECT_NE(f.fault("global_atomic_add_u32 v1, v2, s[4:5]").find("no multiple of 4"), std::string::npos);
  EXPECT_EQ(f.last.kind, Fault::Kind::misaligned);
  EXPECT_NE(f.fault("ds_add_u32 v1, v2").find("no multiple of 4"), std::string::npos);
  f.set_row(1, [](int) { return 4; });
  EXPECT_NE(f.fault("ds_add_u64 v1, v[2:3]").find("no multiple of 8"), std::string::npos);
  EXPECT_EQ(f.fault("ds_add_u64 v1, v[2:3] offset:4"), "");
}

TEST(Atomics, OnManyThreads) {
  MemoryFixture f("gfx1100", {}, 4);
  auto* memory = f.memory(std::vector<uint32_t>{0, 0});
  auto* sum = f.memory(std::vector<float>{0, 0});
  std::vector<std::thread> threads;
  for (int g = 0; g < 4; ++g)
    threads.emplace_back([&, g] {
      Wave& wave = f.wave(g);
      wave.set_scalar64(4, reinterpret_cast<uint64_t>(memory));
      wave.set_scalar64(6, reinterpret_cast<uint64_t>(sum));
      f.set_row(wave, 1, [](int lane) { return 4 * (lane % 2); });
      f.set_row(wave, 2, [](int) { return 1; });
      f.set_row(wave, 3, [](int) { return bits(1.0f); });
      const auto add = decode(parse_instruction("global_atomic_add_u32 v1, v2, s[4:5]"), f.chip, 32);
      const auto add_float = decode(parse_instruction("global_atomic_add_f32 v1, v3, s[6:7]"), f.chip, 32);
      for (int i = 0; i < 1000; ++i) {
        add->run(wave, *add);
        add_float->run(wave, *add_float);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(memory[0], 64000u);
  EXPECT_EQ(memory[1], 64000u);
  EXPECT_EQ(sum[0], 64000.0f);
}

}  // namespace
}  // namespace hipemu
