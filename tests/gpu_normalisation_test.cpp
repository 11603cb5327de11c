// softmax, layer_norm, rms_norm, their gradients, and rope on GPUs against the CPU: rows that fit into a wave
// or a block, rows that are read again, and rows in slices.
#include <fmt/format.h>

#include "gpu_compare.h"

namespace hearth {
namespace {

class GpuNormalisation : public GpuComparison {
 protected:
  using Inputs = std::vector<Tensor>;
  using Function = std::function<Tensor(const Inputs&)>;

  struct Case {
    const char* name;
    int parameters;  // besides x: a weight, a bias
    Function function;
  };
  static std::vector<Case> cases() {
    return {{"softmax", 0, [](const Inputs& in) { return softmax(in[0], -1); }},
            {"log_softmax", 0, [](const Inputs& in) { return log_softmax(in[0], -1); }},
            {"layer_norm", 0, [](const Inputs& in) { return layer_norm(in[0], {in[0].size(-1)}); }},
            {"layer_norm with weight and bias", 2,
             [](const Inputs& in) { return layer_norm(in[0], {in[0].size(-1)}, in[1], in[2]); }},
            {"rms_norm", 0, [](const Inputs& in) { return rms_norm(in[0]); }},
            {"rms_norm with weight", 1, [](const Inputs& in) { return rms_norm(in[0], in[1]); }}};
  }

  // The result and its gradient by x. (That of one or two elements is nothing but rounding errors.)
  static void check(const Shape& shape, DType dtype, double tolerance) {
    for (const Case& one : cases()) {
      Inputs inputs = {(randn(shape) * 2.0 + 0.5).to(dtype), randn(shape).to(dtype)};
      for (int k = 0; k < one.parameters; ++k) inputs.push_back(randn({shape.back()}).to(dtype));
      compare_all(std::string(one.name) + " " + to_string(shape) + " " + std::string(dtype_name(dtype)),
                  inputs, tolerance, [&](const Inputs& in) {
                    Inputs arguments = {in[0].detach().requires_grad_()};
                    arguments.insert(arguments.end(), in.begin() + 2, in.end());
                    const Tensor result = one.function(arguments);
                    if (shape.back() < 3) return Inputs{result.detach()};
                    return Inputs{result.detach(), gradients(result, {arguments[0]}, in[1])[0]};
                  });
    }
  }
};

TEST_F(GpuNormalisation, RowsInRegisters) {
  for (const std::int64_t size : {1, 2, 5, 32, 33, 64, 127, 256, 1000, 1028, 3000})
    check({6, size}, DType::f32, 2e-5);
}

TEST_F(GpuNormalisation, ManyShortRows) {
  check({300, 10}, DType::f32, 2e-5);
  check({2000, 4}, DType::f32, 2e-5);
}

TEST_F(GpuNormalisation, EveryFloatingType) {
  for (const std::int64_t size : {24, 1030}) {
    check({5, size}, DType::f64, 1e-12);
    check({5, size}, DType::f16, 3e-3);
    check({5, size}, DType::bf16, 2e-2);
  }
}

TEST_F(GpuNormalisation, LongRows) {
  check({2, 20000}, DType::f32, 5e-5);  // in slices
  check({1, 34000}, DType::f16, 5e-3);
}

TEST_F(GpuNormalisation, ManyLongRows) {
  check({250, 4101}, DType::f64, 1e-11);  // odd: by element
  check({540, 1032}, DType::bf16, 2e-2);
}

// The gradients by x and by the parameters come from one pass; what comes in may be a wider view of bf16.
TEST_F(GpuNormalisation, GradientsOfParameters) {
  const auto check_gradients = [](const Shape& shape, DType incoming, bool turned) {
    for (const bool layer : {true, false}) {
      Inputs inputs = {randn(shape) * 2.0 + 0.5, randn(shape).to(incoming), randn({shape.back()}),
                       randn({shape.back()})};
      compare_all(fmt::format("{} {} {} {}", layer ? "layer_norm" : "rms_norm", to_string(shape),
                              dtype_name(incoming), turned ? "turned" : ""),
                  inputs, 5e-5, [&](const Inputs& in) {
                    Inputs arguments = {in[0].detach().requires_grad_(), in[2].detach().requires_grad_()};
                    if (layer) arguments.push_back(in[3].detach().requires_grad_());
                    const Tensor x = turned ? flip(arguments[0], {0}) : arguments[0];
                    const Tensor result = layer ? layer_norm(x, {shape.back()}, arguments[1], arguments[2])
                                                : rms_norm(x, arguments[1]);
                    return gradients(result.to(incoming), arguments, in[1]);
                  });
    }
  };
  for (const std::int64_t size : {3, 31, 64, 768, 1001, 4100}) check_gradients({9, size}, DType::f32, false);
  check_gradients({2, 700, 8}, DType::f32, false);  // several rows for each block
  check_gradients({8192}, DType::f32, false);
  check_gradients({3, 5, 264}, DType::bf16, false);
  check_gradients({40, 100}, DType::f16, true);
}

// All in 16 bits. The sums over the rows are made in f32, so that their error does not grow with the rows.
TEST_F(GpuNormalisation, GradientsOfParametersInSixteenBits) {
  for (const auto& [shape, dtype] : {std::pair{Shape{700, 8}, DType::bf16},
                                     {{9, 520}, DType::bf16},
                                     {{5, 33}, DType::f16},
                                     {{2, 70, 64}, DType::f16}}) {
    const Inputs inputs = {randn(shape).to(dtype), randn(shape).to(dtype), randn({shape.back()}).to(dtype)};
    compare_all(fmt::format("rms_norm {} {}", to_string(shape), dtype_name(dtype)), inputs,
                dtype == DType::bf16 ? 2e-2 : 3e-3, [&](const Inputs& in) {
                  const Inputs arguments = {in[0].detach().requires_grad_(), in[2].detach().requires_grad_()};
                  return gradients(rms_norm(arguments[0], arguments[1]), arguments, in[1]);
                });
  }
}

TEST_F(GpuNormalisation, NarrowResults) {
  for (const DType narrow : {DType::bf16, DType::f16})
    for (const std::int64_t size : {40, 37, 20000})
      compare("cast of a norm", {randn({7, size}), randn({size})}, 1e-2, [&](const Inputs& in) {
        return rms_norm(in[0], in[1]).to(narrow).to(DType::f32) + layer_norm(in[0], {size}).to(narrow);
      });
}

TEST_F(GpuNormalisation, StridedRows) {
  for (const Case& one : cases()) {
    const Inputs x = {randn({6, 40, 5}), randn({40}), randn({40})};
    compare(one.name, x, 2e-5, [&](const Inputs& in) {
      return one.function({in[0].permute({2, 0, 1}), in[1], flip(in[2], {0})});
    });
    compare(one.name, x, 2e-5, [&](const Inputs& in) {
      return one.function({flip(in[0].permute({0, 2, 1}), {0, 2}), in[1], in[2]});
    });
  }
  compare("first axis", {randn({70, 9})}, 2e-5, [](const Inputs& in) { return softmax(in[0], 0); });
}

TEST_F(GpuNormalisation, WeightsOfAnotherAlignment) {
  compare("layer_norm", {randn({4, 65}), randn({66}), randn({66})}, 2e-5, [](const Inputs& in) {
    return layer_norm(in[0].slice({{0, 4}, {1, 65}}), {64}, in[1].slice({{1, 65}}), in[2].slice({{0, 64}}));
  });
}

TEST_F(GpuNormalisation, FarFromZero) {
  for (const std::int64_t size : {100, 3000, 20000})
    compare("layer_norm", {randn({3, size}) + 10000.0}, 1e-4,
            [&](const Inputs& in) { return layer_norm(in[0], {size}); });
}

TEST_F(GpuNormalisation, NotANumberAndInfinity) {
  for (const std::int64_t size : {40, 20000}) {
    std::vector<float> values(static_cast<std::size_t>(4 * size), 0.5f);
    const auto row = static_cast<std::size_t>(size);
    values[3] = NAN;
    values[row + 7] = INFINITY;
    values[2 * row + 1] = -INFINITY;
    for (std::size_t i = 3 * row; i < 4 * row; ++i) values[i] = -INFINITY;
    const Inputs x = {tensor(values).reshape({4, size})};
    compare("softmax", x, 1e-5, [](const Inputs& in) { return softmax(in[0], -1); });
    compare("log_softmax", x, 1e-5, [](const Inputs& in) { return log_softmax(in[0], -1); });
  }
}

TEST_F(GpuNormalisation, Nothing) {
  for (const Case& one : cases())
    for (const Shape& shape : {Shape{0, 5}, Shape{5, 0}})
      compare(one.name, {zeros(shape), zeros({shape[1]}), zeros({shape[1]})}, 0, one.function);
}

TEST_F(GpuNormalisation, Rope) {
  const Tensor positions = tensor(std::vector<std::int64_t>{0, 1, 2, 5, 100, 70001, 1000003});
  for (const bool interleaved : {false, true})
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16})
      for (const std::int64_t size : {2, 6, 16, 64}) {
        const double tolerance = dtype == DType::f64   ? 1e-9
                                 : dtype == DType::f32 ? 2e-6
                                 : dtype == DType::f16 ? 1e-3
                                                       : 8e-3;
        const auto name = std::string(dtype_name(dtype)) + " " + std::to_string(size);
        const Inputs x = {randn({2, 3, 7, size}).to(dtype), positions};
        compare(name, x, tolerance,
                [&](const Inputs& in) { return rope(in[0], in[1], 10000.0, interleaved); });
        // So many pairs that their angles come from a table.
        compare(name + " many", {randn({2000 / size, 3, 7, size}).to(dtype), positions}, tolerance,
                [&](const Inputs& in) { return rope(in[0], in[1], 10000.0, interleaved); });
        compare(name + " permuted", {randn({7, size, 3}).to(dtype), positions}, tolerance,
                [&](const Inputs& in) {
                  return rope(in[0].permute({2, 0, 1}), flip(in[1], {0}), 500.0, interleaved);
                });
        const Tensor frequencies = rand({size}, DType::f64);
        compare(name + " frequencies", {x[0], positions, frequencies}, tolerance, [&](const Inputs& in) {
          const Tensor every_second = select(in[2].reshape({size / 2, 2}), 1, 1);
          const Tensor leaf = in[0].detach().requires_grad_();
          const Tensor y = rope(leaf, in[1], every_second, interleaved);
          return y + gradients(y, {leaf}, in[0] * 2.0)[0];
        });
        compare(name + " gradient", x, tolerance, [&](const Inputs& in) {
          const Tensor leaf = in[0].detach().requires_grad_();
          return gradients(rope(leaf, in[1], 10000.0, interleaved), {leaf}, in[0])[0];
        });
      }
}

}  // namespace
}  // namespace hearth
