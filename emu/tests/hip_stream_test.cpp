// Streams and events: what runs in which order, and that it really runs by itself.
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "hip_library.h"

using namespace hip_test;

namespace {

// A host function in a stream that waits until the test lets it go.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;

  void release() {
    const std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  static void wait(void* gate) {
    auto* self = static_cast<Gate*>(gate);
    std::unique_lock lock(self->mutex);
    self->changed.wait(lock, [&] { return self->open; });
  }
};

struct Pinned {
  int* values = nullptr;
  explicit Pinned(size_t count) {
    EXPECT_HIP(hipHostMalloc(reinterpret_cast<void**>(&values), count * sizeof(int), 0));
  }
  ~Pinned() { EXPECT_HIP(hipHostFree(values)); }
};

class HipStream : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_HIP(hipStreamCreate(&blocking));
    ASSERT_HIP(hipStreamCreateWithFlags(&free_running, hipStreamNonBlocking));
    ASSERT_HIP(hipMalloc(reinterpret_cast<void**>(&device), 4 * sizeof(int)));
    ASSERT_HIP(hipMemset(device, 0, 4 * sizeof(int)));
  }
  void TearDown() override {
    EXPECT_HIP(hipStreamDestroy(blocking));
    EXPECT_HIP(hipStreamDestroy(free_running));
    EXPECT_HIP(hipFree(device));
  }
  hipStream_t blocking = nullptr, free_running = nullptr;
  int* device = nullptr;
};

TEST_F(HipStream, CallsReturnBeforeTheWorkIsDone) {
  Gate gate;
  Pinned host(1);
  host.values[0] = 11;
  ASSERT_HIP(hipLaunchHostFunc(blocking, Gate::wait, &gate));
  ASSERT_HIP(hipMemcpyAsync(device, host.values, 4, hipMemcpyHostToDevice, blocking));
  EXPECT_EQ(hipStreamQuery(blocking), hipErrorNotReady);
  EXPECT_EQ(hipPeekAtLastError(), hipSuccess) << "not ready is an answer, not an error";
  // Pinned memory is read when the copy runs: a program that writes too early sees its mistake.
  host.values[0] = 22;
  gate.release();
  ASSERT_HIP(hipStreamSynchronize(blocking));
  int result = 0;
  ASSERT_HIP(hipMemcpy(&result, device, 4, hipMemcpyDeviceToHost));
  EXPECT_EQ(result, 22);
  EXPECT_HIP(hipStreamQuery(blocking));
}

TEST_F(HipStream, PageableMemoryIsReadBeforeTheCallReturns) {
  Gate gate;
  int host = 11;
  ASSERT_HIP(hipLaunchHostFunc(blocking, Gate::wait, &gate));
  ASSERT_HIP(hipMemcpyAsync(device, &host, 4, hipMemcpyHostToDevice, blocking));
  host = 22;
  gate.release();
  int result = 0;
  ASSERT_HIP(hipMemcpy(&result, device, 4, hipMemcpyDeviceToHost));
  EXPECT_EQ(result, 11);
}

TEST_F(HipStream, TheNullStreamWaitsForBlockingStreamsOnly) {
  Gate gate;
  ASSERT_HIP(hipLaunchHostFunc(free_running, Gate::wait, &gate));
  int result = 0;
  EXPECT_HIP(hipMemcpy(&result, device, 4, hipMemcpyDeviceToHost)) << "does not wait";
  EXPECT_EQ(hipStreamQuery(free_running), hipErrorNotReady);
  EXPECT_HIP(hipStreamQuery(nullptr));

  Gate second;
  ASSERT_HIP(hipLaunchHostFunc(blocking, Gate::wait, &second));
  ASSERT_HIP(hipMemsetAsync(device, 1, 4, blocking));
  EXPECT_EQ(hipStreamQuery(nullptr), hipErrorNotReady);
  ASSERT_HIP(hipMemsetAsync(device, 2, 4, nullptr));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    second.release();
  });
  EXPECT_HIP(hipMemcpy(&result, device, 4, hipMemcpyDeviceToHost));
  EXPECT_EQ(result, 0x02020202);
  opener.join();
  gate.release();
  EXPECT_HIP(hipStreamSynchronize(free_running)) << "the gate is in use until then";
}

TEST_F(HipStream, BlockingStreamsWaitForTheNullStream) {
  Gate gate;
  ASSERT_HIP(hipLaunchHostFunc(nullptr, Gate::wait, &gate));
  ASSERT_HIP(hipMemsetAsync(device, 5, 4, blocking));
  ASSERT_HIP(hipMemsetAsync(device + 1, 6, 4, free_running));
  ASSERT_HIP(hipStreamSynchronize(free_running));
  EXPECT_EQ(hipStreamQuery(blocking), hipErrorNotReady);
  gate.release();
  ASSERT_HIP(hipDeviceSynchronize());
  int result[2];
  ASSERT_HIP(hipMemcpy(result, device, 8, hipMemcpyDeviceToHost));
  EXPECT_EQ(result[0], 0x05050505);
  EXPECT_EQ(result[1], 0x06060606);
}

TEST_F(HipStream, EventsOrderStreams) {
  Gate gate;
  hipEvent_t event = nullptr;
  ASSERT_HIP(hipEventCreate(&event));
  EXPECT_HIP(hipEventQuery(event)) << "never recorded";
  ASSERT_HIP(hipLaunchHostFunc(blocking, Gate::wait, &gate));
  ASSERT_HIP(hipMemsetAsync(device, 1, 4, blocking));
  ASSERT_HIP(hipEventRecord(event, blocking));
  ASSERT_HIP(hipStreamWaitEvent(free_running, event, 0));
  ASSERT_HIP(hipMemcpyAsync(device + 1, device, 4, hipMemcpyDeviceToDevice, free_running));
  EXPECT_EQ(hipEventQuery(event), hipErrorNotReady);
  EXPECT_HIP(hipEventDestroy(event)) << "the wait goes on without it";
  gate.release();
  ASSERT_HIP(hipStreamSynchronize(free_running));
  int result = 0;
  ASSERT_HIP(hipMemcpy(&result, device + 1, 4, hipMemcpyDeviceToHost));
  EXPECT_EQ(result, 0x01010101);
}

TEST_F(HipStream, EventsTellTheTime) {
  hipEvent_t start = nullptr, stop = nullptr, untimed = nullptr;
  ASSERT_HIP(hipEventCreate(&start));
  ASSERT_HIP(hipEventCreate(&stop));
  ASSERT_HIP(hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
  float milliseconds = 0;
  EXPECT_EQ(hipEventElapsedTime(&milliseconds, start, stop), hipErrorInvalidHandle);
  const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(30)); };
  ASSERT_HIP(hipEventRecord(start, blocking));
  ASSERT_HIP(hipLaunchHostFunc(blocking, sleep, nullptr));
  ASSERT_HIP(hipEventRecord(stop, blocking));
  ASSERT_HIP(hipEventRecord(untimed, blocking));
  EXPECT_EQ(hipEventElapsedTime(&milliseconds, start, stop), hipErrorNotReady);
  ASSERT_HIP(hipEventSynchronize(untimed));
  ASSERT_HIP(hipEventElapsedTime(&milliseconds, start, stop));
  EXPECT_GE(milliseconds, 29.0f);
  EXPECT_LT(milliseconds, 5000.0f);
  EXPECT_EQ(hipEventElapsedTime(&milliseconds, start, untimed), hipErrorInvalidHandle);
  hipGetLastError();
  for (hipEvent_t event : {start, stop, untimed}) EXPECT_HIP(hipEventDestroy(event));
}

TEST_F(HipStream, HandlesThatAreNone) {
  hipStream_t gone = nullptr;
  ASSERT_HIP(hipStreamCreate(&gone));
  ASSERT_HIP(hipStreamDestroy(gone));
  EXPECT_EQ(hipStreamDestroy(gone), hipErrorContextIsDestroyed);
  EXPECT_EQ(hipStreamSynchronize(gone), hipErrorContextIsDestroyed);
  EXPECT_EQ(hipMemsetAsync(device, 0, 4, gone), hipErrorContextIsDestroyed);
  EXPECT_EQ(hipStreamSynchronize(made_up<hipStream_t>()), hipErrorContextIsDestroyed);
  EXPECT_EQ(hipStreamDestroy(nullptr), hipErrorInvalidHandle);
  hipEvent_t event = nullptr;
  ASSERT_HIP(hipEventCreate(&event));
  ASSERT_HIP(hipEventDestroy(event));
  EXPECT_EQ(hipEventDestroy(event), hipErrorInvalidHandle);
  EXPECT_EQ(hipEventRecord(event, blocking), hipErrorInvalidHandle);
  EXPECT_EQ(hipEventSynchronize(made_up<hipEvent_t>()), hipErrorInvalidHandle);
  EXPECT_EQ(hipStreamWaitEvent(blocking, event, 0), hipErrorInvalidHandle);
  EXPECT_EQ(hipStreamCreateWithFlags(&gone, 77), hipErrorInvalidValue);
  EXPECT_EQ(hipLaunchHostFunc(blocking, nullptr, nullptr), hipErrorInvalidValue);
  hipGetLastError();
}

TEST_F(HipStream, WordsToWriteAndToWaitFor) {
  const auto write = symbol<hipError_t(hipStream_t, void*, uint32_t, unsigned)>("hipStreamWriteValue32");
  const auto wait =
      symbol<hipError_t(hipStream_t, void*, uint64_t, unsigned, uint64_t)>("hipStreamWaitValue64");
  EXPECT_HIP(write(blocking, device, 7, 0));
  EXPECT_HIP(wait(blocking, device, 7, 1, 0xffffffff));
  EXPECT_HIP(hipStreamSynchronize(blocking));
  // What the device cannot reach is refused, not written to.
  EXPECT_EQ(write(blocking, reinterpret_cast<void*>(0x1000), 7, 0), hipErrorInvalidValue);
  EXPECT_EQ(write(blocking, nullptr, 7, 0), hipErrorInvalidValue);
  EXPECT_EQ(write(blocking, reinterpret_cast<char*>(device) + 2, 7, 0), hipErrorInvalidValue);
  void* small = nullptr;
  ASSERT_HIP(hipMalloc(&small, 4));
  EXPECT_EQ(wait(blocking, small, 0, 1, ~0ull), hipErrorInvalidValue) << "only half of the word is there";
  EXPECT_HIP(hipFree(small));
  EXPECT_HIP(hipStreamSynchronize(blocking));
  hipGetLastError();
}

TEST_F(HipStream, ADestroyedStreamFinishesItsWork) {
  Gate gate;
  hipStream_t stream = nullptr;
  ASSERT_HIP(hipStreamCreate(&stream));
  ASSERT_HIP(hipLaunchHostFunc(stream, Gate::wait, &gate));
  ASSERT_HIP(hipMemsetAsync(device, 9, 4, stream));
  ASSERT_HIP(hipStreamDestroy(stream));
  gate.release();
  ASSERT_HIP(hipDeviceSynchronize());
  int result = 0;
  ASSERT_HIP(hipMemcpy(&result, device, 4, hipMemcpyDeviceToHost));
  EXPECT_EQ(result, 0x09090909);
}

TEST_F(HipStream, PerThreadStreamsAreOnePerThread) {
  const auto set = symbol<hipError_t(void*, int, size_t, hipStream_t)>("hipMemsetAsync_spt");
  const auto wait = symbol<hipError_t(hipStream_t)>("hipStreamSynchronize_spt");
  Gate gate;
  ASSERT_HIP(hipLaunchHostFunc(HIPEMU_STREAM_PER_THREAD, Gate::wait, &gate));
  std::thread([&] {
    EXPECT_HIP(set(device, 3, 4, nullptr));
    EXPECT_HIP(wait(nullptr));
  }).join();
  EXPECT_EQ(hipStreamQuery(HIPEMU_STREAM_PER_THREAD), hipErrorNotReady);
  gate.release();
  EXPECT_HIP(hipStreamSynchronize(HIPEMU_STREAM_PER_THREAD));
}

TEST_F(HipStream, ManyThreadsShareAStream) {
  std::atomic<int> calls{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_HIP(hipLaunchHostFunc(
            i % 2 ? blocking : nullptr, [](void* count) { ++*static_cast<std::atomic<int>*>(count); },
            &calls));
        hipEvent_t event = nullptr;
        EXPECT_HIP(hipEventCreate(&event));
        EXPECT_HIP(hipEventRecord(event, free_running));
        EXPECT_HIP(hipStreamWaitEvent(blocking, event, 0));
        EXPECT_HIP(hipEventDestroy(event));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_HIP(hipDeviceSynchronize());
  EXPECT_EQ(calls, 300);
}

TEST(DISABLED_HipStreamChild, EventsOfTwoDevices) {
  hipEvent_t events[2] = {};
  for (int device = 0; device < 2; ++device) {
    ASSERT_HIP(hipSetDevice(device));
    ASSERT_HIP(hipEventCreate(&events[device]));
    ASSERT_HIP(hipEventRecord(events[device], nullptr));
    ASSERT_HIP(hipEventSynchronize(events[device]));
  }
  float milliseconds = 0;
  EXPECT_EQ(hipEventElapsedTime(&milliseconds, events[0], events[1]), hipErrorInvalidHandle);
}
TEST(HipStreamDevices, EachHasAClockOfItsOwn) {
  const auto child = run_child("DISABLED_HipStreamChild.EventsOfTwoDevices", {"HIPEMU=gfx1100,gfx1100"});
  EXPECT_EQ(child.status, 0) << child.output;
}

TEST(DISABLED_HipStreamChild, ExitsWithWorkInItsStreams) {
  void* pinned = nullptr;
  ASSERT_HIP(hipHostMalloc(&pinned, 1 << 20, 0));
  void* device = nullptr;
  ASSERT_HIP(hipMalloc(&device, 1 << 20));
  for (int i = 0; i < 8; ++i) {
    hipStream_t stream = nullptr;
    ASSERT_HIP(hipStreamCreate(&stream));
    for (int copy = 0; copy < 200; ++copy)
      ASSERT_HIP(hipMemcpyAsync(device, pinned, 1 << 20, hipMemcpyHostToDevice, stream));
  }
  std::exit(42);
}
TEST(HipStreamExit, AProgramMayEndWithoutSynchronising) {
  for (int i = 0; i < 5; ++i) {
    const ChildResult child = run_child("DISABLED_HipStreamChild.ExitsWithWorkInItsStreams", {});
    EXPECT_EQ(child.status, 42) << child.output;
  }
}

TEST(DISABLED_HipStreamChild, ExitsWhileAFunctionNeverReturns) {
  ASSERT_HIP(hipLaunchHostFunc(
      nullptr, [](void*) { std::this_thread::sleep_for(std::chrono::hours(1)); }, nullptr));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  std::exit(43);
}
TEST(HipStreamExit, WorkThatDoesNotEndDoesNotKeepTheProcess) {
  const auto begin = std::chrono::steady_clock::now();
  const ChildResult child = run_child("DISABLED_HipStreamChild.ExitsWhileAFunctionNeverReturns", {});
  EXPECT_EQ(child.status, 43) << child.output;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

TEST(DISABLED_HipStreamChild, Forks) {
  ASSERT_HIP(hipDeviceSynchronize());
  ASSERT_HIP(hipLaunchHostFunc(
      nullptr, [](void*) {}, nullptr));
  ASSERT_HIP(hipDeviceSynchronize());
  const pid_t child = fork();
  if (child == 0) {
    void* pointer = nullptr;
    std::exit(hipMalloc(&pointer, 4) == hipErrorDeinitialized ? 7 : 8);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 7);
}
TEST(HipStreamExit, AForkedChildIsToldThatItHasNoDevice) {
  const ChildResult child = run_child("DISABLED_HipStreamChild.Forks", {});
  EXPECT_EQ(child.status, 0) << child.output;
}

}  // namespace
