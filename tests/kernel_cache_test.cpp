// The cache of compiled kernels: what it keeps, what it drops, what it does not trust.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "gpu/compiler.h"
#include "gpu/kernel_cache.h"
#include "hearth/error.h"
#include "temporary_folder.h"

namespace hearth::gpu {
namespace {

std::vector<char> code(std::size_t bytes, char value) { return std::vector<char>(bytes, value); }
Hash128 key(std::uint64_t number) { return {number, ~number}; }

TEST(KernelCache, KeepsKernelsForTheNextProcess) {
  const test::TemporaryFolder folder;
  KernelCache first(folder.path());
  EXPECT_TRUE(first.get(key(1)).empty());
  first.put(key(1), code(100, 'a'));
  EXPECT_EQ(first.get(key(1)), code(100, 'a'));
  EXPECT_EQ(first.memory_hits(), 1u);
  KernelCache second(folder.path());
  EXPECT_EQ(second.get(key(1)), code(100, 'a'));
  EXPECT_EQ(second.disk_hits(), 1u);
}

TEST(KernelCache, WithoutAFolderMemoryServes) {
  KernelCache cache{{}};
  cache.put(key(1), code(10, 'a'));
  EXPECT_EQ(cache.get(key(1)), code(10, 'a'));
  EXPECT_TRUE(cache.files().empty());
}

TEST(KernelCache, ADamagedFileCountsAsMissing) {
  const test::TemporaryFolder folder;
  KernelCache(folder.path()).put(key(1), code(1000, 'a'));
  const auto path = KernelCache(folder.path()).files().at(0).path;
  const auto size = std::filesystem::file_size(path);
  for (const std::uintmax_t position : {std::uintmax_t{0}, std::uintmax_t{9}, std::uintmax_t{30}, size - 1}) {
    {
      std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(position));
      file.put('!');
    }
    KernelCache cache(folder.path());
    EXPECT_TRUE(cache.get(key(1)).empty()) << "byte " << position;
    cache.put(key(1), code(1000, 'a'));  // rebuilt
    EXPECT_EQ(KernelCache(folder.path()).get(key(1)), code(1000, 'a'));
  }
  for (const std::uintmax_t length : {std::uintmax_t{0}, std::uintmax_t{20}, std::uintmax_t{40}, size - 1}) {
    std::filesystem::resize_file(path, length);
    EXPECT_TRUE(KernelCache(folder.path()).get(key(1)).empty()) << length << " bytes";
    KernelCache(folder.path()).put(key(1), code(1000, 'a'));
  }
  // Another kernel's file under this name.
  KernelCache(folder.path()).put(key(2), code(1000, 'b'));
  std::filesystem::remove(path);
  std::filesystem::rename(KernelCache(folder.path()).files().at(0).path, path);
  EXPECT_TRUE(KernelCache(folder.path()).get(key(1)).empty());
}

TEST(KernelCache, TheOldestGoWhenItIsFull) {
  const test::TemporaryFolder folder;
  const auto age = [&](const std::filesystem::path& file, int hours) {
    std::filesystem::last_write_time(
        file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(hours));
  };
  {
    KernelCache cache(folder.path());
    for (int i = 0; i < 8; ++i) {
      cache.put(key(i), code(1000, 'a'));
      age(cache.files().back().path, 10 - i);
    }
    EXPECT_EQ(cache.files().size(), 8u);
  }
  KernelCache small(folder.path(), 5000);
  EXPECT_FALSE(small.get(key(0)).empty());  // used now: no longer the oldest
  small.put(key(100), code(1000, 'b'));
  std::uint64_t total = 0;
  for (const auto& file : small.files()) total += file.bytes;
  EXPECT_LE(total, 5000u);
  EXPECT_EQ(small.files().size(), 4u);
  KernelCache after(folder.path());
  EXPECT_FALSE(after.get(key(0)).empty());
  EXPECT_FALSE(after.get(key(100)).empty());
  EXPECT_TRUE(after.get(key(1)).empty());
  EXPECT_FALSE(after.get(key(7)).empty());
}

TEST(KernelCache, StaysBelowItsLimitHoweverMuchIsWritten) {
  const test::TemporaryFolder folder;
  KernelCache cache(folder.path(), 20'000);
  for (int i = 0; i < 100; ++i) {
    cache.put(key(i), code(1000, 'a'));
    std::uint64_t total = 0;
    for (const auto& file : cache.files()) total += file.bytes;
    ASSERT_LE(total, 20'000u) << i;
  }
}

TEST(KernelCache, ClearLeavesOtherFilesAlone) {
  const test::TemporaryFolder folder;
  folder.put("notes.txt", "mine");
  KernelCache cache(folder.path());
  cache.put(key(1), code(10, 'a'));
  cache.clear();
  EXPECT_TRUE(cache.get(key(1)).empty());
  EXPECT_EQ(folder.files(), std::vector<std::string>{"notes.txt"});
}

// With a compiler, and no device: what a damaged file held is compiled again.
TEST(KernelCache, ADamagedKernelIsCompiledAgain) {
  const test::TemporaryFolder folder;  // not the user's
  ASSERT_EQ(setenv("HEARTH_KERNEL_CACHE", folder.path().c_str(), 1), 0);
  const Driver& driver = !hip_driver().compiler_library.empty() ? hip_driver() : cuda_driver();
  if (driver.compiler_library.empty()) GTEST_SKIP() << "no compiler of kernels";
  const KernelSource source{
      "nothing", "#include \"gpu.h\"\nKERNEL void nothing(f32* out) { *out = 1; }\n", {}};
  const auto build = [&] {
    return compile(driver, driver.kind == DeviceKind::rocm ? "gfx1030" : "sm_80", 32, source);
  };
  const std::vector<char> first = build();
  ASSERT_EQ(kernel_cache().files().size(), 1u);
  const auto path = kernel_cache().files()[0].path;
  EXPECT_EQ(KernelCache::read_code(path), first);

  kernel_cache().forget();
  EXPECT_EQ(build(), first);
  EXPECT_EQ(compiler_stats().compilations, 1u);

  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  kernel_cache().forget();
  EXPECT_FALSE(build().empty());
  EXPECT_EQ(compiler_stats().compilations, 2u);
  EXPECT_FALSE(KernelCache::read_code(path).empty());
}

// The compiler of ROCm 5 ended the process when two threads used it at once.
TEST(Compiler, ThreadsCompileAtOnce) {
  const Driver& driver = !hip_driver().compiler_library.empty() ? hip_driver() : cuda_driver();
  if (driver.compiler_library.empty()) GTEST_SKIP() << "no compiler of kernels";
  std::vector<std::thread> threads;
  std::atomic<int> compiled = 0;
  for (int thread = 0; thread < 4; ++thread)
    threads.emplace_back([&, thread] {
      for (int i = 0; i < 3; ++i) {
        const std::string text =
            "#include \"gpu.h\"\nKERNEL void store(i32* out) { *out = " + std::to_string(10 * thread + i) +
            "; }\n";
        const auto code = compile_uncached(driver, driver.kind == DeviceKind::rocm ? "gfx1030" : "sm_80", 32,
                                           {"store", text, {}});
        if (!code.empty()) ++compiled;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(compiled, 12);
}

}  // namespace
}  // namespace hearth::gpu
