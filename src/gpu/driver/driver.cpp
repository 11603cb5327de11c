// From a driver's codes to exceptions.
#include "gpu/driver/driver.h"

#include <fmt/format.h>

#include "hearth/error.h"

namespace hearth::gpu {

void Driver::check(int code, const char* what) const {
  if (code == 0) return;
  const char *error = nullptr, *text = nullptr;
  call.error_name(code, &error);
  call.error_text(code, &text);
  const std::string message =
      fmt::format("[{}] {} failed: {} ({}, {})", name, what, text != nullptr ? text : "unknown error",
                  error != nullptr ? error : "no name", code);
  if (code == codes.out_of_memory) {
    std::size_t free = 0, total = 0;
    call.memory_info(&free, &total);
    throw OutOfMemory(message, 0, free);
  }
  throw DeviceError(message);
}

void Driver::check_compiler(int code, const char* what) const {
  if (code == 0) return;
  throw CompileError(fmt::format("[{}] {} failed: {} ({})", name, what, call.compiler_error(code), code));
}

int Driver::attribute(Attribute which, int device) const {
  const int number = codes.attributes[static_cast<int>(which)];
  if (number <= 0) return 0;
  int value = 0;
  return call.device_attribute(&value, number, device) == 0 ? value : 0;
}

// HIP counts major * 10^7 + minor * 10^5 + patch, CUDA major * 1000 + minor * 10.
std::string Driver::version_text() const {
  if (version == 0) return "";
  if (kind == DeviceKind::rocm)
    return fmt::format("{}.{}.{}", version / 10'000'000, version / 100'000 % 100, version % 100'000);
  return fmt::format("{}.{}", version / 1000, version / 10 % 100);
}

std::string Driver::compiler_version_text() const {
  int major = 0, minor = 0;
  if (compiler_library.empty() || call.compiler_version(&major, &minor) != 0) return "";
  return fmt::format("{}.{}", major, minor);
}

const Driver& driver_of(DeviceKind kind) { return kind == DeviceKind::rocm ? hip_driver() : cuda_driver(); }

}  // namespace hearth::gpu
