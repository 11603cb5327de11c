// Models used in examples, tests and benchmarks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "hearth/nn.h"

namespace hearth::models {

// Linear layers with ReLU between them: sizes {784, 128, 10} has two. Inputs are flattened from axis 1 on.
class Mlp : public nn::Module {
 public:
  explicit Mlp(const std::vector<std::int64_t>& sizes, double dropout = 0.0);
  Tensor forward(const Tensor& x) override;

 private:
  std::shared_ptr<nn::ModuleList<nn::Linear>> layers_;
  std::shared_ptr<nn::Dropout> dropout_;
};

// A small convolutional network for images (N, 1, 28, 28): two 3x3 convolutions with pooling, two linear
// layers.
class MnistCnn : public nn::Module {
 public:
  explicit MnistCnn(std::int64_t classes = 10, double dropout = 0.25);
  Tensor forward(const Tensor& x) override;

 private:
  std::shared_ptr<nn::Conv2d> conv1_, conv2_;
  std::shared_ptr<nn::Linear> fc1_, fc2_;
  std::shared_ptr<nn::Dropout> dropout_;
};

// The residual networks of He et al. 2015 for CIFAR-10: images (N, 3, 32, 32), depth 6n + 2 (20, 32, 44, 56,
// 110). Shortcuts have no parameters (option A): every second pixel, new channels filled with zeros. Weights
// have the names of the widely used PyTorch implementation by Y. Idelbayev: conv1, bn1, layer1.0.conv1, ...,
// linear.
class CifarResNet : public nn::Module {
 public:
  explicit CifarResNet(std::int64_t depth = 20, std::int64_t classes = 10);
  Tensor forward(const Tensor& x) override;

 private:
  std::shared_ptr<nn::Conv2d> conv1_;
  std::shared_ptr<nn::BatchNorm2d> bn1_;
  std::shared_ptr<nn::Sequential> layer1_, layer2_, layer3_;
  std::shared_ptr<nn::Linear> linear_;
};

struct GptOptions {
  std::int64_t vocabulary = 256;
  std::int64_t context = 128;  // longest sequence
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t features = 128;
  double dropout = 0.0;
};
// A decoder-only transformer: learned positions, pre-norm blocks, output weights shared with the token
// embedding. Tokens (N, T) integers -> scores (N, T, vocabulary).
class Gpt : public nn::Module {
 public:
  explicit Gpt(const GptOptions& options = {});
  Tensor forward(const Tensor& tokens) override;
  // Mean cross entropy of the next token; targets (N, T).
  Tensor loss(const Tensor& tokens, const Tensor& targets);

 private:
  GptOptions options_;
  std::shared_ptr<nn::Embedding> token_embedding_, position_embedding_;
  std::shared_ptr<nn::Dropout> dropout_;
  std::shared_ptr<nn::ModuleList<nn::TransformerBlock>> blocks_;
  std::shared_ptr<nn::LayerNorm> norm_;
};

struct LlamaOptions {
  std::int64_t vocabulary = 256;
  std::int64_t context = 128;  // longest sequence
  std::int64_t layers = 4;
  std::int64_t width = 128;
  std::int64_t heads = 4;
  std::int64_t groups = 4;          // of heads that share keys and values
  std::int64_t feed_forward = 384;  // features of the SwiGLU between
  double rope_base = 10000.0;
  double norm_epsilon = 1e-5;
  double dropout = 0.0;  // of what attention and feed-forward add
};
// Throws ValueError for sizes that do not fit together.
void check(const LlamaOptions& options);
// The decoder of the Llama family, with the parameter names and the order of rotary pairs of Hugging Face's
// implementation: "model.layers.0.self_attn.q_proj.weight". The token embedding is also the output layer.
// Tokens (N, T) integers -> scores (N, T, vocabulary). Throws as check() does.
class Llama : public nn::Module {
 public:
  explicit Llama(const LlamaOptions& options = {});
  ~Llama() override;
  Tensor forward(const Tensor& tokens) override;
  // Mean cross entropy of the next token; targets (N, T).
  Tensor loss(const Tensor& tokens, const Tensor& targets);
  const LlamaOptions& options() const { return options_; }
  // Floating point operations of a training step per token of sequences of `length`: 6 per parameter of a
  // product, and those of attention, of which causality leaves half.
  double training_flops(std::int64_t length) const;

 private:
  class Decoder;
  LlamaOptions options_;
  std::shared_ptr<Decoder> model_;
};

}  // namespace hearth::models
