// rocBLAS. Numbers and signatures are those of its ABI, which has kept them from ROCm 5 on.
#include <fmt/format.h>

#include <array>
#include <climits>
#include <map>
#include <mutex>

#include "gpu/driver/library.h"
#include "gpu/vendor/installation.h"
#include "gpu/vendor/vendor_library.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

using Handle = void*;

struct RocblasTable {
  int (*create)(Handle* handle) = nullptr;
  int (*set_stream)(Handle handle, StreamHandle stream) = nullptr;
  int (*set_atomics)(Handle handle, int mode) = nullptr;
  int (*set_workspace)(Handle handle, void* memory, std::size_t bytes) = nullptr;
  int (*version)(char* text, std::size_t bytes) = nullptr;
  int (*gemm)(Handle handle, int transpose_a, int transpose_b, int m, int n, int k, const void* alpha,
              const void* a, int a_type, int lda, std::int64_t stride_a, const void* b, int b_type, int ldb,
              std::int64_t stride_b, const void* beta, const void* c, int c_type, int ldc,
              std::int64_t stride_c, void* d, int d_type, int ldd, std::int64_t stride_d, int count,
              int compute_type, int algorithm, std::int32_t solution, std::uint32_t flags) = nullptr;
};

struct Rocblas {
  std::string name = "rocBLAS";
  RocblasTable call;
  std::map<StreamHandle, Handle> handles;
  std::mutex mutex;  // a handle keeps its workspace from call to call

  void check(int status, const char* what) const {
    if (status != 0) throw BlasError(fmt::format("[{}] {} failed with status {}", name, what, status));
  }
};

class RocblasCall final : public LibraryCall {
 public:
  RocblasCall(Rocblas& rocblas, const PlainProduct& product) : rocblas_(rocblas), product_(product) {}
  std::string name() const override { return "#0"; }
  std::size_t workspace_bytes() const override { return product_workspace; }

  // It counts by columns: to it, our rows are columns, so that it is asked for the transposed result.
  void run(StreamHandle stream, const void* a, const void* b, void* result, void* workspace) const override {
    static constexpr float one = 1, zero = 0;
    constexpr int type_f32 = 151, standard_algorithm = 0;
    const PlainProduct& p = product_;
    const int type = p.dtype == DType::f32 ? type_f32 : p.dtype == DType::f16 ? 150 : 168;
    const auto operation = [](const PlainMatrix& matrix) { return matrix.transposed ? 112 : 111; };
    const auto number = [](std::int64_t value) { return static_cast<int>(value); };
    const std::lock_guard lock(rocblas_.mutex);
    const Handle handle = rocblas_.handles.at(stream);
    rocblas_.check(rocblas_.call.set_workspace(handle, workspace, product_workspace), "giving workspace");
    rocblas_.check(
        rocblas_.call.gemm(handle, operation(p.b), operation(p.a), number(p.columns), number(p.rows),
                           number(p.depth), &one, b, type, number(p.b.leading), p.b.stride, a, type,
                           number(p.a.leading), p.a.stride, &zero, result, type, number(p.columns),
                           p.rows * p.columns, result, type, number(p.columns), p.rows * p.columns,
                           number(p.count), type_f32, standard_algorithm, 0, 0),
        "a product");
  }

 private:
  Rocblas& rocblas_;
  PlainProduct product_;
};

class RocblasLibrary final : public ProductLibrary {
 public:
  explicit RocblasLibrary(std::unique_ptr<Rocblas> rocblas) : rocblas_(std::move(rocblas)) {}
  const std::string& name() const override { return rocblas_->name; }

  LibraryCalls calls(const PlainProduct& p, int) const override {
    LibraryCalls calls;
    for (const std::int64_t value : {p.rows, p.columns, p.depth, p.count, p.a.leading, p.b.leading})
      if (value > INT_MAX) return calls;
    calls.push_back(std::make_unique<RocblasCall>(*rocblas_, p));
    return calls;
  }

 private:
  std::unique_ptr<Rocblas> rocblas_;
};

}  // namespace

std::unique_ptr<ProductLibrary> open_rocblas(GpuDevice& device, std::vector<OpenAttempt>& attempts) {
  const Library library(names_in(rocm_folders_of(device.driver()), {"librocblas.so.5", "librocblas.so.4",
                                                                    "librocblas.so.3", "librocblas.so.0"}),
                        attempts);
  if (!library) return nullptr;
  const auto kernels = rocblas_kernels(std::filesystem::path(library.path()).parent_path());
  if (!has_kernels_for(kernels, device.target().architecture)) {
    attempts.push_back({library.path(), fmt::format("has no Tensile file for {} in {}",
                                                    device.target().architecture, kernels.string())});
    return nullptr;
  }
  auto rocblas = std::make_unique<Rocblas>();
  std::vector<std::string> missing;
  RocblasTable& call = rocblas->call;
  library.bind(call.create, {"rocblas_create_handle"}, missing);
  library.bind(call.set_stream, {"rocblas_set_stream"}, missing);
  library.bind(call.set_atomics, {"rocblas_set_atomics_mode"}, missing);
  library.bind(call.set_workspace, {"rocblas_set_workspace"}, missing);
  library.bind(call.version, {"rocblas_get_version_string"}, missing);
  library.bind(call.gemm, {"rocblas_gemm_strided_batched_ex"}, missing);
  if (!missing.empty()) {
    attempts.push_back({library.path(), fmt::format("lacks {}", fmt::join(missing, ", "))});
    return nullptr;
  }
  std::array<char, 256> version{};
  if (call.version(version.data(), version.size()) == 0) rocblas->name += std::string(" ") + version.data();
  constexpr int atomics_not_allowed = 0;  // the same bits each time
  for (const StreamHandle stream : {device.stream(), device.capture_stream()}) {
    Handle handle = nullptr;
    int status = call.create(&handle);
    if (status == 0) status = call.set_stream(handle, stream);
    if (status == 0) status = call.set_atomics(handle, atomics_not_allowed);
    if (status != 0) {
      attempts.push_back({library.path(), fmt::format("a handle failed with status {}", status)});
      return nullptr;
    }
    rocblas->handles[stream] = handle;
  }
  return std::make_unique<RocblasLibrary>(std::move(rocblas));
}

}  // namespace hearth::gpu
