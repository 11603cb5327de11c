// Managed memory and a managed variable: both sides use the same pointer.
#include "check.h"

__managed__ int counter = 5;

__global__ void square(int* data, unsigned size) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) {
    data[i] *= data[i];
    atomicAdd(&counter, 1);
  }
}

int main() {
  constexpr unsigned size = 500;
  int* data;
  HIP_CHECK(hipMallocManaged(&data, size * sizeof(int)));
  for (unsigned i = 0; i < size; ++i) data[i] = static_cast<int>(i);
  CHECK(counter == 5);
  counter = 7;
  HIP_CHECK(hipMemAdvise(data, size * sizeof(int), hipMemAdviseSetPreferredLocation, 0));
  HIP_CHECK(hipMemPrefetchAsync(data, size * sizeof(int), 0, nullptr));
  square<<<2, 256>>>(data, size);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipDeviceSynchronize());
  for (unsigned i = 0; i < size; ++i) CHECK(data[i] == static_cast<int>(i * i));
  CHECK(counter == 7 + static_cast<int>(size));
  hipPointerAttribute_t attributes;
  HIP_CHECK(hipPointerGetAttributes(&attributes, data + 3));
  CHECK(attributes.isManaged && attributes.devicePointer == data + 3);
  HIP_CHECK(hipFree(data));
  return passed("managed_memory");
}
