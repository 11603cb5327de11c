// Counts of bytes: atomics in dynamic LDS, then into global memory.
#include <vector>

#include "check.h"

constexpr unsigned bins = 256;

__global__ void histogram(const unsigned char* data, unsigned size, unsigned* counts) {
  extern __shared__ unsigned local[];
  for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x) local[bin] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += blockDim.x * gridDim.x)
    atomicAdd(&local[data[i]], 1u);
  __syncthreads();
  for (unsigned bin = threadIdx.x; bin < bins; bin += blockDim.x) atomicAdd(&counts[bin], local[bin]);
}

int main() {
  constexpr unsigned size = 20000;
  std::vector<unsigned char> data(size);
  std::vector<unsigned> expected(bins), counts(bins);
  unsigned state = 12345;
  for (unsigned char& value : data) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<unsigned char>(state >> 24);
    ++expected[value];
  }
  unsigned char* device_data;
  unsigned* device_counts;
  HIP_CHECK(hipMalloc(&device_data, size));
  HIP_CHECK(hipMalloc(&device_counts, bins * sizeof(unsigned)));
  HIP_CHECK(hipMemcpy(device_data, data.data(), size, hipMemcpyHostToDevice));
  HIP_CHECK(hipMemset(device_counts, 0, bins * sizeof(unsigned)));
  histogram<<<12, 128, bins * sizeof(unsigned)>>>(device_data, size, device_counts);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpy(counts.data(), device_counts, bins * sizeof(unsigned), hipMemcpyDeviceToHost));
  CHECK(counts == expected);
  HIP_CHECK(hipFree(device_data));
  HIP_CHECK(hipFree(device_counts));
  return passed("histogram");
}
