// Normalisation and losses.
#include "bindings.h"
#include "hearth/ops.h"

namespace hearth::python {
namespace {

Reduction reduction_of(const std::string& name) {
  if (name == "mean") return Reduction::mean;
  if (name == "sum") return Reduction::sum;
  if (name == "none") return Reduction::none;
  throw ValueError("[loss] reduction is mean, sum or none, not '" + name + "'");
}

}  // namespace

void bind_losses(nb::module_& m) {
  m.def(
      "layer_norm",
      [](const In& x, const AxesIn& normalized, const MaybeIn& weight, const MaybeIn& bias, double eps) {
        return layer_norm(x, normalized, weight, bias, eps);
      },
      "x"_a, "normalized_shape"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5,
      "(x - mean) / sqrt(var + eps) * weight + bias over the last axes.");
  m.def(
      "rms_norm", [](const In& x, const MaybeIn& weight, double eps) { return rms_norm(x, weight, eps); },
      "x"_a, "weight"_a = nb::none(), "eps"_a = 1e-5,
      "x / sqrt(mean(x^2) + eps) * weight over the last axis.");
  m.def(
      "group_norm",
      [](const In& x, std::int64_t groups, const MaybeIn& weight, const MaybeIn& bias, double eps) {
        return group_norm(x, groups, weight, bias, eps);
      },
      "x"_a, "num_groups"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5,
      "Normalised over groups of channels.");
  m.def(
      "instance_norm",
      [](const In& x, const MaybeIn& weight, const MaybeIn& bias, double eps) {
        return instance_norm(x, weight, bias, eps);
      },
      "x"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5, "Normalised over each channel.");
  m.def(
      "batch_norm",
      [](const In& x, const In& mean, const In& variance, const MaybeIn& weight, const MaybeIn& bias,
         bool training, double eps) {
        return training ? batch_norm_train(x, weight, bias, eps).output
                        : batch_norm(x, mean, variance, weight, bias, eps);
      },
      "x"_a, "running_mean"_a, "running_var"_a, "weight"_a = nb::none(), "bias"_a = nb::none(),
      "training"_a = false, "eps"_a = 1e-5,
      "Normalised per channel (axis 1), by given statistics or, in training, by the batch's.");
  m.def(
      "batch_norm_train",
      [](const In& x, const MaybeIn& weight, const MaybeIn& bias, double eps) {
        const BatchNormResult result = batch_norm_train(x, weight, bias, eps);
        return nb::make_tuple(result.output, result.mean, result.variance);
      },
      "x"_a, "weight"_a = nb::none(), "bias"_a = nb::none(), "eps"_a = 1e-5,
      nb::sig("def batch_norm_train(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, "
              "eps: float = 1e-5) -> tuple[Tensor, Tensor, Tensor]"),
      "Output, and mean and variance (by count) of the batch.");

  const auto plain = [&](const char* name, Tensor (*function)(const Tensor&, const Tensor&, Reduction),
                         const char* doc) {
    m.def(
        name,
        [function](const In& x, const In& target, const std::string& reduction) {
          return function(x, target, reduction_of(reduction));
        },
        "input"_a, "target"_a, "reduction"_a = "mean", doc);
  };
  plain("mse_loss", &mse_loss, "Squared difference.");
  plain("l1_loss", &l1_loss, "Absolute difference.");
  plain("bce_loss", &bce_loss, "Binary cross entropy of probabilities.");
  plain("bce_with_logits_loss", &bce_with_logits_loss, "Binary cross entropy of scores.");
  m.def(
      "smooth_l1_loss",
      [](const In& x, const In& target, const std::string& reduction, double beta) {
        return smooth_l1_loss(x, target, reduction_of(reduction), beta);
      },
      "input"_a, "target"_a, "reduction"_a = "mean", "beta"_a = 1.0, "Squared below beta, absolute above.");
  m.def(
      "huber_loss",
      [](const In& x, const In& target, const std::string& reduction, double delta) {
        return huber_loss(x, target, reduction_of(reduction), delta);
      },
      "input"_a, "target"_a, "reduction"_a = "mean", "delta"_a = 1.0, "smooth_l1_loss times delta.");
  m.def(
      "kl_div_loss",
      [](const In& x, const In& target, const std::string& reduction, bool log_target) {
        return kl_div_loss(x, target, reduction_of(reduction), log_target);
      },
      "input"_a, "target"_a, "reduction"_a = "mean", "log_target"_a = false,
      "Kullback-Leibler divergence; input holds log-probabilities.");
  const auto classes = [&](const char* name,
                           Tensor (*function)(const Tensor&, const Tensor&, const ClassLossOptions&),
                           const char* doc) {
    m.def(
        name,
        [function](const In& x, const In& target, const MaybeIn& weight, std::int64_t ignore_index,
                   const std::string& reduction, double label_smoothing) {
          return function(x, target, {reduction_of(reduction), ignore_index, weight, label_smoothing});
        },
        "input"_a, "target"_a, "weight"_a = nb::none(), "ignore_index"_a = -100, "reduction"_a = "mean",
        "label_smoothing"_a = 0.0, doc);
  };
  classes("nll_loss", &nll_loss, "Negative log-likelihood; input (N, C, ...) holds log-probabilities.");
  classes("cross_entropy", &cross_entropy,
          "Cross entropy of scores (N, C, ...) with class indices (N, ...) or probabilities.");
  m.def("cosine_similarity", given(&cosine_similarity), "a"_a, "b"_a, "dim"_a = 1, "eps"_a = 1e-8,
        "Cosine of the angle between vectors along an axis.");
  m.def(
      "cosine_embedding_loss",
      [](const In& a, const In& b, const In& target, double margin, const std::string& reduction) {
        return cosine_embedding_loss(a, b, target, margin, reduction_of(reduction));
      },
      "a"_a, "b"_a, "target"_a, "margin"_a = 0.0, "reduction"_a = "mean", "target is 1 (alike) or -1.");
  m.def(
      "triplet_margin_loss",
      [](const In& anchor, const In& positive, const In& negative, double margin, double p,
         const std::string& reduction) {
        return triplet_margin_loss(anchor, positive, negative, margin, p, reduction_of(reduction));
      },
      "anchor"_a, "positive"_a, "negative"_a, "margin"_a = 1.0, "p"_a = 2.0, "reduction"_a = "mean",
      "max(0, distance to positive - distance to negative + margin).");
}

}  // namespace hearth::python
