// Normalisation layers.
#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/init.h"
#include "hearth/nn.h"

namespace hearth::nn {

AffineNorm::AffineNorm(const Shape& shape, double epsilon, bool with_weight, bool with_bias)
    : epsilon_(epsilon) {
  if (with_weight) weight = register_parameter("weight", init::ones(shape));
  if (with_bias) bias = register_parameter("bias", init::zeros(shape));
}

template <int axes>
BatchNorm<axes>::BatchNorm(std::int64_t channels, const BatchNormOptions& options)
    : AffineNorm({channels}, options.epsilon, options.affine, options.affine), options_(options) {
  if (options_.track_running_stats) {
    running_mean = register_buffer("running_mean", init::zeros({channels}));
    running_var = register_buffer("running_var", init::ones({channels}));
    num_batches_tracked = register_buffer("num_batches_tracked", init::zeros({}, DType::i64));
  }
}

template <int axes>
Tensor BatchNorm<axes>::forward(const Tensor& input) {
  const bool fits = input.ndim() == axes + 2 || (axes == 1 && input.ndim() == 2);
  if (!fits) {
    throw ShapeError("[BatchNorm" + std::to_string(axes) + "d] needs " + (axes == 1 ? "2 or " : "") +
                     std::to_string(axes + 2) + " axes, got " + to_string(input.shape()));
  }
  const Tensor x = full_precision(input);
  if (!training() && options_.track_running_stats) {
    return batch_norm(x, running_mean, running_var, weight, bias, epsilon_);
  }
  const std::int64_t channels = x.size(1);
  const std::int64_t count = channels == 0 ? 0 : x.numel() / channels;
  if (training() && count < 2) {
    throw ShapeError("[BatchNorm] training needs more than one value per channel, got " +
                     to_string(x.shape()));
  }
  const BatchNormResult result = batch_norm_train(x, weight, bias, epsilon_);
  if (training() && options_.track_running_stats) {
    const NoGrad no_grad;
    num_batches_tracked.assign(num_batches_tracked + 1);
    const Tensor share = options_.momentum ? Tensor(*options_.momentum)
                                           : reciprocal(num_batches_tracked.to(running_mean.dtype()));
    const auto follow = [&](Tensor& running, const Tensor& batch) {
      running.assign(lerp(running, batch.detach().to(running.dtype()), share));
    };
    follow(running_mean, result.mean);
    follow(running_var, result.variance * (static_cast<double>(count) / static_cast<double>(count - 1)));
  }
  return result.output;
}

template class BatchNorm<1>;
template class BatchNorm<2>;
template class BatchNorm<3>;

LayerNorm::LayerNorm(const Shape& normalized, double epsilon, bool affine, bool with_bias)
    : AffineNorm(normalized, epsilon, affine, affine && with_bias), normalized_(normalized) {}

Tensor LayerNorm::forward(const Tensor& x) {
  return layer_norm(full_precision(x), normalized_, weight, bias, epsilon_);
}

RMSNorm::RMSNorm(std::int64_t features, double epsilon, bool affine)
    : AffineNorm({features}, epsilon, affine, false) {}

Tensor RMSNorm::forward(const Tensor& x) { return rms_norm(full_precision(x), weight, epsilon_); }

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, double epsilon, bool affine)
    : AffineNorm({channels}, epsilon, affine, affine), groups_(groups) {
  if (groups <= 0 || channels % groups != 0) {
    throw ValueError("[GroupNorm] groups must divide channels: " + std::to_string(groups) + " groups, " +
                     std::to_string(channels) + " channels");
  }
}

Tensor GroupNorm::forward(const Tensor& x) {
  return group_norm(full_precision(x), groups_, weight, bias, epsilon_);
}

InstanceNorm::InstanceNorm(std::int64_t channels, double epsilon, bool affine)
    : AffineNorm({channels}, epsilon, affine, affine) {}

Tensor InstanceNorm::forward(const Tensor& x) {
  return instance_norm(full_precision(x), weight, bias, epsilon_);
}

}  // namespace hearth::nn
