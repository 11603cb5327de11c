// Kernels of the user's own.
#include "hearth/kernel.h"

#include <cstring>
#include <deque>

#include "bindings.h"

namespace hearth::python {
namespace {

LaunchSizes::Extent extent(const SizesIn& sizes, const char* what) {
  const std::vector<std::int64_t>& values = sizes;
  if (values.empty() || values.size() > 3)
    throw ValueError(std::string("[launch] ") + what + " has one to three sizes");
  unsigned result[3] = {1, 1, 1};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < 0 || values[i] > 0xffffffffLL)
      throw ValueError(std::string("[launch] ") + what + " has the size " + std::to_string(values[i]));
    result[i] = static_cast<unsigned>(values[i]);
  }
  return {result[0], result[1], result[2]};
}

// Sixteen bytes that hold one argument.
struct Scalar {
  alignas(16) std::byte bytes[16];
  std::size_t size = 0;
  template <typename T>
  void put(T value) {
    std::memcpy(bytes, &value, sizeof value);
    size = sizeof value;
  }
};

// A Python int is an `int`, a float a `float`; NumPy's and ctypes' numbers are passed as what they are.
Scalar scalar_of(nb::handle object) {
  Scalar scalar;
  if (PyBool_Check(object.ptr())) {
    scalar.put(object.ptr() == Py_True);
  } else if (PyLong_Check(object.ptr())) {
    const long long value = PyLong_AsLongLong(object.ptr());
    if (value == -1 && PyErr_Occurred()) throw nb::python_error();
    if (value < INT32_MIN || value > INT32_MAX)
      throw ValueError("[launch] " + std::to_string(value) +
                       " does not fit an int; pass numpy.int64(...) to a parameter of 64 bits");
    scalar.put(static_cast<std::int32_t>(value));
  } else if (PyFloat_CheckExact(object.ptr())) {
    scalar.put(static_cast<float>(PyFloat_AS_DOUBLE(object.ptr())));
  } else if (PyObject_CheckBuffer(object.ptr())) {
    Py_buffer view;
    if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_SIMPLE) != 0) throw nb::python_error();
    scalar.size = static_cast<std::size_t>(view.len);
    const bool fits = scalar.size <= sizeof scalar.bytes;
    if (fits) std::memcpy(scalar.bytes, view.buf, scalar.size);
    PyBuffer_Release(&view);
    if (!fits) throw ValueError("[launch] an argument that is neither a tensor nor a number");
  } else {
    throw nb::type_error("arguments of a kernel are tensors and numbers (Python's, NumPy's or of ctypes)");
  }
  return scalar;
}

void launch(const GpuKernel& kernel, const SizesIn& blocks, const SizesIn& threads, const nb::args& arguments,
            unsigned shared_bytes) {
  std::deque<Scalar> scalars;  // does not move what it holds
  std::vector<GpuKernel::Value> values;
  for (const nb::handle argument : arguments) {
    if (nb::isinstance<Tensor>(argument)) {
      values.emplace_back(tensor_of(argument));
      continue;
    }
    scalars.push_back(scalar_of(argument));
    GpuKernel::Value value(scalars.back().bytes);
    value.bytes = scalars.back().size;
    values.push_back(value);
  }
  const LaunchSizes sizes{extent(blocks, "blocks"), extent(threads, "threads"), shared_bytes};
  const nb::gil_scoped_release unlocked;
  kernel.launch_values(sizes, values);
}

}  // namespace

void bind_kernels(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_kernels", "GPU kernels of your own.");
  nb::class_<GpuKernel>(m, "Kernel", "A kernel on one device.")
      .def("launch", &launch, "blocks"_a, "threads"_a, "arguments"_a, nb::kw_only(), "shared_bytes"_a = 0,
           "Starts blocks x threads threads (each one number or up to three) with the arguments: tensors of "
           "the kernel's "
           "device as pointers; a Python int is an int, a float a float; NumPy's numbers are what they are.")
      .def_prop_ro("name", &GpuKernel::name)
      .def_prop_ro("device", &GpuKernel::device)
      .def_prop_ro("architecture",
                   [](const GpuKernel& kernel) { return device_info(kernel.device()).architecture; })
      .def_prop_ro("registers", &GpuKernel::registers, "Per thread.")
      .def_prop_ro("shared_bytes", &GpuKernel::shared_bytes, "That the kernel declares.")
      .def_prop_ro("spilled_bytes", &GpuKernel::spilled_bytes, "Per thread, for want of registers.")
      .def_prop_ro("most_threads", &GpuKernel::most_threads, "That a block may have.");
  m.def(
      "compile",
      [](const std::string& source, const std::string& name, const std::optional<DeviceIn>& device,
         const std::vector<std::string>& options) {
        const Device on = device ? Device(*device) : default_device();
        const nb::gil_scoped_release unlocked;
        return compile_kernel(source, name, on, options);
      },
      "source"_a, "name"_a, "device"_a = nb::none(), "options"_a = std::vector<std::string>(),
      "Compiles C++ with an extern \"C\" __global__ function `name` for a GPU.");
  m.def("cache_stats", [] {
    const KernelCacheStats stats = kernel_cache_stats();
    nb::dict result;
    result["compilations"] = stats.compilations;
    result["memory_hits"] = stats.memory_hits;
    result["disk_hits"] = stats.disk_hits;
    result["errors"] = stats.errors;
    result["seconds"] = stats.seconds;
    return result;
  });
  m.def("clear_cache", &clear_kernel_cache, "Forgets compiled kernels, in memory and on disk.");
}

}  // namespace hearth::python
