// Calls of the driver.
#include "gpu/event.h"

namespace hearth::gpu {

Event::Event(const GpuDevice& device, Timing timing) : device_(device) {
  constexpr unsigned timed = 0, untimed = 2;  // the same numbers in HIP and CUDA
  device.use();
  device.check(device.driver().call.event_create(&handle_, timing == Timing::on ? timed : untimed),
               "creating an event");
}

Event::~Event() {
  if (device_.try_use()) device_.driver().call.event_destroy(handle_);
}

void Event::record(StreamHandle stream) const {
  device_.use();
  device_.check(device_.driver().call.event_record(handle_, stream), "recording an event");
}

void Event::hold(StreamHandle stream) const {
  device_.use();
  device_.check(device_.driver().call.stream_wait(stream, handle_, 0), "waiting for an event");
}

bool Event::reached() const { return device_.answer(device_.driver().call.event_query(handle_)); }

void Event::wait() const {
  device_.use();
  device_.poll([this] { return device_.driver().call.event_query(handle_); });
}

double Event::seconds_since(const Event& earlier) const {
  float milliseconds = 0;
  device_.check(device_.driver().call.event_elapsed(&milliseconds, earlier.handle_, handle_), "timing");
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace hearth::gpu
