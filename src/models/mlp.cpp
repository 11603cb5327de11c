// Multi-layer perceptron.
#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/models.h"

namespace hearth::models {

Mlp::Mlp(const std::vector<std::int64_t>& sizes, double dropout) {
  if (sizes.size() < 2)
    throw ValueError(fmt::format("[Mlp] {} sizes; input and output at least", sizes.size()));
  layers_ = register_module("layers", std::make_shared<nn::ModuleList<nn::Linear>>());
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i)
    layers_->push_back(std::make_shared<nn::Linear>(sizes[i], sizes[i + 1]));
  dropout_ = register_module("dropout", std::make_shared<nn::Dropout>(dropout));
}

Tensor Mlp::forward(const Tensor& x) {
  Tensor h = flatten(x, 1);
  for (std::size_t i = 0; i < layers_->size(); ++i) {
    if (i > 0) h = dropout_->forward(relu(h));
    h = (*layers_)[i].forward(h);
  }
  return h;
}

}  // namespace hearth::models
