// The class Tensor: what it is, where it is, and its values.
#include <algorithm>
#include <utility>

#include "bindings.h"
#include "hearth/eval.h"
#include "hearth/ops.h"
#include "tensor/variable.h"

namespace hearth::python {
namespace {

thread_local std::vector<Tensor> assigned;

// The only element as a Python number.
nb::object item_of(const Tensor& variable) {
  const Tensor x = computed(variable);
  std::int64_t integer = 0;
  double real = 0;
  {
    const nb::gil_scoped_release unlocked;
    if (is_floating(x.dtype()))
      real = x.item<double>();
    else
      integer = x.item<std::int64_t>();
  }
  if (is_floating(x.dtype())) return nb::float_(real);
  if (x.dtype() == DType::bool_) return nb::bool_(integer != 0);
  return nb::int_(integer);
}

// Nested lists of the elements.
template <typename T>
nb::object nested(const T*& next, const Shape& shape, std::size_t axis) {
  if (axis == shape.size()) return nb::cast(*next++);
  nb::list result;
  for (std::int64_t i = 0; i < shape[axis]; ++i) result.append(nested(next, shape, axis + 1));
  return result;
}

nb::object to_list(const Tensor& variable) {
  const Tensor x = computed(variable);
  const auto values = [&]<typename T>(T) {
    std::vector<T> elements;
    {
      const nb::gil_scoped_release unlocked;
      elements = x.to_vector<T>();
    }
    const T* next = elements.data();
    return nested(next, x.shape(), 0);
  };
  if (is_floating(x.dtype())) return values(double{});
  if (x.dtype() != DType::bool_) return values(std::int64_t{});
  std::vector<std::int64_t> integers;
  {
    const nb::gil_scoped_release unlocked;
    integers = x.to_vector<std::int64_t>();
  }
  std::unique_ptr<bool[]> flags(new bool[integers.size()]);
  std::copy(integers.begin(), integers.end(), flags.get());
  const bool* next = flags.get();
  return nested(next, x.shape(), 0);
}

std::string repr(const Tensor& x) {
  if (!x.defined()) return "Tensor(undefined)";
  if (tracing()) return x.to_string();
  if (!is_quantised(x.dtype())) evaluate({x});
  std::string text = x.to_string();
  if (x.device().kind != DeviceKind::cpu) text += "\non " + to_string(x.device());
  if (x.requires_grad()) text += "\nrequires_grad";
  return text;
}

}  // namespace

void evaluate(std::vector<Tensor> tensors) {
  if (tracing()) throw ValueError("[eval] a value was asked for while a function is being compiled");
  for (Tensor& tensor : tensors) tensor = wrap(node_of(tensor, "eval"));
  tensors.insert(tensors.begin(), assigned.begin(), assigned.end());
  assigned.clear();
  const nb::gil_scoped_release unlocked;
  // A plan is of one device.
  while (!tensors.empty()) {
    const Device device = tensors.front().device();
    const auto others = std::stable_partition(
        tensors.begin(), tensors.end(), [&](const Tensor& tensor) { return tensor.device() == device; });
    if (others == tensors.end()) return eval(tensors);
    eval({tensors.begin(), others});
    tensors.erase(tensors.begin(), others);
  }
}

void assign(Tensor& x, const Tensor& value) {
  x.assign(value);
  if (!tracing()) assigned.push_back(wrap(node_of(x)));
}

Tensor computed(const Tensor& x) {
  Tensor value = wrap(node_of(x));
  evaluate({value});
  return value;
}

TensorClass bind_tensor(nb::module_& m) {
  TensorClass tensor(m, "Tensor", nb::is_weak_referenceable(), nb::dynamic_attr(),
                     "An n-dimensional array, computed when a value is needed.");
  tensor
      .def(
          "__init__", [](Tensor* self, const In& x) { new (self) Tensor((*x).detach()); }, "data"_a)
      .def_prop_ro(
          "shape", [](const Tensor& x) { return x.shape(); }, "Sizes of the axes.")
      .def_prop_ro("dtype", &Tensor::dtype, "The type of the elements.")
      .def_prop_ro("device", &Tensor::device, "Where it lives.")
      .def_prop_ro("ndim", &Tensor::ndim, "Number of axes.")
      .def_prop_ro("nbytes", &Tensor::nbytes)
      .def_prop_ro("itemsize", [](const Tensor& x) { return dtype_size(x.dtype()); })
      .def_prop_ro("is_scalar", [](const Tensor& x) { return x.ndim() == 0; })
      .def("dim", &Tensor::ndim, "Number of axes.")
      .def("numel", &Tensor::numel, "Number of elements.")
      .def(
          "size",
          [](const Tensor& x, std::optional<std::int64_t> axis) -> nb::object {
            return axis ? nb::object(nb::int_(x.size(*axis))) : nb::cast(x.shape());
          },
          "dim"_a = nb::none(), "The size of one axis, or of all.")
      .def("__len__",
           [](const Tensor& x) {
             if (x.ndim() == 0) throw nb::type_error("len() of a tensor without axes");
             return x.size(0);
           })
      .def(
          "eval",
          [](nb::handle_t<Tensor> self) {
            evaluate({tensor_of(self)});
            return nb::borrow(self);
          },
          nb::sig("def eval(self) -> Tensor"),
          "Computes the value if it is not there yet. Returns the tensor.")
      .def("is_evaluated", &Tensor::is_evaluated)
      .def("item", &item_of, "The only element as a Python number.")
      .def("tolist", &to_list, "The elements as nested lists.")
      .def("__float__", [](const Tensor& x) { return nb::float_(item_of(x)); })
      .def("__int__", [](const Tensor& x) { return nb::int_(item_of(x)); })
      .def("__bool__", [](const Tensor& x) { return nb::cast<bool>(nb::bool_(item_of(x))); })
      .def("__index__",
           [](const Tensor& x) {
             if (is_floating(x.dtype()))
               throw nb::type_error("only tensors of whole numbers can be an index");
             return nb::int_(item_of(x));
           })
      .def("__repr__", &repr)
      .def("__hash__",
           [](nb::handle_t<Tensor> self) { return reinterpret_cast<std::intptr_t>(self.ptr()) >> 4; })
      .def(
          "assign", [](Tensor& x, const In& value) { assign(x, value); }, "value"_a,
          "Gives this variable another value of the same shape and dtype.")
      .def(
          "_replace", [](Tensor& x, const Tensor& other) { x = other; }, "other"_a,
          "Lets this handle name another variable.")
      .def("is_same", &Tensor::is, "other"_a, "Whether both name the same variable.")
      .def(
          "to",
          [](const Tensor& x, nb::handle first, nb::handle second, nb::handle dtype_given,
             nb::handle device_given, bool) {
            Tensor result = x;
            for (const nb::handle target : {first, second, dtype_given, device_given}) {
              if (target.is_none()) continue;
              DType dtype;
              DeviceIn device;
              if (nb::isinstance<Tensor>(target)) {
                const Tensor& other = tensor_of(target);
                const nb::gil_scoped_release unlocked;
                result = result.to(other.dtype()).to(other.device());
              } else if (read_dtype(target, dtype)) {
                result = result.to(dtype);
              } else if (device.read(target)) {
                const nb::gil_scoped_release unlocked;
                result = result.to(Device(device));
              } else {
                throw nb::type_error("to() takes a dtype, a device or a tensor");
              }
            }
            return result;
          },
          "first"_a = nb::none(), "second"_a = nb::none(), nb::kw_only(), "dtype"_a = nb::none(),
          "device"_a = nb::none(), "non_blocking"_a = false,
          nb::sig(
              "def to(self, first: dtype | Device | Tensor | str | None = None, second: dtype | Device | "
              "str | None = None, *, dtype: dtype | str | None = None, device: Device | str | None = None, "
              "non_blocking: bool = False) -> Tensor"),
          "The tensor in another dtype, on another device, or both. non_blocking, as PyTorch has it, changes "
          "nothing: work is waited for when a value is needed.");
  const auto move = [&](const char* name, DeviceKind kind) {
    tensor.def(
        name,
        [kind](const Tensor& x) {
          const nb::gil_scoped_release unlocked;
          return x.to(Device{kind, 0});
        },
        "The tensor there; itself where it is there already.");
  };
  move("cpu", DeviceKind::cpu);
  move("rocm", DeviceKind::rocm);
  move("cuda", DeviceKind::cuda);
  const auto cast_to = [&](const char* name, DType dtype) {
    tensor.def(
        name, [dtype](const Tensor& x) { return x.to(dtype); }, "The tensor in this dtype.");
  };
  cast_to("float", DType::f32);
  cast_to("double", DType::f64);
  cast_to("half", DType::f16);
  cast_to("bfloat16", DType::bf16);
  cast_to("long", DType::i64);
  cast_to("int", DType::i32);
  cast_to("bool", DType::bool_);
  return tensor;
}

}  // namespace hearth::python
