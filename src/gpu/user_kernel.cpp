// Launching what a user compiled, within the limits of the device.
#include "gpu/user_kernel.h"

#include <fmt/format.h>

#include "hearth/error.h"

namespace hearth::gpu {
namespace {

class UserKernel final : public LoadedKernel {
 public:
  UserKernel(GpuDevice& device, const KernelSource& source, std::string name)
      : device_(device), function_(device.function(source, name)), name_(std::move(name)) {
    const auto attribute = [&](FunctionAttribute which) {
      int value = 0;
      const Driver& driver = device_.driver();
      driver.check(driver.call.function_attribute(&value, static_cast<int>(which), function_.handle),
                   "asking about a kernel");
      return value;
    };
    resources_ = {attribute(FunctionAttribute::registers), attribute(FunctionAttribute::shared_bytes),
                  attribute(FunctionAttribute::local_bytes), function_.most_threads};
  }

  void launch(const std::array<unsigned, 3>& blocks, const std::array<unsigned, 3>& threads,
              unsigned shared_bytes, std::span<const KernelValue> values) const override {
    std::uint64_t in_block = 1;
    for (const unsigned count : threads) in_block *= count;
    if (in_block == 0 || in_block > static_cast<std::uint64_t>(resources_.most_threads))
      throw ValueError(fmt::format("[launch] {}: a block of {} x {} x {} threads; 1 to {} are possible",
                                   name_, threads[0], threads[1], threads[2], resources_.most_threads));
    for (const unsigned count : blocks)
      if (count == 0) return;  // no work, as an empty tensor gives
    Arguments arguments;
    for (const KernelValue& value : values) arguments.add(value.data, value.bytes);
    device_.launch(function_,
                   {.x = blocks[0],
                    .y = blocks[1],
                    .z = blocks[2],
                    .threads = threads[0],
                    .shared = shared_bytes,
                    .threads_y = threads[1],
                    .threads_z = threads[2]},
                   arguments);
  }

  const Resources& resources() const override { return resources_; }

 private:
  GpuDevice& device_;
  Function function_;
  std::string name_;
  Resources resources_;
};

}  // namespace

std::shared_ptr<const LoadedKernel> load_user_kernel(GpuDevice& device, const std::string& source,
                                                     const std::string& name,
                                                     const std::vector<std::string>& options) {
  return std::make_shared<UserKernel>(device, KernelSource{name, source, options}, name);
}

}  // namespace hearth::gpu
