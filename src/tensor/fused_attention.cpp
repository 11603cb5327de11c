// Attention as one operation, and its gradients.
#include "graph/packed_attention.h"
#include "hearth/grad.h"
#include "tensor/attention.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

constexpr std::int64_t most_features = 256;

// The operations write rows (batch, position, head): what (batch, head, position, feature) is in memory.
Shape stored(const Shape& shape) { return {shape[0], shape[2], shape[1], shape[3]}; }
Tensor by_heads(const Tensor& result) { return transpose(result, 1, 2); }

// The output (B, H, T, D) = `shape` of a packed result, or of a gradient laid out as one.
Tensor output_of(const Tensor& packed, const Shape& shape) {
  return by_heads(reshape(narrow(packed, 0, 0, element_count(shape)), stored(shape)));
}

// Only the output has a gradient, and it comes as the gradient of the slice that output_of() took. Where that
// is all there is, it need not be put among zeros first.
Tensor output_gradient(const Tensor& dy, const Shape& shape) {
  const NodeRef& node = node_of(dy);
  if (node->op == Op::unslice && node->inputs.size() == 1 && node->inputs[0]->count() == element_count(shape))
    return by_heads(reshape(wrap(node->inputs[0]), stored(shape)));
  return output_of(dy, shape);
}

// dscores = p * (dp - sum(p * dp)), for the heads that share keys stacked along the query axis.
std::vector<Tensor> plain_gradients(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& dy,
                                    const AttentionAttributes& attributes) {
  const auto batch = q.size(0), heads = q.size(1), queries = q.size(2), features = q.size(3);
  const auto groups = k.size(1), keys = k.size(2), rows = heads / groups * queries;
  const auto stacked = [&](const Tensor& x) {
    return reshape(as(x, DType::f32), {batch, groups, rows, features});
  };
  const auto transposed = [](const Tensor& x) { return transpose(x, 2, 3); };
  const Tensor q32 = stacked(q), k32 = as(k, DType::f32), v32 = as(v, DType::f32);
  Tensor dy32 = as(dy, DType::f32);
  Tensor visible = visible_by_position(q, queries, keys, attributes.causal, attributes.window);
  if (visible.defined()) {
    const Tensor anything = any(visible, {-1}, true);
    dy32 = where(anything, dy32, 0);
    visible = logical_or(visible, logical_not(anything));
  }
  dy32 = stacked(dy32);
  Tensor scores = matmul(q32, transposed(k32)) * attributes.scale;
  if (visible.defined()) {
    const Shape by_head{batch, heads, queries, keys};
    scores = reshape(where(visible, reshape(scores, by_head), -std::numeric_limits<double>::infinity()),
                     {batch, groups, rows, keys});
  }
  const Tensor p = softmax(scores, -1);
  const Tensor dp = matmul(dy32, transposed(v32));
  const Tensor dscores = p * (dp - sum(p * dp, {-1}, true)) * attributes.scale;
  return {as(reshape(matmul(dscores, k32), q.shape()), q.dtype()),
          as(matmul(transposed(dscores), q32), k.dtype()), as(matmul(transposed(p), dy32), v.dtype())};
}

}  // namespace

bool fuses_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionAttributes& attributes) {
  const DType dtype = promote(promote(q.dtype(), k.dtype()), v.dtype());
  const bool known = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  return q.device().kind != DeviceKind::cpu && known && q.size(3) == v.size(3) && q.size(3) > 0 &&
         q.size(3) <= most_features && attributes.scale > 0;
}

Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                       const AttentionAttributes& attributes) {
  const PackedAttention layout(q.shape(), q.dtype());
  return output_of(make_op(Op::attention, q.dtype(), {layout.size}, attributes, q, k, v), q.shape());
}

std::vector<Tensor> fused_attention_gradients(const NodeRef& node, const Tensor& dy) {
  const auto& attributes = node->attribute<AttentionAttributes>();
  const Tensor q = wrap(node->inputs[0]), k = wrap(node->inputs[1]), v = wrap(node->inputs[2]);
  const Tensor slope = output_gradient(dy, q.shape());
  if (grad_enabled()) return plain_gradients(q, k, v, slope, attributes);

  const auto needs = [&](std::size_t i) { return node->inputs[i]->requires_grad; };
  const Tensor packed = wrap(node);
  const Tensor delta = sum(as(slope, DType::f32) * as(output_of(packed, q.shape()), DType::f32), {-1});
  std::vector<Tensor> gradients(3);
  if (needs(0))
    gradients[0] = by_heads(make_op(Op::attention_grad_q, q.dtype(), stored(q.shape()), attributes, q, k, v,
                                    packed, delta, slope));
  if (needs(1) || needs(2)) {
    Shape both = stored(k.shape());
    both.insert(0, 2);
    const Tensor stack =
        make_op(Op::attention_grad_kv, k.dtype(), both, attributes, q, k, v, packed, delta, slope);
    for (std::size_t i = 0; i < 2; ++i)
      gradients[i + 1] =
          by_heads(reshape(narrow(stack, 0, static_cast<std::int64_t>(i), 1), stored(k.shape())));
  }
  return gradients;
}

}  // namespace hearth
