// Products whose operands become numbers of 16 bits first: x is stored as such by whoever computes it, and
// weights are converted beside an earlier product. The plans, and that they compute what plain steps do.
#include <gtest/gtest.h>

#include "gpu_plans.h"
#include "hearth/hearth.h"
#include "hearth/quantise.h"

namespace hearth {
namespace {

class GpuConvertedProducts : public GpuPlans {
 protected:
  void SetUp() override {
    GpuPlans::SetUp();
    manual_seed(7);
  }
  void TearDown() override { set_config(before_); }

  using Graphs = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
  // On each GPU, `steps` is in the plan so many times, and the results are within `tolerance` of the largest
  // of those that the device computes without fusion.
  void check_all(const std::string& what, const std::string& steps, std::size_t times,
                 const std::vector<Tensor>& inputs, double tolerance, const Graphs& graph) {
    for (const Device device : gpus()) {
      std::vector<Tensor> moved;
      for (const Tensor& x : inputs) moved.push_back(x.to(device));
      eval(moved);
      EXPECT_EQ(found(steps, graph(moved)), times) << what << "\n" << explain(graph(moved));
      const std::vector<Tensor> joined = graph(moved);
      eval(joined);
      Config plain = before_;
      plain.optimization_level = OptimizationLevel::conservative;
      set_config(plain);
      EXPECT_EQ(found(steps, graph(moved)), 0u) << what;
      const std::vector<Tensor> expected = graph(moved);
      eval(expected);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        const float most = max(abs(expected[i])).item<float>(),
                    difference = max(abs(expected[i] - joined[i])).item<float>();
        EXPECT_GT(most, 0.0f) << what;
        EXPECT_LE(difference, most * tolerance) << what << ", result " << i;
      }
      set_config(before_);
    }
  }

  static Tensor half(const Tensor& x, int which) {
    const std::int64_t size = x.shape().back() / 2;
    return narrow(x, -1, which * size, size);
  }
  static Tensor weights(std::int64_t columns, std::int64_t depth, DType format) {
    const Tensor x = numbers({columns, depth}, DType::f32);
    const Tensor y = is_quantised(format) ? quantise(x, format) : x.to(format);
    y.eval();
    return y;
  }

 private:
  Config before_ = config();
};

TEST_F(GpuConvertedProducts, WhatOnlyTheyReadIsStoredAsTheyNeedIt) {
  constexpr double fewer_digits = 2e-3;  // norms of 16 bits are computed so on some chips
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const std::vector<Tensor> inputs = {numbers({21, 64}, DType::f32), weights(48, 64, dtype),
                                        numbers({64}, DType::f32), weights(40, 64, dtype)};
    check_all("a norm", "rms_norm cast", 1, inputs, fewer_digits, [](const auto& in) {
      return std::vector<Tensor>{quantised_matmul(rms_norm(in[0], in[2], 1e-5), in[1])};
    });
    check_all("an expression, read twice", "silu mul cast", 1, inputs, 0, [](const auto& in) {
      const Tensor x = silu(in[0]) * in[2];
      return std::vector<Tensor>{quantised_matmul(x, in[1]), quantised_matmul(x, in[3])};
    });
    check_all("another product", "quantised_matmul cast", 1,
              {inputs[0], weights(64, 64, dtype), inputs[2], inputs[3]}, 0, [](const auto& in) {
                return std::vector<Tensor>{quantised_matmul(quantised_matmul(in[0], in[1]), in[3])};
              });
    check_all("a norm with a bias", "layer_norm cast", 1, inputs, fewer_digits, [](const auto& in) {
      return std::vector<Tensor>{quantised_matmul(layer_norm(in[0], {64}, in[2], in[2], 1e-5), in[1])};
    });
    check_all("one of two results", "silu exp cast", 1, inputs, 0, [](const auto& in) {
      const Tensor x = silu(in[0]);
      return std::vector<Tensor>{exp(x), quantised_matmul(x, in[1])};
    });
    check_all(
        "a product of f32", "matmul cast", 1, {inputs[0], inputs[1], numbers({64, 64}, DType::f32)}, 1e-5,
        [](const auto& in) { return std::vector<Tensor>{quantised_matmul(matmul(in[0], in[2]), in[1])}; });
    check_all("a turned copy", "    cast", 1, inputs, 0, [](const auto& in) {
      const Tensor x = reshape(transpose(reshape(in[0], {21, 4, 16}), 1, 2), {21, 64});
      return std::vector<Tensor>{quantised_matmul(x, in[1])};
    });
    check_all("halves", "quantised_matmul silu mul cast", 1,
              {inputs[0], weights(128, 64, dtype), inputs[2], inputs[3]}, 1e-5, [](const auto& in) {
                const Tensor both = quantised_matmul(in[0], in[1]);
                return std::vector<Tensor>{quantised_matmul(silu(half(both, 0)) * half(both, 1), in[3])};
              });
  }
}

TEST_F(GpuConvertedProducts, WhatOthersReadStaysAsItIs) {
  const std::vector<Tensor> inputs = {numbers({21, 64}, DType::f32), weights(48, 64, DType::bf16),
                                      weights(40, 64, DType::f16), numbers({5, 64}, DType::f32),
                                      weights(48, 32, DType::bf16)};
  check_all("asked for", "cast", 0, inputs, 0, [](const auto& in) {
    const Tensor x = silu(in[0]);
    return std::vector<Tensor>{quantised_matmul(x, in[1]), x};
  });
  check_all("read by a sum", "cast", 0, inputs, 0, [](const auto& in) {
    const Tensor x = silu(in[0]);
    return std::vector<Tensor>{quantised_matmul(x, in[1]), sum(x, {1})};
  });
  check_all("two types", "cast", 0, inputs, 0, [](const auto& in) {
    const Tensor x = silu(in[0]);
    return std::vector<Tensor>{quantised_matmul(x, in[1]), quantised_matmul(x, in[2])};
  });
  check_all("a part", "cast", 0, inputs, 0, [](const auto& in) {
    return std::vector<Tensor>{quantised_matmul(half(silu(in[0]), 1), in[4])};
  });
  check_all("few rows", "cast", 0, inputs, 1e-5,
            [](const auto& in) { return std::vector<Tensor>{quantised_matmul(silu(in[3]), in[1])}; });
  check_all("a leaf", "cast", 0, inputs, 0,
            [](const auto& in) { return std::vector<Tensor>{quantised_matmul(in[0], in[1])}; });
}

// Three layers: the first one's weights are converted before, all others beside the product of that size.
TEST_F(GpuConvertedProducts, WeightsAreConvertedBesideEarlierProducts) {
  for (const Device device : gpus())
    if (device_info(device).architecture != "sm_90") GTEST_SKIP() << "only by the products of sm_90";
  constexpr std::int64_t rows = 1100, width = 256, inner = 512;
  for (const DType format :
       {DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q8_0, DType::q2_k, DType::q3_k,
        DType::q4_k, DType::q5_k, DType::q6_k, DType::iq4_xs, DType::iq4_nl, DType::mxfp4}) {
    std::vector<Tensor> inputs = {numbers({rows, width}, DType::f32), numbers({width}, DType::f32)};
    for (int layer = 0; layer < 3; ++layer) {
      inputs.push_back(weights(2 * inner, width, format));
      inputs.push_back(weights(width, inner, layer == 1 ? DType::q6_k : format));
    }
    check_all(std::string(dtype_name(format)), "converts", 4, inputs, 1e-3, [](const auto& in) {
      Tensor x = in[0];
      for (std::size_t layer = 0; layer < 3; ++layer) {
        const Tensor both = quantised_matmul(rms_norm(x, in[1], 1e-5), in[2 + 2 * layer]);
        x = x + quantised_matmul(silu(half(both, 0)) * half(both, 1), in[3 + 2 * layer]);
      }
      return std::vector<Tensor>{x};
    });
  }
}

}  // namespace
}  // namespace hearth
