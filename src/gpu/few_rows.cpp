// Products of few rows: bound by reading the weights, which are read once. With weights in blocks, x is
// rounded to bytes.
//
// Where the chip can, weights are on their way through shared memory (kernels/streamed.h), else in registers
// (kernels/quantised.h), and then only those in blocks.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "gpu/block_planes.h"
#include "gpu/block_product.h"
#include "gpu/kernels.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 512;
constexpr std::size_t rounding_bytes = 8;

// Formats whose pairs take many registers.
bool heavy(DType format) { return format == DType::q3_k || format == DType::q5_k || format == DType::q6_k; }

// Formats with a scale for 32 neighbours, whose pairs are those (one_rounding in kernels/quantised.h).
bool scales_neighbours(DType format) { return block_elements(format) == 32 || format == DType::iq4_xs; }

// Bytes of x as the kernels hold it: bytes and a Rounding for each 32 or 16, or f32. x_run: as Step's.
std::size_t held_bytes(DType format, std::int64_t rows, std::int64_t depth, std::uint32_t x_run = 0) {
  if (!is_quantised(format)) return static_cast<std::size_t>(rows * depth) * 4;
  const std::int64_t each = scales_neighbours(format) && x_run != 16 ? 32 : 16;
  return static_cast<std::size_t>(rows * depth / each) * (static_cast<std::size_t>(each) + rounding_bytes);
}
bool rounds_in_block(DType format, std::int64_t rows, std::int64_t depth) {
  constexpr std::size_t most_shared = 40 << 10;
  return held_bytes(format, rows, depth) <= most_shared;
}

// How the work is divided.
struct FewTile {
  int rows = 1, columns = 2, ahead = 2;
  bool rounds_in_block = true;  // each block has x for itself, in shared memory
  int slots = 0;                // of each wave, for weights on their way; 0: they wait in registers
};

// ---- weights on their way through shared memory

// Neighbouring pairs of runs that a lane takes from a portion: two where that is little.
int portion_pairs(DType format) { return storage_bytes(format, 2048) <= 1280 ? 2 : 1; }

// A portion of a column, as kernels/streamed.h has it: elements and bytes.
std::int64_t portion_of(DType format) { return is_quantised(format) ? 1024 * portion_pairs(format) : 256; }
std::int64_t portion_bytes(DType format) {
  return (storage_bytes(format, portion_of(format)) + 15) / 16 * 16;
}

// Whether portions of all rows begin where they can be copied from.
bool portions_fit(DType format, std::int64_t depth) {
  if (!is_quantised(format)) return depth % 8 == 0;
  const std::int64_t in_row = depth / block_elements(format),
                     in_portion = portion_of(format) / block_elements(format);
  const auto planes = plane_sizes(format);
  return std::all_of(planes.begin(), planes.end(), [&](std::size_t size) {
    const auto bytes = static_cast<std::int64_t>(size);
    const std::int64_t unit = std::gcd<std::int64_t>(16, in_portion * bytes);
    return unit >= 4 && in_row * bytes % unit == 0;
  });
}

// Of x and slots. Two blocks fit on sm_90, so that the next kernel's weights are on their way while this one
// still multiplies; what kernels declare besides is less than `declared`. Products behind a norm have more:
// they do not follow each other, and those beside them seldom need all of theirs.
int shared_of_block(const GpuDevice& device, bool normed) {
  constexpr std::size_t declared = 12 << 10;
  const std::size_t wanted = (normed ? 114 : 110) << 10;
  return static_cast<int>(std::min(wanted, device.target().shared_bytes - declared));
}
constexpr int streamed_columns = 2;  // of a wave at a time

// How many slots a wave can have; 0: too few for it to be worthwhile.
int most_slots(const GpuDevice& device, DType format, std::int64_t rows, std::int64_t depth,
               std::uint32_t x_run, bool normed) {
  constexpr std::int64_t least = 2, most = 8;
  if (!device.target().early_start || device.wave_size() != 32 || !portions_fit(format, depth)) return 0;
  const auto waves = static_cast<std::int64_t>(threads) / device.wave_size();
  const auto left =
      shared_of_block(device, normed) - static_cast<std::int64_t>(held_bytes(format, rows, depth, x_run));
  const std::int64_t slots = left / (waves * streamed_columns * portion_bytes(format));
  return slots < least ? 0 : static_cast<int>(std::min(slots, most));
}

// ---- the division of a product

FewTile tile_of(const GpuDevice& device, const Layout& x, const Layout& weight, std::uint32_t x_run = 0,
                bool normed = false) {
  const std::int64_t rows = x.shape[0], depth = x.shape[1];
  FewTile tile;
  tile.rows = static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(rows)));
  if (heavy(weight.dtype)) tile.columns = 1;
  if (tile.rows == few_rows ||
      (tile.rows >= 4 && is_quantised(weight.dtype) && block_elements(weight.dtype) == 256))
    tile.ahead = 1;
  // Streamed blocks are numbered in 32 bits.
  const bool streams =
      !is_quantised(weight.dtype) || (rounds_in_block(weight.dtype, rows, depth) &&
                                      element_count(weight.shape) / block_elements(weight.dtype) <=
                                          std::numeric_limits<std::uint32_t>::max());
  if (streams) tile.slots = most_slots(device, weight.dtype, rows, depth, x_run, normed);
  if (tile.slots > 0) tile.columns = streamed_columns;
  tile.rounds_in_block = tile.slots > 0 || rounds_in_block(weight.dtype, rows, depth);
  return tile;
}

// The columns of the result are divided among blocks: runs of `together` neighbours.
struct Division {
  unsigned blocks;
  std::int64_t columns;  // of a block at most
};
Division divide(const GpuDevice& device, std::int64_t columns, std::int64_t together) {
  // Blocks stay, so that x is rounded as seldom as can be; two of them on AMD's compute units, which have
  // registers for both.
  const auto most = static_cast<std::int64_t>(device.compute_units()) * (device.target().amd ? 2 : 1);
  const std::int64_t jobs = (columns + together - 1) / together, blocks = std::min(jobs, most);
  return {static_cast<unsigned>(blocks), (jobs + blocks - 1) / blocks * together};
}
// Results of a wave at a time, side by side.
int results_at_once(const FewTile& tile, bool halves) { return halves ? 1 : tile.columns; }

// Whether there is a kernel for it here.
bool fits(const GpuDevice& device, const Layout& x, const Layout& weight) {
  if (x.shape[0] == 0 || x.shape[0] > few_rows || x.shape[1] == 0) return false;
  if (is_quantised(weight.dtype)) return true;
  return x.dtype == DType::f32 && weight.contiguous() && tile_of(device, x, weight).slots > 0;
}

class FewRowsKernel final : public BlockProduct {
 public:
  FewRowsKernel(GpuDevice& device, const Step& step)
      : BlockProduct(device, step),
        tile_(tile_of(device, step.inputs[0], step.inputs[1], step.x_run, norm_of(step) != nullptr)),
        x_run_(step.x_run) {
    const unsigned waves = threads / static_cast<unsigned>(device.wave_size());
    const int side = results_at_once(tile_, product_.halves);
    const std::int64_t at_once =
        tile_.slots > 0 ? portion_of(format_) : device.wave_size() * tile_.ahead * 32;
    division_ = divide(device, shape_.columns, std::max<std::int64_t>(side, together()));
    blocks_ = divide(device, shape_.columns, side).blocks;
    if (rounds_ && rounds_->weighted)
      reads_early_ = reads_early_ && (step.steady >> (step.inputs.size() - 1) & 1) != 0;
    // Portions that one wave of a block has to multiply, if several share columns. That costs barriers.
    const std::int64_t columns = division_.columns / side;
    const std::int64_t portions = (shape_.depth + at_once - 1) / at_once;
    const auto work = [&](unsigned parts) {
      return static_cast<double>((columns * parts + waves - 1) / waves * ((portions + parts - 1) / parts));
    };
    // Measured where portions are streamed: 656 instead of 667 tokens of q4_0 on an H200 with 0.9.
    const double worthwhile = tile_.slots > 0 ? 0.7 : 0.9;
    for (unsigned parts = 2; parts <= waves && parts < 2 * portions; parts *= 2)
      if (work(parts) < worthwhile * work(parts_)) parts_ = parts;
    if (!tile_.rounds_in_block)
      round_ = device.function({"quantised_matmul", rounding_text(), {}}, "round_activations");
  }

  std::size_t scratch_bytes() const override { return tile_.rounds_in_block ? 0 : x_bytes(); }

  void run(const KernelArguments& arguments) const override {
    const auto rows = static_cast<std::uint32_t>(shape_.rows),
               columns = static_cast<std::uint32_t>(shape_.columns),
               depth = static_cast<std::uint32_t>(shape_.depth);
    Arguments values;
    Ending ending;
    const Blocks blocks = weights(arguments);
    void* const roundings = static_cast<char*>(arguments.scratch) + shape_.rows * shape_.depth;
    const void* const rounded_weights = rounded_weight(arguments);
    LaunchShape launch{.x = blocks_, .threads = threads, .spreads = tile_.slots > 0};
    if (is_quantised(format_)) {
      values.add(blocks);
    } else {
      values.add(arguments.inputs[1]);
      values.add(shape_.b_column);
    }
    if (tile_.rounds_in_block) launch.shared = static_cast<unsigned>(x_bytes() + slot_bytes());
    if (x_run_ > 0) {
      values.add(arguments.inputs[0]);
      if (epsilon_) values.add(*epsilon_);
    } else if (tile_.rounds_in_block) {
      values.add(arguments.inputs[0]);
      values.add(shape_.a_row);
      values.add(shape_.a_k);
      add_norm(values, arguments);
    } else {
      const auto quads = static_cast<std::uint64_t>(shape_.rows * shape_.depth / 4);
      device_.launch(round_, {.x = device_.grid_for(quads, threads), .threads = threads}, arguments.inputs[0],
                     shape_.a_row, shape_.a_k, arguments.scratch, roundings, rows, depth);
      values.add(arguments.scratch);
      values.add(roundings);
    }
    values.add(rows);
    values.add(columns);
    values.add(depth);
    values.add(parts_);
    add_ending(values, arguments, ending);
    if (rounds_) {
      values.add(arguments.outputs[1]);
      values.add(rounded_weights);
    }
    device_.launch(function(whole(arguments)), launch, values);
  }

 private:
  std::size_t x_bytes() const { return held_bytes(format_, shape_.rows, shape_.depth, x_run_); }
  // Results of a row that a block has whole.
  std::uint32_t together() const { return rounds_ ? rounds_->run : 1; }
  std::size_t slot_bytes() const {
    return threads / static_cast<unsigned>(device_.wave_size()) *
           static_cast<std::size_t>(tile_.slots * tile_.columns * portion_bytes(format_));
  }

  // Whether neighbours can be read as one: four of x and of the norm's weight, eight of weights in 16 bits.
  bool whole(const KernelArguments& arguments) const {
    if (x_run_ > 0) return true;  // aligned as results are
    const bool x = shape_.a_k == 1 && shape_.a_row % 4 == 0 &&
                   aligned(arguments.inputs[0], 4 * dtype_size(product_.a.dtype));
    const bool norm = !epsilon_ || aligned(norm_weight(arguments), 16);
    return x && norm && (is_quantised(format_) || aligned(arguments.inputs[1], 16));
  }

  const Function& function(bool whole) const {
    const auto source = [&] { return KernelSource{"quantised_matmul", text(whole), {}, 16}; };
    const Function& multiply = (whole ? whole_ : by_element_).get(device_, source, "multiply_blocks");
    // The same for all sizes: kernels of one text are one.
    if (tile_.slots > 0)
      device_.allow_shared(multiply, static_cast<unsigned>(shared_of_block(device_, epsilon_.has_value())));
    return multiply;
  }

  std::string pairing() const {
    if (stored_) return stored_->pairing();
    return product_.halves ? "LeftAndRight" : fmt::format("Neighbours<{}>", tile_.columns);
  }

  // The type that has a wave's columns.
  std::string work() const {
    if (!is_quantised(format_))
      return fmt::format("streamed::HalfPortions<{}, whole, {}, {}, {}>", storage_type(format_), tile_.rows,
                         pairing(), threads);
    if (tile_.slots == 0)
      return fmt::format("FewRows<quantised::{}, {}, {}, {}, {}>", dtype_name(format_), tile_.rows, pairing(),
                         tile_.ahead, threads);
    std::string planes;
    for (const std::size_t size : plane_sizes(format_)) planes += fmt::format(", {}", size);
    return fmt::format("streamed::BlockPortions<quantised::{}, {}, {}, {}, {}, {}, {}, {}{}>",
                       dtype_name(format_), tile_.rows, pairing(), threads, portion_pairs(format_),
                       shape_.depth % portion_of(format_) == 0, x_run_ == 16, together(), planes);
  }

  std::string text(bool whole) const {
    const std::string_view type = storage_type(product_.a.dtype);
    const bool blocks = is_quantised(format_), in_block = tile_.rounds_in_block;
    const bool two_blocks = tile_.slots > 0 && tile_.rows <= 2 && whole, one_row = tile_.rows == 1;
    std::string text = fmt::format("constexpr bool whole = {};\nusing Work = {};\n", whole, work());
    text += fmt::format(
        "KERNEL_OF({}{}) void multiply_blocks({}, {}{}, u32{}, u32 columns,\n", threads,
        two_blocks ? ", 2" : "",
        blocks ? "Blocks blocks" : fmt::format("const {}* weights, i64 weight_stride", storage_type(format_)),
        x_run_ > 0 ? "const u8* x"
        : in_block ? fmt::format("const {}* x, i64 row_stride, i64 k_stride", type)
                   : "const u8* q, const Rounding* roundings",
        !epsilon_    ? ""
        : x_run_ > 0 ? ", f32 epsilon"
                     : ", const f32* norm_weight, f32 epsilon",
        one_row ? "" : " rows");
    text += fmt::format("    u32 depth, u32 parts{}{}) {{\n{}", ending_parameters(),
                        rounds_ ? ", u8* rounded_rows, const f32* rounded_weights" : "",
                        one_row ? "  constexpr u32 rows = 1;\n" : "");
    if (in_block)
      text += tile_.slots == 0
                  ? "  u8* const held = launched_shared<u8>();\n"
                  : fmt::format(
                        "  constexpr int slots = {};\n  u8* const held = launched_shared<u8>() + "
                        "{} / WAVE * slots * Work::slot_bytes;\n",
                        tile_.slots, threads);
    if (blocks && in_block)
      text +=
          "  u8* const q = held;\n  Rounding* const roundings = reinterpret_cast<Rounding*>(q + rows * "
          "depth);\n";
    text += blocks ? "  const Work work(blocks, q, roundings, rows, columns, depth, parts);\n"
                   : "  f32* const numbers = reinterpret_cast<f32*>(held);\n"
                     "  const Work work(weights, weight_stride, numbers, rows, columns, depth, parts);\n";
    if (stored_)
      text += fmt::format(
          "  __shared__ f32 cosines[{0} * {1}], sines[{0} * {1}];\n"
          "  const FinishHeads<{2}, {3}, AnglesOfRows> finish(heads, {{cosines, sines}});\n",
          tile_.rows, stored_->half(), stored_->cache_type(), stored_->interleaved());
    else
      text += fmt::format("  Finish finish{{GemmStack{{}}, rows, columns{}}};\n", finish_.members);
    if (epsilon_)
      text += fmt::format(
          "{2}  __shared__ f32 squares[{0} * {1} / WAVE];\n"
          "  Normed<{0}, {1}, whole> prepare{{{3}, epsilon, depth, squares}};\n",
          tile_.rows, threads,
          x_run_ > 0 ? "" : "  if (threadIdx.x * 32 < depth) bring_near(norm_weight + threadIdx.x * 32);\n",
          x_run_ > 0 ? "nullptr" : "norm_weight");
    else
      text += "  AsItIs prepare;\n";
    text += tile_.slots > 0 ? streaming_text(type) : fetching_text(type);
    if (rounds_)
      text += fmt::format(
          "  barrier();\n  if (work.spare()) return;\n#pragma unroll 1\n  for (u32 row = 0; row < rows; "
          "++row)\n"
          "    rounded::give<{}>(rounded_rows, rows * columns, row * columns + work.begin, work.end - "
          "work.begin,\n      kept + row * {}, {});\n",
          rounds_->run, division_.columns, rounds_->weighted ? "kept_weights" : "nullptr");
    return kernel_text(text + "}\n", tile_.slots > 0 ? "streamed.h" : "quantised.h");
  }

  // Results that are to be rounded wait for that in shared memory; weights for them are on their way with the
  // first ones of the product.
  std::string keeping_text() const {
    std::string text = fmt::format(
        "  __shared__ __align__(16) f32 kept[{0} * {1}];\n"
        "  finish.kept = kept;\n  finish.kept_from = work.begin;\n  finish.kept_row = {1};\n",
        tile_.rows, division_.columns);
    if (rounds_->weighted)
      text += fmt::format(
          "  __shared__ __align__(16) f32 kept_weights[{}];\n"
          "  for (u32 i = threadIdx.x; i < work.end - work.begin; i += blockDim.x)\n"
          "    streamed::copy<4>(streamed::shared_address(kept_weights + i),\n"
          "                      reinterpret_cast<const u8*>(rounded_weights + work.begin + i));\n",
          division_.columns);
    return text;
  }
  // What nothing before it in the plan writes may be read before the kernel waits.
  std::string streaming_text(std::string_view type) const {
    const std::string wait = "  after_previous();\n";
    return (reads_early_ ? "" : wait) + (rounds_ ? keeping_text() : "") +
           "  streamed::multiply<slots>(work, launched_shared<u8>(), [&] {\n" +
           waiting_text(reads_early_ ? wait : "") + preparing_text(type) +
           "  barrier();\n  return prepare.factor(lane() / Work::side);\n  }, "
           "finish);\n";
  }
  std::string fetching_text(std::string_view type) const {
    std::string text = "  work.bring_near();\n" + waiting_text("  after_previous();\n");
    if (stored_ && !tile_.rounds_in_block) text += "  barrier();\n";
    return text + fmt::format("  multiply_few(work, prepare, finish, [&] {{\n{}  }});\n",
                              tile_.rounds_in_block ? preparing_text(type) + "  barrier();\n" : "");
  }
  // `wait`, and the rope's angles before or behind it.
  std::string waiting_text(const std::string& wait) const {
    const std::string angles = stored_ ? "  heads.compute_angles(cosines, sines);\n" : "";
    return stored_ && stored_->steady_turns() ? angles + wait : wait + angles;
  }

  std::string preparing_text(std::string_view type) const {
    if (x_run_ > 0)
      return fmt::format("  streamed::take_rows<quantised::{}, {}>(x, rows, depth, prepare, q, roundings);\n",
                         dtype_name(format_), x_run_);
    const std::string operand =
        fmt::format("  const Operand<{}, whole> operand{{x, row_stride, k_stride, rows, depth}};\n", type);
    if (!is_quantised(format_)) return operand + "  streamed::place_rows(operand, prepare, numbers);\n";
    return operand +
           fmt::format(
               "  round_rows<quantised::{}>(operand, prepare, q, roundings, threadIdx.x, blockDim.x);\n",
               dtype_name(format_));
  }

  std::string rounding_text() const {
    return kernel_text(
        fmt::format(
            "KERNEL void round_activations(const {0}* x, i64 row_stride, i64 k_stride, u8* q,\n"
            "    Rounding* roundings, u32 rows, u32 depth) {{\n  after_previous();\n"
            "  AsItIs prepare;\n"
            "  round_rows<quantised::{1}>(Operand<{0}, false>{{x, row_stride, k_stride, rows, depth}},\n"
            "      prepare, q, roundings, (u32)global_thread(), (u32)global_threads());\n}}\n",
            storage_type(product_.a.dtype), dtype_name(format_)),
        "quantised.h");
  }

  FewTile tile_;
  Division division_;
  unsigned blocks_;                     // with those that are spare (WaveColumns)
  std::uint32_t x_run_;                 // as Step's
  bool reads_early_ = steady_weights_;  // before the kernel waits
  unsigned parts_ = 1;
  LazyFunction whole_, by_element_;
  Function round_;
};

}  // namespace

bool few_rows_take_halves(const GpuDevice& device, const Step& product) {
  const Layout &x = product.inputs[0], &weight = product.inputs[1];
  return fits(device, x, weight) && tile_of(device, x, weight).columns == 2;
}

bool few_rows_take_norm(const GpuDevice& device, const Step& product) {
  return tile_of(device, product.inputs[0], product.inputs[1]).rounds_in_block;
}

bool few_rows_store_heads(const GpuDevice& device, const Step& product, const Step& store,
                          const StoredHeads& heads) {
  const Layout &x = product.inputs[0], &weight = product.inputs[1];
  return fits(device, x, weight) && tile_of(device, x, weight).columns == 2 && heads.size <= 256 &&
         head_store_fits(product, store);
}

namespace {

// Whether this product's kernel can round its result by runs of so many and takes hardly longer.
bool few_rows_round(const GpuDevice& device, const Step& product, std::uint32_t run) {
  if (product.op != Op::quantised_matmul || product.stored || product.joined > 0 ||
      product.outputs.size() != 1)
    return false;
  const Layout &x = product.inputs[0], &weight = product.inputs[1], &out = product.outputs[0];
  if (!is_quantised(weight.dtype) || !fits(device, x, weight) || out.dtype != DType::f32) return false;
  const FewTile tile = tile_of(device, x, weight, product.x_run);
  const std::int64_t columns = out.shape.back();
  if (tile.slots == 0 || columns % run != 0) return false;
  constexpr double worthwhile = 1.05;
  constexpr std::int64_t most_kept = 1024;  // results of a block, in shared memory
  const Division alone = divide(device, columns, results_at_once(tile, product.halves)),
                 together = divide(device, columns, run);
  // With spare blocks it was faster by runs of 32 only: by 16, models of 2048 columns took 3 to 5 % longer.
  return (together.blocks == alone.blocks || run == 32) && together.columns * (tile.rows + 1) <= most_kept &&
         static_cast<double>(together.columns) <= worthwhile * static_cast<double>(alone.columns);
}

}  // namespace

std::optional<std::uint32_t> few_rows_rounded_by(const GpuDevice& device, const Step& product,
                                                 const Step& writer) {
  const Layout &x = product.inputs[0], &weight = product.inputs[1];
  constexpr std::int64_t most_rows = 1;  // of more it has not been measured
  if (!is_quantised(weight.dtype) || x.dtype != DType::f32 || !x.contiguous() || x.shape[0] > most_rows ||
      x.shape[1] % 32 != 0 || !fits(device, x, weight))
    return std::nullopt;
  // The norm's weights are multiplied by what knows columns: attention does not, and rows may be parts of x.
  if (norm_of(product) != nullptr &&
      (writer.op != Op::quantised_matmul || writer.outputs[0].shape.back() != x.shape[1]))
    return std::nullopt;
  for (const std::uint32_t run : {32u, 16u}) {
    if (tile_of(device, x, weight, run).slots == 0) continue;
    if (writer.op == Op::cached_attention ? attention_rounds_rows(device, writer, run)
                                          : few_rows_round(device, writer, run))
      return run;
  }
  return std::nullopt;
}

bool few_rows_fit(const GpuDevice& device, const Step& product) {
  return fits(device, product.inputs[0], product.inputs[1]);
}

std::unique_ptr<Kernel> make_few_rows(GpuDevice& device, const Step& step) {
  return std::make_unique<FewRowsKernel>(device, step);
}

}  // namespace hearth::gpu
