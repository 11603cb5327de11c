// The accuracy of the CPU's f32 functions, against the C library's in double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "cpu/elementwise_kernels.h"

namespace hearth::cpu {
namespace {

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();
constexpr float largest = std::numeric_limits<float>::max();
constexpr float smallest_normal = std::numeric_limits<float>::min();
constexpr float smallest = std::numeric_limits<float>::denorm_min();

std::vector<float> run(Op op, const std::vector<float>& x) {
  std::vector<float> y(x.size());
  elementwise_kernels().operations[static_cast<int>(op)][static_cast<int>(Compute::f32)](
      y.data(), x.data(), nullptr, nullptr, static_cast<std::int64_t>(x.size()));
  return y;
}

// The distance of neighbouring floats at a number.
double unit_at(double x) {
  if (!(std::abs(x) > smallest_normal)) return smallest;
  int exponent;
  std::frexp(std::min(std::abs(x), static_cast<double>(largest)), &exponent);
  return std::ldexp(1.0, exponent - 24);
}

struct Function {
  Op op;
  double (*exact)(double);
  float low, high;      // of the arguments
  double units;         // allowed error, in units in the last place of the result
  double absolute = 0;  // allowed besides, where results come from differences of larger numbers
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double normal_cdf(double x) { return 0.5 * std::erfc(-x * std::sqrt(0.5)); }
double normal_pdf(double x) { return std::exp(-0.5 * x * x) * 0.3989422804014326779; }
double softplus(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double erfinv(double x) {
  double y = 0;  // bisection, then Newton
  for (double low = -6, high = 6, i = 0; i < 60; ++i) {
    y = (low + high) / 2;
    (std::erf(y) < x ? low : high) = y;
  }
  for (int i = 0; i < 2; ++i)
    y -= (x > 0.5 ? (1 - x) - std::erfc(y) : std::erf(y) - x) * 0.88622692545275801 * std::exp(y * y);
  return y;
}

const Function functions[] = {
    {Op::exp, [](double x) { return std::exp(x); }, -110, 90, 1},
    {Op::exp2, [](double x) { return std::exp2(x); }, -155, 130, 1.5},
    {Op::expm1, [](double x) { return std::expm1(x); }, -30, 89, 2},
    {Op::expm1, [](double x) { return std::expm1(x); }, -1, 1, 2},
    {Op::log, [](double x) { return std::log(x); }, 0, largest, 1},
    {Op::log, [](double x) { return std::log(x); }, 0.5, 2, 1},
    {Op::log2, [](double x) { return std::log2(x); }, 0, largest, 1},
    {Op::log10, [](double x) { return std::log10(x); }, 0, largest, 2},
    {Op::log1p, [](double x) { return std::log1p(x); }, -1, largest, 2},
    {Op::log1p, [](double x) { return std::log1p(x); }, -0.999f, 2, 2},
    {Op::sqrt, [](double x) { return std::sqrt(x); }, 0, largest, 0.5},
    {Op::rsqrt, [](double x) { return 1 / std::sqrt(x); }, smallest, largest, 1.5},
    {Op::cbrt, [](double x) { return std::cbrt(x); }, -largest, largest, 1},
    {Op::reciprocal, [](double x) { return 1 / x; }, -largest, largest, 0.5},
    {Op::sin, [](double x) { return std::sin(x); }, -4, 4, 2},
    {Op::sin, [](double x) { return std::sin(x); }, -1e6f, 1e6f, 2},
    {Op::sin, [](double x) { return std::sin(x); }, -largest, largest, 2},
    {Op::cos, [](double x) { return std::cos(x); }, -4, 4, 2},
    {Op::cos, [](double x) { return std::cos(x); }, -1e6f, 1e6f, 2},
    {Op::cos, [](double x) { return std::cos(x); }, -largest, largest, 2},
    {Op::tan, [](double x) { return std::tan(x); }, -100, 100, 2},
    {Op::asin, [](double x) { return std::asin(x); }, -1, 1, 2},
    {Op::acos, [](double x) { return std::acos(x); }, -1, 1, 2},
    {Op::atan, [](double x) { return std::atan(x); }, -largest, largest, 2},
    {Op::sinh, [](double x) { return std::sinh(x); }, -89, 89, 3},
    {Op::cosh, [](double x) { return std::cosh(x); }, -89, 89, 3},
    {Op::tanh, [](double x) { return std::tanh(x); }, -largest, largest, 3},
    {Op::tanh, [](double x) { return std::tanh(x); }, -10, 10, 3},
    {Op::asinh, [](double x) { return std::asinh(x); }, -largest, largest, 3},
    {Op::acosh, [](double x) { return std::acosh(x); }, 1, largest, 3},
    {Op::atanh, [](double x) { return std::atanh(x); }, -1, 1, 3},
    {Op::erf, [](double x) { return std::erf(x); }, -largest, largest, 5},
    {Op::erf, [](double x) { return std::erf(x); }, -5, 5, 5},
    {Op::erfc, [](double x) { return std::erfc(x); }, -6, 9, 4},
    {Op::erfinv, erfinv, -0.9999999f, 0.9999999f, 8},
    {Op::sigmoid, sigmoid, -110, 110, 3},
    {Op::logsigmoid, [](double x) { return -softplus(-x); }, -110, 110, 4},
    {Op::softplus, softplus, -110, 110, 4},
    {Op::silu, [](double x) { return x * sigmoid(x); }, -110, 110, 4, 2e-43},
    {Op::silu_slope, [](double x) { return sigmoid(x) * (1 + x * sigmoid(-x)); }, -20, 20, 4, 1e-6},
    {Op::gelu, [](double x) { return x * normal_cdf(x); }, -10, 10, 4, 1e-6},
    {Op::gelu_slope, [](double x) { return normal_cdf(x) + x * normal_pdf(x); }, -10, 10, 4, 1e-6},
    {Op::mish, [](double x) { return x * std::tanh(softplus(x)); }, -80, 80, 4},
};

// Arguments between low and high: evenly spread, spread over the exponents, and the odd ones.
std::vector<float> arguments(const Function& f) {
  std::mt19937 engine(1);
  std::vector<float> x;
  std::uniform_real_distribution<double> even(f.low, f.high);
  for (int i = 0; i < 50000; ++i) x.push_back(static_cast<float>(even(engine)));
  for (int i = 0; i < 100000; ++i) x.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(engine())));
  for (float special :
       {0.0f, 1.0f, smallest, smallest_normal, 1e-8f, 0.5f, 2.0f, largest, 0.625f, 89.0f, 87.4f})
    for (float value : {special, -special}) x.push_back(value);
  x.push_back(f.low);
  x.push_back(f.high);
  std::erase_if(x, [&](float value) { return !(value >= f.low && value <= f.high); });
  return x;
}

TEST(Math, IsAccurate) {
  for (const Function& f : functions) {
    const auto x = arguments(f);
    const auto y = run(f.op, x);
    double worst = 0;
    float where = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = f.exact(x[i]);
      if (static_cast<float>(exact) == y[i]) continue;
      if (std::isnan(exact) && std::isnan(y[i])) continue;
      // A result beyond the largest float may be infinite a little too early or late.
      const double got = std::isinf(y[i]) ? std::copysign(0x1p128, y[i]) : y[i];
      const double error = (std::abs(got - exact) - f.absolute) / unit_at(exact);
      if (!(error <= worst)) {
        worst = error;
        where = x[i];
      }
    }
    EXPECT_LE(worst, f.units) << op_name(f.op) << " on [" << f.low << ", " << f.high << "] at " << where;
    RecordProperty(std::string(op_name(f.op)), std::to_string(worst));
    if (std::getenv("HEARTH_SHOW_ERRORS"))
      std::printf("%-12s [%g, %g] %.3f at %.9g\n", std::string(op_name(f.op)).c_str(), f.low, f.high, worst,
                  where);
  }
}

struct SpecialValue {
  Op op;
  float x, y;
};

TEST(Math, OfSpecialValues) {
  const SpecialValue values[] = {
      {Op::exp, inf, inf},       {Op::exp, -inf, 0},
      {Op::exp, 0, 1},           {Op::exp, -0.0f, 1},
      {Op::exp, 1000, inf},      {Op::exp, -1000, 0},
      {Op::exp2, inf, inf},      {Op::exp2, -inf, 0},
      {Op::exp2, 10, 1024},      {Op::exp2, -149, smallest},
      {Op::exp2, 128, inf},      {Op::expm1, inf, inf},
      {Op::expm1, -inf, -1},     {Op::expm1, 0, 0},
      {Op::expm1, -0.0f, -0.0f}, {Op::expm1, smallest, smallest},
      {Op::log, 0, -inf},        {Op::log, -0.0f, -inf},
      {Op::log, 1, 0},           {Op::log, inf, inf},
      {Op::log, -1, nan},        {Op::log, -inf, nan},
      {Op::log, -smallest, nan}, {Op::log1p, -1, -inf},
      {Op::log1p, 0, 0},         {Op::log1p, -0.0f, -0.0f},
      {Op::log1p, inf, inf},     {Op::log1p, -2, nan},
      {Op::sin, 0, 0},           {Op::sin, -0.0f, -0.0f},
      {Op::sin, inf, nan},       {Op::sin, -inf, nan},
      {Op::cos, 0, 1},           {Op::cos, inf, nan},
      {Op::tanh, inf, 1},        {Op::tanh, -inf, -1},
      {Op::tanh, -0.0f, -0.0f},  {Op::tanh, 20, 1},
      {Op::erf, inf, 1},         {Op::erf, -inf, -1},
      {Op::erf, -0.0f, -0.0f},   {Op::erf, 4.5f, 1},
      {Op::erfinv, 1, inf},      {Op::erfinv, -1, -inf},
      {Op::erfinv, 2, nan},      {Op::sigmoid, inf, 1},
      {Op::sigmoid, -inf, 0},    {Op::sigmoid, 0, 0.5f},
      {Op::softplus, inf, inf},  {Op::softplus, -inf, 0},
      {Op::logsigmoid, inf, 0},  {Op::logsigmoid, -inf, -inf},
      {Op::sqrt, -1, nan},       {Op::sqrt, -0.0f, -0.0f},
      {Op::reciprocal, 0, inf},  {Op::reciprocal, -0.0f, -inf},
      {Op::gelu, inf, inf},      {Op::relu, -inf, 0},
      {Op::relu, inf, inf},      {Op::abs, -0.0f, 0},
      {Op::sign, -0.0f, 0},      {Op::sign, -inf, -1},
      {Op::floor, -0.5f, -1},    {Op::ceil, -0.5f, -0.0f},
      {Op::round, 2.5f, 2},      {Op::round, -3.5f, -4},
      {Op::trunc, -1.5f, -1},    {Op::floor, largest, largest},
  };
  for (const auto& value : values) {
    const float y = run(value.op, {value.x})[0];
    if (std::isnan(value.y))
      EXPECT_TRUE(std::isnan(y)) << op_name(value.op) << "(" << value.x << ") = " << y;
    else
      EXPECT_EQ(std::bit_cast<std::uint32_t>(y), std::bit_cast<std::uint32_t>(value.y))
          << op_name(value.op) << "(" << value.x << ") = " << y;
  }
}

std::vector<Op> unary_operations() {
  std::vector<Op> result;
#define HEARTH_UNARY(name, rule, value, gradient, doc) result.push_back(Op::name);
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc)
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY
  std::erase_if(result, [](Op op) {
    return !elementwise_kernels().operations[static_cast<int>(op)][static_cast<int>(Compute::f32)];
  });
  return result;
}

TEST(Math, OfNanIsNan) {
  for (Op op : unary_operations()) {
    if (op == Op::isnan || op == Op::isinf || op == Op::isfinite) continue;
    EXPECT_TRUE(std::isnan(run(op, {nan})[0])) << op_name(op);
    EXPECT_TRUE(std::isnan(run(op, {-nan})[0])) << op_name(op);
  }
}

TEST(Math, DoesNotDependOnThePosition) {
  std::mt19937 engine(2);
  std::vector<float> x(301);
  for (Op op : unary_operations()) {
    for (float& value : x) value = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    const auto all = run(op, x);
    for (std::size_t n : {1u, 3u, 15u, 17u, 40u, 300u})
      for (std::size_t start : {0u, 1u, 7u, 300u}) {
        if (start + n > x.size()) continue;
        const auto part = run(op, {x.begin() + static_cast<std::ptrdiff_t>(start),
                                   x.begin() + static_cast<std::ptrdiff_t>(start + n)});
        for (std::size_t i = 0; i < n; ++i)
          ASSERT_EQ(std::bit_cast<std::uint32_t>(part[i]), std::bit_cast<std::uint32_t>(all[start + i]))
              << op_name(op) << "(" << x[start + i] << ")";
      }
  }
}

}  // namespace
}  // namespace hearth::cpu
