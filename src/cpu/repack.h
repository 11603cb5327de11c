// Weights in the order in which products with few rows read them fastest (cpu/repacked_kernels.h).
#pragma once

#include <cstdint>

#include "hearth/dtype.h"

namespace hearth::cpu {

// The format that weights of a format had better be in; the same where this machine takes them as files have
// them.
DType repacked_format(DType format);

// Blocks as in files, whose repacked_format() is another one, into that. `rows` is a multiple of 4; on the
// pool's threads.
void repack(DType format, const void* blocks, void* target, std::int64_t rows, std::int64_t depth);

}  // namespace hearth::cpu
