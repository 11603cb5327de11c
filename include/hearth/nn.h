// Layers and losses as modules.
//
// Defaults, initial values and names in state dictionaries are PyTorch's, so its weights load.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "hearth/module.h"
#include "hearth/ops.h"
#include "hearth/precision.h"

namespace hearth::nn {

// A function of one tensor as a module.
class Function : public Module {
 public:
  explicit Function(std::function<Tensor(const Tensor&)> function) : function_(std::move(function)) {}
  Tensor forward(const Tensor& x) override { return function_(x); }

 private:
  std::function<Tensor(const Tensor&)> function_;
};

// ---- activations: the functions of ops.h as modules
template <Tensor (*function)(const Tensor&)>
class Pointwise : public Module {
 public:
  Tensor forward(const Tensor& x) override { return function(x); }
};
using ReLU = Pointwise<relu>;
using ReLU6 = Pointwise<relu6>;
using SiLU = Pointwise<silu>;
using Mish = Pointwise<mish>;
using SELU = Pointwise<selu>;
using Sigmoid = Pointwise<sigmoid>;
using LogSigmoid = Pointwise<logsigmoid>;
using Softplus = Pointwise<softplus>;
using Softsign = Pointwise<softsign>;
using Tanh = Pointwise<tanh>;
using Tanhshrink = Pointwise<tanhshrink>;
using Hardsigmoid = Pointwise<hardsigmoid>;
using Hardswish = Pointwise<hardswish>;

struct GELU : Function {
  explicit GELU(bool tanh_approximation = false) : Function(tanh_approximation ? gelu_tanh : gelu) {}
};
struct LeakyReLU : Function {
  explicit LeakyReLU(double slope = 0.01) : Function([=](const Tensor& x) { return leaky_relu(x, slope); }) {}
};
struct ELU : Function {
  explicit ELU(double alpha = 1.0) : Function([=](const Tensor& x) { return elu(x, alpha); }) {}
};
struct CELU : Function {
  explicit CELU(double alpha = 1.0) : Function([=](const Tensor& x) { return celu(x, alpha); }) {}
};
struct Hardtanh : Function {
  explicit Hardtanh(double low = -1.0, double high = 1.0)
      : Function([=](const Tensor& x) { return hardtanh(x, low, high); }) {}
};
struct Softshrink : Function {
  explicit Softshrink(double lambda = 0.5)
      : Function([=](const Tensor& x) { return softshrink(x, lambda); }) {}
};
struct Hardshrink : Function {
  explicit Hardshrink(double lambda = 0.5)
      : Function([=](const Tensor& x) { return hardshrink(x, lambda); }) {}
};
struct GLU : Function {
  explicit GLU(std::int64_t axis = -1) : Function([=](const Tensor& x) { return glu(x, axis); }) {}
};
// In f32 under an Autocast.
struct Softmax : Function {
  explicit Softmax(std::int64_t axis = -1)
      : Function([=](const Tensor& x) { return softmax(full_precision(x), axis); }) {}
};
struct LogSoftmax : Function {
  explicit LogSoftmax(std::int64_t axis = -1)
      : Function([=](const Tensor& x) { return log_softmax(full_precision(x), axis); }) {}
};
class PReLU : public Module {
 public:
  explicit PReLU(std::int64_t count = 1, double initial = 0.25);  // one slope, or one per channel
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }
  Tensor weight;  // (count)
};

// ---- shape and pooling
struct Identity : Function {
  Identity() : Function([](const Tensor& x) { return x; }) {}
};
struct Flatten : Function {
  explicit Flatten(std::int64_t first = 1, std::int64_t last = -1)
      : Function([=](const Tensor& x) { return flatten(x, first, last); }) {}
};

template <Tensor (*function)(const Tensor&, const PoolOptions&)>
class Pool : public Module {
 public:
  // MaxPool2d({.kernel = {3}, .stride = {2}, .padding = {1}})
  explicit Pool(PoolOptions options) : options_(std::move(options)) {}
  Tensor forward(const Tensor& x) override { return function(x, options_); }

 private:
  PoolOptions options_;
};
using MaxPool1d = Pool<max_pool1d>;
using MaxPool2d = Pool<max_pool2d>;
using MaxPool3d = Pool<max_pool3d>;
using AvgPool1d = Pool<avg_pool1d>;
using AvgPool2d = Pool<avg_pool2d>;
using AvgPool3d = Pool<avg_pool3d>;

// Size is the output size: of the one axis, or one per axis.
template <auto function, typename Size>
class AdaptivePool : public Module {
 public:
  explicit AdaptivePool(Size size) : size_(std::move(size)) {}
  Tensor forward(const Tensor& x) override { return function(x, size_); }

 private:
  Size size_;
};
using AdaptiveAvgPool1d = AdaptivePool<adaptive_avg_pool1d, std::int64_t>;
using AdaptiveAvgPool2d = AdaptivePool<adaptive_avg_pool2d, std::vector<std::int64_t>>;
using AdaptiveAvgPool3d = AdaptivePool<adaptive_avg_pool3d, std::vector<std::int64_t>>;
using AdaptiveMaxPool1d = AdaptivePool<adaptive_max_pool1d, std::int64_t>;
using AdaptiveMaxPool2d = AdaptivePool<adaptive_max_pool2d, std::vector<std::int64_t>>;
// (N, C, H, W) -> (N, C)
struct GlobalAvgPool2d : Function {
  GlobalAvgPool2d() : Function([](const Tensor& x) { return mean(x, {-2, -1}); }) {}
};

// ---- linear, convolution, embedding
class Linear : public Module {
 public:
  Linear(std::int64_t in_features, std::int64_t out_features, bool with_bias = true);
  Tensor forward(const Tensor& x) override;
  Tensor weight;  // (out, in)
  Tensor bias;    // (out) or undefined
};

// Convolution over `axes` spatial axes. `kernel`: one size for all of them, or one each.
template <int axes, bool transposed>
class Convolution : public Module {
 public:
  Convolution(std::int64_t in_channels, std::int64_t out_channels, std::vector<std::int64_t> kernel,
              ConvOptions options = {}, bool with_bias = true);
  Convolution(std::int64_t in_channels, std::int64_t out_channels, std::int64_t kernel,
              ConvOptions options = {}, bool with_bias = true)
      : Convolution(in_channels, out_channels, std::vector<std::int64_t>{kernel}, std::move(options),
                    with_bias) {}
  Tensor forward(const Tensor& x) override;
  Tensor weight;  // (out, in / groups, kernel...); transposed: (in, out / groups, kernel...)
  Tensor bias;    // (out) or undefined

 private:
  ConvOptions options_;
};
using Conv1d = Convolution<1, false>;
using Conv2d = Convolution<2, false>;
using Conv3d = Convolution<3, false>;
using ConvTranspose1d = Convolution<1, true>;
using ConvTranspose2d = Convolution<2, true>;
using ConvTranspose3d = Convolution<3, true>;

class Embedding : public Module {
 public:
  // The row of `padding_index` starts as zeros and gets no gradient.
  Embedding(std::int64_t count, std::int64_t features, std::optional<std::int64_t> padding_index = {});
  Tensor forward(const Tensor& indices) override { return embedding(indices, weight, padding_index_); }
  Tensor weight;  // (count, features)

 private:
  std::optional<std::int64_t> padding_index_;
};

// ---- normalisation; in f32 under an Autocast
struct BatchNormOptions {
  double epsilon = 1e-5;
  // Share of the batch in the running statistics; nullopt: they are the average of all batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;
  bool track_running_stats = true;
};
// A layer that scales and shifts what it has normalised.
class AffineNorm : public Module {
 public:
  Tensor weight, bias;  // of the normalised features or channels; undefined where the layer has none

 protected:
  AffineNorm(const Shape& shape, double epsilon, bool with_weight, bool with_bias);
  double epsilon_;
};

// x (N, C) or (N, C, L) for 1 axis, (N, C, spatial...) for more. Training normalises by the batch and assigns
// the running statistics; evaluation normalises by those.
template <int axes>
class BatchNorm : public AffineNorm {
 public:
  explicit BatchNorm(std::int64_t channels, const BatchNormOptions& options = {});
  Tensor forward(const Tensor& x) override;
  // (channels), undefined unless tracked. The variance divides by count - 1.
  Tensor running_mean, running_var;
  Tensor num_batches_tracked;  // 0-d i64

 private:
  BatchNormOptions options_;
};
using BatchNorm1d = BatchNorm<1>;
using BatchNorm2d = BatchNorm<2>;
using BatchNorm3d = BatchNorm<3>;

// Over the last axes, which have the shape `normalized`.
class LayerNorm : public AffineNorm {
 public:
  explicit LayerNorm(const Shape& normalized, double epsilon = 1e-5, bool affine = true,
                     bool with_bias = true);
  explicit LayerNorm(std::int64_t features, double epsilon = 1e-5, bool affine = true, bool with_bias = true)
      : LayerNorm(Shape{features}, epsilon, affine, with_bias) {}
  Tensor forward(const Tensor& x) override;

 private:
  Shape normalized_;
};

// Over the last axis.
class RMSNorm : public AffineNorm {
 public:
  explicit RMSNorm(std::int64_t features, double epsilon = 1e-5, bool affine = true);
  Tensor forward(const Tensor& x) override;
};

class GroupNorm : public AffineNorm {
 public:
  GroupNorm(std::int64_t groups, std::int64_t channels, double epsilon = 1e-5, bool affine = true);
  Tensor forward(const Tensor& x) override;

 private:
  std::int64_t groups_;
};

class InstanceNorm : public AffineNorm {
 public:
  explicit InstanceNorm(std::int64_t channels, double epsilon = 1e-5, bool affine = false);
  Tensor forward(const Tensor& x) override;
};

// ---- dropout; identity in evaluation. p in [0, 1), else ValueError.
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5);
  Tensor forward(const Tensor& x) override;
  double p() const { return p_; }

 private:
  double p_;
};
// Zeroes whole channels of (N, C, spatial...).
template <int axes>
class ChannelDropout : public Dropout {
 public:
  using Dropout::Dropout;
  Tensor forward(const Tensor& x) override;
};
using Dropout1d = ChannelDropout<1>;
using Dropout2d = ChannelDropout<2>;
using Dropout3d = ChannelDropout<3>;
// Keeps mean and variance of inputs that are normal, as after SELU.
class AlphaDropout : public Dropout {
 public:
  using Dropout::Dropout;
  Tensor forward(const Tensor& x) override;
};

// ---- attention. x is (batch, length, features). In a bool mask true means "may attend"; a floating mask is
// added.
struct MultiheadAttentionOptions {
  double dropout = 0.0;           // of the attention weights
  bool bias = true;               // of the projections
  bool add_bias_kv = false;       // a learned key and value at the end of the sequence
  bool add_zero_attn = false;     // a key and value of zeros at the end of the sequence
  std::int64_t key_features = 0;  // 0: as the query's
  std::int64_t value_features = 0;
};
struct AttentionMask {
  bool causal = false;
  Tensor mask{};      // undefined or broadcast to (batch, heads, queries, keys)
  Tensor key_mask{};  // undefined or bool (batch, keys)
};
// PyTorch's MultiheadAttention with batch_first, weights included.
class MultiheadAttention : public Module {
 public:
  MultiheadAttention(std::int64_t features, std::int64_t heads,
                     const MultiheadAttentionOptions& options = {});
  Tensor forward(const Tensor& x) override { return forward(x, x, x); }
  Tensor forward(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionMask& mask = {});
  // The weights (batch, heads, queries, keys) that forward applies to the values, before dropout.
  Tensor weights(const Tensor& query, const Tensor& key, const AttentionMask& mask = {});

  Tensor in_proj_weight;                               // (3 features, features), where all three sizes agree
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;  // otherwise
  Tensor in_proj_bias;                                 // (3 features)
  Tensor bias_k, bias_v;                               // (1, 1, features)
  std::shared_ptr<Linear> out_proj;

 private:
  enum class Part { query, key, value };
  Tensor project(const Tensor& x, Part part) const;  // gives (batch, length, features)
  Tensor extend(const Tensor& x, const Tensor& learned) const;
  AttentionOptions options(const AttentionMask& mask, const Tensor& query, const Tensor& key) const;

  std::int64_t features_, heads_;
  MultiheadAttentionOptions options_;
};

struct AttentionLayerOptions {
  std::int64_t key_heads = 0;         // heads of keys and values, a divisor of `heads`; 0: as many
  std::int64_t head_features = 0;     // 0: features / heads
  std::int64_t context_features = 0;  // of the context; 0: as x
  bool bias = true;
  bool causal = false;
  std::optional<double> rope_base{};  // rotary positions of queries and keys; self-attention only
  double dropout = 0.0;               // of the attention weights
};
// What self- and cross-attention share: queries from x, keys and values from a context.
class GroupedAttention : public Module {
 public:
  std::shared_ptr<Linear> q_proj, k_proj, v_proj, out_proj;

 protected:
  GroupedAttention(std::int64_t features, std::int64_t heads, const AttentionLayerOptions& options);
  Tensor attend(const Tensor& x, const Tensor& context, const Tensor& mask);

 private:
  std::int64_t heads_;
  AttentionLayerOptions options_;
};
class SelfAttention : public GroupedAttention {
 public:
  SelfAttention(std::int64_t features, std::int64_t heads, const AttentionLayerOptions& options = {});
  Tensor forward(const Tensor& x) override { return attend(x, x, {}); }
  // mask: broadcast to (batch, heads, length, length)
  Tensor forward(const Tensor& x, const Tensor& mask) { return attend(x, x, mask); }
};
class CrossAttention : public GroupedAttention {
 public:
  CrossAttention(std::int64_t features, std::int64_t heads, const AttentionLayerOptions& options = {});
  using Module::forward;
  Tensor forward(const Tensor& x, const Tensor& context, const Tensor& mask = {}) {
    return attend(x, context, mask);
  }
};

enum class Norm { layer, rms };
enum class Mlp { gelu, swiglu };

// gelu: down(gelu(up(x))); swiglu: down(silu(gate(x)) * up(x)).
class FeedForward : public Module {
 public:
  FeedForward(std::int64_t features, std::int64_t hidden, Mlp kind = Mlp::gelu, bool with_bias = true);
  Tensor forward(const Tensor& x) override;
  std::shared_ptr<Linear> gate, up, down;  // gate: swiglu only
};

struct TransformerBlockOptions {
  std::int64_t hidden = 0;  // of the MLP; 0: 4 * features
  Norm norm = Norm::layer;
  double epsilon = 1e-5;
  Mlp mlp = Mlp::gelu;
  double dropout = 0.0;  // after attention and MLP
  AttentionLayerOptions attention{};
  bool bias = true;  // of the MLP and the layer norms; attention has its own
};
// x + attention(norm(x)), then x + mlp(norm(x)).
class TransformerBlock : public Module {
 public:
  TransformerBlock(std::int64_t features, std::int64_t heads, const TransformerBlockOptions& options = {});
  Tensor forward(const Tensor& x) override { return forward(x, Tensor()); }
  Tensor forward(const Tensor& x, const Tensor& mask);
  std::shared_ptr<Module> attention_norm, mlp_norm;
  std::shared_ptr<SelfAttention> attention;
  std::shared_ptr<FeedForward> mlp;

 private:
  std::shared_ptr<Dropout> dropout_;
};

// ---- losses: the functions of ops.h with their options, in f32 under an Autocast. loss(x, target)
template <typename... Inputs>
class Loss : public Module {
 public:
  explicit Loss(std::function<Tensor(const Inputs&...)> function) : function_(std::move(function)) {}
  Tensor operator()(const Inputs&... inputs) const { return function_(full_precision(inputs)...); }

 private:
  std::function<Tensor(const Inputs&...)> function_;
};
using PairLoss = Loss<Tensor, Tensor>;
using TripleLoss = Loss<Tensor, Tensor, Tensor>;

template <Tensor (*function)(const Tensor&, const Tensor&, Reduction)>
struct PlainLoss : PairLoss {
  explicit PlainLoss(Reduction reduction = Reduction::mean)
      : PairLoss([=](const Tensor& x, const Tensor& target) { return function(x, target, reduction); }) {}
};
using MSELoss = PlainLoss<mse_loss>;
using L1Loss = PlainLoss<l1_loss>;
using BCELoss = PlainLoss<bce_loss>;
using BCEWithLogitsLoss = PlainLoss<bce_with_logits_loss>;

template <Tensor (*function)(const Tensor&, const Tensor&, const ClassLossOptions&)>
struct ClassLoss : PairLoss {
  explicit ClassLoss(const ClassLossOptions& options = {})
      : PairLoss([=](const Tensor& x, const Tensor& target) { return function(x, target, options); }) {}
};
using NLLLoss = ClassLoss<nll_loss>;
using CrossEntropyLoss = ClassLoss<cross_entropy>;

struct SmoothL1Loss : PairLoss {
  explicit SmoothL1Loss(Reduction reduction = Reduction::mean, double beta = 1.0)
      : PairLoss([=](const Tensor& x, const Tensor& t) { return smooth_l1_loss(x, t, reduction, beta); }) {}
};
struct HuberLoss : PairLoss {
  explicit HuberLoss(Reduction reduction = Reduction::mean, double delta = 1.0)
      : PairLoss([=](const Tensor& x, const Tensor& t) { return huber_loss(x, t, reduction, delta); }) {}
};
struct KLDivLoss : PairLoss {
  explicit KLDivLoss(Reduction reduction = Reduction::mean, bool log_target = false)
      : PairLoss([=](const Tensor& x, const Tensor& t) { return kl_div_loss(x, t, reduction, log_target); }) {
  }
};
// loss(a, b, target), target 1 (alike) or -1
struct CosineEmbeddingLoss : TripleLoss {
  explicit CosineEmbeddingLoss(double margin = 0.0, Reduction reduction = Reduction::mean)
      : TripleLoss([=](const Tensor& a, const Tensor& b, const Tensor& t) {
          return cosine_embedding_loss(a, b, t, margin, reduction);
        }) {}
};
// loss(anchor, positive, negative)
struct TripletMarginLoss : TripleLoss {
  explicit TripletMarginLoss(double margin = 1.0, double p = 2.0, Reduction reduction = Reduction::mean)
      : TripleLoss([=](const Tensor& anchor, const Tensor& positive, const Tensor& negative) {
          return triplet_margin_loss(anchor, positive, negative, margin, p, reduction);
        }) {}
};

}  // namespace hearth::nn
