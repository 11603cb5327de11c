// The entries of the table of operation cases.
#include "op_cases.h"

#include <map>
#include <numbers>

#include "hearth/ops.h"

namespace hearth::testing {
namespace {

using reference::along;
using reference::for_each_position;
using reference::generate;
using reference::insert_axis;
using reference::map;
using reference::pick;
using reference::Position;
using reference::wrap_index;
using reference::zip;

constexpr double pi = std::numbers::pi;
constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// ---- scalar references, from their definitions
double normal_density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * pi); }
double normal_distribution(double x) { return std::erfc(-x / std::numbers::sqrt2) / 2; }
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
double softplus_of(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

double erfinv_of(double y) {
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
  {"neg", {.value = of_x([](double x) { return -x; })}},
  {"abs", {.value = of_x([](double x) { return std::abs(x); })}},
  {"sign", {.value = of_x([](double x) { return std::isnan(x) ? x : (x > 0) - (x < 0); })}},
  {"square", {.value = of_x([](double x) { return x * x; })}},
  {"reciprocal", {.value = of_x([](double x) { return 1 / x; }), .a = {0.25, 4}}},
  {"floor", {.value = of_x([](double x) { return std::floor(x); })}},
  {"ceil", {.value = of_x([](double x) { return std::ceil(x); })}},
  {"round", {.value = of_x([](double x) { return std::nearbyint(x); })}},
  {"trunc", {.value = of_x([](double x) { return std::trunc(x); })}},
  // powers, exponentials, logarithms
  {"sqrt", {.value = of_x([](double x) { return std::sqrt(x); }), .a = {0.1, 9}}},
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
  {"sin", {.value = of_x([](double x) { return std::sin(x); }), .a = {-10, 10}}},
  {"cos", {.value = of_x([](double x) { return std::cos(x); }), .a = {-10, 10}}},
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
  {"relu", {.value = of_x([](double x) { return x < 0 ? 0 : x; })}},
  {"sigmoid", {.value = of_x(sigmoid_of), .a = {-9, 9}}},
  {"logsigmoid", {.value = of_x([](double x) { return -softplus_of(-x); }), .a = {-9, 9}}},
  {"silu", {.value = of_x([](double x) { return x * sigmoid_of(x); }), .a = {-9, 9}}},
  // The derivatives below are there for gradients; what they are at infinity nobody asks.
  {"silu_slope", {.value = of_x([](double x) { return sigmoid_of(x) * (1 + x * (1 - sigmoid_of(x))); }), .a = {-9, 9}, .cancellation = 4, .special = false}},
  {"silu_curvature", {.value = of_x([](double x) { return sigmoid_of(x) * sigmoid_of(-x) * (2 + x * (sigmoid_of(-x) - sigmoid_of(x))); }), .a = {-9, 9}, .cancellation = 4, .special = false}},
  {"gelu", {.value = of_x([](double x) { return x * normal_distribution(x); })}},
  {"gelu_slope", {.value = of_x([](double x) { return normal_distribution(x) + x * normal_density(x); }), .cancellation = 4, .special = false}},
  {"gelu_tanh", {.value = of_x(gelu_tanh_of)}},
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
  {"add", {.value = [](double a, double b) { return a + b; }}},
  {"sub", {.value = [](double a, double b) { return a - b; }}},
  {"mul", {.value = [](double a, double b) { return a * b; }}},
  {"div", {.value = [](double a, double b) { return a / b; }, .b = {0.25, 4}}},
  {"floor_divide", {.value = floor_divide_of, .a = {-9, 9}, .b = {0.25, 4}, .integer = [](I a, I b, int) { return b == 0 ? I{0} : static_cast<I>(std::floor(static_cast<double>(a) / static_cast<double>(b))); }, .integer_b = {-7, 7}}},
  {"remainder", {.value = remainder_of, .a = {-9, 9}, .b = {0.25, 4}, .integer = [](I a, I b, int) { return b == 0 ? I{0} : ((a % b) + b) % b; }, .integer_b = {-7, 7}}},
  {"fmod", {.value = [](double a, double b) { return std::fmod(a, b); }, .a = {-9, 9}, .b = {0.25, 4}, .integer = [](I a, I b, int) { return b == 0 ? I{0} : a % b; }, .integer_b = {-7, 7}}},
  {"pow", {.value = [](double a, double b) { return std::pow(a, b); }, .a = {0.2, 4}, .integer = [](I a, I b, int) { return integer_power(a, b); }, .integer_a = {-9, 9}, .integer_b = {0, 6}}},
  {"maximum", {.value = [](double a, double b) { return std::isnan(a) || a > b ? a : b; }}},
  {"minimum", {.value = [](double a, double b) { return std::isnan(a) || a < b ? a : b; }}},
  {"share_of_larger", {.value = [](double a, double b) { return a > b ? 1 : a == b ? 0.5 : 0; }}},
  {"atan2", {.value = [](double a, double b) { return std::atan2(a, b); }}},
  {"hypot", {.value = [](double a, double b) { return std::hypot(a, b); }}},
  {"logaddexp", {.value = logaddexp_of}},
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

namespace {

const std::vector<std::int64_t> edge_sizes = {1, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025};

std::string text_of(const Axes& axes) {
  std::string text;
  for (auto axis : axes) text += (text.empty() ? "" : ",") + std::to_string(axis);
  return axes.empty() ? "all" : text;
}

// Collects cases; `add` returns the case so that its flags can be set.
class Table {
 public:
  OpCase& add(std::string name, std::vector<Input> inputs, TensorFunction function, ArrayFunction reference) {
    OpCase entry;
    entry.name = std::move(name);
    entry.inputs = std::move(inputs);
    entry.function = std::move(function);
    entry.reference = std::move(reference);
    cases_.push_back(std::move(entry));
    return cases_.back();
  }

  // A view or a copy: every element of the result is an element of an input, unchanged, in any dtype.
  void moving(std::string name, std::vector<Input> inputs, TensorFunction function, ArrayFunction reference) {
    auto& entry = add(std::move(name), std::move(inputs), std::move(function), std::move(reference));
    entry.integers = true;
    entry.roundings = 0;
  }

  std::vector<OpCase> take() { return std::move(cases_); }

 private:
  std::vector<OpCase> cases_;
};

using Tensors = std::vector<Tensor>;
using Arrays = std::vector<Array>;

void add_reductions(Table& table) {
  struct Reduction {
    const char* name;
    std::function<Tensor(const Tensor&, const Axes&, bool)> function;
    std::function<double(const std::vector<double>&)> reference;
    bool needs_elements;  // nothing to return for an empty list
    bool differentiable, integers;
    double accumulation;
    Range range{-2, 2};
  };
  const std::vector<Reduction> reductions = {
      {"sum", [](auto& x, auto& a, bool k) { return hearth::sum(x, a, k); }, reference::sum, false, true,
       true, 16},
      {"mean", [](auto& x, auto& a, bool k) { return hearth::mean(x, a, k); }, reference::mean, false, true,
       false, 16},
      // 1025 factors: each multiplication rounds once.
      {"prod",
       [](auto& x, auto& a, bool k) { return hearth::prod(x, a, k); },
       reference::prod,
       false,
       true,
       true,
       300,
       {0.9, 1.1}},
      {"max", [](auto& x, auto& a, bool k) { return hearth::max(x, a, k); }, reference::max, true, true, true,
       0},
      {"min", [](auto& x, auto& a, bool k) { return hearth::min(x, a, k); },
       [](auto& v) { return reference::min(v); }, true, true, true, 0},
      {"all", [](auto& x, auto& a, bool k) { return hearth::all(x, a, k); },
       [](auto& v) { return std::all_of(v.begin(), v.end(), [](double e) { return e != 0; }); }, false, false,
       true, 0},
      {"any", [](auto& x, auto& a, bool k) { return hearth::any(x, a, k); },
       [](auto& v) { return std::any_of(v.begin(), v.end(), [](double e) { return e != 0; }); }, false, false,
       true, 0},
      {"var", [](auto& x, auto& a, bool k) { return hearth::var(x, a, 0, k); },
       [](auto& v) { return reference::var(v, 0); }, false, true, false, 16},
      {"std", [](auto& x, auto& a, bool k) { return hearth::std(x, a, 1, k); },
       [](auto& v) { return std::sqrt(reference::var(v, 1)); }, true, true, false, 16},
      {"logsumexp", [](auto& x, auto& a, bool k) { return hearth::logsumexp(x, a, k); }, reference::logsumexp,
       true, true, false, 16},
      {"norm", [](auto& x, auto& a, bool k) { return hearth::norm(x, 2.0, a, k); },
       [](auto& v) { return reference::norm(v, 2); }, false, true, false, 16},
      {"norm_1", [](auto& x, auto& a, bool k) { return hearth::norm(x, 1.0, a, k); },
       [](auto& v) { return reference::norm(v, 1); }, false, true, false, 16},
      {"norm_inf", [](auto& x, auto& a, bool k) { return hearth::norm(x, infinity, a, k); },
       [](auto& v) { return reference::norm(v, infinity); }, false, true, false, 0},
  };
  for (const auto& r : reductions) {
    const auto add = [&](const Shape& shape, const Axes& axes, bool keepdims) {
      auto& entry = table.add(
          std::string(r.name) + "/" + to_string(shape) + "_over_" + text_of(axes) + (keepdims ? "_kept" : ""),
          {{shape, r.range}}, [=](const Tensors& in) { return r.function(in[0], axes, keepdims); },
          [=](const Arrays& in) { return reference::reduce(in[0], axes, keepdims, r.reference); });
      entry.differentiable = r.differentiable;
      entry.integers = r.integers;
      entry.accumulation = r.accumulation;
      entry.roundings = 2;
    };
    for (const Axes& axes : std::vector<Axes>{{}, {0}, {1}, {-1}, {0, 2}, {1, 2}, {-3, -2, -1}})
      for (bool keepdims : {false, true}) add({3, 4, 5}, axes, keepdims);
    if (std::string(r.name) != "std") {  // of one element it is NaN
      add({}, {}, false);
      add({1, 1}, {}, false);
    }
    for (auto size : edge_sizes) {
      if (size == 1) continue;
      add({3, size}, {1}, false);
      add({size, 3}, {0}, false);
      add({size}, {}, false);
    }
    add({2, 3, 2, 2, 3, 2}, {1, 3, 5}, false);
    add({3, 0}, {0}, false);  // no results
    if (!r.needs_elements) {
      add({3, 0}, {1}, false);
      add({0}, {}, false);
    }
  }
  const auto arg = [&](const char* name, auto function, auto reference, const Shape& shape,
                       std::optional<std::int64_t> axis) {
    auto& entry = table.add(
        std::string(name) + "/" + to_string(shape) + "_axis_" + (axis ? std::to_string(*axis) : "none"),
        {{shape}}, [=](const Tensors& in) { return function(in[0], axis); },
        [=](const Arrays& in) { return reference::reduce(in[0], axis ? Axes{*axis} : Axes{}, false, reference); });
    entry.differentiable = false;
    entry.integers = true;
  };
  for (auto size : edge_sizes)
    for (auto& [shape, axis] : std::vector<std::pair<Shape, std::optional<std::int64_t>>>{
             {{size}, {}}, {{3, size}, 1}, {{size, 3}, 0}}) {
      arg(
          "argmax", [](const Tensor& x, auto a) { return argmax(x, a); },
          [](auto& v) { return reference::argmax(v); }, shape, axis);
      arg(
          "argmin", [](const Tensor& x, auto a) { return argmin(x, a); },
          [](auto& v) { return reference::argmin(v); }, shape, axis);
    }
}

void add_scans(Table& table) {
  const auto scan = [&](const std::string& name, const Shape& shape, std::int64_t axis, Range range,
                        auto function, auto line) -> OpCase& {
    return table.add(
        name + "/" + to_string(shape) + "_axis_" + std::to_string(axis), {{shape, range}},
        [=](const Tensors& in) { return function(in[0], axis); },
        [=](const Arrays& in) { return along(in[0], axis, line); });
  };
  std::vector<std::pair<Shape, std::int64_t>> places = {
      {{3, 4, 5}, 0}, {{3, 4, 5}, 1}, {{3, 4, 5}, -1}, {{0, 3}, 1}, {{3, 0}, 1}};
  for (auto size : edge_sizes) {
    places.push_back({{2, size}, 1});
    places.push_back({{size, 2}, 0});
  }
  for (const auto& [shape, axis] : places) {
    auto& running_sum = scan(
        "cumsum", shape, axis, {-2, 2}, [](auto& x, auto a) { return cumsum(x, a); },
        [](std::vector<double> v) {
          for (std::size_t i = 1; i < v.size(); ++i) v[i] += v[i - 1];
          return v;
        });
    running_sum.accumulation = 16;
    running_sum.integers = true;
    // One more rounding per factor.
    scan(
        "cumprod", shape, axis, {0.9, 1.1}, [](auto& x, auto a) { return cumprod(x, a); },
        [](std::vector<double> v) {
          for (std::size_t i = 1; i < v.size(); ++i) v[i] *= v[i - 1];
          return v;
        })
        .accumulation = static_cast<double>(
        std::max<std::int64_t>(16, shape.empty() ? 1 : std::max(shape[0], shape[shape.size() - 1])));
    for (bool descending : {false, true}) {
      auto& sorted = scan(
          descending ? "sort_descending" : "sort", shape, axis, {-2, 2},
          [=](auto& x, auto a) { return hearth::sort(x, a, descending); },
          [=](const std::vector<double>& v) { return reference::sort(v, descending); });
      sorted.roundings = 0;
      sorted.integers = true;
      auto& order = scan(
          descending ? "argsort_descending" : "argsort", shape, axis, {-2, 2},
          [=](auto& x, auto a) { return hearth::argsort(x, a, descending); },
          [=](const std::vector<double>& v) { return reference::argsort(v, descending); });
      order.differentiable = false;
      order.integers = true;
    }
    // The exponents round to half precision too where they are not fused.
    scan(
        "softmax", shape, axis, {-4, 4}, [](auto& x, auto a) { return hearth::softmax(x, a); },
        reference::softmax)
        .scale = 8;
    scan(
        "log_softmax", shape, axis, {-4, 4}, [](auto& x, auto a) { return hearth::log_softmax(x, a); },
        [](std::vector<double> v) {
          const double total = reference::logsumexp(v);
          for (double& x : v) x -= total;
          return v;
        })
        .scale = 8;
  }
  for (const auto& [shape, axis, k] :
       std::vector<std::tuple<Shape, std::int64_t, std::int64_t>>{{{3, 4, 5}, 0, 2},
                                                                  {{3, 4, 5}, 1, 4},
                                                                  {{3, 4, 5}, -1, 1},
                                                                  {{2, 129}, 1, 7},
                                                                  {{2, 1025}, 1, 33},
                                                                  {{3, 5}, 1, 0}})
    for (bool largest : {true, false}) {
      const std::string name = (largest ? "largest" : "smallest") + std::to_string(k);
      auto& values = scan(
          "topk_" + name, shape, axis, {-2, 2},
          [=, k = k](auto& x, auto a) { return topk(x, k, a, largest).first; },
          [=, k = k](const std::vector<double>& v) {
            auto sorted = reference::sort(v, largest);
            sorted.resize(static_cast<std::size_t>(k));
            return sorted;
          });
      values.roundings = 0;
      values.integers = true;
      scan(
          "topk_indices_" + name, shape, axis, {-2, 2},
          [=, k = k](auto& x, auto a) { return topk(x, k, a, largest).second; },
          [=, k = k](const std::vector<double>& v) {
            auto order = reference::argsort(v, largest);
            order.resize(static_cast<std::size_t>(k));
            return order;
          })
          .differentiable = false;
    }
}

void add_shapes(Table& table) {
  const Shape cube{3, 4, 5};
  table.moving(
      "reshape/merge", {{cube}},
      [](const Tensors& in) {
        return reshape(in[0], {12, -1});
      },
      [](const Arrays& in) {
        return reference::reshape(in[0], {12, 5});
      });
  table.moving(
      "reshape/split", {{{6, 4}}},
      [](const Tensors& in) {
        return reshape(in[0], {2, 3, 2, 2});
      },
      [](const Arrays& in) {
        return reference::reshape(in[0], {2, 3, 2, 2});
      });
  table.moving(
      "reshape/to_scalar", {{{1, 1}}}, [](const Tensors& in) { return reshape(in[0], {}); },
      [](const Arrays& in) { return reference::reshape(in[0], {}); });
  table.moving(
      "reshape/empty", {{{0, 4}}},
      [](const Tensors& in) {
        return reshape(in[0], {2, 0, 3});
      },
      [](const Arrays&) {
        return Array{{2, 0, 3}, {}};
      });
  table.moving(
      "flatten/middle", {{{2, 3, 4, 5}}}, [](const Tensors& in) { return flatten(in[0], 1, 2); },
      [](const Arrays& in) {
        return reference::reshape(in[0], {2, 12, 5});
      });
  table.moving(
      "flatten/scalar", {{{}}}, [](const Tensors& in) { return flatten(in[0]); },
      [](const Arrays& in) { return reference::reshape(in[0], {1}); });
  table.moving(
      "transpose/ends", {{cube}}, [](const Tensors& in) { return transpose(in[0], 0, -1); },
      [](const Arrays& in) {
        return reference::permute(in[0], {2, 1, 0});
      });
  table.moving(
      "transpose/then_reshape", {{cube}},
      [](const Tensors& in) { return transpose(in[0], 0, 1).reshape({-1}); },
      [](const Arrays& in) {
        return reference::reshape(reference::permute(in[0], {1, 0, 2}), {60});
      });
  table.moving(
      "permute/cycle", {{cube}},
      [](const Tensors& in) {
        return permute(in[0], {2, 0, 1});
      },
      [](const Arrays& in) {
        return reference::permute(in[0], {2, 0, 1});
      });
  for (auto size : edge_sizes) {
    table.moving(
        "transpose/copied_" + std::to_string(size), {{{3, size}}},
        [](const Tensors& in) { return contiguous(in[0].t()); },
        [](const Arrays& in) {
          return reference::permute(in[0], {1, 0});
        });
    table.moving(
        "flip/" + std::to_string(size), {{{size}}}, [](const Tensors& in) { return flip(in[0], {0}); },
        [size](const Arrays& in) { return pick(in[0], 0, size - 1, size, -1); });
    table.moving(
        "concat/" + std::to_string(size), {{{2, size}}, {{2, 3}}},
        [](const Tensors& in) { return hearth::concat(in, 1); },
        [](const Arrays& in) { return reference::concat(in, 1); });
    table.moving(
        "copy/" + std::to_string(size), {{{size}}}, [](const Tensors& in) { return copy(in[0]); },
        [](const Arrays& in) { return in[0]; });
  }
  table.moving(
      "squeeze/all", {{{1, 3, 1, 4, 1}}}, [](const Tensors& in) { return squeeze(in[0]); },
      [](const Arrays& in) {
        return reference::reshape(in[0], {3, 4});
      });
  table.moving(
      "squeeze/some", {{{1, 3, 1, 4, 1}}},
      [](const Tensors& in) {
        return squeeze(in[0], {0, -1});
      },
      [](const Arrays& in) {
        return reference::reshape(in[0], {3, 1, 4});
      });
  table.moving(
      "unsqueeze/front", {{{3, 4}}}, [](const Tensors& in) { return unsqueeze(in[0], 0); },
      [](const Arrays& in) { return insert_axis(in[0], 0); });
  table.moving(
      "unsqueeze/end", {{{3, 4}}}, [](const Tensors& in) { return unsqueeze(in[0], -1); },
      [](const Arrays& in) { return insert_axis(in[0], -1); });
  table.moving(
      "broadcast_to/new_axis", {{{3, 1}}},
      [](const Tensors& in) {
        return broadcast_to(in[0], {2, 3, 4});
      },
      [](const Arrays& in) {
        return generate(Shape{2, 3, 4}, [&](const Position& p) { return in[0].broadcast_at(p); });
      });
  table.moving(
      "broadcast_to/scalar", {{{}}},
      [](const Tensors& in) {
        return broadcast_to(in[0], {3, 2});
      },
      [](const Arrays& in) {
        return generate(Shape{3, 2}, [&](const Position&) { return in[0].values[0]; });
      });
  table.moving(
      "broadcast_to/empty", {{{1, 3}}},
      [](const Tensors& in) {
        return broadcast_to(in[0], {0, 3});
      },
      [](const Arrays&) {
        return Array{{0, 3}, {}};
      });

  const auto o = Slice::open;
  table.moving(
      "slice/offset", {{cube}},
      [](const Tensors& in) {
        return slice(in[0], {{1, 3}, {1, -1}});
      },
      [](const Arrays& in) { return pick(pick(in[0], 0, 1, 2), 1, 1, 2); });
  table.moving(
      "slice/step", {{{10, 3}}},
      [=](const Tensors& in) {
        return slice(in[0], {{1, o, 3}});
      },
      [](const Arrays& in) { return pick(in[0], 0, 1, 3, 3); });
  table.moving(
      "slice/reverse", {{{10, 3}}},
      [=](const Tensors& in) {
        return slice(in[0], {{o, o, -1}, {o, o, -1}});
      },
      [](const Arrays& in) { return pick(pick(in[0], 0, 9, 10, -1), 1, 2, 3, -1); });
  table.moving(
      "slice/negative_step", {{{10}}},
      [](const Tensors& in) {
        return slice(in[0], {{8, 1, -3}});
      },
      [](const Arrays& in) { return pick(in[0], 0, 8, 3, -3); });
  table.moving(
      "slice/negative_step_open", {{{10}}},
      [=](const Tensors& in) {
        return slice(in[0], {{-2, o, -2}});
      },
      [](const Arrays& in) { return pick(in[0], 0, 8, 5, -2); });
  table.moving(
      "slice/beyond_the_end", {{{5}}},
      [](const Tensors& in) {
        return slice(in[0], {{3, 99}});
      },
      [](const Arrays& in) { return pick(in[0], 0, 3, 2); });
  table.moving(
      "slice/empty", {{{5}}},
      [](const Tensors& in) {
        return slice(in[0], {{3, 1}});
      },
      [](const Arrays&) {
        return Array{{0}, {}};
      });
  table.moving(
      "slice/of_slice", {{{20, 4}}},
      [=](const Tensors& in) {
        return slice(slice(in[0], {{2, 18, 2}}), {{1, o, 3}, {o, o, -2}});
      },
      [](const Arrays& in) { return pick(pick(pick(in[0], 0, 2, 8, 2), 0, 1, 3, 3), 1, 3, 2, -2); });
  table.moving(
      "narrow/middle", {{cube}}, [](const Tensors& in) { return narrow(in[0], 1, 1, 2); },
      [](const Arrays& in) { return pick(in[0], 1, 1, 2); });
  table.moving(
      "select/last", {{cube}}, [](const Tensors& in) { return select(in[0], 1, -1); },
      [](const Arrays& in) {
        return reference::reshape(pick(in[0], 1, 3, 1), {3, 5});
      });
  table.moving(
      "subscript/row", {{cube}}, [](const Tensors& in) { return in[0][-2]; },
      [](const Arrays& in) {
        return reference::reshape(pick(in[0], 0, 1, 1), {4, 5});
      });
  table.moving(
      "flip/two_axes", {{cube}},
      [](const Tensors& in) {
        return flip(in[0], {0, -1});
      },
      [](const Arrays& in) { return pick(pick(in[0], 0, 2, 3, -1), 2, 4, 5, -1); });
  for (std::int64_t shift : {0, 1, -1, 4, 7, -13})
    table.moving(
        "roll/" + std::to_string(shift), {{cube}}, [=](const Tensors& in) { return roll(in[0], shift, 1); },
        [=](const Arrays& in) {
          return generate(in[0].shape, [&](Position p) {
            p[1] = ((p[1] - shift) % 4 + 4) % 4;
            return in[0].at(p);
          });
        });
  table.moving(
      "tile/both", {{{2, 3}}},
      [](const Tensors& in) {
        return tile(in[0], {2, 3});
      },
      [](const Arrays& in) {
        return generate(Shape{4, 9}, [&](const Position& p) { return in[0].at({p[0] % 2, p[1] % 3}); });
      });
  table.moving(
      "tile/more_repeats", {{{3}}},
      [](const Tensors& in) {
        return tile(in[0], {2, 2});
      },
      [](const Arrays& in) {
        return generate(Shape{2, 6}, [&](const Position& p) { return in[0].at({p[1] % 3}); });
      });
  table.moving(
      "repeat_interleave/middle", {{cube}}, [](const Tensors& in) { return repeat_interleave(in[0], 3, 1); },
      [](const Arrays& in) {
        return generate(Shape{3, 12, 5}, [&](const Position& p) { return in[0].at({p[0], p[1] / 3, p[2]}); });
      });
  for (std::int64_t axis : {0, 1, -1}) {
    Shape other = cube, third = cube;
    other[axis < 0 ? 2 : static_cast<std::size_t>(axis)] = 2;
    third[axis < 0 ? 2 : static_cast<std::size_t>(axis)] = 0;
    table.moving(
        "concat/axis_" + std::to_string(axis), {{cube}, {other}, {third}, {other}},
        [=](const Tensors& in) { return hearth::concat(in, axis); },
        [=](const Arrays& in) { return reference::concat(in, axis); });
    table.moving(
        "stack/axis_" + std::to_string(axis), {{{3, 4}}, {{3, 4}}, {{3, 4}}},
        [=](const Tensors& in) { return stack(in, axis); },
        [=](const Arrays& in) {
          return reference::concat(
              {insert_axis(in[0], axis), insert_axis(in[1], axis), insert_axis(in[2], axis)}, axis);
        });
  }
  table.moving(
      "split/last_piece", {{{2, 7}}}, [](const Tensors& in) { return split(in[0], 3, 1).at(2); },
      [](const Arrays& in) { return pick(in[0], 1, 6, 1); });
  table.moving(
      "split/joined", {{{7, 2}}}, [](const Tensors& in) { return hearth::concat(split(in[0], 3, 0), 0); },
      [](const Arrays& in) { return in[0]; });
  table.moving(
      "chunk/middle", {{{2, 7}}}, [](const Tensors& in) { return chunk(in[0], 3, 1).at(1); },
      [](const Arrays& in) { return pick(in[0], 1, 3, 3); });
  table.moving(
      "pad/all_sides", {{{2, 3}}},
      [](const Tensors& in) {
        return pad(in[0], {{1, 2}, {0, 3}}, 7);
      },
      [](const Arrays& in) {
        return generate(Shape{5, 6}, [&](const Position& p) {
          return p[0] >= 1 && p[0] < 3 && p[1] < 3 ? in[0].at({p[0] - 1, p[1]}) : 7;
        });
      });
  table.moving(
      "pad/empty", {{{0, 3}}},
      [](const Tensors& in) {
        return pad(in[0], {{1, 1}, {0, 0}}, 2);
      },
      [](const Arrays&) {
        return generate(Shape{2, 3}, [](const Position&) { return 2; });
      });
  for (std::int64_t diagonal : {-1, 0, 2}) {
    table.moving(
        "tril/" + std::to_string(diagonal), {{{2, 4, 5}}},
        [=](const Tensors& in) { return tril(in[0], diagonal); },
        [=](const Arrays& in) {
          return generate(in[0].shape,
                          [&](const Position& p) { return p[2] - p[1] <= diagonal ? in[0].at(p) : 0; });
        });
    table.moving(
        "triu/" + std::to_string(diagonal), {{{2, 4, 5}}},
        [=](const Tensors& in) { return triu(in[0], diagonal); },
        [=](const Arrays& in) {
          return generate(in[0].shape,
                          [&](const Position& p) { return p[2] - p[1] >= diagonal ? in[0].at(p) : 0; });
        });
  }
  table.moving(
      "diagonal/wide", {{{2, 3, 5}}}, [](const Tensors& in) { return diagonal(in[0]); },
      [](const Arrays& in) {
        return generate(Shape{2, 3}, [&](const Position& p) { return in[0].at({p[0], p[1], p[1]}); });
      });
  table.moving(
      "where/broadcast", {{{3, 1}, {0, 1}, Kind::condition}, {{3, 4}}, {{4}}},
      [](const Tensors& in) { return where(in[0], in[1], in[2]); },
      [](const Arrays& in) {
        return generate(Shape{3, 4}, [&](const Position& p) {
          return in[0].broadcast_at(p) != 0 ? in[1].at(p) : in[2].broadcast_at(p);
        });
      });
  table.moving(
      "masked_fill/broadcast", {{{3, 4}}, {{4}, {0, 1}, Kind::condition}},
      [](const Tensors& in) { return masked_fill(in[0], in[1], 5); },
      [](const Arrays& in) {
        return generate(Shape{3, 4},
                        [&](const Position& p) { return in[1].broadcast_at(p) != 0 ? 5 : in[0].at(p); });
      });
  table.moving(
      "clamp/both", {{{5, 7}}}, [](const Tensors& in) { return clamp(in[0], -1, 1); },
      [](const Arrays& in) { return map(in[0], [](double x) { return std::clamp(x, -1.0, 1.0); }); });
  table.moving(
      "clamp/low", {{{5, 7}}}, [](const Tensors& in) { return clamp(in[0], 0, {}); },
      [](const Arrays& in) { return map(in[0], [](double x) { return std::max(x, 0.0); }); });
}

void add_indexing(Table& table) {
  const auto indices = [](Shape shape, double size) { return Input{shape, {-size, size}, Kind::index}; };
  for (std::int64_t axis : {0, 1, -1}) {
    const Shape cube{3, 4, 5};
    const auto a = static_cast<std::size_t>(axis < 0 ? 2 : axis);
    const auto size = cube[a];
    const auto name = std::to_string(axis);
    table.moving(
        "take/axis_" + name, {{cube}, indices({2, 3}, static_cast<double>(size))},
        [=](const Tensors& in) { return take(in[0], in[1], axis); },
        [=](const Arrays& in) {
          Shape shape(cube.begin(), cube.begin() + static_cast<std::ptrdiff_t>(a));
          for (std::int64_t s : {2, 3}) shape.push_back(s);
          for (auto i = a + 1; i < 3; ++i) shape.push_back(cube[i]);
          return generate(shape, [&](const Position& p) {
            Position from(3);
            for (std::size_t i = 0; i < a; ++i) from[i] = p[i];
            from[a] = wrap_index(in[1].at({p[a], p[a + 1]}), size);
            for (auto i = a + 1; i < 3; ++i) from[i] = p[i + 1];
            return in[0].at(from);
          });
        });
    Shape few = cube;
    few[a] = 6;
    const auto gathered = [=](const Arrays& in) {
      return generate(few, [&](Position p) {
        p[a] = wrap_index(in[1].at(p), size);
        return in[0].at(p);
      });
    };
    table.moving(
        "gather/axis_" + name, {{cube}, indices(few, static_cast<double>(size))},
        [=](const Tensors& in) { return gather(in[0], axis, in[1]); }, gathered);
    table.moving(
        "take_along/axis_" + name, {{cube}, indices(few, static_cast<double>(size))},
        [=](const Tensors& in) { return take_along(in[0], in[1], axis); }, gathered);
    for (bool add : {false, true}) {
      auto& entry = table.add((add ? "scatter_add/axis_" : "scatter/axis_") + name,
                              {{cube}, indices(few, static_cast<double>(size)), {few}},
                              [=](const Tensors& in) {
                                return add ? scatter_add(in[0], axis, in[1], in[2])
                                           : scatter(in[0], axis, in[1], in[2]);
                              },
                              [=](const Arrays& in) {
                                Array result = in[0];
                                for_each_position(few, [&](Position p) {
                                  const double source = in[2].at(p);
                                  p[a] = wrap_index(in[1].at(p), size);
                                  result.at(p) = add ? result.at(p) + source : source;
                                });
                                return result;
                              });
      entry.integers = true;
      entry.differentiable = add;  // where an index repeats, the overwritten sources have no clear gradient
      entry.roundings = add ? 1 : 0;
      entry.accumulation = add ? 4 : 0;
      entry.scale = add ? 4 : 0;  // halves may be added one by one
    }
  }
  const auto looked_up = [](const Arrays& in) {
    Shape shape = in[0].shape;
    shape.push_back(in[1].size(-1));
    return generate(shape, [&](const Position& p) {
      Position at(p.begin(), p.end() - 1);
      return in[1].at({wrap_index(in[0].at(at), in[1].size(0)), p[p.size() - 1]});
    });
  };
  for (auto size : edge_sizes)
    table.moving(
        "embedding/features_" + std::to_string(size), {{{2, 3}, {0, 7}, Kind::index}, {{7, size}}},
        [](const Tensors& in) { return embedding(in[0], in[1]); }, looked_up);
  table.moving(
      "embedding/no_indices", {{{0}, {0, 7}, Kind::index}, {{7, 3}}},
      [](const Tensors& in) { return embedding(in[0], in[1]); }, looked_up);
  auto& hot = table.add(
      "one_hot/plain", {{{3, 4}, {0, 5}, Kind::index}}, [](const Tensors& in) { return one_hot(in[0], 5); },
      [](const Arrays& in) {
        return generate(Shape{3, 4, 5}, [&](const Position& p) {
          return in[0].at({p[0], p[1]}) == static_cast<double>(p[2]);
        });
      });
  hot.differentiable = false;
}

void add_contractions(Table& table) {
  const auto product = [&](const Shape& a, const Shape& b) {
    auto& entry = table.add(
        "matmul/" + to_string(a) + "@" + to_string(b), {{a}, {b}},
        [](const Tensors& in) { return matmul(in[0], in[1]); },
        [](const Arrays& in) { return reference::matmul(in[0], in[1]); });
    entry.accumulation = 8;
    entry.roundings = 2;
  };
  for (const auto& [a, b] : std::vector<std::pair<Shape, Shape>>{{{3, 4}, {4, 5}},
                                                                 {{4}, {4}},
                                                                 {{4}, {4, 5}},
                                                                 {{3, 4}, {4}},
                                                                 {{2, 3, 4}, {2, 4, 5}},
                                                                 {{2, 1, 3, 4}, {3, 4, 2}},
                                                                 {{3, 4}, {2, 4, 5}},
                                                                 {{2, 3, 4}, {4, 5}},
                                                                 {{2, 3, 4}, {4}},
                                                                 {{4}, {2, 4, 3}},
                                                                 {{3, 0}, {0, 4}},
                                                                 {{0, 3}, {3, 4}},
                                                                 {{2, 0, 3}, {2, 3, 4}},
                                                                 {{0}, {0}},
                                                                 {{0, 2, 3}, {0, 3, 2}},
                                                                 {{1, 1}, {1, 1}},
                                                                 {{1, 7}, {7, 1}},
                                                                 {{7, 1}, {1, 7}}})
    product(a, b);
  for (auto size : {31, 32, 33, 63, 64, 65, 127, 128, 129}) {
    product({3, size}, {size, 5});
    product({size, 3}, {3, 4});
    product({3, 4}, {4, size});
    product({1, size}, {size, size});
  }
  product({33, 65}, {65, 31});
  product({3, 17, 33}, {3, 33, 9});
  product({2, 1025}, {1025, 3});
  const auto other = [&](const std::string& name, const std::vector<Input>& inputs, TensorFunction function,
                         ArrayFunction reference) {
    auto& entry = table.add(name, inputs, std::move(function), std::move(reference));
    entry.accumulation = 8;
    entry.roundings = 2;
  };
  const auto transposed = [](const Array& x) { return reference::permute(x, {1, 0}); };
  other(
      "matmul/transposed_left", {{{5, 3}}, {{5, 4}}},
      [](const Tensors& in) { return matmul(in[0].t(), in[1]); },
      [=](const Arrays& in) { return reference::matmul(transposed(in[0]), in[1]); });
  other(
      "matmul/transposed_right", {{{3, 5}}, {{4, 5}}},
      [](const Tensors& in) { return matmul(in[0], in[1].t()); },
      [=](const Arrays& in) { return reference::matmul(in[0], transposed(in[1])); });
  other(
      "matmul/transposed_both", {{{5, 3}}, {{4, 5}}},
      [](const Tensors& in) { return matmul(in[0].t(), in[1].t()); },
      [=](const Arrays& in) { return reference::matmul(transposed(in[0]), transposed(in[1])); });
  other(
      "batch_matmul/plain", {{{2, 3, 4}}, {{2, 4, 5}}},
      [](const Tensors& in) { return batch_matmul(in[0], in[1]); },
      [](const Arrays& in) { return reference::matmul(in[0], in[1]); });
  other(
      "outer/plain", {{{3}}, {{4}}}, [](const Tensors& in) { return outer(in[0], in[1]); },
      [](const Arrays& in) {
        return generate(Shape{3, 4}, [&](const Position& p) { return in[0].at({p[0]}) * in[1].at({p[1]}); });
      });
  for (auto size : edge_sizes)
    other(
        "dot/" + std::to_string(size), {{{size}}, {{size}}},
        [](const Tensors& in) { return dot(in[0], in[1]); },
        [](const Arrays& in) { return reference::matmul(in[0], in[1]); });
  for (std::int64_t size : {1, 31, 64, 129})
    other(
        "linear/" + std::to_string(size), {{{2, 3, size}}, {{4, size}}, {{4}}},
        [](const Tensors& in) { return linear(in[0], in[1], in[2]); },
        [=](const Arrays& in) {
          return zip(reference::matmul(in[0], transposed(in[1])), in[2], std::plus<>());
        });
  other(
      "einsum/attention_scores", {{{2, 3, 2, 4}}, {{2, 5, 2, 4}}},
      [](const Tensors& in) { return einsum("bqhd,bkhd->bhqk", in); },
      [](const Arrays& in) {
        return generate(Shape{2, 2, 3, 5}, [&](const Position& p) {
          double total = 0;
          for (std::int64_t d = 0; d < 4; ++d)
            total += in[0].at({p[0], p[2], p[1], d}) * in[1].at({p[0], p[3], p[1], d});
          return total;
        });
      });
  other(
      "einsum/trace", {{{4, 4}}}, [](const Tensors& in) { return einsum("ii->", in); },
      [](const Arrays& in) {
        double total = 0;
        for (std::int64_t i = 0; i < 4; ++i) total += in[0].at({i, i});
        return Array{{}, {total}};
      });
}

void add_convolutions(Table& table) {
  // x (N, C, H, W), weight (O, C / groups, KH, KW)
  const auto conv = [](const Array& x, const Array& w, std::int64_t stride, std::int64_t padding,
                       std::int64_t dilation, std::int64_t groups) {
    const auto extent = [&](std::int64_t size, std::int64_t kernel) {
      return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
    };
    const auto per_group = w.size(0) / groups;
    return generate(
        Shape{x.size(0), w.size(0), extent(x.size(2), w.size(2)), extent(x.size(3), w.size(3))},
        [&](const Position& p) {
          double total = 0;
          for (std::int64_t c = 0; c < w.size(1); ++c)
            for (std::int64_t i = 0; i < w.size(2); ++i)
              for (std::int64_t j = 0; j < w.size(3); ++j) {
                const auto row = p[2] * stride - padding + i * dilation,
                           column = p[3] * stride - padding + j * dilation;
                if (row < 0 || column < 0 || row >= x.size(2) || column >= x.size(3)) continue;
                total += x.at({p[0], p[1] / per_group * w.size(1) + c, row, column}) * w.at({p[1], c, i, j});
              }
          return total;
        });
  };
  struct Geometry {
    const char* name;
    Shape x, weight;
    std::int64_t stride, padding, dilation, groups;
  };
  for (const auto& g : std::vector<Geometry>{{"plain", {2, 3, 5, 6}, {4, 3, 3, 2}, 1, 0, 1, 1},
                                             {"strided_padded", {1, 2, 7, 6}, {3, 2, 3, 3}, 2, 1, 1, 1},
                                             {"dilated", {1, 2, 8, 8}, {2, 2, 3, 3}, 1, 2, 2, 1},
                                             {"grouped", {1, 4, 5, 5}, {6, 2, 3, 3}, 1, 1, 1, 2},
                                             {"depthwise", {1, 5, 6, 5}, {5, 1, 3, 3}, 1, 1, 1, 5},
                                             {"one_by_one", {2, 7, 3, 3}, {5, 7, 1, 1}, 1, 0, 1, 1},
                                             {"many_channels", {1, 33, 9, 9}, {17, 33, 3, 3}, 1, 1, 1, 1},
                                             {"wide", {1, 3, 33, 35}, {8, 3, 5, 5}, 2, 2, 1, 1},
                                             {"no_batch", {0, 2, 4, 4}, {3, 2, 3, 3}, 1, 1, 1, 1}}) {
    auto& entry = table.add(
        std::string("conv2d/") + g.name, {{g.x}, {g.weight}, {{g.weight[0]}}},
        [=](const Tensors& in) {
          return conv2d(
              in[0], in[1], in[2],
              {.stride = {g.stride}, .padding = {g.padding}, .dilation = {g.dilation}, .groups = g.groups});
        },
        [=](const Arrays& in) {
          return zip(conv(in[0], in[1], g.stride, g.padding, g.dilation, g.groups),
                     reference::reshape(in[2], {g.weight[0], 1, 1}), std::plus<>());
        });
    entry.accumulation = 8;
    entry.roundings = 2;
    entry.scale = 2;  // the bias may be added to a rounded result
  }
  auto& up = table.add(
      "conv_transpose2d/strided", {{{1, 2, 3, 4}}, {{2, 3, 3, 2}}},
      [](const Tensors& in) { return conv_transpose2d(in[0], in[1], {}, {.stride = {2}, .padding = {1}}); },
      [](const Arrays& in) {
        const Shape shape{1, 3, (3 - 1) * 2 - 2 + 3, (4 - 1) * 2 - 2 + 2};
        Array result{shape, std::vector<double>(static_cast<std::size_t>(element_count(shape)))};
        for_each_position(in[0].shape, [&](const Position& p) {
          for_each_position(Shape{3, 3, 2}, [&](const Position& q) {
            const auto row = p[2] * 2 - 1 + q[1], column = p[3] * 2 - 1 + q[2];
            if (row >= 0 && column >= 0 && row < shape[2] && column < shape[3])
              result.at({0, q[0], row, column}) += in[0].at(p) * in[1].at({p[1], q[0], q[1], q[2]});
          });
        });
        return result;
      });
  up.accumulation = 8;
  up.roundings = 2;
  const auto pooled = [](const Array& x, std::int64_t kernel, std::int64_t stride, auto f) {
    return generate(
        Shape{x.size(0), x.size(1), (x.size(2) - kernel) / stride + 1, (x.size(3) - kernel) / stride + 1},
        [&](const Position& p) {
          std::vector<double> window;
          for (std::int64_t i = 0; i < kernel; ++i)
            for (std::int64_t j = 0; j < kernel; ++j)
              window.push_back(x.at({p[0], p[1], p[2] * stride + i, p[3] * stride + j}));
          return f(window);
        });
  };
  table
      .add(
          "max_pool2d/overlapping", {{{2, 2, 6, 5}}},
          [](const Tensors& in) { return max_pool2d(in[0], {.kernel = {3}, .stride = {2}}); },
          [=](const Arrays& in) { return pooled(in[0], 3, 2, reference::max); })
      .roundings = 0;
  auto& average = table.add(
      "avg_pool2d/overlapping", {{{2, 2, 6, 5}}},
      [](const Tensors& in) { return avg_pool2d(in[0], {.kernel = {3}, .stride = {1}}); },
      [=](const Arrays& in) { return pooled(in[0], 3, 1, reference::mean); });
  average.accumulation = 8;
  average.roundings = 2;
}

void add_composites(Table& table) {
  const auto composite = [&](const std::string& name, std::vector<Input> inputs, TensorFunction function,
                             ArrayFunction reference) -> OpCase& {
    auto& entry = table.add(name, std::move(inputs), std::move(function), std::move(reference));
    // A chain of a few steps, each of which may round to the dtype.
    entry.roundings = 4;
    entry.scale = 8;
    return entry;
  };
  const auto unary = [&](const std::string& name, std::function<Tensor(const Tensor&)> function,
                         std::function<double(double)> value) {
    auto& entry = composite(
        name, {{{5, 7}, {-4, 4}}}, [=](const Tensors& in) { return function(in[0]); },
        [=](const Arrays& in) { return map(in[0], value); });
    entry.scale = 2;
  };
  unary(
      "leaky_relu", [](auto& x) { return leaky_relu(x, 0.1); }, [](double x) { return x > 0 ? x : 0.1 * x; });
  unary(
      "elu", [](auto& x) { return elu(x, 0.5); }, [](double x) { return x > 0 ? x : 0.5 * std::expm1(x); });
  unary(
      "selu", [](auto& x) { return selu(x); },
      [](double x) {
        return 1.0507009873554804934193349852946 *
               (x > 0 ? x : 1.6732632423543772848170429916717 * std::expm1(x));
      });
  unary(
      "celu", [](auto& x) { return celu(x, 2.0); },
      [](double x) { return x > 0 ? x : 2 * std::expm1(x / 2); });
  unary(
      "relu6", [](auto& x) { return relu6(x * 2); }, [](double x) { return std::clamp(2 * x, 0.0, 6.0); });
  unary(
      "hardtanh", [](auto& x) { return hardtanh(x, -2, 1); },
      [](double x) { return std::clamp(x, -2.0, 1.0); });
  unary(
      "hardsigmoid", [](auto& x) { return hardsigmoid(x); },
      [](double x) { return std::clamp(x / 6 + 0.5, 0.0, 1.0); });
  unary(
      "hardswish", [](auto& x) { return hardswish(x); },
      [](double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); });
  unary(
      "softsign", [](auto& x) { return softsign(x); }, [](double x) { return x / (1 + std::abs(x)); });
  unary(
      "tanhshrink", [](auto& x) { return tanhshrink(x); }, [](double x) { return x - std::tanh(x); });
  unary(
      "softshrink", [](auto& x) { return softshrink(x, 0.75); },
      [](double x) { return x > 0.75    ? x - 0.75
                            : x < -0.75 ? x + 0.75
                                        : 0; });
  unary(
      "hardshrink", [](auto& x) { return hardshrink(x, 0.75); },
      [](double x) { return std::abs(x) > 0.75 ? x : 0; });
  composite(
      "glu/middle", {{{2, 4, 3}}}, [](const Tensors& in) { return glu(in[0], 1); },
      [](const Arrays& in) {
        return zip(pick(in[0], 1, 0, 2), pick(in[0], 1, 2, 2),
                   [](double a, double b) { return a * sigmoid_of(b); });
      });
  composite(
      "prelu/channels", {{{2, 3, 4}}, {{3}}}, [](const Tensors& in) { return prelu(in[0], in[1]); },
      [](const Arrays& in) {
        return generate(in[0].shape, [&](const Position& p) {
          const double x = in[0].at(p);
          return x > 0 ? x : x * in[1].at({p[1]});
        });
      });
  composite(
      "lerp/broadcast", {{{3, 4}}, {{4}}, {{}, {0, 1}}},
      [](const Tensors& in) { return lerp(in[0], in[1], in[2]); },
      [](const Arrays& in) {
        const double w = in[2].values[0];
        return zip(in[0], in[1], [=](double a, double b) { return a + w * (b - a); });
      });

  for (std::int64_t size : {1, 4, 33, 128, 1025}) {
    const auto name = std::to_string(size);
    composite(
        "rms_norm/" + name, {{{3, size}}, {{size}}},
        [](const Tensors& in) { return rms_norm(in[0], in[1], 1e-2); },
        [](const Arrays& in) {
          return zip(along(in[0], -1,
                           [](std::vector<double> v) {
                             double squares = 0;
                             for (double x : v) squares += x * x;
                             for (double& x : v)
                               x /= std::sqrt(squares / static_cast<double>(v.size()) + 1e-2);
                             return v;
                           }),
                     in[1], std::multiplies<>());
        });
    composite(
        "layer_norm/" + name, {{{3, size}}, {{size}}, {{size}}},
        [=](const Tensors& in) { return layer_norm(in[0], {size}, in[1], in[2], 1e-2); },
        [](const Arrays& in) {
          return zip(zip(along(in[0], -1,
                               [](std::vector<double> v) {
                                 const double m = reference::mean(v), variance = reference::var(v, 0);
                                 for (double& x : v) x = (x - m) / std::sqrt(variance + 1e-2);
                                 return v;
                               }),
                         in[1], std::multiplies<>()),
                     in[2], std::plus<>());
        });
  }
  // The normalised values are not small when the channel is nearly constant, hence the large epsilon.
  composite(
      "batch_norm_train/plain", {{{4, 3, 2}}},
      [](const Tensors& in) { return batch_norm_train(in[0], {}, {}, 1e-1).output; },
      [](const Arrays& in) {
        const auto m = reference::reduce(in[0], {0, 2}, true, reference::mean),
                   variance = reference::reduce(in[0], {0, 2}, true, [](auto&v) { return reference::var(v, 0); });
        return zip(zip(in[0], m, std::minus<>()), variance,
                   [](double x, double v) { return x / std::sqrt(v + 1e-1); });
      });

  for (const auto& [queries, keys, causal] : std::vector<std::tuple<std::int64_t, std::int64_t, bool>>{
           {3, 3, true}, {1, 5, true}, {4, 6, false}, {33, 33, true}, {5, 129, true}}) {
    composite(
        "attention/" + std::to_string(queries) + "x" + std::to_string(keys) + (causal ? "_causal" : ""),
        {{{1, 4, queries, 4}}, {{1, 2, keys, 4}}, {{1, 2, keys, 4}}},
        [causal = causal](const Tensors& in) {
          AttentionOptions options;
          options.causal = causal;
          return attention(in[0], in[1], in[2], options);
        },
        [causal = causal](const Arrays& in) {
          return generate(in[0].shape, [&](const Position& p) {
            std::vector<double> scores;
            const auto last = causal ? p[2] + in[1].size(2) - in[0].size(2) : in[1].size(2) - 1;
            for (std::int64_t j = 0; j <= last; ++j) {
              double score = 0;
              for (std::int64_t d = 0; d < 4; ++d)
                score += in[0].at({p[0], p[1], p[2], d}) * in[1].at({p[0], p[1] / 2, j, d});
              scores.push_back(score / 2);
            }
            const auto weights = reference::softmax(scores);
            double total = 0;
            for (std::int64_t j = 0; j <= last; ++j)
              total += weights[static_cast<std::size_t>(j)] * in[2].at({p[0], p[1] / 2, j, p[3]});
            return total;
          });
        });
  }
  for (bool interleaved : {false, true})
    composite(
        interleaved ? "rope/interleaved" : "rope/halves", {{{2, 3, 6}}},
        [=](const Tensors& in) { return rope(in[0], 100.0, 2, interleaved); },
        [=](const Arrays& in) {
          return generate(in[0].shape, [&](Position p) {
            const auto d = p[2];
            const auto pair = interleaved ? d / 2 : d % 3;
            const bool first = interleaved ? d % 2 == 0 : d < 3;
            const double angle =
                static_cast<double>(p[1] + 2) * std::pow(100.0, -static_cast<double>(2 * pair) / 6);
            const double own = in[0].at(p);
            p[2] = interleaved ? (first ? d + 1 : d - 1) : (first ? d + 3 : d - 3);
            const double other = in[0].at(p);
            return own * std::cos(angle) + (first ? -other : other) * std::sin(angle);
          });
        });
  composite(
      "cross_entropy/mean", {{{4, 5}, {-4, 4}}, {{4}, {0, 5}, Kind::index}},
      [](const Tensors& in) { return cross_entropy(in[0], in[1]); },
      [](const Arrays& in) {
        double total = 0;
        for (std::int64_t i = 0; i < 4; ++i) {
          std::vector<double> row;
          for (std::int64_t c = 0; c < 5; ++c) row.push_back(in[0].at({i, c}));
          total += reference::logsumexp(row) - row[static_cast<std::size_t>(in[1].at({i}))];
        }
        return Array{{}, {total / 4}};
      });
  composite(
      "mse_loss/mean", {{{4, 5}}, {{4, 5}}}, [](const Tensors& in) { return mse_loss(in[0], in[1]); },
      [](const Arrays& in) {
        return reference::reduce(zip(in[0], in[1], [](double a, double b) { return (a - b) * (a - b); }), {}, false,
                      reference::mean);
      });
}

}  // namespace

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    Table table;
    add_reductions(table);
    add_scans(table);
    add_shapes(table);
    add_indexing(table);
    add_contractions(table);
    add_convolutions(table);
    add_composites(table);
    return table.take();
  }();
  return cases;
}

}  // namespace hearth::testing
