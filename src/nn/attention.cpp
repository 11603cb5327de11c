// Attention layers and the transformer block made of them.
#include <cmath>
#include <limits>

#include "hearth/error.h"
#include "hearth/init.h"
#include "hearth/nn.h"

namespace hearth::nn {

namespace {

// (batch, length, heads * size) -> (batch, heads, length, size)
Tensor split_heads(const Tensor& x, std::int64_t heads) {
  return x.reshape({x.size(0), x.size(1), heads, -1}).transpose(1, 2);
}

// (batch, heads, length, size) -> (batch, length, heads * size)
Tensor merge_heads(const Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

void check_sequence(const char* layer, const Tensor& x) {
  if (x.ndim() != 3) {
    throw ShapeError(std::string("[") + layer + "] needs (batch, length, features), got " +
                     to_string(x.shape()));
  }
}

void check_heads(const char* layer, const char* what, std::int64_t whole, std::int64_t parts) {
  if (whole > 0 && parts > 0 && whole % parts == 0) return;
  throw ValueError(std::string("[") + layer + "] " + what + ": " + std::to_string(whole) + " and " +
                   std::to_string(parts));
}

}  // namespace

MultiheadAttention::MultiheadAttention(std::int64_t features, std::int64_t heads,
                                       const MultiheadAttentionOptions& options)
    : features_(features), heads_(heads), options_(options) {
  check_heads("MultiheadAttention", "heads must divide features", features, heads);
  const std::int64_t key = options_.key_features ? options_.key_features : features;
  const std::int64_t value = options_.value_features ? options_.value_features : features;
  if (key == features && value == features) {
    in_proj_weight = register_parameter("in_proj_weight", init::xavier_uniform({3 * features, features}));
  } else {
    q_proj_weight = register_parameter("q_proj_weight", init::xavier_uniform({features, features}));
    k_proj_weight = register_parameter("k_proj_weight", init::xavier_uniform({features, key}));
    v_proj_weight = register_parameter("v_proj_weight", init::xavier_uniform({features, value}));
  }
  if (options_.bias) in_proj_bias = register_parameter("in_proj_bias", init::zeros({3 * features}));
  if (options_.add_bias_kv) {
    bias_k = register_parameter("bias_k", init::xavier_normal({1, 1, features}));
    bias_v = register_parameter("bias_v", init::xavier_normal({1, 1, features}));
  }
  out_proj = register_module("out_proj", std::make_shared<Linear>(features, features, options_.bias));
  if (options_.bias) out_proj->bias.assign(init::zeros({features}));
}

Tensor MultiheadAttention::project(const Tensor& x, Part part) const {
  check_sequence("MultiheadAttention", x);
  const auto index = static_cast<std::int64_t>(part);
  const auto rows = [&](const Tensor& joined) {
    return joined.defined() ? narrow(joined, 0, index * features_, features_) : Tensor();
  };
  const Tensor separate[] = {q_proj_weight, k_proj_weight, v_proj_weight};
  const Tensor weight = in_proj_weight.defined() ? rows(in_proj_weight) : separate[index];
  const Tensor bias = rows(in_proj_bias);
  return linear(low_precision(x), low_precision(weight), low_precision(bias));
}

// The keys or values with what add_bias_kv and add_zero_attn put at their end.
Tensor MultiheadAttention::extend(const Tensor& x, const Tensor& learned) const {
  std::vector<Tensor> parts{x};
  const Shape one{x.size(0), 1, features_};
  if (learned.defined()) parts.push_back(learned.to(x.dtype()).broadcast_to(one));
  if (options_.add_zero_attn) {
    const DeviceScope here(x.device());
    parts.push_back(zeros(one, x.dtype()));
  }
  return parts.size() == 1 ? x : concat(parts, 1);
}

// What forward tells attention(): the conditions of the mask joined into one, extended by the keys put at the
// end, which are open to all queries.
AttentionOptions MultiheadAttention::options(const AttentionMask& mask, const Tensor& query,
                                             const Tensor& key) const {
  AttentionOptions result;
  result.dropout = training() ? options_.dropout : 0.0;
  const std::int64_t queries = query.size(1), keys = key.size(1);
  const std::int64_t extra = (options_.add_bias_kv ? 1 : 0) + (options_.add_zero_attn ? 1 : 0);
  const bool added = mask.mask.defined() && mask.mask.dtype() != DType::bool_;

  Tensor allowed;
  const auto require = [&](const Tensor& condition) {
    allowed = allowed.defined() ? logical_and(allowed, condition) : condition;
  };
  if (mask.key_mask.defined()) require(mask.key_mask.reshape({key.size(0), 1, 1, keys}));
  if (mask.mask.defined() && !added) require(mask.mask);
  if (mask.causal && extra > 0) {
    const DeviceScope here(query.device());
    require(tril(ones({queries, keys}), keys - queries) != 0);
  } else {
    result.causal = mask.causal;
  }
  if (added && allowed.defined()) {
    result.mask = where(allowed, mask.mask, -std::numeric_limits<double>::infinity());
  } else {
    result.mask = added ? mask.mask : allowed;
  }
  if (result.mask.defined() && extra > 0) {
    Shape shape = result.mask.shape();
    shape.back() = keys;
    std::vector<std::pair<std::int64_t, std::int64_t>> widths(shape.size(), {0, 0});
    widths.back().second = extra;
    result.mask = pad(result.mask.broadcast_to(shape), widths, added ? 0.0 : 1.0);
  }
  return result;
}

Tensor MultiheadAttention::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                   const AttentionMask& mask) {
  const Tensor q = split_heads(project(query, Part::query), heads_);
  const Tensor k = split_heads(extend(project(key, Part::key), bias_k), heads_);
  const Tensor v = split_heads(extend(project(value, Part::value), bias_v), heads_);
  return out_proj->forward(merge_heads(attention(q, k, v, options(mask, query, key))));
}

Tensor MultiheadAttention::weights(const Tensor& query, const Tensor& key, const AttentionMask& mask) {
  const Tensor q = split_heads(project(query, Part::query), heads_);
  const Tensor k = split_heads(extend(project(key, Part::key), bias_k), heads_);
  const AttentionOptions joined = options(mask, query, key);
  const double minus_infinity = -std::numeric_limits<double>::infinity();
  Tensor scores = full_precision(matmul(q, k.transpose(2, 3))) / std::sqrt(static_cast<double>(q.size(3)));
  if (joined.mask.defined()) {
    scores = joined.mask.dtype() == DType::bool_ ? where(joined.mask, scores, minus_infinity)
                                                 : scores + joined.mask;
  }
  if (joined.causal) {
    const DeviceScope here(q.device());
    const Tensor corner = tril(ones({q.size(2), k.size(2)}), k.size(2) - q.size(2)) != 0;
    scores = where(corner, scores, minus_infinity);
  }
  return softmax(scores);
}

GroupedAttention::GroupedAttention(std::int64_t features, std::int64_t heads,
                                   const AttentionLayerOptions& options)
    : heads_(heads), options_(options) {
  if (options_.head_features == 0) check_heads("Attention", "heads must divide features", features, heads);
  if (options_.key_heads == 0) options_.key_heads = heads;
  check_heads("Attention", "key_heads must divide heads", heads, options_.key_heads);
  const std::int64_t size = options_.head_features ? options_.head_features : features / heads;
  const std::int64_t context = options_.context_features ? options_.context_features : features;
  const auto layer = [&](const char* name, std::int64_t in, std::int64_t out) {
    return register_module(name, std::make_shared<Linear>(in, out, options_.bias));
  };
  q_proj = layer("q_proj", features, heads * size);
  k_proj = layer("k_proj", context, options_.key_heads * size);
  v_proj = layer("v_proj", context, options_.key_heads * size);
  out_proj = layer("out_proj", heads * size, features);
}

Tensor GroupedAttention::attend(const Tensor& x, const Tensor& context, const Tensor& mask) {
  check_sequence("Attention", x);
  check_sequence("Attention", context);
  Tensor q = split_heads(q_proj->forward(x), heads_);
  Tensor k = split_heads(k_proj->forward(context), options_.key_heads);
  const Tensor v = split_heads(v_proj->forward(context), options_.key_heads);
  if (options_.rope_base) {
    q = rope(q, *options_.rope_base);
    k = rope(k, *options_.rope_base);
  }
  AttentionOptions attention_options;
  attention_options.causal = options_.causal;
  attention_options.mask = mask;
  attention_options.dropout = training() ? options_.dropout : 0.0;
  return out_proj->forward(merge_heads(attention(q, k, v, attention_options)));
}

SelfAttention::SelfAttention(std::int64_t features, std::int64_t heads, const AttentionLayerOptions& options)
    : GroupedAttention(features, heads, options) {
  if (options.context_features != 0 && options.context_features != features) {
    throw ValueError("[SelfAttention] context_features is for CrossAttention");
  }
}

CrossAttention::CrossAttention(std::int64_t features, std::int64_t heads,
                               const AttentionLayerOptions& options)
    : GroupedAttention(features, heads, options) {
  if (options.rope_base) throw ValueError("[CrossAttention] rope_base is for SelfAttention");
}

FeedForward::FeedForward(std::int64_t features, std::int64_t hidden, Mlp kind, bool with_bias) {
  if (kind == Mlp::swiglu)
    gate = register_module("gate", std::make_shared<Linear>(features, hidden, with_bias));
  up = register_module("up", std::make_shared<Linear>(features, hidden, with_bias));
  down = register_module("down", std::make_shared<Linear>(hidden, features, with_bias));
}

Tensor FeedForward::forward(const Tensor& x) {
  return down->forward(gate ? silu(gate->forward(x)) * up->forward(x) : gelu(up->forward(x)));
}

TransformerBlock::TransformerBlock(std::int64_t features, std::int64_t heads,
                                   const TransformerBlockOptions& options) {
  const auto norm = [&](const char* name) -> std::shared_ptr<Module> {
    if (options.norm == Norm::rms) {
      return register_module(name, std::make_shared<RMSNorm>(features, options.epsilon));
    }
    return register_module(name, std::make_shared<LayerNorm>(features, options.epsilon, true, options.bias));
  };
  attention_norm = norm("attention_norm");
  attention =
      register_module("attention", std::make_shared<SelfAttention>(features, heads, options.attention));
  mlp_norm = norm("mlp_norm");
  const std::int64_t hidden = options.hidden ? options.hidden : 4 * features;
  mlp = register_module("mlp", std::make_shared<FeedForward>(features, hidden, options.mlp, options.bias));
  dropout_ = register_module("dropout", std::make_shared<Dropout>(options.dropout));
}

Tensor TransformerBlock::forward(const Tensor& x, const Tensor& mask) {
  const Tensor y = x + dropout_->forward(attention->forward(attention_norm->forward(x), mask));
  return y + dropout_->forward(mlp->forward(mlp_norm->forward(y)));
}

}  // namespace hearth::nn
