// Weights in the order in which products with few rows read them fastest (cpu/repacked_kernels.h).
#pragma once

#include <cstdint>

#include "hearth/dtype.h"

namespace hearth::cpu {

// The format that weights of a format had better be in; the same where this machine takes them as files have
// them.
DType repacked_format(DType format);

// Rows of blocks as in files, whose repacked_format() is another one, become rows from `first_row` on of a
// matrix of `all_rows` in that. Rows come in fours; on the pool's threads.
void repack(DType format, const void* blocks, std::int64_t rows, void* target, std::int64_t first_row,
            std::int64_t all_rows, std::int64_t depth);

}  // namespace hearth::cpu
