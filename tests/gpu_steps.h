// Running steps by hand on a GPU, for tests of kernels; see cpu_steps.h.
#pragma once

#include <cstdlib>

#include "cpu_steps.h"
#include "gpu/device.h"
#include "gpu/kernels.h"

namespace hearth::gpu {

using cpu::Array;

// The first GPU there is, or the one that $HEARTH_TEST_DEVICES demands; null without one.
inline GpuDevice* test_gpu() {
  static GpuDevice* const gpu = []() -> GpuDevice* {
    const char* demanded = std::getenv("HEARTH_TEST_DEVICES");
    for (const Device device : devices())
      if (device.kind != DeviceKind::cpu && (demanded == nullptr || to_string(device).starts_with(demanded)))
        return new GpuDevice(device.kind == DeviceKind::rocm ? hip_driver() : cuda_driver(), device.index,
                             device);
    return nullptr;
  }();
  return gpu;
}

// Skips without one; fails where one is demanded.
class OnTestGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (test_gpu() != nullptr) return;
    if (std::getenv("HEARTH_TEST_DEVICES") != nullptr) FAIL() << "no such device";
    GTEST_SKIP() << "no GPU";
  }
  static MatrixUnit unit() { return test_gpu()->target().matrix; }
};

// An array's memory on the GPU.
class OnGpu {
 public:
  OnGpu(GpuDevice& gpu, const Array& array, bool copy) : gpu_(gpu), bytes_(array.memory.size() * 8) {
    buffer_ = gpu.pool().allocate(bytes_);
    offset_ = array.origin * static_cast<std::int64_t>(dtype_size(array.layout.dtype));
    if (!copy || bytes_ == 0) return;
    gpu.use();
    gpu.driver().check(
        gpu.driver().call.copy_to_device(buffer_->data, array.memory.data(), bytes_, gpu.stream()),
        "copying");
    gpu.synchronize();
  }
  void* data() const { return static_cast<char*>(buffer_->data) + offset_; }
  void copy_back(Array& array) const {
    if (bytes_ == 0) return;
    gpu_.driver().check(
        gpu_.driver().call.copy_to_host(array.memory.data(), buffer_->data, bytes_, gpu_.stream()),
        "copying");
    gpu_.synchronize();
  }

 private:
  GpuDevice& gpu_;
  std::size_t bytes_;
  std::int64_t offset_ = 0;
  std::shared_ptr<Buffer> buffer_;
};

inline Step step_of(Op op, Attributes attributes, const std::vector<Array>& inputs, const Layout& output) {
  Step step;
  step.op = op;
  step.attributes = std::move(attributes);
  step.domain = output.shape;
  for (const Array& input : inputs) step.inputs.push_back(input.layout);
  step.outputs = {output};
  return step;
}

inline std::vector<Array> run_all_on_gpu(GpuDevice& gpu, const Step& step, const Kernel& kernel,
                                         const std::vector<Array>& inputs, const Number* numbers = nullptr) {
  std::vector<Array> outputs;
  std::vector<OnGpu> memory, results;
  std::vector<void*> pointers, result_pointers;
  for (const Array& input : inputs) memory.emplace_back(gpu, input, true);
  for (const OnGpu& one : memory) pointers.push_back(one.data());
  for (const Layout& output : step.outputs) {
    outputs.push_back(cpu::empty_array(output.dtype, output.shape));
    results.emplace_back(gpu, outputs.back(), false);
    result_pointers.push_back(results.back().data());
  }
  const auto scratch = gpu.pool().allocate(kernel.scratch_bytes());
  kernel.run({pointers.data(), result_pointers.data(), numbers, scratch->data});
  for (std::size_t k = 0; k < outputs.size(); ++k) results[k].copy_back(outputs[k]);
  return outputs;
}
// The output of a step with one.
inline Array run_on_gpu(GpuDevice& gpu, const Step& step, const Kernel& kernel,
                        const std::vector<Array>& inputs, const Number* numbers = nullptr) {
  return run_all_on_gpu(gpu, step, kernel, inputs, numbers).front();
}

// Elements agree within `tolerance` times the larger of 1 and their size; NaN meets NaN.
inline void expect_close(const Array& got, const Array& expected, double tolerance) {
  ASSERT_EQ(got.count(), expected.count());
  for (std::int64_t i = 0; i < got.count(); ++i) {
    const double a = got.get(i), b = expected.get(i);
    if (std::isnan(b)) {
      ASSERT_TRUE(std::isnan(a)) << "element " << i << ": " << a;
      continue;
    }
    ASSERT_TRUE(a == b || std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)))
        << "element " << i << ": " << a << " instead of " << b;
  }
}

}  // namespace hearth::gpu
