// What casters.h promises.
#include "casters.h"

namespace hearth::python {

Tensor& tensor_of(nb::handle object) {
  if (!nb::inst_ready(object)) throw nb::type_error("a Tensor that was never initialised");
  return *nb::inst_ptr<Tensor>(object);
}

bool In::read(nb::handle source) {
  static PyTypeObject* const tensor_type = reinterpret_cast<PyTypeObject*>(nb::type<Tensor>().ptr());
  PyObject* object = source.ptr();
  if (PyObject_TypeCheck(object, tensor_type)) {
    if (!nb::inst_ready(source)) return false;
    tensor_ = nb::inst_ptr<Tensor>(source);
    return true;
  }
  if (PyFloat_Check(object)) {
    own_ = Tensor(PyFloat_AS_DOUBLE(object));
  } else if (PyBool_Check(object)) {
    own_ = Tensor(object == Py_True);
  } else if (PyLong_Check(object)) {
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    own_ = overflow ? Tensor(PyLong_AsDouble(object)) : Tensor(static_cast<std::int64_t>(value));
    if (PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
  } else if (PyList_Check(object) || PyTuple_Check(object) || PyObject_CheckBuffer(object) ||
             PyObject_HasAttrString(object, "__array__") || PyObject_HasAttrString(object, "__dlpack__")) {
    array_ = source;
    return true;
  } else {
    return false;
  }
  tensor_ = &own_;
  return true;
}

void In::convert_array() const {
  const nb::object tensor = nb::module_::import_("hearth._convert").attr("as_tensor")(array_);
  own_ = tensor_of(tensor);
  tensor_ = &own_;
}

bool DeviceIn::read(nb::handle source) {
  if (nb::isinstance<Device>(source)) {
    device_ = nb::cast<Device>(source);
    return true;
  }
  if (nb::try_cast(source, name_)) return true;
  const nb::object held = nb::getattr(source, "_device", nb::none());  // of hearth.device
  return nb::try_cast(held, device_);
}

bool read_integers(nb::handle source, std::vector<std::int64_t>& integers) {
  const auto read = [&](PyObject* object) {
    if (!PyIndex_Check(object)) return false;
    const long long value = PyLong_AsLongLong(nb::steal(PyNumber_Index(object)).ptr());
    if (value == -1 && PyErr_Occurred()) {
      PyErr_Clear();
      return false;
    }
    integers.push_back(value);
    return true;
  };
  integers.clear();
  if (PyTuple_Check(source.ptr()) || PyList_Check(source.ptr())) {
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(source.ptr());
    for (Py_ssize_t i = 0; i < count; ++i)
      if (!read(PySequence_Fast_GET_ITEM(source.ptr(), i))) return false;
    return true;
  }
  return read(source.ptr());
}

Shape shape_of(const nb::args& sizes) {
  std::vector<std::int64_t> values;
  const bool one_sequence =
      sizes.size() == 1 && (PyTuple_Check(sizes[0].ptr()) || PyList_Check(sizes[0].ptr()));
  if (!read_integers(one_sequence ? nb::handle(sizes[0]) : nb::handle(sizes), values))
    throw nb::type_error("sizes are whole numbers, or one tuple or list of them");
  return {values.begin(), values.end()};
}

bool read_dtype(nb::handle source, DType& dtype) {
  if (nb::isinstance<DType>(source)) {
    dtype = nb::cast<DType>(source);
    return true;
  }
  PyObject* object = source.ptr();
  if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) {
    dtype = DType::f32;
  } else if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    dtype = DType::i64;
  } else if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) {
    dtype = DType::bool_;
  } else {
    // A name, a NumPy dtype ("name") or a NumPy type ("__name__").
    std::string name;
    try {
      if (nb::isinstance<nb::str>(source))
        name = nb::cast<std::string>(source);
      else if (nb::hasattr(source, "name"))
        name = nb::cast<std::string>(source.attr("name"));
      else if (nb::hasattr(source, "__name__"))
        name = nb::cast<std::string>(source.attr("__name__"));
      else
        return false;
      dtype = dtype_from_name(name == "bool_" ? "bool" : name);
    } catch (const std::exception&) {
      return false;
    }
  }
  return true;
}

}  // namespace hearth::python
