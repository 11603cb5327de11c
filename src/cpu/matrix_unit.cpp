// Products of many rows by a matrix unit: which tiles are arranged and multiplied when.
#include "cpu/matrix_unit.h"

#include <algorithm>

#include "base/thread_pool.h"
#include "cpu/matrix_unit_kernels.h"
#include "cpu/repacked_kernels.h"
#include "cpu/scratch.h"

namespace hearth::cpu {
namespace {

constexpr std::int64_t together = 256;  // rows: their part of a panel stays in the cache next to the core
constexpr std::int64_t panel_depth = repacked_panel;
constexpr std::int64_t panel_columns = 2 * unit_tile;

std::int64_t tiles(std::int64_t elements, std::int64_t of) { return (elements + of - 1) / of; }

// Tiles as scratch memory.
class Tiles {
 public:
  explicit Tiles(std::int64_t count)
      : memory_(count * unit_tile_bytes / static_cast<std::int64_t>(sizeof(float))) {}
  char* data() const { return reinterpret_cast<char*>(memory_.data()); }

 private:
  Scratch memory_;
};

class Product {
 public:
  Product(DType format, std::int64_t columns, std::int64_t depth)
      : kernels_(matrix_unit_kernels()),
        format_(format),
        index_(unit_format(format)),
        columns_(columns),
        depth_(depth) {}

  void multiply(const float* x, const void* weights, float* out, std::int64_t rows) const {
    const int row_parts = kernels_.row_parts[index_], column_parts = kernels_.column_parts[index_];
    const std::int64_t row_tile_stride = tiles(depth_, unit_depth) * row_parts * unit_tile_bytes;
    const std::int64_t row_tiles = tiles(rows, unit_tile);
    const Tiles arranged(row_tiles * row_tile_stride / unit_tile_bytes);
    parallel_for(row_tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t tile = begin; tile < end; ++tile)
        kernels_.arrange_rows(x + tile * unit_tile * depth_, depth_,
                              std::min(unit_tile, rows - tile * unit_tile), depth_, row_parts,
                              arranged.data() + tile * row_tile_stride);
    });

    const auto arrange = kernels_.arrange_columns[index_];
    const auto multiply = kernels_.multiply[index_];
    const std::int64_t deepest = tiles(std::min(depth_, panel_depth), unit_depth) * column_parts;
    parallel_for(tiles(columns_, panel_columns), 1, [&](std::int64_t begin, std::int64_t end) {
      const Tiles panel(2 * deepest);
      for (std::int64_t first = begin * panel_columns; first < std::min(end * panel_columns, columns_);
           first += panel_columns)
        for (std::int64_t k = 0; k < depth_; k += panel_depth) {
          const std::int64_t depth = std::min(panel_depth, depth_ - k);
          const std::int64_t width = std::min(panel_columns, columns_ - first);
          for (std::int64_t column = 0; column < width; column += unit_tile)
            arrange(weights_at(weights, first + column, k, depth), storage_bytes(format_, depth_),
                    std::min(unit_tile, width - column), depth,
                    panel.data() + column / unit_tile * deepest * unit_tile_bytes);
          multiply({.rows = arranged.data() + k / unit_depth * row_parts * unit_tile_bytes,
                    .row_tile_stride = row_tile_stride,
                    .columns = panel.data(),
                    .column_tile_stride = deepest * unit_tile_bytes,
                    .height = rows,
                    .width = width,
                    .depth = tiles(depth, unit_depth),
                    .out = out + first,
                    .stride = columns_,
                    .adds = k > 0});
        }
    });
  }

 private:
  // Where a panel's part of a row begins. Repacked weights lie in panels of their own.
  const char* weights_at(const void* weights, std::int64_t column, std::int64_t k, std::int64_t depth) const {
    const std::int64_t element = is_repacked(format_) ? columns_ * k + column * depth : column * depth_ + k;
    return static_cast<const char*>(weights) + storage_bytes(format_, element);
  }

  const MatrixUnitKernels& kernels_;
  DType format_;
  int index_;
  std::int64_t columns_, depth_;
};

}  // namespace

void multiply_by_matrix_unit(DType format, const float* x, const void* weights, float* out, std::int64_t rows,
                             std::int64_t columns, std::int64_t depth) {
  const Product product(format, columns, depth);
  for (std::int64_t first = 0; first < rows; first += together)
    product.multiply(x + first * depth, weights, out + first * columns, std::min(together, rows - first));
}

}  // namespace hearth::cpu
