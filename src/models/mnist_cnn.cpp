// A small convolutional network for MNIST.
#include "hearth/models.h"

namespace hearth::models {

MnistCnn::MnistCnn(std::int64_t classes, double dropout) {
  const ConvOptions same{.padding = {1}};
  conv1_ = register_module("conv1", std::make_shared<nn::Conv2d>(1, 16, 3, same));
  conv2_ = register_module("conv2", std::make_shared<nn::Conv2d>(16, 32, 3, same));
  fc1_ = register_module("fc1", std::make_shared<nn::Linear>(32 * 7 * 7, 128));
  fc2_ = register_module("fc2", std::make_shared<nn::Linear>(128, classes));
  dropout_ = register_module("dropout", std::make_shared<nn::Dropout>(dropout));
}

Tensor MnistCnn::forward(const Tensor& x) {
  const PoolOptions half{.kernel = {2}};
  // ReLU after pooling gives the same as before it, on a quarter of the elements.
  Tensor h = relu(max_pool2d(conv1_->forward(x), half));
  h = relu(max_pool2d(conv2_->forward(h), half));
  h = dropout_->forward(relu(fc1_->forward(flatten(h, 1))));
  return fc2_->forward(h);
}

}  // namespace hearth::models
