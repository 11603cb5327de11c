#include "random_graphs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "hearth/eval.h"
#include "hearth/ops.h"
#include "hearth/random.h"

namespace hearth::testing {
namespace {

bool is_floating(const Tensor& x) { return hearth::is_floating(x.dtype()); }

bool is_integer(const Tensor& x) { return !is_floating(x) && x.dtype() != DType::bool_; }

bool broadcasts(const Shape& a, const Shape& b) {
  for (std::size_t k = 1; k <= std::min(a.size(), b.size()); ++k) {
    const std::int64_t p = a[a.size() - k], q = b[b.size() - k];
    if (p != q && p != 1 && q != 1) return false;
  }
  return true;
}

double largest_magnitude(const Tensor& x) {
  double largest = 0;
  for (const double value : x.to(DType::f64).to_vector<double>()) {
    if (!std::isfinite(value)) return value;
    largest = std::max(largest, std::abs(value));
  }
  return largest;
}

constexpr double most_magnitude = 60;

}  // namespace

RandomProgram::RandomProgram(std::uint64_t seed) : random_(seed) {
  constexpr DType precisions[] = {DType::f64, DType::f32, DType::f32, DType::f16, DType::bf16, DType::f32};
  const std::int64_t kind = below(6);
  precision_ = precisions[kind];
  mixed_ = kind == 5;
  if (one_in(2)) product_type_ = DType::f16;
  // Most programs are small; in the others kernels meet whole tiles and several threads.
  constexpr std::int64_t sizes[] = {2,  3,  4,  5,  6,  7,  8,  9,   12,  15,  16,  17,
                                    20, 31, 32, 33, 48, 64, 65, 100, 127, 128, 256, 300};
  const bool large = one_in(8);
  most_elements_ = large ? 400000 : 20000;
  for (int k = 0; k < 3; ++k) dimensions_.push_back(sizes[large ? 12 + below(12) : below(20)]);

  const std::int64_t inputs = 1 + below(4);
  for (std::int64_t k = 0; k < inputs; ++k) add_input(shape(), precision_, -2, 2);
  add_input(shape(), one_in(2) ? DType::i64 : DType::i32, -20, 20);
  add_input(shape(), DType::bool_, 0, 2);

  using Addition = bool (RandomProgram::*)();
  constexpr Addition additions[] = {
      &RandomProgram::add_unary,         &RandomProgram::add_unary,       &RandomProgram::add_unary,
      &RandomProgram::add_with_number,   &RandomProgram::add_with_number, &RandomProgram::add_binary,
      &RandomProgram::add_binary,        &RandomProgram::add_binary,      &RandomProgram::add_binary,
      &RandomProgram::add_choice,        &RandomProgram::add_random,      &RandomProgram::add_integers,
      &RandomProgram::add_reduction,     &RandomProgram::add_reduction,   &RandomProgram::add_along_axis,
      &RandomProgram::add_shape_change,  &RandomProgram::add_view,        &RandomProgram::add_view,
      &RandomProgram::add_joined,        &RandomProgram::add_indexing,    &RandomProgram::add_product,
      &RandomProgram::add_product,       &RandomProgram::add_convolution, &RandomProgram::add_pooling,
      &RandomProgram::add_normalisation, &RandomProgram::add_attention,   &RandomProgram::add_loss,
      &RandomProgram::add_cast,          &RandomProgram::add_block,
  };
  const std::size_t length = values_.size() + 3 + static_cast<std::size_t>(below(one_in(4) ? 60 : 16));
  for (int tries = 0; values_.size() < length && tries < 1000; ++tries)
    (this->*additions[below(std::size(additions))])();

  outputs_.push_back(values_.size() - 1);
  for (std::int64_t k = below(4); k > 0; --k) outputs_.push_back(any_value());
}

std::vector<Tensor> RandomProgram::outputs(const std::vector<Tensor>& inputs) const {
  Values values;
  std::size_t next = 0;
  for (const Step& step : steps_) values.push_back(step.compute ? step.compute(values) : inputs[next++]);
  std::vector<Tensor> chosen;
  for (const std::size_t k : outputs_) chosen.push_back(values[k]);
  return chosen;
}

Tensor RandomProgram::loss(const std::vector<Tensor>& outputs) {
  Tensor total;
  double weight = 1;
  for (const Tensor& output : outputs) {
    if (!is_floating(output) || output.numel() == 0) continue;
    const Tensor part = mean(atan(output * weight)).to(DType::f64);
    total = total.defined() ? total + part : part;
    weight += 0.25;
  }
  return total;
}

std::string RandomProgram::text() const {
  std::string lines;
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    const std::string shape = to_string(values_[k].shape());
    lines += fmt::format("  v{} = {}  # {} {}\n", k, steps_[k].text, dtype_name(values_[k].dtype()), shape);
  }
  return lines + fmt::format("  outputs {}\n", fmt::join(outputs_, ", "));
}

// ---- choices
std::int64_t RandomProgram::below(std::int64_t limit) {
  // Not a distribution of the standard library: they differ between libraries.
  return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
}

double RandomProgram::number(double low, double high) {
  return low + (high - low) * static_cast<double>(random_() >> 11) * 0x1p-53;
}

std::int64_t RandomProgram::dimension() {
  if (one_in(5)) return 1;
  if (one_in(150)) return 0;
  return dimensions_[static_cast<std::size_t>(below(3))];
}

Shape RandomProgram::shape() {
  for (;;) {
    Shape shape;
    for (std::int64_t rank = one_in(12) ? 0 : 1 + below(4); rank > 0; --rank) shape.push_back(dimension());
    if (element_count(shape) <= most_elements_) return shape;
  }
}

std::size_t RandomProgram::any_value() {
  // Late values more often: chains become long.
  const auto count = static_cast<std::int64_t>(values_.size());
  return static_cast<std::size_t>(one_in(2) ? below(count)
                                            : count - 1 - below(std::min<std::int64_t>(count, 4)));
}

std::size_t RandomProgram::floating_value(std::size_t rank) {
  for (int tries = 0; tries < 20; ++tries) {
    const std::size_t a = any_value();
    if (is_floating(values_[a]) && values_[a].ndim() >= rank && values_[a].numel() > 0) return a;
  }
  return values_.size();
}

std::size_t RandomProgram::partner(std::size_t a) {
  for (int tries = 0; tries < 20; ++tries) {
    const std::size_t b = any_value();
    if (is_floating(values_[b]) && broadcasts(values_[a].shape(), values_[b].shape())) return b;
  }
  // One that fits, with some axes of size 1 and perhaps fewer axes.
  Shape shape = values_[a].shape();
  for (std::int64_t& size : shape)
    if (one_in(3)) size = 1;
  const auto drop = static_cast<std::size_t>(below(static_cast<std::int64_t>(shape.size()) + 1));
  Shape fitting;
  for (std::size_t k = drop; k < shape.size(); ++k) fitting.push_back(shape[k]);
  return add_parameter(fitting);
}

std::int64_t RandomProgram::axis_of(std::size_t a) {
  return below(static_cast<std::int64_t>(values_[a].ndim()));
}

Axes RandomProgram::axes_of(std::size_t a) {
  Axes axes;
  for (std::size_t k = 0; k < values_[a].ndim(); ++k)
    if (one_in(2)) axes.push_back(static_cast<std::int64_t>(k));
  return axes;
}

// ---- additions
std::size_t RandomProgram::add_input(const Shape& shape, DType dtype, double low, double high) {
  // In memory an input may be turned, every other element of something larger, or one element seen often.
  const std::int64_t layout = below(6);
  Shape stored = shape;
  if (layout == 1) std::reverse(stored.begin(), stored.end());
  if (layout == 2 && !stored.empty()) stored.back() *= 2;
  if (layout == 3 && !stored.empty()) stored[0] = 1;
  std::vector<double> numbers(static_cast<std::size_t>(element_count(stored)));
  for (double& value : numbers) {
    value = number(low, high);
    if (!hearth::is_floating(dtype)) value = std::floor(value);
  }
  Tensor x = tensor(numbers, stored).to(dtype).eval();
  if (layout == 1) {
    Axes order;
    for (std::size_t k = stored.size(); k > 0; --k) order.push_back(static_cast<std::int64_t>(k) - 1);
    x = permute(x, order);
  }
  if (layout == 2 && !stored.empty()) {
    std::vector<Slice> slices(stored.size());
    slices.back().step = 2;
    x = slice(x, slices);
  }
  if (layout == 3 && !stored.empty()) x = broadcast_to(x, shape);
  x.eval();
  inputs_.push_back(x);
  values_.push_back(x);
  steps_.push_back({fmt::format("input (layout {})", layout), nullptr});
  return values_.size() - 1;
}

bool RandomProgram::add(std::string text, std::function<Tensor(const Values&)> compute) {
  Tensor value = compute(values_);
  if (value.numel() > most_elements_) return false;
  value.eval();
  const double magnitude = largest_magnitude(value);
  if (!std::isfinite(magnitude)) return false;
  if (is_floating(value) && magnitude > most_magnitude) {
    const double factor = 0.83 / magnitude;  // not 1, which equals its square
    text += fmt::format(" * {}", factor);
    compute = [compute, factor](const Values& v) { return compute(v) * factor; };
    value = compute(values_).eval();
  }
  if (is_integer(value) && magnitude > 1e6) return false;
  values_.push_back(value);
  steps_.push_back({std::move(text), std::move(compute)});
  return true;
}

bool RandomProgram::add_unary() {
  struct Unary {
    const char* name;
    Tensor (*compute)(const Tensor&);
  };
  // Defined everywhere, and without steps that would turn a rounding into another result.
  static constexpr Unary table[] = {
      {"tanh", [](const Tensor& x) { return tanh(x); }},
      {"sin", [](const Tensor& x) { return sin(x); }},
      {"cos", [](const Tensor& x) { return cos(x); }},
      {"sigmoid", [](const Tensor& x) { return sigmoid(x); }},
      {"exp(-|x|)", [](const Tensor& x) { return exp(neg(abs(x))); }},
      {"neg", [](const Tensor& x) { return neg(x); }},
      {"abs", [](const Tensor& x) { return abs(x); }},
      {"square", [](const Tensor& x) { return square(x); }},
      {"relu", [](const Tensor& x) { return relu(x); }},
      {"gelu", [](const Tensor& x) { return gelu(x); }},
      {"gelu_tanh", [](const Tensor& x) { return gelu_tanh(x); }},
      {"silu", [](const Tensor& x) { return silu(x); }},
      {"mish", [](const Tensor& x) { return mish(x); }},
      {"softplus", [](const Tensor& x) { return softplus(x); }},
      {"erf", [](const Tensor& x) { return erf(x); }},
      {"atan", [](const Tensor& x) { return atan(x); }},
      {"asinh", [](const Tensor& x) { return asinh(x); }},
      {"sqrt(|x| + 1/2)", [](const Tensor& x) { return sqrt(abs(x) + 0.5); }},
      {"rsqrt(x^2 + 1/2)", [](const Tensor& x) { return rsqrt(x * x + 0.5); }},
      {"log(|x| + 1/2)", [](const Tensor& x) { return log(abs(x) + 0.5); }},
      {"reciprocal(|x| + 1/2)", [](const Tensor& x) { return reciprocal(abs(x) + 0.5); }},
      {"logsigmoid", [](const Tensor& x) { return logsigmoid(x); }},
      {"elu", [](const Tensor& x) { return elu(x); }},
      {"softsign", [](const Tensor& x) { return softsign(x); }},
      {"leaky_relu", [](const Tensor& x) { return leaky_relu(x); }},
      {"hardswish", [](const Tensor& x) { return hardswish(x); }},
  };
  const std::size_t a = floating_value();
  if (a == values_.size()) return false;
  const Unary& chosen = table[below(std::size(table))];
  return add(fmt::format("{} of {}", chosen.name, name(a)),
             [a, f = chosen.compute](const Values& v) { return f(v[a]); });
}

bool RandomProgram::add_with_number() {
  const std::size_t a = floating_value();
  if (a == values_.size()) return false;
  const double c = one_in(3) ? static_cast<double>(1 + below(3)) : number(0.2, 2);
  switch (below(6)) {
    case 0:
      return add(fmt::format("{} * {}", name(a), c), [=](const Values& v) { return v[a] * c; });
    case 1:
      return add(fmt::format("{} + {}", name(a), c), [=](const Values& v) { return v[a] + c; });
    case 2:
      return add(fmt::format("{} - {}", c, name(a)), [=](const Values& v) { return c - v[a]; });
    case 3:
      return add(fmt::format("{} / {}", name(a), c), [=](const Values& v) { return v[a] / c; });
    case 4:
      return add(fmt::format("clamp({}, {}, {})", name(a), -c, c),
                 [=](const Values& v) { return clamp(v[a], -c, c); });
    default:
      return add(fmt::format("maximum({}, {})", name(a), -c),
                 [=](const Values& v) { return maximum(v[a], -c); });
  }
}

bool RandomProgram::add_binary() {
  struct Binary {
    const char* name;
    Tensor (*compute)(const Tensor&, const Tensor&);
  };
  static constexpr Binary table[] = {
      {"add", [](const Tensor& a, const Tensor& b) { return a + b; }},
      {"sub", [](const Tensor& a, const Tensor& b) { return a - b; }},
      {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }},
      {"a / (|b| + 1/2)", [](const Tensor& a, const Tensor& b) { return a / (abs(b) + 0.5); }},
      {"maximum", [](const Tensor& a, const Tensor& b) { return maximum(a, b); }},
      {"minimum", [](const Tensor& a, const Tensor& b) { return minimum(a, b); }},
      {"hypot(a + 1/8, b)", [](const Tensor& a, const Tensor& b) { return hypot(abs(a) + 0.125, b); }},
      {"logaddexp", [](const Tensor& a, const Tensor& b) { return logaddexp(a, b); }},
      {"lerp", [](const Tensor& a, const Tensor& b) { return lerp(a, b, sigmoid(b)); }},
      {"prelu-like", [](const Tensor& a, const Tensor& b) { return relu(a) - b * relu(neg(a)); }},
  };
  const std::size_t a = floating_value();
  if (a == values_.size()) return false;
  const std::size_t b = partner(a);
  const Binary& chosen = table[below(std::size(table))];
  return add(fmt::format("{} of {}, {}", chosen.name, name(a), name(b)),
             [a, b, f = chosen.compute](const Values& v) { return f(v[a], v[b]); });
}

bool RandomProgram::add_random() {
  const std::size_t a = floating_value();
  if (a == values_.size()) return false;
  if (one_in(2))
    return add(fmt::format("dropout({}, 0.3)", name(a)), [=](const Values& v) { return dropout(v[a], 0.3); });
  return add(fmt::format("{} + rand", name(a)), [=](const Values& v) {
    const DeviceScope here(v[a].device());
    return v[a] + rand(v[a].shape(), v[a].dtype());
  });
}

bool RandomProgram::add_choice() {
  const std::size_t a = floating_value();
  if (a == values_.size()) return false;
  const std::size_t b = partner(a);
  std::size_t condition = values_.size();
  for (std::size_t k = 0; k < values_.size(); ++k)
    if (values_[k].dtype() == DType::bool_ && broadcasts(values_[k].shape(), values_[a].shape()) &&
        broadcasts(values_[k].shape(), values_[b].shape()))
      condition = k;
  if (condition == values_.size()) {
    Shape shape = values_[a].shape();
    for (std::int64_t& size : shape)
      if (one_in(3)) size = 1;
    condition = add_input(shape, DType::bool_, 0, 2);
  }
  const std::size_t c = condition;
  if (one_in(3)) {
    const double value = number(-1, 1);
    return add(fmt::format("masked_fill({}, {}, {})", name(a), name(c), value),
               [=](const Values& v) { return masked_fill(v[a], v[c], value); });
  }
  return add(fmt::format("where({}, {}, {})", name(c), name(a), name(b)),
             [=](const Values& v) { return where(v[c], v[a], v[b]); });
}

bool RandomProgram::add_integers() {
  const std::size_t a = any_value(), b = any_value();
  const Tensor &x = values_[a], &y = values_[b];
  if (is_floating(x) || is_floating(y) || !broadcasts(x.shape(), y.shape())) return false;
  switch (below(9)) {
    case 0:
      return add(fmt::format("{} + {}", name(a), name(b)), [=](const Values& v) { return v[a] + v[b]; });
    case 1:
      return add(fmt::format("{} * {}", name(a), name(b)), [=](const Values& v) { return v[a] * v[b]; });
    case 2:
      return add(fmt::format("{} % 7", name(a)), [=](const Values& v) { return v[a] % 7; });
    case 3:
      return add(fmt::format("{} < {}", name(a), name(b)), [=](const Values& v) { return v[a] < v[b]; });
    case 4:
      return add(fmt::format("{} == {}", name(a), name(b)), [=](const Values& v) { return v[a] == v[b]; });
    case 5:
      return add(fmt::format("bitwise_xor({}, {})", name(a), name(b)),
                 [=](const Values& v) { return bitwise_xor(v[a], v[b]); });
    case 6:
      return add(fmt::format("logical_or({}, {})", name(a), name(b)),
                 [=](const Values& v) { return logical_or(v[a], v[b]); });
    case 7:
      return add(fmt::format("{} to f64 / 16", name(a)),
                 [=, p = precision_](const Values& v) { return v[a].to(p) / 16; });
    default:
      return add(fmt::format("floor_divide({}, 3)", name(a)),
                 [=](const Values& v) { return floor_divide(v[a], 3); });
  }
}

bool RandomProgram::add_reduction() {
  const std::size_t a = any_value();
  if (values_[a].numel() == 0) return false;
  const Axes axes = axes_of(a);
  const bool keep = one_in(2);
  const std::string arguments =
      fmt::format("({}, {{{}}}{})", name(a), fmt::join(axes, ", "), keep ? ", keep" : "");
  if (!is_floating(values_[a])) {
    switch (below(4)) {
      case 0:
        return add("sum" + arguments, [=](const Values& v) { return sum(v[a], axes, keep); });
      case 1:
        return add("max" + arguments, [=](const Values& v) { return max(v[a], axes, keep); });
      case 2:
        return add("any" + arguments, [=](const Values& v) { return any(v[a], axes, keep); });
      default:
        return add("mean" + arguments, [=](const Values& v) { return mean(v[a], axes, keep); });
    }
  }
  switch (below(8)) {
    case 0:
      return add("sum" + arguments, [=](const Values& v) { return sum(v[a], axes, keep); });
    case 1:
      return add("mean" + arguments, [=](const Values& v) { return mean(v[a], axes, keep); });
    case 2:
      return add("max" + arguments, [=](const Values& v) { return max(v[a], axes, keep); });
    case 3:
      return add("min" + arguments, [=](const Values& v) { return min(v[a], axes, keep); });
    case 4:
      return add("var" + arguments, [=](const Values& v) { return var(v[a], axes, 0, keep); });
    case 5:
      return add("logsumexp" + arguments, [=](const Values& v) { return logsumexp(v[a], axes, keep); });
    case 6:
      return add("norm of (1/8 + square)" + arguments,
                 [=](const Values& v) { return norm(square(v[a]) + 0.125, 2, axes, keep); });
    default:
      return add("sum of squares" + arguments, [=](const Values& v) { return sum(v[a] * v[a], axes, keep); });
  }
}

bool RandomProgram::add_along_axis() {
  const std::size_t a = floating_value(1);
  if (a == values_.size()) return false;
  const std::int64_t axis = axis_of(a);
  const std::string arguments = fmt::format("({}, {})", name(a), axis);
  switch (below(6)) {
    case 0:
      return add("softmax" + arguments, [=](const Values& v) { return softmax(v[a], axis); });
    case 1:
      return add("log_softmax" + arguments, [=](const Values& v) { return log_softmax(v[a], axis); });
    case 2:
      return add("cumsum" + arguments, [=](const Values& v) { return cumsum(v[a], axis); });
    case 3:
      return add("sort" + arguments, [=](const Values& v) { return sort(v[a], axis); });
    case 4: {
      const std::int64_t k = 1 + below(values_[a].size(axis));
      return add(fmt::format("topk {}{}", k, arguments),
                 [=](const Values& v) { return topk(v[a], k, axis).first; });
    }
    default:
      return add("softmax" + arguments, [=](const Values& v) { return softmax(v[a], axis); });
  }
}

bool RandomProgram::add_shape_change() {
  const std::size_t a = any_value();
  const Shape from = values_[a].shape();
  Shape to;
  switch (below(4)) {
    case 0:
      to = {element_count(from)};
      break;
    case 1: {  // two axes become one
      if (from.size() < 2) return false;
      const auto first = static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size()) - 1));
      for (std::size_t k = 0; k < from.size(); ++k) {
        if (k == first + 1)
          to.back() *= from[k];
        else
          to.push_back(from[k]);
      }
      break;
    }
    case 2: {  // one axis becomes two
      if (from.empty() || from.size() > 5) return false;
      const auto which = static_cast<std::size_t>(axis_of(a));
      for (std::size_t k = 0; k < from.size(); ++k) {
        std::int64_t factor = 1;
        if (k == which)
          for (const std::int64_t candidate : {2, 3, 4, 5, 8, 16})
            if (from[k] % candidate == 0 && from[k] > 0 && one_in(2)) factor = candidate;
        if (k == which) to.push_back(factor);
        to.push_back(from[k] / factor);
      }
      break;
    }
    default: {  // an axis of size 1
      if (from.size() > 5) return false;
      to = from;
      to.insert(static_cast<std::size_t>(below(static_cast<std::int64_t>(from.size()) + 1)), 1);
    }
  }
  return add(fmt::format("reshape({}, {})", name(a), to_string(to)),
             [=](const Values& v) { return reshape(v[a], to); });
}

bool RandomProgram::add_view() {
  const std::size_t a = any_value();
  const Tensor& x = values_[a];
  if (x.ndim() == 0 || x.numel() == 0) return false;
  const std::int64_t axis = axis_of(a), size = x.size(axis);
  switch (below(9)) {
    case 0:
    case 1: {
      Axes order;
      for (std::size_t k = 0; k < x.ndim(); ++k) order.push_back(static_cast<std::int64_t>(k));
      for (std::size_t k = order.size(); k > 1; --k)
        std::swap(order[k - 1], order[static_cast<std::size_t>(below(static_cast<std::int64_t>(k)))]);
      return add(fmt::format("permute({}, {{{}}})", name(a), fmt::join(order, ", ")),
                 [=](const Values& v) { return permute(v[a], order); });
    }
    case 2: {
      std::vector<Slice> slices(x.ndim());
      auto& slice_of_axis = slices[static_cast<std::size_t>(axis)];
      slice_of_axis.start = below(size);
      slice_of_axis.stop = slice_of_axis.start + 1 + below(size - slice_of_axis.start);
      slice_of_axis.step = 1 + below(3);
      return add(fmt::format("slice({}, axis {}: {}:{}:{})", name(a), axis, slice_of_axis.start,
                             slice_of_axis.stop, slice_of_axis.step),
                 [=](const Values& v) { return slice(v[a], slices); });
    }
    case 3:
      return add(fmt::format("flip({}, {})", name(a), axis),
                 [=](const Values& v) { return flip(v[a], {axis}); });
    case 4: {
      const std::int64_t index = below(size);
      return add(fmt::format("select({}, {}, {})", name(a), axis, index),
                 [=](const Values& v) { return select(v[a], axis, index); });
    }
    case 5: {
      Shape to = x.shape();
      for (std::int64_t& extent : to)
        if (extent == 1 && one_in(2)) extent = dimensions_[0];
      if (one_in(2)) to.insert(0, dimensions_[1]);
      if (to.size() > 5 || element_count(to) > most_elements_) return false;
      return add(fmt::format("broadcast_to({}, {})", name(a), to_string(to)),
                 [=](const Values& v) { return broadcast_to(v[a], to); });
    }
    case 6: {
      const std::int64_t shift = below(size);
      return add(fmt::format("roll({}, {}, {})", name(a), shift, axis),
                 [=](const Values& v) { return roll(v[a], shift, axis); });
    }
    case 7: {
      if (x.ndim() < 2) return false;
      const std::int64_t offset = below(5) - 2;
      return add(fmt::format("tril({}, {})", name(a), offset),
                 [=](const Values& v) { return tril(v[a], offset); });
    }
    default: {
      std::vector<std::pair<std::int64_t, std::int64_t>> widths(x.ndim(), {0, 0});
      widths[static_cast<std::size_t>(axis)] = {below(3), below(3)};
      return add(fmt::format("pad({}, axis {})", name(a), axis),
                 [=](const Values& v) { return pad(v[a], widths); });
    }
  }
}

bool RandomProgram::add_joined() {
  const std::size_t a = any_value();
  const Tensor& x = values_[a];
  if (x.ndim() == 0) return false;
  const std::int64_t axis = axis_of(a);
  std::size_t b = a;
  for (std::size_t k = 0; k < values_.size(); ++k)
    if (values_[k].shape() == x.shape() && values_[k].dtype() == x.dtype() && one_in(2)) b = k;
  switch (below(4)) {
    case 0:
      return add(fmt::format("concat({}, {}, {})", name(a), name(b), axis), [=](const Values& v) {
        return concat({v[a], v[b]}, axis);
      });
    case 1:
      if (x.ndim() > 4) return false;
      return add(fmt::format("stack({}, {}, {})", name(a), name(b), axis), [=](const Values& v) {
        return stack({v[a], v[b], v[a]}, axis);
      });
    case 2:
      return add(fmt::format("repeat_interleave({}, 2, {})", name(a), axis),
                 [=](const Values& v) { return repeat_interleave(v[a], 2, axis); });
    default:
      if (x.size(axis) < 2) return false;
      return add(fmt::format("second of chunk({}, 2, {})", name(a), axis),
                 [=](const Values& v) { return chunk(v[a], 2, axis)[1]; });
  }
}

bool RandomProgram::add_indexing() {
  const std::size_t a = floating_value(1);
  if (a == values_.size()) return false;
  const std::int64_t axis = axis_of(a), size = values_[a].size(axis);
  switch (below(4)) {
    case 0: {
      const std::size_t indices = add_input({1 + below(9)}, DType::i64, 0, static_cast<double>(size));
      return add(fmt::format("take({}, {}, {})", name(a), name(indices), axis),
                 [=](const Values& v) { return take(v[a], v[indices], axis); });
    }
    case 1: {
      Shape shape = values_[a].shape();
      shape[static_cast<std::size_t>(axis)] = 1 + below(6);
      const std::size_t indices = add_input(shape, DType::i64, 0, static_cast<double>(size));
      return add(fmt::format("gather({}, {}, {})", name(a), axis, name(indices)),
                 [=](const Values& v) { return gather(v[a], axis, v[indices]); });
    }
    case 2: {
      Shape shape = values_[a].shape();
      shape[static_cast<std::size_t>(axis)] = 1 + below(6);
      const std::size_t indices = add_input(shape, DType::i64, 0, static_cast<double>(size));
      const std::size_t source = add_input(shape, values_[a].dtype(), -1, 1);
      return add(fmt::format("scatter_add({}, {}, {}, {})", name(a), axis, name(indices), name(source)),
                 [=](const Values& v) { return scatter_add(v[a], axis, v[indices], v[source]); });
    }
    default: {
      if (values_[a].ndim() != 2) return false;
      const std::size_t indices =
          add_input({1 + below(4), 1 + below(5)}, DType::i64, 0, static_cast<double>(values_[a].size(0)));
      return add(fmt::format("embedding({}, {})", name(indices), name(a)),
                 [=](const Values& v) { return embedding(v[indices], v[a]); });
    }
  }
}

bool RandomProgram::add_product() {
  const std::size_t a = floating_value(1);
  if (a == values_.size()) return false;
  const std::int64_t inner = values_[a].size(-1);
  const double scale = 1 / std::sqrt(static_cast<double>(inner));
  switch (below(5)) {
    case 0: {
      const std::int64_t outer = dimension();
      if (values_[a].numel() / inner * outer > most_elements_) return false;
      const std::size_t w = add_parameter({outer, inner});
      if (one_in(2)) {
        const std::size_t bias = add_parameter({outer});
        return add(fmt::format("linear({}, {}, {}) * {}", name(a), name(w), name(bias), scale),
                   [=, this](const Values& v) {
                     return as_value(linear(as_operand(v[a]), as_operand(v[w]), as_operand(v[bias]))) * scale;
                   });
      }
      return add(fmt::format("linear({} * {}, {})", name(a), scale, name(w)),
                 [=, this](const Values& v) { return linear(as_operand(v[a] * scale), as_operand(v[w])); });
    }
    case 1: {
      if (values_[a].ndim() < 2) return false;
      return add(fmt::format("matmul({0}, {0} turned) * {1}", name(a), scale),
                 [=](const Values& v) { return matmul(v[a], transpose(v[a], -1, -2)) * scale; });
    }
    case 2: {  // with whatever fits
      for (int tries = 0; tries < 20; ++tries) {
        const std::size_t b = floating_value(2);
        if (b == values_.size() || values_[a].ndim() < 2) return false;
        Shape p = values_[a].shape(), q = values_[b].shape();
        const std::int64_t inner_b = q[q.size() - 2];
        p.resize(p.size() - 2);
        q.resize(q.size() - 2);
        if (inner_b != inner || !broadcasts(p, q)) continue;
        return add(fmt::format("matmul({}, {}) * {}", name(a), name(b), scale), [=, this](const Values& v) {
          return as_value(matmul(as_operand(v[a]), as_operand(v[b]))) * scale;
        });
      }
      return false;
    }
    case 3: {
      const std::int64_t outer = dimension();
      if (values_[a].numel() / inner * outer > most_elements_) return false;
      const std::size_t w = add_parameter({inner, outer});
      return add(fmt::format("gelu(matmul({}, {}) * {})", name(a), name(w), scale),
                 [=, this](const Values& v) {
                   return gelu(as_value(matmul(as_operand(v[a]), as_operand(v[w])) * scale));
                 });
    }
    default: {
      if (values_[a].ndim() < 2) return false;
      const std::size_t w = add_parameter({values_[a].size(-2), 1 + below(20)});
      const double scale_rows = 1 / std::sqrt(static_cast<double>(values_[a].size(-2)));
      return add(
          fmt::format("matmul({} turned, {}) * {}", name(a), name(w), scale_rows),
          [=, this](const Values& v) {
            return as_value(matmul(transpose(as_operand(v[a]), -1, -2), as_operand(v[w])) * scale_rows);
          });
    }
  }
}

bool RandomProgram::add_convolution() {
  const std::size_t a = floating_value(3);
  if (a == values_.size()) return false;
  const Tensor& x = values_[a];
  if (x.ndim() > 4) return false;
  const auto spatial = static_cast<std::int64_t>(x.ndim()) - 2;
  const std::int64_t channels = x.size(1), kernel = 1 + below(3), outputs = 1 + below(9);
  for (std::int64_t k = 2; k < static_cast<std::int64_t>(x.ndim()); ++k)
    if (x.size(k) < kernel) return false;
  Shape weight{outputs, channels};
  for (std::int64_t k = 0; k < spatial; ++k) weight.push_back(kernel);
  const double scale = 1 / std::sqrt(static_cast<double>(channels * kernel * kernel));
  ConvOptions options;
  options.stride = {1 + below(2)};
  options.padding = {below(2)};
  const std::size_t w = add_parameter(weight), bias = add_parameter({outputs});
  return add(fmt::format("conv({} * {}, {}, {}, stride {}, padding {})", name(a), scale, name(w), name(bias),
                         options.stride[0], options.padding[0]),
             [=](const Values& v) {
               return spatial == 1 ? conv1d(v[a] * scale, v[w], v[bias], options)
                                   : conv2d(v[a] * scale, v[w], v[bias], options);
             });
}

bool RandomProgram::add_pooling() {
  const std::size_t a = floating_value(3);
  if (a == values_.size()) return false;
  const Tensor& x = values_[a];
  if (x.ndim() > 4) return false;
  for (std::int64_t k = 2; k < static_cast<std::int64_t>(x.ndim()); ++k)
    if (x.size(k) < 3) return false;
  PoolOptions options;
  options.kernel = {2 + below(2)};
  options.stride = {1 + below(2)};
  const bool largest = one_in(2), flat = x.ndim() == 4;
  return add(fmt::format("{}_pool({}, {}, stride {})", largest ? "max" : "avg", name(a), options.kernel[0],
                         options.stride[0]),
             [=](const Values& v) {
               if (largest) return flat ? max_pool2d(v[a], options) : max_pool1d(v[a], options);
               return flat ? avg_pool2d(v[a], options) : avg_pool1d(v[a], options);
             });
}

bool RandomProgram::add_normalisation() {
  const std::size_t a = floating_value(1);
  if (a == values_.size()) return false;
  const std::int64_t size = values_[a].size(-1);
  // Epsilons are large: rows of equal numbers would become rounding errors.
  switch (below(4)) {
    case 0: {
      const std::size_t w = add_parameter({size}), b = add_parameter({size});
      return add(fmt::format("layer_norm({}, {}, {})", name(a), name(w), name(b)),
                 [=](const Values& v) { return layer_norm(v[a], {size}, v[w], v[b], 0.1); });
    }
    case 1: {
      const std::size_t w = add_parameter({size});
      return add(fmt::format("rms_norm({}, {})", name(a), name(w)),
                 [=](const Values& v) { return rms_norm(v[a], v[w], 0.1); });
    }
    case 2: {
      if (values_[a].ndim() < 2) return false;
      const std::int64_t channels = values_[a].size(1);
      const std::size_t w = add_parameter({channels}), b = add_parameter({channels});
      return add(fmt::format("batch_norm_train({}, {}, {})", name(a), name(w), name(b)),
                 [=](const Values& v) { return batch_norm_train(v[a], v[w], v[b], 0.1).output; });
    }
    default: {  // a norm and the product that reads it
      const std::size_t gain = add_parameter({size}), w = add_parameter({1 + below(40), size});
      const double scale = 1 / std::sqrt(static_cast<double>(size));
      return add(fmt::format("linear(rms_norm({} + {}), {}) * {}", name(a), name(gain), name(w), scale),
                 [=, this](const Values& v) {
                   return linear(as_operand(rms_norm(v[a] + v[gain], v[gain], 0.1)), as_operand(v[w])) *
                          scale;
                 });
    }
  }
}

bool RandomProgram::add_attention() {
  const std::size_t a = floating_value(2);
  if (a == values_.size()) return false;
  const Tensor& x = values_[a];
  const std::int64_t width = x.size(-1), length = x.size(-2);
  if (x.ndim() > 3 || x.dtype() != precision_) return false;
  const std::int64_t batch = x.ndim() == 3 ? x.size(0) : 1;
  const std::int64_t heads = 1 + below(3), head = 2 * (1 + below(8));
  if (batch * heads * length * std::max(head, length) > most_elements_) return false;
  const std::size_t w = add_parameter({3 * heads * head, width});
  const double scale = 1 / std::sqrt(static_cast<double>(width));
  const bool causal = one_in(2), turned = one_in(2);
  return add(fmt::format("attention({}, {}, heads {}, {}{})", name(a), name(w), heads, causal ? "causal" : "",
                         turned ? " rope" : ""),
             [=](const Values& v) {
               const Tensor all = permute(
                   reshape(linear(v[a], v[w]) * scale, {batch, length, 3, heads, head}), {2, 0, 3, 1, 4});
               Tensor q = select(all, 0, 0), k = select(all, 0, 1);
               if (turned) {
                 q = rope(q);
                 k = rope(k);
               }
               AttentionOptions options;
               options.causal = causal;
               const Tensor y = attention(q, k, select(all, 0, 2), options);
               return reshape(permute(y, {0, 2, 1, 3}), {batch, length, heads * head});
             });
}

// A layer of a transformer: what plans rearrange most.
bool RandomProgram::add_block() {
  const std::size_t a = floating_value(2);
  if (a == values_.size()) return false;
  const Tensor& x = values_[a];
  const std::int64_t width = x.size(-1), length = x.size(-2), batch = x.ndim() == 3 ? x.size(0) : 1;
  if (x.ndim() > 3 || x.dtype() != precision_) return false;
  constexpr std::int64_t head_sizes[] = {4, 8, 16, 32, 64};
  const std::int64_t groups = 1 + below(2), shared = 1 + below(2), heads = groups * shared;
  const std::int64_t head = head_sizes[below(5)], hidden = 8 * (1 + below(6));
  if (batch * heads * length * std::max(head, length) > most_elements_) return false;
  const bool one_product = one_in(2), causal = one_in(3), turned = one_in(2);
  const std::size_t gain = add_parameter({width}), second_gain = add_parameter({width});
  const std::size_t qkv = add_parameter({(heads + 2 * groups) * head, width});
  const std::size_t out = add_parameter({width, heads * head});
  const std::size_t gate = add_parameter({hidden, width}), up = add_parameter({hidden, width});
  const std::size_t down = add_parameter({width, hidden});
  const double by_width = 1 / std::sqrt(static_cast<double>(width));
  const double by_head = 1 / std::sqrt(static_cast<double>(heads * head));
  const double by_hidden = 1 / std::sqrt(static_cast<double>(hidden));
  return add(
      fmt::format("block({}, v{}...v{}, heads {} / {} of {}{}{}{})", name(a), gain, down, heads, groups, head,
                  causal ? ", causal" : "", turned ? ", rope" : "", one_product ? ", one product" : ""),
      [=, this](const Values& v) {
        const auto product = [&](const Tensor& t, const Tensor& w) { return linear(t, as_operand(w)); };
        const Tensor start = reshape(v[a], {batch, length, width});
        const Tensor normed = as_operand(rms_norm(start, v[gain], 0.1)) * by_width;
        Tensor q, k, value;
        const std::int64_t queries = heads * head, keys = groups * head;
        if (one_product) {
          const Tensor all = product(normed, v[qkv]);
          q = narrow(all, -1, 0, queries);
          k = narrow(all, -1, queries, keys);
          value = narrow(all, -1, queries + keys, keys);
        } else {
          q = product(normed, narrow(v[qkv], 0, 0, queries));
          k = product(normed, narrow(v[qkv], 0, queries, keys));
          value = product(normed, narrow(v[qkv], 0, queries + keys, keys));
        }
        const auto by_heads = [&](const Tensor& t, std::int64_t count) {
          return transpose(reshape(t, {batch, length, count, head}), 1, 2);
        };
        q = by_heads(q, heads);
        k = by_heads(k, groups);
        if (turned) {
          q = rope(q);
          k = rope(k);
        }
        AttentionOptions options;
        options.causal = causal;
        const Tensor attended = attention(q, k, by_heads(value, groups), options);
        const Tensor joined = reshape(transpose(attended, 1, 2), {batch, length, queries});
        const Tensor middle = start + as_value(product(joined, v[out]) * by_head);
        const Tensor again = as_operand(rms_norm(middle, v[second_gain], 0.1)) * by_width;
        const Tensor inside = silu(product(again, v[gate])) * product(again, v[up]);
        return middle + as_value(product(inside, v[down]) * by_hidden);
      });
}

bool RandomProgram::add_loss() {
  const std::size_t a = floating_value(2);
  if (a == values_.size()) return false;
  if (values_[a].ndim() == 2 && one_in(2)) {
    const std::size_t target =
        add_input({values_[a].size(0)}, DType::i64, 0, static_cast<double>(values_[a].size(1)));
    return add(fmt::format("cross_entropy({}, {})", name(a), name(target)),
               [=](const Values& v) { return cross_entropy(v[a], v[target]); });
  }
  const std::size_t target = add_input(values_[a].shape(), values_[a].dtype(), -1, 1);
  const bool huber = one_in(2);
  return add(
      fmt::format("{}({}, {})", huber ? "huber_loss" : "mse_loss", name(a), name(target)),
      [=](const Values& v) { return huber ? huber_loss(v[a], v[target]) : mse_loss(v[a], v[target]); });
}

bool RandomProgram::add_cast() {
  const std::size_t a = floating_value();
  if (a == values_.size()) return false;
  // To something at least as exact, as otherwise the whole comparison becomes loose; or back.
  const DType wider = one_in(2) ? DType::f64 : DType::f32;
  const DType to = precision_ == DType::f64 || one_in(2) ? precision_ : wider;
  return add(fmt::format("{} to {}", name(a), dtype_name(to)), [=](const Values& v) { return v[a].to(to); });
}

}  // namespace hearth::testing
