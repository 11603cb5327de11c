// Launches: checks against the limits of kernel and chip, packing of arguments, occupancy.
#include <algorithm>
#include <cstring>

#include "exec/occupancy.h"
#include "hip/graph.h"
#include "hip/module.h"
#include "hip/stream_table.h"

namespace hipemu::hip {
namespace {

constexpr uint64_t max_threads_per_block = 1024;

void check_shape(const Kernel& kernel, const Chip& chip, const LaunchShape& shape) {
  const dim3 &grid = shape.grid, &block = shape.block;
  require(grid.x && grid.y && grid.z && block.x && block.y && block.z, hipErrorInvalidConfiguration);
  const uint64_t threads = uint64_t{block.x} * block.y;
  require(threads <= max_threads_per_block && threads * block.z <= max_threads_per_block,
          hipErrorInvalidConfiguration);
  const auto axis_fits = [](uint32_t blocks, uint32_t size) { return uint64_t{blocks} * size <= UINT32_MAX; };
  require(axis_fits(grid.x, block.x) && axis_fits(grid.y, block.y) && axis_fits(grid.z, block.z),
          hipErrorInvalidConfiguration);
  // gfx12 hands a block its y and z in 16 bits each.
  const uint32_t most = chip.generation == Generation::gfx12 ? 1u << 16 : UINT32_MAX;
  require(grid.y <= most && grid.z <= most, hipErrorInvalidConfiguration);
  // The kernel was compiled for blocks of at most this size (__launch_bounds__).
  require(threads * block.z <= kernel.max_flat_workgroup_size, hipErrorLaunchFailure);
  require(shape.dynamic_lds <= chip.lds_per_block, hipErrorInvalidValue);
  require(kernel.descriptor.group_segment_size + shape.dynamic_lds <= chip.lds_per_block,
          hipErrorLaunchOutOfResources);
}

std::vector<std::byte> pack_arguments(const Kernel& kernel, void** parameters, void** extra) {
  const size_t bytes = kernel.explicit_argument_bytes();
  std::vector<std::byte> block(bytes);
  if (extra) {
    require(!parameters, hipErrorInvalidValue);
    const void* buffer = nullptr;
    const size_t* size = nullptr;
    for (int i = 0; extra[i] != HIP_LAUNCH_PARAM_END; i += 2) {
      require(i < 4, hipErrorInvalidValue);
      if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_POINTER)
        buffer = extra[i + 1];
      else if (extra[i] == HIP_LAUNCH_PARAM_BUFFER_SIZE)
        size = static_cast<const size_t*>(extra[i + 1]);
      else
        throw Failure(hipErrorInvalidValue);
    }
    require(buffer && size, hipErrorInvalidValue);
    // A struct of the arguments is as large as its alignment makes it.
    const size_t most = std::max<size_t>((bytes + 15) / 16 * 16, kernel.descriptor.kernarg_size);
    require(*size >= bytes && *size <= most, hipErrorInvalidValue);
    if (bytes > 0) std::memcpy(block.data(), buffer, bytes);
    return block;
  }
  size_t index = 0;
  for (const KernelArgument& argument : kernel.arguments) {
    if (argument.hidden()) continue;
    require(parameters && parameters[index], hipErrorInvalidValue);
    require(argument.offset + size_t{argument.size} <= bytes, hipErrorInvalidImage);
    std::memcpy(block.data() + argument.offset, parameters[index], argument.size);
    ++index;
  }
  return block;
}

}  // namespace

int resident_blocks(const Function& function, int block_size, size_t dynamic_lds) {
  const Chip& chip = *function.module->device().chip;
  if (block_size <= 0 || block_size > static_cast<int>(max_threads_per_block)) return 0;
  if (dynamic_lds > chip.lds_per_block) return 0;
  return occupancy_of(*function.kernel, chip, static_cast<uint32_t>(block_size),
                      static_cast<uint32_t>(dynamic_lds))
      .blocks_per_unit;
}

KernelWork make_launch(const Function& function, Device& device, const LaunchShape& shape, void** parameters,
                       void** extra, void* named) {
  require(&function.module->device() == &device, hipErrorInvalidDevice);
  check_shape(*function.kernel, *device.chip, shape);
  if (shape.cooperative) {
    const int block_size = static_cast<int>(shape.block.x * shape.block.y * shape.block.z);
    const uint64_t resident =
        static_cast<uint64_t>(resident_blocks(function, block_size, shape.dynamic_lds)) *
        static_cast<uint64_t>(device.chip->compute_units);
    const uint64_t plane = uint64_t{shape.grid.x} * shape.grid.y;
    require(plane <= resident && plane * shape.grid.z <= resident, hipErrorCooperativeLaunchTooLarge);
  }
  KernelWork work;
  work.function = named;
  Launch& launch = work.launch;
  // Shares ownership with the module: code that is queued stays when the module is unloaded.
  launch.code = std::shared_ptr<const LoadedCode>(function.module, &function.module->code());
  launch.kernel = function.kernel;
  launch.chip = device.chip;
  launch.device = device.index;
  launch.grid = {shape.grid.x, shape.grid.y, shape.grid.z};
  launch.block = {shape.block.x, shape.block.y, shape.block.z};
  launch.dynamic_lds = static_cast<uint32_t>(shape.dynamic_lds);
  launch.cooperative = shape.cooperative;
  launch.arguments = pack_arguments(*function.kernel, parameters, extra);
  return work;
}

namespace {

void launch_on(Stream& stream, const Function& function, const LaunchShape& shape, void** parameters,
               void** extra, void* named) {
  check_sticky(stream.device);
  submit(stream, make_launch(function, stream.device, shape, parameters, extra, named));
}

void launch_module(hipFunction_t handle, const LaunchShape& shape, hipStream_t stream, void** parameters,
                   void** extra) {
  auto on = resolve_stream(stream);
  auto function = require(function_table().find(handle), hipErrorInvalidHandle);
  launch_on(*on, *function, shape, parameters, extra, handle);
}

std::shared_ptr<Function> host_function(const void* function, Device& device) {
  return require(registered_function(require(function, hipErrorInvalidDeviceFunction), device),
                 hipErrorInvalidDeviceFunction);
}

void launch_host(const void* function, const LaunchShape& shape, void** arguments, hipStream_t stream) {
  auto on = resolve_stream(stream);
  launch_on(*on, *host_function(function, on->device), shape, arguments, nullptr,
            const_cast<void*>(function));
}

void record_if(hipEvent_t event, Stream& stream) {
  if (!event) return;
  auto found = require(event_table().find(event), hipErrorInvalidHandle);
  record_event(*found, stream);
}

void launch_with_events(const LaunchShape& shape, hipStream_t stream, hipEvent_t start, hipEvent_t stop,
                        const Function& function, void** parameters, void** extra, void* named) {
  auto on = resolve_stream(stream);
  check_sticky(on->device);
  KernelWork work = make_launch(function, on->device, shape, parameters, extra, named);
  record_if(start, *on);
  submit(*on, std::move(work));
  record_if(stop, *on);
}

// Sizes in threads, as OpenCL counts: the last block of each axis would be partial when they do not divide.
LaunchShape shape_of_threads(const std::array<uint32_t, 3>& threads, const std::array<uint32_t, 3>& block,
                             size_t dynamic_lds) {
  LaunchShape shape;
  shape.block = {block[0], block[1], block[2]};
  shape.dynamic_lds = dynamic_lds;
  for (int axis = 0; axis < 3; ++axis) {
    require(block[axis] > 0 && threads[axis] > 0, hipErrorInvalidConfiguration);
    require(threads[axis] % block[axis] == 0, hipErrorInvalidValue);
  }
  shape.grid = {threads[0] / block[0], threads[1] / block[1], threads[2] / block[2]};
  return shape;
}

bool cooperative_attribute(const hipLaunchConfig_t& config) {
  bool cooperative = false;
  for (unsigned i = 0; i < config.numAttrs; ++i)
    if (config.attrs[i].id == 2) cooperative = config.attrs[i].value.cooperative != 0;
  return cooperative;
}

}  // namespace
}  // namespace hipemu::hip

using namespace hipemu::hip;
using hipemu::Chip;
using hipemu::Kernel;

HIP_API hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y,
                                         unsigned grid_z, unsigned block_x, unsigned block_y,
                                         unsigned block_z, unsigned dynamic_lds, hipStream_t stream,
                                         void** parameters, void** extra) {
  return api([&] {
    launch_module(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_lds, false},
                  stream, parameters, extra);
  });
}

HIP_API hipError_t hipModuleLaunchCooperativeKernel(hipFunction_t function, unsigned grid_x, unsigned grid_y,
                                                    unsigned grid_z, unsigned block_x, unsigned block_y,
                                                    unsigned block_z, unsigned dynamic_lds,
                                                    hipStream_t stream, void** parameters) {
  return api([&] {
    launch_module(function, {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, dynamic_lds, true},
                  stream, parameters, nullptr);
  });
}

HIP_API hipError_t hipLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                   size_t dynamic_lds, hipStream_t stream) {
  return api([&] { launch_host(function, {grid, block, dynamic_lds, false}, arguments, stream); });
}
HIP_API hipError_t hipLaunchKernel_spt(const void* function, dim3 grid, dim3 block, void** arguments,
                                       size_t dynamic_lds, hipStream_t stream) {
  return api([&] {
    launch_host(function, {grid, block, dynamic_lds, false}, arguments, per_thread(stream));
  });
}

HIP_API hipError_t hipLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                              unsigned dynamic_lds, hipStream_t stream) {
  return api([&] { launch_host(function, {grid, block, dynamic_lds, true}, arguments, stream); });
}
HIP_API hipError_t hipLaunchCooperativeKernel_spt(const void* function, dim3 grid, dim3 block,
                                                  void** arguments, unsigned dynamic_lds,
                                                  hipStream_t stream) {
  return api([&] { launch_host(function, {grid, block, dynamic_lds, true}, arguments, per_thread(stream)); });
}

// Kernels on several devices at once. They are ordinary launches: synchronising across devices from within a
// kernel is not emulated.
HIP_API hipError_t hipExtLaunchMultiKernelMultiDevice(hipLaunchParams* launches, int count, unsigned) {
  return api([&] {
    require(launches && count > 0 && count <= static_cast<int>(devices().size()), hipErrorInvalidValue);
    for (int i = 0; i < count; ++i) require(launches[i].stream, hipErrorInvalidHandle);
    for (int i = 0; i < count; ++i) {
      const hipLaunchParams& each = launches[i];
      launch_host(each.func, {each.gridDim, each.blockDim, each.sharedMem, false}, each.args, each.stream);
    }
  });
}

HIP_API hipError_t hipLaunchKernelExC(const hipLaunchConfig_t* config, const void* function,
                                      void** arguments) {
  return api([&] {
    require(config && (config->numAttrs == 0 || config->attrs), hipErrorInvalidValue);
    launch_host(function,
                {config->gridDim, config->blockDim, config->dynamicSmemBytes, cooperative_attribute(*config)},
                arguments, config->stream);
  });
}

HIP_API hipError_t hipExtLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                      size_t dynamic_lds, hipStream_t stream, hipEvent_t start,
                                      hipEvent_t stop, int) {
  return api([&] {
    auto found = host_function(function, resolve_stream(stream)->device);
    launch_with_events({grid, block, dynamic_lds, false}, stream, start, stop, *found, arguments, nullptr,
                       const_cast<void*>(function));
  });
}

// Declared without extern "C" in hip_ext.h: its name is mangled.
__attribute__((visibility("default"))) hipError_t hipExtModuleLaunchKernel(
    hipFunction_t function, uint32_t threads_x, uint32_t threads_y, uint32_t threads_z, uint32_t block_x,
    uint32_t block_y, uint32_t block_z, size_t dynamic_lds, hipStream_t stream, void** parameters,
    void** extra, hipEvent_t start, hipEvent_t stop, uint32_t) {
  return api([&] {
    auto found = require(function_table().find(function), hipErrorInvalidHandle);
    const LaunchShape shape =
        shape_of_threads({threads_x, threads_y, threads_z}, {block_x, block_y, block_z}, dynamic_lds);
    launch_with_events(shape, stream, start, stop, *found, parameters, extra, function);
  });
}
__attribute__((visibility("default"))) hipError_t hipHccModuleLaunchKernel(
    hipFunction_t function, uint32_t threads_x, uint32_t threads_y, uint32_t threads_z, uint32_t block_x,
    uint32_t block_y, uint32_t block_z, size_t dynamic_lds, hipStream_t stream, void** parameters,
    void** extra, hipEvent_t start, hipEvent_t stop) {
  return hipExtModuleLaunchKernel(function, threads_x, threads_y, threads_z, block_x, block_y, block_z,
                                  dynamic_lds, stream, parameters, extra, start, stop, 0);
}
