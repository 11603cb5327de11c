// Reductions long enough for the paths that short ones do not take, against plain loops in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/thread_pool.h"
#include "hearth/eval.h"
#include "hearth/ops.h"
#include "hearth/random.h"

namespace hearth {
namespace {

// Runs one test with a number of threads.
class ThreadScope {
 public:
  explicit ThreadScope(int threads) { set_thread_count(threads); }
  ~ThreadScope() { set_thread_count(0); }
};

void expect_near(const std::vector<float>& result, const std::vector<double>& expected, double scale) {
  ASSERT_EQ(result.size(), expected.size());
  for (std::size_t i = 0; i < result.size(); ++i)
    ASSERT_NEAR(result[i], expected[i], 1e-6 * (scale + std::abs(expected[i]))) << "element " << i;
}

class LongReductions : public testing::TestWithParam<std::pair<std::int64_t, std::int64_t>> {
 protected:
  std::int64_t rows = GetParam().first, columns = GetParam().second;
  Tensor x = randn({rows, columns}).eval();
  std::vector<float> data = x.to_vector<float>();

  float at(std::int64_t r, std::int64_t c) const { return data[static_cast<std::size_t>(r * columns + c)]; }
};

TEST_P(LongReductions, SumsOverEitherAxisAndBoth) {
  std::vector<double> by_row(static_cast<std::size_t>(rows)), by_column(static_cast<std::size_t>(columns));
  double all = 0;
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      by_row[static_cast<std::size_t>(r)] += at(r, c);
      by_column[static_cast<std::size_t>(c)] += at(r, c);
      all += at(r, c);
    }
  const double scale = std::sqrt(static_cast<double>(rows * columns));
  expect_near(sum(x, {1}).to_vector<float>(), by_row, scale);
  expect_near(sum(x, {0}).to_vector<float>(), by_column, scale);
  expect_near(sum(x).to_vector<float>(), {all}, scale);
}

TEST_P(LongReductions, LargestAndSmallestAreExactAndNaNShows) {
  std::vector<float> by_row(static_cast<std::size_t>(rows), -INFINITY),
      by_column(static_cast<std::size_t>(columns), INFINITY);
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c) {
      auto &largest = by_row[static_cast<std::size_t>(r)], &smallest = by_column[static_cast<std::size_t>(c)];
      largest = std::max(largest, at(r, c));
      smallest = std::min(smallest, at(r, c));
    }
  EXPECT_EQ(max(x, {1}).to_vector<float>(), by_row);
  EXPECT_EQ(min(x, {0}).to_vector<float>(), by_column);

  const std::int64_t row = rows * 2 / 3, column = columns * 4 / 5;
  const Tensor spoiled =
      where(arange(rows * columns).reshape({rows, columns}) == full({}, row * columns + column, DType::i64),
            std::numeric_limits<double>::quiet_NaN(), x);
  const auto rows_with_nan = max(spoiled, {1}).to_vector<float>();
  for (std::int64_t r = 0; r < rows; ++r)
    EXPECT_EQ(std::isnan(rows_with_nan[static_cast<std::size_t>(r)]), r == row) << "row " << r;
  const auto columns_with_nan = min(spoiled, {0}).to_vector<float>();
  for (std::int64_t c = 0; c < columns; ++c)
    EXPECT_EQ(std::isnan(columns_with_nan[static_cast<std::size_t>(c)]), c == column) << "column " << c;
  EXPECT_TRUE(std::isnan(max(spoiled).item<float>()));
}

TEST_P(LongReductions, DoNotDependOnTheNumberOfThreads) {
  const auto results = [&](int threads) {
    const ThreadScope scope(threads);
    const Tensor all[] = {sum(x, {0}), sum(x, {1}), sum(x), sum(x * x + 1.0, {1}), max(x, {0})};
    std::vector<std::vector<float>> values;
    for (const auto& tensor : all) values.push_back(tensor.to_vector<float>());
    return values;
  };
  EXPECT_EQ(results(1), results(3));
}

INSTANTIATE_TEST_SUITE_P(Shapes, LongReductions,
                         testing::Values(std::pair{6, 5003}, std::pair{5003, 6}, std::pair{1, 300007},
                                         std::pair{131, 1025}, std::pair{4099, 64}, std::pair{700, 1031}));

// Batch norm's sums: what is constant along a row is taken as a number.
// Columns are added up over an outer loop and a few rows at each of its positions. With 0.1, errors have one
// sign: they would show if too many were added up in f32.
TEST(Reduction, OverAxesThatAlternate) {
  const std::int64_t outer = 700, kept = 3, rows = 5, columns = 37;
  const Tensor x = full({outer, kept, rows, columns}, 0.1, DType::f32).eval();
  for (const Tensor& term : {x, x * 1.0 + 0.0}) {
    for (float value : sum(term, {0, 2}).to_vector<float>())
      EXPECT_NEAR(value, static_cast<double>(outer * rows) * static_cast<double>(0.1f), 1e-4);
    for (float value : max(term, {0, 2}).to_vector<float>()) EXPECT_EQ(value, 0.1f);
  }
  const Tensor places =
      arange(0, static_cast<double>(outer * kept * rows * columns)).reshape({outer, kept, rows, columns});
  const auto largest = max(places, {0, 2}).to_vector<float>(),
             smallest = min(places, {0, 2}).to_vector<float>();
  for (std::int64_t k = 0; k < kept; ++k)
    for (std::int64_t c = 0; c < columns; ++c) {
      const auto at = static_cast<std::size_t>(k * columns + c);
      EXPECT_EQ(smallest[at], static_cast<float>(k * rows * columns + c));
      EXPECT_EQ(largest[at], static_cast<float>((((outer - 1) * kept + k) * rows + rows - 1) * columns + c));
    }
}

TEST(Reduction, TakesOperandsThatAreConstantAlongRows) {
  for (const Shape& shape : {Shape{5, 3, 10, 20}, Shape{2, 4, 1, 5000}, Shape{7, 2, 4, 4}}) {
    const std::int64_t channels = shape[1], plane = shape[2] * shape[3];
    const Tensor x = randn(shape).eval(), mean = randn({1, channels, 1, 1}).eval();
    const Tensor gain = randn({shape[0], channels, 1, 1}).eval();
    const Tensor centred = x - mean;
    const Tensor result = sum(centred * centred * gain + 0.5, {0, 2, 3});
    eval({result, centred});
    const auto values = x.to_vector<float>(), means = mean.to_vector<float>(),
               gains = gain.to_vector<float>();
    std::vector<double> expected(static_cast<std::size_t>(channels));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto image_channel = i / static_cast<std::size_t>(plane);
      const auto channel = image_channel % static_cast<std::size_t>(channels);
      const double difference = double(values[i]) - means[channel];
      expected[channel] += difference * difference * gains[image_channel] + 0.5;
    }
    expect_near(result.to_vector<float>(), expected, std::sqrt(static_cast<double>(values.size())) * 4);
  }
}

}  // namespace
}  // namespace hearth
