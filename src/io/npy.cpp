// Tensors from and to NumPy's files.
#include "base/file.h"
#include "hearth/io.h"
#include "io/host_tensor.h"
#include "io/npy_format.h"
#include "io/zip.h"

namespace hearth {

Tensor load_npy(const std::filesystem::path& path) {
  const auto file = io::map_file(path);
  return io::to_tensor(io::parse_npy(file.bytes, file.owner, path.string()));
}

void save_npy(const std::filesystem::path& path, const Tensor& tensor) {
  const io::HostValue value(tensor);
  AtomicFile file(path);
  file.write(io::npy_header(tensor.dtype(), tensor.shape()));
  file.write(value.bytes());
  file.commit();
}

TensorMap load_npz(const std::filesystem::path& path) {
  const auto file = io::map_file(path);
  TensorMap tensors;
  for (const auto& [name, array] : io::parse_npz(file.bytes, file.owner, path.string()))
    tensors.emplace(name, io::to_tensor(array));
  return tensors;
}

void save_npz(const std::filesystem::path& path, const TensorMap& tensors, bool compress) {
  AtomicFile file(path);
  io::ZipWriter archive(file, compress);
  for (const auto& [name, tensor] : tensors) {
    const io::HostValue value(tensor);
    const auto header = io::npy_header(tensor.dtype(), tensor.shape());
    archive.add(name + ".npy", {std::as_bytes(std::span(header)), value.bytes()});
  }
  archive.finish();
  file.commit();
}

}  // namespace hearth
