// Tensors from the bytes of files, and back.
#include "io/host_tensor.h"

#include <algorithm>

#include "base/file.h"
#include "hearth/error.h"
#include "io/deflate.h"
#include "io/xz.h"

namespace hearth::io {
namespace {

template <typename T>
Bytes element_bytes(const Tensor& tensor) {
  return std::as_bytes(tensor.data<T>());
}

Bytes element_bytes(const Tensor& tensor) {
  switch (tensor.dtype()) {
    case DType::bool_:
      return element_bytes<bool>(tensor);
    case DType::u8:
      return element_bytes<std::uint8_t>(tensor);
    case DType::i8:
      return element_bytes<std::int8_t>(tensor);
    case DType::i16:
      return element_bytes<std::int16_t>(tensor);
    case DType::i32:
      return element_bytes<std::int32_t>(tensor);
    case DType::i64:
      return element_bytes<std::int64_t>(tensor);
    case DType::f16:
      return element_bytes<float16>(tensor);
    case DType::bf16:
      return element_bytes<bfloat16>(tensor);
    case DType::f32:
      return element_bytes<float>(tensor);
    case DType::f64:
      return element_bytes<double>(tensor);
    default:
      break;
  }
  throw DTypeError("[io] unknown dtype");
}

}  // namespace

Tensor to_tensor(const Array& array) {
  const auto address = reinterpret_cast<std::uintptr_t>(array.bytes.data());
  // Blocks hold 16-bit scales.
  const std::size_t alignment = is_quantised(array.dtype) ? 2 : dtype_size(array.dtype);
  if (!array.bytes.empty() && address % alignment == 0)
    return from_memory(array.bytes.data(), array.shape, array.dtype, array.owner);
  // Never null, even for an empty array.
  const std::shared_ptr<std::byte[]> copy(new std::byte[array.bytes.size() + 1]);
  std::copy(array.bytes.begin(), array.bytes.end(), copy.get());
  return from_memory(copy.get(), array.shape, array.dtype, copy);
}

HostValue::HostValue(const Tensor& tensor) {
  if (!tensor.defined()) throw ValueError("[io] an undefined tensor cannot be saved");
  tensor_ = tensor.detach().to(Device{DeviceKind::cpu, 0}).contiguous();
  tensor_.eval();
  bytes_ = element_bytes(tensor_);
}

FileContents map_file(const std::filesystem::path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  return {file->bytes(), file};
}

FileContents read_maybe_compressed(const std::filesystem::path& path) {
  auto contents = map_file(path);
  if (!is_gzip(contents.bytes) && !is_xz(contents.bytes)) return contents;
  const auto expanded = std::make_shared<const std::vector<std::byte>>(
      is_xz(contents.bytes) ? unxz(contents.bytes, path.string()) : gunzip(contents.bytes, path.string()));
  return {Bytes(*expanded), expanded};
}

}  // namespace hearth::io
