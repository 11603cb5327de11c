// What the host passes to kernels of several kinds, as the headers in kernels/ have it.
#pragma once

#include <cstdint>

namespace hearth::gpu {

// Weights in a block format (kernels/block_formats.h).
struct Blocks {
  const void* data;
  std::uint64_t count;
};

// The angles of a rope (kernels/rope.h).
struct RopeTurns {
  const void* positions;
  std::int64_t position_step;
  const void* frequencies;  // null: powers of the base
  std::int64_t frequency_step;
  double base, direction;
  std::uint64_t half;
};

// Where a kernel says that it met an index out of range (kernels/indexing.h).
struct Fault {
  std::uint64_t* word;
  std::uint64_t operation;
};

}  // namespace hearth::gpu
