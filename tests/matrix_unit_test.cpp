// Products by a matrix unit against sums in f64 of the numbers that weights stand for.
#include "cpu/matrix_unit.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/block_formats.h"
#include "cpu/isa.h"
#include "cpu/quantised_kernels.h"
#include "cpu/repack.h"

namespace hearth::cpu {
namespace {

struct Sizes {
  std::int64_t rows, columns, depth;
};

template <typename Half>
void encode_halves(const std::vector<float>& values, std::vector<char>& bytes, std::vector<float>& numbers) {
  bytes.resize(values.size() * sizeof(Half));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Half half(values[i]);
    reinterpret_cast<Half*>(bytes.data())[i] = half;
    numbers[i] = static_cast<float>(half);
  }
}

// Weights, and the numbers they stand for.
struct Weights {
  std::vector<char> bytes;
  std::vector<float> numbers;
  DType format;

  Weights(DType wanted, std::int64_t rows, std::int64_t depth, std::mt19937& random) : format(wanted) {
    std::normal_distribution<float> normal;
    numbers.resize(static_cast<std::size_t>(rows * depth));
    for (float& number : numbers) number = normal(random);
    if (format == DType::f16) {
      encode_halves<float16>(numbers, bytes, numbers);
    } else if (format == DType::bf16) {
      encode_halves<bfloat16>(numbers, bytes, numbers);
    } else {
      bytes.resize(static_cast<std::size_t>(storage_bytes(format, rows * depth)));
      blocks::encode(format, numbers.data(), bytes.data(), rows * depth / block_elements(format));
      baseline::quantised_kernels_table.dequantise[static_cast<std::size_t>(format) - dtype_count](
          bytes.data(), numbers.data(), rows * depth);
    }
  }

  // In fours of rows, if that is another format.
  void repack(std::int64_t rows, std::int64_t depth) {
    if (repacked_format(format) == format) return;
    std::vector<char> target(static_cast<std::size_t>(storage_bytes(repacked_format(format), rows * depth)));
    cpu::repack(format, bytes.data(), rows, target.data(), 0, rows, depth);
    bytes = std::move(target);
    format = repacked_format(format);
  }
};

class MatrixUnit : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (!has_matrix_unit()) GTEST_SKIP() << "this machine has no matrix unit";
  }

  // The largest error, as a part of what the terms add up to without their signs.
  static double largest_error(const Weights& weights, const Sizes& sizes, std::mt19937& random) {
    const auto [rows, columns, depth] = sizes;
    std::normal_distribution<float> normal;
    std::vector<float> x(static_cast<std::size_t>(rows * depth));
    for (float& number : x) number = normal(random);
    std::vector<float> out(static_cast<std::size_t>(rows * columns), std::numeric_limits<float>::quiet_NaN());
    multiply_by_matrix_unit(weights.format, x.data(), weights.bytes.data(), out.data(), rows, columns, depth);
    double largest = 0;
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t c = 0; c < columns; ++c) {
        double sum = 0, size = 0;
        for (std::int64_t k = 0; k < depth; ++k) {
          const double term = static_cast<double>(x[static_cast<std::size_t>(r * depth + k)]) *
                              static_cast<double>(weights.numbers[static_cast<std::size_t>(c * depth + k)]);
          sum += term;
          size += std::abs(term);
        }
        const double error =
            std::abs(static_cast<double>(out[static_cast<std::size_t>(r * columns + c)]) - sum);
        if (!(error <= largest * size)) largest = size > 0 ? error / size : error;
      }
    return largest;
  }
};

std::vector<DType> formats() {
  std::vector<DType> list = {DType::f16, DType::bf16};
  for (int i = 0; i < block_format_count; ++i) list.push_back(static_cast<DType>(dtype_count + i));
  return list;
}
INSTANTIATE_TEST_SUITE_P(Formats, MatrixUnit, ::testing::ValuesIn(formats()),
                         [](const auto& one) { return std::string(dtype_name(one.param)); });

// Numbers of 16 bits are multiplied as two parts of 8 bits, and the product of the small ones is left out; of
// others x and weights are rounded to 8 bits.
double precision(DType format) { return is_quantised(format) ? 0x1p-8 : 0x1p-15; }

TEST_P(MatrixUnit, ProductsOfAnySize) {
  std::mt19937 random(7);
  const bool halves = !is_quantised(GetParam());
  const std::int64_t unit = halves ? 1 : block_elements(GetParam());
  for (const std::int64_t rows : {1, 5, 16, 17, 32, 33, 47, 64})
    for (const std::int64_t columns : {1, 4, 16, 20, 32, 52, 67})
      for (const std::int64_t depth : {unit, 3 * unit, halves ? std::int64_t{75} : 2 * unit}) {
        SCOPED_TRACE(testing::Message() << rows << " x " << columns << " x " << depth);
        Weights weights(GetParam(), columns, depth, random);
        EXPECT_LT(largest_error(weights, {rows, columns, depth}, random), precision(GetParam()));
        if (columns % 4 != 0) continue;
        weights.repack(columns, depth);
        EXPECT_LT(largest_error(weights, {rows, columns, depth}, random), precision(GetParam()));
      }
}

TEST_P(MatrixUnit, ManyRowsAndDeepOnes) {
  std::mt19937 random(8);
  const std::int64_t extra = is_quantised(GetParam()) ? block_elements(GetParam()) : 40;
  for (const Sizes& sizes : {Sizes{300, 36, 512}, Sizes{18, 36, 2048 + extra}, Sizes{33, 48, 4096}}) {
    SCOPED_TRACE(testing::Message() << sizes.rows << " x " << sizes.columns << " x " << sizes.depth);
    Weights weights(GetParam(), sizes.columns, sizes.depth, random);
    EXPECT_LT(largest_error(weights, sizes, random), precision(GetParam()));
    weights.repack(sizes.columns, sizes.depth);
    EXPECT_LT(largest_error(weights, sizes, random), precision(GetParam()));
  }
}

// Roundings must not lean to one side: cut off, products of terms with one sign would be 0.3 % too small.
TEST_P(MatrixUnit, RoundingsCancel) {
  if (!is_quantised(GetParam())) GTEST_SKIP() << "hardly rounded";
  constexpr std::int64_t rows = 16, columns = 64, depth = 2048;
  std::mt19937 random(9);
  Weights weights(GetParam(), columns, depth, random);
  for (const bool in_fours : {false, true}) {
    if (in_fours) weights.repack(columns, depth);
    std::vector<float> x(rows * depth);
    std::uniform_real_distribution<float> size(0.5f, 2.0f);
    std::vector<float> out(rows * columns);
    // The signs of x are those of the first row of weights.
    for (std::int64_t i = 0; i < rows * depth; ++i)
      x[static_cast<std::size_t>(i)] =
          std::copysign(size(random), weights.numbers[static_cast<std::size_t>(i % depth)]);
    multiply_by_matrix_unit(weights.format, x.data(), weights.bytes.data(), out.data(), rows, columns, depth);
    for (std::int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k)
        sum += static_cast<double>(x[static_cast<std::size_t>(r * depth + k)]) *
               static_cast<double>(weights.numbers[static_cast<std::size_t>(k)]);
      EXPECT_NEAR(out[static_cast<std::size_t>(r * columns)] / sum, 1, 1e-3) << "row " << r;
    }
  }
}

TEST_P(MatrixUnit, WhatIsNotFiniteStaysSo) {
  constexpr std::int64_t rows = 3, columns = 8, depth = 256;
  std::mt19937 random(10);
  const Weights weights(GetParam(), columns, depth, random);
  std::vector<float> x(rows * depth, 1.0f), out(rows * columns);
  x[5] = std::numeric_limits<float>::infinity();
  x[2 * depth + 70] = std::numeric_limits<float>::quiet_NaN();
  multiply_by_matrix_unit(weights.format, x.data(), weights.bytes.data(), out.data(), rows, columns, depth);
  for (std::int64_t c = 0; c < columns; ++c) {
    EXPECT_FALSE(std::isfinite(out[static_cast<std::size_t>(c)]));
    EXPECT_TRUE(std::isfinite(out[static_cast<std::size_t>(columns + c)]));
    EXPECT_TRUE(std::isnan(out[static_cast<std::size_t>(2 * columns + c)]));
  }
}

}  // namespace
}  // namespace hearth::cpu
