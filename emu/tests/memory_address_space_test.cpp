// Allocations: placement, lookup, quarantine, shadow, many threads.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "exec/check/options.h"
#include "memory/address_space.h"

namespace hipemu {
namespace {

TEST(AddressSpace, AllocationsAreAlignedAndApart) {
  AddressSpace space(true);
  std::vector<Allocation*> all;
  for (const std::size_t size : {1u, 4u, 100u, 256u, 257u, 4096u, 32768u, 32769u, 100000u, 5000000u})
    for (int i = 0; i < 20; ++i) all.push_back(space.allocate(size, MemoryKind::device, 0, "hipMalloc"));
  for (std::size_t i = 0; i < all.size(); ++i) {
    ASSERT_NE(all[i], nullptr);
    EXPECT_EQ(all[i]->begin() % 256, 0u);
    EXPECT_EQ(all[i]->id, i + 1);
    for (std::size_t j = 0; j < i; ++j) {
      const bool after = all[i]->begin() >= all[j]->end() + 4096;
      const bool before = all[i]->end() + 4096 <= all[j]->begin();
      EXPECT_TRUE(after || before) << i << " " << j;
    }
  }
}

TEST(AddressSpace, FindsWhatHoldsAnAddress) {
  AddressSpace space(true);
  Allocation* a = space.allocate(100, MemoryKind::device, 0, "hipMalloc");
  EXPECT_EQ(space.find(a->base), a);
  EXPECT_EQ(space.find(a->base + 99), a);
  EXPECT_EQ(space.find(a->base + 100), nullptr);
  EXPECT_EQ(space.find(a->base - 1), nullptr);
  EXPECT_EQ(space.nearest(a->base + 100), a);
  EXPECT_EQ(space.nearest(a->base - 1), a);
  EXPECT_TRUE(a->contains(a->begin() + 96, 4));
  EXPECT_FALSE(a->contains(a->begin() + 97, 4));
  EXPECT_FALSE(a->contains(a->begin(), 101));
  EXPECT_FALSE(a->contains(~0ull - 2, 4));
}

TEST(AddressSpace, NothingAllocated) {
  AddressSpace space(true);
  int x = 0;
  EXPECT_EQ(space.find(&x), nullptr);
  EXPECT_EQ(space.nearest(&x), nullptr);
  EXPECT_FALSE(space.release(&x));
}

TEST(AddressSpace, ZeroBytesHaveAnAddressAndHoldNothing) {
  AddressSpace space(true);
  Allocation* a = space.allocate(0, MemoryKind::device, 0, "hipMalloc");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(space.find(a->base), nullptr);
  EXPECT_TRUE(space.release(a->base));
}

TEST(AddressSpace, ReleasedMemoryIsRemembered) {
  AddressSpace space(true);
  Allocation* a = space.allocate(1000, MemoryKind::device, 0, "hipMalloc");
  std::byte* base = a->base;
  const uint64_t generation = space.generation();
  EXPECT_TRUE(space.release(base));
  EXPECT_GT(space.generation(), generation);
  EXPECT_FALSE(space.release(base));
  EXPECT_EQ(space.find(base), nullptr);
  const Allocation* near = space.nearest(base + 10);
  ASSERT_NE(near, nullptr);
  EXPECT_TRUE(near->freed);
  EXPECT_EQ(near->id, 1u);
  EXPECT_FALSE(space.release(base + 4));
}

TEST(AddressSpace, QuarantineIsBounded) {
  AddressSpace space(true);
  std::byte* first = nullptr;
  for (int i = 0; i < 6000; ++i) {
    Allocation* a = space.allocate(256, MemoryKind::device, 0, "hipMalloc");
    ASSERT_NE(a, nullptr);
    if (first == nullptr) first = a->base;
    EXPECT_TRUE(space.release(a->base));
  }
  // Slots come back after 4096 others: the first one has been used again.
  const Allocation* near = space.nearest(first);
  ASSERT_NE(near, nullptr);
  EXPECT_GT(near->id, 1u);
  // By bytes: three of 100 MB do not stay.
  for (int i = 0; i < 8; ++i) {
    Allocation* a = space.allocate(100u << 20, MemoryKind::device, 0, "hipMalloc");
    ASSERT_NE(a, nullptr);
    space.release(a->base);
  }
}

TEST(AddressSpace, FreshDeviceMemoryIsPoisonedAndUnwritten) {
  AddressSpace space(true);
  Allocation* a = space.allocate(10, MemoryKind::device, 0, "hipMalloc");
  ASSERT_NE(a->written, nullptr);
  uint32_t word;
  std::memcpy(&word, a->base, 4);
  EXPECT_EQ(word, memory_poison);
  EXPECT_EQ(a->written[9], 0);
  space.mark_written(a->base + 2, 3);
  EXPECT_EQ(a->written[1], 0);
  EXPECT_EQ(a->written[2], 1);
  EXPECT_EQ(a->written[4], 1);
  EXPECT_EQ(a->written[5], 0);
  Allocation* b = space.allocate(10, MemoryKind::device, 0, "hipMalloc");
  space.copy_written(b->base, a->base, 10);
  EXPECT_EQ(b->written[1], 0);
  EXPECT_EQ(b->written[4], 1);
  int host = 0;
  space.copy_written(b->base, &host, 4);
  EXPECT_EQ(b->written[0], 1);
  // The range may run over the end: that is another check's business.
  space.mark_written(b->base + 8, 100);
  EXPECT_EQ(b->written[9], 1);
}

TEST(AddressSpace, ReusedSlotsAreUnwrittenAgain) {
  AddressSpace space(true);
  Allocation* a = space.allocate(64, MemoryKind::device, 0, "hipMalloc");
  std::byte* base = a->base;
  std::memset(base, 0, 64);
  space.mark_written(base, 64);
  space.release(base);
  for (int i = 0; i < 10000; ++i) {
    Allocation* b = space.allocate(64, MemoryKind::device, 0, "hipMalloc");
    if (b->base == base) {
      uint32_t word;
      std::memcpy(&word, base, 4);
      EXPECT_EQ(word, memory_poison);
      EXPECT_EQ(b->written[0], 0);
      return;
    }
    space.release(b->base);
  }
  FAIL() << "the slot never came back";
}

TEST(AddressSpace, MemoryTheHostCanWriteCountsAsWritten) {
  AddressSpace space(true);
  for (const MemoryKind kind : {MemoryKind::pinned_host, MemoryKind::managed, MemoryKind::kernarg}) {
    Allocation* a = space.allocate(64, kind, 0, "hipHostMalloc");
    EXPECT_EQ(a->written, nullptr);
    EXPECT_NE(a->granules, nullptr);
    EXPECT_EQ(static_cast<int>(a->base[0]), 0);
  }
  EXPECT_EQ(space.bytes_in_use(0), 0u);
}

TEST(AddressSpace, WithoutChecksThereIsNoShadow) {
  AddressSpace space(false);
  Allocation* a = space.allocate(64, MemoryKind::device, 0, "hipMalloc");
  EXPECT_EQ(a->written, nullptr);
  EXPECT_EQ(a->granules, nullptr);
  space.mark_written(a->base, 64);
}

TEST(AddressSpace, HugeShadowCostsNothingUntilTouched) {
  AddressSpace space(true);
  Allocation* a = space.allocate(std::size_t{4} << 30, MemoryKind::device, 0, "hipMalloc");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->written[(std::size_t{4} << 30) - 1], 0);
  EXPECT_EQ(a->granule(a->end() - 4).writer.load(), 0u);
  EXPECT_TRUE(space.release(a->base));
  EXPECT_EQ(space.allocate(std::size_t{1} << 60, MemoryKind::device, 0, "hipMalloc"), nullptr);
}

TEST(AddressSpace, AdoptsAndForgets) {
  AddressSpace space(true);
  alignas(16) std::byte memory[100];
  Allocation* a = space.adopt(memory + 3, 50, MemoryKind::registered_host, 0, "hipHostRegister");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(space.find(memory + 3), a);
  EXPECT_EQ(space.find(memory + 53), nullptr);
  EXPECT_EQ(a->written, nullptr);
  // Unaligned: the granules are those of the address, not of the start.
  EXPECT_EQ(&a->granule(a->begin() + 1), &a->granule(a->begin()) + 1);
  EXPECT_EQ(space.adopt(memory, 10, MemoryKind::registered_host, 0, "hipHostRegister"), nullptr);
  EXPECT_TRUE(space.release(memory + 3));
  // The same addresses again, in another cut.
  EXPECT_NE(space.adopt(memory, 100, MemoryKind::registered_host, 0, "hipHostRegister"), nullptr);
  EXPECT_EQ(space.find(memory + 3)->size, 100u);
}

// A program registers a part of its memory, gives all of it back to the system, and the next allocation lies
// where it was.
TEST(AddressSpace, TakesThePlaceOfWhatWasAdopted) {
  constexpr std::size_t bytes = 8 << 20;
  for (const bool released : {true, false}) {
    AddressSpace space(true);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* part = static_cast<std::byte*>(memory) + bytes / 2;
    ASSERT_NE(space.adopt(part, 100, MemoryKind::registered_host, 0, "hipHostRegister"), nullptr);
    if (released) {
      EXPECT_TRUE(space.release(part));
    }
    munmap(memory, bytes);
    Allocation* a = space.allocate(bytes - 16384, MemoryKind::device, 0, "hipMalloc");
    ASSERT_NE(a, nullptr);
    if (!a->contains(reinterpret_cast<uint64_t>(part), 200)) GTEST_SKIP() << "the system chose another place";
    EXPECT_EQ(space.find(part - 1), a);
    EXPECT_EQ(space.find(part), a);
    EXPECT_EQ(space.find(part + 100), a);
    EXPECT_EQ(space.find(a->base + a->size - 1), a);
    EXPECT_TRUE(space.release(a->base));
  }
}

TEST(AddressSpace, CountsBytesByDevice) {
  AddressSpace space(true);
  Allocation* a = space.allocate(1000, MemoryKind::device, 1, "hipMalloc");
  space.allocate(500, MemoryKind::device, 1, "hipMalloc");
  space.allocate(70, MemoryKind::device, 0, "hipMalloc");
  EXPECT_EQ(space.bytes_in_use(1), 1500u);
  EXPECT_EQ(space.bytes_in_use(0), 70u);
  space.release(a->base);
  EXPECT_EQ(space.bytes_in_use(1), 500u);
  EXPECT_EQ(space.bytes_in_use(7), 0u);
}

TEST(AddressSpace, ManyThreads) {
  AddressSpace space(true);
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      std::vector<Allocation*> mine;
      for (int i = 0; i < 500; ++i) {
        const std::size_t size =
            static_cast<std::size_t>((i * 37 + t * 101) % 5000 + 1) * (i % 20 == 0 ? 20 : 1);
        Allocation* a = space.allocate(size, MemoryKind::device, t, "hipMalloc");
        if (a == nullptr || space.find(a->base + size - 1) != a) ++failures;
        std::memset(a->base, t, size);
        space.mark_written(a->base, size);
        mine.push_back(a);
        if (i % 3 == 0) {
          if (!space.release(mine[static_cast<std::size_t>(i / 3)]->base)) ++failures;
          mine[static_cast<std::size_t>(i / 3)] = nullptr;
        }
      }
      for (Allocation* a : mine)
        if (a != nullptr)
          for (std::size_t i = 0; i < a->size; ++i)
            if (a->base[i] != static_cast<std::byte>(t)) {
              ++failures;
              break;
            }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST(AllocationCache, FollowsChanges) {
  AllocationCache& cache = AllocationCache::of_this_thread();
  Allocation* a = address_space().allocate(100, MemoryKind::device, 0, "hipMalloc");
  const uint64_t address = a->begin();
  EXPECT_EQ(cache.find(address, 100), a);
  EXPECT_EQ(cache.find(address, 101), nullptr);
  std::vector<Allocation*> others;
  for (int i = 0; i < 20; ++i) others.push_back(address_space().allocate(100, MemoryKind::device, 0, "x"));
  for (int round = 0; round < 3; ++round)
    for (Allocation* b : others) EXPECT_EQ(cache.find(b->begin() + 50, 4), b);
  EXPECT_EQ(cache.find(address, 4), a);
  address_space().release(a->base);
  EXPECT_EQ(cache.find(address, 4), nullptr);
  for (Allocation* b : others) address_space().release(b->base);
}

TEST(CheckOptions, Parse) {
  EXPECT_FALSE(parse_check_options("off").any());
  EXPECT_FALSE(parse_check_options("0").any());
  EXPECT_FALSE(parse_check_options("none").any());
  EXPECT_TRUE(parse_check_options("all").race);
  const CheckOptions some = parse_check_options("bounds,init");
  EXPECT_TRUE(some.bounds && some.init);
  EXPECT_FALSE(some.race || some.barrier || some.matrix || some.align);
  EXPECT_THROW(parse_check_options("bound"), std::invalid_argument);
}

}  // namespace
}  // namespace hipemu
