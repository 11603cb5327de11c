// Matrix products on the GPU, every variant, against the CPU's.
#include "gpu/matmul.h"

#include <gtest/gtest.h>

#include "gpu_steps.h"
#include "hearth/hearth.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

class GpuMatmul : public testing::Test {
 protected:
  void SetUp() override {
    if (test_gpu() != nullptr) return;
    if (std::getenv("HEARTH_TEST_DEVICES") != nullptr) FAIL() << "no such device";
    GTEST_SKIP() << "no GPU";
  }

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
  static bool has_unit() { return test_gpu()->target().matrix != MatrixUnit::none; }
};

constexpr DType numbers[] = {DType::u8,  DType::i8,   DType::i16, DType::i32, DType::i64,
                             DType::f16, DType::bf16, DType::f32, DType::f64};

TEST_F(GpuMatmul, EveryDtypeInEveryTile) {
  for (const DType dtype : numbers)
    for (const auto variant : {MatmulVariant::fma_small, MatmulVariant::fma_large})
      for (const Lay lay : {Lay::dense, Lay::transposed}) check(dtype, {65, 40}, {40, 33}, variant, lay, lay);
}

TEST_F(GpuMatmul, TheMatrixUnit) {
  if (!has_unit()) GTEST_SKIP() << "no matrix unit";
  for (const DType dtype : {DType::f16, DType::bf16, DType::i8})
    for (const auto variant : {MatmulVariant::mma_small, MatmulVariant::mma_large}) {
      for (const Lay left : {Lay::dense, Lay::transposed})
        for (const Lay right : {Lay::dense, Lay::transposed}) {
          check(dtype, {64, 64}, {64, 64}, variant, left, right);    // whole packets
          check(dtype, {129, 72}, {72, 136}, variant, left, right);  // whole packets, parts of tiles
          check(dtype, {33, 47}, {47, 35}, variant, left, right);    // elements
        }
      check(dtype, {20, 70}, {70, 18}, variant, Lay::gapped, Lay::flipped);
    }
}

TEST_F(GpuMatmul, SizesAroundTiles) {
  for (const std::int64_t size : {1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129}) {
    check(DType::f32, {size, 8}, {8, 5}, MatmulVariant::automatic);
    check(DType::f32, {5, size}, {size, 6}, MatmulVariant::automatic);
    check(DType::bf16, {9, size}, {size, 9}, MatmulVariant::automatic, Lay::dense, Lay::transposed);
    check(DType::f16, {7, 8}, {8, size}, MatmulVariant::automatic);
  }
}

TEST_F(GpuMatmul, Stacks) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check(dtype, {3, 17, 33}, {3, 33, 9}, MatmulVariant::automatic);
    check(dtype, {2, 3, 20, 8}, {2, 3, 8, 20}, MatmulVariant::automatic, Lay::gapped, Lay::transposed);
    check(dtype, {3, 1, 16}, {3, 16, 40}, MatmulVariant::automatic);
  }
}

TEST_F(GpuMatmul, LongSumsAreSplit) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i32, DType::bf16}) {
    check(dtype, {20, 2048}, {2048, 20}, MatmulVariant::automatic, Lay::dense, Lay::transposed);
    check(dtype, {17, 1031}, {1031, 19}, MatmulVariant::automatic);
  }
}

TEST_F(GpuMatmul, FewRowsOrColumns) {
  for (const DType dtype : {DType::i8, DType::i64, DType::f32, DType::bf16})
    for (const std::int64_t few : {1, 3, dtype == DType::i64 ? 4 : 8}) {
      check(dtype, {few, 272}, {272, 21}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
      check(dtype, {21, 272}, {272, few}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
    }
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check(dtype, {1, 16}, {16, 1}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
    check(dtype, {1, 4096}, {4096, 1}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
    check(dtype, {5, 4104}, {4104, 6}, MatmulVariant::skinny, Lay::dense, Lay::transposed);
  }
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
  for (const DType dtype : {DType::f32, DType::f16}) {
    check(dtype, {3, 0}, {0, 4}, MatmulVariant::automatic);
    check(dtype, {0, 3}, {3, 4}, MatmulVariant::automatic);
    check(dtype, {2, 3}, {3, 0}, MatmulVariant::automatic);
    check(dtype, {0, 2, 3}, {0, 3, 2}, MatmulVariant::automatic);
  }
}

}  // namespace
}  // namespace hearth::gpu
