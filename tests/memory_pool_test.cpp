// The pool of a device over a source whose memory is counted and can run out.
#include "device/memory_pool.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <thread>

#include "base/whole_bytes.h"
#include "hearth/error.h"
#include "hearth/ops.h"
#include "hearth/tensor.h"

namespace hearth {
namespace {

constexpr std::size_t mib = 1 << 20;

TEST(WholeBytes, OfLimitsThatAreNone) {
  EXPECT_EQ(whole_bytes(1.5 * mib), 3 * mib / 2);
  EXPECT_EQ(whole_bytes(1e30), std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(whole_bytes(std::numeric_limits<double>::infinity()), std::numeric_limits<std::size_t>::max());
}

// `total` bytes of memory, of which `capacity` can be had.
class CountedMemory final : public MemorySource {
 public:
  struct Record {
    std::size_t capacity = 1000 * mib, used = 0, total = 1000 * mib;
    int allocations = 0, refusals = 0;
    bool honest = true;  // has() is asked too
    std::map<void*, std::size_t> blocks;
  };
  explicit CountedMemory(Record& record) : record_(record) {}
  void* allocate(std::size_t bytes) override {
    if (record_.used + bytes > record_.capacity) {
      ++record_.refusals;
      return nullptr;
    }
    ++record_.allocations;
    record_.used += bytes;
    void* memory = ::operator new(bytes, std::align_val_t(64));
    record_.blocks[memory] = bytes;
    return memory;
  }
  void release(void* memory) override {
    record_.used -= record_.blocks.at(memory);
    record_.blocks.erase(memory);
    ::operator delete(memory, std::align_val_t(64));
  }
  std::size_t total_memory() const override { return record_.total; }
  bool has(std::size_t bytes) const override {
    return record_.honest || record_.used + bytes <= record_.capacity;
  }

 private:
  Record& record_;
};

class MemoryPoolTest : public testing::Test {
 protected:
  MemoryPoolTest() { pool.configure({.max_memory_fraction = 1.0}); }
  ~MemoryPoolTest() override {
    pool.empty_cache();
    EXPECT_EQ(source.used, 0u) << "something was not given back";
    EXPECT_EQ(pool.stats().reserved, 0u);
    EXPECT_EQ(pool.stats().allocated, 0u);
    EXPECT_EQ(pool.stats().requested, 0u);
  }

  CountedMemory::Record source;
  MemoryPool pool{std::make_unique<CountedMemory>(source), Device{}};
};

TEST_F(MemoryPoolTest, BlocksAreKeptAndGivenOutAgain) {
  void* first = nullptr;
  {
    const auto buffer = pool.allocate(1000);
    first = buffer->data;
    EXPECT_EQ(buffer->bytes, 1000u);
    EXPECT_GE(pool.stats().allocated, 1000u);
    EXPECT_EQ(pool.stats().requested, 1000u);
  }
  EXPECT_EQ(pool.stats().allocated, 0u);
  EXPECT_GT(pool.stats().reserved, 0u);
  const auto again = pool.allocate(990);  // nearly that size
  EXPECT_EQ(again->data, first);
  const auto other = pool.allocate(4000);
  EXPECT_NE(other->data, first);
  EXPECT_EQ(pool.stats().allocations, 3u);
  EXPECT_EQ(pool.stats().cache_hits, 1u);
  EXPECT_EQ(source.allocations, 2);
}

TEST_F(MemoryPoolTest, LargeWeightsTakeHardlyMoreThanTheyNeed) {
  constexpr std::size_t bytes = 17 * mib + 1000;
  const auto weights = pool.allocate(bytes, MemoryPurpose::loaded);
  EXPECT_LE(pool.stats().allocated, bytes + (64 << 10));
  const auto arena = pool.allocate(bytes, MemoryPurpose::arenas);  // fits others of nearly its size
  EXPECT_EQ(pool.stats().of(MemoryPurpose::arenas).allocated, 20 * mib);
}

TEST_F(MemoryPoolTest, CountsByPurpose) {
  const auto weights = pool.allocate(3 * mib, MemoryPurpose::loaded);
  {
    const auto arena = pool.allocate(mib, MemoryPurpose::arenas);
    const auto result = pool.allocate(2 * mib);
    EXPECT_EQ(pool.stats().of(MemoryPurpose::arenas).allocated, mib);
    EXPECT_EQ(pool.stats().of(MemoryPurpose::results).allocated, 2 * mib);
  }
  const MemoryStats stats = pool.stats();
  EXPECT_EQ(stats.of(MemoryPurpose::loaded).allocated, 3 * mib);
  EXPECT_EQ(stats.of(MemoryPurpose::arenas).allocated, 0u);
  EXPECT_EQ(stats.of(MemoryPurpose::arenas).peak, mib);
  EXPECT_EQ(stats.of(MemoryPurpose::tuning).peak, 0u);
  EXPECT_EQ(stats.peak, 6 * mib);
  EXPECT_EQ(to_string(stats),
            "3.00 MiB in use (loaded 3.00 MiB), 3.00 MiB kept, at most 1000.00 MiB allowed");
  pool.reset_peak();
  EXPECT_EQ(pool.stats().peak, 3 * mib);
  EXPECT_EQ(pool.stats().of(MemoryPurpose::arenas).peak, 0u);
}

TEST_F(MemoryPoolTest, FragmentationIsWhatOneAllocationCannotGet) {
  EXPECT_EQ(pool.stats().fragmentation(), 0);
  { const auto one = pool.allocate(4 * mib); }
  EXPECT_EQ(pool.stats().fragmentation(), 0);
  { const auto a = pool.allocate(4 * mib), b = pool.allocate(4 * mib), c = pool.allocate(8 * mib); }
  EXPECT_EQ(pool.stats().largest_kept, 8 * mib);
  EXPECT_DOUBLE_EQ(pool.stats().fragmentation(), 0.5);
}

TEST_F(MemoryPoolTest, NoMoreIsKeptThanTheConfigurationAllows) {
  pool.configure({.memory_pool_size_gb = 4.0 / 1024, .max_memory_fraction = 1.0});
  {
    const auto a = pool.allocate(3 * mib), b = pool.allocate(mib), c = pool.allocate(mib);
    EXPECT_EQ(pool.stats().reserved, 5 * mib);
  }
  EXPECT_LE(pool.stats().reserved, 4 * mib);
  EXPECT_GE(pool.stats().reserved, 2 * mib);
  pool.configure({.enable_memory_pooling = false, .max_memory_fraction = 1.0});
  EXPECT_EQ(pool.stats().reserved, 0u);
}

// Memory that is never touched.
class PretendedMemory final : public MemorySource {
 public:
  PretendedMemory(int& releases, bool of_host) : releases_(releases), of_host_(of_host) {}
  void* allocate(std::size_t) override { return reinterpret_cast<void*>(++last_ * 64); }
  void release(void*) override { ++releases_; }
  std::size_t total_memory() const override { return std::size_t{1} << 40; }
  bool of_host() const override { return of_host_; }

 private:
  int& releases_;
  bool of_host_;
  std::uintptr_t last_ = 0;
};

// A step of training that has more than that would wait for its GPU, every time.
TEST(MemoryPools, GpusKeepEverythingUnlessTheyAreTold) {
  const auto releases_of_steps = [](bool of_host, double limit) {
    int releases = 0;
    MemoryPool pool(std::make_unique<PretendedMemory>(releases, of_host), Device{DeviceKind::rocm, 0});
    pool.configure({.memory_pool_size_gb = limit});
    for (int step = 0; step < 3; ++step) pool.allocate(std::size_t{20} << 30);
    return releases;
  };
  EXPECT_EQ(releases_of_steps(false, Config{}.memory_pool_size_gb), 0);
  EXPECT_EQ(releases_of_steps(false, 8), 3);
  EXPECT_EQ(releases_of_steps(true, Config{}.memory_pool_size_gb), 3);
  EXPECT_EQ(releases_of_steps(true, 1e30), 0);
}

TEST_F(MemoryPoolTest, WhatIsKeptMakesRoomWhereTheSourceHasNone) {
  source.capacity = 10 * mib;
  { const auto a = pool.allocate(6 * mib); }
  EXPECT_EQ(source.used, 6 * mib);
  const auto b = pool.allocate(8 * mib);  // fits once the first is given back
  EXPECT_EQ(source.refusals, 1);
  EXPECT_EQ(source.used, 8 * mib);
  try {
    pool.allocate(4 * mib, MemoryPurpose::loaded);
    FAIL() << "there is no room";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested(), 4 * mib);
    const std::string text = error.what();
    EXPECT_NE(text.find("cpu has no 4.00 MiB left: 8.00 MiB in use (results 8.00 MiB)"), std::string::npos)
        << text;
    EXPECT_NE(text.find("would help"), std::string::npos) << text;
  }
  EXPECT_NO_THROW(pool.allocate(mib));  // an error is not the end
}

TEST_F(MemoryPoolTest, ASourceThatPromisesTooMuchIsNotBelieved) {
  source.honest = false;
  source.capacity = 10 * mib;
  { const auto a = pool.allocate(6 * mib); }
  { const auto b = pool.allocate(8 * mib); }
  EXPECT_THROW(pool.allocate(12 * mib), OutOfMemory);
  EXPECT_EQ(source.refusals, 0) << "it was asked for more than it has";
}

TEST_F(MemoryPoolTest, TheBudgetIsTheSmallestOfTheLimits) {
  pool.configure({.max_memory_fraction = 0.5});
  EXPECT_EQ(pool.stats().limit, 500 * mib);
  pool.configure({.max_memory_fraction = 0.5, .max_memory_gb = 0.01});
  EXPECT_NEAR(static_cast<double>(pool.stats().limit), 0.01 * (1 << 30), 1);
  { const auto fits = pool.allocate(8 * mib); }
  { const auto makes_room = pool.allocate(10 * mib); }
  try {
    pool.allocate(11 * mib);
    FAIL() << "beyond the limit";
  } catch (const OutOfMemory& error) {
    EXPECT_NE(std::string(error.what()).find("within its limit"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("max_memory_gb"), std::string::npos) << error.what();
    EXPECT_EQ(error.available(), pool.stats().limit);
  }
  pool.configure({.max_memory_fraction = 0.5, .max_memory_gb = 0.01, .enable_oom_protection = false});
  EXPECT_NO_THROW(pool.allocate(700 * mib));
  EXPECT_THROW(pool.allocate(std::numeric_limits<std::size_t>::max()), OutOfMemory);
}

TEST_F(MemoryPoolTest, WhatWasReservedIsDivided) {
  const auto memory = pool.reserve(16 * mib);
  EXPECT_EQ(memory.size(), 16 * mib);
  EXPECT_EQ(pool.stats().reserved, 16 * mib);
  EXPECT_EQ(pool.stats().largest_kept, 16 * mib);
  {
    std::vector<std::shared_ptr<Buffer>> buffers;
    std::set<void*> places;
    for (const std::size_t size : {3 * mib, 5 * mib, std::size_t{100}, 4 * mib}) {
      buffers.push_back(pool.allocate(size));
      const auto* data = static_cast<std::byte*>(buffers.back()->data);
      EXPECT_TRUE(data >= memory.data() && data + size <= memory.data() + memory.size());
      places.insert(buffers.back()->data);
    }
    EXPECT_EQ(places.size(), 4u);
    EXPECT_EQ(source.allocations, 1);
    EXPECT_EQ(pool.stats().cache_hits, 4u);
    buffers.erase(buffers.begin());  // a hole at the beginning
    EXPECT_GT(pool.stats().fragmentation(), 0.3);
    const auto larger = pool.allocate(6 * mib);  // fits nowhere
    EXPECT_EQ(source.allocations, 2);
    pool.empty_cache();
    EXPECT_EQ(pool.stats().reserved, 22 * mib) << "it is in use";
  }
  EXPECT_EQ(pool.allocate(15 * mib)->data, memory.data()) << "holes became one again";
  pool.empty_cache();
  EXPECT_EQ(pool.stats().reserved, 0u);
  EXPECT_THROW(pool.reserve(2000 * mib), OutOfMemory);
}

TEST_F(MemoryPoolTest, MarkedBlocksComeWithTheirMark) {
  int marks = 0;
  const auto leave = [&] { return std::make_shared<int>(++marks); };
  MemoryPool::Mark mark = std::make_shared<int>(99);
  void* place = nullptr;
  {
    const auto buffer = pool.allocate_marked(mib, leave, mark);
    place = buffer->data;
    EXPECT_EQ(mark, nullptr) << "nobody has used it before";
    EXPECT_EQ(pool.stats().of(MemoryPurpose::loaded).allocated, mib);
  }
  EXPECT_EQ(marks, 1);
  {
    const auto ordinary = pool.allocate(mib);
    EXPECT_NE(ordinary->data, place);
  }
  const auto buffer = pool.allocate_marked(mib, leave, mark);
  EXPECT_EQ(buffer->data, place);
  ASSERT_NE(mark, nullptr);
  EXPECT_EQ(*std::static_pointer_cast<int>(mark), 1);
}

TEST_F(MemoryPoolTest, ThreadsShareIt) {
  pool.reserve(4 * mib);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 500; ++i) {
        const std::size_t size = static_cast<std::size_t>(64 << (i + thread) % 12);
        const auto buffer = pool.allocate(size);
        std::fill_n(static_cast<char*>(buffer->data), size, static_cast<char>(thread));
        const auto* bytes = static_cast<char*>(buffer->data);
        ASSERT_TRUE(std::all_of(bytes, bytes + size, [&](char byte) { return byte == thread; }));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST(WarmUp, TheCpuServesFromWhatItReserved) {
  empty_cache();
  warm_up(Device{}, 64 * mib);
  const MemoryStats before = memory_stats();
  EXPECT_GE(before.reserved, 64 * mib);
  const Tensor x = full({5 << 20}, 1.0).eval();
  EXPECT_EQ(memory_stats().reserved, before.reserved);
  EXPECT_GT(memory_stats().cache_hits, before.cache_hits);
  EXPECT_THROW(warm_up(Device{}, std::size_t{1} << 60), OutOfMemory);
}

}  // namespace
}  // namespace hearth
