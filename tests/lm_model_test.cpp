// The Llama that is trained, against transformers: scores, loss and all gradients; and a training step on
// every device against the CPU.
#include <gtest/gtest.h>

#include <cmath>

#include "expect_error.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/io.h"
#include "hearth/models.h"
#include "hearth/ops.h"
#include "hearth/optim.h"
#include "hearth/random.h"
#include "test_devices.h"

namespace hearth {
namespace {

using models::Llama;
using models::LlamaOptions;
using test::expect_error;

// That of make_lm_golden.py.
constexpr LlamaOptions golden_sizes{
    .vocabulary = 40, .context = 16, .layers = 2, .width = 32, .heads = 4, .groups = 2, .feed_forward = 48};

TensorMap golden() {
  return load_safetensors(std::string(HEARTH_GOLDEN_DIR) + "/llama_training.safetensors");
}

void load_weights(Llama& model, const TensorMap& from) {
  StateDict weights;
  for (const auto& [name, tensor] : from)
    if (name.starts_with("weight.")) weights[name.substr(7)] = tensor;
  model.load_state_dict(weights);
}

std::vector<float> values(const Tensor& x) {
  const Tensor host = x.to(DType::f32).to(Device{}).contiguous().eval();
  const auto data = host.data<float>();
  return {data.begin(), data.end()};
}

// The largest difference, by the largest expected value.
double distance(const Tensor& got, const Tensor& expected) {
  const auto a = values(got), b = values(expected);
  EXPECT_EQ(a.size(), b.size());
  double largest = 1e-12, difference = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  return difference / largest;
}

TEST(Llama, ScoresLossAndGradientsAreThoseOfTransformers) {
  const TensorMap expected = golden();
  Llama model(golden_sizes);
  load_weights(model, expected);
  EXPECT_LT(distance(model.forward(expected.at("tokens")), expected.at("logits")), 2e-5);
  const Tensor loss = model.loss(expected.at("tokens"), expected.at("targets"));
  loss.backward();
  EXPECT_LT(distance(loss, expected.at("loss")), 1e-6);
  for (const auto& [name, parameter] : model.named_parameters())
    EXPECT_LT(distance(parameter.grad(), expected.at("gradient." + name)), 5e-5) << name;
}

TEST(Llama, InSixteenBitsTheyAreNear) {
  const TensorMap expected = golden();
  const Autocast precision(DType::bf16);
  Llama model(golden_sizes);
  load_weights(model, expected);
  const Tensor loss = model.loss(expected.at("tokens"), expected.at("targets"));
  loss.backward();
  EXPECT_EQ(loss.dtype(), DType::f32);
  EXPECT_LT(distance(loss, expected.at("loss")), 1e-2);
  for (const auto& [name, parameter] : model.named_parameters()) {
    EXPECT_EQ(parameter.grad().dtype(), DType::f32);
    EXPECT_LT(distance(parameter.grad(), expected.at("gradient." + name)), 0.06) << name;
  }
}

struct Course {
  std::vector<double> losses, norms;  // of the gradients
};

// Three compiled steps with all that a run has: clipping, decay, the learning rate of each step.
Course train_three_steps(Device device, std::optional<DType> low) {
  const TensorMap expected = golden();
  const DeviceScope scope(device);
  Llama model(golden_sizes);
  load_weights(model, expected);
  optim::AdamW optimizer(model.parameters(), {.learning_rate = 1e-2, .weight_decay = 0.1});
  Compiled step = compile([&](const std::vector<Tensor>& in) {
    const Autocast precision(low);
    const Tensor loss = model.loss(in[0], in[1]);
    loss.backward();
    const Tensor norm = optim::clip_grad_norm(optimizer.parameters(), 1.0);
    optimizer.step();
    optimizer.zero_grad();
    return std::vector<Tensor>{loss, norm};
  });
  Course course;
  for (int i = 0; i < 3; ++i) {
    optimizer.set_learning_rate(1e-2 / (i + 1));
    const auto results = step({expected.at("tokens").to(device), expected.at("targets").to(device)});
    course.losses.push_back(results[0].item<double>());
    course.norms.push_back(results[1].item<double>());
  }
  return course;
}

TEST(Llama, StepsInSixteenBitsAreNearThoseOfTheCpuInAll) {
  const Course exact = train_three_steps(Device{}, std::nullopt);
  EXPECT_LT(exact.losses[2], exact.losses[0] - 0.5);
  for (const Device device : tested_devices()) {
    const Course course = train_three_steps(device, DType::bf16);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_NEAR(course.losses[i], exact.losses[i], 0.02 * exact.losses[i]) << i;
      EXPECT_NEAR(course.norms[i], exact.norms[i], 0.03 * exact.norms[i]) << i;
    }
  }
}

TEST(Llama, SizesThatDoNotFitAreRefused) {
  const auto made = [](LlamaOptions options) { return [options] { Llama model(options); }; };
  expect_error<ValueError>(made({.width = 130, .heads = 4}), {"130", "4 heads"});
  expect_error<ValueError>(made({.heads = 4, .groups = 3}), {"4 heads", "3"});
  expect_error<ValueError>(made({.layers = 0}), {"layers", "0"});
  expect_error<ShapeError>(
      [] {
        Llama(golden_sizes).forward(zeros({1, 17}, DType::i64));
      },
      {"(1, 17)", "16"});
}

// 6 operations for each parameter that is multiplied with, and what attention takes.
TEST(Llama, OperationsOfAStepAreCounted) {
  const Llama model(golden_sizes);
  const double matrices = 40 * 32 + 2 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48);
  EXPECT_EQ(model.training_flops(16), 6 * matrices + 2 * 6 * 32 * 16);
}

}  // namespace
}  // namespace hearth
