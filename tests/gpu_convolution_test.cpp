// Convolutions and their gradients on the GPU against the CPU's.
#include <gtest/gtest.h>

#include "gpu_steps.h"
#include "hearth/hearth.h"

namespace hearth::gpu {
namespace {

using cpu::Lay;
using cpu::random_array;

struct Geometry {
  Shape x, w;  // (N, C, spatial...), (O, C / groups, kernel...)
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

class GpuConvolution : public OnTestGpu {
 protected:
  static void check_one(Op op, const WindowAttributes& window, const std::vector<Array>& inputs, DType dtype,
                        const Shape& shape) {
    SCOPED_TRACE(std::string(op_name(op)) + " " + std::string(dtype_name(dtype)) + " " +
                 to_string(inputs[0].layout.shape) + " " + to_string(inputs[1].layout.shape));
    const Array expected = cpu::run_step(cpu::make_convolution, op, window, inputs, dtype, shape);
    const Step step = step_of(op, window, inputs, expected.layout);
    const auto kernel = make_convolution(*test_gpu(), step);
    expect_close(run_on_gpu(*test_gpu(), step, *kernel, inputs), expected, 0);
  }

  // Small whole numbers: every order of summation gives the same.
  static void check(DType dtype, const Geometry& g, Lay lay = Lay::dense) {
    WindowAttributes window;
    const std::size_t axes = g.x.size() - 2;
    Shape y{g.x[0], g.w[0]};
    for (std::size_t i = 0; i < axes; ++i) {
      window.kernel.push_back(g.w[i + 2]);
      window.stride.push_back(g.stride);
      window.padding.push_back(g.padding);
      window.dilation.push_back(g.dilation);
      y.push_back((g.x[i + 2] + 2 * g.padding - g.dilation * (g.w[i + 2] - 1) - 1) / g.stride + 1);
    }
    window.groups = g.groups;
    const Array x = random_array(dtype, g.x, lay, 1, -3, 3), w = random_array(dtype, g.w, lay, 2, -3, 3),
                dy = random_array(dtype, y, lay, 3, -3, 3);
    check_one(Op::conv, window, {x, w}, dtype, y);
    check_one(Op::conv_input_grad, window, {dy, w}, dtype, g.x);
    check_one(Op::conv_weight_grad, window, {x, dy}, dtype, g.w);
  }
};

TEST_F(GpuConvolution, EveryDtype) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64})
    check(dtype, {{2, 9, 7, 8}, {10, 9, 3, 3}, 1, 1});
}

TEST_F(GpuConvolution, Geometries) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check(dtype, {{1, 8, 9, 10}, {12, 8, 3, 2}, 2, 1});
    check(dtype, {{1, 8, 12, 11}, {9, 8, 3, 3}, 1, 2, 2});
    check(dtype, {{1, 8, 12, 11}, {9, 8, 3, 3}, 3, 2, 2});
    check(dtype, {{2, 20, 5, 5}, {24, 10, 3, 3}, 1, 1, 1, 2});
    check(dtype, {{1, 5, 6, 5}, {5, 1, 3, 3}, 1, 1, 1, 5});  // depthwise
    check(dtype, {{1, 4, 6, 5}, {8, 1, 3, 3}, 2, 1, 1, 4});  // depthwise with two results each
    check(dtype, {{2, 17, 4, 4}, {70, 17, 1, 1}});
    check(dtype, {{2, 9, 40}, {11, 9, 5}, 2, 2});            // one axis
    check(dtype, {{1, 8, 5, 4, 6}, {9, 8, 2, 3, 2}, 1, 1});  // three axes
    check(dtype, {{0, 2, 4, 4}, {3, 2, 3, 3}, 1, 1});
    check(dtype, {{1, 3, 2, 2}, {3, 3, 3, 3}, 1, 1});  // mostly padding
  }
}

TEST_F(GpuConvolution, LongSums) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    check(dtype, {{3, 9, 24, 25}, {9, 9, 3, 3}, 1, 1});        // weights: sums over 1800 pixels
    check(dtype, {{1, 2, 48, 48}, {2, 1, 3, 3}, 1, 1, 1, 2});  // depthwise
  }
}

TEST_F(GpuConvolution, AnyLayout) {
  for (const Lay lay : {Lay::transposed, Lay::gapped, Lay::flipped}) {
    check(DType::f32, {{2, 9, 6, 7}, {10, 9, 3, 3}, 2, 1}, lay);
    check(DType::bf16, {{2, 9, 6, 7}, {10, 9, 3, 3}, 1, 1}, lay);
  }
}

}  // namespace
}  // namespace hearth::gpu
