// Atomic operations of many threads on few words, in global memory and LDS.
#include <vector>

#include "check.h"

struct Words {
  int sum, least, greatest, bits_or, bits_and, bits_xor;
  unsigned exchanged;
  unsigned long long wide;
  float real;
  double precise;
  unsigned claimed;
};

__global__ void operate(Words* words, unsigned* order) {
  __shared__ int local;
  const int id = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (threadIdx.x == 0) local = 0;
  __syncthreads();
  atomicAdd(&local, id);
  __syncthreads();
  if (threadIdx.x == 0) atomicAdd(&words->sum, local);
  atomicMin(&words->least, 100 - id);
  atomicMax(&words->greatest, id * 2);
  atomicOr(&words->bits_or, 1 << (id % 31));
  atomicAnd(&words->bits_and, ~(1 << (id % 7)));
  atomicXor(&words->bits_xor, id);
  atomicExch(&words->exchanged, static_cast<unsigned>(id) + 1);
  atomicAdd(&words->wide, 1ull << 33);
  atomicAdd(&words->real, 0.5f);
  atomicAdd(&words->precise, 0.25);
  // A counter by compare and swap: every thread gets a number of its own.
  unsigned seen = 0, expected;
  do {
    expected = seen;
    seen = atomicCAS(&words->claimed, expected, expected + 1);
  } while (seen != expected);
  order[expected] = static_cast<unsigned>(id);
}

int main() {
  constexpr int threads = 512;
  Words words{};
  words.least = 1000;
  words.bits_and = -1;
  Words* device;
  unsigned* order;
  HIP_CHECK(hipMalloc(&device, sizeof words));
  HIP_CHECK(hipMalloc(&order, threads * sizeof(unsigned)));
  HIP_CHECK(hipMemcpy(device, &words, sizeof words, hipMemcpyHostToDevice));
  operate<<<4, threads / 4>>>(device, order);
  HIP_CHECK(hipGetLastError());
  HIP_CHECK(hipMemcpy(&words, device, sizeof words, hipMemcpyDeviceToHost));
  std::vector<unsigned> numbers(threads);
  HIP_CHECK(hipMemcpy(numbers.data(), order, threads * sizeof(unsigned), hipMemcpyDeviceToHost));
  int x = 0;
  for (int i = 0; i < threads; ++i) x ^= i;
  CHECK(words.sum == threads * (threads - 1) / 2);
  CHECK(words.least == 100 - (threads - 1));
  CHECK(words.greatest == (threads - 1) * 2);
  CHECK(words.bits_or == 0x7fffffff);
  CHECK(words.bits_and == ~0x7f);
  CHECK(words.bits_xor == x);
  CHECK(words.exchanged >= 1 && words.exchanged <= threads);
  CHECK(words.wide == static_cast<unsigned long long>(threads) << 33);
  CHECK(words.real == threads * 0.5f);
  CHECK(words.precise == threads * 0.25);
  CHECK(words.claimed == threads);
  std::vector<bool> found(threads);
  for (const unsigned id : numbers) {
    CHECK(id < threads && !found[id]);
    found[id] = true;
  }
  HIP_CHECK(hipFree(device));
  HIP_CHECK(hipFree(order));
  return passed("atomics");
}
