// Libraries of vendors that multiply matrices, opened at run time where they are installed. None is needed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device.h"
#include "gpu/plain_product.h"

namespace hearth::gpu {

// One of a library's ways to compute one product. Safe from any thread.
class ProductCall {
 public:
  virtual ~ProductCall() = default;
  virtual std::size_t workspace_bytes() const = 0;
  // Puts the product on `stream`, which is the device's stream or its capture_stream(). Pointers are
  // multiples of 16 bytes. Throws BlasError.
  virtual void run(StreamHandle stream, const void* a, const void* b, void* result,
                   void* workspace) const = 0;
};

class ProductLibrary {
 public:
  virtual ~ProductLibrary() = default;
  virtual const std::string& name() const = 0;  // with its version: "cuBLASLt 13.1.0"
  // Used for large products nobody has measured. The others take part only where ways are measured: where
  // they fail, they may take the process with them.
  virtual bool by_default() const = 0;
  // At most so many, the one it likes best first; the same ones each time. Empty where it cannot.
  virtual std::vector<std::unique_ptr<ProductCall>> calls(const PlainProduct& product, int most) const = 0;
};

// Those that work on a device, opened on first use.
std::vector<const ProductLibrary*> product_libraries(GpuDevice& device);
// One more, for tests.
void add_product_library(GpuDevice& device, std::unique_ptr<ProductLibrary> library);

constexpr std::size_t product_workspace = 32 << 20;  // bytes that a call may ask for

// Each opens one library; null where it is not there or does not work, and `attempts` says why.
std::unique_ptr<ProductLibrary> open_cublaslt(GpuDevice& device, std::vector<OpenAttempt>& attempts);
std::unique_ptr<ProductLibrary> open_hipblaslt(GpuDevice& device, std::vector<OpenAttempt>& attempts);
std::unique_ptr<ProductLibrary> open_rocblas(GpuDevice& device, std::vector<OpenAttempt>& attempts);
// All that was tried so far, for any device.
std::vector<OpenAttempt> product_library_attempts();

// Folders with libraries of the ROCm installation that the driver came from: two must not meet in a process.
std::vector<std::filesystem::path> rocm_folders_of(const Driver& driver);
// Whether there is a file of kernels for an architecture in `folder`, "TensileLibrary_..._gfx1100.dat", or a
// folder of them.
bool has_kernels_for(const std::filesystem::path& folder, const std::string& architecture);

}  // namespace hearth::gpu
