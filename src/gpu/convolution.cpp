// Convolutions and their gradients.
#include "gpu/convolution.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "gpu/convolution_choice.h"
#include "gpu/expression_source.h"
#include "gpu/gemm_tiles.h"
#include "hearth/error.h"

namespace hearth::gpu {

#include "gpu/kernels/conv_arguments.h"
#include "gpu/kernels/gemm_arguments.h"

namespace {

using Axes3 = std::array<std::int64_t, 3>;

std::int64_t volume(const Axes3& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

// Spatial values as three axes, the missing leading ones filled up.
template <class Values>
Axes3 spread(const Values& values, std::size_t skip, std::int64_t missing) {
  Axes3 result;
  const std::size_t axes = values.size() - skip;
  for (std::size_t i = 0; i < 3; ++i) result[i] = i + axes < 3 ? missing : values[skip + i + axes - 3];
  return result;
}

ConvDivisor divisor(std::int64_t value) {
  const auto by = static_cast<std::uint32_t>(std::max<std::int64_t>(1, value));
  const unsigned shift = by == 1 ? 0 : 32 - static_cast<unsigned>(std::countl_zero(by - 1));
  const std::uint64_t multiplier = ((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - by)) / by + 1;
  return {by, by == 1 ? 0 : static_cast<std::uint32_t>(multiplier), shift};
}

// A tensor (first, second, three spatial axes); w is (out channel, in channel of a group, taps).
struct Tensor5 {
  std::int64_t first_stride, second_stride;
  Axes3 size, stride;
  explicit Tensor5(const Layout& layout)
      : first_stride(layout.strides[0]),
        second_stride(layout.strides[1]),
        size(spread(layout.shape, 2, 1)),
        stride(spread(layout.strides, 2, 0)) {}
};

struct Window {
  Axes3 kernel, stride, padding, dilation;
  explicit Window(const WindowAttributes& window)
      : kernel(spread(window.kernel, 0, 1)),
        stride(spread(window.stride, 0, 1)),
        padding(spread(window.padding, 0, 0)),
        dilation(spread(window.dilation, 0, 1)) {}
};

// Which operand a product's rows and K are made of; see conv.h.
struct Problem {
  GemmShape shape{};
  ConvPair pair{};
  ConvPatches patches{};
  ConvPlanes planes{};
  std::size_t pair_input = 0, patches_input = 0;  // which input of the step
  bool pixel_rows = true;                         // patches' rows are pixels; results are planes

  explicit Problem(const Step& step) {
    const auto& attributes = std::get<WindowAttributes>(step.attributes);
    const Window window(attributes);
    const bool forward = step.op == Op::conv, input_grad = step.op == Op::conv_input_grad;
    const std::int64_t groups = attributes.groups;
    // conv: x, w -> y. input gradient: dy, w -> dx. weight gradient: x, dy -> dw.
    const Layout& read = step.inputs[0];
    const Layout& weight = forward || input_grad ? step.inputs[1] : step.outputs[0];
    const Layout& pixels_of = forward || input_grad ? step.outputs[0] : step.inputs[1];
    const Tensor5 tensor(read), w(weight);
    const Axes3 pixels = spread(pixels_of.shape, 2, 1), taps = window.kernel;
    const std::int64_t images = read.shape[0], read_channels = read.shape[1] / groups;
    pixel_rows = forward || input_grad;

    patches.image = tensor.first_stride;
    patches.channel = tensor.second_stride;
    patches.group = read_channels * tensor.second_stride;
    for (std::size_t i = 0; i < 3; ++i) {
      patches.spatial[i] = tensor.stride[i];
      patches.size[i] = static_cast<int>(tensor.size[i]);
      patches.pixel_step[i] = static_cast<int>(input_grad ? 1 : window.stride[i]);
      patches.tap_step[i] = static_cast<int>(input_grad ? -window.dilation[i] : window.dilation[i]);
      patches.shift[i] = static_cast<int>(input_grad ? window.padding[i] : -window.padding[i]);
      patches.quotient[i] = static_cast<int>(input_grad ? window.stride[i] : 1);
    }
    patches.pixels = divisor(volume(pixels));
    patches.pixel_plane = divisor(pixels[1] * pixels[2]);
    patches.pixel_row = divisor(pixels[2]);
    patches.taps = divisor(volume(taps));
    patches.tap_plane = divisor(taps[1] * taps[2]);
    patches.tap_row = divisor(taps[2]);

    shape.products = static_cast<unsigned long long>(groups);
    shape.splits = 1;
    if (pixel_rows) {
      shape.rows = step.outputs[0].shape[1] / groups;
      shape.columns = images * volume(pixels);
      shape.depth = read_channels * volume(taps);
      pair_input = 1;
      // w(o, c, tap): rows are o and k goes through c, or the other way round.
      pair.row = forward ? w.first_stride : w.second_stride;
      pair.outer = forward ? w.second_stride : w.first_stride;
      pair.group = (forward ? shape.rows : read_channels) * w.first_stride;
      pair.inner_size = patches.taps;
      pair.plane = patches.tap_plane;
      pair.line = patches.tap_row;
      std::copy(w.stride.begin(), w.stride.end(), pair.inner);
      planes = {step.outputs[0].shape[1], shape.rows, patches.pixels};
    } else {
      const Tensor5 y(step.inputs[1]);
      shape.rows = weight.shape[0] / groups;
      shape.columns = read_channels * volume(taps);
      shape.depth = images * volume(pixels);
      pair_input = 1;
      pair.row = y.second_stride;
      pair.outer = y.first_stride;
      pair.group = shape.rows * y.second_stride;
      pair.inner_size = patches.pixels;
      pair.plane = patches.pixel_plane;
      pair.line = patches.pixel_row;
      std::copy(y.stride.begin(), y.stride.end(), pair.inner);
    }
    shape.split_depth = shape.depth;
    if (std::max(shape.columns, shape.depth) > std::numeric_limits<std::int32_t>::max())
      throw KernelError(fmt::format("[{}] {} positions are too many", op_name(step.op),
                                    std::max(shape.columns, shape.depth)));
  }
  std::int64_t results() const {
    return shape.rows * shape.columns * static_cast<std::int64_t>(shape.products);
  }
};

// How a group's product is computed.
enum class Way { tiles, by_thread, by_block };

std::string source_text(DType dtype, const Problem& problem, Way way, const GemmTile& tile) {
  const std::string_view type = storage_type(dtype), sum = compute_type(dtype);
  const bool split = problem.shape.splits > 1;
  std::string text = fmt::format(
      "#include \"conv.h\"\n"
      "KERNEL void __launch_bounds__({}) convolution(const {}* pair, const {}* read, GemmShape shape, "
      "ConvPair pair_shape,\n"
      "    ConvPatches patches, ConvPlanes planes, {}* out) {{\n"
      "  const auto source_a = [&](u64 group, i64 end) {{\n"
      "    return conv::Pair<{}>{{pair + group * pair_shape.group, pair_shape, shape.rows, end}};\n  }};\n"
      "  const auto source_b = [&](u64 group, i64 end) {{\n"
      "    return conv::Patches<{}, {}>{{read + group * patches.group, patches, shape.columns, end}};\n  "
      "}};\n",
      way == Way::tiles ? tile.threads : 256, type, type, split ? sum : type, type, type, problem.pixel_rows);
  std::string finish = problem.pixel_rows
                           ? fmt::format("conv::Planes<{}>{{out, planes}}", type)
                           : fmt::format("conv::Dense<{}>{{out, shape.rows, shape.columns}}", type);
  if (split) finish = fmt::format("gemm::Partial<{}>{{out, shape.rows, shape.columns, shape.products}}", sum);
  if (way == Way::tiles)
    // Neighbours in memory are neighbouring taps of the weights, and neighbouring pixels.
    text += fmt::format("  gemm::multiply<{}, {}, {}>(shape, source_a, source_b, {});\n}}\n", tile.by_element,
                        gemm_fetch(tile, dtype, true, 1), gemm_fetch(tile, dtype, !problem.pixel_rows, 1),
                        finish);
  else
    text += fmt::format("  conv::{}<{}>(shape, source_a, source_b, {});\n}}\n",
                        way == Way::by_thread ? "by_thread" : "by_block", sum, finish);
  return text;
}

std::string combine_text(DType dtype, const Problem& problem) {
  const std::string_view type = storage_type(dtype), sum = compute_type(dtype);
  return fmt::format(
      "#include \"conv.h\"\n"
      "KERNEL void combine(const {}* sums, GemmShape shape, ConvPlanes planes, {}* out) {{\n"
      "  gemm::combine(shape, sums, {});\n}}\n",
      sum, type,
      problem.pixel_rows ? fmt::format("conv::Planes<{}>{{out, planes}}", type)
                         : fmt::format("conv::Dense<{}>{{out, shape.rows, shape.columns}}", type));
}

class ConvolutionKernel final : public Kernel {
 public:
  ConvolutionKernel(GpuDevice& device, const Step& step)
      : device_(device), problem_(step), dtype_(step.outputs[0].dtype) {
    GemmShape& shape = problem_.shape;
    constexpr std::int64_t few = 8, long_sum = 1024;
    if (std::min(shape.rows, shape.columns) < few)
      way_ = shape.depth >= long_sum ? Way::by_block : Way::by_thread;
    if (way_ == Way::tiles) choose_tiles();
    if (problem_.results() == 0) return;
    function_ =
        device.function({"convolution", source_text(dtype_, problem_, way_, tile_), {}}, "convolution");
    if (shape.splits > 1)
      combine_ = device.function({"convolution_combine", combine_text(dtype_, problem_), {}, 16}, "combine");
  }

  std::size_t scratch_bytes() const override {
    if (problem_.shape.splits == 1) return 0;
    return problem_.shape.splits * static_cast<std::size_t>(problem_.results()) * sum_bytes();
  }

  void run(const KernelArguments& arguments) const override {
    if (problem_.results() == 0) return;
    const GemmShape& shape = problem_.shape;
    const bool split = shape.splits > 1;
    constexpr unsigned threads = 256;
    LaunchShape launch{.threads = threads};
    const auto results = static_cast<std::uint64_t>(problem_.results());
    if (way_ == Way::tiles)
      launch = {.x = static_cast<unsigned>(jobs()), .threads = static_cast<unsigned>(tile_.threads)};
    else
      launch.x = device_.grid_for(results, way_ == Way::by_block ? 1 : threads);
    device_.launch(function_, launch, arguments.inputs[problem_.pair_input],
                   arguments.inputs[problem_.patches_input], shape, problem_.pair, problem_.patches,
                   problem_.planes, split ? arguments.scratch : arguments.outputs[0]);
    if (split)
      device_.launch(combine_,
                     {.x = device_.grid_for(results, combined_by_block),
                      .threads = combining_threads(shape.columns, sum_bytes())},
                     arguments.scratch, shape, problem_.planes, arguments.outputs[0]);
  }

 private:
  std::size_t sum_bytes() const { return dtype_ == DType::f64 ? 8 : 4; }
  std::uint64_t jobs() const {
    const GemmShape& shape = problem_.shape;
    return std::min<std::uint64_t>(LaunchShape::most_blocks,
                                   shape.products * shape.splits * shape.row_tiles * shape.column_tiles);
  }

  void choose_tiles() {
    GemmShape& shape = problem_.shape;
    const auto with = [&](bool large) {
      const bool unit = has_matrix_unit(device_.target(), dtype_);
      tile_ = unit ? mma_tile(device_.target(), dtype_, large) : fma_tile(dtype_, large);
      shape.row_tiles = static_cast<unsigned>((shape.rows + tile_.rows - 1) / tile_.rows);
      shape.column_tiles = static_cast<unsigned>((shape.columns + tile_.columns - 1) / tile_.columns);
      return shape.products * shape.row_tiles * shape.column_tiles;
    };
    if (shape.rows <= 64 || with(true) < static_cast<std::uint64_t>(device_.compute_units())) with(false);
    const auto tiles = shape.products * shape.row_tiles * shape.column_tiles;
    const GemmSplit split = split_depth(tile_.depth, tiles, shape.depth, device_.compute_units());
    shape.splits = split.splits;
    shape.split_depth = split.depth;
  }

  GpuDevice& device_;
  Problem problem_;
  DType dtype_;
  Way way_ = Way::tiles;
  GemmTile tile_;
  Function function_, combine_;
};

}  // namespace

std::unique_ptr<Kernel> make_own_convolution(GpuDevice& device, const Step& step) {
  if (!is_floating(step.outputs[0].dtype))
    throw DTypeError(fmt::format("[{}] takes floating-point tensors", op_name(step.op)));
  return std::make_unique<ConvolutionKernel>(device, step);
}

std::unique_ptr<Kernel> make_convolution(GpuDevice& device, const Step& step) {
  return choose_convolution(device, step);
}

}  // namespace hearth::gpu
