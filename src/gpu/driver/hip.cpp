// HIP, opened at run time. Numbers and signatures are those of the HIP ABI, which has kept them from ROCm 5
// on.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "gpu/driver/driver.h"
#include "gpu/driver/library.h"

namespace hearth::gpu {
namespace {

// What cannot be bound straight into the table, because HIP's function has other arguments.
struct Hip {
  int (*get_properties)(void* properties, int device) = nullptr;
  bool properties_of_rocm6 = false;
  int (*set_device)(int device) = nullptr;
  int (*malloc_host)(void** memory, std::size_t bytes, unsigned flags) = nullptr;
  int (*memcpy_async)(void* target, const void* source, std::size_t bytes, int kind, void* stream) = nullptr;
  int (*memset_async)(void* target, int value, std::size_t bytes, void* stream) = nullptr;
  int (*graph_instantiate)(void** executable, void* graph, void** error_node, char* log,
                           std::size_t bytes) = nullptr;
  int (*graph_add_kernel)(void** node, void* graph, void* const* after, std::size_t count,
                          const void* parameters) = nullptr;
  int (*graph_update_kernel)(void* executable, void* node, const void* parameters) = nullptr;
  int (*enable_peer)(int peer, unsigned flags) = nullptr;
  const char* (*error_name)(int code) = nullptr;
  const char* (*error_text)(int code) = nullptr;
};
Hip hip;

constexpr const char* symbol_of_rocm6 = "hipGetDevicePropertiesR0600";  // ROCm 5 does not have it
constexpr int host_to_device = 1, device_to_host = 2, device_to_device = 3;

// gcnArchName without the features: "gfx942:sramecc+:xnack-" is "gfx942". Its place in the property structure
// depends on the version; the buffer is larger than any.
int device_architecture(char* name, int length, int device) {
  alignas(16) std::array<char, 8192> properties{};
  const int code = hip.get_properties(properties.data(), device);
  if (code != 0) return code;
  const char* text = properties.data() + (hip.properties_of_rocm6 ? 1160 : 396);
  const std::size_t size = std::min<std::size_t>(strcspn(text, ":"), static_cast<std::size_t>(length) - 1);
  std::memcpy(name, text, size);
  name[size] = '\0';
  return 0;
}

int allocate_host(void** memory, std::size_t bytes, unsigned) {
  constexpr unsigned portable = 1, non_coherent = 0x80000000u;
  return hip.malloc_host(memory, bytes, portable | non_coherent);
}
int copy_to_device(void* target, const void* source, std::size_t bytes, void* stream) {
  return hip.memcpy_async(target, source, bytes, host_to_device, stream);
}
int copy_to_host(void* target, const void* source, std::size_t bytes, void* stream) {
  return hip.memcpy_async(target, source, bytes, device_to_host, stream);
}
int copy_on_device(void* target, const void* source, std::size_t bytes, void* stream) {
  return hip.memcpy_async(target, source, bytes, device_to_device, stream);
}
int fill_bytes(void* target, unsigned char value, std::size_t bytes, void* stream) {
  return hip.memset_async(target, value, bytes, stream);
}
int graph_instantiate(void** executable, void* graph) {
  return hip.graph_instantiate(executable, graph, nullptr, nullptr, 0);
}
// hipKernelNodeParams.
struct KernelNodeParameters {
  unsigned block[3];
  void** extra;
  void* function;
  unsigned grid[3];
  void** arguments;
  unsigned shared;
};
KernelNodeParameters parameters_of(const KernelNode& node) {
  return {{node.threads, 1, 1},     nullptr,        node.function,
          {node.x, node.y, node.z}, node.arguments, node.shared};
}
int graph_add_kernel(void** node, void* graph, void* const* after, std::size_t count,
                     const KernelNode& kernel) {
  const KernelNodeParameters parameters = parameters_of(kernel);
  return hip.graph_add_kernel(node, graph, after, count, &parameters);
}
int graph_update_kernel(void* executable, void* node, const KernelNode& kernel) {
  const KernelNodeParameters parameters = parameters_of(kernel);
  return hip.graph_update_kernel(executable, node, &parameters);
}
int enable_peer(int peer) { return hip.enable_peer(peer, 0); }
int error_name(int code, const char** text) {
  *text = hip.error_name(code);
  return 0;
}
int error_text(int code, const char** text) {
  *text = hip.error_text(code);
  return 0;
}
int allow_shared(void*, int) { return 0; }  // AMD kernels get all of LDS without asking

void set_attributes(DriverCodes& codes) {
  const auto set = [&](Attribute attribute, int number) {
    codes.attributes[static_cast<int>(attribute)] = number;
  };
  set(Attribute::wave_size, 87);
  set(Attribute::compute_units, 63);
  set(Attribute::physical_units, 10015);
  set(Attribute::shared_per_block, 74);
  set(Attribute::integrated, 16);
  set(Attribute::pci_domain, 69);
  set(Attribute::pci_bus, 67);
  set(Attribute::pci_device, 68);
}

std::vector<std::string> versions(std::string_view name) {
  return {fmt::format("lib{}.so.7", name), fmt::format("lib{}.so.6", name), fmt::format("lib{}.so", name),
          fmt::format("lib{}.so.5", name)};
}

void bind_runtime(const Library& library, Driver& driver, std::vector<std::string>& missing) {
  DriverTable& call = driver.call;
  library.bind(call.initialise, {"hipInit"}, missing);
  library.bind(call.driver_version, {"hipDriverGetVersion"}, missing);
  library.bind(call.runtime_version, {"hipRuntimeGetVersion"}, missing);
  library.bind(call.device_count, {"hipGetDeviceCount"}, missing);
  library.bind(call.device_name, {"hipDeviceGetName"}, missing);
  library.bind(call.device_total_memory, {"hipDeviceTotalMem"}, missing);
  library.bind(call.device_attribute, {"hipDeviceGetAttribute"}, missing);
  library.bind(call.use_device, {"hipSetDevice"}, missing);
  library.bind(call.synchronize_device, {"hipDeviceSynchronize"}, missing);
  library.bind(call.can_access_peer, {"hipDeviceCanAccessPeer"}, missing);
  library.bind(hip.enable_peer, {"hipDeviceEnablePeerAccess"}, missing);
  library.bind(call.memory_info, {"hipMemGetInfo"}, missing);
  library.bind(call.allocate, {"hipMalloc"}, missing);
  library.bind(call.release, {"hipFree"}, missing);
  library.bind(hip.malloc_host, {"hipHostMalloc"}, missing);
  library.bind(call.release_host, {"hipHostFree"}, missing);
  library.bind(hip.memcpy_async, {"hipMemcpyAsync"}, missing);
  library.bind(hip.memset_async, {"hipMemsetAsync"}, missing);
  library.bind(call.stream_create, {"hipStreamCreateWithFlags"}, missing);
  library.bind(call.stream_synchronize, {"hipStreamSynchronize"}, missing);
  library.bind(call.stream_query, {"hipStreamQuery"}, missing);
  library.bind(call.stream_wait, {"hipStreamWaitEvent"}, missing);
  library.bind(call.event_create, {"hipEventCreateWithFlags"}, missing);
  library.bind(call.event_destroy, {"hipEventDestroy"}, missing);
  library.bind(call.event_record, {"hipEventRecord"}, missing);
  library.bind(call.event_query, {"hipEventQuery"}, missing);
  library.bind(call.event_elapsed, {"hipEventElapsedTime"}, missing);
  library.bind(call.module_load, {"hipModuleLoadData"}, missing);
  library.bind(call.module_unload, {"hipModuleUnload"}, missing);
  library.bind(call.module_function, {"hipModuleGetFunction"}, missing);
  library.bind(call.function_attribute, {"hipFuncGetAttribute"}, missing);
  library.bind(call.launch, {"hipModuleLaunchKernel"}, missing);
  library.bind(call.capture_begin, {"hipStreamBeginCapture"}, missing);
  library.bind(call.capture_end, {"hipStreamEndCapture"}, missing);
  library.bind(call.graph_create, {"hipGraphCreate"}, missing);
  library.bind(hip.graph_add_kernel, {"hipGraphAddKernelNode"}, missing);
  library.bind(hip.graph_update_kernel, {"hipGraphExecKernelNodeSetParams"}, missing);
  library.bind(call.graph_add_child, {"hipGraphAddChildGraphNode"}, missing);
  library.bind(call.graph_update_child, {"hipGraphExecChildGraphNodeSetParams"}, missing);
  library.bind(hip.graph_instantiate, {"hipGraphInstantiate"}, missing);
  library.bind(call.graph_launch, {"hipGraphLaunch"}, missing);
  library.bind(call.graph_destroy, {"hipGraphDestroy"}, missing);
  library.bind(call.graph_exec_destroy, {"hipGraphExecDestroy"}, missing);
  library.bind(hip.error_name, {"hipGetErrorName"}, missing);
  library.bind(hip.error_text, {"hipGetErrorString"}, missing);
  hip.properties_of_rocm6 = library.find(symbol_of_rocm6) != nullptr;
  library.bind(hip.get_properties, {symbol_of_rocm6, "hipGetDeviceProperties"}, missing);
  call.device_architecture = device_architecture;
  call.enable_peer = enable_peer;
  call.allocate_host = allocate_host;
  call.copy_to_device = copy_to_device;
  call.copy_to_host = copy_to_host;
  call.copy_on_device = copy_on_device;
  call.fill_bytes = fill_bytes;
  call.graph_add_kernel = graph_add_kernel;
  call.graph_update_kernel = graph_update_kernel;
  call.graph_instantiate = graph_instantiate;
  call.error_name = error_name;
  call.error_text = error_text;
  call.allow_shared = allow_shared;
}

void bind_compiler(const Library& library, DriverTable& call, std::vector<std::string>& missing) {
  library.bind(call.compiler_version, {"hiprtcVersion"}, missing);
  library.bind(call.program_create, {"hiprtcCreateProgram"}, missing);
  library.bind(call.program_compile, {"hiprtcCompileProgram"}, missing);
  library.bind(call.program_log_size, {"hiprtcGetProgramLogSize"}, missing);
  library.bind(call.program_log, {"hiprtcGetProgramLog"}, missing);
  library.bind(call.program_code_size, {"hiprtcGetCodeSize"}, missing);
  library.bind(call.program_code, {"hiprtcGetCode"}, missing);
  library.bind(call.program_destroy, {"hiprtcDestroyProgram"}, missing);
  library.bind(call.compiler_error, {"hiprtcGetErrorString"}, missing);
}

// Two installations of ROCm must not meet in one process: the compiler is the one beside the runtime, or the
// runtime itself (up to ROCm 6). Without a runtime, any installation will do to compile.
void open_compiler(const Library& runtime, Driver& driver) {
  const auto folders =
      runtime ? std::vector{std::filesystem::path(runtime.path()).parent_path()} : rocm_library_folders();
  const Library separate(names_in(folders, versions("hiprtc")), driver.attempts);
  const Library& compiler = separate ? separate : runtime;
  std::vector<std::string> missing;
  bind_compiler(compiler, driver.call, missing);
  if (missing.empty()) driver.compiler_library = compiler.path();
  // AMD's compiler runs LLVM in this process. Up to ROCm 5, two compilations at once met in LLVM's static
  // variables and ended the process; later versions take a lock of their own.
  driver.compiles_in_parallel = runtime.find(symbol_of_rocm6) != nullptr;
}

void open_runtime(const Library& runtime, Driver& driver) {
  if (!runtime) {
    driver.unavailable =
        "no libamdhip64 was found (ROCm is not installed, or not where the loader looks; set ROCM_PATH)";
    return;
  }
  driver.library = runtime.path();
  std::vector<std::string> missing;
  bind_runtime(runtime, driver, missing);
  if (!missing.empty()) {
    driver.unavailable =
        fmt::format("{} lacks {}: ROCm 5.2 or later is needed", driver.library, fmt::join(missing, ", "));
    return;
  }
  if (const int code = driver.call.initialise(0); code != 0) {
    const char* text = hip.error_text(code);
    driver.unavailable = fmt::format("hipInit failed: {} ({})", text != nullptr ? text : "unknown", code);
    return;
  }
  driver.call.runtime_version(&driver.version);
}

Driver open_hip() {
  Driver driver;
  driver.kind = DeviceKind::rocm;
  driver.name = "HIP";
  set_attributes(driver.codes);
  const Library runtime(names_in(rocm_library_folders(), versions("amdhip64")), driver.attempts);
  open_runtime(runtime, driver);
  open_compiler(runtime, driver);
  return driver;
}

}  // namespace

const Driver& hip_driver() {
  static const Driver& driver = *new Driver(open_hip());  // never destroyed: buffers may outlive it
  return driver;
}

}  // namespace hearth::gpu
