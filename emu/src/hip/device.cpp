// Devices: which there are, which is current, what connects them.
#include <fmt/core.h>

#include <cstdio>
#include <cstring>

#include "hip/graph.h"
#include "hip/runtime.h"
#include "hip/stream.h"

namespace hipemu::hip {

namespace {

// 6.4, as hipRuntimeGetVersion counts: major, minor and a build number.
constexpr int runtime_version = 60400000;

void copy_text(char* to, int size, const std::string& text) {
  require(to && size > 0, hipErrorInvalidValue);
  require(text.size() < static_cast<size_t>(size), hipErrorInvalidValue);
  std::memcpy(to, text.c_str(), text.size() + 1);
}

std::string pci_address(const Device& device) { return fmt::format("0000:{:02x}:00.0", device.physical + 1); }

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipInit(unsigned flags) {
  return api([&] {
    require(flags == 0, hipErrorInvalidValue);
    devices();
  });
}

HIP_API hipError_t hipRuntimeGetVersion(int* version) {
  return api([&] {
    require(version, hipErrorInvalidValue);
    *version = runtime_version;
  });
}
HIP_API hipError_t hipDriverGetVersion(int* version) { return hipRuntimeGetVersion(version); }

HIP_API hipError_t hipGetDeviceCount(int* count) {
  return api([&] {
    require(count, hipErrorInvalidValue);
    *count = 0;
    *count = static_cast<int>(devices().size());
  });
}

HIP_API hipError_t hipSetDevice(int device) {
  return api([&] { set_current_device(device); });
}
HIP_API hipError_t hipSetValidDevices(int* list, int count) {
  return api([&] {
    require(count >= 0 && (list || count == 0), hipErrorInvalidValue);
    for (int i = 0; i < count; ++i) device_at(list[i]);
    if (count > 0) set_current_device(list[0]);
  });
}
HIP_API hipError_t hipGetDevice(int* device) {
  return api([&] {
    require(device, hipErrorInvalidValue);
    current_device();
    *device = current_device_index();
  });
}
HIP_API hipError_t hipDeviceGet(hipDevice_t* device, int ordinal) {
  return api([&] {
    require(device, hipErrorInvalidValue);
    *device = device_at(ordinal).index;
  });
}

HIP_API hipError_t hipDeviceGetName(char* name, int size, hipDevice_t device) {
  return api([&] { copy_text(name, size, std::string(device_at(device).chip->marketing_name)); });
}

HIP_API hipError_t hipDeviceGetUuid(hipUUID* uuid, hipDevice_t device) {
  return api([&] {
    require(uuid, hipErrorInvalidValue);
    const std::string text = fmt::format("{:016x}", device_at(device).physical + 1);
    std::memcpy(uuid->bytes, text.data(), sizeof uuid->bytes);
  });
}

HIP_API hipError_t hipDeviceTotalMem(size_t* bytes, hipDevice_t device) {
  return api([&] {
    require(bytes, hipErrorInvalidValue);
    *bytes = device_at(device).chip->memory_bytes;
  });
}

HIP_API hipError_t hipDeviceGetPCIBusId(char* address, int size, int device) {
  return api([&] { copy_text(address, size, pci_address(device_at(device))); });
}

HIP_API hipError_t hipDeviceGetByPCIBusId(int* device, const char* address) {
  return api([&] {
    require(device && address, hipErrorInvalidValue);
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    require(std::sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4, hipErrorInvalidValue);
    for (const auto& each : devices())
      if (domain == 0 && slot == 0 && bus == static_cast<unsigned>(each->physical + 1)) {
        *device = each->index;
        return;
      }
    throw Failure(hipErrorInvalidValue);
  });
}

HIP_API hipError_t hipDeviceSynchronize() {
  return api([&] {
    refuse_unsafe_call();
    synchronize_device(current_device());
  });
}

HIP_API hipError_t hipDeviceReset() {
  return api([&] {
    Device& device = current_device();
    try {
      synchronize_device(device);
    } catch (const Failure&) {
    }
    // The device works again; memory and modules stay until they are freed.
    device.sticky.store(hipSuccess);
    const std::lock_guard lock(device.mutex);
    device.peers.clear();
    device.flags = 0;
  });
}

HIP_API hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config) {
  return api([&] {
    require(config >= hipFuncCachePreferNone && config <= hipFuncCachePreferEqual, hipErrorInvalidValue);
    Device& device = current_device();
    const std::lock_guard lock(device.mutex);
    device.cache_config = config;
  });
}
HIP_API hipError_t hipDeviceGetCacheConfig(hipFuncCache_t* config) {
  return api([&] {
    require(config, hipErrorInvalidValue);
    Device& device = current_device();
    const std::lock_guard lock(device.mutex);
    *config = device.cache_config;
  });
}
HIP_API hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config) {
  return api([&] {
    require(config >= hipSharedMemBankSizeDefault && config <= hipSharedMemBankSizeEightByte,
            hipErrorInvalidValue);
    current_device();  // the banks are four bytes wide, whatever is asked for
  });
}
HIP_API hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig* config) {
  return api([&] {
    require(config, hipErrorInvalidValue);
    *config = current_device().shared_config;
  });
}

HIP_API hipError_t hipDeviceGetLimit(size_t* value, hipLimit_t limit) {
  return api([&] {
    require(value, hipErrorInvalidValue);
    require(limit >= hipLimitStackSize && limit <= hipLimitMallocHeapSize, hipErrorUnsupportedLimit);
    Device& device = current_device();
    const std::lock_guard lock(device.mutex);
    *value = device.limits[static_cast<size_t>(limit)];
  });
}
HIP_API hipError_t hipDeviceSetLimit(hipLimit_t limit, size_t value) {
  return api([&] {
    require(limit >= hipLimitStackSize && limit <= hipLimitMallocHeapSize, hipErrorUnsupportedLimit);
    Device& device = current_device();
    const std::lock_guard lock(device.mutex);
    device.limits[static_cast<size_t>(limit)] = value;
  });
}

HIP_API hipError_t hipSetDeviceFlags(unsigned flags) {
  return api([&] {
    constexpr unsigned known = 0x7 | 0x8 | 0x16;  // scheduling, mapping of host memory, local memory
    require((flags & ~known) == 0, hipErrorInvalidValue);
    const unsigned schedule = flags & 7;
    require((schedule & (schedule - 1)) == 0, hipErrorInvalidValue);
    Device& device = current_device();
    const std::lock_guard lock(device.mutex);
    device.flags = flags;
  });
}
HIP_API hipError_t hipGetDeviceFlags(unsigned* flags) {
  return api([&] {
    require(flags, hipErrorInvalidValue);
    Device& device = current_device();
    const std::lock_guard lock(device.mutex);
    *flags = device.flags;
  });
}

HIP_API hipError_t hipDeviceCanAccessPeer(int* answer, int device, int peer) {
  return api([&] {
    require(answer, hipErrorInvalidValue);
    *answer = 0;
    *answer = &device_at(device) != &device_at(peer);
  });
}

// All memory is in one address space: access is noted so that a program that enables it twice, or disables
// what it never enabled, is told.
HIP_API hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags) {
  return api([&] {
    require(flags == 0, hipErrorInvalidValue);
    device_at(peer);
    Device& device = current_device();
    require(peer != device.index, hipErrorInvalidDevice);
    const std::lock_guard lock(device.mutex);
    require(device.peers.insert(peer).second, hipErrorPeerAccessAlreadyEnabled);
  });
}
HIP_API hipError_t hipDeviceDisablePeerAccess(int peer) {
  return api([&] {
    device_at(peer);
    Device& device = current_device();
    require(peer != device.index, hipErrorInvalidDevice);
    const std::lock_guard lock(device.mutex);
    require(device.peers.erase(peer) == 1, hipErrorPeerAccessNotEnabled);
  });
}

HIP_API hipError_t hipDeviceGetP2PAttribute(int* value, hipDeviceP2PAttr attribute, int from, int to) {
  return api([&] {
    require(value, hipErrorInvalidValue);
    require(&device_at(from) != &device_at(to), hipErrorInvalidDevice);
    switch (attribute) {
      case hipDevP2PAttrPerformanceRank:
      case hipDevP2PAttrAccessSupported:
      case hipDevP2PAttrNativeAtomicSupported:
        *value = 1;
        return;
      case hipDevP2PAttrHipArrayAccessSupported:
        *value = 0;
        return;
    }
    throw Failure(hipErrorInvalidValue);
  });
}

HIP_API hipError_t hipExtGetLinkTypeAndHopCount(int from, int to, uint32_t* type, uint32_t* hops) {
  return api([&] {
    require(type && hops && from != to, hipErrorInvalidValue);
    device_at(from);
    device_at(to);
    *type = 2;  // HSA_AMD_LINK_INFO_TYPE_PCIE
    *hops = 1;
  });
}

HIP_API hipError_t hipProfilerStart() { return hipSuccess; }
HIP_API hipError_t hipProfilerStop() { return hipSuccess; }
