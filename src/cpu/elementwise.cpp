// Elementwise steps.
#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"
#include "cpu/kernels.h"
#include "cpu/tile_program.h"
#include "cpu/transpose.h"
#include "device/strided.h"

namespace hearth::cpu {
namespace {

// Elements a thread takes at a time: enough work to be worth waking it. Of exp, quotients and their like,
// fewer are.
std::int64_t grain_elements(const Expression& expression) {
  const auto takes_long = [](const Expression::Instruction& instruction) {
    return op_row(instruction.op).rule == DTypeRule::floating;
  };
  const auto& all = expression.instructions;
  return std::any_of(all.begin(), all.end(), takes_long) ? 4 * 1024 : 16 * 1024;
}

// Axes are merged where all arguments allow it. Where the innermost one is long, tiles are pieces of it, and
// each input is a run of neighbours, a single element, or (rarely) gathered; otherwise a tile covers several
// short rows, and inputs that are not dense are gathered.
class ElementwiseKernel final : public Kernel {
 public:
  explicit ElementwiseKernel(const Step& step)
      : loop_(merged(step)),
        by_rows_(long_rows(loop_)),
        program_(step.expression, singles(step)),
        grain_(grain_elements(step.expression)),
        count_(element_count(step.domain)) {
    for (const auto& input : step.inputs) {
      sources_.emplace_back(input);
      input_sizes_.push_back(static_cast<std::int64_t>(dtype_size(input.dtype)));
    }
    for (const auto& output : step.outputs) output_sizes_.push_back(dtype_size(output.dtype));
    tile_ = program_.tile_length();
    // Whole periods of what repeats need to be read once only.
    for (const auto& source : sources_)
      if (!by_rows_ && source.period() > 0 && source.period() <= tile_)
        tile_ = tile_ / source.period() * source.period();
  }

  void run(const KernelArguments& arguments) const override {
    if (count_ == 0) return;
    if (by_rows_)
      run_rows(arguments);
    else
      run_tiles(arguments);
  }

 private:
  // Rows of one tile are long. Shorter ones are worth it where something stays the same along each of them.
  static bool long_rows(const StridedLoop& loop) {
    if (loop.shape.size() == 1 || loop.inner_size() >= 1024) return true;
    for (std::size_t k = 0; k < loop.strides.size(); ++k)
      for (auto stride : loop.strides[k])
        if (loop.inner_stride(k) == 0 && stride != 0) return loop.inner_size() >= 128;
    return false;
  }

  static StridedLoop merged(const Step& step) {
    std::vector<Strides> strides;
    for (const auto& input : step.inputs) strides.push_back(input.strides);
    strides.push_back(contiguous_strides(step.domain));
    return collapse(step.domain, strides);
  }
  std::vector<bool> singles(const Step& step) const {
    std::vector<bool> result;
    for (std::size_t i = 0; i < step.inputs.size(); ++i)
      result.push_back(by_rows_ ? loop_.inner_stride(i) == 0 : TileSource(step.inputs[i]).scalar());
    return result;
  }

  void run_rows(const KernelArguments& arguments) const {
    const auto length = loop_.inner_size(), pieces = (length + tile_ - 1) / tile_;
    const auto grain = std::max<std::int64_t>(1, grain_ / std::min(tile_, length));
    parallel_for(count_ / length * pieces, grain, [&](std::int64_t begin, std::int64_t end) {
      TileProgram::Workspace workspace(program_, arguments.numbers);
      Odometer row(loop_, begin / pieces);
      for (std::int64_t t = begin, piece = begin % pieces; t < end; ++t) {
        const auto start = piece * tile_, n = std::min(tile_, length - start);
        for (std::size_t i = 0; i < sources_.size(); ++i) {
          const auto stride = loop_.inner_stride(i);
          const char* from = static_cast<const char*>(arguments.inputs[i]) + row.offset(i) * input_sizes_[i];
          if (stride == 0) {
            if (t == begin || piece == 0) program_.set_single(workspace, i, from, std::min(tile_, length));
          } else if (stride == 1) {
            program_.set_input(workspace, i, from + start * input_sizes_[i], n);
          } else {
            program_.set_strided(workspace, i, from + start * stride * input_sizes_[i], stride, n);
          }
        }
        compute(arguments, workspace, row.offset(sources_.size()) + start, n);
        if (++piece == pieces) {
          piece = 0;
          row.next();
        }
      }
    });
  }

  void run_tiles(const KernelArguments& arguments) const {
    const auto tiles = (count_ + tile_ - 1) / tile_;
    parallel_for(tiles, std::max<std::int64_t>(1, grain_ / tile_), [&](std::int64_t begin, std::int64_t end) {
      TileProgram::Workspace workspace(program_, arguments.numbers);
      for (std::int64_t t = begin; t < end; ++t) {
        const auto start = t * tile_, n = std::min(tile_, count_ - start);
        for (std::size_t i = 0; i < sources_.size(); ++i) {
          const bool repeats = sources_[i].period() > 0 && tile_ % sources_[i].period() == 0;
          if (repeats && t > begin) continue;
          program_.read_input(workspace, i, sources_[i], arguments.inputs[i], start,
                              repeats ? std::min(tile_, count_) : n);
        }
        compute(arguments, workspace, start, n);
      }
    });
  }

  void compute(const KernelArguments& arguments, TileProgram::Workspace& workspace, std::int64_t start,
               std::int64_t n) const {
    for (std::size_t k = 0; k < output_sizes_.size(); ++k)
      program_.set_output(workspace, k, output_at(arguments, k, start));
    program_.run(workspace, n);
    for (std::size_t k = 0; k < output_sizes_.size(); ++k)
      program_.write_output(workspace, k, output_at(arguments, k, start), n);
  }

  char* output_at(const KernelArguments& arguments, std::size_t k, std::int64_t start) const {
    return static_cast<char*>(arguments.outputs[k]) + start * static_cast<std::int64_t>(output_sizes_[k]);
  }

  StridedLoop loop_;  // the inputs, then the outputs
  bool by_rows_;
  TileProgram program_;
  std::int64_t grain_;
  std::int64_t count_, tile_;
  std::vector<TileSource> sources_;
  std::vector<std::int64_t> input_sizes_;
  std::vector<std::size_t> output_sizes_;
};

}  // namespace

std::unique_ptr<Kernel> make_elementwise(const Step& step) {
  if (auto transpose = make_transpose(step)) return transpose;
  return std::make_unique<ElementwiseKernel>(step);
}

}  // namespace hearth::cpu
