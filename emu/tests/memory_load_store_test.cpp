// Loads and stores of global, flat, scratch, buffer and scalar memory, with values worked out by hand.
#include "memory_fixture.h"

namespace hipemu {
namespace {

std::vector<uint32_t> counting(int count, uint32_t first = 0x1000) {
  std::vector<uint32_t> values;
  for (int i = 0; i < count; ++i) values.push_back(first + static_cast<uint32_t>(i));
  return values;
}

class EveryChip : public testing::TestWithParam<std::string_view> {
 protected:
  bool old_names() const {
    return GetParam() == "gfx90a" || GetParam() == "gfx942" || GetParam() == "gfx1030";
  }
  // "global_load_dword" where chips of before gfx11 say so.
  std::string name(std::string_view older, std::string_view newer) const {
    return std::string(old_names() ? older : newer);
  }
};
INSTANTIATE_TEST_SUITE_P(Chips, EveryChip,
                         testing::Values("gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201"));

TEST_P(EveryChip, ConsecutiveUniformAndScatteredLoads) {
  MemoryFixture f(GetParam());
  uint32_t* memory = f.memory(counting(256));
  const std::string load = name("global_load_dword", "global_load_b32");
  f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory));
  f.set_row(1, [](int lane) { return 4 * lane; });
  f.run(load + " v0, v1, s[2:3]");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 0x1000u + lane);
  f.run(load + " v0, v1, s[2:3] offset:16");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 0x1004u + lane);
  f.set_row(1, [](int) { return 40; });
  f.run(load + " v0, v1, s[2:3] offset:-8");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 0x1008u);
  f.set_row(1, [](int lane) { return 4 * ((lane * 7) % 61); });
  f.run(load + " v0, v1, s[2:3]");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 0x1000u + (lane * 7) % 61);
}

TEST_P(EveryChip, AddressInVectorRegisters) {
  MemoryFixture f(GetParam());
  uint32_t* memory = f.memory(counting(256));
  const std::string load = name("global_load_dword", "global_load_b32");
  f.set_rows64(2, [&](int lane) { return reinterpret_cast<uint64_t>(memory + 2 * lane); });
  f.run(load + " v0, v[2:3], off offset:4");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 0x1001u + 2 * lane);
  // The destination is the address.
  f.run(name("global_load_dwordx2", "global_load_b64") + " v[2:3], v[2:3], off");
  for (int lane = 0; lane < f.size; ++lane) {
    EXPECT_EQ(f.at(2, lane), 0x1000u + 2 * lane);
    EXPECT_EQ(f.at(3, lane), 0x1001u + 2 * lane);
  }
}

TEST_P(EveryChip, InactiveLanesKeepTheirValue) {
  MemoryFixture f(GetParam());
  uint32_t* memory = f.memory(counting(256));
  const std::string load = name("global_load_dword", "global_load_b32");
  f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory));
  // Lanes that are off may hold any address.
  f.set_row(1, [](int lane) { return lane % 3 == 0 ? 4 * lane : 0x7fffffff; });
  f.set_row(0, [](int) { return 77; });
  uint64_t mask = 0;
  for (int lane = 0; lane < f.size; lane += 3) mask |= 1ull << lane;
  f.set_exec(mask);
  f.run(load + " v0, v1, s[2:3]");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), lane % 3 == 0 ? 0x1000u + lane : 77u);
  f.set_exec(0);
  f.set_row(1, [](int) { return 0x7fffffff; });
  f.run(load + " v0, v1, s[2:3]");
  f.set_scalar64(f.wave(), 2, 0);
  f.run(load + " v0, v1, s[2:3]");
  f.run(name("global_store_dword", "global_store_b32") + " v1, v0, s[2:3]");
  EXPECT_EQ(f.at(0, 1), 77u);
}

TEST_P(EveryChip, SmallLoadsExtend) {
  MemoryFixture f(GetParam());
  std::vector<uint8_t> bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<uint8_t>(i * 3 + 100));
  uint8_t* memory = f.memory(bytes);
  f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory));
  const auto byte = [&](int i) { return bytes[static_cast<std::size_t>(i)]; };
  const auto word = [&](int i) { return static_cast<uint16_t>(byte(i) | byte(i + 1) << 8); };
  for (const int stride : {1, 2, 3, 0}) {
    f.set_row(1, [&](int lane) { return stride * lane + 1; });
    const auto check = [&](std::string_view older, std::string_view newer, auto&& expected) {
      f.set_row(0, [](int) { return 0xaaaabbbb; });
      f.run(name(older, newer) + " v0, v1, s[2:3]");
      for (int lane = 0; lane < f.size; ++lane)
        EXPECT_EQ(f.at(0, lane), static_cast<uint32_t>(expected(stride * lane + 1))) << newer << " " << lane;
    };
    check("global_load_ubyte", "global_load_u8", [&](int i) { return byte(i); });
    check("global_load_sbyte", "global_load_i8", [&](int i) { return static_cast<int8_t>(byte(i)); });
    check("global_load_ushort", "global_load_u16", [&](int i) { return word(i); });
    check("global_load_sshort", "global_load_i16", [&](int i) { return static_cast<int16_t>(word(i)); });
    check("global_load_short_d16", "global_load_d16_b16", [&](int i) { return 0xaaaa0000u | word(i); });
    check("global_load_short_d16_hi", "global_load_d16_hi_b16",
          [&](int i) { return 0xbbbbu | static_cast<uint32_t>(word(i)) << 16; });
    check("global_load_ubyte_d16", "global_load_d16_u8", [&](int i) { return 0xaaaa0000u | byte(i); });
    check("global_load_sbyte_d16_hi", "global_load_d16_hi_i8", [&](int i) {
      return 0xbbbbu | static_cast<uint32_t>(static_cast<uint16_t>(static_cast<int8_t>(byte(i)))) << 16;
    });
    check("global_load_ubyte_d16_hi", "global_load_d16_hi_u8",
          [&](int i) { return 0xbbbbu | static_cast<uint32_t>(byte(i)) << 16; });
    check("global_load_sbyte_d16", "global_load_d16_i8",
          [&](int i) { return 0xaaaa0000u | static_cast<uint16_t>(static_cast<int8_t>(byte(i))); });
  }
}

TEST_P(EveryChip, WideLoadsAndStores) {
  MemoryFixture f(GetParam());
  uint32_t* memory = f.memory(counting(1024));
  uint32_t* output = f.memory(std::vector<uint32_t>(1024, 0));
  f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory));
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(output));
  const std::string_view older[] = {"x2", "x3", "x4"}, newer[] = {"b64", "b96", "b128"};
  for (int n = 2; n <= 4; ++n) {
    for (const int stride : {n, 5, 0}) {
      std::fill_n(output, 1024, 0u);
      f.set_row(1, [&](int lane) { return 4 * stride * lane; });
      const std::string registers = "v[8:" + std::to_string(7 + n) + "]";
      f.run(name(std::string("global_load_dword") + std::string(older[n - 2]),
                 std::string("global_load_") + std::string(newer[n - 2])) +
            " " + registers + ", v1, s[2:3] offset:8");
      for (int lane = 0; lane < f.size; ++lane)
        for (int k = 0; k < n; ++k) EXPECT_EQ(f.at(8 + k, lane), 0x1002u + stride * lane + k);
      f.run(name(std::string("global_store_dword") + std::string(older[n - 2]),
                 std::string("global_store_") + std::string(newer[n - 2])) +
            " v1, " + registers + ", s[4:5]");
      for (int lane = 0; lane < f.size; ++lane)
        for (int k = 0; k < n; ++k) EXPECT_EQ(output[stride * lane + k], 0x1002u + stride * lane + k);
    }
  }
}

TEST_P(EveryChip, Stores) {
  MemoryFixture f(GetParam());
  uint32_t* memory = f.memory(std::vector<uint32_t>(128, 0xeeeeeeee));
  f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory));
  f.set_row(1, [](int lane) { return 4 * lane; });
  f.set_row(0, [](int lane) { return 0x12340000 + lane; });
  f.run(name("global_store_dword", "global_store_b32") + " v1, v0, s[2:3]");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(memory[lane], 0x12340000u + lane);
  EXPECT_EQ(memory[f.size], 0xeeeeeeeeu);
  f.set_exec(0b1010);
  f.run(name("global_store_byte", "global_store_b8") + " v1, v0, s[2:3] offset:3");
  EXPECT_EQ(memory[1], 0x01340001u);
  EXPECT_EQ(memory[2], 0x12340002u);
  EXPECT_EQ(memory[3], 0x03340003u);
  f.run(name("global_store_short_d16_hi", "global_store_d16_hi_b16") + " v1, v0, s[2:3]");
  EXPECT_EQ(memory[1], 0x01341234u);
  f.run(name("global_store_byte_d16_hi", "global_store_d16_hi_b8") + " v1, v0, s[2:3]");
  EXPECT_EQ(memory[1], 0x01341234u);
  f.run(name("global_store_short", "global_store_b16") + " v1, v0, s[2:3] offset:2");
  EXPECT_EQ(memory[3], 0x00031234u);
  // Lanes that write to the same place: the last one stays.
  f.set_exec(~0ull);
  f.set_row(1, [](int lane) { return 4 * (lane % 4); });
  f.run(name("global_store_dword", "global_store_b32") + " v1, v0, s[2:3]");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(memory[i], 0x12340000u + f.size - 4 + i);
}

TEST_P(EveryChip, UnalignedAccessesWork) {
  MemoryFixture f(GetParam());
  std::vector<uint8_t> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  uint8_t* memory = f.memory(bytes);
  f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory) + 1);
  f.set_row(1, [](int lane) { return 4 * lane; });
  f.run(name("global_load_dword", "global_load_b32") + " v0, v1, s[2:3]");
  EXPECT_EQ(f.at(0, 0), 0x04030201u);
  EXPECT_EQ(f.at(0, 5), 0x18171615u);
}

TEST_P(EveryChip, AddressesInTwoAllocations) {
  MemoryFixture f(GetParam());
  uint32_t* a = f.memory(counting(16, 100));
  uint32_t* b = f.memory(counting(16, 200));
  uint32_t* big = f.memory(counting(1 << 20, 0));  // a mapping of its own, with another high half perhaps
  f.set_rows64(2, [&](int lane) {
    uint32_t* base = lane % 3 == 0 ? a : lane % 3 == 1 ? b : big;
    return reinterpret_cast<uint64_t>(base + lane % 16);
  });
  f.run(name("global_load_dword", "global_load_b32") + " v2, v[2:3], off");
  for (int lane = 0; lane < f.size; ++lane)
    EXPECT_EQ(f.at(2, lane), lane % 3 == 0 ? 100u + lane % 16 : lane % 3 == 1 ? 200u + lane % 16 : lane % 16);
}

TEST_P(EveryChip, WildAddressesAreFaultsWithoutChecks) {
  MemoryFixture f(GetParam());
  uint32_t* memory = f.memory(counting(16));
  const std::string load = name("global_load_dword", "global_load_b32");
  f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory));
  f.set_row(1, [](int lane) { return 4 * lane; });
  const std::string message = f.fault(load + " v0, v1, s[2:3]");
  EXPECT_NE(message.find("0 bytes past the end of allocation"), std::string::npos) << message;
  EXPECT_EQ(f.last.lane, 16);
  EXPECT_EQ(f.last.kind, Fault::Kind::illegal_address);
  f.set_rows64(2, [](int) { return 8; });
  EXPECT_NE(f.fault(load + " v0, v[2:3], off").find("null pointer"), std::string::npos);
  f.set_rows64(2, [](int) { return 0xdeadbeefdeadbeefull; });
  EXPECT_NE(f.fault(name("global_store_dword", "global_store_b32") + " v[2:3], v0, off").find("store"),
            std::string::npos);
  f.set_scalar64(f.wave(), 4, 16);
  EXPECT_NE(f.fault(name("s_load_dwordx2", "s_load_b64") + " s[6:7], s[4:5], 0x0").find("null"),
            std::string::npos);
}

TEST_P(EveryChip, FlatReachesGlobalLdsAndScratch) {
  MemoryFixture f(GetParam());
  uint32_t* memory = f.memory(counting(65));
  f.set_lds<uint32_t>(16, 0xabcd);
  f.set_rows64(2, [&](int lane) -> uint64_t {
    if (lane % 3 == 0) return reinterpret_cast<uint64_t>(memory + lane);
    if (lane % 3 == 1) return static_cast<uint64_t>(shared_aperture) << 32 | 16;
    return static_cast<uint64_t>(private_aperture) << 32 | 32;
  });
  f.set_row(1, [](int lane) { return 5000 + lane; });
  f.run(name("scratch_store_dword", "scratch_store_b32") + " off, v1, off offset:32");
  f.run(name("flat_load_dword", "flat_load_b32") + " v0, v[2:3]");
  for (int lane = 0; lane < f.size; ++lane)
    EXPECT_EQ(f.at(0, lane), lane % 3 == 0 ? 0x1000u + lane : lane % 3 == 1 ? 0xabcdu : 5000u + lane);
  f.run(name("flat_store_dword", "flat_store_b32") + " v[2:3], v1 offset:4");
  EXPECT_EQ(memory[1], 5000u);
  EXPECT_EQ(f.lds_at<uint32_t>(20), f.size == 64 ? 5061u : 5031u);  // the last lane that is 1 modulo 3
  f.run(name("scratch_load_dword", "scratch_load_b32") + " v0, off, off offset:36");
  EXPECT_EQ(f.at(0, 2), 5002u);
  EXPECT_EQ(f.at(0, 5), 5005u);
}

TEST_P(EveryChip, ScratchIsPrivateToTheLane) {
  MemoryFixture f(GetParam());
  const std::string store = name("scratch_store_dword", "scratch_store_b32");
  const std::string load = name("scratch_load_dword", "scratch_load_b32");
  f.set_row(1, [](int lane) { return 8 * (lane % 4); });
  f.set_row(2, [](int lane) { return 100 + lane; });
  f.wave().set_scalar(33, 64);
  f.run(store + " off, v2, s33 offset:8");
  f.run(load + " v0, off, s33 offset:8");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 100u + lane);
  f.run(store + " v1, v2, off offset:128");
  f.run(load + " v0, v1, off offset:128");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 100u + lane);
  f.run(load + " v0, off, off offset:136");
  EXPECT_EQ(f.at(0, 1), 101u);
  EXPECT_EQ(f.at(0, 2), 0u);
  if (f.chip.generation >= Generation::gfx11 || f.chip.processor == "gfx942") {
    f.set_row(0, [](int) { return 0; });
    f.run(load + " v0, v1, s33 offset:64");
    for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 100u + lane);
  }
  // Beyond its 256 bytes, in both directions.
  EXPECT_NE(f.fault(load + " v0, off, off offset:256").find("256 bytes of scratch"), std::string::npos);
  EXPECT_NE(f.fault(load + " v0, off, off offset:-4").find("scratch"), std::string::npos);
  EXPECT_EQ(f.fault(load + " v0, off, off offset:252"), "");
}

TEST_P(EveryChip, ScalarLoads) {
  MemoryFixture f(GetParam());
  uint32_t* memory = f.memory(counting(64));
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory + 8));
  const std::string load = name("s_load_dword", "s_load_b32");
  f.run(load + " s0, s[4:5], 0x8");
  EXPECT_EQ(f.wave().scalars[0], 0x100au);
  f.run(load + " s0, s[4:5], -0x10");
  EXPECT_EQ(f.wave().scalars[0], 0x1004u);
  f.wave().scalars[7] = 12;
  f.run(load + " s0, s[4:5], s7");
  EXPECT_EQ(f.wave().scalars[0], 0x100bu);
  f.run(load + " s0, s[4:5], s7 offset:0x10");
  EXPECT_EQ(f.wave().scalars[0], 0x100fu);
  if (f.chip.generation != Generation::gfx9) {
    f.run(load + " s0, s[4:5], null");
    EXPECT_EQ(f.wave().scalars[0], 0x1008u);
  }
  f.run(name("s_load_dwordx2", "s_load_b64") + " vcc, s[4:5], 0x0");
  EXPECT_EQ(f.wave().vcc(), 0x100900001008ull);
  f.run(name("s_load_dwordx16", "s_load_b512") + " s[16:31], s[4:5], 0x0");
  for (uint32_t i = 0; i < 16; ++i) EXPECT_EQ(f.wave().scalars[16 + i], 0x1008u + i);
  // The base may be overwritten by what it loads; the low bits of the address do not count.
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory) + 3);
  f.run(name("s_load_dwordx4", "s_load_b128") + " s[4:7], s[4:5], 0x4");
  EXPECT_EQ(f.wave().scalars[4], 0x1001u);
  EXPECT_EQ(f.wave().scalars[7], 0x1004u);
}

TEST(ScalarMemory, BufferIsRangeChecked) {
  MemoryFixture f("gfx1100");
  uint32_t* memory = f.memory(counting(64));
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory));
  f.wave().scalars[6] = 24;
  f.wave().scalars[7] = 0x30000000;
  f.run("s_buffer_load_b128 s[8:11], s[4:7], 0x10");
  EXPECT_EQ(f.wave().scalars[8], 0x1004u);
  EXPECT_EQ(f.wave().scalars[9], 0x1005u);
  EXPECT_EQ(f.wave().scalars[10], 0u);
  EXPECT_EQ(f.wave().scalars[11], 0u);
  f.wave().scalars[12] = 1000;
  f.run("s_buffer_load_b32 s8, s[4:7], s12 offset:0x10");
  EXPECT_EQ(f.wave().scalars[8], 0u);
}

TEST(ScalarMemory, SmallLoadsOfGfx12) {
  MemoryFixture f("gfx1201");
  uint8_t* memory = f.memory(std::vector<uint8_t>{1, 2, 0x83, 0x84, 5, 6});
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory));
  f.run("s_load_u8 s0, s[4:5], 0x3");
  EXPECT_EQ(f.wave().scalars[0], 0x84u);
  f.run("s_load_i8 s0, s[4:5], 0x2");
  EXPECT_EQ(f.wave().scalars[0], 0xffffff83u);
  f.run("s_load_u16 s0, s[4:5], 0x2");
  EXPECT_EQ(f.wave().scalars[0], 0x8483u);
  f.run("s_load_i16 s0, s[4:5], 0x2");
  EXPECT_EQ(f.wave().scalars[0], 0xffff8483u);
}

TEST(ScalarMemory, StoresAndAtomicsOfGfx9) {
  MemoryFixture f("gfx90a");
  uint32_t* memory = f.memory(counting(8));
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory));
  f.wave().scalars[0] = 5;
  f.wave().scalars[1] = 6;
  f.run("s_store_dwordx2 s[0:1], s[4:5], 0x8");
  EXPECT_EQ(memory[2], 5u);
  EXPECT_EQ(memory[3], 6u);
  f.run("s_atomic_add s0, s[4:5], 0x0 glc");
  EXPECT_EQ(memory[0], 0x1005u);
  EXPECT_EQ(f.wave().scalars[0], 0x1000u);
  f.wave().scalars[2] = 99;
  f.wave().scalars[3] = 0x1005;
  f.run("s_atomic_cmpswap s[2:3], s[4:5], 0x0");
  EXPECT_EQ(memory[0], 99u);
}

TEST(Prefetch, DoesNothing) {
  MemoryFixture f("gfx1201");
  for (const char* text : {"s_prefetch_data s[0:1], 0x10, s3, 4", "s_prefetch_inst s[0:1], 0x10, s3, 4",
                           "global_inv scope:SCOPE_DEV", "global_wb scope:SCOPE_SYS", "global_wbinv"})
    f.run(text);
  MemoryFixture g("gfx942");
  for (const char* text : {"buffer_wbl2 sc0 sc1", "buffer_inv sc1", "s_dcache_inv", "s_dcache_wb"})
    g.run(text);
}

// --- Buffers ---

void set_descriptor(MemoryFixture& f, uint32_t index, const void* base, uint32_t records, uint32_t stride = 0,
                    uint32_t word3 = 0x30000000, uint32_t word1 = 0) {
  f.set_scalar64(f.wave(), index, reinterpret_cast<uint64_t>(base));
  f.wave().scalars[index + 1] |= stride << 16 | word1;
  f.wave().scalars[index + 2] = records;
  f.wave().scalars[index + 3] = word3;
}

TEST_P(EveryChip, RawBuffers) {
  MemoryFixture f(GetParam());
  uint32_t* memory = f.memory(counting(256));
  set_descriptor(f, 4, memory, 64);
  const std::string load = name("buffer_load_dword", "buffer_load_b32");
  f.wave().scalars[9] = 8;
  f.run(load + " v0, off, s[4:7], s9 offset:4");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 0x1003u);
  f.set_row(1, [](int lane) { return 4 * lane; });
  f.run(load + " v0, v1, s[4:7], 0 offen offset:4");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), lane < 15 ? 0x1001u + lane : 0u);
  // The end of the range cuts a wide load, dword by dword.
  f.run(name("buffer_load_dwordx4", "buffer_load_b128") + " v[4:7], v1, s[4:7], 0 offen");
  EXPECT_EQ(f.at(4, 13), 0x100du);
  EXPECT_EQ(f.at(6, 13), 0x100fu);
  EXPECT_EQ(f.at(7, 13), 0u);
  EXPECT_EQ(f.at(4, 16), 0u);
  // Addresses that wrap are out of range too.
  f.set_row(1, [](int lane) { return lane == 0 ? 0x80000000u : 0xfffffffcu; });
  f.run(load + " v0, v1, s[4:7], 0 offen");
  EXPECT_EQ(f.at(0, 0), 0u);
  EXPECT_EQ(f.at(0, 1), 0u);

  f.set_row(1, [](int lane) { return 4 * lane; });
  f.set_row(2, [](int lane) { return lane; });
  f.run(name("buffer_store_dword", "buffer_store_b32") + " v2, v1, s[4:7], 0 offen");
  EXPECT_EQ(memory[15], 15u);
  EXPECT_EQ(memory[16], 0x1010u);
  f.run(name("buffer_store_short", "buffer_store_b16") + " v2, v1, s[4:7], 0 offen offset:2");
  EXPECT_EQ(memory[3], 0x30003u);
  // In range of the descriptor, but not of any allocation.
  set_descriptor(f, 4, memory, 0x10000000);
  f.set_row(1, [](int lane) { return 256 * lane; });
  EXPECT_NE(f.fault(load + " v0, v1, s[4:7], 0 offen").find("past the end"), std::string::npos);
}

TEST(Buffers, StructuredOnGfx9) {
  MemoryFixture f("gfx90a");
  uint32_t* memory = f.memory(counting(256));
  set_descriptor(f, 4, memory, 10, 8, 0);
  f.set_row(2, [](int lane) { return lane; });
  f.set_row(3, [](int) { return 4; });
  f.run("buffer_load_dword v0, v2, s[4:7], 0 idxen");
  EXPECT_EQ(f.at(0, 9), 0x1000u + 18);
  EXPECT_EQ(f.at(0, 10), 0u);
  f.run("buffer_load_dword v0, v[2:3], s[4:7], 0 idxen offen");
  EXPECT_EQ(f.at(0, 9), 0x1000u + 19);
}

TEST(Buffers, Swizzled) {
  // Index stride 8, elements of 4 bytes: record 9, byte 6 is element 1, byte 2, of member 1 of group 1.
  MemoryFixture f("gfx90a");
  uint32_t* memory = f.memory(counting(256));
  set_descriptor(f, 4, memory, 100, 16, 0, 1u << 31);
  f.set_row(2, [](int) { return 9; });
  f.set_row(3, [](int) { return 4; });
  f.run("buffer_load_dword v0, v[2:3], s[4:7], 0 idxen offen");
  // (1 * 16 + 1 * 4) * 8 + 1 * 4 = 164
  EXPECT_EQ(f.at(0, 0), 0x1000u + 41);
}

TEST(Buffers, OutOfBoundsSelectionOfGfx10) {
  MemoryFixture f("gfx1030");
  uint32_t* memory = f.memory(counting(256));
  f.set_row(2, [](int lane) { return lane; });
  f.set_row(3, [](int) { return 8; });
  set_descriptor(f, 4, memory, 4, 8, 0u << 28);  // index and offset
  f.run("buffer_load_dword v0, v[2:3], s[4:7], 0 idxen offen");
  EXPECT_EQ(f.at(0, 1), 0u);
  set_descriptor(f, 4, memory, 4, 8, 1u << 28);  // index
  f.run("buffer_load_dword v0, v[2:3], s[4:7], 0 idxen offen");
  EXPECT_EQ(f.at(0, 1), 0x1004u);
  EXPECT_EQ(f.at(0, 4), 0u);
  set_descriptor(f, 4, memory, 4, 8, 2u << 28);  // nothing
  f.run("buffer_load_dword v0, v[2:3], s[4:7], 0 idxen offen");
  EXPECT_EQ(f.at(0, 4), 0x100au);
  set_descriptor(f, 4, memory, 0, 8, 2u << 28);
  f.run("buffer_load_dword v0, v[2:3], s[4:7], 0 idxen offen");
  EXPECT_EQ(f.at(0, 4), 0u);
}

class ScratchByBuffer : public testing::TestWithParam<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(Chips, ScratchByBuffer, testing::Values("gfx90a", "gfx1030"));

TEST_P(ScratchByBuffer, IsTheScratchThatOthersSee) {
  MemoryFixture f(GetParam());
  const auto descriptor = scratch_descriptor(f.wave());
  for (uint32_t i = 0; i < 4; ++i) f.wave().scalars[i] = descriptor[i];
  // The stack pointer counts bytes of the whole wave: 16 bytes of each lane.
  f.wave().scalars[32] = static_cast<uint32_t>(16 * f.size);
  f.set_row(5, [](int lane) { return 700 + lane; });
  f.run("buffer_store_dword v5, off, s[0:3], s32 offset:4");
  f.run("scratch_load_dword v0, off, off offset:20");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 700u + lane);
  f.set_row(1, [](int lane) { return 4 * (lane % 8); });
  f.run("buffer_store_dword v5, v1, s[0:3], 0 offen offset:64");
  f.run("buffer_load_dword v0, v1, s[0:3], 0 offen offset:64");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 700u + lane);
  f.set_rows64(
      2, [](int lane) { return static_cast<uint64_t>(private_aperture) << 32 | (64 + 4 * (lane % 8)); });
  f.run("flat_load_dword v0, v[2:3]");
  for (int lane = 0; lane < f.size; ++lane) EXPECT_EQ(f.at(0, lane), 700u + lane);
  EXPECT_NE(f.fault("buffer_load_dword v0, off, s[0:3], 0 offset:256").find("scratch"), std::string::npos);
}

// --- Straight to LDS ---

TEST(LoadsToLds, GlobalOnGfx942) {
  MemoryFixture f("gfx942");
  uint32_t* memory = f.memory(counting(256));
  f.wave().scalars[scalar::m0] = 256;
  f.set_rows64(2, [&](int lane) { return reinterpret_cast<uint64_t>(memory + 63 - lane); });
  f.set_exec(~0ull << 2);
  f.run("global_load_lds_dword v[2:3], off offset:4");
  EXPECT_EQ(f.lds_at<uint32_t>(260 + 4 * 2), 0x1000u + 64 - 2);
  EXPECT_EQ(f.lds_at<uint32_t>(260 + 4 * 63), 0x1001u);
  EXPECT_EQ(f.lds_at<uint32_t>(260), 0u);
  f.set_scalar64(f.wave(), 4, reinterpret_cast<uint64_t>(memory));
  f.set_row(2, [](int lane) { return 4 * lane; });
  f.run("global_load_lds_ubyte v2, s[4:5]");
  EXPECT_EQ(f.lds_at<uint32_t>(256 + 4 * 17), 0x11u);
}

TEST(LoadsToLds, BufferWithModifier) {
  MemoryFixture f("gfx90a");
  uint32_t* memory = f.memory(counting(256));
  set_descriptor(f, 4, memory, 64);
  f.wave().scalars[scalar::m0] = 64;
  f.set_row(1, [](int lane) { return 4 * lane; });
  for (uint32_t i = 0; i < 100; ++i) f.set_lds<uint32_t>(4 * i, 7);
  f.run("buffer_load_dword v1, s[4:7], 0 offen lds");
  EXPECT_EQ(f.lds_at<uint32_t>(64 + 4 * 5), 0x1005u);
  EXPECT_EQ(f.lds_at<uint32_t>(64 + 4 * 16), 0u);
}

TEST(TransposedLoads, SixteenBits) {
  // Lane l reads eight elements of row l; within eight lanes, it gets column l % 8 of them.
  MemoryFixture f("gfx1201");
  std::vector<uint16_t> values(256);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint16_t>(i);
  uint16_t* memory = f.memory(values);
  f.set_rows64(4, [&](int lane) { return reinterpret_cast<uint64_t>(memory + 8 * lane); });
  f.run("global_load_tr_b128 v[0:3], v[4:5], off");
  for (int lane = 0; lane < 32; ++lane)
    for (int j = 0; j < 8; ++j) {
      const uint32_t got = f.at(static_cast<uint32_t>(j / 2), lane) >> (16 * (j % 2)) & 0xffff;
      EXPECT_EQ(got, static_cast<uint32_t>(8 * (lane / 8 * 8 + j) + lane % 8));
    }
}

TEST(TransposedLoads, EightBits) {
  // A tile stored by columns k of 16 rows: lane l reads half a column and gets eight k of row l % 16, as WMMA
  // wants them.
  MemoryFixture f("gfx1201");
  std::vector<uint8_t> tile(256);
  for (int k = 0; k < 16; ++k)
    for (int row = 0; row < 16; ++row)
      tile[static_cast<std::size_t>(16 * k + row)] = static_cast<uint8_t>(16 * row + k);
  uint8_t* memory = f.memory(tile);
  f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory));
  f.set_row(4, [](int lane) { return ((lane / 8) * 4 + (lane & 3)) * 16 + ((lane & 4) != 0 ? 8 : 0); });
  f.run("global_load_tr_b64 v[0:1], v4, s[2:3]");
  for (int lane = 0; lane < 32; ++lane)
    for (int e = 0; e < 8; ++e) {
      const uint32_t got = f.at(static_cast<uint32_t>(e / 4), lane) >> (8 * (e % 4)) & 0xff;
      EXPECT_EQ(got, static_cast<uint32_t>(16 * (lane % 16) + 8 * (lane / 16) + e)) << lane << " " << e;
    }
}

TEST(GlobalMemory, AddressByLaneNumber) {
  MemoryFixture f("gfx1100");
  uint32_t* memory = f.memory(counting(64));
  f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory));
  f.run("global_load_addtid_b32 v0, s[2:3] offset:8");
  EXPECT_EQ(f.at(0, 5), 0x1007u);
  f.run("global_store_addtid_b32 v0, s[2:3]");
  EXPECT_EQ(memory[5], 0x1007u);
}

TEST(MemoryText, WhatIsNotSupportedIsRefused) {
  MemoryFixture f("gfx90a");
  EXPECT_THROW(f.run("buffer_load_dword v0, off, s[0:3], 0 tfe"), UnknownInstruction);
  EXPECT_THROW(f.run("global_load_dword v0, v1"), UnknownInstruction);
  EXPECT_THROW(f.run("global_load_dword s0, v1, s[2:3]"), UnknownInstruction);
  EXPECT_THROW(f.run("buffer_load_dword v0, off, s[0:1], 0"), UnknownInstruction);
}

}  // namespace
}  // namespace hipemu
