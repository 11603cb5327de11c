// Files.
#include "hearth/io.h"

#include <nanobind/stl/map.h>

#include "bindings.h"
#include "hearth/gguf.h"

namespace hearth::python {

void bind_io(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_io", "Files with tensors in them.");
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  m.def("save_safetensors", &save_safetensors, "path"_a, "tensors"_a, "metadata"_a = Metadata(), Unlocked());
  m.def(
      "load_safetensors",
      [](const std::filesystem::path& path) {
        const SafetensorsFile file(path);
        TensorMap tensors;
        for (const std::string& name : file.names()) tensors.emplace(name, file.tensor(name));
        return std::pair(tensors, file.metadata());
      },
      "path"_a, Unlocked());
  m.def("save_npz", &save_npz, "path"_a, "tensors"_a, "compress"_a = false, Unlocked());
  m.def("load_npz", &load_npz, "path"_a, Unlocked());
  m.def("save_npy", &save_npy, "path"_a, "tensor"_a, Unlocked());
  m.def("load_npy", &load_npy, "path"_a, Unlocked());
  m.def("load_torch", &load_torch, "path"_a, Unlocked());
  m.def("load_idx", &load_idx, "path"_a, Unlocked());
  m.def(
      "load_gguf",
      [](const std::filesystem::path& path) {
        const GgufFile file(path);
        TensorMap tensors;
        for (const std::string& name : file.names()) tensors.emplace(name, file.tensor(name));
        return tensors;
      },
      "path"_a, Unlocked());
}

}  // namespace hearth::python
