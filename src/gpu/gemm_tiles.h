// Which tiles a product is computed in, and how they are fetched: shared by matrix products and convolutions.
#pragma once

#include <cstdint>
#include <string>

#include "gpu/target.h"
#include "hearth/dtype.h"

namespace hearth::gpu {

struct GemmTile {
  std::string type;        // in gemm.h
  std::string by_element;  // the type where an operand is not fetched in packets
  int rows = 0, columns = 0, depth = 0, threads = 0;
  bool matrix_unit = false;
  bool only_packets = false;  // too large for operands that are fetched by element
};

// The matrix unit multiplies this dtype.
bool has_matrix_unit(const Target& target, DType dtype);
GemmTile fma_tile(DType dtype, bool large);
GemmTile mma_tile(const Target& target, DType dtype, bool large);

// Elements that are fetched at once where memory allows.
int gemm_packet(const GemmTile& tile, DType dtype);
// A type of gemm.h: `packet` elements (gemm_packet() or 1) at once, side by side along K or along rows.
std::string gemm_fetch(const GemmTile& tile, DType dtype, bool along_k, int packet);

// How K is divided, in multiples of what a tile takes of it at once, so that a few tiles keep the whole
// device busy.
struct GemmSplit {
  unsigned splits = 1;
  std::int64_t depth = 0;  // of one
};
GemmSplit split_depth(int tile_depth, std::uint64_t tiles, std::int64_t depth, int compute_units);

// How the sums of the splits are combined: a block has so many results, and a thread those of 16 bytes where
// rows of the result are made of such.
constexpr unsigned combined_by_block = 256;
unsigned combining_threads(std::int64_t columns, std::size_t sum_bytes);

}  // namespace hearth::gpu
