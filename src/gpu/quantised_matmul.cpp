// Products with weights in blocks or in 16 bits, of many rows; those of few are in few_rows.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "gpu/converted_product.h"
#include "gpu/gemm_tiles.h"
#include "gpu/halved_product.h"
#include "gpu/matmul.h"
#include "gpu/tensor_map.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

// ---- more rows, through f16

// In tiles of all rows, or of some; splits of K leave their sums in scratch memory.
class TiledRowsKernel : public HalvedProduct {
 public:
  std::size_t scratch_bytes() const override { return halved_bytes() + split_bytes(); }

  void run(const KernelArguments& arguments) const override {
    const Halved x = halve(arguments);
    void* const sums = static_cast<char*>(arguments.scratch) + halved_bytes();
    const std::uint64_t jobs = shape_.splits * tiles();
    const bool split = shape_.splits > 1;
    const Blocks blocks = weights(arguments);
    std::vector<Constant> constants;
    Arguments multiply, combine;
    multiply.add(blocks);
    multiply.add(x.numbers);
    for (Arguments* values : {&multiply, &combine}) {
      values->add(x.scales);
      values->add(shape_);
    }
    if (split) {
      multiply.add(sums);
      combine.add(sums);
    }
    add_finish(split ? combine : multiply, arguments, constants);
    device_.launch(
        multiply_,
        {.x = static_cast<unsigned>(std::min(jobs, LaunchShape::most_blocks)), .threads = block_threads_},
        multiply);
    if (!split) return;
    device_.launch(combine_,
                   {.x = device_.grid_for(static_cast<std::uint64_t>(results()), combined_by_block),
                    .threads = combining_threads(shape_.columns, sizeof(float))},
                   combine);
  }

 protected:
  using HalvedProduct::HalvedProduct;

  void split(const GemmSplit& split) {
    shape_.splits = split.splits;
    shape_.split_depth = split.depth;
  }

  // The last thing a constructor does. x is to have `rows` rows of `depth` elements in scratch memory, those
  // of a row where `place`, a type, says. `multiply` is what a block does with `blocks`, and
  // after_previous() with x and `finish`.
  void compile(std::int64_t rows, std::int64_t depth, unsigned block_threads, std::string_view header,
               std::string_view place, std::string_view multiply) {
    halves(rows, depth);
    block_threads_ = block_threads;
    const KernelSource source{"quantised_matmul", text(header, place, multiply), {}};
    halve_ = device_.function(source, "halve_activations");
    multiply_ = device_.function(source, "multiply_blocks");
    if (shape_.splits > 1) combine_ = device_.function(source, "combine");
  }

 private:
  std::string text(std::string_view header, std::string_view place, std::string_view multiply) const {
    const bool split = shape_.splits > 1;
    std::string kernels = halve_text(place);
    kernels += fmt::format(
        "KERNEL_OF({}) void multiply_blocks(Blocks blocks, const f16* x, const f32* scales, GemmShape "
        "shape{}) {{\n"
        "  const auto finish = {};\n{}}}\n",
        block_threads_, split ? ", f32* sums" : finish_.parameters,
        split ? "gemm::Partial<f32>{sums, shape.rows, shape.columns, 1}" : scaled_finish(), multiply);
    if (split)
      kernels += fmt::format(
          "KERNEL void combine(const f32* scales, GemmShape shape, const f32* sums{}) {{\n  "
          "after_previous();\n"
          "  gemm::combine(shape, sums, {});\n}}\n",
          finish_.parameters, scaled_finish());
    return kernel_text(kernels, header);
  }

  unsigned block_threads_ = 0;
  Function multiply_, combine_;
};

// A tile's worth of rows or a few: weights become operands of the matrix unit in registers.
class StripRowsKernel final : public TiledRowsKernel {
 public:
  StripRowsKernel(GpuDevice& device, const Step& step) : TiledRowsKernel(device, step) {
    const std::int64_t row_tiles = (shape_.rows + most_rows - 1) / most_rows;
    const auto rows = static_cast<int>(((shape_.rows + row_tiles - 1) / row_tiles + 15) / 16 * 16);
    const std::int64_t chunks = (shape_.depth + chunk - 1) / chunk;
    divide(rows, wave_columns * waves);
    const std::int64_t splits = best_splits(chunks, rows), each = (chunks + splits - 1) / splits;
    split({static_cast<unsigned>((chunks + each - 1) / each), each * chunk});
    const std::string_view format = dtype_name(format_);
    compile(shape_.row_tiles * rows, chunks * chunk, static_cast<unsigned>(waves * device.wave_size()),
            "quantised_strips.h", fmt::format("InChunks<quantised::{}>", format),
            fmt::format("  using Tile = StripTile<quantised::{}, {}, {}>;\n"
                        "  bring_near<Tile>(shape, blocks);\n  after_previous();\n"
                        "  multiply_strips<Tile>(shape, blocks, x, finish);\n",
                        format, rows, waves));
  }

 private:
  static constexpr std::int64_t most_rows = 64;         // of a tile: what the registers hold
  static constexpr int waves = 4;                       // of a block
  static constexpr int chunk = 128, wave_columns = 32;  // as quantised_strips.h has them

  // Into how many parts K is split, for the least time. In units of what a chunk takes when the device is
  // busy: a block needs `begin` besides its chunks, and sums that are combined the time of a launch and that
  // of their way through memory.
  std::int64_t best_splits(std::int64_t chunks, int tile_rows) const {
    constexpr std::int64_t most = 16;
    constexpr double begin = 1, launch = 2;
    const double waves_at_once = tile_rows <= 32 ? 12 : 8;  // of a compute unit
    const double slots = waves_at_once / waves * device_.compute_units();
    // Bytes of sums, written and read, against those of weights.
    const double sums =
        static_cast<double>(shape_.rows * shape_.columns * 8) / (slots * waves * wave_columns * chunk);
    std::int64_t best = 1;
    double least = std::numeric_limits<double>::infinity();
    for (std::int64_t splits = 1; splits <= std::min(most, chunks); ++splits) {
      const double rounds = std::ceil(static_cast<double>(tiles()) * static_cast<double>(splits) / slots);
      const auto each = static_cast<double>((chunks + splits - 1) / splits);
      const double time =
          rounds * (each + begin) + (splits == 1 ? 0 : launch + static_cast<double>(splits) * sums);
      if (time < least) {
        least = time;
        best = splits;
      }
    }
    return best;
  }
};

// Many rows: tiles of weights become f16 in shared memory.
class ManyRowsKernel final : public TiledRowsKernel {
 public:
  ManyRowsKernel(GpuDevice& device, const Step& step) : TiledRowsKernel(device, step) {
    const bool unit = has_matrix_unit(device.target(), DType::f16);
    GemmTile tile;
    const auto choose = [&](bool large) {
      tile = unit ? mma_tile(device.target(), DType::f16, large) : fma_tile(DType::f16, large);
      return divide(tile.rows, tile.columns);
    };
    const auto compute_units = static_cast<std::uint64_t>(device.compute_units());
    if (shape_.rows <= 64 || choose(true) < compute_units) choose(false);
    split(split_depth(tile.depth, tiles(), shape_.depth, device.compute_units()));
    compile(shape_.rows, shape_.depth, static_cast<unsigned>(tile.threads), "quantised.h", "InOrder",
            fmt::format("  after_previous();\n"
                        "  const auto source_a = [&](u64, i64 end) {{\n"
                        "    return gemm::Matrix<f16>{{x, shape.a_row, 1, shape.rows, end}};\n  }};\n"
                        "  const auto source_b = [&](u64, i64 end) {{\n"
                        "    return Weights<quantised::{0}>{{blocks, shape.columns, end, shape.depth / "
                        "quantised::{0}::elements}};\n  }};\n"
                        "  gemm::multiply<{1}, {2}, gemm::AlongK<16>>(shape, source_a, source_b, finish);\n",
                        dtype_name(format_), tile.type,
                        gemm_fetch(tile, DType::f16, true, gemm_packet(tile, DType::f16))));
  }
};

// Nothing to compute.
class EmptyProduct final : public Kernel {
 public:
  void run(const KernelArguments&) const override {}
};

// Up to how many rows a product is computed by StripRowsKernel. Beyond, larger tiles use each number of the
// weights more often.
std::int64_t most_strip_rows(const Target& target) { return has_matrix_unit(target, DType::f16) ? 128 : 0; }

}  // namespace

std::optional<DType> converted_type(const GpuDevice& device, const Step& step) {
  const Layout &x = step.inputs[0], &weight = step.inputs[1];
  const std::int64_t rows = x.shape[0], depth = x.shape[1];
  if (rows * weight.shape[0] == 0 || few_rows_fit(device, step)) return std::nullopt;
  if (!is_quantised(weight.dtype)) {
    // Few rows are bound by reading the weights, so x stays as it is.
    if (rows > few_rows) return weight.dtype;
    return skinny_fits(as_matmul(step)) ? std::nullopt : std::optional(DType::f32);
  }
  if (depth == 0) return DType::f32;
  if (group_rows_fit(device, step) || rows <= most_strip_rows(device.target())) return std::nullopt;
  // Where the matrix unit has a copy engine to feed it, so many rows are worth numbers in memory.
  return has_copy_engine(device) ? std::optional(DType::bf16) : std::nullopt;
}

bool quantised_takes_norm(const GpuDevice& device, const Step& product, const Step& norm) {
  if (!norm_fits(product, norm)) return false;
  if (few_rows_fit(device, product)) return few_rows_take_norm(device, product);
  const Layout &x = product.inputs[0], &weight = product.inputs[1];
  return is_quantised(weight.dtype) && element_count(x.shape) * weight.shape[0] > 0 &&
         !converted_type(device, product);
}

std::unique_ptr<Kernel> make_quantised_matmul(GpuDevice& device, const Step& step) {
  const Layout &x = step.inputs[0], &weight = step.inputs[1];
  const std::int64_t rows = x.shape[0], columns = weight.shape[0], depth = x.shape[1];
  if (rows * columns == 0) return std::make_unique<EmptyProduct>();
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / few_rows;
  if (std::max({rows, columns, depth}) > most)
    throw KernelError(fmt::format("[quantised_matmul] {} x {} x {} is too large", rows, columns, depth));
  if (few_rows_fit(device, step)) return make_few_rows(device, step);
  if (const auto dtype = converted_type(device, step)) return make_converted_product(device, step, *dtype);
  if (!is_quantised(weight.dtype)) return make_matmul(device, as_matmul(step), MatmulVariant::skinny);
  if (group_rows_fit(device, step)) return make_group_rows(device, step);
  if (rows <= most_strip_rows(device.target())) return std::make_unique<StripRowsKernel>(device, step);
  return std::make_unique<ManyRowsKernel>(device, step);
}

}  // namespace hearth::gpu
