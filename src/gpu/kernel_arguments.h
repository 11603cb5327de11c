// What the host passes to kernels of several kinds, as the headers in kernels/ have it.
#pragma once

#include <cstdint>

namespace hearth::gpu {

// Weights in a block format (kernels/block_formats.h).
struct Blocks {
  const void* data;
  std::uint64_t count;
};

// Where a kernel says that it met an index out of range (kernels/indexing.h).
struct Fault {
  std::uint64_t* word;
  std::uint64_t operation;
};

}  // namespace hearth::gpu
