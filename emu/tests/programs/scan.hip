// Exclusive prefix sums: blocks, their sums, and both together; with shuffles between lanes.
#include <vector>

#include "check.h"

constexpr unsigned block_size = 256;

__device__ int inclusive_in_wave(int value) {
  const int lane = threadIdx.x % warpSize;
  for (int offset = 1; offset < warpSize; offset *= 2) {
    const int other = __shfl_up(value, offset);
    if (lane >= offset) value += other;
  }
  return value;
}

__global__ void scan_blocks(const int* in, int* out, int* sums, unsigned size) {
  __shared__ int wave_sums[block_size / 32];
  const unsigned i = blockIdx.x * block_size + threadIdx.x;
  const int wave = threadIdx.x / warpSize, lane = threadIdx.x % warpSize;
  const int value = i < size ? in[i] : 0;
  int inclusive = inclusive_in_wave(value);
  if (lane == warpSize - 1) wave_sums[wave] = inclusive;
  __syncthreads();
  int before = 0;
  for (int each = 0; each < wave; ++each) before += wave_sums[each];
  inclusive += before;
  if (i < size) out[i] = inclusive - value;
  if (sums && threadIdx.x == block_size - 1) sums[blockIdx.x] = inclusive;
}

__global__ void add_offsets(int* out, const int* offsets, unsigned size) {
  const unsigned i = blockIdx.x * block_size + threadIdx.x;
  if (i < size) out[i] += offsets[blockIdx.x];
}

int main() {
  constexpr unsigned size = 5000, blocks = (size + block_size - 1) / block_size;
  static_assert(blocks <= block_size, "the sums are scanned by one block");
  std::vector<int> in(size), out(size);
  for (unsigned i = 0; i < size; ++i) in[i] = static_cast<int>(i * 37 % 101) - 50;
  int *device_in, *device_out, *device_sums, *device_offsets;
  HIP_CHECK(hipMalloc(&device_in, size * sizeof(int)));
  HIP_CHECK(hipMalloc(&device_out, size * sizeof(int)));
  HIP_CHECK(hipMalloc(&device_sums, blocks * sizeof(int)));
  HIP_CHECK(hipMalloc(&device_offsets, blocks * sizeof(int)));
  HIP_CHECK(hipMemcpy(device_in, in.data(), size * sizeof(int), hipMemcpyHostToDevice));
  scan_blocks<<<blocks, block_size>>>(device_in, device_out, device_sums, size);
  scan_blocks<<<1, block_size>>>(device_sums, device_offsets, nullptr, blocks);
  add_offsets<<<blocks, block_size>>>(device_out, device_offsets, size);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpy(out.data(), device_out, size * sizeof(int), hipMemcpyDeviceToHost));
  int expected = 0;
  for (unsigned i = 0; i < size; ++i) {
    CHECK(out[i] == expected);
    expected += in[i];
  }
  for (int* each : {device_in, device_out, device_sums, device_offsets}) HIP_CHECK(hipFree(each));
  return passed("scan");
}
