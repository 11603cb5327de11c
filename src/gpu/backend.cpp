// The GPU backend: one implementation for every vendor's driver.
#include "device/backend.h"

#include <fmt/format.h>

#include "base/config_listeners.h"
#include "gpu/backends.h"
#include "gpu/device.h"
#include "gpu/kernels.h"
#include "gpu/replay.h"
#include "gpu/user_kernel.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

class GpuBackend final : public Backend {
 public:
  GpuBackend(const Driver& driver, int ordinal, Device device)
      : gpu_(driver, ordinal, device), device_(device) {
    gpu_.pool().configure(config());
  }

  DeviceInfo info() const override {
    DeviceInfo info = describe(device_);
    info.free_memory = gpu_.free_memory();
    return info;
  }
  std::shared_ptr<Buffer> allocate(std::size_t bytes) override { return gpu_.pool().allocate(bytes); }
  void copy_to_host(void* host, const Buffer& source, std::size_t offset, std::size_t bytes) override {
    if (bytes == 0) return;
    gpu_.use();
    const auto* from = static_cast<const char*>(source.data) + offset;
    gpu_.driver().check(gpu_.driver().call.copy_to_host(host, from, bytes, gpu_.stream()),
                        "copying to the host");
    gpu_.synchronize();
  }
  void copy_from_host(Buffer& target, std::size_t offset, const void* host, std::size_t bytes) override {
    if (bytes == 0) return;
    gpu_.use();
    auto* to = static_cast<char*>(target.data) + offset;
    gpu_.driver().check(gpu_.driver().call.copy_to_device(to, host, bytes, gpu_.stream()),
                        "copying to the device");
    gpu_.synchronize();  // the caller may change its memory
  }
  bool host_accessible() const override { return false; }

  std::unique_ptr<Kernel> prepare(const Step& step) override {
    switch (op_kind(step.op)) {
      case OpKind::reduce:
        return make_reduction(gpu_, step);
      case OpKind::scan:
        return step.op == Op::argmax || step.op == Op::argmin ? make_arg_reduction(gpu_, step)
                                                              : make_scan(gpu_, step);
      case OpKind::movement:
        return step.op == Op::copy ? make_elementwise(gpu_, step) : make_movement(gpu_, step);
      case OpKind::indexing:
        return make_indexing(gpu_, step);
      case OpKind::contraction:
        return step.op == Op::matmul ? make_matmul(gpu_, step) : make_convolution(gpu_, step);
      case OpKind::pooling:
        return make_pooling(gpu_, step);
      case OpKind::normalisation:
        return step.op == Op::rope ? make_rope(gpu_, step) : make_normalisation(gpu_, step);
      case OpKind::random:
        return make_random(gpu_, step);
      case OpKind::attention:
        return make_attention(gpu_, step);
      default:
        throw KernelError(fmt::format("[{}] is not a step", op_name(step.op)));
    }
  }
  bool fuses_epilogue(Op op, DType) const override { return op == Op::matmul; }

  std::unique_ptr<Replay> make_replay() override { return gpu::make_replay(gpu_); }
  std::shared_ptr<const LoadedKernel> load_kernel(const std::string& source, const std::string& name,
                                                  const std::vector<std::string>& options) override {
    return load_user_kernel(gpu_, source, name, options);
  }
  void synchronize() override { gpu_.synchronize(); }
  MemoryStats memory_stats() const override { return const_cast<GpuDevice&>(gpu_).pool().stats(); }
  void reset_peak_memory() override { gpu_.pool().reset_peak(); }
  void empty_cache() override { gpu_.pool().empty_cache(); }

 private:
  GpuDevice gpu_;
  Device device_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(Device device) {
  return std::make_unique<GpuBackend>(driver_of(device.kind), device.index, device);
}

}  // namespace hearth::gpu
