// Work in several streams, ordered by events, callbacks and the null stream.
#include <atomic>
#include <vector>

#include "check.h"

__global__ void add_to(int* data, int value, unsigned size) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) data[i] += value;
}

static std::atomic<int> calls{0};
static void count_call(hipStream_t, hipError_t status, void* data) {
  if (status == hipSuccess) calls += *static_cast<int*>(data);
}

int main() {
  constexpr unsigned size = 2048;
  constexpr int stream_count = 4;
  hipStream_t streams[stream_count];
  int* pinned[stream_count];
  int* device[stream_count];
  int one = 1;
  for (int s = 0; s < stream_count; ++s) {
    HIP_CHECK(hipStreamCreateWithFlags(&streams[s], s % 2 ? hipStreamNonBlocking : hipStreamDefault));
    HIP_CHECK(hipHostMalloc(&pinned[s], size * sizeof(int), hipHostMallocDefault));
    HIP_CHECK(hipMalloc(&device[s], size * sizeof(int)));
    for (unsigned i = 0; i < size; ++i) pinned[s][i] = static_cast<int>(i) * s;
    HIP_CHECK(hipMemcpyAsync(device[s], pinned[s], size * sizeof(int), hipMemcpyHostToDevice, streams[s]));
    add_to<<<size / 256, 256, 0, streams[s]>>>(device[s], 10 + s, size);
    HIP_CHECK(hipMemcpyAsync(pinned[s], device[s], size * sizeof(int), hipMemcpyDeviceToHost, streams[s]));
    HIP_CHECK(hipStreamAddCallback(streams[s], count_call, &one, 0));
  }
  for (hipStream_t stream : streams) HIP_CHECK(hipStreamSynchronize(stream));
  for (int s = 0; s < stream_count; ++s) {
    HIP_CHECK(hipStreamQuery(streams[s]));
    for (unsigned i = 0; i < size; ++i) CHECK(pinned[s][i] == static_cast<int>(i) * s + 10 + s);
  }
  CHECK(calls == stream_count);

  // Stream 1 does not wait for the null stream: it has to be told.
  hipEvent_t ready;
  HIP_CHECK(hipEventCreateWithFlags(&ready, hipEventDisableTiming));
  HIP_CHECK(hipMemsetAsync(device[0], 0, size * sizeof(int), streams[0]));
  add_to<<<size / 256, 256, 0, streams[0]>>>(device[0], 5, size);
  HIP_CHECK(hipEventRecord(ready, streams[0]));
  HIP_CHECK(hipStreamWaitEvent(streams[1], ready, 0));
  HIP_CHECK(hipMemcpyAsync(pinned[1], device[0], size * sizeof(int), hipMemcpyDeviceToHost, streams[1]));
  HIP_CHECK(hipStreamSynchronize(streams[1]));
  for (unsigned i = 0; i < size; ++i) CHECK(pinned[1][i] == 5);

  // Streams 0 and 2 wait for the null stream, and it for them.
  add_to<<<size / 256, 256, 0, streams[0]>>>(device[2], 100, size);
  add_to<<<size / 256, 256>>>(device[2], 1000, size);
  add_to<<<size / 256, 256, 0, streams[2]>>>(device[2], 10000, size);
  HIP_CHECK(hipMemcpy(pinned[2], device[2], size * sizeof(int), hipMemcpyDeviceToHost));
  for (unsigned i = 0; i < size; ++i) CHECK(pinned[2][i] == static_cast<int>(i) * 2 + 12 + 11100);

  HIP_CHECK(hipEventDestroy(ready));
  for (int s = 0; s < stream_count; ++s) {
    HIP_CHECK(hipStreamDestroy(streams[s]));
    HIP_CHECK(hipHostFree(pinned[s]));
    HIP_CHECK(hipFree(device[s]));
  }
  return passed("streams");
}
