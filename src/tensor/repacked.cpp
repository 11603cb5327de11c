#include "tensor/repacked.h"

#include <fmt/format.h>

#include <algorithm>

#include "device/backend.h"
#include "hearth/error.h"
#include "tensor/variable.h"

namespace hearth {

std::optional<Tensor> repacked(std::span<const Tensor> parts, const Shape& shape) {
  const DType format = parts[0].dtype();
  const Device device = parts[0].device();
  if (!is_quantised(format) || is_repacked(format)) return std::nullopt;
  Backend& owner = backend(device);
  const DType target = owner.repacked_format(format);
  if (target == format) return std::nullopt;
  for (const Tensor& part : parts)
    if (part.dtype() != format || part.ndim() < 2 || part.size(-2) % 4 != 0) return std::nullopt;
  check_shape(shape, target, "repacked");
  std::int64_t elements = 0;
  for (const Tensor& part : parts) elements += part.numel();
  if (elements != element_count(shape))
    throw ShapeError(fmt::format("[repacked] {} elements do not make up {}", elements, to_string(shape)));
  Storage storage{owner.allocate(static_cast<std::size_t>(storage_bytes(target, element_count(shape))),
                                 MemoryPurpose::loaded),
                  0, contiguous_strides(shape)};
  // Matrices of `shape`, each of which may be made up of several parts, or be one of several in a part.
  const std::int64_t all_rows = shape[shape.size() - 2], depth = shape.back();
  std::int64_t row = 0;
  for (const Tensor& part : parts) {
    const HostElements blocks(part);
    const std::int64_t rows = depth > 0 ? part.numel() / depth : 0;
    for (std::int64_t done = 0, some; done < rows; done += some, row += some) {
      some = std::min(rows - done, all_rows - row % all_rows);
      owner.repack(format, blocks.bytes().data() + storage_bytes(format, done * depth), some, *storage.buffer,
                   static_cast<std::size_t>(storage_bytes(target, row / all_rows * all_rows * depth)),
                   row % all_rows, all_rows, depth);
    }
  }
  return make_value(shape, target, std::move(storage), device);
}

}  // namespace hearth
