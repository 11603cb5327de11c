// Dtypes and devices.
#include "bindings.h"
#include "hearth/event.h"

namespace hearth::python {
namespace {

constexpr std::pair<const char*, DType> numpy_names[] = {
    {"bool_", DType::bool_},   {"uint8", DType::u8},      {"int8", DType::i8},     {"int16", DType::i16},
    {"int32", DType::i32},     {"int64", DType::i64},     {"float16", DType::f16}, {"bfloat16", DType::bf16},
    {"float32", DType::f32},   {"float64", DType::f64},   {"q4_0", DType::q4_0},   {"q4_1", DType::q4_1},
    {"q5_0", DType::q5_0},     {"q5_1", DType::q5_1},     {"q8_0", DType::q8_0},   {"q2_k", DType::q2_k},
    {"q3_k", DType::q3_k},     {"q4_k", DType::q4_k},     {"q5_k", DType::q5_k},   {"q6_k", DType::q6_k},
    {"iq4_xs", DType::iq4_xs}, {"iq4_nl", DType::iq4_nl}, {"mxfp4", DType::mxfp4},
};

nb::dict info_of(Device device) {
  DeviceInfo info;
  {
    const nb::gil_scoped_release unlocked;
    info = device_info(device);
  }
  nb::dict result;
  result["type"] = to_string(info.device).substr(0, to_string(info.device).find(':'));
  result["device_id"] = info.device.index;
  result["name"] = info.name;
  result["architecture"] = info.architecture;
  result["total_memory"] = info.total_memory;
  result["free_memory"] = info.free_memory;
  result["compute_units"] = info.compute_units;
  if (device.kind == DeviceKind::cpu) {
    result["cores"] = info.compute_units;
    return result;
  }
  result["wave_size"] = info.wave_size;
  result["matrix_unit"] = info.matrix_unit;
  result["float8"] = info.float8;
  result["int8_dot"] = info.int8_dot;
  result["integrated"] = info.integrated;
  result["pci_address"] = info.pci_address;
  result["driver"] = info.driver;
  result["library"] = info.library;
  result["compiler"] = info.compiler;
  return result;
}

}  // namespace

void bind_types(nb::module_& m) {
  auto dtype = nb::enum_<DType>(m, "dtype", "The type of a tensor's elements.");
  for (const auto& [name, value] : numpy_names) dtype.value(name, value);
  for (const auto& [name, value] : numpy_names) m.attr(name) = dtype.attr(name);
  m.def(
      "dtype_size", [](const DTypeIn& type) { return dtype_size(type); }, "dtype"_a, "Bytes of one element.");
  m.def(
      "dtype_name", [](const DTypeIn& type) { return std::string(dtype_name(type)); }, "dtype"_a,
      "The short name of a dtype: 'f32', 'i64', 'q4_k', ...");
  m.def(
      "promote_types", [](const DTypeIn& a, const DTypeIn& b) { return promote(a, b); }, "a"_a, "b"_a,
      "The dtype of an operation on a and b.");

  nb::class_<Device>(m, "Device", "Where a tensor lives: 'cpu', 'rocm:0', 'cuda:1'.")
      .def(
          "__init__", [](Device* self, const DeviceIn& name) { new (self) Device(name); }, "name"_a)
      .def_prop_ro("type",
                   [](Device device) {
                     const std::string name = to_string(device);
                     return name.substr(0, name.find(':'));
                   })
      .def_prop_ro("index", [](Device device) { return device.index; })
      .def("__str__", [](Device device) { return to_string(device); })
      .def("__repr__", [](Device device) { return "Device('" + to_string(device) + "')"; })
      .def(
          "__eq__",
          [](Device a, nb::handle b) {
            if (nb::isinstance<nb::str>(b)) return to_string(a) == nb::cast<std::string>(b);
            const nb::object held = nb::getattr(b, "_device", nb::borrow(b));  // of hearth.device
            return nb::isinstance<Device>(held) && a == nb::cast<Device>(held);
          },
          nb::arg().none())
      .def("__hash__", [](Device device) { return static_cast<int>(device.kind) << 8 | device.index; })
      .def("__getstate__", [](Device device) { return to_string(device); })
      .def("__setstate__",
           [](Device* self, const std::string& name) { new (self) Device(device_from_name(name)); });

  m.def("devices", &devices, nb::call_guard<nb::gil_scoped_release>(), "All devices of this machine.");
  m.def(
      "set_device",
      [](const DeviceIn& device) {
        const Device found = device;
        if (found.kind != DeviceKind::cpu) {
          const nb::gil_scoped_release unlocked;
          device_info(found);  // opens it: what is wrong is said here, not at the first tensor
        }
        set_default_device(found);
      },
      "device"_a,
      "Makes this the device on which tensors are made: 'cpu', 'rocm', 'rocm:0', 'cuda', 'gpu', 'auto', ...");
  m.def(
      "get_device", [] { return to_string(default_device()); },
      "The name of the device on which tensors are made.");
  m.def(
      "device_info",
      [](const std::optional<DeviceIn>& device) {
        return info_of(device ? Device(*device) : default_device());
      },
      "device"_a = nb::none(), "What is known about a device: type, name, architecture, memory, ...");
  m.def(
      "synchronize",
      [](const std::optional<DeviceIn>& device) {
        const Device on = device ? Device(*device) : default_device();
        const nb::gil_scoped_release unlocked;
        synchronize(on);
      },
      "device"_a = nb::none(), "Waits for all work on a device; raises what failed there.");

  nb::class_<Event>(m, "Event", "A mark behind all work that a device has been given.")
      .def(
          "__init__",
          [](Event* self, const std::optional<DeviceIn>& device) {
            new (self) Event(device ? Device(*device) : default_device());
          },
          "device"_a = nb::none())
      .def("reached", &Event::reached, "Whether the work before it is done.")
      .def("wait", &Event::wait, nb::call_guard<nb::gil_scoped_release>())
      .def("seconds_since", &Event::seconds_since, "earlier"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Seconds between two marks, by the device's clock.");
}

}  // namespace hearth::python
