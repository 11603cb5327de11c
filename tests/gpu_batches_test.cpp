// Small steps that do the same to different values are one launch.
#include <random>

#include "gpu_compare.h"
#include "hearth/optim.h"

namespace hearth {
namespace {

class GpuBatches : public GpuComparison {};

// Parameters of many sizes after a few steps of training.
std::vector<Tensor> trained(Device device, std::string* plan = nullptr) {
  std::vector<Tensor> parameters;
  for (const std::int64_t size : {1, 2, 3, 255, 256, 257, 1023, 1024, 1025, 3000, 7, 1 << 18}) {
    Tensor parameter = (arange(0, static_cast<double>(size), 1) * 0.001 - 0.2).to(device);
    parameters.push_back(parameter.requires_grad_());
  }
  optim::AdamW optimizer(parameters, optim::AdamWOptions{.learning_rate = 0.01, .weight_decay = 0.1});
  Compiled step = compile([&](const std::vector<Tensor>& in) {
    Tensor loss = in[0];
    for (const Tensor& parameter : parameters) loss = loss + (parameter * parameter * 0.5).sum();
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return std::vector<Tensor>{loss};
  });
  for (int i = 0; i < 6; ++i) step({full({}, 1.0).to(device)});
  if (plan != nullptr) *plan = step.explain();
  return parameters;
}

TEST_F(GpuBatches, UpdatesOfManyParametersAreOneStep) {
  const auto expected = trained(Device{});
  for (const Device device : gpus()) {
    std::string plan;
    const auto found = trained(device, &plan);
    EXPECT_NE(plan.find("of 11 values"), std::string::npos) << plan;  // all but the smallest
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto got = found[i].to(Device{}).to_vector<float>(), want = expected[i].to_vector<float>();
      for (std::size_t k = 0; k < got.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-6) << i << " at " << k;
    }
  }
}

// Values of a few sizes, computed from each other in a random way; softmax and cumsum are steps of their own.
std::vector<Tensor> random_values(const std::vector<Tensor>& leaves, unsigned seed) {
  std::mt19937 engine(seed);
  std::vector<Tensor> values = leaves, results;
  for (int i = 0; i < 40; ++i) {
    const Tensor a = values[engine() % values.size()];
    // Another of the same size, or the only element of a scalar.
    std::vector<Tensor> partners;
    for (const Tensor& value : values)
      if (value.shape() == a.shape() || value.numel() == 1) partners.push_back(value);
    const Tensor b = partners[engine() % partners.size()];
    switch (engine() % 6) {
      case 0:
        values.push_back(softmax(a) + b);
        break;
      case 1:
        values.push_back(cumsum(a, -1) * 0.5);
        break;
      case 2:
        values.push_back(tanh(softmax(a) * 3.0));
        break;
      case 3:
        values.push_back(a * b - 1.0);
        break;
      case 4:
        values.push_back(maximum(a, b) * 0.25);
        break;
      default:
        values.push_back(tanh(a) * static_cast<double>(engine() % 5));
    }
    if (engine() % 4 == 0) results.push_back(values.back());
  }
  results.push_back(values.back());
  return results;
}

TEST_F(GpuBatches, TheOrderOfStepsDoesNotChangeABit) {
  manual_seed(3);
  std::vector<Tensor> leaves = {randn({1}).eval()};
  for (const std::int64_t size : {5, 300, 1030})
    for (int i = 0; i < 3; ++i) leaves.push_back(randn({size}).eval());
  for (const Device device : gpus()) {
    std::vector<Tensor> here;
    for (const Tensor& leaf : leaves) here.push_back(leaf.to(device));
    for (unsigned seed = 0; seed < 12; ++seed) {
      const auto batched = random_values(here, seed);
      eval(batched);
      Config plain = config();
      plain.enable_operator_fusion = false;
      const Config before = config();
      set_config(plain);
      const auto separate = random_values(here, seed);
      eval(separate);
      set_config(before);
      for (std::size_t k = 0; k < batched.size(); ++k)
        ASSERT_EQ(batched[k].to(Device{}).to_vector<float>(), separate[k].to(Device{}).to_vector<float>())
            << "seed " << seed << " result " << k;
    }
  }
}

}  // namespace
}  // namespace hearth
