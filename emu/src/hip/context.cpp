// Contexts. HIP has none of its own: one is another name for a device, and the stack of contexts that CUDA's
// driver interface has is a stack of devices.
#include <vector>

#include "hip/runtime.h"
#include "hip/stream.h"

namespace hipemu::hip {
namespace {

hipCtx_t context_of(const Device& device) {
  return reinterpret_cast<hipCtx_t>(static_cast<uintptr_t>(0x6863'0000'0000) +
                                    static_cast<uintptr_t>(device.index) * 64);
}

Device& device_of(hipCtx_t context) {
  for (const auto& device : devices())
    if (context_of(*device) == context) return *device;
  throw Failure(hipErrorInvalidContext);
}

thread_local std::vector<int> context_stack;

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipDeviceSynchronize();
HIP_API hipError_t hipDeviceEnablePeerAccess(int peer, unsigned flags);
HIP_API hipError_t hipDeviceDisablePeerAccess(int peer);
HIP_API hipError_t hipDeviceGetCacheConfig(hipFuncCache_t* config);
HIP_API hipError_t hipDeviceSetCacheConfig(hipFuncCache_t config);
HIP_API hipError_t hipDeviceGetSharedMemConfig(hipSharedMemConfig* config);
HIP_API hipError_t hipDeviceSetSharedMemConfig(hipSharedMemConfig config);
HIP_API hipError_t hipGetDeviceFlags(unsigned* flags);

HIP_API hipError_t hipCtxCreate(hipCtx_t* context, unsigned, hipDevice_t device) {
  return api([&] {
    require(context, hipErrorInvalidValue);
    const Device& on = device_at(device);
    context_stack.push_back(current_device_index());
    set_current_device(device);
    *context = context_of(on);
  });
}
HIP_API hipError_t hipCtxDestroy(hipCtx_t context) {
  return api([&] {
    require(context, hipErrorInvalidValue);
    const Device& device = device_of(context);
    if (device.index == current_device_index() && !context_stack.empty()) {
      set_current_device(context_stack.back());
      context_stack.pop_back();
    }
  });
}
HIP_API hipError_t hipCtxPushCurrent(hipCtx_t context) {
  return api([&] {
    const Device& device = device_of(context);
    context_stack.push_back(current_device_index());
    set_current_device(device.index);
  });
}
HIP_API hipError_t hipCtxPopCurrent(hipCtx_t* context) {
  return api([&] {
    require(!context_stack.empty(), hipErrorInvalidContext);
    if (context) *context = context_of(current_device());
    set_current_device(context_stack.back());
    context_stack.pop_back();
  });
}
HIP_API hipError_t hipCtxSetCurrent(hipCtx_t context) {
  return api([&] {
    if (context) set_current_device(device_of(context).index);
  });
}
HIP_API hipError_t hipCtxGetCurrent(hipCtx_t* context) {
  return api([&] {
    require(context, hipErrorInvalidValue);
    *context = context_of(current_device());
  });
}
HIP_API hipError_t hipCtxGetDevice(hipDevice_t* device) {
  return api([&] {
    require(device, hipErrorInvalidValue);
    *device = current_device().index;
  });
}
HIP_API hipError_t hipCtxGetApiVersion(hipCtx_t context, unsigned* version) {
  return api([&] {
    require(version, hipErrorInvalidValue);
    if (context) device_of(context);
    *version = 4;
  });
}
HIP_API hipError_t hipCtxGetFlags(unsigned* flags) { return hipGetDeviceFlags(flags); }
HIP_API hipError_t hipCtxSynchronize() { return hipDeviceSynchronize(); }
HIP_API hipError_t hipCtxGetCacheConfig(hipFuncCache_t* config) { return hipDeviceGetCacheConfig(config); }
HIP_API hipError_t hipCtxSetCacheConfig(hipFuncCache_t config) { return hipDeviceSetCacheConfig(config); }
HIP_API hipError_t hipCtxGetSharedMemConfig(hipSharedMemConfig* config) {
  return hipDeviceGetSharedMemConfig(config);
}
HIP_API hipError_t hipCtxSetSharedMemConfig(hipSharedMemConfig config) {
  return hipDeviceSetSharedMemConfig(config);
}
HIP_API hipError_t hipCtxEnablePeerAccess(hipCtx_t peer, unsigned flags) {
  return api([&] { return hipDeviceEnablePeerAccess(device_of(peer).index, flags); });
}
HIP_API hipError_t hipCtxDisablePeerAccess(hipCtx_t peer) {
  return api([&] { return hipDeviceDisablePeerAccess(device_of(peer).index); });
}

HIP_API hipError_t hipDevicePrimaryCtxRetain(hipCtx_t* context, hipDevice_t device) {
  return api([&] {
    require(context, hipErrorInvalidValue);
    Device& on = device_at(device);
    const std::lock_guard lock(on.mutex);
    ++on.primary_context_users;
    *context = context_of(on);
  });
}
HIP_API hipError_t hipDevicePrimaryCtxRelease(hipDevice_t device) {
  return api([&] {
    Device& on = device_at(device);
    const std::lock_guard lock(on.mutex);
    if (on.primary_context_users > 0) --on.primary_context_users;
  });
}
HIP_API hipError_t hipDevicePrimaryCtxGetState(hipDevice_t device, unsigned* flags, int* active) {
  return api([&] {
    Device& on = device_at(device);
    const std::lock_guard lock(on.mutex);
    if (flags) *flags = on.flags;
    // In use by the runtime interface too, once something has run on the device.
    if (active) *active = on.primary_context_users > 0 || on.null_stream || device == current_device_index();
  });
}
HIP_API hipError_t hipDevicePrimaryCtxReset(hipDevice_t device) {
  return api([&] { device_at(device).sticky.store(hipSuccess); });
}
HIP_API hipError_t hipDevicePrimaryCtxSetFlags(hipDevice_t device, unsigned flags) {
  return api([&] {
    Device& on = device_at(device);
    const std::lock_guard lock(on.mutex);
    on.flags = flags;
  });
}
