// Gradients of attention by queries, keys and values that are heads of one product: one step where the chip
// has it, and as the CPU computes them everywhere.
#include <gtest/gtest.h>

#include "gpu_plans.h"
#include "hearth/hearth.h"

namespace hearth {
namespace {

class GpuAttentionGradients : public GpuPlans {
 protected:
  struct Case {
    std::int64_t time = 82, heads = 3, sequences = 2, size = 64;
    bool turned = true, interleaved = false;
    bool by_head = false;  // queries, keys and values of a head are neighbours
    AttentionOptions options = {};
    std::int64_t groups = 0;  // of keys and values; 0: as many as heads
  };
  static constexpr std::int64_t features = 40;

  // The attention's output and the gradients by what the heads are made from.
  static std::vector<Tensor> run(const Case& c, const std::vector<Tensor>& in) {
    Tensor x = in[0].detach(), weight = in[1].detach();
    x.requires_grad_();
    weight.requires_grad_();
    const std::int64_t groups = c.groups > 0 ? c.groups : c.heads, heads = c.heads + 2 * groups;
    const Tensor product = linear(x, weight);
    const Tensor all = c.by_head ? product.reshape({c.sequences * c.time, c.heads, 3, c.size})
                                 : product.reshape({c.sequences, c.time, heads, c.size});
    const Tensor at = (arange(c.time) * 3 + 1).to(x.device());
    const auto part = [&](std::int64_t first, std::int64_t count, bool turns) {
      const Tensor heads_of_one =
          c.by_head ? narrow(all, 2, first / c.heads, 1).reshape({c.sequences, c.time, c.heads, c.size})
                    : narrow(all, 2, first, count);
      const Tensor one = heads_of_one.transpose(1, 2);
      return turns ? rope(one, at, 100.0, c.interleaved) : one;
    };
    const Tensor y = attention(part(0, c.heads, c.turned), part(c.heads, groups, c.turned),
                               part(c.heads + groups, groups, false), c.options);
    sum(y * in[2]).backward();
    return {y, x.grad(), weight.grad()};
  }
  static std::vector<Tensor> inputs(const Case& c, DType dtype) {
    const std::int64_t groups = c.groups > 0 ? c.groups : c.heads;
    return {numbers({c.sequences, c.time, features}, dtype),
            numbers({(c.heads + 2 * groups) * c.size, features}, dtype),
            numbers({c.sequences, c.heads, c.time, c.size}, dtype)};
  }
  static void check(const std::string& what, const Case& c, bool joined, DType dtype = DType::bf16) {
    const std::vector<Tensor> in = inputs(c, dtype);
    const double tolerance = dtype == DType::f32 ? 1e-4 : dtype == DType::f16 ? 1e-2 : 3e-2;
    compare_all(what, in, tolerance, [&](const auto& moved) { return run(c, moved); });
    for (const Device device : gpus()) {
      const bool here = joined && device.kind == DeviceKind::cuda;
      const auto results = run(c, {in[0].to(device), in[1].to(device), in[2].to(device)});
      EXPECT_EQ(found(c.turned ? "attention_grads rope concat" : "attention_grads concat", results),
                here ? 1u : 0u)
          << what << " on " << to_string(device) << "\n"
          << explain(results);
      if (here) {
        EXPECT_EQ(found("attention_grad_", results), 0u) << explain(results);
      }
    }
  }
};

TEST_F(GpuAttentionGradients, OfShortSequences) {
  for (const std::int64_t time : {1, 2, 15, 16, 17, 32, 33, 64, 65, 80, 81, 82, 95, 96})
    check(std::to_string(time) + " rows", {.time = time}, true);
  for (const DType dtype : {DType::f16, DType::bf16}) check("16 bits", {.time = 50}, true, dtype);
  check("many sequences", {.time = 20, .heads = 8, .sequences = 40}, true);
}

TEST_F(GpuAttentionGradients, WhateverTurns) {
  check("nothing", {.turned = false}, true);
  check("neighbours", {.interleaved = true}, true);
  check("neighbours of few rows", {.time = 7, .interleaved = true}, true);
}

TEST_F(GpuAttentionGradients, WhateverIsVisible) {
  for (const std::int64_t time : {5, 48, 82, 96}) {
    check("causal", {.time = time, .options = {.causal = true}}, true);
    check("a window", {.time = time, .options = {.causal = true, .window = 4}}, true);
    check("another scale", {.time = time, .options = {.scale = 0.5}}, true);
  }
}

// Scores so far apart that weights are 0 and 1, and rows behind the last that no one may see.
TEST_F(GpuAttentionGradients, OfLargeScores) {
  for (const std::int64_t time : {3, 82}) {
    const Case c{.time = time, .options = {.scale = 40.0}};
    std::vector<Tensor> in = inputs(c, DType::bf16);
    for (const Device device : gpus()) {
      const auto results = run(c, {in[0].to(device) * 4, in[1].to(device) * 4, in[2].to(device)});
      for (const Tensor& result : results) EXPECT_TRUE(all(isfinite(result)).item<bool>()) << time << " rows";
    }
  }
}

TEST_F(GpuAttentionGradients, StayStepsOfTheirOwn) {
  check("longer sequences", {.time = 97}, false);
  check("wider heads", {.time = 20, .size = 128}, false);
  check("f32", {.time = 20}, false, DType::f32);
  for (const std::int64_t time : {1, 20})
    check("in another order", {.time = time, .turned = false, .by_head = true}, false);
  check("heads that share keys", {.time = 20, .heads = 4, .groups = 2}, false);
}

}  // namespace
}  // namespace hearth
