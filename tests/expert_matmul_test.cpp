// expert_matmul against plain products, on every device.
#include "tensor/expert_matmul.h"

#include <gtest/gtest.h>

#include <cmath>

#include "expect_error.h"
#include "hearth/hearth.h"
#include "hearth/quantise.h"
#include "test_devices.h"

namespace hearth {
namespace {

struct Sizes {
  std::int64_t rows, used, experts, out, in;
};

Tensor choices(const Sizes& s) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < s.rows * s.used; ++i) values.push_back((i * 7 + i / 3) % s.experts);
  return tensor<std::int64_t>(values).reshape({s.rows, s.used});
}

// x: (rows, used or 1, in); `weight` as it is multiplied with.
std::vector<double> reference(const Tensor& x, const Tensor& weight, const Tensor& chosen) {
  const auto values = x.to(DType::f64).to_vector<double>(),
             matrix = weight.to(DType::f64).to_vector<double>();
  const auto experts = chosen.to_vector<std::int64_t>();
  const auto rows = static_cast<std::size_t>(chosen.size(0)), used = static_cast<std::size_t>(chosen.size(1)),
             per_row = static_cast<std::size_t>(x.size(1)), in = static_cast<std::size_t>(x.size(2)),
             out = static_cast<std::size_t>(weight.size(1));
  std::vector<double> result;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t u = 0; u < used; ++u)
      for (std::size_t o = 0; o < out; ++o) {
        double sum = 0;
        const std::size_t from = (r * per_row + (per_row == 1 ? 0 : u)) * in,
                          of = (static_cast<std::size_t>(experts[r * used + u]) * out + o) * in;
        for (std::size_t i = 0; i < in; ++i) sum += values[from + i] * matrix[of + i];
        result.push_back(sum);
      }
  return result;
}

void expect_near(const Tensor& got, const std::vector<double>& expected, double tolerance) {
  const auto values = got.to(Device{}).to(DType::f64).to_vector<double>();
  ASSERT_EQ(values.size(), expected.size());
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) worst = std::max(worst, std::abs(values[i] - expected[i]));
  EXPECT_LE(worst, tolerance);
}

TEST(ExpertMatmul, ChosenMatricesOnly) {
  for (const Device device : tested_devices())
    for (const Sizes& s :
         {Sizes{1, 2, 4, 5, 7}, Sizes{9, 3, 6, 20, 48}, Sizes{40, 2, 3, 33, 130}, Sizes{3, 1, 1, 1, 1}})
      for (const std::int64_t per_row : {std::int64_t{1}, s.used})
        for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
          const Tensor x = randn({s.rows, per_row, s.in}), weight = randn({s.experts, s.out, s.in}).to(dtype),
                       chosen = choices(s);
          const Tensor got = expert_matmul(x.to(device), weight.to(device), chosen.to(device));
          EXPECT_EQ(got.shape(), (Shape{s.rows, s.used, s.out}));
          // A CPU's matrix unit takes numbers as two of bf16.
          expect_near(got, reference(x, weight, chosen), dtype == DType::f32 ? 1e-4 : 4e-4);
        }
}

TEST(ExpertMatmul, OtherLayoutsAndDtypes) {
  const Sizes s{6, 2, 4, 9, 12};
  const Tensor weight = randn({s.experts, s.out, s.in}), chosen = choices(s);
  for (const Device device : tested_devices()) {
    const Tensor x = randn({s.in, s.used, s.rows}).permute({2, 1, 0});
    const Tensor turned = chosen.transpose(0, 1).to(device).eval().transpose(0, 1);
    expect_near(expert_matmul(x.to(device), weight.to(device), turned), reference(x, weight, chosen), 1e-4);
    const Tensor half = x.to(DType::f16);
    expect_near(expert_matmul(half.to(device), weight.to(device), chosen.to(device)),
                reference(half, weight, chosen), 2e-2);
  }
}

TEST(ExpertMatmul, WeightsInBlocks) {
  for (const Device device : tested_devices())
    for (const DType format : {DType::q8_0, DType::q4_0, DType::q5_1, DType::q4_k, DType::q6_k})
      for (const std::int64_t rows : {2, 40}) {
        const Sizes s{rows, 2, 3, 10, 256};
        const Tensor x = randn({s.rows, 1, s.in}), chosen = choices(s),
                     weight = quantise(randn({s.experts, s.out, s.in}), format);
        // Few rows are rounded to 8 bits on a CPU: half a 127th of the largest in 32, over 256 products.
        expect_near(expert_matmul(x.to(device), weight.to(device), chosen.to(device)),
                    reference(x, dequantise(weight, DType::f32), chosen), 0.6);
      }
}

// So many that rows of an expert are more than a tile, with experts that nobody chose, and with columns that
// are no multiple of one; x of each row for all of its choices or for each, and strided.
TEST(ExpertMatmul, ManyRowsOfWeightsInBlocks) {
  for (const Device device : tested_devices())
    for (const Sizes& s : {Sizes{70, 3, 2, 70, 320}, Sizes{12, 4, 40, 130, 64}})
      for (const DType format : {DType::mxfp4, DType::q8_0, DType::iq4_nl})
        for (const std::int64_t per_row : {std::int64_t{1}, s.used}) {
          const Tensor x = randn({s.rows, per_row, s.in}), chosen = choices(s),
                       weight = quantise(randn({s.experts, s.out, s.in}), format);
          const auto expected = reference(x, dequantise(weight, DType::f32), chosen);
          expect_near(expert_matmul(x.to(device), weight.to(device), chosen.to(device)), expected, 0.6);
          const Tensor wide = concat({x, x}, 2).to(device).eval();
          expect_near(expert_matmul(narrow(wide, 2, 0, s.in), weight.to(device), chosen.to(device)), expected,
                      0.6);
          // Rows as they were alone, whatever their numbers: their sizes are told apart.
          const Tensor large = x * 1e6;
          const auto got = expert_matmul(large.to(device), weight.to(device), chosen.to(device))
                               .to(Device{})
                               .to_vector<float>();
          for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i] * 1e-6, expected[i], 0.6) << i;
        }
}

TEST(ExpertMatmul, Nothing) {
  for (const Device device : tested_devices()) {
    const Tensor chosen = zeros({0, 2}, DType::i64).to(device);
    EXPECT_EQ(expert_matmul(zeros({0, 1, 8}).to(device), randn({3, 4, 8}).to(device), chosen).eval().shape(),
              (Shape{0, 2, 4}));
    const Tensor none = zeros({2, 0}, DType::i64).to(device);
    EXPECT_EQ(expert_matmul(randn({2, 0, 8}).to(device), randn({3, 4, 8}).to(device), none).eval().shape(),
              (Shape{2, 0, 4}));
  }
}

TEST(ExpertMatmul, RefusesWhatDoesNotFit) {
  const Tensor x = zeros({2, 1, 8}), weight = randn({3, 4, 8});
  const auto chosen = [](std::vector<std::int64_t> values) {
    return tensor<std::int64_t>(values).reshape({2, -1});
  };
  test::expect_error<ShapeError>(
      [&] {
        expert_matmul(zeros({2, 3, 8}), weight, chosen({0, 1, 2, 0}));
      },
      {"[expert_matmul] x (2, 3, 8) does not fit weight (3, 4, 8) and chosen (2, 2)"});
  test::expect_error<ShapeError>(
      [&] {
        expert_matmul(zeros({2, 1, 7}), weight, chosen({0, 1}));
      },
      {"[expert_matmul] x (2, 1, 7)"});
  test::expect_error<DTypeError>(
      [&] {
        expert_matmul(x, weight, zeros({2, 1}));
      },
      {"[expert_matmul] chosen must be i64, got f32"});
  test::expect_error<DTypeError>(
      [&] {
        expert_matmul(x, zeros({3, 4, 8}, DType::i32), chosen({0, 1}));
      },
      {"[expert_matmul] x f32, weight i32"});
  const Tensor leaf = zeros({2, 1, 8}).requires_grad_();
  test::expect_error<ValueError>(
      [&] {
        sum(expert_matmul(leaf, weight, chosen({0, 1}))).backward();
      },
      {"[backward] expert_matmul has no gradient"});
  for (const Device device : tested_devices())
    for (const std::int64_t rows : {1, 30}) {  // by other kernels
      const Tensor blocks = quantise(randn({3, 4, 32}), DType::q4_0).to(device);
      EXPECT_THROW(
          expert_matmul(zeros({rows, 1, 32}).to(device), blocks, full({rows, 2}, 3, DType::i64).to(device))
              .eval()
              .to(Device{})
              .eval(),
          IndexError);
    }
  for (const Device device : tested_devices())
    for (const std::int64_t expert : {3, -1})
      EXPECT_THROW(expert_matmul(x.to(device), weight.to(device), chosen({0, expert}).to(device))
                       .eval()
                       .to(Device{})
                       .eval(),
                   IndexError);
}

}  // namespace
}  // namespace hearth
