// Launches written down instead of being made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "gpu/device.h"

namespace hearth::gpu {

// While one lives, GpuDevice::launch and foreign on this thread add to its list and the device does nothing.
class LaunchRecorder {
 public:
  struct Launch {
    FunctionHandle function = nullptr;
    LaunchShape shape;
    std::vector<std::byte> values;       // of the arguments, one after another
    std::vector<std::uint32_t> offsets;  // of each in `values`
    bool starts_early = false;           // see Function
    ForeignWork work;  // instead of a kernel: function is null, values are the pointers that it uses

    bool operator==(const Launch& other) const {
      return function == other.function && shape == other.shape && values == other.values &&
             offsets == other.offsets;
    }
  };

  LaunchRecorder();
  ~LaunchRecorder();
  LaunchRecorder(const LaunchRecorder&) = delete;
  LaunchRecorder& operator=(const LaunchRecorder&) = delete;

  void add(const Function& function, const LaunchShape& shape, Arguments& arguments);
  // What is added next begins when all before it has ended, even if it could wait for that itself.
  void hold_next() { holds_next_ = true; }
  void add_foreign(std::span<const void* const> pointers, ForeignWork work);
  std::vector<Launch> take() { return std::move(launches_); }

  // That of the calling thread, or null.
  static LaunchRecorder* current();

 private:
  std::vector<Launch> launches_;
  bool holds_next_ = false;
  LaunchRecorder* outer_;
};

}  // namespace hearth::gpu
