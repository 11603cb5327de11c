// A product of matrices as libraries know it: each operand lies along its rows or its columns, and a stack is
// a step from one product to the next.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "device/step.h"

namespace hearth::gpu {

struct PlainMatrix {
  bool transposed = false;   // its columns lie in memory as rows do otherwise
  std::int64_t leading = 1;  // elements from one row to the next (transposed: from one column to the next)
  std::int64_t stride = 0;   // elements to the next product's
};

// result (rows, columns) = a (rows, depth) @ b (depth, columns), `count` times; results are dense.
struct PlainProduct {
  DType dtype = DType::f32;
  std::int64_t rows = 0, columns = 0, depth = 0, count = 1;
  PlainMatrix a, b;

  double multiplications() const {
    return static_cast<double>(rows) * static_cast<double>(columns) * static_cast<double>(depth) *
           static_cast<double>(count);
  }
  std::string text() const;  // "bf16 4096x4096x1024 nt"
};

// Nothing where the step's product is not of this kind, or empty, or not of f32, f16 or bf16. What the
// expression of the step says is not looked at.
std::optional<PlainProduct> plain_product(const Step& step);

}  // namespace hearth::gpu
