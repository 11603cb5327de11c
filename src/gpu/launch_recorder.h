// Launches written down instead of being made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/device.h"

namespace hearth::gpu {

// While one lives, GpuDevice::launch on this thread adds to its list and the device does nothing.
class LaunchRecorder {
 public:
  struct Launch {
    FunctionHandle function = nullptr;
    LaunchShape shape;
    std::vector<std::byte> values;       // of the arguments, one after another
    std::vector<std::uint32_t> offsets;  // of each in `values`
    bool operator==(const Launch&) const = default;
  };

  LaunchRecorder();
  ~LaunchRecorder();
  LaunchRecorder(const LaunchRecorder&) = delete;
  LaunchRecorder& operator=(const LaunchRecorder&) = delete;

  void add(const Function& function, const LaunchShape& shape, Arguments& arguments);
  std::vector<Launch> take() { return std::move(launches_); }

  // That of the calling thread, or null.
  static LaunchRecorder* current();

 private:
  std::vector<Launch> launches_;
  LaunchRecorder* outer_;
};

}  // namespace hearth::gpu
