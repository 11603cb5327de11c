// Quantised weights: as numbers, rows of them, products with them.
#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <numeric>

#include "base/block_formats.h"
#include "base/thread_pool.h"
#include "cpu/blas.h"
#include "cpu/dense.h"
#include "cpu/elementwise_kernels.h"
#include "cpu/half_product_kernels.h"
#include "cpu/kernels.h"
#include "cpu/matrix_unit.h"
#include "cpu/multiply_blocks.h"
#include "cpu/quantised_kernels.h"
#include "cpu/repack.h"
#include "cpu/repacked_kernels.h"
#include "cpu/scratch.h"
#include "cpu/strided_copy.h"
#include "cpu/tile_product_kernels.h"
#include "hearth/error.h"

namespace hearth::cpu {
namespace {

std::size_t format_index(DType dtype) { return static_cast<std::size_t>(dtype) - dtype_count; }
std::size_t repacked_index(DType dtype) { return format_index(dtype) - block_format_count; }

const char* row_at(const void* weights, DType format, std::int64_t element) {
  return static_cast<const char*>(weights) + storage_bytes(format, element);
}

RepackedMatrix repacked_matrix(const void* weights, std::int64_t rows, std::int64_t depth) {
  return {const_cast<void*>(weights), rows / 4, depth};
}

// Numbers of a floating dtype from f32.
class FloatStore {
 public:
  explicit FloatStore(DType dtype)
      : dtype_(dtype), convert_(elementwise_kernels().store[static_cast<int>(dtype)]) {}
  bool plain() const { return dtype_ == DType::f32; }
  void operator()(const float* from, void* to, std::int64_t at, std::int64_t count) const {
    char* target = static_cast<char*>(to) + at * static_cast<std::int64_t>(dtype_size(dtype_));
    if (dtype_ == DType::f64)
      std::copy(from, from + count, reinterpret_cast<double*>(target));
    else
      convert_(target, from, nullptr, nullptr, count);
  }

 private:
  DType dtype_;
  TileFunction convert_;
};

class Dequantiser {
 public:
  // The elements that are numbers only together: blocks, or rows of repacked weights.
  static std::int64_t unit(const Layout& weights) {
    return is_repacked(weights.dtype) ? weights.shape.back() : block_elements(weights.dtype);
  }

  Dequantiser(const Layout& weights, DType to)
      : format_(weights.dtype),
        rows_(weights.shape.size() < 2 ? 1 : weights.shape[weights.shape.size() - 2]),
        row_(weights.shape.back()),
        store_(to) {
    if (!is_repacked(format_)) dequantise_ = quantised_kernels().dequantise[format_index(format_)];
  }

  // `count` elements from `element` on, whole units, written at number `at` of the output.
  void operator()(const void* weights, std::int64_t element, std::int64_t count, void* out,
                  std::int64_t at) const {
    if (is_repacked(format_)) return rows(weights, element, count, out, at);
    if (store_.plain())
      return dequantise_(row_at(weights, format_, element), static_cast<float*>(out) + at, count);
    constexpr std::int64_t tile = 1024;
    alignas(64) float numbers[tile];
    for (std::int64_t done = 0; done < count; done += tile) {
      const std::int64_t n = std::min(tile, count - done);
      dequantise_(row_at(weights, format_, element + done), numbers, n);
      store_(numbers, out, at + done, n);
    }
  }

 private:
  void rows(const void* weights, std::int64_t element, std::int64_t count, void* out, std::int64_t at) const {
    const auto dequantise = repacked_kernels().dequantise[repacked_index(format_)];
    const Scratch numbers(store_.plain() ? 0 : row_);
    for (const std::int64_t end = element + count; element < end; element += row_, at += row_) {
      const std::int64_t row = element / row_;
      float* const to = store_.plain() ? static_cast<float*>(out) + at : numbers.data();
      dequantise(repacked_matrix(row_at(weights, format_, row / rows_ * rows_ * row_), rows_, row_),
                 row % rows_, to);
      if (!store_.plain()) store_(to, out, at, row_);
    }
  }

  DType format_;
  std::int64_t rows_, row_;
  void (*dequantise_)(const void*, float*, std::int64_t) = nullptr;
  FloatStore store_;
};

std::unique_ptr<Kernel> make_copy(const Step& step) {
  const auto bytes =
      static_cast<std::size_t>(storage_bytes(step.outputs[0].dtype, element_count(step.outputs[0].shape)));
  return kernel([=](const KernelArguments& arguments) {
    if (bytes > 0) std::memcpy(arguments.outputs[0], arguments.inputs[0], bytes);
  });
}

std::unique_ptr<Kernel> make_dequantise(const Step& step) {
  const Dequantiser dequantise(step.inputs[0], step.outputs[0].dtype);
  const std::int64_t unit = std::max<std::int64_t>(1, Dequantiser::unit(step.inputs[0]));
  const std::int64_t count = element_count(step.outputs[0].shape) / unit;
  return kernel([=](const KernelArguments& arguments) {
    const std::int64_t grain = std::max<std::int64_t>(1, copy_grain / unit);
    parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
      dequantise(arguments.inputs[0], begin * unit, (end - begin) * unit, arguments.outputs[0], begin * unit);
    });
  });
}

std::unique_ptr<Kernel> make_take(const Step& step) {
  const Layout &weight = step.inputs[0], &indices = step.inputs[1];
  const Dequantiser dequantise(weight, step.outputs[0].dtype);
  const StridedLoop loop = collapse(indices.shape, {indices.strides, contiguous_strides(indices.shape)});
  const std::int64_t rows = weight.shape[0], length = weight.shape[1];
  return kernel([=](const KernelArguments& arguments) {
    const auto* index = static_cast<const std::int64_t*>(arguments.inputs[1]);
    const auto take = [&](std::int64_t from, std::int64_t to) {
      const std::int64_t row = from < 0 ? from + rows : from;
      if (row < 0 || row >= rows)
        throw IndexError(fmt::format("[quantised_take] index {} is out of range for size {}", from, rows));
      dequantise(arguments.inputs[0], row * length, length, arguments.outputs[0], to * length);
    };
    const std::int64_t grain = std::max<std::int64_t>(1, copy_grain / std::max<std::int64_t>(1, length));
    parallel_for(loop.count(), grain, [&](std::int64_t begin, std::int64_t end) {
      for_each_run(loop, begin, end, [&](const std::int64_t* offsets, std::int64_t run) {
        for (std::int64_t i = 0; i < run; ++i)
          take(index[offsets[0] + i * loop.inner_stride(0)], offsets[1] + i);
      });
    });
  });
}

class RoundedMemory {
 public:
  RoundedMemory(std::int64_t rows, std::int64_t depth)
      : depth_(depth), scales_(rows * depth / 32), memory_(rows * depth / 4 + 4 * scales_) {}
  // From `first` on.
  RoundedRows rows(std::int64_t first = 0) const {
    const std::int64_t piece = first * depth_ / 32;
    float* const scale = memory_.data();
    return {reinterpret_cast<std::int8_t*>(scale + 4 * scales_) + piece * 32, scale + piece,
            scale + scales_ + piece * 2, scale + 3 * scales_ + piece};
  }

 private:
  std::int64_t depth_, scales_;
  Scratch memory_;
};

// x (rows, depth) @ transposed(w (columns, depth)), w in blocks or in 16 bits.
class BlockProduct {
 public:
  BlockProduct(DType format, std::int64_t rows, std::int64_t columns, std::int64_t depth)
      : format_(format),
        rows_(rows),
        columns_(columns),
        depth_(depth),
        kernels_(quantised_kernels()),
        tiles_(tile_product_kernels()) {}

  void multiply(const float* x, const void* weights, float* out) const {
    const std::int64_t few = few_rows();
    if (depth_ == 0)
      std::fill(out, out + rows_ * columns_, 0.0f);
    else if (rows_ <= few && !is_quantised(format_))
      multiply_halves(x, weights, out);
    else if (rows_ <= few && is_repacked(format_))
      multiply_repacked(x, weights, out);
    else if (rows_ <= few)
      multiply_rounded(x, weights, out);
    else if (has_matrix_unit())
      multiply_by_matrix_unit(format_, x, weights, out, rows_, columns_, depth_);
    else if (tiles_.rows > 0 && is_quantised(format_))
      multiply_tiles(x, weights, out);
    else
      multiply_panels(x, weights, out);
  }

 private:
  // Up to so many a row of weights is not worth arranging, and its bytes cost more than the arithmetic.
  std::int64_t few_rows() const {
    constexpr std::int64_t beside_unit = 6;
    if (!is_quantised(format_) || tiles_.rows == 0) return 8;
    if (!is_repacked(format_)) return 5;
    const std::int64_t few = repacked_kernels().few_rows;
    return has_matrix_unit() ? std::min(few, beside_unit) : few;
  }

  void multiply_rounded(const float* x, const void* weights, float* out) const {
    const RoundedMemory memory(rows_, depth_);
    const RoundedRows rounded = memory.rows();
    parallel_for(rows_ * depth_ / 32, 512, [&](std::int64_t begin, std::int64_t end) {
      kernels_.round(
          x + begin * 32,
          {rounded.q + begin * 32, rounded.scale + begin, rounded.sum + begin * 2, rounded.whole + begin},
          (end - begin) * 32);
    });
    const auto multiply_row = kernels_.multiply_row[format_index(format_)],
               multiply_four_rows = kernels_.multiply_four_rows[format_index(format_)];
    multiply_few(
        out,
        [&](std::int64_t first, std::int64_t columns, std::int64_t r, float* to) {
          multiply_row(row_at(weights, format_, first * depth_), columns, memory.rows(r), to, columns_,
                       depth_);
        },
        [&](std::int64_t first, std::int64_t columns, std::int64_t r, float* to) {
          multiply_four_rows(row_at(weights, format_, first * depth_), columns, memory.rows(r), to, columns_,
                             depth_);
        });
  }

  void multiply_repacked(const float* x, const void* weights, float* out) const {
    const RepackedKernels& kernels = repacked_kernels();
    const std::size_t index = repacked_index(format_);
    const std::int64_t row_bytes = depth_ * kernels.rounded_bytes[index] / 256;
    // Where x begins matters: shortly before a multiple of 1024, two threads of a Neoverse-V1 read 50 instead
    // of 55 GB/s of 2048 rows of q4_k.
    constexpr std::int64_t alignment = 1024;
    const Scratch memory((rows_ * row_bytes + alignment) / static_cast<std::int64_t>(sizeof(float)));
    char* const rounded = reinterpret_cast<char*>(
        (reinterpret_cast<std::uintptr_t>(memory.data()) + alignment - 1) / alignment * alignment);
    const std::int64_t unit = std::gcd(depth_, std::int64_t{256});  // whole blocks
    parallel_for(rows_ * depth_ / unit, 4096 / unit, [&](std::int64_t begin, std::int64_t end) {
      kernels.round[index](x + begin * unit, rounded + begin * unit * kernels.rounded_bytes[index] / 256,
                           (end - begin) * unit);
    });
    // Weights meet up to four rows at a time; those that meet more of them stay in a cache meanwhile.
    constexpr std::int64_t kept = 4;  // fours of columns
    const RepackedMatrix matrix = repacked_matrix(weights, columns_, depth_);
    const std::int64_t turns = (rows_ + most_repacked_rows - 1) / most_repacked_rows;
    const std::int64_t threads = thread_count();
    // Every range begins as many runs anew as it has panels. Two threads were faster with a range each,
    // unless those are long; eight with two each.
    constexpr std::int64_t long_range = std::int64_t{1} << 25;  // elements
    const std::int64_t ranges = threads * (threads <= 2 && columns_ * depth_ <= threads * long_range ? 1 : 2);
    const std::int64_t grain =
        std::max({std::int64_t{1}, 8192 / depth_, (matrix.quads + ranges - 1) / ranges});
    parallel_for(matrix.quads, grain, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t together = turns == 1 ? end - begin : kept;
      for (std::int64_t first = begin; first < end; first += together)
        for (std::int64_t turn = 0; turn < turns; ++turn) {
          const std::int64_t r = rows_ * turn / turns, rows = rows_ * (turn + 1) / turns - r;
          kernels.multiply_rows[rows - 1][index](matrix, first, std::min(together, end - first),
                                                 rounded + r * row_bytes, out + r * columns_ + 4 * first,
                                                 columns_);
        }
    });
  }

  void multiply_halves(const float* x, const void* weights, float* out) const {
    const auto index = static_cast<std::size_t>(format_) - static_cast<std::size_t>(DType::f16);
    const auto multiply_row = half_product_kernels().multiply_row[index],
               multiply_four_rows = half_product_kernels().multiply_four_rows[index];
    multiply_few(
        out,
        [&](std::int64_t first, std::int64_t columns, std::int64_t r, float* to) {
          multiply_row(row_at(weights, format_, first * depth_), columns, x + r * depth_, to, columns_,
                       depth_);
        },
        [&](std::int64_t first, std::int64_t columns, std::int64_t r, float* to) {
          multiply_four_rows(row_at(weights, format_, first * depth_), columns, x + r * depth_, to, columns_,
                             depth_);
        });
  }

  // Rows of weights meet all rows of x while they are in the cache. `one` and `four` multiply so many rows,
  // from the given one on, with the columns from `first` on.
  template <typename One, typename Four>
  void multiply_few(float* out, const One& one, const Four& four) const {
    const std::int64_t grain = std::max<std::int64_t>(1, 32768 / depth_);
    const std::int64_t together = rows_ == 1 ? columns_ : 4;  // columns whose weights stay in the cache
    parallel_for(columns_, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t first = begin; first < end; first += together) {
        const std::int64_t columns = std::min(together, end - first);
        std::int64_t r = 0;
        for (; r + 4 <= rows_; r += 4) four(first, columns, r, out + r * columns_ + first);
        for (; r < rows_; ++r) one(first, columns, r, out + r * columns_ + first);
      }
    });
  }

  // Integers, in tiles (cpu/tile_product_kernels.h).
  void multiply_tiles(const float* x, const void* weights, float* out) const {
    constexpr std::int64_t together = 1024;  // rows that an arranged panel of weights meets
    for (std::int64_t first = 0; first < rows_; first += together)
      multiply_tiles(x + first * depth_, std::min(together, rows_ - first), weights, out + first * columns_);
  }

  void multiply_tiles(const float* x, std::int64_t rows, const void* weights, float* out) const {
    const std::int64_t pieces = depth_ / 32, row_tiles = (rows + tiles_.rows - 1) / tiles_.rows;
    const std::int64_t row_tile_bytes = pieces * tiles_.row_piece_bytes;
    const Scratch arranged(row_tiles * row_tile_bytes / static_cast<std::int64_t>(sizeof(float)));
    auto* const row_tile = reinterpret_cast<char*>(arranged.data());
    parallel_for(row_tiles, 1, [&](std::int64_t begin, std::int64_t end) {
      const RoundedMemory rounded(tiles_.rows, depth_);
      for (std::int64_t tile = begin; tile < end; ++tile) {
        const std::int64_t first = tile * tiles_.rows, count = std::min(tiles_.rows, rows - first);
        kernels_.round(x + first * depth_, rounded.rows(), count * depth_);
        tiles_.arrange_rows(rounded.rows(), count, pieces, row_tile + tile * row_tile_bytes);
      }
    });

    const auto arrange = tiles_.arrange_columns[format_index(format_)];
    const auto multiply = tiles_.multiply[format_index(format_)];
    // A panel is some tiles of columns by some pieces, small enough for the cache next to the core.
    constexpr std::int64_t most_pieces = 64;
    static_assert(most_pieces * 32 == repacked_panel);
    const std::int64_t wide = columns_ / (4 * thread_count()) / tiles_.columns;
    const std::int64_t panel_tiles = std::clamp<std::int64_t>(wide, 1, 64 / tiles_.columns);
    const std::int64_t panel = panel_tiles * tiles_.columns;
    parallel_for((columns_ + panel - 1) / panel, 1, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t column_tile_bytes = most_pieces * tiles_.column_piece_bytes;
      const Scratch memory(panel_tiles * column_tile_bytes / static_cast<std::int64_t>(sizeof(float)));
      auto* const column_tile = reinterpret_cast<char*>(memory.data());
      for (std::int64_t first = begin * panel; first < std::min(end * panel, columns_); first += panel)
        for (std::int64_t piece = 0; piece < pieces; piece += most_pieces) {
          const std::int64_t count = std::min(most_pieces, pieces - piece);
          const std::int64_t last = std::min(first + panel, columns_);
          char* tile = column_tile;
          for (std::int64_t column = first; column < last;
               column += tiles_.columns, tile += column_tile_bytes)
            arrange(tile_at(weights, column, piece, count), storage_bytes(format_, depth_),
                    std::min(tiles_.columns, last - column), count, tile);
          for (std::int64_t r = 0; r < row_tiles; ++r) {
            const char* from = row_tile + r * row_tile_bytes + piece * tiles_.row_piece_bytes;
            const std::int64_t height = std::min(tiles_.rows, rows - r * tiles_.rows);
            tile = column_tile;
            for (std::int64_t column = first; column < last;
                 column += tiles_.columns, tile += column_tile_bytes) {
              float* const to = out + r * tiles_.rows * columns_ + column;
              const std::int64_t width = std::min(tiles_.columns, last - column);
              if (height == tiles_.rows && width == tiles_.columns) {
                multiply(from, tile, count, to, columns_, piece > 0);
                continue;
              }
              alignas(64) float products[most_tile_elements];
              multiply(from, tile, count, products, tiles_.columns, false);
              for (std::int64_t i = 0; i < height; ++i)
                for (std::int64_t c = 0; c < width; ++c) {
                  float& element = to[i * columns_ + c];
                  element = (piece > 0 ? element : 0) + products[i * tiles_.columns + c];
                }
            }
          }
        }
    });
  }

  // Where `count` pieces of a tile of columns begin.
  const char* tile_at(const void* weights, std::int64_t column, std::int64_t piece,
                      std::int64_t count) const {
    if (!is_repacked(format_)) return row_at(weights, format_, column * depth_ + piece * 32);
    return row_at(weights, format_, columns_ * piece * 32 + column * count * 32);  // pieces: a panel
  }

  // Rows of weights become numbers a panel at a time, small enough to stay in a cache. BLAS arranges x anew
  // for each, which costs most where panels are narrow.
  void multiply_panels(const float* x, const void* weights, float* out) const {
    const std::int64_t wide = std::min((1 << 20) / depth_, columns_ / (2 * thread_count()));
    const std::int64_t panel = std::clamp<std::int64_t>(wide, 16, 1024);
    parallel_for((columns_ + panel - 1) / panel, 1, [&](std::int64_t begin, std::int64_t end) {
      const Scratch numbers(panel * depth_);
      for (std::int64_t first = begin * panel; first < std::min(end * panel, columns_); first += panel) {
        const std::int64_t count = std::min(panel, columns_ - first);
        widen(row_at(weights, format_, first * depth_), numbers.data(), count * depth_);
        cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows_), static_cast<int>(count),
                    static_cast<int>(depth_), 1.0f, x, static_cast<int>(depth_), numbers.data(),
                    static_cast<int>(depth_), 0.0f, out + first, static_cast<int>(columns_));
      }
    });
  }

  void widen(const char* weights, float* numbers, std::int64_t count) const {
    if (is_quantised(format_))
      kernels_.dequantise[format_index(format_)](weights, numbers, count);
    else
      elementwise_kernels().load[static_cast<int>(format_)](numbers, weights, nullptr, nullptr, count);
  }

  DType format_;
  std::int64_t rows_, columns_, depth_;
  const QuantisedKernels& kernels_;
  const TileProductKernels& tiles_;
};

std::unique_ptr<Kernel> make_product(const Step& step) {
  const Layout &x = step.inputs[0], &weight = step.inputs[1], &output = step.outputs[0];
  const std::int64_t rows = x.shape[0], columns = weight.shape[0], depth = x.shape[1];
  keep_blas_on_one_thread();
  if (std::max({rows, columns, depth}) > std::numeric_limits<int>::max())
    throw BlasError(fmt::format("[quantised_matmul] {} x {} x {} is too large for the BLAS library", rows,
                                columns, depth));
  return kernel([=, format = weight.dtype](const KernelArguments& arguments) {
    const DenseInput from(x, arguments.inputs[0], DType::f32);
    const DenseOutput to(output, arguments.outputs[0], DType::f32);
    multiply_blocks(format, static_cast<const float*>(from.data()), arguments.inputs[1],
                    static_cast<float*>(to.data()), rows, columns, depth);
    to.store();
  });
}

}  // namespace

void multiply_blocks(DType format, const float* x, const void* weights, float* out, std::int64_t rows,
                     std::int64_t columns, std::int64_t depth) {
  BlockProduct(format, rows, columns, depth).multiply(x, weights, out);
}

DType repacked_format(DType format) {
  if (!repacked_kernels().there) return format;
  switch (format) {
#define HEARTH_REPACKED(dtype, Block, fours, Quad) \
  case DType::dtype:                               \
    return DType::fours;
    HEARTH_REPACKED_FORMATS(HEARTH_REPACKED)
#undef HEARTH_REPACKED
    default:
      return format;
  }
}

void repack(DType format, const void* blocks, std::int64_t rows, void* target, std::int64_t first_row,
            std::int64_t all_rows, std::int64_t depth) {
  const auto repack_four = repacked_kernels().repack[repacked_index(repacked_format(format))];
  const RepackedMatrix matrix = repacked_matrix(target, all_rows, depth);
  const std::int64_t grain = std::max<std::int64_t>(1, copy_grain / std::max<std::int64_t>(1, 4 * depth));
  parallel_for(rows / 4, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t quad = begin; quad < end; ++quad)
      repack_four(row_at(blocks, format, quad * 4 * depth), storage_bytes(format, depth), matrix,
                  first_row / 4 + quad);
  });
}

std::unique_ptr<Kernel> make_quantised(const Step& step) {
  switch (step.op) {
    case Op::copy:
      return make_copy(step);
    case Op::dequantise:
      return make_dequantise(step);
    case Op::quantised_take:
      return make_take(step);
    case Op::quantised_matmul:
      return make_product(step);
    default:
      throw DTypeError(fmt::format("[{}] {} is a storage format; dequantise first", op_name(step.op),
                                   dtype_name(step.outputs[0].dtype)));
  }
}

}  // namespace hearth::cpu
