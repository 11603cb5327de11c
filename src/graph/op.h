// What operations there are: the op table.
#pragma once

#include <cstdint>
#include <string_view>

namespace hearth {

enum class OpKind : std::uint8_t {
  leaf,         // a value that is there
  elementwise,  // out[i] depends on in[i] only: fusible
  view,         // another way to look at the same memory
  reduce,       // an associative operation over axes: fusible with elementwise inputs
  scan,         // along one axis
  movement,     // copies elements to other places
  indexing,     // places given by data
  contraction,  // matmul and convolution
  pooling,
  normalisation,
  composite,  // made of other operations where a backend has no kernel of its own for it
  quantised,  // what takes weights in a block format
  random,
};

// The operations that are not rows of elementwise.inc: HEARTH_OP(name, kind, doc)
#define HEARTH_STRUCTURED_OPS(HEARTH_OP)                                                                  \
  HEARTH_OP(value, leaf, "a tensor with storage")                                                         \
  HEARTH_OP(constant, leaf, "one number, known when the graph is built")                                  \
  HEARTH_OP(where, elementwise, "a where the condition is true, else b")                                  \
  HEARTH_OP(cast, elementwise, "another dtype")                                                           \
  HEARTH_OP(reshape, view, "the same elements in row-major order under another shape")                    \
  HEARTH_OP(permute, view, "axes in another order")                                                       \
  HEARTH_OP(broadcast, view, "axes of size 1 repeated")                                                   \
  HEARTH_OP(slice, view, "every step-th element of each axis")                                            \
  HEARTH_OP(copy, movement, "a dense copy")                                                               \
  HEARTH_OP(sum, reduce, "sum")                                                                           \
  HEARTH_OP(prod, reduce, "product")                                                                      \
  HEARTH_OP(max, reduce, "largest; NaN wins")                                                             \
  HEARTH_OP(min, reduce, "smallest; NaN wins")                                                            \
  HEARTH_OP(all, reduce, "true where all are true")                                                       \
  HEARTH_OP(any, reduce, "true where any is true")                                                        \
  HEARTH_OP(argmax, scan, "index of the first largest")                                                   \
  HEARTH_OP(argmin, scan, "index of the first smallest")                                                  \
  HEARTH_OP(cumsum, scan, "running sum")                                                                  \
  HEARTH_OP(cumprod, scan, "running product")                                                             \
  HEARTH_OP(argsort, scan, "indices that sort, stable, NaN last; only the first `count`")                 \
  HEARTH_OP(concat, movement, "inputs one after another along an axis")                                   \
  HEARTH_OP(pad, movement, "input surrounded by a value")                                                 \
  HEARTH_OP(unslice, movement, "zeros with the input placed where a slice reads; gradient of slice")      \
  HEARTH_OP(arange, movement, "start + step * i")                                                         \
  HEARTH_OP(take, indexing, "slices of the first input chosen by the second")                             \
  HEARTH_OP(index_add, indexing, "zeros with slices added where indices say; gradient of take")           \
  HEARTH_OP(gather, indexing, "elements along an axis chosen by indices of the same rank")                \
  HEARTH_OP(scatter, indexing, "input with elements replaced where indices say")                          \
  HEARTH_OP(scatter_add, indexing, "input with elements added where indices say")                         \
  HEARTH_OP(store_rows, indexing, "input with rows replaced where indices say; in place where it can be") \
  HEARTH_OP(matmul, contraction, "batched matrix product")                                                \
  HEARTH_OP(conv, contraction, "convolution")                                                             \
  HEARTH_OP(conv_input_grad, contraction, "gradient of convolution by its input; transposed convolution") \
  HEARTH_OP(conv_weight_grad, contraction, "gradient of convolution by its weight")                       \
  HEARTH_OP(max_pool, pooling, "largest in a window")                                                     \
  HEARTH_OP(max_pool_grad, pooling, "gradient of max_pool")                                               \
  HEARTH_OP(avg_pool, pooling, "mean of a window")                                                        \
  HEARTH_OP(avg_pool_grad, pooling, "gradient of avg_pool")                                               \
  HEARTH_OP(softmax, normalisation, "softmax over the last axis")                                         \
  HEARTH_OP(softmax_grad, normalisation, "gradient of softmax from its result")                           \
  HEARTH_OP(log_softmax, normalisation, "logarithm of softmax over the last axis")                        \
  HEARTH_OP(log_softmax_grad, normalisation, "gradient of log_softmax from its result")                   \
  HEARTH_OP(layer_norm, normalisation, "(x - mean) / sqrt(var + eps) * weight + bias over the last axis") \
  HEARTH_OP(layer_norm_grad, normalisation, "gradient of layer_norm by its input")                        \
  HEARTH_OP(rms_norm, normalisation, "x / sqrt(mean(x^2) + eps) * weight over the last axis")             \
  HEARTH_OP(rms_norm_grad, normalisation, "gradient of rms_norm by its input")                            \
  HEARTH_OP(layer_norm_grads, normalisation, "gradients of layer_norm by x, weight and bias, flat")       \
  HEARTH_OP(rms_norm_grads, normalisation, "gradients of rms_norm by x and weight, flat")                 \
  HEARTH_OP(rope, normalisation, "rotary position embedding: x, positions, frequencies if not of a base") \
  HEARTH_OP(attention, composite, "output of attention, flat, then what its gradients need")              \
  HEARTH_OP(attention_grad_q, composite, "gradient of attention by q")                                    \
  HEARTH_OP(attention_grad_kv, composite, "gradients of attention by k and v, stacked")                   \
  HEARTH_OP(cached_attention, composite, "attention of single queries over keys and values in pages")     \
  HEARTH_OP(expert_matmul, quantised, "rows of x times the matrices chosen for them, in blocks or not")   \
  HEARTH_OP(cross_entropy, composite, "of rows with one right class each; then what its gradient needs")  \
  HEARTH_OP(cross_entropy_grad, composite, "gradient of cross_entropy by the scores")                     \
  HEARTH_OP(dequantise, quantised, "elements of a block format as numbers")                               \
  HEARTH_OP(quantised_take, quantised, "rows of a block format chosen by indices, as numbers")            \
  HEARTH_OP(quantised_matmul, quantised, "x @ transposed(w), w (N, K) in blocks or 16 bits")              \
  HEARTH_OP(random_uniform, random, "uniform in [0, 1)")                                                  \
  HEARTH_OP(random_normal, random, "standard normal")                                                     \
  HEARTH_OP(random_bits, random, "63 random bits as i64")

enum class Op : std::uint16_t {
#define HEARTH_UNARY(name, rule, value, gradient, doc) name,
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc) name,
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY
#define HEARTH_OP(name, kind, doc) name,
  HEARTH_STRUCTURED_OPS(HEARTH_OP)
#undef HEARTH_OP
      count_
};
inline constexpr std::size_t op_count = static_cast<std::size_t>(Op::count_);

// How the dtype of an elementwise result follows from its operands; the names are those of elementwise.inc.
enum class DTypeRule : std::uint8_t { numeric, floating, integral, rounding, compare, logical };

struct OpRow {
  std::string_view name;
  OpKind kind;
  std::uint8_t arity;  // 0: not fixed
  DTypeRule rule;      // of rows of elementwise.inc
  std::string_view doc;
};

const OpRow& op_row(Op op);
inline std::string_view op_name(Op op) { return op_row(op).name; }
inline OpKind op_kind(Op op) { return op_row(op).kind; }
// Operands of an elementwise operation.
inline int operand_count(Op op) { return op == Op::where ? 3 : op == Op::cast ? 1 : op_row(op).arity; }
inline bool is_elementwise(Op op) { return op_kind(op) == OpKind::elementwise; }

}  // namespace hearth
