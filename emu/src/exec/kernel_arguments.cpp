// Hidden arguments as code object versions 4 to 6 define them: the metadata lists which there are and where.
#include "exec/kernel_arguments.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <string_view>
#include <vector>

#include "exec/apertures.h"
#include "exec/host_calls.h"
#include "memory/address_space.h"

namespace hipemu {
namespace {

constexpr std::size_t block_bytes = 64 << 10;
constexpr std::size_t packet_bytes = 64, queue_bytes = 256;

// Blocks are kept for the next launch: adopting memory anew each time would make every cache of allocations
// stale.
class BlockPool {
 public:
  std::byte* take() {
    {
      const std::lock_guard lock(mutex_);
      if (!free_.empty()) {
        std::byte* block = free_.back();
        free_.pop_back();
        return block;
      }
    }
    auto* block = static_cast<std::byte*>(::operator new(block_bytes, std::align_val_t(256)));
    address_space().adopt(block, block_bytes, MemoryKind::kernarg, 0, "kernel arguments");
    return block;
  }
  void give_back(std::byte* block) {
    const std::lock_guard lock(mutex_);
    free_.push_back(block);
  }

 private:
  std::mutex mutex_;
  std::vector<std::byte*> free_;
};

BlockPool& pool() {
  static BlockPool& instance = *new BlockPool;
  return instance;
}

// The axis that follows the prefix: 0 for x. -1 when it is none.
int axis_after(std::string_view prefix, std::string_view kind) {
  if (!kind.starts_with(prefix) || kind.size() != prefix.size() + 1) return -1;
  const int axis = kind.back() - 'x';
  return axis >= 0 && axis < 3 ? axis : -1;
}

uint64_t hidden_value(const Launch& launch, std::string_view kind, const std::byte* queue) {
  if (const int axis = axis_after("hidden_block_count_", kind); axis >= 0) return launch.grid[axis];
  if (const int axis = axis_after("hidden_group_size_", kind); axis >= 0) return launch.block[axis];
  if (kind == "hidden_grid_dims")
    return launch.grid[2] * launch.block[2] > 1 ? 3 : launch.grid[1] * launch.block[1] > 1 ? 2 : 1;
  if (kind == "hidden_dynamic_lds_size") return launch.dynamic_lds;
  if (kind == "hidden_hostcall_buffer") return host_call_buffer();
  if (kind == "hidden_private_base") return private_aperture;
  if (kind == "hidden_shared_base") return shared_aperture;
  if (kind == "hidden_queue_ptr") return reinterpret_cast<uint64_t>(queue);
  // Remainders and offsets of the grid are zero in HIP; there is no device-side queue or heap.
  return 0;
}

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

}  // namespace

KernelArguments::KernelArguments(const Launch& launch, uint32_t lds_bytes, uint32_t scratch_bytes) {
  const Kernel& kernel = *launch.kernel;
  std::size_t arguments = std::max<std::size_t>(kernel.descriptor.kernarg_size, launch.arguments.size());
  for (const KernelArgument& argument : kernel.arguments)
    arguments = std::max<std::size_t>(arguments, static_cast<std::size_t>(argument.offset) + argument.size);
  packet_offset_ = (arguments + 63) / 64 * 64;
  size_ = packet_offset_ + packet_bytes + queue_bytes;
  if (size_ <= block_bytes) {
    block_ = pool().take();
  } else {
    block_ = static_cast<std::byte*>(::operator new(size_, std::align_val_t(256)));
    address_space().adopt(block_, size_, MemoryKind::kernarg, 0, "kernel arguments");
  }
  std::memset(block_, 0, size_);
  if (!launch.arguments.empty()) std::memcpy(block_, launch.arguments.data(), launch.arguments.size());
  for (const KernelArgument& argument : kernel.arguments) {
    if (!argument.hidden()) continue;
    const uint64_t value = hidden_value(launch, argument.kind, queue());
    std::memcpy(block_ + argument.offset, &value, std::min<std::size_t>(argument.size, sizeof value));
  }

  std::byte* at = packet();
  put<uint16_t>(at + 2, 3);  // dimensions
  for (int axis = 0; axis < 3; ++axis) {
    put<uint16_t>(at + 4 + 2 * axis, static_cast<uint16_t>(launch.block[axis]));
    put<uint32_t>(at + 12 + 4 * axis, launch.grid[axis] * launch.block[axis]);
  }
  put<uint32_t>(at + 24, scratch_bytes);
  put<uint32_t>(at + 28, lds_bytes);
  put<uint64_t>(at + 32, kernel.entry);
  put<uint64_t>(at + 40, reinterpret_cast<uint64_t>(block_));
  // What old code reads from the queue: the apertures of LDS and scratch.
  put<uint32_t>(queue() + 64, shared_aperture);
  put<uint32_t>(queue() + 68, private_aperture);
}

KernelArguments::~KernelArguments() {
  if (size_ <= block_bytes) {
    pool().give_back(block_);
  } else {
    address_space().release(block_);
    ::operator delete(block_, std::align_val_t(256));
  }
}

}  // namespace hipemu
