// A mark in a stream: reached when all that was put there before it is done.
#pragma once

#include "gpu/device.h"

namespace hearth::gpu {

class Event {
 public:
  enum class Timing : bool { off, on };
  explicit Event(const GpuDevice& device, Timing timing = Timing::off);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(StreamHandle stream) const;  // puts it there; a mark elsewhere is forgotten
  void hold(StreamHandle stream) const;    // what is put into `stream` from now on waits for it
  bool reached() const;                    // true also where it was never recorded
  void wait() const;
  double seconds_since(const Event& earlier) const;  // both timed and reached

 private:
  const GpuDevice& device_;
  EventHandle handle_ = nullptr;
};

}  // namespace hearth::gpu
