// Graphs and stream capture.
#include <string>

#include "hip_library.h"

using namespace hip_test;

namespace {

struct Trace {
  std::string text;
};
struct Step {
  Trace* trace;
  char name;
  static void run(void* step) {
    auto* self = static_cast<Step*>(step);
    self->trace->text += self->name;
  }
};

class HipGraph : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_HIP(hipStreamCreate(&first));
    ASSERT_HIP(hipStreamCreate(&second));
    ASSERT_HIP(hipEventCreate(&event));
    ASSERT_HIP(hipMalloc(reinterpret_cast<void**>(&device), 64));
  }
  void TearDown() override {
    EXPECT_HIP(hipStreamDestroy(first));
    EXPECT_HIP(hipStreamDestroy(second));
    EXPECT_HIP(hipEventDestroy(event));
    EXPECT_HIP(hipFree(device));
    hipGetLastError();
  }
  // Launches once and waits.
  void run(hipGraph_t graph) {
    hipGraphExec_t executable = nullptr;
    ASSERT_HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    EXPECT_HIP(hipGraphLaunch(executable, first));
    EXPECT_HIP(hipStreamSynchronize(first));
    EXPECT_HIP(hipGraphExecDestroy(executable));
  }
  hipGraphNode_t host_node(hipGraph_t graph, std::vector<hipGraphNode_t> after, Step& step) {
    hipGraphNode_t node = nullptr;
    const hipHostNodeParams parameters{Step::run, &step};
    EXPECT_HIP(hipGraphAddHostNode(&node, graph, after.data(), after.size(), &parameters));
    return node;
  }
  hipStream_t first = nullptr, second = nullptr;
  hipEvent_t event = nullptr;
  int* device = nullptr;
};

TEST_F(HipGraph, EdgesAreRespectedAndNothingElse) {
  Trace trace;
  Step a{&trace, 'a'}, b{&trace, 'b'}, c{&trace, 'c'}, d{&trace, 'd'};
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipGraphCreate(&graph, 0));
  const hipGraphNode_t node_a = host_node(graph, {}, a);
  const hipGraphNode_t node_b = host_node(graph, {node_a}, b);
  const hipGraphNode_t node_c = host_node(graph, {node_a}, c);
  host_node(graph, {node_b, node_c}, d);
  run(graph);
  // c was added after b and does not depend on it: it runs first, so that a missing edge shows.
  EXPECT_EQ(trace.text, "acbd");
  trace.text.clear();
  ASSERT_HIP(hipGraphAddDependencies(graph, &node_b, &node_c, 1));
  run(graph);
  EXPECT_EQ(trace.text, "abcd");
  EXPECT_EQ(hipGraphAddDependencies(graph, &node_c, &node_a, 1), hipErrorInvalidValue) << "a cycle";
  EXPECT_HIP(hipGraphDestroy(graph));
  EXPECT_EQ(hipGraphDestroy(graph), hipErrorInvalidValue);
}

TEST_F(HipGraph, CaptureForksAndJoinsThroughEvents) {
  Trace trace;
  Step a{&trace, 'a'}, b{&trace, 'b'}, c{&trace, 'c'};
  hipEvent_t join = nullptr;
  ASSERT_HIP(hipEventCreate(&join));
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  hipStreamCaptureStatus status;
  EXPECT_HIP(hipStreamIsCapturing(first, &status));
  EXPECT_EQ(status, hipStreamCaptureStatusActive);
  EXPECT_HIP(hipLaunchHostFunc(first, Step::run, &a));
  EXPECT_HIP(hipEventRecord(event, first));
  EXPECT_HIP(hipStreamWaitEvent(second, event, 0));
  EXPECT_HIP(hipLaunchHostFunc(second, Step::run, &b));
  EXPECT_HIP(hipEventRecord(join, second));
  EXPECT_HIP(hipStreamWaitEvent(first, join, 0));
  EXPECT_HIP(hipLaunchHostFunc(first, Step::run, &c));
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipStreamEndCapture(first, &graph));
  EXPECT_EQ(trace.text, "") << "nothing runs while it is captured";
  EXPECT_HIP(hipStreamIsCapturing(second, &status));
  EXPECT_EQ(status, hipStreamCaptureStatusNone);
  size_t nodes = 0, edges = 0;
  EXPECT_HIP(hipGraphGetNodes(graph, nullptr, &nodes));
  EXPECT_HIP(hipGraphGetEdges(graph, nullptr, nullptr, &edges));
  EXPECT_EQ(nodes, 3u);
  EXPECT_EQ(edges, 3u) << "a-b, a-c and b-c";
  run(graph);
  EXPECT_EQ(trace.text, "abc");
  EXPECT_HIP(hipGraphDestroy(graph));
  EXPECT_HIP(hipEventDestroy(join));
}

TEST_F(HipGraph, WhatIsNotAllowedWhileCapturing) {
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_EQ(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal), hipErrorIllegalState);
  EXPECT_EQ(hipStreamSynchronize(first), hipErrorStreamCaptureUnsupported);
  EXPECT_EQ(hipMemsetAsync(device, 0, 4, first), hipErrorStreamCaptureInvalidated);
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipStreamEndCapture(first, &graph), hipErrorStreamCaptureInvalidated);
  EXPECT_EQ(graph, nullptr);
  EXPECT_HIP(hipMemsetAsync(device, 0, 4, first)) << "the stream works again";
  EXPECT_EQ(hipStreamEndCapture(first, &graph), hipErrorIllegalState);
  EXPECT_EQ(hipStreamBeginCapture(nullptr, hipStreamCaptureModeGlobal), hipErrorStreamCaptureUnsupported);

  // A fork that does not come back.
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  EXPECT_HIP(hipEventRecord(event, first));
  EXPECT_HIP(hipStreamWaitEvent(second, event, 0));
  EXPECT_HIP(hipMemsetAsync(device, 0, 4, second));
  EXPECT_EQ(hipStreamEndCapture(second, &graph), hipErrorStreamCaptureUnmatched);
  EXPECT_EQ(hipStreamEndCapture(first, &graph), hipErrorStreamCaptureUnjoined);

  // The null stream would have to wait for the captured one.
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeRelaxed));
  EXPECT_EQ(hipMemsetAsync(device, 0, 4, nullptr), hipErrorStreamCaptureImplicit);
  EXPECT_EQ(hipStreamEndCapture(first, &graph), hipErrorStreamCaptureInvalidated);

  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  void* pointer = nullptr;
  EXPECT_EQ(hipMalloc(&pointer, 4), hipErrorStreamCaptureUnsupported);
  EXPECT_EQ(hipStreamEndCapture(first, &graph), hipErrorStreamCaptureInvalidated);
}

// A stream that is destroyed takes its capture with it: nothing minds what is called afterwards.
TEST_F(HipGraph, CapturesEndWithTheirStream) {
  hipStream_t gone = nullptr;
  ASSERT_HIP(hipStreamCreate(&gone));
  ASSERT_HIP(hipStreamBeginCapture(gone, hipStreamCaptureModeGlobal));
  ASSERT_HIP(hipEventRecord(event, gone));
  ASSERT_HIP(hipStreamWaitEvent(second, event, 0));
  ASSERT_HIP(hipStreamDestroy(gone));
  void* pointer = nullptr;
  EXPECT_HIP(hipMalloc(&pointer, 4));
  EXPECT_HIP(hipFree(pointer));
  EXPECT_HIP(hipMemsetAsync(device, 0, 4, second)) << "the stream that had joined works again";
  EXPECT_HIP(hipStreamSynchronize(second));

  // One that had only joined spoils the capture, which its origin has to end.
  hipStream_t joined = nullptr;
  ASSERT_HIP(hipStreamCreate(&joined));
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  ASSERT_HIP(hipEventRecord(event, first));
  ASSERT_HIP(hipStreamWaitEvent(joined, event, 0));
  ASSERT_HIP(hipStreamDestroy(joined));
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipStreamEndCapture(first, &graph), hipErrorStreamCaptureInvalidated);
  EXPECT_HIP(hipDeviceSynchronize());
}

TEST_F(HipGraph, AFailedCaptureAllocatesNothing) {
  size_t before = 0, after = 0, total = 0;
  ASSERT_HIP(hipMemGetInfo(&before, &total));
  ASSERT_HIP(hipStreamBeginCapture(first, hipStreamCaptureModeRelaxed));
  EXPECT_EQ(hipStreamSynchronize(first), hipErrorStreamCaptureUnsupported);
  void* pointer = nullptr;
  EXPECT_EQ(hipMallocAsync(&pointer, 1 << 20, first), hipErrorStreamCaptureInvalidated);
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipStreamEndCapture(first, &graph), hipErrorStreamCaptureInvalidated);
  ASSERT_HIP(hipMemGetInfo(&after, &total));
  EXPECT_EQ(before, after);
}

// There are 2^50 ways from one end of it to the other.
TEST_F(HipGraph, ALadderOfManyPaths) {
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipGraphCreate(&graph, 0));
  std::vector<hipGraphNode_t> nodes(101);
  const auto add = [&](int index, std::vector<hipGraphNode_t> after) {
    ASSERT_HIP(hipGraphAddEmptyNode(&nodes[index], graph, after.data(), after.size()));
  };
  add(0, {});
  for (int i = 1; i < 100; i += 2) {
    const std::vector<hipGraphNode_t> previous =
        i == 1 ? std::vector{nodes[0]} : std::vector{nodes[i - 2], nodes[i - 1]};
    add(i, previous);
    add(i + 1, previous);
  }
  hipGraphNode_t apart = nullptr;
  ASSERT_HIP(hipGraphAddEmptyNode(&apart, graph, nullptr, 0));
  EXPECT_HIP(hipGraphAddDependencies(graph, &nodes[100], &apart, 1));
  EXPECT_EQ(hipGraphAddDependencies(graph, &apart, &nodes[0], 1), hipErrorInvalidValue) << "a circle";
  EXPECT_HIP(hipGraphDestroy(graph));
}

TEST_F(HipGraph, CopiesAndFillsCanBeChangedAfterwards) {
  int host[4] = {};
  hipMemsetParams fill{};
  fill.dst = device;
  fill.elementSize = 4;
  fill.width = 4;
  fill.height = 1;
  fill.value = 7;
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipGraphCreate(&graph, 0));
  hipGraphNode_t filling = nullptr, copying = nullptr;
  ASSERT_HIP(hipGraphAddMemsetNode(&filling, graph, nullptr, 0, &fill));
  ASSERT_HIP(hipGraphAddMemcpyNode1D(&copying, graph, &filling, 1, host, device, 16, hipMemcpyDeviceToHost));
  int type = -1;
  EXPECT_HIP(hipGraphNodeGetType(filling, &type));
  EXPECT_EQ(type, 2);
  hipGraphExec_t executable = nullptr;
  ASSERT_HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  EXPECT_HIP(hipGraphLaunch(executable, first));
  EXPECT_HIP(hipStreamSynchronize(first));
  EXPECT_EQ(host[3], 7);
  fill.value = 9;
  EXPECT_HIP(hipGraphExecMemsetNodeSetParams(executable, filling, &fill));
  EXPECT_HIP(hipGraphLaunch(executable, first));
  EXPECT_HIP(hipStreamSynchronize(first));
  EXPECT_EQ(host[0], 9);

  // A graph of the same shape replaces it, one of another does not.
  hipGraph_t other = nullptr;
  ASSERT_HIP(hipGraphCreate(&other, 0));
  hipGraphNode_t node = nullptr, differs = nullptr;
  fill.value = 11;
  ASSERT_HIP(hipGraphAddMemsetNode(&node, other, nullptr, 0, &fill));
  hipGraphExecUpdateResult result;
  EXPECT_EQ(hipGraphExecUpdate(executable, other, &differs, &result), hipErrorGraphExecUpdateFailure);
  EXPECT_EQ(result, hipGraphExecUpdateErrorTopologyChanged);
  ASSERT_HIP(hipGraphAddMemcpyNode1D(&copying, other, &node, 1, host, device, 16, hipMemcpyDeviceToHost));
  EXPECT_HIP(hipGraphExecUpdate(executable, other, &differs, &result));
  EXPECT_HIP(hipGraphLaunch(executable, first));
  EXPECT_HIP(hipStreamSynchronize(first));
  EXPECT_EQ(host[2], 11);
  EXPECT_HIP(hipGraphExecDestroy(executable));
  EXPECT_EQ(hipGraphLaunch(executable, first), hipErrorInvalidValue);
  EXPECT_HIP(hipGraphDestroy(graph));
  EXPECT_HIP(hipGraphDestroy(other));
}

TEST_F(HipGraph, MemsetParametersInTheOrderOfRocm7) {
  const auto add = symbol<hipError_t(hipGraphNode_t*, hipGraph_t, const hipGraphNode_t*, size_t,
                                     const hipMemsetParamsR0700*)>("hipGraphAddMemsetNode");
  const auto read = symbol<hipError_t(hipGraphNode_t, hipMemsetParamsR0700*)>("hipGraphMemsetNodeGetParams");
  const hipMemsetParamsR0700 fill{device, 16, 0xabcd, 2, 3, 2};
  hipGraph_t graph = nullptr;
  ASSERT_HIP(hipGraphCreate(&graph, 0));
  hipGraphNode_t node = nullptr;
  ASSERT_HIP(add(&node, graph, nullptr, 0, &fill));
  hipMemsetParamsR0700 back{};
  EXPECT_HIP(read(node, &back));
  EXPECT_EQ(back.pitch, 16u);
  EXPECT_EQ(back.width, 3u);
  EXPECT_EQ(back.height, 2u);
  ASSERT_HIP(hipMemset(device, 0, 64));
  run(graph);
  unsigned short host[16];
  ASSERT_HIP(hipMemcpy(host, device, 32, hipMemcpyDeviceToHost));
  for (int i = 0; i < 16; ++i) EXPECT_EQ(host[i], i % 8 < 3 ? 0xabcd : 0) << i;
  EXPECT_HIP(hipGraphDestroy(graph));
}

TEST_F(HipGraph, ChildGraphsAreCopies) {
  Trace trace;
  Step a{&trace, 'a'}, b{&trace, 'b'}, c{&trace, 'c'};
  hipGraph_t parent = nullptr, child = nullptr;
  ASSERT_HIP(hipGraphCreate(&parent, 0));
  ASSERT_HIP(hipGraphCreate(&child, 0));
  host_node(child, {}, b);
  const hipGraphNode_t before = host_node(parent, {}, a);
  hipGraphNode_t inner = nullptr;
  ASSERT_HIP(hipGraphAddChildGraphNode(&inner, parent, &before, 1, child));
  EXPECT_HIP(hipGraphDestroy(child));
  host_node(parent, {inner}, c);
  run(parent);
  EXPECT_EQ(trace.text, "abc");
  EXPECT_HIP(hipGraphDestroy(parent));
}

TEST_F(HipGraph, BadArguments) {
  hipGraph_t graph = nullptr;
  EXPECT_EQ(hipGraphCreate(nullptr, 0), hipErrorInvalidValue);
  EXPECT_EQ(hipGraphCreate(&graph, 1), hipErrorInvalidValue);
  ASSERT_HIP(hipGraphCreate(&graph, 0));
  hipGraphNode_t node = nullptr, alien = made_up<hipGraphNode_t>();
  EXPECT_EQ(hipGraphAddEmptyNode(&node, graph, &alien, 1), hipErrorInvalidValue);
  EXPECT_EQ(hipGraphAddEmptyNode(&node, graph, nullptr, 1), hipErrorInvalidValue);
  EXPECT_EQ(hipGraphAddEmptyNode(&node, made_up<hipGraph_t>(), nullptr, 0), hipErrorInvalidValue);
  EXPECT_EQ(hipGraphAddMemcpyNode1D(&node, graph, nullptr, 0, device, device, 65, hipMemcpyDeviceToDevice),
            hipErrorInvalidValue);
  EXPECT_EQ(hipGraphLaunch(made_up<hipGraphExec_t>(), first), hipErrorInvalidValue);
  EXPECT_HIP(hipGraphDestroy(graph));
}

}  // namespace
