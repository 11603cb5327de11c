// Vector kernels of products of many rows with quantised weights, on integers.
//
// Rows of x, rounded to 8 bits, and rows of weights ("columns" of the result) are arranged in tiles, piece by
// piece of 32 neighbours, in the order in which the instructions of the variant take them. A tile of the
// result is then made of two such tiles without moving anything.
#pragma once

#include <cstdint>

#include "cpu/isa.h"
#include "cpu/quantised_kernels.h"

namespace hearth::cpu {

inline constexpr std::int64_t most_tile_elements = 128;  // of the result

inline constexpr int tile_format_count = block_format_count + repacked_format_count;

// Tables go by format, in the order of DType; repacked ones have functions where RepackedKernels are there.
// `pieces` are whole blocks.
struct TileProductKernels {
  std::int64_t rows, columns;                        // of a tile; none where there are no instructions for it
  std::int64_t row_piece_bytes, column_piece_bytes;  // of a piece of a tile; the latter at most
  // One tile of `count` rows, the whole depth of them; those that are missing are 0.
  void (*arrange_rows)(RoundedRows x, std::int64_t count, std::int64_t pieces, void* tile);
  // One tile of `count` rows of weights, `stride` bytes apart; of repacked ones fours, of a panel.
  void (*arrange_columns[tile_format_count])(const void* weights, std::int64_t stride, std::int64_t count,
                                             std::int64_t pieces, void* tile);
  // out: (rows, columns), rows `stride` apart, added to or replaced.
  void (*multiply[tile_format_count])(const void* row_tile, const void* column_tile, std::int64_t pieces,
                                      float* out, std::int64_t stride, bool adds);
};

}  // namespace hearth::cpu

HEARTH_DECLARE_BYTES_ISA_TABLE(TileProductKernels, tile_product_kernels)
