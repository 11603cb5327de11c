// Evaluation: laziness, fusion, memory, the plan cache, levels, long chains.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>

#include "hearth/config.h"
#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/random.h"

namespace hearth {
namespace {

// Sets the configuration for one test.
class ConfigScope {
 public:
  explicit ConfigScope(const Config& changed) : before_(config()) { set_config(changed); }
  ~ConfigScope() { set_config(before_); }

 private:
  Config before_;
};

TEST(Eval, NothingIsComputedUntilAValueIsNeeded) {
  const Tensor x = tensor<float>({1, 2, 3});
  const Tensor y = x * 2 + 1;
  EXPECT_FALSE(y.is_evaluated());
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 5, 7}));
  EXPECT_TRUE(y.is_evaluated());
}

TEST(Eval, AChainOfElementwiseOperationsIsOneStep) {
  const Tensor x = randn({100, 100});
  x.eval();
  const Tensor y = sqrt(abs(tanh(x * 2 + 1) - x)) * x;
  y.eval();
  EXPECT_EQ(last_plan_stats().steps, 1u);
  EXPECT_EQ(last_plan_stats().arena_bytes, 0u);
}

TEST(Eval, ElementwiseOperationsFuseIntoAReduction) {
  const Tensor x = randn({64, 32});
  x.eval();
  const Tensor y = sum(x * x + 1, {1});
  y.eval();
  EXPECT_EQ(last_plan_stats().steps, 1u);
}

TEST(Eval, BiasAndActivationFuseIntoAMatrixProduct) {
  const Tensor x = randn({16, 32}), w = randn({32, 8}), b = randn({8});
  eval({x, w, b});
  const Tensor y = relu(matmul(x, w) + b);
  y.eval();
  EXPECT_EQ(last_plan_stats().steps, 1u);
  // The same with every operation on its own.
  Config plain = config();
  plain.enable_operator_fusion = false;
  const ConfigScope scope(plain);
  const Tensor z = relu(matmul(x, w) + b);
  z.eval();
  EXPECT_EQ(last_plan_stats().steps, 3u);
  EXPECT_EQ(y.to_vector<float>(), z.to_vector<float>());
}

TEST(Eval, WhatFollowsAMatrixProductDoesNotDependOnHowItIsDivided) {
  // Few and many rows, short and long ones: divided by rows or by columns, and taken in one or several
  // blocks.
  for (const auto& [m, k, n] :
       {std::tuple{40, 96, 1300}, std::tuple{3000, 40, 700}, std::tuple{900, 60, 100}}) {
    const Tensor x = randn({m, k}).eval(), w = randn({n, k}).eval(), b = randn({n}).eval();
    const Tensor row = randn({m, 1}).eval();
    const auto result = [&] { return maximum(matmul(x, w.t()) + b, row) * 0.5; };
    const auto fused = result().to_vector<float>();
    Config plain = config();
    plain.enable_operator_fusion = false;
    const ConfigScope scope(plain);
    const auto separate = result().to_vector<float>();
    for (std::size_t i = 0; i < fused.size(); ++i)
      ASSERT_NEAR(fused[i], separate[i], 1e-4) << "element " << i;
  }
}

TEST(Eval, FusionGoesThroughReshapes) {
  const Tensor x = randn({4, 6, 32}).eval(), w = randn({8, 32}).eval(), b = randn({8}).eval();
  const Tensor along = randn({4, 6, 8}).eval(), across = randn({6, 1}).eval();
  const auto expect = [](const std::function<Tensor()>& make, std::size_t steps) {
    const Tensor y = make();
    y.eval();
    EXPECT_EQ(last_plan_stats().steps, steps);
    Config plain = config();
    plain.enable_operator_fusion = false;
    const ConfigScope scope(plain);
    EXPECT_EQ(y.to_vector<float>(), make().to_vector<float>());
  };
  // The rows of a product are those of a stack.
  expect([&] { return relu(linear(x, w, b)) + along; }, 1);
  expect([&] { return along * matmul(x, w.t()); }, 1);
  expect([&] { return linear(linear(x, w, b) * along, w.t()) * 2.0; }, 2);
  // Along rows and across them at once there are no strides over (24, 8).
  expect([&] { return linear(x, w, b) + across; }, 2);
  // An operand that two shapes broadcast along different axes.
  const Tensor column = randn({3, 1}).eval(), square = randn({3, 3}).eval();
  expect([&] { return reshape(square * column, {3, 3, 1}) + column; }, 1);
  // A reduction of another shape than what came before.
  expect([&] { return sum(reshape(along * 2.0, {24, 8}), {1}); }, 1);
  expect([&] { return sum(reshape(along + across, {24, 8}), {1}); }, 2);
  // What is also used in the other shape is stored once.
  const Tensor doubled = along * 2.0, rows = reshape(doubled, {24, 8}), result = rows + 1.0;
  eval({doubled, rows, result});
  EXPECT_EQ(last_plan_stats().steps, 1u);
  EXPECT_EQ(doubled.to_vector<float>(), rows.to_vector<float>());
}

TEST(Eval, GradientsOfTransposedWeightsLieAsTheWeights) {
  Tensor x = randn({20, 30}), w = randn({10, 30}), dy = randn({20, 10});
  eval({x, w, dy});
  w.requires_grad_();
  sum(matmul(x, w.t()) * dy).backward();
  w.grad().eval();
  w.grad().reshape({300}).eval();  // would have to be copied if it were a transposed view
  EXPECT_EQ(last_plan_stats().steps, 0u);
}

TEST(Eval, OneStepCanHaveSeveralResults) {
  const Tensor x = randn({1000});
  x.eval();
  const Tensor a = x * 2, b = a + 1, c = b * a;
  eval({a, b, c});
  EXPECT_EQ(last_plan_stats().steps, 1u);
  const auto xs = x.to_vector<float>(), cs = c.to_vector<float>();
  for (std::size_t i = 0; i < xs.size(); ++i) EXPECT_FLOAT_EQ(cs[i], (xs[i] * 2 + 1) * (xs[i] * 2));
}

// A random expression over values of several shapes, some of them intermediate and so free to be overwritten;
// some of its values are results.
std::vector<Tensor> random_expression(const std::vector<Tensor>& leaves, unsigned seed) {
  std::mt19937 engine(seed);
  const auto below = [&](std::size_t n) { return engine() % n; };
  std::vector<Tensor> values(leaves.begin(), leaves.begin() + 6), results;
  const Tensor whole = leaves[0], split = leaves[6], inner = leaves[7], outer = leaves[8];
  const Shape flat{whole.numel()};
  for (int i = 0; i < 30; ++i) {
    const Tensor a = values[values.size() - 1 - below(std::min<std::size_t>(values.size(), 8))];
    const Tensor b = values[values.size() - 1 - below(std::min<std::size_t>(values.size(), 12))];
    const double number = static_cast<double>(below(7)) * 0.5 - 1.5;
    // Softmax and cumsum are steps of their own and make groups end: what they read lies in memory.
    const Tensor candidates[] = {
        a + b,
        a - b,
        b - a,
        a * b,
        maximum(a, b),
        minimum(b, a),
        a * number,
        number - a,
        a + number,
        -a,
        abs(a),
        square(a) * 0.125,
        relu(a),
        maximum(a, 0.0),
        a * 0.5 + b,
        a / (abs(b) + 1.5),
        tanh(a),
        where(a > b, a, b),
        where(a < number, b, number),
        softmax(a + whole) + b,
        softmax(b - whole) - a,
        softmax(a * whole) * a,
        cumsum(a - whole, -1) * 0.01 + b,
        reshape(tanh(reshape(a + whole, flat)) * 0.5, whole.shape()) + b,
        reshape(reshape(a * whole, split.shape()) - split, whole.shape()),
        reshape(reshape(a - whole, split.shape()) + inner, whole.shape()) * b,
        reshape(reshape(b + whole, split.shape()) * outer, whole.shape()),
        reshape(maximum(reshape(b * whole, split.shape()), outer) + inner, whole.shape()),
        b - reshape(max(reshape(a + whole, split.shape()), {2}, true) + split, whole.shape())};
    values.push_back(candidates[below(std::size(candidates))]);
    if (below(10) == 0) results.push_back(values.back());
  }
  results.push_back(values.back());
  return results;
}

TEST(Eval, FusionDoesNotChangeABit) {
  for (const Shape& shape : {Shape{3, 1031}, Shape{40, 17}, Shape{700, 5}}) {
    std::vector<Tensor> leaves = {randn(shape),         randn(shape),   randn({shape[1]}),
                                  randn({shape[0], 1}), full({}, 0.75), randn({shape[1], shape[0]}).t()};
    // The same in three axes, of which the last two or the first can be told from the rest.
    const std::int64_t parts = shape[0] % 5 == 0 ? shape[0] / 5 : 1;
    leaves.push_back(randn({shape[1], parts, shape[0] / parts}).permute({1, 2, 0}));
    leaves.push_back(randn({shape[0] / parts, shape[1]}));
    leaves.push_back(randn({parts, 1, 1}));
    eval(leaves);
    for (unsigned seed = 0; seed < 150; ++seed) {
      const auto fused = random_expression(leaves, seed);
      eval(fused);
      Config plain = config();
      plain.enable_operator_fusion = false;
      const ConfigScope scope(plain);
      const auto separate = random_expression(leaves, seed);
      eval(separate);
      for (std::size_t k = 0; k < fused.size(); ++k) {
        const auto a = fused[k].to_vector<float>(), b = separate[k].to_vector<float>();
        ASSERT_EQ(a.size(), b.size());
        for (std::size_t i = 0; i < a.size(); ++i)
          ASSERT_TRUE(std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]) ||
                      (std::isnan(a[i]) && std::isnan(b[i])))
              << to_string(shape) << " seed " << seed << " result " << k << " at " << i << ": " << a[i]
              << " and " << b[i];
      }
    }
  }
}

TEST(Eval, AGroupDoesNotTakeInANodeThatDependsOnItFromOutside) {
  // c needs sum(a), which needs a: c cannot share a's step, although both are elementwise of one shape.
  const Tensor x = randn({50});
  const Tensor a = x * 2;
  const Tensor c = a + sum(a) * a;
  const auto xs = x.to_vector<double>(), cs = c.to_vector<double>();
  double total = 0;
  for (double v : xs) total += 2 * v;
  for (std::size_t i = 0; i < xs.size(); ++i) EXPECT_NEAR(cs[i], 2 * xs[i] + total * 2 * xs[i], 1e-4);
}

// The same where the group begins with a matrix product: `doubled` is computed with it, and only its sum
// comes from elsewhere.
TEST(Eval, AProductDoesNotTakeInANodeThatDependsOnItFromOutside) {
  const Tensor x = randn({6, 32}).eval(), w = randn({8, 32}).eval();
  const Tensor positive = relu(linear(x, w)), doubled = positive * 2.0;
  const Tensor y = (doubled + sum(positive)).eval();
  const Tensor alone = relu(linear(x, w)).eval();
  EXPECT_EQ(y.to_vector<float>(), (alone * 2.0 + sum(alone).eval()).to_vector<float>());
}

TEST(Eval, LevelsChangeThePlanAndSaySo) {
  const Tensor x = randn({32});
  x.eval();
  const auto graph = [&] { return exp(x * 2) + exp(x * 2); };
  Config changed = config();
  changed.optimization_level = OptimizationLevel::conservative;
  std::string conservative;
  {
    const ConfigScope scope(changed);
    conservative = explain({graph()});
  }
  const std::string balanced = explain({graph()});
  changed.optimization_level = OptimizationLevel::aggressive;
  {
    const ConfigScope scope(changed);
    const Tensor third = x / 3.0 + (3.0 / x) * 3.0;
    EXPECT_NE(explain({third}).find("1 divisions by a number"), std::string::npos) << explain({third});
    const auto values = third.to_vector<float>(), inputs = x.to_vector<float>();
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], inputs[i] / 3 + 3 / inputs[i] * 3, 1e-5 * std::abs(values[i]));
  }
  EXPECT_EQ(conservative.find("fusion"), std::string::npos);
  EXPECT_NE(balanced.find("fusion"), std::string::npos);
  EXPECT_NE(conservative, balanced);
}

TEST(Eval, PlansAreReusedForGraphsOfTheSameStructure) {
  clear_plan_cache();
  for (int i = 0; i < 5; ++i) {
    // Other numbers and other data, the same structure.
    const Tensor x = full({10}, i);
    (x * (0.5 + i) + randn({10})).eval();
  }
  const auto stats = plan_cache_stats();
  EXPECT_EQ(stats.misses, 1u);
  EXPECT_EQ(stats.hits, 4u);
  EXPECT_FLOAT_EQ((full({3}, 2.0) * 7.0).to_vector<float>()[1], 14.0f);
  EXPECT_FLOAT_EQ((full({3}, 2.0) * 8.0).to_vector<float>()[1], 16.0f);
}

TEST(Eval, PlansAreNotReusedWhenTheyWouldBeReplayedAndNoLongerMay) {
  clear_plan_cache();
  (ones({10}) * 2).eval();
  Config changed = config();
  changed.enable_graph_replay = !changed.enable_graph_replay;
  const ConfigScope scope(changed);
  (ones({10}) * 2).eval();
  EXPECT_EQ(plan_cache_stats().misses, 2u);
}

TEST(Eval, ThePlanCacheIsBounded) {
  Config small = config();
  small.plan_cache_entries = 3;
  const ConfigScope scope(small);
  clear_plan_cache();
  for (int i = 1; i < 10; ++i) (ones({i}) * 2).eval();
  EXPECT_LE(plan_cache_stats().entries, 3u);
}

TEST(Eval, AChainOfAHundredThousandOperationsEvaluatesDifferentiatesAndIsFreed) {
  Tensor x = full({4}, 1.0).eval();
  x.requires_grad_();
  {
    Tensor y = x;
    for (int i = 0; i < 100000; ++i) y = y + 1e-5;
    const Tensor loss = sum(y);
    loss.backward();
    eval({loss, x.grad()});
    EXPECT_NEAR(loss.item(), 8.0, 0.05);
    EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{1, 1, 1, 1}));
  }
  // An unevaluated chain is freed too.
  Tensor y = x.detach();
  for (int i = 0; i < 100000; ++i) y = relu(y);
}

TEST(Eval, ArenaIsCloseToWhatLifetimesRequire) {
  // A deep network, forwards and backwards.
  Tensor h = randn({64, 128});
  std::vector<Tensor> weights;
  for (int i = 0; i < 12; ++i) weights.push_back(randn({128, 128}));
  for (auto& w : weights) {
    w.eval();
    w.requires_grad_();
  }
  for (auto& w : weights) h = gelu(matmul(h, w)) + h;
  sum(h * h).backward();
  std::vector<Tensor> results;
  for (auto& w : weights) results.push_back(w.grad());
  eval(results);
  const auto stats = last_plan_stats();
  ASSERT_GT(stats.required_bytes, 0u);
  EXPECT_LE(static_cast<double>(stats.arena_bytes), 1.1 * static_cast<double>(stats.required_bytes));
}

TEST(Eval, ViewsShareMemory) {
  const Tensor x = arange(24).reshape({4, 6});
  x.eval();
  const Tensor y = x.t().slice({{1, 5, 2}});
  y.eval();
  EXPECT_EQ(last_plan_stats().steps, 0u);
  EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{1, 7, 13, 19, 3, 9, 15, 21}));
}

// Expressions run in pieces, of which some lie in memory as they are needed and others do not.
TEST(Eval, OperandsOfAnyLayoutAreReadAndLeftAlone) {
  constexpr std::int64_t a = 7, b = 301, c = 65;
  const Shape shape{a, b, c};
  manual_seed(3);
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::i32, DType::i64, DType::u8}) {
    // Small numbers: sums and products are exact, in whatever order.
    const auto numbers = [&](const Shape& of) { return randint(0, 4, of, DType::i64).to(dtype).eval(); };
    const std::vector<Tensor> bases = {numbers(shape),         numbers({b, c}),        numbers({a, 1, c}),
                                       numbers({a, b, 1}),     numbers({a, b, c + 9}), numbers({a, b + 3, c}),
                                       numbers({a, b, 2 * c}), numbers({c, b, a})};
    const auto views_of = [&] {
      return std::vector<Tensor>{bases[0],
                                 bases[1],
                                 bases[2],
                                 bases[3],
                                 narrow(bases[4], 2, 4, c),
                                 narrow(bases[5], 1, 1, b),
                                 bases[6].slice({{}, {}, {1, 2 * c, 2}}),
                                 permute(bases[7], {2, 1, 0})};
    };
    std::vector<std::vector<double>> before;
    for (const Tensor& base : bases) before.push_back(base.to(DType::f64).to_vector<double>());
    const auto views = views_of();
    std::vector<Tensor> dense;
    for (const Tensor& view : views) dense.push_back(copy(broadcast_to(view, shape)).eval());
    for (std::size_t i = 0; i < views.size(); ++i)
      for (std::size_t j = 0; j < views.size(); ++j) {
        const Tensor &x = views[i], &y = views[j], &z = views[(i + j) % views.size()];
        const Tensor &p = dense[i], &q = dense[j], &r = dense[(i + j) % views.size()];
        const auto same = [](const Tensor& got, const Tensor& wanted) {
          return all(got == wanted).item<bool>();
        };
        EXPECT_TRUE(same((x + y * z).eval(), (p + q * r).eval()))
            << dtype_name(dtype) << " " << i << " " << j;
        for (const Axes& axes : {Axes{2}, Axes{0}, Axes{1}})
          EXPECT_TRUE(same(sum(broadcast_to(x * y, shape), axes).eval(), sum(p * q, axes).eval()))
              << dtype_name(dtype) << " " << i << " " << j << " over " << axes[0];
      }
    for (std::size_t i = 0; i < bases.size(); ++i)
      EXPECT_EQ(bases[i].to(DType::f64).to_vector<double>(), before[i]) << dtype_name(dtype) << " " << i;
  }
}

TEST(Eval, ConstantsAreWhatMemoryWouldHold) {
  for (const Shape& shape : {Shape{}, Shape{1}}) {
    EXPECT_EQ(full(shape, 300, DType::u8).item<std::int64_t>(), 255);
    EXPECT_EQ(full(shape, 1e6, DType::f16).to(DType::f32).item(), INFINITY);
    EXPECT_EQ(full(shape, 0.1, DType::bf16).to(DType::f64).item(), 0.10009765625);
    EXPECT_EQ(full(shape, 2.75).item<std::int64_t>(), 2);
  }
  EXPECT_EQ((ones({1}, DType::f64) * 0.1).item(), 0.1);
}

TEST(Eval, ConstantsAreFilledWhereMemoryIsNeeded) {
  EXPECT_EQ(matmul(ones({2, 3}), full({3, 2}, 2.0)).to_vector<float>(), (std::vector<float>{6, 6, 6, 6}));
  EXPECT_EQ(zeros({0, 3}).to_vector<float>().size(), 0u);
  EXPECT_EQ(sum(ones({3, 3})).item(), 9);
  EXPECT_EQ(Tensor(5).to_vector<std::int64_t>(), (std::vector<std::int64_t>{5}));
}

TEST(Eval, AFailedEvaluationLeavesTheGraphUsable) {
  const Tensor x = arange(5);
  Tensor index = tensor<std::int64_t>({7});
  const Tensor bad = take(x, index) + 1;
  EXPECT_THROW(bad.eval(), IndexError);
  EXPECT_FALSE(bad.is_evaluated());
  EXPECT_THROW(bad.eval(), IndexError);
  EXPECT_EQ(sum(x).item(), 10);
}

TEST(Eval, OutOfMemoryNamesTheFigures) {
  try {
    copy(zeros({std::int64_t{1} << 50}, DType::u8)).eval();
    FAIL() << "a petabyte was allocated";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested(), std::size_t{1} << 50);
  }
}

TEST(Eval, StrictValidationNamesTheStep) {
  Config strict = config();
  strict.enable_strict_validation = true;
  const ConfigScope scope(strict);
  EXPECT_THROW(log(full({3}, -1.0)).eval(), KernelError);
  EXPECT_NO_THROW(log(full({3}, 1.0)).eval());
}

}  // namespace
}  // namespace hearth
