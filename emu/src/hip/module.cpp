// Modules: loading code objects, finding kernels and variables in them.
#include "hip/module.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "hip/graph.h"
#include "hip/memory.h"
#include "memory/address_space.h"

namespace hipemu::hip {

HandleTable<hipFunction_t, Function>& function_table() {
  static auto& table = *new HandleTable<hipFunction_t, Function>;
  return table;
}

HandleTable<hipModule_t, Module>& module_table() {
  static auto& table = *new HandleTable<hipModule_t, Module>;
  return table;
}

LoadedModule::LoadedModule(std::span<const std::byte> image, Device& device, const std::string& origin)
    : device_(device) {
  std::vector<std::byte> file;
  try {
    file = select_code_object(image, device.chip->target);
  } catch (const CodeObjectError& error) {
    fmt::print(stderr, "hipemu: {}: {}\n", origin, error.what());
    throw Failure(hipErrorNoBinaryForGpu);
  }
  try {
    CodeObject object = parse_code_object(file);
    code_ = std::make_unique<LoadedCode>(std::move(object), std::move(file));
  } catch (const CodeObjectError& error) {
    fmt::print(stderr, "hipemu: {}: {}\n", origin, error.what());
    throw Failure(hipErrorInvalidImage);
  }
  // Kernels read constants and write variables in the image; a report of a bad access names what is near.
  std::string name = "code of " + origin;
  const char* separator = ", variables ";
  for (const GlobalVariable& variable : code_->variables()) {
    // Of the compiler's and the headers' making.
    if (variable.name.starts_with("__hip") || variable.name.find("__HIP_") != std::string::npos) continue;
    if (name.size() > 200) {
      name += " and others";
      break;
    }
    name += separator + variable.name;
    separator = ", ";
  }
  address_space().adopt(code_->image().data(), code_->image().size(), MemoryKind::code, device.index, name);
}

LoadedModule::~LoadedModule() {
  if (!shutting_down()) address_space().release(code_->image().data());
}

std::span<const std::byte> image_span(const void* image) {
  require(image, hipErrorInvalidValue);
  const auto* bytes = static_cast<const std::byte*>(image);
  // More than any image has; headers that claim more are not believed.
  constexpr size_t limit = size_t{1} << 32;
  try {
    return {bytes, image_size(bytes, limit)};
  } catch (const CodeObjectError& error) {
    fmt::print(stderr, "hipemu: {}\n", error.what());
    throw Failure(hipErrorInvalidImage);
  }
}

namespace {

void load(hipModule_t* module, std::span<const std::byte> image, const std::string& origin) {
  require(module, hipErrorInvalidValue);
  *module = nullptr;
  Device& device = current_device();
  auto made = std::make_shared<Module>();
  made->loaded = std::make_shared<LoadedModule>(image, device, origin);
  *module = module_table().insert(std::move(made));
}

std::vector<std::byte> read_file(const char* path) {
  std::ifstream file(path, std::ios::binary);
  require(static_cast<bool>(file), hipErrorFileNotFound);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  require(!file.bad(), hipErrorFileNotFound);
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

std::shared_ptr<Function> find_function(Module& module, const char* name) {
  const std::lock_guard lock(module.mutex);
  const auto found = module.functions.find(name);
  if (found != module.functions.end()) return found->second;
  const Kernel* kernel = require(module.loaded->code().find_kernel(name), hipErrorNotFound);
  auto function = std::make_shared<Function>();
  function->module = module.loaded;
  function->kernel = kernel;
  function->handle = function_table().insert(function);
  module.functions.emplace(name, function);
  return function;
}

std::shared_ptr<Function> find_function(hipFunction_t handle) {
  return require(function_table().find(handle), hipErrorInvalidHandle);
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu;
using namespace hipemu::hip;

HIP_API hipError_t hipModuleLoad(hipModule_t* module, const char* path) {
  return api([&] {
    require(path, hipErrorInvalidValue);
    const std::vector<std::byte> file = hip::read_file(path);
    require(!file.empty(), hipErrorInvalidImage);
    load(module, file, path);
  });
}

HIP_API hipError_t hipModuleLoadData(hipModule_t* module, const void* image) {
  return api([&] {
    devices();
    load(module, image_span(image), "hipModuleLoadData");
  });
}

HIP_API hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* image, unsigned, int*, void**) {
  return api([&] {
    devices();
    load(module, image_span(image), "hipModuleLoadDataEx");
  });
}

HIP_API hipError_t hipModuleUnload(hipModule_t module) {
  return api([&] {
    auto found = require(module_table().remove(module), hipErrorInvalidHandle);
    try {
      synchronize_device(found->loaded->device());
    } catch (const Failure&) {
    }
    const std::lock_guard lock(found->mutex);
    for (const auto& [name, function] : found->functions) function_table().remove(function->handle);
  });
}

HIP_API hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  return api([&] {
    require(function && name, hipErrorInvalidValue);
    *function = nullptr;
    auto found = require(module_table().find(module), hipErrorInvalidHandle);
    *function = find_function(*found, name)->handle;
  });
}

HIP_API hipError_t hipModuleGetFunctionCount(unsigned* count, hipModule_t module) {
  return api([&] {
    require(count, hipErrorInvalidValue);
    auto found = require(module_table().find(module), hipErrorInvalidHandle);
    *count = static_cast<unsigned>(found->loaded->code().kernels().size());
  });
}

HIP_API hipError_t hipModuleGetGlobal(hipDeviceptr_t* pointer, size_t* size, hipModule_t module,
                                      const char* name) {
  return api([&] {
    require(name && (pointer || size), hipErrorInvalidValue);
    auto found = require(module_table().find(module), hipErrorInvalidHandle);
    const GlobalVariable* variable = require(found->loaded->code().find_variable(name), hipErrorNotFound);
    if (pointer) *pointer = reinterpret_cast<void*>(variable->address);
    if (size) *size = variable->size;
  });
}

HIP_API hipError_t hipFuncGetAttribute(int* value, hipFunction_attribute attribute, hipFunction_t handle) {
  return api([&] {
    require(value, hipErrorInvalidValue);
    auto function = hip::find_function(handle);
    const Kernel& kernel = *function->kernel;
    const Chip& chip = *function->module->device().chip;
    switch (attribute) {
      case HIP_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = static_cast<int>(kernel.max_flat_workgroup_size);
        return;
      case HIP_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_cast<int>(kernel.descriptor.group_segment_size);
        return;
      case HIP_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = 0;
        return;
      case HIP_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = static_cast<int>(kernel.descriptor.private_segment_size);
        return;
      case HIP_FUNC_ATTRIBUTE_NUM_REGS:
        *value = static_cast<int>(kernel.vgpr_count);
        return;
      case HIP_FUNC_ATTRIBUTE_PTX_VERSION:
      case HIP_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = 30;
        return;  // what ROCm answers on any chip
      case HIP_FUNC_ATTRIBUTE_CACHE_MODE_CA:
        *value = 0;
        return;
      case HIP_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = static_cast<int>(chip.lds_per_block - kernel.descriptor.group_segment_size);
        return;
      case HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = 0;
        return;
    }
    throw Failure(hipErrorInvalidValue);
  });
}

HIP_API const char* hipKernelNameRef(hipFunction_t handle) {
  const auto function = function_table().find(handle);
  return function ? function->kernel->name.c_str() : nullptr;
}
