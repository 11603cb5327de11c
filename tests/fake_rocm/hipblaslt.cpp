// A stand-in for libhipblaslt: its ABI, for f32 and bf16.
#include "gemm.h"

namespace {

struct Layout {
  int type;
  std::uint64_t rows, columns;
  std::int64_t leading, stride = 0;
  std::int32_t count = 1;
};
struct Operation {
  std::int32_t a = 111, b = 111;
};
struct Preference {
  std::uint64_t workspace = 0;
};
struct Result {
  unsigned char algorithm[16];
  std::size_t most_workspace, workspace;
  int status;
  float waves;
  int reserved[4];
};
constexpr int transposed = 112, type_f32 = 0, type_bf16 = 14, compute_f32 = 2, invalid = 3;
constexpr std::size_t workspace_bytes = 4096;

}  // namespace

extern "C" {

int hipblasLtCreate(void** handle) {
  *handle = new int;
  return 0;
}
int hipblasLtGetVersion(void*, int* version) {
  *version = 100'203;
  return 0;
}
int hipblasLtMatmulDescCreate(void** operation, int compute, int scale) {
  if (compute != compute_f32 || scale != type_f32) return invalid;
  *operation = new Operation;
  return 0;
}
int hipblasLtMatmulDescDestroy(void* operation) {
  delete static_cast<Operation*>(operation);
  return 0;
}
int hipblasLtMatmulDescSetAttribute(void* operation, int attribute, const void* value, std::size_t bytes) {
  if (bytes != 4 || attribute > 1) return invalid;
  auto* target = static_cast<Operation*>(operation);
  std::memcpy(attribute == 0 ? &target->a : &target->b, value, bytes);
  return 0;
}
int hipblasLtMatrixLayoutCreate(void** layout, int type, std::uint64_t rows, std::uint64_t columns,
                                std::int64_t leading) {
  if (leading < static_cast<std::int64_t>(rows)) return invalid;
  *layout = new Layout{type, rows, columns, leading};
  return 0;
}
int hipblasLtMatrixLayoutDestroy(void* layout) {
  delete static_cast<Layout*>(layout);
  return 0;
}
int hipblasLtMatrixLayoutSetAttribute(void* layout, int attribute, const void* value, std::size_t bytes) {
  auto* target = static_cast<Layout*>(layout);
  if (attribute == 0 && bytes == 4)
    std::memcpy(&target->count, value, bytes);
  else if (attribute == 1 && bytes == 8)
    std::memcpy(&target->stride, value, bytes);
  else
    return invalid;
  return 0;
}
int hipblasLtMatmulPreferenceCreate(void** preference) {
  *preference = new Preference;
  return 0;
}
int hipblasLtMatmulPreferenceDestroy(void* preference) {
  delete static_cast<Preference*>(preference);
  return 0;
}
int hipblasLtMatmulPreferenceSetAttribute(void* preference, int attribute, const void* value,
                                          std::size_t bytes) {
  if (attribute != 1 || bytes != 8) return invalid;
  std::memcpy(&static_cast<Preference*>(preference)->workspace, value, bytes);
  return 0;
}
int hipblasLtMatmulAlgoGetHeuristic(void*, void*, void* a, void*, void*, void*, void* preference, int wanted,
                                    Result* results, int* found) {
  const int type = static_cast<Layout*>(a)->type;
  if (type != type_f32 && type != type_bf16) return invalid;
  if (static_cast<Preference*>(preference)->workspace < workspace_bytes) return invalid;
  *found = wanted < 2 ? wanted : 2;
  for (int i = 0; i < *found; ++i) results[i] = {{7}, workspace_bytes, workspace_bytes, 0, 1, {}};
  return 0;
}
int hipblasLtMatmul(void* handle, void* operation, const void* alpha, const void* a, void* a_layout,
                    const void* b, void* b_layout, const void* beta, const void* c, void*, void* d,
                    void* d_layout, const void* algorithm, void* workspace, std::size_t bytes, void* stream) {
  if (handle == nullptr || *static_cast<const float*>(alpha) != 1 || *static_cast<const float*>(beta) != 0 ||
      c != d || *static_cast<const unsigned char*>(algorithm) != 7 || workspace == nullptr ||
      bytes < workspace_bytes)
    return invalid;
  const auto& op = *static_cast<const Operation*>(operation);
  const auto matrix = [](const Layout& l, std::int32_t how) {
    return fake::Matrix{static_cast<std::int64_t>(l.rows), static_cast<std::int64_t>(l.columns), l.leading,
                        l.stride, how == transposed};
  };
  const auto &la = *static_cast<const Layout*>(a_layout), &lb = *static_cast<const Layout*>(b_layout),
             &ld = *static_cast<const Layout*>(d_layout);
  const fake::Matrix ma = matrix(la, op.a), mb = matrix(lb, op.b), md = matrix(ld, 111);
  const std::int64_t k = ma.transposed ? ma.rows : ma.columns;
  if ((mb.transposed ? mb.columns : mb.rows) != k || (ma.transposed ? ma.columns : ma.rows) != md.rows ||
      (mb.transposed ? mb.rows : mb.columns) != md.columns || la.count != ld.count || lb.count != ld.count)
    return invalid;
  return fake::gemm(stream, la.type == type_bf16, md.rows, md.columns, k, ld.count, a, ma, b, mb, d, md);
}

}  // extern "C"
