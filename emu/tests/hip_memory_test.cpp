// Memory: allocation, copies, fills, and what is refused.
#include <numeric>
#include <thread>

#include "hip_library.h"

using namespace hip_test;

namespace {

std::vector<unsigned char> numbers(size_t size) {
  std::vector<unsigned char> bytes(size);
  std::iota(bytes.begin(), bytes.end(), 1);
  return bytes;
}

TEST(HipMemory, ACopyThereAndBack) {
  const auto source = numbers(5000);
  std::vector<unsigned char> result(source.size());
  void *first = nullptr, *second = nullptr;
  ASSERT_HIP(hipMalloc(&first, source.size()));
  ASSERT_HIP(hipMalloc(&second, source.size()));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
  EXPECT_HIP(hipMemcpy(first, source.data(), source.size(), hipMemcpyHostToDevice));
  EXPECT_HIP(hipMemcpy(second, first, source.size(), hipMemcpyDeviceToDevice));
  EXPECT_HIP(hipMemcpy(result.data(), second, source.size(), hipMemcpyDefault));
  EXPECT_EQ(result, source);
  EXPECT_HIP(hipFree(first));
  EXPECT_HIP(hipFree(second));
}

TEST(HipMemory, NothingIsSomething) {
  void* pointer = made_up<void*>();
  EXPECT_HIP(hipMalloc(&pointer, 0));
  EXPECT_EQ(pointer, nullptr);
  EXPECT_HIP(hipFree(nullptr));
  EXPECT_HIP(hipMemcpy(nullptr, nullptr, 0, hipMemcpyHostToDevice));
}

TEST(HipMemory, WhatIsRefused) {
  void* pointer = nullptr;
  EXPECT_EQ(hipMalloc(nullptr, 8), hipErrorInvalidValue);
  EXPECT_EQ(hipMalloc(&pointer, size_t{1} << 60), hipErrorOutOfMemory);
  EXPECT_EQ(pointer, nullptr);
  ASSERT_HIP(hipMalloc(&pointer, 100));
  char host[200] = {};
  EXPECT_EQ(hipMemcpy(pointer, host, 101, hipMemcpyHostToDevice), hipErrorInvalidValue);
  EXPECT_EQ(hipMemcpy(static_cast<char*>(pointer) + 60, host, 41, hipMemcpyHostToDevice),
            hipErrorInvalidValue);
  EXPECT_EQ(hipMemcpy(host, pointer, 101, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  EXPECT_EQ(hipMemcpy(host, nullptr, 5, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  EXPECT_EQ(hipMemcpy(host, pointer, 5, static_cast<hipMemcpyKind>(9)), hipErrorInvalidMemcpyDirection);
  EXPECT_EQ(hipMemset(pointer, 0, 101), hipErrorInvalidValue);
  EXPECT_EQ(hipMemset(host, 0, 10), hipErrorInvalidValue) << "not the device's memory";
  EXPECT_EQ(hipFree(static_cast<char*>(pointer) + 4), hipErrorInvalidValue);
  EXPECT_EQ(hipFree(host), hipErrorInvalidValue);
  EXPECT_EQ(hipFree(made_up<void*>()), hipErrorInvalidValue);
  EXPECT_HIP(hipFree(pointer));
  EXPECT_EQ(hipFree(pointer), hipErrorInvalidValue) << "twice";
  EXPECT_EQ(hipMemcpy(host, pointer, 4, hipMemcpyDeviceToHost), hipErrorInvalidValue) << "freed";
  hipGetLastError();
}

TEST(HipMemory, Fills) {
  void* pointer = nullptr;
  ASSERT_HIP(hipMalloc(&pointer, 64));
  unsigned char host[64];
  EXPECT_HIP(hipMemset(pointer, 0x1ab, 64));
  EXPECT_HIP(hipMemsetD16(pointer, 0x1234, 8));
  EXPECT_HIP(hipMemsetD32Async(static_cast<char*>(pointer) + 16, 0x55667788, 2, nullptr));
  EXPECT_HIP(hipMemcpy(host, pointer, 64, hipMemcpyDeviceToHost));
  EXPECT_EQ(host[0], 0x34);
  EXPECT_EQ(host[15], 0x12);
  EXPECT_EQ(host[16], 0x88);
  EXPECT_EQ(host[23], 0x55);
  EXPECT_EQ(host[24], 0xab);
  EXPECT_EQ(host[63], 0xab);
  EXPECT_EQ(hipMemsetD16(static_cast<char*>(pointer) + 1, 0, 2), hipErrorInvalidValue) << "not aligned";
  hipGetLastError();
  EXPECT_HIP(hipFree(pointer));
}

TEST(HipMemory, PitchedCopiesLeaveTheRestAlone) {
  void* pointer = nullptr;
  size_t pitch = 0;
  ASSERT_HIP(hipMallocPitch(&pointer, &pitch, 50, 4));
  EXPECT_GE(pitch, 50u);
  EXPECT_HIP(hipMemset2D(pointer, pitch, 7, 50, 4));
  const auto source = numbers(40);
  EXPECT_HIP(hipMemcpy2D(static_cast<char*>(pointer) + pitch + 5, pitch, source.data(), 20, 20, 2,
                         hipMemcpyHostToDevice));
  std::vector<unsigned char> result(200);
  EXPECT_HIP(hipMemcpy2D(result.data(), 50, pointer, pitch, 50, 4, hipMemcpyDeviceToHost));
  for (int y = 0; y < 4; ++y)
    for (int x = 0; x < 50; ++x) {
      const bool inside = (y == 1 || y == 2) && x >= 5 && x < 25;
      EXPECT_EQ(result[y * 50 + x], inside ? source[(y - 1) * 20 + x - 5] : 7) << x << ", " << y;
    }
  EXPECT_EQ(hipMemcpy2D(result.data(), 10, pointer, pitch, 50, 4, hipMemcpyDeviceToHost),
            hipErrorInvalidPitchValue);
  EXPECT_EQ(hipMemcpy2D(result.data(), 50, pointer, pitch, 50, 5, hipMemcpyDeviceToHost),
            hipErrorInvalidValue);
  hipGetLastError();
  EXPECT_HIP(hipFree(pointer));
}

TEST(HipMemory, AttributesOfPointers) {
  void *device = nullptr, *pinned = nullptr, *managed = nullptr;
  ASSERT_HIP(hipMalloc(&device, 1000));
  ASSERT_HIP(hipHostMalloc(&pinned, 1000, 0));
  ASSERT_HIP(hipMallocManaged(&managed, 1000, 1));
  hipPointerAttribute_t attributes{};
  ASSERT_HIP(hipPointerGetAttributes(&attributes, static_cast<char*>(device) + 10));
  EXPECT_EQ(attributes.type, 2);
  EXPECT_EQ(attributes.hostPointer, nullptr);
  ASSERT_HIP(hipPointerGetAttributes(&attributes, pinned));
  EXPECT_EQ(attributes.type, 1);
  EXPECT_EQ(attributes.hostPointer, pinned);
  ASSERT_HIP(hipPointerGetAttributes(&attributes, managed));
  EXPECT_EQ(attributes.isManaged, 1);
  int local = 0;
  ASSERT_HIP(hipPointerGetAttributes(&attributes, &local));
  EXPECT_EQ(attributes.type, 0);
  void* base = nullptr;
  size_t size = 0;
  ASSERT_HIP(hipMemGetAddressRange(&base, &size, static_cast<char*>(device) + 999));
  EXPECT_EQ(base, device);
  EXPECT_EQ(size, 1000u);
  EXPECT_HIP(hipFree(device));
  EXPECT_HIP(hipHostFree(pinned));
  EXPECT_HIP(hipFree(managed));
}

TEST(HipMemory, ProgramsOfRocm5SeeTheirNumbers) {
  const ChildResult child = run_child("DISABLED_HipMemoryChild.OldNumbers", {"HIPEMU_HIP_ABI=5"});
  EXPECT_EQ(child.status, 0) << child.output;
}
TEST(DISABLED_HipMemoryChild, OldNumbers) {
  void *device = nullptr, *pinned = nullptr;
  ASSERT_HIP(hipMalloc(&device, 10));
  ASSERT_HIP(hipHostMalloc(&pinned, 10, 0));
  hipPointerAttribute_t attributes{};
  ASSERT_HIP(hipPointerGetAttributes(&attributes, device));
  EXPECT_EQ(attributes.type, 1);
  ASSERT_HIP(hipPointerGetAttributes(&attributes, pinned));
  EXPECT_EQ(attributes.type, 0);
  int local = 0;
  EXPECT_EQ(hipPointerGetAttributes(&attributes, &local), hipErrorInvalidValue);
}

TEST(HipMemory, RegisteredMemory) {
  std::vector<char> memory(10000);
  EXPECT_HIP(hipHostRegister(memory.data(), memory.size(), 0));
  EXPECT_EQ(hipHostRegister(memory.data() + 100, 10, 0), hipErrorHostMemoryAlreadyRegistered);
  EXPECT_EQ(hipHostFree(memory.data()), hipErrorInvalidValue) << "not allocated by HIP";
  EXPECT_HIP(hipHostUnregister(memory.data()));
  EXPECT_EQ(hipHostUnregister(memory.data()), hipErrorHostMemoryNotRegistered);
  hipGetLastError();
}

TEST(HipMemory, FreeMemoryIsCounted) {
  size_t before = 0, during = 0, after = 0, total = 0;
  ASSERT_HIP(hipMemGetInfo(&before, &total));
  void* pointer = nullptr;
  ASSERT_HIP(hipMalloc(&pointer, 1 << 20));
  ASSERT_HIP(hipMemGetInfo(&during, &total));
  EXPECT_GE(before - during, size_t{1} << 20);
  EXPECT_HIP(hipFree(pointer));
  ASSERT_HIP(hipMemGetInfo(&after, &total));
  EXPECT_EQ(after, before);
  EXPECT_EQ(total, size_t{24} << 30);
}

TEST(HipMemory, PoolsKeepAccounts) {
  hipMemPool_t pool = nullptr;
  ASSERT_HIP((symbol<hipError_t(hipMemPool_t*, int)>("hipDeviceGetDefaultMemPool")(&pool, 0)));
  const auto attribute = symbol<hipError_t(hipMemPool_t, hipMemPoolAttr, void*)>("hipMemPoolGetAttribute");
  hipStream_t stream = nullptr;
  ASSERT_HIP(hipStreamCreate(&stream));
  void* pointer = nullptr;
  ASSERT_HIP(hipMallocAsync(&pointer, 4096, stream));
  uint64_t used = 0;
  EXPECT_HIP(attribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 4096u);
  EXPECT_HIP(hipMemsetAsync(pointer, 1, 4096, stream));
  EXPECT_HIP(hipFreeAsync(pointer, stream));
  EXPECT_HIP(hipStreamSynchronize(stream));
  EXPECT_HIP(attribute(pool, hipMemPoolAttrUsedMemCurrent, &used));
  EXPECT_EQ(used, 0u);
  EXPECT_HIP(attribute(pool, hipMemPoolAttrUsedMemHigh, &used));
  EXPECT_EQ(used, 4096u);
  EXPECT_EQ(attribute(made_up<hipMemPool_t>(), hipMemPoolAttrUsedMemHigh, &used), hipErrorInvalidValue);
  EXPECT_EQ(hipFreeAsync(pointer, stream), hipErrorInvalidValue) << "twice";
  hipGetLastError();
  EXPECT_HIP(hipStreamDestroy(stream));
}

TEST(HipMemory, ManyThreadsAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([t] {
      for (int round = 0; round < 40; ++round) {
        void* pointer = nullptr;
        const size_t size = 64 + static_cast<size_t>(t) * 100 + static_cast<size_t>(round);
        ASSERT_HIP(hipMalloc(&pointer, size));
        std::vector<unsigned char> result(size);
        EXPECT_HIP(hipMemset(pointer, t + round, size));
        EXPECT_HIP(hipMemcpy(result.data(), pointer, size, hipMemcpyDeviceToHost));
        for (const unsigned char each : result) EXPECT_EQ(each, t + round);
        EXPECT_HIP(hipFree(pointer));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
