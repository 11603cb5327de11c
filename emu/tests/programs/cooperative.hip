// Cooperative groups: tiles of a block, and a grid that synchronises.
#include <hip/hip_runtime.h>
// After the runtime's header, on which it relies.
#include <hip/hip_cooperative_groups.h>

#include <vector>

#include "check.h"

namespace cg = cooperative_groups;

// Every block writes; after the grid's barrier every block reads what all the others have written.
__global__ void sum_of_all(const int* in, int* partial, int* out, int size) {
  __shared__ int sums[256];
  const cg::grid_group grid = cg::this_grid();
  const cg::thread_block block = cg::this_thread_block();
  int sum = 0;
  for (int i = static_cast<int>(grid.thread_rank()); i < size; i += static_cast<int>(grid.size()))
    sum += in[i];
  sums[block.thread_rank()] = sum;
  block.sync();
  for (unsigned half = block.size() / 2; half > 0; half /= 2) {
    if (block.thread_rank() < half) sums[block.thread_rank()] += sums[block.thread_rank() + half];
    block.sync();
  }
  if (block.thread_rank() == 0) partial[blockIdx.x] = sums[0];
  grid.sync();
  if (block.thread_rank() == 0) {
    int total = 0;
    for (unsigned i = 0; i < gridDim.x; ++i) total += partial[i];
    out[blockIdx.x] = total;
  }
}

__global__ void tile_sums(int* out) {
  const cg::thread_block block = cg::this_thread_block();
  const cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
  int value = static_cast<int>(threadIdx.x);
  for (int offset = 8; offset > 0; offset /= 2) value += tile.shfl_xor(value, offset);
  out[threadIdx.x] = value;
}

int main() {
  int size = 4000;
  std::vector<int> in(size);
  int expected = 0;
  for (int i = 0; i < size; ++i) expected += in[i] = i % 31 - 10;
  constexpr unsigned blocks = 4, threads = 128;
  int *device_in, *partial, *out;
  HIP_CHECK(hipMalloc(&device_in, size * sizeof(int)));
  HIP_CHECK(hipMalloc(&partial, blocks * sizeof(int)));
  HIP_CHECK(hipMalloc(&out, threads * sizeof(int)));
  HIP_CHECK(hipMemcpy(device_in, in.data(), size * sizeof(int), hipMemcpyHostToDevice));
  int resident = 0;
  HIP_CHECK(hipOccupancyMaxActiveBlocksPerMultiprocessor(&resident, sum_of_all, threads, 0));
  CHECK(resident > 0);
  void* arguments[] = {&device_in, &partial, &out, &size};
  HIP_CHECK(hipLaunchCooperativeKernel(reinterpret_cast<void*>(sum_of_all), dim3(blocks), dim3(threads),
                                       arguments, 0, nullptr));
  std::vector<int> result(threads);
  HIP_CHECK(hipMemcpy(result.data(), out, blocks * sizeof(int), hipMemcpyDeviceToHost));
  for (unsigned i = 0; i < blocks; ++i) CHECK(result[i] == expected);

  tile_sums<<<1, threads>>>(out);
  HIP_CHECK(hipMemcpy(result.data(), out, threads * sizeof(int), hipMemcpyDeviceToHost));
  for (unsigned i = 0; i < threads; ++i) {
    const int first = static_cast<int>(i / 16 * 16);
    CHECK(result[i] == 16 * first + 120);
  }
  // More blocks than fit at a time cannot wait for each other.
  const hipError_t too_many = hipLaunchCooperativeKernel(reinterpret_cast<void*>(sum_of_all), dim3(1 << 20),
                                                         dim3(threads), arguments, 0, nullptr);
  CHECK(too_many == hipErrorCooperativeLaunchTooLarge);
  (void)hipGetLastError();
  for (int* each : {device_in, partial, out}) HIP_CHECK(hipFree(each));
  return passed("cooperative");
}
