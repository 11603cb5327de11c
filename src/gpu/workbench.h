// Workbench: memory to try kernels of one step on, filled with numbers that are the same each time.
#pragma once

#include <memory>
#include <vector>

#include "device/step.h"
#include "gpu/device.h"

namespace hearth::gpu {

class Workbench {
 public:
  // Throws OutOfMemory where there is no room.
  Workbench(GpuDevice& device, const Step& step);

  // Seconds of one run, by the device's clock.
  double seconds(const Kernel& kernel);

  const void* input(std::size_t index) const { return inputs_[index]; }
  // The step's first output after a run of `kernel`, or after `work` has filled memory of that size: kept as
  // the result that compare() compares others with.
  void set_reference(const Kernel& kernel);
  // Runs `work` and throws LibraryError where its result differs from the reference by more than rounding
  // can, for sums of `depth` products. `work` gets memory for the result and `scratch_bytes` of scratch
  // memory.
  void compare(std::int64_t depth, std::size_t scratch_bytes,
               const std::function<void(StreamHandle, void* result, void* scratch)>& work);

 private:
  void run(const Kernel& kernel, void* scratch);
  void fill(void* memory, DType dtype, std::uint64_t count, std::uint32_t seed);

  GpuDevice& device_;
  const Step& step_;
  std::vector<std::shared_ptr<Buffer>> memory_;
  std::vector<void*> inputs_, outputs_;
  std::vector<Number> numbers_;
  std::shared_ptr<Buffer> reference_;
};

}  // namespace hearth::gpu
