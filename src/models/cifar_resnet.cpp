// Residual networks for CIFAR-10.
#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/models.h"

namespace hearth::models {
namespace {

std::shared_ptr<nn::Conv2d> conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride) {
  return std::make_shared<nn::Conv2d>(in, out, 3, ConvOptions{.stride = {stride}, .padding = {1}}, false);
}

class BasicBlock : public nn::Module {
 public:
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride) : stride_(stride), added_(out - in) {
    conv1_ = register_module("conv1", conv3x3(in, out, stride));
    bn1_ = register_module("bn1", std::make_shared<nn::BatchNorm2d>(out));
    conv2_ = register_module("conv2", conv3x3(out, out, 1));
    bn2_ = register_module("bn2", std::make_shared<nn::BatchNorm2d>(out));
  }

  Tensor forward(const Tensor& x) override {
    const Tensor h = relu(bn1_->forward(conv1_->forward(x)));
    return relu(bn2_->forward(conv2_->forward(h)) + shortcut(x));
  }

 private:
  Tensor shortcut(const Tensor& x) const {
    if (stride_ == 1 && added_ == 0) return x;
    const Tensor sampled = x.slice({{}, {}, {.step = stride_}, {.step = stride_}});
    return pad(sampled, {{0, 0}, {added_ / 2, added_ - added_ / 2}, {0, 0}, {0, 0}});
  }

  std::int64_t stride_, added_;  // added_: channels that x does not have
  std::shared_ptr<nn::Conv2d> conv1_, conv2_;
  std::shared_ptr<nn::BatchNorm2d> bn1_, bn2_;
};

std::shared_ptr<nn::Sequential> stage(std::int64_t in, std::int64_t out, std::int64_t stride,
                                      std::int64_t blocks) {
  auto result = std::make_shared<nn::Sequential>();
  for (std::int64_t i = 0; i < blocks; ++i)
    result->add<BasicBlock>(i == 0 ? in : out, out, i == 0 ? stride : 1);
  return result;
}

}  // namespace

CifarResNet::CifarResNet(std::int64_t depth, std::int64_t classes) {
  if (depth < 8 || (depth - 2) % 6 != 0)
    throw ValueError(fmt::format("[CifarResNet] depth {} is not 6n + 2 with n >= 1", depth));
  const std::int64_t blocks = (depth - 2) / 6;
  conv1_ = register_module("conv1", conv3x3(3, 16, 1));
  bn1_ = register_module("bn1", std::make_shared<nn::BatchNorm2d>(16));
  layer1_ = register_module("layer1", stage(16, 16, 1, blocks));
  layer2_ = register_module("layer2", stage(16, 32, 2, blocks));
  layer3_ = register_module("layer3", stage(32, 64, 2, blocks));
  linear_ = register_module("linear", std::make_shared<nn::Linear>(64, classes));
}

Tensor CifarResNet::forward(const Tensor& x) {
  Tensor h = relu(bn1_->forward(conv1_->forward(x)));
  h = layer3_->forward(layer2_->forward(layer1_->forward(h)));
  return linear_->forward(mean(h, {2, 3}));
}

}  // namespace hearth::models
