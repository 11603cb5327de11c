// Rows put in place, and attention over pages.
#include "tensor/key_value_cache.h"

#include <fmt/format.h>

#include "hearth/error.h"
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

Tensor cached_attention(const Tensor& q, const Tensor& keys, const Tensor& values, const Tensor& sequences,
                        const Tensor& positions, const Tensor& table, const CachedAttentionOptions& options) {
  constexpr const char* name = "cached_attention";
  const NodeRef &query = node_of(q, name), &key = node_of(keys, name), &value = node_of(values, name);
  check_operands(name, {&q, &keys, &values});
  if (!is_floating(query->dtype) || query->dtype == DType::f64 || !is_floating(key->dtype) ||
      key->dtype == DType::f64 || key->dtype != value->dtype)
    throw DTypeError(fmt::format("[{}] q {}, keys {}, values {}: f32, f16 or bf16, keys as values", name,
                                 dtype_name(query->dtype), dtype_name(key->dtype), dtype_name(value->dtype)));
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
  return make_op(Op::cached_attention, query->dtype, query->shape,
                 {query, key, value, node_of(sequences), node_of(positions), node_of(table)},
                 CachedAttentionAttributes{options.scale, options.window, options.soft_cap, options.page});
}

}  // namespace hearth
