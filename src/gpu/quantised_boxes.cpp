// Products of up to 64 rows with weights in blocks by the matrix unit of sm_90; see
// kernels/quantised_boxes.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "gpu/block_planes.h"
#include "gpu/grouped_product.h"
#include "gpu/tensor_map.h"

namespace hearth::gpu {
namespace {

constexpr std::int64_t most_rows = 64;
constexpr std::int64_t stage_depth = 256;  // of K, as the kernel has it
constexpr std::size_t most_planes = 3;

int tile_rows(std::int64_t rows) { return rows <= 16 ? 16 : rows <= 32 ? 32 : 64; }
std::int64_t stage_bytes(DType format, int rows, int groups) {
  return rows * stage_depth * 2 + groups * 64 * static_cast<std::int64_t>(storage_bytes(format, stage_depth));
}
std::int64_t shared_for_stages(const GpuDevice& device) {
  constexpr std::int64_t declared = 8 << 10;  // by the kernel, at most
  return static_cast<std::int64_t>(device.target().shared_bytes) - declared;
}

// How a block works.
struct BoxShape {
  int rows = 0, groups = 4, stages = 0;
  std::int64_t splits = 1;

  unsigned threads() const { return static_cast<unsigned>(groups + 1) * 128; }
  int places() const { return groups * 64; }
};

class BoxRowsKernel final : public GroupedProduct {
 public:
  BoxRowsKernel(GpuDevice& device, const Step& step) : GroupedProduct(device, step) {
    tile_.rows = tile_rows(shape_.rows);
    choose_division(shape_.depth / stage_depth);
    std::string planes;
    for (const std::size_t size : plane_sizes(format_)) planes += fmt::format(", {}", size);
    const std::string tile =
        fmt::format("BoxTile<quantised::{}, {}, {}, {}, {}, {}{}>", dtype_name(format_), pairing(),
                    tile_.rows, tile_.groups, tile_.stages, tile_.splits, planes);
    compile({tile_.rows, tile_.places(), in_split(tile_.splits) * stage_depth, tile_.splits},
            {"quantised_boxes.h",
             fmt::format("const __grid_constant__ PlaneMaps<{}>", plane_sizes(format_).size()), tile,
             fmt::format("multiply_boxes<Tile{}>", planes), "InStages"},
            tile_.threads(), shared_bytes());
  }

  void run(const KernelArguments& arguments) const override {
    const auto planes = plane_sizes(format_);
    const std::int64_t in_row = shape_.depth / block_elements(format_), in_stage = stage_blocks();
    // A box has the rows that lie side by side.
    const bool apart = product_.halves && !stored_;
    const std::int64_t all_rows = shape_.columns * (product_.halves ? 2 : 1);
    std::array<TensorMap, most_planes> maps;
    auto* plane = static_cast<std::byte*>(arguments.inputs[1]);
    for (std::size_t p = 0; p < planes.size(); ++p) {
      const auto size = static_cast<std::int64_t>(planes[p]);
      maps[p] = byte_map(device_, plane, in_row * size, all_rows, in_stage * size,
                         apart ? tile_.places() / 2 : tile_.places());
      plane += all_rows * in_row * size;
    }
    Arguments values;
    values.add(maps.data(), planes.size() * sizeof(TensorMap));
    launch(values, arguments);
  }

 private:
  std::int64_t stage_blocks() const { return stage_depth / block_elements(format_); }  // of a row
  std::int64_t in_split(std::int64_t splits) const {
    return (shape_.depth / stage_depth + splits - 1) / splits;
  }
  std::int64_t results_bytes() const { return std::int64_t{tile_.rows} * (tile_.places() + 4) * 4; }
  unsigned shared_bytes() const {
    const std::int64_t stages = tile_.stages * stage_bytes(format_, tile_.rows, tile_.groups);
    return static_cast<unsigned>(std::max(stages, results_bytes()));
  }

  // The least time, in units of what a stage takes a block of four groups; from what an H200 took for
  // products of the sizes of Llama 3 8B.
  void choose_division(std::int64_t stages) {
    constexpr std::int64_t most_splits = 8, most_stages = 8;
    struct Cost {
      int groups;
      double stage, block;
    };
    constexpr Cost costs[] = {{4, 1, 9}, {2, 0.65, 7.5}};
    double least = std::numeric_limits<double>::infinity();
    for (const Cost& cost : costs) {
      const int columns = tile_columns(cost.groups * 64);
      const auto tiles = static_cast<std::int64_t>(divide(tile_.rows, columns));
      for (std::int64_t splits = 1; splits <= std::min(most_splits, stages); ++splits) {
        const std::int64_t at_once = clusters_at_once(splits);
        const double time = static_cast<double>((tiles + at_once - 1) / at_once) *
                            (static_cast<double>(in_split(splits)) * cost.stage + cost.block);
        if (time >= least) continue;
        least = time;
        tile_.groups = cost.groups;
        tile_.splits = splits;
      }
    }
    const std::int64_t room = shared_for_stages(device_) / stage_bytes(format_, tile_.rows, tile_.groups);
    tile_.stages = static_cast<int>(std::min({room, in_split(tile_.splits), most_stages}));
  }

  BoxShape tile_;
};

}  // namespace

bool box_rows_fit(const GpuDevice& device, const Step& product) {
  constexpr std::int64_t unit = 16, most_bytes = 256;  // of what is copied, and of a row in a box
  constexpr std::int64_t least_stages = 3;             // of fewer, too little is on its way
  const Layout &x = product.inputs[0], &weight = product.inputs[1];
  const DType format = weight.dtype;
  const std::int64_t rows = x.shape[0], depth = x.shape[1];
  if (rows > most_rows || depth % stage_depth != 0 ||
      shared_for_stages(device) / stage_bytes(format, tile_rows(rows), 4) < least_stages)
    return false;
  // Heads whose halves are apart lie in the boxes of all tiles as a whole.
  const auto& heads = product.stored;
  if (heads && !heads->rope.interleaved && 64 % (heads->size / 2) != 0) return false;
  const std::int64_t in_stage = stage_depth / block_elements(format), in_row = depth / block_elements(format);
  std::int64_t before = 0;
  for (const std::size_t plane : plane_sizes(format)) {
    const auto size = static_cast<std::int64_t>(plane);
    if (in_stage * size % unit != 0 || in_stage * size > most_bytes ||
        weight.shape[0] * in_row * before % unit != 0)
      return false;
    before += size;
  }
  return true;
}

std::unique_ptr<Kernel> make_box_rows(GpuDevice& device, const Step& step) {
  return std::make_unique<BoxRowsKernel>(device, step);
}

}  // namespace hearth::gpu
