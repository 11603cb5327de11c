// The product of a mixture of experts.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "gpu/block_planes.h"
#include "gpu/block_product.h"
#include "gpu/expression_source.h"
#include "gpu/gemm_tiles.h"
#include "gpu/kernel_arguments.h"
#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {

#include "gpu/kernels/expert_matmul_arguments.h"

namespace {

class ExpertKernel : public Kernel {
 protected:
  ExpertKernel(GpuDevice& device, const Step& step)
      : device_(device), type_(storage_type(step.inputs[0].dtype)), format_(step.inputs[1].dtype) {
    const Layout &x = step.inputs[0], &weight = step.inputs[1], &chosen = step.inputs[2];
    if (!weight.contiguous()) throw KernelError("[expert_matmul] weights must be dense");
    const auto size = [](std::int64_t value) { return static_cast<unsigned long long>(value); };
    shape_ = {.experts = size(weight.shape[0]),
              .columns = size(weight.shape[1]),
              .depth = size(weight.shape[2]),
              .rows = size(chosen.shape[0]),
              .chosen = size(chosen.shape[1]),
              .x_row = x.strides[0],
              .x_choice = x.shape[1] == 1 ? 0 : x.strides[1],
              .x_step = x.strides[2],
              .chosen_row = chosen.strides[0],
              .chosen_step = chosen.strides[1]};
    if (is_quantised(format_))
      blocks_ = static_cast<std::uint64_t>(element_count(weight.shape) / block_elements(format_));
  }

  // Of the result, each with one expert.
  std::uint64_t result_rows() const { return shape_.rows * shape_.chosen; }
  Blocks weights(const KernelArguments& arguments) const { return {arguments.inputs[1], blocks_}; }
  Fault fault() const { return {device_.fault(), static_cast<std::uint64_t>(Op::expert_matmul)}; }
  std::string format_name() const { return fmt::format("quantised::{}", dtype_name(format_)); }

  GpuDevice& device_;
  std::string type_;  // of x and the result
  DType format_;
  ExpertShape shape_{};
  std::uint64_t blocks_ = 0;
};

// Any weights, by a wave for each result.
class PlainExperts final : public ExpertKernel {
 public:
  PlainExperts(GpuDevice& device, const Step& step) : ExpertKernel(device, step) {
    const bool quantised = is_quantised(format_);
    const std::string parameter =
                          quantised ? "quantised::Blocks" : fmt::format("const {}*", storage_type(format_)),
                      weights = quantised ? fmt::format("InBlocks<{}>", format_name())
                                          : fmt::format("Plain<{}>", storage_type(format_));
    const std::string text = fmt::format(
        "#include \"expert_matmul.h\"\n"
        "KERNEL void expert_matmul(ExpertShape shape, const {0}* x, {1} weights, const i64* chosen, {0}* "
        "out,\n"
        "    Fault fault) {{\n"
        "  experts::multiply(shape, x, experts::{2}{{weights}}, chosen, out, fault);\n}}\n",
        type_, parameter, weights);
    function_ = device.function({"expert_matmul", text, {}}, "expert_matmul");
  }

  void run(const KernelArguments& arguments) const override {
    const std::uint64_t results = result_rows() * shape_.columns;
    if (results == 0) return;
    const LaunchShape launch{
        .x = device_.grid_for(results * static_cast<std::uint64_t>(device_.wave_size()), threads),
        .threads = threads};
    void* const* in = arguments.inputs;
    if (is_quantised(format_))
      device_.launch(function_, launch, shape_, in[0], weights(arguments), in[2], arguments.outputs[0],
                     fault());
    else
      device_.launch(function_, launch, shape_, in[0], in[1], in[2], arguments.outputs[0], fault());
  }

 private:
  static constexpr unsigned threads = 256;
  Function function_;
};

// Weights in blocks and few rows: bound by reading them.
class FewExperts final : public ExpertKernel {
 public:
  static bool fits(const Step& step) {
    const Layout &weight = step.inputs[1], &chosen = step.inputs[2];
    return is_quantised(weight.dtype) && chosen.shape[0] <= few_rows && element_count(weight.shape) > 0 &&
           shared_bytes(weight.shape[2]) <= most_shared &&
           weight.shape[1] <= std::numeric_limits<std::int32_t>::max();
  }

  FewExperts(GpuDevice& device, const Step& step) : ExpertKernel(device, step) {
    // Blocks that are all there at once, but no more than have columns for their waves.
    const auto waves = threads / static_cast<unsigned>(device.wave_size());
    const auto most =
        static_cast<std::uint64_t>(device.compute_units()) * 2 / std::max<std::uint64_t>(1, result_rows());
    const std::uint64_t useful = (shape_.columns + columns() * waves - 1) / (columns() * waves);
    grid_ = static_cast<unsigned>(std::clamp<std::uint64_t>(most, 1, useful));
  }

  void run(const KernelArguments& arguments) const override {
    if (result_rows() == 0) return;
    const bool whole = shape_.x_step == 1 && shape_.x_row % 4 == 0 && shape_.x_choice % 4 == 0 &&
                       aligned(arguments.inputs[0], 16);
    const Function& multiply = (whole ? whole_ : by_element_)
                                   .get(
                                       device_,
                                       [&] {
                                         return KernelSource{"expert_matmul", text(whole), {}, 16};
                                       },
                                       "expert_matmul");
    const LaunchShape launch{
        .x = grid_,
        .y = static_cast<unsigned>(result_rows()),
        .threads = threads,
        .shared = static_cast<unsigned>(shared_bytes(static_cast<std::int64_t>(shape_.depth)))};
    device_.launch(multiply, launch, shape_, arguments.inputs[0], weights(arguments), arguments.inputs[2],
                   arguments.outputs[0], fault());
  }

 private:
  static constexpr unsigned threads = 256;
  static constexpr std::int64_t most_shared = 40 << 10;
  // x in bytes, and a scale and a sum for each 16 at most.
  static std::int64_t shared_bytes(std::int64_t depth) { return depth + depth / 16 * 8; }
  // That a wave has at a time: registers hold two where pairs of runs are small.
  unsigned columns() const {
    return format_ == DType::q3_k || format_ == DType::q5_k || format_ == DType::q6_k ? 1 : 2;
  }

  std::string text(bool whole) const {
    return fmt::format(
        "#include \"expert_matmul.h\"\n"
        "KERNEL_OF({0}) void expert_matmul(ExpertShape shape, const {1}* x, quantised::Blocks blocks,\n"
        "    const i64* chosen, {1}* out, Fault fault) {{\n"
        "  after_previous();\n"
        "  experts::multiply_few<{2}, {3}, {0}, {4}>(shape, x, blocks, chosen, out, fault);\n}}\n",
        threads, type_, format_name(), columns(), whole);
  }

  unsigned grid_ = 1;
  LazyFunction whole_, by_element_;
};

// Weights in blocks and many rows: results are put in an order by their experts, and x becomes f16.
class GroupedExperts final : public ExpertKernel {
 public:
  static bool fits(const Step& step) {
    const Layout &x = step.inputs[0], &weight = step.inputs[1], &chosen = step.inputs[2];
    constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
    return is_quantised(weight.dtype) && element_count(weight.shape) > 0 &&
           weight.shape[0] <= most_grouped_experts && element_count(chosen.shape) <= most &&
           weight.shape[1] <= most && weight.shape[2] <= most &&
           (x.shape[1] == 1 || x.strides[0] == x.strides[1] * x.shape[1]);
  }

  GroupedExperts(GpuDevice& device, const Step& step) : ExpertKernel(device, step) {
    const bool unit = has_matrix_unit(device.target(), DType::f16);
    // Larger tiles where experts have rows for them.
    const bool large = result_rows() >= 64 * shape_.experts;
    const GemmTile tile = unit ? mma_tile(device.target(), DType::f16, large) : fma_tile(DType::f16, large);
    tile_rows_ = static_cast<std::uint32_t>(tile.rows);
    tile_threads_ = static_cast<unsigned>(tile.threads);
    column_tiles_ = static_cast<unsigned>((shape_.columns + static_cast<unsigned>(tile.columns) - 1) /
                                          static_cast<unsigned>(tile.columns));
    // Each expert may have a tile that is not full.
    tiles_ = static_cast<std::uint32_t>(result_rows() / tile_rows_ +
                                        std::min<std::uint64_t>(result_rows(), shape_.experts));
    x_rows_ = static_cast<std::uint32_t>(shape_.x_choice == 0 ? shape_.rows : result_rows());
    const KernelSource source{"expert_matmul", text(tile), {}};
    group_ = device.function(source, "group_experts");
    halve_ = device.function(source, "halve_activations");
    multiply_ = device.function(source, "multiply_tiles");
  }

  std::size_t scratch_bytes() const override { return scales_at() + rounded(x_rows_ * sizeof(float)); }

  void run(const KernelArguments& arguments) const override {
    if (result_rows() == 0) return;
    char* const scratch = static_cast<char*>(arguments.scratch);
    void *const tiles = scratch, *const order = scratch + order_at(), *const x = scratch + x_at(),
                *const scales = scratch + scales_at();
    const auto depth = static_cast<std::uint32_t>(shape_.depth);
    const std::int64_t row_stride = shape_.x_choice == 0 ? shape_.x_row : shape_.x_choice;
    device_.launch(group_, {.x = 1, .threads = grouping_threads}, shape_, arguments.inputs[2], tile_rows_,
                   tiles_, tiles, order, fault());
    device_.launch(halve_, {.x = std::min(x_rows_, 65535u), .threads = halving_threads}, arguments.inputs[0],
                   row_stride, shape_.x_step, x_rows_, depth, x, scales);
    for (std::uint32_t first = 0; first < tiles_; first += most_tiles)
      device_.launch(
          multiply_,
          {.x = column_tiles_, .y = std::min(tiles_ - first, most_tiles), .threads = tile_threads_}, shape_,
          x, scales, weights(arguments), static_cast<ExpertTile*>(tiles) + first, order,
          arguments.outputs[0]);
  }

 private:
  static constexpr unsigned grouping_threads = 512, halving_threads = 1024;
  static constexpr std::uint32_t most_tiles = 65535;  // of a launch

  static std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }
  std::size_t order_at() const { return rounded(tiles_ * sizeof(ExpertTile)); }
  std::size_t x_at() const { return order_at() + rounded(result_rows() * sizeof(std::uint32_t)); }
  std::size_t scales_at() const { return x_at() + rounded(x_rows_ * shape_.depth * 2); }

  std::string text(const GemmTile& tile) const {
    return fmt::format(
        "#include \"expert_matmul.h\"\n"
        "KERNEL_OF({0}) void group_experts(ExpertShape shape, const i64* chosen, u32 height, u32 count,\n"
        "    ExpertTile* tiles, u32* order, Fault fault) {{\n"
        "  after_previous();\n  experts::group(shape, chosen, height, count, tiles, order, fault);\n}}\n"
        "KERNEL_OF({1}) void halve_activations(const {2}* x, i64 row_stride, i64 k_stride, u32 rows,\n"
        "    u32 depth, f16* out, f32* scales) {{\n"
        "  after_previous();\n"
        "  quantised::halve_rows(x, row_stride, k_stride, rows, depth, quantised::NoNorm{{}}, out, rows, "
        "depth,\n"
        "                        scales, quantised::InOrder{{}});\n}}\n"
        "KERNEL_OF({3}) void multiply_tiles(ExpertShape shape, const f16* x, const f32* scales,\n"
        "    quantised::Blocks blocks, const ExpertTile* tiles, const u32* order, {2}* out) {{\n"
        "  after_previous();\n"
        "  experts::multiply_tiles<{4}, {5}, {6}>(shape, x, scales, blocks, tiles, order, out);\n}}\n",
        grouping_threads, halving_threads, type_, tile_threads_, tile.type,
        gemm_fetch(tile, DType::f16, true, gemm_packet(tile, DType::f16)), format_name());
  }

  std::uint32_t tile_rows_ = 0, tiles_ = 0, x_rows_ = 0;
  unsigned tile_threads_ = 0, column_tiles_ = 0;
  Function group_, halve_, multiply_;
};

}  // namespace

std::unique_ptr<Kernel> make_expert_matmul(GpuDevice& device, const Step& step) {
  if (FewExperts::fits(step)) return std::make_unique<FewExperts>(device, step);
  if (GroupedExperts::fits(step)) return std::make_unique<GroupedExperts>(device, step);
  return std::make_unique<PlainExperts>(device, step);
}

}  // namespace hearth::gpu
