// Transposed copies, block by block.
//
// A block is read along the input's dense axis and turned into a buffer, whose rows then go to the output:
// every cache line of both is touched once. Straight from one to the other, lines whose addresses differ by a
// power of two would push each other out of the cache before they are used up.
#include "cpu/transpose.h"

#include <algorithm>
#include <cstring>

#include "base/thread_pool.h"
#include "cpu/dispatch.h"
#include "cpu/scratch.h"

namespace hearth::cpu {
namespace {

constexpr std::int64_t grain_elements = 16 * 1024;

// Of the output. Long runs of the input help its prefetching; the output is written in whole lines anyway.
constexpr std::int64_t block_rows = 512, block_columns = 32;
// A thread's share of a row of blocks.
constexpr std::int64_t columns_per_job = 16 * block_columns;

// out[r * block_columns + c] = in[c * stride + r] for r < rows, c < columns.
template <typename T>
void turn(const T* in, std::int64_t stride, std::int64_t rows, std::int64_t columns, T* out) {
  std::int64_t c = 0;
  if constexpr (sizeof(T) == 4) {
    typedef std::uint32_t Four __attribute__((vector_size(16)));
    const auto row_of = [&](std::int64_t column, std::int64_t row) {
      Four four;
      std::memcpy(&four, in + column * stride + row, sizeof four);
      return four;
    };
    for (; c + 4 <= columns; c += 4) {
      std::int64_t r = 0;
      for (; r + 4 <= rows; r += 4) {
        const Four a = row_of(c, r), b = row_of(c + 1, r), d = row_of(c + 2, r), e = row_of(c + 3, r);
        const Four ad_low = __builtin_shufflevector(a, d, 0, 4, 1, 5),
                   ad_high = __builtin_shufflevector(a, d, 2, 6, 3, 7);
        const Four be_low = __builtin_shufflevector(b, e, 0, 4, 1, 5),
                   be_high = __builtin_shufflevector(b, e, 2, 6, 3, 7);
        const Four turned[] = {__builtin_shufflevector(ad_low, be_low, 0, 4, 1, 5),
                               __builtin_shufflevector(ad_low, be_low, 2, 6, 3, 7),
                               __builtin_shufflevector(ad_high, be_high, 0, 4, 1, 5),
                               __builtin_shufflevector(ad_high, be_high, 2, 6, 3, 7)};
        for (int k = 0; k < 4; ++k) std::memcpy(out + (r + k) * block_columns + c, &turned[k], sizeof(Four));
      }
      for (; r < rows; ++r)
        for (std::int64_t k = c; k < c + 4; ++k) out[r * block_columns + k] = in[k * stride + r];
    }
  }
  for (; c < columns; ++c)
    for (std::int64_t r = 0; r < rows; ++r) out[r * block_columns + c] = in[c * stride + r];
}

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
    const auto row_blocks = (rows + block_rows - 1) / block_rows;
    const auto column_jobs = (columns + columns_per_job - 1) / columns_per_job;
    const auto planes = element_count(shape_) / (rows * columns);
    const T* in = static_cast<const T*>(arguments.inputs[0]);
    T* out = static_cast<T*>(arguments.outputs[0]);
    const auto work = std::min(rows, block_rows) * std::min(columns, columns_per_job);
    const auto grain = std::max<std::int64_t>(1, grain_elements / work);
    parallel_for(planes * row_blocks * column_jobs, grain, [&](std::int64_t begin, std::int64_t end) {
      const Scratch memory(block_rows * block_columns * static_cast<std::int64_t>(sizeof(T)) / 4);
      T* buffer = reinterpret_cast<T*>(memory.data());
      for (std::int64_t job = begin; job < end; ++job) {
        std::int64_t plane = job / (row_blocks * column_jobs), in_offset = 0, out_offset = 0;
        for (std::size_t i = last; i-- > 0;) {
          if (i == axis_) continue;
          const auto index = plane % shape_[i];
          plane /= shape_[i];
          in_offset += index * strides_[i];
          out_offset += index * out_strides_[i];
        }
        const auto first = job / column_jobs % row_blocks * block_rows,
                   here = std::min(block_rows, rows - first);
        const auto from = job % column_jobs * columns_per_job, to = std::min(from + columns_per_job, columns);
        for (std::int64_t c = from; c < to; c += block_columns) {
          const auto width = std::min(block_columns, to - c);
          turn(in + in_offset + first + c * strides_[last], strides_[last], here, width, buffer);
          T* target = out + out_offset + first * out_strides_[axis_] + c;
          for (std::int64_t r = 0; r < here; ++r, target += out_strides_[axis_]) {
            const T* row = buffer + r * block_columns;
            if (width == block_columns)
              std::memcpy(target, row, block_columns * sizeof(T));  // of known size: no call
            else
              std::memcpy(target, row, static_cast<std::size_t>(width) * sizeof(T));
          }
        }
      }
    });
  }

 private:
  Shape shape_;
  Strides strides_, out_strides_;
  std::size_t axis_;
};

}  // namespace

std::unique_ptr<Kernel> make_transpose(const Step& step) {
  const auto& expression = step.expression;
  if (!expression.instructions.empty() || step.inputs.size() != 1 || expression.inputs.size() != 1)
    return nullptr;
  const Layout& input = step.inputs[0];
  if (input.shape.size() < 2 || element_count(input.shape) == 0) return nullptr;
  const std::size_t last = input.shape.size() - 1;
  if (input.strides[last] == 1 || input.strides[last] == 0 || input.shape[last] == 1) return nullptr;
  for (std::size_t axis = 0; axis < last; ++axis) {
    if (input.strides[axis] != 1 || input.shape[axis] < 4) continue;
    return dispatch_size(input.dtype, [&]<typename T>(std::type_identity<T>) -> std::unique_ptr<Kernel> {
      return std::make_unique<TransposeKernel<T>>(input.shape, input.strides, axis);
    });
  }
  return nullptr;
}

}  // namespace hearth::cpu
