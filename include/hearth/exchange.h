// Sharing memory with other libraries (NumPy, PyTorch, JAX, ...) without a copy.
#pragma once

#include <memory>

#include "hearth/tensor.h"

namespace hearth {

// Where elements are: (i, j, ...) is i * strides[0] + j * strides[1] + ... items after `data`.
struct TensorMemory {
  const void* data = nullptr;
  Shape shape;
  Strides strides;
  DType dtype = DType::f32;
  Device device{};
  std::shared_ptr<const void> owner;  // keeps the memory
};

// The memory of x, computed first where that is not done yet; on a GPU, waits for it. To be read only: other
// tensors may share it. Stays what it is when x is assigned.
TensorMemory memory_of(const Tensor& x);

// A tensor that uses this memory, which nobody may write to while it does. On a GPU it is let go of after the
// device's work is done. Throws ShapeError, DTypeError for block formats, ValueError for memory that is not
// aligned to its dtype.
Tensor from_memory(const TensorMemory& memory);

}  // namespace hearth
