// Sum of an array: within a block through LDS and lanes, then over the blocks' results.
#include <vector>

#include "check.h"

template <unsigned BlockSize>
__global__ __launch_bounds__(BlockSize) void block_sums(const int* in, long long* out, unsigned size) {
  __shared__ long long partial[BlockSize];
  long long sum = 0;
  for (unsigned i = blockIdx.x * BlockSize + threadIdx.x; i < size; i += BlockSize * gridDim.x) sum += in[i];
  partial[threadIdx.x] = sum;
  __syncthreads();
  for (unsigned half = BlockSize / 2; half >= static_cast<unsigned>(warpSize); half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x < static_cast<unsigned>(warpSize)) {
    sum = partial[threadIdx.x];
    for (int offset = warpSize / 2; offset > 0; offset /= 2) sum += __shfl_down(sum, offset);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
  }
}

int main() {
  constexpr unsigned size = 30011, blocks = 8;
  std::vector<int> in(size);
  long long expected = 0;
  for (unsigned i = 0; i < size; ++i) expected += in[i] = static_cast<int>(i * 2654435761u >> 12) - 500000;
  int* device_in;
  long long* device_out;
  HIP_CHECK(hipMalloc(&device_in, size * sizeof(int)));
  HIP_CHECK(hipMalloc(&device_out, blocks * sizeof(long long)));
  HIP_CHECK(hipMemcpy(device_in, in.data(), size * sizeof(int), hipMemcpyHostToDevice));
  block_sums<256><<<blocks, 256>>>(device_in, device_out, size);
  HIP_CHECK(hipGetLastError());
  std::vector<long long> out(blocks);
  HIP_CHECK(hipMemcpy(out.data(), device_out, blocks * sizeof(long long), hipMemcpyDeviceToHost));
  long long sum = 0;
  for (const long long each : out) sum += each;
  CHECK(sum == expected);
  HIP_CHECK(hipFree(device_in));
  HIP_CHECK(hipFree(device_out));
  return passed("reduction");
}
