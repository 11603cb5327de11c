// Products, convolution, pooling, attention.
#include "bindings.h"
#include "hearth/ops.h"
#include "hearth/precision.h"
#include "hearth/quantise.h"

namespace hearth::python {
namespace {

using Convolution = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&);

std::vector<std::int64_t> repeated(const SizesIn& sizes, std::size_t axes) {
  return sizes.sizes.size() == 1 ? std::vector<std::int64_t>(axes, sizes.sizes[0]) : sizes.sizes;
}

Tensor dropped(const In& x, double p, bool training) { return dropout(x, p, training); }

}  // namespace

void bind_contractions(nb::module_& m, TensorClass& tensor) {
  const auto product = [&](const char* name, Tensor (*function)(const Tensor&, const Tensor&),
                           const char* doc) {
    m.def(name, given(function), "a"_a, "b"_a, doc);
    tensor.def(name, given(function), "other"_a, doc);
  };
  product("matmul", &matmul, "a @ b by NumPy's rules.");
  product("batch_matmul", &batch_matmul, "Products of the matrices of two batches.");
  product("bmm", &batch_matmul, "batch_matmul");
  product("outer", &outer, "All products of the elements of two vectors.");
  product("dot", &dot, "The inner product of two vectors.");
  m.def(
      "einsum",
      [](const std::string& equation, const nb::args& operands) {
        std::vector<Tensor> tensors;
        for (const nb::handle operand : operands) {
          In in;
          if (!in.read(operand)) throw nb::type_error("einsum(equation, tensors...)");
          tensors.push_back(in);
        }
        return einsum(equation, tensors);
      },
      "equation"_a, "operands"_a, "Sums of products in Einstein's notation.");
  m.def(
      "linear", [](const In& x, const In& weight, const MaybeIn& bias) { return linear(x, weight, bias); },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "x @ weight^T + bias, with weight (out, in).");

  const auto convolution = [&](const char* name, Convolution function) {
    m.def(
        name,
        [function](const In& x, const In& weight, const MaybeIn& bias, const SizesIn& stride,
                   const SizesIn& padding, const SizesIn& dilation, std::int64_t groups) {
          return function(x, weight, bias,
                          {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
        },
        "x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "dilation"_a = 1,
        "groups"_a = 1,
        "Convolution: x (batch, channels, spatial...), weight (out, in / groups, kernel...).");
  };
  convolution("conv1d", &conv1d);
  convolution("conv2d", &conv2d);
  convolution("conv3d", &conv3d);
  const auto transposed = [&](const char* name, Convolution function) {
    m.def(
        name,
        [function](const In& x, const In& weight, const MaybeIn& bias, const SizesIn& stride,
                   const SizesIn& padding, const SizesIn& output_padding, std::int64_t groups,
                   const SizesIn& dilation) {
          return function(x, weight, bias,
                          {.stride = stride,
                           .padding = padding,
                           .dilation = dilation,
                           .groups = groups,
                           .output_padding = output_padding});
        },
        "x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "output_padding"_a = 0,
        "groups"_a = 1, "dilation"_a = 1, "Transposed convolution: weight (in, out / groups, kernel...).");
  };
  transposed("conv_transpose1d", &conv_transpose1d);
  transposed("conv_transpose2d", &conv_transpose2d);
  transposed("conv_transpose3d", &conv_transpose3d);

  const auto max_pool = [&](const char* name, Tensor (*function)(const Tensor&, const PoolOptions&)) {
    m.def(
        name,
        [function](const In& x, const SizesIn& kernel, const std::optional<SizesIn>& stride,
                   const SizesIn& padding) {
          return function(x, {.kernel = kernel, .stride = stride.value_or(SizesIn{}), .padding = padding});
        },
        "x"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "The largest of each window.");
  };
  max_pool("max_pool1d", &max_pool1d);
  max_pool("max_pool2d", &max_pool2d);
  max_pool("max_pool3d", &max_pool3d);
  const auto avg_pool = [&](const char* name, Tensor (*function)(const Tensor&, const PoolOptions&)) {
    m.def(
        name,
        [function](const In& x, const SizesIn& kernel, const std::optional<SizesIn>& stride,
                   const SizesIn& padding, bool count_include_pad) {
          return function(x, {.kernel = kernel,
                              .stride = stride.value_or(SizesIn{}),
                              .padding = padding,
                              .count_include_pad = count_include_pad});
        },
        "x"_a, "kernel_size"_a, "stride"_a = nb::none(), "padding"_a = 0, "count_include_pad"_a = true,
        "The mean of each window.");
  };
  avg_pool("avg_pool1d", &avg_pool1d);
  avg_pool("avg_pool2d", &avg_pool2d);
  avg_pool("avg_pool3d", &avg_pool3d);
  // One size stands for all axes.
  const auto adaptive = [&](const char* name,
                            Tensor (*function)(const Tensor&, const std::vector<std::int64_t>&),
                            std::size_t axes, const char* doc) {
    m.def(
        name,
        [function, axes](const In& x, const SizesIn& size) { return function(x, repeated(size, axes)); },
        "x"_a, "output_size"_a, doc);
  };
  m.def("adaptive_avg_pool1d", given(&adaptive_avg_pool1d), "x"_a, "output_size"_a,
        "Means of so many windows.");
  adaptive("adaptive_avg_pool2d", &adaptive_avg_pool2d, 2, "Means of so many windows.");
  adaptive("adaptive_avg_pool3d", &adaptive_avg_pool3d, 3, "Means of so many windows.");
  m.def("adaptive_max_pool1d", given(&adaptive_max_pool1d), "x"_a, "output_size"_a,
        "Maxima of so many windows.");
  adaptive("adaptive_max_pool2d", &adaptive_max_pool2d, 2, "Maxima of so many windows.");
  m.def(
      "interpolate",
      [](const In& x, const SizesIn& size, const std::string& mode, bool align_corners) {
        if (mode != "nearest" && mode != "linear" && mode != "bilinear" && mode != "trilinear")
          throw ValueError("[interpolate] mode is nearest, linear, bilinear or trilinear, not '" + mode +
                           "'");
        return interpolate(x, repeated(size, x->ndim() > 2 ? x->ndim() - 2 : 1),
                           mode == "nearest" ? Interpolation::nearest : Interpolation::linear, align_corners);
      },
      "x"_a, "size"_a, "mode"_a = "nearest", "align_corners"_a = false, "The spatial axes resized.");

  m.def(
      "attention",
      [](const In& q, const In& k, const In& v, const MaybeIn& mask, double dropout_p, bool causal,
         std::optional<double> scale, std::int64_t window) {
        return attention(
            q, k, v,
            {.causal = causal, .window = window, .scale = scale, .mask = mask, .dropout = dropout_p});
      },
      "query"_a, "key"_a, "value"_a, "attn_mask"_a = nb::none(), "dropout_p"_a = 0.0, "is_causal"_a = false,
      "scale"_a = nb::none(), "window"_a = 0,
      "softmax(q @ k^T * scale + mask) @ v of (batch, heads, length, size); keys may have fewer heads. In a "
      "bool mask "
      "true means \"may attend\".");
  m.def(
      "rope",
      [](const In& x, double base, std::int64_t offset, bool interleaved, const MaybeIn& positions) {
        const Tensor& given_positions = positions;
        if (given_positions.defined()) return rope(x, given_positions, base, interleaved);
        return rope(x, base, offset, interleaved);
      },
      "x"_a, "base"_a = 10000.0, "offset"_a = 0, "interleaved"_a = false, "positions"_a = nb::none(),
      "Rotary position embedding of x (..., length, size).");
  m.def("dropout", &dropped, "x"_a, "p"_a = 0.5, "training"_a = true,
        "Elements zeroed with probability p, the others scaled by 1 / (1 - p).");

  m.def(
      "quantize",
      [](const In& x, const DTypeIn& format) {
        const Tensor tensor = *x;
        const nb::gil_scoped_release unlocked;
        return quantise(tensor, format);
      },
      "x"_a, "format"_a, "x in a block format: 'q4_0', 'q8_0', 'q4_k', ...");
  m.def(
      "dequantize", [](const In& x, const DTypeIn& dtype) { return dequantise(x, dtype); }, "x"_a,
      "dtype"_a = DType::f32, "Blocks as numbers.");
  m.def("quantized_matmul", given(&quantised_matmul), "x"_a, "weight"_a,
        "x @ weight^T with a weight in blocks.");

  m.def("low_precision", given(&low_precision), "x"_a,
        "A float32 tensor in the type of the autocast, if there is one.");
  m.def("full_precision", given(&full_precision), "x"_a,
        "A 16-bit tensor in float32, if there is an autocast.");
}

}  // namespace hearth::python
