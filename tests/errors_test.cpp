// Bad input: each throws the right class of the family, at the call (bad indices: at evaluation), with a
// message that names the operation.
#include <gtest/gtest.h>

#include <limits>
#include <typeinfo>

#include "hearth/error.h"
#include "hearth/eval.h"
#include "hearth/grad.h"
#include "hearth/ops.h"
#include "hearth/random.h"

namespace hearth {
namespace {

struct Bad {
  const char* what;
  const std::type_info& error;
  const char* operation;  // as the message names it
  std::function<void()> call;
};

void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.operation << ": " << bad.what; }

Tensor x(const Shape& shape, DType dtype = DType::f32) { return ones(shape, dtype); }
Tensor indices(std::initializer_list<std::int64_t> values) { return tensor(values); }

constexpr auto huge = std::numeric_limits<std::int64_t>::max();
const auto& shape_error = typeid(ShapeError);
const auto& dtype_error = typeid(DTypeError);
const auto& index_error = typeid(IndexError);
const auto& value_error = typeid(ValueError);

// clang-format off
const std::vector<Bad> cases = {
  // ---- elementwise
  {"shapes that do not broadcast", shape_error, "add", [] { x({2, 3}) + x({4}); }},
  {"shapes that do not broadcast", shape_error, "maximum", [] { maximum(x({2}), x({3})); }},
  {"shapes that do not broadcast", shape_error, "where", [] { where(x({2}, DType::bool_), x({3}), x({3})); }},
  {"floats where integers are needed", dtype_error, "bitwise_and", [] { bitwise_and(x({2}), x({2})); }},
  {"floats where integers are needed", dtype_error, "shift_left", [] { shift_left(x({2}), x({2}, DType::i32)); }},
  {"floats where integers are needed", dtype_error, "bitwise_not", [] { bitwise_not(x({2})); }},
  {"slopes that do not fit", shape_error, "prelu", [] { prelu(x({2, 3}), x({4})); }},
  {"odd size", shape_error, "glu", [] { glu(x({2, 3})); }},
  {"axis out of range", index_error, "glu", [] { glu(x({2, 4}), 2); }},
  {"low above high", value_error, "clamp", [] { clamp(x({2}), 2, 1); }},
  // ---- undefined tensors
  {"undefined operand", value_error, "exp", [] { exp(Tensor()); }},
  {"undefined operand", value_error, "add", [] { x({2}) + Tensor(); }},
  {"undefined operand", value_error, "matmul", [] { matmul(Tensor(), x({2, 2})); }},
  {"undefined operand", value_error, "sum", [] { sum(Tensor()); }},
  {"undefined operand", value_error, "reshape", [] { reshape(Tensor(), {1}); }},
  {"undefined operand", value_error, "concat", [] { concat({x({2}), Tensor()}); }},
  {"undefined operand", value_error, "conv2d", [] { conv2d(x({1, 1, 3, 3}), Tensor()); }},
  {"undefined operand", value_error, "gather", [] { gather(x({2}), 0, Tensor()); }},
  {"undefined operand", value_error, "softmax", [] { softmax(Tensor()); }},
  {"undefined operand", value_error, "where", [] { where(Tensor(), x({2}), x({2})); }},
  {"undefined operand", value_error, "cross_entropy", [] { cross_entropy(Tensor(), indices({0})); }},
  {"undefined operand", value_error, "attention", [] { attention(x({1, 1, 2, 2}), Tensor(), x({1, 1, 2, 2})); }},
  {"shape of undefined", value_error, "shape", [] { (void)Tensor().shape(); }},
  {"dtype of undefined", value_error, "dtype", [] { (void)Tensor().dtype(); }},
  {"value of undefined", value_error, "item", [] { (void)Tensor().item(); }},
  {"evaluating undefined", value_error, "eval", [] { Tensor().eval(); }},
  {"evaluating undefined", value_error, "eval", [] { eval({x({2}), Tensor()}); }},
  {"gradient of undefined", value_error, "backward", [] { Tensor().backward(); }},
  {"gradient of undefined", value_error, "gradients", [] { gradients(Tensor(), {}); }},
  // ---- making tensors
  {"negative size", shape_error, "zeros", [] { zeros({2, -1}); }},
  {"negative size", shape_error, "full", [] { full({-3}, 1.0); }},
  {"more bytes than can be counted", shape_error, "ones", [] { ones({huge / 2, 3}); }},
  {"more bytes than can be counted", shape_error, "zeros", [] { zeros({huge}); }},
  {"too many axes", shape_error, "zeros", [] { zeros(Shape(17, 1)); }},
  {"values that do not fill the shape", shape_error, "tensor", [] { tensor({1.0f, 2.0f}, {3}); }},
  {"bytes that do not fill the shape", shape_error, "from_bytes", [] { from_bytes({}, {3}, DType::f32); }},
  {"step 0", value_error, "arange", [] { arange(0, 3, 0); }},
  {"negative count", value_error, "linspace", [] { linspace(0, 1, -1); }},
  {"negative size", shape_error, "eye", [] { eye(-2); }},
  {"negative size", shape_error, "rand", [] { rand({-1}); }},
  {"nothing between low and high", value_error, "randint", [] { randint(3, 3, {2}); }},
  {"probability above 1", value_error, "bernoulli", [] { bernoulli({2}, 1.5); }},
  {"unknown dtype name", dtype_error, "dtype", [] { dtype_from_name("f128"); }},
  // ---- values and gradients
  {"many elements", shape_error, "item", [] { (void)x({2}).item(); }},
  {"wrong type", dtype_error, "data", [] { (void)x({2}).eval().data<double>(); }},
  {"size of an axis that is not there", index_error, "size", [] { (void)x({2, 3}).size(2); }},
  {"gradient of an integer tensor", dtype_error, "requires_grad_", [] { x({2}, DType::i32).requires_grad_(); }},
  {"no seed for a result with many elements", shape_error, "backward", [] { (x({2}).requires_grad_() * 2).backward(); }},
  {"seed of another shape", shape_error, "gradients", [] { auto a = x({2}).requires_grad_(); gradients(a * 2, {a}, x({3})); }},
  {"gradient of another shape", shape_error, "set_grad", [] { x({2}).requires_grad_().set_grad(x({3})); }},
  {"value of another shape", shape_error, "assign", [] { x({2}).assign(x({3})); }},
  {"value of another dtype", dtype_error, "assign", [] { x({2}).assign(x({2}, DType::f64)); }},
  // ---- reductions
  {"axis out of range", index_error, "sum", [] { sum(x({2, 3}), {2}); }},
  {"axis out of range", index_error, "mean", [] { mean(x({2, 3}), {-3}); }},
  {"repeated axis", value_error, "sum", [] { sum(x({2, 3}), {1, -1}); }},
  {"empty", value_error, "max", [] { max(x({0})); }},
  {"empty axis", value_error, "min", [] { min(x({2, 0}), {1}); }},
  {"empty", value_error, "argmax", [] { argmax(x({0})); }},
  {"empty axis", value_error, "argmin", [] { argmin(x({0, 3}), 0); }},
  {"axis out of range", index_error, "argmax", [] { argmax(x({2}), 1); }},
  {"axis out of range", index_error, "var", [] { var(x({2}), {1}); }},
  {"axis out of range", index_error, "logsumexp", [] { logsumexp(x({2}), {1}); }},
  {"axis out of range", index_error, "norm", [] { norm(x({2}), 2, {1}); }},
  {"axis of a scalar", index_error, "cumsum", [] { cumsum(x({}), 0); }},
  {"axis out of range", index_error, "cumprod", [] { cumprod(x({2}), 1); }},
  {"axis out of range", index_error, "sort", [] { sort(x({2}), 1); }},
  {"axis out of range", index_error, "argsort", [] { argsort(x({2}), -2); }},
  {"axis out of range", index_error, "softmax", [] { softmax(x({2}), 1); }},
  {"axis out of range", index_error, "log_softmax", [] { log_softmax(x({2}), 3); }},
  {"k above the size", value_error, "topk", [] { topk(x({2, 3}), 4); }},
  {"negative k", value_error, "topk", [] { topk(x({2, 3}), -1); }},
  {"axis out of range", index_error, "topk", [] { topk(x({2, 3}), 1, 2); }},
  // ---- shapes
  {"element counts differ", shape_error, "reshape", [] { reshape(x({2, 3}), {4, 2}); }},
  {"two open sizes", shape_error, "reshape", [] { reshape(x({2, 3}), {-1, -1}); }},
  {"no whole open size", shape_error, "reshape", [] { reshape(x({2, 3}), {4, -1}); }},
  {"open size of an empty tensor", shape_error, "reshape", [] { reshape(x({0}), {0, -1}); }},
  {"negative size", shape_error, "reshape", [] { reshape(x({2, 3}), {-2, -3}); }},
  {"overflowing size", shape_error, "reshape", [] { reshape(x({0}), {huge, huge}); }},
  {"axis out of range", index_error, "flatten", [] { flatten(x({2, 3}), 0, 2); }},
  {"axes in the wrong order", value_error, "flatten", [] { flatten(x({2, 3}), 1, 0); }},
  {"axis out of range", index_error, "transpose", [] { transpose(x({2, 3}), 0, 2); }},
  {"too few axes", shape_error, "permute", [] { permute(x({2, 3}), {0}); }},
  {"repeated axis", value_error, "permute", [] { permute(x({2, 3}), {0, 0}); }},
  {"axis out of range", index_error, "permute", [] { permute(x({2, 3}), {0, 2}); }},
  {"axis out of range", index_error, "squeeze", [] { squeeze(x({2, 1}), {2}); }},
  {"axis out of range", index_error, "unsqueeze", [] { unsqueeze(x({2}), 3); }},
  {"sizes that do not broadcast", shape_error, "broadcast_to", [] { broadcast_to(x({2, 3}), {2, 4}); }},
  {"fewer axes", shape_error, "broadcast_to", [] { broadcast_to(x({2, 3}), {3}); }},
  {"overflowing size", shape_error, "broadcast_to", [] { broadcast_to(x({1}), {huge, huge}); }},
  {"step 0", value_error, "slice", [] { slice(x({3}), {{0, 2, 0}}); }},
  {"more slices than axes", index_error, "slice", [] { slice(x({3}), {{0, 1}, {0, 1}}); }},
  {"beyond the end", index_error, "narrow", [] { narrow(x({3}), 0, 2, 2); }},
  {"overflowing", index_error, "narrow", [] { narrow(x({3}), 0, 2, huge); }},
  {"negative length", index_error, "narrow", [] { narrow(x({3}), 0, 0, -1); }},
  {"index out of range", index_error, "select", [] { select(x({3}), 0, 3); }},
  {"index out of range", index_error, "select", [] { x({3})[-4]; }},
  {"axis out of range", index_error, "select", [] { x({})[0]; }},
  {"axis out of range", index_error, "flip", [] { flip(x({3}), {1}); }},
  {"repeated axis", value_error, "flip", [] { flip(x({3}), {0, 0}); }},
  {"axis out of range", index_error, "roll", [] { roll(x({3}), 1, 1); }},
  {"negative repeat", value_error, "tile", [] { tile(x({3}), {-1}); }},
  {"overflowing size", shape_error, "tile", [] { tile(x({3}), {huge}); }},
  {"negative repeat", value_error, "repeat_interleave", [] { repeat_interleave(x({3}), -1, 0); }},
  {"overflowing size", shape_error, "repeat_interleave", [] { repeat_interleave(x({3}), huge, 0); }},
  {"axis out of range", index_error, "repeat_interleave", [] { repeat_interleave(x({3}), 2, 1); }},
  {"nothing", value_error, "concat", [] { concat({}); }},
  {"sizes that differ", shape_error, "concat", [] { concat({x({2, 3}), x({2, 4})}, 0); }},
  {"numbers of axes that differ", shape_error, "concat", [] { concat({x({2, 3}), x({3})}, 0); }},
  {"axis out of range", index_error, "concat", [] { concat({x({2, 3})}, 2); }},
  {"scalars", index_error, "concat", [] { concat({x({}), x({})}); }},
  {"shapes that differ", shape_error, "stack", [] { stack({x({2}), x({3})}); }},
  {"nothing", value_error, "stack", [] { stack({}); }},
  {"axis out of range", index_error, "stack", [] { stack({x({2})}, 2); }},
  {"size 0", value_error, "split", [] { split(x({3}), 0); }},
  {"count 0", value_error, "chunk", [] { chunk(x({3}), 0); }},
  {"axis out of range", index_error, "split", [] { split(x({3}), 1, 1); }},
  {"too few widths", shape_error, "pad", [] { pad(x({2, 3}), {{1, 1}}); }},
  {"negative width", value_error, "pad", [] { pad(x({3}), {{-1, 0}}); }},
  {"overflowing size", shape_error, "pad", [] { pad(x({3}), {{huge, 1}}); }},
  {"vector", shape_error, "tril", [] { tril(x({3})); }},
  {"vector", shape_error, "triu", [] { triu(x({3})); }},
  {"vector", shape_error, "diagonal", [] { diagonal(x({3})); }},
  {"three axes", shape_error, "t", [] { x({2, 3, 4}).t(); }},
  // ---- indexing: what can be known before evaluation
  {"floating indices", dtype_error, "take", [] { take(x({3}), x({2})); }},
  {"axis out of range", index_error, "take", [] { take(x({3}), indices({0}), 1); }},
  {"floating indices", dtype_error, "gather", [] { gather(x({3}), 0, x({2})); }},
  {"numbers of axes that differ", shape_error, "gather", [] { gather(x({3, 2}), 0, indices({0})); }},
  {"index larger than the tensor", shape_error, "gather", [] { gather(x({2, 2}), 0, zeros({1, 3}, DType::i64)); }},
  {"axis out of range", index_error, "gather", [] { gather(x({3}), 1, indices({0})); }},
  {"source of another shape", shape_error, "scatter", [] { scatter(x({3}), 0, indices({0, 1}), x({3})); }},
  {"floating indices", dtype_error, "scatter_add", [] { scatter_add(x({3}), 0, x({1}), x({1})); }},
  {"source of another dtype", dtype_error, "scatter_add", [] { scatter_add(x({3}), 0, indices({0}), x({1}, DType::f64)); }},
  {"no classes", value_error, "one_hot", [] { one_hot(indices({0}), -1); }},
  {"floating indices", dtype_error, "one_hot", [] { one_hot(x({2}), 3); }},
  {"floating indices", dtype_error, "embedding", [] { embedding(x({2}), x({3, 4})); }},
  {"weight that is no matrix", shape_error, "embedding", [] { embedding(indices({0}), x({3})); }},
  {"padding index out of range", index_error, "embedding", [] { embedding(indices({0}), x({3, 4}), 3); }},
  // ---- indexing: what only evaluation shows
  {"index out of range", index_error, "take", [] { take(x({3}), indices({0, 3})).eval(); }},
  {"negative index out of range", index_error, "take", [] { take(x({3}), indices({-4})).eval(); }},
  {"index out of range", index_error, "gather", [] { gather(x({3}), 0, indices({1, 7})).eval(); }},
  {"index out of range", index_error, "scatter", [] { scatter(x({3}), 0, indices({3}), x({1})).eval(); }},
  {"index out of range", index_error, "scatter_add", [] { scatter_add(x({3}), 0, indices({-4}), x({1})).eval(); }},
  // Found at evaluation, by the operation underneath.
  {"index out of range", index_error, "take", [] { embedding(indices({5}), x({3, 4})).eval(); }},
  {"anything from an empty tensor", index_error, "take", [] { take(x({0}), indices({0})).eval(); }},
  // ---- contraction
  {"inner sizes that differ", shape_error, "matmul", [] { matmul(x({3, 4}), x({5, 6})); }},
  {"scalar", shape_error, "matmul", [] { matmul(x({}), x({2})); }},
  {"batches that do not broadcast", shape_error, "matmul", [] { matmul(x({2, 3, 4}), x({3, 4, 5})); }},
  {"vectors that differ", shape_error, "matmul", [] { matmul(x({3}), x({4})); }},
  {"matrices", shape_error, "batch_matmul", [] { batch_matmul(x({3, 4}), x({4, 5})); }},
  {"matrix", shape_error, "outer", [] { outer(x({3, 4}), x({4})); }},
  {"vectors that differ", shape_error, "dot", [] { dot(x({3}), x({4})); }},
  {"features that differ", shape_error, "linear", [] { linear(x({2, 3}), x({4, 5})); }},
  {"bias that does not fit", shape_error, "linear", [] { linear(x({2, 3}), x({4, 3}), x({3})); }},
  {"too few operands", value_error, "einsum", [] { einsum("ij,jk->ik", {x({2, 3})}); }},
  {"too many operands", value_error, "einsum", [] { einsum("ij->ji", {x({2, 3}), x({2, 3})}); }},
  {"no operands", value_error, "einsum", [] { einsum("", {}); }},
  {"output letter that is not there", value_error, "einsum", [] { einsum("ij->ik", {x({2, 3})}); }},
  {"output letter repeated", value_error, "einsum", [] { einsum("ij->ii", {x({2, 3})}); }},
  {"bad character", value_error, "einsum", [] { einsum("i1->i", {x({2, 3})}); }},
  {"two arrows", value_error, "einsum", [] { einsum("ij->i->j", {x({2, 3})}); }},
  {"broken ellipsis", value_error, "einsum", [] { einsum("..ij->ij", {x({2, 3})}); }},
  {"letters and axes that differ", shape_error, "einsum", [] { einsum("ijk->ij", {x({2, 3})}); }},
  {"sizes of a letter that differ", shape_error, "einsum", [] { einsum("ij,jk->ik", {x({2, 3}), x({4, 5})}); }},
  {"sizes of a repeated letter that differ", shape_error, "einsum", [] { einsum("ii->i", {x({2, 3})}); }},
  // ---- convolution and pooling
  {"channels that do not fit", shape_error, "conv2d", [] { conv2d(x({1, 3, 5, 5}), x({4, 2, 3, 3})); }},
  {"too few axes", shape_error, "conv2d", [] { conv2d(x({3, 5, 5}), x({4, 3, 3, 3})); }},
  {"weight with too few axes", shape_error, "conv1d", [] { conv1d(x({1, 3, 5}), x({4, 3})); }},
  {"kernel larger than the image", shape_error, "conv2d", [] { conv2d(x({1, 1, 3, 3}), x({1, 1, 4, 4})); }},
  {"dilated kernel larger than the image", shape_error, "conv1d", [] { conv1d(x({1, 1, 4}), x({1, 1, 3}), {}, {.dilation = {2}}); }},
  {"bias that does not fit", shape_error, "conv2d", [] { conv2d(x({1, 1, 3, 3}), x({2, 1, 3, 3}), x({3})); }},
  {"stride 0", value_error, "conv2d", [] { conv2d(x({1, 1, 3, 3}), x({1, 1, 3, 3}), {}, {.stride = {0}}); }},
  {"negative padding", value_error, "conv3d", [] { conv3d(x({1, 1, 3, 3, 3}), x({1, 1, 2, 2, 2}), {}, {.padding = {-1}}); }},
  {"dilation 0", value_error, "conv1d", [] { conv1d(x({1, 1, 3}), x({1, 1, 2}), {}, {.dilation = {0}}); }},
  {"groups 0", value_error, "conv2d", [] { conv2d(x({1, 1, 3, 3}), x({1, 1, 3, 3}), {}, {.groups = 0}); }},
  {"outputs not divisible by groups", shape_error, "conv2d", [] { conv2d(x({1, 4, 3, 3}), x({3, 2, 3, 3}), {}, {.groups = 2}); }},
  {"strides for another number of axes", value_error, "conv2d", [] { conv2d(x({1, 1, 3, 3}), x({1, 1, 3, 3}), {}, {.stride = {1, 1, 1}}); }},
  {"channels that do not fit", shape_error, "conv_transpose2d", [] { conv_transpose2d(x({1, 3, 5, 5}), x({2, 4, 3, 3})); }},
  {"output padding not below stride", value_error, "conv_transpose2d", [] { conv_transpose2d(x({1, 1, 3, 3}), x({1, 1, 3, 3}), {}, {.stride = {2}, .output_padding = {2}}); }},
  {"padding that leaves nothing", shape_error, "conv_transpose1d", [] { conv_transpose1d(x({1, 1, 1}), x({1, 1, 2}), {}, {.padding = {1}}); }},
  {"no kernel", value_error, "max_pool2d", [] { max_pool2d(x({1, 1, 3, 3}), {.kernel = {}}); }},
  {"kernel 0", value_error, "avg_pool1d", [] { avg_pool1d(x({1, 1, 3}), {.kernel = {0}}); }},
  {"kernel larger than the image", shape_error, "max_pool2d", [] { max_pool2d(x({1, 1, 3, 3}), {.kernel = {4}}); }},
  {"padding above half the kernel", value_error, "max_pool2d", [] { max_pool2d(x({1, 1, 6, 6}), {.kernel = {2}, .padding = {2}}); }},
  {"stride 0", value_error, "avg_pool2d", [] { avg_pool2d(x({1, 1, 6, 6}), {.kernel = {2}, .stride = {0}}); }},
  {"too few axes", shape_error, "max_pool3d", [] { max_pool3d(x({3, 3}), {.kernel = {2}}); }},
  {"size 0", value_error, "adaptive_avg_pool2d", [] { adaptive_avg_pool2d(x({1, 1, 3, 3}), {0, 2}); }},
  {"empty image", shape_error, "adaptive_avg_pool1d", [] { adaptive_avg_pool1d(x({1, 1, 0}), 2); }},
  {"sizes for another number of axes", value_error, "interpolate", [] { interpolate(x({1, 1, 3, 3}), {2}, Interpolation::linear); }},
  {"size 0", value_error, "interpolate", [] { interpolate(x({1, 1, 3}), {0}, Interpolation::nearest); }},
  // ---- normalisation and attention
  {"shape that is not the last axes", shape_error, "layer_norm", [] { layer_norm(x({2, 3}), {4}); }},
  {"weight that does not fit", shape_error, "layer_norm", [] { layer_norm(x({2, 3}), {3}, x({4})); }},
  {"weight that does not fit", shape_error, "rms_norm", [] { rms_norm(x({2, 3}), x({4})); }},
  {"channels not divisible by groups", shape_error, "group_norm", [] { group_norm(x({2, 3, 4}), 2); }},
  {"groups 0", value_error, "group_norm", [] { group_norm(x({2, 3, 4}), 0); }},
  {"statistics that do not fit", shape_error, "batch_norm", [] { batch_norm(x({2, 3, 4}), x({4}), x({4})); }},
  {"weight that does not fit", shape_error, "batch_norm", [] { batch_norm(x({2, 3, 4}), x({3}), x({3}), x({2})); }},
  {"heads that do not divide", shape_error, "attention", [] { attention(x({1, 3, 2, 4}), x({1, 2, 2, 4}), x({1, 2, 2, 4})); }},
  {"head sizes that differ", shape_error, "attention", [] { attention(x({1, 2, 2, 4}), x({1, 2, 2, 6}), x({1, 2, 2, 6})); }},
  {"keys and values that differ", shape_error, "attention", [] { attention(x({1, 2, 2, 4}), x({1, 2, 3, 4}), x({1, 2, 2, 4})); }},
  {"too few axes", shape_error, "attention", [] { attention(x({2, 2, 4}), x({2, 2, 4}), x({2, 2, 4})); }},
  {"mask that does not broadcast", shape_error, "attention", [] { AttentionOptions o; o.mask = x({3, 3}, DType::bool_); attention(x({1, 1, 2, 4}), x({1, 1, 2, 4}), x({1, 1, 2, 4}), o); }},
  {"negative window", value_error, "attention", [] { AttentionOptions o; o.window = -1; attention(x({1, 1, 2, 4}), x({1, 1, 2, 4}), x({1, 1, 2, 4}), o); }},
  {"odd head size", shape_error, "rope", [] { rope(x({1, 2, 3})); }},
  {"positions that do not fit", shape_error, "rope", [] { rope(x({1, 2, 4}), indices({0, 1, 2})); }},
  {"frequencies that do not fit", shape_error, "rope", [] { rope(x({1, 2, 4}), indices({0, 1}), x({3})); }},
  {"floating positions", dtype_error, "rope", [] { rope(x({1, 2, 4}), x({2})); }},
  {"probability above 1", value_error, "dropout", [] { dropout(x({3}), 1.5); }},
  // ---- losses
  {"target of another shape", shape_error, "mse_loss", [] { mse_loss(x({2, 3}), x({3, 2})); }},
  {"target of another shape", shape_error, "bce_loss", [] { bce_loss(x({2}), x({3})); }},
  {"target of another shape", shape_error, "kl_div_loss", [] { kl_div_loss(x({2, 3}), x({2, 4})); }},
  {"target of another shape", shape_error, "cross_entropy", [] { cross_entropy(x({2, 3}), indices({0, 1, 2})); }},
  {"probabilities of another shape", shape_error, "cross_entropy", [] { cross_entropy(x({2, 3}), x({2, 4})); }},
  {"weights that do not fit", shape_error, "cross_entropy", [] { cross_entropy(x({2, 3}), indices({0, 1}), {.weight = x({2})}); }},
  {"smoothing above 1", value_error, "cross_entropy", [] { cross_entropy(x({2, 3}), indices({0, 1}), {.label_smoothing = 1.5}); }},
  {"floating target", dtype_error, "nll_loss", [] { nll_loss(x({2, 3}), x({2})); }},
  {"integer scores", dtype_error, "cross_entropy", [] { cross_entropy(x({2, 3}, DType::i32), indices({0, 1})); }},
  {"negative delta", value_error, "huber_loss", [] { huber_loss(x({2}), x({2}), Reduction::mean, -1); }},
  {"class out of range", index_error, "gather", [] { cross_entropy(x({2, 3}), indices({0, 3})).eval(); }},
  {"class out of range", index_error, "gather", [] { nll_loss(x({2, 3}), indices({0, -1})).eval(); }},
};
// clang-format on

class BadInput : public ::testing::TestWithParam<Bad> {};

TEST_P(BadInput, ThrowsTheRightError) {
  const auto& bad = GetParam();
  try {
    bad.call();
    FAIL() << bad.operation << " took " << bad.what;
  } catch (const Error& error) {
    EXPECT_EQ(typeid(error), bad.error)
        << bad.operation << ", " << bad.what << ", threw " << typeid(error).name() << ": " << error.what();
    const std::string name = std::string("[") + bad.operation + "]";
    EXPECT_EQ(std::string(error.what()).rfind(name, 0), 0u)
        << bad.what << ": the message should begin with " << name << " but is: " << error.what();
  } catch (const std::exception& error) {
    FAIL() << bad.operation << ", " << bad.what << ", threw what is no hearth::Error: " << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, BadInput, ::testing::ValuesIn(cases), [](const auto& parameter) {
  std::string name = std::to_string(1000 + parameter.index).substr(1) + "_" + parameter.param.operation + "_";
  for (const char* c = parameter.param.what; *c; ++c)
    name += std::isalnum(static_cast<unsigned char>(*c)) ? *c : '_';
  return name;
});

// A failed evaluation leaves the library, and the tensors involved, usable.
TEST(AfterAnError, EvaluationGoesOn) {
  const auto values = tensor({1.0f, 2.0f, 3.0f});
  const auto bad = take(values, tensor<std::int64_t>({0, 9})) + 1;
  EXPECT_THROW(bad.eval(), IndexError);
  EXPECT_THROW(bad.eval(), IndexError);
  EXPECT_EQ((values * 2).to_vector<float>(), (std::vector<float>{2, 4, 6}));
}

}  // namespace
}  // namespace hearth
