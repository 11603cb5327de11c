// The CUDA driver and nvrtc, opened at run time. Numbers and signatures are those of the CUDA driver ABI.
#include <fmt/format.h>

#include <array>
#include <mutex>

#include "gpu/driver/driver.h"
#include "gpu/driver/library.h"

namespace hearth::gpu {
namespace {

constexpr int max_devices = 64;

struct Cuda {
  int (*device_get)(int* device, int ordinal) = nullptr;
  int (*primary_retain)(void** context, int device) = nullptr;
  int (*set_current)(void* context) = nullptr;
  int (*attribute)(int* value, int attribute, int device) = nullptr;
  int (*fill)(unsigned long long target, unsigned char value, std::size_t bytes, void* stream) = nullptr;
  int (*instantiate)(void** executable, void* graph, unsigned long long flags) = nullptr;
  int (*graph_add_kernel)(void** node, void* graph, void* const* after, std::size_t count,
                          const void* parameters) = nullptr;
  int (*graph_update_kernel)(void* executable, void* node, const void* parameters) = nullptr;
  int (*graph_add_dependencies)(void* graph, void* const* from, void* const* to, const void* edges,
                                std::size_t count) = nullptr;
  int (*set_function_attribute)(void* function, int attribute, int value) = nullptr;
  int (*enable_peer)(void* context, unsigned flags) = nullptr;
  int (*host_allocate)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
  std::array<void*, max_devices> contexts{};
  std::mutex mutex;
};
Cuda& cuda = *new Cuda;

constexpr int invalid_device = 101;

int context_of(int device, void** context) {
  if (device < 0 || device >= max_devices) return invalid_device;
  const std::lock_guard lock(cuda.mutex);
  void*& kept = cuda.contexts[static_cast<std::size_t>(device)];
  if (kept == nullptr) {
    int handle = 0;
    if (const int code = cuda.device_get(&handle, device); code != 0) return code;
    if (const int code = cuda.primary_retain(&kept, handle); code != 0) return code;
  }
  *context = kept;
  return 0;
}

int use_device(int device) {
  thread_local int current = -1;
  if (current == device) return 0;
  void* context = nullptr;
  if (const int code = context_of(device, &context); code != 0) return code;
  const int code = cuda.set_current(context);
  if (code == 0) current = device;
  return code;
}

int device_architecture(char* name, int length, int device) {
  int major = 0, minor = 0;
  constexpr int attribute_major = 75, attribute_minor = 76;
  if (const int code = cuda.attribute(&major, attribute_major, device); code != 0) return code;
  if (const int code = cuda.attribute(&minor, attribute_minor, device); code != 0) return code;
  const auto end = fmt::format_to_n(name, length - 1, "sm_{}{}", major, minor);
  *end.out = '\0';
  return 0;
}

int allocate_host(void** memory, std::size_t bytes, unsigned) {
  constexpr unsigned portable = 1;
  return cuda.host_allocate(memory, bytes, portable);
}
int fill_bytes(void* target, unsigned char value, std::size_t bytes, void* stream) {
  return cuda.fill(reinterpret_cast<unsigned long long>(target), value, bytes, stream);
}
int graph_instantiate(void** executable, void* graph) { return cuda.instantiate(executable, graph, 0); }
// CUDA_KERNEL_NODE_PARAMS_v2; the first version is its beginning.
struct KernelNodeParameters {
  void* function;
  unsigned grid[3], block[3], shared;
  void** arguments;
  void** extra;
  void* kernel;
  void* context;
};
KernelNodeParameters parameters_of(const KernelNode& node) {
  return {node.function,
          {node.x, node.y, node.z},
          {node.threads, 1, 1},
          node.shared,
          node.arguments,
          nullptr,
          nullptr,
          nullptr};
}
int graph_add_kernel(void** node, void* graph, void* const* after, std::size_t count,
                     const KernelNode& kernel) {
  const KernelNodeParameters parameters = parameters_of(kernel);
  return cuda.graph_add_kernel(node, graph, after, count, &parameters);
}
int graph_update_kernel(void* executable, void* node, const KernelNode& kernel) {
  const KernelNodeParameters parameters = parameters_of(kernel);
  return cuda.graph_update_kernel(executable, node, &parameters);
}
int graph_follow_early(void* graph, void* after, void* node) {
  // CUgraphEdgeData: as soon as all blocks of the kernel `after` allow it.
  constexpr unsigned char port_programmatic = 1, type_programmatic = 1;
  const unsigned char edge[8] = {port_programmatic, 0, type_programmatic};
  return cuda.graph_add_dependencies(graph, &after, &node, edge, 1);
}
int allow_shared(void* function, int bytes) {
  constexpr int max_dynamic_shared = 8, shared_percent = 9;
  const int code = cuda.set_function_attribute(function, max_dynamic_shared, bytes);
  if (code != 0) return code;
  // Unasked, a compute unit makes as much of its memory shared as the blocks of this kernel can use: the next
  // one, if it needs more, could not start beside it.
  return cuda.set_function_attribute(function, shared_percent, 100);
}
int enable_peer(int peer) {
  void* context = nullptr;
  if (const int code = context_of(peer, &context); code != 0) return code;
  return cuda.enable_peer(context, 0);
}

void set_attributes(DriverCodes& codes) {
  const auto set = [&](Attribute attribute, int number) {
    codes.attributes[static_cast<int>(attribute)] = number;
  };
  set(Attribute::wave_size, 10);
  set(Attribute::compute_units, 16);
  set(Attribute::shared_per_block, 8);
  set(Attribute::integrated, 18);
  set(Attribute::pci_domain, 50);
  set(Attribute::pci_bus, 33);
  set(Attribute::pci_device, 34);
}

void bind_driver(const Library& library, Driver& driver, std::vector<std::string>& missing) {
  DriverTable& call = driver.call;
  library.bind(call.initialise, {"cuInit"}, missing);
  library.bind(call.driver_version, {"cuDriverGetVersion"}, missing);
  call.runtime_version = call.driver_version;
  library.bind(call.device_count, {"cuDeviceGetCount"}, missing);
  library.bind(cuda.device_get, {"cuDeviceGet"}, missing);
  library.bind(call.device_name, {"cuDeviceGetName"}, missing);
  library.bind(call.device_total_memory, {"cuDeviceTotalMem_v2"}, missing);
  library.bind(call.device_attribute, {"cuDeviceGetAttribute"}, missing);
  cuda.attribute = call.device_attribute;
  library.bind(cuda.primary_retain, {"cuDevicePrimaryCtxRetain"}, missing);
  library.bind(cuda.set_current, {"cuCtxSetCurrent"}, missing);
  library.bind(call.synchronize_device, {"cuCtxSynchronize"}, missing);
  library.bind(call.can_access_peer, {"cuDeviceCanAccessPeer"}, missing);
  library.bind(cuda.enable_peer, {"cuCtxEnablePeerAccess"}, missing);
  library.bind(call.memory_info, {"cuMemGetInfo_v2"}, missing);
  library.bind(call.allocate, {"cuMemAlloc_v2"}, missing);
  library.bind(call.release, {"cuMemFree_v2"}, missing);
  library.bind(cuda.host_allocate, {"cuMemHostAlloc"}, missing);
  library.bind(call.release_host, {"cuMemFreeHost"}, missing);
  library.bind(call.copy_to_device, {"cuMemcpyHtoDAsync_v2"}, missing);
  library.bind(call.copy_to_host, {"cuMemcpyDtoHAsync_v2"}, missing);
  library.bind(call.copy_on_device, {"cuMemcpyDtoDAsync_v2"}, missing);
  library.bind(cuda.fill, {"cuMemsetD8Async"}, missing);
  library.bind(call.stream_create, {"cuStreamCreate"}, missing);
  library.bind(call.stream_synchronize, {"cuStreamSynchronize"}, missing);
  library.bind(call.stream_query, {"cuStreamQuery"}, missing);
  library.bind(call.stream_wait, {"cuStreamWaitEvent"}, missing);
  library.bind(call.event_create, {"cuEventCreate"}, missing);
  library.bind(call.event_destroy, {"cuEventDestroy_v2"}, missing);
  library.bind(call.event_record, {"cuEventRecord"}, missing);
  library.bind(call.event_query, {"cuEventQuery"}, missing);
  library.bind(call.event_elapsed, {"cuEventElapsedTime"}, missing);
  library.bind(call.module_load, {"cuModuleLoadData"}, missing);
  library.bind(call.module_unload, {"cuModuleUnload"}, missing);
  library.bind(call.module_function, {"cuModuleGetFunction"}, missing);
  library.bind(call.function_attribute, {"cuFuncGetAttribute"}, missing);
  library.bind(cuda.set_function_attribute, {"cuFuncSetAttribute"}, missing);
  library.bind(call.launch, {"cuLaunchKernel"}, missing);
  library.bind(call.capture_begin, {"cuStreamBeginCapture_v2"}, missing);
  library.bind(call.capture_end, {"cuStreamEndCapture"}, missing);
  library.bind(call.graph_create, {"cuGraphCreate"}, missing);
  library.bind(cuda.graph_add_kernel, {"cuGraphAddKernelNode_v2", "cuGraphAddKernelNode"}, missing);
  library.bind(cuda.graph_update_kernel,
               {"cuGraphExecKernelNodeSetParams_v2", "cuGraphExecKernelNodeSetParams"}, missing);
  library.bind(call.graph_add_child, {"cuGraphAddChildGraphNode"}, missing);
  library.bind(call.graph_update_child, {"cuGraphExecChildGraphNodeSetParams"}, missing);
  library.bind(cuda.instantiate, {"cuGraphInstantiateWithFlags"}, missing);
  library.bind(call.graph_launch, {"cuGraphLaunch"}, missing);
  library.bind(call.graph_destroy, {"cuGraphDestroy"}, missing);
  library.bind(call.graph_exec_destroy, {"cuGraphExecDestroy"}, missing);
  library.bind(call.error_name, {"cuGetErrorName"}, missing);
  library.bind(call.error_text, {"cuGetErrorString"}, missing);
  std::vector<std::string> may_be_missing;
  library.bind(call.encode_tensor_map, {"cuTensorMapEncodeTiled"}, may_be_missing);
  library.bind(cuda.graph_add_dependencies, {"cuGraphAddDependencies_v2"}, may_be_missing);
  if (cuda.graph_add_dependencies != nullptr) call.graph_follow_early = graph_follow_early;
  call.device_architecture = device_architecture;
  call.use_device = use_device;
  call.enable_peer = enable_peer;
  call.allocate_host = allocate_host;
  call.fill_bytes = fill_bytes;
  call.graph_add_kernel = graph_add_kernel;
  call.graph_update_kernel = graph_update_kernel;
  call.graph_instantiate = graph_instantiate;
  call.allow_shared = allow_shared;
}

void bind_compiler(const Library& library, DriverTable& call, std::vector<std::string>& missing) {
  library.bind(call.compiler_version, {"nvrtcVersion"}, missing);
  library.bind(call.program_create, {"nvrtcCreateProgram"}, missing);
  library.bind(call.program_compile, {"nvrtcCompileProgram"}, missing);
  library.bind(call.program_log_size, {"nvrtcGetProgramLogSize"}, missing);
  library.bind(call.program_log, {"nvrtcGetProgramLog"}, missing);
  library.bind(call.program_code_size, {"nvrtcGetCUBINSize"}, missing);
  library.bind(call.program_code, {"nvrtcGetCUBIN"}, missing);
  library.bind(call.program_destroy, {"nvrtcDestroyProgram"}, missing);
  library.bind(call.compiler_error, {"nvrtcGetErrorString"}, missing);
}

// The compiler needs no driver: kernels can be compiled for a GPU that is not there.
void open_compiler(Driver& driver) {
  std::vector<std::filesystem::path> folders;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* home = std::getenv(variable); home != nullptr && *home != '\0')
      folders.push_back(std::filesystem::path(home) / "lib64");
  folders.emplace_back();  // where the loader looks
  folders.emplace_back("/usr/local/cuda/lib64");
  const Library compiler(
      names_in(folders, {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"}),
      driver.attempts);
  if (!compiler) return;
  std::vector<std::string> missing;
  bind_compiler(compiler, driver.call, missing);
  if (missing.empty()) driver.compiler_library = compiler.path();
}

void open_driver(Driver& driver) {
  const Library library({"libcuda.so.1", "libcuda.so"}, driver.attempts);
  if (!library) {
    driver.unavailable = "no libcuda was found (the NVIDIA driver is not installed)";
    return;
  }
  driver.library = library.path();
  std::vector<std::string> missing;
  bind_driver(library, driver, missing);
  if (!missing.empty()) {
    driver.unavailable = fmt::format("{} lacks {}: a driver for CUDA 11.4 or later is needed", driver.library,
                                     fmt::join(missing, ", "));
    return;
  }
  if (const int code = driver.call.initialise(0); code != 0) {
    const char* text = nullptr;
    driver.call.error_text(code, &text);
    driver.unavailable = fmt::format("cuInit failed: {} ({})", text != nullptr ? text : "unknown", code);
    return;
  }
  driver.call.driver_version(&driver.version);
}

Driver open_cuda() {
  Driver driver;
  driver.kind = DeviceKind::cuda;
  driver.name = "CUDA";
  set_attributes(driver.codes);
  open_driver(driver);
  open_compiler(driver);
  return driver;
}

}  // namespace

const Driver& cuda_driver() {
  static const Driver& driver = *new Driver(open_cuda());  // never destroyed: buffers may outlive it
  return driver;
}

}  // namespace hearth::gpu
