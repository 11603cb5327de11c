// C = A B with tiles in LDS, sizes that the tile does not divide.
#include <vector>

#include "check.h"

constexpr int tile = 16;

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
  __shared__ float tile_a[tile][tile], tile_b[tile][tile + 1];
  const int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  float sum = 0;
  for (int start = 0; start < k; start += tile) {
    const int ka = start + threadIdx.x, kb = start + threadIdx.y;
    tile_a[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0.0f;
    tile_b[threadIdx.y][threadIdx.x] = kb < k && column < n ? b[kb * n + column] : 0.0f;
    __syncthreads();
    for (int i = 0; i < tile; ++i) sum += tile_a[threadIdx.y][i] * tile_b[i][threadIdx.x];
    __syncthreads();
  }
  if (row < m && column < n) c[row * n + column] = sum;
}

int main() {
  constexpr int m = 45, n = 67, k = 53;
  std::vector<float> a(m * k), b(k * n), c(m * n);
  for (int i = 0; i < m * k; ++i) a[i] = static_cast<float>(i % 13) - 6;
  for (int i = 0; i < k * n; ++i) b[i] = static_cast<float>(i % 17) * 0.25f;
  float *device_a, *device_b, *device_c;
  HIP_CHECK(hipMalloc(&device_a, a.size() * sizeof(float)));
  HIP_CHECK(hipMalloc(&device_b, b.size() * sizeof(float)));
  HIP_CHECK(hipMalloc(&device_c, c.size() * sizeof(float)));
  HIP_CHECK(hipMemcpy(device_a, a.data(), a.size() * sizeof(float), hipMemcpyHostToDevice));
  HIP_CHECK(hipMemcpy(device_b, b.data(), b.size() * sizeof(float), hipMemcpyHostToDevice));
  const dim3 block(tile, tile), grid((n + tile - 1) / tile, (m + tile - 1) / tile);
  matmul<<<grid, block>>>(device_a, device_b, device_c, m, n, k);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpy(c.data(), device_c, c.size() * sizeof(float), hipMemcpyDeviceToHost));
  for (int row = 0; row < m; ++row)
    for (int column = 0; column < n; ++column) {
      double sum = 0;
      for (int i = 0; i < k; ++i) sum += static_cast<double>(a[row * k + i]) * b[i * n + column];
      CHECK(close_to(c[row * n + column], sum));
    }
  HIP_CHECK(hipFree(device_a));
  HIP_CHECK(hipFree(device_b));
  HIP_CHECK(hipFree(device_c));
  return passed("tiled_matmul");
}
