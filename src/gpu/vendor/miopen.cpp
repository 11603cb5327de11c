// MIOpen in immediate mode. Numbers and signatures are those of the headers of MIOpen 3.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <map>
#include <mutex>

#include "gpu/driver/library.h"
#include "gpu/vendor/descriptor.h"
#include "gpu/vendor/installation.h"
#include "gpu/vendor/vendor_library.h"
#include "hearth/config.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

using Handle = void*;

struct Solution {
  float milliseconds;  // measured once or guessed
  std::size_t workspace;
  std::uint64_t id;
  int algorithm;
};
struct FoundAlgorithm {
  int algorithm;
  float milliseconds;
  std::size_t workspace;
};

// The functions of one operation. Operands come in an order of MIOpen's own.
struct OperationTable {
  int (*solutions)(Handle handle, Descriptor first, Descriptor second, Descriptor convolution,
                   Descriptor result, std::size_t most, std::size_t* found, Solution* solutions) = nullptr;
  int (*workspace)(Handle handle, Descriptor first, Descriptor second, Descriptor convolution,
                   Descriptor result, std::uint64_t solution, std::size_t* bytes) = nullptr;
  int (*compile)(Handle handle, Descriptor first, Descriptor second, Descriptor convolution,
                 Descriptor result, std::uint64_t solution) = nullptr;
  int (*run)(Handle handle, Descriptor first_shape, const void* first, Descriptor second_shape,
             const void* second, Descriptor convolution, Descriptor result_shape, void* result,
             void* workspace, std::size_t bytes, std::uint64_t solution) = nullptr;
  int (*search_workspace)(Handle handle, Descriptor first, Descriptor second, Descriptor convolution,
                          Descriptor result, std::size_t* bytes) = nullptr;
  int (*search)(Handle handle, Descriptor first_shape, const void* first, Descriptor second_shape,
                const void* second, Descriptor convolution, Descriptor result_shape, void* result, int wanted,
                int* found, FoundAlgorithm* algorithms, void* workspace, std::size_t bytes,
                bool exhaustive) = nullptr;
};

struct MiopenTable {
  int (*version)(std::size_t* major, std::size_t* minor, std::size_t* patch) = nullptr;
  int (*create)(Handle* handle, StreamHandle stream) = nullptr;
  int (*tensor_create)(Descriptor* tensor) = nullptr;
  int (*tensor_destroy)(Descriptor tensor) = nullptr;
  int (*tensor_set)(Descriptor tensor, int type, int axes, const int* sizes, const int* strides) = nullptr;
  int (*convolution_create)(Descriptor* convolution) = nullptr;
  int (*convolution_destroy)(Descriptor convolution) = nullptr;
  int (*convolution_set)(Descriptor convolution, int axes, const int* padding, const int* stride,
                         const int* dilation, int mode) = nullptr;
  int (*set_groups)(Descriptor convolution, int groups) = nullptr;
  int (*set_attribute)(Descriptor convolution, int attribute, int value) = nullptr;
  int (*set_find_mode)(Descriptor convolution, int mode) = nullptr;
  OperationTable forward, input_grad, weight_grad;

  const OperationTable& of(Op op) const {
    return op == Op::conv ? forward : op == Op::conv_input_grad ? input_grad : weight_grad;
  }
};

void bind(const Library& library, MiopenTable& call, std::vector<std::string>& missing) {
  library.bind(call.version, {"miopenGetVersion"}, missing);
  library.bind(call.create, {"miopenCreateWithStream"}, missing);
  library.bind(call.tensor_create, {"miopenCreateTensorDescriptor"}, missing);
  library.bind(call.tensor_destroy, {"miopenDestroyTensorDescriptor"}, missing);
  library.bind(call.tensor_set, {"miopenSetTensorDescriptor"}, missing);
  library.bind(call.convolution_create, {"miopenCreateConvolutionDescriptor"}, missing);
  library.bind(call.convolution_destroy, {"miopenDestroyConvolutionDescriptor"}, missing);
  library.bind(call.convolution_set, {"miopenInitConvolutionNdDescriptor"}, missing);
  library.bind(call.set_groups, {"miopenSetConvolutionGroupCount"}, missing);
  library.bind(call.set_attribute, {"miopenSetConvolutionAttribute"}, missing);
  library.bind(call.set_find_mode, {"miopenSetConvolutionFindMode"}, missing);
  const auto operation = [&](OperationTable& table, const std::string& name) {
    const auto to = [&](auto*& function, const std::string& symbol) {
      library.bind(function, {symbol.c_str()}, missing);
    };
    to(table.solutions, "miopenConvolution" + name + "GetSolution");
    to(table.workspace, "miopenConvolution" + name + "GetSolutionWorkspaceSize");
    to(table.compile, "miopenConvolution" + name + "CompileSolution");
    to(table.run, "miopenConvolution" + name + "Immediate");
    to(table.search_workspace, "miopenConvolution" + name + "GetWorkSpaceSize");
    to(table.search, "miopenFindConvolution" + name + "Algorithm");
  };
  operation(call.forward, "Forward");
  operation(call.input_grad, "BackwardData");
  operation(call.weight_grad, "BackwardWeights");
}

struct Miopen {
  std::string name = "MIOpen", path;
  MiopenTable call;
  std::map<StreamHandle, Handle> handles;
  mutable std::mutex mutex;  // of all calls: a handle is not safe from several threads

  void check(int status, const char* what) const {
    if (status != 0) throw DnnError(fmt::format("[{}] {} failed with status {}", name, what, status));
  }
};

// What the library is told of a convolution.
struct Problem {
  const Miopen& miopen;
  const OperationTable& operation;
  bool second_first;  // MIOpen's first operand is the step's second
  OwnedDescriptor a{miopen.call.tensor_destroy}, b{miopen.call.tensor_destroy};
  OwnedDescriptor result{miopen.call.tensor_destroy};
  OwnedDescriptor convolution{miopen.call.convolution_destroy};

  // The forward pass takes w before x, the gradient by w takes dy before x.
  Problem(const Miopen& library, const PlainConvolution& c)
      : miopen(library), operation(library.call.of(c.op)), second_first(c.op != Op::conv_input_grad) {
    lay(a, c.dtype, c.a);
    lay(b, c.dtype, c.b);
    lay(result, c.dtype, c.result);
    const MiopenTable& call = miopen.call;
    constexpr int cross_correlation = 0;
    const std::vector<int> padding(c.padding.begin(), c.padding.end());
    const std::vector<int> stride(c.stride.begin(), c.stride.end());
    const std::vector<int> dilation(c.dilation.begin(), c.dilation.end());
    miopen.check(call.convolution_create(convolution.place()), "describing");
    miopen.check(call.convolution_set(convolution.get(), static_cast<int>(padding.size()), padding.data(),
                                      stride.data(), dilation.data(), cross_correlation),
                 "describing");
    miopen.check(call.set_groups(convolution.get(), static_cast<int>(c.groups)), "describing");
    constexpr int f16_as_bf16 = 0, deterministic = 1, math = 3, pedantic = 1;
    miopen.check(call.set_attribute(convolution.get(), deterministic, 1), "describing");
    miopen.check(call.set_attribute(convolution.get(), f16_as_bf16, 0), "describing");
    // f32 is f32. MIOpen 3.3 does not have the attribute yet; results are compared in any case.
    call.set_attribute(convolution.get(), math, pedantic);
  }

  Descriptor first() const { return second_first ? b.get() : a.get(); }
  Descriptor second() const { return second_first ? a.get() : b.get(); }

 private:
  void lay(OwnedDescriptor& tensor, DType dtype, const Shape& shape) {
    const int type = dtype == DType::f32 ? 1 : dtype == DType::f16 ? 0 : 5;
    const Strides dense = contiguous_strides(shape);
    const std::vector<int> sizes(shape.begin(), shape.end()), strides(dense.begin(), dense.end());
    miopen.check(miopen.call.tensor_create(tensor.place()), "describing a tensor");
    miopen.check(miopen.call.tensor_set(tensor.get(), type, static_cast<int>(sizes.size()), sizes.data(),
                                        strides.data()),
                 "describing a tensor");
  }
};

class MiopenCall final : public LibraryCall {
 public:
  MiopenCall(std::shared_ptr<const Problem> problem, std::uint64_t solution, std::size_t workspace)
      : problem_(std::move(problem)), solution_(solution), workspace_(workspace) {}
  std::string name() const override { return fmt::format("solution {}", solution_); }
  std::size_t workspace_bytes() const override { return workspace_; }

  void run(StreamHandle stream, const void* a, const void* b, void* result, void* workspace) const override {
    const Problem& p = *problem_;
    if (p.second_first) std::swap(a, b);
    if (workspace_ == 0) workspace = nullptr;
    const std::lock_guard lock(p.miopen.mutex);
    compile();
    p.miopen.check(
        p.operation.run(p.miopen.handles.at(stream), p.first(), a, p.second(), b, p.convolution.get(),
                        p.result.get(), result, workspace, workspace_, solution_),
        "a convolution");
  }

 private:
  // For every handle, since each keeps its kernels: the one that is captured must not have to load any.
  void compile() const {
    if (compiled_) return;
    const Problem& p = *problem_;
    for (const auto& [stream, handle] : p.miopen.handles)
      p.miopen.check(
          p.operation.compile(handle, p.first(), p.second(), p.convolution.get(), p.result.get(), solution_),
          "compiling");
    compiled_ = true;
  }

  std::shared_ptr<const Problem> problem_;
  std::uint64_t solution_;
  std::size_t workspace_;
  mutable bool compiled_ = false;
};

class MiopenLibrary final : public ConvolutionLibrary {
 public:
  MiopenLibrary(GpuDevice& device, std::unique_ptr<const Miopen> miopen)
      : device_(device), miopen_(std::move(miopen)) {}
  const std::string& name() const override { return miopen_->name; }

  LibraryCalls calls(const PlainConvolution& convolution, int most) const override {
    const auto problem = std::make_shared<const Problem>(*miopen_, convolution);
    const MiopenFindMode mode = config().miopen_find_mode;
    if (mode != MiopenFindMode::fast) search(*problem, convolution, mode);
    std::vector<Solution> solutions(static_cast<std::size_t>(most));
    std::size_t found = 0;
    {
      const std::lock_guard lock(miopen_->mutex);
      miopen_->check(problem->operation.solutions(handle(), problem->first(), problem->second(),
                                                  problem->convolution.get(), problem->result.get(),
                                                  solutions.size(), &found, solutions.data()),
                     "asking for solutions");
    }
    solutions.resize(std::min(found, solutions.size()));
    LibraryCalls calls;
    for (const Solution& solution : solutions)
      if (solution.workspace <= convolution_workspace)
        calls.push_back(std::make_unique<MiopenCall>(problem, solution.id, solution.workspace));
    return calls;
  }

  std::unique_ptr<LibraryCall> call(const PlainConvolution& convolution,
                                    std::string_view name) const override {
    constexpr std::string_view prefix = "solution ";
    if (!name.starts_with(prefix)) return nullptr;
    std::uint64_t solution = 0;
    if (std::from_chars(name.data() + prefix.size(), name.data() + name.size(), solution).ec != std::errc())
      return nullptr;
    const auto problem = std::make_shared<const Problem>(*miopen_, convolution);
    std::size_t workspace = 0;
    const std::lock_guard lock(miopen_->mutex);
    miopen_->check(
        problem->operation.workspace(handle(), problem->first(), problem->second(),
                                     problem->convolution.get(), problem->result.get(), solution, &workspace),
        "asking for a solution");
    if (workspace > convolution_workspace) return nullptr;
    return std::make_unique<MiopenCall>(problem, solution, workspace);
  }

 private:
  Handle handle() const { return miopen_->handles.at(device_.stream()); }

  // What is found goes into MIOpen's own database, from which solutions are taken.
  void search(const Problem& problem, const PlainConvolution& convolution, MiopenFindMode mode) const {
    const auto memory = [&](const Shape& shape) {
      return device_.pool().allocate(
          static_cast<std::size_t>(element_count(shape)) * dtype_size(convolution.dtype),
          MemoryPurpose::tuning);
    };
    const auto a = memory(convolution.a), b = memory(convolution.b), result = memory(convolution.result);
    const std::lock_guard lock(miopen_->mutex);
    constexpr int normal = 1, hybrid = 3;
    miopen_->check(miopen_->call.set_find_mode(problem.convolution.get(),
                                               mode == MiopenFindMode::normal ? normal : hybrid),
                   "choosing a find mode");
    std::size_t bytes = 0;  // as the mode needs them
    miopen_->check(
        problem.operation.search_workspace(handle(), problem.first(), problem.second(),
                                           problem.convolution.get(), problem.result.get(), &bytes),
        "asking for workspace");
    bytes = std::min(bytes, convolution_workspace);
    const auto workspace = device_.pool().allocate(bytes, MemoryPurpose::tuning);
    // Here the forward pass takes x before w.
    const bool swapped = convolution.op == Op::conv_weight_grad;
    std::array<FoundAlgorithm, most_calls> algorithms;
    int found = 0;
    device_.use();
    miopen_->check(problem.operation.search(
                       handle(), swapped ? problem.b.get() : problem.a.get(), swapped ? b->data : a->data,
                       swapped ? problem.a.get() : problem.b.get(), swapped ? a->data : b->data,
                       problem.convolution.get(), problem.result.get(), result->data, most_calls, &found,
                       algorithms.data(), bytes == 0 ? nullptr : workspace->data, bytes, false),
                   "searching");
  }

  GpuDevice& device_;
  std::unique_ptr<const Miopen> miopen_;
};

// Functions and version; null where they are not there.
std::unique_ptr<Miopen> load(const Driver& driver, std::vector<OpenAttempt>& attempts) {
  const Library library(names_in(rocm_folders_of(driver), {"libMIOpen.so.1"}), attempts);
  if (!library) return nullptr;
  auto miopen = std::make_unique<Miopen>();
  miopen->path = library.path();
  std::vector<std::string> missing;
  bind(library, miopen->call, missing);
  if (!missing.empty()) {
    attempts.push_back({library.path(), fmt::format("lacks {}", fmt::join(missing, ", "))});
    return nullptr;
  }
  std::size_t major = 0, minor = 0, patch = 0;
  if (miopen->call.version(&major, &minor, &patch) == 0)
    miopen->name += fmt::format(" {}.{}.{}", major, minor, patch);
  return miopen;
}

}  // namespace

std::unique_ptr<ConvolutionLibrary> open_miopen(GpuDevice& device, std::vector<OpenAttempt>& attempts) {
  auto miopen = load(device.driver(), attempts);
  if (!miopen) return nullptr;
  const std::string& architecture = device.target().architecture;
  const auto kernels = rocblas_kernels(std::filesystem::path(miopen->path).parent_path());
  if (!has_kernels_for(kernels, architecture)) {
    attempts.push_back({miopen->path, fmt::format("uses rocBLAS, which has no Tensile file for {} in {}",
                                                  architecture, kernels.string())});
    return nullptr;
  }
  for (const StreamHandle stream : {device.stream(), device.capture_stream()}) {
    Handle handle = nullptr;
    if (const int status = miopen->call.create(&handle, stream); status != 0) {
      attempts.push_back({miopen->path, fmt::format("a handle failed with status {}", status)});
      return nullptr;
    }
    miopen->handles[stream] = handle;
  }
  return std::make_unique<MiopenLibrary>(device, std::move(miopen));
}

std::string installed_miopen(const Driver& driver, std::vector<OpenAttempt>& attempts) {
  const auto miopen = load(driver, attempts);
  return miopen ? miopen->name : "";
}

}  // namespace hearth::gpu
