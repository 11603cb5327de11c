// Losses, with PyTorch's semantics. They are worked out in wide_dtype and rounded once, to x's dtype.
#include <fmt/format.h>

#include "hearth/error.h"
#include "tensor/composite.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

Tensor wide(const Tensor& x) { return as(x, wide_dtype(x)); }

// The losses of the elements, reduced, in x's dtype.
Tensor reduced(const Tensor& loss, Reduction reduction, const Tensor& x) {
  const Tensor result = reduction == Reduction::none  ? loss
                        : reduction == Reduction::sum ? sum(loss)
                                                      : mean(loss);
  return as(result, floating_dtype(x));
}

// A target of another shape is refused even where it would broadcast: (N,) against (N, 1) is a mistake that
// trains.
void check_target(const Tensor& x, const Tensor& target, const char* name) {
  const Shape &scores = node_of(x, name)->shape, &wanted = node_of(target, name)->shape;
  if (!wanted.empty() && !(scores == wanted))
    throw ShapeError(
        fmt::format("[{}] target {} does not fit x {}", name, to_string(wanted), to_string(scores)));
}

// log(x), not below -100. The slope is 0 where the bound holds.
Tensor bounded_log(const Tensor& x) {
  const Tensor zero = x == 0;
  return where(zero, -100.0, clamp(log(where(zero, 1, x)), -100.0, {}));
}

// Class losses: x (N, C, d...) or (C); the class axis is 1, or 0 without a batch.
std::int64_t class_axis(const Tensor& x) { return x.ndim() == 1 ? 0 : 1; }

void check_class_loss(const Tensor& x, const ClassLossOptions& options, const char* name) {
  check_floating(x, name);
  if (x.ndim() == 0) throw ShapeError(fmt::format("[{}] needs scores (N, C, ...), got ()", name));
  const auto classes = x.size(class_axis(x));
  if (options.weight.defined() && !(options.weight.shape() == Shape{classes}))
    throw ShapeError(fmt::format("[{}] weight {} does not fit {} classes", name,
                                 to_string(options.weight.shape()), classes));
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw ValueError(
        fmt::format("[{}] label_smoothing must lie in [0, 1], got {}", name, options.label_smoothing));
}

// Class indices, with some class in the place of those that do not count.
struct Targets {
  Tensor index, ignored;
};

Targets targets_of(const Tensor& x, const Tensor& target, const ClassLossOptions& options, const char* name) {
  const auto axis = class_axis(x);
  Shape expected = x.shape();
  expected.erase(static_cast<std::size_t>(axis));
  const NodeRef& node = node_of(target, name);
  if (is_floating(node->dtype) || node->dtype == DType::bool_)
    throw DTypeError(
        fmt::format("[{}] class indices must be integers, got {}", name, dtype_name(node->dtype)));
  if (!(node->shape == expected))
    throw ShapeError(fmt::format("[{}] target {} does not fit scores {}", name, to_string(node->shape),
                                 to_string(x.shape())));
  const Tensor index = as(target, DType::i64);
  const Tensor ignored = index == options.ignore_index;
  // Elsewhere a negative index counts from the end; as a class it is a mistake, and is made to fail as one.
  return {where(ignored, 0, where(index < 0, x.size(axis), index)), ignored};
}

// From the losses of all targets, each with its importance (undefined: 1).
Tensor reduced_over_targets(const Tensor& losses, const Tensor& importance, const Tensor& ignored,
                            const ClassLossOptions& options) {
  const Tensor loss = where(ignored, 0, losses);
  if (options.reduction == Reduction::none) return loss;
  if (options.reduction == Reduction::sum) return sum(loss);
  const Tensor counted =
      importance.defined() ? where(ignored, 0, importance) : as(logical_not(ignored), loss.dtype());
  return sum(loss) / sum(counted);
}

// The loss of class indices under log-probabilities, in the dtype of `log_probabilities`.
Tensor index_loss(const Tensor& log_probabilities, const Targets& targets, const ClassLossOptions& options) {
  const auto axis = class_axis(log_probabilities);
  const auto classes = log_probabilities.size(axis);
  const DType dtype = log_probabilities.dtype();
  const Tensor picked =
      reshape(gather(log_probabilities, axis, unsqueeze(targets.index, axis)), targets.index.shape());

  Tensor importance;
  if (options.weight.defined()) importance = as(take(options.weight, targets.index, 0), dtype);
  Tensor loss = options.weight.defined() ? -picked * importance : -picked;
  if (options.label_smoothing > 0) {
    Tensor everywhere = log_probabilities;
    if (options.weight.defined())
      everywhere = everywhere * as(along_axis(options.weight, everywhere, axis), dtype);
    const double share = options.label_smoothing / static_cast<double>(classes);
    loss = loss * (1 - options.label_smoothing) - sum(everywhere, {axis}) * share;
  }
  return reduced_over_targets(loss, importance, targets.ignored, options);
}

// Whether Op::cross_entropy can be used: a GPU, rows of scores, every target of the same importance.
bool fuses_cross_entropy(const Tensor& x, const ClassLossOptions& options) {
  return x.device().kind != DeviceKind::cpu && x.ndim() == 2 && x.size(1) > 0 && x.dtype() != DType::f64 &&
         !options.weight.defined() && options.label_smoothing == 0;
}

// The losses of all targets, in f32.
Tensor fused_cross_entropy(const Tensor& x, const Tensor& index) {
  const Tensor scores = before_widening(x);
  const Tensor packed = make_op(Op::cross_entropy, DType::f32, {2, x.size(0)}, Attributes{}, scores, index);
  return reshape(narrow(packed, 0, 0, 1), {x.size(0)});
}

// The loss of class probabilities `target` of x's shape.
Tensor probability_loss(const Tensor& log_probabilities, const Tensor& target,
                        const ClassLossOptions& options) {
  if (!(target.shape() == log_probabilities.shape()))
    throw ShapeError(
        fmt::format("[cross_entropy] target {} does not fit scores {}; probabilities need the same shape",
                    to_string(target.shape()), to_string(log_probabilities.shape())));
  if (options.ignore_index >= 0)
    throw ValueError("[cross_entropy] ignore_index has no meaning with probabilities as target");
  const auto axis = class_axis(log_probabilities);
  const auto classes = static_cast<double>(log_probabilities.size(axis));
  const DType dtype = log_probabilities.dtype();
  Tensor wanted = as(target, dtype);
  if (options.label_smoothing > 0)
    wanted = wanted * (1 - options.label_smoothing) + options.label_smoothing / classes;
  if (options.weight.defined()) wanted = wanted * as(along_axis(options.weight, wanted, axis), dtype);
  // The mean is over the targets, whatever their weights.
  return reduced(-sum(log_probabilities * wanted, {axis}), options.reduction, log_probabilities);
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  check_target(x, target, "mse_loss");
  return reduced(square(wide(x) - wide(target)), reduction, x);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  check_target(x, target, "l1_loss");
  return reduced(abs(wide(x) - wide(target)), reduction, x);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction, double beta) {
  check_target(x, target, "smooth_l1_loss");
  if (!(beta >= 0)) throw ValueError(fmt::format("[smooth_l1_loss] beta must not be negative, got {}", beta));
  if (beta == 0) return l1_loss(x, target, reduction);
  const Tensor distance = abs(wide(x) - wide(target));
  return reduced(where(distance < beta, square(distance) * (0.5 / beta), distance - 0.5 * beta), reduction,
                 x);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction, double delta) {
  check_target(x, target, "huber_loss");
  if (!(delta > 0)) throw ValueError(fmt::format("[huber_loss] delta must be positive, got {}", delta));
  const Tensor distance = abs(wide(x) - wide(target));
  return reduced(where(distance <= delta, square(distance) * 0.5, (distance - 0.5 * delta) * delta),
                 reduction, x);
}

Tensor bce_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  check_floating(x, "bce_loss");
  check_target(x, target, "bce_loss");
  const Tensor p = wide(x), wanted = wide(target);
  return reduced(-(wanted * bounded_log(p) + (1.0 - wanted) * bounded_log(1.0 - p)), reduction, x);
}

Tensor bce_with_logits_loss(const Tensor& x, const Tensor& target, Reduction reduction) {
  check_floating(x, "bce_with_logits_loss");
  check_target(x, target, "bce_with_logits_loss");
  const Tensor score = wide(x);
  return reduced((1.0 - wide(target)) * score - logsigmoid(score), reduction, x);
}

Tensor nll_loss(const Tensor& x, const Tensor& target, const ClassLossOptions& options) {
  check_class_loss(x, options, "nll_loss");
  if (options.label_smoothing != 0) throw ValueError("[nll_loss] label_smoothing is for cross_entropy");
  return as(index_loss(wide(x), targets_of(x, target, options, "nll_loss"), options), x.dtype());
}

Tensor cross_entropy(const Tensor& x, const Tensor& target, const ClassLossOptions& options) {
  check_class_loss(x, options, "cross_entropy");
  const bool probabilities = is_floating(node_of(target, "cross_entropy")->dtype);
  if (!probabilities && fuses_cross_entropy(x, options)) {
    const Targets targets = targets_of(x, target, options, "cross_entropy");
    return as(reduced_over_targets(fused_cross_entropy(x, targets.index), {}, targets.ignored, options),
              x.dtype());
  }
  const Tensor log_probabilities = log_softmax(wide(x), class_axis(x));
  return as(probabilities
                ? probability_loss(log_probabilities, target, options)
                : index_loss(log_probabilities, targets_of(x, target, options, "cross_entropy"), options),
            x.dtype());
}

Tensor kl_div_loss(const Tensor& x, const Tensor& target, Reduction reduction, bool log_target) {
  broadcast_shapes(node_of(x, "kl_div_loss")->shape, node_of(target, "kl_div_loss")->shape, "kl_div_loss");
  const Tensor score = wide(x), wanted = wide(target);
  if (log_target) return reduced(exp(wanted) * (wanted - score), reduction, x);
  // 0 * log(0) counts as 0.
  const Tensor zero = wanted == 0;
  return reduced(where(zero, 0, wanted * log(where(zero, 1, wanted))) - wanted * score, reduction, x);
}

Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t axis, double epsilon) {
  const Shape shape = broadcast_shapes(node_of(a, "cosine_similarity")->shape,
                                       node_of(b, "cosine_similarity")->shape, "cosine_similarity");
  const auto along = static_cast<std::int64_t>(normalize_axis(axis, shape.size(), "cosine_similarity"));
  const DType dtype = promote(floating_dtype(a), floating_dtype(b));
  const Tensor left = broadcast_to(wide(a), shape), right = broadcast_to(wide(b), shape);
  const auto length = [&](const Tensor& x) { return clamp(norm(x, 2.0, {along}), epsilon, {}); };
  return as(sum(left * right, {along}) / (length(left) * length(right)), dtype);
}

Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin,
                             Reduction reduction) {
  constexpr double epsilon = 1e-12;  // as PyTorch's
  const Shape &left = node_of(a, "cosine_embedding_loss")->shape,
              &right = node_of(b, "cosine_embedding_loss")->shape;
  const Shape& wanted = node_of(target, "cosine_embedding_loss")->shape;
  if (!(left == right) || left.empty() || left.size() > 2 || !(wanted == Shape(left.begin(), left.end() - 1)))
    throw ShapeError(fmt::format("[cosine_embedding_loss] needs (N, D), (N, D) and (N,), got {}, {} and {}",
                                 to_string(left), to_string(right), to_string(wanted)));
  const Tensor x = wide(a), y = wide(b);
  const Tensor lengths = (sum(square(x), {-1}) + epsilon) * (sum(square(y), {-1}) + epsilon);
  const Tensor cosine = sum(x * y, {-1}) * rsqrt(lengths);
  const Tensor loss =
      where(target == 1, 1.0 - cosine, where(target == -1, clamp(cosine - margin, 0.0, {}), 0));
  return reduced(loss, reduction, a);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin, double p, Reduction reduction) {
  constexpr double epsilon = 1e-6;  // as PyTorch's
  const Shape& shape = node_of(anchor, "triplet_margin_loss")->shape;
  const Shape& near = node_of(positive, "triplet_margin_loss")->shape;
  const Shape& far = node_of(negative, "triplet_margin_loss")->shape;
  if (shape.empty() || !(shape == near) || !(shape == far))
    throw ShapeError(
        fmt::format("[triplet_margin_loss] needs three tensors of one shape (N, D), got {}, {} and {}",
                    to_string(shape), to_string(near), to_string(far)));
  const Tensor x = wide(anchor);
  const auto distance = [&](const Tensor& other) { return norm(x - wide(other) + epsilon, p, {-1}); };
  return reduced(clamp(distance(positive) - distance(negative) + margin, 0.0, {}), reduction, anchor);
}

}  // namespace hearth
