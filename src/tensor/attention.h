// Attention as one operation of the graph, on devices that have kernels for it.
#pragma once

#include <vector>

#include "graph/attributes.h"
#include "graph/node.h"
#include "hearth/ops.h"

namespace hearth {

// Which keys each query may see by its position, (T, S); undefined where all.
Tensor visible_by_position(const Tensor& q, std::int64_t queries, std::int64_t keys, bool causal,
                           std::int64_t window);

// Whether the operation can be used: a GPU, 16-bit or f32, heads of at most 256 features, a positive scale.
bool fuses_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                     const AttentionAttributes& attributes);
// All three of one dtype.
Tensor fused_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                       const AttentionAttributes& attributes);
// The gradients of an Op::attention node by its inputs, those that are needed. Under create_graph they are
// made of plain operations, which have gradients themselves.
std::vector<Tensor> fused_attention_gradients(const NodeRef& node, const Tensor& dy);

}  // namespace hearth
