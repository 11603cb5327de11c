// Sharing memory with NumPy and whoever speaks DLPack or Python's buffer protocol.
#include "hearth/exchange.h"

#include <nanobind/ndarray.h>

#include <mutex>

#include "bindings.h"

namespace hearth::python {
namespace {

nb::dlpack::dtype dlpack_type(DType dtype) {
  using Code = nb::dlpack::dtype_code;
  const auto bits = static_cast<std::uint8_t>(8 * dtype_size(dtype));
  const Code code = dtype == DType::bool_  ? Code::Bool
                    : dtype == DType::bf16 ? Code::Bfloat
                    : is_floating(dtype)   ? Code::Float
                    : dtype == DType::u8   ? Code::UInt
                                           : Code::Int;
  return {static_cast<std::uint8_t>(code), bits, 1};
}

std::optional<DType> dtype_of_dlpack(nb::dlpack::dtype type) {
  for (int i = 0; i < dtype_count; ++i)
    if (type == dlpack_type(static_cast<DType>(i))) return static_cast<DType>(i);
  return {};
}

int dlpack_device(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::rocm:
      return nb::device::rocm::value;
    case DeviceKind::cuda:
      return nb::device::cuda::value;
    default:
      return nb::device::cpu::value;
  }
}

Device device_of_dlpack(int type, int index) {
  if (type == nb::device::cpu::value) return {};
  if (type == nb::device::rocm::value) return {DeviceKind::rocm, static_cast<std::uint8_t>(index)};
  if (type == nb::device::cuda::value) return {DeviceKind::cuda, static_cast<std::uint8_t>(index)};
  throw DeviceError("[from_dlpack] memory of a device that Hearth does not know (DLPack's number " +
                    std::to_string(type) + ")");
}

// The memory of a tensor as an object that offers it to others. Read-only: other tensors may share it.
nb::object exported(const Tensor& variable) {
  const Tensor x = computed(variable);
  TensorMemory memory;
  {
    const nb::gil_scoped_release unlocked;
    memory = memory_of(x);
  }
  const std::size_t dims = memory.shape.size();
  std::vector<std::size_t> shape(memory.shape.begin(), memory.shape.end());
  std::vector<std::int64_t> strides(memory.strides.begin(), memory.strides.end());
  auto* keep = new std::shared_ptr<const void>(memory.owner);
  const nb::capsule owner(keep,
                          [](void* p) noexcept { delete static_cast<std::shared_ptr<const void>*>(p); });
  const nb::ndarray<nb::array_api, nb::ro> array(const_cast<void*>(memory.data), dims, shape.data(), owner,
                                                 strides.data(), dlpack_type(memory.dtype),
                                                 dlpack_device(memory.device.kind), memory.device.index);
  return nb::cast(array, nb::rv_policy::reference);
}

// Python objects that tensors held on to. The last tensor may die in a thread without the GIL, under locks of
// the library: taking the GIL there could deadlock, so they wait until somebody has it.
class Released {
 public:
  void add(PyObject* object) {
    {
      const std::lock_guard lock(mutex_);
      objects_.push_back(object);
    }
    if (Py_IsInitialized()) Py_AddPendingCall([](void*) { return released().drain(), 0; }, nullptr);
  }
  void drain() {
    std::vector<PyObject*> objects;
    {
      const std::lock_guard lock(mutex_);
      objects.swap(objects_);
    }
    for (PyObject* object : objects) Py_DECREF(object);
  }
  static Released& released() {
    static Released* only = new Released;  // outlives every tensor
    return *only;
  }

 private:
  std::mutex mutex_;
  std::vector<PyObject*> objects_;
};

// A tensor over the memory of an array of another library.
Tensor imported(const nb::ndarray<nb::ro>& array) {
  Released::released().drain();
  const auto dtype = dtype_of_dlpack(array.dtype());
  if (!dtype)
    throw DTypeError("[from_dlpack] elements of a type that Hearth does not have (DLPack's code " +
                     std::to_string(array.dtype().code) + ", " + std::to_string(array.dtype().bits) +
                     " bits)");
  TensorMemory memory;
  memory.data = array.data();
  memory.dtype = *dtype;
  for (std::size_t i = 0; i < array.ndim(); ++i) {
    memory.shape.push_back(static_cast<std::int64_t>(array.shape(i)));
    memory.strides.push_back(array.stride(i));
  }
  memory.device = device_of_dlpack(array.device_type(), array.device_id());
  auto* keep = new nb::ndarray<nb::ro>(array);
  PyObject* owner = nb::capsule(keep, [](void* p) noexcept { delete static_cast<nb::ndarray<nb::ro>*>(p); })
                        .release()
                        .ptr();
  memory.owner = std::shared_ptr<const void>(owner, [](PyObject* p) { Released::released().add(p); });
  return from_memory(memory);
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  try {
    const Tensor& x = tensor_of(nb::handle(self));
    if (x.device().kind != DeviceKind::cpu || x.dtype() == DType::bf16 || is_quantised(x.dtype())) {
      PyErr_SetString(
          PyExc_BufferError,
          "a tensor in host memory of a dtype that buffers know is needed; see cpu() and float()");
      view->obj = nullptr;
      return -1;
    }
    return PyObject_GetBuffer(exported(x).ptr(), view, flags);
  } catch (const nb::python_error& error) {
    nb::python_error(error).restore();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_BufferError, error.what());
  }
  view->obj = nullptr;
  return -1;
}

}  // namespace

void bind_exchange(nb::module_& m, TensorClass& tensor) {
  m.def("_exported", &exported, "x"_a,
        "The memory of a tensor as an object with __dlpack__ and the buffer protocol.");
  m.def("_imported", &imported, "array"_a, "A tensor over the memory of an array.");
  m.def(
      "_reinterpret",
      [](const Tensor& variable, const DTypeIn& dtype) {
        const Tensor x = computed(variable);
        const nb::gil_scoped_release unlocked;
        TensorMemory memory = memory_of(x);
        if (dtype_size(memory.dtype) != dtype_size(dtype))
          throw DTypeError("[reinterpret] dtypes of different sizes");
        memory.dtype = dtype;
        return from_memory(memory);
      },
      "x"_a, "dtype"_a, "The same bits as elements of another dtype.");
  m.def(
      "_from_bytes",
      [](nb::bytes bytes, const Shape& shape, const DTypeIn& dtype) {
        return from_bytes({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, shape, dtype);
      },
      "bytes"_a, "shape"_a, "dtype"_a);
  m.def(
      "_to_bytes",
      [](const Tensor& variable) {
        const Tensor x = computed(variable);
        std::vector<std::byte> bytes;
        {
          const nb::gil_scoped_release unlocked;
          bytes = x.to_bytes();
        }
        return nb::bytes(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      },
      "x"_a);
  tensor.def(
      "data_ptr",
      [](const Tensor& variable) {
        const Tensor x = computed(variable);
        const nb::gil_scoped_release unlocked;
        return reinterpret_cast<std::uintptr_t>(memory_of(x).data);
      },
      "The address of the first element.");
  tensor.def("__dlpack__", [](const Tensor& x, const nb::kwargs& options) {
    nb::dict rest;
    for (const auto [key, value] : options)
      if (nb::cast<std::string>(key) != "stream") rest[key] = value;  // memory_of() has waited
    return exported(x).attr("__dlpack__")(**rest);
  });
  tensor.def("__dlpack_device__", [](const Tensor& x) {
    return nb::make_tuple(dlpack_device(x.device().kind), static_cast<int>(x.device().index));
  });
  // Set on the type itself: Python code cannot define the buffer protocol before 3.12.
  static PyBufferProcs* const procs = reinterpret_cast<PyTypeObject*>(tensor.ptr())->tp_as_buffer;
  procs->bf_getbuffer = &get_buffer;
}

}  // namespace hearth::python
