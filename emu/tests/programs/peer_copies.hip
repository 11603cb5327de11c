// Two devices (the same chip twice, or two chips): copies between them and kernels that read across.
#include <vector>

#include "check.h"

__global__ void add_one(const int* in, int* out, unsigned size) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) out[i] = in[i] + 1;
}

int main() {
  int devices = 0;
  HIP_CHECK(hipGetDeviceCount(&devices));
  CHECK(devices >= 2);
  constexpr unsigned size = 1200, bytes = size * sizeof(int);
  int can = 0;
  HIP_CHECK(hipDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 1);
  std::vector<int> host(size);
  for (unsigned i = 0; i < size; ++i) host[i] = static_cast<int>(i * 3);
  int *on_first, *on_second, *result;
  HIP_CHECK(hipSetDevice(0));
  HIP_CHECK(hipMalloc(&on_first, bytes));
  HIP_CHECK(hipMemcpy(on_first, host.data(), bytes, hipMemcpyHostToDevice));
  HIP_CHECK(hipSetDevice(1));
  HIP_CHECK(hipMalloc(&on_second, bytes));
  HIP_CHECK(hipMalloc(&result, bytes));
  HIP_CHECK(hipMemcpyPeer(on_second, 1, on_first, 0, bytes));
  add_one<<<5, 256>>>(on_second, result, size);
  HIP_CHECK(hipMemcpy(host.data(), result, bytes, hipMemcpyDeviceToHost));
  for (unsigned i = 0; i < size; ++i) CHECK(host[i] == static_cast<int>(i * 3 + 1));

  HIP_CHECK(hipDeviceEnablePeerAccess(0, 0));
  CHECK(hipDeviceEnablePeerAccess(0, 0) == hipErrorPeerAccessAlreadyEnabled);
  (void)hipGetLastError();
  add_one<<<5, 256>>>(on_first, result, size);
  HIP_CHECK(hipMemcpy(host.data(), result, bytes, hipMemcpyDeviceToHost));
  for (unsigned i = 0; i < size; ++i) CHECK(host[i] == static_cast<int>(i * 3 + 1));
  HIP_CHECK(hipDeviceDisablePeerAccess(0));
  for (int* each : {on_first, on_second, result}) HIP_CHECK(hipFree(each));
  return passed("peer_copies");
}
