// Reduction steps: an expression over a domain, reduced over some of its axes.
//
// Axes are merged into runs of kept (K) and reduced (R) ones. The innermost two runs form a block that lies
// dense in the order of the domain, either rows to reduce (K, R) or columns to add up (R, K); the runs
// further out are loops. Tiles cover several short rows at a time, so that the interpreter's cost per tile is
// spread.
//
// Work is divided over the kept positions; where they are few, the reduced ones are divided too, into slices
// whose number depends on the sizes only, and the slices' totals are combined in order: the result does not
// depend on the number of threads.
#include <algorithm>
#include <limits>

#include "base/thread_pool.h"
#include "cpu/kernels.h"
#include "cpu/reduction_kernels.h"
#include "cpu/scratch.h"
#include "cpu/tile_program.h"
#include "hearth/error.h"

namespace hearth::cpu {
namespace {

// How the domain is walked through.
struct Blocks {
  struct Loop {
    std::int64_t size, stride;
  };
  bool rows_inside = false;
  std::int64_t kept = 1, reduced = 1;              // the innermost two runs
  std::int64_t outer_kept = 1, outer_reduced = 1;  // of the loops together
  std::vector<Loop> kept_loops, reduced_loops;     // the innermost loop first

  Blocks(const Shape& domain, const Axes& axes) {
    struct Run {
      std::int64_t size;
      bool reduced;
    };
    std::vector<Run> runs;
    for (std::size_t i = 0; i < domain.size(); ++i) {
      const bool is_reduced = std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(i)) != axes.end();
      if (domain[i] == 1) continue;
      if (!runs.empty() && runs.back().reduced == is_reduced)
        runs.back().size *= domain[i];
      else
        runs.push_back({domain[i], is_reduced});
    }
    rows_inside = !runs.empty() && runs.back().reduced;
    for (int k = 0; k < 2 && !runs.empty(); ++k) {
      (runs.back().reduced ? reduced : kept) = runs.back().size;
      runs.pop_back();
    }
    std::int64_t stride = kept * reduced;
    for (std::size_t i = runs.size(); i-- > 0;) {
      (runs[i].reduced ? reduced_loops : kept_loops).push_back({runs[i].size, stride});
      (runs[i].reduced ? outer_reduced : outer_kept) *= runs[i].size;
      stride *= runs[i].size;
    }
  }
};

class ReductionKernel final : public Kernel {
 public:
  explicit ReductionKernel(const Step& step)
      : op_(reduction_index(step.op)),
        output_(step.outputs[0].dtype),
        sources_(step.inputs.begin(), step.inputs.end()),
        blocks_(step.domain, std::get<ReduceAttributes>(step.attributes).axes),
        program_(step.expression, singles()) {
    const DType element = step.expression.dtype(step.expression.outputs[0]);
    type_ = compute_of(element);
    for (std::size_t k = 1; k < step.outputs.size(); ++k)
      extra_sizes_.push_back(dtype_size(step.outputs[k].dtype));
    row_tiles_ = std::any_of(sources_.begin(), sources_.end(),
                             [this](const TileSource& source) { return constant_in_rows(source); });
    outputs_ = element_count(step.outputs[0].shape);
    count_ = element_count(step.domain);
    plain_ = step.expression.instructions.empty() && sources_.size() == 1 && sources_[0].dense() &&
             extra_sizes_.empty() && dtype_size(element) == compute_size(type_);
    if (!reduction_kernels().rows[op_][static_cast<int>(type_)])
      throw DTypeError(std::string("[") + std::string(op_name(step.op)) + "] has no CPU kernel for " +
                       std::string(dtype_name(element)));
  }

  void run(const KernelArguments& arguments) const override {
    if (outputs_ == 0) return;
    const auto width = blocks_.rows_inside
                           ? blocks_.kept
                           : std::min(blocks_.kept, plain_ ? plain_width : program_.tile_length());
    const auto chunks = blocks_.rows_inside ? row_chunks() : (blocks_.kept + width - 1) / width;
    const auto jobs = blocks_.outer_kept * chunks;
    const auto slices = slice_count(jobs);
    static_assert(sizeof(Total) == 2 * sizeof(float));
    const Scratch memory(2 * outputs_ * slices);
    Total* totals = reinterpret_cast<Total*>(memory.data());

    parallel_for(jobs * slices, grain(jobs * slices), [&](std::int64_t begin, std::int64_t end) {
      TileProgram::Workspace workspace(program_, arguments.numbers);
      AlignedBytes partial(blocks_.rows_inside ? 0 : static_cast<std::size_t>(width) * 8);
      for (std::int64_t job = begin; job < end; ++job) {
        const auto slice = job / jobs, outer = job % jobs / chunks, chunk = job % chunks;
        Total* out = totals + slice * outputs_ + outer * blocks_.kept;
        if (blocks_.rows_inside)
          reduce_rows(arguments, workspace, outer, chunk, slice, slices, out);
        else
          reduce_columns(arguments, workspace, partial.data(), outer, chunk * width, width, slice, slices,
                         out);
      }
    });
    store(totals, slices, arguments.outputs[0]);
  }

 private:
  std::vector<bool> singles() const {
    std::vector<bool> result;
    for (const auto& source : sources_) result.push_back(source.scalar() || constant_in_rows(source));
    return result;
  }

  // Sources with one element for each row, where rows are long enough to have tiles of their own.
  bool constant_in_rows(const TileSource& source) const {
    return blocks_.rows_inside && blocks_.reduced >= 128 && !source.scalar() &&
           source.constant_along(blocks_.reduced);
  }

  // Start of the block at a position of the outer loops, the innermost loop first in the list.
  static std::int64_t offset(const std::vector<Blocks::Loop>& loops, std::int64_t position) {
    std::int64_t result = 0;
    for (const auto& loop : loops) {
      result += position % loop.size * loop.stride;
      position /= loop.size;
    }
    return result;
  }

  std::int64_t rows_per_chunk() const {
    // Chunks of rows with some work in each, a whole number of tiles' worth of short rows. Where there is
    // much to read, long ones.
    const auto elements = plain_ ? std::clamp<std::int64_t>(count_ / 64, 16 * 1024, 256 * 1024)
                                 : std::max(program_.tile_length(), std::int64_t{16 * 1024});
    return std::max<std::int64_t>(1, elements / std::max<std::int64_t>(1, blocks_.reduced));
  }
  std::int64_t row_chunks() const { return (blocks_.kept + rows_per_chunk() - 1) / rows_per_chunk(); }

  // Slices of the reduced positions: of the outer loop where there is one, else of the rows or columns of the
  // block.
  std::int64_t slice_count(std::int64_t jobs) const {
    if (jobs == 0 || count_ == 0) return 1;
    const auto wanted = std::min<std::int64_t>(64 / std::max<std::int64_t>(jobs, 1), count_ / (32 * 1024));
    const auto axis = blocks_.outer_reduced > 1 ? blocks_.outer_reduced : blocks_.reduced;
    // Enough elements per total that the totals do not count.
    const auto possible = std::min(axis, count_ / (256 * outputs_));
    return std::clamp<std::int64_t>(std::min(wanted, possible), 1,
                                    std::max<std::int64_t>(1, (1 << 22) / outputs_));
  }
  std::int64_t grain(std::int64_t total_jobs) const {
    const auto work = std::max<std::int64_t>(1, count_ / std::max<std::int64_t>(1, total_jobs));
    return std::max<std::int64_t>(1, 16 * 1024 / work);
  }

  // Evaluates the expression for n elements of the domain from `start`; returns what is to be reduced.
  const void* evaluate(const KernelArguments& arguments, TileProgram::Workspace& workspace,
                       std::int64_t start, std::int64_t n) const {
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (constant_in_rows(sources_[i]))
        program_.set_single(workspace, i, sources_[i].element(arguments.inputs[i], start), n);
      else
        program_.read_input(workspace, i, sources_[i], arguments.inputs[i], start, n);
    for (std::size_t k = 0; k < extra_sizes_.size(); ++k)
      program_.set_output(workspace, k + 1, extra(arguments, k, start));
    program_.run(workspace, n);
    for (std::size_t k = 0; k < extra_sizes_.size(); ++k)
      program_.write_output(workspace, k + 1, extra(arguments, k, start), n);
    return program_.output(workspace, 0);
  }
  char* extra(const KernelArguments& arguments, std::size_t k, std::int64_t start) const {
    return static_cast<char*>(arguments.outputs[k + 1]) + start * static_cast<std::int64_t>(extra_sizes_[k]);
  }

  struct Range {
    std::int64_t begin, end;
  };
  static Range part(std::int64_t size, std::int64_t slice, std::int64_t slices) {
    return {size * slice / slices, size * (slice + 1) / slices};
  }

  void reduce_rows(const KernelArguments& arguments, TileProgram::Workspace& workspace, std::int64_t outer,
                   std::int64_t chunk, std::int64_t slice, std::int64_t slices, Total* out) const {
    const auto reduce = reduction_kernels().rows[op_][static_cast<int>(type_)];
    const auto tile = program_.tile_length();
    const auto first = chunk * rows_per_chunk(), past = std::min(first + rows_per_chunk(), blocks_.kept);
    const bool slice_outer = blocks_.outer_reduced > 1;
    const Range loops =
        slice_outer ? part(blocks_.outer_reduced, slice, slices) : Range{0, blocks_.outer_reduced};
    const Range row = slice_outer ? Range{0, blocks_.reduced} : part(blocks_.reduced, slice, slices);
    const auto length = row.end - row.begin;
    std::fill(out + first, out + past, neutral());
    if (length == 0) return;
    const auto element = static_cast<std::int64_t>(compute_size(type_));
    for (auto position = loops.begin; position < loops.end; ++position) {
      const auto base = offset(blocks_.kept_loops, outer) + offset(blocks_.reduced_loops, position);
      if (plain_) {
        const char* values = static_cast<const char*>(arguments.inputs[0]) + base * element;
        if (past - first >= 4)
          reduce_long_rows(values, first, past, row, out);
        else
          for (auto r = first; r < past; ++r)
            reduce_long_row(values + r * blocks_.reduced * element, row, out[r]);
      } else if (length == blocks_.reduced && length < tile && !row_tiles_) {
        const auto rows = tile / length;
        for (auto r = first; r < past; r += rows) {
          const auto here = std::min(rows, past - r);
          const char* values = static_cast<const char*>(
              evaluate(arguments, workspace, base + r * blocks_.reduced, here * length));
          for (std::int64_t k = 0; k < here; ++k) reduce(values + k * length * element, length, &out[r + k]);
        }
      } else {
        for (auto r = first; r < past; ++r)
          for (auto start = row.begin; start < row.end; start += tile) {
            const auto n = std::min(tile, row.end - start);
            reduce(evaluate(arguments, workspace, base + r * blocks_.reduced + start, n), n, &out[r]);
          }
      }
    }
  }

  // Memory is read fastest as a few long runs side by side. So rows (or the parts of one row) are taken from
  // four places in turn, a piece of each at a time.
  static constexpr std::int64_t streams = 4, piece = 512;

  void reduce_long_rows(const char* values, std::int64_t first, std::int64_t past, Range row,
                        Total* out) const {
    const auto reduce = reduction_kernels().rows[op_][static_cast<int>(type_)];
    const auto element = static_cast<std::int64_t>(compute_size(type_));
    const auto apart = (past - first) / streams;
    const auto reduce_piece = [&](std::int64_t r, std::int64_t start) {
      reduce(values + (r * blocks_.reduced + start) * element, std::min(piece, row.end - start), &out[r]);
    };
    for (auto r = first; r < first + apart; ++r)
      for (auto start = row.begin; start < row.end; start += piece)
        for (std::int64_t s = 0; s < streams; ++s) reduce_piece(r + s * apart, start);
    for (auto r = first + streams * apart; r < past; ++r)
      for (auto start = row.begin; start < row.end; start += piece) reduce_piece(r, start);
  }

  void reduce_long_row(const char* values, Range row, Total& out) const {
    const auto reduce = reduction_kernels().rows[op_][static_cast<int>(type_)];
    const auto element = static_cast<std::int64_t>(compute_size(type_));
    const auto apart = (row.end - row.begin) / (streams * piece) * piece;
    Total parts[streams];
    for (auto& part : parts) part = neutral();
    for (std::int64_t start = row.begin; start < row.begin + apart; start += piece)
      for (std::int64_t s = 0; s < streams; ++s)
        reduce(values + (start + s * apart) * element, piece, &parts[s]);
    for (auto start = row.begin + streams * apart; start < row.end; start += piece)
      reduce(values + start * element, std::min(piece, row.end - start), &parts[streams - 1]);
    for (const auto& part : parts) combine(&out, &part, 1);
  }

  void reduce_columns(const KernelArguments& arguments, TileProgram::Workspace& workspace, char* partial,
                      std::int64_t outer, std::int64_t column, std::int64_t width, std::int64_t slice,
                      std::int64_t slices, Total* out) const {
    const auto& kernels = reduction_kernels();
    const auto type = static_cast<int>(type_);
    width = std::min(width, blocks_.kept - column);
    const bool slice_outer = blocks_.outer_reduced > 1;
    const Range loops =
        slice_outer ? part(blocks_.outer_reduced, slice, slices) : Range{0, blocks_.outer_reduced};
    const Range rows = slice_outer ? Range{0, blocks_.reduced} : part(blocks_.reduced, slice, slices);
    const bool whole = width == blocks_.kept;  // several rows form one dense tile
    const auto step =
        whole ? std::max<std::int64_t>(1, program_.tile_length() / std::max<std::int64_t>(1, width)) : 1;
    // Sums and products are moved to wider totals before rounding errors pile up.
    const bool rounds = op_ < 2;
    const std::int64_t most_rows = rounds ? 128 : std::numeric_limits<std::int64_t>::max() / 2;
    std::int64_t pending = 0;
    const auto flush = [&] {
      if (pending > 0) kernels.flush[op_][type](partial, width, out + column);
      pending = 0;
    };
    kernels.fill[op_][type](partial, width);
    std::fill_n(out + column, width, neutral());
    const auto element = static_cast<std::int64_t>(compute_size(type_));
    for (auto position = loops.begin; position < loops.end; ++position) {
      const auto base = offset(blocks_.kept_loops, outer) + offset(blocks_.reduced_loops, position) + column;
      for (auto r = rows.begin; r < rows.end;) {
        const auto start = base + r * blocks_.kept;
        const auto here = std::min(plain_ ? most_rows - pending : step, rows.end - r);
        if (plain_)
          kernels.columns[op_][type](static_cast<const char*>(arguments.inputs[0]) + start * element, here,
                                     width, blocks_.kept, partial);
        else
          kernels.columns[op_][type](evaluate(arguments, workspace, start, here * width), here, width, width,
                                     partial);
        r += here;
        pending += here;
        if (pending >= most_rows) flush();
      }
    }
    flush();
  }

  bool real() const { return type_ == Compute::f32 || type_ == Compute::f64; }

  Total neutral() const {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr double reals[] = {0, 1, -infinity, infinity};
    constexpr std::int64_t integers[] = {
        0, 1, std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), 1, 0};
    Total total;
    if (real())
      total.real = reals[op_];
    else
      total.integer = integers[op_];
    return total;
  }

  // The slices' totals are combined in the first one's place.
  void store(Total* totals, std::int64_t slices, void* out) const {
    parallel_for(outputs_, std::max<std::int64_t>(1, 16 * 1024 / slices),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t s = 1; s < slices; ++s)
                     combine(totals + begin, totals + s * outputs_ + begin, end - begin);
                   for (std::int64_t i = begin; i < end; ++i) store_one(totals[i], i, out);
                 });
  }

  // totals[i] = totals[i] combined with next[i].
  void combine(Total* totals, const Total* next, std::int64_t n) const {
    const auto each = [&](auto operation) {
      if (real())
        for (std::int64_t i = 0; i < n; ++i) totals[i].real = operation(totals[i].real, next[i].real);
      else
        for (std::int64_t i = 0; i < n; ++i)
          totals[i].integer = operation(totals[i].integer, next[i].integer);
    };
    switch (op_) {
      case 0:
        return each([](auto a, auto b) { return a + b; });
      case 1:
        return each([](auto a, auto b) { return a * b; });
      case 2:
      case 5:
        return each([](auto a, auto b) { return b > a || b != b ? b : a; });
      default:
        return each([](auto a, auto b) { return b < a || b != b ? b : a; });
    }
  }

  void store_one(Total total, std::int64_t i, void* out) const {
    switch (output_) {
      case DType::f64:
        static_cast<double*>(out)[i] = total.real;
        break;
      case DType::f32:
        static_cast<float*>(out)[i] = static_cast<float>(total.real);
        break;
      case DType::f16:
        static_cast<float16*>(out)[i] = float16(static_cast<float>(total.real));
        break;
      case DType::bf16:
        static_cast<bfloat16*>(out)[i] = bfloat16(static_cast<float>(total.real));
        break;
      case DType::i64:
        static_cast<std::int64_t*>(out)[i] = total.integer;
        break;
      case DType::i32:
        static_cast<std::int32_t*>(out)[i] = static_cast<std::int32_t>(total.integer);
        break;
      case DType::i16:
        static_cast<std::int16_t*>(out)[i] = static_cast<std::int16_t>(total.integer);
        break;
      default:
        static_cast<std::uint8_t*>(out)[i] = static_cast<std::uint8_t>(total.integer);
    }
  }

  static constexpr std::int64_t plain_width = 4096;  // columns that are added up together

  int op_;
  DType output_;
  Compute type_;
  std::vector<TileSource> sources_;
  Blocks blocks_;
  TileProgram program_;
  std::vector<std::size_t> extra_sizes_;
  std::int64_t outputs_ = 0, count_ = 0;
  bool plain_ = false;      // elements are reduced where they lie
  bool row_tiles_ = false;  // no tile goes over the end of a row
};

}  // namespace

std::unique_ptr<Kernel> make_reduction(const Step& step) { return std::make_unique<ReductionKernel>(step); }

}  // namespace hearth::cpu
