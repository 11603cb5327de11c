// Products of many rows with weights in blocks by the matrix unit of sm_90; see kernels/quantised_groups.h.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "gpu/halved_product.h"
#include "gpu/tensor_map.h"

namespace hearth::gpu {
namespace {

constexpr int chunk = 128;  // of K; as quantised_strips.h has it

// How a block works; kernels/quantised_groups.h says what these are.
struct GroupShape {
  int rows, groups, ahead, stages;
  int parts = 1;
  std::int64_t splits = 1;

  unsigned threads() const { return static_cast<unsigned>(groups + 1) * 128; }
  int places() const { return groups / parts * 64; }
  unsigned shared_bytes() const {
    const int chunks = stages * rows * chunk * 2, results = parts * rows * (places() + 4) * 4;
    return static_cast<unsigned>(std::max(chunks, results));
  }
};

// As many chunks as leave a lane's registers, 112 of them, to what else it has.
int few_ahead(DType format) {
  const bool heavy =
      format == DType::q3_k || format == DType::q4_k || format == DType::q5_k || format == DType::q6_k;
  return heavy ? 1 : 2;
}

GroupShape group_shape(DType format, std::int64_t rows) {
  for (const int few : {16, 32, 64})
    if (rows <= few) return {few, 4, few_ahead(format), 8};
  return rows <= 128 ? GroupShape{128, 2, 4, 6} : GroupShape{256, 2, 2, 3};
}

class GroupRowsKernel final : public HalvedProduct {
 public:
  GroupRowsKernel(GpuDevice& device, const Step& step)
      : HalvedProduct(device, step), tile_(group_shape(format_, shape_.rows)) {
    const std::int64_t chunks = (shape_.depth + chunk - 1) / chunk;
    choose_division(chunks);
    divide(tile_.rows, tile_columns(tile_.parts));
    shape_.split_depth = in_split(chunks, tile_.splits) * chunk;
    halves(std::int64_t{shape_.row_tiles} * tile_.rows, chunks * chunk);
    const KernelSource source{"quantised_matmul", text(), {}};
    halve_ = device_.function(source, "halve_activations");
    multiply_ = device_.function(source, "multiply_blocks");
    device_.allow_shared(multiply_, tile_.shared_bytes());
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
    Ending ending;
    Arguments values;
    values.add(blocks);
    values.add(map);
    values.add(x.scales);
    values.add(shape_);
    add_ending(values, arguments, ending);
    device_.launch(multiply_,
                   {.x = static_cast<unsigned>(tiles()) * static_cast<unsigned>(tile_.splits),
                    .threads = tile_.threads(),
                    .shared = tile_.shared_bytes()},
                   values);
  }

 private:
  int tile_columns(int parts) const { return tile_.groups / parts * 64 / (product_.halves ? 2 : 1); }

  // Chunks that a block of a cluster has: whole blocks of weights.
  std::int64_t in_split(std::int64_t chunks, std::int64_t splits) const {
    const std::int64_t whole = std::max<std::int64_t>(1, block_elements(format_) / chunk);
    return (chunks + splits * whole - 1) / (splits * whole) * whole;
  }

  // How many clusters of so many blocks run at once, at least. One lies within a group of 16 to 18
  // multiprocessors; where a single one has to wait for the others, the product takes twice as long.
  std::int64_t clusters_at_once(std::int64_t splits) const {
    const std::int64_t units = device_.compute_units();
    return splits <= 2 ? units / splits : std::max<std::int64_t>(1, units / 18 * (16 / splits));
  }

  // K among groups of a block and blocks of a cluster, for the least time; in units of what a chunk takes a
  // block.
  void choose_division(std::int64_t chunks) {
    constexpr std::int64_t most_splits = 8;
    constexpr std::int64_t begin = 6, added = 1;  // of a block; of results that are added to others
    const int most_parts = tile_.rows <= 64 ? tile_.groups : 1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int parts = 1; parts <= most_parts; parts *= 2) {
      const auto tile_count = static_cast<std::int64_t>(divide(tile_.rows, tile_columns(parts)));
      for (std::int64_t splits = 1; splits <= std::min(most_splits, chunks); ++splits) {
        const std::int64_t at_once = clusters_at_once(splits);
        const std::int64_t each = (in_split(chunks, splits) + parts - 1) / parts;
        const std::int64_t time = (tile_count + at_once - 1) / at_once *
                                  (each + begin + (splits > 1 ? added : 0) + (parts > 1 ? added : 0));
        if (time >= least) continue;
        least = time;
        tile_.parts = parts;
        tile_.splits = splits;
      }
    }
  }

  std::string text() const {
    const std::string_view format = dtype_name(format_);
    const std::string pairing = stored_           ? stored_->pairing()
                                : product_.halves ? "LeftAndRight"
                                                  : "Neighbours<1>";
    // What nothing in the plan writes may be read before the kernel waits.
    const bool early = steady_weights_ && (!stored_ || stored_->steady_frequencies());
    const std::string wait = "after_previous();";
    std::string text = halve_text(fmt::format("InChunks<quantised::{}>", format));
    text += fmt::format(
        "KERNEL_OF({}, 1){} void multiply_blocks(Blocks blocks, const __grid_constant__ TensorMap x,\n"
        "    const f32* scales, GemmShape shape{}) {{\n"
        "  extern __shared__ __align__(1024) char memory[];\n"
        "  using Tile = GroupTile<quantised::{}, {}, {}, {}, {}, {}, {}, {}, {}>;\n{}",
        tile_.threads(), tile_.splits > 1 ? fmt::format(" __cluster_dims__({}, 1, 1)", tile_.splits) : "",
        ending_parameters(), format, pairing, tile_.rows, tile_.groups, tile_.parts, tile_.ahead,
        tile_.stages, tile_.splits, shape_.depth % chunk == 0, early ? "" : "  " + wait + "\n");
    if (stored_)
      text += fmt::format(
          "  __shared__ f64 turns[Tile::columns];\n"
          "  const u32 first = Tile::first_column(shape);\n"
          "  heads.compute_turns(turns, first, Tile::columns);\n"
          "  const FinishHeads<{}, {}, TurnsOfPairs> finish(heads, {{turns, first}});\n",
          stored_->cache_type(), stored_->interleaved());
    else
      text += fmt::format("  const Finish finish{{GemmStack{{}}, shape.rows, shape.columns{}}};\n",
                          finish_.members);
    text +=
        fmt::format("  multiply_groups<Tile>(shape, blocks, &x, scales, memory, finish, [] {{ {} }});\n}}\n",
                    early ? wait : "");
    return kernel_text(text, "quantised_groups.h");
  }

  GroupShape tile_;
  Function multiply_;
};

}  // namespace

bool group_rows_fit(const GpuDevice& device, const Step& product) {
  // Of more rows, converted weights pay, because large tiles of them can be stored while the next ones are
  // multiplied.
  constexpr std::int64_t least_rows = 9, most_rows = 1024;
  const Layout &x = product.inputs[0], &weight = product.inputs[1];
  const std::int64_t rows = x.shape[0];
  return is_quantised(weight.dtype) && element_count(weight.shape) > 0 && rows >= least_rows &&
         rows <= most_rows && has_copy_engine(device);
}

bool group_rows_store_heads(const GpuDevice& device, const Step& product, const Step& store,
                            const StoredHeads& heads) {
  constexpr std::int64_t run = 4;  // of finish_tile() in kernels/quantised_groups.h, within a head
  return group_rows_fit(device, product) && heads.size / 2 % run == 0 && head_store_fits(product, store);
}

std::unique_ptr<Kernel> make_group_rows(GpuDevice& device, const Step& step) {
  return std::make_unique<GroupRowsKernel>(device, step);
}

}  // namespace hearth::gpu
