// Marks in the work of a device: to know how far it is, and how long it took.
//
//   Event begin(device);
//   step();                          // queued; the host goes on
//   Event end(device);
//   double seconds = end.seconds_since(begin);
#pragma once

#include <memory>

#include "hearth/device.h"

namespace hearth {

class WorkMark;

// Put behind all work that the device has been given; reached when that is done. On the CPU, where work is
// done at once, it is a time. Safe from any thread.
class Event {
 public:
  // Throws DeviceError.
  explicit Event(Device device = default_device());
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;

  bool reached() const;
  void wait() const;
  // By the device's clock, from when `earlier` was reached to when this one was. Waits for both; throws
  // ValueError where they are of different devices.
  double seconds_since(const Event& earlier) const;

 private:
  Device device_;
  std::unique_ptr<const WorkMark> mark_;
};

}  // namespace hearth
