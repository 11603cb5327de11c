// Quantised weights: tensors whose dtype is a block format.
//
// A block holds 32 (q4_0 to q8_0, iq4_nl, mxfp4) or 256 (q2_k to iq4_xs) neighbours along the last axis,
// whose size must be a multiple of that. Bytes are those of GGUF files; a device may keep them in another
// order, which nobody sees. Such a tensor is dense and can be reshaped (keeping whole blocks in the last
// axis), copied, moved to another device, dequantised, taken rows of, and multiplied with; everything else
// throws DTypeError, and none of it has a gradient.
#pragma once

#include <cstddef>
#include <span>

#include "hearth/tensor.h"

namespace hearth {

// x in blocks: to nearest for q4_0 to q8_0 and mxfp4, as the reference quantiser of GGUF files; for q2_k to
// iq4_nl by a search for the scales with the least squared error. Evaluates x, and computes on the host.
// Throws ValueError if x has a NaN, an infinity or a value whose scale is beyond f16.
//
// `importance`, where given, has a finite number for each element of the last axis, not negative, by which
// its squared error counts. For a weight, the mean of the squares of what it is multiplied with makes the
// result's error least. All formats but q8_0 then search for their scales.
Tensor quantise(const Tensor& x, DType format, std::span<const float> importance = {});

// Blocks as numbers of a floating dtype: rounded once to f32, then to `to`. Anything else is returned as
// `to`.
Tensor dequantise(const Tensor& x, DType to = DType::f32);

// A tensor on the default device from the blocks of a file.
Tensor from_blocks(std::span<const std::byte> blocks, const Shape& shape, DType format);

// x (..., K) @ transposed(weight (N, K)) -> (..., N), in the dtype of x (floating), with sums in f32.
// linear() does it for such a weight. Each run of 32 elements of x is rounded to 8 bits and a scale, which
// costs about 0.4 % of the run's largest element (a language model's repacked weights in q4_k may
// take runs of 128); but many rows are multiplied in f16 or bf16 on a GPU, and in f32 on a CPU without
// instructions for products of bytes. A row with a NaN or an infinity gives NaN. The weight may also be f16
// or bf16: rows of x are multiplied as they are, but many are rounded to the weight's dtype on a GPU.
Tensor quantised_matmul(const Tensor& x, const Tensor& weight);

// Rows of weight (count, K) -> (indices..., K). take() along the first axis and embedding() do it for such a
// weight, to f32.
Tensor quantised_take(const Tensor& weight, const Tensor& indices, DType to = DType::f32);

}  // namespace hearth
