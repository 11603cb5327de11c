// How far the host runs ahead of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

#include "gpu/event.h"

namespace hearth::gpu {

// Counts the bytes that work in a stream works on, from when it is put there until it is known to be done.
// Safe from any thread.
class InFlight {
 public:
  InFlight(const GpuDevice& device, StreamHandle stream) : device_(device), stream_(stream) {}

  // Before work is put into the stream: waits until it fits below the limit, or only the work before it is
  // left, behind which it begins without a pause.
  void admit(std::size_t bytes);
  // All that has been admitted so far; after it is known to be done, finished(position).
  std::uint64_t position() const;
  void finished(std::uint64_t position);

  void set_limit(std::size_t bytes);
  void add_to(MemoryStats& stats) const;
  void reset_peak();

 private:
  struct Mark {
    std::shared_ptr<Event> event;
    std::uint64_t position = 0;  // what is done when it is reached
  };
  // With the lock held.
  void put_mark();
  void retire();
  std::uint64_t in_flight() const { return admitted_ - finished_; }

  const GpuDevice& device_;
  StreamHandle stream_;
  mutable std::mutex mutex_;
  std::deque<Mark> marks_;
  // Bytes, counted from the beginning.
  std::uint64_t admitted_ = 0, marked_ = 0, finished_ = 0;
  std::uint64_t limit_ = 0, peak_ = 0, waits_ = 0;
};

}  // namespace hearth::gpu
