// The decoder of the Llama family.
#include <fmt/format.h>

#include <cmath>

#include "hearth/error.h"
#include "hearth/init.h"
#include "hearth/models.h"

namespace hearth::models {
namespace {

constexpr double deviation = 0.02;  // of initial weights

}  // namespace

void check(const LlamaOptions& o) {
  for (const auto& [name, value] : {std::pair{"vocabulary", o.vocabulary},
                                    {"context", o.context},
                                    {"layers", o.layers},
                                    {"width", o.width},
                                    {"heads", o.heads},
                                    {"groups", o.groups},
                                    {"feed_forward", o.feed_forward}})
    if (value <= 0) throw ValueError(fmt::format("[Llama] {} must be positive, got {}", name, value));
  if (o.width % o.heads != 0 || o.width / o.heads % 2 != 0)
    throw ValueError(
        fmt::format("[Llama] a width of {} does not give {} heads of an even size", o.width, o.heads));
  if (o.heads % o.groups != 0)
    throw ValueError(fmt::format("[Llama] {} heads do not share {} keys and values", o.heads, o.groups));
  if (!(o.dropout >= 0 && o.dropout < 1))
    throw ValueError(fmt::format("[Llama] dropout is in [0, 1), not {}", o.dropout));
}

namespace {

std::shared_ptr<nn::Linear> projection(std::int64_t in, std::int64_t out, double scale = 1.0) {
  auto layer = std::make_shared<nn::Linear>(in, out, false);
  layer->weight.assign(init::normal({out, in}, 0.0, deviation * scale));
  return layer;
}

// What is added to the residual stream begins small, so that the sum over all layers does not grow.
double residual_scale(const LlamaOptions& o) { return 1 / std::sqrt(2.0 * static_cast<double>(o.layers)); }

// Under an Autocast all of the residual stream is in 16 bits, norms included: they compute in f32 all the
// same, and half the bytes are moved. Of a model as narrow as these, moving them is much of the work.
class Norm : public nn::Module {
 public:
  Norm(std::int64_t width, double epsilon)
      : weight_(register_parameter("weight", init::ones({width}))), epsilon_(epsilon) {}
  Tensor forward(const Tensor& x) override { return rms_norm(x, low_precision(weight_), epsilon_); }

 private:
  Tensor weight_;
  double epsilon_;
};

// What several layers make of the same x, side by side: one product reads x once, there and on the way back.
Tensor side_by_side(const Tensor& x, std::initializer_list<const nn::Linear*> layers) {
  std::vector<Tensor> weights;
  for (const nn::Linear* layer : layers) weights.push_back(low_precision(layer->weight));
  return linear(low_precision(x), concat(weights));
}

class LlamaAttention : public nn::Module {
 public:
  explicit LlamaAttention(const LlamaOptions& o) : options_(o) {
    const std::int64_t keys = o.width / o.heads * o.groups;
    q_proj_ = register_module("q_proj", projection(o.width, o.width));
    k_proj_ = register_module("k_proj", projection(o.width, keys));
    v_proj_ = register_module("v_proj", projection(o.width, keys));
    o_proj_ = register_module("o_proj", projection(o.width, o.width, residual_scale(o)));
  }

  Tensor forward(const Tensor& x) override {
    const DeviceScope here(x.device());
    const std::int64_t heads = options_.heads, groups = options_.groups;
    const Tensor all = side_by_side(x, {q_proj_.get(), k_proj_.get(), v_proj_.get()})
                           .reshape({x.size(0), x.size(1), heads + 2 * groups, -1});
    const auto part = [&](std::int64_t first, std::int64_t count) {
      return narrow(all, 2, first, count).transpose(1, 2);  // (batch, heads, length, size)
    };
    const Tensor positions = arange(x.size(1));
    const Tensor seen = attention(rope(part(0, heads), positions, options_.rope_base),
                                  rope(part(heads, groups), positions, options_.rope_base),
                                  part(heads + groups, groups), {.causal = true, .mask = {}});
    return o_proj_->forward(seen.transpose(1, 2).reshape({x.size(0), x.size(1), options_.width}));
  }

 private:
  LlamaOptions options_;
  std::shared_ptr<nn::Linear> q_proj_, k_proj_, v_proj_, o_proj_;
};

class LlamaFeedForward : public nn::Module {
 public:
  explicit LlamaFeedForward(const LlamaOptions& o) {
    gate_proj_ = register_module("gate_proj", projection(o.width, o.feed_forward));
    up_proj_ = register_module("up_proj", projection(o.width, o.feed_forward));
    down_proj_ = register_module("down_proj", projection(o.feed_forward, o.width, residual_scale(o)));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor both = side_by_side(x, {gate_proj_.get(), up_proj_.get()});
    const std::int64_t half = both.size(-1) / 2;
    return down_proj_->forward(silu(narrow(both, -1, 0, half)) * narrow(both, -1, half, half));
  }

 private:
  std::shared_ptr<nn::Linear> gate_proj_, up_proj_, down_proj_;
};

class LlamaLayer : public nn::Module {
 public:
  explicit LlamaLayer(const LlamaOptions& o) {
    input_layernorm_ = register_module("input_layernorm", std::make_shared<Norm>(o.width, o.norm_epsilon));
    self_attn_ = register_module("self_attn", std::make_shared<LlamaAttention>(o));
    post_attention_layernorm_ =
        register_module("post_attention_layernorm", std::make_shared<Norm>(o.width, o.norm_epsilon));
    mlp_ = register_module("mlp", std::make_shared<LlamaFeedForward>(o));
    dropout_ = register_module("dropout", std::make_shared<nn::Dropout>(o.dropout));
  }
  Tensor forward(const Tensor& x) override {
    const Tensor y = x + dropout_->forward(self_attn_->forward(input_layernorm_->forward(x)));
    return y + dropout_->forward(mlp_->forward(post_attention_layernorm_->forward(y)));
  }

 private:
  std::shared_ptr<Norm> input_layernorm_, post_attention_layernorm_;
  std::shared_ptr<LlamaAttention> self_attn_;
  std::shared_ptr<LlamaFeedForward> mlp_;
  std::shared_ptr<nn::Dropout> dropout_;
};

}  // namespace

// What Hugging Face calls "model": all but the output layer.
class Llama::Decoder : public nn::Module {
 public:
  explicit Decoder(const LlamaOptions& o) {
    embed_tokens = register_module("embed_tokens", std::make_shared<nn::Embedding>(o.vocabulary, o.width));
    embed_tokens->weight.assign(init::normal({o.vocabulary, o.width}, 0.0, deviation));
    dropout_ = register_module("dropout", std::make_shared<nn::Dropout>(o.dropout));
    layers_ = register_module("layers", std::make_shared<nn::ModuleList<LlamaLayer>>());
    for (std::int64_t i = 0; i < o.layers; ++i) layers_->push_back(std::make_shared<LlamaLayer>(o));
    norm_ = register_module("norm", std::make_shared<Norm>(o.width, o.norm_epsilon));
  }
  Tensor forward(const Tensor& tokens) override {
    Tensor x = dropout_->forward(low_precision(embed_tokens->forward(tokens)));
    for (const auto& layer : *layers_) x = layer->forward(x);
    return norm_->forward(x);
  }
  std::shared_ptr<nn::Embedding> embed_tokens;

 private:
  std::shared_ptr<nn::Dropout> dropout_;
  std::shared_ptr<nn::ModuleList<LlamaLayer>> layers_;
  std::shared_ptr<Norm> norm_;
};

Llama::Llama(const LlamaOptions& options) : options_((check(options), options)) {
  model_ = register_module("model", std::make_shared<Decoder>(options_));
}

Llama::~Llama() = default;

Tensor Llama::forward(const Tensor& tokens) {
  if (tokens.ndim() != 2 || tokens.size(1) > options_.context)
    throw ShapeError(fmt::format("[Llama] tokens {} are not (batch, length up to {})",
                                 to_string(tokens.shape()), options_.context));
  return linear(low_precision(model_->forward(tokens)), low_precision(model_->embed_tokens->weight));
}

Tensor Llama::loss(const Tensor& tokens, const Tensor& targets) {
  const Tensor scores = forward(tokens).reshape({-1, options_.vocabulary});
  return cross_entropy(full_precision(scores), targets.reshape({-1}));
}

double Llama::training_flops(std::int64_t length) const {
  const LlamaOptions& o = options_;
  const std::int64_t keys = o.width / o.heads * o.groups;
  const std::int64_t layer = 2 * o.width * o.width + 2 * o.width * keys + 3 * o.width * o.feed_forward;
  const double attention = 6.0 * static_cast<double>(o.layers * o.width * length);
  return 6.0 * static_cast<double>(o.layers * layer + o.vocabulary * o.width) + attention;
}

}  // namespace hearth::models
