// Products of many rows with weights in blocks by the matrix unit of sm_90; see kernels/quantised_groups.h.
#include <fmt/format.h>

#include <algorithm>

#include "gpu/halved_product.h"
#include "gpu/tensor_map.h"

namespace hearth::gpu {
namespace {

constexpr int chunk = 128;  // of K; as quantised_strips.h has it
constexpr int columns = 128;
constexpr int panel_row = 128;  // bytes: 64 elements of K
constexpr unsigned threads = 256;

// How a block works.
struct GroupShape {
  int rows;        // of x
  int ahead;       // chunks of weights that are under way
  int stages;      // panels of x in shared memory
  int blocks = 1;  // that a multiprocessor holds

  unsigned shared_bytes() const {
    const int panels = stages * rows * panel_row, results = rows * (columns + 4) * 4;
    return static_cast<unsigned>(std::max(panels, results));
  }
};

// As many chunks as leave a lane's registers, 128 of them, to what else it has.
int few_ahead(DType format) {
  switch (format) {
    case DType::q3_k:
    case DType::q5_k:
    case DType::q6_k:
      return 1;
    case DType::q4_k:
    case DType::q8_0:
      return 2;
    default:
      return 3;
  }
}

GroupShape group_shape(DType format, std::int64_t rows) {
  if (rows <= 64) return {64, few_ahead(format), 8, 2};
  return rows <= 128 ? GroupShape{128, 4, 8} : GroupShape{256, 2, 4};
}

class GroupRowsKernel final : public HalvedProduct {
 public:
  GroupRowsKernel(GpuDevice& device, const Step& step)
      : HalvedProduct(device, step), tile_(group_shape(format_, shape_.rows)) {
    const std::int64_t chunks = (shape_.depth + chunk - 1) / chunk;
    divide(tile_.rows, columns);
    splits_ = best_splits(chunks);
    shape_.split_depth = (chunks + splits_ - 1) / splits_ * chunk;
    halves(std::int64_t{shape_.row_tiles} * tile_.rows, chunks * chunk);
    const KernelSource source{"quantised_matmul", text(), {}};
    halve_ = device_.function(source, "halve_activations");
    multiply_ = device_.function(source, "multiply_blocks");
    device_.allow_shared(multiply_, static_cast<unsigned>(tile_.shared_bytes()));
  }

  std::size_t scratch_bytes() const override { return halved_bytes(); }

  void run(const KernelArguments& arguments) const override {
    const Halved x = halve(arguments);
    const TensorMap map = tensor_map(
        device_, DType::f16, x.numbers,
        {{shape_.a_row, 1, 64},
         {std::int64_t{shape_.row_tiles} * tile_.rows, shape_.a_row, static_cast<std::uint32_t>(tile_.rows)},
         {1, 0, 1}});
    const Blocks blocks = weights(arguments);
    std::vector<Constant> constants;
    Arguments values;
    values.add(blocks);
    values.add(map);
    values.add(x.scales);
    values.add(shape_);
    add_finish(values, arguments, constants);
    device_.launch(multiply_,
                   {.x = static_cast<unsigned>(tiles()) * static_cast<unsigned>(splits_),
                    .threads = threads,
                    .shared = tile_.shared_bytes()},
                   values);
  }

 private:
  // How many clusters of so many blocks run at once, at least. One lies within a group of 16 to 18
  // multiprocessors; where a single one has to wait for the others, the product takes twice as long.
  std::int64_t clusters_at_once(std::int64_t splits) const {
    const std::int64_t units = device_.compute_units() * tile_.blocks;
    return splits <= 2 ? units / splits : std::max<std::int64_t>(1, units / 18 * (16 / splits));
  }

  // Blocks of a cluster that have parts of K, for the least time; in units of what a chunk takes a block.
  std::int64_t best_splits(std::int64_t chunks) const {
    constexpr std::int64_t most = 8;
    constexpr std::int64_t begin = 3, added = 1;  // of a block; of one whose results are added to others
    const auto tile_count = static_cast<std::int64_t>(tiles());
    std::int64_t best = 1, least = 0;
    for (std::int64_t splits = 1; splits <= std::min(most, chunks); ++splits) {
      const std::int64_t at_once = clusters_at_once(splits);
      const std::int64_t time = (tile_count + at_once - 1) / at_once *
                                ((chunks + splits - 1) / splits + begin + (splits > 1 ? added : 0));
      if (splits > 1 && time >= least) continue;
      best = splits;
      least = time;
    }
    return best;
  }

  std::string text() const {
    const std::string_view format = dtype_name(format_);
    return kernel_text(halve_text(fmt::format("InChunks<quantised::{}>", format), false) +
                           fmt::format("KERNEL_OF({}, {}){} void multiply_blocks(Blocks blocks, const "
                                       "__grid_constant__ TensorMap x, "
                                       "const f32* scales, GemmShape shape{}) {{\n"
                                       "  extern __shared__ __align__(1024) char memory[];\n"
                                       "  using Tile = GroupTile<quantised::{}, {}, {}, {}, {}>;\n"
                                       "  multiply_groups<Tile>(shape, blocks, &x, memory, {});\n}}\n",
                                       threads, tile_.blocks,
                                       splits_ > 1 ? fmt::format(" __cluster_dims__({}, 1, 1)", splits_) : "",
                                       finish_.parameters, format, tile_.rows, tile_.ahead, tile_.stages,
                                       splits_, scaled_finish()),
                       "quantised_groups.h");
  }

  GroupShape tile_;
  std::int64_t splits_ = 1;
  Function multiply_;
};

}  // namespace

bool group_rows_fit(const GpuDevice& device, const Step& product) {
  // Few rows are better off in strips where there are not columns enough for all multiprocessors. Of many,
  // converted weights pay, because large tiles of them can be stored while the next ones are multiplied.
  constexpr std::int64_t most_rows = 1024, many_columns = 6144;
  const std::int64_t rows = product.inputs[0].shape[0];
  const std::int64_t least_rows = product.inputs[1].shape[0] >= many_columns ? 33 : 65;
  return rows >= least_rows && rows <= most_rows && has_copy_engine(device);
}

std::unique_ptr<Kernel> make_group_rows(GpuDevice& device, const Step& step) {
  return std::make_unique<GroupRowsKernel>(device, step);
}

}  // namespace hearth::gpu
