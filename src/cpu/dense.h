// Arguments of a step as dense arrays of float or double, converted only where they are not.
#pragma once

#include <optional>

#include "cpu/tile_program.h"
#include "device/step.h"

namespace hearth::cpu {

// An input as a dense array of `computed` (f32 or f64).
class DenseInput {
 public:
  DenseInput(const Layout& layout, const void* elements, DType computed);
  const void* data() const { return data_; }

 private:
  std::unique_ptr<AlignedBytes> copy_;
  const void* data_;
};

// Room for a result as a dense array of `computed`; store() writes it to its place.
class DenseOutput {
 public:
  DenseOutput(const Layout& layout, void* elements, DType computed);
  void* data() const { return data_; }
  void store() const;

 private:
  DType dtype_;
  std::int64_t count_;
  std::unique_ptr<AlignedBytes> copy_;
  void* elements_;
  void* data_;
};

}  // namespace hearth::cpu
