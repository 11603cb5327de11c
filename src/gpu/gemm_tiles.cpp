// Tiles for products, by target and dtype.
#include "gpu/gemm_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_source.h"

namespace hearth::gpu {

bool has_matrix_unit(const Target& target, DType dtype) {
  return target.matrix != MatrixUnit::none &&
         (dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::i8);
}

GemmTile fma_tile(DType dtype, bool large) {
  const bool wide = compute_type(dtype) == "f64" || compute_type(dtype) == "i64";
  // Integers stay with the smaller ones: their results of a byte each take compilers minutes.
  const int side = wide ? (large ? 4 : 2) : large && is_floating(dtype) ? 8 : 4, depth = 16;
  const std::string type = fmt::format("gemm::FmaTile<{}, {}, {}>", storage_type(dtype), side, depth);
  return {type, type, 16 * side, 16 * side, depth, 256, false};
}

GemmTile mma_tile(const Target& target, DType dtype, bool large) {
  // The larger a wave's part, the more products for each operand that is read; 64 x 32 is what the registers
  // of wave32 hold together with the next step.
  const int side = large ? 128 : 64, down = 2, across = large && target.wave_size == 32 ? 4 : 2;
  const bool bytes = target.wave_size == 32 && dtype_size(dtype) == 1;
  const int most = static_cast<int>((large ? 64 : 128) / dtype_size(dtype));
  const int depth = target.amd && bytes ? std::min(most, 64) : most;
  const auto type = [&](int along_k) {
    return fmt::format("gemm::MmaTile<{}, {}, {}, {}, {}, {}>", storage_type(dtype), side, side, along_k,
                       down, across);
  };
  // An element that is fetched alone has a register to itself: too many of a tile of bytes for 32 lanes.
  return {.type = type(depth),
          .by_element = type(bytes ? 32 : most),
          .rows = side,
          .columns = side,
          .depth = depth,
          .threads = down * across * target.wave_size,
          .matrix_unit = true,
          .only_packets = bytes && large};
}

int gemm_packet(const GemmTile& tile, DType dtype) {
  const int fit = static_cast<int>(16 / dtype_size(dtype));
  return tile.matrix_unit ? fit : std::min(fit, 4);
}

std::string gemm_fetch(const GemmTile& tile, DType dtype, bool along_k, int packet) {
  if (packet == 1) {
    // Steps of K that are written side by side, and few rows per thread: what is known of each takes
    // registers.
    const int together = tile.matrix_unit ? 8 : along_k ? 4 : 1;
    return fmt::format("gemm::{}<{}>", along_k ? "EachAlongK" : "EachAlongRows", together);
  }
  if (along_k) return fmt::format("gemm::AlongK<{}>", packet);
  if (!tile.matrix_unit) return fmt::format("gemm::AlongRows<{}>", packet);
  return dtype == DType::i8 ? "gemm::AlongRows<4, 4>" : "gemm::AlongRows<8, 2>";
}

GemmSplit split_depth(int tile_depth, std::uint64_t tiles, std::int64_t depth, int compute_units) {
  constexpr std::int64_t least = 256, most = 64;  // K of a split, splits
  const auto wanted = static_cast<std::int64_t>(2 * static_cast<std::uint64_t>(compute_units) /
                                                std::max<std::uint64_t>(1, tiles));
  const std::int64_t splits = std::min({wanted, depth / least, most});
  if (splits < 2) return {1, depth};
  const std::int64_t steps = ((depth + splits - 1) / splits + tile_depth - 1) / tile_depth;
  const std::int64_t each = steps * tile_depth;
  return {static_cast<unsigned>((depth + each - 1) / each), each};
}

unsigned combining_threads(std::int64_t columns, std::size_t sum_bytes) {
  const auto packet = static_cast<unsigned>(16 / sum_bytes);
  return columns % packet == 0 ? combined_by_block / packet : combined_by_block;
}

}  // namespace hearth::gpu
