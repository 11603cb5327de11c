// Matrix products on the GPU, every variant, against the CPU's.
#include "gpu/matmul.h"

#include <gtest/gtest.h>

#include "gpu_steps.h"
#include "hearth/hearth.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

class GpuMatmul : public OnTestGpu {
 protected:
  // Small whole numbers: every order of summation gives the same.
  static void check(DType dtype, const Shape& a_shape, const Shape& b_shape, MatmulVariant variant,
                    Lay lay_a = Lay::dense, Lay lay_b = Lay::dense) {
    SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + to_string(a_shape) + " @ " + to_string(b_shape) +
                 " variant " + std::to_string(static_cast<int>(variant)) + " layouts " +
                 std::to_string(static_cast<int>(lay_a)) + std::to_string(static_cast<int>(lay_b)));
    const std::vector<Array> inputs = {random_array(dtype, a_shape, lay_a, 1, -4, 4),
                                       random_array(dtype, b_shape, lay_b, 2, -4, 4)};
    Shape shape(a_shape.begin(), a_shape.end() - 1);
    shape.push_back(b_shape.back());
    const Array expected = cpu::run_step(cpu::make_matmul, Op::matmul, {}, inputs, dtype, shape);
    const Step step = step_of(Op::matmul, {}, inputs, expected.layout);
    const auto kernel = make_matmul(*test_gpu(), step, variant);
    expect_close(run_on_gpu(*test_gpu(), step, *kernel, inputs), expected, 0);
  }
  static bool has_unit() { return unit() != MatrixUnit::none; }
};

constexpr DType numbers[] = {DType::u8,  DType::i8,   DType::i16, DType::i32, DType::i64,
                             DType::f16, DType::bf16, DType::f32, DType::f64};

// Compiling takes most of the time: each path is taken once, not with every dtype.
TEST_F(GpuMatmul, EveryDtype) {
  for (const DType dtype : numbers) check(dtype, {65, 40}, {40, 33}, MatmulVariant::fma_small);
}

TEST_F(GpuMatmul, EveryTile) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    check(dtype, {129, 40}, {40, 65}, MatmulVariant::fma_large);
  check(DType::f32, {65, 40}, {40, 36}, MatmulVariant::fma_large, Lay::transposed, Lay::dense);
  check(DType::i16, {65, 40}, {40, 36}, MatmulVariant::fma_small, Lay::transposed, Lay::transposed);
}

TEST_F(GpuMatmul, TheMatrixUnit) {
  if (!has_unit()) GTEST_SKIP() << "no matrix unit";
  for (const Lay left : {Lay::dense, Lay::transposed})
    for (const Lay right : {Lay::dense, Lay::transposed}) {
      check(DType::bf16, {128, 64}, {64, 128}, MatmulVariant::mma_large, left, right);  // whole packets
      // whole packets, parts of tiles
      check(DType::bf16, {136, 72}, {72, 136}, MatmulVariant::mma_large, left, right);
    }
  for (const Lay lay : {Lay::dense, Lay::transposed}) {
    check(DType::bf16, {33, 47}, {47, 35}, MatmulVariant::mma_large, lay, lay);  // elements
    check(DType::f16, {65, 72}, {72, 72}, MatmulVariant::mma_small, lay, lay);
    check(DType::i8, {136, 80}, {80, 144}, MatmulVariant::mma_large, lay, lay);
  }
  check(DType::i8, {65, 72}, {72, 72}, MatmulVariant::mma_small);
  check(DType::f16, {20, 70}, {70, 18}, MatmulVariant::mma_small, Lay::gapped, Lay::flipped);
}

TEST_F(GpuMatmul, SizesAroundTiles) {
  for (const std::int64_t size : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129}) {
    check(DType::f32, {size, 8}, {8, 5}, MatmulVariant::automatic);
    check(DType::f32, {9, size}, {size, 6}, MatmulVariant::automatic);
    check(DType::bf16, {9, size}, {size, 9}, MatmulVariant::automatic, Lay::dense, Lay::transposed);
    check(DType::bf16, {7, 8}, {8, size}, MatmulVariant::automatic);
  }
}

TEST_F(GpuMatmul, Stacks) {
  check(DType::f32, {3, 17, 33}, {3, 33, 9}, MatmulVariant::automatic);
  check(DType::bf16, {2, 3, 20, 8}, {2, 3, 8, 20}, MatmulVariant::automatic, Lay::gapped, Lay::transposed);
  check(DType::f32, {3, 1, 16}, {3, 16, 40}, MatmulVariant::automatic);
}

TEST_F(GpuMatmul, LongSumsAreSplit) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check(dtype, {20, 2048}, {2048, 20}, MatmulVariant::automatic, Lay::dense, Lay::transposed);
    check(dtype, {17, 1031}, {1031, 19}, MatmulVariant::automatic);
  }
  check(DType::i64, {17, 1031}, {1031, 19}, MatmulVariant::automatic);
}

TEST_F(GpuMatmul, FewRowsOrColumns) {
  const auto both = [](DType dtype, std::int64_t few) {
    check(dtype, {few, 272}, {272, 21}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
    check(dtype, {21, 272}, {272, few}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
  };
  for (const std::int64_t few : {1, 3}) both(DType::f32, few);
  both(DType::bf16, 8);
  both(DType::i64, 4);
  check(DType::i8, {1, 272}, {272, 21}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
  check(DType::f32, {1, 16}, {16, 1}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
  check(DType::f32, {1, 4096}, {4096, 1}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
  check(DType::bf16, {5, 4104}, {4104, 6}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
}

// The plan hands what follows a product to its kernel: a bias along rows, a factor along columns, two
// results.
TEST_F(GpuMatmul, GoesOnWithAnExpression) {
  const auto compute = [](const std::vector<Tensor>& in) {
    const Tensor product = matmul(in[0], in[1]) * 0.5;
    return tanh(product + in[2]) * in[3] + product;
  };
  for (const std::int64_t k : {8, 48, 1030}) {
    std::vector<Tensor> inputs = {randn({2, 37, k}), randn({k, 70}), randn({70}), randn({37, 1})};
    const std::vector<double> expected = compute(inputs).to(DType::f64).to_vector<double>();
    for (const Device device : devices()) {
      if (device.kind == DeviceKind::cpu) continue;
      std::vector<Tensor> moved;
      for (const Tensor& input : inputs) moved.push_back(input.to(device));
      const auto values = compute(moved).to(Device{}).to(DType::f64).to_vector<double>();
      ASSERT_EQ(values.size(), expected.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], expected[i], 1e-4 * std::max(1.0, std::abs(expected[i]))) << i;
    }
  }
}

TEST_F(GpuMatmul, Nothing) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check(dtype, {3, 0}, {0, 4}, MatmulVariant::automatic);
    check(dtype, {0, 3}, {3, 4}, MatmulVariant::automatic);
    check(dtype, {2, 3}, {3, 0}, MatmulVariant::automatic);
    check(dtype, {0, 2, 3}, {0, 3, 2}, MatmulVariant::automatic);
  }
}

}  // namespace
}  // namespace hearth::gpu
