// The devices that tests of all operations run on.
#pragma once

#include <vector>

#include "hearth/device.h"

namespace hearth {

// Those with a kernel for every operation. GPUs have kernels for elementwise operations only, so far.
inline std::vector<Device> complete_devices() { return {Device{}}; }

}  // namespace hearth
