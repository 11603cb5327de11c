// Matrix products, with the expression that follows one.
#include "gpu/matmul.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_source.h"
#include "gpu/gemm_tiles.h"
#include "gpu/matmul_kernel.h"
#include "gpu/matmul_wgmma.h"
#include "gpu/normed_product.h"
#include "gpu/product_choice.h"
#include "gpu/turned_product.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

// The product in tiles. With `partial`, sums of a part of K go to scratch memory instead.
std::string tile_source(const MatrixProduct& product, const GemmTile& tile, int packet_a, int packet_b,
                        bool partial) {
  const FinishText finish(product);
  const std::string_view type = storage_type(product.a.dtype), sum = compute_type(product.a.dtype);
  std::string text = matmul_beginning(product);
  if (!partial) text += finish.structure;
  text += fmt::format(
      "KERNEL void __launch_bounds__({}) matmul(const {}* a, const {}* b, GemmShape shape, GemmStack stack,\n"
      "    GemmStackStrides stack_a, GemmStackStrides stack_b{}) {{\n",
      tile.threads, type, type, partial ? fmt::format(", {}* sums", sum) : finish.parameters);
  const std::string& tile_type = packet_a > 1 && packet_b > 1 ? tile.type : tile.by_element;
  text += matrix_sources(product, tile_type);
  text += fmt::format(
      "  gemm::multiply<{}, {}, {}>(shape, source_a, source_b, {});\n}}\n", tile_type,
      gemm_fetch(tile, product.a.dtype, product.a.along_k(), packet_a),
      gemm_fetch(tile, product.b.dtype, product.b.along_k(), packet_b),
      partial ? fmt::format("gemm::Partial<{}>{{sums, shape.rows, shape.columns, shape.products}}", sum)
              : fmt::format("Finish{{stack, shape.rows, shape.columns{}}}", finish.members));
  return text;
}

class TileKernel final : public MatmulKernel {
 public:
  TileKernel(GpuDevice& device, const Step& step, GemmTile tile)
      : MatmulKernel(device, step), tile_(std::move(tile)) {
    const auto tiles = [](std::int64_t size, int one) {
      return static_cast<unsigned>((size + one - 1) / one);
    };
    shape_.row_tiles = tiles(shape_.rows, tile_.rows);
    shape_.column_tiles = tiles(product_.b.rows, tile_.columns);
    if (!product_.halves) {
      const std::uint64_t all = shape_.products * shape_.row_tiles * shape_.column_tiles;
      const GemmSplit split = split_depth(tile_.depth, all, shape_.depth, device.compute_units());
      shape_.splits = split.splits;
      shape_.split_depth = split.depth;
    }
    const int packet = gemm_packet(tile_, product_.a.dtype);
    packet_a_ = product_.a.in_packets(packet) ? packet : 1;
    packet_b_ = product_.b.in_packets(packet) ? packet : 1;
    if (tile_.only_packets)
      smaller_ =
          std::make_unique<TileKernel>(device, step, mma_tile(device.target(), product_.a.dtype, false));
  }

  std::size_t scratch_bytes() const override {
    return std::max(split_bytes(), smaller_ ? smaller_->scratch_bytes() : 0);
  }

  void run(const KernelArguments& arguments) const override {
    if (results() == 0) return;
    const std::size_t size = dtype_size(product_.a.dtype);
    const bool packets = aligned(arguments.inputs[0], static_cast<std::size_t>(packet_a_) * size) &&
                         aligned(arguments.inputs[1], static_cast<std::size_t>(packet_b_) * size);
    if (smaller_ && !(packets && packet_a_ > 1 && packet_b_ > 1)) return smaller_->run(arguments);
    const bool split = shape_.splits > 1;
    const auto make_source = [&] {
      return KernelSource{
          "matmul",
          tile_source(product_, tile_, packets ? packet_a_ : 1, packets ? packet_b_ : 1, split),
          {}};
    };
    const Function& function = (packets ? in_packets_ : by_element_).get(device_, make_source, "matmul");
    Arguments values;
    std::vector<Constant> constants;
    values.add(arguments.inputs[0]);
    values.add(arguments.inputs[1]);
    values.add(shape_);
    values.add(product_.stack);
    values.add(stack_a_);
    values.add(stack_b_);
    if (split)
      values.add(arguments.scratch);
    else
      add_finish(values, arguments, constants);
    const std::uint64_t jobs = shape_.products * shape_.splits * shape_.row_tiles * shape_.column_tiles;
    device_.launch(function,
                   {.x = static_cast<unsigned>(std::min(jobs, LaunchShape::most_blocks)),
                    .threads = static_cast<unsigned>(tile_.threads)},
                   values);
    if (!split) return;
    const auto make_combine = [&] { return combine_source(product_); };
    combine(combine_.get(device_, make_combine, "combine"), arguments);
  }

 private:
  GemmTile tile_;
  int packet_a_ = 1, packet_b_ = 1;
  LazyFunction in_packets_, by_element_, combine_;
  std::unique_ptr<TileKernel> smaller_;  // for operands by element, where the tile is too large for them
};

// Few rows or columns: both operands along K, the larger one read once.
class SkinnyKernel final : public MatmulKernel {
 public:
  SkinnyKernel(GpuDevice& device, const Step& step) : MatmulKernel(device, step) {
    swapped_ = shape_.rows < shape_.columns;
    const std::int64_t few = std::min(shape_.rows, shape_.columns),
                       many = std::max(shape_.rows, shape_.columns);
    few_ = few <= 1 ? 1 : few <= 2 ? 2 : few <= 4 ? 4 : 8;
    // A row's waves: as many as keep the device busy, where K is long enough for them.
    const std::int64_t groups = (many + rows_ - 1) / rows_ * product_.count;
    const std::int64_t waves = std::int64_t{device.compute_units()} * 32 * 32 / device.wave_size();
    length_ = packet(product_, device.target().amd);
    const std::int64_t at_once = std::int64_t{length_} * device.wave_size();
    while (waves_ * device.wave_size() < static_cast<int>(threads) && groups * waves_ < waves &&
           shape_.depth > at_once * waves_ * 2)
      waves_ *= 2;
    blocks_ = (groups * waves_ * device.wave_size() + threads - 1) / threads;
  }

  static bool fits(const MatrixProduct& product) {
    const std::int64_t most = dtype_size(product.a.dtype) == 8 ? 4 : 8;
    return !product.halves && std::min(product.a.rows, product.b.rows) <= most &&
           fits(product, packet(product, false));
  }

  void run(const KernelArguments& arguments) const override {
    if (results() == 0) return;
    const bool packets = aligned(arguments.inputs[0], 16) && aligned(arguments.inputs[1], 16);
    const auto make_source = [&] {
      const std::size_t bytes =
          static_cast<std::size_t>(length_) * dtype_size((swapped_ ? product_.b : product_.a).dtype);
      return KernelSource{"matmul_skinny", source(packets), {}, packets ? bytes : 0};
    };
    const Function& function = (packets ? in_packets_ : by_element_).get(device_, make_source, "matmul");
    Arguments values;
    std::vector<Constant> constants;
    values.add(arguments.inputs[0]);
    values.add(arguments.inputs[1]);
    values.add(shape_);
    values.add(product_.stack);
    values.add(stack_a_);
    values.add(stack_b_);
    add_finish(values, arguments, constants);
    const std::int64_t most = std::int64_t{device_.compute_units()} * 64;
    device_.launch(function, {.x = static_cast<unsigned>(std::min(blocks_, most)), .threads = threads},
                   values);
  }

 private:
  static constexpr unsigned threads = 256;

  // Elements of both operands can be read so many at a time.
  static bool fits(const MatrixProduct& product, int length) {
    const auto fits = [&](const Operand& operand) { return operand.along_k() && operand.in_packets(length); };
    return product.a.depth >= length && fits(product.a) && fits(product.b);
  }
  // 16 bytes, or eight elements where bytes come in no more. Compilers for NVIDIA give each of 16 a register.
  static int packet(const MatrixProduct& product, bool amd) {
    const int whole =
        static_cast<int>(16 / std::min(dtype_size(product.a.dtype), dtype_size(product.b.dtype)));
    return whole <= 8 || (amd && fits(product, whole)) ? whole : 8;
  }

  std::string source(bool packets) const {
    const FinishText finish(product_);
    return matmul_beginning(product_) + "#include \"gemv.h\"\n" + finish.structure +
           fmt::format(
               "KERNEL void __launch_bounds__({}) matmul(const {}* a, const {}* b, GemmShape shape, "
               "GemmStack stack,\n"
               "    GemmStackStrides stack_a, GemmStackStrides stack_b{}) {{\n{}",
               threads, storage_type(product_.a.dtype), storage_type(product_.b.dtype), finish.parameters,
               matrix_sources(product_)) +
           fmt::format(
               "  gemv::bring_near<{1}, {2}, {3}, {4}>(shape, {5});\n  after_previous();\n"
               "  gemv::multiply<{0}, {1}, {2}, {3}, {4}>(shape, {5}, {6}, Finish{{stack, shape.rows, "
               "shape.columns{7}}});\n}}\n",
               few_, rows_, packets ? length_ : 1, waves_, swapped_, swapped_ ? "source_b" : "source_a",
               swapped_ ? "source_a" : "source_b", finish.members);
  }

  bool swapped_ = false;  // the few are rows of a
  static constexpr int rows_ =
      2;  // that share what is read of the vectors; more would not fit into registers
  int few_ = 1, waves_ = 1, length_ = 1;
  std::int64_t blocks_ = 1;
  LazyFunction in_packets_, by_element_;
};

// A large one where those keep the device busy.
GemmTile automatic_tile(const GpuDevice& device, const Step& step) {
  const DType dtype = step.inputs[0].dtype;
  const auto tile = [&](bool large) {
    return has_matrix_unit(device.target(), dtype) ? mma_tile(device.target(), dtype, large)
                                                   : fma_tile(dtype, large);
  };
  GemmTile large = tile(true);
  return tile_count(step, large.rows, large.columns) >= device.compute_units() ? large : tile(false);
}

}  // namespace

bool skinny_fits(const Step& step) { return SkinnyKernel::fits(MatrixProduct(step)); }

bool wgmma_is_best(const GpuDevice& device, const Step& step) {
  constexpr std::int64_t few = 32;
  return !skinny_fits(step) && wgmma_fits(device, step) && step.domain.back() > few &&
         step.domain[step.domain.size() - 2] > few;
}

bool halves_fit(const GpuDevice& device, const Step& step) {
  const DType dtype = step.inputs[0].dtype;
  if (!is_floating(dtype) || step.inputs[1].dtype != dtype || skinny_fits(step)) return false;
  const MatrixProduct product(step);
  if (!product.b.along_k()) return false;
  // Sums over parts of K are combined by another kernel, element by element.
  const GemmTile tile = automatic_tile(device, step);
  const auto tiles = static_cast<std::uint64_t>(tile_count(step, tile.rows, tile.columns));
  return split_depth(tile.depth, tiles, product.a.depth, device.compute_units()).splits == 1;
}

std::unique_ptr<Kernel> make_matmul(GpuDevice& device, const Step& step, MatmulVariant variant) {
  const DType dtype = step.inputs[0].dtype;
  if (dtype == DType::bool_) throw DTypeError("[matmul] bool has no product; cast to an integer first");
  const Target& target = device.target();
  const bool unit = has_matrix_unit(target, dtype);
  const auto tiles = [&](GemmTile tile) {
    return std::make_unique<TileKernel>(device, step, std::move(tile));
  };
  switch (variant) {
    case MatmulVariant::fma_small:
      return tiles(fma_tile(dtype, false));
    case MatmulVariant::fma_large:
      return tiles(fma_tile(dtype, true));
    case MatmulVariant::mma_small:
    case MatmulVariant::mma_large:
      if (!unit)
        throw KernelError(
            fmt::format("[matmul] no matrix unit for {} on {}", dtype_name(dtype), device.name()));
      return tiles(mma_tile(target, dtype, variant == MatmulVariant::mma_large));
    case MatmulVariant::wgmma_128:
    case MatmulVariant::wgmma_192:
    case MatmulVariant::wgmma_256:
      if (!wgmma_fits(device, step))
        throw KernelError(fmt::format("[matmul] not a product for wgmma on {}", device.name()));
      return make_wgmma(device, step, variant, tiles(mma_tile(target, dtype, true)));
    case MatmulVariant::skinny:
      if (!skinny_fits(step)) throw KernelError("[matmul] not a product of few rows or columns along K");
      return std::make_unique<SkinnyKernel>(device, step);
    case MatmulVariant::automatic:
      break;
  }
  if (skinny_fits(step)) return std::make_unique<SkinnyKernel>(device, step);
  if (wgmma_is_best(device, step))
    return make_wgmma(device, step, variant, tiles(mma_tile(target, dtype, true)));
  return tiles(automatic_tile(device, step));
}

std::unique_ptr<Kernel> make_matmul(GpuDevice& device, const Step& step) {
  if (step.normed) return make_normed_product(device, step);
  return step.turned ? make_turned_product(device, step) : choose_product(device, step);
}

}  // namespace hearth::gpu
