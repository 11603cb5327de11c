// What the compiler's start-up code registers: the code objects embedded in an executable or shared library,
// and the host functions and variables that stand for kernels and device variables.
//
// Registration happens before main(), in the middle of static initialisation: it only notes addresses. Code
// is loaded for a device when something of it is first used there.
#include <fmt/core.h>

#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "hip/memory.h"
#include "hip/module.h"

namespace hipemu::hip {
namespace {

// What __hipRegisterFatBinary is given.
struct FatBinaryWrapper {
  uint32_t magic;
  uint32_t version;
  const void* image;
  const void* unused;
};
constexpr uint32_t wrapper_magic = 0x48495046;  // "HIPF"

struct ManagedVariable {
  std::string name;
  void* memory;
};

struct FatBinary {
  const void* image = nullptr;
  std::mutex mutex;
  std::map<int, std::shared_ptr<LoadedModule>> on_device;
  std::map<int, hipError_t> failed;  // devices for which there is no code: said once
  std::vector<ManagedVariable> managed;
};

struct HostFunction {
  FatBinary* binary;
  std::string name;
  std::map<int, std::shared_ptr<Function>> on_device;
};
struct HostVariable {
  FatBinary* binary;
  std::string name;
  size_t size;
};

struct Registry {
  std::mutex mutex;
  std::unordered_map<FatBinary*, std::unique_ptr<FatBinary>> binaries;
  std::unordered_map<const void*, HostFunction> functions;
  std::unordered_map<const void*, HostVariable> variables;
};
Registry& registry() {
  static auto& all = *new Registry;
  return all;
}

std::shared_ptr<LoadedModule> load(FatBinary& binary, Device& device) {
  const std::lock_guard lock(binary.mutex);
  auto& loaded = binary.on_device[device.index];
  if (loaded) return loaded;
  const auto failed = binary.failed.find(device.index);
  if (failed != binary.failed.end()) throw Failure(failed->second);
  try {
    loaded = std::make_shared<LoadedModule>(image_span(binary.image), device, "the executable");
  } catch (const Failure& failure) {
    binary.failed[device.index] = failure.code;
    throw;
  }
  // The device's variable of a managed variable is a pointer to the memory that both sides use.
  for (const ManagedVariable& variable : binary.managed) {
    const GlobalVariable* pointer = loaded->code().find_variable(variable.name);
    if (!pointer || pointer->size != sizeof(void*)) continue;
    std::memcpy(reinterpret_cast<void*>(pointer->address), &variable.memory, sizeof(void*));
  }
  return loaded;
}

struct CallConfiguration {
  dim3 grid, block;
  size_t dynamic_lds;
  hipStream_t stream;
  std::vector<std::byte> arguments;  // of hipSetupArgument
};
thread_local std::vector<CallConfiguration> configurations;

}  // namespace

std::shared_ptr<Function> registered_function(const void* host_function, Device& device) {
  Registry& all = registry();
  FatBinary* binary = nullptr;
  std::string name;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.functions.find(host_function);
    if (found == all.functions.end()) return nullptr;
    const auto ready = found->second.on_device.find(device.index);
    if (ready != found->second.on_device.end()) return ready->second;
    binary = found->second.binary;
    name = found->second.name;
  }
  auto function = std::make_shared<Function>();
  function->module = load(*binary, device);
  function->kernel = require(function->module->code().find_kernel(name), hipErrorInvalidDeviceFunction);
  const std::lock_guard lock(all.mutex);
  const auto found = all.functions.find(host_function);
  if (found == all.functions.end()) return nullptr;
  auto& slot = found->second.on_device[device.index];
  if (!slot) {
    function->handle = function_table().insert(function);
    slot = std::move(function);
  }
  return slot;
}

std::span<std::byte> registered_variable(const void* host_variable, Device& device) {
  Registry& all = registry();
  FatBinary* binary = nullptr;
  std::string name;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.variables.find(host_variable);
    require(found != all.variables.end(), hipErrorInvalidSymbol);
    binary = found->second.binary;
    name = found->second.name;
  }
  const auto module = load(*binary, device);
  const GlobalVariable* variable = require(module->code().find_variable(name), hipErrorInvalidSymbol);
  return {reinterpret_cast<std::byte*>(variable->address), variable->size};
}

}  // namespace hipemu::hip

using namespace hipemu::hip;
using hipemu::MemoryKind;

HIP_API void** __hipRegisterFatBinary(const void* data) {
  const auto* wrapper = static_cast<const FatBinaryWrapper*>(data);
  if (!wrapper || wrapper->magic != wrapper_magic || wrapper->version != 1 || !wrapper->image) {
    fmt::print(stderr, "hipemu: the program registers device code in a form that is not known\n");
    return nullptr;
  }
  auto binary = std::make_unique<FatBinary>();
  binary->image = wrapper->image;
  FatBinary* key = binary.get();
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.binaries.emplace(key, std::move(binary));
  return reinterpret_cast<void**>(key);
}

HIP_API void __hipUnregisterFatBinary(void** modules) {
  if (shutting_down()) return;
  auto* key = reinterpret_cast<FatBinary*>(modules);
  Registry& all = registry();
  std::unique_ptr<FatBinary> gone;
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.binaries.find(key);
    if (found == all.binaries.end()) return;
    gone = std::move(found->second);
    all.binaries.erase(found);
    std::erase_if(all.functions, [&](const auto& entry) {
      if (entry.second.binary != key) return false;
      for (const auto& [device, function] : entry.second.on_device) function_table().remove(function->handle);
      return true;
    });
    std::erase_if(all.variables, [&](const auto& entry) { return entry.second.binary == key; });
  }
}

HIP_API void __hipRegisterFunction(void** modules, const void* host_function, char*, const char* name,
                                   unsigned, void*, void*, dim3*, dim3*, int*) {
  if (!modules || !host_function || !name) return;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.functions[host_function] = {reinterpret_cast<FatBinary*>(modules), name, {}};
}

HIP_API void __hipRegisterVar(void** modules, void* variable, char*, char* name, int, size_t size, int, int) {
  if (!modules || !variable || !name) return;
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.variables[variable] = {reinterpret_cast<FatBinary*>(modules), name, size};
}

HIP_API void __hipRegisterManagedVar(void* modules, void** pointer, void* initial, const char* name,
                                     size_t size, unsigned) {
  if (!modules || !pointer || !name || size == 0) return;
  // The host reads the variable through this pointer from now on, so its memory is made here.
  hipemu::Allocation* memory =
      hipemu::address_space().allocate(size, MemoryKind::managed, 0, std::string("managed variable ") + name);
  if (!memory) return;
  if (initial)
    std::memcpy(memory->base, initial, size);
  else
    std::memset(memory->base, 0, size);
  hipemu::address_space().mark_written(memory->base, size);
  *pointer = memory->base;
  auto* binary = reinterpret_cast<FatBinary*>(modules);
  const std::lock_guard lock(binary->mutex);
  binary->managed.push_back({name, memory->base});
}

// Textures and surfaces are not emulated; a program may still have some that it never uses.
HIP_API void __hipRegisterSurface(void**, void*, char*, char*, int, int) {}
HIP_API void __hipRegisterTexture(void**, void*, char*, char*, int, int, int) {}

HIP_API hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, size_t dynamic_lds, hipStream_t stream) {
  return api([&] { configurations.push_back({grid, block, dynamic_lds, stream, {}}); });
}

HIP_API hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, size_t* dynamic_lds,
                                             hipStream_t* stream) {
  return api([&] {
    require(!configurations.empty(), hipErrorMissingConfiguration);
    require(grid && block && dynamic_lds && stream, hipErrorInvalidValue);
    const CallConfiguration top = std::move(configurations.back());
    configurations.pop_back();
    *grid = top.grid;
    *block = top.block;
    *dynamic_lds = top.dynamic_lds;
    *stream = top.stream;
  });
}

HIP_API hipError_t hipConfigureCall(dim3 grid, dim3 block, size_t dynamic_lds, hipStream_t stream) {
  return api([&] { configurations.push_back({grid, block, dynamic_lds, stream, {}}); });
}

HIP_API hipError_t hipSetupArgument(const void* argument, size_t size, size_t offset) {
  return api([&] {
    require(!configurations.empty(), hipErrorMissingConfiguration);
    require(argument && size <= 4096 && offset <= 4096, hipErrorInvalidValue);
    auto& arguments = configurations.back().arguments;
    if (arguments.size() < offset + size) arguments.resize(offset + size);
    std::memcpy(arguments.data() + offset, argument, size);
  });
}

HIP_API hipError_t hipLaunchByPtr(const void* host_function) {
  return api([&] {
    require(!configurations.empty(), hipErrorMissingConfiguration);
    CallConfiguration top = std::move(configurations.back());
    configurations.pop_back();
    auto stream = resolve_stream(top.stream);
    auto function =
        require(registered_function(host_function, stream->device), hipErrorInvalidDeviceFunction);
    check_sticky(stream->device);
    size_t size = top.arguments.size();
    void* extra[] = {HIP_LAUNCH_PARAM_BUFFER_POINTER, top.arguments.data(), HIP_LAUNCH_PARAM_BUFFER_SIZE,
                     &size, HIP_LAUNCH_PARAM_END};
    submit(*stream, make_launch(*function, stream->device, {top.grid, top.block, top.dynamic_lds, false},
                                nullptr, size ? extra : nullptr, const_cast<void*>(host_function)));
  });
}

HIP_API hipError_t hipGetSymbolAddress(void** pointer, const void* symbol) {
  return api([&] {
    require(pointer, hipErrorInvalidValue);
    *pointer = registered_variable(require(symbol, hipErrorInvalidSymbol), current_device()).data();
  });
}

HIP_API hipError_t hipGetSymbolSize(size_t* size, const void* symbol) {
  return api([&] {
    require(size, hipErrorInvalidValue);
    *size = registered_variable(require(symbol, hipErrorInvalidSymbol), current_device()).size();
  });
}

HIP_API hipError_t hipGetFuncBySymbol(hipFunction_t* function, const void* host_function) {
  return api([&] {
    require(function, hipErrorInvalidValue);
    *function =
        require(registered_function(require(host_function, hipErrorInvalidDeviceFunction), current_device()),
                hipErrorInvalidDeviceFunction)
            ->handle;
  });
}

HIP_API const char* hipKernelNameRefByPtr(const void* host_function, hipStream_t) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.functions.find(host_function);
  return found == all.functions.end() ? nullptr : found->second.name.c_str();
}
