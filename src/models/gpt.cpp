// A small GPT-style transformer.
#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/models.h"
#include "hearth/random.h"

namespace hearth::models {

Gpt::Gpt(const GptOptions& options) : options_(options) {
  token_embedding_ = register_module("token_embedding",
                                     std::make_shared<nn::Embedding>(options.vocabulary, options.features));
  position_embedding_ = register_module("position_embedding",
                                        std::make_shared<nn::Embedding>(options.context, options.features));
  dropout_ = register_module("dropout", std::make_shared<nn::Dropout>(options.dropout));
  blocks_ = register_module("blocks", std::make_shared<nn::ModuleList<nn::TransformerBlock>>());
  nn::TransformerBlockOptions block;
  block.dropout = options.dropout;
  block.attention.causal = true;
  block.attention.dropout = options.dropout;
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks_->push_back(std::make_shared<nn::TransformerBlock>(options.features, options.heads, block));
  norm_ = register_module("norm", std::make_shared<nn::LayerNorm>(options.features));
  // GPT-2's initial values: the embedding is also the output layer, where unit deviation would be far too
  // much.
  for (const auto& embedding : {token_embedding_, position_embedding_})
    embedding->weight.assign(normal(embedding->weight.shape(), 0.0, 0.02));
}

Tensor Gpt::forward(const Tensor& tokens) {
  if (tokens.ndim() != 2 || tokens.size(1) > options_.context)
    throw ShapeError(fmt::format("[Gpt] tokens {} are not (batch, length up to {})",
                                 to_string(tokens.shape()), options_.context));
  const Tensor positions = narrow(position_embedding_->weight, 0, 0, tokens.size(1));
  Tensor h = dropout_->forward(token_embedding_->forward(tokens) + positions);
  for (const auto& block : *blocks_) h = block->forward(h);
  return linear(low_precision(norm_->forward(h)), low_precision(token_embedding_->weight));
}

Tensor Gpt::loss(const Tensor& tokens, const Tensor& targets) {
  const Tensor scores = full_precision(forward(tokens));
  return cross_entropy(scores.reshape({-1, options_.vocabulary}), targets.reshape({-1}));
}

}  // namespace hearth::models
