// The GPUs of this machine, as backends.
#pragma once

#include <memory>
#include <string>

#include "device/backend.h"

namespace hearth::gpu {

class GpuDevice;

int device_count(DeviceKind kind);
// Why there is no device of this kind; empty when there is one.
std::string unavailable_reason(DeviceKind kind);
// What is known of a device below device_count() without opening it: all but its free memory.
DeviceInfo describe(Device device);
// Of a device below device_count(). Throws DeviceError.
std::unique_ptr<Backend> make_backend(Device device);
std::unique_ptr<Backend> make_backend(std::unique_ptr<GpuDevice> device);

}  // namespace hearth::gpu
