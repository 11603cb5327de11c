// Vector kernels of products of many rows by a unit that multiplies matrices of bf16 (x86's AMX).
//
// A tile of such a matrix is 1024 bytes, 16 rows of 16 pairs of bf16. One of x is 16 rows by 32 neighbours;
// one of weights, which are columns of the result, is 16 pairs of neighbours by 16 columns. Numbers that bf16
// cannot hold are sums of two parts, large + small, where that much precision is wanted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cpu/isa.h"
#include "hearth/dtype.h"

namespace hearth::cpu {

inline constexpr std::int64_t unit_tile = 16;   // rows of x, or columns, of a tile
inline constexpr std::int64_t unit_depth = 32;  // elements of a row in it
inline constexpr std::int64_t unit_tile_bytes = 1024;

// Tables of weights go by format: the block formats, the repacked ones, f16, bf16.
inline constexpr int unit_format_count = block_format_count + repacked_format_count + 2;
constexpr int unit_format(DType format) {
  return is_quantised(format) ? static_cast<int>(format) - dtype_count
                              : block_format_count + repacked_format_count + static_cast<int>(format) -
                                    static_cast<int>(DType::f16);
}

struct UnitProduct {
  const char* rows;              // tiles of x, those of its first 16 rows one behind another,
  std::int64_t row_tile_stride;  // and so many bytes on those of the next
  const char* columns;           // tiles of weights, likewise
  std::int64_t column_tile_stride;
  std::int64_t height, width;  // of the result; at most two tiles wide
  std::int64_t depth;          // in tiles
  float* out;
  std::int64_t stride;
  bool adds;  // to what is there
};

struct MatrixUnitKernels {
  bool there;  // false: nothing else is set
  // At most 16 rows of x, `stride` apart, become tiles; with two parts, each is followed by that of the small
  // ones. What is beyond `count` and `depth` is 0.
  void (*arrange_rows)(const float* x, std::int64_t stride, std::int64_t count, std::int64_t depth, int parts,
                       void* tiles);
  // At most 16 rows of weights, `stride` bytes apart, of repacked ones fours, of a panel. Depth: elements.
  using ArrangeColumns = void (*)(const void* weights, std::int64_t stride, std::int64_t count,
                                  std::int64_t depth, void* tiles);
  ArrangeColumns arrange_columns[unit_format_count];
  int row_parts[unit_format_count], column_parts[unit_format_count];
  void (*multiply[unit_format_count])(const UnitProduct& product);
};

}  // namespace hearth::cpu

HEARTH_DECLARE_UNIT_ISA_TABLE(MatrixUnitKernels, matrix_unit_kernels)
