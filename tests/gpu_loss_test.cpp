// Cross entropy as one operation, against the CPU's plain operations.
#include "gpu_compare.h"

namespace hearth {
namespace {

class GpuLossTest : public GpuComparison {};

TEST_F(GpuLossTest, CrossEntropyAndItsGradient) {
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t classes : {1, 10, 257, 1000, 5000}) {
      const Tensor x = (randn({7, classes}) * 3.0).to(dtype).eval();
      const Tensor target = randint(0, classes, {7}).eval();
      compare_all(std::string(dtype_name(dtype)) + ", classes " + std::to_string(classes), {x, target},
                  dtype == DType::f32 ? 2e-6 : 1e-2, [](const std::vector<Tensor>& in) {
                    const Tensor scores = in[0].detach().requires_grad_();
                    const Tensor loss = cross_entropy(scores.to(DType::f32), in[1]);
                    return std::vector<Tensor>{loss, gradients(loss, {scores})[0]};
                  });
    }
}

TEST_F(GpuLossTest, IgnoredTargetsAndReductions) {
  const Tensor x = randn({9, 33}).eval();
  const Tensor target = tensor(std::vector<std::int64_t>{0, 5, -100, 32, -100, 1, 2, 3, 4});
  for (const Reduction reduction : {Reduction::none, Reduction::sum, Reduction::mean})
    compare_all("reduction", {x, target}, 2e-6, [&](const std::vector<Tensor>& in) {
      const Tensor scores = in[0].detach().requires_grad_();
      const Tensor loss = cross_entropy(scores, in[1], {.reduction = reduction, .ignore_index = -100});
      return std::vector<Tensor>{loss, gradients(sum(loss), {scores})[0]};
    });
}

TEST_F(GpuLossTest, InfinityAndNotANumber) {
  const float inf = INFINITY;
  compare_all(
      "special",
      {tensor(std::vector<float>{1, -inf, 2, NAN, 0, 1, -inf, -inf, -inf, 80, 90, 100}).reshape({4, 3}),
       tensor(std::vector<std::int64_t>{0, 1, 2, 0})},
      2e-6, [](const std::vector<Tensor>& in) {
        return std::vector<Tensor>{cross_entropy(in[0], in[1], {.reduction = Reduction::none})};
      });
}

TEST_F(GpuLossTest, AClassThatIsNotThereIsAnError) {
  for (const Device device : gpus()) {
    const Tensor x = randn({3, 4}).to(device);
    for (const std::int64_t wrong : {4, -1})
      EXPECT_THROW(cross_entropy(x, tensor(std::vector<std::int64_t>{0, wrong, 1}).to(device))
                       .to(Device{})
                       .item<float>(),
                   IndexError);
  }
}

TEST_F(GpuLossTest, SecondGradient) {
  compare("second", {randn({4, 6}), tensor(std::vector<std::int64_t>{0, 1, 5, 2})}, 1e-5,
          [](const std::vector<Tensor>& in) {
            const Tensor scores = in[0].detach().requires_grad_();
            const Tensor first = gradients(cross_entropy(scores, in[1]), {scores}, {}, true)[0];
            return gradients(sum(first * first), {scores})[0];
          });
}

}  // namespace
}  // namespace hearth
