// Tensors from and to safetensors files.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "hearth/error.h"
#include "hearth/io.h"
#include "io/host_tensor.h"
#include "io/safetensors_format.h"

namespace hearth {

struct SafetensorsFile::State {
  std::string source;
  io::FileContents file;
  io::SafetensorsHeader header;
  std::vector<std::string> names;

  const io::SafetensorsEntry& entry(std::string_view name) const {
    if (const auto* found = header.find(name)) return *found;
    throw ValueError(fmt::format("[safetensors] '{}' has no tensor {}", source, io::show(name)));
  }
};

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path) {
  auto state = std::make_shared<State>();
  state->source = path.string();
  state->file = io::map_file(path);
  state->header = io::parse_safetensors(state->file.bytes, state->source);
  for (const auto& entry : state->header.entries) state->names.push_back(entry.name);
  state_ = std::move(state);
}

const std::vector<std::string>& SafetensorsFile::names() const { return state_->names; }
bool SafetensorsFile::contains(std::string_view name) const { return state_->header.find(name) != nullptr; }
DType SafetensorsFile::dtype(std::string_view name) const {
  return io::require_dtype(state_->entry(name), state_->source);
}
std::string SafetensorsFile::type_name(std::string_view name) const {
  return std::string(state_->entry(name).dtype_name);
}
std::uint64_t SafetensorsFile::bytes(std::string_view name) const {
  return state_->entry(name).end - state_->entry(name).begin;
}
const Shape& SafetensorsFile::shape(std::string_view name) const { return state_->entry(name).shape; }
const Metadata& SafetensorsFile::metadata() const { return state_->header.metadata; }

Tensor SafetensorsFile::tensor(std::string_view name) const {
  const auto& file = state_->file;
  return io::to_tensor(io::safetensors_array(file.bytes, state_->entry(name), file.owner, state_->source));
}

TensorMap load_safetensors(const std::filesystem::path& path) {
  const SafetensorsFile file(path);
  TensorMap tensors;
  for (const auto& name : file.names()) tensors.emplace(name, file.tensor(name));
  return tensors;
}

void save_safetensors(const std::filesystem::path& path, const TensorMap& tensors, const Metadata& metadata) {
  std::vector<io::SafetensorsArray> arrays;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined())
      throw ValueError(fmt::format("[safetensors] tensor {} is undefined", io::show(name)));
    arrays.push_back({name, tensor.dtype(), tensor.shape()});
  }
  std::sort(arrays.begin(), arrays.end(), io::safetensors_order);
  AtomicFile file(path);
  file.write(io::safetensors_header(arrays, metadata));
  for (const auto& array : arrays) file.write(io::HostValue(tensors.at(std::string(array.name))).bytes());
  file.commit();
}

}  // namespace hearth
