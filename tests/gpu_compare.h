// The same computation on the CPU and on every GPU that is there: a real one, or the emulated AMD chips in
// CI.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "hearth/hearth.h"

namespace hearth {

class GpuComparison : public testing::Test {
 protected:
  // Only devices whose name begins with $HEARTH_TEST_DEVICES are tested, and there must be one then.
  static std::vector<Device> gpus() {
    const char* demanded = std::getenv("HEARTH_TEST_DEVICES");
    std::vector<Device> found;
    for (const Device device : devices())
      if (device.kind != DeviceKind::cpu && (demanded == nullptr || to_string(device).starts_with(demanded)))
        found.push_back(device);
    return found;
  }

  void SetUp() override {
    if (!gpus().empty()) return;
    if (std::getenv("HEARTH_TEST_DEVICES") != nullptr) FAIL() << "the demanded device is not there";
    GTEST_SKIP() << "no GPU";
  }

  using Compute = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

  // All results of `compute` on the CPU and on each GPU, from the same inputs. The tolerance is relative to
  // the largest value of a result.
  static void compare_all(const std::string& what, const std::vector<Tensor>& inputs, double tolerance,
                          const Compute& compute) {
    SCOPED_TRACE(what);
    const std::vector<Tensor> expected = compute(inputs);
    for (const Device device : gpus()) {
      std::vector<Tensor> moved;
      for (const Tensor& input : inputs) moved.push_back(input.to(device));
      const std::vector<Tensor> results = compute(moved);
      eval(results);
      ASSERT_EQ(results.size(), expected.size());
      for (std::size_t k = 0; k < results.size(); ++k) {
        EXPECT_EQ(results[k].shape(), expected[k].shape());
        EXPECT_EQ(results[k].dtype(), expected[k].dtype());
        expect_near(to_doubles(results[k]), to_doubles(expected[k]), tolerance);
      }
    }
  }
  static void compare(const std::string& what, const std::vector<Tensor>& inputs, double tolerance,
                      const std::function<Tensor(const std::vector<Tensor>&)>& compute) {
    compare_all(what, inputs, tolerance,
                [&](const std::vector<Tensor>& in) { return std::vector<Tensor>{compute(in)}; });
  }

 private:
  static std::vector<double> to_doubles(const Tensor& tensor) {
    return tensor.to(Device{}).to(DType::f64).to_vector<double>();
  }
  static void expect_near(const std::vector<double>& got, const std::vector<double>& expected,
                          double tolerance) {
    ASSERT_EQ(got.size(), expected.size());
    double largest = 0;
    for (const double value : expected)
      if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    for (std::size_t i = 0; i < got.size(); ++i) {
      const bool same = got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]));
      ASSERT_TRUE(same || std::abs(got[i] - expected[i]) <= tolerance * largest)
          << "element " << i << ": " << got[i] << " instead of " << expected[i];
    }
  }
};

}  // namespace hearth
