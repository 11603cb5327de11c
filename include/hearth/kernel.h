// GPU kernels of your own, compiled at run time for the device at hand.
//
//   auto scale = compile_kernel(R"(
//     extern "C" __global__ void scale(float* x, float factor, int count) {
//       int i = blockIdx.x * blockDim.x + threadIdx.x;
//       if (i < count) x[i] *= factor;
//     })", "scale", device_from_name("gpu"));
//   Tensor x = ones({1000}).to(scale.device());
//   scale.launch({.blocks = {4}, .threads = {256}}, x, 2.0f, 1000);
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "hearth/tensor.h"

namespace hearth {

class LoadedKernel;  // of a backend

struct LaunchSizes {
  struct Extent {
    unsigned x = 1, y = 1, z = 1;
  };
  Extent blocks = {};
  Extent threads = {};        // per block
  unsigned shared_bytes = 0;  // besides what the kernel declares
};

// A kernel on one device. Safe from any thread.
class GpuKernel {
 public:
  // Tensors are passed as pointers to their first element: they are evaluated first, must be dense and on the
  // kernel's device, and what is written to them is seen by everything that shares their memory. Other
  // arguments are passed as they are: their types must be those of the kernel's parameters. Runs in order
  // with the device's other work and returns at once.
  template <class... Arguments>
  void launch(const LaunchSizes& sizes, const Arguments&... arguments) const {
    launch_values(sizes, std::initializer_list<Value>{Value(arguments)...});
  }

  // One argument, or the tensor that becomes one. Refers to what it was made of.
  struct Value {
    const Tensor* tensor = nullptr;
    const void* data = nullptr;
    std::size_t bytes = 0;
    explicit Value(const Tensor& given) : tensor(&given) {}
    template <class T>
    explicit Value(const T& given) : data(&given), bytes(sizeof given) {
      static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
                    "a tensor, a number or a plain structure");
    }
  };
  // launch() with arguments that are known only at run time.
  void launch_values(const LaunchSizes& sizes, std::span<const Value> values) const;

  Device device() const { return device_; }
  const std::string& name() const { return name_; }
  int registers() const;      // per thread
  int shared_bytes() const;   // that the kernel declares
  int spilled_bytes() const;  // per thread, in memory for want of registers
  int most_threads() const;   // that a block may have

 private:
  friend GpuKernel compile_kernel(const std::string&, const std::string&, Device,
                                  const std::vector<std::string>&);
  GpuKernel(std::shared_ptr<const LoadedKernel> loaded, Device device, std::string name);

  std::shared_ptr<const LoadedKernel> loaded_;
  Device device_;
  std::string name_;
};

// Compiles `source` (C++ with the GPU's built-in variables; `name` must be declared extern "C" __global__)
// for the device. `options` go to the compiler (hiprtc or nvrtc). Compiled kernels are kept on disk. Throws
// CompileError with the compiler's log, DeviceError on a CPU.
GpuKernel compile_kernel(const std::string& source, const std::string& name, Device device = default_device(),
                         const std::vector<std::string>& options = {});

// What compiling kernels, Hearth's own included, has cost this process.
struct KernelCacheStats {
  std::uint64_t compilations = 0;  // the rest were found
  std::uint64_t memory_hits = 0, disk_hits = 0;
  std::uint64_t errors = 0;  // that did not compile
  double seconds = 0;        // spent compiling
};
KernelCacheStats kernel_cache_stats();
void clear_kernel_cache();  // in memory and on disk

}  // namespace hearth
