// A stand-in for librocblas: its ABI, for f32 and bf16.
#include <cstdio>
#include <map>

#include "gemm.h"

namespace {

std::map<void*, void*> streams;  // by handle
constexpr int transposed = 112, type_f32 = 151, type_bf16 = 168, invalid = 11;

}  // namespace

extern "C" {

int rocblas_create_handle(void** handle) {
  *handle = new int;
  return 0;
}
int rocblas_set_stream(void* handle, void* stream) {
  streams[handle] = stream;
  return 0;
}
int rocblas_set_atomics_mode(void*, int mode) { return mode == 0 ? 0 : invalid; }
int rocblas_set_workspace(void*, void* memory, std::size_t bytes) {
  return memory != nullptr && bytes > 0 ? 0 : invalid;
}
int rocblas_get_version_string(char* text, std::size_t bytes) {
  std::snprintf(text, bytes, "4.9.9");
  return 0;
}
int rocblas_gemm_strided_batched_ex(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
                                    const void* alpha, const void* a, int a_type, int lda,
                                    std::int64_t stride_a, const void* b, int b_type, int ldb,
                                    std::int64_t stride_b, const void* beta, const void* c, int c_type,
                                    int ldc, std::int64_t stride_c, void* d, int d_type, int ldd,
                                    std::int64_t stride_d, int count, int compute_type, int algorithm,
                                    std::int32_t solution, std::uint32_t flags) {
  if ((a_type != type_f32 && a_type != type_bf16) || b_type != a_type || c_type != a_type ||
      d_type != a_type || compute_type != type_f32 || algorithm != 0 || solution != 0 || flags != 0 ||
      *static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0 || c != d ||
      ldc != ldd || stride_c != stride_d)
    return invalid;
  const bool ta = transpose_a == transposed, tb = transpose_b == transposed;
  const fake::Matrix ma{ta ? k : m, ta ? m : k, lda, stride_a, ta};
  const fake::Matrix mb{tb ? n : k, tb ? k : n, ldb, stride_b, tb};
  if (lda < ma.rows || ldb < mb.rows || ldd < m) return invalid;
  return fake::gemm(streams[handle], a_type == type_bf16, m, n, k, count, a, ma, b, mb, d,
                    {m, n, ldd, stride_d, false});
}

}  // extern "C"
