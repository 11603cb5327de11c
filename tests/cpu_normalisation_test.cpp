// The CPU's normalisation kernels against plain loops in double.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "cpu_steps.h"
#include "hearth/error.h"

namespace hearth::cpu {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double epsilon = 1e-5;

using Values = std::vector<double>;

// Relative to the largest value at hand: what rounding the result to the dtype, or a sum in f32, costs.
double tolerance(DType dtype) {
  return dtype == DType::f64 ? 1e-12 : dtype == DType::f32 ? 5e-6 : dtype == DType::f16 ? 1.1e-3 : 8.2e-3;
}

// The reference: a row's result from its inputs, with weight and bias of the row's length or empty.
Values reference(Op op, const Values& x, const Values& dy, const Values& weight, const Values& bias) {
  const std::size_t n = x.size();
  Values out(n), g = dy;
  if (!dy.empty() && !weight.empty())
    for (std::size_t i = 0; i < n; ++i) g[i] *= weight[i];
  const auto dot = [](const Values& a, const Values& b) {
    return a.size() == b.size() ? std::inner_product(a.begin(), a.end(), b.begin(), 0.0) : 0.0;
  };
  const double top = *std::max_element(x.begin(), x.end()), count = static_cast<double>(n);
  double total = 0, mean = 0, variance = 0;
  for (double value : x) total += std::exp(value - top);
  for (double value : x) mean += value / count;
  for (double value : x) variance += (value - mean) * (value - mean) / count;
  const double scale = 1 / std::sqrt(variance + epsilon), rms = 1 / std::sqrt(dot(x, x) / count + epsilon);
  Values z(n);
  for (std::size_t i = 0; i < n; ++i) z[i] = (x[i] - mean) * scale;
  const double x_dy = dot(x, dy), g_z = dot(g, z), g_x = dot(g, x);
  const double sum_dy = std::accumulate(dy.begin(), dy.end(), 0.0),
               sum_g = std::accumulate(g.begin(), g.end(), 0.0);
  for (std::size_t i = 0; i < n; ++i) {
    const double w = weight.empty() ? 1 : weight[i], b = bias.empty() ? 0 : bias[i];
    switch (op) {
      case Op::softmax:
        out[i] = std::exp(x[i] - top) / total;
        break;
      case Op::log_softmax:
        out[i] = x[i] - top - std::log(total);
        break;
      case Op::softmax_grad:
        out[i] = x[i] * (dy[i] - x_dy);
        break;
      case Op::log_softmax_grad:
        out[i] = dy[i] - std::exp(x[i]) * sum_dy;
        break;
      case Op::layer_norm:
        out[i] = z[i] * w + b;
        break;
      case Op::layer_norm_grad:
        out[i] = scale * (g[i] - sum_g / count - z[i] * g_z / count);
        break;
      case Op::rms_norm:
        out[i] = x[i] * rms * w;
        break;
      default:
        out[i] = rms * (g[i] - x[i] * rms * rms * g_x / count);
    }
  }
  return out;
}

bool has_gradient_input(Op op) {
  return op == Op::softmax_grad || op == Op::log_softmax_grad || op == Op::layer_norm_grad ||
         op == Op::rms_norm_grad;
}
std::size_t most_parameters(Op op) {
  return op == Op::layer_norm                                                         ? 2
         : op == Op::layer_norm_grad || op == Op::rms_norm || op == Op::rms_norm_grad ? 1
                                                                                      : 0;
}
Attributes attributes_of(Op op) {
  if (most_parameters(op) == 0) return {};
  return NormAttributes{epsilon};
}

constexpr Op row_ops[] = {Op::softmax,    Op::softmax_grad,    Op::log_softmax, Op::log_softmax_grad,
                          Op::layer_norm, Op::layer_norm_grad, Op::rms_norm,    Op::rms_norm_grad};

void check_rows(Op op, DType dtype, const Shape& shape, Lay lay, std::size_t parameters,
                DType parameter_dtype) {
  const std::int64_t n = shape.back(), rows = element_count(shape) / n;
  std::vector<Array> inputs;
  inputs.push_back(normal_array(dtype, shape, lay, 1, op == Op::softmax_grad ? 0.1 : 1.0));
  if (op == Op::log_softmax_grad)
    for (std::int64_t i = 0; i < inputs[0].count(); ++i) inputs[0].set(i, -std::abs(inputs[0].get(i)) - 3);
  if (has_gradient_input(op)) inputs.push_back(normal_array(dtype, shape, lay, 2));
  for (std::size_t k = 0; k < parameters; ++k)
    inputs.push_back(normal_array(parameter_dtype, {n}, lay, static_cast<unsigned>(3 + k)));
  const Array out = run_step(make_normalisation, op, attributes_of(op), inputs, dtype, shape);
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto row_of = [&](const Array& array) {
      Values row;
      for (std::int64_t i = 0; i < n; ++i) row.push_back(array.get(r * n + i));
      return row;
    };
    std::size_t next = 1;
    const Values dy = has_gradient_input(op) ? row_of(inputs[next++]) : Values{};
    const Values weight = parameters > 0 ? inputs[next++].values() : Values{};
    const Values bias = parameters > 1 ? inputs[next].values() : Values{};
    const Values expected = reference(op, row_of(inputs[0]), dy, weight, bias);
    double largest = n < 8 ? 1 : 1e-3;  // a short row's gradient may cancel to nothing
    for (double value : expected) largest = std::max(largest, std::abs(value));
    for (std::int64_t i = 0; i < n; ++i)
      ASSERT_NEAR(out.get(r * n + i), expected[static_cast<std::size_t>(i)], tolerance(dtype) * largest)
          << op_name(op) << " " << dtype_name(dtype) << " " << to_string(shape) << " row " << r << " at "
          << i;
  }
}

TEST(Normalisation, RowsOfEverySize) {
  for (Op op : row_ops)
    for (DType dtype : every_floating)
      for (std::int64_t n : {2, 3, 15, 16, 17, 31, 64, 65, 127, 300})
        check_rows(op, dtype, {5, n}, Lay::dense, most_parameters(op), dtype);
}

TEST(Normalisation, EveryLayout) {
  for (Op op : row_ops)
    for (DType dtype : every_floating)
      for (Lay lay : every_lay)
        for (const Shape& shape : {Shape{3, 2, 19}, Shape{37, 33}, Shape{7}})
          check_rows(op, dtype, shape, lay, most_parameters(op), dtype);
}

TEST(Normalisation, OptionalParametersAndTheirDtypes) {
  for (Op op : {Op::layer_norm, Op::layer_norm_grad, Op::rms_norm, Op::rms_norm_grad})
    for (DType dtype : every_floating)
      for (DType parameter_dtype : every_floating)
        for (std::size_t parameters = 0; parameters <= most_parameters(op); ++parameters)
          check_rows(op, dtype, {4, 40}, Lay::dense, parameters, parameter_dtype);
}

TEST(Normalisation, LongRows) {
  for (Op op : row_ops) check_rows(op, DType::f32, {9, 16411}, Lay::dense, most_parameters(op), DType::f32);
}

TEST(Normalisation, SoftmaxOfInfinitiesAndNan) {
  for (DType dtype : every_floating)
    for (Op op : {Op::softmax, Op::log_softmax})
      for (std::int64_t n : {3, 40}) {
        const auto result = [&](double first, double second, double rest) {
          Values row(static_cast<std::size_t>(n), rest);
          row[0] = first;
          row[1] = second;
          return run_step(make_normalisation, op, {}, {array_of(dtype, {n}, row)}, dtype, {n}).values();
        };
        for (double value : result(-infinity, -infinity, -infinity)) EXPECT_TRUE(std::isnan(value));
        for (double value : result(0, nan, 1)) EXPECT_TRUE(std::isnan(value));
        const Values masked = result(5, -infinity, -infinity);
        EXPECT_EQ(masked[0], op == Op::softmax ? 1 : 0);
        EXPECT_EQ(masked[1], op == Op::softmax ? 0 : -infinity);
        EXPECT_TRUE(std::isnan(result(infinity, 0, 0)[0]));
        const Values steep = result(1000, -1000, -1000);
        EXPECT_EQ(steep[0], op == Op::softmax ? 1 : 0);
        EXPECT_NEAR(steep[1], op == Op::softmax ? 0 : -2000, dtype == DType::bf16 ? 8 : 0);
      }
}

TEST(Normalisation, NothingAndOne) {
  for (Op op : row_ops) {
    for (const Shape& shape : {Shape{0, 4}, Shape{4, 0}, Shape{0}}) {
      std::vector<Array> inputs(has_gradient_input(op) ? 2 : 1, empty_array(DType::f32, shape));
      EXPECT_EQ(run_step(make_normalisation, op, attributes_of(op), inputs, DType::f32, shape).count(), 0);
    }
    check_rows(op, DType::f32, {6, 1}, Lay::gapped, 0, DType::f32);
  }
  EXPECT_EQ(
      run_step(make_normalisation, Op::softmax, {}, {array_of(DType::f32, {}, {3})}, DType::f32, {}).get(0),
      1);
}

TEST(Normalisation, RowsThatRepeat) {  // a broadcast input: stride 0 between rows, or within one
  Array rows = array_of(DType::f32, {3}, {1, 2, 3});
  rows.layout.shape = {2, 3};
  rows.layout.strides = {0, 1};
  const Values once = run_step(make_normalisation, Op::softmax, {}, {rows}, DType::f32, {2, 3}).values();
  EXPECT_EQ(once[0], once[3]);
  EXPECT_NEAR(once[2], 0.66524096, 1e-6);
  Array constant = array_of(DType::f32, {2}, {1, 9});
  constant.layout.shape = {2, 5};
  constant.layout.strides = {1, 0};
  for (double value : run_step(make_normalisation, Op::softmax, {}, {constant}, DType::f32, {2, 5}).values())
    EXPECT_NEAR(value, 0.2, 1e-7);
}

// Small results count as much as large ones. The elements are multiples of 1/8, so that their differences to
// the largest are exact.
TEST(Normalisation, SoftmaxIsAccurateInEveryElement) {
  for (DType dtype : {DType::f32, DType::f64})
    for (std::int64_t n : {1, 7, 15, 16, 17, 31, 32, 33, 47, 48, 63, 64, 65, 80, 96, 1000, 4099}) {
      Values row;
      for (std::int64_t i = 0; i < n; ++i) row.push_back(static_cast<double>(i * 389 % 680) / 8 - 300);
      const Values out =
          run_step(make_normalisation, Op::softmax, {}, {array_of(dtype, {n}, row)}, dtype, {n}).values();
      const Values expected = reference(Op::softmax, row, {}, {}, {});
      for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_NEAR(out[i] / expected[i], 1, dtype == DType::f64 ? 1e-13 : 9e-7) << n << " at " << i;
    }
}

TEST(Normalisation, SoftmaxOfMaskedRows) {
  for (DType dtype : every_floating)
    for (Op op : {Op::softmax, Op::log_softmax})
      for (std::int64_t n : {1, 5, 16, 17, 33, 48, 100}) {
        Values row;
        for (std::int64_t i = 0; i < n; ++i)
          row.push_back((i * i + n) % 3 == 1 && i != n / 2 ? -infinity : static_cast<double>(i % 5) / 4);
        const Values out =
            run_step(make_normalisation, op, {}, {array_of(dtype, {n}, row)}, dtype, {n}).values();
        const Values expected = reference(op, row, {}, {}, {});
        for (std::size_t i = 0; i < out.size(); ++i) {
          if (row[i] == -infinity)
            ASSERT_EQ(out[i], op == Op::softmax ? 0 : -infinity) << n << " at " << i;
          else
            ASSERT_NEAR(out[i], expected[i], tolerance(dtype) * std::max(1.0, std::abs(expected[i])));
        }
      }
}

TEST(Normalisation, SoftmaxOfHugeValues) {
  const double huge = std::numeric_limits<float>::max();
  for (std::int64_t n : {4, 18, 36}) {
    Values row(static_cast<std::size_t>(n), -huge);
    row[1] = row[static_cast<std::size_t>(n) - 1] = huge;
    const Values out =
        run_step(make_normalisation, Op::softmax, {}, {array_of(DType::f32, {n}, row)}, DType::f32, {n})
            .values();
    for (std::size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], row[i] > 0 ? 0.5 : 0);
  }
}

// A NaN or an infinity in one row changes no other.
TEST(Normalisation, RowsDoNotTouchEachOther) {
  constexpr std::int64_t rows = 6;
  for (Op op : {Op::softmax, Op::log_softmax, Op::layer_norm, Op::rms_norm})
    for (DType dtype : every_floating)
      for (std::int64_t n : {3, 16, 33, 100}) {
        Array x = normal_array(dtype, {rows, n});
        for (std::int64_t i = 0; i < n; ++i) {
          x.set(1 * n + i, -infinity);
          x.set(3 * n + i, i == n / 2 ? nan : 1);
          x.set(4 * n + i, i == n - 1 ? infinity : 1);
        }
        const Array out = run_step(make_normalisation, op, attributes_of(op), {x}, dtype, {rows, n});
        for (std::int64_t r : {0, 2, 5}) {
          Array alone = empty_array(dtype, {n});
          for (std::int64_t i = 0; i < n; ++i) alone.set(i, x.get(r * n + i));
          const Values expected =
              run_step(make_normalisation, op, attributes_of(op), {alone}, dtype, {n}).values();
          for (std::int64_t i = 0; i < n; ++i)
            ASSERT_EQ(out.get(r * n + i), expected[static_cast<std::size_t>(i)])
                << op_name(op) << " row " << r << " at " << i;
        }
      }
}

// The variance is not the difference of two large sums, nor do results lose what a rounded mean lacks.
TEST(Normalisation, LayerNormOfAFarMean) {
  for (Op op : {Op::layer_norm, Op::layer_norm_grad})
    for (double mean : {1.0, 3.9, 4.1, -50.0, 1000.0, 1e6})
      for (std::int64_t n : {9, 40, 1000}) {
        std::vector<Array> inputs = {normal_array(DType::f32, {2, n})};
        for (std::int64_t i = 0; i < 2 * n; ++i) inputs[0].set(i, inputs[0].get(i) + mean);
        if (op == Op::layer_norm_grad) inputs.push_back(normal_array(DType::f32, {2, n}, Lay::dense, 2));
        const Values x = inputs[0].values(), dy = inputs.back().values();
        const Values out =
            run_step(make_normalisation, op, attributes_of(op), inputs, DType::f32, {2, n}).values();
        for (std::ptrdiff_t r = 0; r < 2; ++r) {
          const Values expected = reference(op, Values(x.begin() + r * n, x.begin() + (r + 1) * n),
                                            Values(dy.begin() + r * n, dy.begin() + (r + 1) * n), {}, {});
          for (std::int64_t i = 0; i < n; ++i)
            ASSERT_NEAR(out[static_cast<std::size_t>(r * n + i)], expected[static_cast<std::size_t>(i)], 1e-5)
                << op_name(op) << " mean " << mean << " size " << n << " at " << i;
        }
      }
}

TEST(Normalisation, LayerNormOfEqualElements) {  // the squares of the largest overflow
  for (double value : {0.0, 0.3, -7.0, 1e6, 1e25, -3e38})
    for (std::int64_t n : {1, 16, 37})
      for (double result :
           run_step(make_normalisation, Op::layer_norm, NormAttributes{epsilon},
                    {array_of(DType::f32, {n}, Values(static_cast<std::size_t>(n), value))}, DType::f32, {n})
               .values())
        EXPECT_NEAR(result, 0, 1e-4) << value;
}

TEST(Normalisation, RefusesIntegers) {
  EXPECT_THROW(
      run_step(make_normalisation, Op::softmax, {}, {random_array(DType::i32, {4})}, DType::i32, {4}),
      DTypeError);
}

// ---- rope

TEST(Rope, RotatesPairs) {
  for (DType dtype : every_floating)
    for (Lay lay : every_lay)
      for (bool interleaved : {false, true})
        for (bool inverse : {false, true})
          for (std::int64_t size : {2, 6, 64}) {
            const Shape shape{2, 3, 5, size};
            const Array x = normal_array(dtype, shape, lay);
            const Array positions = array_of(DType::i64, {5}, {0, 1, 17, 4095, 100000}, lay);
            const Array out =
                run_step(make_normalisation, Op::rope, RopeAttributes{10000, interleaved, inverse},
                         {x, positions}, dtype, shape);
            for (std::int64_t row = 0; row < 30; ++row)
              for (std::int64_t i = 0; i < size / 2; ++i) {
                const double angle =
                    positions.get(row % 5) *
                    std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(size)) *
                    (inverse ? -1 : 1);
                const std::int64_t first = row * size + (interleaved ? 2 * i : i);
                const std::int64_t second = interleaved ? first + 1 : first + size / 2;
                const double a = x.get(first), b = x.get(second);
                const double bound =
                    (dtype == DType::f64 ? 1e-9 : tolerance(dtype)) * (std::abs(a) + std::abs(b));
                ASSERT_NEAR(out.get(first), a * std::cos(angle) - b * std::sin(angle), bound);
                ASSERT_NEAR(out.get(second), a * std::sin(angle) + b * std::cos(angle), bound);
              }
          }
}

TEST(Rope, TwoAxesAndNothing) {
  const Array x = normal_array(DType::f32, {1, 4});
  const Array there = run_step(make_normalisation, Op::rope, RopeAttributes{},
                               {x, array_of(DType::i64, {1}, {12})}, DType::f32, {1, 4});
  const Array back = run_step(make_normalisation, Op::rope, RopeAttributes{10000, false, true},
                              {there, array_of(DType::i64, {1}, {12})}, DType::f32, {1, 4});
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_NEAR(back.get(i), x.get(i), 1e-6);
  for (const Shape& shape : {Shape{0, 3, 4}, Shape{2, 0, 4}, Shape{2, 3, 0}})
    EXPECT_EQ(
        run_step(make_normalisation, Op::rope, RopeAttributes{},
                 {empty_array(DType::f32, shape), random_array(DType::i64, {shape[1]})}, DType::f32, shape)
            .count(),
        0);
}

}  // namespace
}  // namespace hearth::cpu
