// Elementwise steps: one generated kernel per expression.
#include <fmt/format.h>

#include <algorithm>

#include "device/strided.h"
#include "gpu/expression_kernel.h"
#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;

// How the elements are walked.
enum class Walk {
  linear,      // every input runs through memory as the output does, or is a single element: in packets
  rows,        // the same along the innermost axis: in packets, whose places follow from their numbers
  transposed,  // an input lies along another axis: tiles go through shared memory
  strided,     // each element finds its place from its number
};

class ElementwiseKernel final : public Kernel {
 public:
  ElementwiseKernel(GpuDevice& device, const Step& step)
      : device_(device), code_(step), loop_(merged(step)), count_(element_count(step.domain)) {
    if (loop_.shape.size() > most_axes)
      throw KernelError(fmt::format("[elementwise] {} axes that cannot be merged, at most {} are supported",
                                    loop_.shape.size(), most_axes));
    packet_ = packet_length();
    walk_ = choose_walk();
  }

  void run(const KernelArguments& arguments) const override {
    if (count_ == 0) return;
    const bool packets = in_packets() && packet_ > 1 && all_aligned(arguments);
    const int packet = packets ? packet_ : 1;
    const Walk walk = walk_ == Walk::rows && !packets ? Walk::strided : walk_;
    const auto make_source = [&] {
      return KernelSource{"elementwise", source(walk, packet), {}, packets ? packet_bytes() : 0};
    };
    const Function& function = (packets ? in_packets_ : by_element_).get(device_, make_source, "elementwise");
    Arguments values;
    const std::vector<Constant> constants = code_.constants(arguments.numbers);
    code_.add_to(values, arguments, constants);
    const std::uint64_t count = static_cast<std::uint64_t>(count_);
    values.add(count);
    if (walk != Walk::linear) {
      for (const auto& size : loop_.shape) values.add(size);
      for (const Strides& operand : loop_.strides)
        for (const auto& stride : operand) values.add(stride);
    }
    device_.launch(function, {.x = blocks(walk, packet), .threads = threads}, values);
  }

 private:
  static constexpr std::int64_t tile = 64;  // elements in each direction of a transposed tile

  static StridedLoop merged(const Step& step) {
    std::vector<Strides> strides;
    for (const Layout& input : step.inputs) strides.push_back(input.strides);
    strides.push_back(contiguous_strides(step.domain));
    return collapse(step.domain, strides);
  }

  std::size_t axes() const { return loop_.shape.size(); }
  std::size_t inner() const { return axes() - 1; }
  std::size_t output_operand() const { return code_.inputs().size(); }
  std::int64_t inner_stride(std::size_t input) const { return loop_.strides[input][inner()]; }
  bool single(std::size_t input) const { return inner_stride(input) == 0; }
  bool in_packets() const { return walk_ == Walk::linear || walk_ == Walk::rows; }

  Walk choose_walk() {
    bool runs = true;  // along the innermost axis
    for (std::size_t i = 0; i < code_.inputs().size(); ++i)
      runs = runs && (single(i) || inner_stride(i) == 1);
    if (runs && axes() == 1) return Walk::linear;
    if (runs && packets_divide()) return Walk::rows;
    // The axis along which inputs lie that do not lie along the innermost one.
    constexpr std::int64_t worth_it = 16, most_shared = 40 << 10;
    if (axes() < 2 || loop_.shape[inner()] < worth_it) return Walk::strided;
    for (std::size_t axis = 0; axis < inner(); ++axis) {
      if (loop_.shape[axis] < worth_it) continue;
      std::int64_t shared = 0;
      for (std::size_t i = 0; i < code_.inputs().size(); ++i)
        if (lies_along(i, axis))
          shared += tile * (tile + 4) * static_cast<std::int64_t>(dtype_size(code_.inputs()[i]));
      if (shared == 0 || shared > most_shared) continue;
      across_ = axis;
      return Walk::transposed;
    }
    return Walk::strided;
  }

  bool lies_along(std::size_t input, std::size_t axis) const {
    return loop_.strides[input][axis] == 1 && !single(input) && inner_stride(input) != 1;
  }

  // Whether the innermost axis and every step between its runs is a whole number of packets.
  bool packets_divide() const {
    if (packet_ == 1 || loop_.shape[inner()] % packet_ != 0) return false;
    for (std::size_t i = 0; i < code_.inputs().size(); ++i)
      for (std::size_t axis = 0; axis < inner(); ++axis)
        if (!single(i) && loop_.strides[i][axis] % packet_ != 0) return false;
    return true;
  }

  // Bytes of the widest input that is not a single element.
  std::size_t widest_input() const {
    std::size_t widest = 0;
    for (std::size_t i = 0; i < code_.inputs().size(); ++i)
      if (!single(i)) widest = std::max(widest, dtype_size(code_.inputs()[i]));
    return widest;
  }
  std::size_t packet_bytes() const { return widest_input() * static_cast<std::size_t>(packet_); }

  // Elements of the widest type that make 16 bytes; at most eight, to keep registers few.
  int packet_length() const {
    std::size_t widest = std::max<std::size_t>(1, widest_input());
    for (const DType output : code_.outputs()) widest = std::max(widest, dtype_size(output));
    return static_cast<int>(std::min<std::size_t>(8, 16 / widest));
  }

  bool all_aligned(const KernelArguments& arguments) const {
    for (std::size_t i = 0; i < code_.inputs().size(); ++i)
      if (!single(i) && !aligned(arguments.inputs[i], code_.inputs()[i], packet_)) return false;
    for (std::size_t k = 0; k < code_.outputs().size(); ++k)
      if (!aligned(arguments.outputs[k], code_.outputs()[k], packet_)) return false;
    return true;
  }

  unsigned blocks(Walk walk, int packet) const {
    const auto count = static_cast<std::uint64_t>(count_);
    if (walk != Walk::transposed)
      return device_.grid_for((count + static_cast<unsigned>(packet) - 1) / static_cast<unsigned>(packet),
                              threads);
    const auto tiles = [](std::int64_t size) { return (size + tile - 1) / tile; };
    const std::int64_t outer = count_ / loop_.shape[across_] / loop_.shape[inner()];
    return device_.grid_for(
        static_cast<std::uint64_t>(tiles(loop_.shape[across_]) * tiles(loop_.shape[inner()]) * outer), 1);
  }

  std::string source(Walk walk, int packet) const {
    std::string text = "#include \"math.h\"\n" + operation_functions(code_.expression()) +
                       "KERNEL_OF(256) void elementwise(" + code_.parameters() + "u64 count";
    if (walk != Walk::linear) {
      text += size_parameters("x", axes());
      text += stride_parameters("x", axes(), code_.inputs().size() + 1);
    }
    text += fmt::format(") {{\n  after_previous();\n  using Index = {};\n", index_type(count_));
    switch (walk) {
      case Walk::linear:
        text += packet > 1 ? linear_packets(packet) : linear_elements();
        break;
      case Walk::rows:
        text += row_packets(packet);
        break;
      case Walk::transposed:
        text += transposed_tiles();
        break;
      case Walk::strided:
        text += strided_elements();
        break;
    }
    return text + "}\n";
  }

  // One packet: `place(i)` is the number of input i's packet, or of its element where it is a single one;
  // `to` that of the outputs' packet.
  template <class PlaceOf>
  std::string one_packet(int packet, const PlaceOf& place, std::string_view to) const {
    const auto &inputs = code_.inputs(), &outputs = code_.outputs();
    std::string text;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      text += single(i) ? fmt::format("    const auto q{0} = in{0}[{1}];\n", i, place(i))
                        : fmt::format(
                              "    const auto q{0} = read_whole(reinterpret_cast<const Packet<{1}, "
                              "{2}>*>(in{0})[{3}]);\n",
                              i, storage_type(inputs[i]), packet, place(i));
    for (std::size_t k = 0; k < outputs.size(); ++k)
      text += fmt::format("    Packet<{}, {}> r{};\n", storage_type(outputs[k]), packet, k);
    text += fmt::format("#pragma unroll\n    for (int e = 0; e < {}; ++e) {{\n", packet);
    text += code_.loads("      ", [&](std::size_t i) {
      return single(i) ? fmt::format("q{}", i) : fmt::format("q{}.element[e]", i);
    });
    text += expression_body(code_.expression(), "      ");
    text += code_.stores("      ", [](std::size_t k) { return fmt::format("r{}.element[e]", k); });
    text += "    }\n";
    for (std::size_t k = 0; k < outputs.size(); ++k)
      text += fmt::format("    reinterpret_cast<Packet<{0}, {1}>*>(out{2})[{3}] = r{2};\n",
                          storage_type(outputs[k]), packet, k, to);
    return text;
  }

  std::string linear_packets(int packet) const {
    std::string text = fmt::format("  const u64 packets = count / {};\n", packet);
    text += "  for (u64 p = global_thread(); p < packets; p += global_threads()) {\n";
    text += one_packet(
        packet, [&](std::size_t i) { return single(i) ? "0" : "p"; }, "p");
    text += "  }\n";
    // What is left over is less than a packet.
    text += fmt::format("  const u64 i = packets * {} + global_thread();\n  if (i < count) {{\n", packet);
    return text + one_linear_element() + "  }\n";
  }

  std::string linear_elements() const {
    return "  for (u64 i = global_thread(); i < count; i += global_threads()) {\n" + one_linear_element() +
           "  }\n";
  }

  std::string one_linear_element() const {
    std::string text = code_.loads("    ", [&](std::size_t i) {
      return single(i) ? fmt::format("in{}[0]", i) : fmt::format("in{}[i]", i);
    });
    text += expression_body(code_.expression(), "    ");
    return text + code_.stores("    ", [](std::size_t k) { return fmt::format("out{}[i]", k); });
  }

  std::string row_packets(int packet) const {
    // The innermost size becomes a number of packets.
    std::string text =
        fmt::format("  nx{} /= {};\n  const Index packets = (Index)(count / {});\n", inner(), packet, packet);
    text += "  for (Index p = (Index)global_thread(); p < packets; p += (Index)global_threads()) {\n";
    text += index_statements("    ", "p", "x", axes());
    const auto place = [&](std::size_t i) {
      std::string outer = inner() == 0 ? "0" : place_text(i, "x", inner());
      return single(i) ? outer : fmt::format("({}) / {} + x{}", outer, packet, inner());
    };
    return text + one_packet(packet, place, "p") + "  }\n";
  }

  std::string strided_elements() const {
    std::string text =
        "  for (Index i = (Index)global_thread(); i < (Index)count; i += (Index)global_threads()) {\n";
    text += index_statements("    ", "i", "x", axes());
    text += code_.loads(
        "    ", [&](std::size_t i) { return fmt::format("in{}[{}]", i, place_text(i, "x", axes())); });
    text += expression_body(code_.expression(), "    ");
    text += code_.stores("    ", [](std::size_t k) { return fmt::format("out{}[i]", k); });
    return text + "  }\n";
  }

  // Tiles of `across_` by the innermost axis. Inputs that lie along `across_` are read along it and turned in
  // shared memory.
  std::string transposed_tiles() const {
    const auto& inputs = code_.inputs();
    std::string text;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (lies_along(i, across_))
        text += fmt::format(
            "  __shared__ {0} tile{1}[{2}][{2} + {3}];  // padded: no two rows in the same bank\n",
            storage_type(inputs[i]), i, tile, std::max<std::size_t>(1, 4 / dtype_size(inputs[i])));
    text += fmt::format(
        "  const Index side = {0};\n"
        "  const Index tiles_across = ((Index)nx{1} + side - 1) / side, tiles_along = ((Index)nx{2} + side - "
        "1) / side;\n"
        "  const Index tiles = (Index)(count / (u64)nx{1} / (u64)nx{2}) * tiles_across * tiles_along;\n"
        "  const Index lane_in_tile = threadIdx.x % side;\n"
        "  for (Index t = blockIdx.x; t < tiles; t += gridDim.x) {{\n"
        "    const Index first_along = t % tiles_along * side, above = t / tiles_along;\n"
        "    const Index first_across = above % tiles_across * side;\n    Index rest = above / "
        "tiles_across;\n",
        tile, across_, inner());
    // The other axes, innermost first.
    for (std::size_t axis = inner(); axis-- > 0;)
      if (axis != across_)
        text += fmt::format("    const Index x{0} = rest % (Index)nx{0};\n    rest /= (Index)nx{0};\n", axis);
    const auto loop = [&](std::string_view moving, std::string_view lanes) {
      return fmt::format(
          "#pragma unroll 8\n"
          "    for (Index r = threadIdx.x / side; r < side; r += {6} / side) {{\n"
          "      const Index x{0} = first_{2} + {1}, x{3} = first_{5} + {4};\n"
          "      if (x{0} >= (Index)nx{0} || x{3} >= (Index)nx{3}) continue;\n",
          across_, moving, "across", inner(), lanes, "along", threads);
    };
    text += loop("lane_in_tile", "r");
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (lies_along(i, across_))
        text += fmt::format("      tile{0}[lane_in_tile][r] = in{0}[{1}];\n", i, place_text(i, "x", axes()));
    text += "    }\n    barrier();\n" + loop("r", "lane_in_tile");
    text += code_.loads("      ", [&](std::size_t i) {
      return lies_along(i, across_) ? fmt::format("tile{}[r][lane_in_tile]", i)
                                    : fmt::format("in{}[{}]", i, place_text(i, "x", axes()));
    });
    text += expression_body(code_.expression(), "      ");
    text += fmt::format("      const i64 to = {};\n", place_text(output_operand(), "x", axes()));
    text += code_.stores("      ", [](std::size_t k) { return fmt::format("out{}[to]", k); });
    return text + "    }\n    barrier();\n  }\n";
  }

  GpuDevice& device_;
  ExpressionCode code_;
  StridedLoop loop_;  // operands: the inputs, then the outputs
  std::int64_t count_;
  int packet_ = 1;
  Walk walk_ = Walk::strided;
  std::size_t across_ = 0;  // of a transposed walk
  LazyFunction in_packets_, by_element_;
};

}  // namespace

std::unique_ptr<Kernel> make_copy(GpuDevice& device, const Layout& x) {
  Step copy;
  copy.op = Op::copy;
  copy.domain = x.shape;
  copy.inputs = {x};
  copy.outputs = {{x.dtype, x.shape, contiguous_strides(x.shape)}};
  copy.expression.inputs = {x.dtype};
  copy.expression.outputs = {0};
  return make_elementwise(device, copy);
}

std::unique_ptr<Kernel> make_elementwise(GpuDevice& device, const Step& step) {
  return std::make_unique<ElementwiseKernel>(device, step);
}

}  // namespace hearth::gpu
