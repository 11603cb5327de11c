// Code on a device: modules that a program loads, the code that its own executable registers, and kernels in
// both.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "code_object/code_object.h"
#include "hip/handle_table.h"
#include "hip/runtime.h"
#include "hip/work.h"

namespace hipemu::hip {

// A code object in the memory of one device.
class LoadedModule {
 public:
  // Takes the part of `image` (a code object or a bundle of them) that runs on the device. Throws
  // hipErrorNoBinaryForGpu or hipErrorInvalidImage, after a message on stderr that says which targets there
  // are.
  LoadedModule(std::span<const std::byte> image, Device& device, const std::string& origin);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  const LoadedCode& code() const { return *code_; }
  Device& device() const { return device_; }

 private:
  Device& device_;
  std::unique_ptr<LoadedCode> code_;
};

// A kernel that can be launched.
struct Function {
  std::shared_ptr<LoadedModule> module;
  const Kernel* kernel = nullptr;
  hipFunction_t handle = nullptr;
};

struct Module {
  std::shared_ptr<LoadedModule> loaded;
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Function>, std::less<>> functions;
};

HandleTable<hipFunction_t, Function>& function_table();
HandleTable<hipModule_t, Module>& module_table();

// An image whose length the caller does not say.
std::span<const std::byte> image_span(const void* image);

// The kernel behind a host function of the executable, on this device; null when the function is not
// registered.
std::shared_ptr<Function> registered_function(const void* host_function, Device& device);
// The variable behind a host variable of the executable, on this device. Throws hipErrorInvalidSymbol.
std::span<std::byte> registered_variable(const void* host_variable, Device& device);

struct LaunchShape {
  dim3 grid{1, 1, 1};  // blocks
  dim3 block{1, 1, 1};
  size_t dynamic_lds = 0;
  bool cooperative = false;
};

// A launch, checked against the limits of kernel and chip, with its arguments packed. `named` is how the
// program named the kernel.
KernelWork make_launch(const Function& function, Device& device, const LaunchShape& shape, void** parameters,
                       void** extra, void* named);

// Blocks of this size that fit on one multiprocessor at a time.
int resident_blocks(const Function& function, int block_size, size_t dynamic_lds);

}  // namespace hipemu::hip
