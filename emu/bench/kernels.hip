// The kernels whose emulation is timed.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))

using half = _Float16;
template <class T, int N>
using Vector = T __attribute__((ext_vector_type(N)));

__device__ inline int thread_x() { return __builtin_amdgcn_workitem_id_x(); }
__device__ inline int thread_y() { return __builtin_amdgcn_workitem_id_y(); }
__device__ inline int block_x() { return __builtin_amdgcn_workgroup_id_x(); }
__device__ inline int block_y() { return __builtin_amdgcn_workgroup_id_y(); }

// c = a * b, one thread per element, blocks of 16 x 16.
extern "C" __global__ void matmul(const float* a, const float* b, float* c, int n) {
  const int row = block_y() * 16 + thread_y(), column = block_x() * 16 + thread_x();
  if (row >= n || column >= n) return;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}

// Rows of `columns` numbers, one block of 256 threads for each.
extern "C" __global__ void softmax(const float* x, float* y, int columns) {
  __shared__ float partial[256];
  const int t = thread_x();
  const float* in = x + block_x() * columns;
  float* out = y + block_x() * columns;
  float most = -__builtin_inff();
  for (int i = t; i < columns; i += 256) most = __builtin_fmaxf(most, in[i]);
  partial[t] = most;
  __builtin_amdgcn_s_barrier();
  for (int step = 128; step > 0; step /= 2) {
    if (t < step) partial[t] = __builtin_fmaxf(partial[t], partial[t + step]);
    __builtin_amdgcn_s_barrier();
  }
  most = partial[0];
  __builtin_amdgcn_s_barrier();
  float sum = 0;
  for (int i = t; i < columns; i += 256) sum += __builtin_amdgcn_exp2f((in[i] - most) * 1.442695041f);
  partial[t] = sum;
  __builtin_amdgcn_s_barrier();
  for (int step = 128; step > 0; step /= 2) {
    if (t < step) partial[t] += partial[t + step];
    __builtin_amdgcn_s_barrier();
  }
  const float scale = 1.0f / partial[0];
  for (int i = t; i < columns; i += 256) out[i] = __builtin_amdgcn_exp2f((in[i] - most) * 1.442695041f) * scale;
}

#if defined(__gfx1100__)
// c = a * b transposed, f16 with f32 sums: one wave per tile of 16 x 16.
extern "C" __global__ void gemm_wmma(const half* a, const half* b, float* c, int n) {
  const int lane = thread_x();
  Vector<float, 8> sum = {};
  for (int k = 0; k < n; k += 16) {
    const auto left = *reinterpret_cast<const Vector<half, 16>*>(a + (block_y() * 16 + lane % 16) * n + k);
    const auto right = *reinterpret_cast<const Vector<half, 16>*>(b + (block_x() * 16 + lane % 16) * n + k);
    sum = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(left, right, sum);
  }
  for (int i = 0; i < 8; ++i) c[(block_y() * 16 + 2 * i + lane / 16) * n + block_x() * 16 + lane % 16] = sum[i];
}
#endif
