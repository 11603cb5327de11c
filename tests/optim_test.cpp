// Optimisers, clipping, averages, loss scaling and schedules, against PyTorch where it has them.
#include "hearth/optim.h"

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/ops.h"
#include "hearth/precision.h"
#include "hearth/schedule.h"
#include "nn_golden.h"

namespace hearth {
namespace {

using optim::Optimizer;
using Parameters = std::vector<Tensor>;
using MakeOptimizer = std::function<std::unique_ptr<Optimizer>(const Parameters&)>;

template <typename O, typename Options>
MakeOptimizer with(const Options& options) {
  return [=](const Parameters& parameters) { return std::make_unique<O>(parameters, options); };
}

// The options here are those of the case of this name in make_optim_golden.py.
const std::map<std::string, MakeOptimizer>& optimizer_cases() {
  using namespace optim;
  static const std::map<std::string, MakeOptimizer> cases{
      {"sgd", with<SGD>(SGDOptions{.learning_rate = 0.1})},
      {"sgd_momentum", with<SGD>(SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.05})},
      {"sgd_dampening", with<SGD>(SGDOptions{.learning_rate = 0.1, .momentum = 0.9, .dampening = 0.3})},
      {"sgd_nesterov",
       with<SGD>(SGDOptions{.learning_rate = 0.1, .momentum = 0.8, .weight_decay = 0.01, .nesterov = true})},
      {"adam", with<Adam>(AdamOptions{.learning_rate = 0.02})},
      {"adam_options",
       with<Adam>(AdamOptions{
           .learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1})},
      {"adam_amsgrad", with<Adam>(AdamOptions{.learning_rate = 0.02, .beta2 = 0.5, .amsgrad = true})},
      {"adamw", with<AdamW>(AdamWOptions{.learning_rate = 0.02})},
      {"adamw_options",
       with<AdamW>(AdamWOptions{
           .learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.5, .weight_decay = 0.5, .amsgrad = true})},
      {"rmsprop", with<RMSprop>(RMSpropOptions{.learning_rate = 0.02})},
      {"rmsprop_centered", with<RMSprop>(RMSpropOptions{
                               .learning_rate = 0.02, .alpha = 0.9, .weight_decay = 0.1, .centered = true})},
      {"rmsprop_momentum",
       with<RMSprop>(RMSpropOptions{.learning_rate = 0.02, .epsilon = 1e-4, .momentum = 0.9})},
      {"rmsprop_all",
       with<RMSprop>(RMSpropOptions{.learning_rate = 0.02, .alpha = 0.8, .momentum = 0.5, .centered = true})},
      {"adagrad", with<Adagrad>(AdagradOptions{.learning_rate = 0.1})},
      {"adagrad_options", with<Adagrad>(AdagradOptions{.learning_rate = 0.1,
                                                       .learning_rate_decay = 0.2,
                                                       .weight_decay = 0.05,
                                                       .initial_accumulator = 0.3,
                                                       .epsilon = 1e-5})},
      {"adam_atan2", with<AdamATan2>(AdamATan2Options{.learning_rate = 0.02})},
      {"adam_atan2_decay", with<AdamATan2>(AdamATan2Options{
                               .learning_rate = 0.02, .beta1 = 0.8, .beta2 = 0.9, .weight_decay = 1.0})},
      {"lion", with<Lion>(LionOptions{.learning_rate = 0.02})},
      {"lion_decay",
       with<Lion>(LionOptions{.learning_rate = 0.02, .beta1 = 0.95, .beta2 = 0.98, .weight_decay = 0.5})},
      {"groups",
       [](const Parameters& p) {
         return std::make_unique<AdamW>(std::vector<ParameterGroup<AdamWOptions>>{
             {{p[0]}, {.learning_rate = 0.05, .weight_decay = 0.3}},
             {{p[1]}, {.learning_rate = 0.01, .weight_decay = 0.0}}});
       }},
  };
  return cases;
}

Parameters start() {
  Parameters result;
  for (const auto& array : golden().at("start")) result.push_back(golden_tensor(array).requires_grad_());
  return result;
}

Parameters golden_gradients(std::size_t step) {
  Parameters result;
  for (const auto& array : golden().at("gradients").at(step)) result.push_back(golden_tensor(array));
  return result;
}

void set_gradients(Parameters& parameters, std::size_t step) {
  const Parameters gradients = golden_gradients(step);
  for (std::size_t i = 0; i < parameters.size(); ++i)
    parameters[i].set_grad(gradients[i].to(parameters[i].dtype()));
}

void halve_rates(Optimizer& optimizer) {
  for (std::size_t g = 0; g < optimizer.group_count(); ++g) {
    optimizer.set_learning_rate(g, optimizer.learning_rate(g) * 0.5);
  }
}

class OptimizerGolden : public testing::TestWithParam<std::string> {
 protected:
  const MakeOptimizer& make() const { return optimizer_cases().at(GetParam()); }
  const nlohmann::json& expected(std::size_t step) const {
    return golden_case("optimizers", GetParam()).at("values").at(step);
  }
  void expect(const Parameters& parameters, std::size_t step) const {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      expect_golden(parameters[i], expected(step).at(i),
                    "step " + std::to_string(step) + ", parameter " + std::to_string(i), 2e-6);
    }
  }
};

TEST_P(OptimizerGolden, Steps) {
  Parameters parameters = start();
  const auto optimizer = make()(parameters);
  for (std::size_t step = 0; step < 6; ++step) {
    if (step == 3) halve_rates(*optimizer);
    set_gradients(parameters, step);
    optimizer->step();
    eval(optimizer->variables());
    expect(parameters, step);
  }
  EXPECT_EQ(optimizer->step_count(), 6);
}

TEST_P(OptimizerGolden, PendingStepsComputedAtOnce) {
  Parameters parameters = start();
  const auto optimizer = make()(parameters);
  for (std::size_t step = 0; step < 6; ++step) {
    if (step == 3) halve_rates(*optimizer);
    set_gradients(parameters, step);
    optimizer->step();
  }
  expect(parameters, 5);
}

TEST_P(OptimizerGolden, CompiledStepReplaysWithChangingRate) {
  Parameters parameters = start();
  const auto optimizer = make()(parameters);
  Compiled train = compile([&](const std::vector<Tensor>& gradients) {
    for (std::size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(gradients[i]);
    optimizer->step();
    optimizer->zero_grad();
    return std::vector<Tensor>{sum(parameters[0])};
  });
  for (std::size_t step = 0; step < 6; ++step) {
    if (step == 3) halve_rates(*optimizer);
    train(golden_gradients(step));
    expect(parameters, step);
  }
  EXPECT_EQ(train.traces(), 1u);
  EXPECT_EQ(optimizer->step_count(), 6);
}

TEST_P(OptimizerGolden, StateRoundTrip) {
  Parameters parameters = start();
  StateDict state;
  {
    const auto first = make()(parameters);
    for (std::size_t step = 0; step < 4; ++step) {
      if (step == 3) halve_rates(*first);
      set_gradients(parameters, step);
      first->step();
    }
    state = first->state_dict();
  }
  const auto second = make()(parameters);
  second->load_state_dict(state);
  for (std::size_t step = 4; step < 6; ++step) {
    set_gradients(parameters, step);
    second->step();
    expect(parameters, step);
  }
  EXPECT_EQ(second->step_count(), 6);
}

TEST_P(OptimizerGolden, RefusedStepChangesNothing) {
  Parameters parameters = start();
  const auto optimizer = make()(parameters);
  const auto take = [&](std::size_t step, bool apply) {
    set_gradients(parameters, step);
    optimizer->step(tensor(std::vector<std::int64_t>{apply ? 1 : 0}, Shape{}).to(DType::bool_));
  };
  take(0, true);
  take(5, false);
  take(1, true);
  expect(parameters, 1);
  EXPECT_EQ(optimizer->step_count(), 2);
}

std::vector<std::string> names() {
  std::vector<std::string> result;
  for (const auto& [name, make] : optimizer_cases()) result.push_back(name);
  return result;
}
INSTANTIATE_TEST_SUITE_P(All, OptimizerGolden, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

TEST(Optimizer, EveryGoldenCaseIsTested) {
  EXPECT_EQ(golden().at("optimizers").size(), optimizer_cases().size());
  for (const auto& entry : golden().at("optimizers")) {
    EXPECT_TRUE(optimizer_cases().contains(entry.at("name").get<std::string>())) << entry.at("name");
  }
}

TEST(Optimizer, SkipsParametersWithoutGradient) {
  Parameters parameters = start();
  optim::Adam adam(parameters);
  const auto before = parameters[1].to_vector<float>();
  parameters[0].set_grad(golden_gradients(0)[0]);
  adam.step();
  EXPECT_EQ(parameters[1].to_vector<float>(), before);
  EXPECT_EQ(adam.step_count(), 1);
  adam.zero_grad();
  adam.step();
  EXPECT_EQ(adam.step_count(), 1);
}

TEST(Optimizer, MinimisesThroughBackward) {
  Tensor x = tensor<float>({3, -2}).requires_grad_();
  optim::Adam adam({x}, {.learning_rate = 0.1});
  for (int i = 0; i < 300; ++i) {
    adam.zero_grad();
    sum(square(x - 1)).backward();
    adam.step();
    eval(adam.variables());
  }
  expect_close(x, {1, 1}, "x", 1e-2);
  EXPECT_TRUE(x.requires_grad());
}

TEST(Optimizer, MasterWeightsKeepWhatHalfPrecisionLoses) {
  // Steps of 1e-4 vanish against 1 in bf16, whose spacing there is 2^-7.
  for (const bool master : {false, true}) {
    Tensor p = ones({4}, DType::bf16).requires_grad_();
    optim::SGD sgd({p}, {.learning_rate = 1e-4, .master_weights = master});
    for (int i = 0; i < 200; ++i) {
      p.set_grad(ones({4}, DType::bf16));
      sgd.step();
      eval(sgd.variables());
    }
    EXPECT_EQ(p.dtype(), DType::bf16);
    const double expected = master ? static_cast<float>(bfloat16(0.98f)) : 1.0;
    EXPECT_EQ(p.to_vector<double>(), std::vector<double>(4, expected));
    EXPECT_EQ(sgd.state_dict().contains("state.0.master"), master);
  }
}

TEST(Optimizer, HalfParametersKeepStateInFloat) {
  Tensor p = ones({2}, DType::f16).requires_grad_();
  optim::Adam adam({p});
  EXPECT_EQ(adam.state_dict().at("state.0.exp_avg").dtype(), DType::f32);
}

TEST(Optimizer, BadArguments) {
  Tensor p = ones({2}).requires_grad_();
  EXPECT_THROW(optim::SGD(Parameters{}), ValueError);
  EXPECT_THROW(optim::SGD({p, p}), ValueError);
  EXPECT_THROW(optim::SGD({p}, {.learning_rate = -1}), ValueError);
  EXPECT_THROW(optim::SGD({p}, {.nesterov = true}), ValueError);
  EXPECT_THROW(optim::Adam({p}, {.beta1 = 1.0}), ValueError);
  EXPECT_THROW(optim::SGD({zeros({2}, DType::i64)}), DTypeError);
  optim::SGD sgd({p});
  EXPECT_THROW(sgd.set_learning_rate(3, 0.1), ValueError);
  EXPECT_THROW(sgd.load_state_dict(optim::Adam({p}).state_dict()), ValueError);
}

// ---- gradients

TEST(Clip, Golden) {
  const std::map<std::string, std::function<Tensor(const Parameters&)>> cases{
      {"norm", [](const Parameters& p) { return optim::clip_grad_norm(p, 1.5); }},
      {"norm_loose", [](const Parameters& p) { return optim::clip_grad_norm(p, 100.0); }},
      {"norm_infinity",
       [](const Parameters& p) {
         return optim::clip_grad_norm(p, 0.7, std::numeric_limits<double>::infinity());
       }},
      {"norm_one", [](const Parameters& p) { return optim::clip_grad_norm(p, 2.0, 1.0); }},
      {"value",
       [](const Parameters& p) {
         optim::clip_grad_value(p, 0.4);
         return zeros({});
       }},
  };
  for (const auto& [name, clip] : cases) {
    Parameters parameters = start();
    set_gradients(parameters, 0);
    parameters.push_back(ones({2}).requires_grad_());  // has no gradient
    const Tensor norm = clip(parameters);
    const auto& expected = golden_case("clips", name);
    expect_close(norm, {expected.at("norm").get<double>()}, name);
    for (std::size_t i = 0; i < 2; ++i)
      expect_golden(parameters[i].grad(), expected.at("gradients").at(i), name);
    EXPECT_FALSE(parameters[2].grad().defined());
  }
}

TEST(Clip, GradientsAccumulate) {
  Tensor x = tensor<float>({1, 2}).requires_grad_();
  sum(x * 2).backward();
  sum(x * 3).backward();
  expect_close(x.grad(), {5, 5}, "sum of two backward passes");
}

TEST(Ema, FollowsAppliesAndRestores) {
  Tensor p = tensor<float>({1, 10}).requires_grad_();
  optim::Ema ema({p}, 0.75);
  p.assign(tensor<float>({2, 20}));
  ema.update();
  expect_close(ema.averages()[0], {1.25, 12.5}, "average");
  ema.apply();
  expect_close(p, {1.25, 12.5}, "applied");
  EXPECT_THROW(ema.apply(), Error);
  EXPECT_THROW(ema.update(), Error);
  ema.restore();
  expect_close(p, {2, 20}, "restored");
  EXPECT_THROW(ema.restore(), Error);
  EXPECT_TRUE(p.requires_grad());

  optim::Ema other({p}, 0.75);
  other.load_state_dict(ema.state_dict());
  other.update();
  expect_close(other.averages()[0], {1.4375, 14.375}, "after loading");
  expect_close(ema.averages()[0], {1.25, 12.5}, "the source stays");
  EXPECT_THROW(optim::Ema({p}, 1.0), ValueError);
}

// ---- loss scaling

TEST(LossScaler, ScalesAndUnscales) {
  Tensor x = tensor<float>({1, 2}).requires_grad_();
  optim::SGD sgd({x}, {.learning_rate = 0.5});
  LossScaler scaler({.initial_scale = 8, .growth_interval = 2});
  for (int i = 0; i < 3; ++i) {
    sgd.zero_grad();
    scaler.scale(sum(x * 2)).backward();
    expect_close(x.grad(), {i < 2 ? 16.0 : 32.0, i < 2 ? 16.0 : 32.0}, "scaled gradient");
    scaler.unscale(sgd);
    expect_close(x.grad(), {2, 2}, "gradient");
    EXPECT_THROW(scaler.unscale(sgd), Error);
    scaler.step(sgd);
    scaler.update();
  }
  expect_close(x, {-2, -1}, "x");
  EXPECT_EQ(scaler.current_scale().item(), 16);
  EXPECT_THROW(scaler.update(), Error);
}

TEST(LossScaler, SkipsStepsThatOverflow) {
  Tensor x = tensor<float>({1, 2}).requires_grad_();
  optim::Adam adam({x}, {.learning_rate = 0.5});
  LossScaler scaler({.initial_scale = 8});
  const auto step = [&](float last) {
    x.set_grad(tensor<float>({1, last}));
    scaler.step(adam);
    scaler.update();
  };
  step(std::numeric_limits<float>::infinity());
  step(std::numeric_limits<float>::quiet_NaN());
  expect_close(x, {1, 2}, "x");
  EXPECT_EQ(scaler.current_scale().item(), 2);
  EXPECT_EQ(adam.step_count(), 0);
  step(1);
  EXPECT_EQ(adam.step_count(), 1);
  expect_close(x, {0.5, 1.5}, "x");

  LossScaler other;
  other.load_state_dict(scaler.state_dict());
  EXPECT_EQ(other.current_scale().item(), 2);
  EXPECT_EQ(other.state_dict().at("good_steps").item<int>(), 1);
}

TEST(LossScaler, GrowsNoFurtherThanF32) {
  Tensor x = tensor<float>({1}).requires_grad_();
  optim::SGD sgd({x});
  LossScaler scaler({.initial_scale = 1e37, .growth = 10, .growth_interval = 1});
  const auto step = [&](float slope) {
    x.set_grad(tensor<float>({slope}));
    scaler.step(sgd);
    scaler.update();
  };
  for (int i = 0; i < 5; ++i) step(0);
  EXPECT_FLOAT_EQ(scaler.current_scale().item<float>(), 1e38f);
  step(std::numeric_limits<float>::infinity());
  EXPECT_FLOAT_EQ(scaler.current_scale().item<float>(), 5e37f);
}

TEST(LossScaler, ReplaysInACompiledStep) {
  Tensor x = tensor<float>({1, 2}).requires_grad_();
  optim::SGD sgd({x}, {.learning_rate = 1.0});
  LossScaler scaler({.initial_scale = 4, .growth_interval = 2});
  Compiled train = compile([&](const std::vector<Tensor>& inputs) {
    const Tensor loss = sum(x * inputs[0]);
    scaler.scale(loss).backward();
    scaler.step(sgd);
    scaler.update();
    sgd.zero_grad();
    return std::vector<Tensor>{loss};
  });
  const float infinity = std::numeric_limits<float>::infinity();
  train({tensor<float>({1, 1})});         // x = 0, 1
  train({tensor<float>({1, infinity})});  // skipped, scale 2
  train({tensor<float>({1, 2})});         // x = -1, -1
  train({tensor<float>({1, 1})});         // x = -2, -2, scale 4
  expect_close(x, {-2, -2}, "x");
  EXPECT_EQ(scaler.current_scale().item(), 4);
  EXPECT_EQ(sgd.step_count(), 3);
  EXPECT_EQ(train.traces(), 1u);
}

TEST(LossScaler, BadArguments) {
  EXPECT_THROW(LossScaler({.growth = 1.0}), ValueError);
  EXPECT_THROW(LossScaler({.backoff = 1.0}), ValueError);
  Tensor half = ones({2}, DType::f16).requires_grad_();
  half.set_grad(ones({2}, DType::f16));
  optim::SGD sgd({half});
  EXPECT_THROW(LossScaler().unscale(sgd), DTypeError);
}

// ---- schedules

const std::map<std::string, Schedule>& schedule_cases() {
  using namespace schedule;
  static const std::map<std::string, Schedule> cases{
      {"step", step(7, 0.5)},
      {"multi_step", multi_step({30, 5, 12}, 0.3)},
      {"exponential", exponential(0.93)},
      {"linear", linear(0.2, 0.9, 15)},
      {"polynomial", polynomial(20, 2.0)},
      {"cosine", cosine(25, 0.001)},
      {"cosine_warm_restarts", cosine_warm_restarts(5, 2, 0.002)},
      {"cosine_warm_restarts_even", cosine_warm_restarts(8)},
      {"one_cycle", one_cycle(0.5, 41)},
      {"one_cycle_linear",
       one_cycle(0.5, 41, {.warm_share = 0.4, .linear = true, .start_divisor = 10.0, .end_divisor = 100.0})},
      {"one_cycle_three_phase", one_cycle(0.5, 41, {.three_phase = true})},
      {"lambda", lambda([](std::int64_t t) { return 1.0 / (1.0 + static_cast<double>(t)); })},
      {"warmup", warmup(8, cosine(40), 0.1)},
  };
  return cases;
}

TEST(Schedule, Golden) {
  EXPECT_EQ(schedule_cases().size() + 2, golden().at("schedules").size());
  for (const auto& [name, schedule] : schedule_cases()) {
    optim::SGD sgd({ones({1}).requires_grad_()}, {.learning_rate = 0.1});
    Scheduler scheduler(sgd, schedule);
    for (const double rate : golden_case("schedules", name).at("rates").get<std::vector<double>>()) {
      ASSERT_NEAR(sgd.learning_rate(), rate, 1e-12) << name << " at step " << scheduler.count();
      scheduler.step();
    }
  }
}

TEST(Schedule, StateRoundTrip) {
  optim::SGD sgd({ones({1}).requires_grad_()}, {.learning_rate = 0.1});
  Scheduler scheduler(sgd, schedule::cosine(25, 0.001));
  for (int i = 0; i < 10; ++i) scheduler.step();
  const double rate = sgd.learning_rate();

  optim::SGD resumed({ones({1}).requires_grad_()}, {.learning_rate = 0.7});
  Scheduler continued(resumed, schedule::cosine(25, 0.001));
  continued.load_state_dict(scheduler.state_dict());
  EXPECT_EQ(resumed.learning_rate(), rate);
  EXPECT_EQ(continued.count(), 10);
  scheduler.step();
  continued.step();
  EXPECT_EQ(resumed.learning_rate(), sgd.learning_rate());
}

TEST(Schedule, EndsAndEdges) {
  EXPECT_EQ(schedule::one_cycle(1.0, 10)(0.1, 1000), schedule::one_cycle(1.0, 10)(0.1, 9));
  EXPECT_EQ(schedule::warmup(0, schedule::exponential(0.5))(1.0, 2), 0.25);
  EXPECT_EQ(schedule::warmup(4)(1.0, 1), 0.25);
  EXPECT_EQ(schedule::polynomial(5)(1.0, 50), 0.0);
  EXPECT_THROW(schedule::cosine(0), ValueError);
  EXPECT_THROW(schedule::step(0), ValueError);
}

TEST(ReduceOnPlateau, Golden) {
  const std::map<std::string, PlateauOptions> cases{
      {"plateau", {.factor = 0.5, .patience = 2}},
      {"plateau_options",
       {.maximize = true,
        .factor = 0.3,
        .patience = 1,
        .threshold = 0.01,
        .relative = false,
        .cooldown = 2,
        .minimum = 0.004}},
  };
  for (const auto& [name, options] : cases) {
    const auto& expected = golden_case("schedules", name);
    optim::SGD sgd({ones({1}).requires_grad_()}, {.learning_rate = 0.1});
    auto plateau = std::make_unique<ReduceOnPlateau>(sgd, options);
    for (std::size_t i = 0; i < expected.at("rates").size(); ++i) {
      ASSERT_NEAR(sgd.learning_rate(), expected.at("rates").at(i).get<double>(), 1e-12)
          << name << " at step " << i;
      plateau->step(expected.at("metrics").at(i).get<double>());
      if (i == 7) {  // go on from a saved state
        const StateDict state = plateau->state_dict();
        plateau = std::make_unique<ReduceOnPlateau>(sgd, options);
        plateau->load_state_dict(state);
      }
    }
  }
  optim::SGD sgd({ones({1}).requires_grad_()});
  EXPECT_THROW(ReduceOnPlateau(sgd, {.factor = 1.0}), ValueError);
}

}  // namespace
}  // namespace hearth
