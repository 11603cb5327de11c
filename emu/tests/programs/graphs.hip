// A graph from a captured stream that forks and joins, and one built by hand; both launched again and again.
#include <vector>

#include "check.h"

__global__ void fill(int* data, int value, unsigned size) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) data[i] = value;
}
__global__ void add(int* sum, const int* a, const int* b, unsigned size) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) sum[i] += a[i] + b[i];
}

constexpr unsigned size = 1000, bytes = size * sizeof(int);

static void captured(int* a, int* b, int* sum) {
  hipStream_t first, second;
  hipEvent_t fork, join;
  HIP_CHECK(hipStreamCreate(&first));
  HIP_CHECK(hipStreamCreate(&second));
  HIP_CHECK(hipEventCreate(&fork));
  HIP_CHECK(hipEventCreate(&join));
  HIP_CHECK(hipMemset(sum, 0, bytes));

  HIP_CHECK(hipStreamBeginCapture(first, hipStreamCaptureModeGlobal));
  HIP_CHECK(hipEventRecord(fork, first));
  HIP_CHECK(hipStreamWaitEvent(second, fork, 0));
  fill<<<4, 256, 0, first>>>(a, 3, size);
  fill<<<4, 256, 0, second>>>(b, 4, size);
  HIP_CHECK(hipEventRecord(join, second));
  HIP_CHECK(hipStreamWaitEvent(first, join, 0));
  add<<<4, 256, 0, first>>>(sum, a, b, size);
  hipStreamCaptureStatus status;
  HIP_CHECK(hipStreamIsCapturing(second, &status));
  CHECK(status == hipStreamCaptureStatusActive);
  hipGraph_t graph;
  HIP_CHECK(hipStreamEndCapture(first, &graph));

  size_t nodes = 0, edges = 0;
  HIP_CHECK(hipGraphGetNodes(graph, nullptr, &nodes));
  HIP_CHECK(hipGraphGetEdges(graph, nullptr, nullptr, &edges));
  CHECK(nodes == 3 && edges == 2);
  hipGraphExec_t executable;
  HIP_CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  for (int launch = 0; launch < 3; ++launch) HIP_CHECK(hipGraphLaunch(executable, first));
  HIP_CHECK(hipStreamSynchronize(first));
  std::vector<int> result(size);
  HIP_CHECK(hipMemcpy(result.data(), sum, bytes, hipMemcpyDeviceToHost));
  for (const int each : result) CHECK(each == 3 * (3 + 4));
  HIP_CHECK(hipGraphExecDestroy(executable));
  HIP_CHECK(hipGraphDestroy(graph));
  HIP_CHECK(hipEventDestroy(fork));
  HIP_CHECK(hipEventDestroy(join));
  HIP_CHECK(hipStreamDestroy(first));
  HIP_CHECK(hipStreamDestroy(second));
}

static void built(int* a, int* b, int* sum) {
  hipGraph_t graph;
  HIP_CHECK(hipGraphCreate(&graph, 0));
  hipMemsetParams zero{};
  zero.dst = sum;
  zero.elementSize = 4;
  zero.width = size;
  zero.height = 1;
  hipGraphNode_t clear, fill_a, fill_b, add_both, read;
  HIP_CHECK(hipGraphAddMemsetNode(&clear, graph, nullptr, 0, &zero));
  unsigned count = size;
  int value = 11;
  void* fill_a_arguments[] = {&a, &value, &count};
  hipKernelNodeParams launch{};
  launch.func = reinterpret_cast<void*>(fill);
  launch.gridDim = dim3(4);
  launch.blockDim = dim3(256);
  launch.kernelParams = fill_a_arguments;
  HIP_CHECK(hipGraphAddKernelNode(&fill_a, graph, nullptr, 0, &launch));
  void* fill_b_arguments[] = {&b, &value, &count};
  launch.kernelParams = fill_b_arguments;
  HIP_CHECK(hipGraphAddKernelNode(&fill_b, graph, nullptr, 0, &launch));
  void* add_arguments[] = {&sum, &a, &b, &count};
  launch.func = reinterpret_cast<void*>(add);
  launch.kernelParams = add_arguments;
  const hipGraphNode_t before_add[] = {clear, fill_a, fill_b};
  HIP_CHECK(hipGraphAddKernelNode(&add_both, graph, before_add, 3, &launch));
  std::vector<int> result(size);
  HIP_CHECK(
      hipGraphAddMemcpyNode1D(&read, graph, &add_both, 1, result.data(), sum, bytes, hipMemcpyDeviceToHost));

  hipGraphExec_t executable;
  HIP_CHECK(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
  HIP_CHECK(hipGraphLaunch(executable, nullptr));
  HIP_CHECK(hipDeviceSynchronize());
  for (const int each : result) CHECK(each == 22);

  value = 100;
  launch.func = reinterpret_cast<void*>(fill);
  launch.kernelParams = fill_b_arguments;
  HIP_CHECK(hipGraphExecKernelNodeSetParams(executable, fill_b, &launch));
  HIP_CHECK(hipGraphLaunch(executable, nullptr));
  HIP_CHECK(hipDeviceSynchronize());
  for (const int each : result) CHECK(each == 111);
  HIP_CHECK(hipGraphExecDestroy(executable));
  HIP_CHECK(hipGraphDestroy(graph));
}

int main() {
  int *a, *b, *sum;
  HIP_CHECK(hipMalloc(&a, bytes));
  HIP_CHECK(hipMalloc(&b, bytes));
  HIP_CHECK(hipMalloc(&sum, bytes));
  captured(a, b, sum);
  built(a, b, sum);
  for (int* each : {a, b, sum}) HIP_CHECK(hipFree(each));
  return passed("graphs");
}
