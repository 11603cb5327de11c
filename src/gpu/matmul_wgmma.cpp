// Products by the matrix unit of sm_90, and the choice of their tiles.
#include "gpu/matmul_wgmma.h"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/converted_product.h"
#include "gpu/expression_source.h"
#include "gpu/gemm_tiles.h"
#include "gpu/kernel_arguments.h"
#include "gpu/matmul_kernel.h"
#include "gpu/slot_finish.h"
#include "gpu/tensor_map.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned wgmma_threads = 384;
constexpr int tile_rows = 128, stage_depth = 64, group_rows = 64;

GemmSplit wgmma_split(std::uint64_t tiles, std::int64_t depth, int compute_units) {
  return split_depth(stage_depth, tiles, depth,
                     compute_units / 2);  // one block has a multiprocessor to itself
}

// How a block's shared memory is used with tiles of so many columns: stages of the operands and, unless
// results go from registers to memory, slots of 64 rows for each of the two groups that multiply.
struct WgmmaTile {
  int columns, width, stages;         // width: of the result
  std::size_t slots = 0, rounds = 1;  // rounds: in which results take turns
  std::vector<std::size_t> in_slots;  // inputs of the expression

  // `partial`: sums of a split, which are not rounded.
  WgmmaTile(const MatrixProduct& product, int columns_of_b, bool partial)
      : columns(columns_of_b), width(product.halves ? columns / 2 : columns) {
    constexpr std::size_t all = 226 * 1024, fewest_stages = 3, most_stages = 6;
    const std::size_t most = (all - fewest_stages * stage_bytes()) / slots_bytes(1),
                      results = product.outputs.size();
    if (!partial && slot_results(product) && width % 64 == 0) {
      in_slots = slot_inputs(product);
      in_slots.resize(std::min(in_slots.size(), most));
      if (in_slots.empty()) rounds = (results + most - 1) / most;
      slots = std::max(in_slots.size(), (results + rounds - 1) / rounds);
      constexpr std::size_t most_maps = 24;  // of 128 bytes each: drivers take 4 KiB of arguments
      if (slots > most || in_slots.size() + results > most_maps) slots = 0;
    }
    if (slots == 0) in_slots.clear();
    stages = static_cast<int>(std::min(most_stages, (all - slots_bytes(slots)) / stage_bytes()));
  }

  unsigned shared_bytes() const {
    return static_cast<unsigned>(static_cast<std::size_t>(stages) * stage_bytes() + slots_bytes(slots));
  }

 private:
  std::size_t stage_bytes() const {
    return static_cast<std::size_t>((tile_rows + columns) * stage_depth) * 2;
  }
  std::size_t slots_bytes(std::size_t count) const {
    return count * static_cast<std::size_t>(tile_rows * width) * 2;
  }
};

// The text of what follows a product.
struct WgmmaFinish {
  std::string structure, parameters, maps, finish;

  WgmmaFinish(const MatrixProduct& product, const WgmmaTile& tile, bool partial) {
    if (partial) {
      parameters = ", f32* sums";
      maps = "wgmma::NoSlots{}";
      finish = "gemm::Partial<f32>{sums, shape.rows, shape.columns, shape.products}";
    } else if (tile.slots == 0) {
      maps = "wgmma::NoSlots{}";
      take(FinishText(product));
    } else {
      take(SlotFinishText(product, tile.in_slots));
      const std::string inputs = pass_maps("map_in", tile.in_slots.size()),
                        results = pass_maps("map_out", product.outputs.size());
      maps = fmt::format("wgmma::SlotMaps<{}, {}, {}>{{{{{}}}, {{{}}}, stacked}}", tile.in_slots.size(),
                         product.outputs.size(), tile.slots, inputs, results);
      parameters += ", u32 stacked";
    }
  }

 private:
  template <class Text>
  void take(const Text& text) {
    structure = text.structure;
    parameters = text.parameters;
    finish = fmt::format("Finish{{stack, shape.rows, shape.columns{}}}", text.members);
  }
  std::string pass_maps(std::string_view name, std::size_t count) {
    std::string list;
    for (std::size_t i = 0; i < count; ++i) {
      parameters += fmt::format(", const __grid_constant__ TensorMap {}{}", name, i);
      list += fmt::format("{}&{}{}", i == 0 ? "" : ", ", name, i);
    }
    return list;
  }
};

std::string wgmma_source(const MatrixProduct& product, const WgmmaTile& tile, bool partial) {
  const WgmmaFinish text(product, tile, partial);
  const std::string_view format = product.converts ? dtype_name(product.converts->dtype) : "";
  return matmul_beginning(product) + "#include \"wgmma.h\"\n" +
         (product.converts ? "#include \"converting.h\"\n" : "") + text.structure +
         fmt::format(
             "KERNEL void __launch_bounds__({}, 1){} matmul(const __grid_constant__ TensorMap map_a,\n"
             "    const __grid_constant__ TensorMap map_b, GemmShape shape, GemmStack stack, bool "
             "stacked_a,\n"
             "    bool stacked_b{}{}{}) {{\n"
             "  after_previous();\n"
             "  extern __shared__ __align__(1024) char memory[];\n",
             wgmma_threads, product.normed ? " __cluster_dims__(2, 1, 1)" : "", text.parameters,
             product.turned   ? ", GemmTurn turn"
             : product.normed ? ", f32 epsilon"
                              : "",
             product.converts
                 ? fmt::format(", quantised::Blocks blocks, {}* numbers", storage_type(product.b.dtype))
                 : "") +
         fmt::format(
             "  wgmma::multiply<{}, {}, {}, {}, {}, {}>(shape, &map_a, &map_b, stacked_a, stacked_b, "
             "memory,\n"
             "      {}, {},\n      {}, {},\n      {});\n}}\n",
             storage_type(product.a.dtype), tile.columns, tile.stages, product.a.along_k(),
             product.b.along_k(), product.halves, text.maps, text.finish,
             product.turned
                 ? fmt::format("wgmma::Turned<{}, {}, {}>{{turn}}", storage_type(slot_type(product)),
                               product.turned->half(), product.turned->rope.interleaved)
                 : "wgmma::NotTurned{}",
             product.normed ? fmt::format("wgmma::Normed<{}>{{epsilon}}", storage_type(slot_type(product)))
                            : "wgmma::NotNormed{}",
             product.converts ? fmt::format("quantised::ConvertBeside<quantised::{}, {}>{{blocks, numbers}}",
                                            format, storage_type(product.b.dtype))
                              : "wgmma::NothingBeside{}");
}

// The unit of sm_90; see wgmma.h. Operands must be aligned and run through memory along K or along rows.
class WgmmaKernel final : public MatmulKernel {
 public:
  WgmmaKernel(GpuDevice& device, const Step& step, int columns, std::unique_ptr<Kernel> otherwise)
      : MatmulKernel(device, step),
        otherwise_(std::move(otherwise)),
        inputs_(step.inputs.size()),
        outputs_(step.outputs.size()),
        tile_(product_, columns, false) {
    shape_.row_tiles = static_cast<unsigned>((shape_.rows + tile_rows - 1) / tile_rows);
    shape_.column_tiles = static_cast<unsigned>((product_.b.rows + columns - 1) / columns);
    if (!product_.halves && !product_.turned && !product_.normed) {
      const GemmSplit split = wgmma_split(tiles(), shape_.depth, device.compute_units());
      shape_.splits = split.splits;
      shape_.split_depth = split.depth;
    }
    const bool partial = shape_.splits > 1;
    if (partial) tile_ = WgmmaTile(product_, columns, true);
    function_ = device.function({"matmul_wgmma", wgmma_source(product_, tile_, partial), {}}, "matmul");
    device.allow_shared(function_, static_cast<unsigned>(tile_.shared_bytes()));
    if (partial) combine_ = device.function(combine_source(product_), "combine");
    if (product_.converts) convert_ = make_conversion(device, *product_.converts, step.outputs.back());
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
    if (!all_aligned(arguments)) {
      if (convert_) convert_->run({to_convert(arguments), converted(arguments), nullptr, nullptr});
      return otherwise_->run(arguments);
    }
    const TensorMap map_a = map(product_.a, arguments.inputs[0], tile_rows),
                    map_b = map(product_.b, arguments.inputs[1], tile_.width);
    const bool stacked_a = product_.a.stack[0] != 0, stacked_b = product_.b.stack[0] != 0;
    const bool split = shape_.splits > 1;
    Arguments values;
    std::vector<Constant> constants;
    std::vector<TensorMap> maps;
    std::uint32_t stacked = 0;
    values.add(map_a);
    values.add(map_b);
    values.add(shape_);
    values.add(product_.stack);
    values.add(stacked_a);
    values.add(stacked_b);
    if (split) {
      values.add(arguments.scratch);
    } else if (tile_.slots == 0) {
      add_finish(values, arguments, constants);
    } else {
      add_outside_slots(values, arguments, constants);
      maps = slot_maps(arguments);
      for (const TensorMap& one : maps) values.add(one);
      for (std::size_t i = 0; i < tile_.in_slots.size(); ++i)
        stacked |= (product_.places[tile_.in_slots[i]].stack.stride[0] != 0 ? 1u : 0u) << i;
      values.add(stacked);
    }
    GemmTurn turn{};
    if (product_.turned) {
      turn = turn_of(*product_.turned, arguments);
      values.add(turn);
    }
    const auto epsilon = static_cast<float>(product_.normed.value_or(0));
    if (product_.normed) values.add(epsilon);
    Blocks weights{};
    if (product_.converts) {
      const auto& [format, shape, strides] = *product_.converts;
      weights = {*to_convert(arguments),
                 static_cast<std::uint64_t>(element_count(shape) / block_elements(format))};
      values.add(weights);
      values.add(*converted(arguments));
    }
    // Of a norm's rows, two blocks have the columns between them.
    const int units = device_.compute_units();
    const auto blocks = std::min<std::uint64_t>(
        tiles() * shape_.splits, static_cast<std::uint64_t>(product_.normed ? units / 2 * 2 : units));
    device_.launch(
        function_,
        {.x = static_cast<unsigned>(blocks), .threads = wgmma_threads, .shared = tile_.shared_bytes()},
        values);
    if (split) combine(combine_, arguments);
  }

 private:
  // Inputs 2 and 3 are the table of angles.
  static GemmTurn turn_of(const TurnedHeads& heads, const KernelArguments& arguments) {
    return {static_cast<const float*>(arguments.inputs[2]), static_cast<const float*>(arguments.inputs[3]),
            heads.begin, heads.end, heads.time};
  }

  // Of Step::converts: behind all else.
  void* const* to_convert(const KernelArguments& arguments) const { return arguments.inputs + inputs_ - 1; }
  void* const* converted(const KernelArguments& arguments) const { return arguments.outputs + outputs_ - 1; }

  bool all_aligned(const KernelArguments& arguments) const {
    bool fine = aligned(arguments.inputs[0], 16) && aligned(arguments.inputs[1], 16);
    for (const std::size_t i : tile_.in_slots) fine = fine && aligned(arguments.inputs[i + 2], 16);
    for (std::size_t k = 0; k < product_.output_count(); ++k)
      fine = fine && (tile_.slots == 0 || aligned(arguments.outputs[k], 16));
    return fine;
  }
  std::uint64_t tiles() const { return shape_.products * shape_.row_tiles * shape_.column_tiles; }

  // Boxes of a tile's rows and a stage of K, or of 64 rows and a stage of K where rows lie side by side.
  TensorMap map(const Operand& operand, void* pointer, int rows) const {
    const bool along_k = operand.along_k(), stacked = operand.stack[0] != 0;
    return tensor_map(
        device_, product_.a.dtype, pointer,
        {{along_k ? operand.depth : operand.rows, 1, 64},
         {along_k ? operand.rows : operand.depth, along_k ? operand.row_stride : operand.k_stride,
          static_cast<std::uint32_t>(along_k ? rows : stage_depth)},
         {stacked ? static_cast<std::int64_t>(shape_.products) : 1, operand.stack[0], 1}});
  }

  // As SlotFinishText passes them.
  void add_outside_slots(Arguments& values, const KernelArguments& arguments,
                         std::vector<Constant>& constants) const {
    for (std::size_t i = 0; i < product_.inputs.size(); ++i)
      if (std::find(tile_.in_slots.begin(), tile_.in_slots.end(), i) == tile_.in_slots.end()) {
        values.add(arguments.inputs[i + 2]);
        values.add(product_.places[i]);
      }
    add_constants(values, arguments, constants);
  }
  // Boxes of a panel: of the inputs in slots, then of the results.
  std::vector<TensorMap> slot_maps(const KernelArguments& arguments) const {
    const auto panels = [&](void* pointer, std::int64_t row, std::int64_t stack) {
      const std::int64_t products = stack == 0 ? 1 : static_cast<std::int64_t>(shape_.products);
      return tensor_map(device_, slot_type(product_), pointer,
                        {{shape_.columns, 1, 64}, {shape_.rows, row, group_rows}, {products, stack, 1}});
    };
    std::vector<TensorMap> maps;
    for (const std::size_t i : tile_.in_slots)
      maps.push_back(
          panels(arguments.inputs[i + 2], product_.places[i].row, product_.places[i].stack.stride[0]));
    for (std::size_t k = 0; k < product_.outputs.size(); ++k) {
      const auto [output, part, parts] = product_.result_place(k);
      const std::int64_t row = shape_.columns * static_cast<std::int64_t>(parts);
      char* const first = static_cast<char*>(arguments.outputs[output]);
      const std::size_t beside =
          part * static_cast<std::size_t>(shape_.columns) * dtype_size(slot_type(product_));
      maps.push_back(panels(first + beside, row, row * shape_.rows));
    }
    return maps;
  }

  std::unique_ptr<Kernel> otherwise_;  // for addresses that the copy engine does not take
  std::unique_ptr<Kernel> convert_;    // what then converts
  std::size_t inputs_, outputs_;       // of the step
  WgmmaTile tile_;
  Function function_, combine_;
};

// What a tile takes on an H200, fitted to measurements: nanoseconds for each k, and for the results, by way
// of slots or straight to memory.
struct WgmmaCandidate {
  MatmulVariant variant;
  int columns;
  double per_k, in_slots, in_memory;
};
constexpr WgmmaCandidate wgmma_candidates[] = {{MatmulVariant::wgmma_256, 256, 9.4, 900, 5600},
                                               {MatmulVariant::wgmma_192, 192, 7.3, 700, 4300},
                                               {MatmulVariant::wgmma_128, 128, 5.9, 500, 2700}};

int columns_of(MatmulVariant variant) {
  const auto found = std::find_if(std::begin(wgmma_candidates), std::end(wgmma_candidates),
                                  [&](const WgmmaCandidate& one) { return one.variant == variant; });
  return found->columns;
}

constexpr int normed_columns = 256;

bool turns(int columns, const TurnedHeads& heads) { return columns % heads.size == 0; }

// A larger tile needs less of its operands for a result; a smaller one leaves less of the device idle in the
// last round, and has slots for more tensors.
int choose_columns(const GpuDevice& device, const Step& step) {
  const MatrixProduct product(step);
  const std::int64_t depth = product.a.depth, units = device.compute_units();
  const WgmmaCandidate* best = nullptr;
  double least = 0;
  for (const WgmmaCandidate& one : wgmma_candidates) {
    if (step.turned && !turns(one.columns, *step.turned)) continue;
    const std::int64_t tiles = tile_count(step, tile_rows, one.columns);
    GemmSplit split{1, depth};
    if (!step.halves && !step.turned)
      split = wgmma_split(static_cast<std::uint64_t>(tiles), depth, device.compute_units());
    const WgmmaTile tile(product, one.columns, split.splits > 1);
    const double rounds = static_cast<double>((tiles * split.splits + units - 1) / units);
    const bool all_in_slots = tile.slots > 0 && tile.in_slots.size() == slot_inputs(product).size();
    double time = rounds * (one.per_k * static_cast<double>(split.depth) +
                            (all_in_slots ? one.in_slots * static_cast<double>(tile.rounds) : one.in_memory));
    // Sums of splits are written and read again.
    constexpr double bytes_per_nanosecond = 3000;
    if (split.splits > 1)
      time += 8.0 * split.splits * static_cast<double>(element_count(step.domain)) / bytes_per_nanosecond;
    if (best != nullptr && time >= least) continue;
    best = &one;
    least = time;
  }
  return best->columns;
}

}  // namespace

bool wgmma_fits(const GpuDevice& device, const Step& step) { return WgmmaKernel::fits(device, step); }

bool wgmma_turns(const GpuDevice& device, const Step& step) {
  const TurnedHeads& heads = *step.turned;
  constexpr std::int64_t most = std::int64_t{1} << 31;
  return (heads.size == 64 || heads.size == 128) && heads.begin % heads.size == 0 && step.domain[0] < most &&
         step.domain[1] % MatrixProduct::longest_run == 0 && heads.time < most / heads.half() &&
         wgmma_fits(device, step) && slot_results(MatrixProduct(step));
}

// Rows that two tiles have between them, and enough of them to be worth it.
bool wgmma_norms(const GpuDevice& device, const Step& step) {
  constexpr std::int64_t least_rows = 4096;
  if (!wgmma_fits(device, step)) return false;
  const MatrixProduct product(step);
  if (product.count != 1 || product.columns() != 2 * normed_columns || product.a.rows < least_rows ||
      product.outputs.size() != 1 || device.compute_units() < 2)
    return false;
  const WgmmaTile tile(product, normed_columns, false);
  return tile.slots == 1 && tile.rounds == 1 && tile.in_slots.size() == slot_inputs(product).size();
}

std::unique_ptr<Kernel> make_wgmma(GpuDevice& device, const Step& step, MatmulVariant variant,
                                   std::unique_ptr<Kernel> otherwise) {
  const int columns = step.normed                           ? normed_columns
                      : variant == MatmulVariant::automatic ? choose_columns(device, step)
                                                            : columns_of(variant);
  if (step.turned && !turns(columns, *step.turned))
    throw KernelError("[matmul] heads that tiles of this size do not turn");
  return std::make_unique<WgmmaKernel>(device, step, columns, std::move(otherwise));
}

}  // namespace hearth::gpu
