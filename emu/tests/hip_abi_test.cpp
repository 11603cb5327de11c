// The library's own numbers and layouts against those of the installed HIP headers, where there are some.
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#if __has_include(<hip/hip_runtime_api.h>)
namespace own {
#include "hip/hip_types.h"
#undef HIP_LAUNCH_PARAM_BUFFER_POINTER
#undef HIP_LAUNCH_PARAM_BUFFER_SIZE
#undef HIP_LAUNCH_PARAM_END
}  // namespace own

#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__ 1
#endif
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <hip/hip_runtime_api.h>
#pragma GCC diagnostic pop

#define SAME(name) static_assert(static_cast<long>(own::name) == static_cast<long>(::name))
SAME(hipErrorInvalidValue);
SAME(hipErrorOutOfMemory);
SAME(hipErrorNotInitialized);
SAME(hipErrorDeinitialized);
SAME(hipErrorInvalidConfiguration);
SAME(hipErrorInvalidPitchValue);
SAME(hipErrorInvalidSymbol);
SAME(hipErrorInvalidDevicePointer);
SAME(hipErrorInvalidMemcpyDirection);
SAME(hipErrorMissingConfiguration);
SAME(hipErrorInvalidDeviceFunction);
SAME(hipErrorNoDevice);
SAME(hipErrorInvalidDevice);
SAME(hipErrorInvalidImage);
SAME(hipErrorInvalidContext);
SAME(hipErrorNoBinaryForGpu);
SAME(hipErrorUnsupportedLimit);
SAME(hipErrorInvalidKernelFile);
SAME(hipErrorFileNotFound);
SAME(hipErrorInvalidHandle);
SAME(hipErrorIllegalState);
SAME(hipErrorNotFound);
SAME(hipErrorNotReady);
SAME(hipErrorIllegalAddress);
SAME(hipErrorLaunchOutOfResources);
SAME(hipErrorLaunchTimeOut);
SAME(hipErrorPeerAccessAlreadyEnabled);
SAME(hipErrorPeerAccessNotEnabled);
SAME(hipErrorContextIsDestroyed);
SAME(hipErrorAssert);
SAME(hipErrorHostMemoryAlreadyRegistered);
SAME(hipErrorHostMemoryNotRegistered);
SAME(hipErrorLaunchFailure);
SAME(hipErrorCooperativeLaunchTooLarge);
SAME(hipErrorNotSupported);
SAME(hipErrorStreamCaptureUnsupported);
SAME(hipErrorStreamCaptureInvalidated);
SAME(hipErrorStreamCaptureMerge);
SAME(hipErrorStreamCaptureUnmatched);
SAME(hipErrorStreamCaptureUnjoined);
SAME(hipErrorStreamCaptureIsolation);
SAME(hipErrorStreamCaptureImplicit);
SAME(hipErrorCapturedEvent);
SAME(hipErrorStreamCaptureWrongThread);
SAME(hipErrorGraphExecUpdateFailure);
SAME(hipErrorUnknown);

SAME(hipDeviceAttributeEccEnabled);
SAME(hipDeviceAttributeClockRate);
SAME(hipDeviceAttributeCooperativeLaunch);
SAME(hipDeviceAttributeIntegrated);
SAME(hipDeviceAttributeL2CacheSize);
SAME(hipDeviceAttributeComputeCapabilityMajor);
SAME(hipDeviceAttributeManagedMemory);
SAME(hipDeviceAttributeMaxBlockDimX);
SAME(hipDeviceAttributeMaxGridDimZ);
SAME(hipDeviceAttributeMaxTexture1DWidth);
SAME(hipDeviceAttributeMaxThreadsPerBlock);
SAME(hipDeviceAttributeMaxThreadsPerMultiProcessor);
SAME(hipDeviceAttributeMemoryBusWidth);
SAME(hipDeviceAttributeMemoryClockRate);
SAME(hipDeviceAttributeComputeCapabilityMinor);
SAME(hipDeviceAttributeMultiprocessorCount);
SAME(hipDeviceAttributePageableMemoryAccess);
SAME(hipDeviceAttributePciBusId);
SAME(hipDeviceAttributePciDomainID);
SAME(hipDeviceAttributeMaxRegistersPerBlock);
SAME(hipDeviceAttributeMaxSharedMemoryPerBlock);
SAME(hipDeviceAttributeTotalConstantMemory);
SAME(hipDeviceAttributeWarpSize);
SAME(hipDeviceAttributeMemoryPoolsSupported);
SAME(hipDeviceAttributeClockInstructionRate);
SAME(hipDeviceAttributeMaxSharedMemoryPerMultiprocessor);
SAME(hipDeviceAttributeIsLargeBar);
SAME(hipDeviceAttributeCanUseStreamWaitValue);
SAME(hipDeviceAttributePhysicalMultiProcessorCount);
SAME(hipDeviceAttributeFineGrainSupport);

SAME(hipMemcpyDefault);
SAME(hipMemPoolAttrReleaseThreshold);
SAME(hipMemPoolAttrUsedMemHigh);
SAME(hipMemAdviseUnsetCoarseGrain);
SAME(HIP_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME(HIP_POINTER_ATTRIBUTE_MEMPOOL_HANDLE);
SAME(HIP_FUNC_ATTRIBUTE_NUM_REGS);
SAME(HIP_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
SAME(hipStreamCaptureModeRelaxed);
SAME(hipStreamCaptureStatusInvalidated);
SAME(hipGraphExecUpdateErrorNotSupported);

#define SAME_LAYOUT(name) static_assert(sizeof(own::name) == sizeof(::name))
#define SAME_FIELD(name, field) static_assert(offsetof(own::name, field) == offsetof(::name, field))
SAME_LAYOUT(hipPointerAttribute_t);
SAME_LAYOUT(hipFuncAttributes);
SAME_FIELD(hipFuncAttributes, numRegs);
SAME_FIELD(hipFuncAttributes, sharedSizeBytes);
SAME_LAYOUT(hipMemcpy3DParms);
SAME_FIELD(hipMemcpy3DParms, dstPtr);
SAME_FIELD(hipMemcpy3DParms, kind);
SAME_LAYOUT(hip_Memcpy2D);
SAME_FIELD(hip_Memcpy2D, dstPitch);
SAME_LAYOUT(hipKernelNodeParams);
SAME_FIELD(hipKernelNodeParams, kernelParams);
SAME_LAYOUT(hipMemPoolProps);
SAME_LAYOUT(hipHostNodeParams);
SAME_LAYOUT(hipPitchedPtr);
SAME_LAYOUT(dim3);
SAME_LAYOUT(hipLaunchParams);
#if HIP_VERSION_MAJOR < 7
SAME_LAYOUT(hipMemsetParams);
SAME_FIELD(hipMemsetParams, width);
#endif
#if HIP_VERSION_MAJOR < 6
static_assert(sizeof(own::hipDeviceProp_tR0000) == sizeof(::hipDeviceProp_t));
#define SAME_PROPERTY(field) \
  static_assert(offsetof(own::hipDeviceProp_tR0000, field) == offsetof(::hipDeviceProp_t, field))
#else
static_assert(sizeof(own::hipDeviceProp_tR0600) == sizeof(::hipDeviceProp_t));
#define SAME_PROPERTY(field) \
  static_assert(offsetof(own::hipDeviceProp_tR0600, field) == offsetof(::hipDeviceProp_t, field))
#endif
SAME_PROPERTY(totalGlobalMem);
SAME_PROPERTY(warpSize);
SAME_PROPERTY(multiProcessorCount);
SAME_PROPERTY(clockInstructionRate);
SAME_PROPERTY(gcnArchName);
SAME_PROPERTY(memPitch);
SAME_PROPERTY(concurrentManagedAccess);
SAME_PROPERTY(isLargeBar);

TEST(HipAbi, AgreesWithTheInstalledHeaders) { SUCCEED() << "checked when this was compiled"; }
#else
TEST(HipAbi, AgreesWithTheInstalledHeaders) { GTEST_SKIP() << "no HIP headers installed"; }
#endif
