// Weights whose rows lie in fours: they are the same numbers, and products with them those of the numbers.
#include "tensor/repacked.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/block_formats.h"
#include "cpu/repack.h"
#include "cpu/repacked_kernels.h"
#include "cpu/tile_product_kernels.h"
#include "hearth/error.h"
#include "hearth/ops.h"
#include "hearth/quantise.h"
#include "tensor/expert_matmul.h"

namespace hearth {
namespace {

using cpu::RepackedKernels;

struct Variant {
  const char* name;
  const RepackedKernels* kernels;
};

std::vector<Variant> variants() {
  std::vector<Variant> list;
  [[maybe_unused]] const auto add = [&](cpu::BytesIsa needed, Variant variant) {
    if (cpu::best_bytes_isa() >= needed) list.push_back(variant);
  };
#if defined(__aarch64__)
  add(cpu::BytesIsa::dotprod, {"dotprod", &cpu::dotprod::repacked_kernels_table});
  add(cpu::BytesIsa::i8mm, {"i8mm", &cpu::i8mm::repacked_kernels_table});
#elif defined(__x86_64__)
  add(cpu::BytesIsa::avx2, {"avx2", &cpu::avx2::repacked_kernels_table});
  add(cpu::BytesIsa::avx512, {"avx512", &cpu::avx512::repacked_kernels_table});
  add(cpu::BytesIsa::vnni, {"vnni", &cpu::vnni::repacked_kernels_table});
#endif
  return list;
}

class Repacked : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (variants().empty()) GTEST_SKIP() << "this machine multiplies with weights as files have them";
  }
  static DType format() { return GetParam(); }
  static DType target() { return cpu::repacked_format(format()); }
  static std::size_t index() {
    return static_cast<std::size_t>(target()) - static_cast<std::size_t>(DType::q4_0x4);
  }

  static std::vector<float> random_numbers(std::int64_t count, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& number : numbers) number = normal(random);
    return numbers;
  }
  static Tensor random_weights(const Shape& shape, unsigned seed) {
    return quantise(tensor<float>(random_numbers(element_count(shape), seed), shape), format());
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, Repacked,
                         ::testing::Values(DType::q4_0, DType::q8_0, DType::q4_k, DType::q6_k),
                         [](const auto& one) { return std::string(dtype_name(one.param)); });

// Memory aligned as scratch memory is.
struct alignas(64) Line {
  char bytes[64];
};

// Fours of rows, made and multiplied with by one variant.
struct Fours {
  const RepackedKernels& kernels;
  std::size_t index;
  std::int64_t rows, depth;
  std::vector<std::byte> bytes;

  Fours(const RepackedKernels& variant, std::size_t format_index, const Tensor& weights, DType target)
      : kernels(variant),
        index(format_index),
        rows(weights.size(0)),
        depth(weights.size(1)),
        bytes(static_cast<std::size_t>(storage_bytes(target, weights.numel()))) {
    const std::vector<std::byte> blocks = weights.to_bytes();
    const auto stride = static_cast<std::int64_t>(blocks.size()) / rows;
    for (std::int64_t row = 0; row < rows; row += 4)
      kernels.repack[index](blocks.data() + row * stride, stride, matrix(), row / 4);
  }
  cpu::RepackedMatrix matrix() const { return {const_cast<std::byte*>(bytes.data()), rows / 4, depth}; }

  std::vector<float> multiply(const std::vector<float>& x, std::int64_t count) const {
    const std::int64_t row_bytes = depth * kernels.rounded_bytes[index] / 256;
    std::vector<Line> rounded(static_cast<std::size_t>(count * row_bytes / 64 + 1));
    for (std::int64_t r = 0; r < count; ++r)
      kernels.round[index](x.data() + r * depth, rounded[0].bytes + r * row_bytes, depth);
    const std::int64_t stride = rows + 3;
    std::vector<float> out(static_cast<std::size_t>(count * stride), 0.5f), dense;
    kernels.multiply_rows[count - 1][index](matrix(), 0, rows / 4, rounded.data(), out.data(), stride);
    for (std::int64_t r = 0; r < count; ++r)
      for (std::int64_t c = 0; c < stride; ++c) {
        const float value = out[static_cast<std::size_t>(r * stride + c)];
        if (c < rows)
          dense.push_back(value);
        else
          EXPECT_EQ(value, 0.5f);
      }
    return dense;
  }
};

TEST_P(Repacked, RowsAreTheSameNumbers) {
  for (const std::int64_t blocks : {1, 3, 8, 70}) {  // more than a panel
    const std::int64_t depth = blocks * block_elements(format());
    const Tensor weights = random_weights({8, depth}, 1);
    const std::vector<float> expected = dequantise(weights).to_vector<float>();
    for (const Variant& variant : variants()) {
      const Fours fours(*variant.kernels, index(), weights, target());
      std::vector<float> row(static_cast<std::size_t>(depth));
      for (std::int64_t r = 0; r < 8; ++r) {
        variant.kernels->dequantise[index()](fours.matrix(), r, row.data());
        for (std::int64_t k = 0; k < depth; ++k)
          ASSERT_EQ(row[static_cast<std::size_t>(k)], expected[static_cast<std::size_t>(r * depth + k)])
              << variant.name << " " << r << " " << k;
      }
    }
  }
}

// Every weight by itself: x is 0 but for one element.
TEST_P(Repacked, EachElementMeetsItsWeight) {
  const std::int64_t depth = 2 * block_elements(format());
  const Tensor weights = random_weights({12, depth}, 2);
  const std::vector<float> numbers = dequantise(weights).to_vector<float>();
  for (const Variant& variant : variants()) {
    const Fours fours(*variant.kernels, index(), weights, target());
    for (std::int64_t k = 0; k < depth; ++k) {
      std::vector<float> x(static_cast<std::size_t>(4 * depth));
      for (std::int64_t r = 0; r < 4; ++r)
        x[static_cast<std::size_t>(r * depth + k)] = r % 2 == 0 ? 3.0f : -0.01f;
      const std::vector<float> one = fours.multiply(x, 1), four = fours.multiply(x, 4);
      for (std::int64_t r = 0; r < 4; ++r)
        for (std::int64_t c = 0; c < 12; ++c) {
          const float expected =
              x[static_cast<std::size_t>(r * depth + k)] * numbers[static_cast<std::size_t>(c * depth + k)];
          const float found = four[static_cast<std::size_t>(r * 12 + c)];
          // Half a step of x, and half a one of its neighbour in the byte, which may take over a part.
          ASSERT_NEAR(found, expected,
                      2 * 0.5 / 119 * 4 * std::abs(x[static_cast<std::size_t>(r * depth + k)]))
              << variant.name << " " << r << " " << c << " " << k;
          if (r == 0) {
            ASSERT_EQ(found, one[static_cast<std::size_t>(c)]);
          }
        }
    }
  }
}

// What rounding x costs: each element errs by up to half a step, independently of the others.
TEST_P(Repacked, ProductsErrByTheRoundingOfX) {
  for (const std::int64_t blocks : {1, 2, 5, 32, 67})
    for (const std::int64_t rows : {4, 8, 12, 20, 28}) {
      const std::int64_t depth = blocks * block_elements(format());
      const Tensor weights = random_weights({rows, depth}, 3);
      const std::vector<float> numbers = dequantise(weights).to_vector<float>(),
                               x = random_numbers(4 * depth, 4);
      for (const Variant& variant : variants()) {
        const Fours fours(*variant.kernels, index(), weights, target());
        const std::vector<float> four = fours.multiply(x, 4), one = fours.multiply(x, 1);
        for (const std::int64_t count : {2, 3}) {
          const std::vector<float> some = fours.multiply(x, count);
          ASSERT_TRUE(std::equal(some.begin(), some.end(), four.begin())) << variant.name << " " << count;
        }
        for (std::int64_t r = 0; r < 4; ++r)
          for (std::int64_t c = 0; c < rows; ++c) {
            double sum = 0, squares = 0;
            for (std::int64_t k = 0; k < depth; ++k) {
              const double w = numbers[static_cast<std::size_t>(c * depth + k)];
              sum += w * x[static_cast<std::size_t>(r * depth + k)];
              squares += w * w;
            }
            const double step = 4.5 / 119;  // of normal numbers; a rounding errs by 0.29 of one, on average
            const float found = four[static_cast<std::size_t>(r * rows + c)];
            ASSERT_NEAR(found, sum, 5 * 0.29 * step * std::sqrt(squares) + 1e-5)
                << variant.name << " " << depth;
            if (r == 0) {
              ASSERT_EQ(found, one[static_cast<std::size_t>(c)]);
            }
          }
      }
    }
}

// One row takes columns in some runs at a time, and shortens these where they would lie whole pages apart: on
// aarch64 those of 24 fours of q4_0 and of 96 of q4_k, on x86_64 of 96 of q4_0. The second depth has two
// panels.
TEST_P(Repacked, OneRowIsAsThoseOfFour) {
  for (const auto& [rows, depth] :
       {std::pair<std::int64_t, std::int64_t>{92, 2048}, {96, 2048}, {96, 2304}, {384, 2304}, {400, 2048}}) {
    const Tensor weights = random_weights({rows, depth}, 15);
    const std::vector<float> x = random_numbers(4 * depth, 16);
    for (const Variant& variant : variants()) {
      const Fours fours(*variant.kernels, index(), weights, target());
      std::vector<float> four = fours.multiply(x, 4);
      four.resize(static_cast<std::size_t>(rows));
      ASSERT_EQ(fours.multiply(x, 1), four) << variant.name << " " << rows;
    }
  }
}

TEST_P(Repacked, WhatIsNotFiniteMakesItsRowNaN) {
  const std::int64_t depth = 4 * block_elements(format());
  const Tensor weights = random_weights({8, depth}, 5);
  for (const Variant& variant : variants())
    for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()})
      for (const std::int64_t at : {std::int64_t{0}, std::int64_t{17}, depth - 1}) {
        std::vector<float> x = random_numbers(4 * depth, 6);
        x[static_cast<std::size_t>(2 * depth + at)] = bad;
        const std::vector<float> found = Fours(*variant.kernels, index(), weights, target()).multiply(x, 4);
        for (std::int64_t i = 0; i < 4 * 8; ++i)
          ASSERT_EQ(std::isnan(found[static_cast<std::size_t>(i)]), i / 8 == 2) << variant.name;
      }
}

TEST_P(Repacked, TinyAndHugeNumbersKeepTheirSize) {
  const std::int64_t depth = block_elements(format());
  const Tensor weights = random_weights({4, depth}, 7);
  const std::vector<float> numbers = dequantise(weights).to_vector<float>();
  for (const Variant& variant : variants())
    for (const float size : {0.0f, 1e-38f, 1e-20f, 1e20f, 1e28f}) {
      std::vector<float> x = random_numbers(depth, 8);
      double expected = 0;
      for (std::int64_t k = 0; k < depth; ++k) {
        x[static_cast<std::size_t>(k)] *= size;
        expected +=
            static_cast<double>(x[static_cast<std::size_t>(k)]) * numbers[static_cast<std::size_t>(k)];
      }
      const float found = Fours(*variant.kernels, index(), weights, target()).multiply(x, 1)[0];
      ASSERT_NEAR(found, expected, 2 * std::sqrt(static_cast<double>(depth)) * 0.04 * size + 1e-30)
          << variant.name << size;
    }
}

// ---- tensors

TEST_P(Repacked, TensorsAnswerAsBefore) {
  for (const auto& [rows, depth] : {std::pair<std::int64_t, std::int64_t>{4, 768}, {36, 2560}, {132, 4096}}) {
    const Tensor weights = random_weights({rows, depth}, 9);
    const auto fours = repacked({&weights, 1}, weights.shape());
    ASSERT_TRUE(fours);
    EXPECT_EQ(fours->dtype(), target());
    EXPECT_EQ(dequantise(*fours).to_vector<float>(), dequantise(weights).to_vector<float>());
    EXPECT_EQ(dequantise(*fours, DType::f16).to_bytes(), dequantise(weights, DType::f16).to_bytes());
    const Tensor indices = tensor<std::int64_t>({rows - 1, 0, -1, 3, 2}, {5});
    for (const DType to : {DType::f32, DType::bf16})
      EXPECT_EQ(quantised_take(*fours, indices, to).to_bytes(),
                quantised_take(weights, indices, to).to_bytes());
    EXPECT_THROW(quantised_take(*fours, tensor<std::int64_t>({rows}, {1})).eval(), IndexError);
    const Tensor numbers = dequantise(weights, DType::f64).transpose(0, 1);
    for (const std::int64_t count : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 40}) {
      const Tensor x = tensor<float>(random_numbers(count * depth, 10), {count, depth});
      const std::vector<float> found = quantised_matmul(x, *fours).to_vector<float>();
      const std::vector<double> expected = matmul(x.to(DType::f64), numbers).to_vector<double>();
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 0.06 * std::sqrt(static_cast<double>(depth))) << count << " " << i;
    }
  }
}

TEST_P(Repacked, ExpertsAnswerAsBefore) {
  const std::int64_t depth = 2304;
  const Tensor weights = random_weights({3, 8, depth}, 11);
  const auto fours = repacked({&weights, 1}, weights.shape());
  ASSERT_TRUE(fours);
  EXPECT_EQ(dequantise(*fours).to_vector<float>(), dequantise(weights).to_vector<float>());
  const Tensor x = tensor<float>(random_numbers(5 * depth, 12), {5, 1, depth}),
               chosen = tensor<std::int64_t>({0, 2, 1, 1, 2, 0, 2, 2, 0, 1}, {5, 2});
  const std::vector<float> found = expert_matmul(x, *fours, chosen).to_vector<float>(),
                           before = expert_matmul(x, weights, chosen).to_vector<float>();
  ASSERT_EQ(found.size(), before.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], before[i], 0.06 * std::sqrt(static_cast<double>(depth))) << i;
}

TEST_P(Repacked, PartsLieOneBelowTheOther) {
  const std::int64_t depth = 2304;
  const std::vector<Tensor> parts = {random_weights({8, depth}, 13), random_weights({4, depth}, 14)};
  const auto fours = repacked(parts, {12, depth});
  ASSERT_TRUE(fours);
  std::vector<float> expected;
  for (const Tensor& part : parts)
    for (const float number : dequantise(part).to_vector<float>()) expected.push_back(number);
  EXPECT_EQ(dequantise(*fours).to_vector<float>(), expected);
  EXPECT_THROW(repacked(parts, {16, depth}), ShapeError);
}

TEST_P(Repacked, WhatHasNoFoursStaysAsItIs) {
  const std::int64_t depth = block_elements(format());
  const Tensor six = random_weights({6, depth}, 15), four = random_weights({4, depth}, 16);
  EXPECT_FALSE(repacked({&six, 1}, six.shape()));
  const Tensor numbers = dequantise(four), other = quantise(numbers, DType::q4_1);
  EXPECT_FALSE(repacked({&numbers, 1}, numbers.shape()));
  EXPECT_FALSE(repacked({&other, 1}, other.shape()));
  const std::vector<Tensor> mixed = {four, other};
  EXPECT_FALSE(repacked(mixed, {8, depth}));
  const auto fours = repacked({&four, 1}, four.shape());
  ASSERT_TRUE(fours);
  EXPECT_FALSE(repacked({&*fours, 1}, four.shape()));  // once is enough
}

TEST_P(Repacked, NobodyElseMakesOrReadsThem) {
  const Tensor numbers = ones({4, block_elements(target())});
  EXPECT_THROW(quantise(numbers, target()), DTypeError);
  EXPECT_THROW(dtype_from_name(dtype_name(target())), DTypeError);
  EXPECT_THROW(from_blocks(std::vector<std::byte>(static_cast<std::size_t>(4 * block_bytes(target()))),
                           {4, block_elements(target())}, target()),
               DTypeError);
}

}  // namespace
}  // namespace hearth
