// Event, over the backend's marks.
#include "hearth/event.h"

#include <fmt/format.h>

#include "device/backend.h"
#include "hearth/error.h"

namespace hearth {

Event::Event(Device device) : device_(device), mark_(backend(device).mark()) {}
Event::~Event() = default;
Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&&) noexcept = default;

bool Event::reached() const { return mark_->reached(); }
void Event::wait() const { mark_->wait(); }

double Event::seconds_since(const Event& earlier) const {
  if (device_ != earlier.device_)
    throw ValueError(fmt::format("[event] an event of {} and one of {} have no common clock",
                                 to_string(device_), to_string(earlier.device_)));
  earlier.wait();
  wait();
  return mark_->seconds_since(*earlier.mark_);
}

}  // namespace hearth
