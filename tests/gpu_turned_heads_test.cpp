// Products whose columns are heads that rope turns where they lie: the kernels, and which graphs become such
// a step.
#include <gtest/gtest.h>

#include "cpu/rope.h"
#include "gpu/turned_product.h"
#include "gpu_plans.h"
#include "gpu_steps.h"
#include "hearth/hearth.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

// ---- kernels

class GpuTurnedProduct : public OnTestGpu {
 protected:
  // Sequences of `time` rows whose product with a right operand along K has `columns` columns; heads of
  // `size` from `begin` to `end` are turned. Sums are whole numbers, however they are added up.
  struct Case {
    std::int64_t sequences, time, depth, columns, size, begin, end;
    bool interleaved = false;
    bool frequencies = false;
    Lay lay_a = Lay::dense;
  };
  static void check(MatmulVariant variant, DType dtype, const Case& c) {
    SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(c.sequences * c.time) + " x " +
                 std::to_string(c.columns) + " x " + std::to_string(c.depth) + ", heads of " +
                 std::to_string(c.size) + ", variant " + std::to_string(static_cast<int>(variant)));
    const std::int64_t rows = c.sequences * c.time;
    Array b = random_array(dtype, {c.columns, c.depth}, Lay::dense, 2, -2, 2);
    std::swap(b.layout.shape[0], b.layout.shape[1]);
    std::swap(b.layout.strides[0], b.layout.strides[1]);
    std::vector<Array> inputs = {random_array(dtype, {rows, c.depth}, c.lay_a, 1, -2, 2), std::move(b),
                                 cpu::empty_array(DType::i64, {c.time})};
    for (std::int64_t i = 0; i < c.time; ++i) inputs[2].set(i, static_cast<double>(3 * i + 1));
    if (c.frequencies) {
      inputs.push_back(cpu::empty_array(DType::f64, {c.size / 2}));
      for (std::int64_t i = 0; i < c.size / 2; ++i) inputs[3].set(i, 1.0 / static_cast<double>(i + 1));
    }
    Array expected =
        cpu::run_step(cpu::make_matmul, Op::matmul, {}, {inputs[0], inputs[1]}, dtype, {rows, c.columns});
    const RopeAttributes rope{1000, c.interleaved, false};
    turn(expected, c, rope, inputs);

    Step step = step_of(Op::matmul, {}, inputs, expected.layout);
    step.turned = TurnedHeads{rope, c.time, c.size, c.begin, c.end};
    const auto kernel = make_turned_product(*test_gpu(), step, variant);
    expect_close(run_on_gpu(*test_gpu(), step, *kernel, inputs), expected,
                 dtype == DType::f32   ? 1e-4
                 : dtype == DType::f64 ? 1e-12
                                       : 1e-2);
  }

 private:
  // By the CPU's rope.
  static void turn(Array& product, const Case& c, const RopeAttributes& rope,
                   const std::vector<Array>& inputs) {
    const std::int64_t heads = (c.end - c.begin) / c.size;
    Array view = product;
    view.origin += c.begin;
    view.layout.shape = {c.sequences, heads, c.time, c.size};
    view.layout.strides = {c.time * c.columns, c.size, c.columns, 1};
    std::vector<Array> all = {view, inputs[2]};
    if (c.frequencies) all.push_back(inputs[3]);
    const Array turned =
        cpu::run_step(cpu::make_rope, Op::rope, rope, all, product.layout.dtype, view.layout.shape);
    for (std::int64_t i = 0; i < turned.count(); ++i) view.set(i, turned.get(i));
    product.memory = view.memory;
  }
};

TEST_F(GpuTurnedProduct, OfAnyKernel) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    check(MatmulVariant::automatic, dtype, {2, 9, 24, 48, 8, 0, 32});
    check(MatmulVariant::automatic, dtype, {2, 9, 24, 48, 8, 16, 48, true});
    check(MatmulVariant::automatic, dtype, {1, 33, 17, 27, 6, 6, 24});  // no packets
    check(MatmulVariant::automatic, dtype, {3, 11, 16, 64, 32, 0, 64, false, true});
  }
}

// Tiles with columns that are turned and others, that end in the middle, more of them than blocks.
TEST_F(GpuTurnedProduct, OfWarpgroups) {
  if (unit() != MatrixUnit::wgmma90) GTEST_SKIP() << "no wgmma";
  for (const MatmulVariant variant : {MatmulVariant::automatic, MatmulVariant::wgmma_128,
                                      MatmulVariant::wgmma_192, MatmulVariant::wgmma_256})
    for (const bool interleaved : {false, true}) {
      check(variant, DType::bf16, {7, 82, 512, 1536, 64, 0, 1024, interleaved});
      check(variant, DType::f16, {1, 300, 136, 448, 64, 64, 320, interleaved, true});
      check(variant, DType::bf16, {50, 41, 64, 1280, 64, 0, 1280, interleaved});
      check(variant, DType::bf16, {2, 68, 72, 192, 64, 0, 128, interleaved, false, Lay::transposed});
      if (variant == MatmulVariant::wgmma_192) continue;  // no whole heads of 128
      check(variant, DType::bf16, {3, 70, 200, 640, 128, 128, 512, interleaved});
    }
  check(MatmulVariant::automatic, DType::bf16, {2, 40, 33, 192, 64, 0, 128});  // not for the copy engine
}

// ---- plans

class GpuTurnedHeads : public GpuPlans {
 protected:
  static constexpr std::int64_t size = 16;
  // Of a product of (sequences, time, features), heads from `first` on as (sequences, count, time, size).
  static Tensor heads(const Tensor& product, std::int64_t first, std::int64_t count) {
    const Shape shape{product.size(0), product.size(1), product.size(2) / size, size};
    return narrow(product.reshape(shape), 2, first, count).transpose(1, 2);
  }
  static Tensor positions(const Tensor& x) { return arange(x.size(-2)).to(x.device()); }
  // A function that turns by positions which all calls share.
  static auto turning(const Tensor& x) {
    return [numbers = positions(x)](const Tensor& heads, double base = 100) {
      return rope(heads, numbers, base);
    };
  }
};

constexpr const char* fused = "matmul rope ";

TEST_F(GpuTurnedHeads, OfQueriesAndKeys) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    const std::vector<Tensor> inputs = {numbers({3, 11, 40}, dtype), numbers({6 * size, 40}, dtype)};
    check("queries, keys, values", fused, 1, inputs, [](const auto& in) {
      const auto turned = turning(in[0]);
      const Tensor all = linear(in[0], in[1]);
      return attention(turned(heads(all, 0, 2)), turned(heads(all, 2, 2)), heads(all, 4, 2));
    });
    check("a product each", fused, 2, {inputs[0], inputs[1], inputs[1] + 1}, [](const auto& in) {
      const auto turned = turning(in[0]);
      const Tensor q = linear(in[0], in[1]), k = linear(in[0], in[2]);
      return attention(turned(heads(q, 0, 6)), turned(heads(k, 0, 6)), heads(linear(in[0], in[1] * 2), 0, 6));
    });
    check("fewer keys", fused, 1, inputs, [](const auto& in) {
      const auto turned = turning(in[0]);
      const Tensor all = linear(in[0], in[1]);
      return attention(turned(heads(all, 0, 4)), turned(heads(all, 4, 1)), heads(all, 5, 1));
    });
  }
}

TEST_F(GpuTurnedHeads, BetweenOtherColumns) {
  check("in the middle", fused, 1, {numbers({2, 17, 24}, DType::f32), numbers({4 * size, 24}, DType::f32)},
        [](const auto& in) {
          const auto turned = turning(in[0]);
          const Tensor all = linear(in[0], in[1]);
          const Tensor middle = turned(heads(all, 1, 2));
          return middle.sum({1}) + heads(all, 0, 1).sum({1}) * heads(all, 3, 1).sum({1});
        });
}

TEST_F(GpuTurnedHeads, HaveGradients) {
  for (const DType dtype : {DType::f32, DType::bf16})
    compare_all("gradients", {numbers({3, 11, 40}, dtype), numbers({6 * size, 40}, dtype)},
                dtype == DType::f32 ? 1e-4 : 3e-2, [](const std::vector<Tensor>& in) {
                  const auto turned = turning(in[0]);
                  Tensor x = in[0].detach(), weight = in[1].detach();
                  x.requires_grad_();
                  weight.requires_grad_();
                  const Tensor all = linear(x, weight);
                  const Tensor y =
                      attention(turned(heads(all, 0, 2)), turned(heads(all, 2, 2)), heads(all, 4, 2));
                  sum(y * y).backward();
                  return std::vector<Tensor>{y, x.grad(), weight.grad()};
                });
}

// Somebody wants columns as they were, or before the last rope, or turned ones as dense memory.
TEST_F(GpuTurnedHeads, StayStepsOfTheirOwn) {
  const std::vector<Tensor> inputs = {numbers({3, 11, 40}, DType::f32), numbers({4 * size, 40}, DType::f32)};
  check("the product elsewhere", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    const Tensor all = linear(in[0], in[1]);
    return turned(heads(all, 0, 2)) + sum(all);
  });
  check("some of the columns elsewhere", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    const Tensor all = linear(in[0], in[1]);
    return turned(heads(all, 0, 2)) * max(heads(all, 1, 2));
  });
  check("two angles", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    const Tensor all = linear(in[0], in[1]);
    return turned(heads(all, 0, 2)) * turned(heads(all, 2, 2), 50);
  });
  check("a gap", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    const Tensor all = linear(in[0], in[1]);
    return turned(heads(all, 0, 1)) * turned(heads(all, 2, 2));
  });
  check("turned twice", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    const Tensor all = linear(in[0], in[1]);
    return turned(heads(all, 0, 2)) * turned(heads(all, 1, 2));
  });
  check("values in front of the ropes", fused, 0, inputs, [](const auto& in) {
    const Tensor all = linear(in[0], in[1]);
    const Tensor values = heads(all, 2, 2);
    return rope(heads(all, 0, 2), positions(values) + argmax(sum(values)), 100);
  });
  check("what is turned in front of another rope", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    const Tensor all = linear(in[0], in[1]);
    return matmul(turned(heads(all, 0, 2)) * 0.25, turned(heads(all, 2, 2)).transpose(2, 3));
  });
  check("sums of what is turned", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    const Tensor all = linear(in[0], in[1]);
    return turned(heads(all, 0, 2)).sum({1}) + turned(heads(all, 2, 2)).sum({1});
  });
  check("attention with a mask", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    const Tensor all = linear(in[0], in[1]);
    const Tensor mask = (in[0].sum({2}) > 0).reshape({3, 1, 1, 11});
    return attention(turned(heads(all, 0, 2)), turned(heads(all, 2, 1)), heads(all, 3, 1),
                     {.mask = where(mask, 0.0, -1.0)});
  });
  check("no features", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    return linear(in[0], in[1]) + turned(narrow(linear(in[0], in[1] + 1), 2, 0, 0)).sum();
  });
  check("another shape", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    const Tensor q = turned(heads(linear(in[0], in[1]), 0, 4));
    return matmul(q.reshape({12, 11, size}), q.reshape({12, 11, size}).transpose(1, 2));
  });
  check("asked for", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    return turned(heads(linear(in[0], in[1]), 0, 4));
  });
  check("asked for as rows", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    return turned(heads(linear(in[0], in[1]), 0, 4)).transpose(1, 2).reshape({3, 11, 4 * size});
  });
  check("part of the rows", fused, 0, inputs, [](const auto& in) {
    return rope(narrow(heads(linear(in[0], in[1]), 0, 4), 2, 0, 10), arange(10).to(in[0].device())) * 2;
  });
  check("backwards", fused, 0, inputs, [](const auto& in) {
    const auto turned = turning(in[0]);
    return turned(flip(heads(linear(in[0], in[1]), 0, 4), {1})) * 2;
  });
  check("few rows", fused, 0, {numbers({1, 1, 40}, DType::f32), inputs[1]}, [](const auto& in) {
    const auto turned = turning(in[0]);
    return turned(heads(linear(in[0], in[1]), 0, 4)) * 2;
  });
  check("nothing", fused, 0, {numbers({0, 11, 40}, DType::f32), inputs[1]}, [](const auto& in) {
    const auto turned = turning(in[0]);
    return turned(heads(linear(in[0], in[1]), 0, 4)) * 2;
  });
}

// As in a model: what the matrix unit of sm_90 is used for.
TEST_F(GpuTurnedHeads, OfAModelsSize) {
  for (const Device device : gpus())
    if (device.kind == DeviceKind::rocm) GTEST_SKIP() << "too much for an emulated chip";
  for (const DType dtype : {DType::bf16, DType::f16})
    check("attention", fused, 1, {numbers({8, 82, 512}, dtype), numbers({1536, 512}, dtype) * 0.25},
          [](const auto& in) {
            const auto turned = turning(in[0]);
            const Tensor all = linear(in[0], in[1]).reshape({8, 82, 24, 64});
            const auto part = [&](std::int64_t i) { return narrow(all, 2, i * 8, 8).transpose(1, 2); };
            return attention(turned(part(0)), turned(part(1)), part(2));
          });
}

}  // namespace
}  // namespace hearth::gpu
