// Marks in the stream, an eighth of the limit apart: cheap, and fine enough to wait for.
#include "gpu/in_flight.h"

#include <algorithm>

namespace hearth::gpu {

void InFlight::admit(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  if (admitted_ - marked_ >= limit_ / 8 || in_flight() + bytes > limit_) put_mark();
  retire();
  bool waited = false;
  while (in_flight() + bytes > limit_ && marks_.size() > 1) {
    const Mark oldest = marks_.front();
    if (!waited) ++waits_;
    waited = true;
    lock.unlock();
    oldest.event->wait();
    lock.lock();
    retire();
  }
  admitted_ += bytes;
  peak_ = std::max(peak_, in_flight());
}

// Behind all that was admitted before: the work itself has been put into the stream since.
void InFlight::put_mark() {
  if (admitted_ == marked_) return;
  auto event = std::make_shared<Event>(device_);
  event->record(stream_);
  marks_.push_back({std::move(event), admitted_});
  marked_ = admitted_;
}

void InFlight::retire() {
  while (!marks_.empty() && (marks_.front().position <= finished_ || marks_.front().event->reached())) {
    finished_ = std::max(finished_, marks_.front().position);
    marks_.pop_front();
  }
}

std::uint64_t InFlight::position() const {
  const std::lock_guard lock(mutex_);
  return admitted_;
}

void InFlight::finished(std::uint64_t position) {
  const std::lock_guard lock(mutex_);
  finished_ = std::max(finished_, position);
  marked_ = std::max(marked_, position);
}

void InFlight::set_limit(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_ = bytes;
}

void InFlight::add_to(MemoryStats& stats) const {
  const std::lock_guard lock(mutex_);
  stats.in_flight = in_flight();
  stats.in_flight_peak = peak_;
  stats.in_flight_waits = waits_;
}

void InFlight::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_ = in_flight();
}

}  // namespace hearth::gpu
