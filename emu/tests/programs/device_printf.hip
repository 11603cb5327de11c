// printf from a kernel: the test looks for what it prints.
#include "check.h"

__global__ void greet(float value) {
  const unsigned block = blockIdx.x, blocks = gridDim.x;  // these are objects, which cannot be passed
  if (threadIdx.x != 3) return;
  printf("block %u of %u: %s %d %.2f %c\n", block, blocks, "three", -7, value, 'x');
  // A precision that is none, and what C's printf does not know.
  const char* format = "<%.*f> <%5%> <%S> <%1$d> %d\n";
  printf(format, -1, value, 9);
}

int main() {
  greet<<<2, 32>>>(1.5f);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipDeviceSynchronize());
  return passed("device_printf");
}
