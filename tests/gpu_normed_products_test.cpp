// Products whose results go through a norm: the kernels, and which graphs become such a step.
#include <gtest/gtest.h>

#include <cmath>

#include "gpu/matmul.h"
#include "gpu_plans.h"
#include "gpu_steps.h"
#include "hearth/hearth.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

// ---- kernels

class GpuNormed : public OnTestGpu {
 protected:
  // rms_norm(product + what is read), the last of it a row that all rows share.
  static void check(DType dtype, std::int64_t rows, std::int64_t columns, std::int64_t depth,
                    std::size_t reads) {
    SCOPED_TRACE(std::string(dtype_name(dtype)) + " " + std::to_string(rows) + " x " +
                 std::to_string(columns) + " x " + std::to_string(depth) + ", " + std::to_string(reads) +
                 " reads");
    const Shape shape = {rows, columns};
    std::vector<Array> inputs = {random_array(dtype, {rows, depth}, Lay::dense, 1, -2, 2),
                                 random_array(dtype, {depth, columns}, Lay::dense, 2, -2, 2)};
    Array sum = cpu::run_step(cpu::make_matmul, Op::matmul, {}, inputs, dtype, shape);
    Step step;
    step.expression.inputs = {dtype};
    for (std::size_t i = 0; i < reads; ++i) {
      Array& read =
          inputs.emplace_back(random_array(dtype, shape, Lay::dense, static_cast<unsigned>(3 + i), -4, 4));
      if (i + 1 == reads && reads > 1) read.layout.strides[0] = 0;
      step.expression.inputs.push_back(dtype);
      for (std::int64_t k = 0; k < sum.count(); ++k) sum.set(k, sum.get(k) + read.get(k));
    }
    for (std::size_t i = 0; i < reads; ++i)
      step.expression.instructions.push_back(
          {Op::add,
           dtype,
           dtype,
           {static_cast<std::uint16_t>(i == 0 ? 0 : reads + i), static_cast<std::uint16_t>(1 + i), 0}});
    if (reads > 0) step.expression.outputs = {static_cast<std::uint16_t>(2 * reads)};
    if (reads == 0) step.expression = {};
    Array expected = cpu::empty_array(dtype, shape);
    constexpr double epsilon = 0.5;
    for (std::int64_t row = 0; row < rows; ++row) {
      double squares = 0;
      for (std::int64_t i = 0; i < columns; ++i) squares += std::pow(sum.get(row * columns + i), 2);
      const double by = 1 / std::sqrt(squares / static_cast<double>(columns) + epsilon);
      for (std::int64_t i = 0; i < columns; ++i)
        expected.set(row * columns + i, sum.get(row * columns + i) * by);
    }
    step.op = Op::matmul;
    step.domain = shape;
    step.normed = epsilon;
    for (const Array& input : inputs) step.inputs.push_back(input.layout);
    step.outputs = {expected.layout};
    const auto kernel = make_matmul(*test_gpu(), step);
    expect_close(run_on_gpu(*test_gpu(), step, *kernel, inputs), expected, dtype == DType::f32 ? 1e-5 : 1e-2);
  }
};

TEST_F(GpuNormed, ByTwoKernels) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    for (const std::size_t reads : {0, 1, 2}) check(dtype, 37, 48, 24, reads);
}

// Of 4096 rows and more, two blocks tell each other what they found. Numbers of tiles that leave some blocks
// without any, and tiles that end in the middle.
TEST_F(GpuNormed, ByWarpgroups) {
  if (unit() != MatrixUnit::wgmma90) GTEST_SKIP() << "no wgmma";
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const std::size_t reads : {0, 1, 2}) {
      check(dtype, 4096, 512, 72, reads);
      check(dtype, 8449, 512, 64, reads);
      check(dtype, 8450, 512, 512, reads);
      check(dtype, 30001, 512, 40, reads);
    }
}

// ---- plans

class GpuNormedPlans : public GpuPlans {};

TEST_F(GpuNormedPlans, OfAResidualStream) {
  const bool fits = test_gpu()->target().matrix == MatrixUnit::wgmma90;
  const std::int64_t rows = fits ? 5000 : 40;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const std::vector<Tensor> inputs = {numbers({rows, 64}, dtype), numbers({512, 64}, dtype),
                                        numbers({rows, 512}, dtype), numbers({512}, dtype)};
    check("a residual", "matmul add rms_norm", fits ? 1 : 0, inputs,
          [](const auto& in) { return rms_norm(linear(in[0], in[1]) + in[2], Tensor(), 1e-5) * 2; });
    check("with a weight", "matmul add rms_norm", 0, inputs,
          [](const auto& in) { return rms_norm(linear(in[0], in[1]) + in[2], in[3], 1e-5); });
    check("read by another", "matmul add rms_norm", 0, inputs, [](const auto& in) {
      const Tensor x = linear(in[0], in[1]) + in[2];
      return rms_norm(x, Tensor(), 1e-5) * x.sum();
    });
  }
}

}  // namespace
}  // namespace hearth::gpu
