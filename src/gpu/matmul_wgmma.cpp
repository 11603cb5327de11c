// Products by the matrix unit of sm_90, and the choice of their tiles.
#include "gpu/matmul_wgmma.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_source.h"
#include "gpu/gemm_tiles.h"
#include "gpu/matmul_kernel.h"
#include "gpu/tensor_map.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned wgmma_threads = 384;

// Tiles of 128 rows for the unit of sm_90.
struct WgmmaTile {
  int columns, stages;
  bool in_turns = false;  // each group of threads has tiles of its own
};

GemmSplit wgmma_split(std::uint64_t tiles, std::int64_t depth, int compute_units) {
  return split_depth(64, tiles, depth, compute_units / 2);  // one block has a multiprocessor to itself
}

std::string wgmma_source(const MatrixProduct& product, const WgmmaTile& tile, bool partial) {
  const FinishText finish(product, true);
  return matmul_beginning(product) + "#include \"wgmma.h\"\n" + (partial ? "" : finish.structure) +
         fmt::format(
             "KERNEL void __launch_bounds__({0}, 1) matmul(const __grid_constant__ TensorMap map_a,\n"
             "    const __grid_constant__ TensorMap map_b, GemmShape shape, GemmStack stack, bool "
             "stacked_a,\n"
             "    bool stacked_b{1}{10}) {{\n"
             "  after_previous();\n"
             "  extern __shared__ __align__(1024) char memory[];\n"
             "  wgmma::multiply<{2}, {3}, {4}, {5}, {6}, {7}, {8}>(shape, &map_a, &map_b, stacked_a, "
             "stacked_b, memory,\n"
             "                                           {9}, {11});\n}}\n",
             wgmma_threads, partial ? ", f32* sums" : finish.parameters, storage_type(product.a.dtype),
             tile.columns, tile.stages, tile.in_turns, product.a.along_k(), product.b.along_k(),
             product.halves,
             partial ? "gemm::Partial<f32>{sums, shape.rows, shape.columns, shape.products}"
                     : fmt::format("Finish{{stack, shape.rows, shape.columns{}}}", finish.members),
             product.turned ? ", GemmTurn turn" : "",
             product.turned ? fmt::format("wgmma::Turned<{}, {}, {}>{{turn}}", storage_type(product.result),
                                          product.turned->half(), product.turned->rope.interleaved)
                            : "wgmma::NotTurned{}");
}

// The unit of sm_90; see wgmma.h. Operands must be aligned and run through memory along K or along rows.
class WgmmaKernel final : public MatmulKernel {
 public:
  WgmmaKernel(GpuDevice& device, const Step& step, const WgmmaTile& tile, std::unique_ptr<Kernel> otherwise)
      : MatmulKernel(device, step), otherwise_(std::move(otherwise)), tile_(tile) {
    shape_.row_tiles = static_cast<unsigned>((shape_.rows + rows - 1) / rows);
    shape_.column_tiles = static_cast<unsigned>((product_.b.rows + tile.columns - 1) / tile.columns);
    if (!product_.halves && !product_.turned) {
      const GemmSplit split = wgmma_split(tiles(), shape_.depth, device.compute_units());
      shape_.splits = split.splits;
      shape_.split_depth = split.depth;
    }
    function_ =
        device.function({"matmul_wgmma", wgmma_source(product_, tile_, shape_.splits > 1), {}}, "matmul");
    device.use();
    device.driver().check(
        device.driver().call.allow_shared(function_.handle, static_cast<int>(shared_bytes())),
        "asking for shared memory");
    if (shape_.splits > 1) combine_ = device.function(combine_source(product_), "combine");
  }

  static bool fits(const GpuDevice& device, const Step& step) {
    const DType dtype = step.inputs[0].dtype;
    if (!has_copy_engine(device) || (dtype != DType::f16 && dtype != DType::bf16)) return false;
    const MatrixProduct product(step);
    const auto fits = [](const Operand& operand) {
      constexpr std::int64_t most = std::int64_t{1} << 31;
      return operand.in_packets(8) && operand.rows < most && operand.depth < most &&
             operand.row_stride >= 0 && operand.k_stride >= 0 && operand.stack.size() == 1 &&
             operand.stack[0] >= 0;
    };
    return product.count < 65536 && product.a.depth > 0 && fits(product.a) && fits(product.b);
  }

  std::size_t scratch_bytes() const override { return std::max(split_bytes(), otherwise_->scratch_bytes()); }

  void run(const KernelArguments& arguments) const override {
    if (results() == 0) return;
    if (!all_aligned(arguments)) return otherwise_->run(arguments);
    const TensorMap map_a = map(product_.a, arguments.inputs[0], rows),
                    map_b = map(product_.b, arguments.inputs[1],
                                product_.halves ? tile_.columns / 2 : tile_.columns);
    const bool stacked_a = product_.a.stack[0] != 0, stacked_b = product_.b.stack[0] != 0;
    const bool split = shape_.splits > 1;
    Arguments values;
    std::vector<Constant> constants;
    values.add(map_a);
    values.add(map_b);
    values.add(shape_);
    values.add(product_.stack);
    values.add(stacked_a);
    values.add(stacked_b);
    if (split)
      values.add(arguments.scratch);
    else
      add_finish(values, arguments, constants);
    GemmTurn turn{};
    if (product_.turned) {
      turn = turn_of(*product_.turned, arguments);
      values.add(turn);
    }
    const auto blocks =
        std::min<std::uint64_t>(tiles() * shape_.splits, static_cast<std::uint64_t>(device_.compute_units()));
    device_.launch(function_,
                   {.x = static_cast<unsigned>(blocks), .threads = wgmma_threads, .shared = shared_bytes()},
                   values);
    if (split) combine(combine_, arguments);
  }

 private:
  static constexpr int rows = 128, depth = 64;

  // Inputs 2 and 3 are the table of angles.
  static GemmTurn turn_of(const TurnedHeads& heads, const KernelArguments& arguments) {
    return {static_cast<const float*>(arguments.inputs[2]), static_cast<const float*>(arguments.inputs[3]),
            heads.begin, heads.end, heads.time};
  }

  bool all_aligned(const KernelArguments& arguments) const {
    bool fine = aligned(arguments.inputs[0], 16) && aligned(arguments.inputs[1], 16);
    for (std::size_t i = 0; i < product_.inputs.size(); ++i)
      fine = fine && (!product_.whole_runs(i) || aligned(arguments.inputs[i + 2], 16));
    for (std::size_t k = 0; k < product_.output_count(); ++k)
      fine = fine && (!product_.whole_results() || aligned(arguments.outputs[k], 16));
    return fine;
  }
  std::uint64_t tiles() const { return shape_.products * shape_.row_tiles * shape_.column_tiles; }
  unsigned shared_bytes() const {
    return static_cast<unsigned>(tile_.stages * (rows + tile_.columns) * depth * 2);
  }

  // Boxes of a tile's rows and a stage of K, or of 64 rows and a stage of K where rows lie side by side.
  TensorMap map(const Operand& operand, void* pointer, int tile_rows) const {
    const bool along_k = operand.along_k(), stacked = operand.stack[0] != 0;
    return tensor_map(
        device_, product_.a.dtype, pointer,
        {{along_k ? operand.depth : operand.rows, 1, 64},
         {along_k ? operand.rows : operand.depth, along_k ? operand.row_stride : operand.k_stride,
          static_cast<std::uint32_t>(along_k ? tile_rows : depth)},
         {stacked ? static_cast<std::int64_t>(shape_.products) : 1, operand.stack[0], 1}});
  }

  std::unique_ptr<Kernel> otherwise_;  // for addresses that the copy engine does not take
  WgmmaTile tile_;
  Function function_, combine_;
};

// What a tile takes on an H200, fitted to measurements: nanoseconds for each k, and to store the results.
struct WgmmaCandidate {
  MatmulVariant variant;
  WgmmaTile tile;
  double per_k, storing;
};
constexpr WgmmaCandidate wgmma_candidates[] = {{MatmulVariant::wgmma_256, {256, 4}, 9.4, 5600},
                                               {MatmulVariant::wgmma_192, {192, 5}, 7.3, 4300},
                                               {MatmulVariant::wgmma_128, {128, 6}, 5.9, 2700},
                                               {MatmulVariant::wgmma_turns, {128, 6, true}, 5.5, 6500}};

WgmmaTile wgmma_tile(MatmulVariant variant) {
  const auto found = std::find_if(std::begin(wgmma_candidates), std::end(wgmma_candidates),
                                  [&](const WgmmaCandidate& one) { return one.variant == variant; });
  return found->tile;
}

bool turns(const WgmmaTile& tile, const TurnedHeads& heads) { return tile.columns % heads.size == 0; }

// A larger tile needs less of its operands for a result; a smaller one leaves less of the device idle in the
// last round; in turns, storing is hidden as far as multiplying takes as long.
WgmmaTile choose_wgmma(const GpuDevice& device, const Step& step) {
  const std::int64_t depth = step.inputs[0].shape.back(), units = device.compute_units();
  const WgmmaCandidate* best = nullptr;
  double least = 0;
  for (const WgmmaCandidate& one : wgmma_candidates) {
    if (step.turned && !turns(one.tile, *step.turned)) continue;
    const std::int64_t tiles = tile_count(step, 128, one.tile.columns);
    GemmSplit split{1, depth};
    if (!step.halves && !step.turned)
      split = wgmma_split(static_cast<std::uint64_t>(tiles), depth, device.compute_units());
    const double rounds = static_cast<double>((tiles * split.splits + units - 1) / units);
    const double multiplying = one.per_k * static_cast<double>(split.depth);
    double time = rounds * (multiplying + one.storing);
    if (one.tile.in_turns)
      time = rounds * std::max(multiplying, (multiplying + one.storing) / 2) + one.storing;
    // Sums of splits are written and read again.
    constexpr double bytes_per_nanosecond = 3000;
    if (split.splits > 1)
      time += 8.0 * split.splits * static_cast<double>(element_count(step.domain)) / bytes_per_nanosecond;
    if (best != nullptr && time >= least) continue;
    best = &one;
    least = time;
  }
  return best->tile;
}

}  // namespace

bool wgmma_fits(const GpuDevice& device, const Step& step) { return WgmmaKernel::fits(device, step); }

bool wgmma_turns(const GpuDevice& device, const Step& step) {
  const TurnedHeads& heads = *step.turned;
  constexpr std::int64_t most = std::int64_t{1} << 31;
  return (heads.size == 64 || heads.size == 128) && heads.begin % heads.size == 0 && step.domain[0] < most &&
         step.domain[1] % MatrixProduct::longest_run == 0 && heads.time < most / heads.half() &&
         wgmma_fits(device, step);
}

std::unique_ptr<Kernel> make_wgmma(GpuDevice& device, const Step& step, MatmulVariant variant,
                                   std::unique_ptr<Kernel> otherwise) {
  const WgmmaTile tile =
      variant == MatmulVariant::automatic ? choose_wgmma(device, step) : wgmma_tile(variant);
  if (step.turned && !turns(tile, *step.turned))
    throw KernelError("[matmul] heads that tiles of this size do not turn");
  return std::make_unique<WgmmaKernel>(device, step, tile, std::move(otherwise));
}

}  // namespace hearth::gpu
