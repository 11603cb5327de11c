// Quantised weights: dequantise, take, and products.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

#include "gpu/expression_source.h"
#include "gpu/gemm_tiles.h"
#include "gpu/kernel_arguments.h"
#include "gpu/kernels.h"
#include "gpu/nest.h"
#include "hearth/error.h"

namespace hearth::gpu {

#include "gpu/kernels/gemm_arguments.h"

namespace {

constexpr unsigned threads = 256;

constexpr std::size_t rounding_bytes = 8;

std::uint64_t block_count(const Layout& weight) {
  return static_cast<std::uint64_t>(element_count(weight.shape) / block_elements(weight.dtype));
}

std::string kernel_text(std::string_view body) {
  return fmt::format("#include \"quantised.h\"\nusing namespace quantised;\n{}", body);
}

// ---- numbers

class DequantiseKernel final : public Kernel {
 public:
  DequantiseKernel(GpuDevice& device, const Step& step)
      : device_(device),
        count_(block_count(step.inputs[0])),
        runs_(count_ * block_elements(step.inputs[0].dtype) / 16) {
    const std::string text = fmt::format(
        "KERNEL void dequantise_blocks(Blocks blocks, {1}* out) {{ dequantise<quantised::{0}>(blocks, out); "
        "}}\n",
        dtype_name(step.inputs[0].dtype), storage_type(step.outputs[0].dtype));
    function_ = device.function({"dequantise", kernel_text(text), {}, 16}, "dequantise_blocks");
  }
  void run(const KernelArguments& arguments) const override {
    if (runs_ == 0) return;
    device_.launch(function_, {.x = device_.grid_for(runs_, threads), .threads = threads},
                   Blocks{arguments.inputs[0], count_}, arguments.outputs[0]);
  }

 private:
  GpuDevice& device_;
  std::uint64_t count_, runs_;
  Function function_;
};

class TakeKernel final : public Kernel {
 public:
  TakeKernel(GpuDevice& device, const Step& step)
      : device_(device),
        blocks_(block_count(step.inputs[0])),
        rows_(step.inputs[0].shape[0]),
        runs_(static_cast<std::uint64_t>(step.inputs[0].shape[1] / 16)),
        loop_(collapse(step.inputs[1].shape, {step.inputs[1].strides})) {
    const std::string text = fmt::format(
        "KERNEL void take_rows(Blocks blocks, const i64* indices, {1}* out, Nest<1> places, u64 runs, i64 "
        "rows,\n"
        "                      u64 count, Fault fault) {{\n"
        "  take<quantised::{0}>(blocks, indices, places, runs, rows, count, out, fault);\n}}\n",
        dtype_name(step.inputs[0].dtype), storage_type(step.outputs[0].dtype));
    function_ = device.function({"quantised_take", kernel_text(text), {}, 16}, "take_rows");
  }
  void run(const KernelArguments& arguments) const override {
    const auto count = static_cast<std::uint64_t>(loop_.count());
    if (count * runs_ == 0) return;
    device_.launch(function_, {.x = device_.grid_for(count * runs_, threads), .threads = threads},
                   Blocks{arguments.inputs[0], blocks_}, arguments.inputs[1], arguments.outputs[0],
                   Nest<1>(loop_), runs_, rows_, count,
                   Fault{device_.fault(), static_cast<std::uint64_t>(Op::quantised_take)});
  }

 private:
  GpuDevice& device_;
  std::uint64_t blocks_;
  std::int64_t rows_;
  std::uint64_t runs_;
  StridedLoop loop_;
  Function function_;
};

// ---- products: x (rows, depth) @ transposed(w (columns, depth))

struct Product {
  DType format, dtype;
  std::int64_t rows, columns, depth, row_stride, k_stride;
  std::uint64_t blocks;

  explicit Product(const Step& step)
      : format(step.inputs[1].dtype),
        dtype(step.inputs[0].dtype),
        rows(step.inputs[0].shape[0]),
        columns(step.inputs[1].shape[0]),
        depth(step.inputs[0].shape[1]),
        row_stride(step.inputs[0].strides[0]),
        k_stride(step.inputs[0].strides[1]),
        blocks(block_count(step.inputs[1])) {}
  std::int64_t results() const { return rows * columns; }
};

constexpr std::int64_t few_rows = 8;

constexpr unsigned few_threads = 512;

// How the work of a product with few rows is divided.
struct FewTile {
  int rows = 1, columns = 2, ahead = 2;
  bool rounds_in_block = true;  // each block rounds x for itself, into shared memory
};

std::string few_text(const Product& product, const FewTile& tile) {
  const std::string_view type = storage_type(product.dtype), format = dtype_name(product.format);
  const std::string work = fmt::format(
      "  const FewRows<quantised::{}, {}, {}, {}, {}> work(blocks, rows, columns, depth, parts);\n", format,
      tile.rows, tile.columns, tile.ahead, few_threads);
  if (tile.rounds_in_block)
    return kernel_text(fmt::format(
        "KERNEL_OF({0}) void multiply_blocks(Blocks blocks, const {1}* x, i64 row_stride, i64 k_stride, {1}* "
        "y,\n"
        "    u32 rows, u32 columns, u32 depth, u32 parts) {{\n"
        "  u8* q = launched_shared<u8>();\n"
        "  Rounding* roundings = reinterpret_cast<Rounding*>(q + rows * depth);\n{2}"
        "  multiply_few(work, q, roundings, y, [&] {{\n"
        "    round_rows<quantised::{3}>(x, row_stride, k_stride, rows, depth, q, roundings, threadIdx.x, "
        "blockDim.x);\n"
        "    barrier();\n  }});\n}}\n",
        few_threads, type, work, format));
  return kernel_text(fmt::format(
      "KERNEL void round_activations(const {1}* x, i64 row_stride, i64 k_stride, u8* q, Rounding* "
      "roundings,\n"
      "    u32 rows, u32 depth) {{\n"
      "  round_rows<quantised::{3}>(x, row_stride, k_stride, rows, depth, q, roundings, "
      "(u32)global_thread(), "
      "(u32)global_threads());\n}}\n"
      "KERNEL_OF({0}) void multiply_blocks(Blocks blocks, const u8* q, const Rounding* roundings, {1}* y,\n"
      "    u32 rows, u32 columns, u32 depth, u32 parts) {{\n{2}"
      "  multiply_few(work, q, roundings, y, [] {{}});\n}}\n",
      few_threads, type, work, format));
}

class FewRowsKernel final : public Kernel {
 public:
  FewRowsKernel(GpuDevice& device, const Step& step) : device_(device), product_(step) {
    tile_.rows = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(product_.rows)));
    if (heavy(product_.format)) tile_.columns = 1;
    if (tile_.rows == few_rows) tile_.ahead = 1;
    constexpr std::size_t most_shared = 40 << 10;
    tile_.rounds_in_block = rounded_bytes() <= most_shared;
    // Blocks stay, so that x is rounded as seldom as can be; two of them on AMD's compute units, which have
    // registers for both.
    const auto waves = few_threads / static_cast<unsigned>(device.wave_size());
    const auto most_blocks =
        static_cast<std::int64_t>(device.compute_units()) * (device.target().amd ? 2 : 1);
    while (parts_ < waves && product_.columns / tile_.columns * parts_ < most_blocks * waves / 2 &&
           static_cast<std::int64_t>(parts_) * device.wave_size() * tile_.ahead < product_.depth / 32)
      parts_ *= 2;
    const std::int64_t each = static_cast<std::int64_t>(waves / parts_) * tile_.columns;
    blocks_ = static_cast<unsigned>(std::min((product_.columns + each - 1) / each, most_blocks));
    const std::string text = few_text(product_, tile_);
    multiply_ = device.function({"quantised_matmul", text, {}, 16}, "multiply_blocks");
    if (!tile_.rounds_in_block) round_ = device.function({"quantised_matmul", text, {}}, "round_activations");
  }

  std::size_t scratch_bytes() const override { return tile_.rounds_in_block ? 0 : rounded_bytes(); }

  void run(const KernelArguments& arguments) const override {
    const Blocks weights{arguments.inputs[1], product_.blocks};
    const auto rows = static_cast<std::uint32_t>(product_.rows),
               columns = static_cast<std::uint32_t>(product_.columns),
               depth = static_cast<std::uint32_t>(product_.depth);
    LaunchShape launch{.x = blocks_, .threads = few_threads};
    if (tile_.rounds_in_block) {
      launch.shared = static_cast<unsigned>(rounded_bytes());
      device_.launch(multiply_, launch, weights, arguments.inputs[0], product_.row_stride, product_.k_stride,
                     arguments.outputs[0], rows, columns, depth, parts_);
      return;
    }
    void* const roundings = static_cast<char*>(arguments.scratch) + product_.rows * product_.depth;
    const auto quads = static_cast<std::uint64_t>(product_.rows * product_.depth / 4);
    device_.launch(round_, {.x = device_.grid_for(quads, threads), .threads = threads}, arguments.inputs[0],
                   product_.row_stride, product_.k_stride, arguments.scratch, roundings, rows, depth);
    device_.launch(multiply_, launch, weights, arguments.scratch, roundings, arguments.outputs[0], rows,
                   columns, depth, parts_);
  }

 private:
  // Formats whose pairs take many registers.
  static bool heavy(DType format) {
    return format == DType::q3_k || format == DType::q5_k || format == DType::q6_k;
  }
  // x as bytes, and a Rounding for each 32 or 16.
  std::size_t rounded_bytes() const {
    const std::int64_t each = block_elements(product_.format) == 32 ? 32 : 16;
    return static_cast<std::size_t>(product_.rows * product_.depth / each) *
           (static_cast<std::size_t>(each) + rounding_bytes);
  }

  GpuDevice& device_;
  Product product_;
  FewTile tile_;
  unsigned parts_ = 1, blocks_ = 1;
  Function multiply_, round_;
};

// In tiles, through f16.
class ManyRowsKernel final : public Kernel {
 public:
  ManyRowsKernel(GpuDevice& device, const Step& step) : device_(device), product_(step) {
    shape_ = {.rows = product_.rows,
              .columns = product_.columns,
              .depth = product_.depth,
              .a_row = product_.depth,
              .a_k = 1,
              .b_column = product_.depth,
              .b_k = 1,
              .split_depth = product_.depth,
              .row_tiles = 1,
              .column_tiles = 1,
              .splits = 1,
              .products = 1};
    const auto compute_units = static_cast<std::uint64_t>(device.compute_units());
    if (shape_.rows <= 64 || tiles(true) < compute_units) tiles(false);
    const GemmSplit split =
        split_depth(tile_.depth, static_cast<std::uint64_t>(shape_.row_tiles) * shape_.column_tiles,
                    shape_.depth, device.compute_units());
    shape_.splits = split.splits;
    shape_.split_depth = split.depth;
    const KernelSource source{"quantised_matmul", text(), {}};
    halve_ = device.function(source, "halve_activations");
    multiply_ = device.function(source, "multiply_blocks");
    if (shape_.splits > 1) combine_ = device.function(source, "combine");
  }

  std::size_t scratch_bytes() const override {
    return sums_at() +
           (shape_.splits > 1 ? shape_.splits * static_cast<std::size_t>(product_.results()) * 4 : 0);
  }

  void run(const KernelArguments& arguments) const override {
    const auto rows = static_cast<std::uint32_t>(product_.rows),
               depth = static_cast<std::uint32_t>(product_.depth);
    void* const halves = arguments.scratch;
    void* const scales = static_cast<char*>(arguments.scratch) + scales_at();
    void* const sums = static_cast<char*>(arguments.scratch) + sums_at();
    device_.launch(halve_, {.x = std::min(rows, 65535u), .threads = threads}, arguments.inputs[0],
                   product_.row_stride, product_.k_stride, halves, scales, rows, depth);
    const std::uint64_t jobs =
        static_cast<std::uint64_t>(shape_.splits) * shape_.row_tiles * shape_.column_tiles;
    constexpr std::uint64_t most_blocks = 1u << 30;
    const bool split = shape_.splits > 1;
    device_.launch(multiply_,
                   {.x = static_cast<unsigned>(std::min(jobs, most_blocks)),
                    .threads = static_cast<unsigned>(tile_.threads)},
                   Blocks{arguments.inputs[1], product_.blocks}, halves, scales, shape_,
                   split ? sums : arguments.outputs[0]);
    if (!split) return;
    device_.launch(combine_,
                   {.x = device_.grid_for(static_cast<std::uint64_t>(product_.results()), combined_by_block),
                    .threads = combining_threads(shape_.columns, sizeof(float))},
                   sums, scales, shape_, arguments.outputs[0]);
  }

 private:
  std::uint64_t tiles(bool large) {
    const bool unit = has_matrix_unit(device_.target(), DType::f16);
    tile_ = unit ? mma_tile(device_.target(), DType::f16, large) : fma_tile(DType::f16, large);
    shape_.row_tiles = static_cast<unsigned>((shape_.rows + tile_.rows - 1) / tile_.rows);
    shape_.column_tiles = static_cast<unsigned>((shape_.columns + tile_.columns - 1) / tile_.columns);
    return static_cast<std::uint64_t>(shape_.row_tiles) * shape_.column_tiles;
  }

  // Scratch: x in f16, a scale per row, sums of splits.
  static std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  std::size_t scales_at() const {
    return rounded(static_cast<std::size_t>(product_.rows * product_.depth) * 2);
  }
  std::size_t sums_at() const { return scales_at() + rounded(static_cast<std::size_t>(product_.rows) * 4); }

  std::string text() const {
    const bool split = shape_.splits > 1;
    const std::string_view type = storage_type(product_.dtype);
    const std::string finish = fmt::format("Scaled<{}>{{out, scales, shape.columns}}", type);
    return kernel_text(fmt::format(
        "KERNEL void halve_activations(const {0}* x, i64 row_stride, i64 k_stride, f16* out, f32* scales,\n"
        "    u32 rows, u32 depth) {{\n"
        "  halve_rows(x, row_stride, k_stride, rows, depth, out, scales);\n}}\n"
        "KERNEL_OF({1}) void multiply_blocks(Blocks blocks, const f16* x, const f32* scales, GemmShape "
        "shape,\n"
        "    {2}* out) {{\n"
        "  const auto source_a = [&](u64, i64 end) {{\n"
        "    return gemm::Matrix<f16>{{x, shape.a_row, 1, shape.rows, end}};\n  }};\n"
        "  const auto source_b = [&](u64, i64 end) {{\n"
        "    return Weights<quantised::{3}>{{blocks, shape.columns, end, shape.depth / "
        "quantised::{3}::elements}};\n"
        "  }};\n"
        "  gemm::multiply<{4}, {5}, gemm::AlongK<16>>(shape, source_a, source_b, {6});\n}}\n"
        "KERNEL void combine(const f32* sums, const f32* scales, GemmShape shape, {0}* out) {{\n"
        "  gemm::combine(shape, sums, {7});\n}}\n",
        type, tile_.threads, split ? "f32" : type, dtype_name(product_.format), tile_.type,
        gemm_fetch(tile_, DType::f16, true, gemm_packet(tile_, DType::f16)),
        split ? "gemm::Partial<f32>{out, shape.rows, shape.columns, 1}" : finish, finish));
  }

  GpuDevice& device_;
  Product product_;
  GemmShape shape_{};
  GemmTile tile_;
  Function halve_, multiply_, combine_;
};

// Nothing to compute, or only zeros.
class EmptyProduct final : public Kernel {
 public:
  void run(const KernelArguments&) const override {}
};

// The bytes of blocks, whatever their order.
std::unique_ptr<Kernel> make_copy(GpuDevice& device, const Step& step) {
  const Layout& blocks = step.outputs[0];
  const Shape shape{storage_bytes(blocks.dtype, element_count(blocks.shape))};
  const Layout bytes{DType::u8, shape, contiguous_strides(shape)};
  Step copy;
  copy.op = Op::copy;
  copy.domain = shape;
  copy.inputs = copy.outputs = {bytes};
  copy.expression.inputs = {DType::u8};
  copy.expression.outputs = {0};
  return make_elementwise(device, copy);
}

std::unique_ptr<Kernel> make_product(GpuDevice& device, const Step& step) {
  const Product product(step);
  if (product.results() == 0) return std::make_unique<EmptyProduct>();
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max() / few_rows;
  if (std::max({product.rows, product.columns, product.depth}) > most)
    throw KernelError(fmt::format("[quantised_matmul] {} x {} x {} is too large", product.rows,
                                  product.columns, product.depth));
  if (product.rows <= few_rows) return std::make_unique<FewRowsKernel>(device, step);
  return std::make_unique<ManyRowsKernel>(device, step);
}

}  // namespace

std::unique_ptr<Kernel> make_quantised(GpuDevice& device, const Step& step) {
  switch (step.op) {
    case Op::copy:
      return make_copy(device, step);
    case Op::dequantise:
      return std::make_unique<DequantiseKernel>(device, step);
    case Op::quantised_take:
      return std::make_unique<TakeKernel>(device, step);
    case Op::quantised_matmul:
      return make_product(device, step);
    default:
      throw DTypeError(fmt::format("[{}] {} is a storage format; dequantise first", op_name(step.op),
                                   dtype_name(step.outputs[0].dtype)));
  }
}

}  // namespace hearth::gpu
