#include "gpu/grouped_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/tensor_map.h"

namespace hearth::gpu {

// A cluster lies within a group of 16 to 18 multiprocessors; where a single one has to wait for the others,
// the product takes twice as long.
std::int64_t GroupedProduct::clusters_at_once(std::int64_t splits) const {
  const std::int64_t units = device_.compute_units();
  return splits <= 2 ? units / splits : std::max<std::int64_t>(1, units / 18 * (16 / splits));
}

std::string GroupedProduct::pairing() const {
  if (stored_) return stored_->pairing();
  return product_.halves ? "LeftAndRight" : "Neighbours<1>";
}

void GroupedProduct::compile(const Division& division, const Text& text, unsigned threads,
                             unsigned shared_bytes) {
  rows_ = division.rows;
  const std::uint64_t tiles = divide(division.rows, tile_columns(division.places));
  shape_.split_depth = division.depth;
  halves(std::int64_t{shape_.row_tiles} * rows_, (shape_.depth + chunk - 1) / chunk * chunk);
  shape_of_launch_ = {.x = static_cast<unsigned>(tiles) * static_cast<unsigned>(division.splits),
                      .threads = threads,
                      .shared = shared_bytes};
  const KernelSource source{"quantised_matmul", kernels(division, text, threads), {}};
  halve_ = device_.function(source, "halve_activations");
  multiply_ = device_.function(source, "multiply_blocks");
  device_.allow_shared(multiply_, shared_bytes);
}

void GroupedProduct::launch(Arguments& values, const KernelArguments& arguments) const {
  const Halved x = halve(arguments);
  const TensorMap map =
      tensor_map(device_, DType::f16, x.numbers,
                 {{shape_.a_row, 1, 64},
                  {std::int64_t{shape_.row_tiles} * rows_, shape_.a_row, static_cast<std::uint32_t>(rows_)},
                  {1, 0, 1}});
  Ending ending;
  values.add(map);
  values.add(x.scales);
  values.add(shape_);
  add_ending(values, arguments, ending);
  device_.launch(multiply_, shape_of_launch_, values);
}

std::string GroupedProduct::kernels(const Division& division, const Text& text, unsigned threads) const {
  // What nothing in the plan writes may be read before the kernel waits.
  const bool early = steady_weights_ && (!stored_ || stored_->steady_frequencies());
  const std::string wait = "after_previous();";
  std::string kernels = halve_text(fmt::format("{}<quantised::{}>", text.place, dtype_name(format_)));
  kernels += fmt::format(
      "KERNEL_OF({}, 1){} void multiply_blocks({} blocks, const __grid_constant__ TensorMap x,\n"
      "    const f32* scales, GemmShape shape{}) {{\n"
      "  extern __shared__ __align__(1024) char memory[];\n  using Tile = {};\n{}",
      threads, division.splits > 1 ? fmt::format(" __cluster_dims__({}, 1, 1)", division.splits) : "",
      text.weights, ending_parameters(), text.tile, early ? "" : "  " + wait + "\n");
  if (stored_)
    kernels += fmt::format(
        "  __shared__ f64 turns[Tile::columns];\n"
        "  const u32 first = Tile::first_column(shape);\n"
        "  heads.compute_turns(turns, first, Tile::columns);\n"
        "  const FinishHeads<{}, {}, TurnsOfPairs> finish(heads, {{turns, first}});\n",
        stored_->cache_type(), stored_->interleaved());
  else
    kernels += fmt::format("  const Finish finish{{GemmStack{{}}, shape.rows, shape.columns{}}};\n",
                           finish_.members);
  kernels += fmt::format("  {}(shape, blocks, &x, scales, memory, finish, [] {{ {} }});\n}}\n", text.multiply,
                         early ? wait : "");
  return kernel_text(kernels, text.header);
}

}  // namespace hearth::gpu
