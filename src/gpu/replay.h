// A plan's launches as one graph of the driver: launched by one call, changed only where arguments changed.
#pragma once

#include <memory>

#include "device/backend.h"
#include "gpu/device.h"

namespace hearth::gpu {

std::unique_ptr<Replay> make_replay(GpuDevice& device);

}  // namespace hearth::gpu
