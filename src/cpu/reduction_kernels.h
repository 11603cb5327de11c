// Loops that reduce runs of elements, the inside of reduction steps.
#pragma once

#include <cstdint>

#include "cpu/elementwise_kernels.h"

namespace hearth::cpu {

// Totals of f32 and f64 are doubles, those of integers are i64.
union Total {
  double real;
  std::int64_t integer;
};

struct ReductionKernels {
  // total = total op x[0] op ... op x[n - 1]. Up to 2048 elements at a time keep f32 sums accurate.
  void (*rows[6][compute_count])(const void* x, std::int64_t n, Total* total);
  // partial[j] = partial[j] op x[r * stride + j] for all r < rows, j < width; partial has the elements' type.
  // Up to 64 rows at a time keep f32 sums accurate.
  void (*columns[6][compute_count])(const void* x, std::int64_t rows, std::int64_t width, std::int64_t stride,
                                    void* partial);
  // totals[j] = totals[j] op partial[j]; and partial[j] becomes the neutral element.
  void (*flush[6][compute_count])(void* partial, std::int64_t width, Total* totals);
  // The neutral element in the elements' type.
  void (*fill[6][compute_count])(void* partial, std::int64_t width);
};

// Index of a reduction in the tables: sum, prod, max, min, all, any.
constexpr int reduction_index(Op op) { return static_cast<int>(op) - static_cast<int>(Op::sum); }
static_assert(reduction_index(Op::any) == 5);

}  // namespace hearth::cpu

HEARTH_DECLARE_ISA_TABLE(ReductionKernels, reduction_kernels)
