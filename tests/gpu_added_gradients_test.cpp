// Gradients of norms that are added to those of residual connections.
#include <gtest/gtest.h>

#include "gpu_plans.h"
#include "hearth/hearth.h"

namespace hearth {
namespace {

enum class Norm { rms, layer };

class GpuAddedGradients : public GpuPlans {
 protected:
  static const char* joined(Norm norm) {
    return norm == Norm::rms ? "rms_norm_grads add" : "layer_norm_grads add";
  }
  static Tensor normed(Norm norm, const Tensor& x, const Tensor& weight) {
    return norm == Norm::rms ? rms_norm(x, weight) : layer_norm(x, {x.size(-1)}, weight, weight);
  }
  static std::vector<Tensor> leaves(const std::vector<Tensor>& in) {
    std::vector<Tensor> fresh;
    for (const Tensor& x : in) {
      fresh.push_back(x.detach());
      fresh.back().requires_grad_();
    }
    return fresh;
  }
  static void check_all(const std::string& what, const std::string& steps, std::size_t times,
                        const std::vector<Tensor>& in, const Compute& compute) {
    compare_all(what, in, in[0].dtype() == DType::f32 ? 1e-4 : 4e-2, compute);
    for (const Device device : gpus()) {
      std::vector<Tensor> moved;
      for (const Tensor& x : in) moved.push_back(x.to(device));
      const auto results = compute(moved);
      EXPECT_EQ(found(steps, results), times) << what << "\n" << explain(results);
    }
  }
};

// x + f(norm(x)), twice: the gradient by what came in is a sum with the gradient of a norm.
TEST_F(GpuAddedGradients, OfResidualConnections) {
  for (const Norm norm : {Norm::rms, Norm::layer})
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
      for (const std::int64_t size : {64, 40, 7, 1}) {
        const std::vector<Tensor> in = {numbers({3, 5, size}, dtype), numbers({size}, dtype) + 1.0,
                                        numbers({size, size}, dtype), numbers({3, 5, size}, dtype)};
        check_all("two layers", joined(norm), 2, in, [&](const auto& given) {
          const auto leaf = leaves(given);
          const Tensor x = linear(leaf[0], leaf[2]);
          const Tensor h = x + linear(normed(norm, x, leaf[1]), leaf[2]);
          const Tensor y = h + linear(normed(norm, h, leaf[1]), leaf[2]);
          sum(y * leaf[3]).backward();
          return std::vector<Tensor>{y, leaf[0].grad(), leaf[1].grad(), leaf[2].grad()};
        });
      }
}

TEST_F(GpuAddedGradients, StaySums) {
  const Norm norm = Norm::rms;
  const std::vector<Tensor> in = {numbers({6, 32}, DType::f32), numbers({32}, DType::f32) + 1.0,
                                  numbers({6, 32}, DType::f32), numbers({32, 32}, DType::f32)};
  // What is added to nothing else: x + norm(x), with x a leaf whose gradient is asked for.
  check_all("results", joined(norm), 0, in, [&](const auto& given) {
    const auto leaf = leaves(given);
    const Tensor y = leaf[0] + normed(norm, leaf[0], leaf[1]);
    sum(y * leaf[2]).backward();
    return std::vector<Tensor>{leaf[0].grad(), leaf[1].grad()};
  });
  check_all("nothing added", joined(norm), 0, in, [&](const auto& given) {
    const auto leaf = leaves(given);
    sum(normed(norm, leaf[0], leaf[1]) * leaf[2]).backward();
    return std::vector<Tensor>{leaf[0].grad(), leaf[1].grad()};
  });
  check_all("of two norms of one value, one", joined(norm), 1, in, [&](const auto& given) {
    const auto leaf = leaves(given);
    const Tensor x = linear(leaf[0], leaf[3]), first = normed(norm, x, leaf[1]),
                 second = normed(norm, x, leaf[1] * 2);
    sum((first + second * second) * leaf[2]).backward();
    return std::vector<Tensor>{leaf[0].grad(), leaf[1].grad()};
  });
}

}  // namespace
}  // namespace hearth
