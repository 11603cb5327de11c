// y = a x + y over more elements than threads.
#include <vector>

#include "check.h"

__global__ void saxpy(float a, const float* x, float* y, unsigned size) {
  const unsigned step = blockDim.x * gridDim.x;
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += step) y[i] = a * x[i] + y[i];
}

int main() {
  constexpr unsigned size = 10007;
  constexpr float a = 2.5f;
  std::vector<float> x(size), y(size);
  for (unsigned i = 0; i < size; ++i) {
    x[i] = static_cast<float>(i % 100);
    y[i] = static_cast<float>(i % 7);
  }
  float *device_x, *device_y;
  HIP_CHECK(hipMalloc(&device_x, size * sizeof(float)));
  HIP_CHECK(hipMalloc(&device_y, size * sizeof(float)));
  HIP_CHECK(hipMemcpy(device_x, x.data(), size * sizeof(float), hipMemcpyHostToDevice));
  HIP_CHECK(hipMemcpy(device_y, y.data(), size * sizeof(float), hipMemcpyHostToDevice));
  saxpy<<<dim3(16), dim3(256), 0, hipStreamDefault>>>(a, device_x, device_y, size);
  HIP_CHECK(hipGetLastError());
  std::vector<float> result(size);
  HIP_CHECK(hipMemcpy(result.data(), device_y, size * sizeof(float), hipMemcpyDeviceToHost));
  for (unsigned i = 0; i < size; ++i) CHECK(close_to(result[i], a * x[i] + y[i]));
  HIP_CHECK(hipFree(device_x));
  HIP_CHECK(hipFree(device_y));
  return passed("saxpy");
}
