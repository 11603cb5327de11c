// Memory that is shared with other libraries.
#include "hearth/exchange.h"

#include <fmt/format.h>

#include "device/backend.h"
#include "hearth/error.h"
#include "tensor/variable.h"

namespace hearth {
namespace {

struct SharedBuffer final : Buffer {
  std::shared_ptr<const void> owner;
  ~SharedBuffer() override {
    // Queued work may still read it. A device that has failed reads nothing any more.
    if (device.kind == DeviceKind::cpu) return;
    try {
      backend(device).mark()->wait();  // not synchronize(), whose errors belong to the user
    } catch (const Error&) {           // NOLINT: a destructor has nobody to tell
    }
  }
};

}  // namespace

TensorMemory memory_of(const Tensor& x) {
  x.eval();
  const NodeRef node = node_of(x, "memory_of");
  check_computable("memory_of", *node);
  if (!backend(node->device).host_accessible()) synchronize(node->device);
  const Storage& storage = node->storage;
  const void* data =
      static_cast<const char*>(storage.buffer->data) + storage_bytes(node->dtype, storage.offset);
  return {.data = data,
          .shape = node->shape,
          .strides = storage.strides,
          .dtype = node->dtype,
          .device = node->device,
          .owner = std::make_shared<NodeRef>(node)};
}

Tensor from_memory(const TensorMemory& memory) {
  check_shape(memory.shape, memory.dtype, "from_memory");
  if (is_quantised(memory.dtype)) throw DTypeError("[from_memory] block formats cannot be shared");
  if (memory.strides.size() != memory.shape.size())
    throw ShapeError(
        fmt::format("[from_memory] {} strides for {}", memory.strides.size(), to_string(memory.shape)));
  if (reinterpret_cast<std::uintptr_t>(memory.data) % dtype_size(memory.dtype) != 0)
    throw ValueError(
        fmt::format("[from_memory] memory that is not aligned for {}", dtype_name(memory.dtype)));
  auto buffer = std::make_shared<SharedBuffer>();
  buffer->data = const_cast<void*>(memory.data);
  buffer->bytes = dtype_size(memory.dtype) * static_cast<std::size_t>(element_count(memory.shape));
  buffer->device = memory.device;
  buffer->writable = false;
  buffer->owner = memory.owner;
  return make_value(memory.shape, memory.dtype, Storage{std::move(buffer), 0, memory.strides}, memory.device);
}

}  // namespace hearth
