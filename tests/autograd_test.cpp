// Gradients: accumulation, leaves, modes, higher orders.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"

namespace hearth {
namespace {

Tensor leaf(std::vector<float> values) {
  Tensor x = tensor(values);
  return x.requires_grad_();
}

TEST(Autograd, BackwardFillsAndAccumulates) {
  Tensor x = leaf({1, 2, 3});
  sum(x * x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{2, 4, 6}));
  sum(x * x).backward();
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{4, 8, 12}));
  x.zero_grad();
  EXPECT_FALSE(x.grad().defined());
}

TEST(Autograd, HandlesOfOneVariableShareTheGradient) {
  Tensor x = leaf({3});
  Tensor same = x;
  (same * 2).backward();
  EXPECT_EQ(x.grad().item(), 2);
}

// The derivative of (the slopes of f, weighted) in a direction, against a difference of slopes that were
// computed without a graph.
TEST(Autograd, SecondDerivativesOfComposites) {
  struct Case {
    const char* name;
    Shape shape;
    std::function<Tensor(const Tensor&)> f;
  };
  const auto numbers = [](const Shape& shape, double phase) {
    return sin(reshape(arange(0, static_cast<double>(element_count(shape)), 1, DType::f64), shape) * 1.7 +
               phase);
  };
  const Tensor weight = numbers({5}, 2).eval(), bias = numbers({5}, 3).eval();
  const Tensor filter = numbers({3, 2, 2, 2}, 4).eval();
  const Tensor classes = tensor<std::int64_t>({4, 0, 2});
  PoolOptions pool{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}};
  const std::vector<Case> cases = {
      {"layer_norm", {3, 5}, [&](const Tensor& x) { return layer_norm(x, {5}, weight, bias); }},
      {"layer_norm without parameters", {3, 5}, [&](const Tensor& x) { return layer_norm(x, {5}); }},
      {"layer_norm by its weight", {5}, [&](const Tensor& w) { return layer_norm(w * weight, {5}, w, w); }},
      {"rms_norm", {2, 3, 5}, [&](const Tensor& x) { return rms_norm(x, weight); }},
      {"rms_norm without a weight", {3, 5}, [&](const Tensor& x) { return rms_norm(x); }},
      {"max_pool2d", {1, 2, 5, 4}, [&](const Tensor& x) { return square(max_pool2d(square(x), pool)); }},
      {"avg_pool2d", {1, 2, 5, 4}, [&](const Tensor& x) { return square(avg_pool2d(x, pool)); }},
      {"conv2d", {1, 2, 5, 4}, [&](const Tensor& x) { return square(conv2d(x, filter)); }},
      {"softmax", {3, 5}, [&](const Tensor& x) { return softmax(x); }},
      {"log_softmax", {3, 5}, [&](const Tensor& x) { return log_softmax(x, 0); }},
      {"cross_entropy", {3, 5}, [&](const Tensor& x) { return cross_entropy(x, classes); }},
      {"attention", {1, 2, 3, 4}, [&](const Tensor& x) { return attention(x, square(x), x * 0.5); }},
      {"sort", {3, 5}, [&](const Tensor& x) { return square(sort(x)); }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.name);
    const Tensor at = numbers(one.shape, 0).eval(), along = numbers(one.shape, 1).eval();
    const Tensor weights = numbers(one.shape, 5).eval();
    const auto weighted_slopes = [&](Tensor x, bool graph) {
      const Tensor y = one.f(x);
      const Tensor slopes = gradients(sum(y * numbers(y.shape(), 6)), {x}, {}, graph)[0];
      return sum(slopes * weights);
    };
    const auto by_difference = [&](double step) {
      Tensor up = (at + step * along).eval(), down = (at - step * along).eval();
      return (weighted_slopes(up.requires_grad_(), false).item() -
              weighted_slopes(down.requires_grad_(), false).item()) /
             (2 * step);
    };
    Tensor x = copy(at).eval();
    x.requires_grad_();
    const double got = sum(gradients(weighted_slopes(x, true), {x})[0] * along).item();
    EXPECT_NEAR(got, by_difference(1e-5), 1e-6 * std::max(1.0, std::abs(got)));
  }
}

// Against differences of the derivative one below.
TEST(Autograd, HigherDerivativesOfActivations) {
  using Function = Tensor (*)(const Tensor&);
  for (const Function f : {Function(silu), Function(gelu), Function(gelu_tanh), Function(mish)}) {
    const auto derivative = [&](double at, int order) {
      Tensor x = full({}, at, DType::f64);
      x.requires_grad_();
      Tensor y = f(x);
      for (int i = 0; i < order; ++i) y = gradients(y, {x}, {}, true)[0];
      return y.item<double>();
    };
    for (const double at : {-2.1, -0.4, 0.3, 1.7})
      for (const int order : {1, 2, 3}) {
        constexpr double step = 1e-5;
        const double slope =
            (derivative(at + step, order - 1) - derivative(at - step, order - 1)) / (2 * step);
        EXPECT_NEAR(derivative(at, order), slope, 1e-6) << at << " order " << order;
      }
  }
}

// Gradients of slices that divide a value are joined; all others are added up.
TEST(Autograd, SlicesOfAValue) {
  const auto gradient = [](const std::function<Tensor(const Tensor&)>& f) {
    Tensor x = leaf({1, 2, 3, 4});
    f(x).backward();
    return x.grad().to_vector<float>();
  };
  using Values = std::vector<float>;
  const auto part = [](const Tensor& x, std::int64_t start, std::int64_t length, double factor) {
    return sum(narrow(x, 0, start, length)) * factor;
  };
  EXPECT_EQ(gradient([&](const Tensor& x) { return part(x, 2, 2, 5) + part(x, 0, 2, 3); }),
            (Values{3, 3, 5, 5}));
  EXPECT_EQ(gradient([&](const Tensor& x) { return part(x, 0, 3, 3) + part(x, 2, 2, 5); }),
            (Values{3, 3, 8, 5}));
  EXPECT_EQ(gradient([&](const Tensor& x) { return part(x, 0, 1, 3) + part(x, 3, 1, 5); }),
            (Values{3, 0, 0, 5}));
  EXPECT_EQ(gradient([&](const Tensor& x) { return part(x, 0, 2, 3) + part(x, 2, 2, 5) + sum(x); }),
            (Values{4, 4, 6, 6}));
  EXPECT_EQ(gradient([&](const Tensor& x) { return part(x, 0, 4, 3) + part(x, 0, 4, 5); }),
            (Values{8, 8, 8, 8}));
  EXPECT_EQ(gradient([&](const Tensor& x) {
              return sum(x.slice({{0, 4, 2}})) * 3 + sum(x.slice({{1, 4, 2}})) * 5;
            }),
            (Values{3, 5, 3, 5}));
  // Along two axes: quarters are not side by side along one.
  EXPECT_EQ(gradient([&](const Tensor& x) {
              const Tensor square = x.reshape({2, 2});
              return sum(narrow(square, 0, 0, 1)) * 3 + sum(narrow(square, 1, 1, 1)) * 5;
            }),
            (Values{3, 8, 0, 5}));
  // The second derivative goes through what was joined.
  Tensor x = leaf({1, 2, 3, 4});
  const Tensor halves = sum(pow(narrow(x, 0, 0, 2), 3.0)) + sum(pow(narrow(x, 0, 2, 2), 2.0));
  const Tensor first = gradients(halves, {x}, {}, true)[0];
  EXPECT_EQ(first.to_vector<float>(), (Values{3, 12, 6, 8}));
  EXPECT_EQ(gradients(sum(first), {x})[0].to_vector<float>(), (Values{6, 12, 2, 2}));
}

TEST(Autograd, AValueUsedTwiceGetsBothGradients) {
  Tensor x = leaf({2});
  const Tensor y = x * 3;
  (y * y + y).backward();
  EXPECT_EQ(x.grad().item(), 3 * (2 * 6 + 1));
}

TEST(Autograd, BroadcastOperandsGetSums) {
  Tensor row = leaf({1, 2, 3});
  Tensor x = ones({4, 3});
  sum(x * row).backward();
  EXPECT_EQ(row.grad().shape(), (Shape{3}));
  EXPECT_EQ(row.grad().to_vector<float>(), (std::vector<float>{4, 4, 4}));
}

TEST(Autograd, NoGradRecordsNothing) {
  Tensor x = leaf({1});
  const NoGrad off;
  EXPECT_FALSE((x * 2).requires_grad());
}

TEST(Autograd, DetachCuts) {
  Tensor x = leaf({2});
  (x * (x * x).detach()).backward();
  EXPECT_EQ(x.grad().item(), 4);
}

TEST(Autograd, BackwardAfterTheValueHasBeenRead) {
  Tensor x = leaf({2});
  const Tensor y = exp(x) * x;
  EXPECT_NEAR(y.item(), 14.778, 1e-3);
  y.backward();
  EXPECT_NEAR(x.grad().item(), std::exp(2.0) * 3, 1e-4);
}

TEST(Autograd, AssignKeepsTheLeaf) {
  Tensor x = leaf({2});
  {
    const NoGrad off;
    x.assign(x * 5);
  }
  EXPECT_TRUE(x.requires_grad());
  (x * x).backward();
  EXPECT_EQ(x.grad().item(), 20);
  EXPECT_THROW(x.assign(zeros({2})), ShapeError);
}

TEST(Autograd, AssignDoesNotTouchOtherUsersOfTheValue) {
  Tensor x = leaf({2});
  const Tensor value = tensor<float>({7});
  x.assign(value);
  EXPECT_TRUE(x.requires_grad());
  EXPECT_FALSE(value.requires_grad());
  const Tensor before = x * 1;  // of the old value, whatever comes
  x.assign(tensor<float>({100}));
  EXPECT_EQ(before.item(), 7);
}

TEST(Autograd, GradientsOfGradients) {
  Tensor x = leaf({2});
  const Tensor y = x * x * x;
  const Tensor first = gradients(y, {x}, {}, true)[0];
  const Tensor second = gradients(first, {x}, {}, true)[0];
  EXPECT_EQ(first.item(), 12);
  EXPECT_EQ(second.item(), 12);
  EXPECT_EQ(gradients(second, {x})[0].item(), 6);
}

TEST(Autograd, GradientsOfInnerValues) {
  Tensor x = leaf({2});
  const Tensor h = x * 3;
  const Tensor y = h * h;
  EXPECT_EQ(gradients(y, {h})[0].item(), 12);
}

TEST(Autograd, IndependentInputsGetZeros) {
  Tensor x = leaf({2}), z = leaf({1});
  EXPECT_EQ(gradients(x * 2, {z})[0].item(), 0);
}

TEST(Autograd, ValueAndGrad) {
  const auto f = value_and_grad([](const std::vector<Tensor>& a) { return sum(a[0] * a[1]); });
  const auto [value, grads] = f({tensor<float>({1, 2}), tensor<float>({3, 4})});
  EXPECT_EQ(value.item(), 11);
  EXPECT_EQ(grads[0].to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_EQ(grads[1].to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(Autograd, AGradientThatWasNeverComputedIsFreedWithItsLeaf) {
  reset_peak_memory();
  const auto before = memory_stats().allocated;
  {
    Tensor x = copy(ones({100000})).eval();
    x.requires_grad_();
    sum(x * x).backward();  // the gradient refers to x, and x to the gradient
  }
  EXPECT_EQ(memory_stats().allocated, before);
}

TEST(Autograd, Errors) {
  Tensor x = leaf({1, 2});
  EXPECT_THROW((x * 2).backward(), ShapeError);
  EXPECT_THROW((x * 2).backward(ones({3})), ShapeError);
  EXPECT_THROW(ones({1}).backward(), ValueError);
  EXPECT_THROW(arange(3).requires_grad_(), DTypeError);
}

TEST(Autograd, IntegersStopGradients) {
  Tensor x = leaf({1.5f});
  const Tensor y = x.to(DType::i32);
  EXPECT_FALSE(y.requires_grad());
}

TEST(Autograd, CastPassesTheGradientInTheInputsType) {
  Tensor x = leaf({1.5f});
  sum(x.to(DType::bf16) * 2).backward();
  EXPECT_EQ(x.grad().dtype(), DType::f32);
  EXPECT_EQ(x.grad().item(), 2);
}

}  // namespace
}  // namespace hearth
