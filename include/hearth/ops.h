// Functions on tensors.
//
// Operands broadcast and promote as in NumPy (dtype.h says where not). Every function returns at once and
// computes later. Errors are thrown here, at the call, never at evaluation: ShapeError, DTypeError,
// IndexError, ValueError. Axes may be negative. "differentiable" is meant unless said otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "hearth/tensor.h"

namespace hearth {

// ---- elementwise: one function per row of elementwise.inc, e.g. exp(x), maximum(a, b)
#define HEARTH_UNARY(name, rule, value, gradient, doc) Tensor name(const Tensor& x);
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc) \
  Tensor name(const Tensor& a, const Tensor& b);
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator%(const Tensor& a, const Tensor& b) { return remainder(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }
inline Tensor operator==(const Tensor& a, const Tensor& b) { return eq(a, b); }
inline Tensor operator!=(const Tensor& a, const Tensor& b) { return ne(a, b); }
inline Tensor operator<(const Tensor& a, const Tensor& b) { return lt(a, b); }
inline Tensor operator<=(const Tensor& a, const Tensor& b) { return le(a, b); }
inline Tensor operator>(const Tensor& a, const Tensor& b) { return gt(a, b); }
inline Tensor operator>=(const Tensor& a, const Tensor& b) { return ge(a, b); }

// a where condition is true, else b.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
// Limits x to [low, high]; an absent bound is open. NaN stays NaN.
Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);  // a + weight * (b - a)
Tensor nan_to_num(const Tensor& x, double nan = 0.0);  // infinities become the largest finite values
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);

// ---- activations with parameters
Tensor leaky_relu(const Tensor& x, double slope = 0.01);
Tensor prelu(const Tensor& x, const Tensor& slope);  // slope per channel (axis 1), or one
Tensor elu(const Tensor& x, double alpha = 1.0);
Tensor selu(const Tensor& x);
Tensor celu(const Tensor& x, double alpha = 1.0);
Tensor relu6(const Tensor& x);
Tensor hardtanh(const Tensor& x, double low = -1.0, double high = 1.0);
Tensor hardsigmoid(const Tensor& x);
Tensor hardswish(const Tensor& x);
Tensor softsign(const Tensor& x);
Tensor tanhshrink(const Tensor& x);
Tensor softshrink(const Tensor& x, double lambda = 0.5);
Tensor hardshrink(const Tensor& x, double lambda = 0.5);
Tensor glu(const Tensor& x, std::int64_t axis = -1);  // first half * sigmoid(second half)

// ---- reductions; axes {} means all. Sums and products of integers are i64; sums of halves accumulate in
// f32.
Tensor sum(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
Tensor prod(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
Tensor mean(const Tensor& x, const Axes& axes = {}, bool keepdims = false);  // integers give f32
Tensor max(const Tensor& x, const Axes& axes = {}, bool keepdims = false);  // NaN wins; ValueError when empty
Tensor min(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
Tensor all(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
Tensor any(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
// Index (i64) of the first largest or smallest; without an axis, of the flattened tensor. Not differentiable.
Tensor argmax(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdims = false);
Tensor argmin(const Tensor& x, std::optional<std::int64_t> axis = {}, bool keepdims = false);
// Divides by (count - correction).
Tensor var(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdims = false);
Tensor std(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keepdims = false);
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, bool keepdims = false);
Tensor norm(const Tensor& x, double p = 2.0, const Axes& axes = {}, bool keepdims = false);

// ---- along one axis
Tensor cumsum(const Tensor& x, std::int64_t axis);
Tensor cumprod(const Tensor& x, std::int64_t axis);  // gradient needs non-zero elements
Tensor sort(const Tensor& x, std::int64_t axis = -1, bool descending = false);  // stable; NaN is largest
Tensor argsort(const Tensor& x, std::int64_t axis = -1, bool descending = false);
// The k largest (or smallest), in order, and their indices.
std::pair<Tensor, Tensor> topk(const Tensor& x, std::int64_t k, std::int64_t axis = -1, bool largest = true);
Tensor softmax(const Tensor& x, std::int64_t axis = -1);
Tensor log_softmax(const Tensor& x, std::int64_t axis = -1);

// ---- shape
Tensor reshape(const Tensor& x, const Shape& shape);  // one size may be -1
Tensor view(const Tensor& x, const Shape& shape);     // reshape
Tensor flatten(const Tensor& x, std::int64_t first = 0, std::int64_t last = -1);
Tensor transpose(const Tensor& x, std::int64_t axis0, std::int64_t axis1);
Tensor permute(const Tensor& x, const Axes& order);
Tensor squeeze(const Tensor& x, const Axes& axes = {});  // {} removes every axis of size 1
Tensor unsqueeze(const Tensor& x, std::int64_t axis);
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor slice(const Tensor& x, const std::vector<Slice>& slices);
Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t start, std::int64_t length);
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index);
Tensor flip(const Tensor& x, const Axes& axes);
Tensor roll(const Tensor& x, std::int64_t shift, std::int64_t axis);
Tensor tile(const Tensor& x, const std::vector<std::int64_t>& repeats);
Tensor repeat_interleave(const Tensor& x, std::int64_t repeats, std::int64_t axis);
Tensor concat(const std::vector<Tensor>& tensors, std::int64_t axis = 0);
Tensor stack(const std::vector<Tensor>& tensors, std::int64_t axis = 0);
std::vector<Tensor> split(const Tensor& x, std::int64_t size, std::int64_t axis = 0);  // pieces of `size`
std::vector<Tensor> chunk(const Tensor& x, std::int64_t count, std::int64_t axis = 0);
// `widths`: elements to add before and after each axis, outermost first.
Tensor pad(const Tensor& x, const std::vector<std::pair<std::int64_t, std::int64_t>>& widths,
           double value = 0.0);
Tensor contiguous(const Tensor& x);  // a dense row-major layout
Tensor copy(const Tensor& x);        // a dense copy with storage of its own
Tensor cast(const Tensor& x, DType dtype);
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);
Tensor diagonal(const Tensor& x);  // of the last two axes

// ---- indexing; indices are integers, negative ones count from the end. They are checked at evaluation:
// IndexError.
Tensor take(const Tensor& x, const Tensor& indices, std::int64_t axis = 0);  // whole slices; index_select
// out[i][j] = x[index[i][j]][j] for axis 0, and so on; NumPy's take_along_axis, PyTorch's gather.
Tensor gather(const Tensor& x, std::int64_t axis, const Tensor& indices);
Tensor take_along(const Tensor& x, const Tensor& indices, std::int64_t axis);
// x with out[index[i][j]][j] = source[i][j]; where an index repeats, the last one wins.
Tensor scatter(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source);
// ... with the sources added up.
Tensor scatter_add(const Tensor& x, std::int64_t axis, const Tensor& indices, const Tensor& source);
Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype = DType::f32);
// Rows of `weight` (count, features). A `padding_index` row gets no gradient.
Tensor embedding(const Tensor& indices, const Tensor& weight, std::optional<std::int64_t> padding_index = {});

// ---- contraction
Tensor matmul(const Tensor& a, const Tensor& b);  // NumPy's rules for 1-D and batched operands
Tensor batch_matmul(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);
Tensor dot(const Tensor& a, const Tensor& b);
Tensor einsum(std::string_view equation, const std::vector<Tensor>& operands);
// x @ weight^T + bias, with weight (out, in).
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

// ---- convolution. x (batch, channels, spatial...), weight (out, in / groups, kernel...). One value in an
// option stands for all spatial axes.
struct ConvOptions {
  std::vector<std::int64_t> stride{1};
  std::vector<std::int64_t> padding{0};
  std::vector<std::int64_t> dilation{1};
  std::int64_t groups = 1;
  std::vector<std::int64_t> output_padding{0};  // transposed only
};
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
              const ConvOptions& options = {});
// weight (in, out / groups, kernel...)
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvOptions& options = {});
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvOptions& options = {});
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const ConvOptions& options = {});

// ---- pooling over the last 1, 2 or 3 axes. stride {} means the kernel.
struct PoolOptions {
  std::vector<std::int64_t> kernel;
  std::vector<std::int64_t> stride{};
  std::vector<std::int64_t> padding{0};
  bool count_include_pad = true;  // average only
};
Tensor max_pool1d(const Tensor& x, const PoolOptions& options);
Tensor max_pool2d(const Tensor& x, const PoolOptions& options);
Tensor max_pool3d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool1d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool2d(const Tensor& x, const PoolOptions& options);
Tensor avg_pool3d(const Tensor& x, const PoolOptions& options);
Tensor adaptive_avg_pool1d(const Tensor& x, std::int64_t size);
Tensor adaptive_avg_pool2d(const Tensor& x, const std::vector<std::int64_t>& size);
Tensor adaptive_avg_pool3d(const Tensor& x, const std::vector<std::int64_t>& size);
Tensor adaptive_max_pool1d(const Tensor& x, std::int64_t size);
Tensor adaptive_max_pool2d(const Tensor& x, const std::vector<std::int64_t>& size);

enum class Interpolation { nearest, linear };
// Resizes the spatial axes (all after the second) to `size`, as PyTorch's interpolate.
Tensor interpolate(const Tensor& x, const std::vector<std::int64_t>& size, Interpolation mode,
                   bool align_corners = false);

// ---- normalisation; weight and bias may be undefined
// Over the last axes, those of `weight`'s shape or `axes` trailing ones.
Tensor layer_norm(const Tensor& x, const Shape& normalized, const Tensor& weight = {},
                  const Tensor& bias = {}, double epsilon = 1e-5);
Tensor rms_norm(const Tensor& x, const Tensor& weight = {}, double epsilon = 1e-5);  // over the last axis
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double epsilon = 1e-5);
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                     double epsilon = 1e-5);
// With given statistics per channel (axis 1).
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const Tensor& weight = {},
                  const Tensor& bias = {}, double epsilon = 1e-5);
struct BatchNormResult {
  Tensor output, mean, variance;  // of this batch; the variance divides by the count
};
BatchNormResult batch_norm_train(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {},
                                 double epsilon = 1e-5);

// ---- attention
struct AttentionOptions {
  bool causal = false;            // query i of T sees keys up to i + (S - T)
  std::int64_t window = 0;        // > 0: a query sees only the last `window` keys up to its own position
  std::optional<double> scale{};  // default 1 / sqrt(head size)
  Tensor mask{};         // undefined, bool (true = may attend) or floating (added), broadcast to (B, H, T, S)
  double dropout = 0.0;  // of the weights
};
// q (B, H, T, D), k and v (B, G, S, D), G a divisor of H. A query that may attend to nothing gives zeros.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
// Rotary position embedding of x (..., T, D), D even; position of row t is offset + t. interleaved: pairs
// (2i, 2i + 1), otherwise (i, i + D / 2).
Tensor rope(const Tensor& x, double base = 10000.0, std::int64_t offset = 0, bool interleaved = false);
// ... with the given i64 positions (T).
Tensor rope(const Tensor& x, const Tensor& positions, double base = 10000.0, bool interleaved = false);
// ... and with frequencies (D / 2): the radians that a pair turns by from one position to the next, which are
// base ^ (-2i / D) above. They have no gradient.
Tensor rope(const Tensor& x, const Tensor& positions, const Tensor& frequencies, bool interleaved = false);

// ---- randomness: random.h has the generators
// Zeroes elements with probability p and scales the others by 1 / (1 - p).
Tensor dropout(const Tensor& x, double p, bool training = true);

// ---- losses
enum class Reduction { none, mean, sum };
Tensor mse_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                      double beta = 1.0);
Tensor huber_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                  double delta = 1.0);
Tensor bce_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
Tensor bce_with_logits_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean);
struct ClassLossOptions {
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = -100;
  Tensor weight{};               // per class; the mean is then weighted
  double label_smoothing = 0.0;  // cross_entropy only
};
// x (N, C, ...): log-probabilities, target (N, ...) class indices.
Tensor nll_loss(const Tensor& x, const Tensor& target, const ClassLossOptions& options = {});
// x (N, C, ...): scores, target: class indices (N, ...) or probabilities of x's shape.
Tensor cross_entropy(const Tensor& x, const Tensor& target, const ClassLossOptions& options = {});
// x: log-probabilities. mean divides by the number of elements, as PyTorch's.
Tensor kl_div_loss(const Tensor& x, const Tensor& target, Reduction reduction = Reduction::mean,
                   bool log_target = false);
Tensor cosine_similarity(const Tensor& a, const Tensor& b, std::int64_t axis = 1, double epsilon = 1e-8);
Tensor cosine_embedding_loss(const Tensor& a, const Tensor& b, const Tensor& target, double margin = 0.0,
                             Reduction reduction = Reduction::mean);
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           double margin = 1.0, double p = 2.0, Reduction reduction = Reduction::mean);

}  // namespace hearth
