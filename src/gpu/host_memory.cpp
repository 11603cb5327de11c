#include "gpu/host_memory.h"

namespace hearth::gpu {

class HostMemory::Pinned final : public Buffer {
 public:
  Pinned(GpuDevice& gpu, Ranges& ranges, void* memory, std::size_t size) : gpu_(gpu), ranges_(ranges) {
    data = memory;
    bytes = size;
    const std::lock_guard lock(ranges_.mutex);
    ranges_.sizes.emplace(reinterpret_cast<std::uintptr_t>(data), bytes);
  }
  ~Pinned() override {
    {
      const std::lock_guard lock(ranges_.mutex);
      ranges_.sizes.erase(reinterpret_cast<std::uintptr_t>(data));
    }
    if (gpu_.try_use()) gpu_.driver().call.release_host(data);
  }

 private:
  GpuDevice& gpu_;
  Ranges& ranges_;
};

std::shared_ptr<Buffer> HostMemory::allocate(std::size_t bytes) {
  void* data = nullptr;
  device_.use();
  const int code = device_.driver().call.allocate_host(&data, bytes, 0);
  if (code == device_.driver().codes.out_of_memory) return nullptr;
  device_.check(code, "allocating memory of the host");
  return std::make_shared<Pinned>(device_, ranges_, data, bytes);
}

bool HostMemory::holds(const void* data, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const std::lock_guard lock(ranges_.mutex);
  auto after = ranges_.sizes.upper_bound(begin);
  if (after == ranges_.sizes.begin()) return false;
  const auto& [first, size] = *--after;
  return begin - first <= size && bytes <= size - (begin - first);
}

}  // namespace hearth::gpu
