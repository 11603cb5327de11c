// Elementwise steps.
#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"
#include "cpu/kernels.h"
#include "cpu/tile_program.h"

namespace hearth::cpu {
namespace {

// Tiles a thread takes at a time: enough work to be worth waking it.
constexpr std::int64_t grain_elements = 16 * 1024;

class ElementwiseKernel final : public Kernel {
 public:
  explicit ElementwiseKernel(const Step& step) : program_(step.expression), count_(element_count(step.domain)) {
    for (const auto& input : step.inputs) sources_.emplace_back(input);
    for (const auto& output : step.outputs) output_sizes_.push_back(dtype_size(output.dtype));
  }

  void run(const KernelArguments& arguments) const override {
    const auto tile = program_.tile_length();
    const auto tiles = (count_ + tile - 1) / tile;
    parallel_for(tiles, std::max<std::int64_t>(1, grain_elements / tile), [&](std::int64_t begin, std::int64_t end) {
      TileProgram::Workspace workspace(program_, arguments.numbers);
      for (std::int64_t t = begin; t < end; ++t) {
        const auto start = t * tile, n = std::min(tile, count_ - start);
        for (std::size_t i = 0; i < sources_.size(); ++i)
          program_.read_input(workspace, i, sources_[i], arguments.inputs[i], start, n);
        for (std::size_t k = 0; k < output_sizes_.size(); ++k)
          program_.set_output(workspace, k, output_at(arguments, k, start));
        program_.run(workspace, n);
        for (std::size_t k = 0; k < output_sizes_.size(); ++k)
          program_.write_output(workspace, k, output_at(arguments, k, start), n);
      }
    });
  }

 private:
  char* output_at(const KernelArguments& arguments, std::size_t k, std::int64_t start) const {
    return static_cast<char*>(arguments.outputs[k]) + start * static_cast<std::int64_t>(output_sizes_[k]);
  }

  TileProgram program_;
  std::int64_t count_;
  std::vector<TileSource> sources_;
  std::vector<std::size_t> output_sizes_;
};

// A copy that turns a matrix on its side: the input is dense along another axis than the last.
template <typename T>
class TransposeKernel final : public Kernel {
 public:
  TransposeKernel(const Shape& shape, const Strides& strides, std::size_t dense_axis)
      : shape_(shape), strides_(strides), axis_(dense_axis) {
    out_strides_ = contiguous_strides(shape);
  }

  void run(const KernelArguments& arguments) const override {
    const std::size_t last = shape_.size() - 1;
    const auto rows = shape_[axis_], columns = shape_[last];
    const auto row_blocks = (rows + block - 1) / block;
    const auto planes = element_count(shape_) / (rows * columns);
    const T* in = static_cast<const T*>(arguments.inputs[0]);
    T* out = static_cast<T*>(arguments.outputs[0]);
    const auto grain = std::max<std::int64_t>(1, grain_elements / (block * columns));
    parallel_for(planes * row_blocks, grain, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t job = begin; job < end; ++job) {
        std::int64_t plane = job / row_blocks, in_offset = 0, out_offset = 0;
        for (std::size_t i = last; i-- > 0;) {
          if (i == axis_) continue;
          const auto index = plane % shape_[i];
          plane /= shape_[i];
          in_offset += index * strides_[i];
          out_offset += index * out_strides_[i];
        }
        const auto first = job % row_blocks * block, past = std::min(first + block, rows);
        for (std::int64_t c0 = 0; c0 < columns; c0 += block)
          for (std::int64_t r = first; r < past; ++r)
            for (std::int64_t c = c0; c < std::min(c0 + block, columns); ++c)
              out[out_offset + r * out_strides_[axis_] + c] = in[in_offset + r + c * strides_[last]];
      }
    });
  }

 private:
  static constexpr std::int64_t block = 32;
  Shape shape_;
  Strides strides_, out_strides_;
  std::size_t axis_;
};

std::unique_ptr<Kernel> make_transpose(const Step& step) {
  const auto& expression = step.expression;
  if (!expression.instructions.empty() || step.inputs.size() != 1 || expression.inputs.size() != 1) return nullptr;
  const Layout& input = step.inputs[0];
  if (input.shape.size() < 2 || element_count(input.shape) == 0) return nullptr;
  const std::size_t last = input.shape.size() - 1;
  if (input.strides[last] == 1 || input.strides[last] == 0 || input.shape[last] == 1) return nullptr;
  for (std::size_t axis = 0; axis < last; ++axis) {
    if (input.strides[axis] != 1 || input.shape[axis] < 4) continue;
    switch (dtype_size(input.dtype)) {
      case 1:
        return std::make_unique<TransposeKernel<std::uint8_t>>(input.shape, input.strides, axis);
      case 2:
        return std::make_unique<TransposeKernel<std::uint16_t>>(input.shape, input.strides, axis);
      case 4:
        return std::make_unique<TransposeKernel<std::uint32_t>>(input.shape, input.strides, axis);
      default:
        return std::make_unique<TransposeKernel<std::uint64_t>>(input.shape, input.strides, axis);
    }
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Kernel> make_elementwise(const Step& step) {
  if (auto transpose = make_transpose(step)) return transpose;
  return std::make_unique<ElementwiseKernel>(step);
}

}  // namespace hearth::cpu
