// Integer kernels of quantised products, every variant that this machine can run: against sums in f64 of the
// same integers, so that only the rounding of f32 sums is left.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/block_formats.h"
#include "cpu/tile_product_kernels.h"
#include "hearth/dtype.h"

namespace hearth::cpu {
namespace {

struct Variant {
  const char* name;
  const QuantisedKernels* dots;
  const TileProductKernels* tiles;
};

std::vector<Variant> variants() {
  std::vector<Variant> list = {
      {"baseline", &baseline::quantised_kernels_table, &baseline::tile_product_kernels_table}};
  [[maybe_unused]] const auto add = [&](BytesIsa needed, Variant variant) {
    if (best_bytes_isa() >= needed) list.push_back(variant);
  };
#if defined(__aarch64__)
  add(BytesIsa::dotprod,
      {"dotprod", &dotprod::quantised_kernels_table, &dotprod::tile_product_kernels_table});
  add(BytesIsa::i8mm, {"i8mm", &i8mm::quantised_kernels_table, &i8mm::tile_product_kernels_table});
#elif defined(__x86_64__)
  add(BytesIsa::avx2, {"avx2", &avx2::quantised_kernels_table, &avx2::tile_product_kernels_table});
  add(BytesIsa::avx512, {"avx512", &avx512::quantised_kernels_table, &avx512::tile_product_kernels_table});
  add(BytesIsa::vnni, {"vnni", &vnni::quantised_kernels_table, &vnni::tile_product_kernels_table});
#endif
  return list;
}

// Of terms, and of their sizes without signs.
struct Sum {
  double sum, size;
};

struct Operands {
  DType format;
  std::size_t index;
  std::int64_t columns, depth, row_bytes;
  std::vector<char> weights;
  std::vector<float> numbers;  // the weights

  Operands(DType dtype, std::int64_t columns_wanted, std::int64_t depth_wanted, std::mt19937& random)
      : format(dtype),
        index(static_cast<std::size_t>(dtype) - dtype_count),
        columns(columns_wanted),
        depth(depth_wanted),
        row_bytes(storage_bytes(dtype, depth)) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(columns * depth));
    for (float& value : values) value = normal(random);
    weights.resize(static_cast<std::size_t>(columns * row_bytes));
    blocks::encode(format, values.data(), weights.data(), columns * depth / block_elements(format));
    numbers.resize(values.size());
    baseline::quantised_kernels_table.dequantise[index](weights.data(), numbers.data(), columns * depth);
  }

  // The product of a rounded row with row `column` of the weights, and what its terms add up to without
  // signs.
  Sum expected(RoundedRows x, std::int64_t column) const {
    double sum = 0, size = 0;
    for (std::int64_t k = 0; k < depth; ++k) {
      const double term = static_cast<double>(x.scale[k / 32]) * x.q[k] *
                          static_cast<double>(numbers[static_cast<std::size_t>(column * depth + k)]);
      sum += term;
      size += std::abs(term);
    }
    return {sum, size};
  }
};

struct Activations {
  std::vector<std::int8_t> q;
  std::vector<float> scale, sum, whole;

  Activations(std::int64_t rows, std::int64_t depth, std::mt19937& random)
      : q(static_cast<std::size_t>(rows * depth)),
        scale(q.size() / 32),
        sum(q.size() / 16),
        whole(scale.size()) {
    std::normal_distribution<float> normal;
    std::vector<float> x(q.size());
    for (float& value : x) value = normal(random);
    baseline::quantised_kernels_table.round(x.data(), rows_from(0), rows * depth);
  }
  RoundedRows rows_from(std::int64_t piece) {
    return {q.data() + piece * 32, scale.data() + piece, sum.data() + piece * 2, whole.data() + piece};
  }
};

// Memory aligned as scratch memory is.
struct alignas(64) Line {
  char bytes[64];
};
std::size_t lines(std::int64_t bytes) { return static_cast<std::size_t>((bytes + 63) / 64); }

class Products : public ::testing::TestWithParam<int> {
 protected:
  DType format() const { return static_cast<DType>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Formats, Products, ::testing::Range(dtype_count, dtype_count + block_format_count),
                         [](const auto& one) {
                           return std::string(dtype_name(static_cast<DType>(one.param)));
                         });

// Of the sum of the terms' sizes. VNNI multiplies bytes that 128 was added to, and takes that out of larger
// sums again.
constexpr double precision = 4e-6;

TEST_P(Products, OfTilesAreThoseOfTheIntegers) {
  std::mt19937 random(1);
  for (const Variant& variant : variants()) {
    const TileProductKernels& tiles = *variant.tiles;
    if (tiles.rows == 0) continue;
    SCOPED_TRACE(variant.name);
    for (const std::int64_t pieces : {block_elements(format()) / 32, std::int64_t{8}, std::int64_t{40}})
      for (const std::int64_t missing : {0, 1, 3}) {
        const std::int64_t rows = tiles.rows - missing, columns = tiles.columns - missing;
        const Operands operands(format(), columns, pieces * 32, random);
        Activations x(rows, pieces * 32, random);
        std::vector<Line> row_tile(lines(pieces * tiles.row_piece_bytes)),
            column_tile(lines(pieces * tiles.column_piece_bytes));
        tiles.arrange_rows(x.rows_from(0), rows, pieces, row_tile.data());
        tiles.arrange_columns[operands.index](operands.weights.data(), operands.row_bytes, columns, pieces,
                                              column_tile.data());
        const std::int64_t stride = tiles.columns + 5;
        std::vector<float> out(static_cast<std::size_t>(tiles.rows * stride), 0.5f);
        const auto multiply = tiles.multiply[operands.index];
        multiply(row_tile.data(), column_tile.data(), pieces, out.data(), stride, false);
        const std::vector<float> once = out;
        multiply(row_tile.data(), column_tile.data(), pieces, out.data(), stride, true);
        for (std::int64_t r = 0; r < tiles.rows; ++r)
          for (std::int64_t c = 0; c < stride; ++c) {
            const auto at = static_cast<std::size_t>(r * stride + c);
            if (c >= tiles.columns) {
              ASSERT_EQ(out[at], 0.5f);
              continue;
            }
            const auto [sum, size] =
                r < rows && c < columns ? operands.expected(x.rows_from(r * pieces), c) : Sum{0, 0};
            ASSERT_NEAR(once[at], sum, precision * size) << r << " " << c;
            ASSERT_EQ(out[at], once[at] + once[at]);
          }
      }
  }
}

TEST_P(Products, OfTilesKeepNaNToItsRow) {
  std::mt19937 random(2);
  for (const Variant& variant : variants()) {
    const TileProductKernels& tiles = *variant.tiles;
    if (tiles.rows == 0) continue;
    constexpr std::int64_t pieces = 8;
    const Operands operands(format(), tiles.columns, pieces * 32, random);
    Activations x(tiles.rows, pieces * 32, random);
    x.scale[3 * pieces + 5] = std::numeric_limits<float>::quiet_NaN();
    std::vector<Line> row_tile(lines(pieces * tiles.row_piece_bytes)),
        column_tile(lines(pieces * tiles.column_piece_bytes));
    tiles.arrange_rows(x.rows_from(0), tiles.rows, pieces, row_tile.data());
    tiles.arrange_columns[operands.index](operands.weights.data(), operands.row_bytes, tiles.columns, pieces,
                                          column_tile.data());
    std::vector<float> out(static_cast<std::size_t>(tiles.rows * tiles.columns));
    tiles.multiply[operands.index](row_tile.data(), column_tile.data(), pieces, out.data(), tiles.columns,
                                   false);
    for (std::int64_t i = 0; i < tiles.rows * tiles.columns; ++i)
      ASSERT_EQ(std::isnan(out[static_cast<std::size_t>(i)]), i / tiles.columns == 3) << variant.name << i;
  }
}

TEST_P(Products, OfRowsAreThoseOfTheIntegers) {
  std::mt19937 random(3);
  for (const Variant& variant : variants())
    for (const std::int64_t columns : {1, 3, 4, 6})
      for (const std::int64_t depth :
           {block_elements(format()), 7 * block_elements(format()), std::int64_t{1280}}) {
        SCOPED_TRACE(variant.name);
        const Operands operands(format(), columns, depth, random);
        Activations x(4, depth, random);
        const std::int64_t stride = columns + 2;
        std::vector<float> one(static_cast<std::size_t>(stride), 0.5f),
            four(static_cast<std::size_t>(4 * stride), 0.5f);
        variant.dots->multiply_row[operands.index](operands.weights.data(), columns, x.rows_from(0),
                                                   one.data(), stride, depth);
        variant.dots->multiply_four_rows[operands.index](operands.weights.data(), columns, x.rows_from(0),
                                                         four.data(), stride, depth);
        for (std::int64_t r = 0; r < 4; ++r)
          for (std::int64_t column = 0; column < stride; ++column) {
            const float product = four[static_cast<std::size_t>(r * stride + column)];
            const float alone = r == 0 ? one[static_cast<std::size_t>(column)] : product;
            if (column >= columns) {
              ASSERT_EQ(product, 0.5f);
              ASSERT_EQ(alone, 0.5f);
              continue;
            }
            const auto [sum, size] = operands.expected(x.rows_from(r * depth / 32), column);
            ASSERT_NEAR(product, sum, precision * size) << columns << " " << column;
            ASSERT_NEAR(alone, sum, precision * size) << columns << " " << column;
          }
      }
}

}  // namespace
}  // namespace hearth::cpu
