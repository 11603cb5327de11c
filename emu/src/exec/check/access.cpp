// Bounds and alignment of accesses.
#include "exec/check/access.h"

#include <fmt/format.h>

#include <bit>

#include "exec/check/report.h"

namespace hipemu {

void require_allocations(const LaneAccess& access) {
  AllocationCache& cache = AllocationCache::of_this_thread();
  for (uint64_t lanes = access.mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    if (cache.find(access.address(lane), access.bytes) == nullptr)
      fail_global(access.address(lane), access.bytes, access.kind, lane);
  }
}

void require_alignment(const LaneAccess& access) {
  for (uint64_t lanes = access.mask; lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    if (access.address(lane) % access.bytes == 0) continue;
    throw KernelFault{
        Fault::Kind::misaligned,
        fmt::format("{} of {} bytes at {:#x}, which is no multiple of {}", describe_access(access.kind),
                    access.bytes, access.address(lane), access.bytes),
        lane, access.address(lane)};
  }
}

void fail_global(uint64_t address, uint64_t bytes, AccessKind kind, int lane) {
  throw KernelFault{Fault::Kind::illegal_address,
                    fmt::format("{} of {} byte{} at {:#x}: {}", describe_access(kind), bytes,
                                bytes == 1 ? "" : "s", address, describe_address(address, bytes)),
                    lane, address};
}

void fail_lds(uint64_t offset, uint64_t bytes, uint32_t size, AccessKind kind, int lane) {
  throw KernelFault{Fault::Kind::illegal_address,
                    fmt::format("{} of {} byte{} at LDS address {:#x}, but the workgroup has {} bytes of LDS",
                                describe_access(kind), bytes, bytes == 1 ? "" : "s", offset, size),
                    lane, offset};
}

void fail_scratch(uint64_t offset, uint64_t bytes, uint32_t size, AccessKind kind, int lane) {
  throw KernelFault{
      Fault::Kind::illegal_address,
      fmt::format("{} of {} byte{} at scratch address {:#x}, but a lane has {} bytes of scratch",
                  describe_access(kind), bytes, bytes == 1 ? "" : "s", offset, size),
      lane, offset};
}

}  // namespace hipemu
