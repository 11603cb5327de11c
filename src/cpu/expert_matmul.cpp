// The product of a mixture of experts: rows that chose the same expert are multiplied together.
#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "base/thread_pool.h"
#include "cpu/blas.h"
#include "cpu/dense.h"
#include "cpu/kernels.h"
#include "cpu/multiply_blocks.h"
#include "cpu/scratch.h"
#include "hearth/error.h"

namespace hearth::cpu {
namespace {

// out (rows, columns) = x (rows, depth) @ transposed(weight (columns, depth)).
void multiply(const float* x, const float* weight, float* out, std::int64_t rows, std::int64_t columns,
              std::int64_t depth) {
  const std::int64_t grain = std::max<std::int64_t>(16, 65536 / std::max<std::int64_t>(1, rows * depth));
  parallel_for(columns, grain, [&](std::int64_t begin, std::int64_t end) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, static_cast<int>(rows),
                static_cast<int>(end - begin), static_cast<int>(depth), 1.0f, x, static_cast<int>(depth),
                weight + begin * depth, static_cast<int>(depth), 0.0f, out + begin,
                static_cast<int>(columns));
  });
}

class ExpertKernel final : public Kernel {
 public:
  explicit ExpertKernel(const Step& step)
      : x_(step.inputs[0]),
        chosen_(step.inputs[2]),
        output_(step.outputs[0]),
        weight_(step.inputs[1]),
        experts_(weight_.shape[0]),
        columns_(weight_.shape[1]),
        depth_(weight_.shape[2]),
        results_(chosen_.shape[0] * chosen_.shape[1]) {
    if (!weight_.contiguous()) throw KernelError("[expert_matmul] weights must be dense");
    keep_blas_on_one_thread();
    if (std::max({results_, columns_, depth_}) > std::numeric_limits<int>::max())
      throw BlasError(fmt::format("[expert_matmul] {} x {} x {} is too large for the BLAS library", results_,
                                  columns_, depth_));
    one_expert_.dtype = weight_.dtype;
    one_expert_.shape = {columns_, depth_};
    one_expert_.strides = contiguous_strides(one_expert_.shape);
  }

  void run(const KernelArguments& arguments) const override {
    if (results_ == 0) return;
    const DenseInput x(x_, arguments.inputs[0], DType::f32);
    const DenseOutput out(output_, arguments.outputs[0], DType::f32);
    const auto rows_of = rows_by_expert(static_cast<const std::int64_t*>(arguments.inputs[2]));
    const std::int64_t shared_by = chosen_.shape[1] / x_.shape[1];  // results that a row of x goes into
    for (std::int64_t expert = 0; expert < experts_; ++expert) {
      const std::vector<std::int64_t>& rows = rows_of[static_cast<std::size_t>(expert)];
      if (rows.empty() || columns_ == 0) continue;
      const auto count = static_cast<std::int64_t>(rows.size());
      const Scratch memory(count * (depth_ + columns_));
      float *const gathered = memory.data(), *const products = gathered + count * depth_;
      for (std::int64_t i = 0; i < count; ++i) {
        const float* row =
            static_cast<const float*>(x.data()) + rows[static_cast<std::size_t>(i)] / shared_by * depth_;
        std::copy(row, row + depth_, gathered + i * depth_);
      }
      multiply_by(expert, arguments.inputs[1], gathered, products, count);
      for (std::int64_t i = 0; i < count; ++i)
        std::copy(products + i * columns_, products + (i + 1) * columns_,
                  static_cast<float*>(out.data()) + rows[static_cast<std::size_t>(i)] * columns_);
    }
    out.store();
  }

 private:
  std::vector<std::vector<std::int64_t>> rows_by_expert(const std::int64_t* chosen) const {
    std::vector<std::vector<std::int64_t>> rows(static_cast<std::size_t>(experts_));
    for (std::int64_t i = 0; i < results_; ++i) {
      const std::int64_t expert =
          chosen[i / chosen_.shape[1] * chosen_.strides[0] + i % chosen_.shape[1] * chosen_.strides[1]];
      if (expert < 0 || expert >= experts_)
        throw IndexError(fmt::format("[expert_matmul] expert {} of {}", expert, experts_));
      rows[static_cast<std::size_t>(expert)].push_back(i);
    }
    return rows;
  }

  void multiply_by(std::int64_t expert, const void* weights, const float* x, float* out,
                   std::int64_t rows) const {
    const void* matrix =
        static_cast<const char*>(weights) + storage_bytes(weight_.dtype, expert * columns_ * depth_);
    if (is_quantised(weight_.dtype) || dtype_size(weight_.dtype) == 2)
      return multiply_blocks(weight_.dtype, x, matrix, out, rows, columns_, depth_);
    const DenseInput numbers(one_expert_, matrix, DType::f32);
    multiply(x, static_cast<const float*>(numbers.data()), out, rows, columns_, depth_);
  }

  Layout x_, chosen_, output_, weight_, one_expert_;
  std::int64_t experts_, columns_, depth_, results_;
};

}  // namespace

std::unique_ptr<Kernel> make_expert_matmul(const Step& step) { return std::make_unique<ExpertKernel>(step); }

}  // namespace hearth::cpu
