// The GPU backend against the CPU, on every GPU that is there: a real one, or the emulated AMD chips in CI.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>

#include "gpu/compiler.h"
#include "hearth/hearth.h"

namespace hearth {
namespace {

// Only devices whose name begins with this are tested, and there must be one: "rocm" for the emulated chips.
const char* demanded() { return std::getenv("HEARTH_TEST_DEVICES"); }

std::vector<Device> gpus() {
  std::vector<Device> found;
  for (const Device device : devices())
    if (device.kind != DeviceKind::cpu &&
        (demanded() == nullptr || to_string(device).starts_with(demanded())))
      found.push_back(device);
  return found;
}

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpus().empty()) return;
    if (demanded() != nullptr) FAIL() << "no device " << demanded();
    GTEST_SKIP() << "no GPU";
  }

  // `compute` on the CPU and on each GPU, from the same inputs.
  static void compare(const std::vector<Tensor>& inputs, double tolerance,
                      const std::function<Tensor(const std::vector<Tensor>&)>& compute) {
    const Tensor expected = compute(inputs);
    const std::vector<double> reference = to_doubles(expected);
    for (const Device device : gpus()) {
      std::vector<Tensor> moved;
      for (const Tensor& input : inputs) moved.push_back(input.to(device));
      const Tensor result = compute(moved);
      EXPECT_EQ(result.device(), device);
      EXPECT_EQ(result.shape(), expected.shape());
      EXPECT_EQ(result.dtype(), expected.dtype());
      const std::vector<double> values = to_doubles(result);
      ASSERT_EQ(values.size(), reference.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(reference[i])) {
          ASSERT_TRUE(std::isnan(values[i])) << to_string(device) << " element " << i;
          continue;
        }
        const double allowed =
            std::isinf(reference[i]) ? 0 : tolerance * std::max(1.0, std::abs(reference[i]));
        ASSERT_TRUE(values[i] == reference[i] || std::abs(values[i] - reference[i]) <= allowed)
            << to_string(device) << " element " << i << ": " << values[i] << " instead of " << reference[i];
      }
    }
  }

  static std::vector<double> to_doubles(const Tensor& tensor) {
    return tensor.to(Device{}).to(DType::f64).to_vector<double>();
  }
};

TEST_F(GpuTest, DevicesSayWhatTheyAre) {
  for (const Device device : gpus()) {
    const DeviceInfo info = device_info(device);
    EXPECT_FALSE(info.name.empty());
    EXPECT_TRUE(info.architecture.starts_with("gfx") || info.architecture.starts_with("sm_"))
        << info.architecture;
    EXPECT_GT(info.total_memory, 0u);
    EXPECT_GT(info.compute_units, 0);
  }
}

TEST_F(GpuTest, CopiesThereAndBack) {
  compare({randn({1000})}, 0, [](const auto& in) { return in[0]; });
  compare({arange(0, 100, 1).to(DType::i64)}, 0, [](const auto& in) { return in[0]; });
}

TEST_F(GpuTest, FusedChain) {
  compare({randn({1003}), randn({1003})}, 1e-6,
          [](const auto& in) { return tanh(in[0] * 2.0 + in[1]) - exp(in[1] * 0.25) / 3.0; });
}

TEST_F(GpuTest, HalfPrecisionIsRoundedAtEachOperation) {
  for (const DType dtype : {DType::f16, DType::bf16})
    compare({randn({777}).to(dtype), randn({777}).to(dtype)}, 0,
            [](const auto& in) { return (in[0] * in[1] + in[0]) * in[1] - in[0]; });
}

TEST_F(GpuTest, Integers) {
  for (const DType dtype : {DType::i8, DType::u8, DType::i16, DType::i32, DType::i64})
    compare({randint(0, 100, {500}).to(dtype), randint(1, 60, {500}).to(dtype)}, 0,
            [](const auto& in) { return (in[0] * in[1] + in[0]) - in[1]; });
}

TEST_F(GpuTest, ComparisonsAndWhere) {
  compare({randn({513}), randn({513})}, 0,
          [](const auto& in) { return where(in[0] > in[1], in[0], in[1] * -1.0); });
}

TEST_F(GpuTest, BroadcastAndStrides) {
  compare({randn({7, 1, 33}), randn({5, 33})}, 1e-6, [](const auto& in) { return in[0] + in[1] * 2.0; });
  compare({randn({31, 65})}, 1e-6, [](const auto& in) { return in[0].transpose(0, 1) * 3.0 + 1.0; });
  compare({randn({100})}, 1e-6, [](const auto& in) { return in[0].slice({{1, 98}}) * 2.0; });  // not aligned
}

TEST_F(GpuTest, NothingAndOne) {
  compare({zeros({0, 3})}, 0, [](const auto& in) { return in[0] + 1.0; });
  compare({full({}, 2.0)}, 0, [](const auto& in) { return in[0] * in[0]; });
}

TEST_F(GpuTest, NotANumberAndInfinity) {
  compare({tensor(std::vector<float>{NAN, INFINITY, -INFINITY, 0.0f, -0.0f})}, 1e-6,
          [](const auto& in) { return maximum(in[0], full({5}, 1.0).to(in[0].device())); });
}

TEST_F(GpuTest, KernelsAreCompiledOnce) {
  const auto compute = [](const Tensor& x) { return (x * 1.5 + 0.25).eval(); };
  for (const Device device : gpus()) {
    const Tensor x = randn({64}).to(device);
    compute(x);
    const auto before = gpu::compiler_stats().compilations;
    compute(x);
    EXPECT_EQ(gpu::compiler_stats().compilations, before);
  }
}

}  // namespace
}  // namespace hearth
