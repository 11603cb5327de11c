// Kernels whose metadata can be worked out by hand: registers are claimed by inline assembly, so that their count
// does not depend on the compiler's mood. Compiled without the HIP headers.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __constant__ __attribute__((constant))
#define __shared__ __attribute__((shared))

__constant__ int table[4] = {11, 22, 33, 44};
__device__ float scale = 2.5f;
__device__ float* pointer_to_scale = &scale;  // needs a relocation
__device__ int zeros[1000];                   // not in the file

// Arguments at 0, 4, 8 and 16.
extern "C" __global__ void axpy(int n, float a, const float* x, float* y) {
  const int i = __builtin_amdgcn_workgroup_id_x() * 256 + __builtin_amdgcn_workitem_id_x();
  if (i < n) y[i] = a * x[i] * scale + table[i & 3] + *pointer_to_scale + zeros[i & 7];
}

// 1024 bytes of LDS, at most 256 threads; a mangled name.
__global__ void __attribute__((amdgpu_flat_work_group_size(1, 256))) reverse(float* data) {
  __shared__ float buffer[256];
  const int i = __builtin_amdgcn_workitem_id_x();
  buffer[i] = data[i];
  __builtin_amdgcn_s_barrier();
  data[i] = buffer[255 - i];
}

struct Packet {
  char tag;
  double weights[5];
};

// A struct by value (48 bytes at 8), hidden arguments, scratch memory of 512 bytes or a little more.
extern "C" __global__ void hidden(short first, Packet packet, double* out) {
  volatile int scratch[128];
  const int i = __builtin_amdgcn_workitem_id_x();
  scratch[i & 127] = first + packet.tag;
  const auto* implicit = (const __attribute__((address_space(4))) unsigned short*)__builtin_amdgcn_implicitarg_ptr();
  out[i] = packet.weights[2] * implicit[6] + scratch[(i * 7) & 127];
}

// v0 to v40: 41 registers. With accumulation registers, these follow from the next multiple of 4: 44 + 8.
extern "C" __global__ void registers() {
  asm volatile("" ::: "v40");
#ifdef __gfx90a__
  asm volatile("" ::: "a7");
#endif
}

// 200 registers; 40 KiB of LDS: too much for many waves at once.
extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(1, 256))) many_registers() {
  asm volatile("" ::: "v199");
}

extern "C" __global__ void __attribute__((amdgpu_flat_work_group_size(1, 256))) much_lds(int* out) {
  __shared__ int buffer[10240];
  const int i = __builtin_amdgcn_workitem_id_x();
  buffer[i * 40] = out[i];
  __builtin_amdgcn_s_barrier();
  out[i] = buffer[10239 - i * 40];
}
