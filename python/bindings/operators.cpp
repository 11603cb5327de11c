// Python's operators on tensors.
#include "bindings.h"
#include "hearth/grad.h"
#include "hearth/ops.h"

namespace hearth::python {
namespace {

using Binary = Tensor (*)(const Tensor&, const Tensor&);

// x op= y. A variable is assigned, so that every handle sees it; a value on the way to a gradient is replaced
// by the result, so that the gradient goes on.
nb::object change(nb::handle self, const Tensor& result) {
  Tensor& x = tensor_of(self);
  if (result.requires_grad()) {
    if (x.requires_grad() && x.is_leaf())
      throw ValueError("[in-place] a leaf that requires a gradient can be changed within no_grad() only");
    if (!(result.shape() == x.shape()))
      throw ShapeError("[in-place] the result has the shape " + to_string(result.shape()) + ", the tensor " +
                       to_string(x.shape()));
    x = result;
  } else {
    assign(x, result);
  }
  return nb::borrow(self);
}

}  // namespace

void bind_operators(TensorClass& tensor) {
  const auto operators = [&](const char* name, const char* reflected, const char* in_place, Binary function) {
    tensor.def(
        name, [function](const Tensor& a, const In& b) { return function(a, b); }, nb::is_operator());
    if (reflected)
      tensor.def(
          reflected, [function](const Tensor& b, const In& a) { return function(a, b); }, nb::is_operator());
    if (in_place)
      tensor.def(
          in_place,
          [function](nb::handle_t<Tensor> a, const In& b) { return change(a, function(tensor_of(a), b)); },
          nb::is_operator());
  };
  operators("__add__", "__radd__", "__iadd__", add);
  operators("__sub__", "__rsub__", "__isub__", sub);
  operators("__mul__", "__rmul__", "__imul__", mul);
  operators("__truediv__", "__rtruediv__", "__itruediv__", div);
  operators("__floordiv__", "__rfloordiv__", "__ifloordiv__", floor_divide);
  operators("__mod__", "__rmod__", "__imod__", remainder);
  operators("__pow__", "__rpow__", "__ipow__", pow);
  operators("__matmul__", "__rmatmul__", nullptr, matmul);
  operators("__and__", "__rand__", "__iand__", bitwise_and);
  operators("__or__", "__ror__", "__ior__", bitwise_or);
  operators("__xor__", "__rxor__", "__ixor__", bitwise_xor);
  operators("__lshift__", "__rlshift__", nullptr, shift_left);
  operators("__rshift__", "__rrshift__", nullptr, shift_right);
  operators("__eq__", nullptr, nullptr, eq);
  operators("__ne__", nullptr, nullptr, ne);
  operators("__lt__", nullptr, nullptr, lt);
  operators("__le__", nullptr, nullptr, le);
  operators("__gt__", nullptr, nullptr, gt);
  operators("__ge__", nullptr, nullptr, ge);
  tensor.def("__neg__", [](const Tensor& x) { return neg(x); })
      .def("__pos__", [](const Tensor& x) { return x; })
      .def("__abs__", [](const Tensor& x) { return abs(x); })
      .def("__invert__", [](const Tensor& x) { return bitwise_not(x); });
}

}  // namespace hearth::python
