// Between tensors and the bytes of files.
#pragma once

#include <filesystem>

#include "hearth/tensor.h"
#include "io/array.h"

namespace hearth::io {

// A tensor in host memory that uses the array's bytes where they are aligned for their dtype, else a copy.
Tensor to_tensor(const Array& array);

// A tensor's value in host memory, dense and row-major.
class HostValue {
 public:
  explicit HostValue(const Tensor& tensor);
  Bytes bytes() const { return bytes_; }

 private:
  Tensor tensor_;
  Bytes bytes_;
};

// A file's contents, and what keeps them alive: mapped, or expanded if the file is compressed with gzip or
// xz.
struct FileContents {
  Bytes bytes;
  std::shared_ptr<const void> owner;
};
FileContents map_file(const std::filesystem::path& path);
FileContents read_maybe_compressed(const std::filesystem::path& path);

}  // namespace hearth::io
