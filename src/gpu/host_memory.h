// Memory of the host that a GPU's copy engine reaches by itself, for whoever reads much from the device again
// and again. It is the owner's: Config::pinned_pool_size_mb limits only what copies share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "gpu/device.h"
#include "graph/node.h"

namespace hearth::gpu {

// Safe from any thread.
class HostMemory {
 public:
  explicit HostMemory(GpuDevice& device) : device_(device) {}
  // Null where the system would not pin so much.
  std::shared_ptr<Buffer> allocate(std::size_t bytes);
  // Whether all these bytes are in memory that it gave out.
  bool holds(const void* data, std::size_t bytes) const;

 private:
  class Pinned;
  // What is given out, by where it begins.
  struct Ranges {
    std::mutex mutex;
    std::map<std::uintptr_t, std::size_t> sizes;
  };

  GpuDevice& device_;
  mutable Ranges ranges_;
};

}  // namespace hearth::gpu
