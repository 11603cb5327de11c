// Faults on demand.
#include "hip_library.h"

using namespace hip_test;

namespace {

auto hipemuFail = symbol<int(const char*)>("hipemuFail");

TEST(HipFault, TheNthCallFailsAndTheNextOneWorks) {
  ASSERT_TRUE(hipemuFail("hipMalloc:2=hipErrorOutOfMemory,hipFree:1=hipErrorInvalidValue"));
  void *first = nullptr, *second = nullptr;
  EXPECT_HIP(hipMalloc(&first, 64));
  EXPECT_EQ(hipMalloc(&second, 64), hipErrorOutOfMemory);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(hipGetLastError(), hipErrorOutOfMemory);
  EXPECT_HIP(hipMalloc(&second, 64));
  EXPECT_EQ(hipFree(first), hipErrorInvalidValue);
  EXPECT_HIP(hipFree(first));
  EXPECT_HIP(hipFree(second));
}

TEST(HipFault, APlusMeansForGood) {
  ASSERT_TRUE(hipemuFail("hipMalloc:2+=hipErrorOutOfMemory"));
  void* memory = nullptr;
  EXPECT_HIP(hipMalloc(&memory, 64));
  EXPECT_HIP(hipFree(memory));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(hipMalloc(&memory, 64), hipErrorOutOfMemory);
  ASSERT_TRUE(hipemuFail(""));
  EXPECT_HIP(hipMalloc(&memory, 64));
  EXPECT_HIP(hipFree(memory));
}

TEST(HipFault, WhatIsNoFaultIsRefused) {
  for (const char* text : {"hipMalloc", "hipMalloc:0=hipErrorUnknown", "hipMalloc:x=hipErrorUnknown",
                           "hipMalloc:1=hipErrorNoSuchThing", "hipMalloc:1=hipSuccess", "=:", ":=", "lost",
                           "hipMalloc=1:hipErrorUnknown", "hipMalloc:1+1=hipErrorUnknown"})
    EXPECT_FALSE(hipemuFail(text)) << text;
  void* memory = nullptr;
  EXPECT_HIP(hipMalloc(&memory, 64));
  EXPECT_HIP(hipFree(memory));
}

TEST(DISABLED_HipFaultChild, LosesTheDevice) {
  hipStream_t stream = nullptr;
  ASSERT_HIP(hipStreamCreate(&stream));
  void* memory = nullptr;
  ASSERT_HIP(hipMalloc(&memory, 64));
  int ran = 0;
  const auto count = [](void* data) { ++*static_cast<int*>(data); };
  ASSERT_HIP(hipLaunchHostFunc(stream, count, &ran));
  ASSERT_HIP(hipMemsetAsync(memory, 0, 64, stream));
  EXPECT_EQ(hipMemsetAsync(memory, 0, 64, stream), hipErrorLaunchFailure);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(hipStreamSynchronize(stream), hipErrorLaunchFailure);
    EXPECT_EQ(hipStreamQuery(stream), hipErrorLaunchFailure);
    EXPECT_EQ(hipSetDevice(0), hipErrorLaunchFailure);
    EXPECT_EQ(hipMalloc(&memory, 64), hipErrorLaunchFailure);
    EXPECT_EQ(hipDeviceReset(), hipErrorLaunchFailure);
  }
  EXPECT_EQ(hipFree(memory), hipErrorLaunchFailure);
  hipemuFail("");
  EXPECT_EQ(hipDeviceSynchronize(), hipErrorLaunchFailure) << "lost is lost";
}

TEST(HipFault, ADeviceThatIsLostStaysSo) {
  const ChildResult child =
      run_child("DISABLED_HipFaultChild.LosesTheDevice", {"HIPEMU_FAIL=hipMemsetAsync:2=lost"});
  EXPECT_EQ(child.status, 0) << child.output;
}

TEST(HipFault, AWrongVariableIsNamed) {
  const ChildResult child = run_child("HipFault.WhatIsNoFaultIsRefused", {"HIPEMU_FAIL=hipMalloc:1"});
  EXPECT_NE(child.output.find("'hipMalloc:1' is not a fault"), std::string::npos) << child.output;
  EXPECT_EQ(child.status, 0) << child.output;
}

}  // namespace
