// Places given by data: take, index_add, gather, scatter, scatter_add.
#include <fmt/format.h>

#include "gpu/expression_source.h"
#include "gpu/kernel_arguments.h"
#include "gpu/kernels.h"
#include "gpu/line_sort.h"
#include "gpu/nest.h"
#include "hearth/error.h"

namespace hearth::gpu {
namespace {

constexpr unsigned threads = 256;

// As kernels/indexing.h has it.
struct IndexKeys {
  const void* indices;
  Nest<1> places;
  std::uint64_t length;
  std::int64_t size;
  Fault fault;
};

std::size_t axis_of(const Step& step) {
  return static_cast<std::size_t>(std::get<AxisAttributes>(step.attributes).axis);
}

void check_indices(const Step& step, const Layout& indices) {
  if (!is_integral(indices.dtype) || indices.dtype == DType::bool_)
    throw DTypeError(fmt::format("[{}] indices are {}; an integer dtype is needed", op_name(step.op),
                                 dtype_name(indices.dtype)));
}

Fault fault_of(const GpuDevice& device, Op op) { return {device.fault(), static_cast<std::uint64_t>(op)}; }

LaunchShape grid(const GpuDevice& device, std::uint64_t count, unsigned per_thread = 1) {
  return {.x = device.grid_for(count, threads * per_thread), .threads = threads};
}

Strides with_axis(Strides strides, std::size_t axis, std::int64_t stride) {
  strides[axis] = stride;
  return strides;
}

// ---- take, gather

KernelSource gather_source(std::int64_t unit, DType indices, std::string_view index) {
  return {"gather_units",
          fmt::format("#include \"indexing.h\"\n"
                      "KERNEL void gather_units(const {0}* x, const {1}* indices, {0}* out, Nest<2> nest,\n"
                      "                         i64 axis_stride, i64 size, u64 count, Fault fault) {{\n"
                      "  after_previous();\n"
                      "  gather_units<{2}>(x, indices, out, nest, axis_stride, size, count, fault);\n}}\n",
                      unit_type(unit), storage_type(indices), index),
          {},
          static_cast<std::size_t>(unit)};
}

class GatherKernel final : public Kernel {
 public:
  GatherKernel(GpuDevice& device, const Step& step)
      : device_(device),
        op_(step.op),
        indices_(step.inputs[1].dtype),
        element_(dtype_size(step.outputs[0].dtype)) {
    check_indices(step, step.inputs[1]);
    const Layout &x = step.inputs[0], &indices = step.inputs[1];
    const std::size_t axis = axis_of(step);
    axis_stride_ = x.strides[axis];
    size_ = x.shape[axis];
    Strides of_x = with_axis(x.strides, axis, 0), of_indices = indices.strides;
    if (step.op == Op::take) {  // the axes of the indices stand where the axis was
      of_x.erase(axis);
      of_indices = Strides(step.outputs[0].shape.size(), 0);
      for (std::size_t k = 0; k < indices.strides.size(); ++k) {
        of_x.insert(axis, 0);
        of_indices[axis + k] = indices.strides[k];
      }
    }
    loop_ = collapse(step.outputs[0].shape, {of_x, of_indices});
    unit_ = std::gcd(unit_bytes(loop_, 1, element_), axis_stride_ * static_cast<std::int64_t>(element_));
  }

  void run(const KernelArguments& arguments) const override {
    if (loop_.count() == 0) return;
    const std::int64_t bytes = aligned_unit(aligned_unit(unit_, arguments.inputs[0]), arguments.outputs[0]);
    const std::int64_t unit = bytes / static_cast<std::int64_t>(element_);
    const auto count = static_cast<std::uint64_t>(loop_.count() / unit);
    const Function& function = functions_.get(
        device_, bytes, [&] { return gather_source(bytes, indices_, index_type(loop_.count())); },
        "gather_units");
    device_.launch(function, grid(device_, count, 4), arguments.inputs[0], arguments.inputs[1],
                   arguments.outputs[0], Nest<2>(loop_, unit, 1), axis_stride_ / unit, size_, count,
                   fault_of(device_, op_));
  }

 private:
  GpuDevice& device_;
  Op op_;
  DType indices_;
  std::size_t element_;
  StridedLoop loop_;  // over the output: x, indices
  std::int64_t axis_stride_ = 0, size_ = 0, unit_ = 1;
  UnitFunctions functions_;
};

// ---- scatter

// Three kernels, which take the type of elements, of indices, of winners, and of numbers of elements.
KernelSource scatter_source(std::size_t element, DType indices, std::string_view count,
                            std::string_view index) {
  return {"scatter",
          fmt::format(
              "#include \"indexing.h\"\n"
              "KERNEL void no_winners({2}* winners, u64 count) {{ no_winners<{2}>(winners, count); }}\n"
              "KERNEL void find_winners(const {1}* indices, {2}* winners, Nest<3> nest, i64 axis_stride,\n"
              "                         i64 size, u64 count, Fault fault) {{\n"
              "  find_winners<{3}, {2}>(indices, winners, nest, axis_stride, size, count, fault);\n}}\n"
              "KERNEL void take_winners(const {0}* x, const {0}* source, const {2}* winners, {0}* out,\n"
              "                         Nest<2> nest, i64 source_stride, u64 count) {{\n"
              "  take_winners<{3}, {2}>(x, source, winners, out, nest, source_stride, count);\n}}\n",
              unit_type(static_cast<std::int64_t>(element)), storage_type(indices), count, index),
          {}};
}

class ScatterKernel final : public Kernel {
 public:
  ScatterKernel(GpuDevice& device, const Step& step) : device_(device) {
    const Layout &x = step.inputs[0], &indices = step.inputs[1], &source = step.inputs[2];
    const Layout& output = step.outputs[0];
    check_indices(step, indices);
    const std::size_t axis = axis_of(step), ndim = output.shape.size();
    size_ = output.shape[axis];
    axis_stride_ = output.strides[axis];
    source_stride_ = source.strides[axis];
    over_indices_ = collapse(indices.shape, {indices.strides, with_axis(output.strides, axis, 0),
                                             with_axis(Strides(ndim, 0), axis, 1)});
    over_output_ = collapse(output.shape, {x.strides, with_axis(source.strides, axis, 0)});
    const bool narrow = indices.shape[axis] < 0xffffffff;
    winner_bytes_ = narrow ? 4 : 8;
    const KernelSource text =
        scatter_source(dtype_size(output.dtype), indices.dtype, narrow ? "u32" : "u64",
                       index_type(std::max(over_indices_.count(), over_output_.count())));
    clear_ = device.function(text, "no_winners");
    find_ = device.function(text, "find_winners");
    take_ = device.function(text, "take_winners");
  }

  std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(over_output_.count()) * winner_bytes_;
  }

  void run(const KernelArguments& arguments) const override {
    const auto count = static_cast<std::uint64_t>(over_output_.count()),
               indices = static_cast<std::uint64_t>(over_indices_.count());
    void* const winners = arguments.scratch;
    if (count > 0) device_.launch(clear_, grid(device_, count), winners, count);
    if (indices > 0)
      device_.launch(find_, grid(device_, indices), arguments.inputs[1], winners, Nest<3>(over_indices_),
                     axis_stride_, size_, indices, fault_of(device_, Op::scatter));
    if (count > 0)
      device_.launch(take_, grid(device_, count), arguments.inputs[0], arguments.inputs[2], winners,
                     arguments.outputs[0], Nest<2>(over_output_), source_stride_, count);
  }

 private:
  GpuDevice& device_;
  StridedLoop over_indices_;  // indices, output, position along the axis
  StridedLoop over_output_;   // x, source
  std::int64_t size_, axis_stride_, source_stride_;
  std::size_t winner_bytes_;
  Function clear_, find_, take_;
};

// ---- index_add, scatter_add

KernelSource starts_source(std::string_view pair) {
  return {"find_starts",
          fmt::format("#include \"indexing.h\"\n"
                      "KERNEL void find_starts(const {0}* sorted, u64 line_pairs, u64 length,\n"
                      "                        {0}::Position* starts, u64 size, u64 lines) {{\n"
                      "  find_starts<{0}>(sorted, line_pairs, length, starts, size, lines);\n}}\n",
                      pair),
          {}};
}

// As in kernels/indexing.h.
constexpr std::int64_t index_chunk = 64;

KernelSource sums_source(DType dtype, std::int64_t unit, bool with_x, bool chunked, std::string_view pair,
                         std::string_view index) {
  return {"add_sorted",
          fmt::format(
              "#include \"indexing.h\"\n"
              "using Elements = Packet<{0}, {1}>;\nusing Sums = Packet<Sum<{0}>::Type, {1}>;\n"
              "KERNEL void add_sorted(const Elements* x, const Elements* source, Elements* out,\n"
              "                       const {3}* sorted, const {3}::Position* starts, Nest<5> nest,\n"
              "                       Nest<1> along, u64 count, const Sums* sums, u64 width) {{\n"
              "  add_sorted<{4}, {2}>(x, source, out, sorted, starts, nest, along, count, {5});\n}}\n",
              storage_type(dtype), unit, with_x, pair, index,
              chunked ? fmt::format("ChunkSums<Sum<{}>::Type, {}>{{sums, width}}", storage_type(dtype), unit)
                      : "NoChunkSums{}"),
          {},
          static_cast<std::size_t>(unit) * dtype_size(dtype)};
}

KernelSource chunks_source(DType dtype, std::int64_t unit, std::string_view pair, std::string_view index) {
  return {"sum_chunks",
          fmt::format("#include \"indexing.h\"\n"
                      "KERNEL void sum_chunks(const Packet<{0}, {1}>* source, Packet<Sum<{0}>::Type, {1}>* "
                      "sums,\n"
                      "                       const {2}* sorted, Nest<1> along, u64 chunks, u64 width) {{\n"
                      "  sum_chunks<{3}>(source, sums, sorted, along, chunks, width);\n}}\n",
                      storage_type(dtype), unit, pair, index),
          {},
          static_cast<std::size_t>(unit) * dtype_size(dtype)};
}

// What the two operations have in common: lines of indices, and for each line and destination a sum.
struct AddLoops {
  Shape index_shape;  // lines, then the axis
  Strides index_strides;
  std::int64_t lines, length, size;
  StridedLoop over_output;  // output, x, source, line of sorted pairs, start
  StridedLoop along;        // over positions: source
  bool with_x;
};

class AddKernel final : public Kernel {
 public:
  // `loops`: makes AddLoops for the distance of two lines of sorted pairs.
  template <class MakeLoops>
  AddKernel(GpuDevice& device, const Step& step, const Layout& indices, const MakeLoops& make_loops)
      : device_(device),
        op_(step.op),
        dtype_(step.outputs[0].dtype),
        element_(dtype_size(dtype_)),
        wide_(is_wide(make_loops(0))),
        loops_(make_loops(0)),
        keys_(collapse(loops_.index_shape, {loops_.index_strides})),
        index_(index_type(std::max(keys_.count(), loops_.over_output.count()))),
        sort_(device, "indexing.h", fmt::format("IndexKeys<{}, {}>", index_, storage_type(indices.dtype)),
              wide_, loops_.lines, loops_.length, loops_.length, false, index_) {
    check_indices(step, indices);
    loops_ = make_loops(static_cast<std::int64_t>(sort_.line_pairs()));
    starts_ = device.function(starts_source(pair()), "find_starts");
    unit_ = unit_bytes(loops_.over_output, 3, element_);
    for (const std::int64_t stride : loops_.along.strides[0])
      unit_ = std::gcd(unit_, stride * static_cast<std::int64_t>(element_));
    if (!loops_.with_x) return;
    // Lines that no index lies on keep what x has there.
    const Layout &x = step.inputs[0], &output = step.outputs[0];
    if (loops_.over_output.count() == element_count(output.shape)) return;
    rest_ = collapse(x.shape, {x.strides, output.strides});
    copy_ = device.function(copy_source(static_cast<std::int64_t>(element_), index_type(rest_.count())),
                            "copy_units");
  }

  std::size_t scratch_bytes() const override {
    constexpr std::size_t widest_sum = 8;
    return chunks_offset() + static_cast<std::size_t>(chunks() * width()) * widest_sum;
  }

  void run(const KernelArguments& arguments) const override {
    if (!rest_.shape.empty() && rest_.count() > 0) {
      const auto count = static_cast<std::uint64_t>(rest_.count());
      device_.launch(copy_, grid(device_, count, 4), arguments.inputs[0], arguments.outputs[0],
                     Nest<2>(rest_), count);
    }
    const bool with_x = loops_.with_x;
    if (loops_.lines == 0 || (loops_.over_output.count() == 0 && keys_.count() == 0)) return;
    const void* indices = arguments.inputs[with_x ? 1 : 0];
    const void* source = arguments.inputs[with_x ? 2 : 1];
    const void* x = with_x ? arguments.inputs[0] : nullptr;
    const auto length = static_cast<std::uint64_t>(loops_.length);
    const void* sorted = arguments.scratch;
    if (length > 0)
      sorted = sort_.to_pairs(IndexKeys{indices, Nest<1>(keys_), length, loops_.size, fault_of(device_, op_)},
                              arguments.scratch);
    if (loops_.over_output.count() == 0) return;
    void* starts = static_cast<char*>(arguments.scratch) + start_offset();
    const auto lines = static_cast<std::uint64_t>(loops_.lines),
               size = static_cast<std::uint64_t>(loops_.size);
    device_.launch(starts_, grid(device_, lines * (size + 1)), sorted, sort_.line_pairs(), length, starts,
                   size, lines);
    std::int64_t bytes = aligned_unit(aligned_unit(unit_, source), arguments.outputs[0]);
    if (with_x) bytes = aligned_unit(bytes, x);
    const std::int64_t unit = bytes / static_cast<std::int64_t>(element_);
    const auto count = static_cast<std::uint64_t>(loops_.over_output.count() / unit);
    const Function& sums = sums_.get(
        device_, bytes, [&] { return sums_source(dtype_, unit, with_x, chunks() > 0, pair(), index_); },
        "add_sorted");
    StridedLoop along = loops_.along;
    for (std::int64_t& stride : along.strides[0]) stride /= unit;
    void* const of_chunks = static_cast<char*>(arguments.scratch) + chunks_offset();
    const auto chunk_count = static_cast<std::uint64_t>(chunks()),
               row = static_cast<std::uint64_t>(std::max<std::int64_t>(1, width() / unit));
    if (chunk_count > 0)
      device_.launch(
          chunk_sums_.get(
              device_, bytes, [&] { return chunks_source(dtype_, unit, pair(), index_); }, "sum_chunks"),
          grid(device_, chunk_count * row), source, of_chunks, sorted, Nest<1>(along), chunk_count, row);
    device_.launch(sums, grid(device_, count), x, source, arguments.outputs[0], sorted, starts,
                   Nest<5>(loops_.over_output, unit, 3), Nest<1>(along), count, of_chunks, row);
  }

 private:
  static bool is_wide(const AddLoops& loops) {
    return loops.length >= 0xffffffff || loops.size >= 0xffffffff;
  }
  std::string_view pair() const { return wide_ ? "WidePair" : "PackedPair"; }
  std::size_t start_offset() const { return (sort_.scratch_bytes() + 63) / 64 * 64; }
  std::size_t chunks_offset() const {
    const auto starts = static_cast<std::size_t>(loops_.lines * (loops_.size + 1)) * (wide_ ? 8 : 4);
    return (start_offset() + starts + 63) / 64 * 64;
  }
  // Rows that are added to rows, enough of them that some may be meant for one: their sums are made in
  // chunks.
  std::int64_t chunks() const {
    constexpr std::int64_t worthwhile = 64;
    const StridedLoop& loop = loops_.over_output;
    const bool rows = !loops_.with_x && loop.shape.size() == 2 && loop.strides[0][1] == 1 &&
                      loop.strides[2][0] == 0 && loop.strides[2][1] == 1;
    const std::int64_t whole = loops_.length / index_chunk;
    return rows && whole >= worthwhile ? whole : 0;
  }
  std::int64_t width() const { return chunks() > 0 ? loops_.over_output.shape[1] : 0; }

  GpuDevice& device_;
  Op op_;
  DType dtype_;
  std::size_t element_;
  bool wide_;
  AddLoops loops_;
  StridedLoop keys_;
  std::string_view index_;
  LineSort sort_;
  std::int64_t unit_ = 1;
  StridedLoop rest_;  // x, output; empty where the sums make all of the output
  Function starts_, copy_;
  UnitFunctions sums_, chunk_sums_;
};

// One line: the indices in row-major order.
AddLoops index_add_loops(const Step& step) {
  const Layout &indices = step.inputs[0], &source = step.inputs[1], &output = step.outputs[0];
  const std::size_t axis = axis_of(step), after = axis + indices.shape.size(), ndim = output.shape.size();
  AddLoops loops;
  loops.index_shape = indices.shape;
  loops.index_strides = indices.strides;
  loops.lines = 1;
  loops.length = element_count(indices.shape);
  loops.size = output.shape[axis];
  Strides of_source(ndim, 0);
  for (std::size_t k = 0; k < ndim; ++k)
    if (k != axis) of_source[k] = source.strides[k < axis ? k : k - axis - 1 + after];
  const Strides nothing(ndim, 0);
  loops.over_output = collapse(
      output.shape, {output.strides, output.strides, of_source, nothing, with_axis(nothing, axis, 1)});
  loops.along =
      collapse(indices.shape, {Strides(source.strides.begin() + axis, source.strides.begin() + after)});
  loops.with_x = false;
  return loops;
}

// Lines of indices along the axis, each with the line of the output that it names.
AddLoops scatter_add_loops(const Step& step, std::int64_t line_pairs) {
  const Layout &x = step.inputs[0], &indices = step.inputs[1], &source = step.inputs[2];
  const Layout& output = step.outputs[0];
  const std::size_t axis = axis_of(step), ndim = output.shape.size();
  AddLoops loops;
  loops.length = indices.shape[axis];
  loops.size = output.shape[axis];
  Shape lines = indices.shape;
  lines[axis] = 1;
  loops.lines = element_count(lines);
  loops.index_shape = indices.shape;
  loops.index_strides = indices.strides;
  loops.index_shape.erase(axis);
  loops.index_strides.erase(axis);
  loops.index_shape.push_back(loops.length);
  loops.index_strides.push_back(indices.strides[axis]);
  Shape sums = indices.shape;
  sums[axis] = loops.size;
  const Strides numbers = contiguous_strides(lines);
  Strides of_pairs(ndim, 0), of_starts(ndim, 0);
  for (std::size_t k = 0; k < ndim; ++k) {
    of_pairs[k] = k == axis ? 0 : numbers[k] * line_pairs;
    of_starts[k] = k == axis ? 1 : numbers[k] * (loops.size + 1);
  }
  loops.over_output =
      collapse(sums, {output.strides, x.strides, with_axis(source.strides, axis, 0), of_pairs, of_starts});
  loops.along = collapse({loops.length}, {{source.strides[axis]}});
  loops.with_x = true;
  return loops;
}

}  // namespace

std::unique_ptr<Kernel> make_indexing(GpuDevice& device, const Step& step) {
  switch (step.op) {
    case Op::take:
    case Op::gather:
      return std::make_unique<GatherKernel>(device, step);
    case Op::index_add:
      return std::make_unique<AddKernel>(device, step, step.inputs[0],
                                         [&](std::int64_t) { return index_add_loops(step); });
    case Op::scatter:
      return std::make_unique<ScatterKernel>(device, step);
    case Op::scatter_add:
      return std::make_unique<AddKernel>(device, step, step.inputs[1], [&](std::int64_t line_pairs) {
        return scatter_add_loops(step, line_pairs);
      });
    default:
      throw DTypeError(fmt::format("[{}] does not index", op_name(step.op)));
  }
}

}  // namespace hearth::gpu
