// Convolution and pooling steps: from layouts to the raw kernels of conv.h and pool.h.
#include <array>

#include "cpu/conv.h"
#include "cpu/dense.h"
#include "cpu/kernels.h"
#include "cpu/pool.h"
#include "hearth/error.h"

namespace hearth::cpu {
namespace {

// Spatial values as three axes, the missing leading ones filled up.
void spread(const std::int64_t* values, std::size_t axes, std::int64_t missing, std::int64_t (&out)[3]) {
  for (std::size_t i = 0; i < 3; ++i) out[i] = i + axes < 3 ? missing : values[i + axes - 3];
}

ConvShape conv_shape(const Shape& x, const Shape& w, const Shape& y, const WindowAttributes& window) {
  const std::size_t axes = window.kernel.size();
  ConvShape shape{};
  shape.batch = x[0];
  shape.groups = window.groups;
  shape.in_channels = x[1];
  shape.out_channels = w[0];
  spread(x.data() + 2, axes, 1, shape.in);
  spread(y.data() + 2, axes, 1, shape.out);
  spread(window.kernel.data(), axes, 1, shape.kernel);
  spread(window.stride.data(), axes, 1, shape.stride);
  spread(window.padding.data(), axes, 0, shape.padding);
  spread(window.dilation.data(), axes, 1, shape.dilation);
  return shape;
}

PoolShape pool_shape(const Shape& x, const Shape& y, const WindowAttributes& window) {
  const std::size_t axes = window.kernel.size(), lead = x.size() - axes;
  PoolShape shape{};
  shape.planes = element_count(Shape(x.begin(), x.begin() + lead));
  spread(x.data() + lead, axes, 1, shape.in);
  spread(y.data() + lead, axes, 1, shape.out);
  spread(window.kernel.data(), axes, 1, shape.kernel);
  spread(window.stride.data(), axes, 1, shape.stride);
  spread(window.padding.data(), axes, 0, shape.padding);
  return shape;
}

// Makes a kernel of a function on dense arrays of float or double: `f(inputs, output)`.
template <typename F>
std::unique_ptr<Kernel> on_dense_arrays(const Step& step, F f) {
  const DType computed = step.outputs[0].dtype == DType::f64 ? DType::f64 : DType::f32;
  return kernel(
      [f, computed, inputs = step.inputs, output = step.outputs[0]](const KernelArguments& arguments) {
        std::vector<DenseInput> dense;
        dense.reserve(inputs.size());
        std::array<const void*, 2> pointers{};
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          dense.emplace_back(inputs[i], arguments.inputs[i], computed);
          pointers[i] = dense.back().data();
        }
        DenseOutput result(output, arguments.outputs[0], computed);
        if (computed == DType::f64)
          f(static_cast<const double*>(pointers[0]), static_cast<const double*>(pointers[1]),
            static_cast<double*>(result.data()));
        else
          f(static_cast<const float*>(pointers[0]), static_cast<const float*>(pointers[1]),
            static_cast<float*>(result.data()));
        result.store();
      });
}

}  // namespace

std::unique_ptr<Kernel> make_convolution(const Step& step) {
  const auto& window = std::get<WindowAttributes>(step.attributes);
  const Shape &first = step.inputs[0].shape, &second = step.inputs[1].shape, &out = step.outputs[0].shape;
  switch (step.op) {
    case Op::conv:
      return on_dense_arrays(step, [shape = conv_shape(first, second, out, window)](auto x, auto w, auto y) {
        conv_forward(shape, x, w, decltype(x){nullptr}, y);
      });
    case Op::conv_input_grad:
      return on_dense_arrays(step, [shape = conv_shape(out, second, first, window)](
                                       auto dy, auto w, auto dx) { conv_input_gradient(shape, dy, w, dx); });
    default:
      return on_dense_arrays(step, [shape = conv_shape(first, out, second, window)](
                                       auto x, auto dy, auto dw) { conv_weight_gradient(shape, x, dy, dw); });
  }
}

std::unique_ptr<Kernel> make_pooling(const Step& step) {
  const auto& window = std::get<WindowAttributes>(step.attributes);
  const Shape &first = step.inputs[0].shape, &out = step.outputs[0].shape;
  const bool include = window.count_include_pad;
  switch (step.op) {
    case Op::max_pool:
      return on_dense_arrays(step, [shape = pool_shape(first, out, window)](auto x, auto, auto y) {
        max_pool_forward(shape, x, y);
      });
    case Op::max_pool_grad:
      return on_dense_arrays(step, [shape = pool_shape(out, step.inputs[1].shape, window)](
                                       auto x, auto dy, auto dx) { max_pool_backward(shape, x, dy, dx); });
    case Op::avg_pool:
      return on_dense_arrays(step, [shape = pool_shape(first, out, window), include](auto x, auto, auto y) {
        avg_pool_forward(shape, include, x, y);
      });
    default:
      return on_dense_arrays(step, [shape = pool_shape(out, first, window), include](auto dy, auto, auto dx) {
        avg_pool_backward(shape, include, dy, dx);
      });
  }
}

}  // namespace hearth::cpu
