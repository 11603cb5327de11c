// How Python values become arguments: tensors from numbers and arrays, shapes and axes from ints and
// sequences, dtypes and devices from names.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <vector>

#include "hearth/error.h"
#include "hearth/tensor.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace hearth::python {

// The tensor in a Python object of the class Tensor. Throws a TypeError for one whose __init__ was never
// called.
Tensor& tensor_of(nb::handle object);

// An argument that may be a Tensor, a number, a list, or anything NumPy makes an array of.
class In {
 public:
  // Converts arrays and lists when first asked, so that what is wrong with them is said as it is; needs the
  // GIL.
  operator const Tensor&() const { return **this; }  // NOLINT: stands for a Tensor
  const Tensor& operator*() const {
    if (!tensor_) convert_array();
    return *tensor_;
  }
  const Tensor* operator->() const { return &**this; }

  // False where `source` is nothing of the kind.
  bool read(nb::handle source);

 private:
  void convert_array() const;
  mutable const Tensor* tensor_ = nullptr;  // the one in the Python object, or `own_`
  mutable Tensor own_;
  nb::handle array_;

  friend class MaybeIn;
};

// The same, or None for an undefined tensor.
class MaybeIn : public In {
 public:
  bool read(nb::handle source) {
    if (!source.is_none()) return In::read(source);
    tensor_ = &own_;
    return true;
  }
};

// A dtype, its name, a NumPy dtype or a Python type.
struct DTypeIn {
  DType dtype = DType::f32;
  operator DType() const { return dtype; }  // NOLINT: stands for a DType
};
// A device or its name, looked up when it is used.
class DeviceIn {
 public:
  bool read(nb::handle source);
  operator Device() const { return name_.empty() ? device_ : device_from_name(name_); }  // NOLINT

 private:
  Device device_;
  std::string name_;
};

inline Device device_or_default(const std::optional<DeviceIn>& device) {
  return device ? Device(*device) : default_device();
}

// A size for each axis: one sequence, or the sizes one by one.
Shape shape_of(const nb::args& sizes);
// One axis, several, or all ({}) for None.
struct AxesIn {
  Axes axes;
  operator const Axes&() const { return axes; }  // NOLINT: stands for Axes
};
// One number for all axes, or one each.
struct SizesIn {
  std::vector<std::int64_t> sizes;
  operator const std::vector<std::int64_t>&() const { return sizes; }  // NOLINT
};

bool read_dtype(nb::handle source, DType& dtype);

// Numbers in a sequence. False where it is none.
bool read_integers(nb::handle source, std::vector<std::int64_t>& integers);

}  // namespace hearth::python

namespace nanobind::detail {

using hearth::python::AxesIn;
using hearth::python::DeviceIn;
using hearth::python::DTypeIn;
using hearth::python::In;
using hearth::python::MaybeIn;
using hearth::python::SizesIn;

template <>
struct type_caster<In> {
  NB_TYPE_CASTER(In, const_name("Tensor | float | numpy.typing.ArrayLike"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept { return value.read(source); }
};

template <>
struct type_caster<MaybeIn> {
  NB_TYPE_CASTER(MaybeIn, const_name("Tensor | float | numpy.typing.ArrayLike | None"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept { return value.read(source); }
};

template <>
struct type_caster<hearth::Shape> {
  NB_TYPE_CASTER(hearth::Shape, const_name("tuple[int, ...]"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    std::vector<std::int64_t> sizes;
    if (!hearth::python::read_integers(source, sizes)) return false;
    value = hearth::Shape(sizes.begin(), sizes.end());
    return true;
  }
  static handle from_cpp(const hearth::Shape& shape, rv_policy, cleanup_list*) noexcept {
    PyObject* result = PyTuple_New(static_cast<Py_ssize_t>(shape.size()));
    if (!result) return {};
    for (std::size_t i = 0; i < shape.size(); ++i) {
      PyObject* size = PyLong_FromLongLong(shape[i]);
      if (!size) {
        Py_DECREF(result);
        return {};
      }
      PyTuple_SET_ITEM(result, static_cast<Py_ssize_t>(i), size);
    }
    return result;
  }
};

template <>
struct type_caster<DTypeIn> {
  NB_TYPE_CASTER(DTypeIn, const_name("dtype | str | numpy.typing.DTypeLike"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    return hearth::python::read_dtype(source, value.dtype);
  }
};

template <>
struct type_caster<DeviceIn> {
  NB_TYPE_CASTER(DeviceIn, const_name("Device | str"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept { return value.read(source); }
};

template <>
struct type_caster<AxesIn> {
  NB_TYPE_CASTER(AxesIn, const_name("int | tuple[int, ...] | None"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    std::vector<std::int64_t> axes;
    if (!source.is_none() && !hearth::python::read_integers(source, axes)) return false;
    value.axes = hearth::Axes(axes.begin(), axes.end());
    return true;
  }
};

template <>
struct type_caster<SizesIn> {
  NB_TYPE_CASTER(SizesIn, const_name("int | tuple[int, ...]"))
  bool from_python(handle source, uint32_t, cleanup_list*) noexcept {
    return hearth::python::read_integers(source, value.sizes);
  }
};

}  // namespace nanobind::detail

namespace hearth::python {

// Arguments of a function as Python gives them: a Tensor may be anything that becomes one.
template <typename T>
struct Given {
  using Type = T;
};
template <>
struct Given<const Tensor&> {
  using Type = const In&;
};
template <>
struct Given<DType> {
  using Type = const DTypeIn&;
};
template <>
struct Given<Device> {
  using Type = const DeviceIn&;
};
template <>
struct Given<const Axes&> {
  using Type = const AxesIn&;
};
template <>
struct Given<const std::vector<std::int64_t>&> {
  using Type = const SizesIn&;
};

// A function of ops.h as one that takes what Python gives.
template <typename Result, typename... Arguments>
auto given(Result (*function)(Arguments...)) {
  return
      [function](typename Given<Arguments>::Type... arguments) -> Result { return function(arguments...); };
}

}  // namespace hearth::python
