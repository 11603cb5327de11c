// The devices of this process.
#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>

#include "base/config_listeners.h"
#include "device/backend.h"
#include "device/selection.h"
#include "hearth/error.h"

namespace hearth {

// The backends of this build: the one place where device/ names what lies above it.
namespace cpu {
std::unique_ptr<Backend> make_backend();
}
namespace gpu {
int device_count(DeviceKind kind);
std::string unavailable_reason(DeviceKind kind);
DeviceInfo describe(Device device);
std::unique_ptr<Backend> make_backend(Device device);
}  // namespace gpu

namespace {

Backend& cpu_backend() {
  // Never destroyed: tensors in static variables may outlive it.
  static Backend* instance = cpu::make_backend().release();
  return *instance;
}

struct GpuBackends {
  std::mutex mutex;
  std::map<std::pair<DeviceKind, int>, std::unique_ptr<Backend>> by_device;
};

// Opened on first use, and never closed: tensors in static variables may outlive it.
GpuBackends& gpu_backends() {
  static auto& backends = *new GpuBackends;
  return backends;
}

void configure_gpus(const Config& config) {
  const std::lock_guard lock(gpu_backends().mutex);
  for (auto& [device, backend] : gpu_backends().by_device)
    if (backend) backend->configure(config);
}

// New backends look at the configuration themselves; this is for changes of it.
void follow_configuration() {
  static std::once_flag once;
  std::call_once(once, [] { on_config_change(configure_gpus); });
}

Backend& gpu_backend(Device device) {
  follow_configuration();
  const std::lock_guard lock(gpu_backends().mutex);
  auto& backend = gpu_backends().by_device[{device.kind, device.index}];
  if (backend) return *backend;
  const int count = gpu::device_count(device.kind);
  if (count == 0)
    throw DeviceUnavailable(fmt::format("[device] {} is not available: {}", to_string(device),
                                        gpu::unavailable_reason(device.kind)));
  if (device.index >= count)
    throw DeviceUnavailable(fmt::format("[device] {} is not there: there {} {} of this kind",
                                        to_string(device), count == 1 ? "is" : "are", count));
  backend = gpu::make_backend(device);
  return *backend;
}

std::atomic<Device> current_device{Device{}};
thread_local std::optional<Device> device_of_thread;

constexpr std::string_view kind_names[] = {"cpu", "rocm", "cuda"};

}  // namespace

Backend& backend(Device device) {
  if (device.kind == DeviceKind::cpu && device.index == 0) return cpu_backend();
  if (device.kind == DeviceKind::cpu)
    throw DeviceUnavailable(fmt::format("[device] cpu:{} is not there: the CPU is one device", device.index));
  return gpu_backend(device);
}

void add_backend(Device device, std::unique_ptr<Backend> backend) {
  follow_configuration();
  const bool taken = device.kind == DeviceKind::cpu || device.index < gpu::device_count(device.kind);
  const std::lock_guard lock(gpu_backends().mutex);
  auto& place = gpu_backends().by_device[{device.kind, device.index}];
  if (taken || place) throw ValueError(fmt::format("[device] {} is taken", to_string(device)));
  place = std::move(backend);
}

std::string to_string(Device device) {
  const auto name = kind_names[static_cast<int>(device.kind)];
  return device.kind == DeviceKind::cpu ? std::string(name) : fmt::format("{}:{}", name, device.index);
}

Device device_from_name(std::string_view name) {
  const auto describe_all = [] {
    std::vector<DeviceInfo> infos;
    for (const Device device : devices())
      if (device.kind != DeviceKind::cpu) infos.push_back(gpu::describe(device));
    return infos;
  };
  return select_device(name, {describe_all, gpu::unavailable_reason});
}

Device default_device() { return device_of_thread ? *device_of_thread : current_device.load(); }

DeviceScope::DeviceScope(Device device) : before_(device_of_thread) {
  backend(device);
  device_of_thread = device;
}
DeviceScope::~DeviceScope() { device_of_thread = before_; }

void set_default_device(Device device) {
  backend(device);
  current_device.store(device);
}

std::vector<Device> devices() {
  std::vector<Device> all = {Device{}};
  for (const DeviceKind kind : {DeviceKind::rocm, DeviceKind::cuda})
    for (int i = 0; i < gpu::device_count(kind); ++i) all.push_back({kind, static_cast<std::uint8_t>(i)});
  return all;
}
DeviceInfo device_info(Device device) { return backend(device).info(); }
void synchronize(Device device) { backend(device).synchronize(); }
MemoryStats memory_stats(Device device) { return backend(device).memory_stats(); }
void reset_peak_memory(Device device) { backend(device).reset_peak_memory(); }
void empty_cache(Device device) { backend(device).empty_cache(); }
void warm_up(Device device, std::size_t bytes) { backend(device).warm_up(bytes); }

}  // namespace hearth
