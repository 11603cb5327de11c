// Work along one axis: cumsum, cumprod, argsort.
#include <fmt/format.h>

#include <algorithm>

#include "gpu/expression_source.h"
#include "gpu/kernels.h"
#include "gpu/line_sort.h"
#include "gpu/nest.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;

std::size_t axis_of(const Step& step) {
  return static_cast<std::size_t>(std::get<AxisAttributes>(step.attributes).axis);
}

// ---- cumsum, cumprod

// As kernels/scan.h has it.
struct Chunks {
  std::uint64_t lines, length, chunk, per_line;
};

struct ScanVariant {
  bool product;
  DType dtype;
  std::string_view index;
  bool columns, packets, only_totals;
};

KernelSource scan_source(const ScanVariant& variant) {
  const auto type = storage_type(variant.dtype);
  return {"scan",
          fmt::format("#include \"scan.h\"\n"
                      "KERNEL void __launch_bounds__({0}) scan(const {1}* x, Running<{1}>::Out* out,\n"
                      "    Running<{1}>::Type* totals, Nest<2> nest, i64 x_step, i64 out_step,\n"
                      "    Chunks chunks) {{\n"
                      "  {2}<{3}, {4}{5}, {6}>(x, out, totals, nest, x_step, out_step, chunks);\n}}\n",
                      threads, type, variant.columns ? "scan_columns" : "scan_rows",
                      variant.product ? "Times" : "Plus", variant.index,
                      variant.columns   ? ""
                      : variant.packets ? ", true"
                                        : ", false",
                      variant.only_totals),
          {},
          variant.packets ? std::min<std::size_t>(16, 8 * dtype_size(variant.dtype)) : 0};
}

KernelSource carry_source(bool product, DType dtype) {
  return {"carry_totals",
          fmt::format("#include \"scan.h\"\n"
                      "KERNEL void __launch_bounds__({}) carry_totals(Running<{}>::Type* totals, u64 lines,\n"
                      "                                               u64 per_line) {{\n"
                      "  carry_totals<{}>(totals, lines, per_line);\n}}\n",
                      threads, storage_type(dtype), product ? "Times" : "Plus"),
          {}};
}

class CumulativeKernel final : public Kernel {
 public:
  CumulativeKernel(GpuDevice& device, const Step& step)
      : device_(device),
        dtype_(step.inputs[0].dtype),
        out_dtype_(step.outputs[0].dtype),
        product_(step.op == Op::cumprod),
        loop_(lines_of(step)) {
    if (out_dtype_ != (is_floating(dtype_) ? dtype_ : DType::i64))
      throw DTypeError(fmt::format("[{}] no kernel from {} to {}", op_name(step.op), dtype_name(dtype_),
                                   dtype_name(out_dtype_)));
    items_ = std::min<std::int64_t>(8, 16 / static_cast<std::int64_t>(dtype_size(dtype_)));
    choose_chunks();
    if (chunks_.per_line > 1) carry_ = device.function(carry_source(product_, dtype_), "carry_totals");
  }

  std::size_t scratch_bytes() const override {
    return chunks_.per_line > 1 ? chunks_.lines * chunks_.per_line * 8 : 0;
  }

  void run(const KernelArguments& arguments) const override {
    if (loop_.lines.count() == 0 || loop_.length == 0) return;
    const bool packets = !columns_ && in_packets(arguments);
    if (chunks_.per_line > 1) {
      scan(packets ? packet_totals_ : totals_, packets, true, arguments);
      const auto blocks =
          static_cast<unsigned>(std::min<std::uint64_t>(chunks_.lines, LaunchShape::most_blocks));
      device_.launch(carry_, {.x = blocks, .threads = threads}, arguments.scratch, chunks_.lines,
                     chunks_.per_line);
    }
    scan(packets ? packet_scan_ : scan_, packets, false, arguments);
  }

 private:
  static AxisLoop lines_of(const Step& step) {
    const Layout &input = step.inputs[0], &output = step.outputs[0];
    if (input.shape.empty()) return split_axis({1}, 0, {{0}, {0}});
    return split_axis(input.shape, axis_of(step), {input.strides, output.strides});
  }

  // A thread per line where the lines lie side by side, or are short and many; else a block. Then as many
  // chunks as fill the device.
  void choose_chunks() {
    const std::int64_t lines = loop_.lines.count(), length = std::max<std::int64_t>(1, loop_.length);
    const std::int64_t units = device_.compute_units();
    const bool side_by_side = loop_.length > 1 &&
                              std::abs(loop_.lines.inner_stride(1)) < std::abs(loop_.step[1]) &&
                              loop_.lines.inner_size() >= 16;
    columns_ = side_by_side || (length <= 32 && lines >= units * 64);
    // A chunk is worth its total only if it is long.
    const std::int64_t shortest = columns_ ? 64 : threads * items_ * 2;
    const std::int64_t wanted = columns_ ? units * threads * 4 : units * 8;
    const std::int64_t pieces = std::clamp<std::int64_t>(wanted / std::max<std::int64_t>(1, lines), 1,
                                                         (length + shortest - 1) / shortest);
    std::int64_t chunk = (length + pieces - 1) / pieces;
    if (pieces > 1) chunk = (chunk + shortest - 1) / shortest * shortest;
    chunks_ = {static_cast<std::uint64_t>(lines), static_cast<std::uint64_t>(loop_.length),
               static_cast<std::uint64_t>(chunk), static_cast<std::uint64_t>((length + chunk - 1) / chunk)};
  }

  // Whether every line is dense and begins where a packet may.
  bool in_packets(const KernelArguments& arguments) const {
    if (loop_.step[0] != 1 || loop_.step[1] != 1) return false;
    const std::size_t size = dtype_size(dtype_), bytes = size * static_cast<std::size_t>(items_);
    if (reinterpret_cast<std::uintptr_t>(arguments.inputs[0]) % bytes != 0) return false;
    if (reinterpret_cast<std::uintptr_t>(arguments.outputs[0]) % 16 != 0) return false;
    for (std::size_t k = 0; k < 2; ++k)
      for (std::size_t axis = 0; axis < loop_.lines.shape.size(); ++axis)
        if (loop_.lines.shape[axis] > 1 && loop_.lines.strides[k][axis] % items_ != 0) return false;
    return true;
  }

  void scan(const LazyFunction& lazy, bool packets, bool only_totals,
            const KernelArguments& arguments) const {
    const ScanVariant variant{product_, dtype_,  index_type(loop_.lines.count()),
                              columns_, packets, only_totals};
    const Function& function = lazy.get(
        device_, [&] { return scan_source(variant); }, "scan");
    const std::uint64_t jobs = chunks_.lines * chunks_.per_line;
    LaunchShape shape{.x = device_.grid_for(jobs, threads), .threads = threads};
    if (!columns_) {
      const auto wave = static_cast<std::uint64_t>(device_.wave_size());
      const std::uint64_t needed =
          (chunks_.chunk + static_cast<std::uint64_t>(items_) - 1) / static_cast<std::uint64_t>(items_);
      shape.threads =
          static_cast<unsigned>(std::min<std::uint64_t>(threads, (needed + wave - 1) / wave * wave));
      shape.x = static_cast<unsigned>(std::min<std::uint64_t>(jobs, LaunchShape::most_blocks));
    }
    device_.launch(function, shape, arguments.inputs[0], arguments.outputs[0], arguments.scratch,
                   Nest<2>(loop_.lines), loop_.step[0], loop_.step[1], chunks_);
  }

  GpuDevice& device_;
  DType dtype_, out_dtype_;
  bool product_, columns_ = false;
  AxisLoop loop_;  // x, out
  std::int64_t items_;
  Chunks chunks_{};
  Function carry_;
  LazyFunction scan_, packet_scan_, totals_, packet_totals_;
};

// ---- argsort

// The axis last, so that elements are numbered by line.
StridedLoop axis_last(Shape shape, Strides strides, std::size_t axis) {
  if (shape.empty()) return collapse({1}, {{0}});
  const auto size = shape[axis], stride = strides[axis];
  shape.erase(axis);
  strides.erase(axis);
  shape.push_back(size);
  strides.push_back(stride);
  return collapse(shape, {strides});
}

class ArgsortKernel final : public Kernel {
 public:
  ArgsortKernel(GpuDevice& device, const Step& step)
      : values_(axis_last(step.inputs[0].shape, step.inputs[0].strides, axis_of(step))),
        positions_(axis_last(step.outputs[0].shape, step.outputs[0].strides, axis_of(step))),
        length_(step.inputs[0].shape.empty() ? 1 : step.inputs[0].shape[axis_of(step)]),
        wide_(dtype_size(step.inputs[0].dtype) == 8 || length_ >= 0xffffffff),
        sort_(
            device, "sort.h",
            fmt::format("ValueKeys<{}, {}>", index_type(values_.count()), storage_type(step.inputs[0].dtype)),
            wide_, length_ == 0 ? 0 : values_.count() / length_, length_,
            step.outputs[0].shape.empty() ? 1 : step.outputs[0].shape[axis_of(step)], true,
            index_type(values_.count())) {
    if (std::get<AxisAttributes>(step.attributes).descending)
      flip_ = dtype_size(step.inputs[0].dtype) == 8 ? ~0ull : 0xffffffffull;
  }

  std::size_t scratch_bytes() const override { return sort_.scratch_bytes(); }

  void run(const KernelArguments& arguments) const override {
    if (positions_.count() == 0) return;
    sort_.to_positions(
        ValueKeys{arguments.inputs[0], Nest<1>(values_), static_cast<std::uint64_t>(length_), flip_},
        PositionSink{arguments.outputs[0], Nest<1>(positions_)}, arguments.scratch);
  }

 private:
  StridedLoop values_, positions_;
  std::int64_t length_;
  bool wide_;  // keys or positions of more than 32 bits
  std::uint64_t flip_ = 0;
  LineSort sort_;
};

}  // namespace

std::unique_ptr<Kernel> make_scan(GpuDevice& device, const Step& step) {
  switch (step.op) {
    case Op::cumsum:
    case Op::cumprod:
      return std::make_unique<CumulativeKernel>(device, step);
    case Op::argsort:
      return std::make_unique<ArgsortKernel>(device, step);
    default:
      throw DTypeError(fmt::format("[{}] is not a scan", op_name(step.op)));
  }
}

}  // namespace hearth::gpu
