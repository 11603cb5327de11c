// Linear, convolution, embedding, dropout.
#include <array>
#include <cmath>

#include "hearth/error.h"
#include "hearth/grad.h"
#include "hearth/init.h"
#include "hearth/nn.h"

namespace hearth::nn {

namespace {

// PyTorch's default for layers that multiply matrices: weight and bias uniform on +-1 / sqrt(fan in).
Tensor default_weight(const Shape& shape) { return init::kaiming_uniform(shape, {.slope = std::sqrt(5.0)}); }

Tensor default_bias(bool with_bias, std::int64_t size, const Shape& weight_shape) {
  if (!with_bias) return {};
  const double fan = init::fan_size(weight_shape, init::Fan::in);
  const double bound = fan > 0 ? 1.0 / std::sqrt(fan) : 0.0;
  return init::uniform({size}, -bound, bound);
}

void check_positive(const char* layer, const char* what, std::int64_t value) {
  if (value > 0) return;
  throw ValueError(std::string("[") + layer + "] " + what + " must be positive, got " +
                   std::to_string(value));
}

}  // namespace

PReLU::PReLU(std::int64_t count, double initial)
    : weight(register_parameter("weight", init::constant({count}, initial))) {}

Linear::Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias) {
  check_positive("Linear", "in_features", in_features);
  check_positive("Linear", "out_features", out_features);
  const Shape shape{out_features, in_features};
  weight = register_parameter("weight", default_weight(shape));
  bias = register_parameter("bias", default_bias(with_bias, out_features, shape));
}

Tensor Linear::forward(const Tensor& x) {
  return linear(low_precision(x), low_precision(weight), low_precision(bias));
}

template <int axes, bool transposed>
Convolution<axes, transposed>::Convolution(std::int64_t in_channels, std::int64_t out_channels,
                                           std::vector<std::int64_t> kernel, ConvOptions options,
                                           bool with_bias)
    : options_(std::move(options)) {
  constexpr const char* name = transposed ? "ConvTranspose" : "Conv";
  check_positive(name, "in_channels", in_channels);
  check_positive(name, "out_channels", out_channels);
  check_positive(name, "groups", options_.groups);
  if (in_channels % options_.groups != 0 || out_channels % options_.groups != 0) {
    throw ValueError(std::string("[") + name +
                     "] groups must divide the channels: " + std::to_string(in_channels) + " in, " +
                     std::to_string(out_channels) + " out, " + std::to_string(options_.groups) + " groups");
  }
  if (kernel.size() == 1) kernel.assign(axes, kernel[0]);
  if (kernel.size() != axes) {
    throw ValueError(std::string("[") + name + "] the kernel needs 1 or " + std::to_string(axes) +
                     " sizes, got " + std::to_string(kernel.size()));
  }
  Shape shape = transposed ? Shape{in_channels, out_channels / options_.groups}
                           : Shape{out_channels, in_channels / options_.groups};
  for (const std::int64_t size : kernel) {
    check_positive(name, "the kernel size", size);
    shape.push_back(size);
  }
  weight = register_parameter("weight", default_weight(shape));
  bias = register_parameter("bias", default_bias(with_bias, out_channels, shape));
}

template <int axes, bool transposed>
Tensor Convolution<axes, transposed>::forward(const Tensor& x) {
  constexpr std::array plain{conv1d, conv2d, conv3d};
  constexpr std::array upward{conv_transpose1d, conv_transpose2d, conv_transpose3d};
  constexpr auto function = (transposed ? upward : plain)[axes - 1];
  return function(low_precision(x), low_precision(weight), low_precision(bias), options_);
}

template class Convolution<1, false>;
template class Convolution<2, false>;
template class Convolution<3, false>;
template class Convolution<1, true>;
template class Convolution<2, true>;
template class Convolution<3, true>;

Embedding::Embedding(std::int64_t count, std::int64_t features, std::optional<std::int64_t> padding_index)
    : padding_index_(padding_index) {
  check_positive("Embedding", "count", count);
  check_positive("Embedding", "features", features);
  Tensor value = init::normal({count, features});
  if (padding_index_) {
    if (*padding_index_ < -count || *padding_index_ >= count) {
      throw IndexError("[Embedding] padding_index " + std::to_string(*padding_index_) + " is outside of " +
                       std::to_string(count) + " rows");
    }
    if (*padding_index_ < 0) *padding_index_ += count;
    const Tensor row = arange(count).unsqueeze(1);
    value = where(row == *padding_index_, 0.0, value);
  }
  weight = register_parameter("weight", value);
}

Dropout::Dropout(double p) : p_(p) {
  if (!(p >= 0.0 && p < 1.0)) throw ValueError("[Dropout] p must be in [0, 1), got " + std::to_string(p));
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p_, training()); }

template <int axes>
Tensor ChannelDropout<axes>::forward(const Tensor& x) {
  if (x.ndim() != axes + 2) {
    throw ShapeError("[Dropout" + std::to_string(axes) + "d] needs " + std::to_string(axes + 2) +
                     " axes, got " + to_string(x.shape()));
  }
  if (!training() || p() == 0.0) return x;
  Shape shape(x.ndim(), 1);
  shape[0] = x.size(0);
  shape[1] = x.size(1);
  const DeviceScope here(x.device());
  return x * dropout(ones(shape, x.dtype()), p());
}

template class ChannelDropout<1>;
template class ChannelDropout<2>;
template class ChannelDropout<3>;

Tensor AlphaDropout::forward(const Tensor& x) {
  if (!training() || p() == 0.0) return x;
  // Dropped elements become SELU's limit at minus infinity; scale and shift restore mean 0 and variance 1.
  constexpr double limit = -1.7580993408473766;
  const double keep = 1.0 - p();
  const double scale = 1.0 / std::sqrt(keep * (1.0 + p() * limit * limit));
  const double shift = -scale * limit * p();
  const Tensor kept = dropout(ones_like(x), p()) != 0;
  return where(kept, x, limit) * scale + shift;
}

}  // namespace hearth::nn
