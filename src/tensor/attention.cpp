// Attention from plain operations: the reference of any faster kernel, and what there is without one.
#include "tensor/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "hearth/error.h"
#include "tensor/composite.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

struct AttentionSizes {
  std::int64_t batch, heads, groups, queries, keys, features, values;
};

AttentionSizes check(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  for (const Tensor* x : {&q, &k, &v}) check_floating(*x, "attention");
  if (q.ndim() != 4 || k.ndim() != 4 || v.ndim() != 4)
    throw ShapeError(fmt::format("[attention] needs q (B, H, T, D), k and v (B, G, S, D), got {}, {} and {}",
                                 to_string(q.shape()), to_string(k.shape()), to_string(v.shape())));
  const AttentionSizes s{q.size(0), q.size(1), k.size(1), q.size(2), k.size(2), q.size(3), v.size(3)};
  if (k.size(0) != s.batch || k.size(3) != s.features)
    throw ShapeError(
        fmt::format("[attention] k {} does not fit q {}", to_string(k.shape()), to_string(q.shape())));
  if (v.size(0) != s.batch || v.size(1) != s.groups || v.size(2) != s.keys)
    throw ShapeError(
        fmt::format("[attention] v {} does not fit k {}", to_string(v.shape()), to_string(k.shape())));
  if (s.groups == 0 || s.heads % s.groups != 0)
    throw ShapeError(fmt::format("[attention] {} heads do not share {} key heads evenly", s.heads, s.groups));
  if (options.window < 0) throw ValueError(fmt::format("[attention] negative window {}", options.window));
  if (options.mask.defined()) {
    const Shape& mask = options.mask.shape();
    const Shape scores{s.batch, s.heads, s.queries, s.keys};
    bool fits = !mask.empty() && mask.size() <= 4;
    for (std::size_t i = 1; fits && i <= mask.size(); ++i) {
      const auto size = mask[mask.size() - i];
      fits = size == 1 || size == scores[4 - i];
    }
    if (!fits)
      throw ShapeError(
          fmt::format("[attention] mask {} does not broadcast to {}", to_string(mask), to_string(scores)));
    if (options.mask.dtype() != DType::bool_ && !is_floating(options.mask.dtype()))
      throw DTypeError(
          fmt::format("[attention] mask must be bool or floating, got {}", dtype_name(options.mask.dtype())));
  }
  return s;
}

Tensor both(const Tensor& a, const Tensor& b) {
  if (!a.defined()) return b;
  return b.defined() ? logical_and(a, b) : a;
}

}  // namespace

Tensor visible_by_position(const Tensor& q, std::int64_t queries, std::int64_t keys, bool causal,
                           std::int64_t window) {
  const bool bounded_above = (causal || window > 0) && queries > 1;
  const bool bounded_below = window > 0 && window < keys;
  if (!bounded_above && !bounded_below) return {};
  const Tensor key = positions_for(q, keys);
  const Tensor query = reshape(positions_for(q, queries), {-1, 1}) + (keys - queries);
  Tensor visible;
  if (bounded_above) visible = key <= query;
  if (bounded_below) {
    const Tensor near = key > query - window;
    visible = visible.defined() ? logical_and(visible, near) : near;
  }
  return visible;
}

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options) {
  const AttentionSizes s = check(q, k, v, options);
  const DType dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  const Shape result_shape{s.batch, s.heads, s.queries, s.values};
  if (s.keys == 0) {
    const DeviceScope here(q.device());
    return zeros(result_shape, dtype);
  }

  const double scale = options.scale.value_or(1 / std::sqrt(static_cast<double>(s.features)));
  const AttentionAttributes attributes{scale, options.causal, options.window};
  if (!options.mask.defined() && options.dropout == 0 && fuses_attention(q, k, v, attributes))
    return fused_attention(as(q, dtype), as(k, dtype), as(v, dtype), attributes);

  // 1. Scores. The heads that share keys are stacked along the query axis: one product per key head, no
  // copies of k.
  const auto rows = s.heads / s.groups * s.queries;
  const Tensor queries = reshape(as(q, dtype) * scale, {s.batch, s.groups, rows, s.features});
  const Tensor products = matmul(queries, transpose(as(k, dtype), 2, 3));
  const DType wide = wide_dtype(products);
  Tensor scores = as(reshape(products, {s.batch, s.heads, s.queries, s.keys}), wide);

  // 2. Masks. A query with nothing to see is let see everything, and its result is set to zero at the end:
  // its softmax stays finite, and so do the gradients.
  const Tensor& mask = options.mask;
  const bool additive = mask.defined() && mask.dtype() != DType::bool_;
  const double low = -std::numeric_limits<double>::infinity();
  Tensor visible = visible_by_position(q, s.queries, s.keys, options.causal, options.window);
  if (mask.defined() && !additive) visible = both(mask, visible);
  Tensor anything;  // may the query see any key? undefined where sure
  if (mask.defined() || (visible.defined() && s.keys < s.queries))
    anything = any(additive ? both(visible, mask > low) : visible, {-1}, true);
  if (additive) scores = scores + where(anything, as(mask, wide), 0);
  if (visible.defined()) {
    if (anything.defined()) visible = logical_or(visible, logical_not(anything));
    scores = where(visible, scores, low);
  }

  // 3. Weights and their sum of the values.
  Tensor weights = as(softmax(scores, -1), dtype);
  if (options.dropout > 0) weights = dropout(weights, options.dropout);
  const Tensor stacked = reshape(weights, {s.batch, s.groups, rows, s.keys});
  const Tensor result = reshape(matmul(stacked, as(v, dtype)), result_shape);
  return anything.defined() ? where(anything, result, 0) : result;
}

}  // namespace hearth
