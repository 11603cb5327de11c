// Losses of tokens, and which answers are right.
#include "hrm/losses.h"

#include "hearth/ops.h"

namespace hearth::hrm {

Tensor stablemax_cross_entropy(const Tensor& x, const Tensor& target) {
  const Tensor wide = x.to(DType::f32);
  // The branch that is not taken must stay finite, or its gradient would be 0 * infinity.
  const Tensor weight = where(wide < 0, 1.0 / (1.0 - minimum(wide, 0.0)), wide + 1.0);
  const Tensor wanted = sum(where(one_hot(target, x.size(-1), DType::bool_), weight, 0.0), {-1});
  return log(sum(weight, {-1})) - log(wanted);
}

Verdict judge(const Tensor& scores, const Tensor& labels) {
  const Tensor counted = labels != ignored_label;
  const Tensor count = sum(counted.to(DType::f32), {1});
  const Tensor right = logical_and(counted, argmax(scores, -1) == labels);
  const Tensor right_count = sum(right.to(DType::f32), {1});
  return {right_count / maximum(count, 1.0), right_count == count};
}

Tensor token_losses(const Tensor& scores, const Tensor& labels, TokenLoss kind) {
  const Tensor counted = labels != ignored_label;
  const Tensor target = where(counted, labels, 0);
  Tensor losses;
  if (kind == TokenLoss::stablemax) {
    losses = stablemax_cross_entropy(scores, target);
  } else {
    const std::int64_t classes = scores.size(-1);
    losses = cross_entropy(scores.to(DType::f32).reshape({-1, classes}), target.reshape({-1}),
                           {.reduction = Reduction::none})
                 .reshape(labels.shape());
  }
  const Tensor count = maximum(sum(counted.to(DType::f32), {1}), 1.0);
  return sum(where(counted, losses, 0.0), {1}) / count;
}

}  // namespace hearth::hrm
