// cuBLASLt and hipBLASLt: the same functions with other numbers. Numbers and signatures are those of their
// ABIs.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <map>

#include "gpu/driver/library.h"
#include "gpu/vendor/descriptor.h"
#include "gpu/vendor/installation.h"
#include "gpu/vendor/vendor_library.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

using Handle = void*;

struct LtTable {
  int (*create)(Handle* handle) = nullptr;
  int (*operation_create)(Descriptor* operation, int compute, int scale) = nullptr;
  int (*operation_destroy)(Descriptor operation) = nullptr;
  int (*operation_set)(Descriptor operation, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*layout_create)(Descriptor* layout, int type, std::uint64_t rows, std::uint64_t columns,
                       std::int64_t leading) = nullptr;
  int (*layout_destroy)(Descriptor layout) = nullptr;
  int (*layout_set)(Descriptor layout, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*preference_create)(Descriptor* preference) = nullptr;
  int (*preference_destroy)(Descriptor preference) = nullptr;
  int (*preference_set)(Descriptor preference, int attribute, const void* value, std::size_t bytes) = nullptr;
  int (*heuristic)(Handle handle, Descriptor operation, Descriptor a, Descriptor b, Descriptor c,
                   Descriptor d, Descriptor preference, int wanted, void* results, int* found) = nullptr;
  int (*matmul)(Handle handle, Descriptor operation, const void* alpha, const void* a, Descriptor a_layout,
                const void* b, Descriptor b_layout, const void* beta, const void* c, Descriptor c_layout,
                void* d, Descriptor d_layout, const void* algorithm, void* workspace, std::size_t bytes,
                StreamHandle stream) = nullptr;
};

// What differs between the two.
struct LtNumbers {
  int transpose_a, transpose_b;   // attributes of an operation
  int batch_count, batch_stride;  // attributes of a layout
  int plain, transposed;          // operations on an operand
  int compute_f32;
  std::size_t algorithm_bytes;  // in a result of the heuristic, before size_t workspace and int status
  bool preferences;             // of alignment and of how sums are split
};
constexpr LtNumbers cuda_numbers = {3, 4, 5, 6, 0, 1, 68, 64, true};
constexpr LtNumbers hip_numbers = {0, 1, 0, 1, 111, 112, 2, 24, false};

// Both count data types alike.
int type_number(DType dtype) { return dtype == DType::f32 ? 0 : dtype == DType::f16 ? 2 : 14; }
constexpr int type_f32 = 0;

constexpr std::size_t result_rest = 32;  // size_t workspace, int status, float waves, int reserved[4]

struct Lt {
  std::string name;
  LtNumbers numbers{};
  LtTable call;
  std::map<StreamHandle, Handle> handles;  // one per stream: hipBLASLt can deadlock otherwise

  void check(int status, const char* what) const {
    if (status != 0) throw BlasError(fmt::format("[{}] {} failed with status {}", name, what, status));
  }
};

// What the library is told of a product. It counts by columns: to it, our rows are columns, so that it is
// asked for the transposed result, which is b transposed times a transposed.
struct LtProblem {
  const Lt& lt;
  OwnedDescriptor operation{lt.call.operation_destroy};
  OwnedDescriptor a{lt.call.layout_destroy}, b{lt.call.layout_destroy}, result{lt.call.layout_destroy};

  LtProblem(const Lt& library, const PlainProduct& product) : lt(library) {
    const LtTable& call = lt.call;
    lt.check(call.operation_create(operation.place(), lt.numbers.compute_f32, type_f32), "describing");
    const auto operand = [&](const PlainMatrix& matrix) {
      return matrix.transposed ? lt.numbers.transposed : lt.numbers.plain;
    };
    const std::int32_t first = operand(product.b), second = operand(product.a);
    lt.check(call.operation_set(operation.get(), lt.numbers.transpose_a, &first, sizeof first), "describing");
    lt.check(call.operation_set(operation.get(), lt.numbers.transpose_b, &second, sizeof second),
             "describing");
    lay(a, product, product.rows, product.depth, product.a);
    lay(b, product, product.depth, product.columns, product.b);
    lay(result, product, product.rows, product.columns,
        {false, product.columns, product.rows * product.columns});
  }

 private:
  void lay(OwnedDescriptor& layout, const PlainProduct& product, std::int64_t rows, std::int64_t columns,
           const PlainMatrix& matrix) {
    if (matrix.transposed) std::swap(rows, columns);
    const LtTable& call = lt.call;
    lt.check(
        call.layout_create(layout.place(), type_number(product.dtype), static_cast<std::uint64_t>(columns),
                           static_cast<std::uint64_t>(rows), matrix.leading),
        "describing a matrix");
    if (product.count == 1) return;
    const auto count = static_cast<std::int32_t>(product.count);
    lt.check(call.layout_set(layout.get(), lt.numbers.batch_count, &count, sizeof count),
             "describing a stack");
    lt.check(call.layout_set(layout.get(), lt.numbers.batch_stride, &matrix.stride, sizeof matrix.stride),
             "describing a stack");
  }
};

class LtCall final : public LibraryCall {
 public:
  LtCall(std::shared_ptr<const LtProblem> problem, std::size_t index, const std::byte* result)
      : problem_(std::move(problem)), index_(index) {
    const std::size_t bytes = problem_->lt.numbers.algorithm_bytes;
    std::memcpy(algorithm_.data(), result, bytes);
    std::memcpy(&workspace_, result + bytes, sizeof workspace_);
  }
  std::string name() const override { return fmt::format("#{}", index_); }
  std::size_t workspace_bytes() const override { return workspace_; }
  void run(StreamHandle stream, const void* a, const void* b, void* result, void* workspace) const override {
    static constexpr float one = 1, zero = 0;
    const LtProblem& problem = *problem_;
    const Lt& lt = problem.lt;
    lt.check(lt.call.matmul(lt.handles.at(stream), problem.operation.get(), &one, b, problem.b.get(), a,
                            problem.a.get(), &zero, result, problem.result.get(), result,
                            problem.result.get(), algorithm_.data(), workspace, workspace_, stream),
             "a product");
  }

 private:
  std::shared_ptr<const LtProblem> problem_;
  std::size_t index_;
  alignas(16) std::array<std::byte, 64> algorithm_{};
  std::size_t workspace_ = 0;
};

class LtLibrary final : public ProductLibrary {
 public:
  explicit LtLibrary(Lt lt) : lt_(std::move(lt)) {}
  const std::string& name() const override { return lt_.name; }

  LibraryCalls calls(const PlainProduct& product, int most) const override {
    LibraryCalls calls;
    if (product.count > INT32_MAX) return calls;
    try {
      const auto problem = std::make_shared<const LtProblem>(lt_, product);
      OwnedDescriptor preference(lt_.call.preference_destroy);
      prefer(preference);
      const std::size_t each = lt_.numbers.algorithm_bytes + result_rest;
      std::vector<std::uint64_t> results(static_cast<std::size_t>(most) * each / sizeof(std::uint64_t));
      int found = 0;
      if (lt_.call.heuristic(lt_.handles.begin()->second, problem->operation.get(), problem->b.get(),
                             problem->a.get(), problem->result.get(), problem->result.get(), preference.get(),
                             most, results.data(), &found) != 0)
        return calls;
      const auto* bytes = reinterpret_cast<const std::byte*>(results.data());
      for (int i = 0; i < found; ++i, bytes += each) {
        int status = 0;
        std::memcpy(&status, bytes + lt_.numbers.algorithm_bytes + sizeof(std::size_t), sizeof status);
        if (status == 0) calls.push_back(std::make_unique<LtCall>(problem, calls.size(), bytes));
      }
    } catch (const BlasError&) {  // it cannot describe such a product
    }
    return calls;
  }

 private:
  void prefer(OwnedDescriptor& preference) const {
    lt_.check(lt_.call.preference_create(preference.place()), "stating preferences");
    const auto set = [&](int attribute, const auto& value) {
      lt_.check(lt_.call.preference_set(preference.get(), attribute, &value, sizeof value),
                "stating preferences");
    };
    constexpr int most_workspace = 1, reduction = 3, first_alignment = 5;  // of a, b, c, d
    set(most_workspace, std::uint64_t{product_workspace});
    if (!lt_.numbers.preferences) return;
    // Parts of a sum are added in f32 and in one order: the same bits each time, as precise as ours.
    set(reduction, std::uint32_t{2});
    for (int operand = 0; operand < 4; ++operand) set(first_alignment + operand, std::uint32_t{16});
  }

  Lt lt_;
};

void bind(const Library& library, const std::string& prefix, LtTable& call,
          std::vector<std::string>& missing) {
  const auto to = [&](auto*& function, const char* name) {
    library.bind(function, {(prefix + name).c_str()}, missing);
  };
  to(call.create, "Create");
  to(call.operation_create, "MatmulDescCreate");
  to(call.operation_destroy, "MatmulDescDestroy");
  to(call.operation_set, "MatmulDescSetAttribute");
  to(call.layout_create, "MatrixLayoutCreate");
  to(call.layout_destroy, "MatrixLayoutDestroy");
  to(call.layout_set, "MatrixLayoutSetAttribute");
  to(call.preference_create, "MatmulPreferenceCreate");
  to(call.preference_destroy, "MatmulPreferenceDestroy");
  to(call.preference_set, "MatmulPreferenceSetAttribute");
  to(call.heuristic, "MatmulAlgoGetHeuristic");
  to(call.matmul, "Matmul");
}

// Functions and handles; false, with a line in `attempts`, where it does not work.
bool prepare(const Library& library, const std::string& prefix, GpuDevice& device, Lt& lt,
             std::vector<OpenAttempt>& attempts) {
  std::vector<std::string> missing;
  bind(library, prefix, lt.call, missing);
  if (!missing.empty()) {
    attempts.push_back({library.path(), fmt::format("lacks {}", fmt::join(missing, ", "))});
    return false;
  }
  for (const StreamHandle stream : {device.stream(), device.capture_stream()}) {
    Handle handle = nullptr;
    if (const int status = lt.call.create(&handle); status != 0) {
      attempts.push_back({library.path(), fmt::format("{}Create failed with status {}", prefix, status)});
      return false;
    }
    lt.handles[stream] = handle;
  }
  return true;
}

}  // namespace

std::unique_ptr<ProductLibrary> open_cublaslt(GpuDevice& device, std::vector<OpenAttempt>& attempts) {
  // One that is newer than the driver does not work.
  std::vector<std::string> names;
  for (int major = device.driver().version / 1000; major >= 11; --major)
    names.push_back(fmt::format("libcublasLt.so.{}", major));
  const Library library(names_in(cuda_folders_of(device.driver(), "cublas"), names), attempts);
  if (!library) return nullptr;
  Lt lt{.name = "cuBLASLt", .numbers = cuda_numbers, .call = {}, .handles = {}};
  if (!prepare(library, "cublasLt", device, lt, attempts)) return nullptr;
  std::vector<std::string> missing;
  std::size_t (*version)() = nullptr;
  library.bind(version, {"cublasLtGetVersion"}, missing);
  if (version != nullptr) {
    const std::size_t number = version();  // 120304; before 12: 11502
    const std::size_t unit = number >= 120'000 ? 10'000 : 1'000;
    lt.name += fmt::format(" {}.{}.{}", number / unit, number % unit / 100, number % 100);
  }
  return std::make_unique<LtLibrary>(std::move(lt));
}

std::unique_ptr<ProductLibrary> open_hipblaslt(GpuDevice& device, std::vector<OpenAttempt>& attempts) {
  const Library library(
      names_in(rocm_folders_of(device.driver()), {"libhipblaslt.so.1", "libhipblaslt.so.0"}), attempts);
  if (!library) return nullptr;
  const auto kernels = std::filesystem::path(library.path()).parent_path() / "hipblaslt" / "library";
  if (!has_kernels_for(kernels, device.target().architecture)) {
    attempts.push_back({library.path(), fmt::format("has no kernels for {}", device.target().architecture)});
    return nullptr;
  }
  Lt lt{.name = "hipBLASLt", .numbers = hip_numbers, .call = {}, .handles = {}};
  if (!prepare(library, "hipblasLt", device, lt, attempts)) return nullptr;
  std::vector<std::string> missing;
  int (*version)(Handle handle, int* number) = nullptr;
  library.bind(version, {"hipblasLtGetVersion"}, missing);
  int number = 0;
  if (version != nullptr && version(lt.handles.begin()->second, &number) == 0)
    lt.name += fmt::format(" {}.{}.{}", number / 100'000, number / 100 % 1000, number % 100);
  return std::make_unique<LtLibrary>(std::move(lt));
}

}  // namespace hearth::gpu
