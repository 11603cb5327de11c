// Scratch memory for kernels.
#pragma once

#include <cstdint>

namespace hearth::cpu {

// An array of floats, aligned to 64 bytes, not initialised. It comes from buffers that the thread keeps for
// its next kernels, because fresh pages from the system would cost more than many a kernel. Made and
// destroyed on one thread.
class Scratch {
 public:
  explicit Scratch(std::int64_t count);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  float* data() const { return data_; }

 private:
  float* data_;
  std::int64_t capacity_;
};

}  // namespace hearth::cpu
