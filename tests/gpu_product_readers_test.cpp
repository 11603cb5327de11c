// Products that several elementwise expressions read: one step, whose results may lie side by side.
#include <gtest/gtest.h>

#include "gpu/matmul.h"
#include "gpu_plans.h"
#include "gpu_steps.h"
#include "hearth/hearth.h"

namespace hearth::gpu {
namespace {

using cpu::random_array;

// ---- kernels

class GpuJoinedResults : public OnTestGpu {
 protected:
  // product * x and product - y, side by side. Sums are whole numbers, however they are added up.
  static void check(MatmulVariant variant, DType dtype, const Shape& a_shape, std::int64_t columns) {
    SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + to_string(a_shape) + ", columns " +
                 std::to_string(columns) + ", variant " + std::to_string(static_cast<int>(variant)));
    const std::size_t axes = a_shape.size() - 2;
    Shape b_shape = a_shape, shape = a_shape, joined = a_shape;
    b_shape[axes] = a_shape.back();
    b_shape.back() = columns;
    shape.back() = columns;
    joined.back() = 2 * columns;
    std::vector<Array> inputs = {random_array(dtype, a_shape, cpu::Lay::dense, 1, -2, 2),
                                 random_array(dtype, b_shape, cpu::Lay::dense, 2, -2, 2)};
    const Array product = cpu::run_step(cpu::make_matmul, Op::matmul, {}, inputs, dtype, shape);
    inputs.push_back(random_array(dtype, shape, cpu::Lay::dense, 3, -2, 2));
    inputs.push_back(random_array(dtype, shape, cpu::Lay::dense, 4, -2, 2));
    Array expected = cpu::empty_array(dtype, joined);
    for (std::int64_t i = 0; i < product.count(); ++i) {
      const std::int64_t to = i / columns * 2 * columns + i % columns;
      expected.set(to, product.get(i) * inputs[2].get(i));
      expected.set(to + columns, product.get(i) - inputs[3].get(i));
    }
    Step step = step_of(Op::matmul, {}, inputs, expected.layout);
    step.domain = shape;
    step.joined = 2;
    step.expression.inputs = {dtype, dtype, dtype};
    step.expression.instructions = {{Op::mul, dtype, dtype, {0, 1, 0}}, {Op::sub, dtype, dtype, {0, 2, 0}}};
    step.expression.outputs = {3, 4};
    const auto kernel = make_matmul(*test_gpu(), step, variant);
    expect_close(run_on_gpu(*test_gpu(), step, *kernel, inputs), expected, 0);
  }
};

TEST_F(GpuJoinedResults, OfAnyKernel) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    check(MatmulVariant::automatic, dtype, {70, 40}, 48);
    check(MatmulVariant::automatic, dtype, {33, 17}, 19);
    check(MatmulVariant::automatic, dtype, {3, 17, 24}, 9);
    check(MatmulVariant::automatic, dtype, {20, 2100}, 24);  // parts of K
  }
}

TEST_F(GpuJoinedResults, OfWarpgroups) {
  if (unit() != MatrixUnit::wgmma90) GTEST_SKIP() << "no wgmma";
  for (const MatmulVariant variant : {MatmulVariant::automatic, MatmulVariant::wgmma_128,
                                      MatmulVariant::wgmma_192, MatmulVariant::wgmma_256}) {
    check(variant, DType::bf16, {500, 512}, 1536);
    check(variant, DType::f16, {130, 72}, 40);
    check(variant, DType::bf16, {2, 130, 72}, 200);
    check(variant, DType::bf16, {128, 8192}, 128);  // parts of K
    check(variant, DType::bf16, {3000, 64}, 1200);
  }
}

// ---- plans

using GpuProductReaders = GpuPlans;

std::vector<Tensor> gated_gradients(const std::vector<Tensor>& in, bool together) {
  Tensor x = in[0].detach(), first = in[1].detach(), second = in[2].detach();
  for (Tensor* one : {&x, &first, &second}) one->requires_grad_();
  Tensor y;
  if (together) {
    const Tensor both = linear(x, first);
    const std::int64_t half = both.size(-1) / 2;
    y = linear(silu(narrow(both, -1, 0, half)) * narrow(both, -1, half, half), second);
  } else {
    const std::int64_t half = first.size(0) / 2;
    y = linear(silu(linear(x, narrow(first, 0, 0, half))) * linear(x, narrow(first, 0, half, half)), second);
  }
  std::vector<Tensor> results = gradients(sum(y * in[3]), {x, first, second});
  results.insert(results.begin(), y);
  return results;
}

TEST_F(GpuProductReaders, GradientsOfGatedUnits) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const bool together : {true, false}) {
      const std::vector<Tensor> inputs = {numbers({3, 13, 24}, dtype), numbers({2 * 40, 24}, dtype),
                                          numbers({24, 40}, dtype), numbers({3, 13, 24}, dtype)};
      const auto graph = [&](const std::vector<Tensor>& in) { return gated_gradients(in, together); };
      compare_all(together ? "halves" : "two products", inputs, tolerance(dtype), graph);
      for (const Device device : gpus()) {
        std::vector<Tensor> moved;
        for (const Tensor& one : inputs) moved.push_back(one.to(device));
        eval(moved);
        const std::vector<Tensor> results = graph(moved);
        EXPECT_EQ(found("matmul silu mul silu_slope mul mul concat ", results), together ? 1u : 0u)
            << explain(results);
        EXPECT_EQ(found("matmul silu mul silu_slope mul mul ", results), 1u) << explain(results);
      }
    }
}

TEST_F(GpuProductReaders, BecomeOneStep) {
  const std::vector<Tensor> inputs = {numbers({21, 24}, DType::f32), numbers({40, 24}, DType::f32),
                                      numbers({21, 40}, DType::f32), numbers({21, 40}, DType::f32)};
  check("side by side", "matmul mul add concat ", 1, inputs, [](const auto& in) {
    const Tensor p = linear(in[0], in[1]);
    return exp(concat({p * in[2], p + in[3]}, 1)).sum();
  });
  check("in another order", "matmul mul add concat ", 1, inputs, [](const auto& in) {
    const Tensor p = linear(in[0], in[1]);
    const Tensor first = p * in[2], second = p + first;
    return concat({second, first}, 1).sum({1});
  });
  check("twice by one", "matmul mul add ", 1, inputs, [](const auto& in) {
    const Tensor p = linear(in[0], in[1]);
    return matmul(p * in[2] + p, in[3].transpose(0, 1));
  });
  check("along rows", "matmul mul add ", 1, inputs, [](const auto& in) {
    const Tensor p = linear(in[0], in[1]);
    return concat({p * in[2], p + in[3]}, 0);
  });
  check("one elsewhere, too", "matmul mul add ", 1, inputs, [](const auto& in) {
    const Tensor p = linear(in[0], in[1]);
    const Tensor first = p * in[2];
    return concat({first, p + in[3]}, 1).sum({1}) + max(first);
  });
  check("the same twice", "matmul mul add ", 1, inputs, [](const auto& in) {
    const Tensor p = linear(in[0], in[1]);
    const Tensor first = p * in[2], second = p + in[3];
    return concat({first, second, first}, 1).sum({1});
  });
  check("through a reshape", "matmul mul add concat ", 1, inputs, [](const auto& in) {
    const Tensor p = linear(in[0], in[1]).reshape({3, 7, 40});
    const Tensor x = in[2].reshape({3, 7, 40});
    return concat({p * x, p + in[3].reshape({3, 7, 40})}, 2).sum({1});
  });
}

TEST_F(GpuProductReaders, StayStepsOfTheirOwn) {
  const std::vector<Tensor> inputs = {numbers({21, 24}, DType::f32), numbers({40, 24}, DType::f32),
                                      numbers({21, 40}, DType::f32), numbers({40, 40}, DType::f32)};
  check("the product elsewhere", "matmul mul", 0, inputs, [](const auto& in) {
    const Tensor p = linear(in[0], in[1]);
    return matmul(p * in[2], in[3]) + matmul(p + in[2], in[3]) + max(p);
  });
  check("a part of it", "matmul mul", 0, inputs, [](const auto& in) {
    const Tensor p = linear(in[0], in[1]);
    return matmul(p * in[2], in[3]) + max(narrow(p, 1, 0, 20) * 2);
  });
  // What the first one gives is needed for the second one.
  check("one after the other", "matmul mul add", 0, inputs, [](const auto& in) {
    const Tensor p = linear(in[0], in[1]);
    return p + matmul(p * in[2], in[3]);
  });
  const auto asked = [](const std::vector<Tensor>& in) {
    const Tensor p = linear(in[0], in[1]);
    return std::vector<Tensor>{matmul(p * in[2], in[3]), matmul(p + in[2], in[3]), p};
  };
  compare_all("asked for", inputs, 1e-5, asked);
}

// Products of one element: groups that are no more have as many.
TEST_F(GpuProductReaders, OfOneElement) {
  const auto row = [] { return numbers({1, 3}, DType::f32); };
  compare_all("two that meet", {row(), row(), row(), row(), row()}, 1e-5, [](const std::vector<Tensor>& in) {
    const Tensor first = linear(in[0], in[1]), second = linear(in[2], in[3]);
    return std::vector<Tensor>{first * second + second, first + narrow(in[4], 1, 0, 1)};
  });
}

// As in a model: what the matrix unit of sm_90 is used for.
TEST_F(GpuProductReaders, OfAModelsSize) {
  for (const Device device : gpus())
    if (device.kind == DeviceKind::rocm) GTEST_SKIP() << "too much for an emulated chip";
  for (const DType dtype : {DType::bf16, DType::f16})
    compare_all("gradients",
                {numbers({8, 82, 512}, dtype) * 0.1, numbers({3072, 512}, dtype) * 0.2,
                 numbers({512, 1536}, dtype) * 0.2, numbers({8, 82, 512}, dtype)},
                tolerance(dtype), [](const std::vector<Tensor>& in) { return gated_gradients(in, true); });
}

}  // namespace
}  // namespace hearth::gpu
