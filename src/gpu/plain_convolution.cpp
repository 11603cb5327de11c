// From a step to what libraries are told.
#include "gpu/plain_convolution.h"

#include <fmt/format.h>

#include <climits>

namespace hearth::gpu {
namespace {

// With a first spatial axis that does nothing where there is only one; `skip` axes are not spatial.
Shape with_two_axes(const Shape& values, std::size_t skip, std::int64_t missing) {
  Shape result = values;
  if (values.size() == skip + 1) result.insert(skip, missing);
  return result;
}

std::int64_t taps(const Shape& w) { return element_count(w) / (w[0] * w[1]); }

}  // namespace

double PlainConvolution::multiplications() const {
  return static_cast<double>(element_count(y())) * static_cast<double>(w()[1] * taps(w()));
}

std::int64_t PlainConvolution::depth() const {
  if (op == Op::conv) return w()[1] * taps(w());
  if (op == Op::conv_input_grad) return w()[0] / groups * taps(w());
  return element_count(y()) / y()[1];
}

std::string PlainConvolution::text() const {
  std::string text =
      fmt::format("{} {} x {} w {} stride {} padding {}", op_name(op), dtype_name(dtype), fmt::join(x(), "x"),
                  fmt::join(w(), "x"), fmt::join(stride, "x"), fmt::join(padding, "x"));
  if (element_count(dilation) != 1) text += fmt::format(" dilation {}", fmt::join(dilation, "x"));
  if (groups != 1) text += fmt::format(" groups {}", groups);
  return text;
}

std::optional<PlainConvolution> plain_convolution(const Step& step) {
  const DType dtype = step.outputs[0].dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return std::nullopt;
  for (const Layout& layout : {step.inputs[0], step.inputs[1], step.outputs[0]}) {
    const std::int64_t count = element_count(layout.shape);
    if (layout.dtype != dtype || !layout.contiguous() || count == 0 || count > INT_MAX) return std::nullopt;
  }
  const auto& window = std::get<WindowAttributes>(step.attributes);
  return PlainConvolution{.op = step.op,
                          .dtype = dtype,
                          .a = with_two_axes(step.inputs[0].shape, 2, 1),
                          .b = with_two_axes(step.inputs[1].shape, 2, 1),
                          .result = with_two_axes(step.outputs[0].shape, 2, 1),
                          .stride = with_two_axes(window.stride, 0, 1),
                          .padding = with_two_axes(window.padding, 0, 0),
                          .dilation = with_two_axes(window.dilation, 0, 1),
                          .groups = window.groups};
}

}  // namespace hearth::gpu
