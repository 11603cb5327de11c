// How quantised weights lie in the memory of a GPU: parts of each block that are read together stand
// together, for all blocks of a tensor one after another, so that packets of 16 bytes are aligned, and scales
// of six bits in an order of their own. No byte more or less than in a file.
#pragma once

#include <cstddef>
#include <vector>

#include "hearth/dtype.h"

namespace hearth::gpu {

// `bytes` of whole blocks, as in a file, to planes and back.
void blocks_to_planes(DType format, const std::byte* blocks, std::byte* planes, std::size_t bytes);
void planes_to_blocks(DType format, const std::byte* planes, std::byte* blocks, std::size_t bytes);

// Bytes of a block in each plane.
std::vector<std::size_t> plane_sizes(DType format);

}  // namespace hearth::gpu
