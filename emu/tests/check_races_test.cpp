// Races that must be found, and orderings that must be accepted.
#include "memory_fixture.h"

namespace hipemu {
namespace {

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

// Two workgroups of two waves. Register v1: 4 * lane, v2: 0, v3: lane, v4: lane + 1000; s[2:3]: 4 KiB of
// memory.
class Races : public testing::Test {
 protected:
  Races() : f("gfx1100", CheckOptions::all(), 2, 2) {}
  void SetUp() override {
    if (!check_options().shadow()) GTEST_SKIP() << "HIPEMU_CHECK is off";
    memory = f.memory(std::vector<uint32_t>(1024, 0));
    for (int g = 0; g < 2; ++g)
      for (int w = 0; w < 2; ++w) {
        Wave& wave = f.wave(g, w);
        wave.set_scalar64(2, reinterpret_cast<uint64_t>(memory));
        f.set_row(wave, 1, [](int lane) { return 4 * lane; });
        f.set_row(wave, 2, [](int) { return 0; });
        f.set_row(wave, 3, [](int lane) { return lane; });
        f.set_row(wave, 4, [](int lane) { return lane + 1000; });
        f.set_row(wave, 5, [](int) { return 1; });
      }
  }
  Wave& wave(int group, int number) { return f.wave(group, number); }
  std::string fault(int group, int number, std::string_view text) {
    return f.fault(wave(group, number), text);
  }
  void barrier(int group) { f.barrier(group); }

  MemoryFixture f;
  uint32_t* memory = nullptr;
};

TEST_F(Races, MissingBarrierInLds) {
  EXPECT_EQ(fault(0, 0, "ds_store_b32 v1, v3"), "");
  const std::string message = fault(0, 1, "ds_load_b32 v0, v1");
  EXPECT_TRUE(has(message, "race: read of LDS address 0x0") && has(message, "written by wave 0")) << message;
  EXPECT_EQ(f.last.kind, Fault::Kind::race);
}

TEST_F(Races, BarrierOrdersLds) {
  EXPECT_EQ(fault(0, 0, "ds_store_b32 v1, v3"), "");
  barrier(0);
  EXPECT_EQ(fault(0, 1, "ds_load_b32 v0, v1"), "");
  EXPECT_EQ(fault(0, 0, "ds_load_b32 v0, v1"), "");
  barrier(0);
  EXPECT_EQ(fault(0, 1, "ds_store_b32 v1, v4"), "");
  barrier(0);
  EXPECT_EQ(fault(0, 0, "ds_load_b32 v0, v1"), "");
}

TEST_F(Races, WriteAfterReadInLds) {
  EXPECT_EQ(fault(0, 0, "ds_store_b32 v1, v3"), "");
  barrier(0);
  EXPECT_EQ(fault(0, 0, "ds_load_b32 v0, v1"), "");
  EXPECT_EQ(fault(0, 1, "ds_load_b32 v0, v1"), "");
  // The last reader is wave 1 itself, but wave 0 has read too.
  EXPECT_TRUE(has(fault(0, 1, "ds_store_b32 v1, v4"), "which was read by"));
}

TEST_F(Races, DoubleBufferedLds) {
  for (int i = 0; i < 6; ++i) {
    const std::string offset = i % 2 == 0 ? "" : " offset:1024";
    EXPECT_EQ(fault(0, 0, "ds_store_b32 v1, v3" + offset), "");
    EXPECT_EQ(fault(0, 1, "ds_store_b32 v1, v4 offset:" + std::to_string(i % 2 * 1024 + 256)), "");
    barrier(0);
    EXPECT_EQ(fault(0, 1, "ds_load_b32 v0, v1" + offset), "");
    EXPECT_EQ(fault(0, 0, "ds_load_b32 v0, v1 offset:" + std::to_string(i % 2 * 1024 + 256)), "");
  }
}

TEST_F(Races, WaveSynchronousCode) {
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(fault(0, 0, "ds_store_b32 v1, v3"), "");
    EXPECT_EQ(fault(0, 0, "ds_load_b32 v0, v1 offset:4"), "");
    EXPECT_EQ(fault(0, 0, "ds_store_b32 v1, v4 offset:4"), "");
  }
}

TEST_F(Races, NeighbouringBytesAreNoRace) {
  EXPECT_EQ(fault(0, 0, "ds_store_b8 v1, v3"), "");
  EXPECT_EQ(fault(0, 1, "ds_store_b8 v1, v4 offset:1"), "");
  EXPECT_EQ(fault(0, 0, "global_store_b16 v1, v3, s[2:3]"), "");
  EXPECT_EQ(fault(0, 1, "global_store_b16 v1, v4, s[2:3] offset:2"), "");
  EXPECT_EQ(fault(1, 0, "global_store_b8 v1, v4, s[2:3] offset:256"), "");
  EXPECT_EQ(fault(0, 0, "global_store_b8 v1, v3, s[2:3] offset:257"), "");
}

// Each wave reads its half of a word, then writes it.
TEST_F(Races, NeighbouringBytesMayBeUpdated) {
  EXPECT_EQ(fault(0, 0, "global_load_u16 v0, v1, s[2:3]"), "");
  EXPECT_EQ(fault(0, 1, "global_load_u16 v0, v1, s[2:3] offset:2"), "");
  EXPECT_EQ(fault(0, 0, "global_store_b16 v1, v4, s[2:3]"), "");
  EXPECT_EQ(fault(0, 1, "global_store_b16 v1, v4, s[2:3] offset:2"), "");
  EXPECT_EQ(fault(0, 0, "ds_load_u8 v0, v1"), "");
  EXPECT_EQ(fault(0, 1, "ds_load_u8 v0, v1 offset:1"), "");
  EXPECT_EQ(fault(0, 0, "ds_store_b8 v1, v4"), "");
  EXPECT_EQ(fault(0, 1, "ds_store_b8 v1, v4 offset:1"), "");
}

TEST_F(Races, BytesThatBothWavesRead) {
  EXPECT_EQ(fault(0, 0, "global_load_b32 v0, v1, s[2:3]"), "");
  EXPECT_EQ(fault(0, 1, "global_load_u16 v0, v1, s[2:3]"), "");
  EXPECT_TRUE(has(fault(0, 1, "global_store_b16 v1, v4, s[2:3]"), "race: write"));
  EXPECT_EQ(fault(0, 0, "ds_load_u16 v0, v1"), "");
  EXPECT_EQ(fault(0, 1, "ds_load_b32 v0, v1"), "");
  EXPECT_TRUE(has(fault(0, 0, "ds_store_b16 v1, v4"), "race: write"));
}

TEST_F(Races, SameValueIsNoRace) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  EXPECT_EQ(fault(1, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  EXPECT_EQ(fault(0, 0, "ds_store_b64 v1, v[2:3] offset:1024"), "");
  f.set_exec(1);
  EXPECT_EQ(fault(0, 0, "ds_store_b32 v2, v3"), "");
  EXPECT_EQ(fault(0, 1, "ds_store_b32 v2, v2"), "");
}

TEST_F(Races, TwoWorkgroupsWriteOneCell) {
  EXPECT_EQ(fault(0, 1, "global_store_b32 v1, v3, s[2:3]"), "");
  const std::string message = fault(1, 0, "global_store_b32 v1, v4, s[2:3]");
  EXPECT_TRUE(has(message, "race: write of") && has(message, "written by workgroup (0, 0, 0), wave 1") &&
              has(message, "hipMalloc, 4096 bytes"))
      << message;
}

TEST_F(Races, ReadOfAnotherWorkgroupsWrite) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  EXPECT_TRUE(has(fault(1, 0, "global_load_b32 v0, v1, s[2:3]"), "race: read"));
  EXPECT_EQ(fault(1, 0, "global_load_b32 v0, v1, s[2:3] offset:256"), "");
  EXPECT_TRUE(has(fault(0, 0, "global_store_b32 v1, v4, s[2:3] offset:256"), "race: write"));
  // A barrier orders only its own workgroup.
  barrier(0);
  barrier(1);
  EXPECT_NE(fault(1, 0, "global_load_b32 v0, v1, s[2:3]"), "");
}

TEST_F(Races, ScalarLoadsToo) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  EXPECT_TRUE(has(fault(1, 0, "s_load_b32 s8, s[2:3], 0x10"), "race: read"));
}

TEST_F(Races, WavesOfOneWorkgroupInGlobalMemory) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  EXPECT_TRUE(has(fault(0, 1, "global_load_b32 v0, v1, s[2:3]"), "wave 0 of the same workgroup"));
  barrier(0);
  EXPECT_EQ(fault(0, 1, "global_load_b32 v0, v1, s[2:3]"), "");
  EXPECT_EQ(fault(0, 1, "global_store_b32 v1, v4, s[2:3]"), "");
}

TEST_F(Races, EarlierDispatchesDoNotCount) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  f.dispatch.serial += 1;
  for (int g = 0; g < 2; ++g) f.group(g).lds_shadow.begin(4096, f.dispatch.checks, f.dispatch.serial);
  EXPECT_EQ(fault(1, 0, "global_load_b32 v0, v1, s[2:3]"), "");
  EXPECT_NE(fault(0, 0, "global_store_b32 v1, v4, s[2:3]"), "");
}

TEST_F(Races, AtomicsDoNotRaceWithEachOther) {
  EXPECT_EQ(fault(0, 0, "global_atomic_add_u32 v1, v3, s[2:3]"), "");
  EXPECT_EQ(fault(1, 1, "global_atomic_add_u32 v1, v3, s[2:3]"), "");
  EXPECT_EQ(fault(0, 1, "global_atomic_add_u32 v0, v1, v3, s[2:3] glc"), "");
  f.run(wave(0, 0), "ds_store_b32 v1, v3");
  barrier(0);
  EXPECT_EQ(fault(0, 0, "ds_add_u32 v1, v3"), "");
  EXPECT_EQ(fault(0, 1, "ds_add_u32 v1, v3"), "");
  barrier(0);
  EXPECT_EQ(fault(0, 0, "ds_load_b32 v0, v1"), "");
}

TEST_F(Races, AtomicAgainstPlain) {
  EXPECT_EQ(fault(0, 0, "global_atomic_add_u32 v1, v3, s[2:3]"), "");
  EXPECT_TRUE(has(fault(1, 0, "global_load_b32 v0, v1, s[2:3]"), "by an atomic"));
  EXPECT_EQ(fault(1, 0, "global_load_b32 v0, v1, s[2:3] glc"), "");
  EXPECT_EQ(fault(0, 0, "ds_store_b32 v1, v3"), "");
  EXPECT_TRUE(has(fault(0, 1, "ds_add_u32 v1, v3"), "race"));
}

// Compilers begin a loop around compare-and-swap with an ordinary load.
TEST_F(Races, CompareAndSwapMayBeReadBefore) {
  EXPECT_EQ(fault(0, 0, "global_load_b32 v0, v1, s[2:3]"), "");
  EXPECT_EQ(fault(1, 0, "global_load_b32 v0, v1, s[2:3]"), "");
  EXPECT_EQ(fault(0, 0, "global_atomic_cmpswap_b32 v0, v1, v[3:4], s[2:3] glc"), "");
  EXPECT_EQ(fault(1, 1, "global_load_b32 v0, v1, s[2:3]"), "");
  EXPECT_EQ(fault(1, 0, "global_atomic_cmpswap_b32 v0, v1, v[3:4], s[2:3] glc"), "");
  EXPECT_TRUE(has(fault(0, 1, "global_store_b32 v1, v3, s[2:3]"), "race"));
}

// Every block writes its part, then counts itself; the last one reads all parts.
TEST_F(Races, LastBlockReduction) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  EXPECT_EQ(fault(0, 1, "global_store_b32 v1, v3, s[2:3] offset:128"), "");
  barrier(0);
  wave(0, 0).set_mask(scalar::exec, 1);
  EXPECT_EQ(fault(0, 0, "global_atomic_inc_u32 v0, v2, v5, s[2:3] offset:2048 glc"), "");
  EXPECT_EQ(fault(1, 0, "global_store_b32 v1, v3, s[2:3] offset:256"), "");
  barrier(1);
  wave(1, 0).set_mask(scalar::exec, 1);
  EXPECT_EQ(fault(1, 0, "global_atomic_inc_u32 v0, v2, v5, s[2:3] offset:2048 glc"), "");
  wave(1, 0).set_mask(scalar::exec, ~0u);
  EXPECT_EQ(fault(1, 0, "global_load_b32 v0, v1, s[2:3]"), "");
  // The block's other wave, after a barrier, has acquired it as well.
  barrier(1);
  EXPECT_EQ(fault(1, 1, "global_load_b32 v0, v1, s[2:3] offset:128"), "");
  // Block 0 has not acquired anything from block 1.
  EXPECT_NE(fault(0, 1, "global_load_b32 v0, v1, s[2:3] offset:256"), "");
}

TEST_F(Races, ForgottenFenceCounterStillFound) {
  // The counter is touched before the data is written: no order.
  EXPECT_EQ(fault(0, 0, "global_atomic_inc_u32 v0, v2, v5, s[2:3] offset:2048 glc"), "");
  EXPECT_EQ(fault(1, 0, "global_atomic_inc_u32 v0, v2, v5, s[2:3] offset:2048 glc"), "");
  EXPECT_EQ(fault(0, 0, "global_atomic_inc_u32 v0, v2, v5, s[2:3] offset:3072 glc"), "");
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  EXPECT_NE(fault(1, 0, "global_load_b32 v0, v1, s[2:3]"), "");
}

// Decoupled look-back: data, then a flag with an ordinary store; the reader polls with marked loads.
TEST_F(Races, FlagByStoreAndMarkedLoad) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  wave(0, 0).set_mask(scalar::exec, 1);
  EXPECT_EQ(fault(0, 0, "global_store_b32 v2, v5, s[2:3] offset:2048"), "");
  EXPECT_EQ(fault(1, 0, "global_load_b32 v0, v2, s[2:3] offset:2048 glc"), "");
  EXPECT_EQ(fault(1, 0, "global_load_b32 v0, v1, s[2:3]"), "");
  // And the flag is moved on while others poll.
  wave(0, 0).row(5)[0] = 2;
  EXPECT_EQ(fault(0, 0, "global_store_b32 v2, v5, s[2:3] offset:2048"), "");
}

TEST_F(Races, BarrierOfTheGridByAtomics) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  EXPECT_EQ(fault(1, 0, "global_store_b32 v1, v3, s[2:3] offset:512"), "");
  for (int g = 0; g < 2; ++g) {
    barrier(g);
    EXPECT_EQ(fault(g, 0, "global_atomic_add_u32 v0, v2, v5, s[2:3] offset:2048 glc"), "");
  }
  EXPECT_EQ(fault(0, 0, "global_load_b32 v0, v2, s[2:3] offset:2048 glc"), "");
  EXPECT_EQ(fault(1, 0, "global_load_b32 v0, v2, s[2:3] offset:2048 glc"), "");
  barrier(0);
  barrier(1);
  EXPECT_EQ(fault(0, 1, "global_load_b32 v0, v1, s[2:3] offset:512"), "");
  EXPECT_EQ(fault(1, 1, "global_load_b32 v0, v1, s[2:3]"), "");
}

TEST_F(Races, BarrierOfTheGridByHardware) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  f.dispatch.grid_barrier_epoch = 1;
  barrier(0);
  barrier(1);
  EXPECT_EQ(fault(1, 0, "global_load_b32 v0, v1, s[2:3]"), "");
  EXPECT_EQ(fault(1, 0, "global_store_b32 v1, v4, s[2:3]"), "");
  EXPECT_NE(fault(0, 0, "global_load_b32 v0, v1, s[2:3]"), "");
}

TEST_F(Races, LdsAtomicsSynchroniseWaves) {
  for (int w = 0; w < 2; ++w) wave(0, w).set_mask(scalar::exec, 1);
  f.set_lds<uint32_t>(2048, 0);
  EXPECT_EQ(fault(0, 0, "ds_store_b32 v1, v3"), "");
  EXPECT_EQ(fault(0, 0, "ds_add_rtn_u32 v0, v2, v5 offset:2048"), "");
  EXPECT_EQ(fault(0, 1, "ds_add_rtn_u32 v0, v2, v5 offset:2048"), "");
  EXPECT_EQ(fault(0, 1, "ds_load_b32 v0, v1"), "");
}

TEST_F(Races, ManyBarriersDoNotConfuse) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  EXPECT_EQ(fault(0, 0, "ds_store_b32 v1, v3"), "");
  for (int i = 0; i < 2000; ++i) {
    barrier(0);
    if (i % 50 != 0) continue;
    EXPECT_EQ(fault(0, 1, "global_load_b32 v0, v1, s[2:3]"), "");
    EXPECT_EQ(fault(0, 1, "ds_load_b32 v0, v1"), "");
  }
}

TEST_F(Races, ManyAtomicsDoNotConfuse) {
  EXPECT_EQ(fault(0, 0, "global_store_b32 v1, v3, s[2:3]"), "");
  for (int i = 0; i < 20000; ++i)
    f.run(wave(0, 0), "global_atomic_add_u32 v0, v2, v5, s[2:3] offset:2048 glc");
  EXPECT_EQ(fault(1, 0, "global_atomic_add_u32 v0, v2, v5, s[2:3] offset:2048 glc"), "");
  EXPECT_EQ(fault(1, 0, "global_load_b32 v0, v1, s[2:3]"), "");
}

}  // namespace
}  // namespace hipemu
