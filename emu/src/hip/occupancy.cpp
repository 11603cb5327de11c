// How many blocks fit, and what a kernel needs.
#include <algorithm>

#include "hip/module.h"

namespace hipemu::hip {
namespace {

std::shared_ptr<Function> of_module(hipFunction_t handle) {
  return require(function_table().find(handle), hipErrorInvalidHandle);
}
std::shared_ptr<Function> of_host(const void* function) {
  return require(registered_function(require(function, hipErrorInvalidDeviceFunction), current_device()),
                 hipErrorInvalidDeviceFunction);
}

void active_blocks(int* count, const Function& function, int block_size, size_t dynamic_lds) {
  require(count, hipErrorInvalidValue);
  require(block_size > 0, hipErrorInvalidValue);
  *count = resident_blocks(function, block_size, dynamic_lds);
}

// The block size with the most waves at a time; of equals the largest.
void potential_block_size(int* grid, int* block, const Function& function, size_t dynamic_lds, int limit) {
  require(grid && block && limit >= 0, hipErrorInvalidValue);
  const Chip& chip = *function.module->device().chip;
  int most = static_cast<int>(std::min<uint32_t>(function.kernel->max_flat_workgroup_size, 1024));
  if (limit > 0) most = std::min(most, limit);
  int best_threads = 0;
  *block = 0;
  *grid = 0;
  for (int size = std::max(most / chip.wave_size, 1) * chip.wave_size; size > 0; size -= chip.wave_size) {
    const int candidate = std::min(size, most);
    const int blocks = resident_blocks(function, candidate, dynamic_lds);
    if (blocks * candidate > best_threads) {
      best_threads = blocks * candidate;
      *block = candidate;
      *grid = blocks * chip.compute_units;
    }
  }
  require(best_threads > 0, hipErrorInvalidValue);
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;
using hipemu::Chip;
using hipemu::Kernel;

HIP_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessor(int* count, const void* function,
                                                                int block_size, size_t dynamic_lds) {
  return api([&] { active_blocks(count, *of_host(function), block_size, dynamic_lds); });
}
HIP_API hipError_t hipOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count, const void* function,
                                                                         int block_size, size_t dynamic_lds,
                                                                         unsigned) {
  return api([&] { active_blocks(count, *of_host(function), block_size, dynamic_lds); });
}
HIP_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessor(int* count, hipFunction_t function,
                                                                      int block_size, size_t dynamic_lds) {
  return api([&] { active_blocks(count, *of_module(function), block_size, dynamic_lds); });
}
HIP_API hipError_t hipModuleOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* count,
                                                                               hipFunction_t function,
                                                                               int block_size,
                                                                               size_t dynamic_lds, unsigned) {
  return api([&] { active_blocks(count, *of_module(function), block_size, dynamic_lds); });
}
HIP_API hipError_t hipOccupancyMaxPotentialBlockSize(int* grid, int* block, const void* function,
                                                     size_t dynamic_lds, int limit) {
  return api([&] { potential_block_size(grid, block, *of_host(function), dynamic_lds, limit); });
}
HIP_API hipError_t hipModuleOccupancyMaxPotentialBlockSize(int* grid, int* block, hipFunction_t function,
                                                           size_t dynamic_lds, int limit) {
  return api([&] { potential_block_size(grid, block, *of_module(function), dynamic_lds, limit); });
}
HIP_API hipError_t hipModuleOccupancyMaxPotentialBlockSizeWithFlags(int* grid, int* block,
                                                                    hipFunction_t function,
                                                                    size_t dynamic_lds, int limit, unsigned) {
  return api([&] { potential_block_size(grid, block, *of_module(function), dynamic_lds, limit); });
}

HIP_API hipError_t hipFuncGetAttributes(hipFuncAttributes* attributes, const void* function) {
  return api([&] {
    require(attributes, hipErrorInvalidValue);
    *attributes = {};
    auto found = of_host(function);
    const Kernel& kernel = *found->kernel;
    attributes->localSizeBytes = kernel.descriptor.private_segment_size;
    attributes->sharedSizeBytes = kernel.descriptor.group_segment_size;
    attributes->maxDynamicSharedSizeBytes =
        static_cast<int>(found->module->device().chip->lds_per_block - kernel.descriptor.group_segment_size);
    attributes->maxThreadsPerBlock = static_cast<int>(kernel.max_flat_workgroup_size);
    attributes->numRegs = static_cast<int>(kernel.vgpr_count);
    attributes->binaryVersion = attributes->ptxVersion = 30;  // what ROCm answers on any chip
  });
}

HIP_API hipError_t hipFuncSetAttribute(const void* function, hipFuncAttribute attribute, int value) {
  return api([&] {
    auto found = of_host(function);
    require(attribute == hipFuncAttributeMaxDynamicSharedMemorySize ||
                attribute == hipFuncAttributePreferredSharedMemoryCarveout,
            hipErrorInvalidValue);
    // A kernel may have all of the LDS without asking; asking for more than there is fails.
    const uint32_t limit =
        found->module->device().chip->lds_per_block - found->kernel->descriptor.group_segment_size;
    require(attribute != hipFuncAttributeMaxDynamicSharedMemorySize ||
                (value >= 0 && static_cast<uint32_t>(value) <= limit),
            hipErrorInvalidValue);
  });
}

HIP_API hipError_t hipFuncSetCacheConfig(const void* function, hipFuncCache_t) {
  return api([&] { of_host(function); });
}
HIP_API hipError_t hipFuncSetSharedMemConfig(const void* function, hipSharedMemConfig) {
  return api([&] { of_host(function); });
}
