// Products of many rows with weights in blocks by the matrix unit of sm_90; see kernels/quantised_groups.h.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "gpu/grouped_product.h"
#include "gpu/tensor_map.h"

namespace hearth::gpu {
namespace {

// How a block works; kernels/quantised_groups.h says what these are.
struct GroupShape {
  int rows, groups, ahead, stages;
  int parts = 1;
  std::int64_t splits = 1;

  unsigned threads() const { return static_cast<unsigned>(groups + 1) * 128; }
  int places() const { return groups / parts * 64; }
  unsigned shared_bytes(std::int64_t chunk) const {
    const int chunks = stages * rows * static_cast<int>(chunk) * 2,
              results = parts * rows * (places() + 4) * 4;
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

class GroupRowsKernel final : public GroupedProduct {
 public:
  GroupRowsKernel(GpuDevice& device, const Step& step)
      : GroupedProduct(device, step), tile_(group_shape(format_, shape_.rows)) {
    const std::int64_t chunks = (shape_.depth + chunk - 1) / chunk;
    choose_division(chunks);
    const std::string tile =
        fmt::format("GroupTile<quantised::{}, {}, {}, {}, {}, {}, {}, {}, {}>", dtype_name(format_),
                    pairing(), tile_.rows, tile_.groups, tile_.parts, tile_.ahead, tile_.stages, tile_.splits,
                    shape_.depth % chunk == 0);
    compile({tile_.rows, tile_.places(), in_split(chunks, tile_.splits) * chunk, tile_.splits},
            {"quantised_groups.h", "Blocks", tile, "multiply_groups<Tile>", "InChunks"}, tile_.threads(),
            tile_.shared_bytes(chunk));
  }

  void run(const KernelArguments& arguments) const override {
    const Blocks blocks = weights(arguments);
    Arguments values;
    values.add(blocks);
    launch(values, arguments);
  }

 private:
  // Chunks that a block of a cluster has: whole blocks of weights.
  std::int64_t in_split(std::int64_t chunks, std::int64_t splits) const {
    const std::int64_t whole = std::max<std::int64_t>(1, block_elements(format_) / chunk);
    return (chunks + splits * whole - 1) / (splits * whole) * whole;
  }

  // K among groups of a block and blocks of a cluster, for the least time; in units of what a chunk takes a
  // block.
  void choose_division(std::int64_t chunks) {
    constexpr std::int64_t most_splits = 8;
    constexpr std::int64_t begin = 6, added = 1;  // of a block; of results that are added to others
    const int most_parts = tile_.rows <= 64 ? tile_.groups : 1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int parts = 1; parts <= most_parts; parts *= 2) {
      const auto tile_count =
          static_cast<std::int64_t>(divide(tile_.rows, tile_columns(tile_.groups / parts * 64)));
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

  GroupShape tile_;
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
  if (box_rows_fit(device, step)) return make_box_rows(device, step);
  return std::make_unique<GroupRowsKernel>(device, step);
}

}  // namespace hearth::gpu
