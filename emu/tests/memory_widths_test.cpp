// 64-bit atomics in every kind of memory, and loads and stores of all widths through flat, scratch and buffer
// instructions.
#include <bit>
#include <cmath>

#include "memory_fixture.h"

namespace hipemu {
namespace {

constexpr uint64_t bits(double value) { return std::bit_cast<uint64_t>(value); }

struct WideAtomic {
  std::string_view older, newer, lds;  // empty where it does not exist; % stands for _ or _rtn_
  uint64_t memory, data, expected;
};

const WideAtomic wide_atomics[] = {
    {"add_x2", "add_u64", "add%u64", 0xffffffffull, 1, 0x100000000ull},
    {"sub_x2", "sub_u64", "sub%u64", 0x100000000ull, 1, 0xffffffffull},
    {"swap_x2", "swap_b64", "", 3, 1ull << 40, 1ull << 40},
    {"smin_x2", "min_i64", "min%i64", 3, ~0ull, ~0ull},
    {"umin_x2", "min_u64", "min%u64", 3, ~0ull, 3},
    {"smax_x2", "max_i64", "max%i64", 3, ~0ull, 3},
    {"umax_x2", "max_u64", "max%u64", 3, ~0ull, ~0ull},
    {"and_x2", "and_b64", "and%b64", 0xcull << 40, 0xaull << 40, 0x8ull << 40},
    {"or_x2", "or_b64", "or%b64", 0xcull << 40, 0xaull << 40, 0xeull << 40},
    {"xor_x2", "xor_b64", "xor%b64", 0xcull << 40, 0xaull << 40, 0x6ull << 40},
    {"inc_x2", "inc_u64", "inc%u64", 0xffffffffull, 1ull << 40, 0x100000000ull},
    {"inc_x2", "inc_u64", "inc%u64", 1ull << 40, 1ull << 40, 0},
    {"dec_x2", "dec_u64", "dec%u64", 0x100000000ull, 1ull << 40, 0xffffffffull},
    {"dec_x2", "dec_u64", "dec%u64", 0, 1ull << 40, 1ull << 40},
    {"add_f64", "", "add%f64", bits(1.5), bits(0.25), bits(1.75)},
    {"min_f64", "", "min%f64", bits(1.5), bits(-0.25), bits(-0.25)},
    {"max_f64", "", "max%f64", bits(1.5), bits(-0.25), bits(1.5)},
    {"", "", "min_num%f64", bits(NAN), bits(-0.25), bits(-0.25)},
    {"", "", "max_num%f64", bits(1.5), bits(NAN), bits(1.5)},
};

TEST(WideAtomics, GlobalAndFlat) {
  for (const std::string_view processor : {"gfx90a", "gfx1100"}) {
    for (const WideAtomic& test : wide_atomics) {
      const std::string name(processor == "gfx90a" ? test.older : test.newer);
      if (name.empty()) continue;
      MemoryFixture f(processor);
      uint64_t* memory = f.memory(std::vector<uint64_t>(4, test.memory));
      f.set_exec(4);
      f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory));
      f.set_row(1, [](int) { return 8; });
      f.set_rows64(2, [&](int) { return test.data; });
      f.set_rows64(6, [&](int) { return reinterpret_cast<uint64_t>(memory + 2); });
      f.run("global_atomic_" + name + " v[8:9], v1, v[2:3], s[4:5] glc");
      EXPECT_EQ(memory[1], test.expected) << name;
      EXPECT_EQ(f.at64(8, 2), test.memory) << name;
      EXPECT_EQ(f.at64(8, 1), 0u) << name;
      f.run("flat_atomic_" + name + " v[6:7], v[2:3]");
      EXPECT_EQ(memory[2], test.expected) << name;
      EXPECT_EQ(memory[0], test.memory) << name;
      EXPECT_EQ(memory[3], test.memory) << name;
    }
  }
}

TEST(WideAtomics, Lds) {
  for (const WideAtomic& test : wide_atomics) {
    if (test.lds.empty()) continue;
    const std::size_t at = test.lds.find('%');
    const auto name = [&](const char* between) {
      return "ds_" + std::string(test.lds.substr(0, at)) + between + std::string(test.lds.substr(at + 1));
    };
    MemoryFixture f("gfx90a");
    f.set_lds<uint64_t>(16, test.memory);
    f.set_lds<uint64_t>(24, test.memory);
    f.set_exec(2);
    f.set_row(1, [](int) { return 8; });
    f.set_rows64(2, [&](int) { return test.data; });
    f.run(name("_") + " v1, v[2:3] offset:8");
    EXPECT_EQ(f.lds_at<uint64_t>(16), test.expected) << test.lds;
    f.run(name("_rtn_") + " v[8:9], v1, v[2:3] offset:16");
    EXPECT_EQ(f.lds_at<uint64_t>(24), test.expected) << test.lds;
    EXPECT_EQ(f.at64(8, 1), test.memory) << test.lds;
  }
}

TEST(WideAtomics, ExchangesAndCompareAndSwap) {
  MemoryFixture f("gfx90a"), g("gfx1100");
  for (MemoryFixture* each : {&f, &g}) {
    each->set_exec(1);
    each->set_row(1, [](int) { return 8; });
    each->set_rows64(2, [](int) { return 1ull << 40; });  // new
    each->set_rows64(4, [](int) { return 7; });           // to compare with
    each->set_lds<uint64_t>(8, 7);
  }
  f.run("ds_wrxchg_rtn_b64 v[8:9], v1, v[2:3]");
  g.run("ds_storexchg_rtn_b64 v[8:9], v1, v[2:3]");
  for (MemoryFixture* each : {&f, &g}) {
    EXPECT_EQ(each->lds_at<uint64_t>(8), 1ull << 40);
    EXPECT_EQ(each->at64(8, 0), 7u);
    each->set_lds<uint64_t>(8, 7);
  }
  f.run("ds_cmpst_rtn_b64 v[8:9], v1, v[4:5], v[2:3]");
  g.run("ds_cmpstore_rtn_b64 v[8:9], v1, v[2:3], v[4:5]");
  for (MemoryFixture* each : {&f, &g}) {
    EXPECT_EQ(each->lds_at<uint64_t>(8), 1ull << 40);
    EXPECT_EQ(each->at64(8, 0), 7u);
  }
  g.set_lds<uint32_t>(8, 7);
  g.run("ds_storexchg_rtn_b32 v8, v1, v4");
  EXPECT_EQ(g.at(8, 0), 7u);

  // Memory: the new value, then what to compare with.
  uint64_t* wide = g.memory(std::vector<uint64_t>{7, 7, 7});
  uint32_t* narrow = g.memory(std::vector<uint32_t>{7, 7, 7});
  g.set_rows64(6, [&](int) { return reinterpret_cast<uint64_t>(wide); });
  g.set_rows64(10, [&](int) { return reinterpret_cast<uint64_t>(narrow); });
  g.run("global_atomic_cmpswap_b64 v[8:9], v[6:7], v[2:5], off offset:8 glc");
  EXPECT_EQ(wide[1], 1ull << 40);
  EXPECT_EQ(g.at64(8, 0), 7u);
  g.run("flat_atomic_cmpswap_b64 v[6:7], v[2:5]");
  EXPECT_EQ(wide[0], 1ull << 40);
  g.set_row(2, [](int) { return 99; });
  g.set_row(3, [](int) { return 7; });
  g.run("global_atomic_cmpswap_b32 v8, v[10:11], v[2:3], off offset:4 glc");
  EXPECT_EQ(narrow[1], 99u);
  EXPECT_EQ(g.at(8, 0), 7u);
  g.run("flat_atomic_cmpswap_b32 v[10:11], v[2:3]");
  EXPECT_EQ(narrow[0], 99u);
  uint32_t* old_narrow = f.memory(std::vector<uint32_t>{7});
  uint64_t* old_wide = f.memory(std::vector<uint64_t>{7});
  f.set_rows64(6, [&](int) { return reinterpret_cast<uint64_t>(old_wide); });
  f.run("flat_atomic_cmpswap_x2 v[6:7], v[2:5]");
  EXPECT_EQ(*old_wide, 1ull << 40);
  f.set_rows64(6, [&](int) { return reinterpret_cast<uint64_t>(old_narrow); });
  f.set_row(2, [](int) { return 99; });
  f.set_row(3, [](int) { return 7; });
  f.run("flat_atomic_cmpswap v[6:7], v[2:3]");
  EXPECT_EQ(*old_narrow, 99u);
}

// What a load of each kind makes of the bytes 0x81 0x92 0xa3 ... (each 0x11 more).
struct Width {
  std::string_view older, newer;
  int registers;
  std::vector<uint32_t> expected;
};

const Width loads[] = {
    {"ubyte", "u8", 1, {0x81}},
    {"sbyte", "i8", 1, {0xffffff81}},
    {"ushort", "u16", 1, {0x9281}},
    {"sshort", "i16", 1, {0xffff9281}},
    {"dwordx2", "b64", 2, {0xb4a39281, 0xf8e7d6c5}},
    {"dwordx3", "b96", 3, {0xb4a39281, 0xf8e7d6c5, 0x3c2b1a09}},
    {"dwordx4", "b128", 4, {0xb4a39281, 0xf8e7d6c5, 0x3c2b1a09, 0x806f5e4d}},
};

std::string registers(int count) { return count == 1 ? "v8" : "v[8:" + std::to_string(7 + count) + "]"; }

std::vector<uint8_t> pattern() {
  std::vector<uint8_t> bytes(64);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(0x81 + 0x11 * i);
  return bytes;
}

TEST(Widths, FlatLoadsAndStores) {
  for (const std::string_view processor : {"gfx942", "gfx1201"}) {
    const bool older = processor == "gfx942";
    for (const Width& load : loads) {
      MemoryFixture f(processor);
      uint8_t* memory = f.memory(pattern());
      f.set_exec(0b101);
      f.set_rows64(2, [&](int) { return reinterpret_cast<uint64_t>(memory); });
      f.run("flat_load_" + std::string(older ? load.older : load.newer) + " " + registers(load.registers) +
            ", v[2:3]");
      for (int k = 0; k < load.registers; ++k) {
        EXPECT_EQ(f.at(8 + k, 2), load.expected[k]) << load.newer;
        EXPECT_EQ(f.at(8 + k, 1), 0u) << load.newer;
      }
    }
    struct Store {
      std::string_view older, newer;
      int registers;
      std::vector<uint8_t> expected;  // first bytes of memory
    };
    const Store stores[] = {
        {"byte", "b8", 1, {0x44, 0xee}},
        {"short", "b16", 1, {0x44, 0x33, 0xee}},
        {"byte_d16_hi", "d16_hi_b8", 1, {0x22, 0xee}},
        {"short_d16_hi", "d16_hi_b16", 1, {0x22, 0x11, 0xee}},
        {"dwordx2", "b64", 2, {0x44, 0x33, 0x22, 0x11, 0x45, 0x33, 0x22, 0x11, 0xee}},
        {"dwordx4",
         "b128",
         4,
         {0x44, 0x33, 0x22, 0x11, 0x45, 0x33, 0x22, 0x11, 0x46, 0x33, 0x22, 0x11, 0x47, 0x33, 0x22, 0x11,
          0xee}},
    };
    for (const Store& store : stores) {
      MemoryFixture f(processor);
      uint8_t* memory = f.memory(std::vector<uint8_t>(32, 0xee));
      f.set_exec(1);
      f.set_rows64(2, [&](int) { return reinterpret_cast<uint64_t>(memory); });
      for (uint32_t k = 0; k < 4; ++k) f.set_row(8 + k, [&](int) { return 0x11223344 + k; });
      f.run("flat_store_" + std::string(older ? store.older : store.newer) + " v[2:3], " +
            registers(store.registers));
      EXPECT_EQ(std::vector<uint8_t>(memory, memory + store.expected.size()), store.expected) << store.newer;
    }
  }
}

TEST(Widths, ScratchLoadsAndStores) {
  for (const std::string_view processor : {"gfx942", "gfx1100"}) {
    const bool older = processor == "gfx942";
    MemoryFixture f(processor);
    const auto name = [&](std::string_view old_name, std::string_view new_name) {
      return std::string(older ? old_name : new_name);
    };
    for (uint32_t k = 0; k < 4; ++k)
      f.set_row(8 + k, [&](int lane) { return 0x81828384 + 0x01000000 * k + lane; });
    for (const int n : {2, 4}) {
      const std::string wide = n == 2 ? "2" : "4", bytes = n == 2 ? "64" : "128";
      f.run(name("scratch_store_dwordx" + wide, "scratch_store_b" + bytes) + " off, " + registers(n) +
            ", off offset:16");
      f.run(name("scratch_load_dwordx" + wide, "scratch_load_b" + bytes) + " v[20:" + std::to_string(19 + n) +
            "], off, off offset:16");
      for (int k = 0; k < n; ++k)
        for (int lane = 0; lane < f.size; ++lane)
          EXPECT_EQ(f.at(20 + k, lane), 0x81828384u + 0x01000000u * k + lane);
    }
    f.run(name("scratch_store_byte", "scratch_store_b8") + " off, v9, off offset:16");
    f.run(name("scratch_store_short", "scratch_store_b16") + " off, v10, off offset:18");
    f.run(name("scratch_load_ubyte", "scratch_load_u8") + " v0, off, off offset:17");
    EXPECT_EQ(f.at(0, 1), 0x83u);
    f.run(name("scratch_load_ushort", "scratch_load_u16") + " v0, off, off offset:18");
    EXPECT_EQ(f.at(0, 1), 0x8385u);
    f.run(name("scratch_load_dword", "scratch_load_b32") + " v0, off, off offset:16");
    EXPECT_EQ(f.at(0, 1), 0x83858385u);
  }
}

TEST(Widths, BuffersAndScalars) {
  MemoryFixture f("gfx90a");
  uint8_t* memory = f.memory(pattern());
  f.set_scalar64(f.wave(), 8, reinterpret_cast<uint64_t>(memory));
  f.wave().scalars[10] = 64;
  f.wave().scalars[11] = 0;
  f.set_row(1, [](int) { return 1; });
  f.run("buffer_load_ubyte v0, v1, s[8:11], 0 offen");
  EXPECT_EQ(f.at(0, 3), 0x92u);
  f.run("buffer_load_ushort v0, v1, s[8:11], 0 offen offset:1");
  EXPECT_EQ(f.at(0, 3), 0xb4a3u);
  f.set_exec(1);
  f.set_row(2, [](int) { return 0x1ff; });
  f.run("buffer_store_byte v2, v1, s[8:11], 0 offen");
  EXPECT_EQ(memory[1], 0xff);
  EXPECT_EQ(memory[2], 0xa3);

  std::vector<uint32_t> words(16);
  for (uint32_t i = 0; i < 16; ++i) words[i] = 0x1000 + i;
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(f.memory(words)));
  f.run("s_load_dwordx8 s[16:23], s[4:5], 0x8");
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(f.wave().scalars[16 + i], 0x1002 + i);
  MemoryFixture g("gfx1201");
  g.set_scalar64(g.wave(), 4, reinterpret_cast<uint64_t>(g.memory(words)));
  g.run("s_load_b256 s[16:23], s[4:5], 0x4");
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(g.wave().scalars[16 + i], 0x1001 + i);
  g.run("s_load_b96 s[24:26], s[4:5], 0x0");
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(g.wave().scalars[24 + i], 0x1000 + i);
  EXPECT_EQ(g.wave().scalars[27], 0u);
}

TEST(Widths, CacheControlChangesNothing) {
  MemoryFixture f("gfx1100");
  f.set_row(0, [](int lane) { return lane; });
  for (const char* text : {"buffer_gl0_inv", "buffer_gl1_inv", "buffer_invl2", "buffer_wbinvl1_vol"})
    f.run(text);
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), static_cast<uint32_t>(lane));
}

}  // namespace
}  // namespace hipemu
