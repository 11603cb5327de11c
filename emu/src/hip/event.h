// Events: a place in a stream, and the time at which it was reached.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <vector>

#include "hip/stream.h"

namespace hipemu::hip {

struct Event {
  // One hipEventRecord. A later one makes a new record; whoever waits for the earlier keeps it.
  struct Record {
    Ticket ticket;
    std::atomic<std::chrono::steady_clock::rep> time{0};  // of steady_clock, once the ticket is done

    void stamp() { time.store(std::chrono::steady_clock::now().time_since_epoch().count()); }
  };

  explicit Event(unsigned with_flags, Device& on) : flags(with_flags), device(&on) {}

  std::shared_ptr<Record> last_record() {
    const std::lock_guard lock(mutex);
    return record;
  }

  const unsigned flags;
  Device* const device;
  hipEvent_t handle = nullptr;
  std::mutex mutex;
  std::shared_ptr<Record> record;  // null until recorded

  // What was recorded while a stream was captured; guarded by capture_mutex().
  std::shared_ptr<CaptureSession> capture;
  std::vector<std::shared_ptr<GraphNode>> captured;
};

// Records the event in the stream, or in the graph that the stream is captured to.
void record_event(Event& event, Stream& stream);

}  // namespace hipemu::hip
