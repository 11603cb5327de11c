// Products that go on with the two halves of their columns, silu(gate) * up: the kernels, and which graphs
// become such a step.
#include <gtest/gtest.h>

#include "gpu/matmul.h"
#include "gpu_plans.h"
#include "gpu_steps.h"
#include "hearth/hearth.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

// ---- kernels

class GpuHalves : public OnTestGpu {
 protected:
  // (left half - right half) + row of numbers, of a product whose right operand lies along K. Small whole
  // numbers: every order of summation gives the same.
  static void check(MatmulVariant variant, DType dtype, const Shape& a_shape, std::int64_t half,
                    Lay lay_a = Lay::dense) {
    SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + to_string(a_shape) + ", halves of " +
                 std::to_string(half) + ", variant " + std::to_string(static_cast<int>(variant)) +
                 " layout " + std::to_string(static_cast<int>(lay_a)));
    const std::size_t axes = a_shape.size() - 2;
    Shape b_shape = a_shape, product_shape = a_shape, shape = a_shape;
    b_shape[axes] = 2 * half;  // as it lies in memory
    product_shape.back() = 2 * half;
    shape.back() = half;
    Array b = random_array(dtype, b_shape, Lay::dense, 2, -4, 4);
    std::swap(b.layout.shape[axes], b.layout.shape[axes + 1]);
    std::swap(b.layout.strides[axes], b.layout.strides[axes + 1]);
    const Array added = random_array(dtype, {half}, Lay::dense, 3, -4, 4);
    std::vector<Array> inputs = {random_array(dtype, a_shape, lay_a, 1, -4, 4), std::move(b)};
    const Array product = cpu::run_step(cpu::make_matmul, Op::matmul, {}, inputs, dtype, product_shape);
    Array difference = cpu::empty_array(dtype, shape), expected = cpu::empty_array(dtype, shape);
    for (std::int64_t i = 0; i < expected.count(); ++i) {
      const std::int64_t row = i / half, column = i % half;
      difference.set(i, product.get(row * 2 * half + column) - product.get(row * 2 * half + half + column));
      expected.set(i, difference.get(i) + added.get(column));
    }

    inputs.push_back(added);
    inputs.back().layout.shape = shape;
    inputs.back().layout.strides.assign(shape.size(), 0);
    inputs.back().layout.strides.back() = 1;
    Step step = step_of(Op::matmul, {}, inputs, expected.layout);
    step.halves = true;
    step.expression.inputs = {dtype, dtype, dtype};
    step.expression.instructions = {{Op::sub, dtype, dtype, {0, 1, 0}}, {Op::add, dtype, dtype, {3, 2, 0}}};
    step.expression.outputs = {4};
    const auto kernel = make_matmul(*test_gpu(), step, variant);
    expect_close(run_on_gpu(*test_gpu(), step, *kernel, inputs), expected, 0);

    step.expression.outputs = {4, 3, 0, 1};
    step.joined = 2;
    step.outputs = {expected.layout, difference.layout, product.layout};
    const auto keeping = make_matmul(*test_gpu(), step, variant);
    const std::vector<Array> got = run_all_on_gpu(*test_gpu(), step, *keeping, inputs);
    expect_close(got[0], expected, 0);
    expect_close(got[1], difference, 0);
    expect_close(got[2], product, 0);
  }
};

TEST_F(GpuHalves, OfTilesByEachThread) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const MatmulVariant variant : {MatmulVariant::fma_small, MatmulVariant::fma_large}) {
      check(variant, dtype, {129, 40}, 65);
      check(variant, dtype, {33, 17}, 3);
    }
  check(MatmulVariant::fma_small, DType::f16, {65, 40}, 33, Lay::transposed);
}

TEST_F(GpuHalves, OfTilesOfTheMatrixUnit) {
  if (unit() == MatrixUnit::none) GTEST_SKIP() << "no matrix unit";
  for (const MatmulVariant variant : {MatmulVariant::mma_small, MatmulVariant::mma_large}) {
    check(variant, DType::bf16, {128, 64}, 128);  // whole packets and tiles
    check(variant, DType::bf16, {136, 72}, 136);  // whole packets
    check(variant, DType::bf16, {33, 47}, 35);    // elements
    check(variant, DType::f16, {65, 72}, 1);
    check(variant, DType::f16, {140, 72}, 200, Lay::transposed);
  }
}

TEST_F(GpuHalves, OfStacks) {
  check(MatmulVariant::automatic, DType::f32, {3, 17, 33}, 9);
  check(MatmulVariant::automatic, DType::bf16, {2, 3, 20, 8}, 20);
}

// Halves that end in the middle of a tile, more steps along K than stages, more tiles than blocks.
TEST_F(GpuHalves, OfWarpgroups) {
  if (unit() != MatrixUnit::wgmma90) GTEST_SKIP() << "no wgmma";
  for (const MatmulVariant variant :
       {MatmulVariant::wgmma_128, MatmulVariant::wgmma_192, MatmulVariant::wgmma_256}) {
    check(variant, DType::bf16, {256, 512}, 384);
    check(variant, DType::bf16, {300, 520}, 200);
    check(variant, DType::f16, {130, 72}, 36);  // runs that are not whole
    check(variant, DType::f16, {64, 64}, 129);
    check(variant, DType::bf16, {200, 136}, 72, Lay::transposed);
    check(variant, DType::bf16, {3, 136, 72}, 136);
    check(variant, DType::bf16, {2000, 64}, 1200);
  }
}

TEST_F(GpuHalves, LieAlongK) {
  Step step;
  step.op = Op::matmul;
  step.domain = {64, 32};
  step.inputs = {{DType::f32, {64, 48}, {48, 1}}, {DType::f32, {48, 64}, {64, 1}}};
  step.outputs = {{DType::f32, {64, 32}, {32, 1}}};
  step.halves = true;
  step.expression.inputs = {DType::f32, DType::f32};
  step.expression.instructions = {{Op::mul, DType::f32, DType::f32, {0, 1, 0}}};
  step.expression.outputs = {2};
  EXPECT_THROW(make_matmul(*test_gpu(), step, MatmulVariant::automatic), KernelError);
}

// ---- plans

class GpuGated : public GpuPlans {
 protected:
  void TearDown() override { set_config(before_); }

  static Tensor half(const Tensor& x, int which) {
    const std::int64_t size = x.shape().back() / 2;
    return narrow(x, -1, which * size, size);
  }
  static Tensor gated(const Tensor& x) { return silu(half(x, 0)) * half(x, 1); }

 private:
  Config before_ = config();
};

constexpr const char* fused = "matmul silu mul ";

TEST_F(GpuGated, IsOneStep) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const Tensor weight = numbers({2 * 75, 40}, dtype);
    check("matrix", fused, 1, {numbers({37, 40}, dtype), weight},
          [](const auto& in) { return gated(linear(in[0], in[1])); });
    check("sequences", fused, 1, {numbers({3, 11, 40}, dtype), weight},
          [](const auto& in) { return gated(linear(in[0], in[1])); });
  }
  check("stack", fused, 1, {numbers({2, 19, 24}, DType::f32), numbers({2, 30, 24}, DType::f32)},
        [](const auto& in) { return gated(matmul(in[0], transpose(in[1], 1, 2))); });
}

TEST_F(GpuGated, GoesOnWithFurtherInputs) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const std::vector<Tensor> inputs = {numbers({2, 21, 32}, dtype), numbers({2 * 40, 32}, dtype),
                                        numbers({40}, dtype), numbers({40}, dtype),
                                        numbers({2, 21, 40}, dtype)};
    check("biases and residual", "matmul add gelu add mul add ", 1, inputs, [](const auto& in) {
      const Tensor x = linear(in[0], in[1]);
      return gelu(half(x, 0) + in[2]) * (half(x, 1) + in[3]) + in[4];
    });
    check("halves the other way round, one twice", "matmul ", 1, inputs, [](const auto& in) {
      const Tensor x = linear(in[0], in[1]);
      return half(x, 1) * sigmoid(half(x, 0)) * half(x, 0);
    });
  }
}

// Two results of one step, and what comes of the step through a reshape.
TEST_F(GpuGated, MayHaveSeveralResults) {
  const std::vector<Tensor> inputs = {numbers({4, 9, 16}, DType::f32), numbers({48, 16}, DType::f32)};
  compare_all("two results", inputs, 1e-5, [](const auto& in) {
    const Tensor y = gated(linear(in[0], in[1]));
    return std::vector<Tensor>{y, reshape(y, {36, 24}) * 2};
  });
}

TEST_F(GpuGated, StaysTwoStepsWhereMoreIsRead) {
  const std::vector<Tensor> inputs = {numbers({38, 40}, DType::f32), numbers({48, 40}, DType::f32)};
  check("the product elsewhere", fused, 0, inputs, [](const auto& in) {
    const Tensor x = linear(in[0], in[1]);
    return gated(x) + sum(x);
  });
  check("a half elsewhere", fused, 0, inputs, [](const auto& in) {
    const Tensor x = linear(in[0], in[1]);
    return gated(x) + max(half(x, 0));
  });
  check("one half", "matmul silu", 0, inputs,
        [](const auto& in) { return silu(half(linear(in[0], in[1]), 0)); });
  check("other parts", "matmul silu", 0, inputs, [](const auto& in) {
    const Tensor x = linear(in[0], in[1]);
    return silu(narrow(x, 1, 0, 24)) * narrow(x, 1, 23, 24);
  });
  check("halves of rows", "matmul silu", 0, inputs, [](const auto& in) {
    const Tensor x = transpose(linear(in[1], in[0]), 0, 1);
    return gated(x);
  });
  check("a half before", "matmul silu mul", 0, inputs, [](const auto& in) {
    const Tensor x = linear(in[0], in[1]);
    return gated(x) * matmul(half(x, 1), transpose(half(x, 0), 0, 1)).sum();
  });
}

// Then the product is stored as well.
TEST_F(GpuGated, IsOneStepWhereMoreIsReadLater) {
  const std::vector<Tensor> inputs = {numbers({38, 40}, DType::f32), numbers({48, 40}, DType::f32)};
  const auto expect_kept = [&](const char* what, const auto& graph) {
    compare_all(what, inputs, 1e-5, graph);
    for (const Device device : gpus()) {
      const std::vector<Tensor> results = graph({inputs[0].to(device), inputs[1].to(device)});
      EXPECT_EQ(found("matmul silu mul kept", results), 1u) << what << explain(results);
    }
  };
  expect_kept("a half asked for", [](const std::vector<Tensor>& in) {
    const Tensor x = linear(in[0], in[1]);
    return std::vector<Tensor>{gated(x), half(x, 1)};
  });
  expect_kept("the product asked for", [](const std::vector<Tensor>& in) {
    const Tensor x = linear(in[0], in[1]);
    return std::vector<Tensor>{gated(x), x};
  });
  expect_kept("read by a product", [](const std::vector<Tensor>& in) {
    const Tensor x = linear(in[0], in[1]), y = gated(x);
    return std::vector<Tensor>{y, matmul(transpose(y, 0, 1), half(x, 0))};
  });
}

TEST_F(GpuGated, StaysTwoStepsWhereKernelsDoNotGoOn) {
  const auto graph = [](const auto& in) { return gated(matmul(in[0], in[1])); };
  const auto weight = [](std::int64_t depth) { return transpose(numbers({32, depth}, DType::f32), 0, 1); };
  check("weights across K", "matmul silu", 0, {numbers({37, 40}, DType::f32), numbers({40, 32}, DType::f32)},
        graph);
  check("few rows", "matmul silu", 0, {numbers({2, 40}, DType::f32), weight(40)}, graph);
  check("a long sum", "matmul silu", 0, {numbers({37, 2048}, DType::f32), weight(2048)}, graph);
  check("nothing", "matmul silu", 0, {numbers({0, 40}, DType::f32), weight(40)}, graph);
  Config conservative = config();
  conservative.optimization_level = OptimizationLevel::conservative;
  set_config(conservative);
  check("without fusion", "matmul silu", 0, {numbers({37, 40}, DType::f32), weight(40)}, graph);
}

TEST_F(GpuGated, HasGradients) {
  for (const DType dtype : {DType::f32, DType::bf16})
    compare_all("gradients", {numbers({37, 40}, dtype), numbers({48, 40}, dtype)}, tolerance(dtype),
                [](const std::vector<Tensor>& in) {
                  Tensor x = in[0].detach(), weight = in[1].detach();
                  x.requires_grad_();
                  weight.requires_grad_();
                  const Tensor y = gated(linear(x, weight));
                  sum(y * y).backward();
                  return std::vector<Tensor>{y, x.grad(), weight.grad()};
                });
}

// The gradients read gate and up, which are stored; silu(gate) is computed again instead.
TEST_F(GpuGated, StoresNoMoreThanTheProductForGradients) {
  for (const Device device : gpus()) {
    Tensor x = numbers({37, 40}, DType::bf16).to(device), weight = numbers({48, 40}, DType::bf16).to(device),
           down = numbers({16, 24}, DType::bf16).to(device);
    x.requires_grad_();
    weight.requires_grad_();
    down.requires_grad_();
    const Tensor y = linear(gated(linear(x, weight)), down);
    sum(y * y).backward();
    const std::vector<Tensor> results = {y, x.grad(), weight.grad(), down.grad()};
    const std::string plan = explain(results);
    EXPECT_EQ(found("matmul silu mul kept", results), 1u) << plan;
    const std::string step = plan.substr(plan.find("matmul silu mul kept"));
    EXPECT_NE(step.substr(0, step.find('\n')).find("-> 2 outputs"), std::string::npos) << plan;
    EXPECT_EQ(found("silu", results), 3u) << plan;  // with silu_slope and silu behind the gradient's product
  }
}

// Two of them that meet: one is part of the step, the other comes before it.
TEST_F(GpuGated, OneProductPerStep) {
  check("sum of two", "matmul silu mul", 1,
        {numbers({37, 40}, DType::f32), numbers({48, 40}, DType::f32), numbers({48, 40}, DType::f32)},
        [](const auto& in) { return gated(linear(in[0], in[1])) + gated(linear(in[0], in[2])); });
}

// As large as in a model: what the matrix unit of sm_90 is used for.
TEST_F(GpuGated, OfAModelsSize) {
  for (const Device device : gpus())
    if (device.kind == DeviceKind::rocm) GTEST_SKIP() << "too much for an emulated chip";
  for (const DType dtype : {DType::bf16, DType::f16})
    check("feed-forward", fused, 1, {numbers({8, 97, 512}, dtype), numbers({2 * 1536, 512}, dtype)},
          [](const auto& in) { return gated(linear(in[0], in[1])); });
}

}  // namespace
}  // namespace hearth::gpu
