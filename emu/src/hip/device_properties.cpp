// What a program can ask about a device: hipDeviceProp_t in its two layouts, and the attributes.
#include <fmt/core.h>

#include <algorithm>
#include <cstring>

#include "hip/runtime.h"

namespace hipemu::hip {
namespace {

struct ArchNumber {
  int major, minor, stepping;
};

// "gfx90a" is 9.0.10, "gfx1100" is 11.0.0: the last two digits are minor and stepping.
ArchNumber arch_number(const Chip& chip) {
  const std::string_view digits = chip.processor.substr(3);
  const auto value = [](char digit) { return digit <= '9' ? digit - '0' : digit - 'a' + 10; };
  ArchNumber number{0, value(digits[digits.size() - 2]), value(digits.back())};
  for (const char digit : digits.substr(0, digits.size() - 2))
    number.major = number.major * 10 + value(digit);
  return number;
}

int to_int(uint64_t value) { return static_cast<int>(std::min<uint64_t>(value, INT32_MAX)); }

void set_text(char (&to)[256], std::string_view text) {
  const size_t size = std::min(text.size(), sizeof to - 1);
  std::memcpy(to, text.data(), size);
  to[size] = 0;
}

hipDeviceProp_tR0600 properties(const Device& device) {
  const Chip& chip = *device.chip;
  const ArchNumber arch = arch_number(chip);
  const int registers = chip.vector_registers * chip.wave_size * chip.simds_per_unit;
  hipDeviceProp_tR0600 p{};
  set_text(p.name, chip.marketing_name);
  const std::string uuid = fmt::format("{:016x}", device.physical + 1);
  std::memcpy(p.uuid.bytes, uuid.data(), sizeof p.uuid.bytes);
  p.totalGlobalMem = chip.memory_bytes;
  p.sharedMemPerBlock = chip.lds_per_block;
  p.regsPerBlock = registers;
  p.warpSize = chip.wave_size;
  p.memPitch = INT32_MAX;
  p.maxThreadsPerBlock = 1024;
  std::fill_n(p.maxThreadsDim, 3, 1024);
  p.maxGridSize[0] = INT32_MAX;
  p.maxGridSize[1] = p.maxGridSize[2] = 65536;
  p.clockRate = chip.clock_khz;
  p.totalConstMem = INT32_MAX;
  p.major = arch.major;
  p.minor = arch.minor;
  p.textureAlignment = p.surfaceAlignment = p.texturePitchAlignment = 256;
  p.deviceOverlap = 1;
  p.multiProcessorCount = chip.compute_units;
  p.canMapHostMemory = 1;
  p.concurrentKernels = 1;
  p.ECCEnabled = chip.has_mfma;  // the data-centre chips
  p.pciBusID = device.physical + 1;
  p.asyncEngineCount = 2;
  p.unifiedAddressing = 1;
  p.memoryClockRate = chip.memory_clock_khz;
  p.memoryBusWidth = chip.memory_bus_bits;
  p.l2CacheSize = to_int(chip.l2_bytes);
  p.maxThreadsPerMultiProcessor = chip.wave_size * chip.waves_per_simd * chip.simds_per_unit;
  p.streamPrioritiesSupported = 1;
  p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.sharedMemPerMultiprocessor = chip.lds_per_unit;
  p.regsPerMultiprocessor = registers;
  p.managedMemory = 1;
  p.hostNativeAtomicSupported = 1;
  p.concurrentManagedAccess = 1;
  p.canUseHostPointerForRegisteredMem = 1;
  p.cooperativeLaunch = 1;
  p.sharedMemPerBlockOptin = chip.lds_per_block;
  p.directManagedMemAccessFromHost = 1;
  p.maxBlocksPerMultiProcessor = p.maxThreadsPerMultiProcessor / p.maxThreadsPerBlock;
  p.hostRegisterSupported = 1;
  p.memoryPoolsSupported = 1;
  set_text(p.gcnArchName, device.target);
  p.maxSharedMemoryPerMultiProcessor = chip.lds_per_unit;
  p.clockInstructionRate = 100000;  // s_memrealtime counts at 100 MHz
  p.arch.hasGlobalInt32Atomics = 1;
  p.arch.hasGlobalFloatAtomicExch = 1;
  p.arch.hasSharedInt32Atomics = 1;
  p.arch.hasSharedFloatAtomicExch = 1;
  p.arch.hasFloatAtomicAdd = 1;
  p.arch.hasGlobalInt64Atomics = 1;
  p.arch.hasSharedInt64Atomics = 1;
  p.arch.hasDoubles = 1;
  p.arch.hasWarpVote = 1;
  p.arch.hasWarpBallot = 1;
  p.arch.hasWarpShuffle = 1;
  p.arch.hasThreadFenceSystem = 1;
  p.arch.has3dGrid = 1;
  p.isLargeBar = 1;
  return p;
}

hipDeviceProp_tR0000 old_properties(const Device& device) {
  const hipDeviceProp_tR0600 from = properties(device);
  const ArchNumber arch = arch_number(*device.chip);
  hipDeviceProp_tR0000 p{};
  std::memcpy(p.name, from.name, sizeof p.name);
  p.totalGlobalMem = from.totalGlobalMem;
  p.sharedMemPerBlock = from.sharedMemPerBlock;
  p.regsPerBlock = from.regsPerBlock;
  p.warpSize = from.warpSize;
  p.maxThreadsPerBlock = from.maxThreadsPerBlock;
  std::copy_n(from.maxThreadsDim, 3, p.maxThreadsDim);
  std::copy_n(from.maxGridSize, 3, p.maxGridSize);
  p.clockRate = from.clockRate;
  p.memoryClockRate = from.memoryClockRate;
  p.memoryBusWidth = from.memoryBusWidth;
  p.totalConstMem = from.totalConstMem;
  p.major = from.major;
  p.minor = from.minor;
  p.multiProcessorCount = from.multiProcessorCount;
  p.l2CacheSize = from.l2CacheSize;
  p.maxThreadsPerMultiProcessor = from.maxThreadsPerMultiProcessor;
  p.clockInstructionRate = from.clockInstructionRate;
  p.arch = from.arch;
  p.concurrentKernels = from.concurrentKernels;
  p.pciBusID = from.pciBusID;
  p.maxSharedMemoryPerMultiProcessor = from.maxSharedMemoryPerMultiProcessor;
  p.canMapHostMemory = from.canMapHostMemory;
  p.gcnArch = arch.major * 100 + arch.minor * 10 + arch.stepping;
  std::memcpy(p.gcnArchName, from.gcnArchName, sizeof p.gcnArchName);
  p.cooperativeLaunch = from.cooperativeLaunch;
  p.memPitch = from.memPitch;
  p.textureAlignment = from.textureAlignment;
  p.texturePitchAlignment = from.texturePitchAlignment;
  p.ECCEnabled = from.ECCEnabled;
  p.isLargeBar = from.isLargeBar;
  p.managedMemory = from.managedMemory;
  p.directManagedMemAccessFromHost = from.directManagedMemAccessFromHost;
  p.concurrentManagedAccess = from.concurrentManagedAccess;
  return p;
}

int attribute_value(const Device& device, hipDeviceAttribute_t attribute) {
  const hipDeviceProp_tR0600 p = properties(device);
  switch (attribute) {
    case hipDeviceAttributeEccEnabled:
      return p.ECCEnabled;
    case hipDeviceAttributeAccessPolicyMaxWindowSize:
      return p.accessPolicyMaxWindowSize;
    case hipDeviceAttributeAsyncEngineCount:
      return p.asyncEngineCount;
    case hipDeviceAttributeCanMapHostMemory:
      return p.canMapHostMemory;
    case hipDeviceAttributeCanUseHostPointerForRegisteredMem:
      return p.canUseHostPointerForRegisteredMem;
    case hipDeviceAttributeClockRate:
      return p.clockRate;
    case hipDeviceAttributeComputeMode:
      return p.computeMode;
    case hipDeviceAttributeComputePreemptionSupported:
      return p.computePreemptionSupported;
    case hipDeviceAttributeConcurrentKernels:
      return p.concurrentKernels;
    case hipDeviceAttributeConcurrentManagedAccess:
      return p.concurrentManagedAccess;
    case hipDeviceAttributeCooperativeLaunch:
      return p.cooperativeLaunch;
    case hipDeviceAttributeCooperativeMultiDeviceLaunch:
      return p.cooperativeMultiDeviceLaunch;
    case hipDeviceAttributeDeviceOverlap:
      return p.deviceOverlap;
    case hipDeviceAttributeDirectManagedMemAccessFromHost:
      return p.directManagedMemAccessFromHost;
    case hipDeviceAttributeGlobalL1CacheSupported:
      return p.globalL1CacheSupported;
    case hipDeviceAttributeHostNativeAtomicSupported:
      return p.hostNativeAtomicSupported;
    case hipDeviceAttributeIntegrated:
      return p.integrated;
    case hipDeviceAttributeIsMultiGpuBoard:
      return p.isMultiGpuBoard;
    case hipDeviceAttributeKernelExecTimeout:
      return p.kernelExecTimeoutEnabled;
    case hipDeviceAttributeL2CacheSize:
      return p.l2CacheSize;
    case hipDeviceAttributeLocalL1CacheSupported:
      return p.localL1CacheSupported;
    case hipDeviceAttributeLuidDeviceNodeMask:
      return static_cast<int>(p.luidDeviceNodeMask);
    case hipDeviceAttributeComputeCapabilityMajor:
      return p.major;
    case hipDeviceAttributeManagedMemory:
      return p.managedMemory;
    case hipDeviceAttributeMaxBlocksPerMultiProcessor:
      return p.maxBlocksPerMultiProcessor;
    case hipDeviceAttributeMaxBlockDimX:
      return p.maxThreadsDim[0];
    case hipDeviceAttributeMaxBlockDimY:
      return p.maxThreadsDim[1];
    case hipDeviceAttributeMaxBlockDimZ:
      return p.maxThreadsDim[2];
    case hipDeviceAttributeMaxGridDimX:
      return p.maxGridSize[0];
    case hipDeviceAttributeMaxGridDimY:
      return p.maxGridSize[1];
    case hipDeviceAttributeMaxGridDimZ:
      return p.maxGridSize[2];
    case hipDeviceAttributeMaxThreadsDim:
      return p.maxThreadsDim[0];
    case hipDeviceAttributeMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case hipDeviceAttributeMaxThreadsPerMultiProcessor:
      return p.maxThreadsPerMultiProcessor;
    case hipDeviceAttributeMaxPitch:
      return to_int(p.memPitch);
    case hipDeviceAttributeMemoryBusWidth:
      return p.memoryBusWidth;
    case hipDeviceAttributeMemoryClockRate:
      return p.memoryClockRate;
    case hipDeviceAttributeComputeCapabilityMinor:
      return p.minor;
    case hipDeviceAttributeMultiGpuBoardGroupID:
      return p.multiGpuBoardGroupID;
    case hipDeviceAttributeMultiprocessorCount:
      return p.multiProcessorCount;
    case hipDeviceAttributePageableMemoryAccess:
      return p.pageableMemoryAccess;
    case hipDeviceAttributePageableMemoryAccessUsesHostPageTables:
      return p.pageableMemoryAccessUsesHostPageTables;
    case hipDeviceAttributePciBusId:
      return p.pciBusID;
    case hipDeviceAttributePciDeviceId:
      return p.pciDeviceID;
    case hipDeviceAttributePciDomainID:
      return p.pciDomainID;
    case hipDeviceAttributePersistingL2CacheMaxSize:
      return p.persistingL2CacheMaxSize;
    case hipDeviceAttributeMaxRegistersPerBlock:
      return p.regsPerBlock;
    case hipDeviceAttributeMaxRegistersPerMultiprocessor:
      return p.regsPerMultiprocessor;
    case hipDeviceAttributeReservedSharedMemPerBlock:
      return to_int(p.reservedSharedMemPerBlock);
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
      return to_int(p.sharedMemPerBlock);
    case hipDeviceAttributeSharedMemPerBlockOptin:
      return to_int(p.sharedMemPerBlockOptin);
    case hipDeviceAttributeSharedMemPerMultiprocessor:
      return to_int(p.sharedMemPerMultiprocessor);
    case hipDeviceAttributeSingleToDoublePrecisionPerfRatio:
      return p.singleToDoublePrecisionPerfRatio;
    case hipDeviceAttributeStreamPrioritiesSupported:
      return p.streamPrioritiesSupported;
    case hipDeviceAttributeSurfaceAlignment:
      return to_int(p.surfaceAlignment);
    case hipDeviceAttributeTccDriver:
      return p.tccDriver;
    case hipDeviceAttributeTextureAlignment:
      return to_int(p.textureAlignment);
    case hipDeviceAttributeTexturePitchAlignment:
      return to_int(p.texturePitchAlignment);
    case hipDeviceAttributeTotalConstantMemory:
      return to_int(p.totalConstMem);
    case hipDeviceAttributeTotalGlobalMem:
      return to_int(p.totalGlobalMem);
    case hipDeviceAttributeUnifiedAddressing:
      return p.unifiedAddressing;
    case hipDeviceAttributeWarpSize:
      return p.warpSize;
    case hipDeviceAttributeMemoryPoolsSupported:
      return p.memoryPoolsSupported;
    case hipDeviceAttributeVirtualMemoryManagementSupported:
      return 0;
    case hipDeviceAttributeHostRegisterSupported:
      return p.hostRegisterSupported;
    case hipDeviceAttributeMemoryPoolSupportedHandleTypes:
      return 0;
    case hipDeviceAttributeClockInstructionRate:
      return p.clockInstructionRate;
    case hipDeviceAttributeMaxSharedMemoryPerMultiprocessor:
      return to_int(p.maxSharedMemoryPerMultiProcessor);
    case hipDeviceAttributeGcnArch:
      return old_properties(device).gcnArch;
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedFunc:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedGridDim:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedBlockDim:
    case hipDeviceAttributeCooperativeMultiDeviceUnmatchedSharedMem:
      return 0;
    case hipDeviceAttributeIsLargeBar:
      return p.isLargeBar;
    case hipDeviceAttributeAsicRevision:
      return p.asicRevision;
    case hipDeviceAttributeCanUseStreamWaitValue:
      return 1;
    case hipDeviceAttributeImageSupport:
      return 0;
    // Counts compute units where MultiprocessorCount counts pairs of them.
    case hipDeviceAttributePhysicalMultiProcessorCount:
      return p.multiProcessorCount * (device.chip->generation == Generation::gfx9 ? 1 : 2);
    case hipDeviceAttributeFineGrainSupport:
      return 1;
    case hipDeviceAttributeWallClockRate:
      return p.clockInstructionRate;
    default:
      break;
  }
  // Textures and surfaces, which are not emulated, have sizes of 0.
  if (attribute >= hipDeviceAttributeMaxSurface1D && attribute <= hipDeviceAttributeMaxTextureCubemapLayered)
    return 0;
  throw Failure(hipErrorInvalidValue);
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;

HIP_API hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600* result, int device) {
  return api([&] {
    require(result, hipErrorInvalidValue);
    *result = properties(device_at(device));
  });
}
HIP_API hipError_t hipGetDevicePropertiesR0000(hipDeviceProp_tR0000* result, int device) {
  return api([&] {
    require(result, hipErrorInvalidValue);
    *result = old_properties(device_at(device));
  });
}
// Programs of ROCm 5 ask for this name; a newer header renames it to hipGetDevicePropertiesR0600.
HIP_API hipError_t hipGetDeviceProperties(hipDeviceProp_tR0000* result, int device) {
  return hipGetDevicePropertiesR0000(result, device);
}

HIP_API hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  return api([&] {
    require(value, hipErrorInvalidValue);
    *value = attribute_value(device_at(device), attribute);
  });
}

HIP_API hipError_t hipDeviceComputeCapability(int* major, int* minor, hipDevice_t device) {
  return api([&] {
    require(major && minor, hipErrorInvalidValue);
    const ArchNumber arch = arch_number(*device_at(device).chip);
    *major = arch.major;
    *minor = arch.minor;
  });
}

// The device that meets most of the wishes, those that are not 0.
HIP_API hipError_t hipChooseDeviceR0600(int* device, const hipDeviceProp_tR0600* wish) {
  return api([&] {
    require(device && wish, hipErrorInvalidValue);
    int best = -1;
    for (const auto& each : devices()) {
      const hipDeviceProp_tR0600 has = properties(*each);
      const int score = (wish->major && has.major >= wish->major) +
                        (wish->totalGlobalMem && has.totalGlobalMem >= wish->totalGlobalMem) +
                        (wish->sharedMemPerBlock && has.sharedMemPerBlock >= wish->sharedMemPerBlock) +
                        (wish->warpSize && has.warpSize == wish->warpSize);
      if (score > best) {
        best = score;
        *device = each->index;
      }
    }
  });
}
HIP_API hipError_t hipChooseDeviceR0000(int* device, const hipDeviceProp_tR0000* wish) {
  return api([&] {
    require(device && wish, hipErrorInvalidValue);
    hipDeviceProp_tR0600 translated{};
    translated.major = wish->major;
    translated.totalGlobalMem = wish->totalGlobalMem;
    translated.sharedMemPerBlock = wish->sharedMemPerBlock;
    translated.warpSize = wish->warpSize;
    return hipChooseDeviceR0600(device, &translated);
  });
}
HIP_API hipError_t hipChooseDevice(int* device, const hipDeviceProp_tR0000* wish) {
  return hipChooseDeviceR0000(device, wish);
}
