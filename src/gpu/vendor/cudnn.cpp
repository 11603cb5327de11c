// cuDNN 9's functions for one convolution. Its headers call them deprecated and prefer a graph of
// descriptors, which would need several times the code for the same. Numbers and signatures are those of the
// headers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "gpu/driver/library.h"
#include "gpu/vendor/descriptor.h"
#include "gpu/vendor/installation.h"
#include "gpu/vendor/vendor_library.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

using Handle = void*;

struct Algorithm {
  int number;
  int status;
  float milliseconds;  // guessed
  std::size_t workspace;
  int deterministic;
  int math;
  int reserved[3];
};

// The functions of one operation. Operands come in an order of cuDNN's own.
struct OperationTable {
  int (*algorithms)(Handle handle, Descriptor first, Descriptor second, Descriptor convolution,
                    Descriptor result, int wanted, int* found, Algorithm* algorithms) = nullptr;
  int (*workspace)(Handle handle, Descriptor first, Descriptor second, Descriptor convolution,
                   Descriptor result, int algorithm, std::size_t* bytes) = nullptr;
  int (*run)(Handle handle, const void* alpha, Descriptor first_shape, const void* first,
             Descriptor second_shape, const void* second, Descriptor convolution, int algorithm,
             void* workspace, std::size_t bytes, const void* beta, Descriptor result_shape,
             void* result) = nullptr;
};

struct CudnnTable {
  std::size_t (*version)() = nullptr;
  int (*create)(Handle* handle) = nullptr;
  int (*set_stream)(Handle handle, StreamHandle stream) = nullptr;
  int (*tensor_create)(Descriptor* tensor) = nullptr;
  int (*tensor_destroy)(Descriptor tensor) = nullptr;
  int (*tensor_set)(Descriptor tensor, int type, int axes, const int* sizes, const int* strides) = nullptr;
  int (*filter_create)(Descriptor* filter) = nullptr;
  int (*filter_destroy)(Descriptor filter) = nullptr;
  int (*filter_set)(Descriptor filter, int type, int format, int axes, const int* sizes) = nullptr;
  int (*convolution_create)(Descriptor* convolution) = nullptr;
  int (*convolution_destroy)(Descriptor convolution) = nullptr;
  int (*convolution_set)(Descriptor convolution, int axes, const int* padding, const int* stride,
                         const int* dilation, int mode, int compute_type) = nullptr;
  int (*set_groups)(Descriptor convolution, int groups) = nullptr;
  int (*set_math)(Descriptor convolution, int math) = nullptr;
  OperationTable forward, input_grad, weight_grad;

  const OperationTable& of(Op op) const {
    return op == Op::conv ? forward : op == Op::conv_input_grad ? input_grad : weight_grad;
  }
};

void bind(const Library& library, CudnnTable& call, std::vector<std::string>& missing) {
  library.bind(call.version, {"cudnnGetVersion"}, missing);
  library.bind(call.create, {"cudnnCreate"}, missing);
  library.bind(call.set_stream, {"cudnnSetStream"}, missing);
  library.bind(call.tensor_create, {"cudnnCreateTensorDescriptor"}, missing);
  library.bind(call.tensor_destroy, {"cudnnDestroyTensorDescriptor"}, missing);
  library.bind(call.tensor_set, {"cudnnSetTensorNdDescriptor"}, missing);
  library.bind(call.filter_create, {"cudnnCreateFilterDescriptor"}, missing);
  library.bind(call.filter_destroy, {"cudnnDestroyFilterDescriptor"}, missing);
  library.bind(call.filter_set, {"cudnnSetFilterNdDescriptor"}, missing);
  library.bind(call.convolution_create, {"cudnnCreateConvolutionDescriptor"}, missing);
  library.bind(call.convolution_destroy, {"cudnnDestroyConvolutionDescriptor"}, missing);
  library.bind(call.convolution_set, {"cudnnSetConvolutionNdDescriptor"}, missing);
  library.bind(call.set_groups, {"cudnnSetConvolutionGroupCount"}, missing);
  library.bind(call.set_math, {"cudnnSetConvolutionMathType"}, missing);
  const auto operation = [&](OperationTable& table, const std::string& name) {
    const auto to = [&](auto*& function, const std::string& symbol) {
      library.bind(function, {symbol.c_str()}, missing);
    };
    to(table.algorithms, "cudnnGetConvolution" + name + "Algorithm_v7");
    to(table.workspace, "cudnnGetConvolution" + name + "WorkspaceSize");
    to(table.run, "cudnnConvolution" + name);
  };
  operation(call.forward, "Forward");
  operation(call.input_grad, "BackwardData");
  operation(call.weight_grad, "BackwardFilter");
}

struct Cudnn {
  std::string name = "cuDNN", path;
  CudnnTable call;
  std::map<StreamHandle, Handle> handles;
  mutable std::mutex mutex;  // of all calls: a handle is not safe from several threads

  void check(int status, const char* what) const {
    if (status != 0) throw DnnError(fmt::format("[{}] {} failed with status {}", name, what, status));
  }
};

// What the library is told of a convolution.
struct Problem {
  const Cudnn& cudnn;
  const OperationTable& operation;
  bool second_first;  // cuDNN's first operand is the step's second: the gradient by x takes w before dy
  bool b_is_filter;   // otherwise the result is
  OwnedDescriptor a, b, result, convolution;

  Problem(const Cudnn& library, const PlainConvolution& c)
      : cudnn(library),
        operation(library.call.of(c.op)),
        second_first(c.op == Op::conv_input_grad),
        b_is_filter(c.op != Op::conv_weight_grad),
        a(library.call.tensor_destroy),
        b(b_is_filter ? library.call.filter_destroy : library.call.tensor_destroy),
        result(b_is_filter ? library.call.tensor_destroy : library.call.filter_destroy),
        convolution(library.call.convolution_destroy) {
    lay_tensor(a, c.dtype, c.a);
    if (b_is_filter) {
      lay_filter(b, c.dtype, c.b);
      lay_tensor(result, c.dtype, c.result);
    } else {
      lay_tensor(b, c.dtype, c.b);
      lay_filter(result, c.dtype, c.result);
    }
    const CudnnTable& call = cudnn.call;
    constexpr int cross_correlation = 1, f32 = 0;
    const std::vector<int> padding(c.padding.begin(), c.padding.end());
    const std::vector<int> stride(c.stride.begin(), c.stride.end());
    const std::vector<int> dilation(c.dilation.begin(), c.dilation.end());
    cudnn.check(call.convolution_create(convolution.place()), "describing");
    cudnn.check(call.convolution_set(convolution.get(), static_cast<int>(padding.size()), padding.data(),
                                     stride.data(), dilation.data(), cross_correlation, f32),
                "describing");
    cudnn.check(call.set_groups(convolution.get(), static_cast<int>(c.groups)), "describing");
    // Plain multiply-adds for f32, where the default would round to TF32; the matrix unit for 16 bits.
    constexpr int matrix_unit = 1, multiply_add = 3;
    cudnn.check(call.set_math(convolution.get(), c.dtype == DType::f32 ? multiply_add : matrix_unit),
                "describing");
  }

  Descriptor first() const { return second_first ? b.get() : a.get(); }
  Descriptor second() const { return second_first ? a.get() : b.get(); }

 private:
  static int type_number(DType dtype) { return dtype == DType::f32 ? 0 : dtype == DType::f16 ? 2 : 9; }

  void lay_tensor(OwnedDescriptor& tensor, DType dtype, const Shape& shape) {
    const Strides dense = contiguous_strides(shape);
    const std::vector<int> sizes(shape.begin(), shape.end()), strides(dense.begin(), dense.end());
    cudnn.check(cudnn.call.tensor_create(tensor.place()), "describing a tensor");
    cudnn.check(cudnn.call.tensor_set(tensor.get(), type_number(dtype), static_cast<int>(sizes.size()),
                                      sizes.data(), strides.data()),
                "describing a tensor");
  }
  void lay_filter(OwnedDescriptor& filter, DType dtype, const Shape& shape) {
    constexpr int channels_first = 0;
    const std::vector<int> sizes(shape.begin(), shape.end());
    cudnn.check(cudnn.call.filter_create(filter.place()), "describing weights");
    cudnn.check(cudnn.call.filter_set(filter.get(), type_number(dtype), channels_first,
                                      static_cast<int>(sizes.size()), sizes.data()),
                "describing weights");
  }
};

class CudnnCall final : public LibraryCall {
 public:
  CudnnCall(std::shared_ptr<const Problem> problem, int algorithm, std::size_t workspace)
      : problem_(std::move(problem)), algorithm_(algorithm), workspace_(workspace) {}
  std::string name() const override { return fmt::format("algorithm {}", algorithm_); }
  std::size_t workspace_bytes() const override { return workspace_; }

  void run(StreamHandle stream, const void* a, const void* b, void* result, void* workspace) const override {
    static constexpr float one = 1, zero = 0;
    const Problem& p = *problem_;
    if (p.second_first) std::swap(a, b);
    if (workspace_ == 0) workspace = nullptr;
    const std::lock_guard lock(p.cudnn.mutex);
    p.cudnn.check(
        p.operation.run(p.cudnn.handles.at(stream), &one, p.first(), a, p.second(), b, p.convolution.get(),
                        algorithm_, workspace, workspace_, &zero, p.result.get(), result),
        "a convolution");
  }

 private:
  std::shared_ptr<const Problem> problem_;
  int algorithm_;
  std::size_t workspace_;
};

class CudnnLibrary final : public ConvolutionLibrary {
 public:
  explicit CudnnLibrary(std::unique_ptr<const Cudnn> cudnn) : cudnn_(std::move(cudnn)) {}
  const std::string& name() const override { return cudnn_->name; }

  LibraryCalls calls(const PlainConvolution& convolution, int most) const override {
    const auto problem = std::make_shared<const Problem>(*cudnn_, convolution);
    const std::lock_guard lock(cudnn_->mutex);
    const Handle handle = cudnn_->handles.begin()->second;
    // An algorithm may come more than once, with other mathematics than were asked for.
    std::array<Algorithm, 2 * most_calls> algorithms{};
    int found = 0;
    cudnn_->check(problem->operation.algorithms(
                      handle, problem->first(), problem->second(), problem->convolution.get(),
                      problem->result.get(), static_cast<int>(algorithms.size()), &found, algorithms.data()),
                  "asking for algorithms");
    LibraryCalls calls;
    std::vector<int> seen;
    for (int i = 0; i < found && static_cast<int>(calls.size()) < most; ++i) {
      const Algorithm& algorithm = algorithms[static_cast<std::size_t>(i)];
      // The same bits each time.
      if (algorithm.status != 0 || algorithm.deterministic != 1) continue;
      if (std::find(seen.begin(), seen.end(), algorithm.number) != seen.end()) continue;
      seen.push_back(algorithm.number);
      std::size_t workspace = 0;
      if (problem->operation.workspace(handle, problem->first(), problem->second(),
                                       problem->convolution.get(), problem->result.get(), algorithm.number,
                                       &workspace) == 0 &&
          workspace <= convolution_workspace)
        calls.push_back(std::make_unique<CudnnCall>(problem, algorithm.number, workspace));
    }
    return calls;
  }

 private:
  std::unique_ptr<const Cudnn> cudnn_;
};

// Functions and version; null where they are not there.
std::unique_ptr<Cudnn> load(const Driver& driver, std::vector<OpenAttempt>& attempts) {
  const Library library(names_in(cuda_folders_of(driver, "cudnn"), {"libcudnn.so.9"}), attempts);
  if (!library) return nullptr;
  auto cudnn = std::make_unique<Cudnn>();
  cudnn->path = library.path();
  std::vector<std::string> missing;
  bind(library, cudnn->call, missing);
  if (!missing.empty()) {
    attempts.push_back({library.path(), fmt::format("lacks {}", fmt::join(missing, ", "))});
    return nullptr;
  }
  const std::size_t number = cudnn->call.version();  // 91002 is 9.10.2
  cudnn->name += fmt::format(" {}.{}.{}", number / 10'000, number / 100 % 100, number % 100);
  return cudnn;
}

}  // namespace

std::unique_ptr<ConvolutionLibrary> open_cudnn(GpuDevice& device, std::vector<OpenAttempt>& attempts) {
  auto cudnn = load(device.driver(), attempts);
  if (!cudnn) return nullptr;
  for (const StreamHandle stream : {device.stream(), device.capture_stream()}) {
    Handle handle = nullptr;
    int status = cudnn->call.create(&handle);
    if (status == 0) status = cudnn->call.set_stream(handle, stream);
    if (status != 0) {
      attempts.push_back({cudnn->path, fmt::format("a handle failed with status {}", status)});
      return nullptr;
    }
    cudnn->handles[stream] = handle;
  }
  return std::make_unique<CudnnLibrary>(std::move(cudnn));
}

std::string installed_cudnn(const Driver& driver, std::vector<OpenAttempt>& attempts) {
  const auto cudnn = load(driver, attempts);
  return cudnn ? cudnn->name : "";
}

}  // namespace hearth::gpu
