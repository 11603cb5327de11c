// Matrix products, with the expression that follows one.
#include "gpu/matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "device/strided.h"
#include "gpu/expression_source.h"
#include "gpu/gemm_tiles.h"
#include "gpu/product_choice.h"
#include "hearth/error.h"

namespace hearth::gpu {

#include "gpu/kernels/gemm_arguments.h"

namespace {

GemmStackStrides stack_strides(const Strides& strides) {
  GemmStackStrides result{};
  std::copy(strides.begin(), strides.end(), result.stride);
  return result;
}

// One operand as rows along K.
struct Operand {
  DType dtype;
  std::int64_t rows, depth, row_stride, k_stride;
  Strides stack;  // along the merged axes of the stack

  bool along_k() const {
    if (k_stride == 1 || row_stride == 1) return k_stride == 1;
    return std::abs(k_stride) < std::abs(row_stride);
  }
  // Whole packets can be read, given a pointer that is a multiple of them.
  bool in_packets(int packet) const {
    const auto fits = [&](std::int64_t stride) { return stride % packet == 0; };
    if ((along_k() ? k_stride : row_stride) != 1 || !std::all_of(stack.begin(), stack.end(), fits))
      return false;
    return along_k() ? rows == 1 || fits(row_stride) : depth == 1 || fits(k_stride);
  }
};

// A number in the type that it is computed in; all are at the start.
struct Constant {
  alignas(8) unsigned char bytes[8] = {};
  void set(DType dtype, const Number& number) {
    const auto type = compute_type(dtype);
    if (type == "f64") return put(number.real);
    if (type == "f32") return put(static_cast<float>(number.real));
    if (type == "i64") return put(number.integer);
    put(static_cast<std::int32_t>(number.integer));
  }
  template <class T>
  void put(T value) {
    std::memcpy(bytes, &value, sizeof value);
  }
};

// What a step says, with the axes of the stack merged.
struct Product {
  Operand a, b;
  std::vector<GemmPlace> places;  // of the expression's further inputs
  std::vector<DType> inputs, outputs;
  Expression expression;
  GemmStack stack{};
  std::int64_t count = 1;  // of products

  explicit Product(const Step& step) : expression(step.expression) {
    const std::size_t axes = step.domain.size() - 2;
    const Shape outer(step.domain.begin(), step.domain.begin() + static_cast<std::ptrdiff_t>(axes));
    std::vector<Strides> strides;
    for (const Layout& input : step.inputs)
      strides.emplace_back(input.strides.begin(), input.strides.begin() + static_cast<std::ptrdiff_t>(axes));
    const StridedLoop loop = collapse(outer, strides);
    if (loop.shape.size() > gemm_axes)
      throw KernelError(
          fmt::format("[matmul] {} axes of a stack that cannot be merged, at most {} are supported",
                      loop.shape.size(), gemm_axes));
    stack.axes = static_cast<int>(loop.shape.size());
    std::copy(loop.shape.begin(), loop.shape.end(), stack.size);
    count = element_count(outer);
    const auto operand = [&](std::size_t i, std::size_t row_axis, std::size_t k_axis) {
      const Layout& layout = step.inputs[i];
      return Operand{layout.dtype,
                     layout.shape[axes + row_axis],
                     layout.shape[axes + k_axis],
                     layout.strides[axes + row_axis],
                     layout.strides[axes + k_axis],
                     loop.strides[i]};
    };
    a = operand(0, 0, 1);
    b = operand(1, 1, 0);
    for (std::size_t i = 2; i < step.inputs.size(); ++i) {
      const Layout& layout = step.inputs[i];
      inputs.push_back(layout.dtype);
      places.push_back({layout.strides[axes], layout.strides[axes + 1], stack_strides(loop.strides[i])});
    }
    for (const Layout& output : step.outputs) outputs.push_back(output.dtype);
  }

  // Whether the expression's further input `i`, or the results, can be reached in runs of `longest_run` from
  // multiples of it on, given a pointer that is a multiple of 16 bytes.
  static constexpr std::int64_t longest_run = 8;
  bool whole_runs(std::size_t i) const {
    const auto fits = [](std::int64_t stride) { return stride % longest_run == 0; };
    return places[i].column == 1 && fits(places[i].row) &&
           std::all_of(std::begin(places[i].stack.stride), std::end(places[i].stack.stride), fits);
  }
  bool whole_results() const { return b.rows % longest_run == 0; }
};

// The text of a kernel's parts that depend on the expression: a struct Finish, which stores one element, and
// how it is passed. Values are written out of order by tiles, so that each element finds its own place.
struct FinishText {
  std::string structure, parameters, members;

  // `in_packets`: memory that Product::whole_runs() says can be read and written in aligned runs is.
  explicit FinishText(const Product& product, bool in_packets = false) {
    const Expression& expression = product.expression;
    const std::string_view result = storage_type(product.a.dtype), sum = compute_type(product.a.dtype);
    std::string fields, start, runs, fetches, loads, stores;
    std::size_t widest = 2;
    for (const DType dtype : product.outputs) widest = std::max(widest, dtype_size(dtype));
    const auto pass = [&](const std::string& type, const std::string& name) {
      fields += fmt::format("  {} {};\n", type, name);
      parameters += fmt::format(", {} {}", type, name);
      members += fmt::format(", {}", name);
    };
    for (std::size_t k = 0; k < product.outputs.size(); ++k)
      pass(fmt::format("{}*", storage_type(product.outputs[k])), fmt::format("out{}", k));
    for (std::size_t i = 0; i < product.inputs.size(); ++i) {
      const std::size_t value = i + 1;
      pass(fmt::format("const {}*", storage_type(product.inputs[i])), fmt::format("in{}", value));
      pass("GemmPlace", fmt::format("place{}", value));
      start +=
          fmt::format("    at{0} = in{0} + gemm::stack_offset(stack, place{0}.stack, product);\n", value);
      runs += fmt::format("    Packet<{}, N> run{};\n", storage_type(product.inputs[i]), value);
      fetches += i == 0 ? "" : ", ";
      if (in_packets && product.whole_runs(i))
        fetches += fmt::format("gemm::load_whole<N>(at{}{} + from)", value,
                               product.places[i].row == 0 ? "" : fmt::format(" + row * place{}.row", value));
      else
        fetches += fmt::format("gemm::load_run<N>(at{0} + row * place{0}.row, place{0}.column, from)", value);
      loads += fmt::format("      const {} v{} = load(inputs.run{}.element[e]);\n",
                           compute_type(product.inputs[i]), value, value);
    }
    for (std::size_t i = 0; i < expression.immediates.size(); ++i)
      pass(std::string(compute_type(expression.immediates[i])), fmt::format("c{}", i));
    fields += "  i64 first = 0;\n";
    for (std::size_t i = 0; i < product.inputs.size(); ++i)
      fields += fmt::format("  const {}* at{} = nullptr;\n", storage_type(product.inputs[i]), i + 1);
    std::string packets, writes;
    for (std::size_t k = 0; k < product.outputs.size(); ++k) {
      const std::string_view type = storage_type(product.outputs[k]);
      packets += fmt::format("    Packet<{}, N> r{};\n", type, k);
      stores +=
          fmt::format("      r{}.element[e] = store<{}>({});\n", k, type,
                      expression.instructions.empty() ? "v0" : value_name(expression, expression.outputs[k]));
      writes += fmt::format("    gemm::{1}(out{0} + index, r{0});\n", k,
                            in_packets && product.whole_results() ? "store_whole" : "store_run");
    }
    structure = fmt::format(
        "struct Finish {{\n  static constexpr int run_bytes = {0};\n"
        "  template <int N>\n  struct Inputs {{\n{1}  }};\n"
        "  GemmStack stack;\n  i64 rows, columns;\n{2}"
        "  DEVICE void start(u64 product, u32) {{\n    first = (i64)product * rows * columns;\n{3}  }}\n"
        "  template <int N>\n  DEVICE Inputs<N> fetch(i64 row, i64 from) const {{\n    return {{{4}}};\n  "
        "}}\n",
        widest, runs, fields, start, fetches);
    structure += fmt::format(
        "  template <int N>\n"
        "  DEVICE void operator()(i64 row, i64 from, const Packet<{0}, N>& sums, const Inputs<N>& inputs) "
        "const {{\n"
        "    const i64 index = first + row * columns + from;\n{1}"
        "#pragma unroll\n    for (int e = 0; e < N; ++e) {{\n"
        "      const {0} v0 = through<{2}>(sums.element[e]);\n{3}{4}{5}    }}\n{6}  }}\n"
        "  template <int N>\n  DEVICE void operator()(i64 row, i64 from, const Packet<{0}, N>& sums) const "
        "{{\n"
        "    (*this)(row, from, sums, fetch<N>(row, from));\n  }}\n}};\n",
        sum, packets, result, loads, expression_body(expression, "      "), stores, writes);
  }
};

std::string beginning(const Product& product) {
  return "#include \"math.h\"\n#include \"gemm.h\"\n" + operation_functions(product.expression);
}

// Lambdas that give the operands of a product.
std::string matrix_sources(std::string_view type) {
  std::string text;
  for (const char* operand : {"a", "b"})
    text += fmt::format(
        "  const auto source_{0} = [&](u64 product, i64 end) {{\n"
        "    return gemm::Matrix<{1}>{{{0} + gemm::stack_offset(stack, stack_{0}, product), shape.{0}_{2}, "
        "shape.{0}_k, "
        "shape.{2}s, end}};\n  }};\n",
        operand, type, *operand == 'a' ? "row" : "column");
  return text;
}

// The product in tiles. With `partial`, sums of a part of K go to scratch memory instead.
std::string tile_source(const Product& product, const GemmTile& tile, int packet_a, int packet_b,
                        bool partial) {
  const FinishText finish(product);
  const std::string_view type = storage_type(product.a.dtype), sum = compute_type(product.a.dtype);
  std::string text = beginning(product);
  if (!partial) text += finish.structure;
  text += fmt::format(
      "KERNEL void __launch_bounds__({}) matmul(const {}* a, const {}* b, GemmShape shape, GemmStack stack,\n"
      "    GemmStackStrides stack_a, GemmStackStrides stack_b{}) {{\n",
      tile.threads, type, type, partial ? fmt::format(", {}* sums", sum) : finish.parameters);
  text += matrix_sources(type);
  text += fmt::format(
      "  gemm::multiply<{}, {}, {}>(shape, source_a, source_b, {});\n}}\n",
      packet_a > 1 && packet_b > 1 ? tile.type : tile.by_element,
      gemm_fetch(tile, product.a.dtype, product.a.along_k(), packet_a),
      gemm_fetch(tile, product.b.dtype, product.b.along_k(), packet_b),
      partial ? fmt::format("gemm::Partial<{}>{{sums, shape.rows, shape.columns, shape.products}}", sum)
              : fmt::format("Finish{{stack, shape.rows, shape.columns{}}}", finish.members));
  return text;
}

KernelSource combine_source(const Product& product) {
  const FinishText finish(product);
  const std::string kernel = fmt::format(
      "KERNEL void combine(const {}* sums, GemmShape shape, GemmStack stack{}) {{\n"
      "  gemm::combine(shape, sums, Finish{{stack, shape.rows, shape.columns{}}});\n}}\n",
      compute_type(product.a.dtype), finish.parameters, finish.members);
  return {"matmul_combine", beginning(product) + finish.structure + kernel, {}, 16};
}

bool aligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

class MatmulKernel : public Kernel {
 public:
  MatmulKernel(GpuDevice& device, const Step& step) : device_(device), product_(step) {
    const Operand &a = product_.a, &b = product_.b;
    shape_ = {.rows = a.rows,
              .columns = b.rows,
              .depth = a.depth,
              .a_row = a.row_stride,
              .a_k = a.k_stride,
              .b_column = b.row_stride,
              .b_k = b.k_stride,
              .split_depth = a.depth,
              .row_tiles = 1,
              .column_tiles = 1,
              .splits = 1,
              .products = static_cast<unsigned long long>(product_.count)};
    stack_a_ = stack_strides(a.stack);
    stack_b_ = stack_strides(b.stack);
  }

 protected:
  std::int64_t results() const { return shape_.rows * shape_.columns * product_.count; }

  // Outputs, further inputs with their places, and constants, in the order of FinishText's parameters.
  void add_finish(Arguments& values, const KernelArguments& arguments,
                  std::vector<Constant>& constants) const {
    for (std::size_t k = 0; k < product_.outputs.size(); ++k) values.add(arguments.outputs[k]);
    for (std::size_t i = 0; i < product_.inputs.size(); ++i) {
      values.add(arguments.inputs[i + 2]);
      values.add(product_.places[i]);
    }
    constants.resize(product_.expression.immediates.size());
    for (std::size_t i = 0; i < constants.size(); ++i) {
      constants[i].set(product_.expression.immediates[i], arguments.numbers[i]);
      values.add(constants[i]);
    }
  }

  std::size_t sum_bytes() const { return compute_type(product_.a.dtype).ends_with("64") ? 8 : 4; }
  std::size_t split_bytes() const {
    return shape_.splits == 1 ? 0 : shape_.splits * static_cast<std::size_t>(results()) * sum_bytes();
  }
  // From the splits' sums in scratch memory to the result.
  void combine(const Function& function, const KernelArguments& arguments) const {
    Arguments values;
    std::vector<Constant> constants;
    values.add(arguments.scratch);
    values.add(shape_);
    values.add(product_.stack);
    add_finish(values, arguments, constants);
    device_.launch(function,
                   {.x = device_.grid_for(static_cast<std::uint64_t>(results()), combined_by_block),
                    .threads = combining_threads(shape_.columns, sum_bytes())},
                   values);
  }

  GpuDevice& device_;
  Product product_;
  GemmShape shape_{};
  GemmStackStrides stack_a_{}, stack_b_{};
};

class TileKernel final : public MatmulKernel {
 public:
  TileKernel(GpuDevice& device, const Step& step, GemmTile tile)
      : MatmulKernel(device, step), tile_(std::move(tile)) {
    const auto tiles = [](std::int64_t size, int one) {
      return static_cast<unsigned>((size + one - 1) / one);
    };
    shape_.row_tiles = tiles(shape_.rows, tile_.rows);
    shape_.column_tiles = tiles(shape_.columns, tile_.columns);
    const std::uint64_t all = shape_.products * shape_.row_tiles * shape_.column_tiles;
    const GemmSplit split = split_depth(tile_.depth, all, shape_.depth, device.compute_units());
    shape_.splits = split.splits;
    shape_.split_depth = split.depth;
    const int packet = gemm_packet(tile_, product_.a.dtype);
    packet_a_ = product_.a.in_packets(packet) ? packet : 1;
    packet_b_ = product_.b.in_packets(packet) ? packet : 1;
    if (tile_.only_packets)
      smaller_ =
          std::make_unique<TileKernel>(device, step, mma_tile(device.target(), product_.a.dtype, false));
  }

  std::size_t scratch_bytes() const override {
    return std::max(split_bytes(), smaller_ ? smaller_->scratch_bytes() : 0);
  }

  void run(const KernelArguments& arguments) const override {
    if (results() == 0) return;
    const std::size_t size = dtype_size(product_.a.dtype);
    const bool packets = aligned(arguments.inputs[0], static_cast<std::size_t>(packet_a_) * size) &&
                         aligned(arguments.inputs[1], static_cast<std::size_t>(packet_b_) * size);
    if (smaller_ && !(packets && packet_a_ > 1 && packet_b_ > 1)) return smaller_->run(arguments);
    const bool split = shape_.splits > 1;
    const auto make_source = [&] {
      return KernelSource{
          "matmul",
          tile_source(product_, tile_, packets ? packet_a_ : 1, packets ? packet_b_ : 1, split),
          {}};
    };
    const Function& function = (packets ? in_packets_ : by_element_).get(device_, make_source, "matmul");
    Arguments values;
    std::vector<Constant> constants;
    values.add(arguments.inputs[0]);
    values.add(arguments.inputs[1]);
    values.add(shape_);
    values.add(product_.stack);
    values.add(stack_a_);
    values.add(stack_b_);
    if (split)
      values.add(arguments.scratch);
    else
      add_finish(values, arguments, constants);
    const std::uint64_t jobs = shape_.products * shape_.splits * shape_.row_tiles * shape_.column_tiles;
    constexpr std::uint64_t most_blocks = 1u << 30;
    device_.launch(function,
                   {.x = static_cast<unsigned>(std::min(jobs, most_blocks)),
                    .threads = static_cast<unsigned>(tile_.threads)},
                   values);
    if (!split) return;
    const auto make_combine = [&] { return combine_source(product_); };
    combine(combine_.get(device_, make_combine, "combine"), arguments);
  }

 private:
  GemmTile tile_;
  int packet_a_ = 1, packet_b_ = 1;
  LazyFunction in_packets_, by_element_, combine_;
  std::unique_ptr<TileKernel> smaller_;  // for operands by element, where the tile is too large for them
};

// Few rows or columns: both operands along K, the larger one read once.
class SkinnyKernel final : public MatmulKernel {
 public:
  SkinnyKernel(GpuDevice& device, const Step& step) : MatmulKernel(device, step) {
    swapped_ = shape_.rows < shape_.columns;
    const std::int64_t few = std::min(shape_.rows, shape_.columns),
                       many = std::max(shape_.rows, shape_.columns);
    few_ = few <= 1 ? 1 : few <= 2 ? 2 : few <= 4 ? 4 : 8;
    // A row's waves: as many as keep the device busy, where K is long enough for them.
    const std::int64_t groups = (many + rows_ - 1) / rows_ * product_.count;
    const std::int64_t waves = std::int64_t{device.compute_units()} * 32 * 32 / device.wave_size();
    length_ = packet(product_, device.target().amd);
    const std::int64_t at_once = std::int64_t{length_} * device.wave_size();
    while (waves_ * device.wave_size() < static_cast<int>(threads) && groups * waves_ < waves &&
           shape_.depth > at_once * waves_ * 2)
      waves_ *= 2;
    blocks_ = (groups * waves_ * device.wave_size() + threads - 1) / threads;
  }

  static bool fits(const Step& step) {
    const Product product(step);
    const std::int64_t most = dtype_size(product.a.dtype) == 8 ? 4 : 8;
    return std::min(product.a.rows, product.b.rows) <= most && fits(product, packet(product, false));
  }

  void run(const KernelArguments& arguments) const override {
    if (results() == 0) return;
    const bool packets = aligned(arguments.inputs[0], 16) && aligned(arguments.inputs[1], 16);
    const auto make_source = [&] {
      const std::size_t bytes = static_cast<std::size_t>(length_) * dtype_size(product_.a.dtype);
      return KernelSource{"matmul_skinny", source(packets), {}, packets ? bytes : 0};
    };
    const Function& function = (packets ? in_packets_ : by_element_).get(device_, make_source, "matmul");
    Arguments values;
    std::vector<Constant> constants;
    values.add(arguments.inputs[0]);
    values.add(arguments.inputs[1]);
    values.add(shape_);
    values.add(product_.stack);
    values.add(stack_a_);
    values.add(stack_b_);
    add_finish(values, arguments, constants);
    const std::int64_t most = std::int64_t{device_.compute_units()} * 64;
    device_.launch(function, {.x = static_cast<unsigned>(std::min(blocks_, most)), .threads = threads},
                   values);
  }

 private:
  static constexpr unsigned threads = 256;

  // Elements of both operands can be read so many at a time.
  static bool fits(const Product& product, int length) {
    const auto fits = [&](const Operand& operand) { return operand.along_k() && operand.in_packets(length); };
    return product.a.depth >= length && fits(product.a) && fits(product.b);
  }
  // 16 bytes, or eight elements where bytes come in no more. Compilers for NVIDIA give each of 16 a register.
  static int packet(const Product& product, bool amd) {
    const int whole = static_cast<int>(16 / dtype_size(product.a.dtype));
    return whole <= 8 || (amd && fits(product, whole)) ? whole : 8;
  }

  std::string source(bool packets) const {
    const FinishText finish(product_);
    const DType dtype = product_.a.dtype;
    const std::string_view type = storage_type(dtype);
    return beginning(product_) + "#include \"gemv.h\"\n" + finish.structure +
           fmt::format(
               "KERNEL void __launch_bounds__({}) matmul(const {}* a, const {}* b, GemmShape shape, "
               "GemmStack stack,\n"
               "    GemmStackStrides stack_a, GemmStackStrides stack_b{}) {{\n{}",
               threads, type, type, finish.parameters, matrix_sources(type)) +
           fmt::format(
               "  gemv::multiply<{}, {}, {}, {}, {}>(shape, {}, {}, Finish{{stack, shape.rows, "
               "shape.columns{}}});\n}}\n",
               few_, rows_, packets ? length_ : 1, waves_, swapped_, swapped_ ? "source_b" : "source_a",
               swapped_ ? "source_a" : "source_b", finish.members);
  }

  bool swapped_ = false;  // the few are rows of a
  static constexpr int rows_ =
      2;  // that share what is read of the vectors; more would not fit into registers
  int few_ = 1, waves_ = 1, length_ = 1;
  std::int64_t blocks_ = 1;
  LazyFunction in_packets_, by_element_;
};

// What the copy engine of sm_90 is told of an operand.
struct alignas(64) TensorMap {
  std::uint64_t words[16];
};

constexpr unsigned wgmma_threads = 384;

// Tiles of 128 rows for the unit of sm_90.
struct WgmmaTile {
  int columns, stages;
  bool in_turns = false;  // each group of threads has tiles of its own
};

GemmSplit wgmma_split(std::uint64_t tiles, std::int64_t depth, int compute_units) {
  return split_depth(64, tiles, depth, compute_units / 2);  // one block has a multiprocessor to itself
}

std::string wgmma_source(const Product& product, const WgmmaTile& tile, bool partial) {
  const FinishText finish(product, true);
  return beginning(product) + "#include \"wgmma.h\"\n" + (partial ? "" : finish.structure) +
         fmt::format(
             "KERNEL void __launch_bounds__({0}, 1) matmul(const __grid_constant__ TensorMap map_a,\n"
             "    const __grid_constant__ TensorMap map_b, GemmShape shape, GemmStack stack, bool "
             "stacked_a,\n"
             "    bool stacked_b{1}) {{\n"
             "  extern __shared__ __align__(1024) char memory[];\n"
             "  wgmma::multiply<{2}, {3}, {4}, {5}, {6}, {7}>(shape, &map_a, &map_b, stacked_a, "
             "stacked_b, memory,\n"
             "                                           {8});\n}}\n",
             wgmma_threads, partial ? ", f32* sums" : finish.parameters, storage_type(product.a.dtype),
             tile.columns, tile.stages, tile.in_turns, product.a.along_k(), product.b.along_k(),
             partial ? "gemm::Partial<f32>{sums, shape.rows, shape.columns, shape.products}"
                     : fmt::format("Finish{{stack, shape.rows, shape.columns{}}}", finish.members));
}

// The unit of sm_90; see wgmma.h. Operands must be aligned and run through memory along K or along rows.
class WgmmaKernel final : public MatmulKernel {
 public:
  WgmmaKernel(GpuDevice& device, const Step& step, const WgmmaTile& tile)
      : MatmulKernel(device, step),
        otherwise_(device, step, mma_tile(device.target(), step.inputs[0].dtype, true)),
        tile_(tile) {
    shape_.row_tiles = static_cast<unsigned>((shape_.rows + rows - 1) / rows);
    shape_.column_tiles = static_cast<unsigned>((shape_.columns + tile.columns - 1) / tile.columns);
    const GemmSplit split = wgmma_split(tiles(), shape_.depth, device.compute_units());
    shape_.splits = split.splits;
    shape_.split_depth = split.depth;
    function_ =
        device.function({"matmul_wgmma", wgmma_source(product_, tile_, split.splits > 1), {}}, "matmul");
    device.use();
    device.driver().check(
        device.driver().call.allow_shared(function_.handle, static_cast<int>(shared_bytes())),
        "asking for shared memory");
    if (shape_.splits > 1) combine_ = device.function(combine_source(product_), "combine");
  }

  static bool fits(const GpuDevice& device, const Step& step) {
    const DType dtype = step.inputs[0].dtype;
    if (device.target().matrix != MatrixUnit::wgmma90 || device.driver().call.encode_tensor_map == nullptr ||
        (dtype != DType::f16 && dtype != DType::bf16))
      return false;
    const Product product(step);
    const auto fits = [](const Operand& operand) {
      constexpr std::int64_t most = std::int64_t{1} << 31;
      return operand.in_packets(8) && operand.rows < most && operand.depth < most &&
             operand.row_stride >= 0 && operand.k_stride >= 0 && operand.stack.size() == 1 &&
             operand.stack[0] >= 0;
    };
    return product.count < 65536 && product.a.depth > 0 && fits(product.a) && fits(product.b);
  }

  std::size_t scratch_bytes() const override { return std::max(split_bytes(), otherwise_.scratch_bytes()); }

  void run(const KernelArguments& arguments) const override {
    if (results() == 0) return;
    if (!all_aligned(arguments)) return otherwise_.run(arguments);
    const TensorMap map_a = map(product_.a, arguments.inputs[0], rows),
                    map_b = map(product_.b, arguments.inputs[1], tile_.columns);
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
    const auto blocks =
        std::min<std::uint64_t>(tiles() * shape_.splits, static_cast<std::uint64_t>(device_.compute_units()));
    device_.launch(function_,
                   {.x = static_cast<unsigned>(blocks), .threads = wgmma_threads, .shared = shared_bytes()},
                   values);
    if (split) combine(combine_, arguments);
  }

 private:
  static constexpr int rows = 128, depth = 64;

  bool all_aligned(const KernelArguments& arguments) const {
    bool fine = aligned(arguments.inputs[0], 16) && aligned(arguments.inputs[1], 16);
    for (std::size_t i = 0; i < product_.inputs.size(); ++i)
      fine = fine && (!product_.whole_runs(i) || aligned(arguments.inputs[i + 2], 16));
    for (std::size_t k = 0; k < product_.outputs.size(); ++k)
      fine = fine && (!product_.whole_results() || aligned(arguments.outputs[k], 16));
    return fine;
  }
  std::uint64_t tiles() const { return shape_.products * shape_.row_tiles * shape_.column_tiles; }
  unsigned shared_bytes() const {
    return static_cast<unsigned>(tile_.stages * (rows + tile_.columns) * depth * 2);
  }

  // Boxes of a tile's rows and a stage of K, or of 64 rows and a stage of K where rows lie side by side.
  TensorMap map(const Operand& operand, void* pointer, int tile_rows) const {
    TensorMap result{};
    const bool along_k = operand.along_k();
    const auto inner = static_cast<std::uint64_t>(along_k ? operand.depth : operand.rows);
    const auto outer = static_cast<std::uint64_t>(along_k ? operand.rows : operand.depth);
    const std::int64_t outer_stride = along_k ? operand.row_stride : operand.k_stride;
    const std::uint64_t whole = (inner * 2 + 15) / 16 * 16;  // a stride for axes that have only one element
    const std::uint64_t stack_bytes = static_cast<std::uint64_t>(operand.stack[0]) * 2;
    const std::uint64_t sizes[3] = {inner, outer, operand.stack[0] == 0 ? 1 : shape_.products};
    const std::uint64_t strides[2] = {outer == 1 ? whole : static_cast<std::uint64_t>(outer_stride) * 2,
                                      stack_bytes == 0 ? whole : stack_bytes};
    const std::uint32_t box[3] = {64, static_cast<std::uint32_t>(along_k ? tile_rows : depth), 1};
    const std::uint32_t steps[3] = {1, 1, 1};
    constexpr int f16 = 6, bf16 = 9, plain = 0, swizzle_128 = 3, promote_256 = 3, zeros = 0;
    device_.driver().check(device_.driver().call.encode_tensor_map(
                               &result, product_.a.dtype == DType::f16 ? f16 : bf16, 3, pointer, sizes,
                               strides, box, steps, plain, swizzle_128, promote_256, zeros),
                           "describing an operand");
    return result;
  }

  TileKernel otherwise_;  // for addresses that the copy engine does not take
  WgmmaTile tile_;
  Function function_, combine_;
};

// Tiles of the result, of all products.
std::int64_t tile_count(const Step& step, std::int64_t tile_rows, std::int64_t tile_columns) {
  const std::size_t ndim = step.domain.size();
  const std::int64_t rows = step.domain[ndim - 2], columns = step.domain[ndim - 1];
  const std::int64_t stack = rows * columns == 0 ? 0 : element_count(step.domain) / (rows * columns);
  return stack * ((rows + tile_rows - 1) / tile_rows) * ((columns + tile_columns - 1) / tile_columns);
}

bool large_tiles_fill(const GpuDevice& device, const Step& step, const GemmTile& large) {
  return tile_count(step, large.rows, large.columns) >= device.compute_units();
}

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

// A larger tile needs less of its operands for a result; a smaller one leaves less of the device idle in the
// last round; in turns, storing is hidden as far as multiplying takes as long.
WgmmaTile choose_wgmma(const GpuDevice& device, const Step& step) {
  const std::int64_t depth = step.inputs[0].shape.back(), units = device.compute_units();
  const WgmmaCandidate* best = nullptr;
  double least = 0;
  for (const WgmmaCandidate& one : wgmma_candidates) {
    const std::int64_t tiles = tile_count(step, 128, one.tile.columns);
    const GemmSplit split = wgmma_split(static_cast<std::uint64_t>(tiles), depth, device.compute_units());
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

std::unique_ptr<Kernel> make_matmul(GpuDevice& device, const Step& step, MatmulVariant variant) {
  const DType dtype = step.inputs[0].dtype;
  if (dtype == DType::bool_) throw DTypeError("[matmul] bool has no product; cast to an integer first");
  const Target& target = device.target();
  const bool unit = has_matrix_unit(target, dtype);
  const auto tiles = [&](GemmTile tile) {
    return std::make_unique<TileKernel>(device, step, std::move(tile));
  };
  switch (variant) {
    case MatmulVariant::fma_small:
      return tiles(fma_tile(dtype, false));
    case MatmulVariant::fma_large:
      return tiles(fma_tile(dtype, true));
    case MatmulVariant::mma_small:
    case MatmulVariant::mma_large:
      if (!unit)
        throw KernelError(
            fmt::format("[matmul] no matrix unit for {} on {}", dtype_name(dtype), device.name()));
      return tiles(mma_tile(target, dtype, variant == MatmulVariant::mma_large));
    case MatmulVariant::wgmma_128:
    case MatmulVariant::wgmma_192:
    case MatmulVariant::wgmma_256:
    case MatmulVariant::wgmma_turns:
      if (!WgmmaKernel::fits(device, step))
        throw KernelError(fmt::format("[matmul] not a product for wgmma on {}", device.name()));
      return std::make_unique<WgmmaKernel>(device, step, wgmma_tile(variant));
    case MatmulVariant::skinny:
      if (!SkinnyKernel::fits(step))
        throw KernelError("[matmul] not a product of few rows or columns along K");
      return std::make_unique<SkinnyKernel>(device, step);
    case MatmulVariant::automatic:
      break;
  }
  if (SkinnyKernel::fits(step)) return std::make_unique<SkinnyKernel>(device, step);
  if (WgmmaKernel::fits(device, step) && step.domain.back() > 32 && step.domain[step.domain.size() - 2] > 32)
    return std::make_unique<WgmmaKernel>(device, step, choose_wgmma(device, step));
  const auto tile = [&](bool large) {
    return unit ? mma_tile(target, dtype, large) : fma_tile(dtype, large);
  };
  return tiles(tile(large_tiles_fill(device, step, tile(true))));
}

std::unique_ptr<Kernel> make_matmul(GpuDevice& device, const Step& step) {
  return choose_product(device, step);
}

}  // namespace hearth::gpu
