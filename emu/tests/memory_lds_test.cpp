// LDS: loads, stores, pairs, lane permutations.
#include <functional>

#include "memory_fixture.h"

namespace hipemu {
namespace {

class EveryChip : public testing::TestWithParam<std::string_view> {
 protected:
  bool old_names() const {
    return GetParam() == "gfx90a" || GetParam() == "gfx942" || GetParam() == "gfx1030";
  }
  std::string name(std::string_view older, std::string_view newer) const {
    return std::string(old_names() ? older : newer);
  }
};
INSTANTIATE_TEST_SUITE_P(Chips, EveryChip,
                         testing::Values("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"));

TEST_P(EveryChip, LoadsAndStoresOfAllWidths) {
  MemoryFixture f(GetParam());
  for (uint32_t i = 0; i < 1024; ++i) f.set_lds<uint8_t>(i, static_cast<uint8_t>(i * 5 + 3));
  const auto byte = [](int i) { return static_cast<uint32_t>(static_cast<uint8_t>(i * 5 + 3)); };
  const auto word = [&](int i) { return byte(i) | byte(i + 1) << 8; };
  const auto dword = [&](int i) { return word(i) | word(i + 2) << 16; };
  f.set_row(1, [](int lane) { return 8 * lane; });
  const auto check = [&](std::string_view older, std::string_view newer, std::string_view registers, int rows,
                         const std::function<uint32_t(int at, int k)>& expected) {
    for (uint32_t k = 4; k < 8; ++k) f.set_row(k, [](int) { return 0xaaaabbbb; });
    f.run(name(older, newer) + " " + std::string(registers) + ", v1 offset:12");
    for (int lane = 0; lane < f.size; ++lane)
      for (int k = 0; k < rows; ++k)
        EXPECT_EQ(f.at(static_cast<uint32_t>(4 + k), lane), expected(8 * lane + 12, k)) << newer;
  };
  check("ds_read_u8", "ds_load_u8", "v4", 1, [&](int at, int) { return byte(at); });
  check("ds_read_i8", "ds_load_i8", "v4", 1,
        [&](int at, int) { return static_cast<uint32_t>(static_cast<int8_t>(byte(at))); });
  check("ds_read_u16", "ds_load_u16", "v4", 1, [&](int at, int) { return word(at); });
  check("ds_read_i16", "ds_load_i16", "v4", 1,
        [&](int at, int) { return static_cast<uint32_t>(static_cast<int16_t>(word(at))); });
  check("ds_read_u16_d16", "ds_load_u16_d16", "v4", 1, [&](int at, int) { return 0xaaaa0000u | word(at); });
  check("ds_read_u16_d16_hi", "ds_load_u16_d16_hi", "v4", 1,
        [&](int at, int) { return 0xbbbbu | word(at) << 16; });
  check("ds_read_u8_d16", "ds_load_u8_d16", "v4", 1, [&](int at, int) { return 0xaaaa0000u | byte(at); });
  check("ds_read_u8_d16_hi", "ds_load_u8_d16_hi", "v4", 1,
        [&](int at, int) { return 0xbbbbu | byte(at) << 16; });
  check("ds_read_i8_d16", "ds_load_i8_d16", "v4", 1,
        [&](int at, int) { return 0xaaaa0000u | static_cast<uint16_t>(static_cast<int8_t>(byte(at))); });
  check("ds_read_b32", "ds_load_b32", "v4", 1, [&](int at, int) { return dword(at); });
  check("ds_read_b64", "ds_load_b64", "v[4:5]", 2, [&](int at, int k) { return dword(at + 4 * k); });
  check("ds_read_b96", "ds_load_b96", "v[4:6]", 3, [&](int at, int k) { return dword(at + 4 * k); });
  check("ds_read_b128", "ds_load_b128", "v[4:7]", 4, [&](int at, int k) { return dword(at + 4 * k); });

  f.set_row(1, [](int lane) { return 16 * lane; });
  for (uint32_t k = 0; k < 4; ++k) f.set_row(4 + k, [&](int lane) { return 0x10000u * k + 0x5500u + lane; });
  f.run(name("ds_write_b128", "ds_store_b128") + " v1, v[4:7] offset:32");
  for (int lane = 0; lane < f.size; ++lane)
    for (uint32_t k = 0; k < 4; ++k)
      EXPECT_EQ(f.lds_at<uint32_t>(static_cast<uint32_t>(16 * lane + 32) + 4 * k),
                0x10000u * k + 0x5500u + lane);
  f.set_exec(2);
  f.run(name("ds_write_b8", "ds_store_b8") + " v1, v5");
  EXPECT_EQ(f.lds_at<uint8_t>(16), 0x01);
  f.run(name("ds_write_b16", "ds_store_b16") + " v1, v5 offset:1");
  EXPECT_EQ(f.lds_at<uint16_t>(17), 0x5501);
  f.run(name("ds_write_b16_d16_hi", "ds_store_b16_d16_hi") + " v1, v6 offset:4");
  EXPECT_EQ(f.lds_at<uint16_t>(20), 2);
  f.run(name("ds_write_b8_d16_hi", "ds_store_b8_d16_hi") + " v1, v7 offset:6");
  EXPECT_EQ(f.lds_at<uint8_t>(22), 3);
  f.run(name("ds_write_b96", "ds_store_b96") + " v1, v[4:6]");
  EXPECT_EQ(f.lds_at<uint32_t>(24), 0x25501u);
  f.run(name("ds_write_b64", "ds_store_b64") + " v1, v[6:7]");
  EXPECT_EQ(f.lds_at<uint32_t>(20), 0x35501u);
  EXPECT_EQ(f.lds_at<uint32_t>(24), 0x25501u);
  f.run(name("ds_write_b32", "ds_store_b32") + " v1, v4");
  EXPECT_EQ(f.lds_at<uint32_t>(16), 0x5501u);
}

TEST_P(EveryChip, Pairs) {
  MemoryFixture f(GetParam());
  for (uint32_t i = 0; i < 1024; ++i) f.set_lds<uint32_t>(4 * i, 0x100 + i);
  f.set_row(2, [](int lane) { return 4 * lane; });
  f.run(name("ds_read2_b32", "ds_load_2addr_b32") + " v[4:5], v2 offset0:3 offset1:100");
  EXPECT_EQ(f.at(4, 7), 0x100u + 7 + 3);
  EXPECT_EQ(f.at(5, 7), 0x100u + 7 + 100);
  f.run(name("ds_read2_b64", "ds_load_2addr_b64") + " v[4:7], v2 offset1:1");
  EXPECT_EQ(f.at(4, 7), 0x107u);
  EXPECT_EQ(f.at(5, 7), 0x108u);
  EXPECT_EQ(f.at(6, 7), 0x109u);
  EXPECT_EQ(f.at(7, 7), 0x10au);
  f.run(name("ds_read2st64_b32", "ds_load_2addr_stride64_b32") + " v[4:5], v2 offset0:1 offset1:2");
  EXPECT_EQ(f.at(4, 7), 0x107u + 64);
  EXPECT_EQ(f.at(5, 7), 0x107u + 128);
  f.run(name("ds_read2st64_b64", "ds_load_2addr_stride64_b64") + " v[4:7], v2 offset0:1 offset1:2");
  EXPECT_EQ(f.at(4, 7), 0x107u + 128);
  EXPECT_EQ(f.at(7, 7), 0x108u + 256);
  // The address register is one of the destinations.
  f.run(name("ds_read2_b32", "ds_load_2addr_b32") + " v[2:3], v2 offset0:1 offset1:2");
  EXPECT_EQ(f.at(2, 9), 0x10au);
  EXPECT_EQ(f.at(3, 9), 0x10bu);

  f.set_row(2, [](int lane) { return 8 * lane; });
  f.set_row(4, [](int lane) { return 1000 + lane; });
  f.set_row(5, [](int lane) { return 2000 + lane; });
  f.run(name("ds_write2_b32", "ds_store_2addr_b32") + " v2, v5, v4 offset1:1");
  EXPECT_EQ(f.lds_at<uint32_t>(80), 2010u);
  EXPECT_EQ(f.lds_at<uint32_t>(84), 1010u);
  f.set_row(2, [](int lane) { return 4 * lane; });
  f.run(name("ds_write2st64_b32", "ds_store_2addr_stride64_b32") + " v2, v4, v5 offset0:4 offset1:8");
  EXPECT_EQ(f.lds_at<uint32_t>(1024 + 12), 1003u);
  EXPECT_EQ(f.lds_at<uint32_t>(2048 + 12), 2003u);
  f.set_row(2, [](int lane) { return 16 * lane; });
  f.set_row(6, [](int lane) { return 3000 + lane; });
  f.set_row(7, [](int lane) { return 4000 + lane; });
  f.run(name("ds_write2_b64", "ds_store_2addr_b64") + " v2, v[4:5], v[6:7] offset0:0 offset1:1");
  for (uint32_t k = 0; k < 4; ++k) EXPECT_EQ(f.lds_at<uint32_t>(16 * 20 + 4 * k), 1000 * (k + 1) + 20);
}

TEST_P(EveryChip, OutOfRangeReadsZeroAndWritesNothing) {
  MemoryFixture f(GetParam());
  for (uint32_t i = 0; i < 1024; ++i) f.set_lds<uint32_t>(4 * i, 0x100 + i);
  f.set_row(1, [](int lane) { return lane == 3 ? 4096 : lane == 4 ? 4094 : 4 * lane; });
  f.set_row(0, [](int) { return 9; });
  f.run(name("ds_read_b32", "ds_load_b32") + " v0, v1");
  EXPECT_EQ(f.at(0, 2), 0x102u);
  EXPECT_EQ(f.at(0, 3), 0u);
  EXPECT_EQ(f.at(0, 4), 0u);
  f.run(name("ds_write_b32", "ds_store_b32") + " v1, v0");
  EXPECT_EQ(f.lds_at<uint32_t>(4092), 0x100u + 1023);
  // A negative base and an offset meet in range.
  f.set_row(1, [](int lane) { return -8 + 4 * lane; });
  f.run(name("ds_read_b32", "ds_load_b32") + " v0, v1 offset:8");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 0x100u + lane);
  f.set_row(1, [](int) { return 4; });
  f.run(name("ds_read_b32", "ds_load_b32") + " v0, v1 offset:65535");
  EXPECT_EQ(f.at(0, 0), 0u);
}

TEST_P(EveryChip, ByLaneNumber) {
  MemoryFixture f(GetParam());
  f.wave().scalars[scalar::m0] = 512;
  f.set_row(4, [](int lane) { return 40 + lane; });
  f.run(name("ds_write_addtid_b32", "ds_store_addtid_b32") + " v4 offset:8");
  EXPECT_EQ(f.lds_at<uint32_t>(520 + 4 * 9), 49u);
  f.run(name("ds_read_addtid_b32", "ds_load_addtid_b32") + " v5 offset:12");
  EXPECT_EQ(f.at(5, 8), 49u);
}

TEST_P(EveryChip, AppendAndConsume) {
  MemoryFixture f(GetParam());
  f.wave().scalars[scalar::m0] = 16;
  f.set_lds<uint32_t>(20, 100);
  f.set_row(0, [](int) { return 7; });
  f.set_exec(0b10110);
  f.run("ds_append v0 offset:4");
  EXPECT_EQ(f.lds_at<uint32_t>(20), 103u);
  EXPECT_EQ(f.at(0, 1), 100u);
  EXPECT_EQ(f.at(0, 4), 100u);
  EXPECT_EQ(f.at(0, 0), 7u);
  f.run("ds_consume v0 offset:4");
  EXPECT_EQ(f.lds_at<uint32_t>(20), 100u);
  EXPECT_EQ(f.at(0, 2), 103u);
  f.set_exec(0);
  f.run("ds_append v0 offset:4");
  EXPECT_EQ(f.lds_at<uint32_t>(20), 100u);
}

TEST_P(EveryChip, PermuteBackwardAndForward) {
  MemoryFixture f(GetParam());
  f.set_row(1, [](int lane) { return 4 * (lane + 1); });
  f.set_row(2, [](int lane) { return 50 + lane; });
  f.run("ds_bpermute_b32 v0, v1, v2");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 50u + (lane + 1) % f.size);
  f.run("ds_permute_b32 v0, v1, v2");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 50u + (lane + f.size - 1) % f.size);
  // From a lane that is off comes zero; a lane that is off gets nothing.
  f.set_row(0, [](int) { return 7; });
  f.set_exec(0b0111);
  f.run("ds_bpermute_b32 v0, v1, v2");
  EXPECT_EQ(f.at(0, 0), 51u);
  EXPECT_EQ(f.at(0, 1), 52u);
  EXPECT_EQ(f.at(0, 2), 0u);
  EXPECT_EQ(f.at(0, 3), 7u);
  f.run("ds_permute_b32 v0, v1, v2");
  EXPECT_EQ(f.at(0, 0), 0u);
  EXPECT_EQ(f.at(0, 1), 50u);
  EXPECT_EQ(f.at(0, 3), 7u);
  // In place, and with an offset.
  f.set_exec(~0ull);
  f.run("ds_bpermute_b32 v2, v1, v2 offset:4");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(2, lane), 50u + (lane + 2) % f.size);
}

TEST_P(EveryChip, Swizzle) {
  MemoryFixture f(GetParam());
  f.set_row(1, [](int lane) { return lane; });
  const auto check = [&](std::string_view offset, auto&& from) {
    f.run("ds_swizzle_b32 v0, v1 " + std::string(offset));
    for (int lane = 0; lane < f.size; ++lane)
      EXPECT_EQ(f.at(0, lane), static_cast<uint32_t>((lane & 32) | from(lane & 31))) << offset << " " << lane;
  };
  check("offset:swizzle(QUAD_PERM,3,1,2,0)", [](int i) {
    const int select[] = {3, 1, 2, 0};
    return (i & ~3) + select[i & 3];
  });
  check("offset:swizzle(SWAP,4)", [](int i) { return i ^ 4; });
  check("offset:swizzle(REVERSE,8)", [](int i) { return i ^ 7; });
  check("offset:swizzle(BROADCAST,8,3)", [](int i) { return (i & ~7) + 3; });
  check("offset:swizzle(BITMASK_PERM,\"01pip\")", [](int i) { return (((i & 7) | 8) ^ 2); });
  check("offset:swizzle(BITMASK_PERM,\"00ppp\")", [](int i) { return i & 7; });
  check("offset:1055", [](int i) { return i ^ 1; });  // 0x41f: and 31, or 0, xor 1
  check("", [](int) { return 0; });
  check("offset:49184", [](int i) { return (i + 1) & 31; });  // 0xc020: turn by one
  check("offset:50208", [](int i) { return (i - 1) & 31; });  // 0xc420: the other way
  check("offset:57344", [](int i) {                           // 0xe000: bits reversed
    int reversed = 0;
    for (int bit = 0; bit < 5; ++bit) reversed |= (i >> bit & 1) << (4 - bit);
    return reversed;
  });
  f.set_exec(~0ull & ~2ull);
  f.run("ds_swizzle_b32 v0, v1 offset:swizzle(SWAP,1)");
  EXPECT_EQ(f.at(0, 0), 0u);
  EXPECT_THROW(f.run("ds_swizzle_b32 v0, v1 offset:swizzle(NONE,1)"), UnknownInstruction);
}

TEST(Gfx12, PermuteFetchesInactive) {
  MemoryFixture f("gfx1201");
  f.set_row(1, [](int lane) { return 4 * (lane + 1); });
  f.set_row(2, [](int lane) { return 50 + lane; });
  f.set_exec(1);
  f.run("ds_bpermute_fi_b32 v0, v1, v2");
  EXPECT_EQ(f.at(0, 0), 51u);
}

}  // namespace
}  // namespace hipemu
