// An array as a file reader yields it, before it becomes a Tensor.
#pragma once

#include <memory>
#include <vector>

#include "hearth/dtype.h"
#include "hearth/shape.h"
#include "io/bytes.h"

namespace hearth::io {

struct Array {
  DType dtype = DType::f32;
  Shape shape;
  Bytes bytes;                        // row-major, in the machine's byte order; not necessarily aligned
  std::shared_ptr<const void> owner;  // keeps `bytes` alive; may be null when the caller does
};

inline Array owned_array(DType dtype, const Shape& shape, std::vector<std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  return {dtype, shape, Bytes(*owner), owner};
}

}  // namespace hearth::io
