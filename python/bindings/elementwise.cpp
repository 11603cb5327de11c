// The elementwise operations: one function and one method per row of elementwise.inc.
#include "bindings.h"
#include "hearth/ops.h"

namespace hearth::python {

void bind_elementwise(nb::module_& m, TensorClass& tensor) {
  using Unary = Tensor (*)(const Tensor&);
  using Binary = Tensor (*)(const Tensor&, const Tensor&);
  const auto unary = [&](const char* name, Unary function, const char* doc) {
    m.def(name, given(function), "x"_a, doc);
    tensor.def(
        name, [function](const Tensor& x) { return function(x); }, doc);
  };
  const auto binary = [&](const char* name, Binary function, const char* doc) {
    m.def(name, given(function), "a"_a, "b"_a, doc);
    tensor.def(
        name, [function](const Tensor& a, const In& b) { return function(a, b); }, "other"_a, doc);
  };
#define HEARTH_UNARY(name, rule, value, gradient, doc) unary(#name, &name, doc);
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc) binary(#name, &name, doc);
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY

  nb::list unary_names, binary_names;
#define HEARTH_UNARY(name, rule, value, gradient, doc) unary_names.append(#name);
#define HEARTH_BINARY(name, rule, value, gradient_a, gradient_b, doc) binary_names.append(#name);
#include "hearth/elementwise.inc"
#undef HEARTH_UNARY
#undef HEARTH_BINARY
  m.attr("unary_ops") = unary_names;
  m.attr("binary_ops") = binary_names;

  m.def("where", given(&where), "condition"_a, "a"_a, "b"_a, "a where the condition is true, else b.");
  m.def("clamp", given(&clamp), "x"_a, "min"_a = nb::none(), "max"_a = nb::none(),
        "Limits x to [min, max]; an absent bound is open.");
  tensor.def("clamp", given(&clamp), "min"_a = nb::none(), "max"_a = nb::none(), "Limits the elements.");
  m.def("lerp", given(&lerp), "a"_a, "b"_a, "weight"_a, "a + weight * (b - a)");
  m.def("nan_to_num", given(&nan_to_num), "x"_a, "nan"_a = 0.0,
        "NaN replaced; infinities become the largest values.");
  m.def("masked_fill", given(&masked_fill), "x"_a, "mask"_a, "value"_a,
        "x with `value` where the mask is true.");
  tensor.def("masked_fill", given(&masked_fill), "mask"_a, "value"_a, "`value` where the mask is true.");

  m.def("leaky_relu", given(&leaky_relu), "x"_a, "negative_slope"_a = 0.01,
        "x where positive, else x * slope.");
  m.def("prelu", given(&prelu), "x"_a, "weight"_a, "leaky_relu with a slope per channel (axis 1), or one.");
  m.def("elu", given(&elu), "x"_a, "alpha"_a = 1.0, "x where positive, else alpha * (e^x - 1).");
  m.def("selu", given(&selu), "x"_a, "Scaled elu, whose outputs keep mean 0 and variance 1.");
  m.def("celu", given(&celu), "x"_a, "alpha"_a = 1.0, "max(0, x) + min(0, alpha * (e^(x / alpha) - 1))");
  m.def("relu6", given(&relu6), "x"_a, "min(max(x, 0), 6)");
  m.def("hardtanh", given(&hardtanh), "x"_a, "min_val"_a = -1.0, "max_val"_a = 1.0, "x limited to a range.");
  m.def("hardsigmoid", given(&hardsigmoid), "x"_a, "relu6(x + 3) / 6");
  m.def("hardswish", given(&hardswish), "x"_a, "x * relu6(x + 3) / 6");
  m.def("softsign", given(&softsign), "x"_a, "x / (1 + |x|)");
  m.def("tanhshrink", given(&tanhshrink), "x"_a, "x - tanh(x)");
  m.def("softshrink", given(&softshrink), "x"_a, "lambd"_a = 0.5, "x moved towards 0 by lambda, 0 within.");
  m.def("hardshrink", given(&hardshrink), "x"_a, "lambd"_a = 0.5, "x, 0 within [-lambda, lambda].");
  m.def("glu", given(&glu), "x"_a, "dim"_a = -1, "First half * sigmoid(second half).");
}

}  // namespace hearth::python
