// Which GPUs there are, and what each is.
#include <fmt/format.h>

#include <array>

#include "gpu/backends.h"
#include "gpu/driver/driver.h"
#include "gpu/target.h"

namespace hearth::gpu {
namespace {

std::string text_of(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::none:
      return "";
    case MatrixUnit::wmma11:
    case MatrixUnit::wmma12:
      return "WMMA";
    case MatrixUnit::mfma90a:
    case MatrixUnit::mfma942:
      return "MFMA";
    case MatrixUnit::mma80:
      return "mma";
    case MatrixUnit::wgmma90:
      return "wgmma";
  }
  return "";
}

std::string text_of(Float8 format) {
  return format == Float8::ocp ? "OCP" : format == Float8::fnuz ? "FNUZ" : "";
}

}  // namespace

int device_count(DeviceKind kind) {
  const Driver& driver = driver_of(kind);
  if (!driver.usable()) return 0;
  int count = 0;
  return driver.call.device_count(&count) == 0 ? count : 0;
}

std::string unavailable_reason(DeviceKind kind) {
  const Driver& driver = driver_of(kind);
  if (!driver.usable()) return driver.unavailable;
  return device_count(kind) == 0 ? fmt::format("{} sees no device", driver.name) : "";
}

DeviceInfo describe(Device device) {
  const Driver& driver = driver_of(device.kind);
  const int ordinal = device.index;
  const auto attribute = [&](Attribute which) { return driver.attribute(which, ordinal); };
  DeviceInfo info{.device = device};
  std::array<char, 256> text{};
  driver.check(driver.call.device_name(text.data(), static_cast<int>(text.size()), ordinal),
               "asking for the name");
  info.name = text.data();
  driver.check(driver.call.device_architecture(text.data(), static_cast<int>(text.size()), ordinal),
               "asking for the architecture");
  info.architecture = text.data();
  driver.check(driver.call.device_total_memory(&info.total_memory, ordinal), "asking for the memory");
  // RDNA's multiprocessors are pairs of compute units.
  const int physical = attribute(Attribute::physical_units);
  info.compute_units = physical > 0 ? physical : attribute(Attribute::compute_units);
  info.wave_size = attribute(Attribute::wave_size);
  const Target target = target_of(info.architecture);
  info.matrix_unit = text_of(target.matrix);
  info.float8 = text_of(target.float8);
  info.int8_dot = target.int8_dot;
  info.integrated = attribute(Attribute::integrated) != 0;
  info.pci_address = fmt::format("{:04x}:{:02x}:{:02x}.0", attribute(Attribute::pci_domain),
                                 attribute(Attribute::pci_bus), attribute(Attribute::pci_device));
  info.driver = fmt::format("{} {}", driver.name, driver.version_text());
  info.library = driver.library;
  if (!driver.compiler_library.empty())
    info.compiler = fmt::format("{} {}", driver.kind == DeviceKind::rocm ? "hiprtc" : "NVRTC",
                                driver.compiler_version_text());
  info.compiler_library = driver.compiler_library;
  return info;
}

}  // namespace hearth::gpu
