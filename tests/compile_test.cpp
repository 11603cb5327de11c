// compile(): tracing, replay, captured and assigned variables, random numbers.
#include <gtest/gtest.h>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/random.h"

namespace hearth {
namespace {

TEST(Compile, TracesOncePerSignature) {
  int calls = 0;
  Compiled f = compile([&](const std::vector<Tensor>& a) {
    ++calls;
    return std::vector<Tensor>{a[0] * a[0] + 1};
  });
  EXPECT_EQ(f({tensor<float>({1, 2})})[0].to_vector<float>(), (std::vector<float>{2, 5}));
  EXPECT_EQ(f({tensor<float>({3, 4})})[0].to_vector<float>(), (std::vector<float>{10, 17}));
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(f({tensor<float>({3})})[0].to_vector<float>(), (std::vector<float>{10}));
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(f({tensor<std::int32_t>({3})})[0].to_vector<int>(), (std::vector<int>{10}));
  EXPECT_EQ(f.traces(), 3u);
  EXPECT_EQ(f.last_trace(), 2u);
  f({tensor<float>({5, 6})});
  EXPECT_EQ(f.last_trace(), 0u);
}

TEST(Compile, ReadsCapturedVariablesAnew) {
  Tensor scale = tensor<float>({2});
  Compiled f = compile([&](const std::vector<Tensor>& a) { return std::vector<Tensor>{a[0] * scale}; });
  EXPECT_EQ(f({tensor<float>({5})})[0].item(), 10);
  scale.assign(tensor<float>({3}));
  EXPECT_EQ(f({tensor<float>({5})})[0].item(), 15);
  EXPECT_EQ(f.traces(), 1u);
}

TEST(Compile, AssignsVariablesAtEveryCall) {
  Tensor counter = tensor<float>({0});
  Compiled f = compile([&](const std::vector<Tensor>& a) {
    counter.assign(counter + a[0]);
    return std::vector<Tensor>{counter * 10};
  });
  for (int i = 1; i <= 4; ++i) EXPECT_EQ(f({tensor<float>({1})})[0].item(), 10 * i);
  EXPECT_EQ(counter.item(), 4);
  EXPECT_EQ(f.traces(), 1u);
}

TEST(Compile, ATrainingStepLearns) {
  Tensor w = zeros({3, 1}).eval();
  w.requires_grad_();
  const Tensor rate = tensor<float>({0.1f});
  Compiled step = compile([&](const std::vector<Tensor>& a) {
    const Tensor loss = mse_loss(matmul(a[0], w), a[1]);
    w.zero_grad();
    loss.backward();
    const NoGrad off;
    w.assign(w - rate * w.grad());
    w.zero_grad();
    return std::vector<Tensor>{loss};
  });
  manual_seed(3);
  const Tensor truth = tensor<float>({1, -2, 3}, {3, 1});
  double last = 0;
  for (int i = 0; i < 200; ++i) {
    const Tensor x = randn({32, 3});
    last = step({x, matmul(x, truth)})[0].item();
  }
  EXPECT_LT(last, 1e-5);
  EXPECT_EQ(step.traces(), 1u);
  EXPECT_TRUE(w.requires_grad());
  EXPECT_FALSE(w.grad().defined());
}

TEST(Compile, GradientsLeftByTheFunctionAreThereAfterwards) {
  Tensor w = tensor<float>({2});
  w.requires_grad_();
  Compiled f = compile([&](const std::vector<Tensor>& a) {
    w.zero_grad();
    const Tensor y = sum(w * w * a[0]);
    y.backward();
    return std::vector<Tensor>{y};
  });
  f({tensor<float>({1})});
  EXPECT_EQ(w.grad().item(), 4);
  f({tensor<float>({5})});
  EXPECT_EQ(w.grad().item(), 20);
}

TEST(Compile, GradientsAccumulateOverCalls) {
  Tensor w = tensor<float>({2});
  w.requires_grad_();
  Compiled f = compile([&](const std::vector<Tensor>& a) {
    sum(w * a[0]).backward();
    return std::vector<Tensor>{};
  });
  for (int round = 0; round < 2; ++round) {
    for (int i = 1; i <= 4; ++i) {
      f({tensor<float>({3})});
      EXPECT_EQ(w.grad().item(), 3 * i);
    }
    w.zero_grad();
  }
  EXPECT_EQ(f.traces(), 2u);  // with and without a gradient to begin with
}

TEST(Compile, NewValuesTakeTheMemoryOfOldOnes) {
  Tensor w = copy(zeros({1000})).eval();
  Compiled f = compile([&](const std::vector<Tensor>& a) {
    w.assign(w * 2 + a[0]);
    return std::vector<Tensor>{};
  });
  const Tensor one = ones({1000}).eval();
  f({one});
  const float* before = w.data<float>().data();
  f({one});
  EXPECT_EQ(w.data<float>().data(), before);
  EXPECT_EQ(w.to_vector<float>()[5], 3);
  // Whoever holds the old value keeps it.
  const Tensor kept = w.detach();
  f({one});
  EXPECT_NE(w.data<float>().data(), before);
  EXPECT_EQ(kept.to_vector<float>()[5], 3);
  EXPECT_EQ(w.to_vector<float>()[5], 7);
  const Tensor slice = narrow(w, 0, 10, 5).eval();
  f({one});
  EXPECT_EQ(slice.to_vector<float>()[0], 7);
  EXPECT_EQ(w.to_vector<float>()[10], 15);
}

TEST(Compile, AnOldValueThatIsStillReadIsNotOverwritten) {
  Tensor w = copy(ones({4})).eval();
  Compiled g = compile([&](const std::vector<Tensor>& a) {
    const Tensor old = w.detach();
    w.assign(w + a[0]);
    return std::vector<Tensor>{
        sum(old * cumsum(w, 0))};  // reads the old value after the new one has been used
  });
  for (int i = 1; i <= 3; ++i) {
    const double expected = i * (i + 1) * (1 + 2 + 3 + 4);
    EXPECT_EQ(g({ones({4})})[0].item(), expected);
  }
}

TEST(Compile, RandomNumbersGoOnAsInEagerCode) {
  const auto draw = [](const std::vector<Tensor>& a) {
    return std::vector<Tensor>{a[0] + rand({3}) + randn({3})};
  };
  const Tensor zero = zeros({3}).eval();
  manual_seed(11);
  std::vector<std::vector<float>> eager;
  for (int i = 0; i < 3; ++i) eager.push_back(draw({zero})[0].to_vector<float>());
  manual_seed(11);
  Compiled f = compile(draw);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f({zero})[0].to_vector<float>(), eager[static_cast<std::size_t>(i)]);
  EXPECT_NE(eager[0], eager[1]);
}

TEST(Compile, GeneratorsOfTheFunctionItselfStartAnewEachTime) {
  const auto f = [](const std::vector<Tensor>& in) {
    Generator own(7);
    return std::vector<Tensor>{in[0] + rand({4}, DType::f32, own) + rand({4}, DType::f32, own)};
  };
  Compiled compiled = compile(f);
  const Tensor x = zeros({4}).eval();
  const auto expected = f({x})[0].to_vector<float>();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(compiled({x})[0].to_vector<float>(), expected) << i;
}

TEST(Compile, AGeneratorMayGoAwayBeforeTheFunction) {
  auto generator = std::make_unique<Generator>(7);
  Compiled compiled = compile([&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0] + rand({4}, DType::f32, *generator)};
  });
  const Tensor x = zeros({4}).eval();
  compiled({x});
  generator.reset();
  Generator same(7);
  rand({4}, DType::f32, same);
  EXPECT_EQ(compiled({x})[0].to_vector<float>(), rand({4}, DType::f32, same).to_vector<float>());
}

TEST(Compile, AFunctionThatThrowsHasChangedNothing) {
  Tensor w = tensor<float>({1, 2, 3}), v = tensor<float>({2}).requires_grad_();
  sum(v * v).backward();
  bool fails = true;
  Compiled step = compile([&](const std::vector<Tensor>& in) {
    w.assign(w + in[0]);
    sum(v * 5.0).backward();
    if (fails) throw std::runtime_error("no");
    return std::vector<Tensor>{};
  });
  const Tensor one = ones({3}).eval();
  EXPECT_THROW(step({one}), std::runtime_error);
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(v.grad().to_vector<float>(), (std::vector<float>{4}));
  fails = false;
  step({one});
  EXPECT_EQ(w.to_vector<float>(), (std::vector<float>{2, 3, 4}));
  EXPECT_EQ(v.grad().to_vector<float>(), (std::vector<float>{9}));
}

TEST(Compile, AnArgumentThatIsAlsoAssignedIsReadAsItWas) {
  Tensor w = arange(6).to(DType::f32).eval(), v = zeros({6}).eval();
  Compiled step = compile([&](const std::vector<Tensor>& in) {
    w.assign(w + 1.0);
    v.assign(cumsum(flip(in[0], {0}), 0));
    return std::vector<Tensor>{};
  });
  for (int i = 0; i < 3; ++i) {
    const auto expected = cumsum(flip(copy(w), {0}), 0).to_vector<float>();
    step({w});
    EXPECT_EQ(v.to_vector<float>(), expected) << i;
  }
}

TEST(Compile, ANumberThatWasAssignedIsAVariableStill) {
  Tensor rate = full({}, 0.1).eval();
  rate.assign(0.25);
  Compiled scale = compile([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{in[0] * rate}; });
  const Tensor one = ones({1}).eval();
  EXPECT_EQ(scale({one})[0].item(), 0.25);
  rate.assign(0.5);
  EXPECT_EQ(scale({one})[0].item(), 0.5);
  EXPECT_EQ((ones({1}, DType::f16) * rate).dtype(), DType::f32);
}

TEST(Compile, WhatNoLongerLearnsIsLeftAlone) {
  Tensor w = tensor<float>({1}).requires_grad_();
  Compiled step = compile([&](const std::vector<Tensor>& in) {
    const Tensor loss = sum(w * in[0]);
    if (w.requires_grad()) w.assign(w - gradients(loss, {w})[0]);
    return std::vector<Tensor>{loss};
  });
  const Tensor two = tensor<float>({2}).eval();
  step({two});
  EXPECT_EQ(w.item(), -1);
  w.requires_grad_(false);
  step({two});
  EXPECT_EQ(w.item(), -1);
}

TEST(Compile, GeneratorsOfOneSeedAreToldApart) {
  Generator a(5), b(5);
  Compiled both = compile([&](const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0] + rand({3}, DType::f32, a), in[0] + rand({3}, DType::f32, b)};
  });
  const Tensor x = zeros({3}).eval();
  both({x});
  b.seed(77);
  Generator same(77);
  EXPECT_EQ(both({x})[1].to_vector<float>(), rand({3}, DType::f32, same).to_vector<float>());
}

TEST(Compile, AskingForAValueWhileTracingIsAnError) {
  Compiled f = compile([](const std::vector<Tensor>& a) {
    if (a[0].item() > 0) return std::vector<Tensor>{a[0]};
    return std::vector<Tensor>{a[0] * 2};
  });
  EXPECT_THROW(f({tensor<float>({1})}), ValueError);
}

TEST(Compile, AnArgumentCanBeAResult) {
  Compiled f = compile([](const std::vector<Tensor>& a) {
    return std::vector<Tensor>{a[0], a[0].reshape({2, 2})};
  });
  const auto out = f({tensor<float>({1, 2, 3, 4})});
  EXPECT_EQ(out[0].to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(out[1].shape(), (Shape{2, 2}));
}

TEST(Compile, NestedFunctionsBecomePartOfTheOuterOne) {
  Compiled inner = compile([](const std::vector<Tensor>& a) { return std::vector<Tensor>{a[0] + 1}; });
  Compiled outer =
      compile([&](const std::vector<Tensor>& a) { return std::vector<Tensor>{inner(a)[0] * 2}; });
  EXPECT_EQ(outer({tensor<float>({1})})[0].item(), 4);
}

// A function may return what it assigns; what was returned stays when the next call assigns again.
TEST(Compile, ReturnsWhatWasAssigned) {
  Tensor counter = zeros({3}).eval();
  Compiled step = compile([&](const std::vector<Tensor>& in) {
    counter.assign(counter + in[0]);
    return std::vector<Tensor>{counter, in[0]};
  });
  const Tensor one = ones({3}).eval();
  const auto first = step({one}), second = step({one});
  EXPECT_EQ(counter.to_vector<float>(), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(second[0].to_vector<float>(), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(first[0].to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_EQ(second[1].to_vector<float>(), (std::vector<float>{1, 1, 1}));
}

}  // namespace
}  // namespace hearth
