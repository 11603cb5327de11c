// Case table: the elementwise operations, one per row of elementwise.inc.
#include <map>
#include <numbers>

#include "hearth/ops.h"
#include "op_cases.h"

namespace hearth::testing {
namespace {

constexpr double pi = std::numbers::pi;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// ---- scalar references, from their definitions
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * pi); }
double normal_distribution(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

double erfinv_of(double y) {
  if (y == 0) return y;
  if (!(std::abs(y) < 1)) return std::abs(y) == 1 ? std::copysign(infinity, y) : nan;
  double low = -6, high = 6;  // erf(6) rounds to 1
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    // Near +-1 erf has lost the digits that erfc still has.
    const bool below = std::abs(y) < 0.5 ? std::erf(middle) < y
                       : y > 0           ? std::erfc(middle) > 1 - y
                                         : std::erfc(-middle) < 1 + y;
    (below ? low : high) = middle;
  }
  return (low + high) / 2;
}

double remainder_of(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double floor_divide_of(double a, double b) {  // as NumPy and PyTorch: consistent with the remainder
  if (b == 0) return a / b;
  const double r = std::fmod(a, b);
  double quotient = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) quotient -= 1;
  return std::isfinite(quotient) ? std::round(quotient) : quotient;
}

double logaddexp_of(double a, double b) {
  if (a == b) return a + std::numbers::ln2;
  return std::isnan(a) || std::isnan(b) ? nan : std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

double gelu_tanh_of(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / pi) * (x + 0.044715 * x * x * x)));
}
double gelu_tanh_slope_of(double x) {
  const double inner = std::sqrt(2 / pi) * (x + 0.044715 * x * x * x), t = std::tanh(inner);
  return (1 + t) / 2 + x / 2 * (1 - t * t) * std::sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x);
}
double mish_slope_of(double x) {
  const double t = std::tanh(softplus_of(x));
  return t + x * (1 - t * t) * sigmoid_of(x);
}

std::int64_t integer_power(std::int64_t a, std::int64_t b) {
  std::int64_t result = 1;
  for (; b > 0; --b) result *= a;
  return result;
}

using I = std::int64_t;

// A unary reference.
template <typename F>
std::function<double(double, double)> of_x(F f) {
  return [f](double x, double) { return static_cast<double>(f(x)); };
}

// clang-format off
const std::map<std::string, ElementwiseReference> references = {
  // arithmetic
  {"neg", {.value = of_x([](double x) { return -x; }), .roundings = 1}},
  {"abs", {.value = of_x([](double x) { return std::abs(x); }), .roundings = 1}},
  {"sign", {.value = of_x([](double x) { return std::isnan(x) ? x : (x > 0) - (x < 0); }), .roundings = 1}},
  {"square", {.value = of_x([](double x) { return x * x; }), .roundings = 1}},
  {"reciprocal", {.value = of_x([](double x) { return 1 / x; }), .a = {0.25, 4}, .roundings = 1}},
  {"floor", {.value = of_x([](double x) { return std::floor(x); }), .roundings = 1}},
  {"ceil", {.value = of_x([](double x) { return std::ceil(x); }), .roundings = 1}},
  {"round", {.value = of_x([](double x) { return std::nearbyint(x); }), .roundings = 1}},
  {"trunc", {.value = of_x([](double x) { return std::trunc(x); }), .roundings = 1}},
  // powers, exponentials, logarithms
  {"sqrt", {.value = of_x([](double x) { return std::sqrt(x); }), .a = {0.1, 9}, .roundings = 1}},
  {"rsqrt", {.value = of_x([](double x) { return 1 / std::sqrt(x); }), .a = {0.1, 9}}},
  {"cbrt", {.value = of_x([](double x) { return std::cbrt(x); }), .a = {0.1, 9}}},
  {"exp", {.value = of_x([](double x) { return std::exp(x); }), .a = {-10, 10}}},
  {"exp2", {.value = of_x([](double x) { return std::exp2(x); }), .a = {-10, 10}}},
  {"expm1", {.value = of_x([](double x) { return std::expm1(x); })}},
  {"log", {.value = of_x([](double x) { return std::log(x); }), .a = {0.1, 20}}},
  {"log2", {.value = of_x([](double x) { return std::log2(x); }), .a = {0.1, 20}}},
  {"log10", {.value = of_x([](double x) { return std::log10(x); }), .a = {0.1, 20}}},
  {"log1p", {.value = of_x([](double x) { return std::log1p(x); }), .a = {-0.9, 3}}},
  // trigonometry
  {"sin", {.value = of_x([](double x) { return std::sin(x); }), .a = {-10, 10}, .special_limit = 1e6}},
  {"cos", {.value = of_x([](double x) { return std::cos(x); }), .a = {-10, 10}, .special_limit = 1e6}},
  {"tan", {.value = of_x([](double x) { return std::tan(x); }), .a = {-1.4, 1.4}}},
  {"asin", {.value = of_x([](double x) { return std::asin(x); }), .a = {-0.95, 0.95}}},
  {"acos", {.value = of_x([](double x) { return std::acos(x); }), .a = {-0.95, 0.95}}},
  {"atan", {.value = of_x([](double x) { return std::atan(x); })}},
  {"sinh", {.value = of_x([](double x) { return std::sinh(x); })}},
  {"cosh", {.value = of_x([](double x) { return std::cosh(x); })}},
  {"tanh", {.value = of_x([](double x) { return std::tanh(x); })}},
  {"asinh", {.value = of_x([](double x) { return std::asinh(x); })}},
  {"acosh", {.value = of_x([](double x) { return std::acosh(x); }), .a = {1.1, 9}}},
  {"atanh", {.value = of_x([](double x) { return std::atanh(x); }), .a = {-0.9, 0.9}}},
  // error function
  {"erf", {.value = of_x([](double x) { return std::erf(x); })}},
  {"erfc", {.value = of_x([](double x) { return std::erfc(x); })}},
  {"erfinv", {.value = of_x(erfinv_of), .a = {-0.95, 0.95}}},
  // activations
  {"relu", {.value = of_x([](double x) { return x < 0 ? 0 : x; }), .roundings = 1}},
  {"sigmoid", {.value = of_x(sigmoid_of), .a = {-9, 9}}},
  {"logsigmoid", {.value = of_x([](double x) { return -softplus_of(-x); }), .a = {-9, 9}}},
  // Beyond -88 the sigmoid is below f32's normal range and the product loses it, as in PyTorch.
  {"silu", {.value = of_x([](double x) { return x * sigmoid_of(x); }), .a = {-9, 9}, .special_limit = 80, .integer_a = {-80, 80}}},
  // The derivatives below are there for gradients; what they are at infinity nobody asks.
  {"silu_slope", {.value = of_x([](double x) { return sigmoid_of(x) * (1 + x * (1 - sigmoid_of(x))); }), .a = {-9, 9}, .cancellation = 4, .special = false}},
  {"silu_curvature", {.value = of_x([](double x) { return sigmoid_of(x) * sigmoid_of(-x) * (2 + x * (sigmoid_of(-x) - sigmoid_of(x))); }), .a = {-9, 9}, .cancellation = 4, .special = false}},
  // 1 + erf(x) cancels for negative x, here as in PyTorch: the error is that of a number of the size of x.
  {"gelu", {.value = of_x([](double x) { return x * normal_distribution(x); }), .cancellation = 4}},
  {"gelu_slope", {.value = of_x([](double x) { return normal_distribution(x) + x * normal_density(x); }), .cancellation = 4, .special = false}},
  {"gelu_tanh", {.value = of_x(gelu_tanh_of), .cancellation = 4}},
  {"gelu_tanh_slope", {.value = of_x(gelu_tanh_slope_of), .cancellation = 4, .special = false}},
  {"softplus", {.value = of_x(softplus_of), .a = {-9, 9}}},
  {"mish", {.value = of_x([](double x) { return x * std::tanh(softplus_of(x)); }), .a = {-9, 9}}},
  {"mish_slope", {.value = of_x(mish_slope_of), .a = {-9, 9}, .cancellation = 4, .special = false}},
  // predicates
  {"isnan", {.value = of_x([](double x) { return std::isnan(x); })}},
  {"isinf", {.value = of_x([](double x) { return std::isinf(x); })}},
  {"isfinite", {.value = of_x([](double x) { return std::isfinite(x); })}},
  {"logical_not", {.value = of_x([](double x) { return x == 0; }), .a = {-1, 1}}},
  {"bitwise_not", {.value = nullptr, .integer = [](I a, I, int bits) { return bits == 1 ? I{a == 0} : ~a; }}},
  // binary arithmetic
  {"add", {.value = [](double a, double b) { return a + b; }, .roundings = 1}},
  {"sub", {.value = [](double a, double b) { return a - b; }, .roundings = 1}},
  {"mul", {.value = [](double a, double b) { return a * b; }, .roundings = 1}},
  {"div", {.value = [](double a, double b) { return a / b; }, .b = {0.25, 4}, .roundings = 1}},
  {"floor_divide", {.value = floor_divide_of, .a = {-9, 9}, .b = {0.25, 4}, .integer = [](I a, I b, int) { return b == 0 ? I{0} : static_cast<I>(std::floor(static_cast<double>(a) / static_cast<double>(b))); }, .integer_b = {-7, 7}}},
  {"remainder", {.value = remainder_of, .a = {-9, 9}, .b = {0.25, 4}, .integer = [](I a, I b, int) { return b == 0 ? I{0} : ((a % b) + b) % b; }, .integer_b = {-7, 7}}},
  {"fmod", {.value = [](double a, double b) { return std::fmod(a, b); }, .a = {-9, 9}, .b = {0.25, 4}, .roundings = 1, .integer = [](I a, I b, int) { return b == 0 ? I{0} : a % b; }, .integer_b = {-7, 7}}},
  {"pow", {.value = [](double a, double b) { return std::pow(a, b); }, .a = {0.2, 4}, .integer = [](I a, I b, int) { return integer_power(a, b); }, .integer_a = {-9, 9}, .integer_b = {0, 6}}},
  {"maximum", {.value = [](double a, double b) { return std::isnan(a) || a > b ? a : b; }, .roundings = 1}},
  {"minimum", {.value = [](double a, double b) { return std::isnan(a) || a < b ? a : b; }, .roundings = 1}},
  {"share_of_larger", {.value = [](double a, double b) { return a > b ? 1 : a == b ? 0.5 : 0; }, .roundings = 1}},
  {"atan2", {.value = [](double a, double b) { return std::atan2(a, b); }}},
  {"hypot", {.value = [](double a, double b) { return std::hypot(a, b); }}},
  // The larger operand and the logarithm cancel where the result is near 0.
  {"logaddexp", {.value = logaddexp_of, .cancellation = 2}},
  // comparison and logic
  {"eq", {.value = [](double a, double b) { return a == b; }, .integer_a = {0, 3}, .integer_b = {0, 3}}},
  {"ne", {.value = [](double a, double b) { return a != b; }, .integer_a = {0, 3}, .integer_b = {0, 3}}},
  {"lt", {.value = [](double a, double b) { return a < b; }, .integer_a = {-3, 3}, .integer_b = {-3, 3}}},
  {"le", {.value = [](double a, double b) { return a <= b; }, .integer_a = {-3, 3}, .integer_b = {-3, 3}}},
  {"gt", {.value = [](double a, double b) { return a > b; }, .integer_a = {-3, 3}, .integer_b = {-3, 3}}},
  {"ge", {.value = [](double a, double b) { return a >= b; }, .integer_a = {-3, 3}, .integer_b = {-3, 3}}},
  {"logical_and", {.value = [](double a, double b) { return a != 0 && b != 0; }, .integer_a = {-1, 1}, .integer_b = {-1, 1}}},
  {"logical_or", {.value = [](double a, double b) { return a != 0 || b != 0; }, .integer_a = {-1, 1}, .integer_b = {-1, 1}}},
  {"logical_xor", {.value = [](double a, double b) { return (a != 0) != (b != 0); }, .integer_a = {-1, 1}, .integer_b = {-1, 1}}},
  {"bitwise_and", {.value = nullptr, .integer = [](I a, I b, int) { return a & b; }}},
  {"bitwise_or", {.value = nullptr, .integer = [](I a, I b, int) { return a | b; }}},
  {"bitwise_xor", {.value = nullptr, .integer = [](I a, I b, int) { return a ^ b; }}},
  {"shift_left", {.value = nullptr, .integer = [](I a, I b, int bits) { return b < 0 || b >= bits ? I{0} : static_cast<I>(static_cast<std::uint64_t>(a) << b); }, .integer_b = {-2, 70}}},
  {"shift_right", {.value = nullptr, .integer = [](I a, I b, int bits) { return b < 0 || b >= bits ? (a < 0 ? I{-1} : I{0}) : a >> b; }, .integer_b = {-2, 70}}},
};
// clang-format on

bool is_none(const char* gradient) { return std::string(gradient) == "none"; }

}  // namespace

const std::vector<ElementwiseCase>& elementwise_cases() {
  static const std::vector<ElementwiseCase> cases = [] {
    std::vector<ElementwiseCase> rows;
#define HEARTH_UNARY(name, rule, value, gradient, doc)                  \
  rows.push_back({#name, false, Rule::rule, !is_none(#gradient), false, \
                  [](const std::vector<Tensor>& in) { return hearth::name(in[0]); }, nullptr});
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc)                    \
  rows.push_back({#name, true, Rule::rule, !is_none(#gradient_a), !is_none(#gradient_b), \
                  [](const std::vector<Tensor>& in) { return hearth::name(in[0], in[1]); }, nullptr});
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY
    for (auto& row : rows)
      if (const auto found = references.find(row.name); found != references.end())
        row.reference = &found->second;
    return rows;
  }();
  return cases;
}

}  // namespace hearth::testing
