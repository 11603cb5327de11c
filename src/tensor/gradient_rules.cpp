// Gradient rules. Those of elementwise operations come from elementwise.inc.
#include "tensor/gradient_rules.h"

#include <fmt/format.h>

#include <limits>
#include <numeric>

#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "tensor/attention.h"
#include "tensor/composite.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

// What a rule sees: the node, its inputs and result as tensors, and the gradient of the result.
struct Context {
  const NodeRef& node;
  const Tensor& dy;
  std::vector<Tensor> gradients;

  Tensor input(std::size_t i) const { return wrap(node->inputs[i]); }
  Tensor output() const { return wrap(node); }
  bool needs(std::size_t i) const { return i < node->inputs.size() && node->inputs[i]->requires_grad; }
  const Shape& input_shape(std::size_t i) const { return node->inputs[i]->shape; }
  template <typename T>
  const T& attribute() const {
    return node->attribute<T>();
  }
};

const Tensor none;

// Of the functions of elementwise.inc that are derivatives themselves.
Tensor slope_of_silu_curvature(const Tensor& x) {
  const Tensor s = sigmoid(x), rest = sigmoid(neg(x)), p = s * rest, q = rest - s;
  return p * (q * (3.0 + x * q) - 2.0 * x * p);
}
Tensor slope_of_gelu_tanh_slope(const Tensor& x) {
  constexpr double c = 0.79788456080286536, cubic = 0.044715;
  const Tensor square = x * x, t = tanh(c * x * (1.0 + cubic * square));
  const Tensor inner = c * (1.0 + 3 * cubic * square);  // the slope of what tanh is taken of
  return (1.0 - t * t) * (inner + 3 * c * cubic * square - x * t * inner * inner);
}
Tensor slope_of_mish_slope(const Tensor& x) {
  const Tensor s = sigmoid(x), t = tanh(softplus(x));
  return s * (1.0 - t * t) * (2.0 + x * (1.0 - s - 2.0 * t * s));
}

void elementwise(Context& c) {
  switch (c.node->op) {
#define HEARTH_UNARY(name, rule, value, gradient, doc)            \
  case Op::name: {                                                \
    [[maybe_unused]] const Tensor x = c.input(0), y = c.output(); \
    [[maybe_unused]] const Tensor& dy = c.dy;                     \
    c.gradients[0] = gradient;                                    \
    return;                                                       \
  }
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc)             \
  case Op::name: {                                                                \
    [[maybe_unused]] const Tensor a = c.input(0), b = c.input(1), y = c.output(); \
    [[maybe_unused]] const Tensor& dy = c.dy;                                     \
    if (c.needs(0)) c.gradients[0] = gradient_a;                                  \
    if (c.needs(1)) c.gradients[1] = gradient_b;                                  \
    return;                                                                       \
  }
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY
    case Op::where: {
      const Tensor condition = c.input(0);
      if (c.needs(1)) c.gradients[1] = where(condition, c.dy, 0);
      if (c.needs(2)) c.gradients[2] = where(condition, 0, c.dy);
      return;
    }
    case Op::cast:
      c.gradients[0] = c.dy;
      return;
    default:
      return;
  }
}

void permutation(Context& c) {
  const Axes& order = c.attribute<PermuteAttributes>().order;
  Axes inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  c.gradients[0] = permute(c.dy, inverse);
}

void slicing(Context& c) {
  c.gradients[0] = make_op(Op::unslice, c.dy.dtype(), c.input_shape(0), c.attribute<SliceAttributes>(), c.dy);
}

void unslicing(Context& c) {
  Tensor cut = make_op(Op::slice, c.dy.dtype(), c.input_shape(0), c.attribute<SliceAttributes>(), c.dy);
  c.gradients[0] = cut;
}

void summing(Context& c) { c.gradients[0] = broadcast_to(c.dy, c.input_shape(0)); }

void product(Context& c) {
  // dy * (product of the others). Where nothing is zero that is dy * y / x; with zeros in the reduced axes it
  // is computed from products on both sides.
  const Axes& axes = c.attribute<ReduceAttributes>().axes;
  Tensor x = c.input(0);
  // Bring the reduced axes together at the end.
  Axes order;
  for (std::size_t i = 0; i < x.ndim(); ++i)
    if (std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) == axes.end())
      order.push_back(static_cast<std::int64_t>(i));
  Shape kept;
  for (auto axis : order) kept.push_back(x.size(axis));
  for (auto axis : axes) order.push_back(axis);
  const Tensor moved = permute(x, order);
  Shape flat = kept;
  flat.push_back(x.numel() == 0 ? 0 : x.numel() / element_count(kept));
  const Tensor rows = reshape(moved, flat);
  const auto last = static_cast<std::int64_t>(kept.size());
  const auto length = flat.back();
  if (length == 0) return;
  std::vector<std::pair<std::int64_t, std::int64_t>> widths(flat.size(), {0, 0});
  // Exclusive products from the left and from the right.
  widths.back() = {1, 0};
  const Tensor left = narrow(cumprod(pad(rows, widths, 1.0), last), last, 0, length);
  const Tensor reversed = flip(rows, {last});
  const Tensor right = flip(narrow(cumprod(pad(reversed, widths, 1.0), last), last, 0, length), {last});
  const Tensor others = reshape(left * right, moved.shape());
  Axes inverse(order.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    inverse[static_cast<std::size_t>(order[i])] = static_cast<std::int64_t>(i);
  c.gradients[0] = c.dy * permute(others, inverse);
}

void extreme(Context& c) {
  // Equal extremes share the gradient.
  const Axes& axes = c.attribute<ReduceAttributes>().axes;
  const Tensor chosen = as(c.input(0) == c.output(), c.dy.dtype());
  c.gradients[0] = c.dy * chosen / sum(chosen, axes, true);
}

void running_sum(Context& c) {
  const auto axis = c.attribute<AxisAttributes>().axis;
  c.gradients[0] = flip(cumsum(flip(c.dy, {axis}), axis), {axis});
}

void running_product(Context& c) {
  const auto axis = c.attribute<AxisAttributes>().axis;
  c.gradients[0] = flip(cumsum(flip(c.dy * c.output(), {axis}), axis), {axis}) / c.input(0);
}

void concatenation(Context& c) {
  const auto axis = c.attribute<AxisAttributes>().axis;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < c.node->inputs.size(); ++i) {
    const auto length = c.input_shape(i)[static_cast<std::size_t>(axis)];
    if (c.needs(i)) c.gradients[i] = narrow(c.dy, axis, start, length);
    start += length;
  }
}

void padding(Context& c) {
  const Shape& before = c.attribute<PadAttributes>().before;
  std::vector<Slice> slices;
  for (std::size_t i = 0; i < before.size(); ++i)
    slices.push_back({before[i], before[i] + c.input_shape(0)[i], 1});
  c.gradients[0] = slice(c.dy, slices);
}

void taking(Context& c) {
  c.gradients[0] =
      make_op(Op::index_add, c.dy.dtype(), c.input_shape(0), c.attribute<AxisAttributes>(), c.input(1), c.dy);
}

void adding_indexed(Context& c) {
  if (c.needs(1)) c.gradients[1] = take(c.dy, c.input(0), c.attribute<AxisAttributes>().axis);
}

void gathering(Context& c) {
  c.gradients[0] = scatter_add(full(c.input_shape(0), 0, c.dy.dtype()), c.attribute<AxisAttributes>().axis,
                               c.input(1), c.dy);
}

void scattering(Context& c) {
  const auto axis = c.attribute<AxisAttributes>().axis;
  const Tensor indices = c.input(1);
  if (c.needs(0)) c.gradients[0] = scatter(c.dy, axis, indices, full(indices.shape(), 0, c.dy.dtype()));
  if (c.needs(2)) c.gradients[2] = gather(c.dy, axis, indices);
}

void scattering_sums(Context& c) {
  c.gradients[0] = c.dy;
  if (c.needs(2)) c.gradients[2] = gather(c.dy, c.attribute<AxisAttributes>().axis, c.input(1));
}

// Whether a value is another one with its matrices transposed.
bool is_transpose(const Node& node) {
  if (node.op != Op::permute) return false;
  Axes axes = node.attribute<PermuteAttributes>().order;
  std::swap(axes[axes.size() - 2], axes[axes.size() - 1]);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i] != static_cast<std::int64_t>(i)) return false;
  return true;
}

// The gradient of a transposed operand, such as the weight of a linear layer, is computed as the transpose it
// will be used as, so that it lies in memory as the operand does.
void product_of_matrices(Context& c) {
  const auto transposed = [](const Tensor& x) { return transpose(x, -2, -1); };
  const Tensor a = c.input(0), b = c.input(1);
  if (c.needs(0))
    c.gradients[0] = is_transpose(*c.node->inputs[0]) ? transposed(matmul(b, transposed(c.dy)))
                                                      : matmul(c.dy, transposed(b));
  if (c.needs(1))
    c.gradients[1] = is_transpose(*c.node->inputs[1]) ? transposed(matmul(transposed(c.dy), a))
                                                      : matmul(transposed(a), c.dy);
}

// conv(x, w), conv_input_grad(dy, w) and conv_weight_grad(x, dy) are each other's gradients.
void convolution(Context& c) {
  const auto& window = c.attribute<WindowAttributes>();
  const Tensor x = c.input(0), w = c.input(1);
  if (c.needs(0)) c.gradients[0] = make_op(Op::conv_input_grad, x.dtype(), x.shape(), window, c.dy, w);
  if (c.needs(1)) c.gradients[1] = make_op(Op::conv_weight_grad, w.dtype(), w.shape(), window, x, c.dy);
}
void convolution_input(Context& c) {
  const auto& window = c.attribute<WindowAttributes>();
  const Tensor g = c.input(0), w = c.input(1);  // g is shaped as a convolution's result
  if (c.needs(0)) c.gradients[0] = make_op(Op::conv, g.dtype(), g.shape(), window, c.dy, w);
  if (c.needs(1)) c.gradients[1] = make_op(Op::conv_weight_grad, w.dtype(), w.shape(), window, c.dy, g);
}
void convolution_weight(Context& c) {
  const auto& window = c.attribute<WindowAttributes>();
  const Tensor x = c.input(0), g = c.input(1);
  if (c.needs(0)) c.gradients[0] = make_op(Op::conv_input_grad, x.dtype(), x.shape(), window, g, c.dy);
  if (c.needs(1)) c.gradients[1] = make_op(Op::conv, g.dtype(), g.shape(), window, x, c.dy);
}

void max_pooling(Context& c) {
  const Tensor x = c.input(0);
  c.gradients[0] = make_op(Op::max_pool_grad, x.dtype(), x.shape(), c.attribute<WindowAttributes>(), x, c.dy);
}
// The windows of a pooling, one behind the other along a new first axis.
Tensor windows(const Tensor& x, const WindowAttributes& window, const Shape& pooled, double beyond) {
  const std::size_t spatial = window.kernel.size(), lead = x.ndim() - spatial;
  std::vector<std::pair<std::int64_t, std::int64_t>> widths(x.ndim(), {0, 0});
  for (std::size_t i = 0; i < spatial; ++i) widths[lead + i] = {window.padding[i], window.padding[i]};
  const Tensor padded = pad(x, widths, beyond);
  std::vector<Tensor> parts;
  for (std::int64_t k = 0; k < element_count(window.kernel); ++k) {
    std::vector<Slice> slices(x.ndim());
    for (std::int64_t i = static_cast<std::int64_t>(spatial) - 1, rest = k; i >= 0; --i) {
      const auto axis = static_cast<std::size_t>(i);
      const std::int64_t start = rest % window.kernel[axis], last = pooled[lead + axis] - 1;
      slices[lead + axis] = {start, start + last * window.stride[axis] + 1, window.stride[axis]};
      rest /= window.kernel[axis];
    }
    parts.push_back(slice(padded, slices));
  }
  return stack(parts, 0);
}
// It takes each gradient to the first largest element of a window; this takes it back.
void max_pooling_gradient(Context& c) {
  if (!c.needs(1)) return;  // by x it is zero
  const auto& window = c.attribute<WindowAttributes>();
  const Shape& pooled = c.input_shape(1);
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  const Tensor places = argmax(windows(c.input(0).detach(), window, pooled, lowest), 0, true);
  c.gradients[1] = squeeze(gather(windows(c.dy, window, pooled, 0), 0, places), {0});
}
void avg_pooling(Context& c) {
  c.gradients[0] =
      make_op(Op::avg_pool_grad, c.dy.dtype(), c.input_shape(0), c.attribute<WindowAttributes>(), c.dy);
}
void avg_pooling_gradient(Context& c) {
  c.gradients[0] =
      make_op(Op::avg_pool, c.dy.dtype(), c.input_shape(0), c.attribute<WindowAttributes>(), c.dy);
}

void soft_maximum(Context& c) {
  c.gradients[0] = make_op(Op::softmax_grad, c.dy.dtype(), c.dy.shape(), Attributes{}, c.output(), c.dy);
}
void log_soft_maximum(Context& c) {
  c.gradients[0] = make_op(Op::log_softmax_grad, c.dy.dtype(), c.dy.shape(), Attributes{}, c.output(), c.dy);
}
// y * (g - sum(g * y)) is bilinear in y and g.
void soft_maximum_gradient(Context& c) {
  const Tensor y = c.input(0), g = c.input(1);
  const Tensor projected = sum(c.dy * y, {-1}, true);
  if (c.needs(0)) c.gradients[0] = c.dy * (g - sum(g * y, {-1}, true)) - g * projected;
  if (c.needs(1)) c.gradients[1] = y * (c.dy - projected);
}
void log_soft_maximum_gradient(Context& c) {
  const Tensor y = c.input(0), g = c.input(1);
  const Tensor p = exp(y);
  if (c.needs(0)) c.gradients[0] = neg(c.dy * p) * sum(g, {-1}, true);
  if (c.needs(1)) c.gradients[1] = c.dy - sum(c.dy * p, {-1}, true);
}

// Everything but the last axis.
Axes leading_axes(const Tensor& x) {
  Axes axes(x.ndim() - 1);
  std::iota(axes.begin(), axes.end(), std::int64_t{0});
  return axes;
}
Tensor sum_leading(const Tensor& x) { return x.ndim() == 1 ? x : sum(x, leading_axes(x)); }

// Of the losses in row 0; row 1 holds the log-sums. Under create_graph it is made of plain operations, which
// have gradients themselves.
void cross_entropy_slopes(Context& c) {
  const Tensor x = c.input(0), classes = c.input(1);
  const Tensor slopes = reshape(narrow(c.dy, 0, 0, 1), {x.size(0)});
  if (!grad_enabled()) {
    c.gradients[0] =
        make_op(Op::cross_entropy_grad, x.dtype(), x.shape(), Attributes{}, x, classes, c.output(), slopes);
    return;
  }
  const Tensor wide = as(x, DType::f32);
  const Tensor right = as(positions_for(x, x.size(1)) == unsqueeze(classes, 1), DType::f32);
  c.gradients[0] = as((softmax(wide, -1) - right) * unsqueeze(slopes, 1), x.dtype());
}

// On a GPU a pass over x and dy gives the gradients by x and by the parameters. It keeps rows in registers.
bool fuses_norm_gradients(const Context& c, const Tensor& x) {
  constexpr std::int64_t longest = 8192;
  return !grad_enabled() && x.device().kind != DeviceKind::cpu && x.dtype() != DType::f64 && x.size(-1) > 0 &&
         x.size(-1) <= longest && element_count(x.shape()) > 0 && c.needs(0) && c.needs(1);
}
void fused_norm_gradients(Context& c, Op op, const Tensor& x) {
  const std::int64_t size = x.size(-1), elements = element_count(x.shape()),
                     parameters = static_cast<std::int64_t>(c.node->inputs.size()) - 1;
  const std::vector<NodeRef> inputs{node_of(x), node_of(before_widening(c.dy)), c.node->inputs[1]};
  const std::int64_t sums = op == Op::layer_norm_grads ? 2 : 1;
  const Tensor flat = make_op(op, x.dtype(), {elements + sums * size}, inputs, c.attribute<NormAttributes>());
  c.gradients[0] = reshape(narrow(flat, 0, 0, elements), x.shape());
  for (std::int64_t i = 0; i < parameters; ++i)
    if (c.needs(static_cast<std::size_t>(i) + 1))
      c.gradients[static_cast<std::size_t>(i) + 1] = narrow(flat, 0, elements + i * size, size);
}

// The gradient of a norm by its input, of plain operations, which have gradients themselves.
Tensor differentiable_norm_gradient(const Context& c, bool centred) {
  const Tensor x = c.input(0);
  const DType wide = promote(x.dtype(), DType::f32);
  const Axes last{-1};
  Tensor scaled = as(c.dy, wide), centre = as(x, wide);
  if (c.node->inputs.size() > 1) scaled = scaled * as(c.input(1), wide);
  if (centred) centre = centre - mean(centre, last, true);
  const Tensor factor = rsqrt(mean(centre * centre, last, true) + c.attribute<NormAttributes>().epsilon);
  const Tensor normed = centre * factor;
  Tensor slope = scaled - normed * mean(scaled * normed, last, true);
  if (centred) slope = slope - mean(scaled, last, true);
  return as(slope * factor, x.dtype());
}

Tensor norm_gradient(const Context& c, Op op) {
  if (grad_enabled()) return differentiable_norm_gradient(c, op == Op::layer_norm_grad);
  const Tensor x = c.input(0);
  std::vector<NodeRef> inputs{node_of(x), node_of(c.dy)};
  if (c.node->inputs.size() > 1) inputs.push_back(c.node->inputs[1]);
  return make_op(op, x.dtype(), x.shape(), inputs, c.attribute<NormAttributes>());
}

void layer_normalisation(Context& c) {
  const auto& attributes = c.attribute<NormAttributes>();
  const Tensor x = c.input(0);
  if (fuses_norm_gradients(c, x)) return fused_norm_gradients(c, Op::layer_norm_grads, x);
  if (c.needs(0)) c.gradients[0] = norm_gradient(c, Op::layer_norm_grad);
  if (c.needs(1))
    c.gradients[1] = sum_leading(c.dy * make_op(Op::layer_norm, x.dtype(), x.shape(), attributes, x));
  if (c.needs(2)) c.gradients[2] = sum_leading(c.dy);
}

void rms_normalisation(Context& c) {
  const auto& attributes = c.attribute<NormAttributes>();
  const Tensor x = c.input(0);
  if (fuses_norm_gradients(c, x)) return fused_norm_gradients(c, Op::rms_norm_grads, x);
  if (c.needs(0)) c.gradients[0] = norm_gradient(c, Op::rms_norm_grad);
  if (c.needs(1))
    c.gradients[1] = sum_leading(c.dy * make_op(Op::rms_norm, x.dtype(), x.shape(), attributes, x));
}

void rotation(Context& c) {
  RopeAttributes attributes = c.attribute<RopeAttributes>();
  attributes.inverse = !attributes.inverse;
  std::vector<NodeRef> inputs = c.node->inputs;
  inputs[0] = node_of(c.dy);
  c.gradients[0] = make_op(Op::rope, c.dy.dtype(), c.dy.shape(), std::move(inputs), attributes);
}

using Rule = void (*)(Context&);

Rule rule_of(Op op) {
  if (is_elementwise(op)) return elementwise;
  switch (op) {
    case Op::reshape:
      return [](Context& c) { c.gradients[0] = reshape(c.dy, c.input_shape(0)); };
    case Op::broadcast:
    case Op::copy:
      return [](Context& c) { c.gradients[0] = c.dy; };
    case Op::permute:
      return permutation;
    case Op::slice:
      return slicing;
    case Op::unslice:
      return unslicing;
    case Op::sum:
      return summing;
    case Op::prod:
      return product;
    case Op::max:
    case Op::min:
      return extreme;
    case Op::cumsum:
      return running_sum;
    case Op::cumprod:
      return running_product;
    case Op::concat:
      return concatenation;
    case Op::pad:
      return padding;
    case Op::take:
      return taking;
    case Op::index_add:
      return adding_indexed;
    case Op::gather:
      return gathering;
    case Op::scatter:
      return scattering;
    case Op::scatter_add:
      return scattering_sums;
    case Op::matmul:
      return product_of_matrices;
    case Op::conv:
      return convolution;
    case Op::conv_input_grad:
      return convolution_input;
    case Op::conv_weight_grad:
      return convolution_weight;
    case Op::max_pool:
      return max_pooling;
    case Op::max_pool_grad:
      return max_pooling_gradient;
    case Op::avg_pool:
      return avg_pooling;
    case Op::avg_pool_grad:
      return avg_pooling_gradient;
    case Op::softmax:
      return soft_maximum;
    case Op::softmax_grad:
      return soft_maximum_gradient;
    case Op::log_softmax:
      return log_soft_maximum;
    case Op::log_softmax_grad:
      return log_soft_maximum_gradient;
    case Op::layer_norm:
      return layer_normalisation;
    case Op::rms_norm:
      return rms_normalisation;
    case Op::rope:
      return rotation;
    case Op::cross_entropy:
      return cross_entropy_slopes;
    case Op::attention:
      return [](Context& c) { c.gradients = fused_attention_gradients(c.node, c.dy); };
    default:
      return nullptr;
  }
}

}  // namespace

std::vector<Tensor> input_gradients(const NodeRef& node, const Tensor& dy) {
  const Rule rule = rule_of(node->op);
  if (!rule) throw ValueError(fmt::format("[backward] {} has no gradient", op_name(node->op)));
  Context context{node, dy, std::vector<Tensor>(node->inputs.size())};
  rule(context);
  for (std::size_t i = 0; i < context.gradients.size(); ++i)
    if (!context.needs(i)) context.gradients[i] = {};
  return std::move(context.gradients);
}

}  // namespace hearth
