// Quantised weights: formats against the reference implementation, the functions that take them, the errors
// of those that do not. On every device there is.
#include "hearth/quantise.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "cpu/isa.h"
#include "expect_error.h"
#include "hearth/hearth.h"
#include "test_devices.h"

namespace hearth::test {
namespace {

constexpr DType formats[] = {DType::q4_0,   DType::q4_1,   DType::q5_0, DType::q5_1, DType::q8_0,
                             DType::q2_k,   DType::q3_k,   DType::q4_k, DType::q5_k, DType::q6_k,
                             DType::iq4_xs, DType::iq4_nl, DType::mxfp4};

const TensorMap& golden() {
  static const TensorMap tensors = [] {
    TensorMap all = load_safetensors(std::string(HEARTH_GOLDEN_DIR) + "/quantised.safetensors");
    all.merge(load_safetensors(std::string(HEARTH_GOLDEN_DIR) + "/quantised_tables.safetensors"));
    return all;
  }();
  return tensors;
}
Tensor golden(DType format, const std::string& what) {
  return golden().at(std::string(dtype_name(format)) + "." + what);
}
std::vector<std::byte> bytes_of(DType format, const std::string& what) {
  return golden(format, what).to_bytes();
}
// Rounded to nearest, without a search.
bool is_simple(DType format) { return block_elements(format) == 32 && format != DType::iq4_nl; }

// Root of the mean square of a - b.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum / static_cast<double>(a.size()));
}

Tensor on(const Tensor& tensor, Device device) { return tensor.to(device); }

class Quantised : public ::testing::TestWithParam<DType> {
 protected:
  DType format() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Formats, Quantised, ::testing::ValuesIn(formats),
                         [](const auto& one) { return std::string(dtype_name(one.param)); });

TEST_P(Quantised, BlocksReadAsTheReferenceReadsThem) {
  for (const Device device : tested_devices())
    for (const char* what : {"blocks", "any"}) {
      const Tensor blocks = on(from_blocks(bytes_of(format(), what), {512}, format()), device);
      const auto expected =
          golden(format(), what == std::string("any") ? "any_values" : "values").to_vector<float>();
      EXPECT_EQ(dequantise(blocks).to_vector<float>(), expected);
      EXPECT_EQ(dequantise(reshape(blocks, {2, 256}), DType::bf16).to_vector<bfloat16>().size(), 512u);
      EXPECT_EQ(dequantise(blocks, DType::f64).to_vector<double>(),
                std::vector<double>(expected.begin(), expected.end()));
      const auto halves = dequantise(blocks, DType::f16).to_vector<float16>();
      for (std::size_t i = 0; i < halves.size(); ++i)
        ASSERT_EQ(static_cast<float>(halves[i]), static_cast<float>(float16(expected[i])));
    }
}

TEST_P(Quantised, QuantisesAsWellAsTheReference) {
  const Tensor x = golden().at("x");
  const Tensor blocks = quantise(x, format());
  if (is_simple(format())) {
    EXPECT_EQ(blocks.to_bytes(), bytes_of(format(), "blocks"));
    return;
  }
  const auto source = x.to_vector<float>();
  const double reference = distance(golden(format(), "values").to_vector<float>(), source);
  EXPECT_LE(distance(dequantise(blocks).to_vector<float>(), source), 1.1 * reference);
}

TEST_P(Quantised, RoundTripIsCloseToTheNumbers) {
  manual_seed(3);
  const Tensor x = randn({8, 512}).eval();
  constexpr double bounds[] = {0.11, 0.09, 0.055, 0.045, 0.006, 0.33, 0.19,
                               0.08, 0.04, 0.02,  0.09,  0.09,  0.15};
  const double bound = bounds[static_cast<int>(format()) - dtype_count];
  EXPECT_LE(distance(dequantise(quantise(x, format())).to_vector<float>(), x.to_vector<float>()), bound);
  for (const double value : {0.0, 2.5, -3.0}) {  // constant blocks
    const auto result = dequantise(quantise(full({256}, value), format())).to_vector<float>();
    const double coarse = format() == DType::mxfp4 ? 0.21 : 0.01;  // 2.5 lies between 2 and 3
    for (const float element : result) ASSERT_NEAR(element, value, coarse * std::abs(value));
  }
}

// Squared errors times the importance of their columns.
double weighed_error(const Tensor& x, const Tensor& blocks, const std::vector<float>& importance) {
  const auto a = x.to_vector<float>(), b = dequantise(blocks).to_vector<float>();
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += importance[i % importance.size()] * std::pow(static_cast<double>(a[i]) - b[i], 2);
  return sum;
}

TEST_P(Quantised, ImportanceLessensTheErrorsThatCount) {
  manual_seed(5);
  const Tensor x = randn({9, 768}).eval();
  const auto importance = exp(randn({768}) * 2.0).to_vector<float>();
  const Tensor plain = quantise(x, format()), weighed = quantise(x, format(), importance);
  const double before = weighed_error(x, plain, importance), after = weighed_error(x, weighed, importance);
  if (format() == DType::q8_0) {
    EXPECT_EQ(weighed.to_bytes(), plain.to_bytes());
  } else {
    EXPECT_LT(after, 0.92 * before);
  }
  // Where all count the same, a search is no worse than rounding to nearest.
  const std::vector<float> same(768, 3.0f);
  EXPECT_LE(weighed_error(x, quantise(x, format(), same), same), weighed_error(x, plain, same) * (1 + 1e-9));
}

TEST_P(Quantised, ImportanceOfNothingIsNoImportance) {
  manual_seed(6);
  const Tensor x = (randn({2, 512}) + 1.0).eval();
  const std::vector<float> none(512, 0.0f), all(512, 1.0f);
  EXPECT_EQ(quantise(x, format(), none).to_bytes(), quantise(x, format(), all).to_bytes());
  std::vector<float> one(512, 0.0f);  // the only column that counts is hit, and the others stay what they are
  one[300] = 1;
  const auto result = dequantise(quantise(x, format(), one)).to_vector<float>();
  const auto source = x.to_vector<float>();
  const double coarse = format() == DType::q2_k || format() == DType::mxfp4 ? 2.5 : 1.5;
  for (std::size_t i = 0; i < result.size(); ++i) ASSERT_NEAR(result[i], source[i], coarse) << i;
}

// rows, columns, depth
struct Size {
  std::int64_t m, n, k;
};

// Elements are rounded to 1 / 254 of the largest of 32, each error on its own: of two deviations mostly, of
// four at most, which makes 0.005 to 0.01 times the root of the depth, and there are thousands of results.
// Of more than a few rows on a GPU, both operands are in f16.
double rounding_of(std::int64_t rows, Device device) {
  return rows <= 8 || device.kind == DeviceKind::cpu ? 0.035 : 0.004;
}

void expect_products_of_the_numbers(Device device, DType format, const Size& size) {
  SCOPED_TRACE(to_string(device) + " " + std::to_string(size.m) + " x " + std::to_string(size.n) + " x " +
               std::to_string(size.k));
  const Tensor weight = quantise(randn({size.n, size.k}), format);
  const Tensor x = randn({size.m, size.k}).eval();
  const auto expected =
      matmul(x.to(DType::f64), transpose(dequantise(weight, DType::f64), 0, 1)).to_vector<double>();
  const auto got = linear(on(x, device), on(weight, device)).to_vector<float>();
  ASSERT_EQ(got.size(), expected.size());
  const double tolerance = rounding_of(size.m, device) * std::sqrt(static_cast<double>(size.k));
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], tolerance) << i;
}

TEST_P(Quantised, ProductsAreThoseOfTheNumbers) {
  manual_seed(5);
  const std::int64_t block = block_elements(format());
  std::vector<Size> sizes = {{1, 1, block}, {1, 33, 512}, {2, 17, 2 * block}, {3, 130, 768},
                             {1, 5, 8192},  {1, 5, 4352}, {0, 4, block}};
  for (std::int64_t m : {4, 5, 8, 9, 17}) sizes.push_back({m, 40, 512});
  sizes.push_back({70, 131, 3 * 256});
  sizes.push_back({33, 9, 9 * 256});
  for (const Device device : tested_devices())
    for (const Size& size : sizes) expect_products_of_the_numbers(device, format(), size);
}

// Rows of a batch: tiles that are full, not full, and one more than full; columns that fill no tile; a depth
// of one block, and one that is no multiple of what is multiplied at once.
TEST_P(Quantised, ProductsOfBatchesAreThoseOfTheNumbers) {
  manual_seed(8);
  const std::int64_t block = block_elements(format());
  for (const Device device : tested_devices()) {
    for (const std::int64_t rows : {9, 16, 33, 63, 64, 65, 100, 128})
      expect_products_of_the_numbers(device, format(), {rows, 37, block});
    expect_products_of_the_numbers(device, format(), {17, 131, 5 * block});
    expect_products_of_the_numbers(device, format(), {64, 128, 5 * block});
    // Deep: divided among blocks.
    const std::vector<std::int64_t> deep =
        brief() ? std::vector<std::int64_t>{61} : std::vector<std::int64_t>{31, 61, 127, 131};
    for (const std::int64_t rows : deep)
      expect_products_of_the_numbers(device, format(), {rows, 41, 17 * 256});
    if (!brief()) expect_products_of_the_numbers(device, format(), {257, 140, 2 * 256});
    // Wide: for an emulated chip this would be much.
    if (device.kind == DeviceKind::cuda)
      expect_products_of_the_numbers(device, format(), {61, 6200, 3 * 256});
  }
}

// So deep that what a GPU keeps of x in shared memory is replaced many times. Rows of the weights come again
// and again, for which the reference is computed once; for an emulated chip this would be much.
TEST_P(Quantised, ProductsOfManyColumnsAreThoseOfTheNumbers) {
  manual_seed(9);
  constexpr std::int64_t some = 31, times = 200, columns = some * times, depth = 8192, most_rows = 250;
  const Tensor weight = quantise(randn({some, depth}), format()), x = randn({most_rows, depth}).eval();
  const auto expected =
      matmul(x.to(DType::f64), transpose(dequantise(weight, DType::f64), 0, 1)).to_vector<double>();
  const auto rows_once = weight.to_bytes();
  std::vector<std::byte> bytes;
  for (std::int64_t i = 0; i < times; ++i) bytes.insert(bytes.end(), rows_once.begin(), rows_once.end());
  const Tensor repeated = from_blocks(bytes, {columns, depth}, format());
  for (const Device device : tested_devices()) {
    if (device.kind == DeviceKind::rocm && brief()) continue;
    for (const std::int64_t rows :
         {std::int64_t{13}, std::int64_t{29}, std::int64_t{61}, std::int64_t{127}, most_rows}) {
      const auto got = linear(on(narrow(x, 0, 0, rows), device), on(repeated, device)).to_vector<float>();
      const double tolerance = rounding_of(rows, device) * std::sqrt(static_cast<double>(depth));
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < columns; ++c)
          ASSERT_NEAR(got[static_cast<std::size_t>(r * columns + c)],
                      expected[static_cast<std::size_t>(r * some + c % some)], tolerance)
              << to_string(device) << ", row " << r << " of " << rows << ", column " << c;
    }
  }
}

TEST_P(Quantised, ProductsOfHalvesStridesAndStacks) {
  manual_seed(7);
  for (const Device device : tested_devices()) {
    const Tensor weight = quantise(randn({48, 512}), format());
    const Tensor wide = randn({2, 512, 3}).eval();
    const Tensor bias = randn({48}).eval();
    const auto expected =
        (matmul(wide.transpose(1, 2), transpose(dequantise(weight), 0, 1)) + bias).to_vector<float>();
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const Tensor got =
          linear(on(wide.to(dtype), device).transpose(1, 2), on(weight, device), on(bias.to(dtype), device));
      EXPECT_EQ(got.dtype(), dtype);
      EXPECT_EQ(got.shape(), (Shape{2, 3, 48}));
      const auto values = got.to(DType::f32).to_vector<float>();
      for (std::size_t i = 0; i < values.size(); ++i)
        ASSERT_NEAR(values[i], expected[i], dtype == DType::bf16 ? 1.0 : 0.6) << i;
    }
  }
}

TEST_P(Quantised, RowsAreTaken) {
  manual_seed(9);
  const Tensor weight = quantise(randn({7, 256}), format());
  const Tensor indices = tensor(std::vector<std::int64_t>{6, 0, -1, 3, 3, 2}, {2, 3});
  const Tensor rows = take(dequantise(weight), indices, 0);
  for (const Device device : tested_devices()) {
    const Tensor w = on(weight, device);
    EXPECT_EQ(take(w, on(indices, device), 0).to_vector<float>(), rows.to_vector<float>());
    EXPECT_EQ(embedding(on(indices, device).transpose(0, 1), w).to_vector<float>(),
              rows.transpose(0, 1).to_vector<float>());
    EXPECT_EQ(
        quantised_take(w, on(indices.to(DType::i32), device), DType::bf16).to(DType::f32).to_vector<float>(),
        rows.to(DType::bf16).to(DType::f32).to_vector<float>());
    EXPECT_EQ(take(w, on(zeros({0}, DType::i64), device), 0).shape(), (Shape{0, 256}));
    EXPECT_THROW(
        {
          take(w, on(tensor(std::vector<std::int64_t>{7}, {1}), device), 0).eval();
          synchronize(device);
        },
        IndexError);
  }
}

TEST_P(Quantised, CopiesAndMoves) {
  const auto bytes = bytes_of(format(), "any");
  for (const Device device : tested_devices()) {
    const Tensor blocks = on(from_blocks(bytes, {512}, format()), device);
    EXPECT_EQ(blocks.nbytes(), bytes.size());
    EXPECT_EQ(blocks.to_bytes(), bytes);
    EXPECT_EQ(copy(blocks).to_bytes(), bytes);
    EXPECT_EQ(copy(reshape(blocks, {2, 1, 256})).to_bytes(), bytes);
    EXPECT_EQ(blocks.to(Device{}).to_bytes(), bytes);
  }
}

TEST_P(Quantised, WhatIsNotFiniteGivesNotANumber) {
  const Tensor weight = quantise(ones({3, 256}), format());
  for (const Device device : tested_devices())
    for (const std::int64_t rows : {2, 12})
      for (const double bad : {NAN, INFINITY}) {
        const Tensor x = where(arange(rows * 256).reshape({rows, 256}) == 40, bad, 1.0);
        const auto got = linear(on(x, device), on(weight, device)).to_vector<float>();
        for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(std::isfinite(got[i]), i >= 3) << i;
      }
}

// Rows that are no whole number of what a wave reads at a time, of which the last lanes have less than
// others.
TEST(QuantisedRows, OfAnyLength) {
  struct Sizes {
    std::int64_t columns, depth;
  };
  for (const Device device : tested_devices())
    for (const DType format : {DType::q8_0, DType::q4_k})
      for (const auto& [columns, depth] : {Sizes{5, 34048}, Sizes{1024, 5632}, Sizes{1536, 2560}}) {
        const Tensor x = randn({1, depth}), w = quantise(randn({columns, depth}), format);
        const Tensor expected = matmul(x, dequantise(w).transpose(0, 1));
        const Tensor got = linear(on(x, device), on(w, device)).to(Device{});
        const float most = max(abs(expected)).item<float>();
        EXPECT_LE(max(abs(expected - got)).item<float>(), 0.02f * most)
            << dtype_name(format) << " " << columns << " x " << depth << " on " << to_string(device);
      }
}

// Rounding x divides by its largest number, whose reciprocal f32 may not have. (The CPU multiplies integers
// with scales in an order in which such numbers are too large.)
TEST_P(Quantised, NumbersMayBeLarge) {
  const Tensor weight = quantise(ones({3, 256}) * 0.25, format());
  for (const Device device : tested_devices())
    for (const double large : {device.kind == DeviceKind::cpu ? 1e30 : 3e38, 1e-28}) {
      const Tensor x = where(arange(256).reshape({1, 256}) == 40, large, 0.0);
      for (const float got : linear(on(x, device), on(weight, device)).to_vector<float>())
        ASSERT_NEAR(got / large, 0.25, 0.05) << large << " " << to_string(device);
    }
}

// With an expression behind the product, which a GPU computes in the same kernel.
TEST_P(Quantised, ProductsGoOn) {
  for (const Device device : tested_devices()) {
    const DeviceScope here(device);
    for (const std::int64_t rows : {1, 3, 21}) {
      manual_seed(31);
      const Tensor x = randn({rows, 512}).eval(), residual = randn({rows, 40}).eval(),
                   bias = randn({40}).eval();
      const Tensor w = quantise(randn({40, 512}), format());
      const Tensor alone = quantised_matmul(x, w).eval();
      const auto expected = (relu(alone + bias) * 2.0 + residual).to_vector<float>();
      const Tensor together = relu(quantised_matmul(x, w) + bias) * 2.0 + residual;
      const auto found = together.to_vector<float>();
      for (std::size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 1e-4 * std::max(1.0f, std::abs(expected[i]))) << rows;
    }
  }
}

// A norm before it, which a GPU computes in the same kernel if nobody else reads it.
TEST(QuantisedProducts, OfNorms) {
  for (const Device device : tested_devices())
    for (const DType format : {DType::q8_0, DType::q4_k}) {
      const DeviceScope here(device);
      for (const std::int64_t rows : {1, 3, 11, 40, 130}) {
        if (device.kind == DeviceKind::rocm && brief() && rows == 40) continue;  // StoredHeads has them
        SCOPED_TRACE(to_string(device) + " " + std::string(dtype_name(format)) + " " + std::to_string(rows));
        const bool joins = device.kind != DeviceKind::cpu;
        manual_seed(37);
        const Tensor all = (randn({rows, 600}) * 30.0).eval(), residual = randn({rows, 40}).eval();
        const Tensor weight = randn({512}).eval(), w = quantise(randn({40, 512}), format);
        for (const std::int64_t begin : {0, 21}) {  // rows that are not side by side
          const Tensor x = narrow(all, 1, begin, 512);
          const Tensor norm = rms_norm(x, weight, 1e-5).eval();
          const auto expected = (quantised_matmul(norm, w) + residual).to_vector<float>();
          const auto expect = [&](const Tensor& result, std::size_t steps) {
            if (joins) {
              EXPECT_EQ(last_plan_stats().steps, steps);
            }
            // Where x becomes f16, another last digit of the norm may make another number of it.
            const float least = device.kind != DeviceKind::cpu && rows > 8 ? 100.0f : 1.0f;
            const auto found = result.to_vector<float>();
            for (std::size_t i = 0; i < found.size(); ++i)
              ASSERT_NEAR(found[i], expected[i], 1e-4 * std::max(least, std::abs(expected[i])));
          };
          expect((quantised_matmul(rms_norm(x, weight, 1e-5), w) + residual).eval(), 1);
          const Tensor read_twice = rms_norm(x, weight, 1e-5),
                       product = quantised_matmul(read_twice, w) + residual, doubled = read_twice * 2.0;
          eval({product, doubled});
          expect(product, 3);
        }
      }
      for (const std::int64_t rows : {2, 11, 40}) {
        const Tensor x = where(arange(rows * 256).reshape({rows, 256}) == 40, NAN, 1.0);
        const auto found = quantised_matmul(rms_norm(x, ones({256}), 1e-5), quantise(ones({3, 256}), format))
                               .to_vector<float>();
        for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isfinite(found[i]), i >= 3) << i;
        const Tensor nothing = rms_norm(zeros({rows, 256}).eval(), ones({256}).eval(), 1e-20);
        for (const float none :
             quantised_matmul(nothing, quantise(ones({3, 256}), format)).to_vector<float>())
          EXPECT_EQ(none, 0.0f);
      }
    }
}

// silu(gate) * up of a product that has both, likewise.
TEST(QuantisedProducts, OfHalves) {
  for (const Device device : tested_devices())
    for (const DType format : {DType::q8_0, DType::q4_k, DType::q6_k}) {
      const DeviceScope here(device);
      for (const std::int64_t rows : {1, 3, 8, 11, 40, 130})
        for (const std::int64_t half : {3, 150}) {
          if (device.kind == DeviceKind::rocm && brief() && rows > 11) continue;  // no kernels of their own
          SCOPED_TRACE(to_string(device) + " " + std::string(dtype_name(format)) + " " +
                       std::to_string(rows) + " x " + std::to_string(half));
          manual_seed(41);
          const Tensor x = randn({rows, 512}).eval(), weight = randn({512}).eval(),
                       residual = randn({rows, half}).eval();
          const Tensor w = quantise(randn({2 * half, 512}), format);
          const auto gated = [&](const Tensor& both) {
            return silu(narrow(both, 1, 0, half)) * narrow(both, 1, half, half) + residual;
          };
          const Tensor both = quantised_matmul(rms_norm(x, weight, 1e-5).eval(), w).eval();
          const auto expected = gated(both).to_vector<float>();
          // What a last digit of one half does is as large as the other half.
          const auto sizes =
              ((1.0 + abs(narrow(both, 1, 0, half))) * (1.0 + abs(narrow(both, 1, half, half))))
                  .to_vector<float>();
          const Tensor result = gated(quantised_matmul(rms_norm(x, weight, 1e-5), w)).eval();
          const bool few = device.kind != DeviceKind::cpu && rows <= 8 && format != DType::q6_k;
          if (few || (rows > 8 && has_wgmma(device))) {
            EXPECT_EQ(last_plan_stats().steps, 1u);
          }
          // x becomes f16 after the norm there, as above. And offsets take away nearly all that q4_k adds up.
          const double rounding = format == DType::q4_k ? 2e-5 : 1e-5;
          const double digits = device.kind != DeviceKind::cpu && rows > 8 ? 1e-2 : rounding;
          const auto found = result.to_vector<float>();
          for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_NEAR(found[i], expected[i], digits * sizes[i]) << i;
        }
    }
}

// Products that follow each other in a plan which is replayed: a kernel may have weights on their way before
// the one in front of it has ended. Waves with several columns, with parts of one, and with none.
TEST(QuantisedProducts, FollowEachOther) {
  for (const Device device : tested_devices())
    for (const DType format : {DType::q8_0, DType::q4_0, DType::q4_k, DType::q6_k, DType::f16, DType::bf16}) {
      const DeviceScope here(device);
      const bool slow = device.kind == DeviceKind::rocm && brief();
      if (slow && format != DType::q8_0 && format != DType::q4_k) continue;
      const bool large = device.kind == DeviceKind::cuda;
      const std::int64_t width = large ? 2304 : 256, inner = large ? 9216 : 256;
      manual_seed(43);
      const auto weights = [&](std::int64_t columns, std::int64_t depth) {
        const Tensor w = randn({columns, depth}) / std::sqrt(static_cast<double>(depth));
        return (is_quantised(format) ? quantise(w, format) : w.to(format)).eval();
      };
      const Tensor scale = (1.0 + randn({width}) * 0.1).eval();
      struct Layer {
        Tensor up, down, square;
      };
      std::vector<Layer> layers;
      for (int i = 0; i < (slow ? 2 : 3); ++i)
        layers.push_back({weights(2 * inner, width), weights(width, inner), weights(width, width)});
      for (const std::int64_t rows : {1, 2, 5, 12, 20, 40, 100, 300}) {
        if (slow && rows != 1 && rows != 5) continue;
        SCOPED_TRACE(to_string(device) + " " + std::string(dtype_name(format)) + " " + std::to_string(rows));
        const auto run = [&](const Tensor& start, bool alone) {
          const auto step = [&](const Tensor& x) { return alone ? x.eval() : x; };
          Tensor x = start;
          for (const Layer& layer : layers) {
            const Tensor both = step(quantised_matmul(step(rms_norm(x, scale, 1e-5)), layer.up));
            const Tensor gated = silu(narrow(both, 1, 0, inner)) * narrow(both, 1, inner, inner);
            x = step(x + step(quantised_matmul(step(gated), layer.down)));
            x = step(x + step(quantised_matmul(x, layer.square)));
          }
          return x;
        };
        Compiled together =
            compile([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{run(in[0], false)}; });
        for (int turn = 0; turn < 3; ++turn) {
          const Tensor start = randn({rows, width}).eval();
          const auto expected = run(start, true).to_vector<float>(),
                     found = together({start})[0].to_vector<float>();
          // Bytes that x is rounded to change by one where it differs in its last digits.
          for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_NEAR(found[i], expected[i], is_quantised(format) ? 0.4 : 1e-3) << turn << " " << i;
        }
      }
    }
}

// Weights in 16 bits: few rows of x lose nothing, many may be rounded to the weights' dtype.
TEST(HalfProducts, AreThoseOfTheNumbers) {
  for (const Device device : tested_devices())
    for (const DType dtype : {DType::f16, DType::bf16})
      for (const std::int64_t depth : {0, 5, 264})
        for (const std::int64_t rows : {1, 7, 20}) {
          const DeviceScope here(device);
          manual_seed(41);
          const Tensor x = randn({rows, depth}).eval(), w = randn({37, depth}).to(dtype).eval();
          const auto exact = matmul(x.to(DType::f64), w.to(DType::f64).transpose(0, 1)).to_vector<double>();
          const auto sizes =
              matmul(abs(x).to(DType::f64), abs(w).to(DType::f64).transpose(0, 1)).to_vector<double>();
          const auto found = quantised_matmul(x, w).to_vector<float>();
          ASSERT_EQ(found.size(), exact.size());
          const bool by_unit = device.kind == DeviceKind::cpu && cpu::has_matrix_unit();
          const double of_many = by_unit ? 0x1p-15 : device.kind == DeviceKind::cpu ? 1e-6 : 4e-3;
          const double precision = rows > 8 ? of_many : 1e-6;
          for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_NEAR(found[i], exact[i], precision * sizes[i] + 1e-30)
                << dtype_name(dtype) << " " << rows << " x " << depth;
          // Strided operands, and an expression behind.
          const Tensor turned = w.transpose(0, 1).contiguous().eval().transpose(0, 1);
          const Tensor wide = concat({x, x}, 1).eval();
          const auto same =
              (quantised_matmul(narrow(wide, 1, depth, depth), turned) + 1.0).to_vector<float>();
          for (std::size_t i = 0; i < found.size(); ++i)
            ASSERT_NEAR(same[i], found[i] + 1.0f, precision * sizes[i] + 1e-6);
        }
}

TEST(HalfProducts, KeepWhatIsNotFiniteToItsRow) {
  for (const Device device : tested_devices())
    for (const std::int64_t rows : {3, 20}) {
      const DeviceScope here(device);
      std::vector<float> values(static_cast<std::size_t>(rows) * 16, 1.0f);
      values[17] = std::nanf("");
      const Tensor w = ones({4, 16}, DType::bf16).eval();
      const auto found = quantised_matmul(tensor<float>(values).reshape({rows, 16}), w).to_vector<float>();
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isnan(found[i]), i / 4 == 1) << i;
    }
}

TEST(QuantisedErrors, AreClear) {
  const Tensor w = quantise(ones({2, 64}), DType::q4_0);
  const Tensor x = ones({2, 64});
  expect_error<DTypeError>([&] { w + 1.0; }, {"[add] q4_0 is a storage format; dequantise first"});
  expect_error<DTypeError>([&] { x* w; }, {"[mul] q4_0 is a storage format; dequantise first"});
  expect_error<DTypeError>([&] { exp(w); }, {"[exp] q4_0 is a storage format; dequantise first"});
  expect_error<DTypeError>([&] { sum(w); }, {"[sum] q4_0 is a storage format; dequantise first"});
  expect_error<DTypeError>([&] { matmul(x, w); }, {"[matmul] q4_0 is a storage format; dequantise first"});
  expect_error<DTypeError>([&] { transpose(w, 0, 1); },
                           {"[permute] q4_0 is a storage format; dequantise first"});
  expect_error<DTypeError>(
      [&] {
        w.slice({{0, 1}});
      },
      {"[slice] q4_0 is a storage format; dequantise first"});
  expect_error<DTypeError>([&] { w.to(DType::f32); }, {"[cast] q4_0 is a storage format; dequantise first"});
  expect_error<DTypeError>([&] { x.to(DType::q4_0); }, {"[cast] q4_0 is a storage format; use quantise"});
  expect_error<DTypeError>([&] { w.to_vector<float>(); },
                           {"[cast] q4_0 is a storage format; dequantise first"});
  expect_error<DTypeError>([&] { take(w, zeros({1}, DType::i64), 1); },
                           {"[take] q4_0 is a storage format; dequantise first"});
  expect_error<ShapeError>(
      [&] {
        reshape(w, {8, 16});
      },
      {"[reshape] q4_0 comes in blocks of 32, the last axis of (8, 16) is not a multiple"});
  expect_error<ShapeError>(
      [&] {
        quantise(ones({2, 40}), DType::q8_0);
      },
      {"[quantise] q8_0 comes in blocks of 32, the last axis of (2, 40) is not a multiple"});
  expect_error<DTypeError>([&] { quantise(x, DType::f16); },
                           {"[quantise] needs a block format (q8_0, q4_k, ...), got f16"});
  expect_error<ValueError>([&] { quantise(x / 0.0, DType::q4_0); },
                           {"[quantise] a value is NaN or infinite"});
  const std::vector<float> few(32, 1.0f), negative(64, -1.0f), no_number(64, NAN);
  expect_error<ShapeError>([&] { quantise(x, DType::q4_0, few); },
                           {"[quantise] 32 numbers of importance do not fit (2, 64)"});
  expect_error<ValueError>([&] { quantise(x, DType::q4_0, negative); }, {"[quantise] an importance of -1"});
  expect_error<ValueError>([&] { quantise(x, DType::q4_0, no_number); }, {"[quantise] an importance of nan"});
  expect_error<ShapeError>(
      [&] {
        quantised_matmul(ones({2, 32}), w);
      },
      {"[quantised_matmul] x (2, 32) does not fit weight (2, 64)"});
  expect_error<ShapeError>([&] { from_blocks({}, {32}, DType::q4_0); },
                           {"[from_bytes] q4_0 (32,) needs 18 bytes, got 0"});
  Tensor leaf = ones({2, 64});
  leaf.requires_grad_();
  expect_error<ValueError>([&] { sum(linear(leaf, w)).backward(); },
                           {"[backward] quantised_matmul has no gradient"});
  EXPECT_EQ(dtype_from_name("Q4_K"), DType::q4_k);
  EXPECT_EQ(w.to_string(), "Tensor(2, 64) q4_0");
}

}  // namespace
}  // namespace hearth::test
