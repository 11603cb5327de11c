// The forward pass, from top to bottom in the order in which data flows.
#include "llm/decoder.h"

#include "hearth/eval.h"
#include "hearth/ops.h"
#include "hearth/quantise.h"
#include "tensor/expert_matmul.h"
#include "tensor/key_value_cache.h"

namespace hearth::llm {
namespace {

// x (n, in) -> (n, out), in f32.
Tensor project(const Tensor& x, const Projection& p) {
  if (p.squares) *p.squares = sum(square(x), {0});
  const Tensor y = p.weight.dtype() == DType::f32 ? linear(x, p.weight) : quantised_matmul(x, p.weight);
  return p.bias.defined() ? y + p.bias : y;
}

Tensor gated(const Tensor& gate, const Tensor& up, Activation activation) {
  constexpr double limit = 7, steepness = 1.702;
  switch (activation) {
    case Activation::silu:
      return silu(gate) * up;
    case Activation::gelu_tanh:
      return gelu_tanh(gate) * up;
    case Activation::clamped:
      break;
  }
  const Tensor below = clamp(gate, std::nullopt, limit);
  return below * sigmoid(below * steepness) * (clamp(up, -limit, limit) + 1.0);
}

Tensor soft_capped(const Tensor& x, double cap) { return cap > 0 ? tanh(x / cap) * cap : x; }

// Turns the pairs of each head (n, heads, size) by its token's position.
Tensor rotate(const Tensor& x, const Tensor& positions, const Rotation& rotation, bool interleaved) {
  const std::int64_t size = x.size(2), turning = 2 * rotation.frequencies.size(0);
  Tensor turned = rope(narrow(x, 2, 0, turning).transpose(0, 1), positions, rotation.frequencies, interleaved)
                      .transpose(0, 1);
  if (rotation.scale != 1) turned = turned * rotation.scale;
  return turning == size ? turned : concat({turned, narrow(x, 2, turning, size - turning)}, 2);
}

struct Heads {
  Tensor q, k, v;
};

Heads project_heads(const Tensor& x, const LayerWeights& w, const Tensor& positions, const ModelConfig& c) {
  const std::int64_t n = x.size(0), queries = c.heads * c.head_size, keys = c.groups * c.head_size;
  Heads heads;
  const bool turns = w.rope.frequencies.defined();
  if (w.qkv.weight.defined()) {
    const Tensor all = project(x, w.qkv);
    const Tensor values = narrow(all, 1, queries + keys, keys).reshape({n, c.groups, c.head_size});
    if (turns && !w.q_norm.defined()) {
      const Tensor both = narrow(all, 1, 0, queries + keys).reshape({n, c.heads + c.groups, c.head_size});
      const Tensor turned = rotate(both, positions, w.rope, c.rope_interleaved);
      return {narrow(turned, 1, 0, c.heads), narrow(turned, 1, c.heads, c.groups), values};
    }
    heads = {narrow(all, 1, 0, queries), narrow(all, 1, queries, keys), values};
  } else {
    heads = {project(x, w.q), project(x, w.k), project(x, w.v)};
  }
  const auto norm = [&] {
    heads.q = rms_norm(heads.q, w.q_norm, c.norm_epsilon);
    heads.k = rms_norm(heads.k, w.k_norm, c.norm_epsilon);
  };
  if (w.q_norm.defined() && c.norms_join_heads) norm();
  heads.q = heads.q.reshape({n, c.heads, c.head_size});
  heads.k = heads.k.reshape({n, c.groups, c.head_size});
  heads.v = heads.v.reshape({n, c.groups, c.head_size});
  if (w.q_norm.defined() && !c.norms_join_heads) norm();
  if (turns) {
    heads.q = rotate(heads.q, positions, w.rope, c.rope_interleaved);
    heads.k = rotate(heads.k, positions, w.rope, c.rope_interleaved);
  }
  return heads;
}

// Attention of many tokens at the end of one sequence, all of whose keys and values are there:
// (n, heads, features) in f32.
Tensor attend_together(const Tensor& q, const Tensor& keys, const Tensor& values, double scale,
                       std::int64_t window) {
  const auto stacked = [](const Tensor& x) { return unsqueeze(x.transpose(0, 1), 0); };
  const Tensor seen = attention(stacked(q.to(keys.dtype())), stacked(keys), stacked(values),
                                {.causal = true, .window = window, .scale = scale});
  return squeeze(seen, {0}).transpose(0, 1).to(DType::f32);
}

void store_scaled(Tensor& bytes, Tensor& scales, const Tensor& slots, const Tensor& x) {
  const ScaledBytes rows = to_scaled_bytes(x);
  bytes.assign(store_rows(bytes, slots, rows.bytes));
  scales.assign(store_rows(scales, slots, rows.scales));
}

Tensor take_scaled(const Tensor& bytes, const Tensor& scales, const Tensor& slots) {
  return from_scaled_bytes({take(bytes, slots, 0), take(scales, slots, 0)});
}

Tensor feed_forward(const Tensor& x, const FeedForward& w, const ModelConfig& c) {
  if (w.gate_up.weight.defined()) {
    const Tensor both = project(x, w.gate_up);
    const std::int64_t size = both.size(1) / 2;
    return project(gated(narrow(both, 1, 0, size), narrow(both, 1, size, size), c.activation), w.down);
  }
  return project(gated(project(x, w.gate), project(x, w.up), c.activation), w.down);
}

// Every token goes through the experts that the router likes best for it.
Tensor mixture_of_experts(const Tensor& x, const Experts& w, const ModelConfig& c) {
  const std::int64_t n = x.size(0), used = c.experts_used;
  // Shares that sum to 1 are those among the chosen ones alone.
  const Tensor liked = project(x, w.router);
  const auto [best, chosen] = topk(c.normalise_experts ? liked : softmax(liked, 1), used, 1);
  const Tensor shares = c.normalise_experts ? softmax(best, 1) : best;
  const Tensor rows = x.reshape({n, 1, c.width});
  const auto product = [&, &chosen = chosen](const Tensor& of, const Tensor& weight, const Tensor& bias) {
    const Tensor y = expert_matmul(of, weight, chosen);
    return bias.defined() ? y + take(bias, chosen, 0) : y;
  };
  Tensor hidden;
  if (w.gate_up.defined()) {
    const Tensor both = product(rows, w.gate_up, w.gate_up_bias);
    const std::int64_t size = both.size(2) / 2;
    hidden = gated(narrow(both, 2, 0, size), narrow(both, 2, size, size), c.activation);
  } else {
    hidden = gated(product(rows, w.gate, w.gate_bias), product(rows, w.up, w.up_bias), c.activation);
  }
  const Tensor results = product(hidden, w.down, w.down_bias);  // (n, used, width)
  const Tensor mixed = sum(results * shares.reshape({n, used, 1}), {1});
  if (!w.shared_gate.weight.defined()) return mixed;
  return mixed + sigmoid(project(x, w.shared_gate)) * feed_forward(x, w.shared, c);
}

}  // namespace

DecoderInput::DecoderInput(const std::vector<Tensor>& in)
    : tokens(select(in[0], 0, 0)),
      sequences(select(in[0], 0, 1)),
      positions(select(in[0], 0, 2)),
      slots(select(in[0], 0, 3)),
      table(in[1]),
      wanted(in[2]) {
  if (in.size() > 3) history = in[3];
}

namespace {

Tensor scaled(const Tensor& x, double by) { return by != 1 ? x * by : x; }

Tensor norm_of(const ModelConfig& c, const Tensor& x, const Tensor& weight) {
  return weight.defined() ? rms_norm(x, weight, c.norm_epsilon) : x;
}

}  // namespace

Tensor embed(const ModelConfig& c, const Weights& weights, const DecoderInput& input) {
  const Tensor x = take(weights.embedding, input.tokens, 0).to(DType::f32);
  return scaled(x, c.embedding_scale);
}

Tensor through_layers(const ModelConfig& c, const Weights& weights, KeyValueCache& cache,
                      const DecoderInput& input, Tensor x, std::int64_t first, std::int64_t end) {
  const auto norm = [&](const Tensor& t, const Tensor& weight) { return norm_of(c, t, weight); };
  for (auto layer = static_cast<std::size_t>(first); layer < static_cast<std::size_t>(end); ++layer) {
    const LayerWeights& w = weights.layers[layer];
    const Heads heads = project_heads(norm(x, w.attention_norm), w, input.positions, c);
    Tensor &keys = cache.keys[layer], &values = cache.values[layer];
    const CachedAttentionOptions options{.scale = c.attention_scale,
                                         .window = c.windows[layer],
                                         .soft_cap = c.attention_soft_cap,
                                         .page = cache.page,
                                         // A token of each sequence, or more of some.
                                         .old_keys = x.size(0) == input.table.size(0),
                                         .sinks = w.sinks};
    Tensor seen;
    if (!cache.key_scales.empty()) {
      Tensor &key_scales = cache.key_scales[layer], &value_scales = cache.value_scales[layer];
      store_scaled(keys, key_scales, input.slots, heads.k);
      store_scaled(values, value_scales, input.slots, heads.v);
      seen = input.history.defined()
                 ? attend_together(heads.q, take_scaled(keys, key_scales, input.history).to(DType::f16),
                                   take_scaled(values, value_scales, input.history).to(DType::f16),
                                   c.attention_scale, c.windows[layer])
                 : cached_attention(heads.q, {keys, key_scales}, {values, value_scales}, input.sequences,
                                    input.positions, input.table, options);
    } else {
      keys.assign(store_rows(keys, input.slots, heads.k));
      values.assign(store_rows(values, input.slots, heads.v));
      seen = input.history.defined()
                 ? attend_together(heads.q, take(keys, input.history, 0), take(values, input.history, 0),
                                   c.attention_scale, c.windows[layer])
                 : cached_attention(heads.q, keys, values, input.sequences, input.positions, input.table,
                                    options);
    }
    const Tensor attended = project(seen.reshape({x.size(0), c.heads * c.head_size}), w.out);
    x = x + scaled(norm(attended, w.post_attention_norm), c.residual_scale);
    const Tensor normed = norm(x, w.feed_forward_norm);
    const Tensor fed = w.experts.down.defined() ? mixture_of_experts(normed, w.experts, c)
                                                : feed_forward(normed, w.feed_forward, c);
    x = x + scaled(norm(fed, w.post_feed_forward_norm), c.residual_scale);
  }
  return x;
}

Tensor features(const ModelConfig& c, const Weights& weights, const DecoderInput& input, const Tensor& x) {
  return norm_of(c, input.wanted.defined() ? take(x, input.wanted, 0) : x, weights.norm);
}

Tensor scores(const ModelConfig& c, const Weights& weights, const Tensor& of) {
  return soft_capped(scaled(project(of, weights.output), c.output_scale), c.output_soft_cap);
}

// Layer by layer, so that little memory is needed.
void move_tokens(const ModelConfig& c, const Weights& weights, KeyValueCache& cache, std::int64_t first,
                 std::int64_t end, const Tensor& from, const Tensor& to, std::int64_t by) {
  const Tensor turns = full({from.size(0)}, static_cast<double>(by), DType::i64);
  for (auto layer = static_cast<std::size_t>(first); layer < static_cast<std::size_t>(end); ++layer) {
    Tensor &keys = cache.keys[layer], &values = cache.values[layer];
    const bool scaled = !cache.key_scales.empty();
    Tensor moved =
        scaled ? take_scaled(keys, cache.key_scales[layer], from) : take(keys, from, 0).to(DType::f32);
    Rotation rotation = weights.layers[layer].rope;
    rotation.scale = 1;  // they have been scaled
    if (rotation.frequencies.defined()) moved = rotate(moved, turns, rotation, c.rope_interleaved);
    values.assign(store_rows(values, to, take(values, from, 0)));
    if (scaled) {
      Tensor& scales = cache.value_scales[layer];
      scales.assign(store_rows(scales, to, take(scales, from, 0)));
      store_scaled(keys, cache.key_scales[layer], to, moved);
      eval({scales, cache.key_scales[layer]});
    } else {
      keys.assign(store_rows(keys, to, moved));
    }
    eval({keys, values});
  }
}

}  // namespace hearth::llm
