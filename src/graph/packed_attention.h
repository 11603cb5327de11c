// How the result of Op::attention is laid out: a node has one result, and this operation makes two.
#pragma once

#include "hearth/dtype.h"
#include "hearth/shape.h"

namespace hearth {

// Flat: first the output, (B, T, H, D), the order in which the heads are joined; then, from the next multiple
// of 16 bytes on, for each row (B, H, T) the logarithm to base 2 of its sum of exponentials as f32 bits,
// infinite for a row that sees nothing.
struct PackedAttention {
  std::int64_t rows, outputs;     // outputs: elements of the output
  std::int64_t logarithms, size;  // in elements of the dtype: where the logarithms begin, and all in all

  PackedAttention(const Shape& q, DType dtype) : rows(q[0] * q[1] * q[2]), outputs(rows * q[3]) {
    const auto item = static_cast<std::int64_t>(dtype_size(dtype)), packet = 16 / item;
    logarithms = (outputs + packet - 1) / packet * packet;
    size = logarithms + rows * 4 / item;
  }
};

}  // namespace hearth
