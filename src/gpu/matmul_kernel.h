// What the kernels of matrix products share: the product that a step asks for, and the text and the
// arguments of the expression that follows it.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "gpu/compiler.h"
#include "gpu/constant.h"
#include "gpu/expression_source.h"
#include "gpu/kernels.h"

namespace hearth::gpu {

#include "gpu/kernels/gemm_arguments.h"

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

// What a step says, with the axes of the stack merged.
struct MatrixProduct {
  Operand a, b;
  DType result;                        // of the product itself, before the expression
  std::vector<GemmPlace> places;       // of the expression's further inputs
  std::vector<DType> inputs, outputs;  // of the expression
  Expression expression;
  GemmStack stack{};
  std::int64_t count = 1;             // of products
  bool halves;                        // as in Step
  std::size_t joined;                 // likewise
  std::optional<TurnedHeads> turned;  // Step::turned
  std::optional<double> normed;       // Step::normed
  std::optional<Layout> converts;     // the weights, if Step::converts

  explicit MatrixProduct(const Step& step);

  std::int64_t columns() const { return halves ? b.rows / 2 : b.rows; }  // of the result
  std::size_t output_count() const { return outputs.size() - (joined > 0 ? joined - 1 : 0); }  // of the step
  // Where the results of the expression are: part `part` of `parts` that share a step's output.
  struct ResultPlace {
    std::size_t output, part, parts;
  };
  ResultPlace result_place(std::size_t k) const {
    const std::size_t alone = outputs.size() - joined;
    return k < alone ? ResultPlace{k, 0, 1} : ResultPlace{alone, k - alone, joined};
  }
  // Whether the expression's further input `i`, or the results, can be reached in runs of `longest_run` from
  // multiples of it on, given a pointer that is a multiple of 16 bytes.
  static constexpr std::int64_t longest_run = 8;
  bool whole_runs(std::size_t i) const {
    const auto fits = [](std::int64_t stride) { return stride % longest_run == 0; };
    return places[i].column == 1 && fits(places[i].row) &&
           std::all_of(std::begin(places[i].stack.stride), std::end(places[i].stack.stride), fits);
  }
  bool whole_results() const { return columns() % longest_run == 0; }
};

// The text of a kernel's parts that depend on the expression: a struct Finish, which stores one element, and
// how it is passed. Values are written out of order by tiles, so that each element finds its own place.
struct FinishText {
  std::string structure, parameters, members;

  // keeps: the first result goes to shared memory, too, that a member `kept` points to: rows of `kept_row`
  // elements, from column `kept_from` on.
  explicit FinishText(const MatrixProduct& product, bool keeps = false);
};
// " + where this product's part of an operand begins"; nothing where there is one product, for which the
// registers that it takes would be wasted.
std::string stack_offset(const MatrixProduct& product, std::string_view strides);

// The beginning of a kernel's text, with the functions that the expression needs.
std::string matmul_beginning(const MatrixProduct& product);
// Lambdas that give the operands of a product; `tile`, of gemm.h, says in which order it takes halves.
std::string matrix_sources(const MatrixProduct& product, std::string_view tile = {});

bool aligned(const void* pointer, std::size_t bytes);

// Tiles of all products.
std::int64_t tile_count(const Step& step, std::int64_t tile_rows, std::int64_t tile_columns);

class MatmulKernel : public Kernel {
 public:
  MatmulKernel(GpuDevice& device, const Step& step);

 protected:
  std::int64_t results() const { return shape_.rows * shape_.columns * product_.count; }

  // Outputs, further inputs with their places, and constants, in the order of FinishText's parameters.
  void add_finish(Arguments& values, const KernelArguments& arguments,
                  std::vector<Constant>& constants) const;

  void add_constants(Arguments& values, const KernelArguments& arguments,
                     std::vector<Constant>& constants) const;

  std::size_t sum_bytes() const { return compute_type(product_.a.dtype).ends_with("64") ? 8 : 4; }
  std::size_t split_bytes() const;
  // From the splits' sums in scratch memory to the result.
  void combine(const Function& function, const KernelArguments& arguments) const;

  GpuDevice& device_;
  MatrixProduct product_;
  GemmShape shape_{};
  GemmStackStrides stack_a_{}, stack_b_{};
};

// From the sums of splits to the result: MatmulKernel::combine() launches it.
KernelSource combine_source(const MatrixProduct& product);

}  // namespace hearth::gpu
