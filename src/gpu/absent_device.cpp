// A driver of which every function succeeds and does nothing, and a device on top.
#include "gpu/absent_device.h"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace hearth::gpu {
namespace {

std::mutex notes_mutex;  // of the kernels of all such devices

int note_launch(FunctionHandle function, unsigned threads, unsigned shared) {
  const std::lock_guard lock(notes_mutex);
  auto& kernel = *static_cast<NotedKernel*>(function);
  kernel.threads = std::max(kernel.threads, threads);
  kernel.shared = std::max(kernel.shared, shared);
  return 0;
}

Driver make_driver(DeviceKind kind) {
  Driver driver;
  driver.kind = kind;
  driver.name = "absent";
  DriverTable& call = driver.call;
  call.use_device = [](int) { return 0; };
  call.allocate_host = [](void** memory, std::size_t bytes, unsigned) {
    *memory = ::operator new(bytes);
    return 0;
  };
  call.release_host = [](void* memory) {
    ::operator delete(memory);
    return 0;
  };
  call.copy_to_device = [](void*, const void*, std::size_t, StreamHandle) { return 0; };
  call.copy_to_host = [](void* host, const void*, std::size_t bytes, StreamHandle) {
    std::memset(host, 0, bytes);
    return 0;
  };
  call.fill_bytes = [](void*, unsigned char, std::size_t, StreamHandle) { return 0; };
  call.stream_create = [](StreamHandle*, unsigned) { return 0; };
  call.stream_query = [](StreamHandle) { return 0; };
  call.stream_synchronize = [](StreamHandle) { return 0; };
  call.stream_wait = [](StreamHandle, EventHandle, unsigned) { return 0; };
  call.event_create = [](EventHandle*, unsigned) { return 0; };
  call.event_destroy = [](EventHandle) { return 0; };
  call.event_record = [](EventHandle, StreamHandle) { return 0; };
  call.event_query = [](EventHandle) { return 0; };
  call.allow_shared = [](FunctionHandle, int) { return 0; };
  if (kind == DeviceKind::cuda)
    call.encode_tensor_map = [](void*, int, unsigned, void*, const std::uint64_t*, const std::uint64_t*,
                                const std::uint32_t*, const std::uint32_t*, int, int, int, int) { return 0; };
  call.launch = [](FunctionHandle function, unsigned, unsigned, unsigned, unsigned x, unsigned y, unsigned z,
                   unsigned shared, StreamHandle, void**,
                   void**) { return note_launch(function, x * y * z, shared); };
  call.graph_create = [](GraphHandle*, unsigned) { return 0; };
  call.graph_add_kernel = [](GraphNodeHandle*, GraphHandle, const GraphNodeHandle*, std::size_t,
                             const KernelNode& node) {
    return note_launch(node.function, node.threads, node.shared);
  };
  call.graph_update_kernel = [](GraphExecHandle, GraphNodeHandle, const KernelNode&) { return 0; };
  call.graph_instantiate = [](GraphExecHandle* graph, GraphHandle) {
    static int made;  // so that it is patched, not made again each time
    *graph = &made;
    return 0;
  };
  call.graph_launch = [](GraphExecHandle, StreamHandle) { return 0; };
  call.graph_exec_destroy = [](GraphExecHandle) { return 0; };
  call.error_name = call.error_text = [](int, const char** text) {
    *text = nullptr;
    return 0;
  };
  return driver;
}

const Driver& driver_for(DeviceKind kind) {
  static const Driver rocm = make_driver(DeviceKind::rocm), cuda = make_driver(DeviceKind::cuda);
  return kind == DeviceKind::rocm ? rocm : cuda;
}

// Multiprocessors of a usual product: which variant of a kernel is used may depend on it.
int usual_compute_units(const std::string& architecture) {
  struct Chip {
    const char* architecture;
    int units;  // on gfx10 and later, pairs of compute units
  };
  static constexpr Chip chips[] = {{"gfx90a", 104}, {"gfx942", 304}, {"gfx1030", 36}, {"gfx1100", 48},
                                   {"gfx1101", 30}, {"gfx1102", 16}, {"gfx1151", 20}, {"gfx1200", 16},
                                   {"gfx1201", 32}, {"sm_80", 108},  {"sm_86", 82},   {"sm_89", 128},
                                   {"sm_90", 132}};
  for (const Chip& chip : chips)
    if (architecture == chip.architecture) return chip.units;
  return 32;
}

constexpr std::size_t usual_memory = std::size_t{64} << 30;

DeviceFacts facts_of(const std::string& architecture) {
  const Target target = target_of(architecture);
  return {.name = architecture + " (not there)",
          .architecture = target.architecture,
          .wave_size = target.wave_size,
          .compute_units = usual_compute_units(target.architecture),
          .shared_bytes = target.shared_bytes,
          .total_memory = usual_memory};
}

class Addresses final : public MemorySource {
 public:
  void* allocate(std::size_t bytes) override {
    constexpr std::uintptr_t alignment = 256;
    void* memory = reinterpret_cast<void*>(next_);  // NOLINT: nobody uses what it points to
    next_ += (bytes + alignment) / alignment * alignment;
    return memory;
  }
  void release(void*) override {}
  std::size_t total_memory() const override { return usual_memory; }

 private:
  std::uintptr_t next_ = std::uintptr_t{1} << 44;
};

}  // namespace

AbsentDevice::AbsentDevice(const std::string& architecture, Device device)
    : GpuDevice(driver_for(device.kind), device.index, device, facts_of(architecture),
                std::make_unique<Addresses>()) {}

DeviceInfo AbsentDevice::info() const {
  return {.device = device(),
          .name = facts().name,
          .architecture = facts().architecture,
          .compute_units = facts().compute_units,
          .total_memory = facts().total_memory,
          .free_memory = facts().total_memory,
          .wave_size = facts().wave_size};
}

Function AbsentDevice::load(const KernelSource& source, const std::string& name) {
  const std::lock_guard lock(notes_mutex);
  return {.handle = &kernels_.emplace_back(NotedKernel{.source = source, .name = name})};
}

std::vector<NotedKernel> AbsentDevice::kernels() const {
  const std::lock_guard lock(notes_mutex);
  return {kernels_.begin(), kernels_.end()};
}

}  // namespace hearth::gpu
