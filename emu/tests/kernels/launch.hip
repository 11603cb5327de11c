// Kernels of launch_test.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))

using u32 = unsigned;

__device__ inline u32 tx() { return __builtin_amdgcn_workitem_id_x(); }
__device__ inline u32 ty() { return __builtin_amdgcn_workitem_id_y(); }
__device__ inline u32 tz() { return __builtin_amdgcn_workitem_id_z(); }
__device__ inline u32 bx() { return __builtin_amdgcn_workgroup_id_x(); }
__device__ inline u32 by() { return __builtin_amdgcn_workgroup_id_y(); }
__device__ inline u32 bz() { return __builtin_amdgcn_workgroup_id_z(); }
__device__ inline u32 size_x() { return __builtin_amdgcn_workgroup_size_x(); }
__device__ inline u32 size_y() { return __builtin_amdgcn_workgroup_size_y(); }
__device__ inline u32 size_z() { return __builtin_amdgcn_workgroup_size_z(); }
__device__ inline void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

extern "C" __global__ void places(u32* out) {
  const u32 blocks_x = __builtin_amdgcn_grid_size_x() / size_x(), blocks_y = __builtin_amdgcn_grid_size_y() / size_y();
  const u32 block = (bz() * blocks_y + by()) * blocks_x + bx();
  const u32 thread = (tz() * size_y() + ty()) * size_x() + tx();
  u32* place = out + (block * size_x() * size_y() * size_z() + thread) * 6;
  place[0] = tx();
  place[1] = ty();
  place[2] = tz();
  place[3] = bx();
  place[4] = by();
  place[5] = bz();
}

extern __shared__ u32 dynamic[];

extern "C" __global__ void reverse(u32* data) {
  const u32 n = size_x(), t = tx();
  dynamic[t] = data[bx() * n + t];
  barrier();
  data[bx() * n + t] = dynamic[n - 1 - t];
}

// The part of LDS that the launch asked for, as the compiler's hidden argument has it.
extern "C" __global__ void dynamic_bytes(u32* out) {
  __shared__ u32 fixed[8];
  fixed[tx() & 7] = tx();
  barrier();
  dynamic[tx()] = fixed[7 - (tx() & 7)];
  const u32* hidden = (const u32*)__builtin_amdgcn_implicitarg_ptr();
  out[tx()] = dynamic[tx()] == 7 - tx() ? hidden[30] : 0;
}

extern "C" __global__ void reverse_without_barrier(u32* data) {
  __shared__ u32 tile[256];
  const u32 t = tx();
  tile[t] = data[t];
  data[t] = tile[255 - t] + 1;
}

__device__ __attribute__((noinline)) u32 fibonacci_of(u32 n) {
  return n < 2 ? n : fibonacci_of(n - 1) + fibonacci_of(n - 2);
}
extern "C" __global__ void fibonacci(u32* out, u32 modulus) { out[tx()] = fibonacci_of(tx() % modulus); }

extern "C" __global__ void early_return(u32* out, u32 n) {
  __shared__ u32 tile[96];
  const u32 t = tx();
  if (t >= n) return;
  tile[t] = t;
  barrier();
  out[t] = tile[t] + 1;
}

extern "C" __global__ void fill(u32* out, u32 value) { out[tx()] = value; }

extern "C" __global__ void increment(u32* data) { data[tx()] += 1; }

extern "C" __global__ void race(u32* data) { *data = bx(); }

extern "C" __global__ void divergent_barrier(u32* data) {
  const u32 t = tx();
  if (t < 16) {
    data[t] = 1;
    barrier();
    data[t] = 2;
  } else {
    data[t] = 3;
  }
  data[t] += 1;
}

extern "C" __global__ void endless(volatile u32* data) {
  while (*data == 0) {
  }
}

extern "C" __global__ void endless_barriers() {
  for (;;) __builtin_amdgcn_s_barrier();
}

extern "C" __global__ void trap() { __builtin_trap(); }

#if defined(__gfx1100__)
typedef _Float16 half16 __attribute__((ext_vector_type(16)));
typedef float float8 __attribute__((ext_vector_type(8)));

// Lanes 16 to 31 must repeat what lanes 0 to 15 hold of A and B; `wrong` gives them rows of their own.
extern "C" __global__ void matrix_layout(float* out, u32 wrong) {
  const u32 row = wrong != 0 ? tx() : tx() % 16;
  half16 a, b;
  for (int k = 0; k < 16; ++k) {
    a[k] = (_Float16)(float)(row + k);
    b[k] = (_Float16)(float)(tx() % 16 == (u32)k ? 1.0f : 0.0f);
  }
  const float8 c = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, b, float8{});
  for (int i = 0; i < 8; ++i) out[(2 * i + tx() / 16) * 16 + tx() % 16] = c[i];
}
#endif
