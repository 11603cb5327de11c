// Allocation: device, pinned, managed and registered memory, and what can be asked about a pointer.
#include "hip/memory.h"

#include <algorithm>
#include <cstring>

#include "hip/graph.h"
#include "hip/pool.h"

namespace hipemu::hip {

Allocation& allocate_memory(size_t size, MemoryKind kind, Device& device, std::string origin,
                            unsigned flags) {
  if (kind == MemoryKind::device) {
    const size_t used = address_space().bytes_in_use(device.index);
    const uint64_t total = device.chip->memory_bytes;
    require(size <= total && used <= total - size, hipErrorOutOfMemory);
  }
  Allocation* made = address_space().allocate(size, kind, device.index, std::move(origin));
  require(made, hipErrorOutOfMemory);
  made->flags = flags;
  return *made;
}

bool release_memory(void* pointer) {
  forget_pool_allocation(pointer);
  return address_space().release(pointer);
}

void check_box(Box& box, size_t width, size_t height, size_t depth) {
  require(box.base, hipErrorInvalidValue);
  size_t slices = 0, rows = 0, bytes = 0;
  const bool too_much = __builtin_mul_overflow(depth - 1, box.slice, &slices) ||
                        __builtin_mul_overflow(height - 1, box.pitch, &rows) ||
                        __builtin_add_overflow(slices, rows, &bytes) ||
                        __builtin_add_overflow(bytes, width, &bytes);
  require(!too_much, hipErrorInvalidValue);
  AddressSpace& space = address_space();
  if (const Allocation* inside = space.find(box.base)) {
    box.tracked = true;
    require(inside->contains(reinterpret_cast<uint64_t>(box.base), bytes), hipErrorInvalidValue);
    return;
  }
  box.tracked = false;
  // Pageable memory of the program, or a pointer into memory that was freed.
  const Allocation* near = space.nearest(box.base);
  if (near && near->freed && near->kind != MemoryKind::registered_host)
    require(!near->contains(reinterpret_cast<uint64_t>(box.base), 1), hipErrorInvalidValue);
}

namespace {

Allocation* start_of(void* pointer) {
  Allocation* found = address_space().find(pointer);
  return found && found->base == pointer ? found : nullptr;
}

// hipFree and its like wait for the devices: work that uses the memory may still be queued.
void synchronize_owner(const Allocation& allocation) {
  if (allocation.kind == MemoryKind::device) {
    try {
      synchronize_device(device_at(allocation.device));
    } catch (const Failure&) {
      // Memory can be given back on a device that has failed.
    }
    return;
  }
  for (const auto& device : devices()) try {
      synchronize_device(*device);
    } catch (const Failure&) {
    }
}

void allocate_host(void** pointer, size_t size, unsigned flags, const char* origin) {
  require(pointer, hipErrorInvalidValue);
  *pointer = nullptr;
  constexpr unsigned known = hipHostMallocPortable | hipHostMallocMapped | hipHostMallocWriteCombined |
                             hipHostMallocNumaUser | hipHostMallocCoherent | hipHostMallocNonCoherent |
                             0x10000000;
  require((flags & ~known) == 0, hipErrorInvalidValue);
  require((flags & hipHostMallocCoherent) == 0 || (flags & hipHostMallocNonCoherent) == 0,
          hipErrorInvalidValue);
  refuse_unsafe_call();
  if (size == 0) return;
  *pointer = allocate_memory(size, MemoryKind::pinned_host, current_device(), origin, flags).base;
}

void free_host(void* pointer) {
  if (!pointer) return;
  const Allocation* allocation = require(start_of(pointer), hipErrorInvalidValue);
  require(allocation->kind == MemoryKind::pinned_host, hipErrorInvalidValue);
  synchronize_owner(*allocation);
  require(release_memory(pointer), hipErrorInvalidValue);
}

// Rows begin where the chip's widest access is aligned.
constexpr size_t pitch_alignment = 128;
size_t padded(size_t width) { return (width + pitch_alignment - 1) / pitch_alignment * pitch_alignment; }

void allocate_pitched(void** pointer, size_t* pitch, size_t width, size_t height, size_t depth,
                      const char* origin) {
  require(pointer && pitch, hipErrorInvalidValue);
  *pointer = nullptr;
  *pitch = 0;
  refuse_unsafe_call();
  Device& device = current_device();
  if (width == 0 || height == 0 || depth == 0) return;
  require(width <= device.chip->memory_bytes && height <= device.chip->memory_bytes / padded(width) &&
              depth <= device.chip->memory_bytes / padded(width) / height,
          hipErrorOutOfMemory);
  *pointer = allocate_memory(padded(width) * height * depth, MemoryKind::device, device, origin).base;
  *pitch = padded(width);
}

MemoryType type_of(const Allocation& allocation) {
  switch (allocation.kind) {
    case MemoryKind::pinned_host:
    case MemoryKind::registered_host:
      return MemoryType::host;
    case MemoryKind::managed:
      return old_abi() ? MemoryType::device : MemoryType::managed;
    default:
      return MemoryType::device;
  }
}

bool host_can_read(const Allocation& allocation) {
  return allocation.kind == MemoryKind::pinned_host || allocation.kind == MemoryKind::registered_host ||
         allocation.kind == MemoryKind::managed;
}

hipError_t pointer_attribute(void* data, hipPointer_attribute attribute, void* pointer) {
  require(data, hipErrorInvalidValue);
  const Allocation* allocation = address_space().find(pointer);
  const auto store = [&](auto value) {
    std::memcpy(data, &value, sizeof value);
    return hipSuccess;
  };
  if (!allocation) {
    // ROCm stores zeroes for what it does not know, so that a caller may ignore the answer.
    if (attribute == HIP_POINTER_ATTRIBUTE_MEMORY_TYPE) store(0u);
    return hipErrorInvalidValue;
  }
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return store(static_cast<unsigned>(memory_type_number(type_of(*allocation))));
    case HIP_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return store(pointer);
    case HIP_POINTER_ATTRIBUTE_HOST_POINTER:
      return host_can_read(*allocation) ? store(pointer) : hipErrorInvalidValue;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
      return store(static_cast<uint64_t>(allocation->id));
    case HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return store(0u);
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
      return store(static_cast<unsigned>(allocation->kind == MemoryKind::managed));
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return store(allocation->device);
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return store(static_cast<void*>(allocation->base));
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      return store(allocation->size);
    case HIP_POINTER_ATTRIBUTE_MAPPED:
      return store(1u);
    case HIP_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return store(uint64_t{0});
    case HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE:
    case HIP_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return store(0u);
    case HIP_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return store(3u);
    case HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return store(pool_of(pointer));
    case HIP_POINTER_ATTRIBUTE_CONTEXT:
    case HIP_POINTER_ATTRIBUTE_P2P_TOKENS:
      return hipErrorNotSupported;
  }
  return hipErrorInvalidValue;
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu;
using namespace hipemu::hip;

HIP_API hipError_t hipMalloc(void** pointer, size_t size) {
  return api([&] {
    require(pointer, hipErrorInvalidValue);
    *pointer = nullptr;
    refuse_unsafe_call();
    Device& device = current_device();
    if (size > 0) *pointer = allocate_memory(size, MemoryKind::device, device, "hipMalloc").base;
  });
}

HIP_API hipError_t hipExtMallocWithFlags(void** pointer, size_t size, unsigned flags) {
  return api([&] {
    require(pointer && flags <= 4, hipErrorInvalidValue);
    *pointer = nullptr;
    require(flags != 2 || size == 8, hipErrorInvalidValue);  // signal memory is one word
    refuse_unsafe_call();
    Device& device = current_device();
    if (size > 0)
      *pointer = allocate_memory(size, MemoryKind::device, device, "hipExtMallocWithFlags", flags).base;
  });
}

HIP_API hipError_t hipFree(void* pointer) {
  return api([&] {
    devices();
    if (!pointer) return;
    refuse_unsafe_call();
    const Allocation* allocation = require(start_of(pointer), hipErrorInvalidValue);
    require(allocation->kind == MemoryKind::device || allocation->kind == MemoryKind::managed,
            hipErrorInvalidValue);
    synchronize_owner(*allocation);
    require(release_memory(pointer), hipErrorInvalidValue);
  });
}

HIP_API hipError_t hipHostMalloc(void** pointer, size_t size, unsigned flags) {
  return api([&] { allocate_host(pointer, size, flags, "hipHostMalloc"); });
}
HIP_API hipError_t hipHostAlloc(void** pointer, size_t size, unsigned flags) {
  return api([&] { allocate_host(pointer, size, flags, "hipHostAlloc"); });
}
HIP_API hipError_t hipExtHostAlloc(void** pointer, size_t size, unsigned flags) {
  return api([&] { allocate_host(pointer, size, flags, "hipExtHostAlloc"); });
}
HIP_API hipError_t hipMallocHost(void** pointer, size_t size) {
  return api([&] { allocate_host(pointer, size, 0, "hipMallocHost"); });
}
HIP_API hipError_t hipMemAllocHost(void** pointer, size_t size) {
  return api([&] { allocate_host(pointer, size, 0, "hipMemAllocHost"); });
}
HIP_API hipError_t hipHostFree(void* pointer) {
  return api([&] { free_host(pointer); });
}
HIP_API hipError_t hipFreeHost(void* pointer) {
  return api([&] { free_host(pointer); });
}

HIP_API hipError_t hipHostRegister(void* pointer, size_t size, unsigned flags) {
  return api([&] {
    require(pointer && size > 0 && (flags & ~0xfu) == 0, hipErrorInvalidValue);
    Device& device = current_device();
    AddressSpace& space = address_space();
    require(!space.find(pointer) && !space.find(static_cast<std::byte*>(pointer) + size - 1),
            hipErrorHostMemoryAlreadyRegistered);
    Allocation* made =
        space.adopt(pointer, size, MemoryKind::registered_host, device.index, "hipHostRegister");
    require(made, hipErrorOutOfMemory);
    made->flags = flags;
  });
}

HIP_API hipError_t hipHostUnregister(void* pointer) {
  return api([&] {
    require(pointer, hipErrorInvalidValue);
    const Allocation* allocation = start_of(pointer);
    require(allocation && allocation->kind == MemoryKind::registered_host, hipErrorHostMemoryNotRegistered);
    synchronize_owner(*allocation);
    require(release_memory(pointer), hipErrorHostMemoryNotRegistered);
  });
}

HIP_API hipError_t hipHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned flags) {
  return api([&] {
    require(device_pointer && host_pointer && flags == 0, hipErrorInvalidValue);
    *device_pointer = nullptr;
    const Allocation* allocation = require(address_space().find(host_pointer), hipErrorInvalidValue);
    require(host_can_read(*allocation), hipErrorInvalidValue);
    *device_pointer = host_pointer;
  });
}

HIP_API hipError_t hipHostGetFlags(unsigned* flags, void* host_pointer) {
  return api([&] {
    require(flags && host_pointer, hipErrorInvalidValue);
    const Allocation* allocation = require(address_space().find(host_pointer), hipErrorInvalidValue);
    require(allocation->kind == MemoryKind::pinned_host || allocation->kind == MemoryKind::registered_host,
            hipErrorInvalidValue);
    *flags = allocation->flags;
  });
}

HIP_API hipError_t hipMallocManaged(void** pointer, size_t size, unsigned flags) {
  return api([&] {
    require(pointer, hipErrorInvalidValue);
    *pointer = nullptr;
    require(size > 0 && (flags == hipMemAttachGlobal || flags == hipMemAttachHost), hipErrorInvalidValue);
    refuse_unsafe_call();
    *pointer = allocate_memory(size, MemoryKind::managed, current_device(), "hipMallocManaged", flags).base;
  });
}

HIP_API hipError_t hipMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return api([&] { allocate_pitched(pointer, pitch, width, height, 1, "hipMallocPitch"); });
}

HIP_API hipError_t hipMemAllocPitch(hipDeviceptr_t* pointer, size_t* pitch, size_t width, size_t height,
                                    unsigned element_size) {
  return api([&] {
    require(width > 0 && height > 0 && element_size > 0, hipErrorInvalidValue);
    allocate_pitched(pointer, pitch, width, height, 1, "hipMemAllocPitch");
  });
}

HIP_API hipError_t hipMalloc3D(hipPitchedPtr* result, hipExtent extent) {
  return api([&] {
    require(result, hipErrorInvalidValue);
    allocate_pitched(&result->ptr, &result->pitch, extent.width, extent.height, extent.depth, "hipMalloc3D");
    result->xsize = extent.width;
    result->ysize = extent.height;
  });
}

HIP_API hipError_t hipMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return api([&] {
    require(free_bytes && total_bytes, hipErrorInvalidValue);
    const Device& device = current_device();
    *total_bytes = device.chip->memory_bytes;
    *free_bytes = *total_bytes - std::min<size_t>(*total_bytes, address_space().bytes_in_use(device.index));
  });
}

HIP_API hipError_t hipMemPtrGetInfo(void* pointer, size_t* size) {
  return api([&] {
    require(pointer && size, hipErrorInvalidValue);
    *size = require(address_space().find(pointer), hipErrorInvalidValue)->size;
  });
}

HIP_API hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size, hipDeviceptr_t pointer) {
  return api([&] {
    const Allocation* allocation = require(address_space().find(pointer), hipErrorNotFound);
    if (base) *base = allocation->base;
    if (size) *size = allocation->size;
  });
}

HIP_API hipError_t hipPointerGetAttributes(hipPointerAttribute_t* attributes, const void* pointer) {
  return api([&] {
    require(attributes && pointer, hipErrorInvalidValue);
    *attributes = {};
    const Allocation* allocation = address_space().find(pointer);
    if (!allocation) {
      require(!old_abi(), hipErrorInvalidValue);
      attributes->type = memory_type_number(MemoryType::unregistered);
      attributes->device = hipInvalidDeviceId;
      return;
    }
    attributes->type = memory_type_number(type_of(*allocation));
    attributes->device = allocation->device;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->hostPointer = host_can_read(*allocation) ? const_cast<void*>(pointer) : nullptr;
    attributes->isManaged = allocation->kind == MemoryKind::managed;
    attributes->allocationFlags = allocation->flags;
  });
}

HIP_API hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute,
                                          hipDeviceptr_t pointer) {
  return api([&] { return pointer_attribute(data, attribute, pointer); });
}

HIP_API hipError_t hipDrvPointerGetAttributes(unsigned count, hipPointer_attribute* attributes, void** data,
                                              hipDeviceptr_t pointer) {
  return api([&] {
    require(count > 0 && attributes && data && pointer, hipErrorInvalidValue);
    for (unsigned i = 0; i < count; ++i) pointer_attribute(data[i], attributes[i], pointer);
  });
}

HIP_API hipError_t hipPointerSetAttribute(const void* value, hipPointer_attribute attribute,
                                          hipDeviceptr_t pointer) {
  return api([&] {
    require(value && attribute == HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS, hipErrorInvalidValue);
    require(address_space().find(pointer), hipErrorInvalidDevicePointer);
  });
}

// Managed memory is in one place and coherent: where it should go is of no consequence, but the arguments are
// checked.
static void check_managed_range(const void* pointer, size_t bytes, int device) {
  require(pointer && bytes > 0, hipErrorInvalidValue);
  if (device != hipCpuDeviceId) device_at(device);
  const Allocation* allocation = address_space().find(pointer);
  require(allocation && allocation->kind == MemoryKind::managed &&
              allocation->contains(reinterpret_cast<uint64_t>(pointer), bytes),
          hipErrorInvalidValue);
}

HIP_API hipError_t hipMemPrefetchAsync(const void* pointer, size_t bytes, int device, hipStream_t stream) {
  return api([&] {
    check_managed_range(pointer, bytes, device);
    submit(*resolve_stream(stream), EmptyWork{});
  });
}

HIP_API hipError_t hipMemAdvise(const void* pointer, size_t bytes, hipMemoryAdvise advice, int device) {
  return api([&] {
    require((advice >= 1 && advice <= 6) || advice == 100 || advice == 101, hipErrorInvalidValue);
    check_managed_range(pointer, bytes, device);
  });
}

static hipError_t range_attribute(void* data, size_t size, hipMemRangeAttribute attribute,
                                  const void* pointer, size_t bytes) {
  require(data && size >= 4, hipErrorInvalidValue);
  check_managed_range(pointer, bytes, hipCpuDeviceId);
  int value = 0;
  switch (attribute) {
    case hipMemRangeAttributeReadMostly:
      value = 0;
      break;
    case hipMemRangeAttributePreferredLocation:
    case hipMemRangeAttributeAccessedBy:
    case hipMemRangeAttributeLastPrefetchLocation:
      value = hipInvalidDeviceId;
      break;
    case hipMemRangeAttributeCoherencyMode:
      value = 0;
      break;
    default:
      return hipErrorInvalidValue;
  }
  for (size_t at = 0; at + 4 <= size; at += 4) std::memcpy(static_cast<char*>(data) + at, &value, 4);
  return hipSuccess;
}

HIP_API hipError_t hipMemRangeGetAttribute(void* data, size_t size, hipMemRangeAttribute attribute,
                                           const void* pointer, size_t bytes) {
  return api([&] { return range_attribute(data, size, attribute, pointer, bytes); });
}

HIP_API hipError_t hipMemRangeGetAttributes(void** data, size_t* sizes, hipMemRangeAttribute* attributes,
                                            size_t count, const void* pointer, size_t bytes) {
  return api([&] {
    require(data && sizes && attributes && count > 0, hipErrorInvalidValue);
    for (size_t i = 0; i < count; ++i) {
      const hipError_t error = range_attribute(data[i], sizes[i], attributes[i], pointer, bytes);
      if (error != hipSuccess) return error;
    }
    return hipSuccess;
  });
}

HIP_API hipError_t hipStreamAttachMemAsync(hipStream_t stream, void* pointer, size_t length, unsigned flags) {
  return api([&] {
    require(flags == hipMemAttachGlobal || flags == hipMemAttachHost || flags == hipMemAttachSingle,
            hipErrorInvalidValue);
    check_managed_range(pointer, length ? length : 1, hipCpuDeviceId);
    submit(*resolve_stream(stream), EmptyWork{});
  });
}
