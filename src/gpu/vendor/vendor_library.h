// Libraries of vendors that multiply matrices or convolve, opened at run time where they are installed. None
// is needed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/device.h"
#include "gpu/plain_convolution.h"
#include "gpu/plain_product.h"

namespace hearth::gpu {

// One of a library's ways to compute one problem: a result from two operands. Safe from any thread.
class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  virtual std::string name() const = 0;  // among the library's: "#0", "solution 85"
  virtual std::size_t workspace_bytes() const = 0;
  // Puts the work on `stream`, which is the device's stream or its capture_stream(). Pointers are multiples
  // of 16 bytes. Throws LibraryError.
  virtual void run(StreamHandle stream, const void* a, const void* b, void* result,
                   void* workspace) const = 0;
};
using LibraryCalls = std::vector<std::unique_ptr<LibraryCall>>;

constexpr int most_calls = 16;  // that are worth trying for one problem

template <class Problem>
class VendorLibrary {
 public:
  virtual ~VendorLibrary() = default;
  virtual const std::string& name() const = 0;  // with its version: "cuBLASLt 13.1.0"
  // Used for large problems nobody has measured. The others take part only where ways are measured: where
  // they fail, they may take the process with them.
  virtual bool by_default() const { return false; }
  // At most so many, the one it likes best first. Empty where it cannot.
  virtual LibraryCalls calls(const Problem& problem, int most) const = 0;
  // The one of that name, whatever it likes best by now; null where there is none.
  virtual std::unique_ptr<LibraryCall> call(const Problem& problem, std::string_view name) const {
    for (auto& call : calls(problem, most_calls))
      if (call->name() == name) return std::move(call);
    return nullptr;
  }
};
using ProductLibrary = VendorLibrary<PlainProduct>;
using ConvolutionLibrary = VendorLibrary<PlainConvolution>;

// Those that work on a device, opened on first use.
std::vector<const ProductLibrary*> product_libraries(GpuDevice& device);
std::vector<const ConvolutionLibrary*> convolution_libraries(GpuDevice& device);
// One more, for tests.
void add_product_library(GpuDevice& device, std::unique_ptr<ProductLibrary> library);
// All that was tried so far, for any device.
std::vector<OpenAttempt> library_attempts();

// Bytes that a call may ask for.
constexpr std::size_t product_workspace = 32 << 20, convolution_workspace = 256 << 20;

// Each opens one library; null where it is not there or does not work, and `attempts` says why.
std::unique_ptr<ProductLibrary> open_cublaslt(GpuDevice& device, std::vector<OpenAttempt>& attempts);
std::unique_ptr<ProductLibrary> open_hipblaslt(GpuDevice& device, std::vector<OpenAttempt>& attempts);
std::unique_ptr<ProductLibrary> open_rocblas(GpuDevice& device, std::vector<OpenAttempt>& attempts);
std::unique_ptr<ConvolutionLibrary> open_cudnn(GpuDevice& device, std::vector<OpenAttempt>& attempts);
std::unique_ptr<ConvolutionLibrary> open_miopen(GpuDevice& device, std::vector<OpenAttempt>& attempts);

// The DNN library for a driver's devices, opened without one for reports: "MIOpen 3.4.0". Empty where there
// is none that works, and `attempts` says why.
std::string installed_dnn_library(const Driver& driver, std::vector<OpenAttempt>& attempts);
std::string installed_cudnn(const Driver& driver, std::vector<OpenAttempt>& attempts);
std::string installed_miopen(const Driver& driver, std::vector<OpenAttempt>& attempts);

}  // namespace hearth::gpu
