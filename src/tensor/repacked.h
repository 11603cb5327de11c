// Weights in another order than files have them, for products that read them more often than once.
#pragma once

#include <optional>
#include <span>

#include "hearth/tensor.h"

namespace hearth {

// Weights (..., rows, depth) of `shape`, which `parts` make up one after the other, on their device. None
// where it multiplies with them as they are, where the parts differ in format, or where rows of one are no
// multiple of four. Evaluates the parts.
std::optional<Tensor> repacked(std::span<const Tensor> parts, const Shape& shape);

}  // namespace hearth
