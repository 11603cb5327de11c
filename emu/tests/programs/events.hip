// Events: time, order, and what must not be asked.
#include "check.h"

__global__ void spin(unsigned* out, unsigned rounds) {
  unsigned value = threadIdx.x;
  for (unsigned i = 0; i < rounds; ++i) value = value * 1664525u + 1013904223u;
  out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

int main() {
  unsigned* out;
  HIP_CHECK(hipMalloc(&out, 256 * sizeof(unsigned)));
  hipStream_t stream;
  HIP_CHECK(hipStreamCreate(&stream));
  hipEvent_t start, stop, untimed;
  HIP_CHECK(hipEventCreate(&start));
  HIP_CHECK(hipEventCreate(&stop));
  HIP_CHECK(hipEventCreateWithFlags(&untimed, hipEventDisableTiming));
  float milliseconds = -1;
  CHECK(hipEventElapsedTime(&milliseconds, start, stop) == hipErrorInvalidHandle);  // not recorded
  HIP_CHECK(hipEventQuery(start));

  HIP_CHECK(hipEventRecord(start, stream));
  spin<<<4, 64, 0, stream>>>(out, 2000);
  HIP_CHECK(hipEventRecord(stop, stream));
  HIP_CHECK(hipEventRecord(untimed, stream));
  HIP_CHECK(hipEventSynchronize(stop));
  HIP_CHECK(hipEventElapsedTime(&milliseconds, start, stop));
  CHECK(milliseconds > 0 && milliseconds < 60000);
  HIP_CHECK(hipEventSynchronize(untimed));
  CHECK(hipEventElapsedTime(&milliseconds, start, untimed) == hipErrorInvalidHandle);
  HIP_CHECK(hipEventQuery(stop));

  HIP_CHECK(hipEventDestroy(start));
  CHECK(hipEventRecord(start, stream) == hipErrorInvalidHandle);  // destroyed
  CHECK(hipGetLastError() == hipErrorInvalidHandle);
  HIP_CHECK(hipEventDestroy(stop));
  HIP_CHECK(hipEventDestroy(untimed));
  HIP_CHECK(hipStreamDestroy(stream));
  HIP_CHECK(hipFree(out));
  return passed("events");
}
