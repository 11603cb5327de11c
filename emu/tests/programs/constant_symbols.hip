// __constant__ and __device__ variables, read and written by their names.
#include <vector>

#include "check.h"

__constant__ float coefficients[4];
__device__ int calls = 3;
__device__ float table[64];

__global__ void polynomial(const float* x, float* y, unsigned size) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) {
    y[i] = coefficients[0] + x[i] * (coefficients[1] + x[i] * (coefficients[2] + x[i] * coefficients[3]));
    table[i % 64] = static_cast<float>(i % 64);
  }
  if (i == 0) ++calls;
}

int main() {
  constexpr unsigned size = 300;
  const float host[4] = {1, -2, 0.5f, 0.25f};
  HIP_CHECK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), host, sizeof host));
  const float last = 3;
  HIP_CHECK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), &last, sizeof last, 3 * sizeof(float)));
  std::vector<float> x(size), y(size);
  for (unsigned i = 0; i < size; ++i) x[i] = static_cast<float>(i) * 0.01f;
  float *device_x, *device_y;
  HIP_CHECK(hipMalloc(&device_x, size * sizeof(float)));
  HIP_CHECK(hipMalloc(&device_y, size * sizeof(float)));
  HIP_CHECK(hipMemcpy(device_x, x.data(), size * sizeof(float), hipMemcpyHostToDevice));
  polynomial<<<2, 256>>>(device_x, device_y, size);
  HIP_CHECK(hipMemcpy(y.data(), device_y, size * sizeof(float), hipMemcpyDeviceToHost));
  for (unsigned i = 0; i < size; ++i) CHECK(close_to(y[i], 1 + x[i] * (-2 + x[i] * (0.5 + x[i] * 3.0))));
  int seen = 0;
  HIP_CHECK(hipMemcpyFromSymbol(&seen, HIP_SYMBOL(calls), sizeof seen));
  CHECK(seen == 4);
  void* address = nullptr;
  size_t bytes = 0;
  HIP_CHECK(hipGetSymbolAddress(&address, HIP_SYMBOL(table)));
  HIP_CHECK(hipGetSymbolSize(&bytes, HIP_SYMBOL(table)));
  CHECK(bytes == 64 * sizeof(float));
  float entries[64];
  HIP_CHECK(hipMemcpy(entries, address, bytes, hipMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) CHECK(entries[i] == static_cast<float>(i));
  CHECK(hipMemcpyToSymbol(HIP_SYMBOL(coefficients), host, sizeof host, 4) == hipErrorInvalidValue);
  (void)hipGetLastError();
  HIP_CHECK(hipFree(device_x));
  HIP_CHECK(hipFree(device_y));
  return passed("constant_symbols");
}
