// Faults that name the allocation, and the text of reports.
#include "memory_fixture.h"

namespace hipemu {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Bounds, NamesTheAllocation) {
  MemoryFixture f("gfx1100", CheckOptions::all());
  auto* memory = f.memory(std::vector<uint32_t>(1024, 0));
  const Allocation* allocation = address_space().find(memory);
  f.set_scalar64(f.wave(), 2, reinterpret_cast<uint64_t>(memory));
  f.set_exec(1ull << 7);
  f.set_row(1, [](int) { return 4100; });
  std::string message = f.fault("global_load_b32 v0, v1, s[2:3]");
  EXPECT_EQ(message, fmt::format("load of 4 bytes at {:#x}: 4 bytes past the end of allocation {} "
                                 "(hipMalloc, 4096 bytes)",
                                 allocation->begin() + 4100, allocation->id));
  EXPECT_EQ(f.last.lane, 7);
  EXPECT_EQ(f.last.address, allocation->begin() + 4100);
  f.set_row(1, [](int) { return 4094; });
  message = f.fault("global_store_b32 v1, v0, s[2:3]");
  EXPECT_TRUE(has(message, "store of 4 bytes") && has(message, "runs 2 bytes past the end of allocation"))
      << message;
  f.set_row(1, [](int) { return 0; });
  message = f.fault("global_load_u8 v0, v1, s[2:3] offset:-3");
  EXPECT_TRUE(has(message, "load of 1 byte at") && has(message, "3 bytes before the start of allocation"))
      << message;
}

TEST(Bounds, UseAfterFree) {
  MemoryFixture f("gfx942", CheckOptions::all());
  Allocation* allocation = address_space().allocate(64, MemoryKind::device, 0, "hipMallocAsync");
  f.set_scalar64(f.wave(), 2, allocation->begin());
  const uint64_t id = allocation->id;
  f.set_row(1, [](int) { return 8; });
  f.run("global_store_dword v1, v0, s[2:3]");
  address_space().release(allocation->base);
  const std::string message = f.fault("global_load_dword v0, v1, s[2:3]");
  EXPECT_TRUE(has(message, fmt::format("8 bytes into allocation {} (hipMallocAsync, 64 bytes, freed)", id)))
      << message;
}

TEST(Bounds, LdsAndScratch) {
  MemoryFixture f("gfx1100", CheckOptions::all());
  f.set_row(1, [](int lane) { return lane == 9 ? 4093 : 0; });
  std::string message = f.fault("ds_store_b32 v1, v1");
  EXPECT_TRUE(has(message, "LDS address 0xffd, but the workgroup has 4096 bytes")) << message;
  EXPECT_EQ(f.last.lane, 9);
  EXPECT_TRUE(
      has(f.fault("scratch_store_b64 off, v[0:1], off offset:252"), "a lane has 256 bytes of scratch"));
}

TEST(Bounds, FarAwayAndNull) {
  MemoryFixture f("gfx1100", CheckOptions::all());
  f.set_rows64(2, [](int) { return 0; });
  EXPECT_TRUE(has(f.fault("global_load_b32 v0, v[2:3], off"), "a null pointer"));
  EXPECT_TRUE(has(f.fault("flat_load_b32 v0, v[2:3] offset:16"), "a null pointer with an offset"));
  f.memory(std::vector<int>{1});
  f.set_rows64(2, [](int) { return 0x123456789abc000ull; });
  EXPECT_TRUE(has(f.fault("global_load_b32 v0, v[2:3], off"), "far from any allocation"));
}

TEST(Report, SaysWhoAndWhere) {
  MemoryFixture f("gfx1100", CheckOptions::all(), 3, 2);
  f.launch.block = {8, 8, 1};
  Kernel kernel;
  kernel.name = "saxpy";
  f.launch.kernel = &kernel;
  Wave& wave = f.wave(2, 1);
  const auto operation = decode(parse_instruction("global_load_b32 v0, v[2:3], off"), f.chip, 32);
  wave.operation = operation.get();
  const std::string text =
      describe({Fault::Kind::illegal_address, "load of 4 bytes at 0x10: a null pointer", 5, 16}, wave);
  EXPECT_EQ(text,
            "load of 4 bytes at 0x10: a null pointer\n"
            "  kernel       saxpy\n"
            "  instruction  global_load_b32 v0, v[2:3], off\n"
            "  workgroup    (2, 0, 0), wave 1, lane 5, thread (5, 4, 0)");
}

}  // namespace
}  // namespace hipemu
