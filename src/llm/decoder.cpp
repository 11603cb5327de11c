// The forward pass, from top to bottom in the order in which data flows.
#include "llm/decoder.h"

#include <cmath>

#include "hearth/ops.h"
#include "hearth/quantise.h"
#include "tensor/key_value_cache.h"

namespace hearth::llm {
namespace {

// x (n, in) -> (n, out), in f32. Weights in 16 bits are multiplied with x in their dtype, as matrix units do.
Tensor project(const Tensor& x, const Projection& p) {
  const DType dtype = is_quantised(p.weight.dtype()) ? x.dtype() : p.weight.dtype();
  Tensor y = linear(x.to(dtype), p.weight).to(DType::f32);
  return p.bias.defined() ? y + p.bias : y;
}

// Turns the pairs of each head (n, heads, size) by its token's position.
Tensor rotate(const Tensor& x, const Tensor& positions, const ModelConfig& c) {
  return rope(x.transpose(0, 1), positions, c.rope_base, c.rope_interleaved).transpose(0, 1);
}

struct Heads {
  Tensor q, k, v;
};

Heads project_heads(const Tensor& x, const LayerWeights& w, const Tensor& positions, const ModelConfig& c) {
  const std::int64_t n = x.size(0), queries = c.heads * c.head_size, keys = c.groups * c.head_size;
  Heads heads;
  if (w.qkv.weight.defined()) {
    const Tensor all = project(x, w.qkv);
    heads = {narrow(all, 1, 0, queries), narrow(all, 1, queries, keys), narrow(all, 1, queries + keys, keys)};
  } else {
    heads = {project(x, w.q), project(x, w.k), project(x, w.v)};
  }
  heads.q = heads.q.reshape({n, c.heads, c.head_size});
  heads.k = heads.k.reshape({n, c.groups, c.head_size});
  heads.v = heads.v.reshape({n, c.groups, c.head_size});
  if (w.q_norm.defined()) {
    heads.q = rms_norm(heads.q, w.q_norm, c.norm_epsilon);
    heads.k = rms_norm(heads.k, w.k_norm, c.norm_epsilon);
  }
  heads.q = rotate(heads.q, positions, c);
  heads.k = rotate(heads.k, positions, c);
  return heads;
}

Tensor feed_forward(const Tensor& x, const LayerWeights& w, const ModelConfig& c) {
  if (w.gate_up.weight.defined()) {
    const Tensor both = project(x, w.gate_up);
    return project(silu(narrow(both, 1, 0, c.feed_forward)) * narrow(both, 1, c.feed_forward, c.feed_forward),
                   w.down);
  }
  return project(silu(project(x, w.gate)) * project(x, w.up), w.down);
}

}  // namespace

Tensor decode(const ModelConfig& c, const Weights& weights, KeyValueCache& cache, const DecoderInput& input) {
  const CachedAttentionOptions attention{.scale = 1 / std::sqrt(static_cast<double>(c.head_size)),
                                         .window = c.window,
                                         .soft_cap = 0,
                                         .page = cache.page};
  Tensor x = take(weights.embedding, input.tokens, 0).to(DType::f32);
  for (std::size_t layer = 0; layer < weights.layers.size(); ++layer) {
    const LayerWeights& w = weights.layers[layer];
    Tensor &keys = cache.keys[layer], &values = cache.values[layer];
    const Heads heads = project_heads(rms_norm(x, w.attention_norm, c.norm_epsilon), w, input.positions, c);
    keys.assign(store_rows(keys, input.slots, heads.k));
    values.assign(store_rows(values, input.slots, heads.v));
    const Tensor seen =
        cached_attention(heads.q, keys, values, input.sequences, input.positions, input.table, attention);
    x = x + project(seen.reshape({x.size(0), c.heads * c.head_size}), w.out);
    x = x + feed_forward(rms_norm(x, w.feed_forward_norm, c.norm_epsilon), w, c);
  }
  const Tensor last = rms_norm(take(x, input.wanted, 0), weights.norm, c.norm_epsilon);
  return project(last, weights.output);
}

}  // namespace hearth::llm
