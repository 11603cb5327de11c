// Stream-ordered allocation. An allocation has its address at once, and is given back when the stream comes
// to the hipFreeAsync; a pool is the account of what is in use, since memory of the host needs no cache of
// its own.
#include "hip/pool.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "hip/graph.h"
#include "hip/handle_table.h"
#include "hip/memory.h"

namespace hipemu::hip {
namespace {

struct Pool {
  explicit Pool(Device& on) : device(on) {}

  Device& device;
  hipMemPool_t handle = nullptr;
  uint64_t release_threshold = 0;
  std::map<hipMemPoolAttr, int> reuse{{hipMemPoolReuseFollowEventDependencies, 1},
                                      {hipMemPoolReuseAllowOpportunistic, 1},
                                      {hipMemPoolReuseAllowInternalDependencies, 1}};
  uint64_t used = 0, used_high = 0;
  uint64_t limit = 0;  // 0: none
  std::map<int, int> access;
};

struct Pools {
  std::mutex mutex;  // guards the accounts of all pools
  HandleTable<hipMemPool_t, Pool> table;
  std::map<int, std::shared_ptr<Pool>> default_of, current_of;
  std::unordered_map<const void*, std::pair<std::shared_ptr<Pool>, size_t>> allocations;
};
Pools& pools() {
  static auto& all = *new Pools;
  return all;
}

// With the lock held.
std::shared_ptr<Pool> default_pool(Device& device) {
  auto& pool = pools().default_of[device.index];
  if (!pool) {
    pool = std::make_shared<Pool>(device);
    pool->handle = pools().table.insert(pool);
  }
  return pool;
}

std::shared_ptr<Pool> current_pool(Device& device) {
  const std::lock_guard lock(pools().mutex);
  const auto found = pools().current_of.find(device.index);
  return found != pools().current_of.end() ? found->second : default_pool(device);
}

std::shared_ptr<Pool> find_pool(hipMemPool_t handle) {
  require(handle, hipErrorInvalidValue);
  return require(pools().table.find(handle), hipErrorInvalidValue);
}

void* allocate_from(const std::shared_ptr<Pool>& pool, size_t size, const char* origin) {
  {
    const std::lock_guard lock(pools().mutex);
    require(pool->limit == 0 || (size <= pool->limit && pool->used <= pool->limit - size),
            hipErrorOutOfMemory);
  }
  void* memory = allocate_memory(size, MemoryKind::device, pool->device, origin).base;
  const std::lock_guard lock(pools().mutex);
  pool->used += size;
  pool->used_high = std::max(pool->used_high, pool->used);
  pools().allocations[memory] = {pool, size};
  return memory;
}

void allocate_async(void** pointer, size_t size, const std::shared_ptr<Pool>& pool, Stream& stream,
                    const char* origin) {
  require(pointer, hipErrorInvalidValue);
  *pointer = nullptr;
  if (size == 0) return;
  check_sticky(stream.device);
  const bool captured = is_capturing(stream);  // throws when the capture has failed
  void* memory = allocate_from(pool, size, origin);
  if (captured) {
    AllocateWork work;
    work.memory = std::shared_ptr<void>(memory, [](void* base) {
      if (!shutting_down()) release_memory(base);
    });
    work.size = size;
    submit(stream, std::move(work));
  }
  *pointer = memory;
}

}  // namespace

hipMemPool_t pool_of(const void* pointer) {
  const Allocation* allocation = address_space().find(pointer);
  const std::lock_guard lock(pools().mutex);
  const auto found = pools().allocations.find(allocation ? allocation->base : pointer);
  return found == pools().allocations.end() ? nullptr : found->second.first->handle;
}

void forget_pool_allocation(const void* pointer) {
  const std::lock_guard lock(pools().mutex);
  const auto found = pools().allocations.find(pointer);
  if (found == pools().allocations.end()) return;
  found->second.first->used -= found->second.second;
  pools().allocations.erase(found);
}

}  // namespace hipemu::hip

using namespace hipemu::hip;
using hipemu::Allocation;
using hipemu::MemoryKind;

HIP_API hipError_t hipMallocAsync(void** pointer, size_t size, hipStream_t stream) {
  return api([&] {
    auto on = resolve_stream(stream);
    allocate_async(pointer, size, current_pool(on->device), *on, "hipMallocAsync");
  });
}

HIP_API hipError_t hipMallocFromPoolAsync(void** pointer, size_t size, hipMemPool_t pool,
                                          hipStream_t stream) {
  return api([&] {
    allocate_async(pointer, size, find_pool(pool), *resolve_stream(stream), "hipMallocFromPoolAsync");
  });
}

HIP_API hipError_t hipFreeAsync(void* pointer, hipStream_t stream) {
  return api([&] {
    auto on = resolve_stream(stream);
    require(pointer, hipErrorInvalidValue);
    const Allocation* allocation = hipemu::address_space().find(pointer);
    require(allocation && allocation->base == pointer && allocation->kind == MemoryKind::device,
            hipErrorInvalidValue);
    submit(*on, FreeWork{pointer});
  });
}

HIP_API hipError_t hipDeviceGetDefaultMemPool(hipMemPool_t* pool, int device) {
  return api([&] {
    require(pool, hipErrorInvalidValue);
    Device& on = device_at(device);
    const std::lock_guard lock(pools().mutex);
    *pool = default_pool(on)->handle;
  });
}

HIP_API hipError_t hipDeviceSetMemPool(int device, hipMemPool_t pool) {
  return api([&] {
    Device& on = device_at(device);
    auto chosen = find_pool(pool);
    require(&chosen->device == &on, hipErrorInvalidDevice);
    const std::lock_guard lock(pools().mutex);
    pools().current_of[device] = std::move(chosen);
  });
}

HIP_API hipError_t hipDeviceGetMemPool(hipMemPool_t* pool, int device) {
  return api([&] {
    require(pool, hipErrorInvalidValue);
    *pool = current_pool(device_at(device))->handle;
  });
}

HIP_API hipError_t hipMemPoolCreate(hipMemPool_t* pool, const hipMemPoolProps* properties) {
  return api([&] {
    require(pool && properties && properties->allocType == 1 && properties->location.type == 1,
            hipErrorInvalidValue);
    require(properties->handleTypes == 0, hipErrorNotSupported);  // pools of other processes
    auto made = std::make_shared<Pool>(device_at(properties->location.id));
    // The field came with ROCm 6; programs of ROCm 5 have reserved bytes there.
    if (!old_abi()) made->limit = properties->maxSize;
    made->handle = pools().table.insert(made);
    *pool = made->handle;
  });
}

HIP_API hipError_t hipMemPoolDestroy(hipMemPool_t pool) {
  return api([&] {
    auto found = find_pool(pool);
    const std::lock_guard lock(pools().mutex);
    for (const auto& [device, standard] : pools().default_of)
      require(standard != found, hipErrorInvalidValue);
    pools().table.remove(pool);
    std::erase_if(pools().current_of, [&](const auto& entry) { return entry.second == found; });
  });
}

HIP_API hipError_t hipMemPoolTrimTo(hipMemPool_t pool, size_t) {
  return api([&] { find_pool(pool); });  // nothing is held back
}

HIP_API hipError_t hipMemPoolSetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
  return api([&] {
    require(value, hipErrorInvalidValue);
    auto found = find_pool(pool);
    const std::lock_guard lock(pools().mutex);
    switch (attribute) {
      case hipMemPoolReuseFollowEventDependencies:
      case hipMemPoolReuseAllowOpportunistic:
      case hipMemPoolReuseAllowInternalDependencies:
        found->reuse[attribute] = *static_cast<int*>(value);
        return;
      case hipMemPoolAttrReleaseThreshold:
        std::memcpy(&found->release_threshold, value, 8);
        return;
      case hipMemPoolAttrReservedMemHigh:
      case hipMemPoolAttrUsedMemHigh: {
        uint64_t wanted = 0;
        std::memcpy(&wanted, value, 8);
        require(wanted == 0, hipErrorInvalidValue);
        found->used_high = found->used;
        return;
      }
      default:
        throw Failure(hipErrorInvalidValue);
    }
  });
}

HIP_API hipError_t hipMemPoolGetAttribute(hipMemPool_t pool, hipMemPoolAttr attribute, void* value) {
  return api([&] {
    require(value, hipErrorInvalidValue);
    auto found = find_pool(pool);
    const std::lock_guard lock(pools().mutex);
    const auto store = [&](uint64_t number) { std::memcpy(value, &number, 8); };
    switch (attribute) {
      case hipMemPoolReuseFollowEventDependencies:
      case hipMemPoolReuseAllowOpportunistic:
      case hipMemPoolReuseAllowInternalDependencies:
        *static_cast<int*>(value) = found->reuse[attribute];
        return;
      case hipMemPoolAttrReleaseThreshold:
        return store(found->release_threshold);
      case hipMemPoolAttrReservedMemCurrent:
      case hipMemPoolAttrUsedMemCurrent:
        return store(found->used);
      case hipMemPoolAttrReservedMemHigh:
      case hipMemPoolAttrUsedMemHigh:
        return store(found->used_high);
      default:
        throw Failure(hipErrorInvalidValue);
    }
  });
}

HIP_API hipError_t hipMemPoolSetAccess(hipMemPool_t pool, const hipMemAccessDesc* descriptions,
                                       size_t count) {
  return api([&] {
    require(descriptions && count > 0, hipErrorInvalidValue);
    auto found = find_pool(pool);
    for (size_t i = 0; i < count; ++i) {
      require(descriptions[i].location.type == 1, hipErrorInvalidValue);
      device_at(descriptions[i].location.id);
      require(descriptions[i].location.id != found->device.index || descriptions[i].flags != 0,
              hipErrorInvalidDevice);
    }
    const std::lock_guard lock(pools().mutex);
    for (size_t i = 0; i < count; ++i) found->access[descriptions[i].location.id] = descriptions[i].flags;
  });
}

HIP_API hipError_t hipMemPoolGetAccess(int* flags, hipMemPool_t pool, hipMemLocation* location) {
  return api([&] {
    require(flags && location && location->type == 1, hipErrorInvalidValue);
    auto found = find_pool(pool);
    device_at(location->id);
    const std::lock_guard lock(pools().mutex);
    const auto entry = found->access.find(location->id);
    *flags = location->id == found->device.index ? 3 : entry == found->access.end() ? 0 : entry->second;
  });
}
