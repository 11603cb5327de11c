// The devices of this process.
#include <fmt/format.h>

#include <atomic>
#include <charconv>
#include <map>
#include <mutex>

#include "device/backend.h"
#include "hearth/error.h"

namespace hearth {

// The backends of this build: the one place where device/ names what lies above it.
namespace cpu {
std::unique_ptr<Backend> make_backend();
}

namespace {

Backend& cpu_backend() {
  // Never destroyed: tensors in static variables may outlive it.
  static Backend* instance = cpu::make_backend().release();
  return *instance;
}

std::atomic<Device> current_device{Device{}};

constexpr std::string_view kind_names[] = {"cpu", "rocm", "cuda"};

}  // namespace

Backend& backend(Device device) {
  if (device.kind == DeviceKind::cpu && device.index == 0) return cpu_backend();
  throw DeviceUnavailable(fmt::format("[device] {} is not available in this build", to_string(device)));
}

std::string to_string(Device device) {
  const auto name = kind_names[static_cast<int>(device.kind)];
  return device.kind == DeviceKind::cpu ? std::string(name) : fmt::format("{}:{}", name, device.index);
}

Device device_from_name(std::string_view name) {
  const auto colon = name.find(':');
  const auto kind = name.substr(0, colon);
  for (int i = 0; i < 3; ++i) {
    if (kind != kind_names[i]) continue;
    int index = 0;
    if (colon != std::string_view::npos) {
      const auto digits = name.substr(colon + 1);
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
      if (error != std::errc{} || end != digits.data() + digits.size() || index < 0 || index > 255) break;
    }
    const Device device{static_cast<DeviceKind>(i), static_cast<std::uint8_t>(index)};
    backend(device);
    return device;
  }
  throw ValueError(
      fmt::format("[device] \"{}\" is not a device name; expected cpu, rocm[:N] or cuda[:N]", name));
}

Device default_device() { return current_device.load(); }

void set_default_device(Device device) {
  backend(device);
  current_device.store(device);
}

std::vector<Device> devices() { return {Device{}}; }
DeviceInfo device_info(Device device) { return backend(device).info(); }
void synchronize(Device device) { backend(device).synchronize(); }
MemoryStats memory_stats(Device device) { return backend(device).memory_stats(); }
void reset_peak_memory(Device device) { backend(device).reset_peak_memory(); }
void empty_cache(Device device) { backend(device).empty_cache(); }

}  // namespace hearth
