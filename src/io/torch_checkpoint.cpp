// Tensors from PyTorch's checkpoints.
#include "hearth/io.h"
#include "io/host_tensor.h"
#include "io/pickle_format.h"

namespace hearth {

TensorMap load_torch(const std::filesystem::path& path) {
  const auto file = io::map_file(path);
  TensorMap tensors;
  for (const auto& [name, array] : io::parse_torch_checkpoint(file.bytes, path.string()))
    tensors.emplace(name, io::to_tensor(array));
  return tensors;
}

}  // namespace hearth
