#include "tensor/repacked.h"

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
  Storage storage{owner.allocate(static_cast<std::size_t>(storage_bytes(target, element_count(shape))),
                                 MemoryPurpose::loaded),
                  0, contiguous_strides(shape)};
  std::int64_t done = 0;  // elements
  for (const Tensor& part : parts) {
    const HostElements blocks(part);
    const std::int64_t depth = part.size(-1);
    if (part.numel() > 0)
      owner.repack(*storage.buffer, static_cast<std::size_t>(storage_bytes(target, done)), format,
                   blocks.bytes().data(), part.numel() / depth, depth);
    done += part.numel();
  }
  if (done != element_count(shape)) throw ShapeError("[repacked] the parts do not make up the shape");
  return make_value(shape, target, std::move(storage), device);
}

}  // namespace hearth
