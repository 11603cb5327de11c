// Rows put in place, and attention over pages.
#include "tensor/key_value_cache.h"

#include <fmt/format.h>

#include "hearth/error.h"
#include "hearth/ops.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

void check_indices(const Tensor& indices, std::size_t axes, const char* what, const char* name) {
  const NodeRef& node = node_of(indices, name);
  if (node->dtype != DType::i64)
    throw DTypeError(fmt::format("[{}] {} must be i64, got {}", name, what, dtype_name(node->dtype)));
  if (node->shape.size() != axes)
    throw ShapeError(
        fmt::format("[{}] {} must have {} axes, got {}", name, what, axes, to_string(node->shape)));
}

}  // namespace

Tensor store_rows(const Tensor& x, const Tensor& indices, const Tensor& values) {
  const NodeRef &target = node_of(x, "store_rows"), &rows = node_of(values, "store_rows");
  check_operands("store_rows", {&x, &values});
  check_indices(indices, 1, "indices", "store_rows");
  Shape expected = target->shape;
  if (!expected.empty()) expected[0] = indices.size(0);
  if (expected.empty() || !(rows->shape == expected))
    throw ShapeError(fmt::format("[store_rows] values {} do not fit {} rows of {}", to_string(rows->shape),
                                 indices.size(0), to_string(target->shape)));
  // What a decoder computes, f32, becomes what its cache has on the way.
  const bool converted =
      rows->dtype == DType::f32 && (target->dtype == DType::f16 || target->dtype == DType::bf16);
  return make_op(Op::store_rows, target->dtype, target->shape,
                 {target, node_of(indices), converted ? rows : node_of(as(values, target->dtype))});
}

namespace {

constexpr const char* attention_name = "cached_attention";

// Both kinds of attention: shapes, places, and the node. `scales` are further inputs, and sinks the last.
Tensor make_cached_attention(const Tensor& q, const Tensor& keys, const Tensor& values,
                             const Tensor& sequences, const Tensor& positions, const Tensor& table,
                             const CachedAttentionOptions& options,
                             std::initializer_list<const Tensor*> scales) {
  constexpr const char* name = attention_name;
  const NodeRef &query = node_of(q, name), &key = node_of(keys, name), &value = node_of(values, name);
  if (query->shape.size() != 3 || key->shape.size() != 3 || !(key->shape == value->shape) ||
      query->shape[2] != key->shape[2] || key->shape[1] == 0 || query->shape[1] % key->shape[1] != 0)
    throw ShapeError(fmt::format("[{}] q {} does not fit keys {} and values {}", name,
                                 to_string(query->shape), to_string(key->shape), to_string(value->shape)));
  check_indices(sequences, 1, "sequences", name);
  check_indices(positions, 1, "positions", name);
  check_indices(table, 2, "table", name);
  if (sequences.size(0) != query->shape[0] || positions.size(0) != query->shape[0])
    throw ShapeError(fmt::format("[{}] {} sequences and {} positions for {} queries", name, sequences.size(0),
                                 positions.size(0), query->shape[0]));
  if (options.page <= 0 || key->shape[0] % options.page != 0)
    throw ValueError(
        fmt::format("[{}] {} slots are not whole pages of {}", name, key->shape[0], options.page));
  std::vector<NodeRef> inputs{query, key, value, node_of(sequences), node_of(positions), node_of(table)};
  for (const Tensor* scale : scales) inputs.push_back(node_of(*scale, name));
  if (options.sinks.defined()) {
    check_operands(name, {&q, &options.sinks});
    if (options.sinks.dtype() != DType::f32 || !(options.sinks.shape() == Shape{query->shape[1]}))
      throw ShapeError(fmt::format("[{}] sinks {} {} for {} heads", name, dtype_name(options.sinks.dtype()),
                                   to_string(options.sinks.shape()), query->shape[1]));
    inputs.push_back(node_of(options.sinks));
  }
  return make_op(Op::cached_attention, query->dtype, query->shape, std::move(inputs),
                 CachedAttentionAttributes{options.scale, options.window, options.soft_cap, options.page,
                                           options.old_keys});
}

}  // namespace

Tensor cached_attention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& sequences,
                        const Tensor& positions, const Tensor& table, const CachedAttentionOptions& options) {
  check_operands(attention_name, {&q, &keys, &values});
  const DType query = q.dtype(), key = keys.dtype();
  if (!is_floating(query) || query == DType::f64 || !is_floating(key) || key == DType::f64 ||
      key != values.dtype())
    throw DTypeError(fmt::format("[{}] q {}, keys {}, values {}: f32, f16 or bf16, keys as values",
                                 attention_name, dtype_name(query), dtype_name(key),
                                 dtype_name(values.dtype())));
  return make_cached_attention(q, keys, values, sequences, positions, table, options, {});
}

Tensor cached_attention(const Tensor& q, const ScaledBytes& keys, const ScaledBytes& values,
                        const Tensor& sequences, const Tensor& positions, const Tensor& table,
                        const CachedAttentionOptions& options) {
  check_operands(attention_name, {&q, &keys.bytes, &keys.scales, &values.bytes, &values.scales});
  for (const ScaledBytes* x : {&keys, &values}) {
    Shape expected = x->bytes.shape();
    if (!expected.empty()) expected.back() /= scaled_run;
    if (x->bytes.dtype() != DType::i8 || x->scales.dtype() != DType::f16 || !(x->scales.shape() == expected))
      throw ShapeError(fmt::format("[{}] bytes {} {} with scales {} {}", attention_name,
                                   dtype_name(x->bytes.dtype()), to_string(x->bytes.shape()),
                                   dtype_name(x->scales.dtype()), to_string(x->scales.shape())));
  }
  return make_cached_attention(q, keys.bytes, values.bytes, sequences, positions, table, options,
                               {&keys.scales, &values.scales});
}

ScaledBytes to_scaled_bytes(const Tensor& x) {
  Shape runs = x.shape();
  if (runs.empty() || runs.back() % scaled_run != 0)
    throw ShapeError(fmt::format("[to_scaled_bytes] {} has no runs of {}", to_string(runs), scaled_run));
  runs.back() /= scaled_run;
  const Shape scales_shape = runs;
  runs.push_back(scaled_run);
  const Tensor parts = x.to(DType::f32).reshape(runs);
  const Tensor scales = (max(abs(parts), {-1}, true) / 127.0).to(DType::f16);
  const Tensor wide = scales.to(DType::f32);
  const Tensor numbers = where(wide > 0.0, parts / wide, zeros_like(parts));
  return {clamp(round(numbers), -127.0, 127.0).to(DType::i8).reshape(x.shape()),
          scales.reshape(scales_shape)};
}

Tensor from_scaled_bytes(const ScaledBytes& x) {
  Shape runs = x.scales.shape(), ones = x.scales.shape();
  runs.push_back(scaled_run);
  ones.push_back(1);
  return (x.bytes.to(DType::f32).reshape(runs) * x.scales.to(DType::f32).reshape(ones))
      .reshape(x.bytes.shape());
}

}  // namespace hearth
